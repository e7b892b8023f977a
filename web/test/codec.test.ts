import assert from "node:assert/strict";
import { test } from "node:test";
import { decode, encode, toPixels } from "../src/codec/codec";
import { oddsOfPixel } from "../src/codec/odds";
import { coarser, sampled } from "../src/codec/sampling";
import { Archive } from "../src/format/archive";
import { fromHex, hex } from "../src/format/bytes";
import { Books } from "../src/models/books";
import type { Denoiser } from "../src/models/denoiser";
import { SHRINKING, TOLD, WORDS } from "./shrinking";
import { vectors, withCountedBytes } from "./vectors";
import { refused } from "./refusals";

const quiet = (): void => {};

type Encoding = NonNullable<typeof vectors.encodings>[number];

const denoiserOf = (one: Encoding): Denoiser => (one.told ? TOLD : SHRINKING);

/** Encode a picture, and count how often each of its values is read. */
async function encodeCounting(one: Encoding): Promise<{
  made: Awaited<ReturnType<typeof encode>>;
  picture: Uint8Array;
  reads: Map<string, number>;
}> {
  const source = Archive.fromBytes(fromHex(one.file));
  const { height, width } = source.image(0);
  const picture = fromHex(one.picture), reads = new Map<string, number>();
  const pixels = new Proxy(picture, {
    get(target, name) {
      reads.set(String(name), (reads.get(String(name)) ?? 0) + 1);
      return Reflect.get(target, name) as unknown;
    },
  });
  const made = await encode(source.parameters, { height, width, pixels }, denoiserOf(one), quiet);
  return { made, picture, reads };
}

test("the same private bytes give the same file", async () => {
  const own = vectors.encodings!.filter((one) => one.code !== "flat");
  for (const code of ["pairs", "closest"]) assert.ok(own.filter((one) => one.code === code).length >= 5);
  for (const one of own) {
    const source = Archive.fromBytes(fromHex(one.file));
    const { height, width } = source.image(0);
    const made = await withCountedBytes(() =>
      encode(source.parameters, { height, width, pixels: fromHex(one.picture) }, denoiserOf(one), quiet));
    assert.equal(hex(made.archive.bytes), one.file);
  }
});

test("a private pixel is read once for each bit that it is asked for, and nowhere else", async () => {
  const one = vectors.encodings!.filter((file) => file.code === "pairs")[3]!;
  const { made, reads } = await encodeCounting(one);
  const asked = new Map<string, number>();
  for (const { coordinates } of made.result.answers) {
    for (const coordinate of coordinates) asked.set(String(coordinate), (asked.get(String(coordinate)) ?? 0) + 1);
  }
  assert.deepEqual([...reads].sort(), [...asked].sort());
  assert.equal([...reads.values()].reduce((sum, count) => sum + count, 0), made.result.indices.length);
});

test("a question reads each private pixel once", async () => {
  const one = vectors.encodings!.find((file) => file.code === "closest" && file.steps > 1 && file.rounds > 1)!;
  const { picture, reads } = await encodeCounting(one);
  assert.equal(reads.size, picture.length);
  assert.ok([...reads.values()].every((count) => count === one.steps));
});

test("a change of one unit changes neither questions nor answers of other units", async () => {
  for (const one of vectors.encodings!.filter((file) => file.code === "closest" && file.unit === "cell")) {
    const source = Archive.fromBytes(fromHex(one.file));
    const { plan } = source.parameters;
    const { height, width } = source.image(0);
    const first = fromHex(one.picture);
    // The whole first unit changes. With the same private bytes, all other units answer the first question as before,
    // because it depends on nothing else.
    const second = first.map((value, i) => (plan.unit.of(Math.floor(i / 3), { height, width }) === 0 ? 255 - value : value));
    const files = [];
    for (const pixels of [first, second]) {
      files.push(await withCountedBytes(() => encode(source.parameters, { height, width, pixels }, SHRINKING, quiet)));
    }
    const [step] = plan.steps;
    if (step?.kind !== "questions" || step.rounds > 1 || step.split > 1) continue;
    const count = plan.unit.count({ height, width });
    const [a, b] = files.map(({ result }) => [...result.indices.subarray(1, count)]);
    assert.deepEqual(a, b);
  }
});

