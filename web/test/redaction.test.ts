import assert from "node:assert/strict";
import { test } from "node:test";
import { fromHex, hex } from "../src/format/bytes";
import { quantile } from "../src/core/normals";
import { type Box, compressionOf, grown, maskOf, runsOf } from "../src/redaction/boxes";
import { crops } from "../src/redaction/crops";
import { png } from "../src/redaction/png";
import { recordOf } from "../src/redaction/record";
import { redact } from "../src/redaction/redact";
import { SHRINKING } from "./shrinking";
import { vectors } from "./vectors";

const boxesOf = (one: any): Box[] => one.boxes.map(([left, top, width, height]: number[]) => ({ left, top, width, height }) as Box);
const quiet = (): void => {};

test("normal quantiles are those of tables", () => {
  for (const [probability, value] of [[0.5, 0], [0.975, 1.959963984540054], [0.001, -3.090232306167813], [1e-9, -5.997807015007774]] as const) {
    assert.ok(Math.abs(quantile(probability) - value) < 1e-12 * Math.max(1, Math.abs(value)));
  }
});

test("a picture becomes the PNG file that Python writes", () => {
  for (const one of vectors.redactions!) {
    const [height, width] = one.shape;
    const pixels = fromHex(one.picture);
    assert.equal(hex(png({ height, width }, pixels)), one.whole);
  }
});

test("boxes cover, and are painted in, what Python says, to within a level", async () => {
  for (const one of vectors.redactions!) {
    const [height, width] = one.shape;
    const picture = { height, width, pixels: fromHex(one.picture) };
    const boxes = boxesOf(one);
    const mask = maskOf(boxes, picture);
    assert.deepEqual(runsOf(mask), one.runs);
    assert.deepEqual(crops(mask, picture).map(({ box }) => [box.left, box.top, box.left + box.width, box.top + box.height]), one.crops);
    const made = await redact(picture, boxes, SHRINKING, quiet);
    const wanted = fromHex(one.painted);
    const most = made.picture.pixels.reduce((worst, value, i) => Math.max(worst, Math.abs(value - wanted[i]!)), 0);
    assert.ok(most <= 1, `${most} levels`);
    if (!most) assert.equal(hex(made.file), one.file);
  }
});

test("what a box shows does not reach the file, its size or the record", async () => {
  const one = vectors.redactions![1]!;
  const [height, width] = one.shape;
  const boxes = boxesOf(one);
  const files = await Promise.all(
    [0, 7, 255].map(async (value) => {
      const pixels = fromHex(one.picture);
      maskOf(boxes, { height, width }).forEach((covered, i) => {
        if (covered) pixels.fill(value, 3 * i, 3 * i + 2); // the third channel keeps what it was: a colour
      });
      const { file, mask } = await redact({ height, width, pixels }, boxes, SHRINKING, quiet);
      const about = { version: "0", model: SHRINKING.identity };
      return [hex(file), recordOf(file, "a.png", { height, width }, boxes, mask, { growth: 0, assumption: "" }, about)];
    }),
  );
  assert.deepEqual(files[1], files[0]);
  assert.deepEqual(files[2], files[0]);
});

test("boxes grow in a JPEG by two of its MCUs, and other lossy files are refused", () => {
  const jpeg = (factors: number): Uint8Array =>
    Uint8Array.from([0xff, 0xd8, 0xff, 0xe0, 0, 4, 1, 2, 0xff, 0xc2, 0, 17, 8, 0, 9, 0, 9, 3, 1, factors, 0, 2, 0x11, 0, 3, 0x11, 0]);
  assert.equal(compressionOf(jpeg(0x11)).growth, 15);
  assert.equal(compressionOf(jpeg(0x22)).growth, 31);
  assert.equal(compressionOf(jpeg(0x41)).growth, 63);
  assert.equal(compressionOf(fromHex(vectors.redactions![0].whole)).growth, 0);
  const text = (words: string): Uint8Array => new TextEncoder().encode(words.padEnd(40));
  assert.equal(compressionOf(text("RIFF....WEBPVP8L")).growth, 0);
  for (const other of ["RIFF....WEBPVP8 ", "GIF89a", "....ftypavif", "BM"]) assert.throws(() => compressionOf(text(other)), /use dipp redact/);
  assert.throws(() => compressionOf(Uint8Array.from([0xff, 0xd8, 0xff, 0xd9])), /sampled/);
});

test("a grown box stays in the picture", () => {
  const size = { height: 20, width: 30 };
  assert.deepEqual(grown({ left: 2.5, top: 3, width: 4, height: 4 }, 1, size), { left: 1, top: 2, width: 7, height: 6 });
  assert.deepEqual(grown({ left: 28, top: 18, width: 40, height: 40 }, 5, size), { left: 23, top: 13, width: 7, height: 7 });
  assert.equal(grown({ left: 50, top: 3, width: 4, height: 4 }, 1, size), undefined);
});
