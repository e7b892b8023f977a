"""Options that several public functions share, and the plan that follows from them.

A public function declares its options as `**options: Unpack[EncodeOptions]`, so that type checkers and editors know
every name and type. To add an option, add a line to a class here, and one to `cli/options.py` for the command.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, TypeVar, Unpack, cast

from dipp import models
from dipp.core import units
from dipp.core.beacon import Beacon
from dipp.core.geometry import Geometry
from dipp.core.unit import Size, Unit
from dipp.core.window import Window
from dipp.errors import DippError
from dipp.models import embedded
from dipp.models.denoiser import Denoiser
from dipp.odometer import Meter
from dipp.planning import presets
from dipp.planning.planner import Point
from dipp.planning.presets import Plans
from dipp.planning.table import ErrorTable
from dipp.privacy.budget import Budget, is_whole

if TYPE_CHECKING:
    import torch

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT_PRESET = "sharp"
"""Name of the preset that is used by default."""


class PlanOptions(TypedDict, total=False):
    """Options from which a plan is made: the budget, its unit, and how to spend it."""

    epsilon: float | None
    """Budget as pure ε, or as ε of (ε, δ) with `delta`. Required, except with `rho` or preset "diffc"."""
    delta: float | None
    """δ of an (ε, δ) budget."""
    rho: float | None
    """Budget as ρ (zCDP), in place of `epsilon`."""
    hide: tuple[int, int] | str | None
    """Width and height in pixels, (64, 64) or "64x64", of objects that the budget hides, wherever they lie."""
    unit: Unit | int | str | None
    """Unit that the budget hides: "pixel" (the default), the side of a square cell in pixels, or "picture"."""
    preset: str
    """Name of the recipe of the plan: "sharp" (the default), "swift", "paper", or "diffc" without a certificate."""
    bpp: float | None
    """Largest number of payload bits per pixel, as expected from public pictures. By default 1 for "sharp" and
    "swift", and less above 1 megapixel: 0.54 at 12 megapixels."""
    final_timestep: int | None
    """Timestep at which the coded steps end."""
    calibration: str | Path | None
    """Path of the denoiser's public cost table. By default calibration.json beside the weights."""
    prompt: str
    """PUBLIC text that conditions a latent model, recorded in the file. By default empty."""


class RunOptions(TypedDict, total=False):
    """Options that encoding, privatising and redacting share."""

    model: str | Path
    """Folder or hub id of a denoiser. By default the denoiser that ships with dipp."""
    device: str | torch.device
    """Device of the denoiser: "auto" (the default), "cuda", "mps" or "cpu"."""
    odometer: bool | Meter
    """True (the default) charges this user's odometer. A `Meter` names another or sets a limit. False charges none."""


class EncodeOptions(PlanOptions, RunOptions, total=False):
    """All options of encoding: those of the plan, those of the run, and the following."""

    seed: bytes | None
    """Public seed of 16 bytes, for tests. By default it is drawn. With a beacon, your part of the seed."""
    beacon: Beacon | str | None
    """Round of a public random beacon, "ROUND:VALUE" with the value in hex digits, which is mixed into the seed."""
    window: Window | str | tuple[int, int] | None
    """Values that become black and white in pictures of more than eight bits: (low, high), "LOW:HIGH" or "full"."""
    progress: bool
    """Whether a terminal shows a progress bar, by default True."""


