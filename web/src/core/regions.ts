/**
 * The unit `region`: everything in one declared region of a picture. Pixels outside are public (`dipp/core/regions.py`).
 * A region has one or more places, which are boxes of whole pixels; places with the same number are one unit. The page
 * makes places without masks.
 *
 * A place is divided into parts × parts coarse pixels, whatever its size: coarse pixel (i, j) of a box of h × w pixels has
 * the rows from ⌊i·h/parts⌋ up to the next such cut, one row at least, and the columns likewise. The coarse pictures of the
 * places stand one below the other.
 */

import { DippError } from "../errors";
import type { Unit } from "./units";

export interface Place {
  /** Number of the unit, from 0. */
  readonly unit: number;
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

export interface Regions extends Unit {
  readonly kind: "region";
  readonly places: readonly Place[];
}

/** Numbers of a place in files: unit, left, top, width, height and the number of runs of its mask. */
const NUMBERS = 6;
const MOST_PLACES = 1024;

/** Return boxes as places. Boxes that overlap, directly or through other boxes, are one unit. */
export function placesOf(boxes: readonly Omit<Place, "unit">[]): Place[] {
  const roots: number[] = [];
  boxes.forEach((box, number) => {
    const met = new Set(roots.filter((_, other) => meet(box, boxes[other]!)));
    const least = Math.min(number, ...met);
    roots.forEach((root, other) => met.has(root) && (roots[other] = least));
    roots.push(least);
  });
  const numbers = [...new Set(roots)];
  return boxes.map(({ left, top, width, height }, i) => ({ unit: numbers.indexOf(roots[i]!), left, top, width, height }));
}

type Rectangle = Omit<Place, "unit">;

function meet(first: Rectangle, other: Rectangle): boolean {
  return (
    Math.max(first.left, other.left) < Math.min(first.left + first.width, other.left + other.width) &&
    Math.max(first.top, other.top) < Math.min(first.top + first.height, other.top + other.height)
  );
}

/** Return the largest number of places of one unit. */
export function mostPlaces(places: readonly Place[]): number {
  return Math.max(...places.map(({ unit }) => places.filter((other) => other.unit === unit).length));
}

/** Return the unit of declared regions. */
export function regions(places: readonly Place[]): Regions {
  require(places);
  const units = 1 + Math.max(...places.map(({ unit }) => unit));
  const numbers = places.flatMap(({ unit, left, top, width, height }) => [unit, left, top, width, height, 0]);
  const view = new DataView(new ArrayBuffer(1 + 4 * numbers.length));
  view.setUint8(0, 3);
  numbers.forEach((number, i) => view.setUint32(1 + 4 * i, number, true));
  return {
    kind: "region",
    places,
    short: "region",
    words: "one declared region (everything in it) of the array that was read; what lies outside is not protected",
    reader: "somebody who knows everything else in the picture",
    bytes: new Uint8Array(view.buffer),
    count: () => units,
    of(pixel, { width }) {
      const [row, column] = [Math.floor(pixel / width), pixel % width];
      const inside = ({ left, top, width: wide, height }: Place): boolean =>
        column >= left && column < left + wide && row >= top && row < top + height;
      return places.find(inside)?.unit ?? -1;
    },
    met: (width, height) => (width * height === 1 ? 1 : units), // at most
    divisions() {
      throw new DippError("unit", "is regions, which are divided place by place");
    },
    partCount: (_, parts) => parts,
    divided: (parts) => regions(places.map(({ unit }, i) => ({ unit, left: 0, top: parts * i, width: parts, height: parts }))),
  };
}

/** Read regions from the parameters in a unit's bytes. */
export function regionsOf(parameters: Uint8Array): Regions {
  if (parameters.length % (4 * NUMBERS)) throw new DippError("regions", "have masks, which this page cannot read", "use `dipp check`");
  const view = new DataView(parameters.buffer, parameters.byteOffset, parameters.length);
  const rows = Array.from({ length: parameters.length / 4 / NUMBERS }, (_, row) =>
    Array.from({ length: NUMBERS }, (_, i) => view.getUint32(4 * (NUMBERS * row + i), true)));
  if (rows.some((row) => row[NUMBERS - 1])) throw new DippError("regions", "have masks, which this page cannot read", "use `dipp check`");
  return regions(rows.map(([unit, left, top, width, height]) =>
    ({ unit: unit!, left: left!, top: top!, width: width!, height: height! })));
}

/** Throw if units are not numbered in their order, a box is empty, or pixels belong to two units. */
function require(places: readonly Place[]): void {
  if (places.length < 1 || places.length > MOST_PLACES) throw new DippError("regions", `must have 1 to ${MOST_PLACES} places, got ${places.length}`);
  let seen = 0;
  for (const [i, place] of places.entries()) {
    if (place.width < 1 || place.height < 1) throw new DippError("regions", `have a box of ${place.width}×${place.height} pixels, which is empty`);
    if (place.unit > seen) throw new DippError("regions", "must number their units in the order of each unit's first place");
    seen = Math.max(seen, place.unit + 1);
    if (places.some((other, j) => j < i && other.unit !== place.unit && meet(place, other))) {
      throw new DippError("regions", "overlap but are different units", "give them the same number");
    }
  }
}
