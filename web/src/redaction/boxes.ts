/**
 * Boxes to hide in a picture: the pixels that they cover, and how far they must grow in a compressed file.
 *
 * *JPEG.* A pixel of a JPEG depends on the whole of its MCU and, where viewers smooth colours, on one ring of pixels beyond
 * it. So each box grows until it covers every MCU that it touches and another one around them: by 2·side − 1 pixels, whatever
 * the orientation of the file. *PNG and lossless WebP.* Pixels depend on nothing else. *Other files* mix pixels over the
 * whole picture, or choose a palette by all of them, and are refused.
 */

import type { Size } from "../core/geometry";
import { DippError } from "../errors";

/** A rectangle of whole pixels. */
export interface Box {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

/** What the compression of a file means for boxes that are hidden in it. */
export interface Compression {
  /** The number of pixels by which a box grows on each side. */
  readonly growth: number;
  /** The assumption about the original that the record states. */
  readonly assumption: string;
}

const ITS_OWN =
  "The encoder of the original coded every MCU from its own pixels alone, as libjpeg and cameras do (mozjpeg and " +
  "jpegli do not), and chose its quantisation tables, its chroma sampling, and whether it is grey, without looking at " +
  "what regions show.";
const NEVER_LOSSY =
  "The original was never compressed with loss (near-lossless WebP is), nor reduced to a palette, before it was saved " +
  "without: otherwise pixels outside a region may depend on what it shows.";
/** Markers of JPEG that begin a frame: baseline, extended and progressive. */
const FRAMES = [0xc0, 0xc1, 0xc2];

/** Return how a file was compressed; throw if boxes cannot be hidden in it. */
export function compressionOf(file: Uint8Array): Compression {
  const text = String.fromCharCode(...file.subarray(0, 16));
  if (text.startsWith("\xff\xd8\xff")) return { growth: 2 * mcuSide(file) - 1, assumption: ITS_OWN };
  const lossless = text.startsWith("\x89PNG\r\n\x1a\n") || (text.startsWith("RIFF") && text.slice(8) === "WEBPVP8L");
  if (!lossless) {
    throw new DippError(
      "the picture",
      "must be JPEG, PNG or lossless WebP to hide boxes: in other files, pixels outside a box tell of it",
      "use `dipp redact`",
    );
  }
  return { growth: 0, assumption: NEVER_LOSSY };
}

/** Return the larger side of the MCUs of a JPEG: 8 times the largest sampling factor. */
function mcuSide(file: Uint8Array): number {
  for (let at = 2; at + 9 < file.length; ) {
    if (file[at] !== 0xff) break;
    const marker = file[at + 1]!;
    if (marker === 0xff || (marker >= 0xd0 && marker <= 0xd8) || marker === 1) {
      at += marker === 0xff ? 1 : 2; // padding, or a marker without a body
      continue;
    }
    if (FRAMES.includes(marker)) {
      const components = Array.from({ length: file[at + 9]! }, (_, i) => file[at + 11 + 3 * i] ?? 0);
      const factors = components.flatMap((both) => [both >> 4, both & 15]);
      if (factors.length && factors.every((factor) => factor >= 1 && factor <= 4)) return 8 * Math.max(...factors);
      break;
    }
    at += 2 + (file[at + 2]! << 8) + file[at + 3]!;
  }
  throw new DippError("the picture", "is a JPEG that does not say how its colours are sampled", "save it anew, or use `dipp redact`");
}

/** Return a box, grown and cut at the edges of the picture; undefined if it lies outside. */
export function grown(box: Box, by: number, { width, height }: Size): Box | undefined {
  const [left, top] = [Math.max(0, Math.floor(box.left) - by), Math.max(0, Math.floor(box.top) - by)];
  const right = Math.min(width, Math.ceil(box.left + box.width) + by);
  const bottom = Math.min(height, Math.ceil(box.top + box.height) + by);
  return right > left && bottom > top ? { left, top, width: right - left, height: bottom - top } : undefined;
}

/** Return a mask with 1 for each pixel that a box covers. */
export function maskOf(boxes: readonly Box[], { width, height }: Size): Uint8Array {
  const mask = new Uint8Array(width * height);
  for (const { left, top, width: wide, height: high } of boxes) {
    for (let row = top; row < top + high; row += 1) mask.fill(1, row * width + left, row * width + left + wide);
  }
  return mask;
}

/** Return the lengths of the runs of a mask, row by row, beginning with pixels that are not covered. */
export function runsOf(mask: Uint8Array): number[] {
  const runs = [0];
  mask.forEach((covered, i) => {
    if (covered !== (i ? mask[i - 1] : 0)) runs.push(0);
    runs[runs.length - 1]! += 1;
  });
  return runs;
}
