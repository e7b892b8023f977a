/**
 * The ledger: the integers from which the privacy cost of an encoding follows, and the cost to the worst unit.
 *
 * For a file that the page writes there are two ledgers, which must be equal: one follows from the plan, and every reader
 * computes it again; the encoder writes the other while it encodes. `dipp/privacy/ledger.py` has the proof sketch of the price.
 */

import type { Chunks } from "../core/chunking";
import type { Code } from "../core/code";
import type { Geometry } from "../core/geometry";
import { Mask } from "../core/masks";
import type { Plan } from "../core/plan";
import { type Cost, LEVELS, type Terms } from "../core/price";
import { gridOf, partsOf } from "../core/steps";
import { type Unit, unitOfCoordinate } from "../core/units";
import { DippError } from "../errors";

/** The public facts of one step, from which its cost follows. They are the same for every image. */
export interface Selection {
  readonly step: number;
  /** The numbers from which the code prices the draws. */
  readonly terms: Terms;
  readonly candidates: number;
  /** Number of chunks, each with one selection, of the smallest image. */
  readonly chunks: number;
  /** The largest number of selections of the step in which a unit takes part. */
  readonly touched: number;
  /** Whether each part of a unit lies in another chunk. */
  readonly apart: boolean;
}

export class Ledger {
  constructor(
    /** C: the number of coordinates of a pixel. */
    readonly channels: number,
    readonly mask: Mask,
    readonly code: Code,
    readonly selections: readonly Selection[],
    readonly unit: Unit,
  ) {}

  /** Return the ledger of a plan for images that are at least as large as the smallest one. */
  static planned(plan: Plan, smallest: Geometry): Ledger {
    const { channels } = smallest;
    plan.mask.require(channels);
    const counts = plan.chunkCounts(smallest);
    const selections = plan.steps.map((step, i) => ({
      step: i,
      terms: plan.terms(i),
      candidates: 2 ** step.indexBits,
      chunks: counts[i]!,
      touched: plan.touches(step, channels),
      apart: plan.apart(counts[i]!, channels),
    }));
    return new Ledger(channels, plan.mask, plan.code, selections, plan.unit);
  }

  /** Return the cost of a step to a touched unit, if each of its coordinates changes by at most `change` of the 255 levels. */
  cost({ terms, touched, apart }: Selection, change = LEVELS): Cost {
    return this.code.price(terms, touched, apart, change);
  }

  /** Return the largest pure ε and the largest ρ of any unit whose coordinates change by at most `change` of the 255 levels. */
  worst(change = LEVELS): Cost {
    const costs = this.selections.map((selection) => this.cost(selection, change));
    return {
      epsilon: this.mask.worst(costs.map((cost) => cost.epsilon), this.channels),
      rho: this.mask.worst(costs.map((cost) => cost.rho), this.channels),
    };
  }

  /** The number of steps in which the worst unit takes part. */
  get touches(): number {
    return this.mask.worst(this.selections.map(() => 1), this.channels);
  }

  equals(other: Ledger): boolean {
    return this.text === other.text;
  }

  private get text(): string {
    const content = [this.channels, this.mask.period, this.code.name, [...this.unit.bytes], this.selections];
    return JSON.stringify(content, (_, value: unknown) => (typeof value === "bigint" ? String(value) : value));
  }
}

/**
 * A record of what the encoder really does: the terms by which it draws, and the chunks that it dealt. The costs of the
 * steps that touched a unit are added up for each unit, and must not exceed what the mask design says.
 */
export class Recorder {
  private readonly selections: Selection[] = [];
  private readonly spent = new Map<number, number>();

  /** Record a step, from the terms that are used and the chunks that were dealt. */
  observe(plan: Plan, geometry: Geometry, { order, offsets }: Chunks, terms: Terms, candidates: number): void {
    const { channels } = geometry;
    const step = plan.steps[this.selections.length]!;
    const asked = step.kind === "questions";
    const unit = asked ? plan.unit.divided(partsOf(step)) : plan.unit;
    const grid = asked ? gridOf(step, plan.unit, geometry) : geometry;
    // How often each unit takes part, and whether the deal kept what it keeps apart: blocks of two units, or two
    // coordinates of a pixel. Coordinates ascend within a chunk, so that those of a pixel are neighbours.
    const parts = new Map<number, number>();
    let kept = true;
    for (let chunk = 0; chunk + 1 < offsets.length; chunk += 1) {
      let before = -1;
      for (let at = offsets[chunk]!; at < offsets[chunk + 1]!; at += 1) {
        const part = unitOfCoordinate(unit, order[at]!, grid);
        if (before >= 0 && (part === before) !== asked) kept = false;
        if (!asked || part !== before) parts.set(part, (parts.get(part) ?? 0) + 1);
        before = part;
      }
    }
    let touched = plan.touches(step, channels);
    for (const count of parts.values()) touched = Math.max(touched, count);
    const selection: Selection = {
      step: this.selections.length,
      terms,
      candidates,
      chunks: offsets.length - 1,
      touched,
      apart: kept && (touched === 1 || plan.separate),
    };
    this.selections.push(selection);
    const { epsilon } = plan.code.price(terms, 1, true, LEVELS); // each part alone
    for (const [number, count] of parts) this.spent.set(number, (this.spent.get(number) ?? 0) + count * epsilon);
  }

  /** Return the recorded ledger; throw if a unit was touched by dearer steps than the mask design allows. */
  ledger(plan: Plan, channels: number): Ledger {
    const recorded = new Ledger(channels, plan.mask, plan.code, this.selections, plan.unit);
    let most = 0;
    for (const epsilon of this.spent.values()) most = Math.max(most, epsilon);
    if (most > recorded.worst().epsilon * (1 + 1e-12)) {
      throw new DippError("ledger", "is wrong: a unit was touched more often than the mask design says", "nothing was written; report this");
    }
    return recorded;
  }
}
