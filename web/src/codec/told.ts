/**
 * Answers about regions, added to what was painted there without reading them (`dipp/codec/told.py`).
 *
 * A coarse pixel is predicted by the mean of the painted picture. Answers are interpolated between the centres of the
 * coarse pixels, fall to zero within half a coarse pixel of the edge of a region, and are added to the painted picture.
 * Pixels outside the regions are those of the painted picture. Everything here is public.
 */

import { blocksByRound } from "../core/chunking";
import type { Geometry } from "../core/geometry";
import type { Plan } from "../core/plan";
import type { Place, Regions } from "../core/regions";
import { areasOf, gridOf, isRegions, partsOf, type Question } from "../core/steps";
import { DippError } from "../errors";
import type { Books } from "../models/books";
import type { Answer } from "./answers";
import { interpolated } from "./grids";
import { candidatesOf, coarse, observed, placeOf } from "./questions";

/** The distance from the edge of a region, in coarse pixels, within which answers fall to zero. */
const FALL = 0.5;

/** Ask regions one question, and return the indices and the picture with the answers. */
export function askRegions(
  plan: Plan,
  base: Uint8Array,
  geometry: Geometry,
  { seed, books, answer }: { seed: Uint8Array; books: Books | undefined; answer: Answer },
): { state: Float32Array; indices: Uint32Array } {
  const [step] = plan.steps;
  if (step?.kind !== "questions" || plan.steps.length > 1 || !isRegions(plan.unit)) throw new DippError("plan", "must ask regions one question");
  const grid = gridOf(step, plan.unit, geometry);
  const [chunks] = blocksByRound(step.rounds, grid);
  const count = chunks!.offsets.length - 1;
  const candidates = candidatesOf([step], 0, 0, { seed, channels: geometry.channels, first: 0, count, painted: true }, books);
  const round = { number: 0, turn: 0, step, chunks: chunks!, grid, areas: areasOf(step, plan.unit, geometry), candidates };
  const indices = answer(round, coarse(round, base, geometry.width));
  const told = new Float32Array(grid.height * grid.width * grid.channels);
  observed(indices, round).forEach((value, i) => (told[placeOf(chunks!.order[i]!, grid)] = value));
  return { state: shown(plan.unit, step, base, geometry, told), indices };
}

/** Return the painted picture plus the answers (C, N·parts, parts), as a state (C, H, W). */
function shown({ places }: Regions, step: Question, base: Uint8Array, { height, width, channels }: Geometry, told: Float32Array): Float32Array {
  const [parts, pixels] = [partsOf(step), height * width];
  const picture = Float32Array.from({ length: channels * pixels }, (_, i) => base[channels * (i % pixels) + Math.floor(i / pixels)]! / 127.5 - 1);
  const more = new Float32Array(picture.length);
  const asked = new Float32Array(pixels);
  places.forEach((place, number) => {
    const answers = Float32Array.from({ length: channels * parts ** 2 }, (_, i) => {
      const [channel, at] = [Math.floor(i / parts ** 2), i % parts ** 2];
      return told[(channel * places.length + number) * parts ** 2 + at]! / 2; // because what is interpolated is clipped to [−1, 1]
    });
    const values = resampled(answers, channels, parts, place);
    const weights = fading(place, parts, { height, width });
    for (let i = 0; i < place.height * place.width; i += 1) {
      const at = (place.top + Math.floor(i / place.width)) * width + place.left + (i % place.width);
      asked[at]! += 1;
      for (let channel = 0; channel < channels; channel += 1) {
        more[channel * pixels + at]! += weights[i]! * 2 * values[channel * place.height * place.width + i]!;
      }
    }
  });
  // Places of one unit may overlap.
  return picture.map((value, i) => Math.min(Math.max(value + more[i]! / Math.max(asked[i % pixels]!, 1), -1), 1));
}

/** Return the answers about a place at the centres of its pixels. */
function resampled(told: Float32Array, channels: number, parts: number, { height, width }: Place): Float32Array {
  // In parts of a pixel, so that the cuts are whole.
  const every = (count: number, step: number): Int32Array => Int32Array.from({ length: count + 1 }, (_, i) => i * step);
  const source = { rows: every(parts, height), columns: every(parts, width) };
  return interpolated(told, channels, source, { rows: every(height, parts), columns: every(width, parts) });
}

/** Return the weight of the answers: 1, and less towards the edges of a place beyond which the picture is known. */
function fading({ left, top, width, height }: Place, parts: number, whole: { height: number; width: number }): Float32Array {
  const reach = (FALL * Math.sqrt(height * width)) / parts;
  const beyond = (at: number, length: number, first: number, all: number): number =>
    Math.min(first === 0 ? Infinity : at + 1, first + length === all ? Infinity : length - at);
  return Float32Array.from({ length: height * width }, (_, i) => {
    const distance = Math.min(beyond(i % width, width, left, whole.width), beyond(Math.floor(i / width), height, top, whole.height));
    return Math.min(Math.max((distance - 0.5) / reach, 0), 1);
  });
}
