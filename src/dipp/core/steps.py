"""The kinds of steps. Each kind is a class with a number of its own.

| kind | steps | state |
|---|---|---|
| `timesteps` | `Step`, along the timesteps of a diffusion | x_t of the noise schedule |
| `sensing` | `SensingStep`, with tilt, clip and gain | y, an estimate of x0 with noise of power 1/SNR |
| `questions` | `Question`, about blocks of units | the means of coarse pixels, as far as they are known |
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dipp.core.arithmetic import Arithmetic, Clip
from dipp.core.channels import Channel
from dipp.core.closest import MAX_TOTAL, Weights
from dipp.core.columns import Column, floats
from dipp.core.geometry import Geometry
from dipp.core.selection import MAX_CANDIDATES
from dipp.core.step import CodedStep, require_float32
from dipp.core.unit import Unit
from dipp.core.words import counted
from dipp.errors import DippError

MAX_LEVEL = 4
"""Largest network level of a sensing step, whose predictions have a sixteenth of the picture's resolution."""


@dataclass(frozen=True)
class Step(CodedStep):
    """One coded step t → s of the diffusion, which conveys the shift (x0 − x̂0)·√ΔSNR."""

    start: int
    """Timestep t."""
    end: int
    """Timestep s < t."""
    snr_gain: float
    """SNR(s) − SNR(t), rounded down to a 32-bit float; this rounded number scales the private shifts."""
    chunk_size: int
    index_bits: int
    exponent_units: int = 0
    number, kind, facts = 0, "timesteps", ("start", "end")
    columns = (Column("timesteps", 0, (1 << 16) - 1, more=1), floats("snr_gain"))

    def __post_init__(self) -> None:
        if not 0 <= self.end < self.start < 1 << 16:
            raise DippError("step", f"must have timesteps 0 ≤ end < start < 65536, got {self.start} → {self.end}")
        self._check()

    @classmethod
    def to_columns(cls, steps: Sequence[Step]) -> dict[str, list[Any]]:
        """Return the start of the first step followed by the end of each step, and the gains."""
        times = [steps[0].start, *(step.end for step in steps)]
        return {"timesteps": times, "snr_gain": [step.snr_gain for step in steps]}

    @classmethod
    def from_columns(cls, columns: Mapping[str, Sequence[Any]]) -> tuple[Step, ...]:
        """Return one step from each listed timestep to the next."""
        rest = {name: values for name, values in columns.items() if name != "timesteps"}
        times = columns["timesteps"]
        return super().from_columns({"start": times[:-1], "end": times[1:], **rest})

    def arithmetic(self, channel: Channel, alpha: Fraction) -> Arithmetic:
        """Return the integers of an unclipped step."""
        return _arithmetic(channel, self.snr_gain, alpha)

    def cells(self, number: int) -> tuple[str, str, str]:  # noqa: ARG002
        """Return the two timesteps as the name of the step."""
        return f"{self.start:>5} → {self.end:<4}", "", ""

    @classmethod
    def words(cls, steps: Sequence[Step], groups: int) -> str:  # noqa: ARG003
        """Return a line of text with the timesteps from the first to the last."""
        return " → ".join(str(t) for t in (steps[0].start, *(step.end for step in steps)))

    @classmethod
    def require_sequence(cls, steps: Sequence[Step]) -> None:
        """Raise if a step does not start where the one before it ended."""
        for before, after in itertools.pairwise(steps):
            if before.end != after.start:
                raise DippError(
                    "steps", f"must each start where the one before ended, got {before.end} and {after.start}"
                )


