/** The page: what is chosen, what the worker is told, and what is shown of its answers. */

import type { Picture } from "../codec/codec";
import { freshSeed } from "../core/randomness";
import { DippError } from "../errors";
import { Archive } from "../format/archive";
import type { Engine } from "../models/onnx";
import { boundWords, upper } from "../privacy/certificate";
import { requireBrowser } from "./browser";
import { snapshot, startCamera, stopCamera } from "./camera";
import { element, grouped, made, row, save } from "./dom";
import type { Reply, Request } from "./messages";
import { showCertificate } from "./paper";
import { bitmapOf, fileOf, MOST_PIXELS, pixelsOf, smaller } from "./picture";
import { showOdds } from "./pixel";
import { noised } from "./rivals";
import { Spent } from "./spent";
import { Split, type View } from "./split";
import { certificateOf, gradeOf, measuredWords, type Table, type TableEntry } from "./table";

const VIEWS = { original: "original", expected: "the file's picture", noisy: "the noisy state", rival: "noise and PNG" } as const;
type ViewName = keyof typeof VIEWS;

const [status, error, encodeButton, cancelButton] = ["status", "error", "encode", "cancel"].map((id) => element(id)) as [
  HTMLElement, HTMLElement, HTMLButtonElement, HTMLButtonElement,
];
const sliders = { epsilon: element<HTMLInputElement>("epsilon"), rate: element<HTMLInputElement>("rate") };
const image = element<HTMLInputElement>("image");
const choices = { left: element<HTMLSelectElement>("left"), right: element<HTMLSelectElement>("right") };

/** Public seeds for the encodings of this visit, drawn before any picture is read. */
const SEEDS = Array.from({ length: 256 }, freshSeed);

let table: Table;
let worker: Worker;
let ready = false;
let busy = false;
let started = 0;
/** The private picture; undefined, where a .dipp file was opened. */
let picture: Picture | undefined;
let name = "picture";
let archive: Archive | undefined;
let views: Partial<Record<ViewName, View>> = {};
/** The image of an archive that is shown. */
let seen: number | undefined;
const spent = new Spent();
/** What was opened last: a picture that takes longer to be read than the next one is not shown. */
let latest = 0;

const split = new Split((pixel) => ask(pixel));

function tell(request: Request): void {
  worker.postMessage(request);
}

/** Do something, and say in one line what went wrong if it did. */
function attempt(task: () => void | Promise<void>): void {
  error.hidden = true;
  Promise.resolve().then(task).catch((reason: unknown) => {
    complain(reason instanceof DippError ? reason.message : `something went wrong: ${String(reason)}`);
  });
}

function complain(message: string): void {
  error.textContent = message[0]!.toUpperCase() + message.slice(1) + (message.endsWith(".") ? "" : ".");
  error.hidden = false;
}

function busyWith(now: boolean): void {
  busy = now;
  cancelButton.hidden = !now;
  element("progress").hidden = !now;
  encodeButton.disabled = now || !ready || !picture;
}

// What is chosen.

function chosen(): { number: number; entry: TableEntry } {
  const number = Number(sliders.epsilon.value) * table.rates.length + Number(sliders.rate.value);
  return { number, entry: table.plans[number]! };
}

function showChoice(): void {
  const { entry } = chosen();
  const pixels = picture ? picture.width * picture.height : table.pixels;
  const { epsilon } = certificateOf(entry, table.channels, pixels);
  element("epsilon-value").textContent = String(entry.epsilon);
  sliders.epsilon.setAttribute("aria-valuetext", `ε = ${entry.epsilon}`);
  element("belief").textContent =
    `A file of these settings certifies ε = ${upper(epsilon)}, ${gradeOf(epsilon, table)} as a bound: ` +
    `${boundWords(epsilon)}. Without that knowledge, ${measuredWords(epsilon, table)}.`;
  element("rate-value").textContent = String(entry.rate);
  sliders.rate.setAttribute("aria-valuetext", `${entry.rate} bits per pixel`);
  const bytes = Math.ceil((entry.bpp * pixels) / 8);
  element("rate-words").textContent =
    `${entry.bpp < entry.rate * 0.99 ? `This ε has no use for more than ${entry.bpp.toPrecision(2)}. ` : ""}` +
    `About ${grouped(bytes)} bytes${picture ? "" : " for 256×256 pixels"}; on public pictures, ${entry.psnr.toFixed(1)} dB.`;
}

// Pictures and files.

async function open(file: Blob, title: string): Promise<void> {
  const own = ++latest;
  requireIdle();
  const bytes = new Uint8Array(await file.arrayBuffer());
  const isArchive = bytes[0] === 0x44 && bytes[1] === 0x49 && bytes[2] === 0x50 && bytes[3] === 0x50;
  if (!bytes.length) throw new DippError(`${title}: the file is empty`);
  if (!isArchive && /\.dipp$/i.test(title)) throw new DippError(`${title}: this is not a dipp archive`);
  const bitmap = isArchive ? undefined : await bitmapOf(file);
  if (own !== latest) return bitmap?.close();
  requireIdle(); // once more: it may have begun while the file was read
  const stem = title.replace(/\.[^.]*$/, "") || "picture";
  if (!bitmap) openArchive(bytes, stem);
  else if (bitmap.width * bitmap.height > MOST_PIXELS) offerSmaller(bitmap, title, stem);
  else take(pixelsOf(bitmap, bitmap.width, bitmap.height), stem);
}

