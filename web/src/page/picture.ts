/**
 * Pictures as eight-bit pixels, which the certificate is about. Alpha is composited on white, the EXIF orientation is
 * applied, and colour profiles are ignored. Each of these steps maps single pixels. Nothing is resized unless the user asks.
 */

import type { Picture } from "../codec/codec";
import { DippError, FILE } from "../errors";

/** The most pixels that a browser can encode in half a minute and within its memory. */
export const MOST_PIXELS = 1 << 20;
/** The most pixels of a picture that the page opens. */
const MOST_DECODED = 1 << 25;

/** The number of first bytes of a file that say how many bits a channel has, in the formats that browsers read. */
const HEAD_BYTES = 4096;

/** Open a picture; throw if the page cannot take it. */
export async function bitmapOf(file: Blob): Promise<ImageBitmap> {
  requireEightBits(new Uint8Array(await file.slice(0, HEAD_BYTES).arrayBuffer()));
  if (await isAnimated(file)) throw new DippError("the picture", "has several frames", "save each frame as a file");
  let bitmap: ImageBitmap;
  try {
    bitmap = await createImageBitmap(file, { colorSpaceConversion: "none", premultiplyAlpha: "none" });
  } catch {
    throw new DippError(FILE, "is neither a picture that the browser can read nor a .dipp file", "save the picture as PNG or JPEG");
  }
  const { width, height } = bitmap;
  if (width * height > MOST_DECODED) {
    throw new DippError("the picture", `must have at most 32 megapixels here, got ${width}×${height}`, "use `dipp encode` or `dipp redact`, which take 64");
  }
  return bitmap;
}

/**
 * Throw if a file has more than eight bits per channel, because the browser would cut them by a rule of its own. TIFF and
 * JPEG XL may have any number, and are always refused. No browser reads a JPEG of twelve bits.
 */
export function requireEightBits(head: Uint8Array): void {
  const text = String.fromCharCode(...head);
  let bits = 8;
  if (text.startsWith("\x89PNG\r\n\x1a\n")) bits = head[24] ?? 8; // the depth in IHDR, the first chunk
  // An AVIF or HEIF says in a box `pixi`: version and flags, number of channels, the bits of each.
  const pixi = text.slice(4, 8) === "ftyp" ? text.indexOf("pixi") : -1;
  if (pixi >= 0) bits = Math.max(8, ...head.subarray(pixi + 9, pixi + 9 + Math.min(head[pixi + 8] ?? 0, 4)));
  // The configuration `av1C` of an AVIF: in its third byte, whether there are more than eight bits, and whether twelve.
  const av1 = text.slice(4, 8) === "ftyp" ? text.indexOf("av1C") : -1;
  const flags = av1 >= 0 ? (head[av1 + 6] ?? 0) : 0;
  if (flags & 0x40) bits = Math.max(bits, flags & 0x20 ? 12 : 10);
  if (/^(II\*\0|MM\0\*|\xff\x0a|\0\0\0\x0cJXL )/.test(text))
    throw new DippError("the picture", "is TIFF or JPEG XL, which may have more than eight bits", "save it as PNG or JPEG");
  if (bits > 8)
    throw new DippError(
      "the picture",
      `has ${bits} bits per channel, and the page takes eight`,
      "save it with eight, or use `dipp encode --window`",
    );
}

/** Return whether a file has several frames; false if the browser cannot tell. */
async function isAnimated(file: Blob): Promise<boolean> {
  if (!("ImageDecoder" in globalThis) || !/gif|webp|png|avif/.test(file.type)) return false;
  try {
    const decoder = new ImageDecoder({ data: await file.arrayBuffer(), type: file.type });
    await decoder.tracks.ready;
    const frames = decoder.tracks.selectedTrack?.frameCount ?? 1;
    decoder.close();
    return frames > 1;
  } catch {
    return false;
  }
}

/** Return the pixels of a picture at a size, which is its own unless the user chose another. */
export function pixelsOf(source: CanvasImageSource, width: number, height: number): Picture {
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext("2d", { willReadFrequently: true })!;
  context.fillStyle = "#fff";
  context.fillRect(0, 0, width, height);
  context.imageSmoothingQuality = "high";
  context.drawImage(source, 0, 0, width, height);
  const shown = context.getImageData(0, 0, width, height).data;
  const pixels = new Uint8Array(3 * width * height);
  for (let i = 0; i < width * height; i += 1) {
    for (let channel = 0; channel < 3; channel += 1) pixels[3 * i + channel] = shown[4 * i + channel]!;
  }
  return { width, height, pixels };
}

/** Return the largest size of the same shape that can be encoded. */
export function smaller(width: number, height: number): [number, number] {
  const share = Math.sqrt(MOST_PIXELS / (width * height));
  return [Math.max(1, Math.floor(width * share)), Math.max(1, Math.floor(height * share))];
}

/** Return a picture in the form that the browser draws. */
export function shown({ width, height, pixels }: Picture): ImageData {
  const data = new ImageData(width, height);
  for (let i = 0; i < width * height; i += 1) {
    for (let channel = 0; channel < 3; channel += 1) data.data[4 * i + channel] = pixels[3 * i + channel]!;
    data.data[4 * i + 3] = 255;
  }
  return data;
}

/** Return a picture as a file that the browser writes. */
export async function fileOf(picture: Picture, type: string, quality?: number): Promise<Blob> {
  const canvas = new OffscreenCanvas(picture.width, picture.height);
  canvas.getContext("2d")!.putImageData(shown(picture), 0, 0);
  return canvas.convertToBlob(quality === undefined ? { type } : { type, quality });
}
