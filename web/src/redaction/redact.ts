/**
 * Redaction: a picture without what its boxes show, so ε = 0 for them. The result depends only on the size of the picture,
 * the boxes and the pixels outside them, because hidden pixels become zeros (`without`) before anything is computed.
 */

import { rint } from "../core/exact";
import type { Picture } from "../codec/codec";
import type { Denoiser } from "../models/denoiser";
import type { Size } from "../core/geometry";
import { type Box, maskOf } from "./boxes";
import { crops } from "./crops";
import { type Known, painted } from "./paint";
import { png } from "./png";

const COLOURS = 3;

export interface Redacted {
  /** A PNG file. */
  readonly file: Uint8Array;
  /** 1 for each pixel that is hidden. */
  readonly mask: Uint8Array;
  readonly picture: Picture;
  /** Whether the file is grey, because everything outside the boxes is grey. */
  readonly grey: boolean;
}

/** Return a redacted picture whose boxes show other public pixels; a grey picture takes their first channel. */
export function pasted({ mask, picture, grey }: Redacted, shown: Uint8Array): Redacted {
  const pixels = picture.pixels.map((value, i) => (mask[Math.floor(i / COLOURS)] ? shown[grey ? i - (i % COLOURS) : i]! : value));
  const file = png(picture, grey ? pixels.filter((_, i) => i % COLOURS === 0) : pixels);
  return { file, mask, picture: { ...picture, pixels }, grey };
}

/** Return a picture with painted boxes; `progress` receives the number of finished crops and of all crops. */
export async function redact(
  picture: Picture,
  boxes: readonly Box[],
  denoiser: Denoiser,
  progress: (done: number, all: number) => Promise<void> | void,
): Promise<Redacted> {
  const mask = maskOf(boxes, picture);
  const known = without(picture, mask);
  const channels = isGrey(known) ? 1 : COLOURS; // a file must not be in colour because of what is hidden
  const made = channels === 1 ? known.filter((_, i) => i % COLOURS === 0) : known;
  const all = crops(mask, picture);
  for (const [done, { box, inCrop }] of all.entries()) {
    await progress(done, all.length);
    const part = knownOf(made, mask, picture, box);
    const signal = await painted(part, denoiser);
    inCrop.forEach((covered, i) => {
      if (!covered) return;
      const at = (Math.floor(i / picture.width) - box.top) * box.width + (i % picture.width) - box.left;
      for (let channel = 0; channel < channels; channel += 1) {
        made[channels * i + channel] = levelOf(signal[channel * part.unknown.length + at]!);
      }
    });
  }
  await progress(all.length, all.length);
  const pixels = channels === 1 ? Uint8Array.from({ length: COLOURS * made.length }, (_, i) => made[Math.floor(i / COLOURS)]!) : made;
  return { file: png(picture, made), mask, picture: { width: picture.width, height: picture.height, pixels }, grey: channels === 1 };
}

/** Return the pixels with zeros in place of hidden ones. Only this function drops private values. */
function without({ pixels }: Picture, mask: Uint8Array): Uint8Array {
  return pixels.map((value, i) => (mask[Math.floor(i / COLOURS)] ? 0 : value));
}

function isGrey(pixels: Uint8Array): boolean {
  return pixels.every((value, i) => value === pixels[i - (i % COLOURS)]);
}

/** Return a crop as a signal in [−1, 1], with zeros in unknown pixels. */
function knownOf(pixels: Uint8Array, mask: Uint8Array, { width }: Size, { left, top, width: wide, height }: Box): Known {
  const channels = pixels.length / mask.length;
  const place = (i: number): number => (top + Math.floor(i / wide)) * width + left + (i % wide);
  const unknown = Uint8Array.from({ length: wide * height }, (_, i) => mask[place(i)]!);
  const values = Float32Array.from({ length: channels * unknown.length }, (_, i) => {
    const pixel = i % unknown.length;
    const level = pixels[channels * place(pixel) + Math.floor(i / unknown.length)]!;
    return unknown[pixel] ? 0 : Math.fround(level * Math.fround(2 / 255)) - 1;
  });
  return { width: wide, height, values, unknown };
}

function levelOf(value: number): number {
  return rint(((Math.min(Math.max(value, -1), 1) + 1) / 2) * 255);
}
