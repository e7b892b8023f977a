"""Say what a release guarantees, by the questions that NIST SP 800-226 asks before an ε is believed.

They are: Which definition, unit and parameters? What is not protected? How do losses add up, and what is done to the
result? Which mechanism, in which version? Who is trusted? All numbers come from the release itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from dipp import __version__
from dipp.codes import CODES
from dipp.core import units
from dipp.core.code import Code
from dipp.core.unit import Unit
from dipp.core.units import Pixel
from dipp.core.words import counted
from dipp.data import folder, manifest, subjects
from dipp.errors import DippError, NoCertificateError
from dipp.format import archive
from dipp.privacy import advice
from dipp.privacy.advice import RECOGNISABLE, Headline, objects
from dipp.privacy.limits import ASSUMPTIONS, not_covered
from dipp.privacy.printing import upper
from dipp.privacy.statements import prices

FILL_IN = "TO BE FILLED IN"
NEEDED = (
    "certificate",
    "coding",
    "dipp",
    "images",
    "labels",
    "model",
    "payload_bpp",
    "pixels",
    "schedule",
    "seed",
    "whole",
)
"""Names of the facts in a manifest that papers use."""


@dataclass(frozen=True)
class OwnerDetails:
    """What only the people who make a release can say about it; papers have placeholders for what is missing."""

    name: str | None = None
    """Name of the dataset. By default the name of its file or folder."""
    curators: tuple[str, ...] = ()
    licence: str | None = None
    use: str | None = None
    """The intended use of the dataset."""
    region: str | None = None
    """The part of the world that the dataset is about, or whose laws apply."""
    url: str | None = None


@dataclass(frozen=True)
class ReleasedFile:
    """A file of a release."""

    name: str
    size: int
    """Size in bytes."""
    sha256: str


@dataclass(frozen=True)
class ReleaseDescription:
    """A release and its facts, with the sentences about it that all papers share."""

    details: OwnerDetails
    facts: dict[str, Any]
    """The facts that `dipp info --json` prints."""
    parts: tuple[ReleasedFile, ...]
    is_dataset: bool
    """Whether the release is a folder of shards. Otherwise it is a single archive."""
    unprotected: str
    """The data that are released unchanged, as text."""
    day: date

    @classmethod
    def read(cls, path: Path, details: OwnerDetails) -> ReleaseDescription:
        """Return the release in a folder that `dipp privatize` wrote, or in a `.dipp` file.

        Args:
            path: Path of the folder or file.
            details: What only the owner of the release can say about it.

        Raises:
            DippError: The release cannot be read.
        """
        day = datetime.now(UTC).date()
        try:
            if path.is_dir():
                facts = folder.read_manifest(path)
                _ = [facts[name] for name in NEEDED]
                entries = folder.shard_entries(facts)
                parts = tuple(ReleasedFile(name, int(file["bytes"]), str(file["sha256"])) for name, file in entries)
                return cls(details, facts, parts, True, str(facts["not_hidden"]), day)._named(path.resolve().name)
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, DippError):
                raise
            raise DippError(str(path), "has a damaged manifest", "get it again") from None
        reader = f"(read by {__version__}; the file does not say which version wrote it)"
        facts = {**archive.open(path).facts(), "dipp": reader, "labels": None}
        part = ReleasedFile(path.name, path.stat().st_size, folder.sha256(path))
        return cls(details, facts, (part,), False, manifest.not_hidden(False, facts["grey"] > 0), day)._named(path.name)

    def _named(self, name: str) -> ReleaseDescription:
        return self if self.details.name else replace(self, details=replace(self.details, name=name))

    @property
    def name(self) -> str:
        """Name of the dataset."""
        return self.details.name or FILL_IN

    @property
    def certificate(self) -> dict[str, Any] | None:
        """The certificate as a dictionary; None if the coding has no guarantee."""
        certificate: dict[str, Any] | None = self.facts["certificate"]
        return certificate

    @property
    def _claim(self) -> dict[str, Any]:
        """The certificate as a dictionary. Raise if the release has none."""
        if self.certificate is None:
            raise NoCertificateError(self.name, "has no certificate, because its coding is not differentially private")
        return self.certificate

    @property
    def description(self) -> str:
        """A description of the release in one or two sentences."""
        count, rate = self.facts["images"], self.facts["payload_bpp"]
        bits = "" if rate is None else f" at {rate:.4g} bits a pixel"
        window = self.facts.get("window")
        mapped = "" if window is None else f" Values of more than eight bits became pixels by the window {window}."
        return (
            f"{count} images, each jointly compressed and privatised by dipp{bits}. Images are decoded by dipp, with "
            f"the public denoiser whose SHA-256 identity is {self.facts['model']}.{mapped}"
        )

    @property
    def unit(self) -> Unit:
        """The unit of the certificate. Raise if the release has no certificate."""
        return units.from_dict(self._claim["unit"])

    @property
    def unit_details(self) -> str:
        """The two collections of pictures that count as neighbours, as text."""
        several = self.unit.plural
        return (
            "Two collections are adjacent if they have the same number of images, of the same sizes in the same order, "
            f"and differ in {self.unit.neighbours}. A change of k {several} costs k·ε. The unit is not a person: "
            f"somebody who fills many {several}, or appears in many images, pays the sum over those {several}, and may "
            f"stay recognisable. Price by size: {self.by_size}."
        )

    @property
    def meaning(self) -> str:
        """Sentences that say what ε is worth. Raise if the release has no certificate."""
        first = Headline.of(self._claim)
        sentences = (f"As a bound, {first.grade.name}: {first.bound}", *((first.measured,) if first.measured else ()))
        warnings = advice.release_warnings(self._claim, self.facts["pixels"], self.facts["images"])
        return " ".join(f"{text[0].upper()}{text[1:]}." for text in (*sentences, *warnings))

    @property
    def by_size(self) -> str:
        """The prices of objects by their size, up to the largest picture. Raise if the release has no certificate."""
        listed = prices((price["window"], price["epsilon"]) for price in self._claim["by_size"])
        whole = self.facts["whole"]
        return listed if whole is None else f"{listed}; everything in the largest picture: {upper(whole['epsilon'])}"

    @property
    def subjects(self) -> str | None:
        """The price of the worst subject as text; None if subjects are not counted."""
        counted_subjects = self.facts.get("subjects")
        return None if counted_subjects is None else subjects.words(counted_subjects)

    @property
    def recognisable(self) -> str:
        """Whether people and things can be recognised in the release, and why, as text."""
        return RECOGNISABLE if self.certificate is None else Headline.of(self.certificate).recognisable

    @property
    def parameters(self) -> str:
        """ε, ρ and δ as text, rounded up."""
        claim = self.certificate
        if claim is None:
            return "none: this coding is not differentially private"
        at = claim.get("epsilon_at_delta")
        asked = "" if at is None else f"; (ε, δ) = ({upper(at)}, {upper(claim['delta'])})"
        first = Headline.of(claim)
        of_unit = (
            f"ε = {upper(claim['epsilon'])} (pure), ρ = {upper(claim['rho'])} (zCDP){asked}, per {self.unit.words}"
        )
        if first.hidden is None:
            return of_unit
        return f"ε = {upper(first.epsilon)} (pure) for {objects(first.hidden)}, wherever it lies; {of_unit}"

    @property
    def domain(self) -> str:
        """The inputs that the guarantee is about, as text."""
        return (
            "Images of any content as arrays of eight-bit pixels. Their number, order, widths and heights are public "
            "and the same in all collections that are compared."
        )

    @property
    def composition(self) -> str:
        """How the losses of steps and images add up, as text."""
        steps = counted(len(self.facts["schedule"]), "step")
        return (
            f"Sequential composition over {steps}: pure ε adds up, and so does ρ, for the worst {self._worst}; (ε, δ) "
            "follows from ρ or from the law of the privacy loss. Parallel composition over images: each place of the "
            "source is released once. Copies among them, and other releases of the same images, are not counted in "
            "this certificate: their ε and ρ add to these."
        )

    @property
    def post_processing(self) -> str:
        """What happens to the indices after they were drawn, as text."""
        return (
            "What is released are the drawn indices. Decoding turns them into pictures with a public denoiser, by "
            "anybody who has the files, and costs no privacy. No index is corrected, left out or drawn again."
        )

    @property
    def mechanism(self) -> str:
        """How the indices are drawn, and by which software, as text."""
        drawn, rounding = CODES.get(self.facts.get("code", ""), Code).drawn
        return (
            f"{self.facts['coding']}: {drawn}. The certificate is computed from the "
            "integers that the encoder used (the ledger), and every reader computes it again. Implemented in dipp "
            f"{self.facts['dipp']}. Floating point: {rounding}. Private randomness: the operating system's. Timing: "
            "not covered; the release is made offline, once."
        )

    @property
    def preprocessing(self) -> str:
        """What happened to the pictures before they were encoded, as text."""
        return (
            "Pictures are converted to eight bits a channel pixel by pixel; nothing is resized or cropped by dipp. The "
            "denoiser, its tables and the plan come from public data, and the public seed was drawn before a picture "
            "was read, or was given. No parameter was tuned on the private pictures by dipp."
        )

    @property
    def trust(self) -> str:
        """Who must be trusted, and with what, as text."""
        return (
            "The curator sees the pictures and runs the encoder. Everybody else may have the release, any computing "
            f"power, and knowledge of {self._rest}. The guarantee holds if {'; '.join(ASSUMPTIONS)}."
        )

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What the certificate does not cover, as text."""
        return not_covered(Pixel() if self.certificate is None else self.unit)

    @property
    def _worst(self) -> str:
        return "pixel" if self.certificate is None else self.unit.short

    @property
    def _rest(self) -> str:
        """What a reader of the release may know in addition, as text."""
        return "all other pixels" if self.certificate is None or self.unit == Pixel() else "everything else"
