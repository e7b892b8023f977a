/**
 * What is painted in the place of a region: what its surroundings suggest (`dipp/redaction/paint.py`). It reads a picture
 * without its hidden pixels, and nothing else; equal surroundings are painted alike.
 *
 * A pyramid of means of the known pixels is filled from the coarsest level on. On each level the denoiser is asked for the
 * expected picture behind the current one, whose unknown pixels got noise of a fixed seed, and the known pixels are put
 * back. What a large region shows is guessed several times, and the mean is taken. In thick regions a share of the harmonic
 * interpolation is mixed in. At the end comes grain as strong as around the region.
 */

import type { Size } from "../core/geometry";
import { normals } from "../core/normals";
import { SEED_BYTES, stream } from "../core/randomness";
import type { Denoiser } from "../models/denoiser";

/** A picture (C, H, W) in [−1, 1], with zeros where nothing is known, and 1 for each pixel that is not known. */
export interface Known extends Size {
  readonly values: Float32Array;
  readonly unknown: Uint8Array;
}

/** Pixels of the side of a region at the coarsest level, at most. */
const COARSEST = 24;
/** Paintings with other noise whose mean is taken. */
const TRIES = 4;
/** Pixels of all tries on a level, at most: on finer levels there are fewer of them, and one on the finest. */
const TRIED = 1 << 17;
/** Pixels for which the denoiser is asked; on finer levels, what is painted is only scaled up. */
const LARGEST_CALL = 1 << 20;
/** SNRs of the calls on the coarsest level, on those between, and on the finest. */
const SNRS = { coarse: [4, 8, 16, 32, 64], middle: [4, 16, 64], fine: [32] };
/** Thickness in pixels up to which a region is painted by the denoiser alone. */
const THIN = 64;
/** Share of the known pixels by which grain is measured: those that differ least from the mean of their nine. */
const FLATTEST = 0.1;
/** Deviation of white noise in which that share of the pixels differ by less than 1 from the mean of their nine. */
const GRAIN = 7.96 / Math.sqrt(8 / 9);
/** Sweeps of the harmonic interpolation, on each level. */
const SWEEPS = 12;
/** Seed of the noise, which is the same for every picture. */
const SEED = new Uint8Array(SEED_BYTES);

/** The picture, of one channel or those of the denoiser, with what the surroundings suggest where nothing is known. */
export async function painted(known: Known, denoiser: Denoiser): Promise<Float32Array> {
  const pixels = known.unknown.length;
  if (known.unknown.every(Boolean)) return known.values;
  const grey = known.values.length === pixels;
  const colours = grey ? { ...known, values: repeated(known.values, denoiser.channels) } : known;
  const share = Math.fround(Math.min(1, Math.sqrt(THIN / thickness(known))));
  const own = await expected(colours, denoiser);
  const plain = share < 1 ? smooth(colours) : own;
  const mixed = restored(own.map((value, i) => share * value + (1 - share) * plain[i]!), colours);
  return withGrain({ ...known, values: grey ? mean(mixed, pixels) : mixed });
}

/** One channel, several times. */
function repeated(values: Float32Array, channels: number): Float32Array {
  return Float32Array.from({ length: channels * values.length }, (_, i) => values[i % values.length]!);
}

/** The mean of the channels. */
function mean(values: Float32Array, pixels: number): Float32Array {
  return Float32Array.from({ length: pixels }, (_, i) => {
    let sum = 0;
    for (let at = i; at < values.length; at += pixels) sum += values[at]!;
    return sum / (values.length / pixels);
  });
}

/** The denoiser's painting. */
async function expected(known: Known, denoiser: Denoiser): Promise<Float32Array> {
  const levels = [known];
  for (let side = extent(known); side > COARSEST && Math.min(levels.at(-1)!.height, levels.at(-1)!.width) >= 16; side /= 2) {
    levels.push(halved(levels.at(-1)!));
  }
  let tries = Array.from({ length: TRIES }, () => smooth(levels.at(-1)!));
  let calls = 0;
  for (let level = levels.length - 1; level >= 0; level -= 1) {
    const given = levels[level]!;
    const pixels = given.height * given.width;
    const name = level === levels.length - 1 ? "coarse" : level ? "middle" : "fine";
    tries = means(tries, name === "fine" ? 1 : Math.min(TRIES, Math.max(1, Math.floor(TRIED / pixels))));
    if (name !== "coarse") tries = tries.map((one) => restored(doubled(one, levels[level + 1]!, given), given));
    if (pixels > LARGEST_CALL) continue;
    for (const snr of SNRS[name]) {
      const size = tries[0]!.length;
      const noise = normals(stream(SEED, 0, calls++, "paint"), tries.length * size); // in the order of try, pixel, channel
      for (const [number, picture] of tries.entries()) {
        const state = picture.map((value, i) => {
          const drawn = noise[number * size + ((i % pixels) * size) / pixels + Math.floor(i / pixels)]!;
          return given.unknown[i % pixels] ? value + drawn / Math.fround(Math.sqrt(snr)) : value;
        });
        tries[number] = restored(await denoiser.predict({ state, precision: snr }, given), given);
      }
    }
  }
  return means(tries, 1)[0]!;
}

