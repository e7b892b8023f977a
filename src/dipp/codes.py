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
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from dipp import entropy, randomness, scoring, selection
from dipp.arithmetic import Arithmetic
from dipp.channels import Channel, Sign
from dipp.errors import DippError, NoCertificateError

Floats = NDArray[np.float64]

MAX_EXACT_INDEX = 1 << 40
"""Ranks that the zeta code of `ExactPPR` can carry."""


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
    """Public guess of the divergence in bits, for the zeta code; by default that of |x| = ½ everywhere."""

    def __post_init__(self) -> None:
        if not self.alpha >= 1:
            raise DippError(f"alpha: a rational of at least 1 is needed with the Poisson order, got {self.alpha}")
        super().__post_init__()

    @property
    def _alpha(self) -> Fraction:
        return Fraction(self.alpha)

    @functools.cached_property
    def model(self) -> entropy.ZetaCode:
        """The zeta code of the index, with the paper's parameter."""
        kl = self.kl_bits
        if kl is None:
            kl = self.dims * float(self.channel.kl(np.asarray(math.sqrt(self.snr) / 2)))
        return entropy.ZetaCode(self.candidates, entropy.paper_exponent(kl, self._alpha))

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
        """Send the index of the best score."""
        order = poisson_order(seed, self.candidates, Fraction(1), self.arithmetic.fraction_bits)
        scores = scoring.backend("cpu").scores(self._task(x, seed, order))
        return entropy.encode([(self.model, int(np.argmax(scores[0])))])


@dataclass(frozen=True)
class Mechanism:
    """A privacy mechanism P(· | x) with a bounded density ratio r = dP/dQ against a public law Q, as callables."""

    quantile: Callable[[Floats], Floats]
    """Rows of `dims` uniforms → as many samples of Q, one a row."""
    log_ratio: Callable[[Floats, Floats], Floats]
    """(samples, x) → ln r(sample | x)."""
    log_sup_ratio: Callable[[Floats], float]
    """x → an upper bound of ln r(· | x). It decides only how long the encoder searches, never what it sends."""
    epsilon: float
    """Pure ε of the mechanism itself."""
    kl_bits: float
    """Public guess of KL(P || Q) in bits, for the zeta code."""
    dims: int = 1


