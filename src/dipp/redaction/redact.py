"""`redact`, which replaces regions of a picture without reading them, and returns the picture with its record."""

from __future__ import annotations

import logging
import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from dipp.codec import asking
from dipp.codec.options import RunOptions, takes
from dipp.core.geometry import Geometry
from dipp.core.regions import Regions
from dipp.errors import DippError
from dipp.models import embedded
from dipp.odometer import Meter
from dipp.planning.regions import plan_of_regions
from dipp.privacy.certificate import Certificate
from dipp.redaction import answers, charging, formats, paint, tracks
from dipp.redaction.formats.own import ORIENTED
from dipp.redaction.outlines import Box, Margin, Mask, Pixels
from dipp.redaction.output import ARCHIVE, RedactedPicture, require_suffix
from dipp.redaction.record import Record
from dipp.redaction.regions import DeclaredRegions, PlacedRegions, Region
from dipp.redaction.sources import Original, open_source

LOGGER = logging.getLogger("dipp")
MISSED = "What no region covers is not protected: look at every picture before you give it away."


@dataclass(frozen=True, eq=False)
class OpenedPicture:
    """A picture that was opened, with its regions and the cells that they hide."""

    source: Original
    placed: PlacedRegions
    cells: Mask
    """Mask (rows, columns) of the hidden cells of the source."""

    @property
    def hidden(self) -> Mask:
        """Mask (H, W) of the hidden pixels."""
        return self.source.covered(self.cells)


class RedactOptions(RunOptions, total=False):
    """How pictures are redacted."""

    margin: str | float
    """How far regions grow on each side: pixels, or a percentage of their size such as "10%". By default 0."""
    kinds: Iterable[str] | None
    """Kinds of regions that are hidden, such as "face,plate" or ["face", "plate"]. By default all."""
    fill: str
    """What replaces a region: "paint" (the default) continues the surroundings, "grey" and "black" are plain."""
    boxes: str | None
    """Whether boxes lie in the picture as it is stored ("raw") or as viewers show it ("oriented"). Needed for pictures
    with an EXIF orientation, unless the sizes in the file of regions decide."""
    accept_lossy: bool
    """Whether to accept lossy WebP, AVIF, HEIC and JPEG 2000, where pixels outside a region tell of it. By default
    False."""
    allow_none: bool
    """Whether a picture without regions is written without its metadata, and not refused. By default False."""


class AskOptions(RedactOptions, total=False):
    """How pictures are redacted whose regions may answer questions."""

    epsilon: float
    """Pure ε of the answers about each region; 0 (the default) never reads a region."""


