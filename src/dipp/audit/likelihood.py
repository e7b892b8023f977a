"""Likelihoods: P[K | Z] is computable, so the loss of a real encoding can be computed and compared with the claim.

Two images x and x' that differ in one unit go through the encoder's own code, up to its integers. These give the
exact law of every index under each image (`core.outcomes`), and so the loss ln P[k | x]/P[k | x'] of every outcome k,
given everything that was released before. The largest losses of the selections must not exceed ε in sum; their Rényi
divergences of order a must not exceed ρ·a in sum. It is also checked that the encoder draws by these laws: its bin sums
must be those of the scores, and with known bytes in place of the operating system's, its index must be the one whose
share the number in the bytes falls into. (The module `law` shows by counting that unknown bytes are used alike.)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import special

from dipp import scoring
from dipp.audit.neighbours import Pixels
from dipp.audit.setting import replaced
from dipp.codec.chain import Chain, Indices, StepLayout
from dipp.codec.encoder import Selector
from dipp.core import randomness
from dipp.core.arrays import host
from dipp.core.outcomes import Floats, Outcomes
from dipp.core.plan import Plan
from dipp.core.steps import Question, SensingStep, Step

LogLaw = Callable[[Outcomes], Floats]
"""A function from the outcomes of a chunk to ln P[K = k] of each outcome k."""

ORDERS = (1 + 2.0**-6, 1.5, 2.0, 4.0, 16.0)
"""Orders of the Rényi divergences. The divergences of pairs come closest to their ρ near order 1."""


def log_law(chunk: Outcomes) -> Floats:
    """Return ln P[K = k] of each outcome k of a chunk, as the code states it."""
    return chunk.log_law()


def renyi(first: Floats, second: Floats, order: float) -> float:
    """Return the larger of the two Rényi divergences between two laws, one for each direction.

    Args:
        first: ln P of each outcome, float64.
        second: ln Q of each outcome, of the same length.
        order: Order of the divergence, above 1.

    Returns:
        Nats.
    """
    pairs = ((first, second), (second, first))
    return max(float(special.logsumexp(order * p + (1 - order) * q)) for p, q in pairs) / (order - 1)


class KnownBytes:
    """A replacement of `os` in `core.randomness` that returns known bytes, and notices if more are requested."""

    def __init__(self, content: bytes) -> None:
        self._rest = content
        self._beyond = np.random.default_rng(0)
        self.asked_for_more = False

    def urandom(self, count: int) -> bytes:
        """Return the next known bytes, and noise if more are requested than exact draws take."""
        taken, self._rest = self._rest[:count], self._rest[count:]
        self.asked_for_more |= len(taken) < count
        return taken + self._beyond.bytes(count - len(taken))

    @property
    def used_up(self) -> bool:
        """Whether exactly the known bytes were requested, neither fewer nor more."""
        return not self._rest and not self.asked_for_more


@dataclass(eq=False)
class Comparison:
    """A `chain.Choose` that encodes an image x and compares it, in every selection, with its neighbour x'."""

    first: Selector
    """The encoder of x."""
    second: Selector
    """The encoder of x'."""
    follow: bool = False
    """Whether to continue with the outcome of largest loss instead of the drawn outcome."""
    law: LogLaw = log_law
    """The law of the indices that is compared."""
    bound: float = 0.0
    """Sum over the selections of the largest |loss| of any outcome."""
    attained: float = 0.0
    """Sum over the selections of the loss of the outcome that was released."""
    divergences: Floats = field(default_factory=lambda: np.zeros(len(ORDERS)))
    """Sum over the selections of the Rényi divergence, for each of `ORDERS`."""
    draws: int = 0
    """Number of indices that were drawn with known bytes: two for each selection in which the images differ."""
    wrong: int = 0
    """Number of those draws with wrong bin sums, a wrong use of the bytes, or a wrong index."""
    predictions: list[NDArray[np.float32]] = field(default_factory=list)
    """x̂0 of the coordinates that each step touches. The adversary sees these, too."""

    def __call__(self, layout: StepLayout, x_hat: torch.Tensor) -> Indices:
        """Encode a step of x by the encoder's own code, and add up the losses of the chunks in which x' differs."""
        self.predictions.append(host(x_hat[0]))
        indices = self.first(layout, x_hat)
        if not layout.chunks.count:
            return indices
        met: dict[int, Outcomes] = {}
        for chunk, pair in DIFFERING[self.first.plan.kind](self.first, self.second, layout, x_hat):
            met[chunk], laws = pair[0], [self.law(outcomes) for outcomes in pair]
            # Outcomes that are impossible for both images reveal nothing.
            possible = np.isfinite(laws[0]) | np.isfinite(laws[1])
            losses = np.where(possible, laws[0], 0.0) - np.where(possible, laws[1], 0.0)
            if self.follow:
                indices[0, chunk] = np.argmax(losses)
            self.bound += float(np.abs(losses).max())
            self.attained += float(losses[indices[0, chunk]])
            self.divergences += [renyi(laws[0][possible], laws[1][possible], order) for order in ORDERS]
        self._draw(layout, x_hat, met)
        return indices

    def _draw(self, layout: StepLayout, x_hat: torch.Tensor, met: dict[int, Outcomes]) -> None:
        """Encode x again with known bytes, and compare bin sums and indices of the given chunks with the exact ones.

        Each outcome owns a share of the integers that bytes can encode. The bytes hold the last integer of one share,
        and then the first of the next. So if the encoder's shares were off by one integer there, an index would differ.

        Args:
            layout: The public layout of the step.
            x_hat: The predictions of the step.
            met: The outcomes under x of each chunk in which x and x' differ, by its number.
        """
        if not met:
            return
        generator, (first, *_) = np.random.default_rng(self.draws), met.values()
        on = scoring.backend(self.first.device)
        edges = {chunk: outcomes.edge(int.from_bytes(generator.bytes(24), "little")) for chunk, outcomes in met.items()}
        for side in (-1, 0):
            integers = [edges[chunk] + side if chunk in met else 0 for chunk in range(layout.chunks.count)]
            source = KnownBytes(b"".join(map(first.private_bytes, integers)))
            with replaced(randomness, "os", source):
                indices = self.first(layout, x_hat)[0]
            self.draws += len(met)
            self.wrong += sum(
                not (
                    source.used_up
                    and indices[chunk] == outcomes.share(integers[chunk]).outcome
                    and outcomes.summed_by(on)
                )
                for chunk, outcomes in met.items()
            )