/** What was dropped or pasted, if it is one file. */
async function openOne(files: FileList | undefined): Promise<void> {
  const [first, second] = files ?? [];
  if (!first) throw new DippError("that was no file: save the picture first, and drop or paste the file");
  if (second) throw new DippError("one file at a time is needed");
  await open(first, first.name || "pasted.png");
}

function requireIdle(): void {
  if (busy) throw new DippError("one thing at a time: wait, or cancel what is under way");
}

/** Say that a picture is too large, and scale it down if that is asked for. */
function offerSmaller(bitmap: ImageBitmap, title: string, stem: string): void {
  forget();
  const [width, height] = smaller(bitmap.width, bitmap.height);
  element("picked").textContent = `${title}: ${bitmap.width}×${bitmap.height} pixels, too many.`;
  element("large-words").textContent =
    `A browser can encode up to ${grouped(MOST_PIXELS)} pixels; this picture has ${grouped(bitmap.width * bitmap.height)}. ` +
    "`dipp encode` takes any size up to 64 megapixels. Scaled down, each new pixel is a mixture of several of yours, and the " +
    "certificate speaks of the new ones.";
  const button = element("scale");
  button.textContent = `Scale it down to ${width}×${height}`;
  button.onclick = () => attempt(() => take(pixelsOf(bitmap, width, height), stem));
  element("large").hidden = false;
}

/** Show nothing of what was there before, and keep none of it. */
function forget(): void {
  picture = archive = seen = undefined;
  views = {};
  split.clear();
  for (const choice of Object.values(choices)) choice.replaceChildren();
  for (const id of ["large", "pixel", "certificate", "sizes", "image-choice"]) element(id).hidden = true;
  status.textContent = "";
  busyWith(false);
}

function take(own: Picture, stem: string): void {
  forget();
  [picture, name] = [own, stem];
  views = { original: { ...own, name: VIEWS.original } };
  element("picked").textContent = `${name}: ${own.width}×${own.height} pixels.`;
  status.textContent = "Choose how much it may tell, and encode.";
  offer("original", "original");
  showChoice();
  busyWith(false);
}

function openArchive(bytes: Uint8Array, stem: string): void {
  const found = Archive.fromBytes(bytes);
  if (!found.length) throw new DippError("the file holds no images");
  forget();
  [archive, name] = [found, stem];
  element("picked").textContent = `${name}.dipp: ${found.length === 1 ? "one image" : `${grouped(found.length)} images`}.`;
  element("image-choice").hidden = found.length === 1;
  image.value = "1";
  image.max = String(found.length);
  showCertificate(found, table);
  element("certificate").hidden = false;
  element("download-png").hidden = true;
  element("again").hidden = true;
  decodeImage(0);
}

/** Decode the image of an archive whose number is typed in, unless it is the one that is shown. */
function seeImage(): void {
  const number = Number(image.value) - 1;
  if (!archive || number === seen || !Number.isInteger(number) || number < 0 || number >= archive.length) return;
  decodeImage(number);
}

