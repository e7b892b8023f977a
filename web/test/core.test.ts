import assert from "node:assert/strict";
import { test } from "node:test";
import { Arithmetic } from "../src/core/arithmetic";
import { chunks } from "../src/core/chunking";
import { fsum, nearest } from "../src/core/exact";
import { Mask } from "../src/core/masks";
import { draw, permutation, stream, words } from "../src/core/randomness";
import { fromHex } from "../src/format/bytes";
import { double, fromDouble, vectors } from "./vectors";

test("streams, words, permutations and draws equal Python's", () => {
  for (const one of vectors.streams!) {
    const source = stream(fromHex(one.seed), one.image, one.step, one.purpose);
    assert.deepEqual([source.key0, source.key1, source.nonce], one.stream);
    assert.deepEqual([...words(source, 11)], one.words);
    assert.deepEqual([...permutation(source, one.permutation.length)], one.permutation);
    for (const [chunk, group, candidate, drawn] of one.draws) assert.equal(draw(source, chunk, group, candidate), drawn);
  }
});

test("sums are exact and rounded once", () => {
  for (const [row, total] of vectors.sums!) assert.equal(double(fsum(row.map(fromDouble))), total);
  assert.equal(fsum([1e308, 1e308, -1e308]), 1e308);
  assert.equal(fsum([5e-324, 5e-324]), 1e-323);
  assert.equal(nearest(1n, 3n), 1 / 3);
  assert.equal(nearest(-(2n ** 53n) - 1n, 1n), -(2 ** 53)); // a tie goes to the even number
});

test("masks touch, count and price as Python's do", () => {
  for (const one of vectors.masks!) {
    const mask = new Mask(one.period);
    const seed = fromHex(one.seed);
    const touched = mask.touched(seed, one.step, one.pixels, one.channels);
    assert.deepEqual([...touched], one.touched);
    assert.deepEqual(one.counts.map((_: number, step: number) => mask.count(step, one.pixels, one.channels)), one.counts);
    assert.equal(double(mask.worst(one.charges.map(fromDouble), one.channels)), one.worst);
    if (one.chunks) {
      const dims = one.pixels * one.channels;
      const dealt = chunks(seed, one.step, dims, one.chunks.count, one.channels, touched);
      assert.deepEqual([...dealt.order], one.chunks.order);
      assert.deepEqual([...dealt.offsets], one.chunks.offsets);
    }
  }
});

test("the integers of a step equal Python's", () => {
  assert.ok(vectors.arithmetics!.length > 100);
  for (const one of vectors.arithmetics!) {
    const alpha = { numerator: one.alpha[0], denominator: one.alpha[1] };
    const clip = one.clip ? { tilt: one.clip[0], width: one.clip[1] } : undefined;
    const own = new Arithmetic(Math.sqrt(one.period), one.gain, alpha, clip);
    assert.equal(double(own.unit), one.unit);
    assert.deepEqual(
      [own.fractionBits, own.levelOfOne, own.largestShift ?? null, own.limit, own.sensitivity],
      [one.fraction_bits, one.level, one.largest, one.limit, one.sensitivity],
    );
    assert.deepEqual([...own.levels()], one.levels);
    const states = one.states.map((x: number | null) => (x === null ? NaN : x > 1e99 ? Infinity : x));
    assert.deepEqual(states.map((x: number) => own.centre(x) + 0), one.centres);
  }
});
