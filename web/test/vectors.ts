/** The results of the Python code, which `tools/vectors.py` writes. */

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const PLACE = process.env.DIPP_VECTORS ?? join(process.cwd(), "..", "build", "page", "vectors.json");

/** JSON without types; each test names the fields that it needs. */
export const vectors = JSON.parse(readFileSync(PLACE, "utf8")) as Record<string, any[]>;

/** Return the bits of a double in hex, as Python writes them. */
export function double(value: number): string {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, value);
  return view.getBigUint64(0).toString(16).padStart(16, "0");
}

export function fromDouble(text: string): number {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigUint64(0, BigInt(`0x${text}`));
  return view.getFloat64(0);
}

export function digest(array: ArrayBufferView): string {
  return createHash("sha256").update(new Uint8Array(array.buffer, array.byteOffset, array.byteLength)).digest("hex");
}

/** Replace private bytes in a test by SHA-256 of 0, 1, 2, …, as `tools/vectors.py` does. */
export async function withCountedBytes<T>(run: () => Promise<T>): Promise<T> {
  let used = 0;
  const before = crypto.getRandomValues;
  crypto.getRandomValues = <A extends ArrayBufferView | null>(array: A): A => {
    const bytes = array as unknown as Uint8Array;
    for (let i = 0; i < bytes.length; i += 1, used += 1) {
      const counter = Buffer.alloc(8);
      counter.writeBigUInt64LE(BigInt(Math.floor(used / 32)));
      bytes[i] = createHash("sha256").update(counter).digest()[used % 32]!;
    }
    return array;
  };
  try {
    return await run();
  } finally {
    crypto.getRandomValues = before;
  }
}
