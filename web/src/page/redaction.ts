/** Redaction on the page: the choice between sizes and boxes, what boxes cover in words, and the redacted picture. */

import type { Picture } from "../codec/codec";
import { DippError } from "../errors";
import { type Box, type Compression, compressionOf, maskOf } from "../redaction/boxes";
import { Boxes } from "./boxes";
import { boundWords, type Headline, upper } from "../privacy/certificate";
import { sentence } from "./choice";
import { element, grouped, save } from "./dom";
import { epsilonsOfBoxes, gradeOf, type Table } from "./table";

export type Mode = "size" | "boxes";

/** The files of a redacted picture. */
export interface Made {
  readonly file: Uint8Array;
  readonly record: string;
  readonly name: string;
}

export class Redaction {
  mode: Mode = "size";
  /** What the compression of the file means for boxes; or the error that says why none can be hidden. */
  private compression: Compression | DippError = new DippError("the picture", "is missing", "choose one");
  private readonly boxes: Boxes;
  private readonly button = element<HTMLButtonElement>("redact");
  private made: Made | undefined;

  /** The ε of a box at each position of the slider. */
  private readonly epsilons: readonly number[];
  private readonly slider = element<HTMLInputElement>("box-epsilon");

  /** `changed` is called after each change of a choice. */
  constructor(private readonly table: Table, private readonly changed: () => void) {
    this.boxes = new Boxes(changed);
    this.epsilons = epsilonsOfBoxes(table);
    this.slider.max = String(this.epsilons.length - 1);
    this.slider.oninput = changed;
    element("by-size").onclick = () => this.choose("size");
    element("by-box").onclick = () => this.choose("boxes");
    element("add-box").onclick = () => this.boxes.add();
    element("download-redacted").onclick = () => save(this.made!.file as Uint8Array<ArrayBuffer>, "image/png", this.made!.name);
    element("download-record").onclick = () => save(this.made!.record, "application/json", `${this.made!.name}.record.json`);
  }

  /** Read the compression of a new picture's file; `scaled` says that its pixels are mixtures of those in the file. */
  open(file: Uint8Array, scaled: boolean): void {
    this.boxes.clear();
    this.forget();
    try {
      this.compression = scaled
        ? new DippError("the picture", "was scaled down, so pixels outside a box may tell of it", "open it anew to draw boxes")
        : compressionOf(file);
    } catch (error) {
      if (!(error instanceof DippError)) throw error;
      this.compression = error;
    }
  }

  choose(mode: Mode): void {
    this.mode = mode;
    for (const [id, choice] of [["by-size", "size"], ["by-box", "boxes"]] as const) element(id).setAttribute("aria-pressed", String(choice === mode));
    element("size-choice").hidden = mode !== "size";
    element("box-choice").hidden = mode !== "boxes";
    this.changed();
  }

  /** Draw the boxes over a picture, and say what they hide; `free` says that the page is not busy. */
  show(picture: Picture | undefined, free: boolean): void {
    const words = element("box-words");
    const add = element<HTMLButtonElement>("add-box");
    this.button.disabled = add.disabled = true;
    if (this.mode !== "boxes" || !picture) {
      words.textContent = "";
      return this.boxes.hide();
    }
    if (this.compression instanceof DippError) {
      this.boxes.hide();
      words.textContent = `${sentence(this.compression.message)}.`;
      return;
    }
    const { growth } = this.compression;
    this.button.textContent = this.made ? "Change the boxes" : "Hide the boxes";
    if (!this.made) this.boxes.show(picture, growth);
    const boxes = this.boxes.hidden;
    const covered = maskOf(boxes, picture).reduce((sum, hidden) => sum + hidden, 0);
    const because = growth ? ` Boxes grow by ${growth} pixels (dashed), because a JPEG mixes neighbours.` : "";
    const share = ((100 * covered) / (picture.width * picture.height)).toPrecision(2);
    const { epsilon } = this;
    element("box-epsilon-value").textContent = String(epsilon);
    this.slider.setAttribute("aria-valuetext", `ε = ${epsilon}`);
    this.slider.disabled = !free || this.made !== undefined;
    const promised = epsilon ? `${sentence(boundWords(aboutBox(epsilon)))}: ${gradeOf(epsilon, this.table)} as a bound.` : "ε = 0: what you get contains nothing of it.";
    words.textContent = boxes.length
      ? `${boxes.length === 1 ? "One box hides" : `${boxes.length} boxes hide`} ${share} % of the picture. ${promised}${because}`
      : `Nothing is hidden yet.${because}`;
    this.button.disabled = !free || !boxes.length;
    add.disabled = !free || this.made !== undefined;
  }

  /** The boxes to hide, with their ε; throws if the file cannot have any. */
  get task(): { boxes: Box[]; compression: Compression; epsilon: number } {
    if (this.compression instanceof DippError) throw this.compression;
    return { boxes: this.boxes.hidden, compression: this.compression, epsilon: this.epsilon };
  }

  private get epsilon(): number {
    return this.epsilons[Number(this.slider.value)]!;
  }

  /** Show no boxes. */
  hide(): void {
    this.boxes.hide();
  }

  /** Show a redacted picture; `price` is the ε of a box, or 0. */
  finish(made: Made, count: number, price = 0): void {
    this.made = made;
    this.boxes.hide();
    this.button.textContent = "Change the boxes";
    element<HTMLButtonElement>("add-box").disabled = this.slider.disabled = true;
    element("redacted").hidden = false;
    element("redacted-headline").textContent = price
      ? `${sentence(boundWords(aboutBox(price)))} (ε = ${upper(price)}).`
      : `ε = 0 for what ${count === 1 ? "the box" : `the ${count} boxes`} showed: nothing of it is in this picture, for anybody, whatever they know.`;
    element("redacted-bytes").textContent = `PNG, ${grouped(made.file.length)} bytes`;
    element("redacted-words").textContent =
      "All other pixels are unchanged, and metadata are removed. What no box covers is not protected: hair, clothes, places, " +
      "other pictures. The record says what was hidden, and the command dipp check compares the picture with it.";
  }

  /** Show no redacted picture. */
  forget(): void {
    this.made = undefined;
    element("redacted").hidden = true;
  }
}

/** Return the headline of one box. */
function aboutBox(epsilon: number): Headline {
  return { epsilon, what: "what one box shows", reader: "somebody who knows everything else in the picture" };
}
