/**
 * Pairs: one bit for each coordinate, by randomised response to the difference from the prediction.
 *
 *     P[+] = 1/(1 + e^−2v),   v = m·ln 2/2^S nats,   bit = (u < T[m]) for one private 64-bit integer u
 *
 * with the integer threshold T[m] = ⌊2^64·P[+]⌋ for m > 0, 2^64 − T[−m] for m < 0 and 2^63 for m = 0. The proof of the
 * price stands in `dipp/codes/pairs.py`.
 */

import type { Code } from "../core/code";
import { exp, isqrt, ln, ln2, nearest, ONE, over, times } from "../core/exact";
import { type Cost, type Reach, reach } from "../core/price";
import { privateWords } from "../core/randomness";
import { DippError } from "../errors";
import { requirePixel, sensitivityOf } from "./sensitivity";

/** Largest V in nats. */
const MAX_TILT = 20;
/** Number of bits to which powers of two with fractional exponents are computed. */
const POWER_BITS = 192n;

/** Return 2^(−2^i/2^S)·2^192 for i = 0 … S. Each is the square root of the next, rounded down; the last is that of 2^−1. */
function roots(fractionBits: number): bigint[] {
  const powers = [1n << (POWER_BITS - 1n)];
  for (let i = 0; i < fractionBits; i += 1) powers.push(isqrt(powers[powers.length - 1]! << POWER_BITS));
  return powers.reverse();
}

/** Return T[m] for m = −largest … largest, at index m + largest, computed in integers. */
export function thresholds(largest: number, fractionBits: number): BigUint64Array {
  const powers = roots(fractionBits);
  const whole = 1n << POWER_BITS;
  const table = new BigUint64Array(2 * largest + 1);
  table[largest] = 1n << 63n;
  for (let m = 1; m <= largest; m += 1) {
    const units = 2 * m;
    let product = whole;
    powers.forEach((root, i) => {
      if (i < fractionBits && (units >> i) & 1) product = (product * root) >> POWER_BITS;
    });
    const upper = (whole << 64n) / (whole + (product >> BigInt(units >> fractionBits)));
    table[largest + m] = upper;
    table[largest - m] = (1n << 64n) - upper;
  }
  return table;
}

/** Draw a private bit for each shift. */
export function drawBits(shifts: Int32Array, limit: number, table: BigUint64Array): Uint8Array {
  const drawn = privateWords(shifts.length);
  const bits = new Uint8Array(shifts.length);
  for (let i = 0; i < shifts.length; i += 1) bits[i] = drawn[i]! < table[shifts[i]! + limit]! ? 1 : 0;
  return bits;
}

const PRICES = new Map<string, Cost>();

/** 1 + 2^−40: this factor covers the rounding errors of the operations here and of the conversion to a double. */
const UP = ONE + (ONE >> 40n);

function priced({ units, largest, fractionBits }: Reach): Cost {
  const bit = ln2() >> BigInt(fractionBits); // nats of a unit
  const v = BigInt(largest) * bit;
  const d = BigInt(units) * bit;
  const whole = ONE + exp(2n * v);
  const eta = times(whole >> 63n, UP);
  const pure = times(ln(whole) - ln(ONE + exp(2n * (v - d))), UP) + eta;
  const grown = exp(pure);
  const range = 2n * d + 2n * eta;
  const squared = times(range, range) / 8n;
  const response = times(pure, over(grown - ONE, grown + ONE));
  return { epsilon: nearest(pure), rho: nearest(times(squared < response ? squared : response, UP)) };
}

export const PAIRS: Code = {
  name: "pairs",
  number: 1,
  alpha: { numerator: 1, denominator: 1 },

  alone: true,

  require(step, unit) {
    requirePixel(this, step, unit);
    if (step.chunkSize !== 1 || step.indexBits !== 1) {
      throw new DippError(
        "pairs",
        `need chunks of one coordinate with an index of one bit, got ${step.chunkSize} and ${step.indexBits}`,
      );
    }
  },

  price(terms, touched, apart, change) {
    const far = reach(sensitivityOf(terms), change);
    if (!apart && touched > 1) throw new DippError("pairs", "have each coordinate in a chunk of its own");
    if (!(far.largest * Math.LN2 * 2 ** -far.fractionBits <= MAX_TILT)) {
      throw new DippError("tilt", `must be at most ${MAX_TILT} nats for pairs`);
    }
    const key = `${far.units} ${far.largest} ${far.fractionBits}`;
    const price = PRICES.get(key) ?? priced(far);
    PRICES.set(key, price);
    return { epsilon: touched * price.epsilon, rho: touched * price.rho };
  },
};
