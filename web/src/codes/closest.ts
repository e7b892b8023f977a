/**
 * The code `closest`: one draw for each block of a unit, at a price that no score can change (`core/closest.ts`). A unit of
 * split × split blocks takes part in split² draws of a step, so it pays split² times as much as for one.
 */

import { priceOf, requireWeights } from "../core/closest";
import type { Code } from "../core/code";
import { DippError } from "../errors";

export const CLOSEST: Code = {
  name: "closest",
  number: 4,
  alpha: { numerator: 1, denominator: 1 },
  alone: true,

  require(step) {
    if (step.kind !== "questions") throw new DippError("code", `closest answers questions, and not steps of ${step.kind}`);
  },

  price(terms, touched, apart) {
    if (!("heavy" in terms) || !apart) throw new DippError("closest", "needs weights, and a draw for each block");
    requireWeights(terms);
    const { epsilon, rho } = priceOf(terms);
    return { epsilon: touched * epsilon, rho: touched * rho };
  },
};
