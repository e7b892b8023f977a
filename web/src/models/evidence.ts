/**
 * Evidence: all that the network is told about a picture x0 before it predicts it (`dipp/models/evidence.py`). It is
 * public. A precision is one number for all pixels, or a map of them (H, W), where infinity means exactly known.
 */

type Precision = number | Float32Array;

export interface Evidence {
  /** y = x0 + noise/√precision, (C, H, W). */
  readonly state: Float32Array;
  readonly precision: Precision;
  /** A second view of x0, whose errors are smooth; undefined if there is none. */
  readonly estimate?: Float32Array;
  readonly estimatePrecision?: Precision;
  /** What each coordinate was last compared with, and what came of it, from −1 to 1; undefined if nothing is told of it. */
  readonly compared?: Float32Array;
  readonly answers?: Float32Array;
}

/** A plane of the network's input, as its config names it. */
export type Plane = "state" | "inside" | "precision" | "estimate" | "estimate precision" | "compared" | "answer";

/** The largest SNR that the network knows: a larger one is taken for it. */
export const LARGEST_SNR = 1e3;
/** Largest precision that enters a mean, and the least by which one is divided. */
const LARGEST = 1e12;

/** Standard deviation of pixel values in [−1, 1], by which levels are defined. */
const DEVIATION = 0.5;

/** Evidence whose pixels are all known alike. */
export type Even = Evidence & { readonly precision: number; readonly estimatePrecision?: number };

/** State and estimate as one state: their precision-weighted mean. */
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

/** The mean squared error that predictions usually have, by SNR. */
const [USUAL, FALL, POWER] = [0.2, 20, 0.7];

/** The size of the answers that a network is told after a step of a gain, whose noise has a size, from a state of an SNR. */
export function answerSize(noise: number, gain: number, snr: number): number {
  return Math.fround(noise * Math.sqrt(gain) * Math.sqrt(USUAL / (1 + FALL * snr) ** POWER));
}

/** The one SNR by which the network scales its features: of a map, that which leaves pixels the same share of their variance. */
export function levelOf(evidence: Evidence): number {
  const { precision } = merged(evidence);
  if (typeof precision === "number") return precision;
  let [told, left] = [0, 0];
  for (const one of precision) {
    const power = Math.min(one, LARGEST) * DEVIATION ** 2;
    told += power / (1 + power);
    left += 1 / (1 + power);
  }
  return told / left / DEVIATION ** 2;
}

/** A prediction with the exactly known pixels put back. */
export function restored(prediction: Float32Array, { state, precision }: Evidence): Float32Array {
  if (typeof precision === "number") return prediction;
  return prediction.map((value, i) => (precision[i % precision.length] === Infinity ? state[i]! : value));
}

/** What a network with these planes takes, one plane after the other: (K, H, W). It makes `inside` itself. */
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
  const found = planes.map((plane) => parts[plane]());
  const whole = new Float32Array(found.reduce((sum, part) => sum + part.length, 0));
  found.reduce((at, part) => (whole.set(part, at), at + part.length), 0);
  return whole;
}
