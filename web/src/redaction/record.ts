/** The record of a redaction, as `dipp check` reads it (`dipp/redaction/record.py`). It holds nothing of the original. */

import type { Size } from "../core/geometry";
import { sha256 } from "../core/sha256";
import type { Archive } from "../format/archive";
import { hex } from "../format/bytes";
import { type Box, type Compression, runsOf } from "./boxes";

const CHOSEN = "Whoever has the file learns where regions are, of which kind and how many: declaring them told that.";
const NOT_COVERED = "What no region covers is not protected: what a detector missed, hair, clothes, places, other pictures.";

const UNIT =
  "A region is every pixel of the cells that it meets (in a JPEG: of the MCUs), as they are stored. Regions with one id, or " +
  "that share a cell, are one unit, which pays ε for all that it answers.";

/** Return the text of a record; `archive` has the answers about the boxes, if there are any. */
export function recordOf(
  file: Uint8Array,
  name: string,
  { width, height }: Size,
  boxes: readonly Box[],
  mask: Uint8Array,
  { assumption }: Compression,
  { version, model, assumptions }: { version: string; model: string; assumptions: readonly string[] },
  archive?: Archive,
): string {
  const price = archive?.certificate;
  const said = price ? [CHOSEN, NOT_COVERED, UNIT, ...assumptions, assumption] : [CHOSEN, NOT_COVERED, assumption];
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
    ...(archive ? { answers: base64(archive.bytes) } : {}),
    certificate: {
      unit: { kind: "region", regions: boxes.length, units: price ? price.unit.count({ width, height }) : boxes.length },
      epsilon: price?.epsilon ?? 0,
      rho: price?.rho ?? 0,
      delta: 0,
      outside: "released as it was",
      public: ["position", "size", "kind", "unit", "number"],
      assumptions: said,
    },
  };
  return `${JSON.stringify(facts, null, 1)}\n`;
}

function base64(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}
