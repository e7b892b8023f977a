/**
 * Samples: pictures that are consistent with a file. Two samples differ in what the file does not tell. With precision s
 * of the state y and the network's prediction x̂0, each step adds one noisy observation of the prediction, of SNR g:
 *
 *     y ← (s·y + g·x̂0 + √g·z)/(s + g),      s ← s + g
 *
 * This is ancestral sampling along SNRs. Noise comes from the file's public seed. Nothing here is private.
 */

import type { Geometry } from "../core/geometry";
import type { Cuts } from "../core/steps";
import { type Stream, stream, words } from "../core/randomness";
import type { Denoiser } from "../models/denoiser";
import { type Even, merged } from "../models/evidence";
import { averaged, squares } from "./grids";

/** What is known at the end of a chain, with its grid and the rows and columns at which the grid cuts the picture. */
export interface ChainEnd {
  readonly known: Even;
  readonly grid: Geometry;
  readonly cuts: Cuts;
}

/** Return the end of a chain on a coarser grid, of at most `pixels` coarse pixels, by means of its state. */
export function coarser(end: ChainEnd, pixels: number): ChainEnd {
  const { known, grid } = end;
  const side = 2 ** Math.max(0, Math.ceil(Math.log2((grid.height * grid.width) / pixels) / 2));
  if (side === 1 || known.estimate) return end; // a grid of answers is coarse already
  const cuts = { rows: squares(grid.height, side), columns: squares(grid.width, side) };
  return {
    known: { state: averaged(known.state, grid, side), precision: known.precision * side ** 2 },
    grid: { ...grid, height: cuts.rows.length - 1, width: cuts.columns.length - 1 },
    cuts,
  };
}

/** SNR at which hardly any noise is left. */
const CLEAR = 400;

/** Return sample `number` from what is known, by `calls` network calls. */
export async function sampled(
  denoiser: Denoiser,
  { known, grid }: ChainEnd,
  { seed, number, calls }: { seed: Uint8Array; number: number; calls: number },
): Promise<Float32Array> {
  const state = known.state.slice();
  let { precision } = known;
  let level = merged(known).precision;
  const growth = Math.max(CLEAR / level, 2) ** (1 / (calls - 1));
  for (let call = 0; ; call += 1) {
    const prediction = await denoiser.predict({ ...known, state, precision }, grid);
    if (call === calls - 1) return prediction;
    const gain = level * (growth - 1);
    const noise = normals(stream(seed, number, call, "page/samples"), state.length);
    const total = precision + gain;
    for (let i = 0; i < state.length; i += 1) state[i] = (precision * state[i]! + gain * prediction[i]! + Math.sqrt(gain) * noise[i]!) / total;
    precision = total;
    level += gain;
  }
}

/** Return standard normal numbers of a public stream, by the method of Box and Muller. */
function normals(source: Stream, count: number): Float32Array {
  const drawn = words(source, 2 * count);
  return Float32Array.from({ length: count }, (_, i) => {
    const [u, v] = [(drawn[2 * i]! + 0.5) / 2 ** 32, drawn[2 * i + 1]! / 2 ** 32];
    return Math.sqrt(-2 * Math.log(u)) * Math.cos(2 * Math.PI * v);
  });
}
