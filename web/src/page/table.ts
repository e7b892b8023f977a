/** The plans that Python wrote at build time (`tools/content.py`), and the page's own certificates of them. */

import { PAIRS } from "../codes/pairs";
import { Plan } from "../core/plan";
import { Certificate } from "../privacy/certificate";

export interface TableEntry {
  readonly epsilon: number;
  readonly rate: number;
  readonly period: number;
  readonly tilt: number;
  readonly clips: readonly number[];
  readonly gains: readonly number[];
  readonly bpp: number;
  readonly psnr: number;
  /** Pure ε and ρ by Python; the page shows its own. */
  readonly certificate: readonly [number, number];
}

export interface Table {
  readonly version: string;
  readonly model: string;
  /** Hex SHA-256 of network.onnx. */
  readonly network: string;
  readonly table: string;
  readonly channels: number;
  readonly epsilons: readonly number[];
  /** The ε that is chosen at first. */
  readonly first: number;
  readonly rates: readonly number[];
  readonly pixels: number;
  /** File names of sample pictures. */
  readonly samples: readonly string[];
  readonly unit: string;
  readonly assumptions: readonly string[];
  readonly notCovered: readonly string[];
  /** By ε, how often the decoded photograph alone was right about a pixel, in percent; from the smallest ε on. */
  readonly readers: readonly (readonly [number, number])[];
  readonly recognisable: string;
  /** What an ε is worth: rows in order, each up to its largest ε; the last has none. */
  readonly scale: readonly { readonly largest: number | null; readonly name: string }[];
  readonly plans: readonly TableEntry[];
}

export function planOf(entry: TableEntry): Plan {
  const steps = entry.clips.map((clip, i) => ({
    kind: "sensing" as const,
    tilt: entry.tilt,
    clip,
    gain: entry.gains[i]!,
    chunkSize: 1,
    indexBits: 1,
  }));
  return new Plan(entry.period, PAIRS, steps);
}

/** What a pure ε per pixel is worth. */
export function gradeOf(epsilon: number, { scale }: Table): string {
  return scale.find(({ largest }) => largest === null || epsilon <= largest)!.name;
}

/** What readers of decoded photographs were measured to tell, at the smallest measured budget that is not below this ε. */
export function measuredWords(epsilon: number, { readers }: Table): string {
  const [at, share] = readers.find(([measured]) => measured >= epsilon) ?? readers.at(-1)!;
  return (
    "the decoded photograph alone tells a pixel's colour from another colour of the picture in " +
    `${share} % of cases (measured at ε = ${at}), because its neighbours tell`
  );
}

export function certificateOf(entry: TableEntry, channels: number, pixels: number): Certificate {
  return Certificate.of(planOf(entry), { height: 1, width: pixels, channels });
}