@dataclass(frozen=True)
class Redactor:
    """The options of a redaction, which apply to every picture."""

    margin: Margin
    kinds: tuple[str, ...] | None = None
    """Kinds of regions that are hidden; None for all."""
    fill: str = paint.PAINT
    epsilon: float = 0.0
    """Pure ε of the answers about each region; 0 never reads a region."""
    oriented: bool | None = None
    """Whether boxes lie in the picture as viewers show it; None lets the sizes in the file of regions decide."""
    accept_lossy: bool = False
    allow_none: bool = False
    model: str = str(embedded.FOLDER)
    device: str = "auto"
    meter: Meter | None = None
    """The odometer that is charged; None charges nothing."""

    @classmethod
    def of(cls, **options: Unpack[AskOptions]) -> Redactor:
        """Return a redactor with the options of `AskOptions`, as users write them.

        Raises:
            DippError: An option is invalid.
        """
        boxes, fill, kinds = options.get("boxes"), options.get("fill", paint.PAINT), options.get("kinds")
        if boxes is not None and boxes not in ORIENTED:
            raise DippError("boxes", f"must be raw or oriented, got {boxes}")
        if fill not in paint.NAMES:
            raise DippError("fill", f"must be one of {', '.join(paint.NAMES)}, got {fill}")
        named = kinds.split(",") if isinstance(kinds, str) else kinds
        chosen = None if named is None else tuple(kind.strip() for kind in named)
        if chosen is not None and not all(chosen):
            raise DippError("kinds", "must be names such as face,plate")
        oriented = None if boxes is None else ORIENTED[boxes]
        return cls(
            Margin.parse(options.get("margin", 0)),
            chosen,
            fill,
            _epsilon(options.get("epsilon", 0)),
            oriented,
            options.get("accept_lossy", False),
            options.get("allow_none", False),
            str(options.get("model", embedded.FOLDER)),
            str(options.get("device", "auto")),
            Meter.of(options.get("odometer", True)),
        )

    def chosen(self, name: str, declared: DeclaredRegions | None) -> DeclaredRegions:
        """Return the regions of a picture to hide: those of the chosen kinds.

        Args:
            name: Name of the picture, for errors.
            declared: The regions that were declared for it; None if it has no entry.

        Raises:
            DippError: The picture has no regions, and the options do not allow that.
        """
        chosen = DeclaredRegions(()) if declared is None else declared.chosen(self.kinds)
        if not chosen.regions and not self.allow_none:
            problem = (
                "has no entry among the regions"
                if declared is None
                else "has an entry without regions"
                if self.kinds is None or not declared.regions
                else f"has no regions of the kind {' or '.join(self.kinds)}"
            )
            raise DippError(name, problem, "add what to hide, or pass --allow-none to say that there is nothing")
        return chosen

    def visible(self, declared: DeclaredRegions | None) -> Counter[str]:
        """Return how many declared regions of each kind stay visible because `kinds` does not name their kind."""
        if declared is None or self.kinds is None:
            return Counter()
        return Counter(region.kind for region in declared.regions if region.kind not in self.kinds)

    def redact(
        self, name: str, content: bytes, declared: DeclaredRegions, target: Path | None = None
    ) -> RedactedPicture:
        """Return a picture with its regions replaced, after it was charged to the odometer.

        Args:
            name: Name of the picture, for errors and for the record.
            content: File of the picture.
            declared: The regions to hide, as `chosen` returns them.
            target: Path where it will be saved. If its ending belongs to another format, this raises before any charge.

        Raises:
            DippError: The picture or its regions cannot be used.
        """
        opened = self.opened(name, content, declared)
        if target is not None and not (target.suffix.lower() == ARCHIVE and self.epsilon):
            require_suffix(target, opened.source.kind)
        unit = answers.unit_of(opened.source, opened.placed, self.margin) if self.epsilon else None
        redacted = self.filled(name, opened) if unit is None else self.answered(name, content, opened, unit)
        for warning in opened.source.warnings():
            LOGGER.warning(f"{name}: {warning}")
        if self.meter is not None and unit is None:
            charging.charge(self.meter, name, content, opened.source, opened.hidden)
        return redacted

    def opened(self, name: str, content: bytes, declared: DeclaredRegions) -> OpenedPicture:
        """Return an opened picture with the cells to hide; nothing is charged or painted yet.

        Args:
            name: Name of the picture, for errors.
            content: File of the picture.
            declared: The regions to hide.

        Raises:
            DippError: The picture cannot be redacted, or its regions are for another picture.
        """
        try:
            source = open_source(content, accept_lossy=self.accept_lossy)
            placed = declared.placed(source.size, source.orientation, self.oriented)
        except DippError as error:
            raise error.renamed("image", name) from None
        return OpenedPicture(source, placed, source.cells(placed.mask(self.margin)))

    def answered(self, name: str, content: bytes, opened: OpenedPicture, unit: Regions) -> RedactedPicture:
        """Return a redacted picture that shows answers about its regions; they are charged before a region is read.

        Args:
            name: Name of the picture, for the record.
            content: File of the picture, by which the odometer knows it.
            opened: The opened picture.
            unit: The unit of its regions.
        """
        fill, source = paint.fill(self.fill, self.model, self.device), opened.source
        denoiser = answers.denoiser_of(fill, self.model, self.device)
        plan, base = plan_of_regions(unit, self.epsilon), answers.base_of(source, opened.cells, fill)
        if self.meter is not None:
            certificate = Certificate.of(plan, Geometry.of(base.shape))
            charging.charge(self.meter, name, content, source, opened.hidden, certificate)
        archive = asking.ask(denoiser, plan, base, source.levels())
        redacted = source.redacted(opened.cells, answers.shown(denoiser, archive, base))
        about = source, opened.placed, opened.cells
        record = Record.of(
            name,
            redacted,
            *about,
            margin=self.margin,
            fill=self.fill,
            model=denoiser.identity,
            archive=archive,
        )
        return RedactedPicture(redacted, record, archive)

    def filled(self, name: str, opened: OpenedPicture) -> RedactedPicture:
        """Return a picture whose regions were replaced without being read; nothing is charged.

        Args:
            name: Name of the picture, for errors.
            opened: The opened picture.
        """
        fill = paint.fill(self.fill, self.model, self.device)
        content = opened.source.redacted(opened.cells, fill)
        model = fill.denoiser.identity if isinstance(fill, paint.Painter) else None
        about = opened.source, opened.placed, opened.cells
        return RedactedPicture(
            content, Record.of(name, content, *about, margin=self.margin, fill=self.fill, model=model)
        )


