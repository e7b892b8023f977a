"""The face of a code: how an index is drawn, what it costs in privacy and in bits, and what a receiver observes.

Plans, the codec, the ledger, the file format and the audits speak to every code through this class alone, and ask none
which code it is. The codes themselves are in `dipp.codes`, a file each.
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
from dipp.core.price import LEVELS, Cost, Reach, Sensitivity, StepRecord, Terms
from dipp.errors import DippError, NoCertificateError

if TYPE_CHECKING:
    from dipp.core.step import CodedStep

Indices = NDArray[np.int64]
Floats = NDArray[np.float64]
INTEGERS = "what depends on a pixel, from its eight bits to the draw, is integer; the rounding of weights is in ε"


class Scored(Protocol):
    """The candidates of many chunks, scored by the private image. Nothing but what a code draws may be released."""

    def select(self) -> Indices:
        """Draw one index for each chunk by the exponential mechanism (`selection`)."""

    def best(self) -> Indices:
        """Return the index of the best score of each chunk: a function of the private image."""

    def scores(self) -> NDArray[np.int32]:
        """Return the private scores, chunks × candidates, on the host."""

    def shifts(self) -> NDArray[np.int32]:
        """Return the private integer shifts, chunk after chunk, on the host."""

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Bounds of the chunks: chunk i has the shifts offsets[i] … offsets[i + 1] − 1."""

    @property
    def terms(self) -> Terms | None:
        """The terms by which the draw is to be made, and is recorded; None if nothing is certified."""

    @property
    def limit(self) -> int:
        """The largest size that a shift can have."""

    @property
    def fraction_bits(self) -> int:
        """S: a unit of score is 2^−S bits."""


