/**
 * Grids: means of pictures over coarse pixels, and interpolation between grids. Everything here is public. Pictures are
 * (C, H, W) in 32-bit floats, computed in the same order as in `dipp/codec/grids.py`.
 */

import type { Geometry, Size } from "../core/geometry";
import { BLOCK, type Cuts } from "../core/steps";

/** The distance in coarse pixels up to which answers predict a coarse pixel without one. */
const REACH = 2 * BLOCK;
const NEAR = Float32Array.from({ length: 2 * REACH + 1 }, (_, i) => Math.exp(-(((i - REACH) / BLOCK) ** 2)));

/** Return answers in which each unknown one is the mean of the known ones within reach, weighted by exp(−d²/16). */
export function between(answers: Float32Array, known: Uint8Array, { height, width, channels }: Geometry): Float32Array {
  const weights = spread(Float32Array.from(known), height, width);
  const filled = answers.slice();
  const size = height * width;
  for (let channel = 0; channel < channels; channel += 1) {
    const plane = answers.slice(channel * size, (channel + 1) * size).map((value, i) => (known[i] ? value : 0));
    const sums = spread(plane, height, width);
    known.forEach((is, i) => {
      if (!is) filled[channel * size + i] = sums[i]! / Math.max(weights[i]!, 1e-6);
    });
  }
  return filled;
}

/** Factor of the odds of a wrong answer; and the least squared difference that counts as usual. */
const SUSPICION = 0.05;
const LEAST_USUAL = 1e-3;

/** Return answers in which blocks whose answer is probably wrong are drawn towards their neighbours. */
export function steadied(answers: Float32Array, odds: number, { height, width, channels }: Geometry): Float32Array {
  const size = height * width;
  const [rows, columns] = [Math.ceil(height / BLOCK), Math.ceil(width / BLOCK)];
  const blockOf = (i: number): number => Math.floor(i / width / BLOCK) * columns + Math.floor((i % width) / BLOCK);
  const room = ofOthers(new Float32Array(size).fill(1), height, width);
  const others = new Float32Array(answers.length);
  const [distance, counts] = [new Float32Array(rows * columns), new Float32Array(rows * columns)];
  for (let channel = 0; channel < channels; channel += 1) {
    const sums = ofOthers(answers.slice(channel * size, (channel + 1) * size), height, width);
    for (let i = 0; i < size; i += 1) {
      const at = channel * size + i;
      others[at] = sums[i]! / Math.max(room[i]!, 1e-6);
      distance[blockOf(i)]! += (answers[at]! - others[at]!) ** 2;
      counts[blockOf(i)]! += 1;
    }
  }
  counts.forEach((count, block) => (distance[block]! /= count));
  const kept = distance.map((error, block) => {
    const [row, column] = [Math.floor(block / columns), block % columns];
    const around: number[] = [];
    for (let y = Math.max(row - 1, 0); y <= Math.min(row + 1, rows - 1); y += 1) {
      for (let x = Math.max(column - 1, 0); x <= Math.min(column + 1, columns - 1); x += 1) {
        if (y !== row || x !== column) around.push(distance[y * columns + x]!);
      }
    }
    if (!around.length) return 1;
    const usual = around.sort((a, b) => a - b)[Math.floor((around.length - 1) / 2)]! + LEAST_USUAL;
    return 1 / (1 + odds * SUSPICION * (error / usual) ** 2);
  });
  return answers.map((answer, at) => {
    const share = kept[blockOf(at % size)]!;
    return share < 1 ? others[at]! + share * (answer - others[at]!) : answer;
  });
}

/** Return the sums of `spread` for each coarse pixel, without those of its own block. */
function ofOthers(plane: Float32Array, height: number, width: number): Float32Array {
  return spread(plane, height, width).map((sum, i) => {
    const [row, column] = [Math.floor(i / width), i % width];
    const [top, left] = [row - (row % BLOCK), column - (column % BLOCK)];
    let own = 0;
    for (let y = top; y < Math.min(top + BLOCK, height); y += 1) {
      for (let x = left; x < Math.min(left + BLOCK, width); x += 1) {
        own += NEAR[y - row + REACH]! * NEAR[x - column + REACH]! * plane[y * width + x]!;
      }
    }
    return sum - own;
  });
}

