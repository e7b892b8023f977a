/**
 * Steps: the public numbers of one step of an encoding (`dipp/core/steps.py`). Floats have 32 bits, as in the file.
 */

import { DippError } from "../errors";
import type { Geometry } from "./geometry";
import type { Regions } from "./regions";
import type { Unit } from "./units";

const MAX_INDEX_BITS = 22;
/** Largest level of a step of sensing: predictions at a sixteenth of the resolution. */
export const MAX_LEVEL = 4;

interface Coded {
  /** The SNR that the step adds to the state; for a question, the SNR that the network is told after it. */
  readonly gain: number;
  /** Largest number of coordinates of a chunk. */
  readonly chunkSize: number;
  /** log2 n: each chunk selects among 2^indexBits candidates. */
  readonly indexBits: number;
}

/** A step along the timesteps of a diffusion, which the page prices and does not decode. */
export interface TimedStep extends Coded {
  readonly kind: "timesteps";
  readonly start: number;
  readonly end: number;
}

/** A step of clipped sensing. */
export interface SensingStep extends Coded {
  readonly kind: "sensing";
  /** V: the largest tilt in nats. */
  readonly tilt: number;
  /** c: residuals beyond ±c are cut to it. */
  readonly clip: number;
  /** The denoiser predicts from means of 2^level × 2^level pixels of the state; 0 in the first step, which calls no network. */
  readonly level: number;
}

/** A step that asks which candidate is nearest to each block of a unit. */
export interface Question extends Coded {
  readonly kind: "questions";
  /** The number of blocks along a side of a unit. */
  readonly split: number;
  /** The number of rounds in which the blocks are asked. */
  readonly rounds: number;
  /** `WORDS` or `SIGNS`. */
  readonly candidate: number;
  /** The factor by which an observed candidate is multiplied. */
  readonly scale: number;
  /** m: the number of candidates that have the heavy weight. */
  readonly best: number;
  /** a: the weight of each of the m nearest candidates. */
  readonly heavy: bigint;
  /** b: the weight of each other candidate. */
  readonly light: bigint;
}

export type Step = TimedStep | SensingStep | Question;

/** The number of coarse pixels along a side of a block. */
export const BLOCK = 4;
export const MAX_SPLIT = 32;
/** For each number of rounds, the round of a block by its row and column modulo the size of the pattern. */
export const ROUNDS: Readonly<Record<number, readonly (readonly number[])[]>> = { 1: [[0]], 2: [[0, 1], [1, 0]], 4: [[0, 2], [3, 1]] };
/** Kinds of candidates of a question: words of the model's books, or random signs times a scale. */
export const [WORDS, SIGNS] = [0, 1] as const;

/** The round in which the coarse pixel or block at a place is asked; `size` is the number of coarse pixels of a place. */
export function roundOf(rounds: number, row: number, column: number, size = 1): number {
  const pattern = ROUNDS[rounds]!;
  const place = (at: number): number => Math.floor(at / size) % pattern.length;
  return pattern[place(row)]![place(column)]!;
}

/** Return the number of coarse pixels along a side of a unit. */
export function partsOf(step: Question): number {
  return BLOCK * step.split;
}

/** Return where the grid of a question cuts the rows and the columns of a picture. */
export interface Cuts {
  readonly rows: Int32Array;
  readonly columns: Int32Array;
}

export function cutsOf(step: Question, unit: Unit, { height, width }: Geometry): Cuts {
  return { rows: unit.divisions(height, partsOf(step)), columns: unit.divisions(width, partsOf(step)) };
}

/** A rectangle of a picture: its first row and column, and the first beyond it. */
export interface Area {
  readonly rows: readonly [number, number];
  readonly columns: readonly [number, number];
}

