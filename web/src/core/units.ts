/**
 * Units: what a certificate protects (`dipp/core/units.py`). Units divide the coordinates of a picture by a public rule,
 * which depends only on the size of the picture and on public parameters.
 */

import { DippError } from "../errors";
import type { Geometry, Size } from "./geometry";

/** Largest side of a cell, in pixels. */
const MAX_SIDE = 4096;

export interface Unit {
  readonly kind: "pixel" | "cell" | "picture" | "region";
  /** The name of a unit, to be used after "per". */
  readonly short: string;
  /** A description of the unit, which can end a sentence. */
  readonly words: string;
  /** The reader to whom the bound of ε is made, in words that follow "for". */
  readonly reader: string;
  /** The number of the kind, followed by its parameters. */
  readonly bytes: Uint8Array;
  /** Return the number of units of a picture. */
  count(size: Size): number;
  /** Return the number of the unit of a pixel, from 0 to count − 1. */
  of(pixel: number, size: Size): number;
  /** Return the largest number of units that a window can overlap in a picture of this size; by default, of any size. */
  met(width: number, height: number, size?: Size): number;
  /**
   * Return where an axis of `length` pixels is cut to divide each unit into `parts` equal parts along it. The cuts ascend
   * from 0 to `length`, and no part lies in two units.
   */
  divisions(length: number, parts: number): Int32Array;
  /** Return the number of parts of `divisions`, without computing them. */
  partCount(length: number, parts: number): number;
  /** Return this unit for the coarse picture that has one pixel for each part of `divisions`. */
  divided(parts: number): Unit;
}

const EVERYTHING = "somebody who knows everything else in the picture";

export const PIXEL: Unit = {
  kind: "pixel",
  short: "pixel",
  words: "one pixel (all its channels) of the array that was encoded",
  reader: "somebody who knows every other pixel of the picture",
  bytes: Uint8Array.of(0),
  count: ({ height, width }) => height * width,
  of: (pixel) => pixel,
  met(width, height, size) {
    const [wide, high] = within(width, height, size);
    return wide * high;
  },
  divisions() {
    throw new DippError("unit", "is a pixel, which cannot be divided into parts");
  },
  partCount() {
    throw new DippError("unit", "is a pixel, which cannot be divided into parts");
  },
  divided() {
    throw new DippError("unit", "is a pixel, which cannot be divided into parts");
  },
};

/** Return the unit of square cells, in a grid from the top left corner; the right and lower edges may cut cells off. */
export function cells(side: number): Unit {
  if (!Number.isInteger(side) || side < 2 || side > MAX_SIDE) {
    throw new DippError("unit", `must have cells with a side from 2 to ${MAX_SIDE} pixels, got ${side}`);
  }
  const short = `${side}×${side} cell`;
  const along = (length: number): number => Math.ceil(length / side);
  return {
    kind: "cell",
    short,
    words: `one ${short} (all its pixels) of the grid from the top left corner of the array that was encoded`,
    reader: EVERYTHING,
    bytes: Uint8Array.of(1, side & 255, side >> 8),
    count: ({ height, width }) => along(height) * along(width),
    of: (pixel, { width }) =>
      Math.floor(Math.floor(pixel / width) / side) * along(width) + Math.floor((pixel % width) / side),
    met(width, height, size) {
      // Along one axis w pixels from p on meet ⌊p/b⌋ … ⌊(p + w − 1)/b⌋: most at p = b − 1.
      const [wide, high] = within(width, height, size).map((length) => Math.ceil((length - 1) / side) + 1) as [number, number];
      return size ? Math.min(wide, along(size.width)) * Math.min(high, along(size.height)) : wide * high;
    },
    divisions(length, parts) {
      const step = side / parts;
      return Int32Array.from({ length: this.partCount(length, parts) + 1 }, (_, i) => Math.min(i * step, length));
    },
    partCount(length, parts) {
      if (parts < 1 || side % parts) {
        throw new DippError("unit", `is a ${short}, whose side ${parts} does not divide`, "take a multiple of it");
      }
      return Math.ceil((length * parts) / side);
    },
    divided: (parts) => cells(parts),
  };
}

/** The unit of a whole picture, which is everything but its size. */
export const PICTURE: Unit = {
  kind: "picture",
  short: "picture",
  words: "the whole picture (everything but its size), as the array that was encoded",
  reader: "somebody who knows that it is one of two pictures",
  bytes: Uint8Array.of(2),
  count: () => 1,
  of: () => 0,
  met: () => 1,
  divisions: (length, parts) =>
    Int32Array.from(new Set(Array.from({ length: parts + 1 }, (_, i) => Math.floor((i * length) / parts)))),
  partCount: (length, parts) => Math.min(length, parts),
  divided: () => PICTURE,
};

/** Read a unit from its bytes; throw if they are not those of a unit. */
export function unitOf(content: Uint8Array): Unit {
  const [number, ...parameters] = content;
  if (number === 1) {
    if (parameters.length !== 2) throw new DippError("unit", `must have 2 bytes for the side of its cells, got ${parameters.length}`);
    return cells(parameters[0]! + 256 * parameters[1]!);
  }
  const unit = number === 0 ? PIXEL : number === 2 ? PICTURE : undefined;
  if (!unit) throw new DippError("unit", `is of an unknown kind, number ${number ?? "missing"}`, "use a newer version of the page");
  if (parameters.length) throw new DippError("unit", `must have no parameters if it is a ${unit.kind}, got ${parameters.length} bytes`);
  return unit;
}

/** Return the size with the fewest units, whose certificate is the worst; undefined without sizes. */
export function smallest<T extends Size>(unit: Unit, sizes: readonly T[]): T | undefined {
  const rank = (size: T): number[] => [unit.count(size), size.height * size.width, size.height];
  const before = (a: number[], b: number[]): boolean => {
    const place = a.findIndex((value, i) => value !== b[i]);
    return place >= 0 && a[place]! < b[place]!;
  };
  return sizes.reduce<T | undefined>((least, size) => (least && !before(rank(size), rank(least)) ? least : size), undefined);
}

/** Return the number of the unit of a coordinate. */
export function unitOfCoordinate(unit: Unit, coordinate: number, geometry: Geometry): number {
  return unit.of(Math.floor(coordinate / geometry.channels), geometry);
}

function within(width: number, height: number, size: Size | undefined): [number, number] {
  return size ? [Math.min(width, size.width), Math.min(height, size.height)] : [width, height];
}
