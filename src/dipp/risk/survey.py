"""The survey of a folder of public pictures: what programs still recognise, read and guess after encoding.

The pictures are encoded by a plan and looked at as a receiver sees them. They are not counted by the odometer: only
public pictures may be given, of the kind that will be released.

| measure | what it needs |
|---|---|
| quality: PSNR | |
| guesses about a pixel, a cell, a picture | for a picture: four or more of equal size |
| faces that are still found | dlib (the extra `risk`), and faces in the originals |
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
from dipp.errors import DippError
from dipp.models import embedded
from dipp.privacy.certificate import Certificate
from dipp.privacy.printing import upper
from dipp.risk import bounds, descriptors, guesses, text
from dipp.risk.networks import SmallNetwork
from dipp.risk.recognition import Fisherfaces, Pixels, Recogniser, recognition

SIDE = 96
"""Side of the squares to which pictures are resized for recognisers that need equal sizes."""
ALIKE = 4
"""Pictures of equal size, at least, among which whole pictures are told apart."""
SEVERAL = "a folder for each of two or more people, with two or more pictures in each"


class Shown(NamedTuple):
    """A picture and what a receiver sees of it."""

    path: Path
    original: Pixels
    """(H, W, 3)."""
    released: Pixels


@dataclass(frozen=True)
class Survey:
    """What was measured, and what was not.

    Attributes:
        pictures: Number of pictures.
        certificate: What the certificate of each promises, in words.
        unit: Its unit, in a word or two.
        epsilon: Pure ε of the unit.
        psnr: Mean PSNR in dB.
        guesses: Share of right guesses by what they are about: "pixel", "16×16 cell" or "picture".
        faces: Faces found in the originals, and of these in the released pictures; None if not measured.
        recognised: Top-1 by attacker, such as "naive dlib"; empty if not measured.
        people: Number of people, 0 if not measured.
        allowed: Largest top-1 that the certificate allows; None if it is not about whole pictures.
        characters: Characters that tesseract reads in the originals, and of these in the released pictures; None if
            not measured.
        missing: What was not measured, and what that needs.
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
        """Return the survey for JSON."""
        return dict(vars(self))

    def __str__(self) -> str:
        rows = [("pictures", f"{self.pictures}, encoded with this certificate: {self.certificate}")]
        rows.append(("quality", f"{self.psnr:.1f} dB (PSNR)"))
        for what, right in self.guesses.items():
            rows.append((f"this {what} or another", f"{right:.0%} right from the picture alone; a guess is in 50 %"))
        certain = 100 / (1 + math.exp(-self.epsilon))
        rows.append(("", f"the certificate bounds somebody who knows all but the {self.unit}: {upper(certain, 3)} %"))
        if self.faces:
            rows.append(("faces", f"{self.faces[1]} of {self.faces[0]} that dlib finds in the originals"))
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
) -> Survey:
    """Encode the pictures of a folder, and measure what is left of them.

    Args:
        folder: Folder of public pictures; each subfolder with two or more pictures is a person.
        model: Folder or hub id of a denoiser. By default the one that ships with dipp.
        device: "auto", "cuda", "mps" or "cpu".
        plan: The budget (`epsilon=4`) and other keywords, which `PlanOptions` describes.

    Raises:
        DippError: The folder has no pictures, one cannot be read, or no plan keeps the budget.
    """
    if not folder.is_dir():
        raise DippError("folder", f"{folder} is no folder", "give one of public pictures")
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES and path.is_file())
    if not paths:
        raise DippError("folder", f"{folder} has no pictures, so nothing can be measured")
    originals = [pictures.read(path) for path in paths]
    smallest = min((one.shape[:2] for one in originals), key=math.prod)
    codec = Codec.from_pretrained(model, device=device, size=smallest, **plan)
    if not codec.plan.coding.certified:
        raise DippError("preset", "diffc has no certificate", "take another one")
    seen: list[Pixels] = []
    archive = codec.encode(originals, odometer=False, ends=lambda end: seen.extend(end.pictures()))
    return measured(list(map(Shown, paths, originals, seen)), archive.certificate, codec.plan.unit)


def measured(shown: Sequence[Shown], certificate: Certificate, unit: Unit) -> Survey:
    """Return what is left of pictures that were encoded."""
    missing: dict[str, str] = {}
    people = _people(shown)
    return Survey(
        pictures=len(shown),
        certificate=certificate.statement(),
        unit=unit.short,
        epsilon=certificate.epsilon,
        psnr=float(np.mean([_psnr(one) for one in shown])),
        guesses=_guesses(shown, unit),
        faces=_or_missing("faces", _faces, shown, missing),
        recognised=_or_missing("recognised", _recognised, people, missing) or {},
        people=len(people),
        allowed=bounds.recognised(certificate.epsilon, len(people)) if people and unit.whole else None,
        characters=_or_missing("characters", _characters, shown, missing),
        missing=missing,
    )


