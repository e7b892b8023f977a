/** The page: it takes pictures and choices, sends requests to the worker, and shows its replies. */

import type { Picture } from "../codec/codec";
import { freshSeed } from "../core/randomness";
import { DippError, FILE } from "../errors";
import { Archive } from "../format/archive";
import type { Engine } from "../models/onnx";
import { headlineOf, upper } from "../privacy/certificate";
import { requireBrowser } from "./browser";
import { snapshot, startCamera, stopCamera } from "./camera";
import { Choice } from "./choice";
import { element, grouped, made, row, save } from "./dom";
import { Square } from "./hide";
import type { Reply, Request } from "./messages";
import { headlineWords, showCertificate } from "./paper";
import { bitmapOf, fileOf, MOST_PIXELS, pixelsOf, shown, smaller } from "./picture";
import { showOdds } from "./pixel";
import { Redaction } from "./redaction";
import { Spent } from "./spent";
import { Split, type View } from "./split";
import { Strip } from "./strip";
import type { Table } from "./table";

/** Names of the pictures that the page can show, in the order of the strip. */
const VIEWS = {
  original: "original",
  expected: "what the file shows",
  "sample 1": "sample of the file",
  "sample 2": "second sample",
  "sample 3": "third sample",
  pixelated: "DP-Pix, same ε, denoised",
  noised: "noise, same ε, denoised",
  blurred: "blur: no guarantee",
  noisy: "the noisy values of the file",
  redacted: "boxes hidden",
} as const;
type ViewName = keyof typeof VIEWS;

const [status, error, encodeButton, cancelButton] = ["status", "error", "encode", "cancel"].map((id) => element(id)) as [
  HTMLElement, HTMLElement, HTMLButtonElement, HTMLButtonElement,
];
const image = element<HTMLInputElement>("image");

/** Public seeds for the encodings of this visit, drawn before any picture is read. */
const SEEDS = Array.from({ length: 256 }, freshSeed);

let table: Table;
let worker: Worker;
let ready = false;
let busy = false;
let started = 0;
/** The private picture; undefined if a .dipp file was opened. */
let picture: Picture | undefined;
let name = "picture";
let archive: Archive | undefined;
let views: Partial<Record<ViewName, View>> = {};
/** The picture to the right of the line. */
let current: ViewName = "expected";
/** The number of the request whose pictures are shown. */
let request = -1;
let choice: Choice;
let redaction: Redaction;
/** The number of the shown image of an archive. */
let seen: number | undefined;
const spent = new Spent();
/** The number of the last file that was opened. A file that is read after a later one is not shown. */
let latest = 0;

const split = new Split((pixel) => ask(pixel));
const square = new Square((number) => {
  if (!busy) choice.setSide(number);
});
const strip = new Strip((name) => {
  current = name as ViewName;
  look();
});

function tell(request: Request): void {
  worker.postMessage(request);
}

/** Run a task; if it throws, show the error in one line. */
function attempt(task: () => void | Promise<void>): void {
  error.hidden = true;
  Promise.resolve().then(task).catch((reason: unknown) => {
    complain(reason instanceof DippError ? reason.message : `the page failed: ${String(reason)}`);
  });
}

/** Scroll to the progress and the picture, if the window is too low to show both. */
function bringWork(): void {
  const [top, bottom] = [element("work").getBoundingClientRect().top, element("stage").getBoundingClientRect().bottom];
  if (top < 0 || bottom > window.innerHeight) element("see").scrollIntoView();
}

function complain(message: string): void {
  error.textContent = message[0]!.toUpperCase() + message.slice(1) + (message.endsWith(".") ? "" : ".");
  error.hidden = false;
  bringWork();
}

function busyWith(now: boolean): void {
  busy = now;
  cancelButton.hidden = !now;
  element("progress").hidden = !now;
  encodeButton.disabled = now || !ready || !picture || tooLarge(picture);
  redaction?.show(picture, ready && !now);
  for (const id of ["hide", "epsilon", "rate"]) element<HTMLInputElement>(id).disabled = now;
}

/** Show the choice in words and, before a picture is encoded or redacted, over the picture. */
function showChoice(): void {
  const unit = choice.show(picture);
  if (!picture || !redaction) return;
  if ((archive || views.redacted) && !busy) clearResult(); // the choice differs from that of the shown file
  if (redaction.mode === "size" && !tooLarge(picture)) square.show(choice.sides, choice.side, unit, picture);
  else square.hide();
  if (!archive && !views.redacted && !busy) invite();
  element("large").hidden = redaction.mode !== "size" || !tooLarge(picture);
  busyWith(busy);
}