Differing = Iterator[tuple[int, tuple[Outcomes, Outcomes]]]
"""The chunks of a step in which two images differ, each with the outcomes of both."""


def _by_shifts(first: Selector, second: Selector, layout: StepLayout, x_hat: torch.Tensor) -> Differing:
    """Yield the chunks whose integer shifts differ between two images, with the outcomes of both."""
    tasks = [selector.task(layout, x_hat) for selector in (first, second)]
    plan, on = first.plan, scoring.backend(first.device)
    moved = (tasks[0].shifts != tasks[1].shifts).astype(np.int64)
    for chunk in np.flatnonzero(np.add.reduceat(moved, layout.offsets[:-1])).tolist():
        ours, theirs = (plan.code.outcomes(scored(plan, layout, task.part(chunk, chunk + 1), on))[0] for task in tasks)
        yield chunk, (ours, theirs)


def _by_blocks(first: Selector, second: Selector, layout: StepLayout, x_hat: torch.Tensor) -> Differing:
    """Yield the blocks whose outcomes have different laws for two images; other blocks reveal nothing."""
    ours, theirs = (selector.plan.code.outcomes(selector.read(layout, x_hat)) for selector in (first, second))
    for chunk, pair in enumerate(zip(ours, theirs, strict=True)):
        if pair[0] != pair[1]:
            yield chunk, pair


DIFFERING = {Step.kind: _by_shifts, SensingStep.kind: _by_shifts, Question.kind: _by_blocks}
"""The function that compares two images in a step, for each kind of steps."""


def compare(
    chain: Chain,
    pair: tuple[Pixels, Pixels],
    *,
    follow: bool = False,
    law: LogLaw = log_law,
    selector: type[Selector] = Selector,
) -> Comparison:
    """Encode the first of two images, and compare it with the second in every step.

    Args:
        chain: The chain to encode with.
        pair: Two images as rows of coordinates, uint8 (coordinates,).
        follow: Whether to continue with the outcome of largest loss instead of the drawn outcome. False by default.
        law: The law of the indices; by default the law that the code states.
        selector: The encoder; by default the real one.

    Returns:
        The comparison, with the sums of all steps.
    """
    first, second = (selector(chain.plan, chain.seed, image[None], "cpu") for image in pair)
    comparison = Comparison(first, second, follow, law)
    chain.run([0], comparison)
    return comparison


def scored(plan: Plan, layout: StepLayout, task: scoring.ScoringTask, on: scoring.Backend) -> scoring.Candidates:
    """Return the scored candidates of a step, from which the code of a plan draws.

    Args:
        plan: The plan, which names the code.
        layout: The step that is encoded.
        task: Shifts and chunks to score.
        on: The backend that computes the scores.
    """
    return scoring.Candidates(task, lambda: on, plan.terms(layout.step))


def first_law(chain: Chain, image: Pixels) -> Floats:
    """Return ln P of each possible release of a chain's first step.

    If the step has several chunks, an outcome is an index for each of them, numbered by `numbers`; the step must have
    few outcomes.

    Args:
        chain: The chain to encode with.
        image: A row of coordinates, uint8.

    Returns:
        float64 (outcomes,).
    """
    selector, laws = Selector(chain.plan, chain.seed, image[None], "cpu"), []

    def choose(layout: StepLayout, x_hat: torch.Tensor) -> Indices:
        chunks = chain.plan.code.outcomes(selector.read(layout, x_hat))
        # Given the image, chunks are drawn independently of each other.
        laws.append(functools.reduce(np.add.outer, [outcomes.log_law() for outcomes in chunks]).reshape(-1))
        return np.zeros((1, layout.chunks.count), np.int64)

    chain.run([0], choose, 1)
    return laws[0]


def numbers(chain: Chain, indices: Indices) -> Indices:
    """Return for each image the number of its released indices, among all that a chain of one step can release.

    Args:
        chain: A chain of one step.
        indices: A row of indices for each image, int64 (images, chunks).

    Returns:
        int64 (images,), in the order of `first_law`.
    """
    chunks, candidates = indices.shape[1], chain.plan.steps[0].candidates
    return np.asarray(np.ravel_multi_index(tuple(indices.T), (candidates,) * chunks), np.int64)
