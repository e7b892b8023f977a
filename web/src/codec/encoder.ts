/**
 * The encoder's part of the chain: the only module that reads the private pixels, once in each step.
 *
 * It returns the indices that the code has drawn, and records the integers on which their ε depends.
 */

import { drawBits, thresholds } from "../codes/pairs";
import { type Chunks, joinedChunks } from "../core/chunking";
import { drawn } from "../core/closest";
import type { Geometry } from "../core/geometry";
import type { Plan } from "../core/plan";
import { BLOCK } from "../core/steps";
import { Recorder } from "../privacy/ledger";
import type { StepLayout } from "./chain";
import { coarse, nearestOf, type Round, weightsOf } from "./questions";

export class Selector {
  readonly recorder = new Recorder();
  private asked: Chunks[] = [];

  constructor(
    private readonly plan: Plan,
    private readonly geometry: Geometry,
    /** Private: pixel·C + channel → eight bits. */
    private readonly pixels: Uint8Array,
  ) {}

  /** Draw a private bit for each touched coordinate. */
  readonly choose = ({ arithmetic, chunks, candidates }: StepLayout, centres: Int32Array): Uint32Array => {
    const table = arithmetic.levels();
    const shifts = new Int32Array(chunks.order.length);
    for (let i = 0; i < shifts.length; i += 1) {
      const level = table[this.pixels[chunks.order[i]!]!]!; // the private read
      shifts[i] = arithmetic.clipped(level - centres[i]!);
    }
    const [highest, lowest] = [table.reduce((a, b) => Math.max(a, b)), table.reduce((a, b) => Math.min(a, b))];
    const clip = arithmetic.largestShift;
    const terms = {
      sensitivity: clip === undefined ? highest - lowest : Math.min(highest - lowest, 2 * clip),
      fractionBits: arithmetic.fractionBits,
      clip,
      slope: clip === undefined ? undefined : highest,
    };
    this.recorder.observe(this.plan, this.geometry, chunks, terms, candidates);
    return Uint32Array.from(drawBits(shifts, arithmetic.limit, thresholds(arithmetic.limit, arithmetic.fractionBits)));
  };

  /** Draw a private index for each block of a round; its coarse pixels, less their prediction, rank the candidates. */
  readonly answer = (round: Round, prediction: Float32Array): Uint32Array => {
    const means = coarse(round, this.pixels, this.geometry.width); // the private read
    const content = means.map((value, i) => value - prediction[i]!);
    const weights = { ...weightsOf(round.step), candidates: round.candidates.compared.length / (BLOCK ** 2 * this.geometry.channels) };
    const indices = drawn(weights, nearestOf(round, content));
    this.asked.push(round.chunks);
    if (this.asked.length === round.step.rounds) {
      this.recorder.observe(this.plan, this.geometry, joinedChunks(this.asked), weights, weights.candidates);
      this.asked = [];
    }
    return indices;
  };
}
