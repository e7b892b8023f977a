/** The certificate: a bound on what a file tells about one unit, computed from its ledger. Printed bounds are rounded up. */

import { differing, priceOf, totalOf } from "../core/closest";
import { nearest } from "../core/exact";
import type { Geometry } from "../core/geometry";
import type { Plan } from "../core/plan";
import type { Unit } from "../core/units";
import { epsilonOfZcdp } from "./conversions";
import { Ledger } from "./ledger";
import { type Draws, epsilonOfDraws } from "./losses";

/** This factor covers the floating-point error of a product or a sum. */
const UP = 1 + 2 ** -40;
/** Sides of the square windows whose price is stated. */
export const WINDOWS = [1, 8, 16, 32, 64, 128, 256] as const;

export class Certificate {
  readonly epsilon: number;
  readonly rho: number;

  /** `units` is the number of units that may change at once. */
  constructor(readonly ledger: Ledger, readonly units = 1) {
    const { epsilon, rho } = ledger.worst();
    this.epsilon = units === 1 ? epsilon : epsilon * units * UP;
    this.rho = units === 1 ? rho : (ledger.code.alone ? rho * units : rho * units * units) * UP;
  }

  /** Return the certificate of a plan for images that are at least as large as the smallest one. */
  static of(plan: Plan, smallest: Geometry): Certificate {
    return new Certificate(Ledger.planned(plan, smallest));
  }

  get unit(): Unit {
    return this.ledger.unit;
  }

  /** Return the certificate for any change of `units` units. */
  forUnits(units: number): Certificate {
    return new Certificate(this.ledger, units);
  }

  /** Return the certificate for any change inside a window of this size, wherever it lies. */
  forWindow(width: number, height: number): Certificate {
    return this.forUnits(this.unit.met(width, height));
  }

  /** Return ε of (ε, δ): the smallest of pure ε, the conversion of ρ and, if it is known, the bound by the law of the loss. */
  approximate(delta: number): number {
    const draws = this.draws;
    const bounds = [this.epsilon, epsilonOfZcdp(this.rho, delta)];
    return Math.min(...bounds, draws ? epsilonOfDraws(draws, delta) : Infinity);
  }

  /** The number of draws of each law that the units pay for; undefined if a law is unknown. */
  private get draws(): Draws[] | undefined {
    const laws = new Map<string, Draws>();
    for (const { terms, touched } of this.ledger.selections) {
      if (!("heavy" in terms)) return undefined;
      const [gains, drops] = [terms.heavy, terms.light].map((weight) =>
        nearest(BigInt(differing(terms)) * weight, totalOf(terms)),
      ) as [number, number];
      const { epsilon } = priceOf(terms);
      const key = `${epsilon} ${gains} ${drops}`;
      laws.set(key, { epsilon, gains, drops, count: (laws.get(key)?.count ?? 0) + touched * this.units });
    }
    return [...laws.values()];
  }
}

/** Return a positive number in `digits` significant digits, rounded up. */
export function upper(value: number, digits = 6): string {
  const text = value.toPrecision(digits);
  if (Number(text) >= value) return plain(text);
  const unit = 10 ** (Math.floor(Math.log10(value)) - digits + 1);
  let raised = Number(text);
  while (raised < value) raised = Number((raised + unit).toPrecision(digits));
  return plain(raised.toPrecision(digits));
}

/** Return a number without trailing zeros; large numbers are written out. */
function plain(text: string): string {
  const value = Number(text);
  if (value >= 1e4 && value < 1e15) return value.toLocaleString("en-GB");
  const [digits, exponent] = text.split("e");
  if (exponent !== undefined && value >= 1 && value < 1e4) return String(value);
  const short = digits!.includes(".") ? digits!.replace(/\.?0+$/, "") : digits!;
  return exponent === undefined ? short : `${short}e${Number(exponent)}`;
}

/**
 * Return the largest probability to which a belief of one half can rise, e^ε/(1 + e^ε), in percent and rounded up. It has
 * enough digits to differ from 100.
 */
export function largestBelief(epsilon: number, digits = 2): string {
  const rest = (100 / (1 + Math.exp(epsilon))) * (1 - 2 ** -40);
  const places = Math.max(digits, Math.ceil(-Math.log10(rest)) + 1);
  return (100 - Math.floor(rest * 10 ** places) / 10 ** places).toFixed(places);
}

/** The first number of a certificate: the ε of objects of the size to hide, or of one unit. */
export interface Headline {
  readonly epsilon: number;
  /** What the number is about, in words that follow "about". */
  readonly what: string;
  /** The reader for whom the bound holds, in words that follow "for". */
  readonly reader: string;
}

export function headlineOf(certificate: Certificate, hidden?: readonly [number, number]): Headline {
  const { epsilon, unit } = certificate;
  if (!hidden) return { epsilon, what: `one ${unit.short}`, reader: unit.reader };
  const what = `any object of at most ${hidden.join("×")} pixels`;
  return { epsilon: certificate.forWindow(...hidden).epsilon, what, reader: "somebody who knows everything else in the picture" };
}

/** From this ε on, the largest belief is printed in words, because it has too many nines. */
export const TELLS_ALL = 18;

/** Return what a headline promises in words, and to which reader. */
export function boundWords({ epsilon, what, reader }: Headline): string {
  const most = epsilon < TELLS_ALL ? `becomes at most ${largestBelief(epsilon)}\u00a0%` : "may become as good as certain";
  return `a fifty-fifty guess about ${what} ${most} for ${reader}`;
}
