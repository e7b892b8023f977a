/**
 * The ledger: what was released, in the integers that were really used, and what it costs the worst pixel.
 *
 * Two ledgers are made of a file that the page writes, and must be equal: one from the plan, which every reader makes
 * again, and one that the encoder writes as it goes. `dipp/privacy/ledger.py` has the proof sketch of the price.
 */

import type { Charge, Code, Moved } from "../core/code";
import { Mask } from "../core/masks";
import type { Plan } from "../core/plan";
import { DippError } from "../errors";

/** What one step released of every image. */
export interface Selection {
  readonly step: number;
  /** D: units by which one coordinate can move any score. */
  readonly sensitivity: number;
  /** S: a unit is 2^−S bits. */
  readonly fractionBits: number;
  readonly candidates: number;
  /** Selections of the smallest image. */
  readonly chunks: number;
  /** Coordinates of a pixel that the step touches, at most. */
  readonly touched: number;
  /** Whether no two of them are in one chunk. */
  readonly apart: boolean;
  /** M and A(1), where shifts are clipped. */
  readonly clip: number | undefined;
  readonly slope: number | undefined;
}

/** Largest change of an eight-bit channel. */
const LEVELS = 255;

export class Ledger {
  constructor(
    /** C: coordinates of a pixel. */
    readonly channels: number,
    readonly mask: Mask,
    readonly code: Code,
    readonly selections: readonly Selection[],
  ) {}

  /** What a plan releases of images with at least so many pixels. */
  static planned(plan: Plan, channels: number, pixels: number): Ledger {
    plan.mask.require(channels);
    const counts = plan.chunkCounts(pixels, channels);
    const selections = plan.steps.map((step, i) => {
      const own = plan.arithmetics[i]!;
      return {
        step: i,
        sensitivity: own.sensitivity,
        fractionBits: own.fractionBits,
        candidates: 2 ** step.indexBits,
        chunks: counts[i]!,
        touched: plan.mask.touches(channels),
        apart: plan.apart(counts[i]!, channels),
        clip: own.largestShift,
        slope: own.largestShift === undefined ? undefined : own.levelOfOne,
      };
    });
    return new Ledger(channels, plan.mask, plan.code, selections);
  }

  /** What a touched pixel pays in a step, if each of its coordinates changes by at most so many of the 255 levels. */
  charge(one: Selection, change = LEVELS): Charge {
    const slope = one.slope ?? one.sensitivity / 2;
    const moved: Moved = {
      units: Math.min(one.sensitivity, Math.ceil(((2 * slope + 2) * change + 1) / LEVELS)),
      largest: one.clip === undefined ? one.sensitivity : Math.min(one.clip, 2 * slope),
      fractionBits: one.fractionBits,
    };
    return this.code.charge(moved, one.touched, one.apart);
  }

  /** Pure ε and ρ of the worst pixel, each on its own; if all it changes by is some of the 255 levels, of that change. */
  worst(change = LEVELS): Charge {
    const charges = this.selections.map((one) => this.charge(one, change));
    return {
      epsilon: this.mask.worst(charges.map((one) => one.epsilon), this.channels),
      rho: this.mask.worst(charges.map((one) => one.rho), this.channels),
    };
  }

  /** How often the worst pixel is touched. */
  get touches(): number {
    return this.mask.worst(this.selections.map(() => 1), this.channels);
  }

  equals(other: Ledger): boolean {
    return JSON.stringify([this.channels, this.mask.period, this.selections]) ===
      JSON.stringify([other.channels, other.mask.period, other.selections]);
  }
}

/**
 * Writes down what the encoder does, while it does it: the table it looks pixels up in, the clip, the deal. What the steps
 * that really touched a pixel cost it is added up pixel by pixel: no more than the mask design says.
 */
export class Recorder {
  private readonly selections: Selection[] = [];
  private readonly spent = new Map<number, number>();

  /** Record a step, from the integers that are used and the coordinates in the order of their chunks. */
  observe(
    plan: Plan,
    channels: number,
    order: Int32Array,
    used: { table: Int32Array; clip: number | undefined; fractionBits: number; candidates: number },
  ): void {
    const highest = used.table.reduce((a, b) => Math.max(a, b));
    const spread = highest - used.table.reduce((a, b) => Math.min(a, b));
    const times = new Map<number, number>();
    for (const coordinate of order) {
      const pixel = Math.floor(coordinate / channels);
      times.set(pixel, (times.get(pixel) ?? 0) + 1);
    }
    let touched = 1;
    for (const count of times.values()) touched = Math.max(touched, count);
    const one: Selection = {
      step: this.selections.length,
      sensitivity: used.clip === undefined ? spread : Math.min(spread, 2 * used.clip),
      fractionBits: used.fractionBits,
      candidates: used.candidates,
      chunks: order.length, // one coordinate a chunk: the page draws pairs
      touched,
      apart: touched === 1 || plan.separate,
      clip: used.clip,
      slope: used.clip === undefined ? undefined : highest,
    };
    this.selections.push(one);
    // Of a pixel, each coordinate that was touched.
    const { epsilon } = new Ledger(channels, plan.mask, plan.code, []).charge({ ...one, touched: 1, apart: true });
    for (const [pixel, count] of times) this.spent.set(pixel, (this.spent.get(pixel) ?? 0) + count * epsilon);
  }

  /** What was recorded. A pixel that was touched by dearer steps than the mask design allows is refused. */
  ledger(plan: Plan, channels: number): Ledger {
    const found = new Ledger(channels, plan.mask, plan.code, this.selections);
    let most = 0;
    for (const one of this.spent.values()) most = Math.max(most, one);
    if (most > found.worst().epsilon * (1 + 1e-12)) {
      throw new DippError("ledger: a pixel was touched more often than the mask design says; nothing is written, report this");
    }
    return found;
  }
}
