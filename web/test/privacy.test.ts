import assert from "node:assert/strict";
import { test } from "node:test";
import { CLOSEST } from "../src/codes/closest";
import { flat } from "../src/codes/flat";
import { drawBits, PAIRS, thresholds } from "../src/codes/pairs";
import { bestOf, drawn } from "../src/core/closest";
import { PIXEL } from "../src/core/units";
import { boundWords, largestBelief, upper } from "../src/privacy/certificate";
import { digest, double, fromDouble, vectors } from "./vectors";

test("pairs and flat cost as much as in Python", () => {
  for (const one of vectors.prices!) {
    const [units, largest, fractionBits] = one.moved;
    const terms = { sensitivity: units, fractionBits, clip: largest, slope: 2 ** 20 };
    const pair = PAIRS.price(terms, 1, true, 255);
    assert.deepEqual([double(pair.epsilon), double(pair.rho)], one.pairs, JSON.stringify(one.moved));
    const searched = flat({ numerator: 1, denominator: 1 }).price(terms, 1, true, 255);
    assert.deepEqual([double(searched.epsilon), double(searched.rho)], one.flat, JSON.stringify(one.moved));
  }
});

test("closest costs as much as in Python, and draws by the same rule", () => {
  for (const one of vectors.weights!) {
    const weights = { candidates: one.candidates, best: one.best, heavy: BigInt(one.heavy), light: BigInt(one.light) };
    const { epsilon, rho } = CLOSEST.price(weights, 1, true, 255);
    assert.deepEqual([double(epsilon), double(rho)], one.price, JSON.stringify(one));
  }
});

test("the nearest candidates are distinct, ascending and of the same number for any scores", () => {
  for (const { scores, best, expected } of vectors.nearest!) {
    const out = new Int32Array(best);
    bestOf(Float64Array.from(scores, (one: number | string) => (one === "nan" ? NaN : one === "inf" ? Infinity : one === "-inf" ? -Infinity : Number(one))), out);
    assert.deepEqual([...out], expected);
  }
});

test("an index is drawn by its weight", () => {
  // Of 2^16 draws, the count of a weight p·W is off by more than 6 deviations with a probability below 1e-8.
  const weights = { candidates: 8, best: 2, heavy: 7n, light: 2n };
  const count = 1 << 16;
  const sets = new Int32Array(2 * count).map((_, i) => (i % 2 ? 6 : 1));
  const met = new Float64Array(8);
  for (const index of drawn(weights, sets)) met[index]! += 1;
  met.forEach((found, index) => {
    const p = (index === 1 || index === 6 ? 7 : 2) / 26;
    assert.ok(Math.abs(found - p * count) < 6 * Math.sqrt(count * p * (1 - p)), `${index}: ${found}`);
  });
});

test("all thresholds equal Python's", () => {
  const tables = vectors.prices!.filter((one) => one.thresholds);
  assert.ok(tables.length >= 20);
  for (const one of tables) assert.equal(digest(thresholds(one.moved[1], one.moved[2])), one.thresholds);
});

test("bits are drawn by their thresholds", () => {
  // 2^17 draws of a bit of probability p: the count is off by more than 6 deviations with a probability below 1e-8.
  const table = thresholds(40, 5);
  const count = 1 << 17;
  for (const shift of [-40, -11, 0, 17]) {
    const bits = drawBits(new Int32Array(count).fill(shift), 40, table);
    const p = 1 / (1 + 2 ** ((-2 * shift) / 32));
    const ones = bits.reduce((total, bit) => total + bit, 0);
    assert.ok(Math.abs(ones - p * count) < 6 * Math.sqrt(count * p * (1 - p)), `${shift}: ${ones} of ${count}`);
  }
});

test("printed bounds are upper bounds, and equal Python's", () => {
  for (const one of vectors.prices!) {
    const value = fromDouble(one.pairs[0]);
    if (!/e/.test(one.printed)) assert.equal(upper(value), one.printed);
    for (const digits of [1, 3, 6]) {
      const text = upper(value, digits);
      assert.ok(Number(text) >= value && Number(text) <= value * (1 + 10 ** (1 - digits) * 1.01), `${value} ${text}`);
    }
  }
  assert.equal(upper(4, 3), "4");
  assert.equal(upper(3.9999999, 3), "4");
  assert.equal(upper(9.999999, 3), "10");
  assert.equal(upper(0.123401, 3), "0.124");
  assert.equal(upper(2957.3, 3), "2960");
  assert.equal(upper(8_886_110.6, 3), "8,890,000");
  assert.match(boundWords({ epsilon: 4, what: "one pixel", reader: PIXEL.reader }), /at most 98\.21\s% for somebody who knows every other pixel/);
  assert.match(boundWords({ epsilon: 64, what: "one pixel", reader: PIXEL.reader }), /one pixel may become as good as certain for/);
  assert.equal(largestBelief(4), "98.21");
  assert.equal(largestBelief(11), "99.9984"); // and not 100
  assert.equal(largestBelief(16), "99.999989");
  for (let epsilon = 0.1; epsilon < 18; epsilon += 0.05) {
    const belief = Number(largestBelief(epsilon));
    assert.ok(belief >= 100 / (1 + Math.exp(-epsilon)) && belief < 100, `${epsilon} ${belief}`);
  }
});
