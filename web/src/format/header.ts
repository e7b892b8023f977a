/**
 * The header of a `.dipp` file, which has everything public about it. `docs/format.md` describes every byte.
 *
 * The page reads files of the sign channel under pairs, the flat code or closest, and writes clipped sensing with pairs
 * and questions with closest. The reader checks the range of each number, and every header has one spelling only.
 */

import { CLOSEST } from "../codes/closest";
import { flat } from "../codes/flat";
import { PAIRS } from "../codes/pairs";
import type { Rational } from "../core/arithmetic";
import type { Code } from "../core/code";
import { MAX_PERIOD } from "../core/masks";
import { MAX_PIXELS, Plan } from "../core/plan";
import { SEED_BYTES } from "../core/randomness";
import { sha256 } from "../core/sha256";
import { MAX_LEVEL, MAX_SPLIT, type Question, type SensingStep, SIGNS, type Step, type TimedStep, WORDS } from "../core/steps";
import { regionsOf } from "../core/regions";
import { smallest, type Unit, unitOf } from "../core/units";
import { damaged, DippError, FILE, newer, unread } from "../errors";
import { Certificate } from "../privacy/certificate";
import { type ByteReader, column, fromHex, hex, joined, varint } from "./bytes";

const MAGIC = [0x44, 0x49, 0x50, 0x50];
export const VERSION = 3;
/** The last commit that reads formats 1 and 2, which came before the first release. */
const LAST_OF_OLD = "89b0fc8";
const [SEED_GIVEN, BEACON, SOURCE, TABLE, DELTA, HIDDEN] = [1, 2, 3, 4, 5, 6];
/** Fields of files that this page cannot read, with what such a file holds. */
const FOREIGN = new Map([[7, "latents of a diffusion model"], [9, "declared regions"]]);
/** Fields that this page reads, with their least and largest lengths in bytes. */
const FIELD_BYTES = new Map<number, readonly [number, number]>([
  [SEED_GIVEN, [0, 0]],
  [BEACON, [40, 88]],
  [SOURCE, [1, 9 + MAX_PIXELS]],
  [TABLE, [32, 32]],
  [DELTA, [8, 8]],
  [HIDDEN, [8, 8]],
]);
/** Flags in the first byte of the field about the source. */
const [WINDOW, ALL_GREY, SOME_GREY] = [1, 2, 4];
const SIGN = 2;
/** The number of the kind of units that are declared regions. */
const REGION = 3;
const MAX_UNIT_BYTES = 2 ** 24;
/** Numbers of the two ways to deal coordinates to chunks: the channels of a pixel may share a chunk, or not. */
const [TOGETHER, SEPARATE] = [0, 1];
/** Numbers of the kinds of steps that the page writes; 0 is that of steps along timesteps. */
const [SENSED, ASKED] = [1, 2];
const MAX_WEIGHT = 1n << 62n;
/** Largest number of nearest candidates: one less than the candidates of the longest index. */
const MAX_BEST = 2 ** 22 - 1;
const MAX_NUMBER = 255;
/** The bits of the largest finite 32-bit float. */
const MAX_FLOAT_BITS = 0x7f7fffff;
const MODEL_BYTES = 32;
const MAX_STEPS = 4096;
const MAX_FIELDS = 255;
const MAX_CHANNELS = 16;
const MAX_ALPHA_PART = 2 ** 15 - 1;

/** The public parameters of one encoding. */
export interface PublicParameters {
  readonly plan: Plan;
  /** Hex SHA-256 of the denoiser. */
  readonly model: string;
  readonly seed: Uint8Array;
  readonly channels: number;
  /** δ of the budget, if an (ε, δ) was asked for. */
  readonly delta?: number | undefined;
  /** Hex SHA-256 of the public table from which the plan was made. */
  readonly table?: string | undefined;
  readonly seedGiven: boolean;
  /** The public beacon from which the seed follows: 16 bytes of the sender, the round and the value. */
  readonly beacon?: Uint8Array | undefined;
  /** The stored values that became black and white, for pictures of more than eight bits. */
  readonly window?: readonly [number, number] | undefined;
  /** Width and height of the objects that the plan was chosen to hide, wherever they lie. */
  readonly hidden?: readonly [number, number] | undefined;
}

/** Consecutive images of one size. */
export interface Run {
  readonly images: number;
  readonly height: number;
  readonly width: number;
}

export interface Header {
  readonly parameters: PublicParameters;
  readonly runs: readonly Run[];
  readonly certificate: Certificate;
  /** Whether an image is grey: its channels are views of one value. */
  readonly grey: (image: number) => boolean;
}

