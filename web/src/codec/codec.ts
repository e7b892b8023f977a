/** The codec: it encodes a picture into a certified archive, and decodes it. */

import type { Chunks } from "../core/chunking";
import { rint } from "../core/exact";
import type { Geometry, Size } from "../core/geometry";
import { Archive } from "../format/archive";
import type { PublicParameters } from "../format/header";
import { DippError, FILE } from "../errors";
import type { Denoiser } from "../models/denoiser";
import { Answers } from "./answers";
import { Chain, type Progress, type ChainResult } from "./chain";
import { Selector } from "./encoder";
import { askRegions } from "./told";

/** A picture as eight-bit pixels, pixel·C + channel. */
export interface Picture extends Size {
  readonly pixels: Uint8Array;
}

export interface EncodedPicture {
  readonly archive: Archive;
  readonly result: ChainResult;
}

/** Encode a picture with public parameters, whose seed was drawn before the picture was read. */
export async function encode(
  parameters: PublicParameters,
  picture: Picture,
  denoiser: Denoiser,
  progress: Progress,
): Promise<EncodedPicture> {
  const { plan, seed, channels } = parameters;
  const { height, width } = picture;
  const geometry = { height, width, channels };
  requireWords(parameters, denoiser);
  const selector = new Selector(plan, geometry, picture.pixels);
  const result =
    plan.kind === "questions"
      ? await new Answers(plan, denoiser, seed, geometry).run(selector.answer, progress)
      : await new Chain(plan, denoiser, seed, geometry).run(selector.choose, progress);
  const recorded = selector.recorder.ledger(plan, channels);
  return { archive: Archive.build(parameters, height, width, result.indices, recorded), result };
}

/**
 * Encode what the regions of a picture show beyond `base`, the public picture whose regions were painted without reading
 * them. The plan in the parameters asks these regions; `state` is the picture with the answers.
 */
export function encodeRegions(parameters: PublicParameters, picture: Picture, base: Uint8Array, denoiser: Denoiser): { archive: Archive; state: Float32Array } {
  const { plan, seed, channels } = parameters;
  const { height, width, pixels } = picture;
  const geometry = { height, width, channels };
  requireWords(parameters, denoiser);
  const selector = new Selector(plan, geometry, pixels);
  const { state, indices } = askRegions(plan, base, geometry, { seed, books: denoiser.books, answer: selector.answer });
  const archive = Archive.build(parameters, height, width, indices, selector.recorder.ledger(plan, channels));
  return { archive, state };
}

/** Decode one image of an archive. */
export async function decode(archive: Archive, number: number, denoiser: Denoiser, progress: Progress): Promise<ChainResult & Size & { grey: boolean }> {
  const { parameters } = archive;
  if (parameters.model !== denoiser.identity) {
    throw new DippError(FILE, `was made with another denoiser (${parameters.model.slice(0, 12)}…)`, "use `dipp decode --model`");
  }
  requireWords(parameters, denoiser);
  const { plan, seed, channels } = parameters;
  if (plan.unit.kind === "region") throw new DippError(FILE, "holds answers about regions, which belong to a redacted picture", "use `dipp check`");
  const { height, width, grey, indices } = archive.image(number);
  const geometry: Geometry = { height, width, channels };
  let at = 0;
  const read = ({ chunks }: { chunks: Chunks }): Uint32Array => indices.subarray(at, (at += chunks.offsets.length - 1));
  const result =
    plan.kind === "questions"
      ? await new Answers(plan, denoiser, seed, geometry).run(read, progress)
      : await new Chain(plan, denoiser, seed, geometry, number).run(read, progress);
  return { ...result, height, width, grey };
}

/** Throw if a file that asks by words was made with other words than the denoiser has. */
function requireWords({ plan, table }: PublicParameters, { books }: Denoiser): void {
  if (plan.kind === "questions" && table !== books?.digest) {
    throw new DippError(FILE, "was made with other words than this page has", "use `dipp decode --model`");
  }
}

/**
 * Return a state (C, H, W) around [−1, 1] as eight-bit pixels at pixel·C + channel. The channels of a grey picture are
 * averaged, so they come out equal.
 */
export function toPixels(state: Float32Array, channels: number, grey = false): Uint8Array {
  const count = state.length / channels;
  const pixels = new Uint8Array(state.length);
  const mean = (pixel: number): number => {
    let sum = 0;
    for (let channel = 0; channel < channels; channel += 1) sum += state[channel * count + pixel]!;
    return Math.fround(sum / channels);
  };
  for (let channel = 0; channel < channels; channel += 1) {
    for (let pixel = 0; pixel < count; pixel += 1) {
      const x = Math.min(Math.max(grey ? mean(pixel) : state[channel * count + pixel]!, -1), 1);
      pixels[pixel * channels + channel] = rint(Math.fround(Math.fround(x + 1) * 127.5));
    }
  }
  return pixels;
}
