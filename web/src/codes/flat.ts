/**
 * The flat code: an index of fixed length among candidates of the common randomness, drawn by the exponential mechanism.
 * The page decodes it and prices it; it draws no such index itself. Proofs: `dipp/codes/exponential.py`.
 */

import type { Rational } from "../core/arithmetic";
import type { Code } from "../core/code";
import { nextAbove } from "../core/exact";
import { reach } from "../core/price";
import { draw, type Stream } from "../core/randomness";
import { requirePixel, sensitivityOf } from "./sensitivity";

/** The most nats that rounding of the weights can add to the loss of one selection. */
const ETA = 2 ** -38;
/** Number of coordinates of the sign channel that share a draw. */
const GROUP = 16;

/** Return pure ε of a selection whose scores move by at most `sensitivity` units of 2^−S bits. */
function loss(sensitivity: number, fractionBits: number): number {
  const exact = 2 * sensitivity * Math.LN2 * 2 ** -fractionBits + ETA;
  return nextAbove(exact * (1 + 2 ** -50));
}

export function flat(alpha: Rational): Code {
  return {
    name: "flat",
    number: 0,
    alpha,
    alone: false,
    require(step, unit) {
      requirePixel(this, step, unit);
    },
    price(terms, touched, apart, change) {
      const { units, fractionBits } = reach(sensitivityOf(terms), change);
      const epsilon = loss(units, fractionBits);
      const pure = touched * epsilon;
      return { epsilon: pure, rho: (apart ? touched * (epsilon * epsilon) : pure * pure) / 8 };
    },
  };
}

/** Write the bits of the chosen candidate of a chunk to `out`, starting at `at`, one for each coordinate. */
export function winner(source: Stream, chunk: number, size: number, index: number, out: Uint8Array, at: number): void {
  for (let first = 0; first < size; first += GROUP) {
    const drawn = draw(source, chunk, first / GROUP, index);
    const last = Math.min(GROUP, size - first);
    for (let i = 0; i < last; i += 1) out[at + first + i] = (drawn >> i) & 1;
  }
}
