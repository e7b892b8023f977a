/** SHA-256 [FIPS 180-4] as a plain function: the browser's own is asynchronous, and streams are derived in the middle of a step. */

const PRIMES = [...primes(64)];
const ROUND = Uint32Array.from(PRIMES, (prime) => fraction(prime, 3));
const START = Uint32Array.from(PRIMES.slice(0, 8), (prime) => fraction(prime, 2));

/** Return the first primes. */
function* primes(count: number): Generator<bigint> {
  const found: bigint[] = [];
  for (let n = 2n; found.length < count; n += 1n) {
    if (found.every((prime) => n % prime !== 0n)) {
      found.push(n);
      yield n;
    }
  }
}

/** Return the first 32 bits of the fraction of a root: a constant of the standard. */
function fraction(prime: bigint, degree: number): number {
  const wanted = prime << BigInt(32 * degree);
  let low = 0n;
  for (let bit = 1n << 40n; bit > 0n; bit >>= 1n) {
    if ((low + bit) ** BigInt(degree) <= wanted) low += bit;
  }
  return Number(low & 0xffffffffn);
}

/** Return the digest of bytes. */
export function sha256(data: Uint8Array): Uint8Array {
  const padded = new Uint8Array((data.length + 72) & ~63);
  padded.set(data);
  padded[data.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setBigUint64(padded.length - 8, BigInt(data.length) * 8n);
  const state = START.slice();
  const words = new Uint32Array(64);
  for (let at = 0; at < padded.length; at += 64) {
    for (let i = 0; i < 16; i += 1) words[i] = view.getUint32(at + 4 * i);
    for (let i = 16; i < 64; i += 1) {
      const a = words[i - 15]!;
      const b = words[i - 2]!;
      const s0 = turn(a, 7) ^ turn(a, 18) ^ (a >>> 3);
      const s1 = turn(b, 17) ^ turn(b, 19) ^ (b >>> 10);
      words[i] = words[i - 16]! + s0 + words[i - 7]! + s1;
    }
    let [a, b, c, d, e, f, g, h] = state as unknown as [number, number, number, number, number, number, number, number];
    for (let i = 0; i < 64; i += 1) {
      const s1 = turn(e, 6) ^ turn(e, 11) ^ turn(e, 25);
      const first = (h + s1 + ((e & f) ^ (~e & g)) + ROUND[i]! + words[i]!) | 0;
      const s0 = turn(a, 2) ^ turn(a, 13) ^ turn(a, 22);
      const second = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((value, i) => (state[i] = state[i]! + value));
  }
  const out = new Uint8Array(32);
  state.forEach((word, i) => new DataView(out.buffer).setUint32(4 * i, word));
  return out;
}

function turn(word: number, by: number): number {
  return (word >>> by) | (word << (32 - by));
}