/** The means of a number of groups of pictures, as equal in size as can be. */
function means(pictures: Float32Array[], count: number): Float32Array[] {
  if (pictures.length <= count) return pictures;
  return Array.from({ length: count }, (_, first) => {
    const group = pictures.filter((_, i) => i % count === first);
    return group[0]!.map((_, i) => group.reduce((sum, one) => sum + one[i]!, 0) / group.length);
  });
}

/** The largest width of what is not known: twice the distance between an unknown pixel and the nearest known one. */
function thickness({ width, unknown }: Known): number {
  // The distance along the column first, then the best of the row within it.
  const down = Float64Array.from(unknown, (hidden) => (hidden ? Infinity : 0));
  for (let i = width; i < down.length; i += 1) down[i] = Math.min(down[i]!, down[i - width]! + 1);
  for (let i = down.length - width - 1; i >= 0; i -= 1) down[i] = Math.min(down[i]!, down[i + width]! + 1);
  let most = 0;
  for (let i = 0; i < down.length; i += 1) {
    const column = i % width;
    let least = down[i]! ** 2;
    for (let away = 1; away ** 2 < least && (away <= column || column + away < width); away += 1) {
      if (away <= column) least = Math.min(least, away ** 2 + down[i - away]! ** 2);
      if (column + away < width) least = Math.min(least, away ** 2 + down[i + away]! ** 2);
    }
    most = Math.max(most, least);
  }
  return 2 * Math.sqrt(most);
}

/** The larger of height and width of what is not known. */
function extent({ width, unknown }: Known): number {
  let [top, bottom, left, right] = [Infinity, 0, Infinity, 0];
  unknown.forEach((hidden, i) => {
    if (!hidden) return;
    const [row, column] = [Math.floor(i / width), i % width];
    [top, bottom, left, right] = [Math.min(top, row), Math.max(bottom, row), Math.min(left, column), Math.max(right, column)];
  });
  return Math.max(bottom - top, right - left) + 1;
}

/** A picture with its known pixels put back. */
function restored(picture: Float32Array, { values, unknown }: Known): Float32Array {
  return picture.map((value, i) => (unknown[i % unknown.length] ? value : values[i]!));
}

/** The picture with grain in its unknown pixels: grey noise of a fixed seed, as strong as around them. */
function withGrain({ height, width, values, unknown }: Known): Float32Array {
  const pixels = height * width;
  const luma = mean(values, pixels);
  const within = (at: number, length: number): number => Math.min(Math.max(at, 0), length - 1);
  const differences: number[] = [];
  for (let row = 0; row < height; row += 1) {
    for (let column = 0; column < width; column += 1) {
      let [sum, clear] = [0, true];
      for (let y = row - 1; y <= row + 1; y += 1) {
        for (let x = column - 1; x <= column + 1; x += 1) {
          sum += luma[within(y, height) * width + within(x, width)]!;
          clear &&= y >= 0 && x >= 0 && y < height && x < width && !unknown[y * width + x];
        }
      }
      if (clear) differences.push(Math.abs(luma[row * width + column]! - sum / 9));
    }
  }
  if (!differences.length) return values;
  const strength = GRAIN * belowWhich(differences, FLATTEST);
  const noise = normals(stream(SEED, 0, 0, "grain"), pixels);
  return values.map((value, i) => (unknown[i % pixels] ? value + strength * noise[i % pixels]! : value));
}

/** The number below which a share of the numbers lie, interpolated. */
function belowWhich(numbers: number[], part: number): number {
  const sorted = Float32Array.from(numbers).sort();
  const at = (sorted.length - 1) * part;
  const [low, high] = [sorted[Math.floor(at)]!, sorted[Math.ceil(at)]!];
  return low + (high - low) * (at - Math.floor(at));
}

