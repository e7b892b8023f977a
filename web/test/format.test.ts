import assert from "node:assert/strict";
import { test } from "node:test";
import { Archive } from "../src/format/archive";
import { crc32, fromHex, hex } from "../src/format/bytes";
import { headerBytes } from "../src/format/header";
import { DippError, FILE } from "../src/errors";
import { cells, PICTURE } from "../src/core/units";
import { headlineOf } from "../src/privacy/certificate";
import { Ledger, Recorder } from "../src/privacy/ledger";
import { digest, double, fromDouble, vectors } from "./vectors";
import { refused } from "./refusals";

test("files open, with Python's certificate, rates and indices", () => {
  for (const one of vectors.archives!) {
    const archive = Archive.fromBytes(fromHex(one.file));
    assert.equal(double(archive.certificate.epsilon), one.epsilon);
    assert.equal(double(archive.certificate.rho), one.rho);
    assert.equal(archive.payloadBpp, one.payload_bpp);
    assert.equal(archive.fileBpp, one.file_bpp);
    [1e-5, 1e-9].forEach((delta, i) => {
      const found = archive.certificate.approximate(delta);
      assert.ok(Math.abs(found - one.at_delta[i]) <= 1e-9 * one.at_delta[i]);
    });
    one.windows.forEach(([width, height, epsilon, rho]: [number, number, string, string]) => {
      const found = archive.certificate.forWindow(width, height);
      assert.deepEqual([double(found.epsilon), double(found.rho)], [epsilon, rho]);
    });
    assert.deepEqual(archive.parameters.hidden ?? null, one.hidden);
    const first = headlineOf(archive.certificate, archive.parameters.hidden);
    assert.deepEqual([double(first.epsilon), first.what], one.headline);
    assert.equal(archive.certificate.unit.words, one.unit.words);
    assert.equal(archive.certificate.unit.reader, one.unit.reader);
    assert.equal(archive.certificate.unit.short, one.unit.short);
    const [change, epsilon] = one.change;
    // With the code closest, a small change of a unit costs as much as a large one.
    if (one.code !== "closest") assert.equal(double(archive.certificate.ledger.worst(change).epsilon), epsilon);
    assert.deepEqual(archive.parameters.window ?? null, one.window);
    one.shapes.forEach(([height, width]: [number, number], number: number) => {
      const image = archive.image(number);
      assert.equal(image.grey, one.grey[number]);
      assert.deepEqual([image.height, image.width], [height, width]);
      assert.equal(digest(image.indices), one.indices[number]);
    });
  }
});

test("some of the files have a window, grey images, or both", () => {
  const met = vectors.archives!.map((one) => `${one.window !== null} ${one.grey.includes(true)} ${one.grey.includes(false)}`);
  for (const kind of ["true false true", "true true true", "true true false", "false true true", "false true false"]) {
    assert.ok(met.includes(kind), kind);
  }
});

test("headers and payloads are written byte for byte as Python writes them", () => {
  let written = 0;
  for (const one of vectors.archives!) {
    const archive = Archive.fromBytes(fromHex(one.file));
    const { parameters, runs } = archive;
    if (one.code === "flat" || one.described) continue;
    const header = hex(headerBytes(parameters, runs, archive.certificate));
    assert.equal(one.file.slice(0, header.length), header);
    if (archive.length !== 1) continue;
    const { height, width, indices } = archive.image(0);
    const ledger = Ledger.planned(parameters.plan, { height, width, channels: parameters.channels });
    assert.equal(hex(Archive.build(parameters, height, width, indices, ledger).bytes), one.file);
    written += 1;
  }
  assert.ok(written > 3);
});

test("an encoding whose ledger differs from its plan is not archived", () => {
  const one = vectors.archives!.find((file) => file.code === "pairs" && file.shapes.length === 1);
  const archive = Archive.fromBytes(fromHex(one.file));
  const { height, width, indices } = archive.image(0);
  const planned = Ledger.planned(archive.parameters.plan, { height, width, channels: 3 });
  const [first, ...rest] = planned.selections;
  const wrong = new Ledger(3, planned.mask, planned.code, [{ ...first!, touched: 0 }, ...rest], planned.unit);
  assert.throws(() => Archive.build(archive.parameters, height, width, indices, wrong), refused("ledger", "differs from that of its plan"));
});

