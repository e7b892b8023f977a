// Bundle the tests of the port and run them: `node tools/test.mjs`. Python writes the vectors first (`make page`).
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

const folder = join(import.meta.dirname, "..", "test");
const out = join(import.meta.dirname, "..", "..", "build", "page", "test");
const names = readdirSync(folder).filter((name) => name.endsWith(".test.ts"));
await build({
  entryPoints: names.map((name) => join(folder, name)),
  outdir: out,
  outExtension: { ".js": ".mjs" },
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node20",
  sourcemap: "inline",
  external: ["onnxruntime-web"],
});
const files = names.map((name) => join(out, name.replace(/\.ts$/, ".mjs")));
process.exit(spawnSync(process.execPath, ["--enable-source-maps", "--test", ...files], { stdio: "inherit" }).status ?? 1);
