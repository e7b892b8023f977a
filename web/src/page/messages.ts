/** The messages between the page and its worker. */

import type { Odds } from "../codec/odds";
import type { Box, Compression } from "../redaction/boxes";
import type { Engine } from "../models/onnx";
import type { Table, TableEntry } from "./table";

/** Pictures that are computed after a file: samples of it, and pictures to compare it with. */
export type ExtraName = "sample 1" | "sample 2" | "sample 3" | "pixelated" | "noised" | "blurred";

/** A message from the page to the worker. */
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
      /** The ε of each box. */
      readonly epsilon: number;
      readonly compression: Compression;
      /** The name of the file to write, which its record states. */
      readonly name: string;
    }
  | { readonly type: "odds"; readonly pixel: number }
  | { readonly type: "cancel" };

/** A message from the worker to the page. */
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
      /** The decoded picture and the noisy state that it was predicted from, at pixel·3 + channel. */
      readonly expected: Uint8Array;
      readonly noisy: Uint8Array;
      readonly odds: boolean;
      /** The number of the request that this answers. */
      readonly of: number;
    }
  /** Another picture to compare with; `of` is the number of its request. */
  | { readonly type: "view"; readonly of: number; readonly name: ExtraName; readonly pixels: Uint8Array }
  /** A redacted picture: its file, its record, its pixels, its number of boxes, and the answers about them, if there are any. */
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
