/** The worker: it runs the network and the chain apart from the page, which stays responsive. It does one request at a time. */

import type { PairAnswers, ChainResult } from "../codec/chain";
import { decode, encode, encodeRegions, type Picture, toPixels } from "../codec/codec";
import { interpolated, pixelCuts } from "../codec/grids";
import { oddsOfPixel } from "../codec/odds";
import { coarser, sampled } from "../codec/sampling";
import { DippError } from "../errors";
import { Archive } from "../format/archive";
import { hex } from "../format/bytes";
import type { PublicParameters } from "../format/header";
import type { Plan } from "../core/plan";
import type { Size } from "../core/geometry";
import { Books } from "../models/books";
import { bestEngine, type Engine, OnnxDenoiser } from "../models/onnx";
import { recordOf } from "../redaction/record";
import { pasted, redact } from "../redaction/redact";
import type { ExtraName, Reply, Request } from "./messages";
import { blurred, noised, pixelated } from "./rivals";
import { hiddenBy, planOf, planOfBoxes, type Table } from "./table";

class Cancelled extends Error {}

let table: Table;
let seeds: Uint8Array[] = [];
let denoiser: Promise<OnnxDenoiser>;
let cancelled = false;
let answers: readonly PairAnswers[] = [];
/** The number of the last request; work for earlier requests stops. */
let latest = 0;

/** The most and the fewest network calls of a sample, the pixels of all its calls, and the most pixels of its grid. */
const [MOST_CALLS, LEAST_CALLS, CALLED_PIXELS, SAMPLE_PIXELS] = [8, 3, 1 << 18, 1 << 18];

function reply(message: Reply, transfer: Transferable[] = []): void {
  self.postMessage(message, { transfer });
}

/** Report progress and let messages in; throw if the request was cancelled. */
async function progress(done: number, calls: number): Promise<void> {
  reply({ type: "progress", done, calls });
  await new Promise((resolve) => setTimeout(resolve));
  if (cancelled) throw new Cancelled();
}

async function load(place: URL, wanted: Engine | undefined): Promise<OnnxDenoiser> {
  const books = await loadWords(place);
  const engine = wanted ?? (await bestEngine());
  const loaded = async (which: Engine): Promise<OnnxDenoiser> => {
    const network = await fetched(new URL(`network-${which}.onnx`, place));
    await requireVersion(network, table.networks[which]);
    return OnnxDenoiser.load(place, network, { identity: table.model, channels: table.channels, planes: table.planes }, books, which);
  };
  const network = await (engine === "wasm" ? loaded("wasm") : loaded("webgpu").catch(() => loaded("wasm")));
  reply({ type: "ready", engine: network.engine, threads: network.threads });
  return network;
}

/** Load the words of the model; undefined if it has none. */
async function loadWords(place: URL): Promise<Books | undefined> {
  if (table.words === null) return undefined;
  const content = await fetched(new URL("words.safetensors", place));
  await requireVersion(content, table.words);
  return Books.fromBytes(content, table.words);
}

/** Throw if a network or its words are of another version than the page. A browser may cache old ones. */
async function requireVersion(content: Uint8Array, wanted: string): Promise<void> {
  if (!crypto.subtle) return; // there is no cache without a secure context either
  const digest = hex(new Uint8Array(await crypto.subtle.digest("SHA-256", content as Uint8Array<ArrayBuffer>)));
  if (digest !== wanted) throw new DippError("the page", "and its network are of different versions", "load the page again");
}

