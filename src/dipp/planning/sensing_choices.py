"""The choices among which a planner of sensing chooses, as columns of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dipp.codes import Flat, Pairs, StepLimited
from dipp.core.sensitivity import TiltedCode
from dipp.planning.planner import MAX_CHUNK

Floats = NDArray[np.float64]
SENSING_CODES: tuple[TiltedCode, ...] = (Pairs(), Flat(), StepLimited(Fraction(2)))
"""The codes that a plan may take."""
SPARE = 1.08
"""Factor on the expected bits of codes whose indices differ in length, so that rates are kept: no file exceeded it."""


class ChoiceColumns(NamedTuple):
    """Arrays with one value for each choice, from which the costs of steps are computed."""

    index_bits: Floats
    pad: Floats
    codes: dict[TiltedCode, NDArray[np.bool_]]
    """For each code, whether each choice has it."""
    searches: NDArray[np.bool_]
    """Whether the code of each choice searches; otherwise a chunk is a coordinate, and an index is a bit."""

    @classmethod
    def of(cls, choices: Sequence[Choice]) -> ChoiceColumns:
        """Return the columns of these choices."""
        names = [choice.code.name for choice in choices]  # quicker to compare than the codes themselves
        codes = {code.name: code for code in SENSING_CODES}
        return cls(
            np.array([choice.index_bits for choice in choices], np.float64),
            np.array([choice.pad for choice in choices]),
            {codes[name]: np.array([other == name for other in names]) for name in dict.fromkeys(names)},
            np.array([codes[name].searches for name in names]),
        )

    def part(self, which: NDArray[np.int64]) -> ChoiceColumns:
        """Return the values of some of the choices, given by their numbers."""
        codes = {code: rows[which] for code, rows in self.codes.items()}
        return ChoiceColumns(self.index_bits[which], self.pad[which], codes, self.searches[which])


class Choice(NamedTuple):
    """The numbers that a sensing plan follows from."""

    code: TiltedCode
    index_bits: int
    pad: float
    groups: int
    """g, the number of steps of a pass."""
    steps: int
    """N, the number of steps."""
    clip: float
    """k, the clip in deviations of the residual."""

    @property
    def touches(self) -> int:
        """Number of steps that touch the worst pixel: `steps`/`groups`, rounded up."""
        return -(-self.steps // self.groups)


class StepChunks(NamedTuple):
    """The chunks of one step, with one value for each choice."""

    size: Floats
    index_bits: Floats
    kl: Floats
    """Divergence of a chunk, in bits."""
    bits: Floats
    """Bits of the step."""


class SteppedChoices(NamedTuple):
    """The steps of all choices: final SNR and bits of each choice, and arrays of shape (choices, steps)."""

    snr: Floats
    bits: Floats
    clips: Floats
    gains: Floats
    sizes: Floats
    index_bits: Floats
    kls: Floats


def chunked(columns: ChoiceColumns, touched: Floats, kl: Floats) -> StepChunks:
    """Return the chunks of one step of all choices: single coordinates for pairs, otherwise as large as possible.

    Args:
        columns: The choices.
        touched: Number of coordinates that the step touches, for each choice.
        kl: KL in bits of all touched coordinates together, for each choice.
    """
    size = np.clip(np.floor(touched * (columns.index_bits - columns.pad) / kl), 1, MAX_CHUNK)
    size = np.where(columns.searches, np.minimum(size, np.maximum(touched, 1.0)), 1.0)
    chunks = np.ceil(touched / size)
    each = kl / np.maximum(chunks, 1.0)
    index_bits = np.where(columns.searches, np.clip(np.ceil(each + columns.pad), 1, columns.index_bits), 1.0)
    bits = np.empty(len(kl))
    for code, rows in columns.codes.items():
        spare = 1.0 if code.fixed_length else SPARE
        bits[rows] = spare * chunks[rows] * code.expected_bits(each[rows], index_bits[rows])
    return StepChunks(size, index_bits, each, bits)
