/**
 * The draw among the closest candidates: a private choice whose price is the same whatever the scores are.
 *
 *     P[K = k] = a/W  for k in T,      P[K = k] = b/W  for k not in T,      W = m·a + (n − m)·b
 *
 * T is the set of the m candidates that are nearest to a block's private content, by any score. W, a and b are public, so
 * every index has probabilities that differ by a factor of at most a/b: ε = ln(a/b). `dipp/core/closest.py` has the
 * proofs, and the numbers here are compared with its numbers to the last bit.
 */

import { DippError } from "../errors";
import { exp, fixed, isqrt, ln, nearest, nextAbove, ONE, over, times } from "./exact";
import type { Cost, Weights } from "./price";
import { privateWords } from "./randomness";

const MAX_CANDIDATES = 2 ** 22;
const MAX_TOTAL = 1n << 62n;
const MAX_INTERVALS = 1 << 13;
/** The factor 1 + 2^−50, by which prices are raised; sums of prices lose less than that by rounding. */
const UP = ONE + (ONE >> 50n);
/** 1 + 2^−24: how much ρ may lie above the true supremum. */
const TOLERANCE = ONE + (ONE >> 24n);

/** Return W, the sum of all weights. */
export function totalOf({ candidates, best, heavy, light }: Weights): bigint {
  return BigInt(best) * heavy + BigInt(candidates - best) * light;
}

/** Return j: the largest number of candidates in one set T that are missing in another. */
export function differing({ candidates, best }: Weights): number {
  return Math.min(best, candidates - best);
}

/** Throw if 2 ≤ n, 1 ≤ m < n, 1 ≤ b ≤ a or W ≤ 2^62 does not hold. */
export function requireWeights(weights: Weights): void {
  const { candidates, best, heavy, light } = weights;
  if (candidates < 2 || candidates > MAX_CANDIDATES) throw new DippError("candidates", `must be from 2 to ${MAX_CANDIDATES}, got ${candidates}`);
  if (best < 1 || best >= candidates) throw new DippError("best", `must be from 1 to ${candidates - 1}, got ${best}`);
  if (light < 1n || light > heavy) throw new DippError("light", `must be from 1 to ${heavy}, got ${light}`);
  if (totalOf(weights) > MAX_TOTAL) throw new DippError("weights", `must have a sum of at most 2^62, got ${totalOf(weights)}`, "take smaller weights");
}

/**
 * Draw one index for each block by one private integer R. `nearestOf` has the m indices of T of each block, ascending. The
 * index is element ⌊R/a⌋ of T if R < m·a, and otherwise element ⌊(R − m·a)/b⌋ of the candidates outside T.
 */
export function drawn(weights: Weights, nearestOf: Int32Array): Uint32Array {
  const { best, heavy, light } = weights;
  const limit = BigInt(best) * heavy;
  const count = nearestOf.length / best;
  const integers = privateBelow(totalOf(weights), count);
  const indices = new Uint32Array(count);
  for (let i = 0; i < count; i += 1) {
    const set = nearestOf.subarray(i * best, (i + 1) * best);
    if (integers[i]! < limit) {
      indices[i] = set[Number(integers[i]! / heavy)]!;
    } else {
      const rank = Number((integers[i]! - limit) / light);
      // Element e of T has t_e − e candidates outside T below it: those at or below `rank` push the index up by one.
      let index = rank;
      set.forEach((element, e) => (index += element - e <= rank ? 1 : 0));
      indices[i] = index;
    }
  }
  return indices;
}

/** Return private integers that are uniform below a limit. Rejection depends only on the drawn bits and the limit. */
function privateBelow(limit: bigint, count: number): BigUint64Array {
  const most = ((1n << 64n) / limit) * limit - 1n;
  const integers = new BigUint64Array(count);
  let missing = Array.from({ length: count }, (_, i) => i);
  while (missing.length) {
    const words = privateWords(missing.length);
    missing.forEach((place, i) => (integers[place] = words[i]!));
    missing = missing.filter((place) => integers[place]! > most);
  }
  return integers.map((word) => word % limit);
}

/**
 * Write the indices of the `out.length` largest scores to `out`, ascending. NaN counts as the smallest score, and of equal
 * scores the lower index comes first, so the number of indices never depends on the scores.
 */
export function bestOf(scores: Float64Array, out: Int32Array): void {
  const most = new Float64Array(out.length);
  let kept = 0;
  for (let i = 0; i < scores.length; i += 1) {
    const score = Number.isNaN(scores[i]!) ? -Infinity : scores[i]!;
    if (kept === out.length && score <= most[kept - 1]!) continue;
    let at = kept < out.length ? kept++ : kept - 1;
    for (; at && most[at - 1]! < score; at -= 1) {
      most[at] = most[at - 1]!;
      out[at] = out[at - 1]!;
    }
    most[at] = score;
    out[at] = i;
  }
  out.sort();
}

