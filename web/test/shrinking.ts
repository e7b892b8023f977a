/** A denoiser that `tools/vectors.py` has as well: x̂0 = y·SNR/(SNR + 1), within [−1, 1]. */

import { createHash } from "node:crypto";
import { fromHex } from "../src/format/bytes";
import { Books } from "../src/models/books";
import type { Denoiser } from "../src/models/denoiser";
import { levelOf, merged, restored } from "../src/models/evidence";
import { vectors } from "./vectors";

export const WORDS = fromHex(vectors.words![0] as string);

export const SHRINKING: Denoiser = {
  planes: ["state"],
  identity: createHash("sha256").update("shrinking").digest("hex"),
  channels: 3,
  books: Books.fromBytes(WORDS, createHash("sha256").update(WORDS).digest("hex")),
  async predict(evidence) {
    const snr = levelOf(evidence);
    const share = Math.fround(snr / (snr + 1));
    const found = merged(evidence).state.map((y) => Math.min(Math.max(Math.fround(y * share), -1), 1));
    return restored(found, evidence);
  },
};

/** A denoiser that takes answers: it adds 0.1 of each answer, and of the value it was compared with. */
export const TOLD: Denoiser = {
  ...SHRINKING,
  planes: ["state", "compared", "answer"],
  async predict(evidence, size) {
    const { compared, answers } = evidence;
    const found = await SHRINKING.predict(evidence, size);
    const tenth = Math.fround(0.1);
    return found.map((value, i) => {
      const more = Math.fround(Math.fround((compared?.[i] ?? 0) + (answers?.[i] ?? 0)) * tenth);
      return Math.min(Math.max(Math.fround(value + more), -1), 1);
    });
  },
};
