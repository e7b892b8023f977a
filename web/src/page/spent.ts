/**
 * What the files of a picture cost together, in this visit. A picture is the same one though it was opened again, under
 * whatever name: it is known by the SHA-256 of its pixels, which never leaves the page's memory.
 */

import type { Picture } from "../codec/codec";
import { fsum } from "../core/exact";
import { sha256 } from "../core/sha256";
import { hex } from "../format/bytes";

/** Covers the rounding of one sum. */
const UP = 1 + 2 ** -40;

export class Spent {
  private readonly made = new Map<string, number[]>();

  /** Note a file of so many ε; the number of files of this picture, and what they cost together. */
  add({ width, height, pixels }: Picture, epsilon: number): { files: number; epsilon: number } {
    const key = `${width}×${height} ${hex(sha256(pixels))}`;
    const all = [...(this.made.get(key) ?? []), epsilon];
    this.made.set(key, all);
    return { files: all.length, epsilon: fsum(all) * UP };
  }
}
