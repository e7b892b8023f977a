"""Test ledgers and certificates: their costs, their forms as text and JSON, and forged ones."""

from __future__ import annotations

import dataclasses
import html
import itertools
import json
import math
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from helpers.archives import SEED, release
from helpers.geometry import of_pixels
from helpers.ledgers import changed, record, terms
from helpers.refusals import refused
from helpers.statistics import bounded
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dipp.codes import Flat, Functional, StepLimited
from dipp.core import chunking, selection
from dipp.core.channels import Gaussian, Laplace, Sign
from dipp.core.geometry import Geometry
from dipp.core.plan import Coding, Plan
from dipp.core.signal import SIGNAL_OF_PIXEL
from dipp.core.steps import Step
from dipp.core.units import Pixel
from dipp.errors import DippError, NoCertificateError
from dipp.format.archive import Archive
from dipp.planning.presets import DIFFC, PAPER
from dipp.privacy.certificate import OBJECT_SIDES, Certificate
from dipp.privacy.ledger import Ledger, StepDraws
from dipp.privacy.limits import ASSUMPTIONS, not_covered
from dipp.privacy.printing import upper
from dipp.privacy.recorder import Recorder
from experiments.comparisons.unclipped import SHARP

SPARSE = Coding(Sign(6), Flat())
PLAIN = Coding(Laplace(), Flat(Fraction(3, 2)))


def plan_of(coding: Coding, gains: tuple[float, ...] = (2**-8, 2**-7, 2**-6), size: int = 64) -> Plan:
    times = itertools.pairwise(range(len(gains), -1, -1))
    units = 0 if coding.code.fixed_length else 80
    return Plan(coding, tuple(Step(t, s, gain, size, 8, units) for (t, s), gain in zip(times, gains, strict=True)))


HAND = [
    # coding, gains, s, S of each step, chunks; Σ of ε and of 8ρ in multiples of ε₁ and its square, worked by hand:
    # L·√ΔSNR·α/ln 2 = √3·2^−4/ln 2 = 0.15617 bits, so S = 10 is the first with A(1) = trunc(159.9) ≥ 128.
    (SHARP, (2**-8,), [(318, 10)], (1, 1)),
    # √2·2^−4·2/ln 2 = 0.25504 bits: S = 9 gives 130. All three channels of a pixel, in different chunks.
    (PAPER, (2**-8,), [(260, 9)], (3, 3)),
    # √6·2^−4/ln 2 = 0.22086 bits: S = 10 gives 226. Slots 0, 2, 4 or 1, 3, 5: a pixel meets two of the first three.
    (SPARSE, (2**-8,) * 3, [(452, 10)] * 3, (2, 2)),
]


@pytest.mark.parametrize(("coding", "gains", "integers", "times"), HAND, ids=["sharp", "paper", "sparse"])
def test_a_table_worked_by_hand(
    coding: Coding, gains: tuple[float, ...], integers: list[tuple[int, int]], times: tuple[int, int]
) -> None:
    certificate = Certificate.of(plan_of(coding, gains), of_pixels(1024))
    assert [
        (terms(row).sensitivity, terms(row).fraction_bits) for row in certificate.releases[0].selections
    ] == integers
    s, bits = integers[0]
    with localcontext(prec=40):
        loss = 2 * s * Decimal(2).ln() / 2**bits + Decimal(2) ** -38
        expected = times[0] * loss, times[1] * loss**2 / 8
    assert Decimal(certificate.epsilon) >= expected[0]
    assert Decimal(certificate.rho) >= expected[1]
    assert (certificate.epsilon, certificate.rho) == pytest.approx(tuple(map(float, expected)), rel=1e-14)


def test_the_worst_pixel_counts_and_not_the_average() -> None:
    """With a period of six, a third of the pixels meets each of two steps, and ε is that of the dearer one."""
    certificate = Certificate.of(plan_of(SPARSE, (2**-4, 2**-10)), of_pixels(1024))
    dear, cheap = (row.charge().epsilon for row in certificate.releases[0].selections)
    assert certificate.epsilon == pytest.approx(dear, rel=1e-14)
    assert (dear + cheap) / 2 < 0.6 * certificate.epsilon


