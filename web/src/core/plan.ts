/**
 * The plan of an encoding: everything public, fixed before a picture is read, and stored in the file.
 *
 * The page knows the sign channel, whose noise is one bit a coordinate, under the codes pairs and flat. A step is one of
 * clipped sensing (tilt, clip, gain), or one along the timesteps of a diffusion, which the page can price and not decode.
 */

import { DippError } from "../errors";
import { Arithmetic } from "./arithmetic";
import type { Code } from "./code";
import { Mask } from "./masks";

export const MAX_PIXELS = 2 ** 31 - 1;
const MAX_INDEX_BITS = 22;

/** One coded step. Its floats are 32-bit ones, as the file has them. */
export interface Step {
  /** V, the largest tilt in nats, of a step of clipped sensing. */
  readonly tilt?: number;
  /** c: the residual from which on the tilt is V. */
  readonly clip?: number;
  /** Timesteps, of a step along a diffusion. */
  readonly start?: number;
  readonly end?: number;
  /** What the SNR of the state grows by. */
  readonly gain: number;
  /** Coordinates of a chunk, at most. */
  readonly chunkSize: number;
  /** log2 n: each chunk selects among 2^indexBits candidates. */
  readonly indexBits: number;
}

export class Plan {
  readonly mask: Mask;
  readonly arithmetics: readonly Arithmetic[];

  constructor(
    /** P of the sign channel: z = ±√P on the share 1/P of the coordinates that a step touches. */
    readonly period: number,
    readonly code: Code,
    readonly steps: readonly Step[],
    /** Whether the channels of a pixel are dealt to different chunks, in all steps that have at least C chunks. */
    readonly separate = true,
  ) {
    if (!steps.length) throw new DippError("steps: at least one step is needed");
    for (const step of steps) {
      code.requireSizes(step.chunkSize, step.indexBits);
      if (step.indexBits > MAX_INDEX_BITS) {
        throw new DippError(`index_bits: 1 to ${MAX_INDEX_BITS} is needed, got ${step.indexBits}`);
      }
      for (const value of [step.gain, step.tilt ?? 1, step.clip ?? 1]) {
        if (!(Number.isFinite(value) && value > 0 && value === Math.fround(value))) {
          throw new DippError(`step: finite 32-bit floats above 0 are needed, got ${value}`);
        }
      }
    }
    this.mask = new Mask(period);
    this.arithmetics = steps.map(({ gain, tilt, clip }) => {
      const clipped = tilt === undefined || clip === undefined ? undefined : { tilt, width: clip };
      return new Arithmetic(Math.sqrt(period), gain, code.alpha, clipped);
    });
  }

  /** Whether the steps are those of clipped sensing. */
  get sensing(): boolean {
    return this.steps[0]!.tilt !== undefined;
  }

  /** How many chunks, and so indices, each step of an image has. */
  chunkCounts(pixels: number, channels: number): number[] {
    if (!(pixels >= 1 && pixels <= MAX_PIXELS)) throw new DippError(`pixels: 1 to ${MAX_PIXELS} is needed`);
    return this.steps.map((step, i) => Math.ceil(this.mask.count(i, pixels, channels) / step.chunkSize));
  }

  /** Whether a step of so many chunks has no two coordinates of a pixel in one chunk, for certain. */
  apart(chunks: number, channels: number): boolean {
    return this.mask.touches(channels) === 1 || (this.separate && chunks >= channels);
  }
}