test("a pixel that is touched more often than the mask says is not archived", () => {
  const one = vectors.archives!.find((file) => file.code === "pairs" && Archive.fromBytes(fromHex(file.file)).parameters.plan.mask.period > 3);
  const { plan } = Archive.fromBytes(fromHex(one.file)).parameters;
  const recorded = (touched: (step: number) => number): Ledger => {
    const recorder = new Recorder();
    plan.steps.forEach((_, step) => {
      const order = plan.mask.touched(new Uint8Array(16), touched(step), 100, 3);
      const offsets = Int32Array.from({ length: order.length + 1 }, (_, i) => i);
      recorder.observe(plan, { height: 10, width: 10, channels: 3 }, { order, offsets }, plan.terms(step), 2);
    });
    return recorder.ledger(plan, 3);
  };
  assert.ok(Ledger.planned(plan, { height: 10, width: 10, channels: 3 }).equals(recorded((step) => step)));
  assert.throws(() => recorded(() => 0), refused("ledger", "more often than the mask design says"));
});

test("the count of parts of an axis equals the number of parts", () => {
  for (const unit of [cells(16), cells(64), PICTURE]) {
    for (const parts of [4, 8, 16]) for (let length = 1; length < 90; length += 1) assert.equal(unit.divisions(length, parts).length - 1, unit.partCount(length, parts));
  }
});

test("what Python refuses is refused, and nothing else", () => {
  let [opened, refused] = [0, 0];
  for (const { damaged } of vectors.archives!) {
    for (const one of damaged) {
      if (one.opens) {
        Archive.fromBytes(fromHex(one.file));
        opened += 1;
      } else {
        assert.throws(() => Archive.fromBytes(fromHex(one.file)), DippError, one.why);
        refused += 1;
      }
    }
  }
  assert.ok(opened > 200 && refused > 200, `${opened} ${refused}`);
});

test("files that are no archive, cut short or changed are refused in one line", () => {
  const whole = fromHex(vectors.archives![1]!.file);
  for (let length = 0; length < whole.length; length += 1) {
    assert.throws(() => Archive.fromBytes(whole.slice(0, length)), DippError);
  }
  assert.throws(() => Archive.fromBytes(new TextEncoder().encode("\x89PNG....")), refused(FILE, "not a dipp archive"));
  const newer = whole.slice();
  newer[4] = 4;
  assert.throws(() => Archive.fromBytes(newer), refused(FILE, "newer dipp"));
  newer[4] = 2;
  assert.throws(() => Archive.fromBytes(newer), refused(FILE, "format 2", "commit 89b0fc8"));
  const changed = whole.slice();
  changed[60]! ^= 1;
  assert.throws(() => Archive.fromBytes(changed), refused(FILE, "checksum"));
});

test("golden files open, and state the same facts as before", () => {
  for (const one of vectors.golden!) {
    const data = fromHex(one.file);
    if (!one.readable) {
      assert.throws(() => Archive.fromBytes(data), refused(FILE, "dipp decode"), one.name);
      continue;
    }
    const archive = Archive.fromBytes(data);
    assert.equal(archive.parameters.plan.kind, one.kind);
    assert.equal(archive.certificate.epsilon, fromDouble(one.claims[0]));
    one.indices.forEach((expected: string, i: number) => assert.equal(digest(archive.image(i).indices), expected));
    assert.deepEqual(archive.parameters.window, one.window ?? undefined);
    assert.deepEqual(one.indices.map((_: string, i: number) => archive.image(i).grey), one.grey);
  }
});

test("invalid fields about the source are refused", () => {
  const whole = fromHex(vectors.golden!.find((one) => one.name === "source-pairs")!.file);
  const at = 53 + 3; // behind name, version, model, seed, the number of fields, key and length
  assert.deepEqual([...whole.slice(at, at + 10)], [5, 0x9c, 0xff, 0xff, 0xff, 0x84, 3, 0, 0, 0x60]);
  for (const [place, value] of [[at, 0], [at, 7], [at, 3], [at, 4], [at + 9, 0], [at + 9, 0xe0], [at + 9, 0x61], [at + 6, 0xff]]) {
    const changed = whole.slice();
    changed[place!] = value!;
    new DataView(changed.buffer).setUint32(changed.length - 4, crc32(changed.subarray(0, -4)), true);
    if (place === at + 6) assert.equal(Archive.fromBytes(changed).parameters.window![1], 0xff84);
    else assert.throws(() => Archive.fromBytes(changed), refused(FILE, "damaged"));
  }
});

test("checksums equal zlib's", () => {
  assert.equal(crc32(new TextEncoder().encode("123456789")), 0xcbf43926);
});
