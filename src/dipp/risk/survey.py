"""The survey of a folder of public pictures: what programs still recognise, read and guess after encoding.

The survey encodes the pictures by a plan and looks at them as a receiver sees them. The odometer does not count these
encodings, so give only public pictures, of the same kind as those that you will release.

| measure | what it needs |
|---|---|
| quality: PSNR | |
| guesses about a pixel, a cell, a picture | for a picture: four or more of equal size |
| faces that are still detected | dlib (the extra `risk`), and faces in the originals |
| people who are recognised | a folder for each of two or more people, two or more pictures in each |
| characters that are still read | the program tesseract, and text in the originals |

For recognition, the first half of each person's pictures is the gallery of an attacker, and the rest are probes.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import numpy as np
from PIL import Image

from dipp.codec import Codec, pictures
from dipp.codec.options import PlanOptions
from dipp.core.unit import Unit
from dipp.core.units import Picture as Whole
from dipp.core.units import Pixel
from dipp.data.listing import IMAGE_SUFFIXES
from dipp.errors import DippError, installing
from dipp.models import embedded
from dipp.privacy.certificate import Certificate
from dipp.privacy.printing import upper
from dipp.risk import bounds, descriptors, guesses, text
from dipp.risk.networks import SmallNetwork
from dipp.risk.recognition import Fisherfaces, Pixels, Recogniser, recognition

SIDE = 96
"""Side of the squares to which pictures are resized for recognisers that need equal sizes."""
ALIKE = 4
"""Smallest number of pictures of equal size for which guesses about whole pictures are measured."""
SEVERAL = "a folder for each of two or more people, with two or more pictures in each"
"""What recognition needs, in words for the report."""


class ComparedPicture(NamedTuple):
    """An original picture, and the picture that a receiver decodes."""

    path: Path
    original: Pixels
    """uint8 (H, W, 3)."""
    released: Pixels
    """The decoded picture, of the same shape."""


@dataclass(frozen=True)
class RiskSurvey:
    """What was measured on a folder of pictures, and what could not be measured.

    Attributes:
        pictures: Number of pictures.
        certificate: What the certificate of each picture promises, in words.
        unit: Unit of the certificate, in a word or two.
        epsilon: Pure ε of the unit.
        psnr: Mean PSNR in dB.
        guesses: Share of right guesses by what they are about: "pixel", "16×16 cell" or "picture".
        faces: Number of originals in which a face is detected, and how many of their released pictures still show one;
            None if not measured.
        recognised: Share of pictures whose person is named (top-1), by attacker, such as "naive dlib"; empty if not
            measured.
        people: Number of people, 0 if not measured.
        allowed: Largest such share that the certificate allows; None if its unit is not the whole picture.
        characters: Number of characters that tesseract reads in the originals, and how many of them it still reads in
            the released pictures; None if not measured.
        missing: Measures that could not be taken, each with what it needs.
    """

    pictures: int
    certificate: str
    unit: str
    epsilon: float
    psnr: float
    guesses: dict[str, float]
    faces: tuple[int, int] | None = None
    recognised: dict[str, float] = field(default_factory=dict)
    people: int = 0
    allowed: float | None = None
    characters: tuple[int, int] | None = None
    missing: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the survey as a dictionary for JSON."""
        return dict(vars(self))

    def __str__(self) -> str:
        rows = [("pictures", f"{self.pictures}, encoded with this certificate: {self.certificate}")]
        rows.append(("quality", f"{self.psnr:.1f} dB (PSNR)"))
        for what, right in self.guesses.items():
            rows.append((f"this {what} or another", f"{right:.0%} right from the picture alone; a guess is in 50 %"))
        certain = 100 / (1 + math.exp(-self.epsilon))
        rows.append(("", f"the certificate bounds somebody who knows all but the {self.unit}: {upper(certain, 3)} %"))
        if self.faces:
            rows.append(("faces", f"{self.faces[1]} of {self.faces[0]} that dlib detects in the originals"))
        for attacker, top in self.recognised.items():
            rows.append((attacker, f"{top:.0%} recognised; a guess is right in {1 / self.people:.0%}"))
        if self.allowed is not None:
            limit = f"{upper(100 * self.allowed, 3)} % of {self.people} equally likely people"
            rows.append(("", f"the certificate allows nobody more than {limit}"))
        elif self.recognised:
            rows.append(("", "the certificate says nothing about people: its unit is smaller than a picture"))
        if self.characters:
            read = f"{self.characters[1]} of {self.characters[0]} that tesseract reads in the originals"
            rows.append(("characters", read))
        rows += [(what, f"not measured; it needs {needs}") for what, needs in self.missing.items()]
        rows.append(("", "These programs are not the best there are. Only the certificate bounds the others."))
        width = max(len(name) for name, _ in rows) + 2
        return "\n".join(f"{name:{width}}{words}" for name, words in rows)


