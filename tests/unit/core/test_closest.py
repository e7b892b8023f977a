"""The draw among the closest candidates: its exact law under any scores, its private integers, and its price."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from helpers.refusals import refused
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from dipp.core import randomness
from dipp.core.closest import DECIMALS, MAX_TOTAL, TOLERANCE, Tally, Weights, best_of
from dipp.core.selection import MAX_CANDIDATES


@st.composite
def small_weights(draw: st.DrawFn) -> Weights:
    """Draw weights of few candidates whose W is small enough to try every R."""
    candidates = draw(st.integers(2, 12))
    light = draw(st.integers(1, 5))
    return Weights(candidates, draw(st.integers(1, candidates - 1)), light + draw(st.integers(0, 9)), light)


SCORES = st.floats(width=32, allow_nan=True, allow_infinity=True) | st.sampled_from([0.0, -0.0, 1.0, math.nan])
HOSTILE = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1e38, -1e38, 1e-45)


def law_of(weights: Weights, best: NDArray[np.int64]) -> list[Fraction]:
    """Return P[K = k] of one unit, by trying every R."""
    drawn = np.arange(weights.total, dtype=np.uint64)
    indices = weights.index_at(drawn, np.repeat(best[None], len(drawn), axis=0))
    return [Fraction(int(count), weights.total) for count in np.bincount(indices, minlength=weights.candidates)]


@given(small_weights(), st.data())
def test_the_law_is_the_same_for_any_scores(weights: Weights, data: st.DataObject) -> None:
    """For any scores, each probability is a/W in T and b/W outside, so two inputs differ by at most a/b."""
    row = data.draw(st.lists(SCORES, min_size=weights.candidates, max_size=weights.candidates))
    (best,) = best_of(np.array([row], np.float32), weights.best)
    assert len(set(best.tolist())) == weights.best
    inside = set(best.tolist())
    expected = [weights.heavy if k in inside else weights.light for k in range(weights.candidates)]
    assert law_of(weights, best) == [Fraction(weight, weights.total) for weight in expected]


@given(small_weights(), st.data())
def test_private_integers_are_assigned_in_order(weights: Weights, data: st.DataObject) -> None:
    """R < m·a gives element ⌊R/a⌋ of T, and any other R element ⌊(R − m·a)/b⌋ of the rest."""
    members = data.draw(st.sets(st.integers(0, weights.candidates - 1), min_size=weights.best, max_size=weights.best))
    inside, outside = sorted(members), sorted(set(range(weights.candidates)) - members)
    expected = [k for k in inside for _ in range(weights.heavy)] + [k for k in outside for _ in range(weights.light)]
    drawn = np.arange(weights.total, dtype=np.uint64)
    indices = weights.index_at(drawn, np.repeat(np.array([inside]), weights.total, axis=0))
    assert indices.tolist() == expected


def test_large_weights_are_divided_exactly() -> None:
    """Integers of 62 bits are divided exactly, which floats could not do."""
    weights = Weights(1000, 3, (1 << 60) - 7, (1 << 41) + 1)
    heavy = 3 * weights.heavy
    drawn = np.array([0, weights.heavy - 1, weights.heavy, heavy - 1, heavy, weights.total - 1], np.uint64)
    sets = np.repeat(np.array([[0, 5, 999]]), len(drawn), axis=0)
    assert weights.index_at(drawn, sets).tolist() == [0, 0, 5, 999, 1, 998]


@given(
    arrays.arrays(
        st.sampled_from([np.float16, np.float32, np.float64]),
        st.tuples(st.integers(0, 5), st.integers(2, 9)),
        elements=st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 2.0]),
    ),
    st.data(),
)
def test_best_of_returns_m_indices_for_any_scores(scores: NDArray[Any], data: st.DataObject) -> None:
    """The best are the first of a stable descending sort in which NaN counts as −∞."""
    best = data.draw(st.integers(1, scores.shape[1]))
    members = best_of(scores, best)
    assert members.dtype == np.int64
    assert members.shape == (len(scores), best)
    clean = np.where(np.isnan(scores), -np.inf, scores)
    assert (members == np.sort(np.argsort(-clean, axis=1, kind="stable")[:, :best], axis=1)).all()
    for row, expected in zip(scores, members, strict=True):  # a row does not depend on other rows
        assert (best_of(row[None], best) == expected).all()


@pytest.mark.parametrize("score", HOSTILE)
def test_equal_scores_give_the_lowest_indices(score: float) -> None:
    assert best_of(np.full((3, 64), score, np.float32), 16).tolist() == [list(range(16))] * 3


def test_best_of_takes_integer_scores() -> None:
    scores = np.array([[1, 1 << 30, -5, (1 << 30) - 1, 1]], np.int32)
    assert best_of(scores, 2).tolist() == [[1, 3]]
    assert best_of(scores, 3).tolist() == [[0, 1, 3]]


def scripted(monkeypatch: pytest.MonkeyPatch, *words: int) -> list[int]:
    """Make these words the private bytes, in order; return a list that collects the size of each request."""
    rest, asked = list(words), []

    def given_bytes(count: int) -> bytes:
        asked.append(count)
        return b"".join(rest.pop(0).to_bytes(8, "little") for _ in range(count // 8))

    monkeypatch.setattr(randomness, "private_bytes", given_bytes)
    return asked


def test_one_private_integer_for_each_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each unit reads eight bytes of its own, and only a rejected integer is drawn again."""
    weights = Weights(4, 1, 3, 1)
    asked = scripted(monkeypatch, 0, 3, (1 << 64) - 1, 5, 4)
    assert weights.draw(np.array([[2], [2], [2], [2]]), Tally()).tolist() == [2, 0, 1, 3]
    assert asked == [32, 8]


