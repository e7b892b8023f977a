"""Presets: named recipes for plans. One sentence describes each.

To add a preset, add an entry to `PRESETS`.
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
"""Default for the largest payload of sensing plans, in bits per pixel, for pictures of up to `FULL_RATE` pixels."""
FULL_RATE = 1 << 20
"""Number of pixels above which the default rate falls.

Neighbours differ less in larger photographs, and a file should not be larger than the JPEG that it was made from. At
this rate most are smaller, except those of skies and other smooth pictures."""


def default_bpp(pixels: int) -> float:
    """Return the default rate of a picture, in payload bits per pixel: 1, and 0.54 for 12 megapixels.

    Above `FULL_RATE` pixels it falls with their fourth root, so that 16 times the pixels take 8 times the bits.
    """
    return float(DEFAULT_BPP * min(1.0, (FULL_RATE / pixels) ** 0.25))


class Plans(Protocol):
    """The interface of all planners."""

    @property
    def geometry(self) -> Geometry:
        """Geometry of the pictures that plans are made for."""

    def choose(self, budget: Budget | None, *, final_timestep: int | None = None, bpp: float | None = None) -> Point:
        """Return the plan of the best expected picture within a budget.

        Args:
            budget: The budget; None for codings without a certificate, which need one of the other arguments.
            final_timestep: Timestep at which the steps end. By default the planner chooses it.
            bpp: Largest payload in bits per pixel. By default that of the planner.

        Raises:
            DippError: An argument is invalid, or no plan keeps the limits.
        """

    def frontier(self, budget: Budget | None) -> tuple[Point, ...]:
        """Return plans of ascending bits and quality within the budget; None is no budget."""


PREFERENCE = 1.3
"""Gain in dB from which pixels are taken to hide an object, in place of a larger unit.

