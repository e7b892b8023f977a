/** The interface of a code: the plans that it serves, and its privacy cost. */

import type { Rational } from "./arithmetic";
import type { Cost, Terms } from "./price";
import type { Step } from "./steps";
import type { Unit } from "./units";

export interface Code {
  readonly name: string;
  /** Number of the code in files. */
  readonly number: number;
  /** α, by which the integer scores are multiplied. */
  readonly alpha: Rational;
  /** Whether each selection reads coordinates of one unit only; then a change of k units costs kρ instead of k²ρ. */
  readonly alone: boolean;
  /** Throw if the code cannot code a step or protect a unit. */
  require(step: Step, unit: Unit): void;
  /**
   * Return the cost of a step to a unit that takes part in `touched` of its selections, if each of its coordinates changes by
   * at most `change` of the 255 levels.
   */
  price(terms: Terms, touched: number, apart: boolean, change: number): Cost;
}
