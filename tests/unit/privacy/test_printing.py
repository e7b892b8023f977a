"""Test that printed numbers are bounds of the numbers that they stand for."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import pytest
from helpers.geometry import of_pixels
from helpers.paths import ROOT
from hypothesis import example, given
from hypothesis import strategies as st

from dipp.codes import Flat
from dipp.core.channels import Sign
from dipp.core.plan import Coding, Plan
from dipp.core.steps import Step
from dipp.privacy.budget import Budget
from dipp.privacy.certificate import Certificate
from dipp.privacy.printing import lower, upper
from dipp.privacy.statements import promise

LOSSES = st.floats(min_value=0, allow_nan=False, allow_infinity=True)
NUMBER = r"([0-9][0-9.]*(?:e[+-]?[0-9]+)?|inf)"


@given(LOSSES, st.integers(1, 15))
@example(5e-324, 6)
@example(1.7976931348623157e308, 6)
@example(0.1, 6)
@example(1.0000005, 6)
def test_a_printed_number_reads_as_a_bound(value: float, digits: int) -> None:
    assert float(lower(value, digits)) <= value <= float(upper(value, digits))


@given(st.floats(min_value=1e-30, max_value=1e30), st.integers(1, 15))
def test_a_bound_is_no_looser_than_its_digits(value: float, digits: int) -> None:
    """One unit of its last digit is at most 10^(1 − digits) of the number."""
    unit = 10.0 ** (1 - digits) * (1 + 1e-9)
    assert float(upper(value, digits)) <= value * (1 + unit)
    assert float(lower(value, digits)) >= value * (1 - unit)


@given(st.floats(min_value=1e-30, max_value=1e30))
def test_a_bound_has_few_digits(value: float) -> None:
    mantissa = upper(value).partition("e")[0].replace(".", "").lstrip("0")
    assert len(mantissa.rstrip("0") or "0") <= 6


@pytest.mark.parametrize(
    ("value", "text"), [(16.0, "16"), (0.1, "0.1"), (1e-5, "1e-05"), (0.0, "0"), (1 / 3, "0.333334")]
)
def test_round_numbers_are_printed_as_they_are(value: float, text: str) -> None:
    assert upper(value) == text


@given(st.floats(min_value=1e-30, max_value=1e30), st.floats(min_value=1e-30, max_value=1e30))
def test_a_promise_in_words_bounds_what_it_is_about(epsilon: float, rho: float) -> None:
    pure, concentrated = re.findall(f"[ερ] = {NUMBER}", promise(epsilon, rho, "pixel"))
    assert float(pure) >= epsilon
    assert float(concentrated) >= rho


@given(st.integers(1, 1 << 23), st.integers(1, 4), st.sampled_from((None, 1e-6, 0.1, 3.3333333e-7)))
def test_no_number_of_a_statement_or_a_table_is_below_the_certificate(
    gain: int, steps: int, delta: float | None
) -> None:
    """For any gains, which are 32-bit floats, printed ε, ρ and (ε, δ) are not below their values."""
    coding = Coding(Sign(period=1), Flat(Fraction(1)))
    along = tuple(Step(999 - i, 998 - i, gain * 2.0**-23, 16, 6) for i in range(steps))
    certificate = Certificate.of(Plan(coding, along, separate=False), of_pixels(64, 1), delta)
    numbers = [float(text) for text in re.findall(f"[ερδ] = {NUMBER}", certificate.statement())]
    due = (
        [certificate.epsilon, certificate.rho]
        if delta is None
        else [certificate.approximate(delta), delta, certificate.epsilon, certificate.rho]
    )
    assert all(printed >= value for printed, value in zip(numbers, due, strict=True))
    _, line, last, *_ = certificate.table().splitlines()  # all steps are equal, and have one line
    for cost in certificate.steps:
        pure, rho = line.split()[-2:]
        assert float(pure) >= cost.epsilon
        assert float(rho) >= cost.rho
    worst = [float(text) for text in last.split()[-2:]]
    assert worst >= [certificate.epsilon, certificate.rho]
    assert worst[1] >= certificate.rho


@given(st.floats(min_value=1e-30, max_value=1e30), st.floats(min_value=1e-300, max_value=0.999))
def test_a_budget_in_words_bounds_what_it_allows(limit: float, delta: float) -> None:
    numbers = re.findall(f"[ερδ] = {NUMBER}", f"{Budget.approximate(limit, delta)} {Budget.zcdp(limit)}")
    assert all(float(text) >= value for text, value in zip(numbers, (limit, delta, limit), strict=True))


def test_json_keeps_all_digits() -> None:
    coding = Coding(Sign(period=1), Flat(Fraction(1)))
    plan = Plan(coding, (Step(999, 998, 0.3125, 16, 6),), separate=False)
    certificate = Certificate.of(plan, of_pixels(64, 1))
    assert certificate.to_dict()["epsilon"] == certificate.epsilon
    assert Certificate.from_json(certificate.to_json()) == certificate
    assert not math.isclose(
        float(upper(certificate.epsilon)), certificate.epsilon, rel_tol=1e-12
    )  # so the two do differ


ROUNDED = re.compile(r"[ερδ](?: at least)?(?: =| ≤| <) \{[^{}]*:[^{}]*[efg]\}")


@pytest.mark.parametrize("folder", ["src", "examples"])
def test_no_module_prints_a_bound_by_other_means(folder: str) -> None:
    """An f-string that rounds an ε, ρ or δ to the nearest would print about half of them too low."""
    assert ROUNDED.search('f"ε = {epsilon:.6g}"')
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    assert [str(path) for path in files if ROUNDED.search(path.read_text())] == []
