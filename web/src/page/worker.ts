/** The worker: the network and the chain, beside the page, so that it stays quick. One request at a time. */

import type { Told, Walked } from "../codec/chain";
import { decode, encode, toPixels } from "../codec/codec";
import { oddsOfPixel } from "../codec/odds";
import { DippError } from "../errors";
import { Archive } from "../format/archive";
import { hex } from "../format/bytes";
import type { Size } from "../core/geometry";
import { bestEngine, OnnxDenoiser } from "../models/onnx";
import type { Reply, Request } from "./messages";
import { planOf, type Table } from "./table";

class Cancelled extends Error {}

let table: Table;
let seeds: Uint8Array[] = [];
let denoiser: Promise<OnnxDenoiser>;
let cancelled = false;
let told: readonly Told[] = [];

function reply(message: Reply, transfer: Transferable[] = []): void {
  self.postMessage(message, { transfer });
}

/** Tell how far it is, and let messages in: one of them may be that this is to stop. */
async function progress(done: number, calls: number): Promise<void> {
  reply({ type: "progress", done, calls });
  await new Promise((resolve) => setTimeout(resolve));
  if (cancelled) throw new Cancelled();
}

async function load(place: URL, wanted: "webgpu" | "wasm" | undefined): Promise<OnnxDenoiser> {
  const network = await fetched(new URL("network.onnx", place));
  await requireNetwork(network);
  const engine = wanted ?? (await bestEngine());
  const made = (which: "webgpu" | "wasm"): Promise<OnnxDenoiser> =>
    OnnxDenoiser.load(place, network, table.model, table.channels, undefined, which);
  const found = await (engine === "wasm" ? made("wasm") : made("webgpu").catch(() => made("wasm")));
  reply({ type: "ready", engine: found.engine, threads: found.threads });
  return found;
}

/** Refuse a network that is not the one that files name: nobody could decode them. Stores mix up versions, now and then. */
async function requireNetwork(network: Uint8Array): Promise<void> {
  if (!crypto.subtle) return; // without a secure context there is no store either
  const digest = hex(new Uint8Array(await crypto.subtle.digest("SHA-256", network as Uint8Array<ArrayBuffer>)));
  if (digest !== table.network) throw new DippError("the page and its network are of different versions; load the page again");
}

/** A file of the page, told about as it comes. */
async function fetched(address: URL): Promise<Uint8Array> {
  const response = await fetch(address);
  if (!response.ok || !response.body) throw new DippError("the network could not be loaded; load the page again");
  const whole = Number(response.headers.get("Content-Length")) || Infinity;
  const parts: Uint8Array[] = [];
  let size = 0;
  for (const reader = response.body.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    size += value.length;
    reply({ type: "loading", share: Math.min(1, size / whole) });
  }
  const bytes = new Uint8Array(size);
  parts.reduce((at, part) => (bytes.set(part, at), at + part.length), 0);
  return bytes;
}

function finish(archive: Archive, image: number, { height, width, grey }: Size & { grey: boolean }, walked: Walked): void {
  told = archive.pairs ? walked.told : [];
  const [expected, noisy] = [walked.expected, walked.state].map((state) => toPixels(state, table.channels, grey)) as [
    Uint8Array,
    Uint8Array,
  ];
  const file = archive.bytes.slice();
  const done = { type: "done", file, image, height, width, expected, noisy, odds: archive.pairs } as const;
  reply(done, [file.buffer, expected.buffer, noisy.buffer]);
}

async function handle(request: Request): Promise<void> {
  cancelled = false;
  if (request.type === "start") {
    table = request.table;
    seeds = [...request.seeds];
    denoiser = load(new URL(request.place), request.engine);
    await denoiser;
  } else if (request.type === "encode") {
    const seed = seeds.pop();
    if (!seed) throw new DippError("load the page again: public seeds are drawn before pictures are read, and all are used");
    const { plan, height, width, pixels } = request;
    const { model, table: digest, channels } = table;
    const release = { plan: planOf(table.plans[plan]!), model, seed, channels, table: digest, seedGiven: false };
    const { archive, walked } = await encode(release, { height, width, pixels }, await denoiser, progress);
    finish(archive, 0, { height, width, grey: false }, walked);
  } else if (request.type === "decode") {
    const archive = Archive.fromBytes(request.file);
    const walked = await decode(archive, request.image, await denoiser, progress);
    finish(archive, request.image, walked, walked);
  } else if (request.type === "odds") {
    const { pixel } = request;
    reply({ type: "odds", pixel, ...oddsOfPixel(told, pixel, table.channels) });
  }
}

self.onmessage = ({ data }: MessageEvent<Request>): void => {
  if (data.type === "cancel") {
    cancelled = true;
    return;
  }
  handle(data).catch((error: unknown) => {
    if (error instanceof Cancelled) reply({ type: "cancelled" });
    else reply({ type: "error", message: error instanceof DippError ? error.message : `something went wrong: ${String(error)}` });
  });
};
