/** The certificate: what a file may have told about one pixel, computed from its ledger. Printed bounds are rounded up. */

import type { Plan } from "../core/plan";
import { epsilonOfZcdp } from "./conversions";
import { Ledger } from "./ledger";

export class Certificate {
  readonly epsilon: number;
  readonly rho: number;

  constructor(readonly ledger: Ledger) {
    const { epsilon, rho } = ledger.worst();
    this.epsilon = epsilon;
    this.rho = rho;
  }

  /** What a plan promises to images of at least so many pixels. */
  static of(plan: Plan, channels: number, pixels: number): Certificate {
    return new Certificate(Ledger.planned(plan, channels, pixels));
  }

  /** ε of (ε, δ): the smaller of pure ε and the conversion of ρ. */
  approximate(delta: number): number {
    return Math.min(this.epsilon, epsilonOfZcdp(this.rho, delta));
  }
}

/** A positive number in so many significant digits, never below it. */
export function upper(value: number, digits = 6): string {
  const text = value.toPrecision(digits);
  if (Number(text) >= value) return plain(text);
  const unit = 10 ** (Math.floor(Math.log10(value)) - digits + 1);
  let raised = Number(text);
  while (raised < value) raised = Number((raised + unit).toPrecision(digits));
  return plain(raised.toPrecision(digits));
}

/** Without zeros at the end that say nothing; large numbers are written out. */
function plain(text: string): string {
  const value = Number(text);
  if (value >= 1e4 && value < 1e15) return value.toLocaleString("en-GB");
  const [digits, exponent] = text.split("e");
  if (exponent !== undefined && value >= 1 && value < 1e4) return String(value);
  const short = digits!.includes(".") ? digits!.replace(/\.?0+$/, "") : digits!;
  return exponent === undefined ? short : `${short}e${Number(exponent)}`;
}

/**
 * The largest probability, in percent and rounded up, to which a belief of one half can rise: e^ε/(1 + e^ε). What is left
 * to 100 % is rounded down, in as many digits as show that it is not 0.
 */
export function largestBelief(epsilon: number, digits = 2): string {
  const rest = (100 / (1 + Math.exp(epsilon))) * (1 - 2 ** -40);
  const places = Math.max(digits, Math.ceil(-Math.log10(rest)) + 1);
  return (100 - Math.floor(rest * 10 ** places) / 10 ** places).toFixed(places);
}

/** What a pure ε per pixel promises in words, with the reader whom the promise is about. */
export function boundWords(epsilon: number): string {
  return (
    `a fifty-fifty guess about one pixel becomes at most ${largestBelief(epsilon)} % ` +
    "for somebody who knows every other pixel of the picture"
  );
}