def test_steps_add_up_to_the_total() -> None:
    certificate = Certificate.of(plan_of(PAPER), of_pixels(1024))
    steps = list(certificate.steps)
    assert [step.step for step in steps] == [0, 1, 2]
    assert math.fsum(step.epsilon for step in steps) == pytest.approx(certificate.epsilon, rel=1e-14)
    assert math.fsum(step.rho for step in steps) == pytest.approx(certificate.rho, rel=1e-14)
    for step in steps:
        alone = Certificate.of(plan_of(PAPER, (plan_of(PAPER).steps[step.step].snr_gain,)), of_pixels(1024))
        assert (step.epsilon, step.rho) == (alone.epsilon, alone.rho)
        assert step.approximate(0.1) == alone.approximate(0.1) < alone.epsilon


def test_repeated_releases_compose() -> None:
    once, other = Certificate.of(plan_of(SHARP), of_pixels(1024)), Certificate.of(plan_of(PAPER), of_pixels(1024))
    both = once.compose(other, once)
    assert both.epsilon == pytest.approx(2 * once.epsilon + other.epsilon, rel=1e-11)
    assert both.rho == pytest.approx(2 * once.rho + other.rho, rel=1e-11)
    assert both.epsilon >= 2 * once.epsilon + other.epsilon
    assert [step.release for step in both.steps] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert both.compose() == both
    assert once.ledger == both.releases[0]
    with refused("ledger", "releases"):
        both.ledger  # noqa: B018
    many = once.compose(*[once] * 199)
    assert many.approximate(1e-6) < 0.5 * many.epsilon
    with refused("compose"):
        once.compose(once.for_units(2))
    with refused("compose"):
        once.compose(Certificate.of(plan_of(SHARP), of_pixels(1024, 1)))


def test_an_object_pays_for_the_units_that_it_meets() -> None:
    certificate = Certificate.of(plan_of(SHARP), of_pixels(1024))
    assert certificate.for_object(8, 12) == certificate.for_units(96)
    assert [side for side, _ in certificate.by_size] == list(OBJECT_SIDES)
    for side, found in certificate.by_size:
        assert found == certificate.for_units(side * side)
    stated = json.loads(certificate.to_json())["by_size"]
    assert stated[0] == {"window": 1, "epsilon": certificate.epsilon, "rho": certificate.rho}
    assert stated[1] == {
        "window": 8,
        "epsilon": certificate.for_units(64).epsilon,
        "rho": certificate.for_units(64).rho,
    }


def test_several_pixels_cost_more() -> None:
    certificate = Certificate.of(plan_of(SHARP), of_pixels(1024))
    ten = certificate.for_units(10)
    assert ten.epsilon == pytest.approx(10 * certificate.epsilon, rel=1e-11)
    assert ten.rho == pytest.approx(100 * certificate.rho, rel=1e-11)
    assert "10 pixels" in ten.protected
    assert ten.for_units(1) == certificate
    for bad in (0, -1, 1.5, True):
        with refused("units"):
            certificate.for_units(bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.1])
def test_epsilon_at_delta_is_never_above_pure_epsilon(delta: float) -> None:
    for gains in ((2**-3,), (2**-13,) * 300):
        certificate = Certificate.of(plan_of(SHARP, gains), of_pixels(1024))
        assert certificate.approximate(delta) <= certificate.epsilon
    assert certificate.approximate(delta) < 0.7 * certificate.epsilon
    stated = dataclasses.replace(certificate, delta=delta)
    assert stated.epsilon_at_delta == certificate.approximate(delta)


# The metric form.


@bounded
@given(
    coding=st.sampled_from([PAPER, SHARP, PLAIN]),
    gain=st.floats(2**-20, 2**-3, width=32),
    change=st.integers(1, 255),
)
def test_no_pair_of_levels_moves_further_than_the_metric_form(coding: Coding, gain: float, change: int) -> None:
    plan = plan_of(coding, (gain,))
    (record,) = Ledger.planned(plan, of_pixels(1024)).selections
    table = plan.arithmetic(plan.steps[0]).levels(SIGNAL_OF_PIXEL)
    largest = int(np.abs(table[change:].astype(int) - table[: 256 - change]).max())
    assert largest <= terms(record).units(change) <= min(terms(record).sensitivity, largest + 3)
    assert terms(record).units(255) == terms(record).sensitivity


