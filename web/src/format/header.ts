/**
 * The header of a `.dipp` file: all that is public about it. `docs/format.md` describes every byte.
 *
 * Formats 1 and 2 are read, of the sign channel under pairs or the flat code; what the page writes is sensing with pairs,
 * in format 2. Reading never trusts: each number has a range, and every header has one spelling only.
 */

import { flat } from "../codes/flat";
import { PAIRS } from "../codes/pairs";
import type { Rational } from "../core/arithmetic";
import type { Code } from "../core/code";
import { MAX_PERIOD } from "../core/masks";
import { MAX_PIXELS, Plan, type Step } from "../core/plan";
import { SEED_BYTES } from "../core/randomness";
import { sha256 } from "../core/sha256";
import { damaged, DippError } from "../errors";
import { Certificate } from "../privacy/certificate";
import { type ByteReader, column, fromHex, hex, joined, varint } from "./bytes";

const MAGIC = [0x44, 0x49, 0x50, 0x50];
const VERSION = 2;
const [SENSING, ORDERED, SEPARATE, DELTA, SHORT_GAINS] = [0x01, 0x10, 0x20, 0x40, 0x80];
const [SEED_GIVEN, BEACON, SOURCE, TABLE] = [1, 2, 3, 4];
/** Fields of format 2, and their least and largest lengths. */
const FIELD_BYTES = new Map<number, readonly [number, number]>([
  [SEED_GIVEN, [0, 0]],
  [BEACON, [40, 88]],
  [SOURCE, [1, 9 + MAX_PIXELS]],
  [TABLE, [32, 32]],
]);
/** First byte of the field about the source. */
const [WINDOW, ALL_GREY, SOME_GREY] = [1, 2, 4];
const CHANNEL_BITS = 0x0f;
const SIGN = 4;
const MODEL_BYTES = 32;
const MAX_STEPS = 4096;
const MAX_FIELDS = 255;
const MAX_CHANNELS = 16;
const MAX_ALPHA_PART = 2 ** 15 - 1;
const ELSEWHERE = "this page cannot read it; `dipp info` and `dipp decode` can";

/** What sender and receiver, and everybody else, know about an encoding. */
export interface Release {
  readonly plan: Plan;
  /** Hex SHA-256 of the denoiser. */
  readonly model: string;
  readonly seed: Uint8Array;
  readonly channels: number;
  /** δ of the budget, where an (ε, δ) was asked for. */
  readonly delta?: number | undefined;
  /** Hex SHA-256 of the public table that the gains of a sensing plan follow from. */
  readonly table?: string | undefined;
  readonly seedGiven: boolean;
  /** The public beacon that the seed follows from: 16 bytes of the sender's own, round, value. */
  readonly beacon?: Uint8Array | undefined;
  /** Which values of pictures of more than eight bits became black and white. */
  readonly window?: readonly [number, number] | undefined;
}

/** A row of images of one size. */
export interface Run {
  readonly images: number;
  readonly height: number;
  readonly width: number;
}

export interface Header {
  readonly version: number;
  readonly release: Release;
  readonly runs: readonly Run[];
  readonly certificate: Certificate;
  /** Whether an image is grey: its channels are views of one value. */
  readonly grey: (image: number) => boolean;
}

/** Refuse what is no archive, or a newer one, by the first bytes of the file; its version of the format. */
export function checkKind(front: Uint8Array): number {
  if (!front.length || MAGIC.some((byte, i) => i < front.length && front[i] !== byte)) {
    throw new DippError("this is not a dipp archive");
  }
  const version = front[MAGIC.length] ?? VERSION;
  if (version > VERSION) throw new DippError(`written by a newer dipp (format ${version}); upgrade`);
  if (version < 1) throw new DippError("this is not a dipp archive");
  return version;
}

