/**
 * What a file of pairs says about one pixel: the likelihood of its bits for each grey level that the pixel may have had.
 *
 * Given the file's other bits, the law of a bit is that of its shift, P[+] = T[m]/2^64: exactly the law that the encoder
 * draws by. So these are the odds of the very adversary that the certificate speaks of, who knows all other pixels.
 */

import { thresholds } from "../codes/pairs";
import type { PairAnswers } from "./chain";

export interface Odds {
  /** ln P[file | grey level] of the 256 grey levels, up to a common constant. */
  readonly likelihoods: Float64Array;
  /** ln of the odds of black against white, if both were equally likely before. */
  readonly blackToWhite: number;
  /** The channel of each bit of the file that depends on this pixel. */
  readonly asked: readonly number[];
}

/** Return what the answers of a file say about one pixel. */
export function oddsOfPixel(answers: readonly PairAnswers[], pixel: number, channels: number): Odds {
  const likelihoods = new Float64Array(256);
  const asked: number[] = [];
  for (const { arithmetic, coordinates, centres, bits: drawn } of answers) {
    coordinates.forEach((coordinate, i) => {
      if (Math.floor(coordinate / channels) !== pixel) return;
      asked.push(coordinate % channels);
      const table = thresholds(arithmetic.limit, arithmetic.fractionBits);
      const levels = arithmetic.levels();
      likelihoods.forEach((_, grey) => {
        const up = table[arithmetic.clipped(levels[grey]! - centres[i]!) + arithmetic.limit]!;
        likelihoods[grey]! += Math.log(Number(drawn[i] ? up : (1n << 64n) - up) * 2 ** -64);
      });
    });
  }
  return { likelihoods, blackToWhite: likelihoods[0]! - likelihoods[255]!, asked };
}
