/** The record of a redaction, as `dipp check` reads it (`dipp/redaction/record.py`). It holds nothing of the original. */

import type { Size } from "../core/geometry";
import { sha256 } from "../core/sha256";
import { hex } from "../format/bytes";
import { type Box, type Compression, runsOf } from "./boxes";

const CHOSEN = "Whoever has the file learns where regions are, of which kind and how many: declaring them told that.";
const NOT_COVERED = "What no region covers is not protected: what a detector missed, hair, clothes, places, other pictures.";

/** The text of a record. */
export function recordOf(
  file: Uint8Array,
  name: string,
  { width, height }: Size,
  boxes: readonly Box[],
  mask: Uint8Array,
  { assumption }: Compression,
  { version, model }: { version: string; model: string },
): string {
  const facts = {
    format: "dipp redaction",
    version: 1,
    dipp: version,
    output: { name, sha256: hex(sha256(file)), bytes: file.length, kind: "PNG", size: [width, height], orientation: 1 },
    regions: boxes.map((box) => ({ kind: "region", box: [box.left, box.top, box.width, box.height] })),
    turned: 1,
    margin: { pixels: 0, share: 0 },
    hidden: { cell: [1, 1], runs: runsOf(mask), pixels: mask.reduce((sum, covered) => sum + covered, 0) },
    fill: "paint",
    model,
    certificate: {
      unit: { kind: "region", regions: boxes.length, units: boxes.length },
      epsilon: 0,
      rho: 0,
      delta: 0,
      outside: "released as it was",
      public: ["position", "size", "kind", "id", "number"],
      assumptions: [CHOSEN, NOT_COVERED, assumption],
    },
  };
  return `${JSON.stringify(facts, null, 1)}\n`;
}