const PRICES = new Map<string, Cost>();

/** Return pure ε and ρ of one draw, rounded up. */
export function priceOf(weights: Weights): Cost {
  const { candidates, best, heavy, light } = weights;
  const key = `${candidates} ${best} ${heavy} ${light}`;
  const known = PRICES.get(key);
  if (known) return known;
  const price =
    heavy === light
      ? { epsilon: 0, rho: 0 }
      : { epsilon: roundedUp(ln(over(heavy, light))), rho: roundedUp(supremum(weights)) };
  PRICES.set(key, price);
  return price;
}

/** Return a double of at least `value`·(1 + 2^−50). */
function roundedUp(value: bigint): number {
  const raised = times(value, UP);
  const rounded = nearest(raised);
  return fixed(rounded) >= raised ? rounded : nextAbove(rounded);
}

interface Interval {
  readonly bound: bigint;
  readonly left: bigint;
  readonly atLeft: bigint;
  readonly right: bigint;
  readonly atRight: bigint;
}

/**
 * Return the supremum of D_α/α over the orders α > 1. Intervals of orders are halved until no bound of an interval exceeds
 * the largest value found by more than the tolerance.
 */
function supremum(weights: Weights): bigint {
  const { heavy, light } = weights;
  const ratio = over(heavy, light);
  const loss = ln(ratio);
  const mass = over(BigInt(differing(weights)) * (heavy + light), totalOf(weights));
  const share = over(ratio, ONE + ratio);

  /** (α − 1)·D_α at α = 1 + excess, with the growing factor taken out: it would have millions of digits. */
  const logMoment = (excess: bigint): bigint => {
    const grown = times(excess, loss);
    const shrunk = exp(-grown);
    const rest = times(mass, share) + times(ONE - mass, shrunk) + times(times(mass, ONE - share), times(shrunk, shrunk));
    return grown + ln(rest);
  };

  let best = times(times(mass, loss), over(ratio - ONE, ratio + ONE));
  const last = over(loss, best);
  const intervals = new Heap();
  intervals.push(bounded(0n, 0n, last, logMoment(last)));
  while (intervals.top.bound > times(best, TOLERANCE) && intervals.size < MAX_INTERVALS) {
    const { left, atLeft, right, atRight } = intervals.pop();
    const middle = (left + right) / 2n;
    const atMiddle = logMoment(middle);
    const met = over(atMiddle, times(middle, ONE + middle));
    if (met > best) best = met;
    intervals.push(bounded(left, atLeft, middle, atMiddle));
    intervals.push(bounded(middle, atMiddle, right, atRight));
  }
  return intervals.top.bound > best ? intervals.top.bound : best;
}

/** Return an interval of orders with its bound: the largest D_α/α that the chord of its ends has on it. */
function bounded(left: bigint, atLeft: bigint, right: bigint, atRight: bigint): Interval {
  const slope = over(atRight - atLeft, right - left);
  const below = times(slope, left) - atLeft;
  const offset = below > 0n ? below : 0n;
  const root = isqrt(offset * (offset + slope));
  let peak = over(offset + root, slope);
  if (peak < left) peak = left;
  if (peak > right) peak = right;
  return { bound: over(peak ? slope - over(offset, peak) : slope, ONE + peak), left, atLeft, right, atRight };
}

/** A heap of intervals, whose top has the largest bound. */
class Heap {
  private readonly items: Interval[] = [];

  get top(): Interval {
    return this.items[0]!;
  }

  get size(): number {
    return this.items.length;
  }

  push(item: Interval): void {
    let at = this.items.push(item) - 1;
    while (at && this.items[(at - 1) >> 1]!.bound < item.bound) {
      this.items[at] = this.items[(at - 1) >> 1]!;
      at = (at - 1) >> 1;
    }
    this.items[at] = item;
  }

  pop(): Interval {
    const found = this.items[0]!;
    const item = this.items.pop()!;
    const count = this.items.length;
    if (!count) return found;
    let at = 0;
    for (let child = 1; child < count; child = 2 * at + 1) {
      if (child + 1 < count && this.items[child + 1]!.bound > this.items[child]!.bound) child += 1;
      if (this.items[child]!.bound <= item.bound) break;
      this.items[at] = this.items[child]!;
      at = child;
    }
    this.items[at] = item;
    return found;
  }
}