/** Return whether a picture has more pixels than a browser can encode. Boxes can still be hidden in it. */
function tooLarge({ width, height }: Picture): boolean {
  return width * height > MOST_PIXELS;
}

// Pictures and files.

async function open(file: Blob, title: string): Promise<void> {
  const number = ++latest;
  requireIdle();
  const bytes = new Uint8Array(await file.arrayBuffer());
  const isArchive = bytes[0] === 0x44 && bytes[1] === 0x49 && bytes[2] === 0x50 && bytes[3] === 0x50;
  if (!bytes.length) throw new DippError(`“${title}”`, "is empty", "choose another file");
  if (!isArchive && /\.dipp$/i.test(title)) throw new DippError(`“${title}”`, "is not a dipp archive");
  const bitmap = isArchive ? undefined : await bitmapOf(file);
  if (number !== latest) return bitmap?.close();
  requireIdle(); // check again: a task may have begun while the file was read
  const stem = title.replace(/\.[^.]*$/, "") || "picture";
  if (!bitmap) openArchive(bytes, stem);
  else take(pixelsOf(bitmap, bitmap.width, bitmap.height), stem, bytes);
}

/** Open what was dropped or pasted, if it is one file. */
async function openOne(files: FileList | undefined): Promise<void> {
  const [first, second] = files ?? [];
  if (!first) throw new DippError("what you dropped or pasted", "is not a file", "save the picture first");
  if (second) throw new DippError("what you dropped or pasted", "must be one file", "give one at a time");
  await open(first, first.name || "pasted.png");
}

function requireIdle(): void {
  if (busy) throw new DippError("the page", "does one thing at a time", "wait, or cancel what it does now");
}

/** Say that a picture is too large to encode here, and offer to scale it down. */
function offerSmaller(large: Picture, stem: string): void {
  const [width, height] = smaller(large.width, large.height);
  element("large-words").textContent =
    `A browser can encode up to ${grouped(MOST_PIXELS)} pixels; this picture has ${grouped(large.width * large.height)}. ` +
    "You can still hide boxes in it, and `dipp encode` takes up to 64 megapixels. If you scale it down, each new pixel is a " +
    "mixture of several of yours, and the certificate is about the new pixels.";
  const button = element("scale");
  button.textContent = `Scale it down to ${width}×${height}`;
  button.onclick = () => attempt(async () => take(pixelsOf(await createImageBitmap(shown(large)), width, height), stem));
}

/** Forget the last picture or file and all that was made of it. */
function forget(): void {
  picture = archive = seen = undefined;
  request = -1;
  views = {};
  split.clear();
  strip.clear();
  square.hide();
  redaction.forget();
  redaction.hide();
  for (const id of ["large", "pixel", "certificate", "result", "image-choice", "file-says"]) element(id).hidden = true;
  element("choice").hidden = false;
  status.textContent = "";
  busyWith(false);
}

/** Show the picture without results. */
function clearResult(): void {
  archive = undefined;
  request = -1;
  views = { original: { ...picture!, name: VIEWS.original } };
  strip.clear();
  split.mark(undefined);
  redaction.forget();
  for (const id of ["pixel", "certificate", "result"]) element(id).hidden = true;
  invite();
  split.show(views.original!);
}

/** Say what to do next with the picture. */
function invite(): void {
  const boxed = redaction.mode === "boxes";
  status.textContent = ready ? `Choose what must stay hidden${boxed ? ", and hide it" : ", and encode"}.` : "Loading the network …";
  const drag = choice.sides.length > 1 ? "3. Drag the square to the size of what must stay hidden" : "3. Your picture";
  element("see-title").textContent = boxed ? "3. Draw boxes over what must stay hidden" : drag;
}

/** Take a picture, with the bytes of its file; a scaled picture has none. */
function take(taken: Picture, stem: string, file?: Uint8Array): void {
  forget();
  redaction.open(file ?? new Uint8Array(), !file);
  [picture, name] = [taken, stem];
  if (tooLarge(taken)) offerSmaller(taken, stem);
  element("picked").textContent = `${name}: ${taken.width}×${taken.height} pixels.`;
  clearResult();
  showChoice();
  busyWith(false);
}

