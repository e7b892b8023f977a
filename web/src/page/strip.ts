/** The strip of pictures below the large one. A click shows a picture to the right of the line. */

import { element, made } from "./dom";
import { shown } from "./picture";
import type { View } from "./split";

export class Strip {
  private readonly place = element("views");

  /** `chosen` receives the name of the picture that was clicked. */
  constructor(private readonly chosen: (name: string) => void) {}

  /** Show pictures, and mark the current one. */
  show(views: ReadonlyMap<string, View>, current: string): void {
    this.place.hidden = !views.size;
    const known = new Map(Array.from(this.place.children, (child) => [(child as HTMLElement).dataset.name, child as HTMLElement]));
    for (const [name, button] of known) if (!views.has(name!)) button.remove();
    // Buttons that exist are not moved, because they would lose the focus.
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
    const button = made("button", [canvas, made("span", view.name)], { type: "button", "data-name": name });
    button.onclick = () => this.chosen(name);
    return button;
  }
}