/** Throw if the first bytes of a file are not those of an archive in this version of the format. */
export function checkKind(front: Uint8Array): void {
  if (!front.length || MAGIC.some((byte, i) => i < front.length && front[i] !== byte)) {
    throw new DippError(FILE, "is not a dipp archive");
  }
  const version = front[MAGIC.length] ?? VERSION;
  if (version > VERSION) throw newer(`format ${version}`);
  if (version === 1 || version === 2) {
    throw new DippError(FILE, `has format ${version}, of before 1.0`, `read it with commit ${LAST_OF_OLD} of dipp`);
  }
  if (version !== VERSION) throw new DippError(FILE, "is not a dipp archive");
}

/** Read a header; throw if the certificate that it states does not follow from its plan. */
export function readHeader(reader: ByteReader): Header {
  checkKind(reader.take(MAGIC.length + 1));
  const model = hex(reader.take(MODEL_BYTES));
  const seed = reader.take(SEED_BYTES).slice();
  const fields = readFields(reader);
  const unit = readUnit(reader);
  const channels = reader.varint("channels", 1, MAX_CHANNELS);
  if (reader.varint("channel", 0, MAX_NUMBER) !== SIGN) throw unread("was coded by another channel");
  const period = reader.varint("period", 1, MAX_PERIOD);
  const code = readCode(reader);
  const separate = reader.varint("deal", TOGETHER, SEPARATE) === SEPARATE;
  const claim: [number, number] = [reader.double(), reader.double()];
  const plan = new Plan(period, code, readSteps(reader, code), separate, unit);
  const parameters = { plan, model, seed, channels, ...readOptions(fields, seed) };
  const runs = readRuns(reader);
  const { height, width } = smallest(unit, runs) ?? { height: 1, width: MAX_PIXELS };
  const certificate = Certificate.of(plan, { height, width, channels });
  if (claim[0] !== certificate.epsilon || claim[1] !== certificate.rho) {
    throw new DippError(FILE, "states another certificate than its plan has", "do not trust it");
  }
  const images = runs.reduce((sum, run) => sum + run.images, 0);
  return { parameters, runs, certificate, grey: readGrey(fields.get(SOURCE), images) };
}

function readFields(reader: ByteReader): Map<number, Uint8Array> {
  const fields = new Map<number, Uint8Array>();
  let last = 0;
  for (let left = reader.varint("fields", 0, MAX_FIELDS); left; left -= 1) {
    last = reader.varint("field", last + 1, MAX_FIELDS);
    if (FOREIGN.has(last)) throw unread(`holds ${FOREIGN.get(last)}`);
    const bytes = FIELD_BYTES.get(last);
    if (bytes === undefined) throw newer(`field ${last} of the header`);
    fields.set(last, reader.take(reader.varint("length", bytes[0], bytes[1])));
  }
  return fields;
}

function readUnit(reader: ByteReader): Unit {
  const content = reader.take(reader.varint("unit", 1, MAX_UNIT_BYTES)).slice();
  return content[0] === REGION ? regionsOf(content.subarray(1)) : unitOf(content);
}

/** Return the public parameters that the fields state. */
function readOptions(fields: Map<number, Uint8Array>, seed: Uint8Array): Omit<PublicParameters, "plan" | "model" | "seed" | "channels"> {
  const [table, beacon, stated, source, size] = [TABLE, BEACON, DELTA, SOURCE, HIDDEN].map((key) => fields.get(key)?.slice());
  const delta = stated && new DataView(stated.buffer).getFloat64(0, true);
  if (delta !== undefined && !(delta > 0 && delta < 1)) {
    throw new DippError("delta", `must be between 0 and 1, got ${delta}`);
  }
  if (beacon && hex(seedOfBeacon(beacon)) !== hex(seed)) {
    throw new DippError("seed", "does not follow from its beacon", "do not trust the file");
  }
  const window = source && readWindow(source);
  const sides = size && new DataView(size.buffer);
  const hidden = sides && ([sides.getUint32(0, true), sides.getUint32(4, true)] as [number, number]);
  if (hidden?.includes(0)) throw new DippError("window", `must have a width and a height from 1, got ${hidden.join("×")}`);
  return { delta, table: table && hex(table), seedGiven: fields.has(SEED_GIVEN), beacon, window, hidden };
}

function readRuns(reader: ByteReader): Run[] {
  const count = reader.varint("runs", 0, reader.left);
  const images = reader.column("images", count, 1, 8 * reader.left);
  const heights = reader.column("height", count, 1, MAX_PIXELS);
  const widths = reader.column("width", count, 1, MAX_PIXELS);
  const runs = images.map((count, i) => ({ images: count, height: heights[i]!, width: widths[i]! }));
  if (runs.some((run, i) => i && run.height === runs[i - 1]!.height && run.width === runs[i - 1]!.width)) {
    throw damaged("runs of one size are listed apart");
  }
  return runs;
}

