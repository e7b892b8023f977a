/**
 * The coded chain of sensing: the one loop that encoder and decoder share. Questions have their own (`answers.ts`).
 *
 *     first state → for each step: x̂0 (public) → an index for each chunk → noise → next state → …
 *
 * The two differ only in where the indices come from: the encoder selects them by the private picture, the decoder reads
 * them from the file. All else is a function of the plan, the public seed and the indices.
 */

import { winner } from "../codes/flat";
import { PAIRS } from "../codes/pairs";
import type { Arithmetic } from "../core/arithmetic";
import { type Chunks, chunks, NOTHING } from "../core/chunking";
import { type Geometry, pixelsOf } from "../core/geometry";
import type { Plan } from "../core/plan";
import { stream } from "../core/randomness";
import type { Denoiser } from "../models/denoiser";
import { pixelCuts } from "./grids";
import type { ChainEnd } from "./sampling";
import { Sensing } from "./trajectory";

/** The public facts of one step of a picture. */
export interface StepLayout {
  readonly number: number;
  readonly arithmetic: Arithmetic;
  readonly chunks: Chunks;
  readonly candidates: number;
}

/** Return an index for each chunk, given the centres c of the touched coordinates in chunk order. */
export type Choose = (layout: StepLayout, centres: Int32Array) => Uint32Array;

/** The bits of a step of pairs, with the coordinates and the centres that they are about. */
export interface PairAnswers {
  readonly arithmetic: Arithmetic;
  readonly coordinates: Int32Array;
  readonly centres: Int32Array;
  readonly bits: Uint8Array;
}

/** The result of a chain. */
export interface ChainResult {
  /** The last state y, (C, H, W). */
  readonly state: Float32Array;
  /** The expected picture, (C, H, W) within [−1, 1]. */
  readonly expected: Float32Array;
  readonly indices: Uint32Array;
  readonly answers: readonly PairAnswers[];
  /** What is known at the end, on the grid of the last step; samples begin there. */
  readonly end: ChainEnd;
}

/** Callback before each network call; receives the calls made and the calls in all, and may throw to stop. */
export type Progress = (done: number, calls: number) => void | Promise<void>;

export class Chain {
  private readonly pixels: number;
  private readonly channels: number;
  private readonly trajectory: Sensing;

  constructor(
    private readonly plan: Plan,
    denoiser: Denoiser,
    private readonly seed: Uint8Array,
    private readonly geometry: Geometry,
    /** The number of the picture in its archive. */
    private readonly image = 0,
  ) {
    this.pixels = pixelsOf(geometry);
    this.channels = geometry.channels;
    this.trajectory = new Sensing(plan, denoiser, geometry);
  }

  async run(choose: Choose, progress: Progress): Promise<ChainResult> {
    const state = new Float32Array(this.pixels * this.channels);
    const chosen: Uint32Array[] = [];
    const answers: PairAnswers[] = [];
    const count = this.plan.steps.length;
    for (let number = 0; number < count; number += 1) {
      await progress(number, count + 1);
      const layout = this.layout(number);
      const prediction = await this.trajectory.predict(number, state);
      const places = layout.chunks.order.map((i) => (i % this.channels) * this.pixels + Math.floor(i / this.channels));
      const centres = places.map((place) => layout.arithmetic.centre(prediction[place]!));
      const indices = choose(layout, centres);
      const bits = this.bits(layout, indices);
      this.trajectory.advance(number, state, prediction === state ? state.slice() : prediction, places, bits);
      chosen.push(indices);
      answers.push({ arithmetic: layout.arithmetic, coordinates: layout.chunks.order, centres, bits });
    }
    await progress(count, count + 1);
    const expected = await this.trajectory.predict(count, state);
    await progress(count + 1, count + 1);
    const total = chosen.reduce((sum, part) => sum + part.length, 0);
    const indices = new Uint32Array(total);
    let at = 0;
    for (const part of chosen) {
      indices.set(part, at);
      at += part.length;
    }
    const end = { known: { state, precision: this.trajectory.snr(count) }, grid: this.geometry, cuts: pixelCuts(this.geometry) };
    return { state, expected, indices, answers, end };
  }

  private layout(number: number): StepLayout {
    const step = this.plan.steps[number]!;
    const touched = this.plan.mask.touched(this.seed, number, this.pixels, this.channels);
    const count = Math.ceil(touched.length / step.chunkSize);
    const apart = this.plan.apart(count, this.channels) ? this.channels : 1;
    const dims = this.pixels * this.channels;
    return {
      number,
      arithmetic: this.plan.arithmetics[number]!,
      chunks: touched.length ? chunks(this.seed, number, dims, count, apart, touched) : NOTHING,
      candidates: 2 ** step.indexBits,
    };
  }

  /** Return the bit of each coordinate in the chosen candidates; with pairs, the index is the bit. */
  private bits(layout: StepLayout, indices: Uint32Array): Uint8Array {
    if (this.plan.code.name === PAIRS.name) return Uint8Array.from(indices);
    const source = stream(this.seed, this.image, layout.number);
    const { order, offsets } = layout.chunks;
    const bits = new Uint8Array(order.length);
    indices.forEach((index, chunk) => {
      winner(source, chunk, offsets[chunk + 1]! - offsets[chunk]!, index, bits, offsets[chunk]!);
    });
    return bits;
  }
}
