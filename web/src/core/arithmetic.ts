/**
 * The integer arithmetic of a step: it turns a private pixel into an integer shift and bounds what the shift can tell.
 *
 *     A(x) = trunc(unit·x),    c = round(unit·x̂0) within ±A(1),    m = clip(A(x) − c, −M, M)
 *
 * `dipp/core/arithmetic.py` has the proof: for a fixed public c, one coordinate moves a shift by at most D units.
 */

import { DippError } from "../errors";
import { rint } from "./exact";

const MIN_LEVEL = 128;
const MIN_CLIP = 512;
const MAX_LEVEL = 1 << 10;
const MAX_SLOPE = 1 << 28;
/** Largest number of fraction bits S of a score. */
const MAX_FRACTION_BITS = 15;
/** The signal x in [−1, 1] of each of the 256 pixel values. */
export const SIGNAL_OF_PIXEL = Float64Array.from({ length: 256 }, (_, pixel) => pixel / 127.5 - 1);

/** α as a fraction in lowest terms. */
export interface Rational {
  readonly numerator: number;
  readonly denominator: number;
}

/** The clip of a step: a residual of at least `width` changes the odds by the largest tilt, V nats. */
export interface Clip {
  readonly tilt: number;
  readonly width: number;
}

/** The public integers of one step. */
export class Arithmetic {
  /** S: a unit of score is 2^−S bits. */
  readonly fractionBits: number;
  /** Units of shift for each unit of x. */
  readonly unit: number;
  /** A(1) = −A(−1). */
  readonly levelOfOne: number;
  /** M: the largest size of a clipped shift; undefined without a clip. */
  readonly largestShift: number | undefined;
  /** Upper bound on the size of any integer shift. */
  readonly limit: number;
  /** D: units by which one coordinate can move any candidate's score. */
  readonly sensitivity: number;

  /** `slope` is L of the channel: the nats by which a shift of 1 can move the score of an unclipped step. */
  constructor(slope: number, gain: number, alpha: Rational, clip?: Clip) {
    const share = alpha.numerator / alpha.denominator;
    const level = (share * (clip ? clip.tilt / clip.width : slope * Math.sqrt(gain))) / Math.LN2;
    const largest = clip ? (share * clip.tilt) / Math.LN2 : level;
    const least = clip ? MIN_CLIP : MIN_LEVEL;
    const most = MAX_FRACTION_BITS - Math.max(0, ceilLog2(alpha));
    let bits = 0;
    while (bits < most && Math.trunc(largest * 2 ** bits) < least) bits += 1;
    this.fractionBits = bits;
    this.unit = level * 2 ** bits;
    this.levelOfOne = Math.trunc(this.unit);
    const digits = Math.trunc(largest * 2 ** bits);
    const [name, value] = clip ? ["tilt", clip.tilt] : ["snr_gain", gain];
    if (!(digits >= 1 && this.levelOfOne >= 1)) throw new DippError(name, `is too small to move any score, got ${value}`, "take fewer, larger steps");
    if (!(digits < MAX_LEVEL)) throw new DippError(name, `is too large for one step, got ${value}`, "split it into smaller ones");
    if (!(this.levelOfOne < MAX_SLOPE)) throw new DippError("clip", `is too narrow, got ${clip?.width}`, "take a wider one");
    this.largestShift = clip ? digits : undefined;
    this.limit = clip ? Math.min(2 * this.levelOfOne, digits) : 2 * this.levelOfOne;
    this.sensitivity = 2 * (clip ? Math.min(this.levelOfOne, digits) : this.levelOfOne);
  }

  /** Return A(x) of each of the 256 pixel values: the table in which private pixels are looked up. */
  levels(): Int32Array {
    return Int32Array.from(SIGNAL_OF_PIXEL, (x) => Math.trunc(this.unit * x));
  }

  /** Return c of a public prediction, and 0 if it is not finite, so that the encoder never fails. */
  centre(prediction: number): number {
    if (!Number.isFinite(prediction)) return 0;
    return Math.min(Math.max(rint(this.unit * prediction), -this.levelOfOne), this.levelOfOne);
  }

  /** Return a shift cut to ±M. */
  clipped(shift: number): number {
    const most = this.largestShift;
    return most === undefined ? shift : Math.min(Math.max(shift, -most), most);
  }
}

/** Return ⌈log2 α⌉, computed exactly. */
function ceilLog2({ numerator, denominator }: Rational): number {
  let bits = -MAX_FRACTION_BITS;
  while (denominator * 2 ** bits < numerator) bits += 1;
  return bits;
}
