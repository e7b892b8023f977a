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
  readonly rates: readonly number[];
  readonly pixels: number;
  /** File names of sample pictures. */
  readonly samples: readonly string[];
  readonly unit: string;
  readonly assumptions: readonly string[];
  readonly notCovered: readonly string[];
  readonly plans: readonly TableEntry[];
}

export function planOf(entry: TableEntry): Plan {
  const steps = entry.clips.map((clip, i) => ({
    tilt: entry.tilt,
    clip,
    gain: entry.gains[i]!,
    chunkSize: 1,
    indexBits: 1,
  }));
  return new Plan(entry.period, PAIRS, steps);
}

export function certificateOf(entry: TableEntry, channels: number, pixels: number): Certificate {
  return Certificate.of(planOf(entry), channels, pixels);
}
