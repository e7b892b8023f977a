"""The face of a code: how the index of a chunk is drawn, what it costs in privacy and in bits, and how it is packed.

Plans, the codec and the file format speak to every code through this class alone, and have no flag of their own. The
planner of sensing and its check know pairs, and audits know how a code draws. The codes themselves are in `dipp.codes`,
a file each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dipp.core.channels import Channel
from dipp.core.columns import CHUNK_SIZE, INDEX_BITS, Column
from dipp.core.entropy import Model
from dipp.errors import DippError, NoCertificateError

Indices = NDArray[np.int64]
Floats = NDArray[np.float64]


class Scored(Protocol):
    """The candidates of many chunks, scored by the private image. Nothing but what a code draws may be released."""

    def select(self) -> Indices:
        """One index a chunk by the exponential mechanism: see `selection`."""

    def best(self) -> Indices:
        """The index of the best score of each chunk: a function of the private image."""

    def single_shifts(self) -> NDArray[np.int32]:
        """The private integer shifts themselves, on the host; every chunk must be a single coordinate."""

    @property
    def limit(self) -> int:
        """The largest size that a shift can have."""

    @property
    def fraction_bits(self) -> int:
        """S: a unit of score is 2^−S bits."""


class Moved(NamedTuple):
    """How far one coordinate can move a selection, in the step's integers."""

    units: int
    """D: units by which it can move any score."""
    largest: int
    """The largest size that its shift can have."""
    fraction_bits: int
    """S: a unit is 2^−S bits."""


class Charge(NamedTuple):
    """What one step costs a pixel that it touches."""

    epsilon: float
    """Pure ε of all the selections that the pixel takes part in."""
    rho: float
    """ρ (zCDP) of them."""


class Code(ABC):
    """A code that the codec can use. Codes are frozen dataclasses: equal parameters make equal codes."""

    name: ClassVar[str]
    number: ClassVar[int]
    """Number of the code in files."""
    parameters: ClassVar[tuple[str, ...]] = ()
    """Its rational parameters, in the order in which files list them behind the number."""
    columns: ClassVar[tuple[Column, ...]] = (CHUNK_SIZE, INDEX_BITS)
    """What files list of every step for this code. A size that is not listed is 1 in every step."""

    @classmethod
    def at(cls, alpha: Fraction) -> Code:
        """The code of this kind that folds α into its scores: ledgers name a code and an α, and price by both."""
        if alpha != cls().score_alpha:
            raise DippError(f"alpha: {cls().score_alpha} is needed with {cls.name}, got {alpha}")
        return cls()

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
        """Whether indices are drawn by a differentially private rule, given scores of bounded sensitivity."""
        return True

    @abstractmethod
    def draw(self, scored: Scored) -> Indices:
        """An index for each chunk."""

    def require_sizes(self, channel: Channel, chunk_size: int, index_bits: int) -> None:  # noqa: B027 - most take any
        """Refuse a channel, or sizes of the chunks and indices of a step, that the code is not made for."""

    def order(self, seed: bytes, candidates: int, fraction_bits: int) -> NDArray[np.int32] | None:  # noqa: ARG002
        """Public integers that are added to the scores of the candidates; None, if there are none to add."""
        return None

    @abstractmethod
    def charge(self, moved: Moved, touched: int = 1, apart: bool = True) -> Charge:
        """What the selections cost a pixel of which `touched` coordinates take part, each moving them so far.

        `apart` says that no two of them take part in the same selection. ε is `touched` times that of one coordinate.
        """

    @abstractmethod
    def eta(self, moved: Moved) -> float:
        """η: nats of that ε that the rounding of the code's own tables accounts for, for one coordinate."""

    def chosen_draws(self, indices: Indices, winners: Callable[[Indices], Any]) -> Any:
        """What the chosen candidates have drawn, coordinate after coordinate; `winners` looks candidates up."""
        return winners(indices)

    @property
    @abstractmethod
    def fixed_length(self) -> bool:
        """Whether an index takes all the bits of its width; otherwise likely ones take fewer."""

    @abstractmethod
    def index_model(self, index_bits: int, exponent_units: int) -> Model:
        """The integer law by which an index among 2^index_bits is entropy coded, if it has no fixed length."""

    def exponent_units(self, kl_bits: float) -> int:  # noqa: ARG002
        """The parameter of `index_model` for chunks of this divergence, a public guess; 0 where it has none."""
        return 0

    @abstractmethod
    def expected_bits(self, kl_bits: Floats, index_bits: Floats) -> Floats:
        """Bits that an index among 2^index_bits takes on the average, for a chunk of this divergence."""

    @property
    def padding_bits(self) -> int:
        """Bits that an image takes beyond the codes of its indices, at most: to fill up whole bytes."""
        return 0 if self.fixed_length else 8

    def require_certified(self) -> None:
        """Raise, where there is no certificate."""
        if not self.certified:
            raise NoCertificateError(f"{self.name}: its indices are not differentially private; use another code")
