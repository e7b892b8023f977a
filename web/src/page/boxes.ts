/**
 * Boxes over the picture. A user drags to draw one, drags its middle to move it and its corner to size it, and deletes it by
 * its button. On the keyboard, arrows move a box, arrows with Shift size it, and Delete removes it.
 */

import type { Size } from "../core/geometry";
import { type Box, grown } from "../redaction/boxes";
import { element, made } from "./dom";

/** The sides of a box that the button adds, as shares of the picture's sides. */
const SHARE = 0.2;
const ARROWS: Record<string, readonly [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

export class Boxes {
  private readonly sheet = element("sheet");
  private readonly layer = element("boxes");
  private size: Size | undefined;
  /** The number of pixels by which boxes grow, shown around each. */
  private growth = 0;
  private drawn: Box[] = [];

  /** `changed` is called after each change of the boxes. */
  constructor(private readonly changed: () => void) {
    let start: readonly [number, number] | undefined;
    this.layer.addEventListener("pointerdown", (event) => {
      if (event.target !== this.layer || !this.size) return;
      this.layer.setPointerCapture(event.pointerId);
      start = this.at(event);
      this.drawn.push(between(start, start));
      event.preventDefault();
    });
    this.layer.addEventListener("pointermove", (event) => {
      if (!start || !this.layer.hasPointerCapture(event.pointerId)) return;
      this.drawn[this.drawn.length - 1] = between(start, this.at(event));
      this.draw();
    });
    const end = (): void => {
      if (!start) return;
      start = undefined;
      const { width, height } = this.drawn.at(-1)!;
      if (Math.min(width, height) < 2) this.drawn.pop(); // a click
      this.draw();
      this.changed();
    };
    this.layer.addEventListener("pointerup", end);
    this.layer.addEventListener("pointercancel", end);
  }

  /** The boxes that are hidden: grown, and cut at the edges of the picture. */
  get hidden(): Box[] {
    return this.drawn.flatMap((box) => (this.size && grown(box, this.growth, this.size)) || []);
  }

  /** Draw boxes over a picture; boxes of a picture of another size are removed. */
  show(size: Size, growth: number): void {
    if (size.width !== this.size?.width || size.height !== this.size.height) this.drawn = [];
    [this.size, this.growth] = [size, growth];
    this.layer.hidden = false;
    this.draw();
  }

  hide(): void {
    this.layer.hidden = true;
  }

  clear(): void {
    this.drawn = [];
    this.size = undefined;
    this.hide();
  }

  /** Add a box in the middle, for users who do not draw. */
  add(): void {
    const { width, height } = this.size!;
    const [wide, high] = [Math.max(2, Math.round(width * SHARE)), Math.max(2, Math.round(height * SHARE))];
    this.drawn.push({ left: Math.floor((width - wide) / 2), top: Math.floor((height - high) / 2), width: wide, height: high });
    this.draw();
    this.changed();
    (this.layer.lastElementChild as HTMLElement).focus();
  }

  /** Return the position of a pointer in pixels of the picture. */
  private at(event: PointerEvent): readonly [number, number] {
    const { width, height } = this.size!;
    const box = this.sheet.getBoundingClientRect();
    const within = (value: number, most: number): number => Math.min(Math.max(value, 0), most);
    return [within(((event.clientX - box.left) / box.width) * width, width), within(((event.clientY - box.top) / box.height) * height, height)];
  }

  private draw(): void {
    while (this.layer.children.length > this.drawn.length) this.layer.lastElementChild!.remove();
    while (this.layer.children.length < this.drawn.length) this.layer.append(this.made());
    this.drawn.forEach((box, i) => this.place(this.layer.children[i] as HTMLElement, box, i));
  }

  private place(shown: HTMLElement, box: Box, number: number): void {
    const { width, height } = this.size!;
    const put = (what: HTMLElement, { left, top, width: wide, height: high }: Box): void => {
      Object.assign(what.style, {
        left: `${(100 * left) / width}%`, top: `${(100 * top) / height}%`, width: `${(100 * wide) / width}%`, height: `${(100 * high) / height}%`,
      });
    };
    put(shown, box);
    shown.setAttribute("aria-label", `Box ${number + 1}: ${box.width}×${box.height} pixels at ${box.left}, ${box.top}`);
    const around = shown.querySelector<HTMLElement>(".around")!;
    const by = [this.growth / box.width, this.growth / box.height] as const;
    around.hidden = !this.growth;
    Object.assign(around.style, { inset: `${-100 * by[1]}% ${-100 * by[0]}%` });
  }

  /** Return the element of a box. */
  private made(): HTMLElement {
    const remove = made("button", "×", { type: "button", class: "remove", "aria-label": "Delete this box" });
    const corner = made("div", "", { class: "corner", "aria-hidden": "true" });
    const shown = made("div", [made("div", "", { class: "around", "aria-hidden": "true" }), corner, remove], { class: "box", tabindex: "0", role: "group" });
    const number = (): number => Array.from(this.layer.children).indexOf(shown);
    const change = (box: Box): void => {
      this.drawn[number()] = whole(box, this.size!);
      this.draw();
      this.changed();
    };
    remove.onclick = () => this.remove(number());
    shown.onkeydown = (event) => {
      if (event.target !== shown) return;
      if (event.key === "Delete" || event.key === "Backspace") return this.remove(number());
      const arrow = ARROWS[event.key];
      if (!arrow) return;
      event.preventDefault();
      const step = Math.max(1, Math.round(this.size!.width / 100));
      change(moved(this.drawn[number()]!, arrow[0] * step, arrow[1] * step, event.shiftKey));
    };
    for (const [handle, sized] of [[shown, false], [corner, true]] as const) {
      let last: readonly [number, number] | undefined;
      handle.addEventListener("pointerdown", (event) => {
        if (event.target === remove || (handle === shown && event.target === corner)) return;
        handle.setPointerCapture(event.pointerId);
        last = this.at(event);
        event.stopPropagation();
      });
      handle.addEventListener("pointermove", (event) => {
        if (!last || !handle.hasPointerCapture(event.pointerId)) return;
        const place = this.at(event);
        const [across, down] = [Math.round(place[0] - last[0]), Math.round(place[1] - last[1])];
        if (!across && !down) return;
        last = [last[0] + across, last[1] + down];
        change(moved(this.drawn[number()]!, across, down, sized));
      });
      handle.addEventListener("pointerup", () => (last = undefined));
    }
    return shown;
  }

  private remove(number: number): void {
    this.drawn.splice(number, 1);
    this.layer.children[number]!.remove();
    this.draw();
    this.changed();
    ((this.layer.children[Math.max(0, number - 1)] as HTMLElement | undefined) ?? element("add-box")).focus();
  }
}

/** Return the box between two corners, in whole pixels. */
function between([x0, y0]: readonly [number, number], [x1, y1]: readonly [number, number]): Box {
  const [left, top] = [Math.floor(Math.min(x0, x1)), Math.floor(Math.min(y0, y1))];
  return { left, top, width: Math.ceil(Math.max(x0, x1)) - left, height: Math.ceil(Math.max(y0, y1)) - top };
}

/** Return a box after it was moved, or after its lower right corner was. */
function moved(box: Box, across: number, down: number, sized: boolean): Box {
  return sized ? { ...box, width: box.width + across, height: box.height + down } : { ...box, left: box.left + across, top: box.top + down };
}

/** Return a box with sides of at least two pixels, within the picture. */
function whole({ left, top, width, height }: Box, size: Size): Box {
  const [wide, high] = [Math.min(Math.max(2, width), size.width), Math.min(Math.max(2, height), size.height)];
  return { left: Math.min(Math.max(0, left), size.width - wide), top: Math.min(Math.max(0, top), size.height - high), width: wide, height: high };
}
