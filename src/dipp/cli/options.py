"""Options that several commands share, and `grouped`, with which a command takes them as dataclasses."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from dipp import files
from dipp.core import randomness
from dipp.errors import DippError
from dipp.models.denoiser import DEVICES
from dipp.models.embedded import FOLDER

if TYPE_CHECKING:
    from dipp.attest.checks import Reference
    from dipp.odometer import Meter

EMBEDDED = str(FOLDER)
"""Folder of the denoiser that ships with dipp."""

Model = Annotated[
    str,
    typer.Option(
        help="Folder or hub id of a denoiser: one that `dipp train` wrote, or in diffusers' format; or `embedded`.",
        show_default="the one that ships with dipp",
    ),
]
AUTO = "auto"
Device = Annotated[
    str,
    typer.Option(
        help="auto, cuda, mps or cpu; auto is the first of the others that is there.",
        autocompletion=lambda: list(DEVICES),
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]
Calibration = Annotated[Path | None, typer.Option(help="Cost table, if not calibration.json beside the weights.")]
Seed = Annotated[
    str | None, typer.Option(help="Public seed, 32 hex digits: for tests, or your own part beside --beacon.")
]
BeaconRound = Annotated[
    str | None,
    typer.Option("--beacon", help="ROUND:VALUE of a public random beacon, mixed into the public seed and recorded."),
]
SourceWindow = Annotated[
    str | None,
    typer.Option(
        "--window",
        help="For pictures of more than eight bits: LOW:HIGH, the stored values that become black and white, or full "
        "(0:65535). Recorded; choose it without looking at the pictures.",
    ),
]
EXIT_NOT_COMPARED = 4
"""Exit code of commands that found nothing wrong with a release, but had no model to compare its plan with."""
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]


def _presets() -> list[str]:
    """Names to complete."""
    from dipp.planning.presets import PRESETS

    return list(PRESETS)


@dataclass(frozen=True)
class PlanOptions:
    """A denoiser, and what a plan is made from: the same names as in `dipp.codec.options.PlanOptions`."""

    epsilon: Annotated[
        float | None,
        typer.Option(
            help="Budget: pure ε, or ε of (ε, δ). Required, except with --rho or --preset diffc.",
            show_default=False,
        ),
    ] = None
    delta: Annotated[float | None, typer.Option(help="δ of an (ε, δ) budget.")] = None
    rho: Annotated[float | None, typer.Option(help="Budget as ρ (zCDP), in place of --epsilon.")] = None
    hide: Annotated[
        str | None,
        typer.Option(
            metavar="WxH",
            help="What must stay hidden: the budget is for any object of at most this many pixels, wherever it lies.",
        ),
    ] = None
    unit: Annotated[
        str | None,
        typer.Option(
            metavar="pixel|N|picture",
            help="What the budget is for, in place of --hide: each pixel (the default), each N×N cell, or the picture.",
        ),
    ] = None
    model: Model = EMBEDDED
    preset: Annotated[
        str, typer.Option(help="sharp, swift, paper or diffc (which has no certificate).", autocompletion=_presets)
    ] = "sharp"
    bpp: Annotated[
        float | None,
        typer.Option(
            help="Most payload bits per pixel, as expected from public images; "
            "1 for sharp and swift (less above 1 megapixel), unless a timestep is given."
        ),
    ] = None
    final_timestep: Annotated[int | None, typer.Option(help="Timestep at which the coded steps end.")] = None
    calibration: Calibration = None
    prompt: Annotated[
        str, typer.Option(help="PUBLIC text that a latent model is told, recorded in the file. By default none.")
    ] = ""


WHAT_TO_HIDE = (
    "What to hide: a file or a folder of files in dipp's JSON, COCO, YOLO, LabelMe, VOC, CVAT, deid, or PNG masks."
)


@dataclass(frozen=True)
class HidingOptions:
    """Options that determine how regions are hidden."""

    margin: Annotated[str, typer.Option(help="Grow regions: pixels, or a percentage of their size as 10%.")] = "0"
    kinds: Annotated[str | None, typer.Option(help="Hide these kinds alone, such as face,plate.")] = None
    fill: Annotated[str, typer.Option(help="paint continues the surroundings; grey and black are plain.")] = "paint"
    boxes: Annotated[
        str | None,
        typer.Option(help="For pictures with an EXIF orientation: boxes as stored (raw) or as shown (oriented)."),
    ] = None
    allow_none: Annotated[
        bool, typer.Option("--allow-none", help="Pictures without an entry have nothing to hide.")
    ] = False
    accept_lossy: Annotated[
        bool,
        typer.Option(
            "--accept-lossy", help="Take lossy WebP, AVIF, HEIC and JPEG 2000: pixels outside may tell of a region."
        ),
    ] = False
    gaps: Annotated[
        str | None,
        typer.Option(
            help="The pictures are frames, in the order of their names: refuse a region that is missing between two "
            "frames, or cover its way."
        ),
    ] = None


@dataclass(frozen=True)
class OdometerOptions:
    """Options of what is counted over all releases of a picture."""

    odometer: Annotated[
        bool, typer.Option(help="Add up what your releases of each picture cost, for this user on this machine.")
    ] = True
    odometer_limit: Annotated[
        float | None,
        typer.Option(help="Most ε (at --delta, if given) that all releases of a picture may cost."),
    ] = None
    odometer_size: Annotated[
        str | None,
        typer.Option(
            help="WIDTHxHEIGHT: let --odometer-limit be about any object of this size.",
            show_default="the size of --hide, or a single pixel",
        ),
    ] = None
    odometer_begin: Annotated[
        bool,
        typer.Option("--odometer-begin", help="Let --odometer-limit begin a new odometer, which knows no release yet."),
    ] = False
    odometer_names: Annotated[
        bool, typer.Option("--odometer-names", help="Keep the names of the pictures in the odometer.")
    ] = False

    def meter(self, delta: float | None) -> Meter | None:
        """The odometer for these options; None if nothing is counted."""
        from dipp.core.units import parse_size
        from dipp.odometer import Meter

        if self.odometer:
            size = None if self.odometer_size is None else parse_size(self.odometer_size)
            return Meter(self.odometer_limit, delta, self.odometer_names, self.odometer_begin, size=size)
        if (self.odometer_limit, self.odometer_size) != (None, None) or self.odometer_names or self.odometer_begin:
            raise DippError(
                "odometer-limit, odometer-size, odometer-begin, odometer-names",
                "need the odometer",
                "leave out --no-odometer",
            )
        return None


@dataclass(frozen=True)
class ComparedOptions:
    """Options that name the model with whose public table the plan of a release is compared."""

    model: Annotated[
        str | None,
        typer.Option(
            help="Denoiser to compare the plan with; its table and configs are enough.",
            show_default="the one that ships with dipp, if the file names it",
        ),
    ] = None
    calibration: Calibration = None

    @property
    def given(self) -> bool:
        """Whether a model or a table was named."""
        return self.model is not None or self.calibration is not None

    def against(self) -> Reference:
        """Return what a release is compared with."""
        from dipp.attest.checks import Reference

        return Reference(self.model, self.calibration)


def require_drawing(option: str, path: Path, *, overwrite: bool) -> None:
    """Refuse a drawing that is no PNG by its name, cannot be written, or would replace something, before any work."""
    if path.suffix.lower() != ".png":
        raise DippError(option, f"must end in .png, got {path.name}")
    files.require_writable(path)
    files.require_new(path, overwrite=overwrite)


def public_seed(text: str | None) -> bytes | None:
    """The public seed from its hex digits; None if none was given."""
    return None if text is None else randomness.parse_seed(text)


def given(*groups: Any) -> dict[str, Any]:
    """Return the values of dataclasses of options by name, as keywords of the function in Python."""
    return {one.name: getattr(group, one.name) for group in groups for one in dataclasses.fields(group)}


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take dataclasses of options: to typer, each of their fields is an option of its own."""
    hints, flat = get_type_hints(command, include_extras=True), []
    groups: dict[str, Any] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        kind = hints[name]
        if dataclasses.is_dataclass(kind):
            groups[name] = kind
            inner = get_type_hints(kind, include_extras=True)
            flat += [(one.name, one.default, inner[one.name]) for one in dataclasses.fields(kind)]
        else:
            flat.append((name, parameter.default, kind))

    @functools.wraps(command)
    def run(**values: Any) -> None:
        for name, kind in groups.items():
            values[name] = kind(**{one.name: values.pop(one.name) for one in dataclasses.fields(kind)})
        command(**values)

    # A dataclass field without a default becomes a required parameter.
    absent = (inspect.Parameter.empty, dataclasses.MISSING)
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if default in absent else default,
                annotation=kind,
            )
            for name, default, kind in flat
        ]
    )
    run.__annotations__ = {name: kind for name, _, kind in flat}
    return run
