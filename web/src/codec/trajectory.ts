/**
 * The public state of a picture along a plan of sensing: y, an estimate of x0 with noise of power 1/SNR. With SNR s so
 * far and the gain g of a step, it is the precision-weighted mean of what was known and of the new observation:
 *
 *     y ← (s·y + g·x̂0 + √g·z)/(s + g),      s ← s + g
 *
 * A network that takes answers is also told the value with which each coordinate was last compared, and the answer.
 *
 * Before the first step nothing is known: the prediction is mid-grey, and no network is called. A step of level ℓ is
 * predicted from the means of y over 2^ℓ × 2^ℓ pixels, whose noise has the power 1/(4^ℓ·s).
 */

import { fsum } from "../core/exact";
import type { Size } from "../core/geometry";
import type { Plan } from "../core/plan";
import { DippError, FILE } from "../errors";
import type { Denoiser } from "../models/denoiser";
import { answerSize } from "../models/evidence";
import { averaged, interpolated, pixelCuts, squares } from "./grids";

export class Sensing {
  /** The value with which each coordinate was last compared, and its answer; undefined if the network takes no answers. */
  private told: { readonly compared: Float32Array; readonly answers: Float32Array } | undefined;

  constructor(
    private readonly plan: Plan,
    private readonly denoiser: Denoiser,
    private readonly size: Size,
  ) {
    if (plan.kind !== "sensing") throw new DippError(FILE, "takes steps along timesteps, which this page cannot decode", "use `dipp decode`");
  }

  /** Return the SNR after a number of steps: the exact sum of their gains. */
  snr(steps: number): number {
    return fsum(this.plan.steps.slice(0, steps).map((step) => step.gain));
  }

  /** Return x̂0 before a step; sender and receiver both replace values that are not finite by 0. */
  async predict(number: number, state: Float32Array): Promise<Float32Array> {
    if (!number) return state;
    const prediction = await this.answer(number, state);
    return prediction.map((value) => (Number.isFinite(value) ? value : 0));
  }

  /** Return the denoiser's prediction before a step, computed at the step's resolution; after the last step, at the full one. */
  private async answer(number: number, state: Float32Array): Promise<Float32Array> {
    const step = this.plan.steps[number];
    const side = step?.kind === "sensing" ? 2 ** step.level : 1;
    const snr = this.snr(number);
    if (side === 1) return this.denoiser.predict({ state, precision: snr, ...this.told }, this.size);
    const { height, width } = this.size;
    const cuts = { rows: squares(height, side), columns: squares(width, side) };
    const coarse = { height: cuts.rows.length - 1, width: cuts.columns.length - 1 };
    const channels = state.length / (height * width);
    const means = averaged(state, this.size, side);
    const prediction = await this.denoiser.predict({ state: means, precision: snr * side ** 2 }, coarse);
    return interpolated(prediction, channels, cuts, pixelCuts(this.size));
  }

  /** Change the state to that after a step, whose noise is ±√P by `bits` at `places`, and 0 elsewhere. */
  advance(number: number, state: Float32Array, prediction: Float32Array, places: Int32Array, bits: Uint8Array): void {
    const before = this.snr(number);
    const gain = this.plan.steps[number]!.gain;
    const total = before + gain;
    const [known, told, sensed] = [before / total, gain / total, Math.sqrt(gain) / total].map(Math.fround);
    const size = Math.fround(Math.sqrt(this.plan.period));
    const noise = Math.fround(sensed! * size);
    this.tell(prediction, places, bits, answerSize(size, gain, before));
    for (let i = 0; i < state.length; i += 1) {
      state[i] = Math.fround(known! * state[i]!) + Math.fround(told! * prediction[i]!);
    }
    for (let i = 0; i < places.length; i += 1) state[places[i]!]! += bits[i] ? noise : -noise;
  }

  /** Record the answers of a step: ±size at `places`, by `bits`. */
  private tell(prediction: Float32Array, places: Int32Array, bits: Uint8Array, size: number): void {
    if (!this.denoiser.planes.includes("answer")) return;
    const { length } = prediction;
    this.told ??= { compared: new Float32Array(length), answers: new Float32Array(length) };
    const { compared, answers } = this.told;
    for (let i = 0; i < length; i += 1) if (!answers[i]) compared[i] = prediction[i]!; // never asked: with the last prediction
    for (let i = 0; i < places.length; i += 1) {
      compared[places[i]!] = prediction[places[i]!]!;
      answers[places[i]!] = bits[i] ? size : -size;
    }
  }
}
