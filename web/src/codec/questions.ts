/**
 * Questions: the coarse pictures that they ask about, and their public candidates.
 *
 * *Why the unit of the certificate holds.* A coarse pixel is the mean of pixels of one unit (`Unit.divisions`), and a block
 * has coarse pixels of one unit (`blocksByRound`). So the content of a block depends on the pixels of one unit, on the
 * public prediction, and on nothing else. Scores rank the candidates of one block, and no number of a block enters another.
 */

import type { Chunks } from "../core/chunking";
import { bestOf } from "../core/closest";
import type { Geometry } from "../core/geometry";
import type { Weights } from "../core/price";
import { stream, words } from "../core/randomness";
import { type Area, BLOCK, type Question, SIGNS } from "../core/steps";
import { DippError } from "../errors";
import { type Books, familyOf, meansOf } from "../models/books";

/** The public candidates of one round of a question. */
export interface Candidates {
  /** The candidates (candidates × dimensions) with which the content of a block is compared. */
  readonly compared: Float32Array;
  /** The value of each index to a receiver (candidates × dimensions). */
  readonly meanings: Float32Array;
  /** The signs by which the candidates of each block are multiplied (blocks × dimensions); undefined for words. */
  readonly flips: Float32Array | undefined;
}

/** The public facts of one round of a question. */
export interface Round {
  readonly number: number;
  readonly turn: number;
  readonly step: Question;
  /** The blocks of the round, by coordinates of the coarse picture. */
  readonly chunks: Chunks;
  readonly grid: Geometry;
  /** Return the pixels that a coarse pixel averages, by its row and column. */
  readonly areas: (row: number, column: number) => Area;
  readonly candidates: Candidates;
}

export function weightsOf({ indexBits, best, heavy, light }: Question): Weights {
  return { candidates: 2 ** indexBits, best, heavy, light };
}

/** Return the candidates of the `count` blocks of a round, which begin with block `first` of the step. */
export function candidatesOf(
  steps: readonly Question[],
  number: number,
  turn: number,
  { seed, channels, first, count, painted }: { seed: Uint8Array; channels: number; first: number; count: number; painted: boolean },
  books: Books | undefined,
): Candidates {
  const step = steps[number]!;
  const dims = BLOCK ** 2 * channels;
  if (step.candidate === SIGNS) {
    const compared = signs(seed, number, "question/signs", 2 ** step.indexBits * dims);
    const scale = Math.fround(step.scale);
    const flips = signs(seed, number, "question/flips", (first + count) * dims).subarray(first * dims);
    return { compared, meanings: compared.map((sign) => scale * sign), flips };
  }
  if (!books) throw new DippError("words", "are missing in the model of this page, and the file was made with words", "use `dipp decode --model`");
  const book = books.book(familyOf(steps, number, turn, painted), step.indexBits);
  if (book.words.length !== book.counts.length * dims) throw new DippError("words", "of the model are for another number of channels", "use `dipp decode --model`");
  return { compared: book.words, meanings: meansOf(book, weightsOf(step)), flips: undefined };
}

/** Return public random signs. */
function signs(seed: Uint8Array, number: number, purpose: string, count: number): Float32Array {
  return Float32Array.from(words(stream(seed, 0, number, purpose), count), (word) => (word < 2 ** 31 ? -1 : 1));
}

/** Return the mean signal of each coarse pixel of a round, in chunk order, of pixels at pixel·C + channel. */
export function coarse({ chunks, grid, areas }: Round, pixels: Uint8Array, width: number): Float32Array {
  const { channels } = grid;
  return Float32Array.from(chunks.order, (coordinate) => {
    const place = Math.floor(coordinate / channels);
    const { rows, columns } = areas(Math.floor(place / grid.width), place % grid.width);
    let sum = 0;
    for (let y = rows[0]; y < rows[1]; y += 1) {
      const first = (y * width + columns[0]) * channels + (coordinate % channels);
      const last = (y * width + columns[1]) * channels;
      for (let at = first; at < last; at += channels) sum += pixels[at]!;
    }
    return sum / ((rows[1] - rows[0]) * (columns[1] - columns[0])) / 127.5 - 1;
  });
}

/** Return the dimension within its block of a coordinate of the coarse picture. */
function slotOf(coordinate: number, { width, channels }: Geometry): number {
  const pixel = Math.floor(coordinate / channels);
  return ((Math.floor(pixel / width) % BLOCK) * BLOCK + ((pixel % width) % BLOCK)) * channels + (coordinate % channels);
}

/** Return the index of a coordinate of the coarse picture in an array (C, H, W). */
export function placeOf(coordinate: number, { height, width, channels }: Geometry): number {
  return (coordinate % channels) * height * width + Math.floor(coordinate / channels);
}

/**
 * Return the m nearest candidates of each block of a round, ascending, by the Euclidean distance over the dimensions that the
 * block has. `content` is private: what the coarse pixels have beyond their prediction, in the order of the chunks.
 */
export function nearestOf({ chunks, grid, candidates, step }: Round, content: Float32Array): Int32Array {
  const { compared, flips } = candidates;
  const count = 2 ** step.indexBits;
  const dims = compared.length / count;
  const blocks = chunks.offsets.length - 1;
  const norms = Float64Array.from({ length: count }, (_, k) => squared(compared, k * dims, dims));
  const sets = new Int32Array(blocks * step.best);
  const scores = new Float64Array(count);
  const block = new Float64Array(dims);
  const present = new Uint8Array(dims);
  for (let i = 0; i < blocks; i += 1) {
    const [begin, end] = [chunks.offsets[i]!, chunks.offsets[i + 1]!];
    block.fill(0);
    present.fill(0);
    for (let at = begin; at < end; at += 1) {
      const slot = slotOf(chunks.order[at]!, grid);
      block[slot] = 2 * content[at]! * (flips ? flips[i * dims + slot]! : 1);
      present[slot] = 1;
    }
    const whole = end - begin === dims;
    for (let k = 0, at = 0; k < count; k += 1) {
      let score = whole ? -norms[k]! : 0;
      for (let slot = 0; slot < dims; slot += 1, at += 1) score += block[slot]! * compared[at]!;
      scores[k] = whole ? score : score - squared(compared, k * dims, dims, present);
    }
    bestOf(scores, sets.subarray(i * step.best, (i + 1) * step.best));
  }
  return sets;
}

function squared(values: Float32Array, first: number, count: number, present?: Uint8Array): number {
  let sum = 0;
  for (let i = 0; i < count; i += 1) if (!present || present[i]) sum += values[first + i]! ** 2;
  return sum;
}

/** Return the value of each coordinate of a round that a receiver takes from the indices, in chunk order. */
export function observed(indices: Uint32Array, { chunks, grid, candidates: { meanings, flips }, step }: Round): Float32Array {
  const dims = meanings.length / 2 ** step.indexBits;
  const values = new Float32Array(chunks.order.length);
  for (let i = 0; i + 1 < chunks.offsets.length; i += 1) {
    for (let at = chunks.offsets[i]!; at < chunks.offsets[i + 1]!; at += 1) {
      const slot = slotOf(chunks.order[at]!, grid);
      values[at] = meanings[indices[i]! * dims + slot]! * (flips ? flips[i * dims + slot]! : 1);
    }
  }
  return values;
}
