/**
 * The size that must stay hidden, as a square over the picture. A user drags its middle to move it, and its corner to size
 * it. Its size snaps to the sizes that have plans. The cells that hide it are drawn as well.
 */

import type { Size } from "../core/geometry";
import type { Unit } from "../core/units";
import { element } from "./dom";
import type { Side } from "./table";

export class Square {
  private readonly square = element("square");
  private readonly cells = element("cells");
  private readonly sheet = element("sheet");
  private sides: readonly Side[] = [1];
  private side: Side = 1;
  private unit: Unit | undefined;
  private size: Size | undefined;
  /** The middle of the square, as shares of the sides of the picture. */
  private middle = { x: 0.5, y: 0.4 };

  /** `chosen` receives the number of the size to which the square was dragged. */
  constructor(chosen: (number: number) => void) {
    const corner = element("corner");
    const dragged = (handle: HTMLElement, move: (x: number, y: number) => void): void => {
      handle.addEventListener("pointerdown", (event) => {
        handle.setPointerCapture(event.pointerId);
        event.preventDefault();
        event.stopPropagation();
      });
      handle.addEventListener("pointermove", (event) => {
        if (!handle.hasPointerCapture(event.pointerId)) return;
        const box = this.sheet.getBoundingClientRect();
        move((event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height);
      });
    };
    dragged(this.square, (x, y) => {
      this.middle = { x: Math.min(Math.max(x, 0), 1), y: Math.min(Math.max(y, 0), 1) };
      this.place();
    });
    dragged(corner, (x, y) => {
      const { width, height } = this.size!;
      const wanted = 2 * Math.max((x - this.middle.x) * width, (y - this.middle.y) * height, 0.5);
      const away = (side: Side): number => Math.abs(Math.log((side ?? Math.max(width, height)) / wanted));
      const nearest = this.sides.reduce<number>((best, side, i) => (away(side) < away(this.sides[best]!) ? i : best), 0);
      if (this.sides[nearest] !== this.side) chosen(nearest);
    });
    new ResizeObserver(() => this.place()).observe(this.sheet);
  }

  /** Draw the square of a size over a picture, and the cells of the unit that hides it. */
  show(sides: readonly Side[], side: Side, unit: Unit, size: Size): void {
    [this.sides, this.side, this.unit, this.size] = [sides, side, unit, size];
    this.place();
  }

  hide(): void {
    this.size = undefined;
    this.square.hidden = this.cells.hidden = true;
  }

  private place(): void {
    const { size, side, unit } = this;
    this.square.hidden = !size;
    this.cells.hidden = !size || unit?.kind !== "cell";
    if (!size) return;
    const scale = this.sheet.clientWidth / size.width;
    const [wide, high] = side === null ? [size.width, size.height] : [Math.min(side, size.width), Math.min(side, size.height)];
    const begin = (middle: number, length: number, whole: number): number => Math.min(Math.max(middle * whole - length / 2, 0), whole - length);
    this.square.style.left = `${begin(this.middle.x, wide, size.width) * scale - 2}px`;
    this.square.style.top = `${begin(this.middle.y, high, size.height) * scale - 2}px`;
    this.square.style.width = `${Math.max(wide * scale, 4) + 4}px`;
    this.square.style.height = `${Math.max(high * scale, 4) + 4}px`;
    if (unit?.kind === "cell") {
      const cell = unit.divisions(4096, 1)[1]! * scale;
      const lines = (angle: number): string => `repeating-linear-gradient(${angle}deg, #000 0 1px, #fff 1px 1.5px, transparent 1.5px ${cell}px)`;
      this.cells.style.backgroundImage = `${lines(90)}, ${lines(180)}`;
    }
  }
}