@dataclass(frozen=True)
class SensingStep(CodedStep):
    """One step of clipped sensing: noisy signs of clipped residuals, whose tilt and gain are two separate numbers.

    The private part is the tilt θ = V·clip(r/c, ±1) of a residual r = x0 − x̂0, the difference of a pixel and its
    prediction. The gain is the growth of the SNR of the state. It is public, and chosen so that the update of the state
    is right on average over public pictures. The level is the resolution at which the denoiser predicts. Gain and level
    have no part in the privacy.
    """

    tilt: float
    """V: the largest tilt, in nats, as a 32-bit float."""
    clip: float
    """c: the tilt is V for every |residual| of at least c; a 32-bit float."""
    snr_gain: float
    chunk_size: int
    index_bits: int
    exponent_units: int = 0
    level: int = 0
    """The denoiser predicts from means of 2^level × 2^level pixels of the state. It is 0 in the first step, which calls
    no denoiser."""
    number, kind, facts = 1, "sensing", ("tilt", "clip", "level")
    columns = (floats("tilt"), floats("clip"), floats("snr_gain"), Column("level", 0, MAX_LEVEL))

    def __post_init__(self) -> None:
        require_float32("tilt", self.tilt)
        require_float32("clip", self.clip)
        if type(self.level) is not int or not 0 <= self.level <= MAX_LEVEL:
            raise DippError("level", f"must be from 0 to {MAX_LEVEL}, got {self.level}")
        self._check()

    def arithmetic(self, channel: Channel, alpha: Fraction) -> Arithmetic:
        """Return the integers of a clipped step."""
        return _arithmetic(channel, self.snr_gain, alpha, Clip(self.tilt, self.clip))

    @classmethod
    def calls(cls, steps: Sequence[SensingStep]) -> int:
        """Return one less than the number of steps: the prediction before the first step is mid-grey."""
        return len(steps) - 1

    @classmethod
    def work(cls, steps: Sequence[SensingStep]) -> float:
        """Return the sum of 1/4^level over all steps except the first."""
        return sum(4.0**-step.level for step in steps[1:])

    @classmethod
    def require_sequence(cls, steps: Sequence[SensingStep]) -> None:
        """Raise if the first step has a level above 0, because its prediction is mid-grey at any resolution."""
        if steps[0].level:
            raise DippError("level", f"must be 0 in the first step, which calls no network, got {steps[0].level}")

    def cells(self, number: int) -> tuple[str, str, str]:
        """Return the number, the tilt and the clip of the step, for a table."""
        return f"{number:>12}", f"{self.tilt:.4f}", f"{self.clip:.4f}"

    @classmethod
    def words(cls, steps: Sequence[SensingStep], groups: int) -> str:
        """Return a line of text with the number of steps, the number of steps in a pass, and the final SNR."""
        gained = sum(step.snr_gain for step in steps)
        return f"{counted(len(steps), 'step')} of sensing, {counted(groups, 'group')} a pass, to the SNR {gained:.4g}"


BLOCK = 4
"""Number of coarse pixels along each side of a block."""
MAX_SPLIT = 32
"""Largest number of blocks along each side of a unit."""
ROUNDS: dict[int, tuple[tuple[int, ...], ...]] = {1: ((0,),), 2: ((0, 1), (1, 0)), 4: ((0, 2), (3, 1))}
"""Pattern for each number of rounds: the round of a block, by its row and column modulo the size of the pattern."""
WORDS, SIGNS = 0, 1
"""The two kinds of candidates of a question: words from the books of the model, or random signs times a scale."""


