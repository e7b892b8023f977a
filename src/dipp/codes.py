"""Stochastic codes: a private vector in, a few bytes out, from which a noisy sample of the vector is decoded.

| code | index | certificate |
|---|---|---|
| `ExactPPR` (module `exact`) | Definition 2, α > 1: any mechanism with a bounded ratio | 2αε in exact arithmetic |
| `StepLimitedPPR` | Definition 3: the best of n candidates, α ≥ 1 rational, Poisson order, zeta code | from its
integers |
| `FlatCode` | the same with α = 1, no order and a fixed-length index | from its integers |
| `PFR` | α = ∞, the Poisson functional representation: no private randomness | none, and it says so |

The three on channels code x ∈ [−1, 1]^dims as z/√snr with z the channel's unit-variance noise around √snr·x (the sign
channel: ±1 with the mean tanh(√snr·x)); the protected unit is one coordinate of x. Everything but x is public and
part of the code, so sender and receiver hold equal code objects and share a 16-byte public seed. Each use costs ε
again.

A payload ends in a two-byte seal over code, seed and index: a truncated or damaged one, or one of another code or
seed, is refused, but for one in 65,536. The seal is a function of what is released anyway, so it costs no ε.
"""

from __future__ import annotations

import functools
import hashlib
import math
import operator
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Rational

import numpy as np
from numpy.typing import NDArray

from dipp import entropy, randomness, scoring, selection
from dipp.arithmetic import Arithmetic
from dipp.channels import Channel, Sign
from dipp.errors import DippError, NoCertificateError

Floats = NDArray[np.float64]

SEAL_BYTES = 2
ORDER_ROOM = 1 << 26
"""Scores leave so much room below their limit for the Poisson order: 2^26 units are 60 bits at the largest scale."""


def poisson_order(seed: bytes, candidates: int, alpha: Fraction, fraction_bits: int) -> NDArray[np.int32]:
    """round(−α·log2 T_k·2^S) for the arrival times T_k of a public unit-rate Poisson process.

    Only the encoder uses it, and only as a public number added to the scores, so the platform's logarithm may round
    as it likes.
    """
    gaps = -np.log(randomness.uniforms(randomness.stream(seed, purpose="order"), candidates))
    order: NDArray[np.int32] = np.rint(-float(alpha) * np.log2(np.cumsum(gaps)) * 2.0**fraction_bits).astype(np.int32)
    return order


def seal(body: bytes, seed: bytes, public: str) -> bytes:
    """The payload: the coded index and its seal."""
    return body + _seal_of(body, seed, public)


def unseal(payload: bytes, seed: bytes, public: str) -> bytes:
    """The coded index of a payload, if the seal is right."""
    if not isinstance(payload, bytes) or len(payload) < SEAL_BYTES:
        raise DippError(f"payload: at least {SEAL_BYTES} bytes are needed; get it again")
    body = payload[:-SEAL_BYTES]
    if payload[-SEAL_BYTES:] != _seal_of(body, seed, public):
        raise DippError("payload: damaged, or made with another code or seed; get it again")
    return body


def _seal_of(body: bytes, seed: bytes, public: str) -> bytes:
    randomness.stream(seed)  # refuses what is not a seed
    return hashlib.sha256(b"dipp/seal/" + public.encode() + b"\0" + seed + body).digest()[:SEAL_BYTES]


def vector(x: object, dims: int) -> Floats:
    """A private vector as floats, or one clear line; its values are checked where they are used."""
    try:
        array = np.asarray(x)
        floats = array.astype(np.float64) if array.dtype.kind in "fiu" else np.empty(0)
    except (TypeError, ValueError):
        floats = np.empty(0)
    if floats.shape != (dims,):
        raise DippError(f"x: a row of {dims} real numbers is needed")
    return floats


