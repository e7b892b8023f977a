/** The codec: a picture in, a certified archive out, and back. */

import { PAIRS } from "../codes/pairs";
import { rint } from "../core/exact";
import { Archive } from "../format/archive";
import type { Release } from "../format/header";
import { DippError } from "../errors";
import type { Denoiser, Size } from "../models/denoiser";
import { Chain, type Progress, type StepLayout, type Walked } from "./chain";
import { Selector } from "./encoder";

/** A picture as eight-bit pixels, pixel·C + channel. */
export interface Picture extends Size {
  readonly pixels: Uint8Array;
}

export interface Encoded {
  readonly archive: Archive;
  readonly walked: Walked;
}

/** Encode a picture under a release, whose seed was drawn before the picture was read. */
export async function encode(
  release: Release,
  picture: Picture,
  denoiser: Denoiser,
  progress: Progress,
): Promise<Encoded> {
  if (release.plan.code.name !== PAIRS.name) throw new DippError("plan: one of pairs is needed");
  const selector = new Selector(release.plan, release.channels, picture.pixels);
  const walked = await new Chain(release.plan, denoiser, release.seed, picture, release.channels)
    .run(selector.choose, progress);
  const recorded = selector.recorder.ledger(release.plan, release.channels);
  return { archive: Archive.build(release, picture.height, picture.width, walked.indices, recorded), walked };
}

/** Decode one image of an archive. */
export async function decode(archive: Archive, number: number, denoiser: Denoiser, progress: Progress): Promise<Walked & Size & { grey: boolean }> {
  const { release } = archive;
  if (release.model !== denoiser.identity) {
    throw new DippError(
      `this file was made with another denoiser (${release.model.slice(0, 12)}…); decode it with \`dipp decode --model\``,
    );
  }
  const { height, width, grey, indices, counts } = archive.image(number);
  let at = 0;
  const read = (layout: StepLayout): Uint32Array => indices.subarray(at, (at += counts[layout.number]!));
  const chain = new Chain(release.plan, denoiser, release.seed, { height, width }, release.channels, number);
  return { ...(await chain.run(read, progress)), height, width, grey };
}

/**
 * A state (C, H, W) around [−1, 1] as eight-bit pixels, pixel·C + channel. The channels of a grey picture, which are views
 * of one value, are averaged, and come out equal.
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
