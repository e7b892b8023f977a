/**
 * Paint regions as their surroundings suggest (`dipp/redaction/paint.py`). Only pixels that are not hidden are read, so
 * equal surroundings are painted alike.
 *
 * The denoiser is given the surroundings as exactly known, and a harmonic interpolation as an estimate of the rest. Its
 * prediction is mixed with the interpolation; the better the interpolation fits a band of known pixels around the region,
 * the more of it remains. At last grain is added, as strong as around the region.
 */

import type { Size } from "../core/geometry";
import { normals } from "../core/normals";
import { SEED_BYTES, stream } from "../core/randomness";
import type { Denoiser } from "../models/denoiser";

/** A picture (C, H, W) in [−1, 1] with zeros in unknown pixels, and a mask with 1 for each unknown pixel. */
export interface Known extends Size {
  readonly values: Float32Array;
  readonly unknown: Uint8Array;
}

/** Width in pixels of the band around a region on which the interpolation is tested. */
const BAND = 8;
/** The quantile of the squared errors in the band that counts as its error. */
const MOST = 0.75;
/** The least and the largest precision of the interpolation that the denoiser is given. */
const PRECISIONS = [8, 200] as const;
/** The error on the band at which half of the interpolation remains. */
const FLOOR = 5e-4;
/** The share of known pixels from which grain is measured: those that differ least from the mean of their 3×3 pixels. */
const FLATTEST = 0.1;
/** The deviation of white noise in which this share of pixels differs by less than 1 from the mean of their 3×3 pixels. */
const GRAIN = 7.96 / Math.sqrt(8 / 9);
/** The number of sweeps of the harmonic interpolation on each level. */
const SWEEPS = 12;
/** The seed of the noise, the same for every picture. */
const SEED = new Uint8Array(SEED_BYTES);

/** Return the picture with its unknown pixels painted; it has one channel, or as many as the denoiser. */
export async function painted(known: Known, denoiser: Denoiser): Promise<Float32Array> {
  const pixels = known.unknown.length;
  if (known.unknown.every(Boolean)) return known.values;
  const grey = known.values.length === pixels;
  const colours = grey ? { ...known, values: repeated(known.values, denoiser.channels) } : known;
  const [plain, error] = [smooth(colours), missed(colours)];
  const share = Math.fround(error ** 2 / (error ** 2 + FLOOR ** 2));
  const own = await expected(colours, plain, 1 / Math.max(error, 1e-9), denoiser);
  const mixed = restored(own.map((value, i) => share * value + (1 - share) * plain[i]!), colours);
  return withGrain({ ...known, values: grey ? mean(mixed, pixels) : mixed });
}

/** Return a picture whose channels all equal the given one. */
function repeated(values: Float32Array, channels: number): Float32Array {
  return Float32Array.from({ length: channels * values.length }, (_, i) => values[i % values.length]!);
}

/** Return the mean of the channels. */
function mean(values: Float32Array, pixels: number): Float32Array {
  return Float32Array.from({ length: pixels }, (_, i) => {
    let sum = 0;
    for (let at = i; at < values.length; at += pixels) sum += values[at]!;
    return sum / (values.length / pixels);
  });
}

/** Return the upper quartile of the squared errors of the interpolation in the band around a region; 1 without a band. */
function missed(known: Known): number {
  const { height, width, values, unknown } = known;
  const hidden = widened(known, BAND);
  const band = Array.from(unknown.keys()).filter((i) => hidden[i] && !unknown[i]);
  if (!band.length || hidden.every(Boolean)) return 1;
  const channels = values.length / unknown.length;
  const found = smooth({ height, width, values: values.map((value, i) => (hidden[i % hidden.length] ? 0 : value)), unknown: hidden });
  const errors = band.map((i) => {
    let sum = 0;
    for (let at = i; at < values.length; at += unknown.length) sum += (found[at]! - values[at]!) ** 2;
    return sum / channels;
  });
  return belowWhich(errors, MOST);
}

/** Return the mask of unknown pixels, grown by a number of rows and columns. */
function widened({ height, width, unknown }: Known, by: number): Uint8Array {
  const near = (from: Uint8Array, count: number, length: number, step: number, stride: number): Uint8Array => {
    const made = new Uint8Array(from.length);
    for (let line = 0; line < count; line += 1) {
      for (let i = 0; i < length; i += 1) {
        if (!from[line * stride + i * step]) continue;
        for (let at = Math.max(0, i - by); at <= Math.min(length - 1, i + by); at += 1) made[line * stride + at * step] = 1;
      }
    }
    return made;
  };
  return near(near(unknown, height, width, 1, width), width, height, width, 1);
}

/** Return the denoiser's prediction from known pixels and an interpolation of the others. */
function expected(known: Known, plain: Float32Array, precision: number, denoiser: Denoiser): Promise<Float32Array> {
  const { values, unknown } = known;
  const told = Math.min(Math.max(precision, PRECISIONS[0]), PRECISIONS[1]);
  const hidden = (i: number): number => unknown[i % unknown.length]!;
  const evidence = {
    state: values.map((value, i) => (hidden(i) ? 0 : value)),
    precision: Float32Array.from(unknown, (one) => (one ? 0 : Infinity)),
    estimate: plain.map((value, i) => (hidden(i) ? value : 0)),
    estimatePrecision: Float32Array.from(unknown, (one) => (one ? told : 0)),
  };
  return denoiser.predict(evidence, known);
}

/** Return a picture in which known pixels keep their values. */
function restored(picture: Float32Array, { values, unknown }: Known): Float32Array {
  return picture.map((value, i) => (unknown[i % unknown.length] ? value : values[i]!));
}

/** Return the picture with grain in its unknown pixels: grey noise of a fixed seed, as strong as in the known pixels. */
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

/** Return a quantile of numbers, interpolated. */
function belowWhich(numbers: number[], part: number): number {
  const sorted = Float32Array.from(numbers).sort();
  const at = (sorted.length - 1) * part;
  const [low, high] = [sorted[Math.floor(at)]!, sorted[Math.ceil(at)]!];
  return low + (high - low) * (at - Math.floor(at));
}

/** Return the picture of half the size: the means of the known pixels of 2×2 squares. A square without any is unknown. */
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

/** Return a picture of twice the size, by linear interpolation, cut to the size `to`. */
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

/** Return the picture with a harmonic interpolation in its unknown pixels, computed from coarse to fine. */
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

/** Return the picture with the mean of its known pixels in the unknown ones; mid-grey if no pixel is known. */
function flat({ values, unknown }: Known): Float32Array {
  const count = unknown.length - unknown.reduce((sum, hidden) => sum + hidden, 0);
  const means = Array.from({ length: values.length / unknown.length }, (_, channel) => {
    let sum = 0;
    unknown.forEach((hidden, i) => (sum += hidden ? 0 : values[channel * unknown.length + i]!));
    return count ? sum / count : 0;
  });
  return values.map((value, i) => (unknown[i % unknown.length] ? means[Math.floor(i / unknown.length)]! : value));
}