/** Return the pixels that a coarse pixel of a question averages, by its row and column. */
export function areasOf(step: Question, unit: Unit, geometry: Geometry): (row: number, column: number) => Area {
  if (isRegions(unit)) {
    const parts = partsOf(step);
    const span = (first: number, length: number, part: number): [number, number] => {
      const [begin, end] = [part, part + 1].map((one) => Math.floor((one * length) / parts)) as [number, number];
      return [first + begin, first + Math.max(end, begin + 1)];
    };
    return (row, column) => {
      const { left, top, width, height } = unit.places[Math.floor(row / parts)]!;
      return { rows: span(top, height, row % parts), columns: span(left, width, column) };
    };
  }
  const { rows, columns } = cutsOf(step, unit, geometry);
  return (row, column) => ({ rows: [rows[row]!, rows[row + 1]!], columns: [columns[column]!, columns[column + 1]!] });
}

export function isRegions(unit: Unit): unit is Regions {
  return unit.kind === "region";
}

/** Return the size of the coarse picture that a question asks about. */
export function gridOf(step: Question, unit: Unit, geometry: Geometry): Geometry {
  const { height, width, channels } = geometry;
  if (isRegions(unit)) return { height: partsOf(step) * unit.places.length, width: partsOf(step), channels };
  const [rows, columns] = [unit.partCount(height, partsOf(step)), unit.partCount(width, partsOf(step))];
  return { height: rows, width: columns, channels };
}

/** Throw if a step's numbers are out of their ranges, or if the unit cannot be divided into its coarse pixels. */
export function requireStep(step: Step, unit: Unit): void {
  if (step.indexBits < 1 || step.indexBits > MAX_INDEX_BITS) {
    throw new DippError("index_bits", `must be from 1 to ${MAX_INDEX_BITS}, got ${step.indexBits}`);
  }
  requireFloats(step.gain, ...(step.kind === "sensing" ? [step.tilt, step.clip] : []));
  if (step.kind === "questions") requireQuestion(step, unit);
}

function requireQuestion(step: Question, unit: Unit): void {
  requireFloats(step.scale);
  if (step.split < 1 || step.split > MAX_SPLIT || step.split & (step.split - 1)) {
    throw new DippError("split", `must be a power of two from 1 to ${MAX_SPLIT}, got ${step.split}`);
  }
  if (!(step.rounds in ROUNDS)) throw new DippError("rounds", `must be one of 1, 2, 4, got ${step.rounds}`);
  if (step.candidate !== SIGNS && (step.candidate !== WORDS || step.scale !== 1)) {
    throw new DippError("candidate", `must be 0 (words, at the scale 1) or 1 (signs), got ${step.candidate}`);
  }
  if (step.chunkSize !== 1) throw new DippError("chunk_size", `must be 1 where a chunk is a block, got ${step.chunkSize}`);
  unit.partCount(1, partsOf(step));
  if (isRegions(unit) && step.rounds > 1) throw new DippError("rounds", `must be 1 for regions, whose surroundings are known before the first step, got ${step.rounds}`);
}

/** Throw if the steps cannot follow each other. */
export function requireSequence(steps: readonly Step[]): void {
  if (steps.some((step) => step.kind !== steps[0]!.kind)) throw new DippError("steps", "must be of one kind");
  if (steps[0]!.kind === "sensing" && steps[0]!.level) throw new DippError("level", `must be 0 in the first step, which calls no network, got ${steps[0]!.level}`);
  const questions = steps.filter((step) => step.kind === "questions");
  if (questions.some((step, i) => i && step.split < questions[i - 1]!.split)) {
    throw new DippError("split", `must not fall from step to step, got ${questions.map((step) => step.split).join(", ")}`);
  }
  if (questions.some((step, i) => i && step.rounds > 1)) {
    throw new DippError("rounds", "must be 1 after the first step, because all blocks are known by then");
  }
}

function requireFloats(...values: number[]): void {
  for (const value of values) {
    if (!(Number.isFinite(value) && value > 0 && value === Math.fround(value))) {
      throw new DippError("step", `must have finite 32-bit floats above 0, got ${value}`);
    }
  }
}
