/**
 * The interface of a denoiser, which predicts x̂0 from public evidence. No certificate depends on what it computes. States
 * and predictions are (C, H, W) in 32-bit floats, with pixels in [−1, 1].
 */

import type { Size } from "../core/geometry";
import type { Books } from "./books";
import type { Evidence, Plane } from "./evidence";

export interface Denoiser {
  /** Hex SHA-256 by which files name the denoiser. */
  readonly identity: string;
  readonly channels: number;
  /** The planes of the evidence that the denoiser takes. */
  readonly planes: readonly Plane[];
  /** The words of the denoiser's books; undefined if it has none. */
  readonly books: Books | undefined;
  /** Return x̂0 within [−1, 1], for pictures of any size. */
  predict(evidence: Evidence, size: Size): Promise<Float32Array>;
}
