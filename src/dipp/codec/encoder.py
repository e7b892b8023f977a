"""The encoder's part of the chain: the one place where the private pixels are read, once a step.

Everything that is computed before the shifts is public. What leaves this module is the indices that the code has drawn,
and a record of the integers that their ε depends on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dipp import scoring
from dipp.codec.chain import Indices, StepLayout
from dipp.core.plan import Plan
from dipp.core.signal import SIGNAL_OF_PIXEL
from dipp.errors import DippError
from dipp.privacy.ledger import Recorder

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False)
class Selector:
    """The encoder's `Choose`: the one place where the private pixels are read, once a step."""

    plan: Plan
    seed: bytes
    pixels: NDArray[np.uint8] = field(repr=False)
    """Private: images × coordinates."""
    device: str
    recorder: Recorder = field(default_factory=Recorder)

    def __call__(self, layout: StepLayout, x_hat: torch.Tensor) -> Indices:
        """Scores from the private pixels, an index a chunk from the scores."""
        if not layout.chunks.count:  # a step that touches nothing of so small an image
            self._record(layout, self._levels(layout), layout.arithmetic.fraction_bits, layout.step.candidates)
            return np.empty((len(self.pixels), 0), np.int64)
        scored = scoring.Candidates(self.task(layout, x_hat), scoring.backend(self.device))
        return self.plan.code.draw(scored).reshape(len(self.pixels), -1)

    def task(self, layout: StepLayout, x_hat: torch.Tensor) -> scoring.ScoringTask:
        """What is scored, and a record of it: the shifts are private, from one look at the pixels; all else is not."""
        arithmetic, candidates, levels = layout.arithmetic, layout.step.candidates, self._levels(layout)
        private: NDArray[np.int32] = levels[self.pixels[:, layout.chunks.order]]
        shifts: Any = (
            private - arithmetic.centres(x_hat.numpy()) if self.device == "cpu" else _minus(private, layout, x_hat)
        )
        task = scoring.ScoringTask(
            arithmetic.law,
            arithmetic.fraction_bits,
            candidates,
            layout.streams,
            layout.offsets,
            shifts.reshape(-1),
            self.plan.code.order(self.seed, candidates, arithmetic.fraction_bits),
        )
        self._record(layout, levels, task.fraction_bits, task.candidates)
        return task

    def _levels(self, layout: StepLayout) -> NDArray[np.int32]:
        """The table A that pixels are looked up in."""
        return layout.arithmetic.levels(SIGNAL_OF_PIXEL)

    def _record(self, layout: StepLayout, levels: NDArray[np.int32], fraction_bits: int, candidates: int) -> None:
        """Write down what the ε of the step depends on, as it was used."""
        images, coordinates = self.pixels.shape
        shape = images, coordinates // layout.channels, layout.channels
        self.recorder.observe(layout.number, self.plan, shape, layout.chunks, levels, fraction_bits, candidates)


def _minus(private: NDArray[np.int32], layout: StepLayout, x_hat: torch.Tensor) -> torch.Tensor:
    """`private` less `Arithmetic.centres`, where the prediction lies, so that the host need not fetch it."""
    import torch

    if not bool(x_hat.isfinite().all()):
        raise DippError("x_hat: finite predictions are needed; the denoiser returned NaN or infinity")
    largest = layout.arithmetic.level_of_one
    centres = (layout.arithmetic.unit * x_hat.double()).round().clamp(-largest, largest).to(torch.int32)
    return torch.from_numpy(private).to(x_hat.device) - centres