class Shared(Protocol):
    """The public candidates of many chunks, as sender and receiver have them."""

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Bounds of the chunks, in coordinates."""

    def draws(self, indices: Indices) -> Any:
        """Return what candidate indices[i] has drawn for each coordinate of chunk i."""

    def noise(self, draws: Any) -> Any:
        """Return the unit-variance noise of each draw."""

    def means(self, indices: Indices) -> Any:
        """Return what the candidates indices[i] of a question mean for each coordinate of chunk i."""


class Code(ABC):
    """A code that the codec can use. Codes are frozen dataclasses: equal parameters make equal codes."""

    name: ClassVar[str]
    number: ClassVar[int]
    """Number of the code in files."""
    parameters: ClassVar[tuple[str, ...]] = ()
    """Its rational parameters, in the order in which files list them behind the number."""
    columns: ClassVar[tuple[Column, ...]] = (CHUNK_SIZE, INDEX_BITS)
    """What files list of every step for this code. A size that is not listed is 1 in every step."""
    terms_kind: ClassVar[type[Terms]]
    """What its draws are priced from."""
    deal: ClassVar[Deal] = SHUFFLED
    """How coordinates are dealt to chunks."""
    metric: ClassVar[bool] = True
    """Whether a small change of a unit costs less than a large one."""
    searches: ClassVar[bool] = True
    """Whether the index is one of many candidates that a backend scores."""
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
        """Whether every chunk lies in one unit, so that no other unit has a part in its index."""
        return self.deal.alone

    @property
    @abstractmethod
    def score_alpha(self) -> Fraction:
        """α that is folded into the integer scores."""

    @property
    def alpha_name(self) -> str:
        """α in words."""
        return str(self.score_alpha)

    @property
    def certified(self) -> bool:
        """Whether indices are drawn by a differentially private rule."""
        return True

    def require_certified(self) -> None:
        """Raise if indices are not drawn by a differentially private rule."""
        if not self.certified:
            raise NoCertificateError(self.name, "its indices are not differentially private", "use another code")

    def require_sizes(self, channel: Channel, chunk_size: int, index_bits: int) -> None:  # noqa: B027 - most take any
        """Raise if the code is not made for a channel, or for these sizes of the chunks and indices of a step."""

    def require_kind(self, kind: str) -> None:
        """Raise if the code is not made for steps of this kind; by default for questions alone, which need a code."""
        if kind == "questions":
            raise DippError("code", f"questions need the code closest, got {self.name}")

    def fitted(self, chunk_size: int, index_bits: int) -> tuple[int, int]:
        """Return the sizes of chunks and indices that the code takes where these are wanted."""
        return chunk_size, index_bits

    # The draw, and what comes of it.

    @abstractmethod
    def draw(self, scored: Scored) -> Indices:
        """Draw an index for each chunk."""

    def order(self, seed: bytes, candidates: int, fraction_bits: int) -> NDArray[np.int32] | None:  # noqa: ARG002
        """Return public integers that are added to the scores of the candidates; None if nothing is added."""
        return None

    def observe(self, indices: Indices, shared: Shared) -> Any:
        """Return what a receiver observes of the indices: a number for each coordinate, chunk after chunk."""
        return shared.noise(shared.draws(indices))

    # The price.

    @abstractmethod
    def terms(self, step: CodedStep, channel: Channel) -> Terms:
        """Return the terms of a planned step."""

    def recorded(self, used: StepRecord) -> Terms:
        """Return the terms of what the encoder used."""
        if used.terms is None:
            raise NoCertificateError(self.name, "nothing was certified of this draw")
        return used.terms

    @classmethod
    @abstractmethod
    def priced_by(cls, terms: Terms) -> Self:
        """Return a code of this kind that prices these terms, or raise if they cannot be terms of this kind."""

    @abstractmethod
    def price(self, terms: Terms, touched: int = 1, apart: bool = True, change: int = LEVELS) -> Cost:
        """Return what one step costs a unit.

        Args:
            terms: The terms of the step.
            touched: How often the unit takes part in the selections of the step: by coordinate, or once as a whole.
            apart: Whether no two of those are in the same selection.
            change: By how many of the 255 levels each coordinate of the unit changes, at most.
        """

    # The bits.

    @property
    def fixed_length(self) -> bool:
        """Whether an index takes all the bits of its width; otherwise likely ones take fewer."""
        return True

    def index_model(self, index_bits: int, exponent_units: int) -> Model:  # noqa: ARG002
        """Return the law by which an index among 2^index_bits is entropy coded; raise if its length is fixed."""
        raise DippError(self.name, "its indices have a fixed length, and no entropy code")

    def exponent_units(self, kl_bits: float) -> int:  # noqa: ARG002
        """Return the parameter of `index_model` for chunks of this divergence, a public guess; 0 if it has none."""
        return 0

    def expected_bits(self, kl_bits: Floats, index_bits: Floats) -> Floats:  # noqa: ARG002
        """Return the mean bits of an index among 2^index_bits, for a chunk of this divergence."""
        return np.asarray(index_bits, np.float64)

    @property
    def padding_bits(self) -> int:
        """Largest number of bits that an image takes beyond the codes of its indices, to fill up whole bytes."""
        return 0 if self.fixed_length else 8

    # What audits ask.

    @abstractmethod
    def outcomes(self, scored: Scored) -> list[Outcomes]:
        """Return the exact law of the index of each chunk."""

    def log_weights(self, scored: Scored) -> Floats:
        """Return ln P of every outcome of each chunk, up to a constant for each chunk: chunks × outcomes."""
        return np.stack([chunk.log_law() for chunk in self.outcomes(scored)])


class BySensitivity(Code):
    """A code that pays for how far one coordinate can move its scores. The unit is a pixel."""

    terms_kind = Sensitivity

    @classmethod
    def at(cls, alpha: Fraction) -> Self:
        """Return the code of this kind that folds α into its scores."""
        if alpha != cls().score_alpha:
            raise DippError("alpha", f"{cls().score_alpha} is needed with {cls.name}, got {alpha}")
        return cls()

    @abstractmethod
    def charge(self, moved: Reach, touched: int = 1, apart: bool = True) -> Cost:
        """Return what the selections cost a pixel if `touched` of its coordinates take part, each moving them so far.

        `apart` says that no two of them take part in the same selection. ε is `touched` times that of one coordinate.
        """

    @abstractmethod
    def eta(self, moved: Reach) -> float:
        """Return η: the nats of that ε that the rounding of the code's tables accounts for, for one coordinate."""

    def terms(self, step: CodedStep, channel: Channel) -> Sensitivity:
        """Return the terms that follow from the step's integers."""
        own = step.arithmetic(channel, self.score_alpha)
        slope = None if own.clip is None else own.level_of_one
        eta = self.eta(own.moved)
        return Sensitivity(self.score_alpha, own.sensitivity, own.fraction_bits, eta, own.largest_shift, slope)

    def recorded(self, used: StepRecord) -> Sensitivity:
        """Return the terms that follow from the table in which pixels were looked up, and from the clip."""
        clip, slope, sensitivity, limit = used.clip, None, used.spread, used.spread
        if clip is not None:
            slope, sensitivity, limit = int(used.table.max()), min(used.spread, 2 * clip), min(clip, used.spread)
        eta = self.eta(Reach(sensitivity, limit, used.fraction_bits))
        return Sensitivity(self.score_alpha, sensitivity, used.fraction_bits, eta, clip, slope)

    @classmethod
    def priced_by(cls, terms: Terms) -> Self:
        """Return the code with the α of the terms; its η must equal theirs."""
        if not isinstance(terms, Sensitivity):
            raise DippError(cls.name, f"terms of a sensitivity are needed, got {type(terms).__name__}")
        code = cls.at(terms.alpha)
        if terms.eta != code.eta(terms.moved()):
            raise DippError("eta", f"that of the code is needed, got {terms.eta}")
        return code

    def price(self, terms: Terms, touched: int = 1, apart: bool = True, change: int = LEVELS) -> Cost:
        """Return the charge for how far such a change can move the scores."""
        if not isinstance(terms, Sensitivity):
            raise DippError(self.name, f"terms of a sensitivity are needed, got {type(terms).__name__}")
        return self.charge(terms.moved(change), touched, apart)


class Tilted(BySensitivity):
    """A code that a planner can give the largest tilt that a budget pays for."""

    most_tilt: ClassVar[float]
    """Largest tilt that is planned, in nats."""

    @abstractmethod
    def tilt(self, epsilon: float) -> float:
        """Return the tilt, in nats and before α is folded in, of a clipped selection that costs pure ε."""

    @abstractmethod
    def pure(self, rho: float) -> float:
        """Return pure ε of a clipped selection that costs ρ."""
