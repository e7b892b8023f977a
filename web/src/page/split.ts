/** The split view: two pictures of the same size on top of each other, with a line between them that can be dragged. */

import type { Picture } from "../codec/codec";
import { element } from "./dom";
import { shown } from "./picture";

export interface View extends Picture {
  readonly name: string;
}

export class Split {
  private readonly stage = element("stage");
  private readonly sheet = element("sheet");
  private readonly line = element("line");
  private readonly marker = element("marker");
  private readonly slider = element<HTMLInputElement>("split");
  private readonly sides = [element<HTMLCanvasElement>("left-canvas"), element<HTMLCanvasElement>("right-canvas")] as const;
  private size = { width: 0, height: 0 };
  private zoom = 0;
  private marked: number | undefined;

  /** `picked` receives the number of the pixel that was clicked. */
  constructor(picked: (pixel: number) => void) {
    this.slider.addEventListener("input", () => this.place());
    new ResizeObserver(() => this.place()).observe(this.stage);
    this.line.addEventListener("pointerdown", (event) => {
      this.line.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    this.line.addEventListener("pointermove", (event) => {
      if (!this.line.hasPointerCapture(event.pointerId)) return;
      const box = this.sheet.getBoundingClientRect();
      this.slider.value = String(Math.round((100 * (event.clientX - box.left)) / box.width));
      this.place();
    });
    this.sheet.addEventListener("click", (event) => {
      if (event.target === this.line || !this.size.width) return;
      const box = this.sheet.getBoundingClientRect();
      const x = Math.floor(((event.clientX - box.left) / box.width) * this.size.width);
      const y = Math.floor(((event.clientY - box.top) / box.height) * this.size.height);
      if (x >= 0 && y >= 0 && x < this.size.width && y < this.size.height) picked(y * this.size.width + x);
    });
  }

  /** Show two pictures, or only one. */
  show(left: View, right?: View): void {
    this.size = { width: left.width, height: left.height };
    this.stage.classList.remove("empty");
    this.stage.classList.toggle("single", !right);
    element("line-choice").hidden = !right;
    [left, right ?? left].forEach((view, i) => {
      const canvas = this.sides[i]!;
      canvas.width = view.width;
      canvas.height = view.height;
      canvas.getContext("2d")!.putImageData(shown(view), 0, 0);
      canvas.setAttribute("aria-label", right ? `${i ? "Right of" : "Left of"} the line: ${view.name}` : view.name);
    });
    this.place();
  }

  /** Show nothing. */
  clear(): void {
    this.size = { width: 0, height: 0 };
    this.stage.classList.add("empty");
    element("line-choice").hidden = true;
    for (const canvas of this.sides) {
      canvas.width = canvas.height = 0;
      canvas.setAttribute("aria-label", "Nothing yet");
    }
    this.mark(undefined);
    this.marker.hidden = true;
  }

  setZoom(zoom: number): void {
    this.zoom = zoom;
    this.place();
    this.marker.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  mark(pixel: number | undefined): void {
    this.marked = pixel;
    this.place();
  }

  private place(): void {
    const { width, height } = this.size;
    if (!width) return;
    // To fit, a tiny picture is enlarged by a whole number, so that its pixels stay square.
    const room = Math.min(this.stage.clientWidth / width, (0.46 * window.innerHeight) / height);
    const scale = this.zoom || (room >= 4 ? Math.floor(room) : room);
    this.sheet.style.width = `${width * scale}px`;
    this.sheet.style.height = `${height * scale}px`;
    this.sheet.classList.toggle("smooth", !Number.isInteger(scale));
    const share = Number(this.slider.value);
    this.slider.setAttribute("aria-valuetext", `${share} % from the left`);
    this.line.style.left = `${share}%`;
    this.sides[1].style.clipPath = `inset(0 0 0 ${share}%)`;
    this.marker.hidden = this.marked === undefined;
    if (this.marked !== undefined) {
      const side = Math.max(scale, 6);
      const middle = (at: number): number => (at + 0.5) * scale - side / 2 - 2;
      this.marker.style.left = `${middle(this.marked % width)}px`;
      this.marker.style.top = `${middle(Math.floor(this.marked / width))}px`;
      this.marker.style.width = this.marker.style.height = `${side + 4}px`;
    }
  }
}
