/** Checks of the codes whose cost depends on a sensitivity: they protect single pixels, and cannot code questions. */

import type { Code } from "../core/code";
import type { Sensitivity, Terms } from "../core/price";
import type { Step } from "../core/steps";
import type { Unit } from "../core/units";
import { DippError } from "../errors";

export function requirePixel(code: Code, step: Step, unit: Unit): void {
  if (step.kind === "questions") throw new DippError("code", `must be closest for questions, got ${code.name}`);
  if (unit.kind !== "pixel") throw new DippError("unit", `must be the pixel for this code, got ${unit.short}`);
}

export function sensitivityOf(terms: Terms): Sensitivity {
  if ("heavy" in terms) throw new DippError("terms", "must be a sensitivity for this code, got weights");
  return terms;
}