function openArchive(bytes: Uint8Array, stem: string): void {
  const opened = Archive.fromBytes(bytes);
  if (!opened.length) throw new DippError(FILE, "holds no images");
  forget();
  [archive, name] = [opened, stem];
  element("see-title").textContent = "3. What the file shows";
  element("picked").textContent = `${name}.dipp: ${opened.length === 1 ? "one image" : `${grouped(opened.length)} images`}.`;
  element("image-choice").hidden = opened.length === 1;
  image.value = "1";
  image.max = String(opened.length);
  element("choice").hidden = true;
  element("file-says").hidden = false;
  element("file-words").textContent = headlineWords(opened);
  showResult(opened);
  element("download-png").hidden = true;
  element("again").hidden = true;
  element("expected-quality").textContent = "";
  decodeImage(0);
}

/** Show the certificate of a file. */
function showResult(file: Archive): void {
  element("headline").textContent = headlineWords(file);
  element("bytes").textContent = `${grouped(file.bytes.length)} bytes`;
  showCertificate(file, table);
  element("result").hidden = element("certificate").hidden = false;
}

/** Decode the image of an archive whose number was typed, unless it is shown already. */
function seeImage(): void {
  const number = Number(image.value) - 1;
  if (!archive || number === seen || !Number.isInteger(number) || number < 0 || number >= archive.length) return;
  decodeImage(number);
}

function decodeImage(number: number): void {
  const { height, width } = archive!.image(number);
  if (height * width > MOST_PIXELS) {
    throw new DippError(
      "the image",
      `has ${grouped(height * width)} pixels, and a browser can decode up to ${grouped(MOST_PIXELS)}`,
      "use `dipp decode`; what the file promises is below",
    );
  }
  start({ type: "decode", file: archive!.bytes, image: number });
}

// The worker.

function start(request: Request): void {
  if (busy) return;
  error.hidden = true;
  busyWith(true);
  started = performance.now();
  element("time").textContent = ready ? "Starting …" : "Waiting for the network …";
  element<HTMLProgressElement>("bar").value = 0;
  if (!archive) {
    square.hide();
    element("see-title").textContent = "3. Your picture";
  }
  status.textContent = request.type === "encode" ? "Encoding." : request.type === "redact" ? "Painting." : "Decoding.";
  bringWork();
  tell(request);
}

/** Allow other tasks, and draw the choice again if nothing was made. */
function stopped(): void {
  busyWith(false);
  if (!archive) showChoice();
}

function onProgress(done: number, calls: number): void {
  element<HTMLProgressElement>("bar").value = done / calls;
  // The first step calls no network, so the pace is known after the second.
  const seconds = ((performance.now() - started) / 1000 / Math.max(1, done - 1)) * (calls - done);
  element("time").textContent =
    done < 2 ? `Step ${done + 1} of ${calls}.` : `Step ${Math.min(done + 1, calls)} of ${calls}; about ${Math.ceil(seconds)} s left.`;
  if (done < 1) started = performance.now();
}

/** Show the result of an encoding or decoding. The page stays busy until then, so the picture has not changed. */
async function onDone(reply: Reply & { type: "done" }): Promise<void> {
  const { width, height } = reply;
  seen = reply.image;
  request = reply.of;
  archive = Archive.fromBytes(reply.file); // read again, as any reader would
  const { epsilon, unit } = archive.certificate;
  views = {
    ...(picture ? { original: { ...picture, name: VIEWS.original } } : {}),
    expected: { width, height, pixels: reply.expected, name: VIEWS.expected },
    noisy: { width, height, pixels: reply.noisy, name: VIEWS.noisy },
  };
  const pixels = width * height;
  const bpp = (bytes: number): string => ((8 * bytes) / pixels).toPrecision(3);
  const rows = [row("this .dipp", grouped(archive.bytes.length), archive.fileBpp.toPrecision(3), `${upper(epsilon)} per ${unit.short}`)];
  if (picture) {
    const [png, jpeg] = await Promise.all([fileOf(picture, "image/png"), fileOf(picture, "image/jpeg", 0.9)]);
    rows.push(row("your picture, PNG", grouped(png.size), bpp(png.size), "none: it shows everything"));
    rows.push(row("your picture, JPEG at 90", grouped(jpeg.size), bpp(jpeg.size), "none"));
    element("expected-quality").textContent = `Pictures of plans like this one have ${choice.entry(pixels).psnr.toFixed(1)} dB on public photographs.`;
    showTotal(picture, archive);
  }
  element("sizes-body").replaceChildren(...rows);
  square.hide();
  element("see-title").textContent = "3. What the file shows";
  showResult(archive);
  element("download-png").hidden = false;
  current = "expected";
  strip.clear(); // of the file before
  look();
  element("pixel").hidden = !reply.odds;
  for (const [id, side] of [["pixel-x", width], ["pixel-y", height]] as const) {
    const input = element<HTMLInputElement>(id);
    input.max = String(side - 1);
  }
  busyWith(false);
  if (reply.odds) ask(Math.floor(height / 3) * width + Math.floor(width / 3));
  status.textContent = picture
    ? "Done. Drag the line, and compare with the pictures below it."
    : "Decoded and checked: the certificate follows from the file.";
  if (!picture) seeImage(); // another image may have been chosen in the meantime
}

