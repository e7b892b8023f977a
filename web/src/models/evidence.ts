/**
 * Evidence: everything public that the network is told about a picture x0 before it predicts it (`dipp/models/evidence.py`).
 * A precision is one number for all pixels, or a map (H, W); infinity means that a pixel is known exactly.
 */

type Precision = number | Float32Array;

export interface Evidence {
  /** The state y = x0 + noise/√precision, (C, H, W). */
  readonly state: Float32Array;
  readonly precision: Precision;
  /** A second estimate of x0, whose errors are smooth; undefined if none is given. */
  readonly estimate?: Float32Array;
  readonly estimatePrecision?: Precision;
  /** The value with which each coordinate was last compared, and its answer from −1 to 1; undefined if not given. */
  readonly compared?: Float32Array;
  readonly answers?: Float32Array;
}

/** A plane of the network's input, as its config names it. */
export type Plane = "state" | "inside" | "precision" | "estimate" | "estimate precision" | "compared" | "answer";

/** The largest SNR for which the network was trained; larger ones are cut to it. */
export const LARGEST_SNR = 1e3;
/** The largest precision that enters a mean, and the smallest precision that is used as a divisor. */
const LARGEST = 1e12;

/** Standard deviation of pixel values in [−1, 1], by which levels are defined. */
const DEVIATION = 0.5;

/** Evidence whose pixels all have the same precision. */
export type Even = Evidence & { readonly precision: number; readonly estimatePrecision?: number };

/** Return evidence with one state: the precision-weighted mean of state and estimate. */
export function merged(evidence: Even): Even;
export function merged(evidence: Evidence): Evidence;
export function merged({ state, precision, estimate, estimatePrecision = 0 }: Evidence): Evidence {
  if (!estimate) return { state, precision };
  if (precision === 0) return { state: estimate, precision: estimatePrecision };
  const count = precision instanceof Float32Array ? precision.length : estimatePrecision instanceof Float32Array ? estimatePrecision.length : 1;
  const [own, other] = [precision, estimatePrecision].map((one) => Float64Array.from({ length: count }, (_, i) => Math.min(at(one, i), LARGEST)));
  const shares = own!.map((value, i) => other![i]! / (value + other![i]! + 1 / LARGEST));
  const mixed = state.map((y, i) => Math.fround(Math.fround(1 - shares[i % count]!) * y) + Math.fround(Math.fround(shares[i % count]!) * estimate[i]!));
  const sum = own!.map((value, i) => value + other![i]!);
  return { state: mixed, precision: count > 1 ? Float32Array.from(sum) : sum[0]! };
}

function at(precision: Precision, pixel: number): number {
  return typeof precision === "number" ? precision : precision[pixel]!;
}

/** The constants of the usual mean squared error of predictions as a function of the SNR. */
const [USUAL, FALL, POWER] = [0.2, 20, 0.7];

/** Return the size of the answers of a step, from its noise, its gain and the SNR of the state before it. */
export function answerSize(noise: number, gain: number, snr: number): number {
  return Math.fround(noise * Math.sqrt(gain) * Math.sqrt(USUAL / (1 + FALL * snr) ** POWER));
}

/** Return the SNR by which the network scales its features; for a map, the SNR that leaves pixels the same share of their variance. */
export function levelOf(evidence: Evidence): number {
  const { precision } = merged(evidence);
  if (typeof precision === "number") return precision;
  let [told, left] = [0, 0];
  for (const pixel of precision) {
    const power = Math.min(pixel, LARGEST) * DEVIATION ** 2;
    told += power / (1 + power);
    left += 1 / (1 + power);
  }
  return told / left / DEVIATION ** 2;
}

/** Return a prediction in which exactly known pixels keep their values. */
export function restored(prediction: Float32Array, { state, precision }: Evidence): Float32Array {
  if (typeof precision === "number") return prediction;
  return prediction.map((value, i) => (precision[i % precision.length] === Infinity ? state[i]! : value));
}

/** Return the input of a network with these planes, (K, H, W), without `inside`, which the network computes itself. */
export function stacked(evidence: Evidence, planes: readonly Plane[], channels: number): Float32Array {
  const { state, precision } = merged(evidence);
  const { estimate, estimatePrecision = 0, compared, answers } = evidence;
  if (planes.every((plane) => plane === "state" || plane === "inside")) return state;
  const pixels = state.length / channels;
  const map = (precision: Precision): Float32Array => Float32Array.from({ length: pixels }, (_, i) => Math.min(at(precision, i), LARGEST_SNR));
  const parts: Record<Plane, () => Float32Array> = {
    state: () => state,
    inside: () => new Float32Array(0),
    precision: () => map(precision),
    estimate: () => estimate ?? new Float32Array(state.length),
    "estimate precision": () => map(estimatePrecision),
    compared: () => compared ?? new Float32Array(state.length),
    answer: () => answers ?? new Float32Array(state.length),
  };
  const inputs = planes.map((plane) => parts[plane]());
  const whole = new Float32Array(inputs.reduce((sum, part) => sum + part.length, 0));
  inputs.reduce((at, part) => (whole.set(part, at), at + part.length), 0);
  return whole;
}
