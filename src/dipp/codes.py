"""Stochastic codes: a private vector in, a few bytes out, from which a noisy sample of the vector is decoded.

| code | index | certificate |
|---|---|---|
| `ExactPPR` | Definition 2, α > 1: exact samples of any mechanism with a bounded density ratio | 2αε in exact
arithmetic |
| `StepLimitedPPR` | Definition 3: the best of n candidates, α ≥ 1 rational, Poisson order, zeta code | from its
integers |
| `FlatCode` | the same with α = 1, no order and a fixed-length index | from its integers |
| `PFR` | α = ∞, the Poisson functional representation: no private randomness | none, and it says so |

The three on channels code x ∈ [−1, 1]^dims as x + z/√snr, z the channel's unit-variance noise; the protected unit is
one coordinate of x. Everything but x is public and part of the code, so sender and receiver hold equal code objects
and share a 16-byte public seed. A code may be used for one x only per seed by a sender who wants independent noise;
each use costs ε again.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dipp import entropy, randomness, scoring, selection
from dipp.arithmetic import Arithmetic
from dipp.channels import Channel, Sign
from dipp.errors import DippError, NoCertificateError

Floats = NDArray[np.float64]


def poisson_order(seed: bytes, candidates: int, alpha: Fraction, fraction_bits: int) -> NDArray[np.int32]:
    """round(−α·log2 T_k·2^S) for the arrival times T_k of a public unit-rate Poisson process.

    Only the encoder uses it, and only as a public number added to the scores, so the platform's logarithm may round
    as it likes.
    """
    gaps = -np.log(randomness.uniforms(randomness.stream(seed, purpose="order"), candidates))
    order: NDArray[np.int32] = np.rint(-float(alpha) * np.log2(np.cumsum(gaps)) * 2.0**fraction_bits).astype(np.int32)
    return order


@dataclass(frozen=True)
class _ChannelCode:
    """What the codes on channels share: the task that scores x, and the way back from an index."""

    channel: Channel
    snr: float
    """Power of x over the power of the noise at |x| = 1: the sample is x + z/√snr."""
    dims: int
    candidates: int
    """n: how many candidates the encoder weighs."""
    device: str = field(default="cpu", kw_only=True, compare=False)

    def __post_init__(self) -> None:
        if self.dims < 1:
            raise DippError(f"dims: at least one coordinate is needed, got {self.dims}")
        if not 1 <= self.candidates <= selection.MAX_CANDIDATES:
            raise DippError(f"candidates: n from 1 to {selection.MAX_CANDIDATES} is needed, got {self.candidates}")
        if isinstance(self.channel, Sign) and self.channel.period != 1:
            raise DippError("channel: a one-shot code touches every coordinate; use Sign(period=1)")
        Arithmetic(self.channel, self.snr, self._alpha)

    @property
    def _alpha(self) -> Fraction:
        return Fraction(1)

    @functools.cached_property
    def arithmetic(self) -> Arithmetic:
        """The public integers of the code."""
        return Arithmetic(self.channel, self.snr, self._alpha)

    @property
    def epsilon(self) -> float:
        """Pure ε for any change of one coordinate of x, from the integers that are really used."""
        return self.arithmetic.epsilon()

    def _task(self, x: Floats, seed: bytes, order: NDArray[np.int32] | None) -> scoring.ScoringTask:
        x = np.asarray(x, np.float64)
        if x.shape != (self.dims,):
            raise DippError(f"x: an array of shape ({self.dims},) is needed, got {x.shape}")
        return scoring.ScoringTask(
            law=self.arithmetic.law,
            fraction_bits=self.arithmetic.fraction_bits,
            candidates=self.candidates,
            streams=scoring.stream_rows([randomness.stream(seed)], [0]),
            offsets=np.array([0, self.dims]),
            shifts=self.arithmetic.shifts(x, np.zeros(self.dims)),
            order=order,
        )

    def _sample(self, index: int, seed: bytes) -> Floats:
        drawn = scoring.backend(self.device).winners(
            self.arithmetic.law,
            scoring.stream_rows([randomness.stream(seed)], [0]),
            np.array([0, self.dims]),
            np.array([index]),
        )
        return self.channel.sample(drawn) / math.sqrt(self.snr)


@dataclass(frozen=True)
class FlatCode(_ChannelCode):
    """α = 1, no order: P[K = k] ∝ r(M_k | x), a fixed-length index. Half the ε of α = 2 for 15-20 % more bits."""

    @property
    def model(self) -> entropy.FixedLength:
        """⌈log2 n⌉ bits (at least one) for the index."""
        return entropy.FixedLength((max(1, (self.candidates - 1).bit_length()),))

    def encode(self, x: Floats, seed: bytes) -> bytes:
        """Select and send: ⌈log2 n⌉ bits, rounded up to a byte."""
        index = scoring.select(self._task(x, seed, None), scoring.backend(self.device))
        return self.model.pack(index[None])

    def decode(self, payload: bytes, seed: bytes) -> Floats:
        """The sample that the encoder selected."""
        index = int(self.model.unpack(payload, images=1)[0, 0])
        if index >= self.candidates:
            raise DippError(f"payload: index {index} is not below n = {self.candidates}; the payload is corrupt")
        return self._sample(index, seed)


@dataclass(frozen=True)
class StepLimitedPPR(_ChannelCode):
    """Definition 3: P[K = k | Z] ∝ (r(M_k | x)/T_k)^α over the first n points of a Poisson process.

    This is the law of the paper's argmin over V_k·(T_k/r_k)^α with exponential V_k, drawn with one secure integer
    instead of n private floats. α = 1 is allowed: the step limit makes it a proper law.
    """

    alpha: Fraction = Fraction(2)
    kl_bits: float | None = None
    """Public guess of the divergence in bits, for the zeta code; by default log2 n − 2, as if n followed from it."""

    def __post_init__(self) -> None:
        if not 1 <= self.alpha < math.inf:
            raise DippError(f"alpha: a rational of at least 1 is needed with the Poisson order, got {self.alpha}")
        super().__post_init__()

    @property
    def _alpha(self) -> Fraction:
        return Fraction(self.alpha)

    @functools.cached_property
    def model(self) -> entropy.ZetaCode:
        """The zeta code of the index, with the paper's parameter."""
        # An integer function of n: the platform's logarithm must not decide the code.
        kl = max(0, (self.candidates - 1).bit_length() - 2) if self.kl_bits is None else self.kl_bits
        # At α = 1 the paper's parameter tends to 1; truncated at n, that is a proper law.
        exponent = entropy.paper_exponent(kl, self._alpha) if self._alpha > 1 else Fraction(1)
        return entropy.ZetaCode(self.candidates, exponent)

    def encode(self, x: Floats, seed: bytes) -> bytes:
        """Select by the order-weighted scores and send the index by the zeta code."""
        order = poisson_order(seed, self.candidates, self._alpha, self.arithmetic.fraction_bits)
        index = scoring.select(self._task(x, seed, order), scoring.backend(self.device))
        return entropy.encode([(self.model, int(index[0]))])

    def decode(self, payload: bytes, seed: bytes) -> Floats:
        """The sample that the encoder selected."""
        return self._sample(entropy.decode(payload, [self.model])[0], seed)


@dataclass(frozen=True)
class PFR(StepLimitedPPR):
    """α = ∞: K = argmin T_k/r(M_k | x), a function of x and the public seed. It has no certificate, at any n."""

    alpha: Fraction = field(default=Fraction(1), init=False)

    @property
    def epsilon(self) -> float:
        """There is none."""
        raise NoCertificateError(
            "PFR: the index is a function of x and the public seed (ε = ∞); use StepLimitedPPR or FlatCode"
        )

    def encode(self, x: Floats, seed: bytes) -> bytes:
        """Send the index of the best score, on the CPU whatever the device: there is nothing to draw."""
        order = poisson_order(seed, self.candidates, Fraction(1), self.arithmetic.fraction_bits)
        scores = scoring.backend("cpu").scores(self._task(x, seed, order))
        return entropy.encode([(self.model, int(np.argmax(scores[0])))])
