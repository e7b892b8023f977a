/** What the page and its worker say to each other. */

import type { Odds } from "../codec/odds";
import type { Box, Compression } from "../redaction/boxes";
import type { Engine } from "../models/onnx";
import type { Table, TableEntry } from "./table";

/** What is computed after a file is done: samples of it, and what it is compared with. */
export type ExtraName = "sample 1" | "sample 2" | "sample 3" | "pixelated" | "noised" | "blurred";

/** Of the encoding or decoding that the worker is at. */
export type Request =
  | {
      readonly type: "start";
      readonly place: string;
      readonly table: Table;
      /** Public seeds, one for each encoding of this visit. */
      readonly seeds: readonly Uint8Array[];
      readonly engine: Engine | undefined;
    }
  | { readonly type: "encode"; readonly entry: TableEntry; readonly height: number; readonly width: number; readonly pixels: Uint8Array }
  | { readonly type: "decode"; readonly file: Uint8Array; readonly image: number }
  | {
      readonly type: "redact";
      readonly height: number;
      readonly width: number;
      readonly pixels: Uint8Array;
      readonly boxes: readonly Box[];
      /** What may be told of each box. */
      readonly epsilon: number;
      readonly compression: Compression;
      /** Name of the file that will be written, which its record states. */
      readonly name: string;
    }
  | { readonly type: "odds"; readonly pixel: number }
  | { readonly type: "cancel" };

export type Reply =
  | { readonly type: "loading"; readonly share: number }
  | { readonly type: "ready"; readonly engine: Engine; readonly threads: number }
  | { readonly type: "progress"; readonly done: number; readonly calls: number }
  | {
      readonly type: "done";
      readonly file: Uint8Array;
      readonly image: number;
      readonly height: number;
      readonly width: number;
      /** The file's picture, and the state it was made of: pixel·3 + channel. */
      readonly expected: Uint8Array;
      readonly noisy: Uint8Array;
      readonly odds: boolean;
      /** Number of the request. */
      readonly of: number;
    }
  /** Another picture to compare with; `of` is the number of the request that it belongs to. */
  | { readonly type: "view"; readonly of: number; readonly name: ExtraName; readonly pixels: Uint8Array }
  /** A picture whose boxes were painted: its file, its record, its pixels, how many boxes there were, and the answers about them, if they were asked. */
  | {
      readonly type: "redacted";
      readonly file: Uint8Array;
      readonly record: string;
      readonly pixels: Uint8Array;
      readonly boxes: number;
      readonly answers: Uint8Array | undefined;
    }
  | ({ readonly type: "odds"; readonly pixel: number } & Odds)
  | { readonly type: "cancelled" }
  | { readonly type: "error"; readonly message: string };
