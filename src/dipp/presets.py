"""Presets: a mechanism with the sizes of its code, chosen per ε on public images (`benchmarks/choice.py`)."""

from __future__ import annotations

from dataclasses import dataclass

from dipp.errors import DippError
from dipp.plan import DIFFC, PAPER, SHARP, THRIFTY, Mechanism
from dipp.privacy.budget import Budget

LARGE_EPSILON = 8.0
"""From this pure ε on, fewer and larger steps gain more than they lose to saturation."""


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
    small: Sizes
    """For a small pure ε, and for (ε, δ) or ρ, under which steps cost nothing."""
    large: Sizes
    """For a pure ε of `LARGE_EPSILON` or more."""
    rival: str | None = None
    """A preset whose plans are taken wherever they are within the budget in fewer bits to the same timestep."""

    def sizes(self, budget: Budget | None) -> Sizes:
        """The sizes for a budget."""
        pure = budget.epsilon if budget is not None and budget.delta is None else None
        return self.large if pure is not None and pure >= LARGE_EPSILON else self.small


_SWIFT, _THRIFTY, _PAPER = Sizes(16, 3.0, saturation=0.12), Sizes(18, 4.0), Sizes(16, 2.0)
PRESETS = {
    preset.name: preset
    for preset in (
        Preset("sharp", SHARP, Sizes(20, 8.0), Sizes(20, 7.0, saturation=0.06), rival="thrifty"),
        Preset("swift", SHARP, _SWIFT, _SWIFT),
        Preset("thrifty", THRIFTY, _THRIFTY, _THRIFTY),
        Preset("paper", PAPER, _PAPER, _PAPER),
        Preset("diffc", DIFFC, _PAPER, _PAPER),
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
