"""Test that plans of questions keep the budget of a unit or of an object of any size."""

from __future__ import annotations

import itertools

import pytest
from helpers.refusals import refused

from dipp.codec.options import planned
from dipp.core.geometry import Geometry
from dipp.core.steps import Question
from dipp.core.units import Cells, Picture, Pixel
from dipp.models import embedded
from dipp.models.books import Books
from dipp.planning import verification
from dipp.planning.presets import PREFERENCE, HidingPlanner
from dipp.planning.questions import QuestionPlanner, Row, table, units_of
from dipp.privacy.budget import Budget
from dipp.privacy.certificate import Certificate

STREET = Geometry(480, 640, 3)


@pytest.fixture(scope="module")
def books() -> Books:
    found = Books.read(embedded.FOLDER)
    assert found is not None
    return found


@pytest.mark.parametrize("unit", [Cells(4), Cells(8), Cells(16), Cells(20), Cells(64), Cells(256), Picture()])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0, 7.3, 16.0, 50.0])
def test_a_plan_spends_the_budget_of_its_unit_and_no_more(books: Books, unit: Cells | Picture, epsilon: float) -> None:
    point = QuestionPlanner(books, STREET, (unit,)).choose(Budget(epsilon, unit=unit))
    certificate = Certificate.of(point.plan, STREET)
    assert certificate.unit == unit
    # Cells of 20 can be divided once, so they have few draws, of at most 16; beyond that a recipe of a smaller ε may be
    # expected to show as much.
    assert (0.99 if epsilon <= 16 and unit != Cells(20) else 0.6) * epsilon < certificate.epsilon <= epsilon
    assert point.table == books.digest


@pytest.mark.parametrize("budget", [Budget(6.0, 1e-6, unit=Cells(16)), Budget(rho=2.0, unit=Cells(16))])
def test_plans_keep_budgets_of_rho_and_of_delta(books: Books, budget: Budget) -> None:
    point = QuestionPlanner(books, STREET, (Cells(16),)).choose(budget)
    assert 0.9 * budget.limit < budget.measure(Certificate.of(point.plan, STREET)) <= budget.limit


@pytest.mark.parametrize("budget", [Budget(8.0, 1e-6, hidden=(16, 16)), Budget(rho=2.0, hidden=(16, 16))])
def test_other_budgets_of_objects_are_used_up(books: Books, budget: Budget) -> None:
    point = QuestionPlanner(books, STREET, (Cells(16),)).choose(budget)
    assert 0.95 * budget.limit < budget.measure(Certificate.of(point.plan, STREET)) <= budget.limit


@pytest.mark.parametrize("size", [(1, 1), (3, 2), (16, 16), (60, 80), (64, 64), (300, 20), (4000, 4000)])
def test_an_object_of_a_size_pays_at_most_its_budget_wherever_it_lies(size: tuple[int, int]) -> None:
    result = planned(device="cpu", epsilon=8.0, hide=size, size=(480, 640))
    certificate = Certificate.of(result.point.plan, STREET)
    assert certificate.for_object(*size).epsilon <= 8.0


def test_a_pixel_is_hidden_by_pixels_and_a_picture_by_the_picture() -> None:
    assert planned(device="cpu", epsilon=2.0, hide=(1, 1), size=(480, 640)).point.plan.unit == Pixel()
    assert planned(device="cpu", epsilon=8.0, hide=(640, 480), size=(480, 640)).point.plan.unit == Picture()


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_pixels_hide_an_object_only_where_they_clearly_show_more(epsilon: float) -> None:
    for side in (2, 4, 12):
        result = planned(device="cpu", epsilon=epsilon, hide=(side, side), size=(480, 640))
        assert isinstance(result.planner, HidingPlanner)
        assert result.budget is not None
        larger = result.planner.larger.choose(result.budget)
        if result.point.plan.unit == Pixel():
            assert result.point.psnr > larger.psnr + PREFERENCE
        else:
            assert result.point == larger


@pytest.mark.slow
def test_a_larger_budget_never_has_a_smaller_expected_psnr(books: Books) -> None:
    for unit in units_of(books):
        planner = QuestionPlanner(books, STREET, (unit,))
        for delta in (None, 1e-6):
            budgets = [Budget(epsilon, delta, unit=unit) for epsilon in (0.1, 0.5, 2.0, 3.0, 8.0, 11.0, 16.0, 64.0)]
            shown = [planner.choose(budget).psnr for budget in budgets[:: 1 if delta is None else 3]]
            assert all(after >= before for before, after in itertools.pairwise(shown)), (unit, shown)


