/**
 * The flat code: an index of fixed length among candidates of the common randomness, drawn by the exponential mechanism.
 * The page decodes it and prices it; it draws no such index itself. Proofs: `dipp/codes/exponential.py`.
 */

import type { Rational } from "../core/arithmetic";
import type { Code } from "../core/code";
import { nextAbove } from "../core/exact";
import { moved } from "../core/price";
import { draw, type Stream } from "../core/randomness";
import { requirePixel, sensitivityOf } from "./sensitivity";

/** Nats that the rounding of the weights can add to the loss of one selection. */
const ETA = 2 ** -38;
/** Coordinates of the sign channel that share a draw. */
const GROUP = 16;

/** Pure ε of a selection whose scores move by at most s units of 2^−S bits. */
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
      const { units, fractionBits } = moved(sensitivityOf(terms), change);
      const one = loss(units, fractionBits);
      const pure = touched * one;
      return { epsilon: pure, rho: (apart ? touched * (one * one) : pure * pure) / 8 };
    },
  };
}

/** The bits of the chosen candidate of a chunk, coordinate after coordinate. */
export function winner(source: Stream, chunk: number, size: number, index: number, out: Uint8Array, at: number): void {
  for (let first = 0; first < size; first += GROUP) {
    const drawn = draw(source, chunk, first / GROUP, index);
    const last = Math.min(GROUP, size - first);
    for (let i = 0; i < last; i += 1) out[at + first + i] = (drawn >> i) & 1;
  }
}
