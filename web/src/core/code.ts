/** The face of a code: what it costs in privacy, how its index is drawn, and what its candidates are. */

import type { Rational } from "./arithmetic";

/** How far one coordinate can move a selection, in the step's integers. */
export interface Moved {
  /** D: units by which it can move any score. */
  readonly units: number;
  /** The largest size that its shift can have. */
  readonly largest: number;
  /** S: a unit is 2^−S bits. */
  readonly fractionBits: number;
}

/** What one step costs a pixel that it touches: pure ε, and ρ (zCDP). */
export interface Charge {
  readonly epsilon: number;
  readonly rho: number;
}

export interface Code {
  readonly name: string;
  /** Number of the code in files. */
  readonly number: number;
  /** α that is folded into the integer scores. */
  readonly alpha: Rational;
  /** Refuse sizes of chunks and indices that the code is not made for. */
  requireSizes(chunkSize: number, indexBits: number): void;
  /** What the selections cost a pixel of which `touched` coordinates take part, each moving them so far. */
  charge(moved: Moved, touched: number, apart: boolean): Charge;
}
