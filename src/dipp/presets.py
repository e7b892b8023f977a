"""Presets: a mechanism with the sizes of its code, chosen on public images (`benchmarks/choice.py`)."""

from __future__ import annotations

from dataclasses import dataclass

from dipp.errors import DippError
from dipp.plan import DIFFC, PAPER, SHARP, Mechanism
from dipp.privacy.budget import Budget

LARGE_EPSILON = 8.0


@dataclass(frozen=True)
class Preset:
    """How a plan is made: index bits and pad buy quality (a smaller bias of the code) with bits and time."""

    name: str
    mechanism: Mechanism
    index_bits: int
    """Bits of an index, at most: log2 of the candidates of a chunk."""
    pad: float
    """Bits by which an index exceeds the divergence of its chunk."""
    saturation: tuple[float, float] = (0.03, 0.06)
    """Largest share of the shift's energy that a step of the sign channel may lose: usually, and at a pure ε from
    `LARGE_EPSILON` on, where fewer and larger steps gain more than that. Under (ε, δ) or ρ, steps cost nothing."""

    def saturation_at(self, budget: Budget | None) -> float:
        """The share for a budget."""
        large = budget is not None and budget.delta is None and (budget.epsilon or 0) >= LARGE_EPSILON
        return self.saturation[large]


PRESETS = {
    preset.name: preset
    for preset in (
        Preset("sharp", SHARP, 20, 7.0),
        Preset("swift", SHARP, 16, 3.0, saturation=(0.12, 0.12)),
        Preset("paper", PAPER, 16, 2.0),
        Preset("diffc", DIFFC, 16, 2.0),
    )
}
"""The default first. `sharp`: the sign channel on one channel of a pixel at a time, α = 1, flat; `swift`: the same in
fewer and larger steps with a sixteenth of the candidates, for speed; `paper`: Laplace, step-limited PPR, α = 2, zeta
code, as the paper has it; `diffc`: Gaussian, α = ∞, no certificate."""


def preset(name: str) -> Preset:
    """The preset of a name."""
    if name not in PRESETS:
        raise DippError(f"preset: one of {', '.join(PRESETS)} is needed, got {name}")
    return PRESETS[name]
