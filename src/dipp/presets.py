"""Presets: a mechanism with the sizes of its code, which `benchmarks/choice.py` chose per ε on images of CIFAR-10."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dipp.errors import DippError
from dipp.plan import DIFFC, PAPER, SHARP, THRIFTY, Mechanism
from dipp.privacy import conversions
from dipp.privacy.budget import Budget

USUAL_DELTA = 1e-6
"""δ at which a budget of ρ is put among those of ε."""


@dataclass(frozen=True)
class Sizes:
    """Index bits and pad buy quality (a smaller bias of the code) with bits and time."""

    index_bits: int
    """Bits of an index, at most: log2 of the candidates of a chunk."""
    pad: float
    """Bits by which an index exceeds the divergence of its chunk."""
    saturation: float = 0.03
    """Largest share of the shift's energy that a step of the sign channel may lose."""


@dataclass(frozen=True)
class Preset:
    """How a plan is made."""

    name: str
    mechanism: Mechanism
    tiers: Mapping[float, Sizes]
    """The sizes from an ε on, in ascending order from 0: the larger ε, the more a step may saturate before more and
    smaller steps would gain anything."""
    rival: str | None = None
    """A preset whose plans are taken wherever they are within the budget in fewer bits to the same timestep."""

    def sizes(self, budget: Budget | None) -> Sizes:
        """The sizes for a budget: those of its ε, with or without δ, so that no more δ ever costs quality."""
        epsilon = budget.epsilon if budget else 0.0
        if budget and budget.rho is not None:
            epsilon = conversions.epsilon_of_zcdp(budget.rho, USUAL_DELTA)
        return [sizes for least, sizes in self.tiers.items() if (epsilon or 0.0) >= least][-1]


_SHARP = {0.0: Sizes(20, 8.0), 8.0: Sizes(20, 7.0), 32.0: Sizes(20, 7.0, saturation=0.06)}
_SWIFT, _THRIFTY, _PAPER = {0.0: Sizes(16, 3.0, saturation=0.12)}, {0.0: Sizes(20, 6.0)}, {0.0: Sizes(16, 2.0)}
PRESETS = {
    preset.name: preset
    for preset in (
        Preset("sharp", SHARP, _SHARP, rival="thrifty"),
        Preset("swift", SHARP, _SWIFT),
        Preset("thrifty", THRIFTY, _THRIFTY),
        Preset("paper", PAPER, _PAPER),
        Preset("diffc", DIFFC, _PAPER),
    )
}
"""The default first. `sharp`: the sign channel on one channel of a pixel at a time, α = 1, flat; or as `thrifty` where
the rate is the limit and not the budget. `swift`: in fewer and larger steps with a sixteenth of the candidates, for
speed. `thrifty`: the same channel with α = 2 and the zeta code, which takes twice the ε and fewer bits. `paper`:
Laplace, step-limited PPR, α = 2, zeta code, as the paper has it. `diffc`: Gaussian, α = ∞, no certificate."""


def preset(name: str) -> Preset:
    """The preset of a name."""
    if name not in PRESETS:
        raise DippError(f"preset: one of {', '.join(PRESETS)} is needed, got {name}")
    return PRESETS[name]
