/** What the file is compared with: Laplace noise of the same ε, stored as a PNG. */

import type { Picture } from "../codec/codec";
import { rint } from "../core/exact";
import { privateWords } from "../core/randomness";

/**
 * Laplace noise of scale 3·255/ε on every channel, rounded and clamped: ε for any change of a pixel, in exact
 * arithmetic. It is made to be looked at here, not to be released: floats are not exact.
 */
export function noised(picture: Picture, epsilon: number): Picture {
  const scale = (3 * 255) / epsilon;
  const words = privateWords(picture.pixels.length);
  const pixels = picture.pixels.map((value, i) => {
    const uniform = (Number(words[i]! >> 11n) + 0.5) * 2 ** -53 - 0.5; // in (−½, ½)
    const noise = -scale * Math.sign(uniform) * Math.log1p(-2 * Math.abs(uniform));
    return Math.min(Math.max(rint(value + noise), 0), 255);
  });
  return { ...picture, pixels };
}