def survey(
    folder: Path, model: str | Path = embedded.FOLDER, device: str = "auto", **plan: Unpack[PlanOptions]
) -> RiskSurvey:
    """Encode the pictures of a folder, and measure what programs still recognise, read and guess in them.

    Args:
        folder: Folder of public pictures; each subfolder with two or more pictures is a person.
        model: Folder or hub id of a denoiser. By default the denoiser that ships with dipp.
        device: "auto", "cuda", "mps" or "cpu". By default "auto", the first of the others that is available.
        plan: The budget (`epsilon=4`) and other keywords, which `PlanOptions` describes.

    Returns:
        What was measured.

    Raises:
        DippError: The folder has no pictures, a picture cannot be read, the preset has no certificate, or no plan keeps
            within the budget.
    """
    if not folder.is_dir():
        raise DippError("folder", f"must be a folder, got {folder}", "give a folder of public pictures")
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES and path.is_file())
    if not paths:
        raise DippError("folder", f"must contain pictures, got {folder}", "give a folder of public pictures")
    originals = [pictures.read(path) for path in paths]
    smallest = min((original.shape[:2] for original in originals), key=math.prod)
    codec = Codec.from_pretrained(model, device=device, size=smallest, **plan)
    if not codec.plan.coding.certified:
        raise DippError("preset", "must have a certificate, got diffc", "choose another preset")
    seen: list[Pixels] = []
    archive = codec.encode(originals, odometer=False, ends=lambda end: seen.extend(end.pictures()))
    return measured(list(map(ComparedPicture, paths, originals, seen)), archive.certificate, codec.plan.unit)


def measured(shown: Sequence[ComparedPicture], certificate: Certificate, unit: Unit) -> RiskSurvey:
    """Measure what programs still recognise, read and guess in encoded pictures.

    Args:
        shown: The pictures, each with what a receiver sees of it.
        certificate: The certificate that each encoding has.
        unit: The unit of the certificate.

    Returns:
        What was measured.
    """
    missing: dict[str, str] = {}
    people = _people(shown)
    return RiskSurvey(
        pictures=len(shown),
        certificate=certificate.statement(),
        unit=unit.short,
        epsilon=certificate.epsilon,
        psnr=float(np.mean([_psnr(picture) for picture in shown])),
        guesses=_guesses(shown, unit),
        faces=_or_missing("faces", _faces, shown, missing),
        recognised=_or_missing("recognised", _recognised, people, missing) or {},
        people=len(people),
        allowed=bounds.recognised(certificate.epsilon, len(people)) if people and unit.whole else None,
        characters=_or_missing("characters", _characters, shown, missing),
        missing=missing,
    )


def _or_missing(what: str, measure: Callable[[Any], Any], shown: Any, missing: dict[str, str]) -> Any:
    """Return what `measure` returns for `shown`; or None if it returns text, which says what it needs.

    Args:
        what: Name of the measure.
        measure: The function that measures.
        shown: What it gets: pictures.
        missing: Receives that text under the name of the measure.
    """
    result = measure(shown)
    if isinstance(result, str):
        missing[what] = result
        return None
    return result


def _psnr(shown: ComparedPicture) -> float:
    """Return the PSNR of a released picture in dB."""
    error = float(np.square(shown.released.astype(float) - shown.original).mean())
    return 10 * math.log10(255**2 / max(error, 1e-5))


