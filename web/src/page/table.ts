/** The plans that Python wrote at build time (`tools/content.py`), and what can be chosen among them. */

import { CLOSEST } from "../codes/closest";
import { PAIRS } from "../codes/pairs";
import { Plan } from "../core/plan";
import { mostPlaces, placesOf, regions } from "../core/regions";
import { MAX_LEVEL, type Question } from "../core/steps";
import { unitOf } from "../core/units";
import { fromHex } from "../format/bytes";
import { DippError } from "../errors";
import type { Plane } from "../models/evidence";
import type { Engine } from "../models/onnx";
import type { Box } from "../redaction/boxes";

interface Entry {
  readonly epsilon: number;
  /** Bits per pixel of the indices of a picture of `Table.pixels` pixels. */
  readonly bpp: number;
  /** On public pictures. */
  readonly psnr: number;
  /** Pure ε and ρ by Python; the page shows its own. */
  readonly certificate: readonly [number, number];
}

/** A plan of pairs, for an ε per pixel and a rate. */
export interface PixelEntry extends Entry {
  /** Of the largest pictures that it is made for. */
  readonly pixels: number;
  readonly rate: number;
  readonly period: number;
  readonly tilt: number;
  readonly clips: readonly number[];
  readonly gains: readonly number[];
}

/** A plan of questions, for an ε of any square of a side, or of the whole picture. */
export interface HidingEntry extends Entry {
  /** null for the whole picture. */
  readonly side: number | null;
  /** Bytes of the unit, in hex. */
  readonly unit: string;
  readonly questions: readonly WrittenQuestion[];
}

/** A question as JSON has it. */
interface WrittenQuestion {
  readonly split: number;
  readonly rounds: number;
  readonly candidate: number;
  readonly scale: number;
  readonly best: number;
  readonly heavy: string;
  readonly light: string;
  readonly gain: number;
  readonly indexBits: number;
}

/** What boxes are asked at an ε, if the unit of the most boxes has this many: boxes that overlap are one unit. */
interface RegionsEntry {
  readonly epsilon: number;
  readonly places: number;
  readonly question: WrittenQuestion;
}

export type TableEntry = PixelEntry | HidingEntry;

export interface Table {
  readonly version: string;
  readonly model: string;
  /** Hex SHA-256 of each engine's network. */
  readonly networks: Readonly<Record<Engine, string>>;
  readonly table: string;
  /** Hex SHA-256 of words.safetensors; null if the model has no words. */
  readonly words: string | null;
  readonly channels: number;
  /** What the network is told, in the order of its input. */
  readonly planes: readonly Plane[];
  readonly epsilons: readonly number[];
  /** The ε per pixel that is chosen at first. */
  readonly first: number;
  readonly rates: readonly number[];
  readonly pixels: number;
  /** File names of sample pictures. */
  readonly samples: readonly string[];
  readonly assumptions: readonly string[];
  readonly notCovered: readonly string[];
  /** What certificates of larger units do not cover, by the kind of the unit. */
  readonly objectsNotCovered: Readonly<Record<string, readonly string[]>>;
  /** By ε, how often the decoded photograph alone was right about a pixel, in percent; from the smallest ε on. */
  readonly readers: readonly (readonly [number, number])[];
  readonly recognisable: string;
  /** What an ε is worth: rows in order, each up to its largest ε; the last has none. */
  readonly scale: readonly { readonly largest: number | null; readonly name: string }[];
  readonly plans: readonly PixelEntry[];
  readonly hiding: readonly HidingEntry[];
  readonly regions: readonly RegionsEntry[];
}

/** The side of the square that is to stay hidden: 1 for a pixel, null for the whole picture. */
export type Side = number | null;

/** The sizes that can be hidden, from a pixel on. */
export function sidesOf({ hiding }: Table): Side[] {
  return [1, ...new Set(hiding.map((entry) => entry.side))];
}

/** The ε that can be chosen for a size. */
export function epsilonsOf(table: Table, side: Side): readonly number[] {
  return side === 1 ? table.epsilons : table.hiding.filter((entry) => entry.side === side).map((entry) => entry.epsilon);
}

/** The plan for a size, an ε and, of pixels, a rate and the number of pixels of the picture. */
export function entryOf(table: Table, side: Side, epsilon: number, rate: number, pixels: number): TableEntry {
  const own = table.plans.filter((entry) => entry.epsilon === epsilon && entry.rate === rate);
  const found =
    side === 1
      ? (own.find((entry) => pixels <= entry.pixels) ?? own.at(-1))
      : table.hiding.find((entry) => entry.side === side && entry.epsilon === epsilon);
  return found!;
}

/** The level at which a picture of a number of pixels is predicted from a state of this SNR (`dipp/planning/levels.py`). */
export function levelAt(snr: number, pixels: number): number {
  const largest = pixels / 35e6;
  return Array.from({ length: MAX_LEVEL }, (_, level) => largest / 8 ** level).filter((one) => snr < one).length;
}

/** The plan of an entry, for pictures of a number of pixels, which decide nothing but the levels of predictions. */
export function planOf(entry: TableEntry, pixels: number): Plan {
  if ("questions" in entry) {
    return new Plan(1, CLOSEST, entry.questions.map(questionOf), true, unitOf(fromHex(entry.unit)));
  }
  const steps = entry.clips.map((clip, i) => ({
    kind: "sensing" as const,
    tilt: entry.tilt,
    clip,
    gain: entry.gains[i]!,
    level: i ? levelAt(entry.gains.slice(0, i).reduce((sum, gain) => sum + gain, 0), pixels) : 0,
    chunkSize: 1,
    indexBits: 1,
  }));
  return new Plan(entry.period, PAIRS, steps);
}

function questionOf({ heavy, light, ...rest }: WrittenQuestion): Question {
  return { ...rest, kind: "questions", heavy: BigInt(heavy), light: BigInt(light), chunkSize: 1 };
}

/** The ε that boxes can have: 0, and where the model has words, more. */
export function epsilonsOfBoxes({ regions }: Table): number[] {
  return [0, ...new Set(regions.map(({ epsilon }) => epsilon))];
}

/** The plan that asks boxes at an ε above 0. */
export function planOfBoxes(table: Table, epsilon: number, boxes: readonly Box[]): Plan {
  const places = placesOf(boxes);
  const most = mostPlaces(places);
  const found = table.regions.find((entry) => entry.epsilon === epsilon && entry.places === most);
  if (!found) throw new DippError("boxes", `overlap, and ${most} of them would count as one`, "draw one around them all, or choose ε = 0");
  return new Plan(1, CLOSEST, [questionOf(found.question)], true, regions(places));
}

/** Width and height of the objects that a plan is to hide; undefined for a pixel and for the whole picture. */
export function hiddenBy(entry: TableEntry): readonly [number, number] | undefined {
  return "questions" in entry && entry.side !== null ? [entry.side, entry.side] : undefined;
}

/** What a pure ε is worth. */
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
