"""The interface of the codes of the codec: the draw of an index, its cost, and its packing."""

from __future__ import annotations

from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from helpers.refusals import refused
from helpers.statistics import bounded
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dipp.codes import CODES, Flat, Functional, Pairs, StepLimited
from dipp.codes.ordered import poisson_order
from dipp.core import entropy, exponents, randomness, selection
from dipp.core.code import Indices
from dipp.core.price import Cost, Reach
from dipp.core.sensitivity import SensitivityCode
from dipp.errors import NoCertificateError

SEED = bytes(range(16))
EVERY: list[SensitivityCode] = [
    Flat(),
    Flat(Fraction(1, 2)),
    StepLimited(),
    StepLimited(Fraction(3, 2)),
    Functional(),
    Pairs(),
]
every = pytest.mark.parametrize("code", EVERY, ids=str)
exponential = pytest.mark.parametrize("code", EVERY[:-2], ids=str)


class RuleRecorder:
    """Candidates whose index shows which rule chose it."""

    def select(self) -> Indices:
        return np.array([1])

    def best(self) -> Indices:
        return np.array([2])

    def scores(self) -> NDArray[np.int32]:
        raise AssertionError("no code looks at the scores themselves")

    def shifts(self) -> NDArray[np.int32]:
        return np.array([3], np.int32)

    limit = 3
    fraction_bits = 1
    offsets = np.array([0, 1])
    terms = None


def test_every_code_is_listed_by_its_name() -> None:
    assert {type(code) for code in EVERY} == {kind for kind in CODES.values() if issubclass(kind, SensitivityCode)}
    assert all(kind.name == name for name, kind in CODES.items())


@every
def test_equal_parameters_make_equal_codes(code: SensitivityCode) -> None:
    again = type(code).at(code.score_alpha) if code.certified else type(code)()
    assert again == code
    assert hash(again) == hash(code)
    assert sum(code == other for other in EVERY) == 1


@every
def test_certified_codes_draw_privately(code: SensitivityCode) -> None:
    """The index of the best score is a function of the image, so a code that returns it has no certificate."""
    if isinstance(code, Pairs):
        with mock.patch.object(randomness, "private_bytes", side_effect=bytes) as asked:
            assert code.draw(RuleRecorder()).tolist() == [1]
        assert asked.call_args_list == [mock.call(8)]
    else:
        assert code.draw(RuleRecorder()).tolist() == [1 if code.certified else 2]
    assert code.certified == (not isinstance(code, Functional))


@exponential
@bounded
@given(units=st.integers(1, 1 << 20), bits=st.integers(0, 15), touched=st.integers(1, 16))
def test_costs_of_coordinates_apart_and_together(code: SensitivityCode, units: int, bits: int, touched: int) -> None:
    """t coordinates cost t·ε₁; their ρ is t·ε₁²/8 in different selections, and (t·ε₁)²/8 in shared ones."""
    loss, moved = selection.epsilon(units, bits), Reach(units, units, bits)
    apart, together = (code.charge(moved, touched, apart=apart) for apart in (True, False))
    assert apart == Cost(touched * loss, touched * loss**2 / 8)
    assert together == Cost(touched * loss, (touched * loss) ** 2 / 8)
    assert code.eta(moved) == selection.ETA
    code.require_certified()


@pytest.mark.parametrize(
    "ask",
    [
        lambda code: code.eta(Reach(1, 1, 0)),
        lambda code: code.charge(Reach(1, 1, 0), 1, True),
        Functional.require_certified,
    ],
)
def test_pfr_has_no_price(ask: object) -> None:
    assert callable(ask)
    with refused("PFR", kind=NoCertificateError):
        ask(Functional())


@every
def test_each_code_packs_indices_by_its_own_law(code: SensitivityCode) -> None:
    assert code.padding_bits == (0 if code.fixed_length else 8)
    if code.fixed_length:
        assert code.exponent_units(7.0) == 0
        with refused(code.name, "fixed"):
            code.index_model(8, 0)
    else:
        assert code.index_model(8, 80) == entropy.ZetaCode(256, Fraction(80, 64))
        alpha = Fraction(3) if isinstance(code, Functional) else code.score_alpha
        assert Fraction(code.exponent_units(7.0), 64) == exponents.paper_exponent(7.0, alpha)


@every
def test_the_order_is_in_the_units_of_the_scores(code: SensitivityCode) -> None:
    order = code.order(SEED, 100, 9)
    if code.fixed_length:
        assert order is None
    else:
        assert order is not None
        assert order.tolist() == poisson_order(SEED, 100, code.score_alpha, 9).tolist()
        assert not order.flags.writeable


@every
def test_expected_bits_of_indices(code: SensitivityCode) -> None:
    """A fixed length costs all bits; a zeta code costs more than the divergence and less than a fixed length."""
    kl = np.array([2.0, 8.0, 14.0])
    bits = code.expected_bits(kl, kl + 6)
    if code.fixed_length:
        assert bits.tolist() == (kl + 6).tolist()
    else:
        assert (bits > kl).all()
        assert (bits < kl + 6).all()
