"""Presets: a mechanism with the sizes of its code, chosen on public images (`benchmarks/quality.py`)."""

from __future__ import annotations

from dataclasses import dataclass

from dipp.errors import DippError
from dipp.plan import DIFFC, PAPER, SHARP, Mechanism


@dataclass(frozen=True)
class Preset:
    """How a plan is made: index bits buy quality (a smaller bias of the code) with bits and time."""

    mechanism: Mechanism
    index_bits: int
    """Bits of an index, at most: log2 of the candidates of a chunk."""
    pad: float
    """Bits by which an index exceeds the divergence of its chunk."""

    @property
    def name(self) -> str:
        """The mechanism's name."""
        return self.mechanism.name


PRESETS = {preset.name: preset for preset in (Preset(SHARP, 22, 7.0), Preset(PAPER, 16, 2.0), Preset(DIFFC, 16, 2.0))}
"""The default first. `paper`: Laplace, step-limited PPR, α = 2, zeta code, as the paper has it; `diffc`: Gaussian, α
= ∞, no
certificate; `sharp`: the sign channel on one channel of a pixel at a time, α = 1, flat."""


def preset(name: str) -> Preset:
    """The preset of a name."""
    if name not in PRESETS:
        raise DippError(f"preset: one of {', '.join(PRESETS)} is needed, got {name}")
    return PRESETS[name]
