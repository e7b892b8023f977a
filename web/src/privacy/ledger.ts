/**
 * The ledger: what was released, in the integers that were really used, and what it costs the worst unit.
 *
 * Two ledgers are made of a file that the page writes, and must be equal: one from the plan, which every reader makes
 * again, and one that the encoder writes as it goes. `dipp/privacy/ledger.py` has the proof sketch of the price.
 */

import type { Chunks } from "../core/chunking";
import type { Code } from "../core/code";
import type { Geometry } from "../core/geometry";
import { Mask } from "../core/masks";
import type { Plan } from "../core/plan";
import { type Charge, LEVELS, type Terms } from "../core/price";
import { gridOf, partsOf } from "../core/steps";
import { type Unit, unitOfCoordinate } from "../core/units";
import { DippError } from "../errors";

/** What one step released of every image. */
export interface Selection {
  readonly step: number;
  /** What the code prices the draws from. */
  readonly terms: Terms;
  readonly candidates: number;
  /** Selections of the smallest image. */
  readonly chunks: number;
  /** How often a unit takes part in the selections of the step, at most. */
  readonly touched: number;
  /** Whether no two of those parts are in one chunk. */
  readonly apart: boolean;
}

export class Ledger {
  constructor(
    /** C: coordinates of a pixel. */
    readonly channels: number,
    readonly mask: Mask,
    readonly code: Code,
    readonly selections: readonly Selection[],
    readonly unit: Unit,
  ) {}

  /** What a plan releases of images; the smallest one has this geometry. */
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

  /** What a touched unit pays in a step, if each of its coordinates changes by at most `change` of the 255 levels. */
  charge(one: Selection, change = LEVELS): Charge {
    return this.code.price(one.terms, one.touched, one.apart, change);
  }

  /** Pure ε and ρ of the worst unit, each on its own; if all it changes by is some of the 255 levels, of that change. */
  worst(change = LEVELS): Charge {
    const charges = this.selections.map((one) => this.charge(one, change));
    return {
      epsilon: this.mask.worst(charges.map((one) => one.epsilon), this.channels),
      rho: this.mask.worst(charges.map((one) => one.rho), this.channels),
    };
  }

  /** In how many steps the worst unit takes part. */
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
 * Writes down what the encoder does, while it does it: the terms it draws by, and the deal. What the steps that really
 * touched a unit cost it is added up unit by unit: no more than the mask design says.
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
        const own = unitOfCoordinate(unit, order[at]!, grid);
        if (before >= 0 && (own === before) !== asked) kept = false;
        if (!asked || own !== before) parts.set(own, (parts.get(own) ?? 0) + 1);
        before = own;
      }
    }
    let touched = plan.touches(step, channels);
    for (const count of parts.values()) touched = Math.max(touched, count);
    const one: Selection = {
      step: this.selections.length,
      terms,
      candidates,
      chunks: offsets.length - 1,
      touched,
      apart: kept && (touched === 1 || plan.separate),
    };
    this.selections.push(one);
    const { epsilon } = plan.code.price(terms, 1, true, LEVELS); // each part on its own
    for (const [place, count] of parts) this.spent.set(place, (this.spent.get(place) ?? 0) + count * epsilon);
  }

  /** What was recorded. A unit that was touched by dearer steps than the mask design allows is refused. */
  ledger(plan: Plan, channels: number): Ledger {
    const found = new Ledger(channels, plan.mask, plan.code, this.selections, plan.unit);
    let most = 0;
    for (const one of this.spent.values()) most = Math.max(most, one);
    if (most > found.worst().epsilon * (1 + 1e-12)) {
      throw new DippError("ledger", "is wrong: a unit was touched more often than the mask design says", "nothing was written; report this");
    }
    return found;
  }
}