def _guesses(shown: Sequence[ComparedPicture], unit: Unit) -> dict[str, float]:
    """Return the shares of right guesses about pixels, cells of the unit's size, and pictures of equal size."""
    rng, shares = np.random.default_rng(0), dict[str, float]()
    sides = {subject.short: subject.square for subject in (Pixel(), unit) if subject.square is not None}
    for name, side in sides.items():
        rights = [guesses.about_cells(picture.original, picture.released, side, rng) for picture in shown]
        if measured := [right for right in rights if right is not None]:
            shares[name] = float(np.mean(measured))
    sizes: dict[tuple[int, ...], list[ComparedPicture]] = {}
    for picture in shown:
        sizes.setdefault(picture.original.shape, []).append(picture)
    alike = max(sizes.values(), key=len)
    if len(alike) < ALIKE:
        return shares
    _, originals, released = zip(*alike, strict=True)
    right = guesses.about_pictures(np.stack(originals), np.stack(released))
    return shares if right is None else {**shares, Whole().short: right}


def _faces(shown: Sequence[ComparedPicture]) -> tuple[int, int] | str:
    """Return in how many originals dlib detects a face, and in how many of their released pictures it still does.

    If this cannot be measured, return what it needs.
    """
    if not descriptors.installed():
        return f"dlib: {installing('risk')}"
    faces = [picture for picture in shown if descriptors.face(picture.original, describe=False).found]
    if not faces:
        return "pictures in which dlib detects a face"
    return len(faces), sum(descriptors.face(picture.released, describe=False).found for picture in faces)


def _people(shown: Sequence[ComparedPicture]) -> list[list[ComparedPicture]]:
    """Return the pictures of each person; an empty list if there are fewer than two people."""
    folders: dict[Path, list[ComparedPicture]] = {}
    for picture in shown:
        folders.setdefault(picture.path.parent, []).append(picture)
    people = [own_pictures for own_pictures in folders.values() if len(own_pictures) > 1]
    return people if len(people) > 1 else []


def _recognised(people: list[list[ComparedPicture]]) -> dict[str, float] | str:
    """Return how often each installed recogniser names the right person: in originals, and in released pictures.

    For released pictures, it is the recogniser of the naive and of the parrot attacker (`recognition`).

    If this cannot be measured, return what it needs.
    """
    if not people:
        return SEVERAL
    gallery = [(who, picture) for who, shots in enumerate(people) for picture in shots[: len(shots) // 2]]
    probes = [(who, picture) for who, shots in enumerate(people) for picture in shots[len(shots) // 2 :]]
    owners, truth = (np.array([who for who, _ in pictures], np.int64) for pictures in (gallery, probes))
    originals, released = (_squares([getattr(shown, kind) for _, shown in probes]) for kind in ("original", "released"))
    clean, copies = (_squares([getattr(shown, kind) for _, shown in gallery]) for kind in ("original", "released"))
    recognisers: list[Recogniser] = [SmallNetwork()]
    if len(gallery) > len(people):
        recognisers.append(Fisherfaces())
    if descriptors.installed():
        recognisers.append(descriptors.Dlib())
    shares: dict[str, float] = {}
    for recogniser in recognisers:
        naive, parrot = (recogniser.fit(learnt, owners) for learnt in (clean, copies))
        scores = {"originals,": naive(originals), "naive": naive(released), "parrot": parrot(released)}
        shares |= {f"{kind} {recogniser.name}": recognition(each, truth).top1 for kind, each in scores.items()}
    return shares


def _squares(pictures: Sequence[Pixels]) -> Pixels:
    """Return pictures resized to squares of `SIDE` pixels, stacked."""
    resized = (Image.fromarray(picture).resize((SIDE, SIDE), Image.Resampling.BOX) for picture in pictures)
    return np.stack([np.asarray(image) for image in resized])


def _characters(shown: Sequence[ComparedPicture]) -> tuple[int, int] | str:
    """Return how many characters tesseract reads in the originals, and how many of them in the released pictures.

    If this cannot be measured, return what it needs.
    """
    if shutil.which("tesseract") is None:
        return "the program tesseract"
    before = after = 0
    for picture in shown:
        original, released = (text.tesseract(pixels, alphabet=None) for pixels in (picture.original, picture.released))
        before += len(original)
        after += round(len(original) * text.share(released, original))
    return (before, after) if before else "pictures in which tesseract reads something"
