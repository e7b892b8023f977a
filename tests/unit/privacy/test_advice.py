"""Test that one scale of ε is computed from the certificate, with figures that were measured."""

from __future__ import annotations

import itertools
import json
import math
import statistics

import numpy as np
import pytest
from helpers.archives import build, small_plan
from helpers.geometry import of_pixels
from helpers.paths import ROOT

from dipp import report
from dipp.privacy import advice
from dipp.privacy.advice import DEFAULT_EPSILON, READERS, SCALE, Headline
from dipp.privacy.certificate import Certificate
from experiments.comparisons.unclipped import SHARP

RECORD = json.loads((ROOT / "benchmarks/results/readers.json").read_text())


def test_every_epsilon_has_one_grade() -> None:
    largest = [row.largest for row in SCALE]
    assert largest == sorted(set(largest))
    assert largest[-1] == math.inf
    for row, following in itertools.pairwise(SCALE):
        assert advice.grade(row.largest) is row
        assert advice.grade(float(np.nextafter(row.largest, math.inf))) is following
    assert advice.grade(DEFAULT_EPSILON) is SCALE[0]


def test_only_a_strong_bound_has_no_warning() -> None:
    assert Headline(SCALE[0].largest).warnings() == ()
    for row in SCALE[1:]:
        (text,) = Headline(min(row.largest, 1e6)).warnings()
        assert row.name in text
        assert ". " not in text, "one sentence"


def test_advice_is_about_the_pure_epsilon() -> None:
    """It is about the pure ε even if the budget was (ε, δ), where the pure ε is often far larger."""
    pure = Certificate.of(small_plan(SHARP), of_pixels(20)).epsilon
    archive = build(small_plan(SHARP), [(4, 5, 3)], delta=0.04)
    claim = archive.certificate
    assert claim.epsilon_at_delta is not None
    assert claim.epsilon_at_delta < pure == claim.epsilon
    assert advice.grade(claim.epsilon_at_delta) is not advice.grade(pure)
    assert report.advice_facts(archive.facts())["grade"] == advice.grade(pure).name
    assert Headline(pure).bound in report.archive_text(archive)


@pytest.mark.parametrize(("delta", "pixels", "void"), [(1e-5, 99_999, False), (1e-5, 100_000, True), (0.5, 2, True)])
def test_a_delta_of_one_over_the_pixels_is_void(delta: float, pixels: int, void: bool) -> None:
    assert advice.too_large(delta, pixels) is void
    assert bool(Headline(1.0).warnings(delta, pixels)) is void


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 4.0, 16.0, 700.0])
def test_the_bound_is_rounded_up_and_names_its_reader(epsilon: float) -> None:
    belief = float(advice.largest_belief(epsilon))
    assert 100 / (1 + math.exp(-epsilon)) <= belief <= 100
    assert (
        f"at most {advice.largest_belief(epsilon)} % for somebody who knows every other pixel"
        in Headline(epsilon).bound
    )


def test_figures_of_readers_are_those_of_the_benchmark() -> None:
    """The figure is the mean over the photographs, without the page of small print."""
    for epsilon, share in READERS.items():
        rows = [row for row in RECORD["pixels"] if row["epsilon"] == epsilon and row["picture"] != "text"]
        assert len(rows) == 7
        assert share == round(100 * statistics.mean(row["right"] for row in rows)), epsilon
        assert f"{share} % of cases (measured at ε = {epsilon:g})" in advice.measured(epsilon)
        # Between two measured ones the figure is that of the larger: it must not understate.
        assert advice.measured(0.6 * epsilon) == advice.measured(epsilon)
    assert advice.measured(0.1) == advice.measured(0.5)
    assert advice.measured(64.0) == advice.measured(16.0)
    assert list(READERS) == sorted({row["epsilon"] for row in RECORD["pixels"]})


def test_a_warning_begins_with_a_plain_letter() -> None:
    """Papers begin a sentence with it in upper case, and δ would become the Δ of a sensitivity."""
    assert all(text[0].isascii() for text in Headline(9.0).warnings(0.5, 100))
