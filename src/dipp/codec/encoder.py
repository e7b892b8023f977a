"""The encoder's part of the chain: the only module that reads the private pixels, once for each step.

Everything that is computed before the shifts is public. Only the indices that the code has drawn leave this module, and
a record of the integers that their ε depends on.

A latent model codes latents, which its VAE computes from each picture before the first step (`Denoiser.coded`). The
latents are as private as the pixels, and take their place here. Then only whole pictures can be certified.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dipp import scoring
from dipp.codec import questions
from dipp.codec.chain import Chain, Indices, StepLayout
from dipp.codec.decoding import ChainEnd
from dipp.codec.pictures import CodecPicture
from dipp.core.arrays import Array, host
from dipp.core.closest import Tally, Weights
from dipp.core.plan import Plan
from dipp.core.price import StepRecord, Terms
from dipp.core.signal import SIGNAL_OF_PIXEL
from dipp.core.steps import Question
from dipp.errors import DippError, MiscomputedError
from dipp.models import watch
from dipp.privacy.recorder import Recorder
from dipp.scoring.blocks import Blocks

if TYPE_CHECKING:
    import torch


CHECKED_SHIFTS = 1024
"""Number of shifts of each step that are computed again by NumPy, after a GPU computed them."""


@dataclass(frozen=True, eq=False)
class Selector:
    """The part of an encoder that reads the private pixels, and draws indices by them. No other code reads pixels."""

    plan: Plan
    """The plan."""
    seed: bytes
    """The public seed, 16 bytes."""
    pixels: NDArray[np.uint8] = field(repr=False)
    """Private: the pixels, or the latents that a VAE computed from them, images × coordinates."""
    device: str
    """Type of device on which candidates are scored."""
    recorder: Recorder = field(default_factory=Recorder)
    """Writes down the integers that ε depends on."""
    tallies: dict[int, Tally] = field(default_factory=dict)
    """Records of the draws for questions whose rounds are not all asked, by number of the step."""

    def __call__(self, layout: StepLayout, x_hat: Array) -> Indices:
        """Draw an index for each chunk of a round by the private pixels, and return them, images × chunks."""
        indices = np.empty((len(self.pixels), 0), np.int64)
        if layout.chunks.count:
            indices = self.plan.code.draw(self.read(layout, x_hat)).reshape(len(self.pixels), -1)
        if layout.number in self.tallies:
            self._record_draws(layout)
        elif not layout.chunks.count:  # a step that touches no coordinate of a small image
            self._record(layout, self._observed(layout))
        return indices

    def read(self, layout: StepLayout, x_hat: Array) -> Any:
        """Return the private input of the plan's code: blocks for questions, scored candidates for other steps.

        Args:
            layout: The round.
            x_hat: The public prediction, images × coordinates in the order of the chunks.
        """
        return self.scored(layout, x_hat) if layout.asked is None else self.blocks(layout, x_hat)

    def blocks(self, layout: StepLayout, x_hat: Array) -> Blocks:
        """Return the blocks of a question, whose private content is read from the pixels once.

        The draw records the integers that its ε depends on in the tally of the step.

        Args:
            layout: The round of the question.
            x_hat: The public prediction of the coarse pixels, images × coordinates in the order of the chunks.

        Raises:
            DippError: The step is not a question with candidates.
        """
        step, chunks, terms = layout.step, layout.chunks, self._terms(layout)
        if not isinstance(step, Question) or not isinstance(terms, Weights) or layout.asked is None:
            raise DippError("blocks", "are defined for questions with candidates alone", "use another plan")
        private = questions.coarse(self.pixels, layout.picture, self.plan.unit, step)
        residuals = private[:, chunks.order] - host(x_hat)
        tally = self.tallies.setdefault(layout.number, Tally())
        return questions.blocks(residuals, chunks, layout.first, layout.geometry, layout.asked, terms, tally)

    def scored(self, layout: StepLayout, x_hat: Array) -> scoring.Candidates:
        """Return the scored candidates of a step that is not a question.

        Args:
            layout: The layout of the step.
            x_hat: The public prediction, images × coordinates in the order of the chunks.
        """
        backend = partial(scoring.backend, self.device)
        return scoring.Candidates(self.task(layout, x_hat), backend, self._terms(layout))

    def task(self, layout: StepLayout, x_hat: Array) -> scoring.ScoringTask:
        """Return the task of scoring a step's candidates by private shifts of the pixels, which are read once.

        The integers of the step are recorded.

        Args:
            layout: The round.
            x_hat: The public prediction, images × coordinates in the order of the chunks.
        """
        arithmetic, used = layout.arithmetic, self._observed(layout)
        private: NDArray[np.int32] = used.table[self.pixels[:, layout.chunks.order]]
        # A prediction may lie on the host although candidates are scored on a device, as in calibration.
        there = self.device == "cuda" and not isinstance(x_hat, np.ndarray)
        shifts: Any = _minus(private, layout, x_hat) if there else private - arithmetic.centres(host(x_hat))
        if used.clip is not None:
            shifts = shifts.clip(-used.clip, used.clip)
        if there:
            _require_shifts(shifts, private, layout, x_hat)
        task = scoring.ScoringTask(
            arithmetic.law,
            used.fraction_bits,
            used.candidates,
            layout.streams,
            layout.offsets,
            shifts.reshape(-1),
            self.plan.code.order(self.seed, used.candidates, used.fraction_bits),
        )
        self._record(layout, used)
        return task

    def _observed(self, layout: StepLayout) -> StepRecord:
        """Return the integers that a step uses: its terms, the table from pixels to levels, and the clip."""
        rules = layout.arithmetic
        table = rules.levels(SIGNAL_OF_PIXEL)
        return StepRecord(self._terms(layout), layout.step.candidates, table, rules.largest_shift, rules.fraction_bits)

    def _terms(self, layout: StepLayout) -> Terms | None:
        """Return the terms that fix the odds of a step's draws; None for codes without a certificate."""
        return self.plan.terms(layout.step) if self.plan.coding.certified else None

    def _record_draws(self, layout: StepLayout) -> None:
        """Record the draws of a question after its last round."""
        if layout.turn + 1 == layout.step.turns:
            self._record(layout, self.tallies.pop(layout.number).observed)

    def _record(self, layout: StepLayout, used: StepRecord) -> None:
        """Record the integers that a step has used and its ε depends on."""
        chunks = layout.all_chunks
        self.recorder.observe(layout.number, self.plan, layout.picture, len(self.pixels), chunks, used)


