/** The certificate in words: what it promises, the ε of objects of other sizes, its assumptions, and the ledger. */

import type { Terms } from "../core/price";
import type { Archive } from "../format/archive";
import { hex } from "../format/bytes";
import { VERSION } from "../format/header";
import { boundWords, headlineOf, largestBelief, TELLS_ALL, upper, WINDOWS } from "../privacy/certificate";
import { sentence } from "./choice";
import { counted, element, grouped, made, row } from "./dom";
import { gradeOf, measuredWords, type Table } from "./table";

const DELTAS = [1e-5, 1e-7, 1e-9];
/** Width and height of an example of a face, whose price is shown beside those of squares. */
const FACE = [60, 80] as const;

/** Return in words how well a file hides objects of the size that it was made to hide. */
export function headlineWords(archive: Archive): string {
  const first = headlineOf(archive.certificate, archive.parameters.hidden);
  return `${sentence(boundWords(first))} (ε = ${upper(first.epsilon, 3)}).`;
}

export function showCertificate(archive: Archive, table: Table): void {
  const { certificate, parameters } = archive;
  const { ledger, unit } = certificate;
  const epsilon = upper(certificate.epsilon);
  const first = headlineOf(certificate, parameters.hidden);
  element("statement").textContent = `ε = ${epsilon} pure, ρ = ${upper(certificate.rho)} zCDP, per ${unit.words}`;
  const changed = unit.kind === "pixel" ? "one pixel" : unit.kind === "cell" ? `one ${unit.short}` : "the whole picture";
  element("certificate-words").textContent =
    `Change ${changed} in any way${unit.kind === "picture" ? "" : ", and nothing else"}: no file becomes more than e^ε = ` +
    `${upper(Math.exp(certificate.epsilon) * (1 + 2 ** -40), 3)} times as likely. So ${boundWords(first)}: ` +
    `${gradeOf(first.epsilon, table)} as a bound. ` +
    (unit.kind === "pixel" && !parameters.hidden ? `Without that knowledge, ${measuredWords(first.epsilon, table)}. ` : "") +
    (unit.kind === "picture" ? "" : `k ${unit.short}s together cost k times ε. `) +
    `This page has computed it from the file's public numbers` +
    (parameters.table === undefined ? "." : ", and the file names the public table that its plan was made from.");
  element("recognisable").textContent = `Recognisable: ${recognisable(archive, table)}.`;
  showPrices(archive);
  list("assumptions", table.assumptions);
  const limits = table.objectsNotCovered[unit.kind] ?? table.notCovered;
  list("not-covered", limits.map((text) => text.replaceAll("{cell}", unit.short).replaceAll("{met}", String(unit.met(...FACE)))));
  element("ledger").replaceChildren(
    ...ledger.selections.map((selection) => {
      const { step, chunks, candidates, terms } = selection;
      const { epsilon, rho } = ledger.cost(selection);
      return row(String(step + 1), grouped(chunks), grouped(candidates), lawWords(terms), upper(epsilon), upper(rho));
    }),
  );
  const worst = row(`worst ${unit.short}, touched by ${counted(ledger.touches, "step")}`, epsilon, upper(certificate.rho));
  worst.firstElementChild!.setAttribute("colspan", "4");
  element("ledger-total").replaceChildren(worst);
  const facts: [string, string][] = [
    ["(ε, δ)", DELTAS.map((delta) => `ε = ${upper(certificate.approximate(delta))} at δ = 10^−${Math.round(-Math.log10(delta))}`).join(", ")],
    ["code", `${parameters.plan.code.name} on the sign channel, ${counted(parameters.plan.steps.length, "step")}, format ${VERSION}`],
    ["images", archive.runs.map((run) => `${run.images} of ${run.width}×${run.height}`).join(", ")],
    ["seed", `${hex(parameters.seed)}${parameters.seedGiven ? ", given by the caller" : ", drawn before the picture was read"}`],
    ...(parameters.beacon ? [["beacon", beaconWords(parameters.beacon)] as [string, string]] : []),
    ...(parameters.window ? [["window", `${parameters.window.join(":")} of the stored values`] as [string, string]] : []),
    ["denoiser", parameters.model],
    ["table", parameters.table ?? "none"],
  ];
  element("facts").replaceChildren(...facts.flatMap(([name, value]) => [made("dt", name), made("dd", value)]));
}

/** Return round and value of a beacon, to compare with what was published. */
function beaconWords(beacon: Uint8Array): string {
  const round = new DataView(beacon.buffer, beacon.byteOffset).getBigUint64(16, true);
  return `round ${round}, value ${hex(beacon.subarray(24))}; the seed follows from it`;
}

/** Show the ε of square objects, of a face and of the whole picture. */
function showPrices({ certificate, runs }: Archive): void {
  const priced = (name: string, epsilon: number): HTMLElement =>
    row(name, upper(epsilon, 3), epsilon >= TELLS_ALL ? "as good as certain" : `${largestBelief(epsilon)} %`);
  const longest = Math.max(...runs.map(({ height, width }) => Math.max(height, width)));
  const face = [FACE[0], FACE[1], `a face of ${FACE.join("×")}`] as const;
  const objects = [...WINDOWS.map((side) => [side, side, `${side}×${side}`] as const), face].filter(([, height]) => height < longest);
  objects.sort((a, b) => a[0] * a[1] - b[0] * b[1]);
  const rows = objects.map(([width, height, name]) => priced(name, certificate.forWindow(width, height).epsilon));
  const most = Math.max(...runs.map((run) => certificate.unit.count(run)));
  element("prices-body").replaceChildren(...rows, priced("the whole picture", certificate.forUnits(most).epsilon));
}

/** Return whether people and things can be recognised in the decoded picture, and why. */
function recognisable({ certificate, parameters }: Archive, table: Table): string {
  const { unit } = certificate;
  const { epsilon, what } = headlineOf(certificate, parameters.hidden);
  if (unit.kind === "pixel" && !parameters.hidden) return table.recognisable;
  if (unit.kind === "picture") return `perhaps, because ε is about the whole picture, and one of ${upper(epsilon, 3)} may allow a likeness; other pictures of the same people are not covered`;
  return `perhaps: the ε of ${upper(epsilon, 3)} is that of ${what}, and whatever is larger pays more; treat the people in the picture as identifiable if they are larger`;
}

/** Return the law of the draws of a step, in words. */
function lawWords(terms: Terms): string {
  if ("heavy" in terms) return `${terms.best} nearest with weight ${terms.heavy}, others ${terms.light}`;
  const clip = terms.clip === undefined ? "" : `, clip ${grouped(terms.clip)}, slope ${grouped(terms.slope!)}`;
  return `D = ${grouped(terms.sensitivity)}, S = ${terms.fractionBits}${clip}`;
}

function list(id: string, lines: readonly string[]): void {
  element(id).replaceChildren(...lines.map((line) => made("li", line)));
}
