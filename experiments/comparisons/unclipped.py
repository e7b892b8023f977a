"""Presets along timesteps with the sign channel: `sharp`, `swift` and `thrifty` as they were before clipping.

`sharp` has a *rival*: a preset with another code on the same channel, which takes fewer bits and more privacy. For
each final timestep the planner takes the plan with fewer bits: the rival's if the rate is the limit, and its own near
the best quality, where only that is within the budget. Only bits decide, although coded chains of the two codes may
differ by a tenth of a dB or two at one timestep.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import cast

from dipp.codes import Flat, StepLimited
from dipp.core.channels import Sign
from dipp.core.geometry import Geometry
from dipp.core.plan import Coding
from dipp.errors import DippError
from dipp.models.denoiser import Denoiser
from dipp.planning.planner import Planner, Point, Sizes
from dipp.planning.presets import SteppedPreset
from dipp.planning.table import ErrorTable
from dipp.privacy import conversions
from dipp.privacy.budget import Budget

USUAL_DELTA = 1e-6
"""δ at which a budget of ρ is converted to ε, to find its sizes."""
SHARP = Coding(Sign(period=3), Flat())
THRIFTY = Coding(Sign(period=3), StepLimited(Fraction(2)))
"""`SHARP`'s channel under the paper's code: twice the ε, and fewer bits."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RivalledPlanner(Planner):
    """A planner that takes another planner's plan if that has fewer bits to the same final timestep."""

    rival: Planner

    def __post_init__(self) -> None:
        super().__post_init__()
        rival = self.rival
        if (rival.schedule, rival.geometry) != (self.schedule, self.geometry):
            raise DippError("rival", "must plan for the same model and the same size of images")

    def frontier(self, budget: Budget | None) -> tuple[Point, ...]:
        """Return the plan of fewest bits for each final timestep that either planner reaches, in ascending SNR."""
        best: dict[int | None, Point] = {}
        for point in (*super().frontier(budget), *self.rival.frontier(budget)):
            known = best.setdefault(point.final_timestep, point)
            if point.bits < known.bits:
                best[point.final_timestep] = point
        return tuple(sorted(best.values(), key=lambda point: point.snr))


@dataclass(frozen=True)
class UnclippedPreset(SteppedPreset):
    """Plans along timesteps, with sizes that depend on ε."""

    tiers: Mapping[float, Sizes] = field(default_factory=dict, hash=False)
    """The sizes from an ε on, in ascending order, in place of `sizes`. The larger ε, the more a step may saturate
    before more and smaller steps would gain anything."""
    rival: SteppedPreset | None = None

    @property
    def all_sizes(self) -> tuple[Sizes, ...]:
        """Return the sizes of all budgets."""
        return (self.sizes, *self.tiers.values())

    def sizes_for(self, budget: Budget | None) -> Sizes:
        """Return the sizes for the ε of a budget. δ does not enter, so that a larger δ never costs quality."""
        epsilon = budget.epsilon if budget else 0.0
        if budget and budget.rho is not None:
            epsilon = conversions.epsilon_of_zcdp(budget.rho, USUAL_DELTA)
        return [self.sizes, *(sizes for least, sizes in self.tiers.items() if (epsilon or 0.0) >= least)][-1]

    def planner(
        self, denoiser: Denoiser, table: ErrorTable, budget: Budget | None, geometry: Geometry | None = None
    ) -> Planner:
        """Return the planner for a budget; it includes the rival's plans if the table has the rival's coded chains."""
        sized = SteppedPreset(self.name, self.summary, self.coding, self.sizes_for(budget), self.chains)
        own = cast("Planner", sized.planner(denoiser, table, budget, geometry))
        # A table without the coded chains of the rival would flatter it.
        if self.rival is None or self.rival.chains not in table.inflation:
            return own
        return rivalled(own, cast("Planner", self.rival.planner(denoiser, table, budget, geometry)))


def rivalled(own: Planner, rival: Planner) -> RivalledPlanner:
    """Return a planner that also considers the plans of a rival."""
    return RivalledPlanner(**{one.name: getattr(own, one.name) for one in fields(own)}, rival=rival)


_THRIFTY = UnclippedPreset(
    "thrifty", "The channel of sharp under the paper's code.", THRIFTY, Sizes(20, 6.0), chains="thrifty"
)
UNCLIPPED: dict[str, UnclippedPreset] = {
    preset.name: preset
    for preset in (
        UnclippedPreset(
            "sharp",
            "One bit on one channel of a pixel at a time, the flat code; where the rate is the limit, as thrifty.",
            SHARP,
            Sizes(20, 8.0),
            chains="sharp",
            tiers={8.0: Sizes(20, 7.0), 32.0: Sizes(20, 7.0, saturation=0.06)},
            rival=_THRIFTY,
        ),
        UnclippedPreset(
            "swift",
            "As sharp, in fewer and larger steps with fewer candidates.",
            SHARP,
            Sizes(16, 3.0, saturation=0.12),
            chains="sharp",
        ),
        _THRIFTY,
    )
}