/** Add answers about boxes to the cost of a picture, and return the ε of a box; 0 without answers. */
function countAnswers(source: Picture, answers: Uint8Array | undefined): number {
  const notice = element("redacted-again");
  notice.hidden = true;
  if (!answers) return 0;
  const { certificate } = Archive.fromBytes(answers); // read again, as any reader would
  const { files, epsilon } = spent.add(source, certificate, [source.width, source.height]);
  notice.hidden = files < 2;
  notice.textContent = `You have made ${files} files of this picture that tell about it, up to ε = ${upper(epsilon)} together. Give away one of them.`;
  return certificate.epsilon;
}

/** Show the ε of all files of a picture together, if there are several, for the object that the newest file hides. */
function showTotal(source: Picture, { certificate, parameters }: Archive): void {
  const whole = certificate.unit.kind === "picture" ? ([source.width, source.height] as const) : ([1, 1] as const);
  const total = spent.add(source, certificate, parameters.hidden ?? whole);
  const again = element("again");
  again.hidden = total.files < 2;
  again.textContent =
    `You have made ${total.files} files of this picture. Somebody who gets all of them learns up to ε = ${upper(total.epsilon)} ` +
    `about ${headlineOf(certificate, parameters.hidden).what}: the costs add up. Give away one of them, and do not choose it by ` +
    "how well it came out: no certificate covers a choice that looks at the picture.";
}

function onReply({ data }: MessageEvent<Reply>): void {
  switch (data.type) {
    case "loading":
      if (!busy) status.textContent = `Loading the network: ${Math.round(100 * data.share)} %.`;
      break;
    case "ready":
      ready = true;
      element("engine").textContent =
        `dipp ${table.version}. The network runs on ${data.engine === "webgpu" ? "WebGPU" : `WebAssembly, ${data.threads} ${data.threads === 1 ? "thread" : "threads"}`}.`;
      if (!busy) {
        if (picture) invite();
        else status.textContent = "Ready. Choose a picture.";
      }
      encodeButton.disabled = busy || !picture;
      break;
    case "progress":
      onProgress(data.done, data.calls);
      break;
    case "done":
      attempt(() => onDone(data).finally(() => busyWith(false)));
      break;
    case "view": {
      const size = views.expected;
      if (data.of !== request || !size) break; // another picture has come in the meantime
      views[data.name] = { width: size.width, height: size.height, pixels: data.pixels, name: VIEWS[data.name] };
      showStrip();
      break;
    }
    case "redacted": {
      if (!picture) break;
      views = { original: { ...picture, name: VIEWS.original }, redacted: { ...picture, pixels: data.pixels, name: VIEWS.redacted } };
      current = "redacted";
      busyWith(false);
      redaction.finish({ file: data.file, record: data.record, name: `${name}-redacted.png` }, data.boxes, countAnswers(picture, data.answers));
      element("see-title").textContent = "3. What others will see";
      status.textContent = "Done. Drag the line, and download the picture.";
      look();
      break;
    }
    case "odds":
      attempt(() => {
        const { pixel } = data;
        if (!archive) return; // another picture has come in the meantime
        showOdds(data, archive.certificate.epsilon, picture?.pixels.subarray(3 * pixel, 3 * pixel + 3));
      });
      break;
    case "cancelled":
      stopped();
      status.textContent = "Cancelled. Nothing was made.";
      break;
    case "error":
      stopped();
      status.textContent = "";
      complain(data.message);
  }
}

// Views.

/** Show the current picture to the right of the line; to its left the original or, without it, the noisy state. */
function look(): void {
  const left = views.original ?? views.noisy;
  const right = views[current];
  if (!left || !right) return;
  element("left-name").textContent = left.name;
  split.show(left, right);
  showStrip();
}