def encode_batch(
    chain: Chain, images: Sequence[CodecPicture], numbers: Sequence[int], recorder: Recorder
) -> tuple[Indices, ChainEnd]:
    """Encode pictures of one geometry.

    Args:
        chain: The chain of their geometry.
        images: The pictures.
        numbers: Their numbers, which choose their common randomness. No two images of a seed may have the same.
        recorder: Writes down the integers that ε depends on.

    Returns:
        The indices, images × chunks of all steps, and the final states, which a decoder reaches as well.
    """
    watch.begin(len(images), len(images) * chain.size.pixels, len(chain.plan.steps))
    pixels = chain.denoiser.coded(np.stack([image.pixels for image in images])).reshape(len(images), -1)
    device = chain.denoiser.device.type
    state, chosen = chain.run(numbers, Selector(chain.plan, chain.seed, pixels, device, recorder))
    grey = np.array([image.grey for image in images], bool)
    return np.concatenate(chosen, axis=1), ChainEnd(chain, len(chain.plan.steps), state, numbers, grey)


def _require_shifts(shifts: torch.Tensor, private: NDArray[np.int32], layout: StepLayout, x_hat: Array) -> None:
    """Raise if NumPy computes other shifts than a GPU, for `CHECKED_SHIFTS` coordinates of one image."""
    image = layout.number % len(private)
    first = layout.number * CHECKED_SHIFTS % private.shape[1]
    part = (image, slice(first, first + CHECKED_SHIFTS))
    again = layout.arithmetic.clipped(private[part] - layout.arithmetic.centres(host(x_hat[part])))
    if not np.array_equal(shifts[part].cpu().numpy(), again):
        raise MiscomputedError(
            str(x_hat.device),
            "computes other shifts of a step than NumPy, and nothing was released",
            "check the device before you repeat the command: each attempt counts as a release",
        )


def _minus(private: NDArray[np.int32], layout: StepLayout, x_hat: torch.Tensor) -> torch.Tensor:
    """Return `private` minus the levels of x_hat (`Arithmetic.centres`), computed on the device of x_hat."""
    import torch

    largest = layout.arithmetic.level_of_one
    finite = x_hat.double().nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    centres: torch.Tensor = (layout.arithmetic.unit * finite).round().clamp(-largest, largest).to(torch.int32)
    return torch.from_numpy(private).to(x_hat.device) - centres
