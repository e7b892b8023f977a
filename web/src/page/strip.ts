/** The strip of pictures under the stage: each is put to the right of the line by a click. */

import { element, made } from "./dom";
import { shown } from "./picture";
import type { View } from "./split";

export class Strip {
  private readonly place = element("views");

  /** `chosen` is told the name of a picture that was clicked on. */
  constructor(private readonly chosen: (name: string) => void) {}

  /** Show these pictures, and choose one. */
  show(views: ReadonlyMap<string, View>, current: string): void {
    this.place.hidden = !views.size;
    const known = new Map(Array.from(this.place.children, (child) => [(child as HTMLElement).dataset.name, child as HTMLElement]));
    for (const [name, button] of known) if (!views.has(name!)) button.remove();
    // What is there stays where it is: a button that is moved would lose the focus.
    [...views].forEach(([name, view], i) => {
      const button = known.get(name) ?? this.button(name, view);
      button.setAttribute("aria-pressed", String(name === current));
      if (this.place.children[i] !== button) this.place.insertBefore(button, this.place.children[i] ?? null);
    });
  }

  clear(): void {
    this.place.replaceChildren();
    this.place.hidden = true;
  }

  private button(name: string, view: View): HTMLElement {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [view.width, view.height];
    canvas.getContext("2d")!.putImageData(shown(view), 0, 0);
    canvas.setAttribute("aria-hidden", "true");
    const found = made("button", [canvas, made("span", view.name)], { type: "button", "data-name": name });
    found.onclick = () => this.chosen(name);
    return found;
  }
}