/** Return the window of the source; undefined if the field has none. */
function readWindow(content: Uint8Array): [number, number] | undefined {
  const kind = content[0]!;
  const windowed = Boolean(kind & WINDOW);
  if (kind < 1 || kind > 5 || (windowed && content.length < 9)) throw damaged("its field about the source is invalid");
  if (!windowed) return undefined;
  const view = new DataView(content.buffer, content.byteOffset, content.length);
  const window: [number, number] = [view.getInt32(1, true), view.getInt32(5, true)];
  if (window[0] >= window[1]) throw damaged("its window has no width");
  return window;
}

/** Return which images are grey by the field about the source: all, none, or those whose bits are set. */
function readGrey(source: Uint8Array | undefined, images: number): (image: number) => boolean {
  const kind = source?.[0] ?? 0;
  const which = source?.slice(kind & WINDOW ? 9 : 1) ?? new Uint8Array(0);
  const bit = (image: number): boolean => Boolean(which[image >> 3]! & (0x80 >> (image & 7)));
  const set = which.reduce((sum, byte) => sum + byte.toString(2).replaceAll("0", "").length, 0);
  const filled = Array.from({ length: Math.max(0, 8 * which.length - images) }, (_, i) => images + i).some(bit);
  const whole = kind & SOME_GREY ? which.length === Math.ceil(images / 8) && set > 0 && set < images && !filled : !which.length;
  if (!whole || (kind & ALL_GREY && !images)) throw damaged("it does not say of each image whether it is grey");
  return kind & SOME_GREY ? bit : () => Boolean(kind & ALL_GREY);
}

/** Return the public seed that follows from a beacon (`dipp/core/beacon.py`). */
function seedOfBeacon(beacon: Uint8Array): Uint8Array {
  return sha256(joined([new TextEncoder().encode("dipp/2/beacon\0"), beacon])).slice(0, SEED_BYTES);
}

function readCode(reader: ByteReader): Code {
  const number = reader.varint("code", 0, MAX_NUMBER);
  if (number === PAIRS.number) return PAIRS;
  if (number === CLOSEST.number) return CLOSEST;
  if (number !== 0) throw unread("was coded by another code");
  return flat(readRational(reader));
}

function readRational(reader: ByteReader): Rational {
  const numerator = reader.varint("alpha", 1, MAX_ALPHA_PART);
  const denominator = reader.varint("alpha", 1, MAX_ALPHA_PART);
  let [a, b] = [numerator, denominator];
  while (b) [a, b] = [b, a % b];
  if (a !== 1) throw damaged("alpha is not in lowest terms");
  return { numerator, denominator };
}

/** Read the steps: their kind, their number, the columns of the kind, and those of the code (pairs have none). */
function readSteps(reader: ByteReader, code: Code): Step[] {
  const kind = reader.varint("kind of steps", 0, MAX_NUMBER);
  if (kind > ASKED) throw newer(`kind ${kind} of steps`);
  const count = reader.varint("steps", 1, MAX_STEPS);
  const steps = [readTimed, readSensed, readAsked][kind]!(reader, count);
  const sizes = code.number === 0 ? reader.column("chunk_size", count, 1, 2 ** 32 - 1) : [];
  const bits = code.number === PAIRS.number ? [] : reader.column("index_bits", count, 1, 255);
  return steps.map((step, i) => ({ ...step, chunkSize: sizes[i] ?? 1, indexBits: bits[i] ?? 1 }));
}

type Own<T> = Omit<T, "chunkSize" | "indexBits">;

/** Read the steps of clipped sensing. */
function readSensed(reader: ByteReader, count: number): Own<SensingStep>[] {
  const [tilts, clips, gains] = ["tilt", "clip", "snr_gain"].map((name) => readFloats(reader, name, count));
  const levels = reader.column("level", count, 0, MAX_LEVEL);
  return tilts!.map((tilt, i) => ({ kind: "sensing", tilt, clip: clips![i]!, gain: gains![i]!, level: levels[i]! }));
}

/** Read steps along the timesteps of a diffusion. */
function readTimed(reader: ByteReader, count: number): Own<TimedStep>[] {
  const times = reader.column("timesteps", count + 1, 0, 2 ** 16 - 1);
  const gains = readFloats(reader, "snr_gain", count);
  if (times.some((time, i) => i && time >= times[i - 1]!)) throw new DippError("step", "must have descending timesteps");
  return gains.map((gain, i) => ({ kind: "timesteps", start: times[i]!, end: times[i + 1]!, gain }));
}

