/**
 * Evidence: all that the network is told about a picture x0 before it predicts it (`dipp/models/evidence.py`). It is
 * public. Here, all coordinates of a picture are known alike, so precisions are numbers.
 */

export interface Evidence {
  /** y = x0 + noise/√precision, (C, H, W). */
  readonly state: Float32Array;
  readonly precision: number;
  /** A second view of x0, whose errors are smooth; undefined if there is none. */
  readonly estimate?: Float32Array;
  readonly estimatePrecision?: number;
  /** What each coordinate was last compared with, and what came of it, from −1 to 1; undefined if nothing is told of it. */
  readonly compared?: Float32Array;
  readonly answers?: Float32Array;
}

/** A plane of the network's input, as its config names it. */
export type Plane = "state" | "inside" | "precision" | "estimate" | "estimate precision" | "compared" | "answer";

/** The largest SNR that the network knows: a larger one is taken for it. */
const LARGEST_SNR = 1e3;
/** Largest precision that enters a mean, and the least by which one is divided. */
const LARGEST = 1e12;

/** State and estimate as one state: their precision-weighted mean. */
export function merged({ state, precision, estimate, estimatePrecision = 0 }: Evidence): Evidence {
  if (!estimate) return { state, precision };
  if (precision === 0) return { state: estimate, precision: estimatePrecision };
  const [own, other] = [Math.min(precision, LARGEST), Math.min(estimatePrecision, LARGEST)];
  const share = other / (own + other + 1 / LARGEST);
  const [left, right] = [Math.fround(1 - share), Math.fround(share)];
  return { state: state.map((y, i) => Math.fround(left * y) + Math.fround(right * estimate[i]!)), precision: own + other };
}

/** The mean squared error that predictions usually have, by SNR. */
const [USUAL, FALL, POWER] = [0.2, 20, 0.7];

/** The size of the answers that a network is told after a step of a gain, whose noise has a size, from a state of an SNR. */
export function answerSize(noise: number, gain: number, snr: number): number {
  return Math.fround(noise * Math.sqrt(gain) * Math.sqrt(USUAL / (1 + FALL * snr) ** POWER));
}

/** The one SNR by which the network scales its features. */
export function levelOf(evidence: Evidence): number {
  return Math.min(merged(evidence).precision, LARGEST_SNR);
}

/** What a network with these planes takes, one plane after the other: (K, H, W). It makes `inside` itself. */
export function stacked(evidence: Evidence, planes: readonly Plane[], channels: number): Float32Array {
  const { state, precision } = merged(evidence);
  const { estimate, estimatePrecision = 0, compared, answers } = evidence;
  if (planes.every((plane) => plane === "state" || plane === "inside")) return state;
  const pixels = state.length / channels;
  const constant = (value: number, count: number): Float32Array => new Float32Array(count * pixels).fill(Math.min(value, LARGEST_SNR));
  const parts: Record<Plane, () => Float32Array> = {
    state: () => state,
    inside: () => new Float32Array(0),
    precision: () => constant(precision, 1),
    estimate: () => estimate ?? new Float32Array(state.length),
    "estimate precision": () => constant(estimatePrecision, 1),
    compared: () => compared ?? new Float32Array(state.length),
    answer: () => answers ?? new Float32Array(state.length),
  };
  const found = planes.map((plane) => parts[plane]());
  const whole = new Float32Array(found.reduce((sum, part) => sum + part.length, 0));
  found.reduce((at, part) => (whole.set(part, at), at + part.length), 0);
  return whole;
}
