/**
 * Rivals of the same unit and ε: noise on every pixel, and DP-Pix [Fan, 2018], which adds noise to the means of blocks. The
 * same network denoises both. A blur has no ε. These pictures are only for comparison on the page, and must not be
 * released, because their noise is not exact.
 */

import { interpolated, pixelCuts } from "../codec/grids";
import type { Picture } from "../codec/codec";
import type { Size } from "../core/geometry";
import { privateWords } from "../core/randomness";
import type { Cuts } from "../core/steps";
import { cells, type Unit } from "../core/units";
import type { Denoiser } from "../models/denoiser";

/** The side in pixels of DP-Pix's blocks if the unit is a pixel. */
const BLOCK_SIDE = 4;
const CHANNELS = 3;

/** Return the means of blocks with noise, denoised and enlarged. */
export async function pixelated(picture: Picture, unit: Unit, epsilon: number, denoiser: Denoiser): Promise<Float32Array> {
  const cuts = blockCuts(unit, picture);
  const smallest = unit.kind === "pixel" ? BLOCK_SIDE ** 2 : 1;
  return denoised(means(picture, cuts), cuts, (2 * CHANNELS) / (epsilon * smallest), picture, denoiser);
}

/** Return the picture with noise on every pixel, denoised; the pixels of a unit share its ε. */
export async function noised(picture: Picture, unit: Unit, epsilon: number, denoiser: Denoiser): Promise<Float32Array> {
  const cuts = pixelCuts(picture);
  const pixels = (picture.width * picture.height) / unit.count(picture);
  const whole = unit.kind === "cell" ? unit.divisions(picture.width, 1)[1]! ** 2 : pixels;
  return denoised(means(picture, cuts), cuts, (2 * CHANNELS * whole) / epsilon, picture, denoiser);
}

/** Return the means of blocks as large as the unit, smoothed. It has no guarantee. */
export function blurred(picture: Picture, unit: Unit): Float32Array {
  const cuts = blockCuts(unit, picture);
  return interpolated(means(picture, cuts), CHANNELS, cuts, pixelCuts(picture));
}

/** Return the blocks for a unit: one for each cell, one for the whole picture, and small ones for pixels. */
function blockCuts(unit: Unit, { height, width }: Size): Cuts {
  const blocks = unit.kind === "pixel" ? cells(BLOCK_SIDE) : unit;
  return { rows: blocks.divisions(height, 1), columns: blocks.divisions(width, 1) };
}

/** Add Laplace noise of a scale to a signal, and return the network's prediction of the signal. */
async function denoised(values: Float32Array, cuts: Cuts, scale: number, size: Size, denoiser: Denoiser): Promise<Float32Array> {
  const words = privateWords(values.length);
  const noisy = values.map((value, i) => {
    const uniform = (Number(words[i]! >> 11n) + 0.5) * 2 ** -53 - 0.5; // in (−½, ½)
    return value - scale * Math.sign(uniform) * Math.log1p(-2 * Math.abs(uniform));
  });
  const grid = { height: cuts.rows.length - 1, width: cuts.columns.length - 1 };
  const prediction = await denoiser.predict({ state: noisy, precision: 1 / (2 * scale ** 2) }, grid);
  return interpolated(prediction, CHANNELS, cuts, pixelCuts(size));
}

/** Return the mean signal of each block, (C, rows, columns). */
function means({ pixels, width }: Picture, { rows, columns }: Cuts): Float32Array {
  const [high, wide] = [rows.length - 1, columns.length - 1];
  return Float32Array.from({ length: CHANNELS * high * wide }, (_, i) => {
    const [channel, row, column] = [Math.floor(i / (high * wide)), Math.floor(i / wide) % high, i % wide];
    let sum = 0;
    for (let y = rows[row]!; y < rows[row + 1]!; y += 1) {
      for (let x = columns[column]!; x < columns[column + 1]!; x += 1) sum += pixels[CHANNELS * (y * width + x) + channel]!;
    }
    return sum / ((rows[row + 1]! - rows[row]!) * (columns[column + 1]! - columns[column]!)) / 127.5 - 1;
  });
}