The expected PSNRs of pixels and of larger units were measured on different public pictures. Of plans that tell nothing,
they differ by up to this much. A larger unit promises more, so it is taken where pixels show no more for certain.
"""


@dataclass(frozen=True, eq=False)
class HidingPlanner:
    """A planner that hides objects of a size, for the best expected picture.

    It takes cells or the whole picture, or pixels if these are better by `PREFERENCE`.
    """

    pixels: Plans
    larger: QuestionPlanner

    @property
    def geometry(self) -> Geometry:
        """Geometry of the pictures that plans are made for."""
        return self.larger.geometry

    def choose(self, budget: Budget | None, *, final_timestep: int | None = None, bpp: float | None = None) -> Point:
        """Return the plan of the best expected picture within the budget of the object and the rate.

        Raises:
            DippError: There is no budget, or no plan keeps the limits.
        """
        if budget is None:
            raise DippError("budget", "is missing", "give epsilon, epsilon with delta, or rho")
        best = self.larger.choose(budget, final_timestep=final_timestep, bpp=bpp)
        try:
            other = self.pixels.choose(budget.for_unit(Pixel(), alone=False), bpp=bpp)
        except DippError:  # the share of one pixel is too small for any step
            return best
        better = other.psnr > best.psnr + PREFERENCE
        return other if better and budget.allows(Certificate.of(other.plan, self.geometry)) else best

    def frontier(self, budget: Budget | None) -> tuple[Point, ...]:
        """Return the plans of larger units, in the order of their bits."""
        return self.larger.frontier(budget)


@dataclass(frozen=True)
class Preset(ABC):
    """A named recipe for plans."""

    name: str
    summary: str
    """Description of the preset in one sentence."""
    kind: ClassVar[str]
    """Kind of the steps in the plans for pixels."""

    @property
    def any_unit(self) -> bool:
        """Whether there are plans for units other than a pixel."""
        return False

    @property
    @abstractmethod
    def certified(self) -> bool:
        """Whether the plans have a certificate."""

    @property
    @abstractmethod
    def codings(self) -> tuple[Coding, ...]:
        """The codings that plans may have, for audits that need no model."""

    def planner(
        self,
        denoiser: Denoiser,
        table: ErrorTable,
        budget: Budget | None,
        geometry: Geometry | None = None,
    ) -> Plans:
        """Return the planner for a denoiser.

        Args:
            denoiser: The denoiser.
            table: Its error table.
            budget: The budget, whose unit decides which planner is returned; None for no budget.
            geometry: Geometry of the pictures, or of the latents of a latent model. By default the denoiser's own.

        Raises:
            DippError: The table is of another denoiser, or the denoiser has no plans for the unit of the budget.
        """
        measured = table.provenance.get("model", denoiser.identity)
        if measured != denoiser.identity:
            raise DippError(
                "calibration",
                f"is of the model {measured}, and {denoiser.identity} is loaded",
                "make a table with `dipp calibrate MODEL PUBLIC_PICTURES`, or name one with --calibration",
            )
        planned = geometry or denoiser.geometry()
        if denoiser.latents is not None:
            return self._of_latents(denoiser, denoiser.latents, table, budget, planned)
        pixels = self._planner(denoiser, table, planned)
        if budget is None or (budget.hidden is None and budget.unit == Pixel()):
            return pixels
        books = _words(denoiser)
        if budget.hidden is None:
            return QuestionPlanner(books, planned, (budget.unit,))
        return HidingPlanner(pixels, QuestionPlanner(books, planned, units_of(books)))

    def _of_latents(
        self, denoiser: Denoiser, latents: Latents, table: ErrorTable, budget: Budget | None, geometry: Geometry
    ) -> Plans:
        """Return the planner for latents: of questions to the whole picture, or of uncertified steps."""
        area = latents.factor**2
        if budget is None:
            return replace(self._planner(denoiser, table, geometry), area=area)  # type: ignore[type-var]
        latents.require_unit(Pixel() if budget.hidden is not None else budget.unit)
        return QuestionPlanner(_words(denoiser), geometry, (budget.unit,), area)

    @abstractmethod
    def _planner(self, denoiser: Denoiser, table: ErrorTable, geometry: Geometry) -> Plans:
        """Return the planner of plans for pixels, from a table that was measured with the denoiser."""

    def budget(
        self,
        epsilon: float | None,
        delta: float | None,
        rho: float | None,
        unit: Unit | None = None,
        hidden: Size | None = None,
    ) -> Budget | None:
        """Return the budget that the arguments name; None for a preset without a certificate.

        Args:
            epsilon: Pure ε, or ε of (ε, δ).
            delta: δ of (ε, δ).
            rho: ρ, in place of ε.
            unit: The unit that the budget protects. By default a pixel.
            hidden: Width and height in pixels of the objects that the budget protects, in place of a unit.

        Raises:
            NoCertificateError: The preset has no certificate, and a budget, unit or size was given.
            DippError: Unit and size were both given, or the preset certifies pixels alone.
        """
        if unit is not None and hidden is not None:
            raise DippError("unit and hide", "cannot both be given", "leave out the unit, which hide chooses")
        option = "hide" if hidden is not None else "unit" if (unit or Pixel()) != Pixel() else None
        if not self.any_unit and option is not None:
            reason = "certifies pixels alone" if self.certified else "has no certificate"
            raise DippError(
                option, f"cannot be given, because preset {self.name} {reason}", f"leave out {option}, or the preset"
            )
        if self.certified:
            return Budget(epsilon, delta, rho, unit or Pixel(), hidden)
        if (epsilon, delta, rho) != (None, None, None):
            raise NoCertificateError(
                "preset", f"{self.name} has no certificate and takes no budget", "choose another preset, or no budget"
            )
        return None


@dataclass(frozen=True)
class SensingPreset(Preset):
    """A preset for plans of clipped sensing, with limits of the network calls and of the rate."""

    calls: int
    """Largest number of network calls along the chain."""
    any_unit: bool = False
    kind = SensingStep.kind

    @property
    def certified(self) -> bool:
        """Whether the plans have a certificate, which all codes of sensing have."""
        return True

    @property
    def codings(self) -> tuple[Coding, ...]:
        """The codings of one bit of a pixel at a time, with each code that the planner may take."""
        return SENSED

    def _planner(self, denoiser: Denoiser, table: ErrorTable, geometry: Geometry) -> SensingPlanner:
        if table.residuals is None:
            raise DippError("calibration", "has no residuals of sensing", "make it again with `dipp calibrate`")
        limits = self.calls, default_bpp(geometry.pixels)
        return SensingPlanner(table.residuals, denoiser.schedule, geometry, *limits, coarse=denoiser.any_size)


@dataclass(frozen=True)
class SteppedPreset(Preset):
    """A preset for plans along the timesteps of a diffusion, as in the paper."""

    coding: Coding
    sizes: Sizes
    chains: str
    """Name of the inflation in an error table that was measured on coded chains of this coding."""
    kind = Step.kind

    @property
    def certified(self) -> bool:
        """Whether the coding has a certificate."""
        return self.coding.certified

    @property
    def codings(self) -> tuple[Coding, ...]:
        """The one coding of all plans."""
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
"""All presets by name; the first one is the default."""


def _words(denoiser: Denoiser) -> Books:
    """Return the words of a denoiser and their table of recipes, or raise if it has none."""
    if denoiser.books is None:
        raise DippError(
            "unit", "is larger than a pixel and needs words, which this model lacks", "make them with `dipp words`"
        )
    return denoiser.books


def preset(name: str) -> Preset:
    """Return the preset of this name.

    Raises:
        DippError: There is no such preset.
    """
    if name not in PRESETS:
        raise DippError("preset", f"must be one of {', '.join(PRESETS)}, got {name}")
    return PRESETS[name]
