"""The interface of a code: the draw of an index, its cost in privacy and in bits, and what a receiver observes.

Plans, the codec, the ledger, the file format and the audits use every code through this class alone. The codes are in
`dipp.codes`, one file for each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from dipp.core.channels import Channel
from dipp.core.chunking import SHUFFLED, Deal
from dipp.core.columns import CHUNK_SIZE, INDEX_BITS, Column
from dipp.core.entropy import Model
from dipp.core.outcomes import Outcomes
from dipp.core.price import LEVELS, Cost, StepRecord, Terms
from dipp.errors import DippError, NoCertificateError

if TYPE_CHECKING:
    from dipp.core.step import CodedStep

Indices = NDArray[np.int64]
Floats = NDArray[np.float64]
INTEGERS = "what depends on a pixel, from its eight bits to the draw, is integer; the rounding of weights is in ε"


class ScoredCandidates(Protocol):
    """The candidates of many chunks with their private scores. Only an index that a code draws may be released."""

    def select(self) -> Indices:
        """Draw one index for each chunk by the exponential mechanism (`core.selection`)."""

    def best(self) -> Indices:
        """Return the index of the best score of each chunk, a private value."""

    def scores(self) -> NDArray[np.int32]:
        """Return the private scores as a NumPy array of chunks × candidates."""

    def shifts(self) -> NDArray[np.int32]:
        """Return the private integer shifts as a NumPy array, chunk after chunk."""

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where each chunk begins: chunk i has the shifts numbered offsets[i] … offsets[i + 1] − 1."""

    @property
    def terms(self) -> Terms | None:
        """The terms by which the draw is made and recorded; None if nothing is certified."""

    @property
    def limit(self) -> int:
        """The largest absolute value of an integer shift."""

    @property
    def fraction_bits(self) -> int:
        """The number S of bits after the binary point: scores are counted in multiples of 2^−S bits."""


