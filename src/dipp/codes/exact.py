"""Exact Poisson private representation of mechanisms that are given as callables: a reference for correctness."""

from __future__ import annotations

import functools
import itertools
import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dipp.codes.oneshot import seal, unseal
from dipp.core import entropy, exponents, randomness
from dipp.errors import DippError

Floats = NDArray[np.float64]

MAX_RANK = 1 << 62
"""Ranks of points stay below this."""
MIN_ALPHA = 1.01
"""Smallest α: below it the random weights V of the points underflow."""
MAX_LOG_RATIO = 22 * math.log(2)
"""Largest supported ln sup r, because the search takes a multiple of sup r points."""
MAX_STRETCHES = 64
"""Largest number of stretches of time in which the encoder looks for a point with r above 0."""
NORMAL_MEAN = 1e9
"""Poisson counts with at least this mean are drawn from the normal law that they tend to."""


@dataclass(frozen=True)
class Mechanism:
    """A privacy mechanism P(· | x) with a bounded density ratio r = dP/dQ against a public law Q, as callables."""

    quantile: Callable[[Floats], Floats]
    """Function of an array (n, dims) of uniform numbers that returns n samples of Q, one in each row."""
    log_ratio: Callable[[Floats, Floats], Floats]
    """Function of samples (n rows) and x that returns ln r(sample | x) of each sample."""
    log_sup_ratio: Callable[[Floats], float]
    """Function of x that returns an upper bound of ln r(· | x). A sample above the bound raises an error."""
    epsilon: float
    """Pure ε of the mechanism itself."""
    kl_bits: float
    """Public guess of KL(P || Q) in bits, for the zeta code."""
    dims: int = 1
    """Number of uniform numbers in each sample of Q."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon >= 0):
            raise DippError("epsilon", f"must be a finite number from 0, got {self.epsilon}")
        if not (math.isfinite(self.kl_bits) and self.kl_bits >= 0):
            raise DippError("kl_bits", f"must be a finite number from 0, got {self.kl_bits}")
        if self.dims < 1:
            raise DippError("dims", f"must be at least 1, got {self.dims}")


@dataclass(frozen=True)
class ExactPPR:
    """Exact Poisson private representation (Definition 2 of the paper) of a mechanism.

    Point k = 1, 2, … has a candidate M_k, a public sample of Q; the k-th arrival time T_k of a unit-rate Poisson
    process; and an exponential random weight V_k. With the density ratio r and a private vector x, the coded index is

        K = argmin_k V_k·(T_k/r(M_k | x))^α over all k,

    and M_K is an exact sample of the mechanism. The minimum over infinitely many points is found as follows. With
    U = T·V^(1/α), K minimises U/r.

    1. All points with T ≤ τ are simulated in T order, τ a multiple of sup r; let their best be β = min U/r. No point
       with U > u₀ = β·sup r can win any more.
    2. The points with T > τ and U ≤ u₀ are simulated in U order: all points form a Poisson process of rate Γ(1 − 1/α)
       in U with independent weights V ~ Gamma(1 − 1/α), T = U·V^(−1/α); those with T ≤ τ are dropped, since
       that half plane has been simulated already.
    3. Their ranks in T order count the points between them with U > u₀: Poisson, by independence over disjoint regions,
       with mean ∫ exp(−(u₀/t)^α) dt = F(t₂) − F(t₁), F(t) = t·e^−y − u₀·Γ(1 − 1/α, y), y = (u₀/t)^α.

    The candidates M_k are random-access in k, so only explored points take time. Ranks beyond 2^62 are left out, which
    makes this step-limited PPR with a very large n: a total variation of about 2^(−61(α − 1)).

    T need not be shared: for every realisation of (M, T) the index is 2αε-DP, hence also when T is averaged over. The
    ε holds in exact arithmetic; floats are used here, so this code is the reference for correctness, and not
    certified.
    """

    mechanism: Mechanism
    alpha: float = 2.0
    """α, a finite number from 1.01."""

    def __post_init__(self) -> None:
        if not MIN_ALPHA <= self.alpha < math.inf:
            raise DippError("alpha", f"must be a finite number from {MIN_ALPHA} for an exact code, got {self.alpha}")

    @property
    def epsilon(self) -> float:
        """2α times the ε of the mechanism, in exact arithmetic; this floating-point program is not certified."""
        return 2 * self.alpha * self.mechanism.epsilon

    @functools.cached_property
    def model(self) -> OctaveZeta:
        """The zeta code of the ranks, with the exponent of the paper."""
        return OctaveZeta(exponents.paper_exponent(self.mechanism.kl_bits, Fraction(self.alpha)))

    def encode(self, x: Floats, seed: bytes) -> bytes:
        """Return the payload of a private vector: the coded index K with its seal.

        Args:
            x: The private vector, as the mechanism takes it.
            seed: The public seed, 16 bytes.

        Raises:
            DippError: A value or a bound of the mechanism is not finite, or a density ratio exceeds its bound.

        """
        return seal(entropy.encode([(self.model, self.index(x, seed))]), seed, self._public)

    def decode(self, payload: bytes, seed: bytes) -> Floats:
        """Return the sample M_K of a payload, float64.

        Args:
            payload: The payload that `encode` returned.
            seed: The public seed that it was encoded with.

        Raises:
            DippError: The payload is damaged, or belongs to another code or seed.
        """
        (index,) = entropy.decode(unseal(payload, seed, self._public), [self.model])
        sample: Floats = self._candidates(np.array([index]), seed)[0]
        return sample

    @property
    def _public(self) -> str:
        """The public parameters as a text, for the seal; the callables are not part of it."""
        return f"ExactPPR/{float(self.alpha).hex()}/{self.mechanism.dims}/{self.model.exponent}"

    def index(self, x: Floats, seed: bytes) -> int:
        """Return K − 1, the index of the chosen point, for a private vector and a public seed.

        Args:
            x: The private vector, float64.
            seed: The public seed.

        Raises:
            DippError: The vector or its bound on the density ratio is invalid, or the density ratio is 0 at every
                point.
        """
        from scipy import special  # here and below, because it is slow to import

        x = np.asarray(x, np.float64)
        log_sup = self.mechanism.log_sup_ratio(x)
        if not (np.isfinite(x).all() and math.isfinite(log_sup)):
            raise DippError("x", "must have finite values, and a finite bound on the density ratio")
        if not -1e-9 <= log_sup <= MAX_LOG_RATIO:
            raise DippError(
                "log_sup_ratio", f"must be from 0 to {MAX_LOG_RATIO:.2f}, got {log_sup:.2f}", "use StepLimitedPPR"
            )
        sup, shape = math.exp(log_sup), 1 - 1 / self.alpha
        near, costs, horizon = np.empty(0), np.empty(0), 0.0
        # The ratio may be 0 at every point of a stretch; then the search goes on in the next stretch.
        while not np.isfinite(costs).any():
            more = horizon + _arrivals(4 * sup + 16)
            u = more * (-np.log(randomness.private_uniforms(len(more)))) ** (1 / self.alpha)
            costs_of_stretch = self._costs(u, len(near) + np.arange(len(more)), x, seed)
            near, costs = np.append(near, more), np.append(costs, costs_of_stretch)
            horizon += 4 * sup + 16
            if horizon > MAX_STRETCHES * (4 * sup + 16):
                raise DippError(
                    "log_ratio", "is −∞ at every point of the search", "return the logarithm of a density ratio"
                )
        best = int(np.argmin(costs))
        frontier, rate = float(costs[best]) * sup, float(special.gamma(shape))
        u = _arrivals(frontier * rate) / rate
        t = u * special.gammaincinv(shape, randomness.private_uniforms(len(u))) ** (-1 / self.alpha)
        order = np.argsort(t)
        order = order[(t[order] > horizon) & (t[order] < MAX_RANK / 2)]
        if not len(order):
            return best
        hidden = np.diff(_hidden_mass(np.concatenate([[horizon], t[order]]), frontier, self.alpha))
        ranks = len(near) + np.cumsum(_poisson(hidden) + 1) - 1
        far_costs = self._costs(u[order], ranks.astype(np.int64), x, seed)
        winner = int(np.argmin(far_costs))
        return int(ranks[winner]) if far_costs[winner] < costs[best] else best

    def _candidates(self, ranks: NDArray[np.int64], seed: bytes) -> Floats:
        uniforms = randomness.uniforms_at(randomness.stream(seed, purpose="exact"), ranks, self.mechanism.dims)
        return self.mechanism.quantile(uniforms)

    def _costs(self, u: Floats, ranks: NDArray[np.int64], x: Floats, seed: bytes) -> Floats:
        """Return the cost U/r of each point, which is least at the coded index; ∞ where the ratio r is 0.

        Args:
            u: U = T·V^(1/α) of each point, in the letters of the class's docstring.
            ranks: Number k − 1 of each point, in the order of the arrival times T.
            x: The private vector.
            seed: The public seed.
        """
        log_ratio = np.asarray(self.mechanism.log_ratio(self._candidates(ranks, seed), x), np.float64)
        if not (log_ratio <= self.mechanism.log_sup_ratio(x) + 1e-9).all():
            raise DippError("log_ratio", "must be numbers up to log_sup_ratio, but one is above it or NaN")
        with np.errstate(over="ignore"):
            return np.asarray(u * np.exp(-log_ratio), np.float64)


@dataclass(frozen=True)
class OctaveZeta:
    """The law P(k) ∝ 2^(−s·⌊log2 k⌋) of k = 1 … 2^62 − 1 with index k − 1: a zeta law that is flat inside each octave.

    An index takes 0.03 bits more than by the zeta law at s near 1. Each k of octave j, 2^j ≤ k < 2^(j+1), owns
    ⌊2^(100 − s·j)⌋ integers, by integer square roots (s is a multiple of 1/64), at least one; the total stays below
    2^107.
    """

    exponent: Fraction
    """s, a multiple of 1/64."""

    @functools.cached_property
    def _starts(self) -> list[int]:
        return [0, *itertools.accumulate(self._weight(j) << j for j in range(MAX_RANK.bit_length() - 1))]

    def _weight(self, octave: int) -> int:
        power = 1 << max(0, int(64 * (100 - self.exponent * octave)))
        for _ in range(6):
            power = math.isqrt(power)
        return power

    @property
    def total(self) -> int:
        """Sum of all weights."""
        return self._starts[-1]

    def interval(self, index: int) -> tuple[int, int]:
        """Return the first integer that the index owns, and the number of integers that it owns (its weight)."""
        if not 0 <= index < MAX_RANK - 1:
            raise DippError("index", f"must be from 0 to {MAX_RANK - 2}, got {index}")
        octave = (index + 1).bit_length() - 1
        weight = self._weight(octave)
        return self._starts[octave] + (index + 1 - (1 << octave)) * weight, weight

    def find(self, target: int) -> int:
        """Return the index that owns the integer `target`, 0 ≤ target < total."""
        octave = bisect_right(self._starts, target) - 1
        return (1 << octave) - 1 + (target - self._starts[octave]) // self._weight(octave)


def _arrivals(length: float) -> Floats:
    """Return the arrival times in [0, length] of a private unit-rate Poisson process, ascending."""
    count = int(_poisson(np.array([length]))[0])
    return np.sort(randomness.private_uniforms(count)) * length


def _poisson(mean: Floats) -> Floats:
    """Return private Poisson counts by inversion; from `NORMAL_MEAN` on, from the normal limit of the law."""
    from scipy import special, stats

    uniforms = randomness.private_uniforms(len(mean))
    exact = stats.poisson.ppf(uniforms, np.minimum(mean, NORMAL_MEAN))
    limit = np.rint(mean + np.sqrt(mean) * special.ndtri(uniforms))
    return np.asarray(np.where(mean < NORMAL_MEAN, exact, limit), np.float64)


def _hidden_mass(t: Floats, frontier: float, alpha: float) -> Floats:
    """Return F(t) = ∫_0^t exp(−(u₀/s)^α) ds, the mean number of points with T ≤ t and U > u₀ = `frontier`."""
    from scipy import special

    shape, y = 1 - 1 / alpha, (frontier / t) ** alpha
    return np.asarray(t * np.exp(-y) - frontier * special.gamma(shape) * special.gammaincc(shape, y), np.float64)