def takes(options: type) -> Callable[[F], F]:
    """Return a decorator for a function whose keyword arguments are the keys of a TypedDict.

    The decorated function raises TypeError for any other keyword, and `help` and `inspect.signature` show every key
    with its type.

    Args:
        options: The TypedDict.
    """
    names: dict[str, Any] = options.__annotations__

    def decorated(function: F) -> F:
        parameters = inspect.signature(function).parameters.values()
        plain = [parameter for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]
        keyword = inspect.Parameter.KEYWORD_ONLY
        keywords_only = [
            inspect.Parameter(n, keyword, default=..., annotation=a.__forward_arg__) for n, a in names.items()
        ]

        @functools.wraps(function)
        def checked(*values: Any, **keywords: Any) -> Any:
            if unknown := keywords.keys() - signature.parameters.keys():
                raise TypeError(f"{function.__name__}() got an unexpected keyword argument {min(unknown)!r}")
            return function(*values, **keywords)

        signature = inspect.signature(function).replace(parameters=[*plain, *keywords_only])
        checked.__signature__ = signature  # type: ignore[attr-defined]
        return cast(F, checked)

    return decorated


class PlannedEncoding(NamedTuple):
    """A plan, with the denoiser, the planner and the budget that it was made with."""

    denoiser: Denoiser
    """The denoiser that the plan is made for."""
    planner: Plans
    """The planner that chose the plan."""
    budget: Budget | None
    """The budget; None for a preset without a certificate."""
    point: Point
    """The plan, with its expected rate and quality."""


def planned(
    model: str | Path = embedded.FOLDER,
    device: str | torch.device = "auto",
    size: tuple[int, int] | None = None,
    **plan: Unpack[PlanOptions],
) -> PlannedEncoding:
    """Return the plan of the best expected picture within a budget.

    Args:
        model: Folder or hub id of a denoiser. By default the denoiser that ships with dipp.
        device: "auto", "cuda", "mps" or "cpu".
        size: Height and width of the smallest picture. By default the denoiser's own size.
        plan: The budget, preset, rate and cost table.

    Raises:
        DippError: An argument is invalid, or no plan keeps the budget.
    """
    if size is not None and not (isinstance(size, tuple) and len(size) == 2 and all(map(is_whole, size))):
        raise DippError("size", f"must be (height, width) in whole numbers, got {size!r}")
    recipe = presets.preset(plan.get("preset", DEFAULT_PRESET))
    unit, hidden = _unit(plan.get("unit")), object_size(plan.get("hide"))
    budget = recipe.budget(plan.get("epsilon"), plan.get("delta"), plan.get("rho"), unit, hidden)
    denoiser = models.load(model, device, plan.get("prompt", ""))
    table = ErrorTable.of_model(model, plan.get("calibration"))
    geometry = None if size is None else denoiser.geometry_of(Geometry(*size, denoiser.colours))
    planner = recipe.planner(denoiser, table, budget, geometry)
    point = planner.choose(budget, final_timestep=plan.get("final_timestep"), bpp=plan.get("bpp"))
    return PlannedEncoding(denoiser, planner, budget, point)


def _unit(unit: Unit | int | str | None) -> Unit | None:
    """Return the unit that a caller named by a word or by the side of cells, or raise if it is neither."""
    if unit is None or isinstance(unit, Unit):
        return unit
    if not isinstance(unit, str) and not is_whole(unit):
        raise DippError("unit", f'must be "pixel", the side of square cells or "picture", got {unit!r:.40}')
    return units.parse(str(unit))


def object_size(size: tuple[int, int] | str | None) -> Size | None:
    """Return the size of hidden objects that a caller named.

    Args:
        size: (width, height) in pixels, text such as "64x64", or None.

    Returns:
        Width and height in pixels, or None.

    Raises:
        DippError: The size is of another form.
    """
    if size is None:
        return None
    if isinstance(size, str):
        return units.parse_size(size, "hide")
    if not (isinstance(size, tuple) and len(size) == 2 and all(map(is_whole, size))):
        raise DippError("hide", f'must be (width, height) in pixels, or "64x64", got {size!r:.40}')
    return int(size[0]), int(size[1])


def plan_of(options: EncodeOptions) -> PlanOptions:
    """Return the options of the plan among all options of encoding."""
    return cast(PlanOptions, {name: value for name, value in options.items() if name in PlanOptions.__annotations__})