@dataclass(frozen=True)
class ExactPPR:
    """Definition 2: K = argmin_k V_k·(T_k/r(M_k | x))^α over all k; M_K is an exact sample of the mechanism.

    The minimum over infinitely many points is found as follows. With U = T·V^(1/α), K minimises U/r. (1) All points
    with T ≤ τ are simulated in T order, τ a multiple of sup r; let their best be β = min U/r. No point with U > u* =
    β·sup r can win. (2) The points with T > τ and U ≤ u* are simulated in U order: all points form a Poisson process
    of rate Γ(1 − 1/α) in U with independent marks V ~ Gamma(1 − 1/α), T = U·V^(−1/α), of which those with T ≤ τ are
    dropped, since that half plane has been simulated. (3) Their ranks in T order count the points between them with U
    > u*: by independence over
    disjoint regions Poisson with mean ∫ exp(−(u*/t)^α) dt = F(t₂) − F(t₁),
    F(t) = t·e^−y − u*·Γ(1 − 1/α, y), y = (u*/t)^α. The candidates M_k are random-access in k, so only explored points
    cost.

    T need not be shared: for every realisation of (M, T) the index is 2αε-DP, hence also when T is averaged over. The
    ε holds in exact arithmetic; floats are used here, so this code is the reference for correctness, and not
    certified.
    """

    mechanism: Mechanism
    alpha: float = 2.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.alpha) and self.alpha > 1):
            raise DippError(f"alpha: a finite number above 1 is needed for an exact code, got {self.alpha}")

    @property
    def epsilon(self) -> float:
        """2α times the mechanism's ε, in exact arithmetic; not certified for this floating-point program."""
        return 2 * self.alpha * self.mechanism.epsilon

    @functools.cached_property
    def model(self) -> entropy.ZetaCode:
        """The zeta code of the paper, wide enough for any rank met in practice."""
        return entropy.ZetaCode(MAX_EXACT_INDEX, entropy.paper_exponent(self.mechanism.kl_bits, Fraction(self.alpha)))

    def encode(self, x: Floats, seed: bytes) -> bytes:
        """Search for K and send K − 1 by the zeta code."""
        return entropy.encode([(self.model, self.index(np.asarray(x, np.float64), seed))])

    def decode(self, payload: bytes, seed: bytes) -> Floats:
        """The sample M_K."""
        rank = entropy.decode(payload, [self.model])[0]
        sample: Floats = self._candidates(np.array([rank]), seed)[0]
        return sample

    def index(self, x: Floats, seed: bytes) -> int:
        """K − 1."""
        log_sup = self.mechanism.log_sup_ratio(x)
        if not (np.isfinite(x).all() and math.isfinite(log_sup)):
            raise DippError("x: finite values with a finite bound on the density ratio are needed")
        sup, shape = math.exp(log_sup), 1 - 1 / self.alpha
        near, horizon = np.empty(0), 0.0
        while not len(near):
            near, horizon = horizon + _arrivals(4 * sup + 16), horizon + 4 * sup + 16
        v = -np.log(randomness.private_uniforms(len(near)))
        costs = self._costs(near * v ** (1 / self.alpha), np.arange(len(near)), x, seed)
        best = int(np.argmin(costs))
        # Beyond the horizon only points with U ≤ frontier can still win.
        frontier, rate = float(costs[best]) * sup, float(special.gamma(shape))
        u = _arrivals(frontier * rate) / rate
        t = u * special.gammaincinv(shape, randomness.private_uniforms(len(u))) ** (-1 / self.alpha)
        order = np.argsort(t)
        order = order[t[order] > horizon]
        if not len(order):
            return best
        hidden = np.diff(_hidden_mass(np.concatenate([[horizon], t[order]]), frontier, self.alpha))
        skipped = stats.poisson.ppf(randomness.private_uniforms(len(order)), hidden)
        ranks = len(near) + np.cumsum(skipped + 1) - 1
        if ranks[-1] >= 2**62:
            raise DippError("alpha: the search met a rank beyond 2^62; use a larger alpha")
        far_costs = self._costs(u[order], ranks.astype(np.int64), x, seed)
        winner = int(np.argmin(far_costs))
        return int(ranks[winner]) if far_costs[winner] < costs[best] else best

    def _candidates(self, ranks: NDArray[np.int64], seed: bytes) -> Floats:
        uniforms = randomness.uniforms_at(randomness.stream(seed, purpose="exact"), ranks, self.mechanism.dims)
        return self.mechanism.quantile(uniforms)

    def _costs(self, u: Floats, ranks: NDArray[np.int64], x: Floats, seed: bytes) -> Floats:
        """U/r, by which the points compete."""
        return u * np.exp(-self.mechanism.log_ratio(self._candidates(ranks, seed), x))


def _arrivals(length: float) -> Floats:
    """Arrival times in [0, length] of a private unit-rate Poisson process, ascending: a Poisson number of uniforms."""
    count = int(stats.poisson.ppf(randomness.private_uniforms(1)[0], length))
    return np.sort(randomness.private_uniforms(count)) * length


def _hidden_mass(t: Floats, frontier: float, alpha: float) -> Floats:
    """F(t) = ∫_0^t exp(−(u*/s)^α) ds, the mean number of points with T ≤ t and U > u*."""
    shape, y = 1 - 1 / alpha, (frontier / t) ** alpha
    return np.asarray(t * np.exp(-y) - frontier * special.gamma(shape) * special.gammaincc(shape, y), np.float64)
