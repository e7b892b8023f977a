/** One pixel: the odds that a file gives about it to somebody who knows all other pixels. */

import type { Odds } from "../codec/odds";
import { upper } from "../privacy/certificate";
import { element, grouped } from "./dom";

const [WIDTH, TOP, BOTTOM] = [512, 8, 136];

const COLOURS = ["red", "green", "blue"];

/** Show the odds of a pixel; `pixel` has its three private channels, if they are known. */
export function showOdds(odds: Odds, epsilon: number, pixel: Uint8Array | undefined): void {
  const { likelihoods, blackToWhite, asked: channels } = odds;
  const bits = channels.length;
  const only = channels.every((channel) => channel === channels[0]) ? channels[0] : undefined;
  const grey = pixel && (only === undefined ? Math.round((pixel[0]! + pixel[1]! + pixel[2]!) / 3) : pixel[only]!);
  const times = grouped(Number(Math.exp(Math.abs(blackToWhite)).toPrecision(3)));
  const black = 100 / (1 + Math.exp(-blackToWhite));
  const bound = `No file could have brought them beyond e^ε = ${upper(Math.exp(epsilon) * (1 + 2 ** -40), 3)} to 1.`;
  const whose = channels.map((channel) => COLOURS[channel]).join(", then ");
  const asked = bits ? `It was asked for ${bits === 1 ? "one bit" : `${bits} bits`} of its ${whose}.` : "It was asked nothing.";
  element("odds").textContent = bits
    ? `${asked} The odds of black against white were 1 to 1, and are ${
        blackToWhite >= 0 ? `${times} to 1` : `1 to ${times}`
      } now: black has ${black.toPrecision(black > 99.9 && black < 99.99999 ? 6 : 3)} %. ${bound}`
    : `${asked} So the file says nothing of its own about this pixel: the odds of black against white stay at 1 to 1. ${bound}`;
  // All 256 grey levels were equally likely; their posterior, relative to the likeliest.
  const most = Math.max(...likelihoods);
  const weights = Array.from(likelihoods, (value) => Math.exp(value - most));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const share = weights.map((weight) => weight / total);
  const highest = Math.max(...share, 2 / 256);
  const y = (value: number): number => BOTTOM - ((BOTTOM - TOP) * value) / highest;
  element("curve-line").setAttribute("d", share.map((one, i) => `${i ? "L" : "M"}${2 * i + 1} ${y(one).toFixed(1)}`).join(""));
  element("flat-line").setAttribute("d", `M0 ${y(1 / 256)}H${WIDTH}`);
  const truth = element("truth");
  truth.toggleAttribute("hidden", grey === undefined);
  if (grey !== undefined) ["x1", "x2"].forEach((name) => truth.setAttribute(name, String(2 * grey + 1)));
  const likeliest = share.indexOf(Math.max(...share));
  const words = bits
    ? `Before, all 256 grey levels were equally likely (dashed). Now the likeliest is ${(share[likeliest]! * 256).toPrecision(3)} times as likely as that.`
    : "All 256 grey levels are as likely as before.";
  element("curve-words").textContent = `${words}${grey === undefined ? "" : ` The upright line is the pixel's own ${only === undefined ? "brightness" : COLOURS[only]}, which only you know.`}`;
  element("curve-title").textContent = `From black on the left to white on the right: how likely each grey level of the pixel is. ${words}`;
}
