/**
 * What the files of a picture cost together, in this visit. A picture is the same one though it was opened again, under
 * whatever name: it is known by the SHA-256 of its pixels, which never leaves the page's memory.
 */

import type { Picture } from "../codec/codec";
import { fsum } from "../core/exact";
import { sha256 } from "../core/sha256";
import { hex } from "../format/bytes";
import type { Certificate } from "../privacy/certificate";

/** Covers the rounding of one sum. */
const UP = 1 + 2 ** -40;

export class Spent {
  private readonly made = new Map<string, Certificate[]>();

  /**
   * Note a file; the number of files of this picture, and what they cost together, for any object of a width and height.
   * Files may have different units: each says what such an object pays in it.
   */
  add({ width, height, pixels }: Picture, certificate: Certificate, object: readonly [number, number]): { files: number; epsilon: number } {
    const key = `${width}×${height} ${hex(sha256(pixels))}`;
    const all = [...(this.made.get(key) ?? []), certificate];
    this.made.set(key, all);
    const units = (one: Certificate): number => one.unit.met(...object, { width, height });
    return { files: all.length, epsilon: fsum(all.map((one) => one.forUnits(units(one)).epsilon)) * UP };
  }
}
