/** The features of a browser that the page needs. */

import { DippError } from "../errors";

/** A WebAssembly module with one instruction on 128 bits, which the runtime needs. */
const SIMD = Uint8Array.from([0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11]);

/** Throw if the browser lacks a feature; the error names it. */
export function requireBrowser(): void {
  const needed: Record<string, boolean> = {
    "WebAssembly with SIMD": typeof WebAssembly === "object" && WebAssembly.validate(SIMD),
    "64-bit integers": typeof BigUint64Array === "function",
    workers: typeof Worker === "function",
    "canvases off the screen": typeof OffscreenCanvas === "function",
    "secure random numbers": typeof crypto?.getRandomValues === "function",
  };
  const missing = Object.keys(needed).filter((name) => !needed[name]);
  if (missing.length) {
    throw new DippError(
      "this browser",
      `has no ${missing.join(", no ")}`,
      "use Chrome or Edge 97, Firefox 114, Safari 16.4, or a later one",
    );
  }
}
