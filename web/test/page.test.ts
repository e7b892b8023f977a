import assert from "node:assert/strict";
import { test } from "node:test";
import { CLOSEST } from "../src/codes/closest";
import { Mask } from "../src/core/masks";
import { cells, PICTURE, type Unit } from "../src/core/units";
import { requireEightBits } from "../src/page/picture";
import { Spent } from "../src/page/spent";
import { entryOf, gradeOf, measuredWords, type Table } from "../src/page/table";
import { Certificate } from "../src/privacy/certificate";
import { Ledger } from "../src/privacy/ledger";
import { refused } from "./refusals";

/** Return the certificate of one draw of ε = ln 2 for each unit. */
function certificate(unit: Unit): Certificate {
  const terms = { candidates: 16, best: 1, heavy: 2n, light: 1n };
  const one = { step: 0, terms, candidates: 16, chunks: 9, touched: 1, apart: true };
  return new Certificate(new Ledger(3, new Mask(1), CLOSEST, [one], unit));
}

test("a picture that is opened again is recognised, and another one is not", () => {
  const spent = new Spent();
  const picture = (seed: number, width = 30): { width: number; height: number; pixels: Uint8Array } =>
    ({ width, height: 600 / width, pixels: Uint8Array.from({ length: 1800 }, (_, i) => (seed * i) & 255) });
  const small = certificate(cells(8));
  assert.deepEqual(spent.add(picture(7), small, [8, 8]).files, 1);
  assert.deepEqual(spent.add(picture(8), small, [8, 8]).files, 1);
  assert.deepEqual(spent.add(picture(7, 20), small, [8, 8]).files, 1);
  // An object of 8×8 pixels meets up to four cells of 8, and one picture.
  const { files, epsilon } = spent.add(picture(7), certificate(PICTURE), [8, 8]);
  assert.equal(files, 2);
  assert.ok(epsilon >= 5 * Math.LN2 && epsilon < 5.0001 * Math.LN2);
});

/** Return the first bytes of a file, from text and numbers. */
const head = (...parts: (string | number)[]): Uint8Array =>
  Uint8Array.from(parts.flatMap((part) => (typeof part === "string" ? [...part].map((c) => c.charCodeAt(0)) : [part])));

test("pictures of more than eight bits are refused, and others are not", () => {
  const png = (bits: number): Uint8Array => head("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x08\0\0\0\x08", bits, 2, "\0\0\0");
  const avif = (...bits: number[]): Uint8Array =>
    head("\0\0\0\x1cftypavif", "\0".repeat(40), "\0\0\0\x10pixi\0\0\0\0", bits.length, ...bits, 255, 255);
  for (const fine of [png(1), png(8), avif(8, 8, 8), avif(8), head("\xff\xd8\xff\xe0"), head("GIF89a"), head("")])
    requireEightBits(fine);
  assert.throws(() => requireEightBits(png(16)), refused("the picture", "16 bits per channel", "dipp encode --window"));
  assert.throws(() => requireEightBits(avif(10, 10, 10)), refused("the picture", "10 bits per channel"));
  assert.throws(() => requireEightBits(avif(8, 8, 8, 12)), refused("the picture", "12 bits per channel"));
  const bare = (flags: number): Uint8Array => head("\0\0\0\x1cftypavif", "\0".repeat(40), "\0\0\0\x0cav1C", 0x81, 0, flags, 0);
  requireEightBits(bare(0x0c));
  assert.throws(() => requireEightBits(bare(0x4c)), refused("the picture", "10 bits per channel"));
  assert.throws(() => requireEightBits(bare(0x6c)), refused("the picture", "12 bits per channel"));
  for (const begin of ["II*\0", "MM\0*", "\xff\x0a", "\0\0\0\x0cJXL "])
    assert.throws(() => requireEightBits(head(begin)), refused("the picture", "TIFF or JPEG XL"));
});

test("every ε has a grade, and an ε between two grades has the better one", () => {
  const table = { scale: [{ largest: 1, name: "strong" }, { largest: 4, name: "weak" }, { largest: null, name: "none" }] } as unknown as Table;
  const grades = [0.1, 1, 1.001, 4, 4.001, 1e9].map((epsilon) => gradeOf(epsilon, table));
  assert.deepEqual(grades, ["strong", "strong", "weak", "weak", "none", "none"]);
});

test("a picture gets the plan of the next larger size, and a larger picture that of the largest", () => {
  const plans = [100, 400].flatMap((pixels) => [1, 2].map((epsilon) => ({ pixels, epsilon, rate: 1 })));
  const table = { plans } as unknown as Table;
  const found = [1, 100, 101, 400, 401].map((pixels) => entryOf(table, 1, 2, 1, pixels));
  assert.deepEqual(found, [plans[1], plans[1], plans[3], plans[3], plans[3]]);
});

test("the measured figure is that of the smallest measured ε that is not below", () => {
  const table = { readers: [[0.5, 86], [1, 92]] } as unknown as Table;
  for (const [epsilon, words] of [[0.1, "86 % of cases (measured at ε = 0.5)"], [0.5, "86 %"], [0.51, "92 %"], [0.99, "92 %"], [1, "92 %"], [9, "92 % of cases (measured at ε = 1)"]] as const)
    assert.ok(measuredWords(epsilon, table).includes(words));
});
