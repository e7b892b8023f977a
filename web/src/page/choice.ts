/** The choice of the size that must stay hidden, of its ε and, for single pixels, of the rate; and its meaning in words. */

import { PICTURE, PIXEL, type Unit } from "../core/units";
import type { Size } from "../core/geometry";
import { boundWords, Certificate, headlineOf, upper } from "../privacy/certificate";
import { element, grouped } from "./dom";
import { entryOf, epsilonsOf, gradeOf, hiddenBy, measuredWords, planOf, type Side, sidesOf, type Table, type TableEntry } from "./table";

/** The size and the ε that are chosen when the page opens, if the model has words. */
const [FIRST_SIDE, FIRST_EPSILON] = [32, 4];
/** A face, as an example of an object of another size. */
const FACE = [60, 80] as const;

export class Choice {
  private readonly hide = element<HTMLInputElement>("hide");
  private readonly epsilon = element<HTMLInputElement>("epsilon");
  private readonly rate = element<HTMLInputElement>("rate");
  readonly sides: readonly Side[];
  /** The ε that was chosen last, for pixels and for larger objects. */
  private wanted = { pixel: 0, object: FIRST_EPSILON };

  /** `changed` is called after each change of the choice. */
  constructor(private readonly table: Table, private readonly changed: () => void) {
    this.sides = sidesOf(table);
    this.wanted.pixel = table.first;
    this.hide.max = String(this.sides.length - 1);
    this.hide.value = String(Math.max(0, this.sides.indexOf(FIRST_SIDE)));
    this.rate.max = String(table.rates.length - 1);
    this.rate.value = String(table.rates.indexOf(1));
    this.hide.oninput = () => this.setSide(Number(this.hide.value));
    this.epsilon.oninput = () => {
      this.wanted[this.side === 1 ? "pixel" : "object"] = epsilonsOf(table, this.side)[Number(this.epsilon.value)]!;
      this.changed();
    };
    this.rate.oninput = () => this.changed();
    this.setSide(Number(this.hide.value), true);
  }

  get side(): Side {
    return this.sides[Number(this.hide.value)]!;
  }

  /** Choose a size by its number. ε becomes the nearest possible one to the last choice. */
  setSide(number: number, quiet = false): void {
    this.hide.value = String(number);
    const every = epsilonsOf(this.table, this.side);
    const wanted = this.wanted[this.side === 1 ? "pixel" : "object"];
    const nearest = every.reduce((best, one, i) => (Math.abs(Math.log(one / wanted)) < Math.abs(Math.log(every[best]! / wanted)) ? i : best), 0);
    this.epsilon.max = String(every.length - 1);
    this.epsilon.value = String(nearest);
    if (!quiet) this.changed();
  }

  /** Return the entry of the choice, for a picture of a number of pixels. */
  entry(pixels: number): TableEntry {
    const epsilon = epsilonsOf(this.table, this.side)[Number(this.epsilon.value)]!;
    return entryOf(this.table, this.side, epsilon, this.table.rates[Number(this.rate.value)]!, pixels);
  }

  /** Show the choice in words for a picture of a size, and return its unit. */
  show(size: Size | undefined): Unit {
    const { side, table } = this;
    const { height, width } = size ?? { height: 1, width: table.pixels };
    const entry = this.entry(height * width);
    const plan = planOf(entry, height * width);
    const certificate = Certificate.of(plan, { height, width, channels: table.channels });
    const first = headlineOf(certificate, hiddenBy(entry));
    const name = side === 1 ? "one pixel" : side === null ? "the whole picture" : `${side}×${side} pixels`;
    element("hide-value").textContent = name;
    this.hide.setAttribute("aria-valuetext", name);
    element("hide-words").textContent = sizeWords(side, plan.unit, certificate);
    element("epsilon-value").textContent = String(entry.epsilon);
    this.epsilon.setAttribute("aria-valuetext", `ε = ${entry.epsilon}`);
    const measured = plan.unit === PIXEL ? ` Without that knowledge, ${measuredWords(first.epsilon, table)}.` : "";
    element("belief").textContent = `${sentence(boundWords(first))}: ${gradeOf(first.epsilon, table)} as a bound.${measured}`;
    element("rate-choice").hidden = side !== 1;
    const bytes = Math.ceil((entry.bpp * height * width) / 8);
    const less = "rate" in entry && entry.bpp < entry.rate * 0.99 ? `More than ${entry.bpp.toPrecision(2)} bits would not help at this ε. ` : "";
    if ("rate" in entry) element("rate-value").textContent = String(entry.rate);
    if ("rate" in entry) this.rate.setAttribute("aria-valuetext", `${entry.rate} bits per pixel`);
    element("rate-words").textContent = `${less}About ${grouped(bytes + 150)} bytes${size ? "" : " for 256×256 pixels"}, with a certificate of ε = ${upper(first.epsilon)}.`;
    return plan.unit;
  }
}

/** Return how a size is hidden, and the ε of an object of another size, in words. */
function sizeWords(side: Side, unit: Unit, certificate: Certificate): string {
  if (unit === PIXEL) return "Single pixels only: faces, text and shapes are made of many, and stay visible.";
  const together = "everything in the picture but its size is hidden together";
  if (unit === PICTURE) return side === null ? `${sentence(together)}.` : `At this ε, ${together}, so larger objects pay no more.`;
  const face = certificate.forWindow(...FACE).epsilon;
  return `${side === null ? "All of it" : "Wherever it lies"}, by ${unit.short}s. A face of ${FACE.join("×")} pixels would pay ε = ${upper(face, 3)}.`;
}

/** Return words with a capital first letter. */
export function sentence(words: string): string {
  return words[0]!.toUpperCase() + words.slice(1);
}
