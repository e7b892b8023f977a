"""Presets: recipes for plans. What a preset is must fit in one sentence.

To add a preset is to name it in `PRESETS`.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Protocol

from dipp.codes import Flat, Functional, Pairs, StepLimited
from dipp.core.channels import Gaussian, Laplace, Sign
from dipp.core.geometry import Geometry
from dipp.core.plan import Coding
from dipp.core.steps import SensingStep, Step
from dipp.errors import DippError, NoCertificateError
from dipp.models.denoiser import Denoiser
from dipp.models.diffusion import NoiseSchedule
from dipp.planning.planner import Planner, Point, Sizes
from dipp.planning.sensing import SensingPlanner
from dipp.planning.table import ErrorTable
from dipp.privacy.budget import Budget

PAPER = Coding(Laplace(), StepLimited(Fraction(2)))
DIFFC = Coding(Gaussian(), Functional())
SENSED = tuple(Coding(Sign(period=12), code) for code in (Pairs(), Flat(), StepLimited(Fraction(2))))
"""Codings of sensing with four groups a pass, one for each code that the planner may take."""
DEFAULT_BPP = 1.0
"""Payload bits per pixel of sensing plans, at most, unless told."""


class Plans(Protocol):
    """What every planner offers."""

    @property
    def geometry(self) -> Geometry:
        """Geometry of the pictures that it plans for."""

    def choose(self, budget: Budget | None, *, final_timestep: int | None = None, bpp: float | None = None) -> Point:
        """The plan of the best expected picture within the budget, and within a rate or to a timestep, if given."""

    def frontier(self, budget: Budget | None) -> tuple[Point, ...]:
        """Plans of ascending bits and quality within the budget."""


@dataclass(frozen=True)
class Preset(ABC):
    """How plans are made."""

    name: str
    summary: str
    """What it is, in one sentence."""
    kind: ClassVar[str]
    """Kind of the steps of its plans."""

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
        budget: Budget | None,  # noqa: ARG002 - for presets whose sizes depend on it
        geometry: Geometry | None = None,
    ) -> Plans:
        """Return the planner within a budget, for pictures of a geometry, by default of the denoiser's own size."""
        measured = table.provenance.get("model", denoiser.identity)
        if measured != denoiser.identity:
            raise DippError(
                f"calibration: made for the model {measured}, but {denoiser.identity} is loaded; measure that with "
                "`dipp calibrate MODEL PUBLIC_PICTURES`, or name its table with --calibration"
            )
        return self._planner(denoiser.schedule, table, geometry or denoiser.geometry())

    @abstractmethod
    def _planner(self, schedule: NoiseSchedule, table: ErrorTable, geometry: Geometry) -> Plans:
        """Return the planner on a table that was measured for the model."""

    def budget(self, epsilon: float | None, delta: float | None, rho: float | None) -> Budget | None:
        """The budget that binds: pure ε, (ε, δ) or ρ; None for a preset that has no certificate."""
        if self.certified:
            return Budget(epsilon, delta, rho)
        if (epsilon, delta, rho) != (None, None, None):
            raise NoCertificateError(f"preset: {self.name} has no certificate, so no budget can bind it; use another")
        return None


@dataclass(frozen=True)
class SensingPreset(Preset):
    """Plans of clipped sensing, in so many network calls and within a rate unless told otherwise."""

    calls: int
    """Network calls along the chain, at most."""
    kind = SensingStep.kind

    @property
    def certified(self) -> bool:
        """All of its codes are."""
        return True

    @property
    def codings(self) -> tuple[Coding, ...]:
        """One bit of a pixel at a time, under each of the codes that the planner may take."""
        return SENSED

    def _planner(self, schedule: NoiseSchedule, table: ErrorTable, geometry: Geometry) -> SensingPlanner:
        if table.residuals is None:
            raise DippError("calibration: made before there was sensing; make it anew with `dipp calibrate`")
        return SensingPlanner(table.residuals, schedule, geometry, self.calls, DEFAULT_BPP)


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
        """As its coding is."""
        return self.coding.certified

    @property
    def codings(self) -> tuple[Coding, ...]:
        """Its one coding."""
        return (self.coding,)

    # Cached, because the edges of a planner take most of the time, and are the same for many budgets.
    @functools.lru_cache(maxsize=4)  # noqa: B019 - presets are frozen and few
    def _planner(self, schedule: NoiseSchedule, table: ErrorTable, geometry: Geometry) -> Planner:
        return Planner(schedule, table, self.coding, self.chains, geometry, sizes=self.sizes)


PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        SensingPreset("sharp", "The best picture within ε and within the rate, by whichever code gives it.", calls=19),
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


def preset(name: str) -> Preset:
    """The preset of a name."""
    if name not in PRESETS:
        raise DippError(f"preset: one of {', '.join(PRESETS)} is needed, got {name}")
    return PRESETS[name]
