/**
 * (ε, δ) of draws whose privacy loss has a known law: ε, −ε or 0. Sums of independent losses of the worst pair dominate
 * any adaptive composition, and δ(ε) = E[max(0, 1 − e^(ε − L))]. `dipp/privacy/losses.py` has the proof and the rounding.
 */

import { fsum } from "../core/exact";

/** A number of draws of one law, whose loss is ε with probability `gains`, −ε with probability `drops`, and otherwise 0. */
export interface Draws {
  readonly epsilon: number;
  readonly gains: number;
  readonly drops: number;
  readonly count: number;
}

const MAX_DRAWS = 2 ** 13;
const MAX_SUMS = 2 ** 18;
const HALVINGS = 60;

/** Return the smallest ε for which all draws together are (ε, δ)-private; infinity if there are too many to sum. */
export function epsilonOfDraws(draws: readonly Draws[], delta: number): number {
  if (draws.reduce((product, { count }) => product * (2 * count + 1), 1) > MAX_SUMS) return Infinity;
  if (draws.some(({ count }) => count > MAX_DRAWS)) return Infinity;
  let sums: [number, number][] = [[0, 1]];
  for (const law of draws) {
    const masses = powers(law);
    sums = sums.flatMap(([loss, mass]) =>
      Array.from(masses, (share, i): [number, number] => [loss + (i - law.count) * law.epsilon, mass * share]),
    );
  }
  const largest = sums.reduce((most, [loss]) => Math.max(most, loss), 0);
  const positive = sums.map(([loss, mass]): [number, number] => [loss + largest * 2 ** -48, mass]).filter(([loss]) => loss > 0);
  const raised = (epsilon: number): number =>
    fsum(positive.map(([loss, mass]) => -Math.expm1(Math.min(epsilon - loss, 0)) * mass)) * (1 + 2 ** -30) + 2 ** -900;
  if (raised(0) <= delta) return 0;
  let [low, high] = [0, largest + largest * 2 ** -48];
  if (raised(high) > delta) return Infinity;
  for (let i = 0; i < HALVINGS && low < high; i += 1) {
    const middle = (low + high) / 2;
    if (raised(middle) <= delta) high = middle;
    else low = middle;
  }
  return high;
}

/** Return the probabilities that `count` losses add up to −count·ε, …, count·ε. */
function powers({ gains, drops, count }: Draws): Float64Array {
  let power = Float64Array.of(drops, 1 - drops - gains, gains);
  let masses = Float64Array.of(1);
  for (let left = count; left; left >>= 1) {
    if (left & 1) masses = convolved(masses, power);
    if (left > 1) power = convolved(power, power);
  }
  return masses;
}

function convolved(a: Float64Array, b: Float64Array): Float64Array<ArrayBuffer> {
  const sums = new Float64Array(a.length + b.length - 1);
  a.forEach((x, i) => b.forEach((y, j) => (sums[i + j]! += x * y)));
  return sums;
}
