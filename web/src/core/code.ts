/** The face of a code: for which plans it is made, and what it costs in privacy. */

import type { Rational } from "./arithmetic";
import type { Charge, Terms } from "./price";
import type { Step } from "./steps";
import type { Unit } from "./units";

export interface Code {
  readonly name: string;
  /** Number of the code in files. */
  readonly number: number;
  /** α that is folded into the integer scores. */
  readonly alpha: Rational;
  /** Whether no selection reads coordinates of two units: a change of k units then costs kρ, and not k²ρ. */
  readonly alone: boolean;
  /** Throw if the code is not made for a step, or does not serve a unit. */
  require(step: Step, unit: Unit): void;
  /**
   * What the selections cost a unit that takes part in `touched` of them, if each of its coordinates changes by at most
   * `change` of the 255 levels.
   */
  price(terms: Terms, touched: number, apart: boolean, change: number): Charge;
}
