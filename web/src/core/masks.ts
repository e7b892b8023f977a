/**
 * Masks: the public rule that says which coordinates each step touches (`dipp/core/masks.py`).
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

  /** Throw if the mask cannot serve pictures with this number of channels. */
  require(channels: number): void {
    if (this.period > 1 && channels > this.period) {
      throw new DippError("period", `must be 1, or at least the number of channels (${channels}), got ${this.period}`);
    }
  }

  /** Throw if the mask cannot count how often this unit is touched. */
  requireUnit(unit: Unit): void {
    if (this.period > 1 && unit.kind !== "pixel") {
      throw new DippError("period", `must be 1 for the unit ${unit.short}, got ${this.period}`);
    }
  }

  /** Return the largest number of coordinates of a pixel that a step touches. */
  touches(channels: number): number {
    return this.period === 1 ? channels : 1;
  }

  /** Return the coordinates that a step touches, ascending. */
  touched(seed: Uint8Array, step: number, pixels: number, channels: number): Int32Array {
    if (this.period === 1) return Int32Array.from({ length: pixels * channels }, (_, i) => i);
    const slots = this.slots(seed, Math.floor(step / this.period), pixels, channels);
    const slot = step % this.period;
    const coordinates = new Int32Array(this.count(step, pixels, channels));
    let at = 0;
    for (let i = 0; i < slots.length; i += 1) if (slots[i] === slot) coordinates[at++] = i;
    if (at !== coordinates.length) throw new Error("the mask counts another number of touched coordinates than it lists");
    return coordinates;
  }

  /** Return the step of the cycle that touches each coordinate. */
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
        // The position is the number of channels of the pixel with a smaller key, or with an equal key and a smaller number.
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

  /** Return the number of coordinates that a step touches: the length of `touched`, in closed form. */
  count(step: number, pixels: number, channels: number): number {
    if (this.period === 1) return pixels * channels;
    const [slot, left] = [step % this.period, pixels % this.period];
    const apart = Math.floor(this.period / channels);
    const upTo = (place: number): number => Math.min(Math.max(Math.floor(place / apart) + 1, 0), channels);
    const inside = upTo(slot) - upTo(slot - left);
    return Math.floor(pixels / this.period) * channels + inside + channels - upTo(slot - left + this.period);
  }

  /** Return how many of `steps` steps touch a picture of any size: the first step of each cycle does. */
  leastSteps(steps: number): number {
    return Math.ceil(steps / this.period);
  }

  /**
   * Return the largest cost of a pixel if step i costs every touched pixel `costs[i]`: the sum over cycles of the dearest
   * class of ranks modulo P. Ranks are shuffled anew for each cycle, so one pixel can be in the dearest class of each.
   */
  worst(costs: readonly number[], channels: number): number {
    if (this.period === 1) return fsum(costs);
    const apart = Math.floor(this.period / channels);
    const dearest: number[] = [];
    for (let first = 0; first < costs.length; first += this.period) {
      const met = new Map<number, number[]>();
      costs.slice(first, first + this.period).forEach((charge, slot) => {
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
