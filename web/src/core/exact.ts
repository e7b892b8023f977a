/**
 * Exact sums, and logarithms to 256 bits, as Python computes them with `math.fsum` and `decimal`.
 *
 * A reader compares certificates to the last bit, in which `Math.exp` and `Math.log` differ between browsers. So this module
 * does not use them: numbers are integers in units of 2^−256 until they are rounded once.
 */

const BITS = 256n;
/** The number 1 in fixed point. */
export const ONE = 1n << BITS;

/** Return the double that is nearest to numerator/denominator, and of two equally near ones that with an even last bit. */
export function nearest(numerator: bigint, denominator: bigint = ONE): number {
  if (numerator < 0n) return -nearest(-numerator, denominator);
  if (numerator === 0n) return 0;
  // 53 bits of quotient, fewer where doubles are subnormal.
  let shift = bitLength(numerator) - bitLength(denominator) - 53;
  if (floorShift(numerator, denominator, shift) >= 1n << 53n) shift += 1;
  shift = Math.max(shift, -1074);
  const [n, d] = shift < 0 ? [numerator << BigInt(-shift), denominator] : [numerator, denominator << BigInt(shift)];
  let quotient = n / d;
  const twice = 2n * (n % d);
  if (twice > d || (twice === d && quotient & 1n)) quotient += 1n;
  // In two factors, so that neither leaves the range of doubles; both products are exact.
  const half = Math.trunc(shift / 2);
  return Number(quotient) * 2 ** half * 2 ** (shift - half);
}

function floorShift(numerator: bigint, denominator: bigint, shift: number): bigint {
  return shift < 0 ? (numerator << BigInt(-shift)) / denominator : numerator / (denominator << BigInt(shift));
}

function bitLength(value: bigint): number {
  return value.toString(2).length;
}

const MANTISSA = new DataView(new ArrayBuffer(8));

/** Return a finite double as a whole number of units of 2^−1074, exactly. */
function units(value: number): bigint {
  MANTISSA.setFloat64(0, value);
  const bits = MANTISSA.getBigUint64(0);
  const exponent = Number((bits >> 52n) & 0x7ffn);
  const fraction = bits & ((1n << 52n) - 1n);
  const size = exponent === 0 ? fraction : (fraction | (1n << 52n)) << BigInt(exponent - 1);
  return bits >> 63n ? -size : size;
}

/** Return the exact sum of doubles, rounded once. */
export function fsum(values: Iterable<number>): number {
  let total = 0n;
  for (const value of values) total += units(value);
  return nearest(total, 1n << 1074n);
}

/** Return a product in fixed point. */
export function times(a: bigint, b: bigint): bigint {
  return (a * b) >> BITS;
}

/** Return a quotient in fixed point. */
export function over(a: bigint, b: bigint): bigint {
  return (a << BITS) / b;
}

let LN2: bigint | undefined;

/** Return ln 2 = 2·artanh(1/3) in fixed point. */
export function ln2(): bigint {
  if (LN2 === undefined) {
    let term = (2n * ONE << 64n) / 3n;
    let total = term;
    for (let n = 3n; term > 0n; n += 2n) {
      term /= 9n;
      total += term / n;
    }
    LN2 = total >> 64n;
  }
  return LN2;
}

const HALVINGS = 16n;
const GUARD = 64n;

/** Return e^x of x in fixed point, with an error of a few units. */
export function exp(x: bigint): bigint {
  // e^x = 2^k·(e^(r/2^16))^(2^16) with |r| ≤ ln 2/2, the square roots' errors covered by 64 more bits.
  const half = ln2() / 2n;
  const k = floorDivide(x + half, ln2());
  const r = ((x - k * ln2()) << GUARD) >> HALVINGS;
  const one = ONE << GUARD;
  let term = one;
  let total = one;
  for (let n = 1n; term !== 0n && term !== -1n; n += 1n) {
    term = ((term * r) >> (BITS + GUARD)) / n;
    total += term;
  }
  for (let i = 0n; i < HALVINGS; i += 1n) total = (total * total) >> (BITS + GUARD);
  const shift = k - GUARD;
  return shift >= 0n ? total << shift : total >> -shift;
}

function floorDivide(a: bigint, b: bigint): bigint {
  const quotient = a / b;
  return a < 0n && quotient * b !== a ? quotient - 1n : quotient;
}

/** Return ln x of x > 0 in fixed point. */
export function ln(x: bigint): bigint {
  let y = fixed(Math.log(nearest(x)));
  // Each turn of y ← y + 2·(x − e^y)/(x + e^y) triples the correct digits: 48, 144, 432 bits.
  for (let i = 0; i < 3; i += 1) {
    const grown = exp(y);
    y += 2n * over(x - grown, x + grown);
  }
  return y;
}

/** Return a double in fixed point, truncated below 2^−256. */
export function fixed(value: number): bigint {
  return units(value) >> (1074n - BITS);
}

/** Return √n of a whole number, rounded down. */
export function isqrt(n: bigint): bigint {
  if (n < 2n) return n;
  let x = 1n << BigInt((bitLength(n) + 1) >> 1);
  for (;;) {
    const next = (x + n / x) >> 1n;
    if (next >= x) return x;
    x = next;
  }
}

/** Return the nearest whole number, and of two equally near ones the even one, like NumPy's `rint`. */
export function rint(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  if (rest > 0.5) return floor + 1;
  if (rest < 0.5) return floor;
  return floor % 2 === 0 ? floor : floor + 1;
}

/** Return the next double above a positive one. */
export function nextAbove(value: number): number {
  MANTISSA.setFloat64(0, value);
  MANTISSA.setBigUint64(0, MANTISSA.getBigUint64(0) + 1n);
  return MANTISSA.getFloat64(0);
}
