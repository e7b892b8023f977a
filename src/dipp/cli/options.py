"""Options that several commands share, and `grouped`, which lets a command take them as dataclasses."""

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
        help="Denoiser: a folder or hub id, from `dipp train` or in diffusers' format; or `embedded`.",
        show_default="the denoiser that ships with dipp",
    ),
]
AUTO = "auto"
Device = Annotated[
    str,
    typer.Option(
        help="auto, cuda, mps or cpu; auto is the first available of the others.",
        autocompletion=lambda: list(DEVICES),
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace files that exist already.")]
Calibration = Annotated[
    Path | None, typer.Option(help="Cost table.", show_default="calibration.json beside the weights")
]
Seed = Annotated[
    str | None, typer.Option(help="Public seed, 32 hex digits: for tests, or as your own part beside --beacon.")
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
        "(0:65535). It is recorded: choose it without looking at the pictures.",
    ),
]
EXIT_NOT_COMPARED = 4
"""Exit code if nothing was wrong with a release, but there was no model to compare its plan with."""
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]


def _presets() -> list[str]:
    """Return the names of presets, for completion in a shell."""
    from dipp.planning.presets import PRESETS

    return list(PRESETS)


@dataclass(frozen=True)
class PlanOptions:
    """Options of a plan and its denoiser, which have the names of the fields of `dipp.codec.options.PlanOptions`."""

    epsilon: Annotated[
        float | None,
        typer.Option(
            help="Budget: pure ε, or the ε of (ε, δ). Required, except with --rho or --preset diffc.",
            show_default=False,
        ),
    ] = None
    delta: Annotated[float | None, typer.Option(help="The δ of an (ε, δ) budget.")] = None
    rho: Annotated[float | None, typer.Option(help="Budget as ρ (zCDP), in place of --epsilon.")] = None
    hide: Annotated[
        str | None,
        typer.Option(
            metavar="WxH",
            help="Size of what must stay hidden, in pixels: the budget is for any object up to this size, anywhere.",
        ),
    ] = None
    unit: Annotated[
        str | None,
        typer.Option(
            metavar="pixel|N|picture",
            help="Unit of the budget, in place of --hide: each pixel (the default), each N×N cell, or the picture.",
        ),
    ] = None
    model: Model = EMBEDDED
    preset: Annotated[
        str, typer.Option(help="sharp, swift, paper or diffc (which has no certificate).", autocompletion=_presets)
    ] = "sharp"
    bpp: Annotated[
        float | None,
        typer.Option(
            help="Largest expected number of payload bits per pixel; "
            "1 for sharp and swift (less above 1 megapixel), unless a timestep is given."
        ),
    ] = None
    final_timestep: Annotated[int | None, typer.Option(help="Timestep after which nothing is coded.")] = None
    calibration: Calibration = None
    prompt: Annotated[
        str, typer.Option(help="PUBLIC text for a latent model, recorded in the file. By default empty.")
    ] = ""


WHAT_TO_HIDE = (
    "What to hide: a file, or a folder of files, in dipp's JSON, COCO, YOLO, LabelMe, VOC, CVAT, deid or PNG masks."
)


@dataclass(frozen=True)
class HidingOptions:
    """Options that determine how regions are hidden."""

    margin: Annotated[
        str, typer.Option(help="How far regions grow on each side: pixels, or a percentage of their size such as 10%.")
    ] = "0"
    kinds: Annotated[
        str | None, typer.Option(help="Kinds of regions to hide, such as face,plate.", show_default="all")
    ] = None
    fill: Annotated[
        str, typer.Option(help="What replaces regions: paint continues the surroundings, grey and black are plain.")
    ] = "paint"
    boxes: Annotated[
        str | None,
        typer.Option(
            help="For pictures with an EXIF orientation: boxes lie in the stored (raw) or the shown (oriented) picture."
        ),
    ] = None
    allow_none: Annotated[
        bool, typer.Option("--allow-none", help="Release pictures without regions too: they have nothing to hide.")
    ] = False
    accept_lossy: Annotated[
        bool,
        typer.Option(
            "--accept-lossy",
            help="Accept lossy WebP, AVIF, HEIC and JPEG 2000, where pixels outside may tell of a region.",
        ),
    ] = False
    gaps: Annotated[
        str | None,
        typer.Option(
            help="The pictures are frames of a video, in the order of their names. If a region is missing between two "
            "frames: refuse, or cover its way."
        ),
    ] = None


