/**
 * Archives: images as indices in a `.dipp` file, with a certificate for every byte.
 *
 * Indices have a fixed length and are packed bit to bit; image i of a run of equal sizes starts at bit i·B. Images of 512
 * bits and more carry a CRC-16 of their own; the last four bytes of a file are the CRC-32 of all before.
 */

import { PAIRS } from "../codes/pairs";
import type { Size } from "../core/geometry";
import { damaged, DippError } from "../errors";
import { Certificate } from "../privacy/certificate";
import { Ledger } from "../privacy/ledger";
import { BitReader, BitWriter, ByteReader, crc16, crc32, joined } from "./bytes";
import { checkKind, type Header, headerBytes, readHeader, type PublicParameters, type Run } from "./header";

const TRAILER_BYTES = 4;
const CHECKSUM_FROM_BITS = 512;
const CHECKSUM_BITS = 16;
/** The product of sizes and steps that any archive may have; an archive with more must have as many bits. */
const WORK = 1 << 20;

/** The layout of the images of one size: their indices, and how many bits they take. */
class Layout {
  readonly counts: readonly number[];
  readonly indexBits: number;

  constructor(private readonly parameters: PublicParameters, { height, width }: Size) {
    this.counts = parameters.plan.chunkCounts({ height, width, channels: parameters.channels });
    this.indexBits = parameters.plan.steps.reduce((total, step, i) => total + this.counts[i]! * step.indexBits, 0);
  }

  get hasChecksum(): boolean {
    return this.indexBits >= CHECKSUM_FROM_BITS;
  }

  /** The number of bits of an image, with its checksum. */
  get bits(): number {
    return this.indexBits + (this.hasChecksum ? CHECKSUM_BITS : 0);
  }

  pack(indices: ArrayLike<number>): Uint8Array {
    const writer = new BitWriter(this.bits);
    let at = 0;
    this.parameters.plan.steps.forEach((step, i) => {
      for (let left = this.counts[i]!; left; left -= 1) writer.put(indices[at++]!, step.indexBits);
    });
    if (at !== indices.length) throw new DippError("indices", `must be ${at} for an image of its size, got ${indices.length}`);
    if (this.hasChecksum) writer.put(crc16(indices), CHECKSUM_BITS);
    return writer.bytes;
  }

  unpack(data: Uint8Array, image: number): Uint32Array {
    const reader = new BitReader(data, image * this.bits);
    const indices = new Uint32Array(this.counts.reduce((total, count) => total + count, 0));
    let at = 0;
    this.parameters.plan.steps.forEach((step, i) => {
      for (let left = this.counts[i]!; left; left -= 1) indices[at++] = reader.take(step.indexBits);
    });
    if (this.hasChecksum && reader.take(CHECKSUM_BITS) !== crc16(indices)) {
      throw damaged("the checksum of an image is wrong");
    }
    return indices;
  }
}

export class Archive {
  private constructor(
    readonly bytes: Uint8Array,
    private readonly header: Header,
    /** The position in the file at which each run starts. */
    private readonly starts: readonly number[],
    private readonly layouts: ReadonlyMap<string, Layout>,
  ) {}

  /**
   * Return the archive of one picture, given its indices in the order of steps and chunks. `recorded` is the ledger of the
   * encoder; throw if it differs from the ledger of the plan, from which every reader computes the certificate.
   */
  static build(parameters: PublicParameters, height: number, width: number, indices: ArrayLike<number>, recorded: Ledger): Archive {
    const planned = Ledger.planned(parameters.plan, { height, width, channels: parameters.channels });
    if (!planned.equals(recorded)) {
      throw new DippError("ledger", "of the encoder differs from that of its plan", "nothing was written; report this");
    }
    const header = headerBytes(parameters, [{ images: 1, height, width }], new Certificate(planned));
    const data = joined([header, new Layout(parameters, { height, width }).pack(indices)]);
    const trailer = new Uint8Array(TRAILER_BYTES);
    new DataView(trailer.buffer).setUint32(0, crc32(data), true);
    return Archive.fromBytes(joined([data, trailer]));
  }

