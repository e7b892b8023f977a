/**
 * Masks: who is touched when. The one place that knows periods, passes and groups (`dipp/core/masks.py`).
 *
 * In a cycle of P ≥ C steps every coordinate (pixel·C + channel) is touched exactly once, and no pixel twice in a step:
 * step s of the cycle touches the channel at position p of the pixel of rank r if s = (r + p·⌊P/C⌋) mod P. Ranks and
 * positions are public shuffles, new ones for each cycle. With period 1 every step touches everything.
 */

import { DippError } from "../errors";
import { fsum } from "./exact";
import { inverse, permutation, stream, words } from "./randomness";
import type { Unit } from "./units";

export const MAX_PERIOD = 65535;

export class Mask {
  private cached: { key: string; slots: Uint16Array } | undefined;

  constructor(readonly period: number) {
    if (!Number.isInteger(period) || period < 1 || period > MAX_PERIOD) {
      throw new DippError("period", `must be a whole number from 1 to ${MAX_PERIOD}, got ${period}`);
    }
  }

  /** Refuse a number of channels that the mask is not made for. */
  require(channels: number): void {
    if (this.period > 1 && channels > this.period) {
      throw new DippError("period", `must be 1, or at least the number of channels (${channels}), got ${this.period}`);
    }
  }

  /** Refuse a unit whose touches the mask cannot count. */
  requireUnit(unit: Unit): void {
    if (this.period > 1 && unit.kind !== "pixel") {
      throw new DippError("period", `must be 1 for the unit ${unit.short}, got ${this.period}`);
    }
  }

  /** Coordinates of one pixel that a step touches, at most. */
  touches(channels: number): number {
    return this.period === 1 ? channels : 1;
  }

  /** The coordinates that a step touches, ascending. */
  touched(seed: Uint8Array, step: number, pixels: number, channels: number): Int32Array {
    if (this.period === 1) return Int32Array.from({ length: pixels * channels }, (_, i) => i);
    const slots = this.slots(seed, Math.floor(step / this.period), pixels, channels);
    const slot = step % this.period;
    const found = new Int32Array(this.count(step, pixels, channels));
    let at = 0;
    for (let i = 0; i < slots.length; i += 1) if (slots[i] === slot) found[at++] = i;
    if (at !== found.length) throw new Error("the mask counts another number of touched coordinates than it lists");
    return found;
  }

  /** The slot of each coordinate in a cycle. */
  private slots(seed: Uint8Array, cycle: number, pixels: number, channels: number): Uint16Array {
    const key = `${seed} ${cycle} ${pixels} ${channels}`;
    if (this.cached?.key === key) return this.cached.slots;
    const rank = inverse(permutation(stream(seed, 0, cycle, "mask/pixels"), pixels));
    const keys = words(stream(seed, 0, cycle, "mask/channels"), pixels * channels);
    const apart = Math.floor(this.period / channels);
    const slots = new Uint16Array(pixels * channels);
    for (let pixel = 0; pixel < pixels; pixel += 1) {
      const first = pixel * channels;
      for (let channel = 0; channel < channels; channel += 1) {
        // The position: how many channels of the pixel have a smaller key, or an equal one and come before.
        const own = keys[first + channel]!;
        let position = 0;
        for (let other = 0; other < channels; other += 1) {
          const theirs = keys[first + other]!;
          if (theirs < own || (theirs === own && other < channel)) position += 1;
        }
        slots[first + channel] = (rank[pixel]! + position * apart) % this.period;
      }
    }
    this.cached = { key, slots };
    return slots;
  }

  /** How many coordinates a step touches: the length of `touched`, in closed form. */
  count(step: number, pixels: number, channels: number): number {
    if (this.period === 1) return pixels * channels;
    const [slot, left] = [step % this.period, pixels % this.period];
    const apart = Math.floor(this.period / channels);
    const upTo = (place: number): number => Math.min(Math.max(Math.floor(place / apart) + 1, 0), channels);
    const inside = upTo(slot) - upTo(slot - left);
    return Math.floor(pixels / this.period) * channels + inside + channels - upTo(slot - left + this.period);
  }

  /** How many of so many steps touch a picture of any size: the first of every cycle does. */
  leastSteps(steps: number): number {
    return Math.ceil(steps / this.period);
  }

  /**
   * The most that one pixel is charged if step i charges charges[i] to every pixel that it touches: for each cycle, the
   * dearest class of ranks modulo P. Ranks are shuffled anew for the next cycle, so the worst of each cycle adds up.
   */
  worst(charges: readonly number[], channels: number): number {
    if (this.period === 1) return fsum(charges);
    const apart = Math.floor(this.period / channels);
    const dearest: number[] = [];
    for (let first = 0; first < charges.length; first += this.period) {
      const met = new Map<number, number[]>();
      charges.slice(first, first + this.period).forEach((charge, slot) => {
        for (let position = 0; position < channels; position += 1) {
          const rank = (((slot - position * apart) % this.period) + this.period) % this.period;
          met.set(rank, [...(met.get(rank) ?? []), charge]);
        }
      });
      dearest.push(Math.max(...[...met.values()].map(fsum)));
    }
    return fsum(dearest);
  }
}