/** Read a header and leave the reader behind it. A claim that does not follow from the plan is refused. */
export function readHeader(reader: ByteReader): Header {
  const version = checkKind(reader.take(MAGIC.length + 1));
  const { release, claim, marks } = version === 1 ? readVersion1(reader) : readVersion2(reader);
  const count = reader.varint("runs", 0, reader.left);
  const images = reader.column("images", count, 1, 8 * reader.left);
  const heights = reader.column("height", count, 1, MAX_PIXELS);
  const widths = reader.column("width", count, 1, MAX_PIXELS);
  const runs = images.map((one, i) => ({ images: one, height: heights[i]!, width: widths[i]! }));
  if (runs.some((run, i) => i && run.height === runs[i - 1]!.height && run.width === runs[i - 1]!.width)) {
    throw damaged("runs of one size are listed apart");
  }
  const smallest = runs.reduce((least, run) => Math.min(least, run.height * run.width), MAX_PIXELS);
  const certificate = Certificate.of(release.plan, release.channels, smallest);
  if (!follows(claim, certificate, release.plan.code)) {
    throw new DippError("the certificate in the file is not the one of its plan; do not trust the file");
  }
  return { version, release, runs, certificate, grey: readGrey(marks, images.reduce((sum, one) => sum + one, 0)) };
}

/**
 * Whether a claim is the certificate, to the last bit. Of codes that search, ρ is a square that other platforms take by
 * a power function, whose last bit may differ from that of the product.
 */
function follows(claim: readonly [number, number], found: Certificate, code: Code): boolean {
  const slack = code.name === PAIRS.name ? 0 : 2 ** -50;
  return claim[0] === found.epsilon && Math.abs(claim[1] - found.rho) <= slack * found.rho;
}

/** What says which images are grey: the kind, and a bit an image. */
interface Marks {
  kind: number;
  which: Uint8Array;
}

interface Front {
  release: Release;
  claim: [number, number];
  marks?: Marks | undefined;
}

function readVersion1(reader: ByteReader): Front {
  const flags = reader.take(1)[0]!;
  const model = hex(reader.take(MODEL_BYTES));
  const seed = reader.take(SEED_BYTES).slice();
  if ((flags & CHANNEL_BITS) !== SIGN || flags & ORDERED) throw new DippError(`coded by another channel or code: ${ELSEWHERE}`);
  const period = reader.varint("period", 1, MAX_PERIOD);
  const code = flat(readRational(reader));
  const channels = reader.varint("channels", 1, MAX_CHANNELS);
  const { claim, delta } = readDoubles(reader, flags);
  const plan = new Plan(period, code, readTimed(reader, Boolean(flags & SHORT_GAINS)), Boolean(flags & SEPARATE));
  return { release: { plan, model, seed, channels, delta, seedGiven: false }, claim };
}

function readVersion2(reader: ByteReader): Front {
  const flags = reader.take(1)[0]!;
  if (flags & ~(SENSING | SEPARATE | DELTA | SHORT_GAINS)) throw damaged("it has flags that mean nothing");
  const model = hex(reader.take(MODEL_BYTES));
  const seed = reader.take(SEED_BYTES).slice();
  const fields = new Map<number, Uint8Array>();
  let last = 0;
  for (let left = reader.varint("fields", 0, MAX_FIELDS); left; left -= 1) {
    last = reader.varint("field", last + 1, MAX_FIELDS);
    const bytes = FIELD_BYTES.get(last);
    if (bytes === undefined) throw new DippError(`written by a newer dipp (field ${last} of the header); upgrade`);
    fields.set(last, reader.take(reader.varint("length", bytes[0], bytes[1])));
  }
  if (reader.varint("channel", 0, 255) !== SIGN) throw new DippError(`coded by another channel: ${ELSEWHERE}`);
  const period = reader.varint("period", 1, MAX_PERIOD);
  const code = readCode(reader);
  const channels = reader.varint("channels", 1, MAX_CHANNELS);
  const { claim, delta } = readDoubles(reader, flags);
  const steps = (flags & SENSING ? readSensed : readTimed)(reader, Boolean(flags & SHORT_GAINS));
  const plan = new Plan(period, code, steps, Boolean(flags & SEPARATE));
  const [table, beacon] = [fields.get(TABLE), fields.get(BEACON)?.slice()];
  if (beacon && hex(seedOfBeacon(beacon)) !== hex(seed)) {
    throw new DippError("the seed does not follow from its beacon; do not trust the file");
  }
  if (!(flags & SENSING) && !fields.size) throw damaged("format 1 would have done");
  const seedGiven = fields.has(SEED_GIVEN);
  const source = fields.get(SOURCE);
  const { window, marks } = source ? readSource(source) : {};
  const release = { plan, model, seed, channels, delta, table: table && hex(table), seedGiven, beacon, window };
  return { release, claim, marks };
}

