/** The part of pako that is used: its output is that of zlib, to the last bit. (Later versions have another one.) */
declare module "pako" {
  export function deflate(data: Uint8Array, options: { level: number }): Uint8Array;
}
