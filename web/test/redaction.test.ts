import assert from "node:assert/strict";
import { test } from "node:test";
import { decode, encodeRegions, toPixels } from "../src/codec/codec";
import { mostPlaces, type Place, placesOf, type Regions, regions, regionsOf } from "../src/core/regions";
import type { Unit } from "../src/core/units";
import { Archive } from "../src/format/archive";
import { fromHex, hex } from "../src/format/bytes";
import { quantile } from "../src/core/normals";
import { type Box, compressionOf, grown, maskOf, runsOf } from "../src/redaction/boxes";
import { crops } from "../src/redaction/crops";
import { png } from "../src/redaction/png";
import { recordOf } from "../src/redaction/record";
import { redact } from "../src/redaction/redact";
import { SHRINKING } from "./shrinking";
import { vectors, withCountedBytes } from "./vectors";
import { refused } from "./refusals";

const placesOfUnit = (unit: Unit): number => (unit as Regions).places.length;
const unitOfPlace = (unit: Unit, place: number): number => (unit as Regions).places[place]!.unit;

const boxesOf = (one: any): Box[] => one.boxes.map(([left, top, width, height]: number[]) => ({ left, top, width, height }) as Box);
const quiet = (): void => {};

test("normal quantiles equal those of tables", () => {
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

test("boxes cover the pixels that Python covers, and are painted alike to within a level", async () => {
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

test("the content of a box changes neither the file, nor its size, nor the record", async () => {
  const one = vectors.redactions![1]!;
  const [height, width] = one.shape;
  const boxes = boxesOf(one);
  const files = await Promise.all(
    [0, 7, 255].map(async (value) => {
      const pixels = fromHex(one.picture);
      maskOf(boxes, { height, width }).forEach((covered, i) => {
        if (covered) pixels.fill(value, 3 * i, 3 * i + 2); // the third channel stays, so that the pixel has a colour
      });
      const { file, mask } = await redact({ height, width, pixels }, boxes, SHRINKING, quiet);
      const about = { assumptions: [], version: "0", model: SHRINKING.identity };
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
  for (const other of ["RIFF....WEBPVP8 ", "GIF89a", "....ftypavif", "BM"]) assert.throws(() => compressionOf(text(other)), refused("the picture", "dipp redact"));
  assert.throws(() => compressionOf(Uint8Array.from([0xff, 0xd8, 0xff, 0xd9])), refused("the picture", "sampled"));
});

test("a grown box stays in the picture", () => {
  const size = { height: 20, width: 30 };
  assert.deepEqual(grown({ left: 2.5, top: 3, width: 4, height: 4 }, 1, size), { left: 1, top: 2, width: 7, height: 6 });
  assert.deepEqual(grown({ left: 28, top: 18, width: 40, height: 40 }, 5, size), { left: 23, top: 13, width: 7, height: 7 });
  assert.equal(grown({ left: 50, top: 3, width: 4, height: 4 }, 1, size), undefined);
});

test("boxes that are asked answer as in Python, and show the same", async () => {
  for (const { boxes, places, base, picture, file, decoded, shape: [height, width] } of vectors.answers!) {
    const own = (boxes as number[][]).map(([left, top, wide, high]) => ({ left: left!, top: top!, width: wide!, height: high! }));
    assert.deepEqual(placesOf(own).map(({ unit, left, top, width, height }) => [unit, left, top, width, height]), places);
    const { parameters } = Archive.fromBytes(fromHex(file));
    assert.deepEqual(regions(placesOf(own)).bytes, parameters.plan.unit.bytes);
    const whole = { height, width, pixels: fromHex(picture) };
    const made = await withCountedBytes(() => Promise.resolve(encodeRegions(parameters, whole, fromHex(base), SHRINKING)));
    assert.equal(hex(made.archive.bytes), file);
    const theirs = fromHex(decoded);
    toPixels(made.state, 3).forEach((value, i) => assert.ok(Math.abs(value - theirs[i]!) <= 1, `${i}: ${value} ${theirs[i]}`));
    await assert.rejects(decode(made.archive, 0, SHRINKING, quiet), /dipp check/);
  }
});

test("an answer depends on the pixels of its own box, and on none outside the boxes", async () => {
  for (const { picture, base, file, shape: [height, width] } of vectors.answers!) {
    const { parameters } = Archive.fromBytes(fromHex(file));
    const { unit } = parameters.plan;
    const reads = new Set<number>();
    const pixels = new Proxy(fromHex(picture), {
      get(target, name) {
        if (/^\d+$/.test(String(name))) reads.add(Math.floor(Number(name) / 3));
        return Reflect.get(target, name) as unknown;
      },
    });
    encodeRegions(parameters, { height, width, pixels }, fromHex(base), SHRINKING);
    for (let pixel = 0; pixel < height * width; pixel += 1) {
      assert.equal(reads.has(pixel), unit.of(pixel, { height, width }) >= 0);
    }
    // With other pixels in the first unit and the same private bytes, all other units answer alike.
    const other = fromHex(picture).map((value, i) => (unit.of(Math.floor(i / 3), { height, width }) === 0 ? 255 - value : value));
    const [first, second] = [fromHex(picture), other].map((values) => ({ height, width, pixels: values }));
    const made = [];
    for (const one of [first!, second!]) {
      made.push(await withCountedBytes(() => Promise.resolve(encodeRegions(parameters, one, fromHex(base), SHRINKING))));
    }
    const [a, b] = made.map(({ archive }) => archive.image(0).indices) as [Uint32Array, Uint32Array];
    const blocks = a.length / placesOfUnit(unit);
    a.forEach((index, i) => {
      if (unitOfPlace(unit, Math.floor(i / blocks))) assert.equal(b[i], index);
    });
  }
});

test("regions that overlap as different units, are empty or are numbered in another order are refused", () => {
  const box = (unit: number, left: number, width = 4): Place => ({ unit, left, top: 0, width, height: 4 });
  assert.equal(mostPlaces([box(0, 0), box(1, 9), box(0, 2)]), 2);
  assert.equal(regions([box(0, 0), box(1, 4)]).count({ height: 9, width: 9 }), 2);
  assert.throws(() => regions([box(0, 0), box(1, 3)]), refused("regions", "overlap"));
  assert.throws(() => regions([box(0, 0, 0)]), refused("regions", "empty"));
  assert.throws(() => regions([box(1, 0)]), refused("regions", "number their units"));
  assert.throws(() => regions([]), refused("regions", "1 to 1024"));
  assert.throws(() => regionsOf(new Uint8Array(23)), refused("regions", "masks"));
});