@pytest.mark.parametrize(("coding", "count"), [(PAPER, 3), (SHARP, 1), (SPARSE, 1)], ids=["paper", "sharp", "sparse"])
def test_the_metric_form_of_two_images(coding: Coding, count: int) -> None:
    found, generator = Certificate.of(plan_of(coding), of_pixels(64)), np.random.default_rng(0)
    x = generator.integers(0, 256, (8, 8, 3), np.uint8)
    assert found.between(x, x) == 0
    y = x.copy()
    x[2, 3], y[2, 3] = 0, 255
    assert found.between(x, y) == found.epsilon
    y[2, 3] = 51
    fifth = found.between(x, y)
    assert 0.2 * found.epsilon <= fifth < 0.22 * found.epsilon
    # One channel instead of three: a third where all are touched, as much where the worst one counts.
    y[2, 3] = x[2, 3]
    y[2, 3, 1] = 51
    assert found.between(x, y) == pytest.approx(fifth / count, rel=1e-9)
    x[4, 4], y[4, 4] = 0, 255
    assert found.between(x, y) <= found.for_units(2).epsilon
    composed = found.compose(found)
    assert composed.between(x, y) == pytest.approx(2 * found.between(x, y), rel=1e-9)
    assert composed.between(x, 255 - x) <= composed.for_units(64).epsilon
    wrong: list[Any] = [x.astype(np.int64), x[..., :2]]
    for bad in wrong:
        with refused("first and second"):
            found.between(bad, bad)
    with refused("first and second", "images"):
        found.between(x, y[:4])
    no_arrays: list[Any] = [Image.fromarray(x), "x.png", None]
    for bad in no_arrays:
        with refused("first and second", "arrays"):
            found.between(bad, bad)
        with refused("compose", "certificates"):
            found.compose(bad)


# JSON and text.


@pytest.mark.parametrize("coding", [PAPER, SHARP, SPARSE, PLAIN], ids=lambda m: m.name)
def test_a_certificate_survives_json(coding: Coding) -> None:
    certificate = Certificate.of(plan_of(coding), of_pixels(1024), delta=1e-6)
    for found in (
        certificate,
        certificate.compose(certificate),
        certificate.for_units(7),
        dataclasses.replace(certificate, delta=None),
    ):
        assert Certificate.from_json(found.to_json()) == found
    content = json.loads(certificate.to_json())
    assert content["epsilon"] == certificate.epsilon
    assert content["epsilon_at_delta"] == certificate.approximate(1e-6)
    assert content["assumptions"] == list(ASSUMPTIONS)
    assert content["not_covered"] == list(not_covered(Pixel()))
    assert content["unit"] == {"kind": "pixel"}


def forgeries() -> list[tuple[str, Any]]:
    """Yield paths in the JSON of a certificate, with a forged value for each."""
    row = ("releases", 0, "selections", 0)
    return [
        (".".join(map(str, path)), (path, value))
        for path, value in [
            (("epsilon",), 0.1),
            (("rho",), 0.0),
            (("epsilon_at_delta",), 0.01),
            (("units",), 0),
            (("units",), 2),
            (("units",), "1"),
            (("delta",), 2.0),
            (("delta",), "x"),
            (("releases",), []),
            (("releases",), None),
            (("releases", 0, "channels"), 0),
            (("releases", 0, "period"), 2),
            (("releases", 0, "selections"), []),
            ((*row, "sensitivity"), 1),
            ((*row, "sensitivity"), -4),
            ((*row, "sensitivity"), 1.5),
            ((*row, "fraction_bits"), 99),
            ((*row, "fraction_bits"), 15),
            ((*row, "eta"), 0.0),
            ((*row, "alpha"), "x"),
            ((*row, "alpha"), "1/0"),
            ((*row, "alpha"), "-1"),
            ((*row, "alpha"), "1e999999999"),
            ((*row, "alpha"), 1.0),
            (("releases", 0, "channels"), 3.0),
            (("releases", 0, "channels"), "3"),
            (("units",), 10**400),
            ((*row, "touched"), 2),
            ((*row, "apart"), "yes"),
            ((*row, "step"), 1),
            ((*row, "chunks"), -1),
            ((*row, "candidates"), 0),
            ((*row, "surplus"), 0),
            (("unit",), "the whole image"),
            (("steps",), []),
            (("surplus",), 0),
            (("releases", 0, "channels"), 10**6),
            (("epsilon_at_delta",), 0.1),
            (("epsilon_at_delta",), None),
        ]
    ]


def test_too_few_chunks_cannot_keep_coordinates_apart() -> None:
    """A forged claim that they do would divide ρ by three."""
    content = json.loads(Certificate.of(plan_of(PAPER), of_pixels(1024)).to_json())
    row = content["releases"][0]["selections"][0]
    row.update(chunks=1, apart=True)
    with refused("apart"):
        Certificate.from_json(json.dumps(content))