/** Read questions. */
function readAsked(reader: ByteReader, count: number): Own<Question>[] {
  const splits = reader.column("split", count, 1, MAX_SPLIT);
  const rounds = reader.column("rounds", count, 1, 4);
  const candidates = reader.column("candidate", count, WORDS, SIGNS);
  const scales = readFloats(reader, "scale", count);
  const bests = reader.column("best", count, 1, MAX_BEST);
  const [heavy, light] = ["heavy", "light"].map((name) => reader.wideColumn(name, count, 1n, MAX_WEIGHT));
  const gains = readFloats(reader, "snr_gain", count);
  return splits.map((split, i) => ({
    kind: "questions",
    split,
    rounds: rounds[i]!,
    candidate: candidates[i]!,
    scale: scales[i]!,
    best: bests[i]!,
    heavy: heavy![i]!,
    light: light![i]!,
    gain: gains[i]!,
  }));
}

/** Read a column of 32-bit floats: the number of zero bits in which all of them end, and the other bits. */
function readFloats(reader: ByteReader, name: string, count: number): number[] {
  const zeros = reader.byte(name, 0, 30);
  const bits = reader.column(name, count, 1, MAX_FLOAT_BITS >>> zeros);
  if (!bits.some((pattern) => pattern & 1)) throw damaged(`${name} has too many bits`);
  return Array.from(new Float32Array(Uint32Array.from(bits, (pattern) => pattern << zeros).buffer));
}

/** Return the bytes that `readFloats` reads. */
function floatColumn(values: readonly number[]): Uint8Array {
  const bits = Array.from(new Uint32Array(Float32Array.from(values).buffer));
  const every = bits.reduce((sum, pattern) => sum | pattern, 0);
  const zeros = 31 - Math.clz32(every & -every);
  return joined([Uint8Array.of(zeros), column(bits.map((pattern) => pattern >>> zeros))]);
}

/** Return the bytes that `readSteps` reads, for plans that the page makes. */
function stepBytes({ code, steps }: Plan): Uint8Array {
  const sensed = steps.filter((step) => step.kind === "sensing");
  const asked = steps.filter((step) => step.kind === "questions");
  if (code.number === PAIRS.number && sensed.length) {
    const columns = (["tilt", "clip", "gain"] as const).map((name) => floatColumn(sensed.map((step) => step[name])));
    return joined([varint(SENSED), varint(sensed.length), ...columns, column(sensed.map((step) => step.level))]);
  }
  if (code.number !== CLOSEST.number) throw new DippError("code", `must be pairs or closest in files that the page writes, got ${code.name}`);
  const whole = (name: "split" | "rounds" | "candidate" | "best" | "heavy" | "light" | "indexBits"): Uint8Array =>
    column(asked.map((step) => step[name]));
  const floats = (name: "scale" | "gain"): Uint8Array => floatColumn(asked.map((step) => step[name]));
  return joined([
    varint(ASKED),
    varint(asked.length),
    ...[whole("split"), whole("rounds"), whole("candidate"), floats("scale"), whole("best"), whole("heavy"), whole("light")],
    floats("gain"),
    whole("indexBits"),
  ]);
}

/** Return the header of a file that the page makes. */
export function headerBytes(parameters: PublicParameters, runs: readonly Run[], certificate: Certificate): Uint8Array {
  const { plan } = parameters;
  if (parameters.window) throw new DippError("window", "must be left out, because the page takes pictures of eight bits only");
  const fields: [number, Uint8Array][] = [];
  if (parameters.seedGiven) fields.push([SEED_GIVEN, new Uint8Array(0)]);
  if (parameters.beacon) fields.push([BEACON, parameters.beacon]);
  if (parameters.table !== undefined) fields.push([TABLE, fromHex(parameters.table)]);
  if (parameters.delta !== undefined) fields.push([DELTA, doubles(parameters.delta)]);
  if (parameters.hidden) fields.push([HIDDEN, new Uint8Array(Uint32Array.from(parameters.hidden).buffer)]);
  return joined([
    Uint8Array.from([...MAGIC, VERSION]),
    fromHex(parameters.model),
    parameters.seed,
    varint(fields.length),
    ...fields.flatMap(([key, value]) => [varint(key), varint(value.length), value]),
    varint(plan.unit.bytes.length),
    plan.unit.bytes,
    varint(parameters.channels),
    varint(SIGN),
    varint(plan.period),
    varint(plan.code.number),
    varint(plan.separate ? SEPARATE : TOGETHER),
    doubles(certificate.epsilon, certificate.rho),
    stepBytes(plan),
    varint(runs.length),
    ...(["images", "height", "width"] as const).map((name) => column(runs.map((run) => run[name]))),
  ]);
}

/** Return 64-bit floats, the lowest byte first. */
function doubles(...values: number[]): Uint8Array {
  const view = new DataView(new ArrayBuffer(8 * values.length));
  values.forEach((value, i) => view.setFloat64(8 * i, value, true));
  return new Uint8Array(view.buffer);
}