def left_visible(kinds: Mapping[str, int]) -> str:
    """Return in words how many regions of each kind `--kinds` leaves visible; empty without any."""
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()) if count)
    return f"not hidden, by --kinds: {counts}" if counts else ""


def _epsilon(epsilon: float) -> float:
    """Return ε of regions as a float; raise if it is not a finite number from 0 on."""
    if (
        isinstance(epsilon, bool)
        or not isinstance(epsilon, int | float)
        or not (math.isfinite(epsilon) and epsilon >= 0)
    ):
        raise DippError(
            "epsilon", f"must be 0, which never reads a region, or a finite number above 0, got {epsilon!r}"
        )
    return float(epsilon)


@takes(AskOptions)
def redact(
    image: str | os.PathLike[str] | bytes,
    *,
    regions: str | os.PathLike[str] | Sequence[Any] | np.ndarray[Any, Any],
    **options: Unpack[AskOptions],
) -> RedactedPicture:
    """Replace regions of a picture; the rest of the picture does not change by a bit.

    By default, regions are never read: ε = 0. With `epsilon`, each region answers questions about what it shows, and
    nobody learns more of the region than ε allows. For example::

        redacted = dipp.redact("cat.png", regions=[(10, 8, 6, 5)], margin=1)
        redacted.save("cat-public.png")

    Args:
        image: A JPEG, PNG, TIFF, WebP or DICOM file: its path, or its bytes.
        regions: A file, or a folder of files, that declares regions; or boxes (LEFT, TOP, WIDTH, HEIGHT) in pixels; or
            a mask of shape (H, W), true where something is hidden.
        options: Further keyword arguments, which `AskOptions` describes.

    Returns:
        The file and its record; `save` writes both.

    Raises:
        DippError: The picture, its regions or an option cannot be used.
    """
    redactor = Redactor.of(**options)
    if isinstance(image, bytes):
        path, content = Path("image"), image
    else:
        path = Path(image)
        content = read(path)
    declared = _declared(path, regions, redactor.allow_none)
    return redactor.redact(path.name, content, redactor.chosen(path.name, declared))


def read(path: Path) -> bytes:
    """Return the bytes of a picture's file; raise if it is a folder or cannot be read."""
    if path.is_dir():
        raise DippError(str(path), "is a folder", "give its pictures")
    try:
        return path.read_bytes()
    except OSError as error:
        raise DippError(str(path), f"cannot be read ({error.strerror})") from None


def _declared(path: Path, regions: Any, allow_none: bool) -> DeclaredRegions | None:
    """Return the regions for a picture from a path, boxes, `Region` objects or a mask; None if it has no entry."""
    if isinstance(regions, str | os.PathLike):
        return tracks.declared(formats.load(Path(regions)), [path], None, allow_none=allow_none)[0]
    if isinstance(regions, np.ndarray):
        if regions.ndim != 2:
            raise DippError("regions", f"must be a mask of shape (H, W), got shape {regions.shape}")
        mask = regions.astype(bool)
        height, width = mask.shape
        return DeclaredRegions((Region(Pixels(mask)),) if mask.any() else (), (width, height), False, "regions")
    declared = []
    for region in regions:
        if isinstance(region, Region):
            declared.append(region)
            continue
        try:
            left, top, width, height = (float(number) for number in region)
        except (TypeError, ValueError):
            raise DippError("regions", f"must be boxes (LEFT, TOP, WIDTH, HEIGHT), got {region!s:.60}") from None
        declared.append(Region(Box(left, top, left + width, top + height)))
    return DeclaredRegions(tuple(declared))
