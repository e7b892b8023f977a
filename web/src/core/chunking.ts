/** Chunks: which coordinates of a step are coded together, one index for each chunk (`dipp/core/chunking.py`). */

import type { Geometry, Size } from "./geometry";
import { inverse, permutation, stream } from "./randomness";
import { BLOCK, roundOf } from "./steps";

/** Coordinates divided into chunks: chunk i holds order[offsets[i]] … order[offsets[i + 1] − 1], ascending. */
export interface Chunks {
  readonly order: Int32Array;
  readonly offsets: Int32Array;
}

/** The chunks of a step that touches nothing. */
export const NOTHING: Chunks = { order: new Int32Array(0), offsets: new Int32Array(1) };

/**
 * Deal the touched coordinates of a step, out of 0 … dims − 1, to `count` chunks, pixel after pixel in a shuffled order.
 * Coordinate i belongs to pixel i // channels; a pixel of rank r deals its channels starting from channel −r mod C. Where
 * every coordinate is a chunk of its own, nothing is shuffled.
 */
export function chunks(
  seed: Uint8Array,
  step: number,
  dims: number,
  count: number,
  channels: number,
  touched: Int32Array,
): Chunks {
  if (count === touched.length) return { order: touched, offsets: Int32Array.from({ length: count + 1 }, (_, i) => i) };
  const pixels = dims / channels;
  const rank = inverse(permutation(stream(seed, 0, step, "chunks"), pixels));
  // The touched coordinates in the order in which they are dealt; −1 stands for coordinates that are not touched.
  const dealt = new Int32Array(dims).fill(-1);
  for (const coordinate of touched) {
    const pixelRank = rank[Math.floor(coordinate / channels)]!;
    dealt[pixelRank * channels + (((coordinate % channels) + pixelRank) % channels)] = coordinate;
  }
  const chunk = new Int32Array(dims);
  const sizes = new Int32Array(count + 1);
  let place = 0;
  for (const coordinate of dealt) {
    if (coordinate < 0) continue;
    chunk[coordinate] = place % count;
    sizes[(place % count) + 1]! += 1;
    place += 1;
  }
  const offsets = sizes;
  for (let i = 0; i < count; i += 1) offsets[i + 1]! += offsets[i]!;
  const next = offsets.slice();
  const order = new Int32Array(touched.length);
  for (const coordinate of touched) order[next[chunk[coordinate]!]!++] = coordinate;
  return { order, offsets };
}

/** Return the number of blocks of a coarse picture, including blocks that its edges cut off. */
export function blockCount({ height, width }: Size): number {
  return Math.ceil(height / BLOCK) * Math.ceil(width / BLOCK);
}

/**
 * Return the chunks of each round of a question. A chunk has the 4×4 coarse pixels of a block, row by row. Each unit is
 * divided into whole blocks, so a block lies in one unit.
 */
export function blocksByRound(rounds: number, { height, width, channels }: Geometry): Chunks[] {
  const groups = Array.from({ length: rounds }, () => ({ order: [] as number[], offsets: [0] }));
  for (let top = 0; top < height; top += BLOCK) {
    for (let left = 0; left < width; left += BLOCK) {
      const { order, offsets } = groups[roundOf(rounds, top, left, BLOCK)]!;
      for (let row = top; row < Math.min(top + BLOCK, height); row += 1) {
        const last = (row * width + Math.min(left + BLOCK, width)) * channels;
        for (let coordinate = (row * width + left) * channels; coordinate < last; coordinate += 1) order.push(coordinate);
      }
      offsets.push(order.length);
    }
  }
  return groups.map(({ order, offsets }) => ({ order: Int32Array.from(order), offsets: Int32Array.from(offsets) }));
}

/** Return the chunks of several rounds as one list. */
export function joinedChunks(parts: readonly Chunks[]): Chunks {
  const order = parts.flatMap((part) => [...part.order]);
  const offsets = [0];
  for (const part of parts) {
    const before = offsets[offsets.length - 1]!;
    for (const offset of part.offsets.subarray(1)) offsets.push(before + offset);
  }
  return { order: Int32Array.from(order), offsets: Int32Array.from(offsets) };
}
