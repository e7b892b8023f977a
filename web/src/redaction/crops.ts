/** Crops: rectangles around hidden pixels, with enough of their surroundings to paint from (`dipp/redaction/crops.py`). */

import type { Size } from "../core/geometry";
import type { Box } from "./boxes";

/** The least number of known pixels around a region that painting sees; around a large region, half of its side. */
const CONTEXT = 48;
/** Regions closer to each other than this many pixels are painted together. */
const JOIN = 32;

export interface Crop {
  readonly box: Box;
  /** A mask of the whole picture, with 1 for each pixel that this crop paints. */
  readonly inCrop: Uint8Array;
}

/** Return the crops of a mask, in the order in which Python paints them. */
export function crops(mask: Uint8Array, { width, height }: Size): Crop[] {
  const wide = Math.ceil(width / JOIN);
  const groups = labels(mask, { width, height }, wide);
  const count = Math.max(...groups);
  return Array.from({ length: count }, (_, group) => {
    const inCrop = mask.map((covered, i) => {
      const square = Math.floor(Math.floor(i / width) / JOIN) * wide + Math.floor((i % width) / JOIN);
      return covered && groups[square] === group + 1 ? 1 : 0;
    });
    return { inCrop, box: around(inCrop, { width, height }) };
  });
}

/** Return the group of each square of a coarse grid, from 1; 0 if nothing in it is hidden. Squares that share a corner touch. */
function labels(mask: Uint8Array, { width, height }: Size, wide: number): number[] {
  const high = Math.ceil(height / JOIN);
  const marked = new Uint8Array(wide * high);
  mask.forEach((covered, i) => {
    if (covered) marked[Math.floor(Math.floor(i / width) / JOIN) * wide + Math.floor((i % width) / JOIN)] = 1;
  });
  const groups = Array.from(marked, () => 0);
  let group = 0;
  for (let first = 0; first < marked.length; first += 1) {
    if (!marked[first] || groups[first]) continue;
    group += 1;
    for (const waiting = [first]; waiting.length; ) {
      const square = waiting.pop()!;
      if (groups[square]) continue;
      groups[square] = group;
      const [row, column] = [Math.floor(square / wide), square % wide];
      for (let y = Math.max(0, row - 1); y <= Math.min(high - 1, row + 1); y += 1) {
        for (let x = Math.max(0, column - 1); x <= Math.min(wide - 1, column + 1); x += 1) {
          if (marked[y * wide + x] && !groups[y * wide + x]) waiting.push(y * wide + x);
        }
      }
    }
  }
  return groups;
}

/** Return the rectangle around pixels, with their context. */
function around(inCrop: Uint8Array, { width, height }: Size): Box {
  let [top, bottom, left, right] = [Infinity, 0, Infinity, 0];
  inCrop.forEach((covered, i) => {
    if (!covered) return;
    const [row, column] = [Math.floor(i / width), i % width];
    [top, bottom, left, right] = [Math.min(top, row), Math.max(bottom, row + 1), Math.min(left, column), Math.max(right, column + 1)];
  });
  const span = (first: number, last: number, length: number): [number, number] => {
    const context = Math.max(CONTEXT, Math.floor((last - first) / 2));
    return [Math.max(0, first - context), Math.min(length, last + context)];
  };
  const [[up, down], [begin, end]] = [span(top, bottom, height), span(left, right, width)];
  return { left: begin, top: up, width: end - begin, height: down - up };
}