function showStrip(): void {
  if (views.redacted) return strip.clear(); // both pictures are beside the line already
  const names = (Object.keys(VIEWS) as ViewName[]).filter((view) => views[view]);
  strip.show(new Map(names.map((view) => [view, views[view]!])), current);
}

function ask(pixel: number): void {
  if (element("pixel").hidden || busy) return;
  const { width } = views.expected!;
  element<HTMLInputElement>("pixel-x").value = String(pixel % width);
  element<HTMLInputElement>("pixel-y").value = String(Math.floor(pixel / width));
  split.mark(pixel);
  tell({ type: "odds", pixel });
}

function askTyped(): void {
  const { width, height } = views.expected!;
  const [x, y] = [Number(element<HTMLInputElement>("pixel-x").value), Number(element<HTMLInputElement>("pixel-y").value)];
  if (Number.isInteger(x) && Number.isInteger(y) && x >= 0 && y >= 0 && x < width && y < height) ask(y * width + x);
}

// Wiring.

function wire(): void {
  const file = element<HTMLInputElement>("file");
  const drop = element("drop");
  element("choose").onclick = () => file.click();
  file.onchange = () => {
    const [first] = file.files ?? [];
    if (first) attempt(() => open(first, first.name));
    file.value = "";
  };
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    drop.classList.add("over");
  });
  document.addEventListener("dragleave", () => drop.classList.remove("over"));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    attempt(() => openOne(event.dataTransfer?.files));
  });
  document.addEventListener("paste", (event) => {
    if ((event.target as Element).matches("input[type=number]")) return;
    attempt(() => openOne(event.clipboardData?.files));
  });
  element("camera").onclick = () => attempt(startCamera);
  element("snap").onclick = () => attempt(async () => open(await snapshot(), "camera.png"));
  element("stop-camera").onclick = stopCamera;
  element("zoom").onchange = (event) => split.setZoom(Number((event.target as HTMLSelectElement).value));
  encodeButton.onclick = () => {
    const { width, height, pixels } = picture!;
    start({ type: "encode", entry: choice.entry(width * height), width, height, pixels });
  };
  element("redact").onclick = () =>
    attempt(() => {
      if (views.redacted) return showChoice(); // the boxes again, to change them
      const { width, height, pixels } = picture!;
      start({ type: "redact", width, height, pixels, name: `${name}-redacted.png`, ...redaction.task });
    });
  cancelButton.onclick = () => {
    element("time").textContent = "Cancelling …";
    tell({ type: "cancel" });
  };
  image.onchange = () => attempt(seeImage);
  for (const id of ["pixel-x", "pixel-y"]) element(id).oninput = askTyped;
  element("download").onclick = () => save(archive!.bytes as Uint8Array<ArrayBuffer>, "application/octet-stream", `${name}.dipp`);
  element("download-png").onclick = () => attempt(async () => save(await fileOf(views.expected!, "image/png"), "image/png", `${name}-dipp.png`));
}

async function begin(): Promise<void> {
  requireBrowser();
  const place = new URL(".", document.baseURI);
  const response = await fetch(new URL("plans.json", place));
  if (!response.ok) throw new DippError("the page", "has lost its plans", "build it again");
  table = (await response.json()) as Table;
  choice = new Choice(table, showChoice);
  redaction = new Redaction(table, showChoice);
  element("samples").append(
    ...table.samples.map((sample) => {
      const title = sample.replace(/\.[^.]*$/, "");
      const button = made("button", [made("img", "", { src: `samples/${sample}`, alt: `Sample: ${title}` })], { type: "button", class: "sample" });
      button.onclick = () => attempt(async () => open(await (await fetch(new URL(`samples/${sample}`, place))).blob(), sample));
      return button;
    }),
  );
  wire();
  showChoice();
  status.textContent = "Loading the network …";
  worker = new Worker(new URL("worker.js", place), { type: "module" });
  worker.onmessage = onReply;
  worker.onerror = () => complain("the worker could not start; load the page again, or use a newer browser");
  // For tests, and for users who distrust their graphics driver: ?engine=wasm.
  const wanted = new URLSearchParams(location.search).get("engine");
  tell({ type: "start", place: place.href, table, seeds: SEEDS, engine: wanted === "wasm" || wanted === "webgpu" ? (wanted as Engine) : undefined });
  if ("serviceWorker" in navigator) navigator.serviceWorker.register(new URL("offline.js", place)).catch(() => undefined);
}

attempt(begin);