@dataclass(frozen=True)
class OdometerOptions:
    """Options of the odometer, which adds up the prices of all releases of a picture."""

    odometer: Annotated[
        bool, typer.Option(help="Add up what your releases of each picture cost, for this user on this machine.")
    ] = True
    odometer_limit: Annotated[
        float | None,
        typer.Option(help="Largest ε (at --delta, if given) that all releases of a picture may cost together."),
    ] = None
    odometer_size: Annotated[
        str | None,
        typer.Option(
            help="WIDTHxHEIGHT: apply --odometer-limit to any object of this size.",
            show_default="the size of --hide, or a single pixel",
        ),
    ] = None
    odometer_begin: Annotated[
        bool,
        typer.Option(
            "--odometer-begin", help="Allow --odometer-limit with a new odometer, which knows no release yet."
        ),
    ] = False
    odometer_names: Annotated[
        bool, typer.Option("--odometer-names", help="Keep the names of pictures in the odometer.")
    ] = False

    def meter(self, delta: float | None) -> Meter | None:
        """Return the meter that these options describe; None with --no-odometer.

        Args:
            delta: δ at which the limit is stated; None for pure ε.

        Raises:
            DippError: An option of the odometer is given together with --no-odometer.
        """
        from dipp.core.units import parse_size
        from dipp.odometer import Meter

        if self.odometer:
            size = None if self.odometer_size is None else parse_size(self.odometer_size, "odometer_size")
            return Meter(self.odometer_limit, delta, self.odometer_names, self.odometer_begin, size=size)
        if (self.odometer_limit, self.odometer_size) != (None, None) or self.odometer_names or self.odometer_begin:
            raise DippError(
                "odometer-limit, odometer-size, odometer-begin and odometer-names",
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
            help="Denoiser whose cost table the plan is compared with; its table and configs are enough.",
            show_default="the denoiser that ships with dipp, if the file names it",
        ),
    ] = None
    calibration: Calibration = None

    @property
    def given(self) -> bool:
        """Whether a model or a table was named."""
        return self.model is not None or self.calibration is not None

    def against(self) -> Reference:
        """Return the model and the table that a release is compared with."""
        from dipp.attest.checks import Reference

        return Reference(self.model, self.calibration)


def require_drawing(option: str, path: Path, *, overwrite: bool) -> None:
    """Raise if a plot does not end in .png, cannot be written, or would replace a file.

    Args:
        option: Name of the option, for the error.
        path: File of the plot.
        overwrite: Whether an existing file may be replaced.
    """
    if path.suffix.lower() != ".png":
        raise DippError(option, f"must end in .png, got {path.name}")
    files.require_writable(path)
    files.require_new(path, overwrite=overwrite)


def public_seed(text: str | None) -> bytes | None:
    """Return the public seed that a text of hex digits states; None for None."""
    return None if text is None else randomness.parse_seed(text)


def given(*groups: Any) -> dict[str, Any]:
    """Return the values of option dataclasses by name, as keyword arguments for the function of the library."""
    return {field.name: getattr(group, field.name) for group in groups for field in dataclasses.fields(group)}


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command in which typer sees each field of an option dataclass as an option of its own."""
    hints, flat = get_type_hints(command, include_extras=True), []
    groups: dict[str, Any] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        kind = hints[name]
        if dataclasses.is_dataclass(kind):
            groups[name] = kind
            inner = get_type_hints(kind, include_extras=True)
            flat += [(field.name, field.default, inner[field.name]) for field in dataclasses.fields(kind)]
        else:
            flat.append((name, parameter.default, kind))

    @functools.wraps(command)
    def run(**values: Any) -> None:
        for name, kind in groups.items():
            values[name] = kind(**{field.name: values.pop(field.name) for field in dataclasses.fields(kind)})
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
