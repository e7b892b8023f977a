import assert from "node:assert/strict";
import { test } from "node:test";
import { Spent } from "../src/page/spent";

test("a picture that is opened again is the same picture, and another one is not", () => {
  const spent = new Spent();
  const picture = (seed: number, width = 3): { width: number; height: number; pixels: Uint8Array } =>
    ({ width, height: 6 / width, pixels: Uint8Array.from({ length: 18 }, (_, i) => (seed * i) & 255) });
  assert.deepEqual(spent.add(picture(7), 1).files, 1);
  assert.deepEqual(spent.add(picture(8), 4).files, 1);
  assert.deepEqual(spent.add(picture(7, 2), 4).files, 1);
  const { files, epsilon } = spent.add(picture(7), 0.1);
  assert.equal(files, 2);
  assert.ok(epsilon >= 1.1 && epsilon < 1.1001);
});