/** Return the sum over the neighbourhood of each coarse pixel, weighted by `NEAR` along both axes. */
function spread(plane: Float32Array, height: number, width: number): Float32Array {
  const along = (source: Float32Array, step: number, length: number, place: (i: number) => number): Float32Array =>
    source.map((_, i) => {
      const at = place(i);
      let sum = 0;
      for (let d = Math.max(-REACH, -at); d <= Math.min(REACH, length - 1 - at); d += 1) sum += NEAR[d + REACH]! * source[i + d * step]!;
      return sum;
    });
  const down = along(plane, width, height, (i) => Math.floor(i / width));
  return along(down, 1, width, (i) => i % width);
}

/** Return the cuts of an axis every `side` pixels; the last part may be shorter. */
export function squares(length: number, side: number): Int32Array {
  return Int32Array.from({ length: Math.ceil(length / side) + 1 }, (_, i) => Math.min(i * side, length));
}

/** Return the means of a picture over squares; the right and lower edges may cut off the last ones. */
export function averaged(values: Float32Array, { height, width }: Size, side: number): Float32Array {
  const [rows, columns] = [Math.ceil(height / side), Math.ceil(width / side)];
  const sums = new Float64Array((values.length / (height * width)) * rows * columns);
  const counts = new Uint32Array(sums.length);
  values.forEach((value, i) => {
    const line = Math.floor(i / width);
    const [plane, row] = [Math.floor(line / height), Math.floor((line % height) / side)];
    const at = (plane * rows + row) * columns + Math.floor((i % width) / side);
    sums[at]! += value;
    counts[at]! += 1;
  });
  return Float32Array.from(sums, (sum, i) => sum / counts[i]!);
}

/** Return the grid whose coarse pixels are the pixels. */
export function pixelCuts({ height, width }: { height: number; width: number }): Cuts {
  const every = (length: number): Int32Array => Int32Array.from({ length: length + 1 }, (_, i) => i);
  return { rows: every(height), columns: every(width) };
}

/** Interpolate values of one grid to the centres of another, by the cubic of Catmull and Rom, clipped to [−1, 1]. */
export function interpolated(values: Float32Array, channels: number, source: Cuts, onto: Cuts): Float32Array {
  const [height, width] = [source.rows.length - 1, source.columns.length - 1];
  const high = onto.rows.length - 1;
  const down = along(values, channels, height, width, source.rows, onto.rows);
  const both = along(down, channels * high, width, 1, source.columns, onto.columns);
  return both.map((value) => Math.min(Math.max(value, -1), 1));
}

/** Interpolate an axis of `length` places, with `outer` slices before it and `inner` values behind it. */
function along(values: Float32Array, outer: number, length: number, inner: number, cuts: Int32Array, wanted: Int32Array): Float32Array {
  if (cuts.length === wanted.length && cuts.every((cut, i) => cut === wanted[i])) return values;
  const centre = (edges: Int32Array, i: number): number => (edges[i]! + edges[i + 1]!) / 2;
  const last = length - 1;
  const places = wanted.length - 1;
  const found = new Float32Array(outer * places * inner);
  let left = 0;
  for (let target = 0; target < places; target += 1) {
    const x = centre(wanted, target);
    while (left < last - 1 && centre(cuts, left + 1) <= x) left += 1;
    const wide = last === 0 ? 1 : centre(cuts, Math.min(left + 1, last)) - centre(cuts, left);
    const t = Math.min(Math.max((x - centre(cuts, left)) / wide, 0), 1);
    const taps = [-t + 2 * t ** 2 - t ** 3, 2 - 5 * t ** 2 + 3 * t ** 3, t + 4 * t ** 2 - 3 * t ** 3, -(t ** 2) + t ** 3];
    taps.forEach((tap, i) => {
      const weight = Math.fround(tap / 2);
      const from = Math.min(Math.max(left + i - 1, 0), last);
      for (let slice = 0; slice < outer; slice += 1) {
        const [to, of] = [(slice * places + target) * inner, (slice * length + from) * inner];
        for (let k = 0; k < inner; k += 1) found[to + k]! += Math.fround(weight * values[of + k]!);
      }
    });
  }
  return found;
}
