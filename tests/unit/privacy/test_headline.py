"""Test that the first number of a certificate is that of hidden objects, with the reader for whom it holds."""

from __future__ import annotations

import json
import re
from fractions import Fraction

import pytest
from helpers.archives import build
from helpers.refusals import refused
from helpers.toy_code import Nearest

from dipp import codes, report
from dipp.core.channels import Sign
from dipp.core.geometry import Geometry
from dipp.core.plan import Coding, Plan
from dipp.core.steps import SensingStep
from dipp.core.unit import Size, Unit
from dipp.core.units import Cells, Picture, Pixel
from dipp.errors import DippError
from dipp.privacy import advice, limits
from dipp.privacy.advice import RECOGNISABLE, Headline
from dipp.privacy.certificate import Certificate
from dipp.privacy.printing import upper

UNITS = (Pixel(), Cells(4), Picture())
SIZE = Geometry(16, 16, 3)


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(codes.CODES, Nearest.name, Nearest)


def plan_of(unit: Unit, odds: int = 3) -> Plan:
    """Return two questions to each unit, at ε = ln(odds) each."""
    step = SensingStep(1.0, 0.5, 2.0**-4, 1, 2)
    return Plan(Coding(Sign(period=1), Nearest(Fraction(odds))), (step,) * 2, unit=unit)


def certificate(unit: Unit, hidden: Size | None = None, delta: float | None = None) -> Certificate:
    return Certificate.of(plan_of(unit), SIZE, delta, hidden)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.kind)
def test_the_first_number_is_that_of_the_object(unit: Unit) -> None:
    """Statement, short form, HTML and JSON: the ε of a hidden object stands before that of the unit."""
    claim = certificate(unit, (6, 8))
    price = unit.met(6, 8) * claim.epsilon
    first = upper(claim.for_object(6, 8).epsilon)
    assert float(first) == pytest.approx(price, rel=1e-5)
    named = f"ε = {first} pure for any object of at most 6×8 pixels"
    assert claim.statement().startswith(f"{named}, wherever it lies; ε = ")
    assert claim.short().startswith(f"{named}; ε = ")
    assert claim.statement().endswith(unit.words)
    numbers = re.findall(r"ε = ([\d.]+)", claim._repr_html_())
    assert numbers[0] == first
    content = claim.to_dict()["hidden"]
    assert (content["width"], content["height"], content["epsilon"]) == (6, 8, claim.for_object(6, 8).epsilon)
    assert Headline.of(claim.to_dict()) == claim.headline == Headline(content["epsilon"], unit, (6, 8))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.kind)
def test_without_an_object_it_is_that_of_the_unit(unit: Unit) -> None:
    claim = certificate(unit)
    assert claim.statement().startswith(f"ε = {upper(claim.epsilon)} pure, ρ = ")
    assert claim.headline == Headline(claim.epsilon, unit)
    assert "hidden" not in claim.to_dict()


def test_a_delta_is_stated_for_the_object_too() -> None:
    claim = certificate(Cells(4), (6, 8), 1e-3)
    priced = claim.for_object(6, 8)
    assert claim.statement().startswith(
        f"ε = {upper(priced.approximate(1e-3))} at δ = 0.001, {upper(priced.epsilon)} pure"
    )
    assert report.promise(claim.to_dict()) == claim.statement()  # as `dipp info` says of a dataset


def test_json_keeps_the_object() -> None:
    claim = certificate(Cells(4), (6, 8))
    content = json.loads(claim.to_json())
    assert Certificate.from_json(claim.to_json()) == claim
    for change in ({"width": 5}, {"epsilon": 1.0}, {"rho": 0.0}, {"height": 0}, {"width": "6"}):
        forged = {**content, "hidden": {**content["hidden"], **change}}
        with pytest.raises(DippError):
            Certificate.from_json(json.dumps(forged))
    assert (
        Certificate.from_json(json.dumps({name: content[name] for name in content if name != "hidden"})).hidden is None
    )


def test_only_a_composition_of_equal_objects_keeps_the_object() -> None:
    claim = certificate(Cells(4), (6, 8))
    assert claim.for_units(3).hidden is None
    assert claim.compose(claim).hidden == (6, 8)
    assert claim.compose(certificate(Cells(4))).hidden is None
    assert claim.for_picture(Geometry(17, 9, 3)) == claim.for_units(15)
    with refused("object"):
        certificate(Cells(4), (0, 8))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.kind)
