/** Numbers in bytes: varints and packed columns. Each number has one spelling only, and the reader checks every range. */

import { damaged } from "../errors";

const MAX_VARINT_BYTES = 10;
const MAX_COLUMN_WIDTH = 62;

export class ByteReader {
  at = 0;

  constructor(private readonly data: Uint8Array) {}

  /** The number of bytes that were not read yet. */
  get left(): number {
    return this.data.length - this.at;
  }

  take(count: number): Uint8Array {
    if (count > this.left) throw damaged("it ends too early");
    this.at += count;
    return this.data.subarray(this.at - count, this.at);
  }

  /** Read a whole number from low to high: seven bits per byte, the lowest first, in as few bytes as possible. */
  varint(name: string, low: number, high: number): number {
    return Number(this.wideVarint(name, BigInt(low), BigInt(high)));
  }

  private wideVarint(name: string, low: bigint, high: bigint): bigint {
    let value = 0n;
    for (let place = 0; place < MAX_VARINT_BYTES; place += 1) {
      const byte = this.take(1)[0]!;
      value |= BigInt(byte & 0x7f) << BigInt(7 * place);
      if (byte < 0x80) {
        if (place && !byte) break;
        return within(name, value, low, high);
      }
    }
    throw damaged(`${name} has too many bytes`);
  }

  /** Read a whole number from low to high that takes one byte. */
  byte(name: string, low: number, high: number): number {
    return within(name, this.take(1)[0]!, low, high);
  }

  /** Read `count` numbers from low to high: the smallest, the width of the differences to it, and the differences. */
  column(name: string, count: number, low: number, high: number): number[] {
    return this.wideColumn(name, count, BigInt(low), BigInt(high)).map(Number);
  }

  /** Read a column of numbers that doubles cannot hold. */
  wideColumn(name: string, count: number, low: bigint, high: bigint): bigint[] {
    if (!count) return [];
    const base = this.wideVarint(name, low, high);
    if (count === 1) return [base];
    const width = this.byte(name, 0, MAX_COLUMN_WIDTH);
    const bits = new BitReader(this.take(Math.ceil((count * width) / 8)));
    const differences = Array.from({ length: count }, () => bits.takeWide(width));
    let [least, most] = [differences[0]!, 0n];
    for (const difference of differences) {
      if (difference < least) least = difference;
      if (difference > most) most = difference;
    }
    if (!bits.restIsZero() || least !== 0n || bitLength(most) !== width) {
      throw damaged(`the column ${name} is packed in another way than dipp does`);
    }
    within(name, base + most, low, high);
    return differences.map((difference) => base + difference);
  }

  double(): number {
    const bytes = this.take(8);
    return new DataView(bytes.buffer, bytes.byteOffset).getFloat64(0, true);
  }
}

/** A reader of bits, from the highest of each byte to the lowest. */
export class BitReader {
  constructor(private readonly data: Uint8Array, private at = 0) {}

  /** Read a number of up to 32 bits, the highest first. */
  take(width: number): number {
    let value = 0;
    for (let i = 0; i < width; i += 1, this.at += 1) {
      value = value * 2 + ((this.data[this.at >> 3]! >> (7 - (this.at & 7))) & 1);
    }
    return value;
  }

  /** Read a number of up to 64 bits, the highest first. */
  takeWide(width: number): bigint {
    if (width <= 32) return BigInt(this.take(width));
    const high = BigInt(this.take(width - 32));
    return (high << 32n) | BigInt(this.take(32));
  }

  restIsZero(): boolean {
    const end = 8 * this.data.length;
    while (this.at < end) if (this.take(1)) return false;
    return true;
  }
}

/** A writer of bits, from the highest of each byte to the lowest. */
export class BitWriter {
  private at = 0;
  readonly bytes: Uint8Array;

  constructor(bits: number) {
    this.bytes = new Uint8Array(Math.ceil(bits / 8));
  }

  put(value: number, width: number): void {
    for (let place = width - 1; place >= 0; place -= 1, this.at += 1) {
      if (Math.floor(value / 2 ** place) % 2) this.bytes[this.at >> 3]! |= 0x80 >> (this.at & 7);
    }
  }
}

function within<T extends number | bigint>(name: string, value: T, low: T, high: T): T {
  if (!(value >= low && value <= high)) throw damaged(`${name} is ${value}, outside ${low} to ${high}`);
  return value;
}

function bitLength(value: bigint): number {
  return value ? value.toString(2).length : 0;
}

/** Return the bytes of a whole number, which `ByteReader.varint` reads. */
export function varint(value: number | bigint): Uint8Array {
  let left = BigInt(value);
  const out: number[] = [];
  for (; left >= 0x80n; left >>= 7n) out.push(Number(left & 0x7fn) | 0x80);
  return Uint8Array.from([...out, Number(left)]);
}

/** Return the bytes of a column, which `ByteReader.column` reads. */
export function column(values: readonly (number | bigint)[]): Uint8Array {
  if (values.length < 2) return joined(values.map(varint));
  const wide = values.map(BigInt);
  let [base, most] = [wide[0]!, wide[0]!];
  for (const value of wide) {
    if (value < base) base = value;
    if (value > most) most = value;
  }
  const width = bitLength(most - base);
  const bits = new BitWriter(values.length * width);
  for (const value of wide) {
    const difference = value - base;
    if (width > 32) bits.put(Number(difference >> 32n), width - 32);
    bits.put(Number(difference & 0xffffffffn), Math.min(width, 32));
  }
  return joined([varint(base), Uint8Array.of(width), bits.bytes]);
}

export function joined(parts: readonly Uint8Array[]): Uint8Array {
  const out = new Uint8Array(parts.reduce((total, part) => total + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

const CRC_32 = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit += 1) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  return crc;
});

/** Return the CRC-32 of bytes, as zlib computes it. */
export function crc32(data: Uint8Array): number {
  let crc = ~0;
  for (const byte of data) crc = CRC_32[(crc ^ byte) & 0xff]! ^ (crc >>> 8);
  return ~crc >>> 0;
}

const CRC_16 = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit += 1) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
  return crc;
});

/** Return the CRC-16 (polynomial 0x1021, start 0xFFFF) of indices, each as four bytes with the highest first. */
export function crc16(indices: ArrayLike<number>): number {
  let crc = 0xffff;
  for (let i = 0; i < indices.length; i += 1) {
    for (let shift = 24; shift >= 0; shift -= 8) {
      crc = (CRC_16[((crc >> 8) ^ (indices[i]! >>> shift)) & 0xff]! ^ (crc << 8)) & 0xffff;
    }
  }
  return crc;
}

export function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function fromHex(text: string): Uint8Array {
  return Uint8Array.from({ length: text.length / 2 }, (_, i) => Number.parseInt(text.slice(2 * i, 2 * i + 2), 16));
}
