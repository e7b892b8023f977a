/** The plans that Python wrote when the page was built (`tools/content.py`), and the choices among them. */

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
  /** PSNR in dB on public pictures. */
  readonly psnr: number;
  /** Pure ε and ρ by Python; the page shows its own. */
  readonly certificate: readonly [number, number];
}

/** A plan of pairs, for an ε per pixel and a rate. */
export interface PixelEntry extends Entry {
  /** The number of pixels of the largest pictures that the plan is made for. */
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

/** The question to boxes for an ε and for the largest number of overlapping boxes, which are one unit. */
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
  /** The planes that the network takes, in the order of its input. */
  readonly planes: readonly Plane[];
  readonly epsilons: readonly number[];
  /** The ε per pixel that is chosen when the page opens. */
  readonly first: number;
  readonly rates: readonly number[];
  readonly pixels: number;
  /** File names of sample pictures. */
  readonly samples: readonly string[];
  readonly assumptions: readonly string[];
  readonly notCovered: readonly string[];
  /** What certificates of larger units do not cover, for each kind of unit. */
  readonly objectsNotCovered: Readonly<Record<string, readonly string[]>>;
  /** Pairs of ε, ascending, and how often the decoded photograph alone was right about a pixel, in percent. */
  readonly readers: readonly (readonly [number, number])[];
  readonly recognisable: string;
  /** Grades of an ε, ascending, each with its largest ε; the last grade has no largest. */
  readonly scale: readonly { readonly largest: number | null; readonly name: string }[];
  readonly plans: readonly PixelEntry[];
  readonly hiding: readonly HidingEntry[];
  readonly regions: readonly RegionsEntry[];
}

/** The side in pixels of the square that must stay hidden: 1 for a pixel, null for the whole picture. */
export type Side = number | null;

/** Return the sizes that can be hidden, beginning with a pixel. */
export function sidesOf({ hiding }: Table): Side[] {
  return [1, ...new Set(hiding.map((entry) => entry.side))];
}

/** Return each ε that can be chosen for a size. */
export function epsilonsOf(table: Table, side: Side): readonly number[] {
  return side === 1 ? table.epsilons : table.hiding.filter((entry) => entry.side === side).map((entry) => entry.epsilon);
}

/** Return the entry for a size and an ε; for single pixels also for a rate and the number of pixels of the picture. */
export function entryOf(table: Table, side: Side, epsilon: number, rate: number, pixels: number): TableEntry {
  const plans = table.plans.filter((entry) => entry.epsilon === epsilon && entry.rate === rate);
  const found =
    side === 1
      ? (plans.find((entry) => pixels <= entry.pixels) ?? plans.at(-1))
      : table.hiding.find((entry) => entry.side === side && entry.epsilon === epsilon);
  return found!;
}

/** Return the level at which a picture is predicted from a state of this SNR (`dipp/planning/levels.py`). */
export function levelAt(snr: number, pixels: number): number {
  const largest = pixels / 35e6;
  return Array.from({ length: MAX_LEVEL }, (_, level) => largest / 8 ** level).filter((one) => snr < one).length;
}

/** Return the plan of an entry. The number of pixels decides only the levels of predictions. */
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

/** Return each ε that boxes can have: 0, and more if the model has words. */
export function epsilonsOfBoxes({ regions }: Table): number[] {
  return [0, ...new Set(regions.map(({ epsilon }) => epsilon))];
}

/** Return the plan of a question to boxes for an ε above 0. */
export function planOfBoxes(table: Table, epsilon: number, boxes: readonly Box[]): Plan {
  const places = placesOf(boxes);
  const most = mostPlaces(places);
  const found = table.regions.find((entry) => entry.epsilon === epsilon && entry.places === most);
  if (!found) throw new DippError("boxes", `overlap, and ${most} of them would count as one`, "draw one around them all, or choose ε = 0");
  return new Plan(1, CLOSEST, [questionOf(found.question)], true, regions(places));
}

/** Return width and height of the objects that a plan hides; undefined for a pixel and for the whole picture. */
export function hiddenBy(entry: TableEntry): readonly [number, number] | undefined {
  return "questions" in entry && entry.side !== null ? [entry.side, entry.side] : undefined;
}

/** Return the grade of a pure ε. */
export function gradeOf(epsilon: number, { scale }: Table): string {
  return scale.find(({ largest }) => largest === null || epsilon <= largest)!.name;
}

/** Return in words how often decoded photographs told a pixel, measured at the smallest ε that is at least this one. */
export function measuredWords(epsilon: number, { readers }: Table): string {
  const [at, share] = readers.find(([measured]) => measured >= epsilon) ?? readers.at(-1)!;
  return (
    "the decoded photograph alone tells a pixel's colour from another colour of the picture in " +
    `${share} % of cases (measured at ε = ${at}), because its neighbours tell`
  );
}
