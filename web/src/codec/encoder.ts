/**
 * The encoder's part of the chain: the one place where the private pixels are read, once a step.
 *
 * What leaves this module is the bits that the code has drawn, and a record of the integers that their ε depends on.
 */

import { drawBits, thresholds } from "../codes/pairs";
import type { Plan } from "../core/plan";
import { Recorder } from "../privacy/ledger";
import type { StepLayout } from "./chain";

export class Selector {
  readonly recorder = new Recorder();

  constructor(
    private readonly plan: Plan,
    private readonly channels: number,
    /** Private: pixel·C + channel → eight bits. */
    private readonly pixels: Uint8Array,
  ) {}

  /** A private bit a touched coordinate. */
  readonly choose = (layout: StepLayout, centres: Int32Array): Uint32Array => {
    const { arithmetic, chunks, candidates } = layout;
    const used = {
      table: arithmetic.levels(),
      clip: arithmetic.largestShift,
      fractionBits: arithmetic.fractionBits,
      candidates,
    };
    const shifts = new Int32Array(chunks.order.length);
    for (let i = 0; i < shifts.length; i += 1) {
      const level = used.table[this.pixels[chunks.order[i]!]!]!; // the private read
      shifts[i] = arithmetic.clipped(level - centres[i]!);
    }
    this.recorder.observe(this.plan, this.channels, chunks.order, used);
    return Uint32Array.from(drawBits(shifts, arithmetic.limit, thresholds(arithmetic.limit, used.fractionBits)));
  };
}
