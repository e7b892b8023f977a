/**
 * The protocol of a denoiser: x̂0 of public evidence. It is public, and no certificate depends on what it computes. States
 * and predictions are (C, H, W) in 32-bit floats, with pixels in [−1, 1].
 */

import type { Size } from "../core/geometry";
import type { Books } from "./books";
import type { Evidence, Plane } from "./evidence";

export interface Denoiser {
  /** Hex SHA-256 by which files name it. */
  readonly identity: string;
  readonly channels: number;
  /** What of the evidence it takes. */
  readonly planes: readonly Plane[];
  /** The words by which questions are asked; undefined if it has none. */
  readonly books: Books | undefined;
  /** x̂0 within [−1, 1], at any size. */
  predict(evidence: Evidence, size: Size): Promise<Float32Array>;
}
