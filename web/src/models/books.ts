/**
 * Books: the public words of a model, which describe blocks of pictures. The file `words.safetensors` has all of them, and
 * archives name it by its SHA-256. The meaning of a word to a receiver follows from its share of public blocks and from the
 * law of the draw (`dipp/models/books.py`).
 */

import { nearest } from "../core/exact";
import type { Weights } from "../core/price";
import { BLOCK, type Question } from "../core/steps";
import { DippError } from "../errors";

/** Return the family of words of a round of step `number`. It says how blocks are predicted; regions are predicted by painting. */
export function familyOf(steps: readonly Question[], number: number, turn: number, painted: boolean): string {
  if (number === 0 && painted) return "again";
  if (number === 0) return turn === 0 ? "raw" : `between ${turn}`;
  return steps[number - 1]!.split === steps[number]!.split ? "again" : "finer";
}

/** The words of one family and number of bits (words × dimensions), and the number of public blocks nearest to each word. */
export interface Book {
  readonly words: Float32Array;
  readonly counts: Uint32Array;
}

/** Return the value of each index to a receiver, words × dimensions. */
export function meansOf({ words, counts }: Book, { heavy, light }: Weights): Float32Array {
  const dims = words.length / counts.length;
  const total = counts.reduce((sum, count) => sum + count, 0);
  const mean = new Float64Array(dims);
  words.forEach((value, i) => (mean[i % dims]! += (counts[Math.floor(i / dims)]! / total) * value));
  const odds = nearest(heavy - light, light);
  return words.map((value, i) => {
    const excess = odds * (counts[Math.floor(i / dims)]! / total);
    return (excess * value + mean[i % dims]!) / (excess + 1);
  });
}

export class Books {
  private constructor(
    private readonly books: ReadonlyMap<string, Book>,
    /** Hex SHA-256 of the file. */
    readonly digest: string,
  ) {}

  /** Read `words.safetensors`: eight bytes of length, a header in JSON, and the tensors one after the other. */
  static fromBytes(content: Uint8Array, digest: string): Books {
    try {
      const view = new DataView(content.buffer, content.byteOffset, content.length);
      const first = 8 + Number(view.getBigUint64(0, true));
      const header = JSON.parse(new TextDecoder().decode(content.subarray(8, first))) as Record<string, Tensor>;
      const bytes = (name: string, kind: string): ArrayBuffer => {
        const { dtype, data_offsets: [begin, end] } = header[name]!;
        if (dtype !== kind) throw new Error(name);
        return content.slice(first + begin, first + end).buffer;
      };
      const names = Object.keys(header).filter((name) => name.endsWith("/words")).map((name) => name.slice(0, -"/words".length));
      return new Books(new Map(names.map((name) => [name, bookOf(name, bytes)])), digest);
    } catch {
      throw new DippError("the page", "has damaged words", "load it again");
    }
  }

  /** Return a book; throw if the model has no such book. */
  book(family: string, bits: number): Book {
    const book = this.books.get(`${family}/${bits}`);
    if (!book) throw new DippError("words", `of this page have no book of ${2 ** bits} for ${family}`, "use `dipp decode --model`");
    return book;
  }
}

interface Tensor {
  readonly dtype: string;
  readonly data_offsets: readonly [number, number];
}

function bookOf(name: string, bytes: (name: string, kind: string) => ArrayBuffer): Book {
  const words = Float32Array.from(new Uint16Array(bytes(`${name}/words`, "F16")), single);
  const counts = new Uint32Array(bytes(`${name}/counts`, "U32"));
  if (counts.length !== 2 ** Number(name.split("/")[1]) || (words.length / counts.length) % BLOCK ** 2) throw new Error(name);
  return { words, counts };
}

/** Return a number of half precision from its bits. */
function single(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  return sign * (exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : fraction * 2 ** -24);
}