def test_plans_keep_a_rate(books: Books) -> None:
    planner, budget = QuestionPlanner(books, STREET, (Cells(16),)), Budget(32.0, unit=Cells(16))
    every = planner.frontier(budget)
    assert [point.bits for point in every] == sorted(point.bits for point in every)
    if len(every) > 1:
        assert planner.choose(budget, bpp=every[0].bpp) == every[0].__class__(**{**vars(every[0]), "bound": True})
    with refused("bpp", "1e-06"):
        planner.choose(budget, bpp=1e-6)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"unit": 10}, ("unit", "10×10")),
        ({"unit": "cell"}, ("unit", "square cells")),
        ({"unit": 2.5}, ("unit", "2.5")),
        ({"hide": (64,)}, ("hide", "(width, height)")),
        ({"hide": "64"}, ("hide", "WIDTHxHEIGHT")),
        ({"hide": (0, 5)}, ("object", "0×5")),
        ({"hide": (1 << 32, 1)}, ("object", "4294967295")),
        ({"hide": (8, 8), "unit": 8}, ("unit and hide",)),
        ({"unit": 8, "preset": "paper"}, ("unit", "paper")),
        ({"hide": (8, 8), "preset": "swift"}, ("hide", "swift")),
        ({"unit": "picture", "preset": "diffc"}, ("unit", "diffc")),
        ({"unit": 8, "final_timestep": 3}, ("final_timestep", "questions")),
    ],
)
def test_limits_that_no_plan_keeps_are_refused(options: dict[str, object], said: tuple[str, ...]) -> None:
    with refused(*said):
        planned(device="cpu", epsilon=4.0, size=(480, 640), **options)  # type: ignore[arg-type]


def test_the_expected_psnr_of_a_recipe_never_falls_with_its_budget(books: Books) -> None:
    epsilons = [0.0, *(2.0**i for i in range(-6, 10))]
    for row in table(books):
        shown = [row.expected(epsilon) for epsilon in epsilons]
        assert shown == sorted(shown)
        assert row.expected(row.epsilon) == pytest.approx(row.psnr)
        assert row.needed(row.psnr + 1e-6) == float("inf")
        if row.psnr > 11.5:
            assert row.expected(row.needed(row.psnr - 1)) == pytest.approx(row.psnr - 1, abs=0.1)


def test_rows_survive_json(books: Books) -> None:
    rows = table(books)
    assert rows
    assert [row.to_dict() for row in rows] == books.table
    assert all(Row.from_dict(row.to_dict()) == row for row in rows)
    assert {row.kind for row in rows} == {"cell", "picture"}


@pytest.mark.parametrize("options", [{"unit": 16}, {"unit": "picture"}, {"hide": (32, 32)}])
def test_a_plan_of_the_table_is_verified_and_another_is_refused(options: dict[str, object]) -> None:
    from dataclasses import replace

    from dipp.codec.codec import Codec
    from dipp.errors import InconsistentError

    codec = Codec.from_pretrained(epsilon=8.0, device="cpu", **options)  # type: ignore[arg-type]
    parameters = codec.parameters(bytes(16))
    verification.verify(parameters, embedded.FOLDER)
    first: Question = parameters.plan.steps[0]
    for changed in (replace(first, heavy=first.heavy - 1), replace(first, snr_gain=first.snr_gain * 2)):
        plan = replace(parameters.plan, steps=(changed, *parameters.plan.steps[1:]))
        if changed.heavy != first.heavy and len(plan.steps) == 1:
            continue  # a plan of one question at a smaller budget is a plan
        with pytest.raises(InconsistentError):
            verification.verify(replace(parameters, plan=plan), embedded.FOLDER)


@pytest.mark.parametrize("unit", [Cells(16), Picture()])
def test_the_certificate_of_questions_survives_json(books: Books, unit: Cells | Picture) -> None:
    certificate = Certificate.of(QuestionPlanner(books, STREET, (unit,)).choose(Budget(8.0, unit=unit)).plan, STREET)
    assert Certificate.from_json(certificate.to_json()) == certificate