def test_the_last_integers_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accepting the last four words would favour four values of R, because 2^64 = 4 mod 6."""
    for word, calls in (((1 << 64) - 5, 1), ((1 << 64) - 4, 2), ((1 << 64) - 1, 2)):
        asked = scripted(monkeypatch, word, 0)
        Weights(4, 1, 3, 1).draw(np.array([[0]]), Tally())
        assert len(asked) == calls


def test_draws_follow_the_law() -> None:
    """Draws from the system's generator have the stated frequencies; the false-alarm rate is about 1e-9."""
    weights, count = Weights(5, 2, 6, 1), 60_000
    observed = np.bincount(weights.draw(np.repeat([[1, 4]], count, axis=0), Tally()), minlength=5) / count
    expected = np.array([1, 6, 1, 1, 6]) / weights.total
    assert (np.abs(observed - expected) < 6.2 * np.sqrt(expected / count)).all()


@pytest.mark.parametrize(
    "best", [[[0]], [[1, 1]], [[2, 1]], [[-1, 1]], [[1, 4]], [[0, 1, 2]], [0, 1]], ids=lambda value: str(value)
)
def test_invalid_sets_are_refused(best: list[Any]) -> None:
    with refused("best", "indices"):
        Weights(4, 2, 3, 1).draw(np.array(best), Tally())


@pytest.mark.parametrize(
    ("numbers", "tokens"),
    [
        ((1, 1, 2, 1), ("candidates", "4194304")),
        ((MAX_CANDIDATES + 1, 1, 2, 1), ("candidates",)),
        ((4.0, 1, 2, 1), ("candidates",)),
        ((4, 0, 2, 1), ("best", "3")),
        ((4, 4, 2, 1), ("best",)),
        ((4, True, 2, 1), ("best",)),
        ((4, 1, 1, 2), ("light",)),
        ((4, 1, 2, 0), ("light",)),
        ((4, 1, MAX_TOTAL, 1), ("weights",)),
    ],
)
def test_impossible_weights_are_refused(numbers: tuple[Any, ...], tokens: tuple[str, ...]) -> None:
    with refused(*tokens):
        Weights(*numbers)


@given(st.integers(1, 1 << 40), st.integers(0, 1 << 40), st.integers(1, 300))
def test_epsilon_is_rounded_up(light: int, more: int, steps: int) -> None:
    """The float ε is at least the exact one, so are rounded sums of it, and the excess is below a relative 2^−49."""
    weights = Weights(64, 8, light + more, light)
    with localcontext(DECIMALS):
        exact = (Decimal(weights.heavy) / light).ln()
        assert exact <= Decimal(weights.epsilon) <= exact * (1 + Decimal(2) ** -49)
        assert Decimal(math.fsum([weights.epsilon] * steps)) >= steps * exact