/** The window of the source, and what says which images are grey. */
function readSource(content: Uint8Array): { window: [number, number] | undefined; marks: Marks } {
  const kind = content[0]!;
  const rest = content.subarray(1);
  const windowed = Boolean(kind & WINDOW);
  if (kind < 1 || kind > 5 || (windowed && rest.length < 8)) throw damaged("what it says of its source means nothing");
  const view = new DataView(rest.buffer, rest.byteOffset, rest.length);
  const window: [number, number] | undefined = windowed ? [view.getInt32(0, true), view.getInt32(4, true)] : undefined;
  if (window && window[0] >= window[1]) throw damaged("its window has no width");
  return { window, marks: { kind, which: rest.slice(windowed ? 8 : 0) } };
}

function readGrey(marks: Marks | undefined, images: number): (image: number) => boolean {
  const { kind, which } = marks ?? { kind: 0, which: new Uint8Array(0) };
  const bit = (image: number): boolean => Boolean(which[image >> 3]! & (0x80 >> (image & 7)));
  const set = which.reduce((sum, byte) => sum + byte.toString(2).replaceAll("0", "").length, 0);
  const filled = Array.from({ length: 8 * which.length - images }, (_, i) => images + i).some(bit);
  const whole = kind & SOME_GREY ? which.length === Math.ceil(images / 8) && set > 0 && set < images && !filled : !which.length;
  if (!whole || (kind & ALL_GREY && !images)) throw damaged("it does not say of each image whether it is grey");
  return kind & SOME_GREY ? bit : () => Boolean(kind & ALL_GREY);
}

/** The public seed that follows from a beacon (`dipp/core/beacon.py`). */
function seedOfBeacon(beacon: Uint8Array): Uint8Array {
  return sha256(joined([new TextEncoder().encode("dipp/2/beacon\0"), beacon])).slice(0, SEED_BYTES);
}

function readCode(reader: ByteReader): Code {
  const number = reader.varint("code", 0, 255);
  const alpha = readRational(reader);
  if (number === PAIRS.number) {
    if (alpha.numerator !== 1 || alpha.denominator !== 1) throw new DippError("alpha: 1 is needed with pairs");
    return PAIRS;
  }
  if (number !== 0) throw new DippError(`coded by another code: ${ELSEWHERE}`);
  return flat(alpha);
}

function readRational(reader: ByteReader): Rational {
  const numerator = reader.varint("alpha", 1, MAX_ALPHA_PART);
  const denominator = reader.varint("alpha", 1, MAX_ALPHA_PART);
  let [a, b] = [numerator, denominator];
  while (b) [a, b] = [b, a % b];
  if (a !== 1) throw damaged("alpha is not in lowest terms");
  return { numerator, denominator };
}

function readDoubles(reader: ByteReader, flags: number): { claim: [number, number]; delta: number | undefined } {
  const claim: [number, number] = [reader.double(), reader.double()];
  const delta = flags & DELTA ? reader.double() : undefined;
  if (delta !== undefined && !(delta > 0 && delta < 1)) {
    throw new DippError(`delta: a number between 0 and 1 is needed, got ${delta}`);
  }
  return { claim, delta };
}

/** Steps of clipped sensing. */
function readSensed(reader: ByteReader, short: boolean): Step[] {
  const count = reader.varint("steps", 1, MAX_STEPS);
  const [tilts] = readFloats(reader, ["tilt"], count, undefined);
  const [clips, gains] = readFloats(reader, ["clip", "snr_gain"], count, short);
  return readSizes(reader, count).map((size, i) => ({ tilt: tilts![i]!, clip: clips![i]!, gain: gains![i]!, ...size }));
}

