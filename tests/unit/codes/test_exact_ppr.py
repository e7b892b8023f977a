"""The exact code: exact samples, the index law of Definition 2, and the paper's bound on the codelength."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from helpers.refusals import refused
from helpers.statistics import FALSE_ALARM, chi_square_tail
from numpy.typing import NDArray
from scipy import special, stats

from dipp.codes.exact import MAX_RANK, ExactPPR, Mechanism, OctaveZeta
from dipp.core import entropy, exponents, randomness
from dipp.errors import DippError

Floats = NDArray[np.float64]

LAPLACE = Mechanism(
    quantile=lambda u: stats.laplace.ppf(u)[:, 0],
    log_ratio=lambda m, x: np.abs(m) - np.abs(m - x[0]),
    log_sup_ratio=lambda x: abs(float(x[0])),
    epsilon=2.0,
    kl_bits=0.53,
)
# N(x, 1) against N(0, 2²): the ratio 2·exp(m²/8 − (m − x)²/2) is largest at m = 4x/3.
GAUSSIAN = Mechanism(
    quantile=lambda u: 2 * special.ndtri(u)[:, 0],
    log_ratio=lambda m, x: math.log(2) + m**2 / 8 - (m - x[0]) ** 2 / 2,
    log_sup_ratio=lambda x: math.log(2) + float(x[0]) ** 2 / 6,
    epsilon=0.0,
    kl_bits=0.64,
)
LEVELS = np.array([0.5, 0.2, 0.2, 0.1])
# Randomised response on four values with a non-uniform public law.
DISCRETE = Mechanism(
    quantile=lambda u: np.searchsorted(np.cumsum(LEVELS)[:-1], u[:, 0], side="right").astype(np.float64),
    log_ratio=lambda m, x: np.log(np.where(m == x[0], 0.7, 0.1)) - np.log(LEVELS[m.astype(int)]),
    log_sup_ratio=lambda x: math.log(0.7 / LEVELS[int(x[0])]),
    epsilon=math.log(7),
    kl_bits=1.5,
)


def samples(code: ExactPPR, x: Floats, count: int) -> Floats:
    seeds = [np.random.default_rng(i).bytes(16) for i in range(count)]
    return np.array([code.decode(code.encode(x, seed), seed) for seed in seeds])


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [1.25, 2.0, 4.0])
def test_laplace_samples_are_exact(alpha: float) -> None:
    """Decoded samples pass a Kolmogorov-Smirnov test. False alarms: 1e-7."""
    x = np.array([1.0])
    received = samples(ExactPPR(LAPLACE, alpha), x, 2500)
    assert stats.kstest(received, stats.laplace(1.0).cdf).pvalue > FALSE_ALARM
    # The test has power: it rejects the public law, which is one noise scale away.
    assert stats.kstest(received, stats.laplace(0.0).cdf).pvalue < FALSE_ALARM


@pytest.mark.slow
def test_gaussian_samples_are_exact() -> None:
    """Decoded samples of a Gaussian with a wider proposal pass a Kolmogorov-Smirnov test. False alarms: 1e-7."""
    received = samples(ExactPPR(GAUSSIAN, 2.0), np.array([1.5]), 2500)
    assert stats.kstest(received, stats.norm(1.5).cdf).pvalue > FALSE_ALARM


@pytest.mark.slow
def test_discrete_samples_are_exact() -> None:
    """Decoded samples of randomised response pass a chi-square test. False alarms: 1e-7."""
    received = samples(ExactPPR(DISCRETE, 1.5), np.array([3.0]), 3000).astype(int)
    assert chi_square_tail(np.bincount(received, minlength=4), [0.1, 0.1, 0.1, 0.7]) > FALSE_ALARM


@pytest.mark.slow
def test_the_index_has_the_law_of_the_definition() -> None:
    """Ranks agree with a direct simulation of Definition 2 over 3,000 points in T order. False alarms: 1e-7.

    Truncating the simulation changes P[K = k], k ≤ 8, by P[K > 3000] < 1e-3, which the test cannot detect.
    """
    code, x, seed, runs = ExactPPR(LAPLACE, 2.0), np.array([1.0]), bytes(16), 4000
    generator = np.random.default_rng(7)
    ratio = np.exp(LAPLACE.log_ratio(code._candidates(np.arange(3000), seed), x))
    plain = np.empty(runs, np.int64)
    for run in range(runs):
        t = np.cumsum(generator.exponential(size=3000))
        plain[run] = np.argmin(generator.exponential(size=3000) * (t / ratio) ** 2)
    ranks = np.array([code.index(x, seed) for _ in range(runs)])
    table = np.array([np.bincount(np.minimum(k, 8), minlength=9) for k in (plain, ranks)])
    assert stats.chi2_contingency(table).pvalue > FALSE_ALARM


@pytest.mark.parametrize("alpha", [1.25, 1.5, 2.0, 4.0])
def test_the_codelength_is_within_the_bound_of_the_paper(alpha: float) -> None:
    """The bits of the zeta code, rounded up, have a mean of at most ℓ + log2(ℓ + 1) + 2 (Theorem 1.2).

    The mean of 600 runs has a standard error below 0.6 bits, and is several bits below the bound.
    """
    x = np.array([3.0])
    kl = (3 - 1 + math.exp(-3)) / math.log(2)
    mechanism = Mechanism(LAPLACE.quantile, LAPLACE.log_ratio, LAPLACE.log_sup_ratio, 6.0, kl)
    code = ExactPPR(mechanism, alpha)
    seeds = [np.random.default_rng(i).bytes(16) for i in range(600)]
    indices = [code.index(x, seed) for seed in seeds]
    bits = [math.ceil(-math.log2(code.model.interval(i)[1] / code.model.total)) for i in indices]
    bound = kl + math.log2(3.56) / min((alpha - 1) / 2, 1)
    assert np.mean(bits) <= bound + math.log2(bound + 1) + 2
    # The payload has these bits in whole bytes.
    payloads = [len(entropy.encode([(code.model, i)])) for i in indices]  # without the seal
    assert all(8 * size <= b + 8 for size, b in zip(payloads, bits, strict=True))


def test_density_ratios_may_be_zero() -> None:
    """For U[0, 1/50] against U[0, 1], the density is often 0 at all near points. False alarms: 1e-7."""
    narrow = Mechanism(
        quantile=lambda u: u[:, 0],
        log_ratio=lambda m, _: np.where(m < 0.02, math.log(50), -np.inf),
        log_sup_ratio=lambda _: math.log(50),
        epsilon=0.0,
        kl_bits=math.log2(50),
    )
    received = samples(ExactPPR(narrow), np.array([0.0]), 1200)
    assert stats.kstest(received, stats.uniform(0, 0.02).cdf).pvalue > FALSE_ALARM


def test_a_damaged_payload_is_refused() -> None:
    """At most one of 40 payloads that are cut or have another seed passes (false alarms below 1e-6)."""
    code, accepted = ExactPPR(LAPLACE), 0
    for number in range(20):
        payload = code.encode(np.array([0.5]), bytes([number] * 16))
        for damaged, seed in ((payload[:-1], bytes([number] * 16)), (payload, bytes([number + 1] * 16))):
            try:
                code.decode(damaged, seed)
                accepted += 1
            except DippError as error:
                assert error.argument == "payload"  # noqa: PT017 - acceptance is counted
    assert accepted <= 1


@pytest.mark.parametrize(
    ("log_ratio", "log_sup", "argument"),
    [
        (lambda m, _: np.zeros(len(m)), 800.0, "log_sup_ratio"),
        (lambda m, _: np.zeros(len(m)), 20.0, "log_sup_ratio"),
        (lambda m, _: np.zeros(len(m)), -1.0, "log_sup_ratio"),
        (lambda m, _: np.full(len(m), np.nan), 1.0, "log_ratio"),
        (lambda m, _: np.full(len(m), 2.0), 1.0, "log_ratio"),
        (lambda m, _: np.full(len(m), -np.inf), 1.0, "log_ratio"),
    ],
)
def test_functions_that_are_no_density_ratio_are_refused(log_ratio: Any, log_sup: float, argument: str) -> None:
    mechanism = Mechanism(LAPLACE.quantile, log_ratio, lambda _: log_sup, 1.0, 1.0)
    with refused(argument):
        ExactPPR(mechanism).encode(np.array([0.0]), bytes(16))


def test_octave_zeta_is_a_law() -> None:
    """Intervals fill the total, `find` is the inverse of `interval`, and the coder takes the largest rank."""
    model = OctaveZeta(exponents.paper_exponent(5.0))
    end = 0
    for index in range(200):
        start, weight = model.interval(index)
        assert start == end
        assert model.find(start) == model.find(start + weight - 1) == index
        end = start + weight
    last = MAX_RANK - 2
    start, weight = model.interval(last)
    assert start + weight == model.total
    assert entropy.decode(entropy.encode([(model, last)]), [model]) == [last]


def test_epsilon_is_stated_and_invalid_input_is_refused() -> None:
    assert ExactPPR(LAPLACE, 2.0).epsilon == 8.0
    with refused("alpha"):
        ExactPPR(LAPLACE, 1.0)
    with refused("alpha"):
        ExactPPR(LAPLACE, math.nan)
    with refused("x"):
        ExactPPR(LAPLACE).encode(np.array([math.nan]), bytes(16))
    with refused("seed"):
        ExactPPR(LAPLACE).encode(np.array([0.0]), bytes(15))
    with refused("kl_bits"):
        Mechanism(LAPLACE.quantile, LAPLACE.log_ratio, LAPLACE.log_sup_ratio, 1.0, math.nan)
    with refused("epsilon"):
        Mechanism(LAPLACE.quantile, LAPLACE.log_ratio, LAPLACE.log_sup_ratio, math.inf, 1.0)
    with refused("index"):
        OctaveZeta(exponents.paper_exponent(5.0)).interval(MAX_RANK)


def test_private_randomness_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """With fixed private bytes the index repeats; with real ones it varies."""
    code, x = ExactPPR(LAPLACE, 2.0), np.array([1.0])
    assert len({code.index(x, bytes(16)) for _ in range(200)}) > 1
    monkeypatch.setattr(randomness, "private_bytes", lambda count: np.random.default_rng(count).bytes(count))
    assert len({code.index(x, bytes(16)) for _ in range(5)}) == 1
