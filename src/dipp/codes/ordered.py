"""The Poisson order of the codes `ppr` and `pfr`: arrival times T_k that favour early candidates, and a zeta code.

The candidates arrive at the public times T_1 < T_2 < … of a unit-rate Poisson process, and an early one is preferred to
a late one of the same score. So small indices are likely, and an entropy code makes them short.
"""

from __future__ import annotations

import functools
import math
from abc import abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dipp.codes.oneshot import OneShot
from dipp.core import entropy, exponents, randomness
from dipp.core.code import Floats
from dipp.core.columns import EXPONENT_UNITS
from dipp.core.sensitivity import SensitivityCode
from dipp.errors import DippError


@functools.lru_cache(maxsize=8)
def poisson_order(seed: bytes, candidates: int, alpha: Fraction, fraction_bits: int) -> NDArray[np.int32]:
    """Return the public integers to add to scores: round(−α·log2 T_k·2^S) for the arrival time T_k of candidate k.

    Only the encoder uses them, so the rounding of the platform's logarithm does not matter. They are cached, because
    all images of a step have the same order.

    Args:
        seed: The public seed, 16 bytes.
        candidates: Number of candidates.
        alpha: α, by which the code multiplies scores.
        fraction_bits: S: scores are counted in multiples of 2^−S bits.

    Returns:
        An integer for each candidate, int32.
    """
    gaps = -np.log(randomness.uniforms(randomness.stream(seed, purpose="order"), candidates))
    order: NDArray[np.int32] = np.rint(-float(alpha) * np.log2(np.cumsum(gaps)) * 2.0**fraction_bits).astype(np.int32)
    order.flags.writeable = False
    return order


class PoissonCode(SensitivityCode):
    """A code of the codec that prefers early candidates of a Poisson process, so that small indices are likely."""

    columns = (*SensitivityCode.columns, EXPONENT_UNITS)

    @property
    @abstractmethod
    def zeta_alpha(self) -> Fraction:
        """The α from which the exponent of the zeta code is computed (`core.exponents.paper_exponent`)."""

    def order(self, seed: bytes, candidates: int, fraction_bits: int) -> NDArray[np.int32] | None:
        """Return the Poisson order of the candidates (`poisson_order`)."""
        return poisson_order(seed, candidates, self.score_alpha, fraction_bits)

    @property
    def fixed_length(self) -> bool:
        """False, because small indices take fewer bits."""
        return False

    def index_model(self, index_bits: int, exponent_units: int) -> entropy.ZetaCode:
        """Return the zeta code of an index; its exponent is `exponent_units`/64."""
        return entropy.ZetaCode(1 << index_bits, Fraction(exponent_units, entropy.EXPONENT_UNITS))

    def exponent_units(self, kl_bits: float) -> int:
        """Return the exponent of the paper, as a number of 64ths, for a chunk of this KL divergence in bits."""
        return int(exponents.paper_exponent(kl_bits, self.zeta_alpha) * entropy.EXPONENT_UNITS)

    def expected_bits(self, kl_bits: Floats, index_bits: Floats) -> Floats:
        """Return the mean length, in bits, of the index of each chunk under the zeta code of the paper.

        It is a fit to the simulation of `benchmarks/fit_zeta.py` at α = 2. It is right within 0.3 bits for KL up to 16,
        and for indices of 2 to 7 bits more than the KL.
        """
        pad = index_bits - kl_bits
        return np.asarray(kl_bits * (1 - 0.15 * np.exp(-pad / 6)) + 3.8 * (1 - np.exp(-pad / 4.5)), np.float64)


@dataclass(frozen=True)
class OrderedOneShot(OneShot):
    """A code for one private vector that prefers early candidates of a Poisson process."""

    kl_bits: float | None = field(default=None, kw_only=True)
    """Public guess of the KL divergence in bits, for the zeta code; by default ⌈log2 n⌉ − 2."""
    refitted: bool = field(default=False, kw_only=True)
    """Whether the zeta exponent is from the table fitted to real indices at α = 2, and not from the paper."""

    @property
    @abstractmethod
    def code(self) -> PoissonCode:
        """The code, by which the index is drawn and priced."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kl_bits is not None and not (isinstance(self.kl_bits, int | float) and 0 <= self.kl_bits < math.inf):
            raise DippError("kl_bits", f"must be a finite number from 0, got {self.kl_bits}")
        if self.refitted and self.code.zeta_alpha != exponents.REFITTED_ALPHA:
            raise DippError("refitted", f"is for α = {exponents.REFITTED_ALPHA} alone, got α = {self.code.zeta_alpha}")

    @functools.cached_property
    def model(self) -> entropy.ZetaCode:
        """The zeta code of the index."""
        # This is an integer function of n, because the code must not depend on the platform's logarithm.
        kl = max(0, (self.candidates - 1).bit_length() - 2) if self.kl_bits is None else self.kl_bits
        if self.refitted:
            return entropy.ZetaCode(self.candidates, exponents.refitted_exponent(kl, self.candidates))
        # As α falls to 1, the exponent of the paper tends to 1; truncated at n, that is a proper law.
        alpha = self.code.zeta_alpha
        exponent = exponents.paper_exponent(kl, alpha) if alpha > 1 else Fraction(1)
        return entropy.ZetaCode(self.candidates, exponent)

    def _pack(self, index: int) -> bytes:
        return entropy.encode([(self.model, index)])

    def _unpack(self, body: bytes) -> int:
        (index,) = entropy.decode(body, [self.model])
        return index

    @property
    def _public_code(self) -> str:
        return f"{self._public_numbers}/{self.code.score_alpha}/{self.model.exponent}"