/** Fetch a file of the page, and report progress. */
async function fetched(address: URL): Promise<Uint8Array> {
  const response = await fetch(address);
  if (!response.ok || !response.body) throw new DippError("the network", "could not be loaded", "load the page again");
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

/** Return the public parameters of a plan, with a seed that was not used before. */
function parametersOf(plan: Plan): PublicParameters {
  const seed = seeds.pop();
  if (!seed) throw new DippError("the page", "has used all public seeds, which it drew before it read a picture", "load it again");
  const { model, channels } = table;
  return { plan, model, seed, channels, table: plan.kind === "questions" ? (table.words ?? undefined) : table.table, seedGiven: false };
}

function finish(archive: Archive, image: number, size: Size & { grey: boolean }, result: ChainResult): void {
  const { height, width, grey } = size;
  answers = archive.pairs ? result.answers : [];
  const [expected, noisy] = [result.expected, result.state].map((state) => toPixels(state, table.channels, grey)) as [
    Uint8Array,
    Uint8Array,
  ];
  const file = archive.bytes.slice();
  const done = { type: "done", of: latest, file, image, height, width, expected, noisy, odds: archive.pairs } as const;
  reply(done, [file.buffer, expected.buffer, noisy.buffer]);
}

/** Compute the pictures that follow a file: rivals, if the private picture is known, and samples. The next request stops it. */
async function extras(archive: Archive, size: Size & { grey: boolean }, { end }: ChainResult, picture?: Picture): Promise<void> {
  const of = latest;
  const network = await denoiser;
  const { unit } = archive.certificate;
  const show = async (name: ExtraName, made: () => Promise<Float32Array> | Float32Array): Promise<void> => {
    await new Promise((resolve) => setTimeout(resolve));
    if (of !== latest) return;
    const pixels = toPixels(await made(), table.channels, size.grey);
    if (of === latest) reply({ type: "view", of, name, pixels }, [pixels.buffer]);
  };
  const { epsilon } = archive.certificate;
  if (picture) {
    await show("blurred", () => blurred(picture, unit));
    await show("pixelated", () => pixelated(picture, unit, epsilon, network));
    await show("noised", () => noised(picture, unit, epsilon, network));
  }
  const from = coarser(end, SAMPLE_PIXELS);
  const calls = Math.min(Math.max(Math.floor(CALLED_PIXELS / (from.grid.height * from.grid.width)), LEAST_CALLS), MOST_CALLS);
  for (const [number, name] of (["sample 1", "sample 2", "sample 3"] as const).entries()) {
    await show(name, async () => {
      const sample = await sampled(network, from, { seed: archive.parameters.seed, number, calls });
      return interpolated(sample, table.channels, from.cuts, pixelCuts(size));
    });
  }
}

async function handle(request: Request): Promise<void> {
  cancelled = false;
  if (["encode", "decode", "redact"].includes(request.type)) latest += 1;
  if (request.type === "start") {
    table = request.table;
    seeds = [...request.seeds];
    denoiser = load(new URL(request.place), request.engine);
    await denoiser;
  } else if (request.type === "encode") {
    const { entry, height, width, pixels } = request;
    const parameters = { ...parametersOf(planOf(entry, height * width)), hidden: hiddenBy(entry) };
    const picture = { height, width, pixels };
    const { archive, result } = await encode(parameters, picture, await denoiser, progress);
    const size = { height, width, grey: false };
    finish(archive, 0, size, result);
    await extras(archive, size, result, picture);
  } else if (request.type === "decode") {
    const archive = Archive.fromBytes(request.file);
    const result = await decode(archive, request.image, await denoiser, progress);
    finish(archive, request.image, result, result);
    await extras(archive, result, result);
  } else if (request.type === "redact") {
    const { boxes, compression, name, epsilon } = request;
    const parameters = epsilon ? parametersOf(planOfBoxes(table, epsilon, boxes)) : undefined; // draw the seed before a box is read
    const network = await denoiser;
    const base = await redact(request, boxes, network, progress);
    const asked = parameters && encodeRegions(parameters, request, base.picture.pixels, network);
    const { file, mask, picture } = asked ? pasted(base, toPixels(asked.state, table.channels)) : base;
    const record = recordOf(file, name, picture, boxes, mask, compression, table, asked?.archive);
    reply({ type: "redacted", file, record, pixels: picture.pixels, boxes: boxes.length, answers: asked?.archive.bytes });
  } else if (request.type === "odds") {
    const { pixel } = request;
    reply({ type: "odds", pixel, ...oddsOfPixel(answers, pixel, table.channels) });
  }
}

self.onmessage = ({ data }: MessageEvent<Request>): void => {
  if (data.type === "cancel") {
    cancelled = true;
    return;
  }
  handle(data).catch((error: unknown) => {
    if (error instanceof Cancelled) reply({ type: "cancelled" });
    else reply({ type: "error", message: error instanceof DippError ? error.message : `the page failed: ${String(error)}` });
  });
};