@pytest.mark.parametrize("hidden", [None, (6, 8)])
def test_odds_name_their_reader(unit: Unit, hidden: Size | None) -> None:
    """Both stand in one sentence. Measured figures are shown for single pixels only."""
    first = Headline(2.0, unit, hidden)
    reader = unit.reader if hidden is None else "somebody who knows everything else in the picture"
    assert first.bound.endswith(f"becomes at most 88.1 % for {reader}")
    assert (first.measured is None) == (unit != Pixel() or hidden is not None)
    (warned,) = first.warnings()
    assert first.grade.name in warned
    assert ("single pixels" in warned) == (unit == Pixel() and hidden is None)
    assert first.warnings(1e-6) == first.warnings()
    assert Headline(1.0, unit, hidden).warnings() == ()
    assert f"{unit.plural} is 1 or more" in Headline(1.0, unit, hidden).warnings(0.5, 2)[0]


def test_headlines_say_what_can_be_recognised() -> None:
    assert Headline(1.0).recognisable == RECOGNISABLE
    assert Headline(8.0, Cells(16)).recognisable.startswith("perhaps, because ε is about single 16×16 cells")
    assert Headline(1.0, Picture()).recognisable.startswith("no, because ε is about the whole picture")
    assert Headline(8.0, Picture()).recognisable.startswith("perhaps, ")
    assert "pays more" in Headline(1.0, Cells(16), (64, 64)).recognisable
    covered = [Headline(e, unit).covers_all for e in (1.0, 8.0) for unit in UNITS]
    assert covered == [False, False, True, False, False, False]


def test_the_list_of_what_is_not_covered_fits_the_unit() -> None:
    pixel, cell, picture = (limits.not_covered(unit) for unit in (Pixel(), Cells(16), Picture()))
    assert all(len(set(texts)) == len(texts) for texts in (pixel, cell, picture))
    assert any("60×80 pixels, as a face may have, meet up to 30 and pay that many times ε" in text for text in cell)
    assert any("4:2:0" in text and "decoded array" in text for text in cell)
    assert not any("16×16" in text for text in (*pixel, *picture))
    assert not any("pixel" in text for text in picture)
    assert any("other pictures of the same person" in text for text in picture)
    for texts in (pixel, cell, picture):
        assert any("another encoding" in text for text in texts)
        assert any("one person in many images" in text for text in texts)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.kind)
def test_a_report_has_the_prices_by_size(unit: Unit) -> None:
    """It has those of square objects, of the largest picture, and of a size that the caller gives."""
    made = build(plan_of(unit), [(16, 16, 3), (9, 30, 3)])
    facts, text = made.facts(), report.archive_text(made)
    most = max(unit.count(Geometry(*size)) for size in ((16, 16, 3), (9, 30, 3)))
    assert facts["whole"]["epsilon"] == made.certificate.for_units(most).epsilon
    assert f"whole        ε = {upper(facts['whole']['epsilon'])} for everything in the largest image" in text
    assert [row["window"] for row in facts["certificate"]["by_size"]] == [1, 8, 16, 32, 64, 128, 256]
    assert f"16×16: {upper(made.certificate.for_object(16, 16).epsilon)}" in text
    assert f"bound        {made.certificate.headline.grade.name}: {made.certificate.headline.bound}\n" in text
    assert ("measured " in text) == (unit == Pixel())
    assert report.size_facts(facts["certificate"], (60, 80))["epsilon"] == made.certificate.for_object(60, 80).epsilon
    assert report.advice_facts(facts)["recognisable"] is True


def test_warnings_count_units() -> None:
    """δ is compared with the number of units, not of pixels."""
    claim = certificate(Cells(4), delta=0.05).to_dict()
    assert not any("δ" in text for text in advice.release_warnings(claim, 256, 1))
    assert any("a δ of 0.05 times 32 4×4 cells" in text for text in advice.release_warnings(claim, 512, 1))
    assert advice.release_warnings(None, 512, 1) == ()
    assert Picture().total(512, 3) == 3
    assert Cells(100).total(512, 3) == 3