def test_the_last_bits_of_a_logarithm_are_no_forgery() -> None:
    content = json.loads(Certificate.of(plan_of(SHARP), of_pixels(1024), delta=1e-6).to_json())
    content["epsilon_at_delta"] *= 1 + 1e-12
    assert Certificate.from_json(json.dumps(content)).epsilon == content["epsilon"]


def test_steps_have_the_costs_of_the_group() -> None:
    certificate = Certificate.of(plan_of(PAPER), of_pixels(1024)).for_units(10)
    assert certificate.to_dict()["epsilon"] <= sum(step["epsilon"] for step in certificate.to_dict()["steps"]) * (
        1 + 1e-9
    )


@pytest.mark.parametrize("forgery", [f for _, f in forgeries()], ids=[name for name, _ in forgeries()])
def test_a_forged_certificate_is_refused(forgery: Any) -> None:
    content = json.loads(Certificate.of(plan_of(SHARP), of_pixels(1024), delta=1e-6).to_json())
    path, value = forgery
    place = content
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(DippError) as error:
        Certificate.from_json(json.dumps(content))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["", "x", "[]", "1", "{}", '{"releases": 3}', "[" * 100_000])
def test_json_that_is_not_a_certificate_is_refused(text: str) -> None:
    with refused("certificate"):
        Certificate.from_json(text)


def test_the_table_has_all_numbers() -> None:
    certificate = Certificate.of(plan_of(PAPER), of_pixels(1024), delta=1e-6)
    text = certificate.table()
    for word in (
        "worst pixel",
        f"{certificate.epsilon:.6g}",
        f"{certificate.rho:.6g}",
        "δ = 1e-06",
        "pixel",
        *ASSUMPTIONS,
    ):
        assert word in text
    assert all(word in text for word in not_covered(Pixel()))
    assert f"{certificate.approximate(1e-7):.6g} at 1e-07" in text
    assert len(text.splitlines()) == 1 + 3 + 4 + len(ASSUMPTIONS) + len(not_covered(Pixel()))
    assert (certificate.assumptions, certificate.not_covered) == (ASSUMPTIONS, not_covered(Pixel()))


def test_equal_steps_have_one_line_of_the_table() -> None:
    """The line has their count. Equal steps of two releases have lines of their own."""
    gains = (0.25, 0.25, 0.25, 0.5, 0.25)
    steps = tuple(Step(999 - i, 998 - i, gain, 16, 6) for i, gain in enumerate(gains))
    certificate = Certificate.of(Plan(Coding(Sign(period=1), Flat()), steps, separate=False), of_pixels(64, 1))
    names = [line.split("  ")[0].split() for line in (text.strip() for text in certificate.table().splitlines()[1:4])]
    assert names == [["0", "to", "2"], ["3"], ["4"]]
    counts = [int(line[12:].split()[0]) for line in certificate.table().splitlines()[1:4]]
    assert counts == [3, 1, 1]
    twice = certificate.compose(certificate).table().splitlines()[1:8]
    assert [line.split()[0] for line in twice] == ["0/0", "0/3", "0/4", "1/0", "1/3", "1/4", "worst"]


def test_records_are_read_only() -> None:
    certificate = Certificate.of(plan_of(PAPER), of_pixels(1024))
    (first, *_) = certificate.releases[0].selections
    for thing, name in (
        (certificate, "units"),
        (certificate.releases[0], "period"),
        (first, "touched"),
        (first.terms, "eta"),
    ):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(thing, name, 1)


@pytest.mark.parametrize("coding", [DIFFC, Coding(Gaussian(), StepLimited()), Coding(Laplace(), Functional())])
def test_codings_without_privacy_have_no_certificate(coding: Coding) -> None:
    """Gaussian scores have no bound, and α = ∞ has no randomness. Each alone prevents a certificate."""
    with pytest.raises(NoCertificateError):
        Certificate.of(plan_of(coding), of_pixels(1024))
    empty = Archive.build(release(plan_of(coding)), [], [])
    with pytest.raises(NoCertificateError):
        empty.certificate  # noqa: B018
    with pytest.raises(NoCertificateError):
        empty.certificate.ledger  # noqa: B018


# What the encoder writes down.


