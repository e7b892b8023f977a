"""The encoder's part of the chain: the one place where the private pixels are read, once a step.

Everything that is computed before the shifts is public. What leaves this module is the indices that the code has drawn,
and a record of the integers that their ε depends on.

A latent model codes what its VAE makes of the pixels (`Denoiser.coded`), picture by picture and before the first step:
that is as private as they are, and takes their place here. Only whole pictures can then be certified.
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
from dipp.codec.decoding import End
from dipp.codec.pictures import Picture
from dipp.core.arrays import Array, host
from dipp.core.closest import Tally, Weights
from dipp.core.plan import Plan
from dipp.core.price import StepRecord, Terms
from dipp.core.signal import SIGNAL_OF_PIXEL
from dipp.core.steps import Question
from dipp.errors import DippError, MiscomputedError
from dipp.models import watch
from dipp.privacy.ledger import Recorder
from dipp.scoring.blocks import Blocks

if TYPE_CHECKING:
    import torch


CHECKED_SHIFTS = 1024
"""Shifts of a step that are computed again, where a device computed them."""


@dataclass(frozen=True, eq=False)
class Selector:
    """The encoder's `Choose`: the one place where the private pixels are read, once a step."""

    plan: Plan
    seed: bytes
    pixels: NDArray[np.uint8] = field(repr=False)
    """Private: images × coordinates, the pixels or what a VAE has made of them."""
    device: str
    recorder: Recorder = field(default_factory=Recorder)
    tallies: dict[int, Tally] = field(default_factory=dict)
    """What was drawn for the questions that are not recorded yet, by number of the step."""

    def __call__(self, layout: StepLayout, x_hat: Array) -> Indices:
        """Scores from the private pixels, an index a chunk from the scores."""
        indices = np.empty((len(self.pixels), 0), np.int64)
        if layout.chunks.count:
            indices = self.plan.code.draw(self.read(layout, x_hat)).reshape(len(self.pixels), -1)
        if layout.number in self.tallies:
            self._record_draws(layout)
        elif not layout.chunks.count:  # a step that touches nothing of so small an image
            self._record(layout, self._observed(layout))
        return indices

    def read(self, layout: StepLayout, x_hat: Array) -> Any:
        """Return what the code of the plan draws from: blocks if the step has candidates of its own, or scored ones."""
        return self.scored(layout, x_hat) if layout.asked is None else self.blocks(layout, x_hat)

    def blocks(self, layout: StepLayout, x_hat: Array) -> Blocks:
        """Return the blocks of a question: their content is private, from one look at the pixels.

        What is drawn of them is written down in the tally of the step, by the draw itself.

        Args:
            layout: The round of the question.
            x_hat: The public prediction of the coarse pixels, images × coordinates in the order of the chunks.
        """
        step, chunks, terms = layout.step, layout.chunks, self._terms(layout)
        if not isinstance(step, Question) or not isinstance(terms, Weights) or layout.asked is None:
            raise DippError("blocks", "a question with its candidates is needed")
        private = questions.coarse(self.pixels, layout.picture, self.plan.unit, step)
        residuals = private[:, chunks.order] - host(x_hat)
        tally = self.tallies.setdefault(layout.number, Tally())
        return questions.blocks(residuals, chunks, layout.first, layout.geometry, layout.asked, terms, tally)

    def scored(self, layout: StepLayout, x_hat: Array) -> scoring.Candidates:
        """Return the scored candidates of a step that scores integer shifts."""
        on = partial(scoring.backend, self.device)
        return scoring.Candidates(self.task(layout, x_hat), on, self._terms(layout))

    def task(self, layout: StepLayout, x_hat: Array) -> scoring.ScoringTask:
        """What is scored, and a record of it: the shifts are private, from one look at the pixels; all else is not."""
        arithmetic, used = layout.arithmetic, self._observed(layout)
        private: NDArray[np.int32] = used.table[self.pixels[:, layout.chunks.order]]
        shifts: Any = (
            _minus(private, layout, x_hat) if self.device == "cuda" else private - arithmetic.centres(host(x_hat))
        )
        if used.clip is not None:
            shifts = shifts.clip(-used.clip, used.clip)
        if self.device == "cuda":
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
        """Return what is used of the step: its terms, the table A that pixels are looked up in, and the clip."""
        own = layout.arithmetic
        table = own.levels(SIGNAL_OF_PIXEL)
        return StepRecord(self._terms(layout), layout.step.candidates, table, own.largest_shift, own.fraction_bits)

    def _terms(self, layout: StepLayout) -> Terms | None:
        """Return the terms by which the step is drawn; None if nothing is certified."""
        return self.plan.terms(layout.step) if self.plan.coding.certified else None

    def _record_draws(self, layout: StepLayout) -> None:
        """Write down what was drawn for a question, once its last round is asked."""
        if layout.turn + 1 == layout.step.turns:
            self._record(layout, self.tallies.pop(layout.number).observed)

    def _record(self, layout: StepLayout, used: StepRecord) -> None:
        """Write down what the ε of the step depends on, as it was used."""
        chunks = layout.all_chunks
        self.recorder.observe(layout.number, self.plan, layout.picture, len(self.pixels), chunks, used)


def encode_batch(
    chain: Chain, images: Sequence[Picture], numbers: Sequence[int], recorder: Recorder
) -> tuple[Indices, End]:
    """Encode pictures of one geometry.

    Args:
        chain: The chain of their geometry.
        images: The pictures.
        numbers: Their numbers, which name their common randomness: no two images of a seed may have the same.
        recorder: Writes down what was done.

    Returns:
        The indices, a row for each picture, and the states that a decoder of them reaches.
    """
    watch.begin(len(images), len(images) * chain.size.pixels, len(chain.plan.steps))
    pixels = chain.denoiser.coded(np.stack([image.pixels for image in images])).reshape(len(images), -1)
    device = chain.denoiser.device.type
    state, chosen = chain.run(numbers, Selector(chain.plan, chain.seed, pixels, device, recorder))
    grey = np.array([image.grey for image in images], bool)
    return np.concatenate(chosen, axis=1), End(chain, len(chain.plan.steps), state, numbers, grey)


def _require_shifts(shifts: torch.Tensor, private: NDArray[np.int32], layout: StepLayout, x_hat: Array) -> None:
    """Compute shifts of a device again by NumPy, of one image and of coordinates that the step's number picks."""
    image = layout.number % len(private)
    first = layout.number * CHECKED_SHIFTS % private.shape[1]
    place = (image, slice(first, first + CHECKED_SHIFTS))
    again = layout.arithmetic.clipped(private[place] - layout.arithmetic.centres(host(x_hat[place])))
    if not np.array_equal(shifts[place].cpu().numpy(), again):
        raise MiscomputedError(
            str(x_hat.device),
            "the shifts of a step are not what NumPy computes",
            "nothing of this was released. Do not repeat the command before the device is known to be sound: each "
            "attempt counts as a release",
        )


def _minus(private: NDArray[np.int32], layout: StepLayout, x_hat: torch.Tensor) -> torch.Tensor:
    """`private` less `Arithmetic.centres`, where the prediction lies, so that the host need not fetch it."""
    import torch

    largest = layout.arithmetic.level_of_one
    finite = x_hat.double().nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    centres: torch.Tensor = (layout.arithmetic.unit * finite).round().clamp(-largest, largest).to(torch.int32)
    return torch.from_numpy(private).to(x_hat.device) - centres
