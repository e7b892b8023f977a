"""Presets: recipes for plans. What a preset is must fit in one sentence.

To add a preset is to name it in `PRESETS`.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Protocol

from dipp.codes import Flat, Functional, Pairs, StepLimited
from dipp.core.channels import Gaussian, Laplace, Sign
from dipp.core.geometry import Geometry
from dipp.core.latents import Latents
from dipp.core.plan import Coding
from dipp.core.steps import SensingStep, Step
from dipp.core.unit import Size, Unit
from dipp.core.units import Pixel
from dipp.errors import DippError, NoCertificateError
from dipp.models.books import Books
from dipp.models.denoiser import Denoiser
from dipp.models.diffusion import NoiseSchedule
from dipp.planning.planner import Planner, Point, Sizes
from dipp.planning.questions import QuestionPlanner, units_of
from dipp.planning.sensing import SensingPlanner
from dipp.planning.table import ErrorTable
from dipp.privacy.budget import Budget
from dipp.privacy.certificate import Certificate

PAPER = Coding(Laplace(), StepLimited(Fraction(2)))
DIFFC = Coding(Gaussian(), Functional())
SENSED = tuple(Coding(Sign(period=12), code) for code in (Pairs(), Flat(), StepLimited(Fraction(2))))
"""Codings of sensing with four groups a pass, one for each code that the planner may take."""
DEFAULT_BPP = 1.0
"""Payload bits per pixel of sensing plans, at most and by default: of pictures up to `FULL_RATE` pixels."""
FULL_RATE = 1 << 20
"""Pixels from which on the default rate falls. Neighbours differ less in larger photographs, and a file must not be
larger than the JPEG that it was made from."""


def default_bpp(pixels: int) -> float:
    """Return the default rate of a picture, in payload bits per pixel: 1, and 0.54 for 12 megapixels.

    Above `FULL_RATE` pixels it falls with their fourth root, so that 16 times the pixels take 8 times the bits.
    """
    return float(DEFAULT_BPP * min(1.0, (FULL_RATE / pixels) ** 0.25))


class Plans(Protocol):
    """What every planner offers."""

    @property
    def geometry(self) -> Geometry:
        """Geometry of the pictures that it plans for."""

    def choose(self, budget: Budget | None, *, final_timestep: int | None = None, bpp: float | None = None) -> Point:
        """The plan of the best expected picture within the budget, and within a rate or to a timestep, if given."""

    def frontier(self, budget: Budget | None) -> tuple[Point, ...]:
        """Plans of ascending bits and quality within the budget."""


@dataclass(frozen=True, eq=False)
class HidingPlanner:
    """Finds plans that hide any object of a size: pixels, cells or the picture, whichever promises the best picture."""

    pixels: Plans
    larger: QuestionPlanner

    @property
    def geometry(self) -> Geometry:
        """Geometry of the pictures that it plans for."""
        return self.larger.geometry

    def choose(self, budget: Budget | None, *, final_timestep: int | None = None, bpp: float | None = None) -> Point:
        """Find the plan of the best expected picture within the budget of the object and the rate."""
        if budget is None:
            raise DippError("budget", "give epsilon, epsilon with delta, or rho")
        best = self.larger.choose(budget, final_timestep=final_timestep, bpp=bpp)
        try:
            other = self.pixels.choose(budget.for_unit(Pixel(), alone=False), bpp=bpp)
        except DippError:  # so small a share that no step can be paid
            return best
        return other if other.psnr > best.psnr and budget.allows(Certificate.of(other.plan, self.geometry)) else best

    def frontier(self, budget: Budget | None) -> tuple[Point, ...]:
        """Return the plans of larger units, in the order of their bits."""
        return self.larger.frontier(budget)


@dataclass(frozen=True)
class Preset(ABC):
    """How plans are made."""

    name: str
    summary: str
    """What it is, in one sentence."""
    kind: ClassVar[str]
    """Kind of the steps of its plans for pixels."""

    @property
    def any_unit(self) -> bool:
        """Whether it has plans for units other than a pixel."""
        return False

    @property
    @abstractmethod
    def certified(self) -> bool:
        """Whether its plans have a certificate."""

    @property
    @abstractmethod
    def codings(self) -> tuple[Coding, ...]:
        """The codings that its plans may have, for audits that need no model."""

    def planner(
        self,
        denoiser: Denoiser,
        table: ErrorTable,
        budget: Budget | None,
        geometry: Geometry | None = None,
    ) -> Plans:
        """Return the planner within a budget, for pictures of a geometry, by default of the denoiser's own size.

        The pictures of a latent model are latents: the geometry is theirs.
        """
        measured = table.provenance.get("model", denoiser.identity)
        if measured != denoiser.identity:
            raise DippError(
                "calibration",
                f"made for the model {measured}, but {denoiser.identity} is loaded",
                "measure that with `dipp calibrate MODEL PUBLIC_PICTURES`, or name its table with --calibration",
            )
        own = geometry or denoiser.geometry()
        if denoiser.latents is not None:
            return self._of_latents(denoiser, denoiser.latents, table, budget, own)
        pixels = self._planner(denoiser, table, own)
        if budget is None or (budget.hidden is None and budget.unit == Pixel()):
            return pixels
        books = _words(denoiser)
        if budget.hidden is None:
            return QuestionPlanner(books, own, (budget.unit,))
        return HidingPlanner(pixels, QuestionPlanner(books, own, units_of(books)))

    def _of_latents(
        self, denoiser: Denoiser, latents: Latents, table: ErrorTable, budget: Budget | None, geometry: Geometry
    ) -> Plans:
        """Return the planner for latents: of questions to the whole picture, or of steps that certify nothing."""
        area = latents.factor**2
        if budget is None:
            return replace(self._planner(denoiser, table, geometry), area=area)  # type: ignore[type-var]
        latents.require_unit(Pixel() if budget.hidden is not None else budget.unit)
        return QuestionPlanner(_words(denoiser), geometry, (budget.unit,), area)

    @abstractmethod
    def _planner(self, denoiser: Denoiser, table: ErrorTable, geometry: Geometry) -> Plans:
        """Return the planner on a table that was measured for the model."""

    def budget(
        self,
        epsilon: float | None,
        delta: float | None,
        rho: float | None,
        unit: Unit | None = None,
        hidden: Size | None = None,
    ) -> Budget | None:
        """Return the budget that binds: pure ε, (ε, δ) or ρ; None for a preset that has no certificate.

        Args:
            epsilon: Pure ε, or ε of (ε, δ).
            delta: δ of (ε, δ).
            rho: ρ, in place of ε.
            unit: What may be charged so much; by default a pixel.
            hidden: Width and height of the objects that may be charged so much, in place of a unit.

        Raises:
            NoCertificateError: The preset has no certificate, and a budget, unit or size was given.
            DippError: Unit and size were both given, or the preset certifies pixels alone.
        """
        if unit is not None and hidden is not None:
            raise DippError("unit, hide", "give one of them", "hide chooses the unit")
        option = "hide" if hidden is not None else "unit" if (unit or Pixel()) != Pixel() else None
        if not self.any_unit and option is not None:
            said = "certifies pixels alone" if self.certified else "has no certificate"
            raise DippError(option, f"preset {self.name} {said}", f"leave out the preset, or {option}")
        if self.certified:
            return Budget(epsilon, delta, rho, unit or Pixel(), hidden)
        if (epsilon, delta, rho) != (None, None, None):
            raise NoCertificateError(
                "preset", f"{self.name} has no certificate, so no budget can bind it", "use another"
            )
        return None


@dataclass(frozen=True)
class SensingPreset(Preset):
    """Plans of clipped sensing, with a default limit of network calls and of the rate."""

    calls: int
    """Network calls along the chain, at most."""
    any_unit: bool = False
    kind = SensingStep.kind

    @property
    def certified(self) -> bool:
        """All of its codes are."""
        return True

    @property
    def codings(self) -> tuple[Coding, ...]:
        """One bit of a pixel at a time, under each of the codes that the planner may take."""
        return SENSED

    def _planner(self, denoiser: Denoiser, table: ErrorTable, geometry: Geometry) -> SensingPlanner:
        if table.residuals is None:
            raise DippError("calibration", "made before there was sensing", "make it anew with `dipp calibrate`")
        own = denoiser.schedule, geometry, self.calls, default_bpp(geometry.pixels)
        return SensingPlanner(table.residuals, *own, coarse=denoiser.any_size)


@dataclass(frozen=True)
class SteppedPreset(Preset):
    """Plans along the timesteps of a diffusion, as the paper has them."""

    coding: Coding
    sizes: Sizes
    chains: str
    """The name under which a cost table keeps what coded chains of this coding showed."""
    kind = Step.kind

    @property
    def certified(self) -> bool:
        """Whether its coding has a certificate."""
        return self.coding.certified

    @property
    def codings(self) -> tuple[Coding, ...]:
        """Its one coding."""
        return (self.coding,)

    def _planner(self, denoiser: Denoiser, table: ErrorTable, geometry: Geometry) -> Planner:
        return self._cached(denoiser.schedule, table, geometry)

    # Cached, because the edges of a planner take most of the time, and are the same for many budgets.
    @functools.lru_cache(maxsize=4)  # noqa: B019 - presets are frozen and few
    def _cached(self, schedule: NoiseSchedule, table: ErrorTable, geometry: Geometry) -> Planner:
        return Planner(schedule, table, self.coding, self.chains, geometry, sizes=self.sizes)


PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        SensingPreset("sharp", "The best picture within ε and within the rate, by whichever code gives it.", 19, True),
        SensingPreset("swift", "The same in at most four network calls along the chain.", calls=4),
        SteppedPreset(
            "paper",
            "Laplace noise and step-limited PPR at α = 2, as in the paper.",
            PAPER,
            Sizes(16, 2.0),
            chains="paper",
        ),
        SteppedPreset("diffc", "Gaussian noise and α = ∞: no certificate.", DIFFC, Sizes(16, 2.0), chains="diffc"),
    )
}
"""The default first."""


def _words(denoiser: Denoiser) -> Books:
    """Return the words of a denoiser, with the table of questions, or raise if it has none."""
    if denoiser.books is None:
        raise DippError(
            "unit", "this model has no words, which units larger than a pixel need", "make them with `dipp words`"
        )
    return denoiser.books


def preset(name: str) -> Preset:
    """The preset of a name."""
    if name not in PRESETS:
        raise DippError("preset", f"one of {', '.join(PRESETS)} is needed, got {name}")
    return PRESETS[name]