test("files that were made with other words are refused in one line", async () => {
  const one = vectors.encodings!.find((file) => file.code === "closest")!;
  const source = Archive.fromBytes(fromHex(one.file));
  const other = { ...SHRINKING, books: Books.fromBytes(WORDS, "00") };
  await assert.rejects(decode(source, 0, other, quiet), /other words/);
  await assert.rejects(decode(source, 0, { ...SHRINKING, books: undefined }, quiet), /other words/);
  assert.throws(() => Books.fromBytes(WORDS.subarray(0, 100), "00"), refused("the page", "damaged words"));
});

test("files of all codes decode to Python's pixels", async () => {
  assert.ok(vectors.encodings!.some((one) => one.grey));
  for (const one of vectors.encodings!) {
    const source = Archive.fromBytes(fromHex(one.file));
    const { expected, state, grey } = await decode(source, 0, denoiserOf(one), quiet);
    assert.equal(grey, one.grey);
    const own = toPixels(expected, 3, grey);
    // Sums of floats may be rounded in another order.
    fromHex(one.expected).forEach((value, i) => assert.ok(Math.abs(own[i]! - value) <= 1));
    const noisy = toPixels(state.map((y) => y * one.gamma), 3, grey);
    const theirs = fromHex(one.noisy);
    noisy.forEach((value, i) => assert.ok(Math.abs(value - theirs[i]!) <= 1));
  }
});

test("another denoiser is refused in one line", async () => {
  const source = Archive.fromBytes(fromHex(vectors.encodings![0]!.file));
  await assert.rejects(decode(source, 0, { ...SHRINKING, identity: "00" }, quiet), /another denoiser/);
});

test("no pixel's odds exceed the certificate", async () => {
  for (const one of vectors.encodings!.filter((one) => one.code === "pairs")) {
    const source = Archive.fromBytes(fromHex(one.file));
    const { answers, height, width } = await decode(source, 0, denoiserOf(one), quiet);
    let most = 0;
    for (let pixel = 0; pixel < height * width; pixel += 1) {
      const { likelihoods, asked } = oddsOfPixel(answers, pixel, 3);
      assert.ok(asked.length <= 3);
      const spread = Math.max(...likelihoods) - Math.min(...likelihoods);
      most = Math.max(most, spread);
    }
    assert.ok(most <= source.certificate.epsilon * (1 + 1e-12), `${most} ${source.certificate.epsilon}`);
    assert.ok(most > 0.5 * source.certificate.epsilon || height * width < 10);
  }
});

test("the channels of a grey picture come out equal", () => {
  const state = Float32Array.from([-1, 0.5, 0, 0.5, 1, 0.5]);
  assert.deepEqual([...toPixels(state, 3, true)], [128, 128, 128, 191, 191, 191]);
  assert.deepEqual([...toPixels(state, 3)], [0, 128, 255, 191, 191, 191]);
});

test("samples differ, and large pictures are sampled from means of their state", async () => {
  const state = Float32Array.from({ length: 3 * 6 * 10 }, (_, i) => Math.sin(i));
  const cuts = { rows: Int32Array.from({ length: 7 }, (_, i) => i), columns: Int32Array.from({ length: 11 }, (_, i) => i) };
  const end = { known: { state, precision: 2 }, grid: { height: 6, width: 10, channels: 3 }, cuts };
  assert.equal(coarser(end, 60), end);
  const coarse = coarser(end, 15);
  assert.deepEqual([coarse.grid.height, coarse.grid.width, coarse.known.precision], [3, 5, 8]);
  assert.deepEqual([...coarse.cuts.columns], [0, 2, 4, 6, 8, 10]);
  assert.ok(Math.abs(coarse.known.state[0]! - (state[0]! + state[1]! + state[10]! + state[11]!) / 4) < 1e-6);
  const seed = new Uint8Array(16);
  const draw = (number: number): Promise<Float32Array> => sampled(SHRINKING, coarse, { seed, number, calls: 3 });
  const [first, second, again] = await Promise.all([draw(0), draw(1), draw(0)]);
  assert.deepEqual(again, first);
  assert.notDeepEqual(second, first);
});