/** Steps along the timesteps of a diffusion. */
function readTimed(reader: ByteReader, short: boolean): Step[] {
  const times = readTimesteps(reader);
  const [gains] = readFloats(reader, ["snr_gain"], times.length - 1, short);
  const sizes = readSizes(reader, times.length - 1);
  return gains!.map((gain, i) => ({ start: times[i]!, end: times[i + 1]!, gain, ...sizes[i]! }));
}

function readTimesteps(reader: ByteReader): number[] {
  const count = reader.varint("steps", 1, MAX_STEPS);
  const times = [reader.varint("start", 1, 2 ** 16 - 1)];
  for (let i = 0; i < count; i += 1) times.push(times[i]! - reader.varint("timesteps", 1, times[i]!));
  return times;
}

/** Columns of 32-bit floats, of their upper halves if `short`; undefined: never short. */
function readFloats(reader: ByteReader, names: string[], count: number, short: boolean | undefined): number[][] {
  const columns = names.map((name) => reader.column(name, count, 1, 2 ** (short ? 16 : 32) - 1));
  if (short === false && !columns.some((values) => values.some((bits) => bits & 0xffff))) {
    throw damaged(`${names[names.length - 1]} has too many bytes`);
  }
  return columns.map((values) => Array.from(new Float32Array(Uint32Array.from(values, (bits) => bits * (short ? 65536 : 1)).buffer)));
}

function readSizes(reader: ByteReader, count: number): Pick<Step, "chunkSize" | "indexBits">[] {
  const sizes = reader.column("chunk_size", count, 1, 2 ** 32 - 1);
  const bits = reader.column("index_bits", count, 1, 255);
  return sizes.map((chunkSize, i) => ({ chunkSize, indexBits: bits[i]! }));
}

/** The header of a sensing release, in format 2. */
export function headerBytes(release: Release, runs: readonly Run[], certificate: Certificate): Uint8Array {
  const { plan } = release;
  if (!plan.sensing) throw new DippError("header: the page writes files of sensing alone");
  const [tilts, clips, gains] = (["tilt", "clip", "gain"] as const).map((name) =>
    Array.from(new Uint32Array(Float32Array.from(plan.steps, (step) => step[name]!).buffer)),
  );
  const short = ![...clips!, ...gains!].some((bits) => bits & 0xffff);
  const floats = (bits: number[]): Uint8Array => column(short ? bits.map((one) => one >>> 16) : bits);
  const flags =
    SENSING | (plan.separate ? SEPARATE : 0) | (release.delta === undefined ? 0 : DELTA) | (short ? SHORT_GAINS : 0);
  const fields: [number, Uint8Array][] = [];
  if (release.seedGiven) fields.push([SEED_GIVEN, new Uint8Array(0)]);
  if (release.beacon) fields.push([BEACON, release.beacon]);
  if (release.window) throw new DippError("header: the page takes no pictures of more than eight bits");
  if (release.table !== undefined) fields.push([TABLE, fromHex(release.table)]);
  const doubles = [certificate.epsilon, certificate.rho, ...(release.delta === undefined ? [] : [release.delta])];
  return joined([
    Uint8Array.from([...MAGIC, VERSION, flags]),
    fromHex(release.model),
    release.seed,
    varint(fields.length),
    ...fields.flatMap(([key, value]) => [varint(key), varint(value.length), value]),
    varint(SIGN),
    varint(plan.period),
    varint(plan.code.number),
    varint(plan.code.alpha.numerator),
    varint(plan.code.alpha.denominator),
    varint(release.channels),
    new Uint8Array(Float64Array.from(doubles).buffer),
    varint(plan.steps.length),
    column(tilts!),
    floats(clips!),
    floats(gains!),
    column(plan.steps.map((step) => step.chunkSize)),
    column(plan.steps.map((step) => step.indexBits)),
    varint(runs.length),
    ...(["images", "height", "width"] as const).map((name) => column(runs.map((run) => run[name]))),
  ]);
}
