/**
 * PNG files, byte for byte as Python writes them (`dipp/redaction/png.py`), so that `dipp check` sees that a file holds
 * its picture and nothing else.
 */

import { deflate } from "pako";
import type { Size } from "../core/geometry";
import { crc32, joined } from "../format/bytes";

const SIGNATURE = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];
const LEVEL = 6;

/** Return the PNG file of a picture of one or three channels, at pixel·C + channel. */
export function png({ height, width }: Size, pixels: Uint8Array): Uint8Array {
  const channels = pixels.length / (height * width);
  const header = new Uint8Array(13);
  const view = new DataView(header.buffer);
  view.setUint32(0, width);
  view.setUint32(4, height);
  header.set([8, channels === 1 ? 0 : 2], 8);
  const data = deflate(filtered(pixels, width * channels, channels), { level: LEVEL });
  return joined([Uint8Array.from(SIGNATURE), chunk("IHDR", header), chunk("IDAT", data), chunk("IEND", new Uint8Array())]);
}

function chunk(name: string, body: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(body.length + 12);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, body.length);
  bytes.set(new TextEncoder().encode(name), 4);
  bytes.set(body, 8);
  view.setUint32(body.length + 8, crc32(bytes.subarray(4, body.length + 8)));
  return bytes;
}

/** Return the filtered lines, each after the number of the filter that leaves the smallest sum of magnitudes. */
function filtered(pixels: Uint8Array, length: number, step: number): Uint8Array {
  const rows = pixels.length / length;
  const out = new Uint8Array(rows * (length + 1));
  const trial = new Uint8Array(length);
  for (let row = 0; row < rows; row += 1) {
    let least = Infinity;
    for (let kind = 0; kind < 5; kind += 1) {
      let total = 0;
      for (let i = 0; i < length; i += 1) {
        const at = row * length + i;
        const left = i >= step ? pixels[at - step]! : 0;
        const above = row ? pixels[at - length]! : 0;
        const corner = row && i >= step ? pixels[at - length - step]! : 0;
        const byte = (pixels[at]! - predicted(kind, left, above, corner)) & 255;
        trial[i] = byte;
        total += byte < 128 ? byte : 256 - byte;
      }
      if (total >= least) continue;
      least = total;
      out[row * (length + 1)] = kind;
      out.set(trial, row * (length + 1) + 1);
    }
  }
  return out;
}

/** Return the byte that a filter predicts. */
function predicted(kind: number, left: number, above: number, corner: number): number {
  if (kind === 0) return 0;
  if (kind === 1) return left;
  if (kind === 2) return above;
  if (kind === 3) return (left + above) >> 1;
  const guess = left + above - corner;
  const [a, b, c] = [Math.abs(guess - left), Math.abs(guess - above), Math.abs(guess - corner)];
  if (a <= b && a <= c) return left;
  return b <= c ? above : corner;
}