def _or_missing(what: str, measure: Callable[[Any], Any], shown: Any, missing: dict[str, str]) -> Any:
    """Return a measure; or None, with what it needs written down."""
    found = measure(shown)
    if isinstance(found, str):
        missing[what] = found
        return None
    return found


def _psnr(shown: Shown) -> float:
    error = float(np.square(shown.released.astype(float) - shown.original).mean())
    return 10 * math.log10(255**2 / max(error, 1e-5))


def _guesses(shown: Sequence[Shown], unit: Unit) -> dict[str, float]:
    """Return the shares of right guesses about pixels, cells of the unit's size, and pictures of equal size."""
    rng, found = np.random.default_rng(0), dict[str, float]()
    for what, side in {one.short: one.square for one in (Pixel(), unit) if one.square is not None}.items():
        rights = [guesses.about_cells(one.original, one.released, side, rng) for one in shown]
        if known := [right for right in rights if right is not None]:
            found[what] = float(np.mean(known))
    sizes: dict[tuple[int, ...], list[Shown]] = {}
    for one in shown:
        sizes.setdefault(one.original.shape, []).append(one)
    alike = max(sizes.values(), key=len)
    if len(alike) < ALIKE:
        return found
    right = guesses.about_pictures(*(np.stack(part) for part in list(zip(*alike, strict=True))[1:]))
    return found if right is None else {**found, Whole().short: right}


def _faces(shown: Sequence[Shown]) -> tuple[int, int] | str:
    """Return how many pictures dlib finds a face in before, and of these after; or what is needed."""
    if not descriptors.installed():
        return 'dlib: in a checkout of dipp, pip install ".[risk]"'
    there = [one for one in shown if descriptors.face(one.original, describe=False).found]
    if not there:
        return "pictures in which dlib finds a face"
    return len(there), sum(descriptors.face(one.released, describe=False).found for one in there)


def _people(shown: Sequence[Shown]) -> list[list[Shown]]:
    """Return the pictures of each person; none if there are fewer than two people."""
    folders: dict[Path, list[Shown]] = {}
    for one in shown:
        folders.setdefault(one.path.parent, []).append(one)
    found = [own for own in folders.values() if len(own) > 1]
    return found if len(found) > 1 else []


def _recognised(people: list[list[Shown]]) -> dict[str, float] | str:
    """Return top-1 of every recogniser that is installed, on the originals, naive and parrot; or what is needed."""
    if not people:
        return SEVERAL
    gallery = [(who, one) for who, own in enumerate(people) for one in own[: len(own) // 2]]
    probes = [(who, one) for who, own in enumerate(people) for one in own[len(own) // 2 :]]
    owners, truth = (np.array([who for who, _ in part], np.int64) for part in (gallery, probes))
    originals, released = (_squares([getattr(one, kind) for _, one in probes]) for kind in ("original", "released"))
    clean, copies = (_squares([getattr(one, kind) for _, one in gallery]) for kind in ("original", "released"))
    recognisers: list[Recogniser] = [SmallNetwork()]
    if len(gallery) > len(people):
        recognisers.append(Fisherfaces())
    if descriptors.installed():
        recognisers.append(descriptors.Dlib())
    found: dict[str, float] = {}
    for recogniser in recognisers:
        naive, parrot = (recogniser.fit(learnt, owners) for learnt in (clean, copies))
        asked = {"originals,": naive(originals), "naive": naive(released), "parrot": parrot(released)}
        found |= {f"{kind} {recogniser.name}": recognition(one, truth).top1 for kind, one in asked.items()}
    return found


def _squares(given: Sequence[Pixels]) -> Pixels:
    """Return pictures at one size."""
    return np.stack([np.asarray(Image.fromarray(one).resize((SIDE, SIDE), Image.Resampling.BOX)) for one in given])


def _characters(shown: Sequence[Shown]) -> tuple[int, int] | str:
    """Return how many characters tesseract reads before, and of these after; or what is needed."""
    if shutil.which("tesseract") is None:
        return "the program tesseract"
    before = after = 0
    for one in shown:
        wanted = text.tesseract(one.original, alphabet=None)
        before += len(wanted)
        after += round(len(wanted) * text.share(text.tesseract(one.released, alphabet=None), wanted)) if wanted else 0
    return (before, after) if before else "pictures in which tesseract reads something"
