/** Prices: the privacy cost of a draw to a unit, and the public terms from which a code computes it. */

/** Largest change of an eight-bit channel. */
export const LEVELS = 255;

/** The cost of one step to a unit that it touches: pure ε, and ρ of zCDP. */
export interface Cost {
  readonly epsilon: number;
  readonly rho: number;
}

/** The terms of codes whose cost depends on how far one coordinate can move a score. */
export interface Sensitivity {
  /** D: units by which one coordinate can move any score. */
  readonly sensitivity: number;
  /** S: a unit is 2^−S bits. */
  readonly fractionBits: number;
  /** M and A(1) if shifts are clipped; undefined otherwise. */
  readonly clip: number | undefined;
  readonly slope: number | undefined;
}

/** The public law of a draw among the closest candidates (`core/closest.ts`). */
export interface Weights {
  /** n: the number of candidates. */
  readonly candidates: number;
  /** m: the number of candidates that have the heavy weight. */
  readonly best: number;
  readonly heavy: bigint;
  readonly light: bigint;
}

export type Terms = Sensitivity | Weights;

/** How far one coordinate can move a selection, in the integers of the step. */
export interface Reach {
  /** D: the most units by which it can move any score. */
  readonly units: number;
  /** The largest size of its shift. */
  readonly largest: number;
  /** S: a unit is 2^−S bits. */
  readonly fractionBits: number;
}

/** Return how far a coordinate can move a selection if it changes by at most `change` of the 255 levels. */
export function reach(terms: Sensitivity, change: number): Reach {
  const slope = terms.slope ?? terms.sensitivity / 2;
  return {
    units: Math.min(terms.sensitivity, Math.ceil(((2 * slope + 2) * change + 1) / LEVELS)),
    largest: terms.clip === undefined ? terms.sensitivity : Math.min(terms.clip, 2 * slope),
    fractionBits: terms.fractionBits,
  };
}