@pytest.mark.parametrize("coding", [PAPER, SHARP, SPARSE, PLAIN], ids=lambda m: m.name)
@pytest.mark.parametrize(("pixels", "channels"), [(30, 3), (64, 3), (100, 1)])
def test_the_recorded_ledger_equals_the_planned_one(coding: Coding, pixels: int, channels: int) -> None:
    plan = plan_of(coding, size=50)
    assert record(plan, pixels, channels).ledger(plan, 1) == Ledger.planned(plan, of_pixels(pixels, channels))
    # Of several sizes, the smallest counts.
    both = record(plan, pixels, channels, record(plan, 4 * pixels, channels))
    assert both.ledger(plan, 2) == Ledger.planned(plan, of_pixels(pixels, channels))


def wrong() -> list[tuple[str, dict[str, Any]]]:
    plan = plan_of(SHARP, size=50)
    arithmetic = plan.arithmetic(plan.steps[0])
    together = chunking.chunks(SEED, 0, of_pixels(64), 4, apart=False)
    return [
        ("a wider table: values beyond [-1, 1] have levels", {"table": np.arange(-400, 400, dtype=np.int32)}),
        ("another scale", {"fraction_bits": arithmetic.fraction_bits - 1}),
        ("other candidates", {"candidates": 512}),
        ("all coordinates of a pixel touched", {"chunks": together}),
    ]


@pytest.mark.parametrize("changes", [c for _, c in wrong()], ids=[name for name, _ in wrong()])
def test_an_encoder_that_deviates_from_its_plan_writes_no_archive(changes: dict[str, Any]) -> None:
    plan = plan_of(SHARP, size=50)
    indices = [[0] * sum(row.chunks for row in Ledger.planned(plan, of_pixels(64)).selections)]
    right = Archive.build(release(plan), [Geometry(8, 8, 3)], indices, recorded=record(plan, 64).ledger(plan, 1))
    assert right.certificate.ledger == record(plan, 64).ledger(plan, 1)
    with refused("touched" if "chunks" in changes else "ledger"):
        Archive.build(release(plan), [Geometry(8, 8, 3)], indices, recorded=record(plan, 64, **changes).ledger(plan, 1))


def test_images_must_be_coded_alike() -> None:
    plan = plan_of(SHARP, size=50)
    with refused("step 0"):
        record(plan, 64, recorder=record(plan, 64), candidates=2)
    assert Recorder().ledger(plan_of(SHARP), 0) is None
    assert record(plan_of(DIFFC), 64).ledger(plan_of(DIFFC), 1) is None


@pytest.mark.parametrize(
    "change",
    [
        {"sensitivity": 0},
        {"sensitivity": True},
        {"fraction_bits": 16},
        {"touched": 0},
        {"alpha": 1},
        {"alpha": Fraction(0)},
        {"eta": 0.0},
        {"candidates": selection.MAX_CANDIDATES + 1},
    ],
)
def test_records_are_checked(change: dict[str, Any]) -> None:
    good = Ledger.planned(plan_of(SHARP), of_pixels(64)).selections[0]
    with pytest.raises(DippError):
        changed(good, **change)


def test_ledgers_are_checked() -> None:
    good = Ledger.planned(plan_of(SHARP), of_pixels(64))
    for bad in (
        {"selections": ()},
        {"selections": good.selections[1:]},
        {"selections": good.selections[::-1]},
        {"period": 2},
        {"period": 1},
        {"period": 0},
        {"channels": 0},
        {"channels": 4},
    ):
        with pytest.raises(DippError):
            dataclasses.replace(good, **bad)
    with refused("change"):
        good.epsilon_of_change(256)
    assert isinstance(good.selections[0], StepDraws)


def test_a_certificate_reads_as_its_statement() -> None:
    plan = plan_of(SHARP)
    for delta in (None, 1e-6):
        certificate = Certificate.of(plan, of_pixels(64), delta)
        assert str(certificate) == f"{certificate}" == certificate.statement()
        assert repr(certificate) == f"<dipp.Certificate: {certificate.short()}>"
        assert len(repr(certificate)) < 120
        assert upper(certificate.epsilon) in repr(certificate)
        assert (delta is None) == ("δ" not in repr(certificate))
    assert "per 9 pixels" in repr(certificate.for_units(9))


def test_a_certificate_in_a_notebook() -> None:
    """It has the promise, its assumptions and what it does not cover, escaped as text."""
    certificate = Certificate.of(plan_of(SHARP), of_pixels(64))
    shown = certificate._repr_html_()
    for text in (certificate.statement(), *certificate.assumptions, *certificate.not_covered):
        assert html.escape(text) in shown
    elements = ElementTree.fromstring(shown)  # noqa: S314 - made here
    assert {element.tag for element in elements.iter()} == {"div", "p", "b", "details", "summary", "ul", "li"}
