/** What a draw costs a unit: the public terms from which a code prices it, and the charge that comes of them. */

/** Largest change of an eight-bit channel. */
export const LEVELS = 255;

/** What one step costs a unit that it touches: pure ε, and ρ (zCDP). */
export interface Charge {
  readonly epsilon: number;
  readonly rho: number;
}

/** How far one coordinate can move the scores of a selection. */
export interface Sensitivity {
  /** D: units by which one coordinate can move any score. */
  readonly sensitivity: number;
  /** S: a unit is 2^−S bits. */
  readonly fractionBits: number;
  /** M and A(1), where shifts are clipped. */
  readonly clip: number | undefined;
  readonly slope: number | undefined;
}

/** The public law of a draw among the closest candidates (`core/closest.ts`). */
export interface Weights {
  /** n: the number of candidates. */
  readonly candidates: number;
  /** m: how many of them are drawn with the heavy weight. */
  readonly best: number;
  readonly heavy: bigint;
  readonly light: bigint;
}

export type Terms = Sensitivity | Weights;

/** How far one coordinate can move a selection, in the step's integers. */
export interface Moved {
  /** D: units by which it can move any score. */
  readonly units: number;
  /** The largest size that its shift can have. */
  readonly largest: number;
  /** S: a unit is 2^−S bits. */
  readonly fractionBits: number;
}

/** How far a coordinate moves a selection if it changes by at most `change` of the 255 levels. */
export function moved(terms: Sensitivity, change: number): Moved {
  const slope = terms.slope ?? terms.sensitivity / 2;
  return {
    units: Math.min(terms.sensitivity, Math.ceil(((2 * slope + 2) * change + 1) / LEVELS)),
    largest: terms.clip === undefined ? terms.sensitivity : Math.min(terms.clip, 2 * slope),
    fractionBits: terms.fractionBits,
  };
}
