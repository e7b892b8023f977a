// Build the page: `node tools/build.mjs CONTENT OUT`. CONTENT is what `tools/content.py` wrote; OUT is a folder that any
// static server can serve. The runtime comes from the package onnxruntime-web.
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { build } from "esbuild";

const [content, out] = process.argv.slice(2);
if (!content || !out) throw new Error("usage: node tools/build.mjs CONTENT OUT");
const web = join(import.meta.dirname, "..");
const runtime = join(web, "node_modules", "onnxruntime-web", "dist");
const ALWAYS = ["ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"];
const WITH_GPU = ["ort.webgpu.min.mjs", "ort-wasm-simd-threaded.asyncify.mjs", "ort-wasm-simd-threaded.asyncify.wasm"];
const ONLINE = [...WITH_GPU.map((name) => `ort/${name}`), "network-webgpu.onnx"]; // offline, WebAssembly has to do

rmSync(out, { recursive: true, force: true });
mkdirSync(join(out, "ort"), { recursive: true });
cpSync(join(web, "static"), out, { recursive: true });
cpSync(content, out, { recursive: true });
for (const name of [...ALWAYS, ...WITH_GPU]) cpSync(join(runtime, name), join(out, "ort", name));

const options = { bundle: true, minify: true, format: "esm", target: ["chrome97", "firefox114", "safari16.4"], legalComments: "none" };
const page = join(web, "src", "page");
await build({ ...options, entryPoints: { page: join(page, "main.ts"), worker: join(page, "worker.ts") }, outdir: out });

const kept = files(out).filter((name) => !ONLINE.includes(name));
const hash = createHash("sha256");
for (const name of kept) hash.update(`${name}\0`).update(readFileSync(join(out, name)));
const [, policy] = /http-equiv="Content-Security-Policy" content="([^"]*)"/.exec(readFileSync(join(out, "index.html"), "utf8"));
const define = {
  VERSION: JSON.stringify(hash.digest("hex").slice(0, 16)),
  FILES: JSON.stringify(["./", ...kept]),
  POLICY: JSON.stringify(policy),
};
await build({ ...options, format: "iife", define, entryPoints: { offline: join(page, "offline.ts") }, outdir: out });
writeFileSync(join(out, ".nojekyll"), "");
console.log(`${out}: ${kept.length} files`);

/** Return the names of all files of a folder, with forward slashes. */
function files(folder, root = folder) {
  return readdirSync(folder, { withFileTypes: true })
    .flatMap((entry) => (entry.isDirectory() ? files(join(folder, entry.name), root) : [join(folder, entry.name)]))
    .map((path) => (folder === root ? relative(root, path).replaceAll("\\", "/") : path))
    .sort();
}
