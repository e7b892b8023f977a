/**
 * The cost of all files that were made of a picture in this visit. A picture is recognised by the SHA-256 of its pixels,
 * under any name; the hash never leaves the memory of the page.
 */

import type { Picture } from "../codec/codec";
import { fsum } from "../core/exact";
import { sha256 } from "../core/sha256";
import { hex } from "../format/bytes";
import type { Certificate } from "../privacy/certificate";

/** This factor covers the rounding of one sum. */
const UP = 1 + 2 ** -40;

export class Spent {
  private readonly certificates = new Map<string, Certificate[]>();

  /**
   * Add a file of a picture. Return the number of its files, and their ε together for any object of a width and height. The
   * files may have different units.
   */
  add({ width, height, pixels }: Picture, certificate: Certificate, object: readonly [number, number]): { files: number; epsilon: number } {
    const key = `${width}×${height} ${hex(sha256(pixels))}`;
    const all = [...(this.certificates.get(key) ?? []), certificate];
    this.certificates.set(key, all);
    const units = (certificate: Certificate): number => certificate.unit.met(...object, { width, height });
    return { files: all.length, epsilon: fsum(all.map((certificate) => certificate.forUnits(units(certificate)).epsilon)) * UP };
  }
}