/** Means of the known pixels of 2×2 squares; a square is unknown if none of its pixels is known. */
export function halved({ height, width, values, unknown }: Known): Known {
  const [high, wide] = [Math.ceil(height / 2), Math.ceil(width / 2)];
  const channels = values.length / (height * width);
  const small = { height: high, width: wide, values: new Float32Array(channels * high * wide), unknown: new Uint8Array(high * wide) };
  for (let square = 0; square < high * wide; square += 1) {
    const [row, column] = [2 * Math.floor(square / wide), 2 * (square % wide)];
    const places = [[row, column], [row, column + 1], [row + 1, column], [row + 1, column + 1]]
      .filter(([y, x]) => y! < height && x! < width && !unknown[y! * width + x!])
      .map(([y, x]) => y! * width + x!);
    small.unknown[square] = places.length ? 0 : 1;
    for (let channel = 0; channel < channels && places.length; channel += 1) {
      const sum = places.reduce((total, place) => total + values[channel * height * width + place]!, 0);
      small.values[channel * high * wide + square] = sum / places.length;
    }
  }
  return small;
}

/** A picture of twice the size, by linear interpolation, cut to a size. */
export function doubled(picture: Float32Array, from: Size, to: Size): Float32Array {
  const channels = picture.length / (from.height * from.width);
  const axis = (length: number): { first: number; second: number; share: number }[] =>
    Array.from({ length: 2 * length }, (_, i) => {
      const place = (i - 0.5) / 2;
      const first = Math.min(Math.max(Math.floor(place), 0), length - 1);
      return { first, second: Math.min(first + 1, length - 1), share: Math.fround(Math.min(Math.max(place - first, 0), 1)) };
    });
  const [rows, columns] = [axis(from.height), axis(from.width)];
  const made = new Float32Array(channels * to.height * to.width);
  for (let channel = 0; channel < channels; channel += 1) {
    for (let row = 0; row < to.height; row += 1) {
      const down = rows[row]!;
      const at = (y: number, x: number): number => picture[(channel * from.height + y) * from.width + x]!;
      const between = (x: number): number => Math.fround(at(down.first, x) * (1 - down.share) + at(down.second, x) * down.share);
      for (let column = 0; column < to.width; column += 1) {
        const { first, second, share } = columns[column]!;
        made[(channel * to.height + row) * to.width + column] = between(first) * (1 - share) + between(second) * share;
      }
    }
  }
  return made;
}

/** The picture with a harmonic interpolation of the known pixels, from the coarsest squares to the finest. */
export function smooth(known: Known): Float32Array {
  const { height, width, values, unknown } = known;
  const pixels = height * width;
  const channels = values.length / pixels;
  if (!unknown.some(Boolean) || Math.min(height, width) < 4) return flat(known);
  const coarse = halved(known);
  const picture = restored(doubled(smooth(coarse), coarse, known), known);
  const squares = [0, 1].map((colour) =>
    Array.from(unknown.keys()).filter((i) => unknown[i] && (Math.floor(i / width) + (i % width)) % 2 === colour));
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    for (const square of squares) {
      for (const i of square) {
        const [row, column] = [Math.floor(i / width), i % width];
        const [above, below] = [row ? i - width : i, row < height - 1 ? i + width : i];
        const [left, right] = [column ? i - 1 : i, column < width - 1 ? i + 1 : i];
        for (let at = 0; at < channels * pixels; at += pixels) {
          picture[at + i] = (picture[at + above]! + picture[at + below]! + picture[at + left]! + picture[at + right]!) / 4;
        }
      }
    }
  }
  return picture;
}

/** The picture with the mean of its known pixels where nothing is known; grey if nothing is. */
function flat({ values, unknown }: Known): Float32Array {
  const count = unknown.length - unknown.reduce((sum, hidden) => sum + hidden, 0);
  const means = Array.from({ length: values.length / unknown.length }, (_, channel) => {
    let sum = 0;
    unknown.forEach((hidden, i) => (sum += hidden ? 0 : values[channel * unknown.length + i]!));
    return count ? sum / count : 0;
  });
  return values.map((value, i) => (unknown[i % unknown.length] ? means[Math.floor(i / unknown.length)]! : value));
}
