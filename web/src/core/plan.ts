/**
 * The plan of an encoding: everything public, fixed before a picture is read, and stored in the file.
 *
 * The page knows the sign channel under the codes pairs, flat and closest.
 */

import { DippError } from "../errors";
import { Arithmetic } from "./arithmetic";
import { blockCount } from "./chunking";
import type { Code } from "./code";
import { type Geometry, pixelsOf } from "./geometry";
import { Mask } from "./masks";
import type { Terms } from "./price";
import { mostPlaces } from "./regions";
import { gridOf, isRegions, requireSequence, requireStep, type Step } from "./steps";
import { PIXEL, type Unit } from "./units";

export const MAX_PIXELS = 2 ** 31 - 1;

export class Plan {
  readonly mask: Mask;
  /** The integers of each step; those of a question decide no draw. */
  readonly arithmetics: readonly Arithmetic[];

  constructor(
    /** P of the sign channel: a step touches the share 1/P of the coordinates, where its noise is ±√P. */
    readonly period: number,
    readonly code: Code,
    readonly steps: readonly Step[],
    /** Whether each step of at least C chunks deals the C channels of a pixel to different chunks. */
    readonly separate = true,
    /** The unit that the certificate protects. */
    readonly unit: Unit = PIXEL,
  ) {
    if (!steps.length) throw new DippError("steps", "must be at least one");
    this.mask = new Mask(period);
    this.mask.requireUnit(unit);
    if (this.kind === "questions" && !separate) {
      throw new DippError("separate", "must be true where each block of a unit has a draw of its own, got false");
    }
    for (const step of steps) {
      requireStep(step, unit);
      code.require(step, unit);
    }
    requireSequence(steps);
    this.arithmetics = steps.map((step) => {
      if (step.kind === "sensing") return new Arithmetic(Math.sqrt(period), step.gain, code.alpha, { tilt: step.tilt, width: step.clip });
      return new Arithmetic(Math.sqrt(period), step.kind === "questions" ? 1 : step.gain, code.alpha);
    });
  }

  /** The kind of the steps. */
  get kind(): Step["kind"] {
    return this.steps[0]!.kind;
  }

  /** Return the number of chunks, and so of indices, of each step of a picture. */
  chunkCounts(geometry: Geometry): number[] {
    const pixels = pixelsOf(geometry);
    if (!(pixels >= 1 && pixels <= MAX_PIXELS)) throw new DippError("pixels", `must be from 1 to ${MAX_PIXELS}, got ${pixels}`);
    return this.steps.map((step, i) =>
      step.kind === "questions"
        ? blockCount(gridOf(step, this.unit, geometry))
        : Math.ceil(this.mask.count(i, pixels, geometry.channels) / step.chunkSize),
    );
  }

  /** Return the largest number of selections of a step in which a unit takes part. */
  touches(step: Step, channels: number): number {
    return step.kind === "questions" ? step.split ** 2 * (isRegions(this.unit) ? mostPlaces(this.unit.places) : 1) : this.mask.touches(channels);
  }

  /** Return whether a step of this number of chunks certainly has each part of a unit in another chunk. */
  apart(chunks: number, channels: number): boolean {
    return this.kind === "questions" || this.mask.touches(channels) === 1 || (this.separate && chunks >= channels);
  }

  /** Return the terms from which the draws of a step are priced. */
  terms(number: number): Terms {
    const step = this.steps[number]!;
    if (step.kind === "questions") {
      return { candidates: 2 ** step.indexBits, best: step.best, heavy: step.heavy, light: step.light };
    }
    const arithmetic = this.arithmetics[number]!;
    return {
      sensitivity: arithmetic.sensitivity,
      fractionBits: arithmetic.fractionBits,
      clip: arithmetic.largestShift,
      slope: arithmetic.largestShift === undefined ? undefined : arithmetic.levelOfOne,
    };
  }
}