@dataclass(frozen=True)
class Question(CodedStep):
    """One question about every unit of a picture: which candidate is nearest to the content of each of its blocks.

    A unit is divided into split × split blocks, and a block into 4 × 4 coarse pixels. The private content of a block is
    the vector of the means of its coarse pixels, less their public prediction. The code `closest` draws one index for
    each block, so a unit pays for split² draws. Blocks are coded in rounds, so that a block can be predicted from
    neighbours that were coded in earlier rounds.

    Raises:
        DippError: A number is out of its range.

    """

    split: int
    """Number of blocks along each side of a unit."""
    rounds: int
    """Number of rounds: 1, 2 or 4 (`ROUNDS`)."""
    candidate: int
    """The kind of candidates: `WORDS` or `SIGNS`."""
    scale: float
    """The factor by which a drawn candidate is multiplied, as a 32-bit float; 1 for words."""
    best: int
    """m: the number of candidates with the heavy weight."""
    heavy: int
    """a: the weight of each of the m nearest candidates."""
    light: int
    """b: the weight of each other candidate."""
    snr_gain: float
    """The SNR that tells the network how well the means are known after this step; it is public and no part of ε."""
    chunk_size: int
    index_bits: int
    exponent_units: int = 0
    number, kind, facts = 2, "questions", ("split", "rounds", "candidate", "scale", "best", "heavy", "light")
    columns = (
        Column("split", 1, MAX_SPLIT),
        Column("rounds", 1, max(ROUNDS)),
        Column("candidate", WORDS, SIGNS),
        floats("scale"),
        Column("best", 1, MAX_CANDIDATES - 1),
        Column("heavy", 1, MAX_TOTAL),
        Column("light", 1, MAX_TOTAL),
        floats("snr_gain"),
    )

    def __post_init__(self) -> None:
        require_float32("scale", self.scale)
        if not 1 <= self.split <= MAX_SPLIT or self.split & (self.split - 1):
            raise DippError("split", f"must be a power of two from 1 to {MAX_SPLIT}, got {self.split}")
        if self.rounds not in ROUNDS:
            raise DippError("rounds", f"must be one of {', '.join(map(str, ROUNDS))}, got {self.rounds}")
        if self.candidate not in (WORDS, SIGNS) or (self.candidate == WORDS and self.scale != 1):
            raise DippError("candidate", f"must be 0 (words, at the scale 1) or 1 (signs), got {self.candidate}")
        if self.chunk_size != 1:
            raise DippError("chunk_size", f"must be 1 where a chunk is a block, got {self.chunk_size}")
        self._check()
        self.weights  # noqa: B018 - raises if the weights are invalid

    @property
    def weights(self) -> Weights:
        """The weights by which each index is drawn."""
        return Weights(self.candidates, self.best, self.heavy, self.light)

    @property
    def turns(self) -> int:
        """Number of rounds of the question."""
        return self.rounds

    @property
    def draws(self) -> int:
        """Number of draws, one for each block, in each box of a unit: split²."""
        return self.split**2

    @property
    def worded(self) -> bool:
        """Whether the candidates are words, and not random signs."""
        return self.candidate == WORDS

    @property
    def parts(self) -> int:
        """Number of coarse pixels along each side of a unit."""
        return BLOCK * self.split

    def require_unit(self, unit: Unit) -> None:
        """Raise if the unit cannot be divided into the coarse pixels of the step."""
        unit.require_parts(self.parts)
        if unit.surrounded and self.rounds > 1:
            raise DippError(
                "rounds",
                f"must be 1 for {unit.plural}, whose surroundings are known before the first step, got {self.rounds}",
            )

    def grid(self, unit: Unit, geometry: Geometry) -> tuple[Unit, Geometry]:
        """Return the unit and the geometry of the coarse picture."""
        return unit.grid(geometry, self.parts)

    def arithmetic(self, channel: Channel, alpha: Fraction) -> Arithmetic:
        """Return the integers of an unclipped step of gain 1; the draws of a question use none of them."""
        return _arithmetic(channel, 1.0, alpha)

    @classmethod
    def calls(cls, steps: Sequence[Question]) -> int:
        """Return one less than the number of steps: the first question needs no prediction."""
        return len(steps) - 1

    @classmethod
    def require_sequence(cls, steps: Sequence[Question]) -> None:
        """Raise if a step is coarser than a step before it, or if a step after the first has several rounds."""
        if any(after.split < before.split for before, after in itertools.pairwise(steps)):
            raise DippError("split", f"must not fall from step to step, got {[step.split for step in steps]}")
        if any(step.rounds > 1 for step in steps[1:]):
            raise DippError("rounds", "must be 1 after the first step, because all blocks are known by then")

    def cells(self, number: int) -> tuple[str, str, str]:
        """Return the number of the step and the division of a unit, for a table."""
        return f"{number:>12}", f"{self.split}×{self.split}", ""

    @classmethod
    def words(cls, steps: Sequence[Question], groups: int) -> str:  # noqa: ARG003
        """Return a line of text with the number of questions and the number of draws of a unit."""
        draws = "+".join(str(step.draws) for step in steps)
        answers = "1 draw" if draws == "1" else f"{draws} draws"
        return f"{counted(len(steps), 'question')} to each unit, answered with {answers}"


STEPS: dict[int, type[CodedStep]] = {kind.number: kind for kind in (Step, SensingStep, Question)}
"""Class of each kind of steps by its number in files. A new kind needs its class and an entry here."""


# Cached, because laws with tables take long to compute, and are equal only if they are the same object.
_arithmetic = functools.lru_cache(maxsize=4096)(Arithmetic)