class PublicCandidates(Protocol):
    """The public candidates of many chunks, as sender and receiver have them."""

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where each chunk begins: chunk i has the coordinates numbered offsets[i] … offsets[i + 1] − 1."""

    def draws(self, indices: Indices) -> Any:
        """Return the public draw of candidate indices[i] for each coordinate of chunk i.

        Args:
            indices: Index of each chunk, int64.
        """

    def noise(self, draws: Any) -> Any:
        """Return the unit-variance noise of each draw.

        Args:
            draws: What `draws` returned.
        """

    def means(self, indices: Indices) -> Any:
        """Return the value of candidate indices[i] of a question for each coordinate of chunk i.

        Args:
            indices: Index of each chunk, int64.
        """


class Code(ABC):
    """A way to draw, price and pack the indices of chunks.

    Subclasses are frozen dataclasses, so codes with equal parameters are equal.
    """

    name: ClassVar[str]
    """Name of the code in texts and JSON."""
    number: ClassVar[int]
    """Number of the code in files."""
    parameters: ClassVar[tuple[str, ...]] = ()
    """Names of the rational parameters, in the order in which files list them after the number."""
    columns: ClassVar[tuple[Column, ...]] = (CHUNK_SIZE, INDEX_BITS)
    """The columns that files list for this code. A size that is not listed is 1 in every step."""
    terms_kind: ClassVar[type[Terms]]
    """Class of the terms from which draws are priced."""
    deal: ClassVar[Deal] = SHUFFLED
    """The deal, by which coordinates are divided into chunks."""
    metric: ClassVar[bool] = True
    """Whether a small change of a unit costs less than a large one."""
    searches: ClassVar[bool] = True
    """Whether the index is one of many candidates that a scoring backend scores."""
    drawn: ClassVar[tuple[str, str]] = (
        "an index a group of coordinates, drawn by the exponential mechanism among public candidates, with integer "
        "scores and one exact draw",
        INTEGERS,
    )
    """How indices are drawn, and what rounding does to ε, in words."""
    uniform: ClassVar[bool] = False
    """Whether each index is uniform over the public seed, given all indices before it, whatever the picture."""

    @property
    def alone(self) -> bool:
        """Whether each chunk lies in one unit, so that its index depends on that unit alone."""
        return self.deal.alone

    @property
    @abstractmethod
    def score_alpha(self) -> Fraction:
        """The factor by which the integer scores are multiplied (α)."""

    @property
    def alpha_name(self) -> str:
        """α as a text."""
        return str(self.score_alpha)

    @property
    def certified(self) -> bool:
        """Whether indices are drawn by a differentially private rule."""
        return True

    def require_certified(self) -> None:
        """Raise if indices are not drawn by a differentially private rule."""
        if not self.certified:
            raise NoCertificateError(self.name, "has indices that are not differentially private", "use another code")

    def require_sizes(self, channel: Channel, chunk_size: int, index_bits: int) -> None:  # noqa: B027 - most take any
        """Raise if the code does not serve a channel, or these sizes of chunks and indices; by default accept any.

        Args:
            channel: The channel of the plan.
            chunk_size: Largest number of coordinates of a chunk.
            index_bits: Number of bits of an index.
        """

    def require_kind(self, kind: str) -> None:
        """Raise if the code does not serve this kind of steps; by default raise for questions alone."""
        if kind == "questions":
            raise DippError("code", f"must be closest for questions, got {self.name}")

    def fitted(self, chunk_size: int, index_bits: int) -> tuple[int, int]:
        """Return the sizes of chunks and indices that the code uses if these sizes are wanted.

        Args:
            chunk_size: Wanted number of coordinates of a chunk.
            index_bits: Wanted number of bits of an index.
        """
        return chunk_size, index_bits

    # The draw, and its result.

    @abstractmethod
    def draw(self, scored: ScoredCandidates) -> Indices:
        """Draw an index for each chunk, int64, from the private scores.

        Args:
            scored: The candidates of each chunk with their private scores.
        """

    def order(self, seed: bytes, candidates: int, fraction_bits: int) -> NDArray[np.int32] | None:  # noqa: ARG002
        """Return public integers to add to the scores of the candidates, int32; None to add nothing.

        Args:
            seed: The public seed, 16 bytes.
            candidates: n, the number of candidates.
            fraction_bits: S: scores are counted in multiples of 2^−S bits.
        """
        return None

    def observe(self, indices: Indices, shared: PublicCandidates) -> Any:
        """Return the noise that a receiver observes: a number for each coordinate, chunk after chunk.

        Args:
            indices: The index of each chunk.
            shared: The public candidates of the chunks.
        """
        return shared.noise(shared.draws(indices))

    # The price.

    @abstractmethod
    def terms(self, step: CodedStep, channel: Channel) -> Terms:
        """Return the terms of a planned step, from which its draws are priced.

        Args:
            step: The step.
            channel: The channel of the plan.
        """

    def recorded(self, used: StepRecord) -> Terms:
        """Return the terms of a step from the integers that the encoder really used.

        Raises:
            NoCertificateError: The code has no certificate.
        """
        if used.terms is None:
            raise NoCertificateError(self.name, "made a draw that no certificate covers")
        return used.terms

    @classmethod
    @abstractmethod
    def priced_by(cls, terms: Terms) -> Self:
        """Return a code of this kind that prices these terms; raise if they are terms of another kind.

        Args:
            terms: The terms.
        """

    @abstractmethod
    def price(self, terms: Terms, touched: int = 1, apart: bool = True, change: int = LEVELS) -> Cost:
        """Return what one step costs a unit.

        Args:
            terms: The terms of the step.
            touched: How often the unit takes part in the selections of the step: once for each touched coordinate, or
                once as a whole.
            apart: Whether each of these times is in a different selection.
            change: The largest change of each coordinate of the unit, in levels from 1 to 255.
        """

    # The bits.

    @property
    def fixed_length(self) -> bool:
        """Whether an index always takes its full width; otherwise likely indices take fewer bits."""
        return True

    def index_model(self, index_bits: int, exponent_units: int) -> Model:  # noqa: ARG002
        """Return the law by which an index among 2^index_bits is entropy coded; raise if its length is fixed.

        Args:
            index_bits: Number of bits of an index.
            exponent_units: Exponent of the entropy code, as a number of 64ths.
        """
        raise DippError(self.name, "has indices of fixed length, and no entropy code")

    def exponent_units(self, kl_bits: float) -> int:  # noqa: ARG002
        """Return the exponent of the entropy code of indices, as a number of 64ths; 0 if their length is fixed.

        Args:
            kl_bits: Public guess of the KL divergence of a chunk, in bits.
        """
        return 0

    def expected_bits(self, kl_bits: Floats, index_bits: Floats) -> Floats:  # noqa: ARG002
        """Return the mean length, in bits, of the index of each chunk.

        Args:
            kl_bits: KL divergence of each chunk in bits.
            index_bits: log2 of the number of candidates of each chunk.
        """
        return np.asarray(index_bits, np.float64)

    @property
    def padding_bits(self) -> int:
        """Largest number of bits that pad the indices of an image to whole bytes."""
        return 0 if self.fixed_length else 8

    # The laws that audits use.

    @abstractmethod
    def outcomes(self, scored: ScoredCandidates) -> list[Outcomes]:
        """Return the exact law of the index of each chunk.

        Args:
            scored: The candidates of each chunk with their private scores.
        """

    def log_weights(self, scored: ScoredCandidates) -> Floats:
        """Return the logarithm of the probability of each outcome, up to a constant for each chunk: chunks × outcomes.

        Args:
            scored: The candidates of each chunk with their private scores.
        """
        return np.stack([chunk.log_law() for chunk in self.outcomes(scored)])
