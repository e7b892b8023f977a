/**
 * The chain of questions, which encoder and decoder share: what is known of the coarse pixels after each answer.
 *
 *     prediction (public) → an index for each block of the round → what the indices mean → what is known → …
 *
 * Before the first question nothing is known. In its later rounds, a block is predicted from the neighbours that have
 * answered. Before every later question the network predicts the coarse picture from all answers so far, at their own
 * resolution, and the prediction is interpolated to the finer grid. Words that are unlikely beside their neighbours are
 * drawn towards them before.
 */

import { blocksByRound } from "../core/chunking";
import type { Geometry } from "../core/geometry";
import type { Plan } from "../core/plan";
import { areasOf, BLOCK, cutsOf, gridOf, type Question, roundOf, WORDS } from "../core/steps";
import type { Denoiser } from "../models/denoiser";
import type { Even } from "../models/evidence";
import type { Progress, ChainResult } from "./chain";
import { between, interpolated, pixelCuts, steadied } from "./grids";
import { candidatesOf, observed, placeOf, type Round, weightsOf } from "./questions";

/** Return an index for each block of a round, given the public prediction of its coarse pixels in chunk order. */
export type Answer = (round: Round, prediction: Float32Array) => Uint32Array;

export class Answers {
  private readonly steps: readonly Question[];

  constructor(
    private readonly plan: Plan,
    private readonly denoiser: Denoiser,
    private readonly seed: Uint8Array,
    private readonly geometry: Geometry,
  ) {
    this.steps = plan.steps.filter((step) => step.kind === "questions");
  }

  async run(answer: Answer, progress: Progress): Promise<ChainResult> {
    const chosen: number[] = [];
    const rounds = this.steps.reduce((sum, step) => sum + step.rounds, 0);
    let known = new Float32Array(0);
    let done = 0;
    for (const [number, step] of this.steps.entries()) {
      const grid = gridOf(step, this.plan.unit, this.geometry);
      let first = 0;
      for (const [turn, chunks] of blocksByRound(step.rounds, grid).entries()) {
        await progress(done++, rounds + 1);
        const count = chunks.offsets.length - 1;
        const prediction = finite(await this.predict(number, turn, known, grid));
        if (!turn) known = prediction.slice();
        const { seed, geometry: { channels } } = this;
        const candidates = candidatesOf(this.steps, number, turn, { seed, channels, first, count, painted: false }, this.denoiser.books);
        const round = { number, turn, step, chunks, grid, areas: areasOf(step, this.plan.unit, this.geometry), candidates };
        const places = chunks.order.map((coordinate) => placeOf(coordinate, grid));
        const indices = answer(round, Float32Array.from(places, (place) => prediction[place]!));
        observed(indices, round).forEach((value, i) => (known[places[i]!] = prediction[places[i]!]! + value));
        for (const index of indices) chosen.push(index);
        first += count;
      }
    }
    await progress(rounds, rounds + 1);
    const [last, onto] = [this.steps.length, pixelCuts(this.geometry)];
    const state = interpolated(known, this.geometry.channels, this.cuts(last - 1), onto);
    const expected = interpolated(finite(await this.network(last, known)), this.geometry.channels, this.cuts(last - 1), onto);
    await progress(rounds + 1, rounds + 1);
    const step = this.steps[last - 1]!;
    const end = { known: estimateOf(known, step.gain), grid: gridOf(step, this.plan.unit, this.geometry), cuts: this.cuts(last - 1) };
    return { state, expected, indices: Uint32Array.from(chosen), answers: [], end };
  }

  /** Return the public prediction of the coarse pixels before a round. */
  private async predict(number: number, turn: number, known: Float32Array, grid: Geometry): Promise<Float32Array> {
    if (turn) {
      const { rounds } = this.steps[number]!;
      const asked = Uint8Array.from({ length: grid.height * grid.width }, (_, i) =>
        roundOf(rounds, Math.floor(i / grid.width), i % grid.width, BLOCK) < turn ? 1 : 0);
      return between(known, asked, grid);
    }
    if (!number) return new Float32Array(grid.height * grid.width * grid.channels);
    return interpolated(await this.network(number, known), grid.channels, this.cuts(number - 1), this.cuts(number));
  }

  /** Return the network's prediction from the answers to the first `questions` questions, on the grid of the last of them. */
  private network(questions: number, known: Float32Array): Promise<Float32Array> {
    const step = this.steps[questions - 1]!;
    const grid = gridOf(step, this.plan.unit, this.geometry);
    const { candidates, best, heavy, light } = weightsOf(step);
    const odds = Number(BigInt(candidates - best) * light) / Number(BigInt(best) * heavy);
    const told = step.candidate === WORDS ? steadied(known, odds, grid) : known;
    return this.denoiser.predict(estimateOf(told, step.gain), grid);
  }

  private cuts(number: number): ReturnType<typeof cutsOf> {
    return cutsOf(this.steps[number]!, this.plan.unit, this.geometry);
  }
}

/** Return answers as the estimate of an evidence, because their errors are smooth within a block. */
function estimateOf(answers: Float32Array, precision: number): Even {
  return { state: new Float32Array(answers.length), precision: 0, estimate: answers, estimatePrecision: precision };
}

/** Replace values that are not finite by 0, as sender and receiver both do, so that no chain can fail. */
function finite(values: Float32Array): Float32Array<ArrayBuffer> {
  return Float32Array.from(values, (value) => (Number.isFinite(value) ? value : 0));
}
