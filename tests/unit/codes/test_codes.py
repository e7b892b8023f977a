"""Codes for one vector: round trips, laws, total variation against n, and refusals."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from helpers.refusals import refused
from helpers.statistics import FALSE_ALARM, bounded
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from dipp import scoring
from dipp.codes import PFR, Flat, FlatCode, StepLimitedPPR
from dipp.codes.oneshot import OneShot, seal
from dipp.codes.ordered import poisson_order
from dipp.core import exponents, randomness
from dipp.core.arithmetic import Arithmetic
from dipp.core.channels import Channel, Gaussian, Laplace, Sign
from dipp.core.price import Reach
from dipp.errors import DippError, NoCertificateError
from experiments.comparisons.channels import Huber, Logistic

SEED = bytes(range(16))
CERTIFIED: list[Channel] = [Laplace(), Logistic(), Huber(1.0), Sign(period=1)]


def sample_of(code: OneShot, index: int, seed: bytes) -> NDArray[np.float64]:
    """Return the sample that a payload with this index decodes to."""
    return code.decode(seal(code._pack(index), seed, code._public), seed)


@bounded
@example(channel=Laplace(), dims=40, candidates=300, alpha=Fraction(5, 4), seed=SEED)  # an index of two bytes
@given(
    channel=st.sampled_from(CERTIFIED),
    dims=st.integers(1, 12),
    candidates=st.integers(1, 40),
    alpha=st.fractions(1, 4, max_denominator=8),
    seed=st.binary(min_size=16, max_size=16),
)
def test_payloads_decode_to_a_candidate(
    channel: Channel, dims: int, candidates: int, alpha: Fraction, seed: bytes
) -> None:
    """A payload and its seed decode to the sample of one of the candidates."""
    x = np.linspace(-1, 1, dims)
    for code in (
        FlatCode(channel, 0.3, dims, candidates),
        StepLimitedPPR(channel, 0.3, dims, candidates, alpha),
        PFR(channel, 0.3, dims, candidates),
    ):
        payload = code.encode(x, seed)
        sample = code.decode(payload, seed)
        possible = np.array([sample_of(code, k, seed) for k in range(candidates)])
        assert sample.shape == (dims,)
        assert (possible == sample).all(axis=1).any()


@pytest.mark.parametrize("channel", CERTIFIED, ids=lambda c: c.name)
def test_epsilon_follows_from_the_integers(channel: Channel) -> None:
    """ε is 2α·L·√snr·Δ, less at most 1/128 of it by truncation, and above it by no more than η and float rounding."""
    for alpha in (Fraction(1), Fraction(5, 4), Fraction(2), Fraction(4)):
        code = StepLimitedPPR(channel, 0.7, 5, 16, alpha)
        real = 2 * float(alpha) * channel.slope * math.sqrt(0.7) * 2
        assert real * (1 - 1 / 128) <= code.epsilon <= real + 1e-9
    assert FlatCode(channel, 0.7, 5, 16).epsilon == StepLimitedPPR(channel, 0.7, 5, 16, Fraction(1)).epsilon


def test_rho_is_a_product_that_rounds_once() -> None:
    """Readers compare certificates to the last bit, in which power functions of C libraries differ."""
    for units, fraction_bits in ((1282, 4), (1649, 4), (1878, 4), (1147, 6)):
        price = Flat().charge(Reach(units, units, fraction_bits))
        assert Fraction(price.rho) * 8 == Fraction(float(Fraction(price.epsilon) ** 2))


def test_epsilon_without_a_certificate_raises() -> None:
    with refused("PFR", kind=NoCertificateError):
        _ = PFR(Laplace(), 1.0, 3, 16).epsilon
    with refused("gaussian", kind=NoCertificateError):
        _ = FlatCode(Gaussian(), 1.0, 3, 16).epsilon


def test_pfr_alone_repeats_its_payload() -> None:
    x = np.full(4, 0.8)
    pfr = PFR(Laplace(), 1.0, 4, 256)
    assert len({pfr.encode(x, SEED) for _ in range(20)}) == 1
    for code in (FlatCode(Laplace(), 1.0, 4, 256), StepLimitedPPR(Laplace(), 1.0, 4, 256)):
        assert len({code.encode(x, SEED) for _ in range(60)}) > 1


def scored(code: OneShot, x: NDArray[np.float64], monkeypatch: pytest.MonkeyPatch) -> list[scoring.ScoringTask]:
    """Return the scoring tasks of encoding a vector."""
    tasks: list[scoring.ScoringTask] = []

    def keep(task: scoring.ScoringTask, _: scoring.Backend) -> NDArray[np.int64]:
        tasks.append(task)
        return np.zeros(task.chunks, np.int64)

    with monkeypatch.context() as patch:
        patch.setattr(scoring, "select", keep)
        code.encode(x, SEED)
    return tasks


def test_the_index_has_the_law_of_definition_3(monkeypatch: pytest.MonkeyPatch) -> None:
    """P[K = k | Z] ∝ (r_k/T_k)^α in floats, against the frequencies of 20,000 selections. False alarms: 1e-7."""
    alpha, dims, n, runs = Fraction(3, 2), 3, 12, 20_000
    code = StepLimitedPPR(Laplace(), 0.8, dims, n, alpha)
    x = np.array([0.9, -0.4, 0.1])
    z = np.array([sample_of(code, k, SEED) for k in range(n)]) * math.sqrt(0.8)
    log_ratio = math.sqrt(2) * (np.abs(z) - np.abs(z - x * math.sqrt(0.8))).sum(axis=1)
    arrival = np.cumsum(-np.log(randomness.uniforms(randomness.stream(SEED, purpose="order"), n)))
    weights = np.exp(float(alpha) * log_ratio) / arrival ** float(alpha)
    order = poisson_order(SEED, n, alpha, code._arithmetic.fraction_bits)
    (single,) = scored(code, x, monkeypatch)
    assert single.order is not None
    assert single.order.tolist() == order.tolist()
    task = scoring.ScoringTask(
        single.law,
        single.fraction_bits,
        n,
        np.repeat(single.streams, runs, axis=0),
        np.arange(runs + 1) * dims,
        np.tile(single.shifts, runs),
        order,
    )
    counts = np.bincount(scoring.select(task, scoring.backend("cpu")), minlength=n)
    likely = weights / weights.sum() > 2e-3
    observed = np.append(counts[likely], counts[~likely].sum())
    expected = np.append(weights[likely], weights[~likely].sum()) / weights.sum()
    # Integer scores are rounded to 2^−S bits and quantiles to 1e-3 bits, so probabilities are off by a few 1e-3.
    blurred = stats.chisquare(observed, expected * runs).statistic / (1 + runs * 2e-5)
    assert stats.chi2.sf(blurred, len(observed) - 1) > FALSE_ALARM
    # The test has power: it rejects another α.
    wrong = np.exp(2 * log_ratio) / arrival**2
    mistaken = np.append(wrong[likely], wrong[~likely].sum()) / wrong.sum()
    assert stats.chisquare(observed, mistaken * runs).pvalue < FALSE_ALARM


def exact_scores(arithmetic: Arithmetic, m: NDArray[np.int32], count: int) -> NDArray[np.int64]:
    """Return the total scores of exact samples of the quantised, tilted law."""
    generator, total = np.random.default_rng(5), np.zeros(count, np.int64)
    draws = np.arange(2 if isinstance(arithmetic.channel, Sign) else 1 << 16, dtype=np.uint16)
    for shift in m:
        score = arithmetic.law.score(draws, shift).astype(np.int64)
        tilted = np.exp2(score / 2.0**arithmetic.fraction_bits)
        total += score[generator.choice(len(draws), count, p=tilted / tilted.sum())]
    return total


@pytest.mark.slow
@pytest.mark.parametrize("channel", [Laplace(), Sign(period=1)], ids=lambda c: c.name)
def test_total_variation_falls_with_n(channel: Channel) -> None:
    """TV ≈ Q(pad·ln 2/√(2·KL)), pad = log2 n − KL, within 0.16, and falling, at a divergence of about 9 bits.

    Given n, the density of the output against the target is a decreasing function of the score, so that the total
    variation is the one-sided Kolmogorov distance of the scores. Estimated from 2,000 and 20,000 scores it is off by
    more than 0.07 with probability below 1e-7 (Dvoretzky-Kiefer-Wolfowitz); the rest is for the approximation itself.
    """
    dims, chunks = 120, 2000
    x = np.random.default_rng(1).uniform(-1, 1, dims)
    arithmetic = Arithmetic(channel, 0.2 if channel.name == "laplace" else 0.4)
    m = arithmetic.shifts(x, np.zeros(dims))
    kl = float(channel.kl(x * math.sqrt(arithmetic.snr_gain)).sum())
    target, on = exact_scores(arithmetic, m, 20_000), scoring.backend("cpu")
    distances, theory = [], []
    for pad in (-2, 0, 2, 4):
        task = scoring.ScoringTask(
            arithmetic.law,
            arithmetic.fraction_bits,
            round(2 ** (kl + pad)),
            scoring.stream_rows([randomness.stream(SEED, image) for image in range(chunks)], [0] * chunks),
            np.arange(chunks + 1) * dims,
            np.tile(m, chunks),
        )
        drawn = on.winners(task.law, task.streams, task.offsets, scoring.select(task, on))
        output = task.law.score(drawn, task.shifts).reshape(chunks, dims).sum(axis=1)
        distances.append(stats.ks_2samp(target, output, alternative="less").statistic)
        theory.append(stats.norm.sf(pad * math.log(2) / math.sqrt(2 * kl * math.log(2))))
    assert distances == sorted(distances, reverse=True)
    assert np.abs(np.array(distances) - theory).max() < 0.16
    assert distances[-1] < distances[0] / 2


def test_samples_of_the_flat_code_follow_the_channel() -> None:
    """With many candidates, 3,000 decoded samples follow x + z/√snr (Kolmogorov-Smirnov; false alarms: 1e-7).

    The bias at n = 4096 and a KL of 0.95 bits (pad 11) is below 1e-3 in total variation.
    """
    code, x = FlatCode(Laplace(), 4.0, 1, 4096), np.array([0.5])
    seeds = [np.random.default_rng(i).bytes(16) for i in range(3000)]
    received = np.array([code.decode(code.encode(x, seed), seed)[0] for seed in seeds])
    assert stats.kstest(received, stats.laplace(0.5, 0.5 / math.sqrt(2)).cdf).pvalue > FALSE_ALARM


def _decode_body(code: FlatCode | StepLimitedPPR, body: bytes) -> None:
    """Decode a payload with a wrong body and a valid seal."""
    code.decode(seal(body, SEED, code._public), SEED)


@pytest.mark.parametrize("kind", [FlatCode, StepLimitedPPR, PFR])
def test_damaged_payloads_are_refused(kind: type[FlatCode | StepLimitedPPR | PFR]) -> None:
    """At most 2 of 300 payloads that are cut, flipped, or of another seed or code pass (false alarms below 1e-7)."""
    x, accepted, tried = np.linspace(-1, 1, 8), 0, 0
    code, other = kind(Laplace(), 0.05, 8, 1 << 14), kind(Laplace(), 0.06, 8, 1 << 14)
    for number in range(6):
        seed = bytes([number] * 16)
        payload = code.encode(x, seed)
        wrong = [(code, payload[:cut], seed) for cut in range(len(payload))]
        wrong += [(code, payload + b"\0", seed), (code, payload, SEED), (other, payload, seed)]
        bits = range(8 * len(payload))
        wrong += [(code, (int.from_bytes(payload) ^ (1 << i)).to_bytes(len(payload)), seed) for i in bits]
        for decoder, damaged, with_seed in wrong:
            tried += 1
            try:
                decoder.decode(damaged, with_seed)
                accepted += 1
            except DippError as error:
                assert error.argument == "payload"  # noqa: PT017 - acceptance is counted
    assert tried > 100
    assert accepted <= 2


def test_the_refitted_table_is_an_option() -> None:
    """The refitted table gives a smaller exponent, and the same ε."""
    paper, refitted = (StepLimitedPPR(Laplace(), 0.3, 60, 1 << 18, refitted=flag) for flag in (False, True))
    assert refitted.model.exponent == exponents.refitted_exponent(16, 1 << 18)
    assert refitted.model.exponent < paper.model.exponent
    assert refitted.epsilon == paper.epsilon
    x = np.linspace(-1, 1, 60)
    assert refitted.decode(refitted.encode(x, SEED), SEED).shape == (60,)
    with refused("refitted"):
        StepLimitedPPR(Laplace(), 0.3, 60, 1 << 10, Fraction(3, 2), refitted=True)


def test_pfr_is_not_a_certified_code() -> None:
    """PFR has no public attribute that looks like a certificate."""
    assert not issubclass(PFR, StepLimitedPPR)
    assert not hasattr(PFR(Laplace(), 1.0, 3, 16), "alpha")
    assert not hasattr(PFR(Laplace(), 1.0, 3, 16), "arithmetic")


@pytest.mark.parametrize(
    ("make", "fields"),
    [
        (lambda: FlatCode(Laplace(), 1.0, 3, 0), ("candidates",)),
        (lambda: FlatCode(Laplace(), 1.0, 3, (1 << 22) + 1), ("candidates",)),
        (lambda: FlatCode(Laplace(), 1.0, 0, 16), ("dims",)),
        (lambda: FlatCode(Laplace(), math.nan, 3, 16), ("snr",)),
        (lambda: FlatCode(Laplace(), 1e9, 3, 16), ("snr",)),
        (lambda: FlatCode(Laplace(), 1e-30, 3, 16), ("snr",)),
        (lambda: FlatCode(Laplace(), "1", 3, 16), ("snr",)),  # type: ignore[arg-type]
        (lambda: FlatCode("laplace", 1.0, 3, 16), ("channel",)),  # type: ignore[arg-type]
        (lambda: FlatCode(Laplace(), 1.0, 3.0, 16), ("dims",)),  # type: ignore[arg-type]
        (lambda: FlatCode(Laplace(), 1.0, 1 << 24, 16), ("dims",)),
        (lambda: FlatCode(Laplace(), 1.0, 3, 16.0), ("candidates",)),  # type: ignore[arg-type]
        (lambda: StepLimitedPPR(Laplace(), 1.0, 3, 16, 2.5), ("alpha",)),  # type: ignore[arg-type]
        (lambda: StepLimitedPPR(Laplace(), 1.0, 3, 16, kl_bits=math.nan), ("kl_bits",)),
        (lambda: PFR(Laplace(), 1.0, 3, 16, kl_bits=-1), ("kl_bits",)),
        (lambda: FlatCode(Laplace(), 1.0, 3, 16).encode(np.zeros(3) * 1j, SEED), ("x",)),  # type: ignore[arg-type]
        (lambda: FlatCode(Laplace(), 1.0, 3, 16).encode(["a", "b", "c"], SEED), ("x",)),  # type: ignore[arg-type]
        (lambda: FlatCode(Laplace(), 1.0, 3, 16).encode(np.zeros(3), "0" * 16), ("seed",)),  # type: ignore[arg-type]
        (lambda: FlatCode(Laplace(), 1.0, 3, 16).decode("ab", SEED), ("payload",)),  # type: ignore[arg-type]
        (lambda: FlatCode(Laplace(), -1.0, 3, 16), ("snr",)),
        (lambda: FlatCode(Sign(period=3), 1.0, 3, 16), ("channel",)),
        (lambda: StepLimitedPPR(Laplace(), 1.0, 3, 16, Fraction(1, 2)), ("alpha",)),
        (lambda: StepLimitedPPR(Laplace(), 1.0, 3, 16, math.inf), ("alpha",)),  # type: ignore[arg-type]
        (lambda: FlatCode(Laplace(), 1.0, 3, 16).encode(np.zeros(2), SEED), ("x",)),
        (lambda: FlatCode(Laplace(), 1.0, 3, 16).encode(np.empty(0), SEED), ("x",)),
        (lambda: FlatCode(Laplace(), 1.0, 3, 16).encode(np.array([0, math.nan, 0]), SEED), ("x",)),
        (lambda: FlatCode(Laplace(), 1.0, 3, 16).encode(np.array([0, 1.01, 0]), SEED), ("x",)),
        (lambda: FlatCode(Laplace(), 1.0, 3, 16).encode(np.zeros(3), b"short"), ("seed",)),
        (lambda: FlatCode(Laplace(), 1.0, 3, 16).decode(b"", SEED), ("payload",)),
        (lambda: FlatCode(Laplace(), 1.0, 3, 16).decode(b"\0\0", SEED), ("payload",)),
        (lambda: _decode_body(FlatCode(Laplace(), 1.0, 3, 10), b"\xf0"), ("payload", "index")),
        (lambda: _decode_body(FlatCode(Laplace(), 1.0, 3, 16), b"\0\0"), ("payload", "3 bytes")),
        (lambda: _decode_body(StepLimitedPPR(Laplace(), 1.0, 3, 16), b"\xff" * 9), ("payload", "damaged")),
        (lambda: StepLimitedPPR(Laplace(), 1.0, 3, 16).decode(b"\xff" * 9, SEED), ("payload",)),
    ],
)
def test_invalid_input_is_refused(make: object, fields: tuple[str, ...]) -> None:
    """The error is one line that names the argument."""
    assert callable(make)
    with refused(*fields):
        make()
