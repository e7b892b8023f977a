/**
 * Randomness, common and private: sender and receiver share the common one, and only the sender knows the private one.
 *
 * Common randomness is Philox 4x32-10, keyed by SHA-256 of the public seed, an image, a step and a purpose; its layout is
 * part of the file format (`dipp/core/randomness.py`). Private randomness comes from `crypto.getRandomValues`, through
 * `privateWords` alone: if it were shared or guessable, the file would be a function of the picture, and ε = ∞.
 */

import { DippError } from "../errors";
import { sha256 } from "./sha256";

export const SEED_BYTES = 16;
/** 16-bit draws in one Philox block of 128 bits. */
const DRAWS_PER_BLOCK = 8;
const PHILOX_ROUNDS = 10;
/** Largest number of random bytes that a browser returns at a time. */
const MOST_AT_ONCE = 65536;

/** Return `count` private 64-bit integers from the browser's secure generator, the only source of private randomness. */
export function privateWords(count: number): BigUint64Array {
  const words = new BigUint64Array(count);
  const bytes = new Uint8Array(words.buffer);
  for (let at = 0; at < bytes.length; at += MOST_AT_ONCE) {
    crypto.getRandomValues(bytes.subarray(at, at + MOST_AT_ONCE));
  }
  return words;
}

/** Return a new public seed. Draw it before a picture is read: a seed that is chosen afterwards can tell of the picture. */
export function freshSeed(): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(SEED_BYTES));
}

/** The key and nonce of the public random numbers of one seed, image, step and purpose. */
export interface Stream {
  readonly key0: number;
  readonly key1: number;
  readonly nonce: number;
}

/** Return the stream of an image, a step and a purpose, by the rule of the file format. */
export function stream(seed: Uint8Array, image = 0, step = 0, purpose = "candidates"): Stream {
  if (seed.length !== SEED_BYTES) throw new DippError("seed", `must be ${SEED_BYTES} bytes, got ${seed.length}`);
  const name = new TextEncoder().encode(`dipp/1/${purpose}\0`);
  const text = new Uint8Array(name.length + SEED_BYTES + 12);
  text.set(name);
  text.set(seed, name.length);
  const view = new DataView(text.buffer, name.length + SEED_BYTES);
  view.setBigUint64(0, BigInt(image), true);
  view.setUint32(8, step, true);
  const digest = new DataView(sha256(text).buffer);
  return { key0: digest.getUint32(0, true), key1: digest.getUint32(4, true), nonce: digest.getUint32(8, true) };
}

/** Write the four words of Philox 4x32-10 for one counter to `out`, starting at `at`. */
export function philox(
  source: Stream,
  counter0: number,
  counter1: number,
  counter2: number,
  out: Uint32Array,
  at = 0,
): void {
  let [c0, c1, c2, c3] = [counter0, counter1, counter2, source.nonce];
  let [k0, k1] = [source.key0, source.key1];
  for (let round = 0; round < PHILOX_ROUNDS; round += 1) {
    const high0 = highProduct(c0, 0xd2511f53);
    const low0 = Math.imul(c0, 0xd2511f53);
    const high1 = highProduct(c2, 0xcd9e8d57);
    const low1 = Math.imul(c2, 0xcd9e8d57);
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 = (k0 + 0x9e3779b9) | 0;
    k1 = (k1 + 0xbb67ae85) | 0;
  }
  out[at] = c0;
  out[at + 1] = c1;
  out[at + 2] = c2;
  out[at + 3] = c3;
}

/** Return the upper 32 bits of the product of two words. */
function highProduct(a: number, b: number): number {
  const [aLow, aHigh, bLow, bHigh] = [a & 0xffff, a >>> 16, b & 0xffff, b >>> 16];
  const middle = aHigh * bLow + ((aLow * bLow) >>> 16);
  const other = aLow * bHigh + (middle & 0xffff);
  return (aHigh * bHigh + (middle >>> 16) + (other >>> 16)) | 0;
}

/** Return the 16-bit draw of a candidate for a group of coordinates, without computing those before it. */
export function draw(source: Stream, chunk: number, group: number, candidate: number): number {
  const half = candidate % DRAWS_PER_BLOCK;
  philox(source, group, Math.floor(candidate / DRAWS_PER_BLOCK), chunk, BLOCK);
  return (BLOCK[half >> 1]! >>> (16 * (half & 1))) & 0xffff;
}

const BLOCK = new Uint32Array(4);

/** Return the first `count` words of a stream: words 4·i … 4·i + 3 are block i. */
export function words(source: Stream, count: number): Uint32Array {
  const blocks = Math.ceil(count / 4);
  const out = new Uint32Array(4 * blocks);
  for (let block = 0; block < blocks; block += 1) philox(source, block, 0, 0, out, 4 * block);
  return out.subarray(0, count);
}

/** Return a public uniform permutation of 0 … count − 1: the stable order of 64-bit keys. */
export function permutation(source: Stream, count: number): Uint32Array {
  const keys = words(source, 2 * count);
  let order = Uint32Array.from({ length: count }, (_, i) => i);
  let spare = new Uint32Array(count);
  // Radix sort by sixteen bits at a time, from the lowest; each pass keeps the order of equal digits.
  for (const [word, shift] of [[1, 0], [1, 16], [0, 0], [0, 16]] as const) {
    const starts = new Uint32Array(65537);
    for (let i = 0; i < count; i += 1) starts[((keys[2 * i + word]! >>> shift) & 0xffff) + 1]! += 1;
    for (let i = 0; i < 65536; i += 1) starts[i + 1]! += starts[i]!;
    for (const i of order) spare[starts[(keys[2 * i + word]! >>> shift) & 0xffff]!++] = i;
    [order, spare] = [spare, order];
  }
  return order;
}

/** Return the position of each number in a permutation. */
export function inverse(order: Uint32Array): Uint32Array {
  const rank = new Uint32Array(order.length);
  order.forEach((value, place) => (rank[value] = place));
  return rank;
}