function decodeImage(number: number): void {
  const { height, width } = archive!.image(number);
  if (height * width > MOST_PIXELS) {
    throw new DippError(
      `this image has ${grouped(height * width)} pixels, and a browser can decode up to ${grouped(MOST_PIXELS)}; ` +
        "its certificate is below, and `dipp decode` decodes it",
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
  status.textContent = request.type === "encode" ? "Encoding." : "Decoding.";
  tell(request);
}

function onProgress(done: number, calls: number): void {
  element<HTMLProgressElement>("bar").value = done / calls;
  // The first step asks no network, so the pace is known after the third.
  const seconds = ((performance.now() - started) / 1000 / Math.max(1, done - 1)) * (calls - done);
  element("time").textContent =
    done < 3 ? `Step ${done + 1} of ${calls}.` : `Step ${Math.min(done + 1, calls)} of ${calls}; about ${Math.ceil(seconds)} s left.`;
  if (done < 1) started = performance.now();
}

/** Show what was made. Until then nothing else can begin, so that the picture is still the one that was encoded. */
async function onDone(reply: Reply & { type: "done" }): Promise<void> {
  const { width, height } = reply;
  seen = reply.image;
  archive = Archive.fromBytes(reply.file); // read again, as any reader would
  const { epsilon } = archive.certificate;
  views = {
    ...(picture ? { original: { ...picture, name: VIEWS.original } } : {}),
    expected: { width, height, pixels: reply.expected, name: VIEWS.expected },
    noisy: { width, height, pixels: reply.noisy, name: VIEWS.noisy },
  };
  const pixels = width * height;
  const bpp = (bytes: number): string => ((8 * bytes) / pixels).toPrecision(3);
  const rows = [row("this .dipp", grouped(archive.bytes.length), archive.fileBpp.toPrecision(3), upper(epsilon))];
  if (picture) {
    const rival = noised(picture, epsilon);
    views.rival = { ...rival, name: `noise of the same ε, as a PNG` };
    const [noise, png, jpeg] = await Promise.all([fileOf(rival, "image/png"), fileOf(picture, "image/png"), fileOf(picture, "image/jpeg", 0.9)]);
    rows.push(row("noise of the same ε, PNG of this browser", grouped(noise.size), bpp(noise.size), upper(epsilon)));
    rows.push(row("your picture, PNG", grouped(png.size), bpp(png.size), "none: it tells all"));
    rows.push(row("your picture, JPEG at 90", grouped(jpeg.size), bpp(jpeg.size), "none"));
    showTotal(picture, epsilon);
  }
  element("sizes-body").replaceChildren(...rows);
  element("sizes").hidden = false;
  showCertificate(archive, table);
  element("certificate").hidden = false;
  element("download-png").hidden = false;
  offer(picture ? "original" : "noisy", "expected");
  element("pixel").hidden = !reply.odds;
  for (const [id, side] of [["pixel-x", width], ["pixel-y", height]] as const) {
    const input = element<HTMLInputElement>(id);
    input.max = String(side - 1);
  }
  busyWith(false);
  if (reply.odds) ask(Math.floor(height / 3) * width + Math.floor(width / 3));
  status.textContent = picture
    ? `Done: ${grouped(archive.bytes.length)} bytes, ε = ${upper(epsilon)} per pixel.`
    : `Decoded and checked: the certificate follows from the file. ε = ${upper(epsilon)} per pixel.`;
  if (!picture) seeImage(); // another one may have been asked for in the meantime
}

/** Say what all files of a picture cost together, if there are several. */
function showTotal(own: Picture, epsilon: number): void {
  const total = spent.add(own, epsilon);
  const again = element("again");
  again.hidden = total.files < 2;
  again.textContent =
    `You have made ${total.files} files of this picture. Whoever gets them all learns up to ε = ${upper(total.epsilon)}: ` +
    "the costs add up. Give away one of them, and do not choose it by how well it came out: no certificate covers a " +
    "choice that looks at the picture.";
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
      if (!busy) status.textContent = picture ? "Choose how much it may tell, and encode." : "Ready. Choose a picture.";
      encodeButton.disabled = busy || !picture;
      break;
    case "progress":
      onProgress(data.done, data.calls);
      break;
    case "done":
      attempt(() => onDone(data).finally(() => busyWith(false)));
      break;
    case "odds":
      attempt(() => {
        const { pixel } = data;
        if (!archive) return; // another picture has come in the meantime
        showOdds(data, archive.certificate.epsilon, picture?.pixels.subarray(3 * pixel, 3 * pixel + 3));
      });
      break;
    case "cancelled":
      busyWith(false);
      status.textContent = "Cancelled: nothing was made.";
      break;
    case "error":
      busyWith(false);
      status.textContent = "";
      complain(data.message);
  }
}

// Views.

function offer(left: ViewName, right: ViewName): void {
  const names = (Object.keys(VIEWS) as ViewName[]).filter((one) => views[one]);
  for (const [side, wanted] of [[choices.left, left], [choices.right, right]] as const) {
    side.replaceChildren(...names.map((one) => made("option", VIEWS[one], { value: one })));
    side.value = wanted;
  }
  look();
}

function look(): void {
  const [left, right] = [views[choices.left.value as ViewName], views[choices.right.value as ViewName]];
  if (left && right) split.show(left, right);
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
  for (const slider of Object.values(sliders)) slider.oninput = showChoice;
  for (const choice of Object.values(choices)) choice.onchange = look;
  element("zoom").onchange = (event) => split.setZoom(Number((event.target as HTMLSelectElement).value));
  encodeButton.onclick = () => {
    const { width, height, pixels } = picture!;
    start({ type: "encode", plan: chosen().number, width, height, pixels });
  };
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
  if (!response.ok) throw new DippError("the page is not whole: its plans are missing; build it again");
  table = (await response.json()) as Table;
  sliders.epsilon.max = String(table.epsilons.length - 1);
  sliders.epsilon.value = String(table.epsilons.indexOf(table.first));
  sliders.rate.max = String(table.rates.length - 1);
  sliders.rate.value = String(table.rates.indexOf(1));
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
  worker.onerror = () => complain("the worker could not start; load the page again, or take a newer browser");
  // For tests, and for whoever distrusts their graphics driver: ?engine=wasm.
  const wanted = new URLSearchParams(location.search).get("engine");
  tell({ type: "start", place: place.href, table, seeds: SEEDS, engine: wanted === "wasm" || wanted === "webgpu" ? (wanted as Engine) : undefined });
  if ("serviceWorker" in navigator) navigator.serviceWorker.register(new URL("offline.js", place)).catch(() => undefined);
}

attempt(begin);