@dataclass(frozen=True)
class _ChannelCode(ABC):
    """What the codes on channels share: the task that scores x, and the way back from an index."""

    channel: Channel
    snr: float
    """Power of x over the power of the noise at |x| = 1."""
    dims: int
    candidates: int
    """n: how many candidates the encoder weighs."""
    device: str = field(default="cpu", kw_only=True, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.channel, Channel):
            raise DippError(f"channel: a channel such as Laplace() is needed, got {self.channel!r}")
        _whole("dims", self.dims, 1 << 40)
        _whole("candidates", self.candidates, selection.MAX_CANDIDATES)
        if not (isinstance(self.snr, int | float) and 0 < self.snr < math.inf):
            raise DippError(f"snr: a finite number above 0 is needed, got {self.snr}")
        if isinstance(self.channel, Sign) and self.channel.period != 1:
            raise DippError("channel: a one-shot code touches every coordinate; use Sign(period=1)")
        try:
            arithmetic = self._arithmetic
        except DippError as error:
            raise DippError(f"snr: {self.snr} does not suit this channel and α ({error})") from None
        if self.dims * arithmetic.law.bound >= selection.MAX_ABS_SCORE - ORDER_ROOM:
            raise DippError(f"dims: {self.dims} coordinates can overflow the scores at this snr; use fewer")

    @functools.cached_property
    def _arithmetic(self) -> Arithmetic:
        return Arithmetic(self.channel, self.snr, self._score_alpha)

    @property
    @abstractmethod
    def _score_alpha(self) -> Fraction:
        """α that is folded into the scores."""

    @property
    def _public(self) -> str:
        """The code in words, for the seal."""
        return f"{type(self).__name__}/{self.channel!r}/{float(self.snr).hex()}/{self.dims}/{self.candidates}"

    def _task(self, x: object, seed: bytes, order: NDArray[np.int32] | None) -> scoring.ScoringTask:
        return scoring.ScoringTask(
            law=self._arithmetic.law,
            fraction_bits=self._arithmetic.fraction_bits,
            candidates=self.candidates,
            streams=scoring.stream_rows([randomness.stream(seed)], [0]),
            offsets=np.array([0, self.dims]),
            shifts=self._arithmetic.shifts(vector(x, self.dims), np.zeros(self.dims)),
            order=order,
        )

    def _sample(self, index: int, seed: bytes) -> Floats:
        on = scoring.backend(self.device)
        drawn = on.winners(
            self._arithmetic.law,
            scoring.stream_rows([randomness.stream(seed)], [0]),
            np.array([0, self.dims]),
            np.array([index]),
        )
        return self.channel.sample(on.host(drawn)) / math.sqrt(self.snr)


@dataclass(frozen=True)
class FlatCode(_ChannelCode):
    """α = 1, no order: P[K = k] ∝ r(M_k | x), a fixed-length index. Half the ε of α = 2 for 15-20 % more bits."""

    @property
    def _score_alpha(self) -> Fraction:
        return Fraction(1)

    @property
    def epsilon(self) -> float:
        """Pure ε for any change of one coordinate of x, from the integers that are really used."""
        return self._arithmetic.epsilon()

    @property
    def model(self) -> entropy.FixedLength:
        """⌈log2 n⌉ bits (at least one) for the index."""
        return entropy.FixedLength((max(1, (self.candidates - 1).bit_length()),))

    def encode(self, x: Floats, seed: bytes) -> bytes:
        """Select and send: ⌈log2 n⌉ bits in whole bytes, and the seal."""
        index = scoring.select(self._task(x, seed, None), scoring.backend(self.device))
        return seal(self.model.pack(index[None]), seed, self._public)

    def decode(self, payload: bytes, seed: bytes) -> Floats:
        """The sample that the encoder selected."""
        body = unseal(payload, seed, self._public)
        if len(body) != self.model.size(1):
            raise DippError("payload: of the wrong length; get it again")
        index = int(self.model.unpack(body, images=1)[0, 0])
        if index >= self.candidates:
            raise DippError(f"payload: index {index} is not below n = {self.candidates}; get it again")
        return self._sample(index, seed)