def test_epsilon_is_at_least_the_logarithm_in_exact_fractions() -> None:
    """The first terms of the series of e^ε, in exact fractions, already reach a/b."""
    for heavy in (2, 3, 20, 403):
        epsilon = Fraction(Weights(16, 2, heavy, 1).epsilon)
        series = sum(epsilon**k / math.factorial(k) for k in range(60))
        assert series >= heavy
        assert series - heavy < heavy * Fraction(1, 1 << 46)


def orders(weights: Weights, count: int = 20_000) -> Decimal:
    """Return the largest D_α/α over many orders, computed in floats."""
    loss = math.log(weights.heavy / weights.light)
    inside = weights.differing * weights.heavy / weights.total
    outside = weights.differing * weights.light / weights.total
    x = np.geomspace(1e-4, 60 / min(loss, 1.0) + 60, count)
    exponent = x * loss
    grown = inside * np.expm1(np.minimum(exponent, 600)) + outside * np.expm1(-exponent)
    moments = np.where(exponent < 600, np.log1p(grown), np.log(inside) + exponent)
    return Decimal(float((moments / (x * (1 + x))).max()))


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 1 << 17), st.data())
def test_rho_is_the_supremum(candidates: int, data: st.DataObject) -> None:
    """ρ is at least D_α/α of every order, and above the largest of many orders by at most the tolerance."""
    best = data.draw(st.integers(1, min(candidates - 1, 64)))
    weights = Weights.within(candidates, best, data.draw(st.floats(0.01, 20)))
    rho, largest = Decimal(weights.rho), orders(weights)
    limit = Decimal(weights.differing * (weights.heavy - weights.light)) / weights.total * Decimal(weights.epsilon)
    assert rho >= largest * (1 - Decimal(10) ** -9)
    assert rho <= max(largest, limit) * (1 + TOLERANCE) * (1 + Decimal(10) ** -6)
    assert weights.rho <= weights.epsilon * math.tanh(weights.epsilon / 2) * (1 + 1e-6)


@pytest.mark.parametrize(
    ("epsilon", "candidates", "best", "rho"),
    [(1, 64, 16, 0.300488), (8, 131_072, 1, 2.2059), (16, 131_072, 1, 15.767)],
)
def test_rho_of_known_weights(epsilon: float, candidates: int, best: int, rho: float) -> None:
    assert Weights.within(candidates, best, epsilon).rho == pytest.approx(rho, rel=1e-4)


@pytest.mark.parametrize(
    ("weights", "rho"),
    [
        (Weights(MAX_CANDIDATES, 1, (1 << 39) + 1, 1 << 39), 4.336e-31),
        (Weights(2, 1, (1 << 60) + 1, 1 << 60), 3.761581922631e-37),
        (Weights(2, 1, 1 << 61, 1), 42.28),
        (Weights(64, 8, 5, 5), 0.0),
    ],
)
def test_rho_of_extreme_weights(weights: Weights, rho: float) -> None:
    """Neither cancellation nor large exponents lose digits; a tiny ε has ρ = w·ε²/2."""
    assert weights.rho == pytest.approx(rho, rel=1e-3)


@settings(deadline=None)
@given(st.integers(2, 1 << 20), st.data())
def test_weights_within_a_budget(candidates: int, data: st.DataObject) -> None:
    """ε is at most the budget, and below it by at most 2^−15."""
    best = data.draw(st.integers(1, min(candidates - 1, 1 << 10)))
    epsilon = data.draw(st.floats(0, 20))
    weights = Weights.within(candidates, best, epsilon)
    assert weights.epsilon <= epsilon <= weights.epsilon + 2.0**-15
    assert weights.total <= MAX_TOTAL


def test_budgets_up_to_the_largest_are_met() -> None:
    weights = Weights.within(1 << 17, 1, 40)
    assert 40 - 1e-13 < weights.epsilon <= 40
    assert weights.light == 16
    for epsilon in (-1, 41, math.nan):
        with refused("epsilon", "40"):
            Weights.within(64, 16, epsilon)
    with refused("weights"):
        Weights.within(1 << 17, 1 << 10, 40)


def test_weights_are_read_back_and_compared_as_terms() -> None:
    weights = Weights(64, 16, 7, 3)
    assert Weights.from_dict(weights.to_dict()) == weights
    assert weights.to_dict() == {"candidates": 64, "best": 16, "heavy": 7, "light": 3}
    assert weights.worse(Weights(64, 16, 7, 3)) == weights
    with refused("terms", "differ"):
        weights.worse(Weights(64, 16, 8, 3))