  /** Read an archive from the bytes of a file; throw if they are damaged or state a wrong certificate. */
  static fromBytes(bytes: Uint8Array): Archive {
    checkKind(bytes.subarray(0, 5));
    const inner = bytes.subarray(0, Math.max(0, bytes.length - TRAILER_BYTES));
    const trailer = bytes.subarray(inner.length);
    if (trailer.length < TRAILER_BYTES || new DataView(bytes.buffer, bytes.byteOffset + inner.length).getUint32(0, true) !== crc32(inner)) {
      throw damaged("its checksum is wrong");
    }
    const reader = new ByteReader(inner);
    const header = readHeader(reader);
    const { parameters, runs } = header;
    const sizes = new Map(runs.map((run) => [nameOf(run), run]));
    const steps = parameters.plan.steps.length;
    // An image has at least an index for each cycle, and an index at least a bit: refuse larger claims before computing.
    const least = sizes.size * parameters.plan.mask.leastSteps(steps);
    if (least > 8 * reader.left || sizes.size * steps > Math.max(WORK, 8 * reader.left)) {
      throw damaged("its images need more bits than it has");
    }
    const layouts = new Map([...sizes].map(([name, size]) => [name, new Layout(parameters, size)]));
    const starts = [reader.at];
    for (const run of runs) {
      const bits = run.images * layouts.get(nameOf(run))!.bits;
      if (bits > 8 * reader.left) throw damaged("its images need more bits than it has");
      starts.push(starts[starts.length - 1]! + Math.ceil(bits / 8));
      const filling = (8 - (bits % 8)) % 8;
      if (inner[starts[starts.length - 1]! - 1]! & (2 ** filling - 1)) throw damaged("padding after an image is not zero");
    }
    if (starts[starts.length - 1] !== inner.length) throw damaged("its length is wrong");
    return new Archive(bytes, header, starts, layouts);
  }

  get parameters(): PublicParameters {
    return this.header.parameters;
  }

  get runs(): readonly Run[] {
    return this.header.runs;
  }

  get certificate(): Certificate {
    return this.header.certificate;
  }

  /** The number of images. */
  get length(): number {
    return this.runs.reduce((total, run) => total + run.images, 0);
  }

  /** Whether the file was coded by pairs, so that the odds of one pixel are known. */
  get pairs(): boolean {
    return this.parameters.plan.code.name === PAIRS.name;
  }

  /** Return the size and the indices of one image, without reading the others. */
  image(number: number): { height: number; width: number; grey: boolean; indices: Uint32Array; counts: readonly number[] } {
    let first = 0;
    for (const [i, { images, height, width }] of this.runs.entries()) {
      if (number < first + images) {
        const layout = this.layouts.get(nameOf({ height, width }))!;
        const data = this.bytes.subarray(this.starts[i], this.starts[i + 1]);
        const grey = this.header.grey(number);
        return { height, width, grey, indices: layout.unpack(data, number - first), counts: layout.counts };
      }
      first += images;
    }
    throw new DippError("image", `must be from 0 to ${this.length - 1}, got ${number}`);
  }

  /** Bits per pixel of the indices alone. */
  get payloadBpp(): number {
    const bits = this.runs.reduce((total, run) => total + run.images * this.layouts.get(nameOf(run))!.indexBits, 0);
    return bits / this.pixels;
  }

  /** Bits per pixel of the whole file. */
  get fileBpp(): number {
    return (8 * this.bytes.length) / this.pixels;
  }

  private get pixels(): number {
    return Math.max(1, this.runs.reduce((total, run) => total + run.images * run.height * run.width, 0));
  }
}

function nameOf({ height, width }: Size): string {
  return `${height}×${width}`;
}
