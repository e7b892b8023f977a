"""Check a release: `dipp info --verify`, `dipp sign` and `dipp verify` all run this check.

1. Every byte parses in one way only, the certificate follows from the public parameters, and the indices look like
   those of the stated code. This needs the release alone.
2. Tilts, clips and gains are those that a planner computes (`planning.verification`). This needs the public table of
   the model that the release names. The table of the model that ships with dipp is used by default; for another model,
   the caller has to name it.

Without the second part, somebody may have written a smaller ε into the file. So such a release is *not verified*, even
if the first part finds no fault.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dipp.core.geometry import Geometry
from dipp.data import manifest, redacted
from dipp.data.folder import MANIFEST, REDACTED, manifest_of
from dipp.data.shards import Shard
from dipp.data.store import Store
from dipp.errors import DippError, NoCertificateError
from dipp.format import archive as archives
from dipp.format.bytes import Integers
from dipp.format.parameters import PublicParameters
from dipp.models import embedded
from dipp.planning import verification
from dipp.redaction import record

FOLLOWS = "the certificate follows from the file's public parameters"
AS_PLANNED = "these from its model and table"
NOT_COMPARED = "these were not compared with a model: give --model"
NO_FILE = "no file can show"
HONEST = f"that its encoder was honest, {NO_FILE}"
REPAINTED = "what lies in the regions follows from their surroundings"


@dataclass(frozen=True)
class Reference:
    """The model that a release is compared with, and its public table."""

    model: str | Path | None = None
    """Folder of the model, or its id on the hub. By default the model that ships with dipp, if the release names it."""
    calibration: Path | None = None
    """File of the model's public table. By default calibration.json beside the weights."""


@dataclass(frozen=True)
class ReleaseCheck:
    """The result of a check that found no fault in a release."""

    subject: Path
    """The .dipp file, or the manifest of a dataset."""
    facts: dict[str, Any]
    """The facts that the release states, as `dipp info --json` prints them."""
    verified: bool | None
    """True if the plan was compared with its model; None if there was no model to compare it with."""
    reason: str
    """What was and was not checked, in one line."""

    @property
    def verdict(self) -> dict[str, Any]:
        """The result as a dictionary for JSON."""
        return {"verified": self.verified, "verified_reason": self.reason}


def check(release: Path, against: Reference | None = None) -> ReleaseCheck:
    """Check everything about a release that can be computed again.

    Args:
        release: A .dipp file, a folder that `privatize` wrote, or the record that `redact` wrote beside a picture.
        against: The model to compare with. By default the one that ships with dipp, if the release names it.

    Returns:
        The facts of the release, and whether its plan was compared with its model.

    Raises:
        InconsistentError: No honest encoder makes such a release.
        NoCertificateError: The coding of the release has no certificate.
        DippError: The release cannot be read, or was made with another model.
    """
    if release.name.endswith(record.SUFFIX):
        return _redaction(release)
    if release.is_dir() and manifest_of(release)["format"] == REDACTED:
        return _redacted_dataset(release)
    subject = release / MANIFEST if release.is_dir() else release
    public, facts, images = _dataset(release) if release.is_dir() else _archive(release)
    if facts["certificate"] is None:
        raise NoCertificateError(str(release), "has no certificate that could be checked")
    compared = _compare(public, images, against or Reference())
    reason = f"{FOLLOWS}, {AS_PLANNED if compared else NOT_COMPARED}; {HONEST}"
    return ReleaseCheck(subject, facts, True if compared else None, reason)


def _redaction(release: Path) -> ReleaseCheck:
    """Check the record of a redaction together with its picture, which lies beside it."""
    stated = record.Record.read(release)
    checked = record.check(release.with_name(release.name.removesuffix(record.SUFFIX)), stated)
    reason = f"{REPAINTED} ({checked.repainted}); that nothing else of the original was given away, {NO_FILE}"
    facts = {"certificate": stated.facts["certificate"], "model": stated.facts["model"], "record": stated.facts}
    return ReleaseCheck(release, facts, True, reason)


def _redacted_dataset(release: Path) -> ReleaseCheck:
    """Check every picture of a release of redacted pictures."""
    stated = redacted.verify(release)
    reason = f"{REPAINTED}, in every picture; that nothing else of the originals was given away, {NO_FILE}"
    facts = {"certificate": stated["certificate"], "model": ", ".join(stated["models"]) or None, "record": stated}
    return ReleaseCheck(release / MANIFEST, facts, True, reason)


Parts = tuple[PublicParameters, dict[str, Any], Iterable[tuple[Geometry, Integers]]]
"""The public parameters of a release, its facts, and the geometry and the indices of each image."""


def _archive(path: Path) -> Parts:
    source = archives.open(path)
    images = ((source.geometry(image), source.image_indices(image)) for image in range(len(source)))
    return source.parameters, source.facts(), images


def _dataset(folder: Path) -> Parts:
    facts = manifest.verify(folder)
    paths = Store(folder).shards()
    images = (
        image for shard in map(Shard.read, paths) for image in zip(shard.geometries(), shard.all_rows(), strict=True)
    )
    return Shard.read(paths[0]).parameters, facts, images  # `manifest.verify` checked that all shards have the same


def _compare(parameters: PublicParameters, images: Iterable[tuple[Geometry, Integers]], against: Reference) -> bool:
    """Raise if no encoder makes a plan or indices; return whether the plan was compared with a model.

    Args:
        parameters: Public parameters of the release, with its plan.
        images: Geometry and indices of each image.
        against: The model to compare with.
    """
    model = against.model
    if model is None and verification.made_with_the_embedded_model(parameters):
        model = embedded.FOLDER
    if model is None and against.calibration is not None:
        raise DippError("calibration", "belongs to no given model", "name its model with --model")
    if model is not None:
        verification.verify(parameters, model, against.calibration)
    verification.check_indices(parameters, images)
    return model is not None
