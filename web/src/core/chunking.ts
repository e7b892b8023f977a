/** Chunks: which coordinates of a step are coded together, by a public shuffle (`dipp/core/chunking.py`). */

import { inverse, permutation, stream } from "./randomness";

/** Coordinates divided into chunks: chunk i holds order[offsets[i]] … order[offsets[i + 1] − 1], ascending. */
export interface Chunks {
  readonly order: Int32Array;
  readonly offsets: Int32Array;
}

export const NOTHING: Chunks = { order: new Int32Array(0), offsets: new Int32Array(1) };

/**
 * Deal the touched coordinates of a step, out of 0 … dims − 1, to `count` chunks, pixel after pixel in a shuffled order.
 * Coordinate i belongs to pixel i // channels; a pixel of rank r deals its channels starting from channel −r mod C.
 */
export function chunks(
  seed: Uint8Array,
  step: number,
  dims: number,
  count: number,
  channels: number,
  touched: Int32Array,
): Chunks {
  const pixels = dims / channels;
  const rank = inverse(permutation(stream(seed, 0, step, "chunks"), pixels));
  // The place of every coordinate of the picture in the deal; those that are not touched are left out.
  const dealt = new Int32Array(dims).fill(-1);
  for (const coordinate of touched) {
    const own = rank[Math.floor(coordinate / channels)]!;
    dealt[own * channels + (((coordinate % channels) + own) % channels)] = coordinate;
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
