/** The certificate as people read it: a statement, what it rests on, what it leaves out, and the ledger. */

import type { Archive } from "../format/archive";
import { VERSION } from "../format/header";
import { hex } from "../format/bytes";
import { boundWords, upper } from "../privacy/certificate";
import { element, grouped, made, row } from "./dom";
import { gradeOf, measuredWords, type Table } from "./table";

const DELTAS = [1e-5, 1e-7, 1e-9];

export function showCertificate(archive: Archive, table: Table): void {
  const { certificate, release } = archive;
  const { ledger } = certificate;
  const epsilon = upper(certificate.epsilon);
  element("statement").textContent =
    `ε = ${epsilon} pure, ρ = ${upper(certificate.rho)} zCDP, per ${table.unit}`;
  element("certificate-words").textContent =
    `Change one pixel in any way, whatever the others are: no file becomes more than e^ε = ` +
    `${upper(Math.exp(certificate.epsilon) * (1 + 2 ** -40), 3)} times as likely. So ${boundWords(certificate.epsilon)}: ` +
    `${gradeOf(certificate.epsilon, table)} as a bound. Without that knowledge, ${measuredWords(certificate.epsilon, table)}. ` +
    `k pixels together cost k times ε. This page has computed it from the file's public numbers` +
    (release.table === undefined ? "." : ", and the file names the public table that its plan was made from.");
  element("recognisable").textContent = `Recognisable: ${table.recognisable}.`;
  list("assumptions", table.assumptions);
  list("not-covered", table.notCovered);
  element("ledger").replaceChildren(
    ...ledger.selections.map((one) => {
      const charge = ledger.charge(one);
      const { terms } = one;
      const own = "heavy" in terms ? [undefined, undefined, undefined, undefined] : [terms.sensitivity, terms.fractionBits, terms.clip, terms.slope];
      const numbers = [one.chunks, ...own];
      const cells = numbers.map((value) => (value === undefined ? "none" : grouped(value)));
      return row(String(one.step + 1), ...cells, upper(charge.epsilon), upper(charge.rho));
    }),
  );
  const worst = row(`worst pixel, touched ${ledger.touches} ${ledger.touches === 1 ? "time" : "times"}`, epsilon, upper(certificate.rho));
  worst.firstElementChild!.setAttribute("colspan", "6");
  element("ledger-total").replaceChildren(worst);
  const facts: [string, string][] = [
    ["(ε, δ)", DELTAS.map((delta) => `ε = ${upper(certificate.approximate(delta))} at δ = 10^−${Math.round(-Math.log10(delta))}`).join(", ")],
    ["code", `${release.plan.code.name} on the sign channel, ${release.plan.steps.length} steps, format ${VERSION}`],
    ["images", archive.runs.map((run) => `${run.images} of ${run.width}×${run.height}`).join(", ")],
    ["seed", `${hex(release.seed)}${release.seedGiven ? ", given by the caller" : ", drawn before the picture was read"}`],
    ...(release.beacon ? [["beacon", beaconWords(release.beacon)] as [string, string]] : []),
    ...(release.window ? [["window", `${release.window.join(":")} of the stored values`] as [string, string]] : []),
    ["denoiser", release.model],
    ["table", release.table ?? "none"],
  ];
  element("facts").replaceChildren(...facts.flatMap(([name, value]) => [made("dt", name), made("dd", value)]));
}

/** Round and value of a beacon, to be compared with what was published. */
function beaconWords(beacon: Uint8Array): string {
  const round = new DataView(beacon.buffer, beacon.byteOffset).getBigUint64(16, true);
  return `round ${round}, value ${hex(beacon.subarray(24))}; the seed follows from it`;
}

function list(id: string, lines: readonly string[]): void {
  element(id).replaceChildren(...lines.map((line) => made("li", line)));
}