@dataclass(frozen=True)
class _OrderedCode(_ChannelCode):
    """Codes over a Poisson process: the order T_k weighs on the scores, and the index is sent by a zeta code."""

    kl_bits: float | None = field(default=None, kw_only=True)
    """Public guess of the divergence in bits, for the zeta code; by default log2 n − 2, as if n followed from it."""
    refitted: bool = field(default=False, kw_only=True)
    """Take the zeta parameter from the table fitted to real indices at α = 2, and not the paper's."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kl_bits is not None and not (isinstance(self.kl_bits, int | float) and 0 <= self.kl_bits < math.inf):
            raise DippError(f"kl_bits: a finite number ≥ 0 is needed, got {self.kl_bits}")
        if self.refitted and self._zeta_alpha != entropy.REFITTED_ALPHA:
            raise DippError(
                f"refitted: the table is for α = {entropy.REFITTED_ALPHA} alone, got α = {self._zeta_alpha}"
            )

    @property
    def _zeta_alpha(self) -> Fraction:
        return self._score_alpha

    @functools.cached_property
    def model(self) -> entropy.ZetaCode:
        """The zeta code of the index."""
        # An integer function of n: the platform's logarithm must not decide the code.
        kl = max(0, (self.candidates - 1).bit_length() - 2) if self.kl_bits is None else self.kl_bits
        if self.refitted:
            return entropy.ZetaCode(self.candidates, entropy.refitted_exponent(kl, self.candidates))
        # At α = 1 the paper's parameter tends to 1; truncated at n, that is a proper law.
        exponent = entropy.paper_exponent(kl, self._zeta_alpha) if self._zeta_alpha > 1 else Fraction(1)
        return entropy.ZetaCode(self.candidates, exponent)

    @property
    def _public(self) -> str:
        return f"{super()._public}/{self._score_alpha}/{self.model.exponent}"

    @abstractmethod
    def _choose(self, task: scoring.ScoringTask) -> NDArray[np.int64]:
        """The index of the task's one chunk."""

    def encode(self, x: Floats, seed: bytes) -> bytes:
        """Choose by the order-weighted scores and send the index by the zeta code, with the seal."""
        order = poisson_order(seed, self.candidates, self._score_alpha, self._arithmetic.fraction_bits)
        index = int(self._choose(self._task(x, seed, order))[0])
        return seal(entropy.encode([(self.model, index)]), seed, self._public)

    def decode(self, payload: bytes, seed: bytes) -> Floats:
        """The sample that the encoder chose."""
        (index,) = entropy.decode(unseal(payload, seed, self._public), [self.model])
        return self._sample(index, seed)


@dataclass(frozen=True)
class StepLimitedPPR(_OrderedCode):
    """Definition 3: P[K = k | Z] ∝ (r(M_k | x)/T_k)^α over the first n points of a Poisson process.

    This is the law of the paper's argmin over V_k·(T_k/r_k)^α with exponential V_k, drawn with one secure integer
    instead of n private floats. α = 1 is allowed: the step limit makes it a proper law.
    """

    alpha: Fraction = Fraction(2)

    def __post_init__(self) -> None:
        if not isinstance(self.alpha, Rational) or not self.alpha >= 1:
            raise DippError(f"alpha: a rational of at least 1 is needed with the Poisson order, got {self.alpha}")
        super().__post_init__()

    @property
    def _score_alpha(self) -> Fraction:
        return Fraction(self.alpha)

    @property
    def epsilon(self) -> float:
        """Pure ε for any change of one coordinate of x, from the integers that are really used."""
        return self._arithmetic.epsilon()

    def _choose(self, task: scoring.ScoringTask) -> NDArray[np.int64]:
        return scoring.select(task, scoring.backend(self.device))


@dataclass(frozen=True)
class PFR(_OrderedCode):
    """α = ∞: K = argmin T_k/r(M_k | x), a function of x and the public seed. It has no certificate, at any n."""

    @property
    def _score_alpha(self) -> Fraction:
        return Fraction(1)

    @property
    def _zeta_alpha(self) -> Fraction:
        # The paper's parameter is the same for all α from 3 on.
        return Fraction(3)

    @property
    def epsilon(self) -> float:
        """There is none."""
        raise NoCertificateError("PFR: the index is a function of x and the public seed (ε = ∞); use another code")

    def _choose(self, task: scoring.ScoringTask) -> NDArray[np.int64]:
        return scoring.best(task, scoring.backend(self.device))


def _whole(name: str, value: object, most: int) -> None:
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = 0
    if not 1 <= number <= most:
        raise DippError(f"{name}: a whole number from 1 to {most} is needed, got {value}")
