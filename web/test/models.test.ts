import assert from "node:assert/strict";
import { mkdtempSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { OnnxDenoiser } from "../src/models/onnx";
import { vectors } from "./vectors";

/** Make a folder with the runtime at the same path as on the page. */
function place(): URL {
  const folder = mkdtempSync(join(tmpdir(), "dipp-"));
  symlinkSync(join(process.cwd(), "node_modules", "onnxruntime-web", "dist"), join(folder, "ort"));
  return pathToFileURL(`${folder}/`);
}

test("networks of all planes predict as Python does, from evidence of all kinds", async () => {
  const at = place();
  assert.deepEqual(vectors.networks!.map((one) => one.planes.length), [2, 3, 5, 7]);
  for (const { planes, file, shape, views, cases } of vectors.networks!) {
    const facts = { identity: "small", channels: 3, planes };
    const denoiser = await OnnxDenoiser.load(at, Buffer.from(file, "base64"), facts, undefined, "wasm");
    const [height, width] = shape;
    const [state, estimate] = views.map((view: number[]) => Float32Array.from(view)) as [Float32Array, Float32Array];
    for (const [precision, estimatePrecision, expected] of cases) {
      const told = planes.includes("answer") ? { compared: estimate, answers: state } : {};
      const known = { state, precision, ...(estimatePrecision === null ? {} : { estimate, estimatePrecision }), ...told };
      const found = await denoiser.predict(known, { height, width });
      assert.equal(found.length, expected.length);
      found.forEach((value, i) => assert.ok(Math.abs(value - expected[i]) < 1e-5, `${planes}: ${value} ${expected[i]}`));
    }
  }
});
