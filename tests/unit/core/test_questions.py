"""Questions: their ranges and columns, the grids of their coarse pixels, and the division of grids into blocks."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from helpers.questions import CODING, question, questions_plan
from helpers.refusals import refused
from hypothesis import given
from hypothesis import strategies as st

from dipp.codes import Flat
from dipp.core.channels import Laplace, Sign
from dipp.core.chunking import Chunks
from dipp.core.closest import MAX_TOTAL, Weights
from dipp.core.geometry import Geometry
from dipp.core.masks import FullMask
from dipp.core.plan import Coding, Plan
from dipp.core.steps import BLOCK, MAX_SPLIT, ROUNDS, STEPS, Question, SensingStep
from dipp.core.unit import Unit
from dipp.core.unit_deals import BY_BLOCK
from dipp.core.units import Cells, Picture, Pixel

SEED = bytes(range(16))
SPLITS = [1, 2, 4, 8, 16, 32]


@st.composite
def asked(draw: st.DrawFn) -> tuple[Unit, Question, Geometry]:
    """Draw a unit, a question that divides it, and a picture, which may be smaller than a unit or cut units off."""
    split = draw(st.sampled_from(SPLITS[:4]))
    cells = st.integers(1, 4).map(lambda pixels: Cells(pixels * BLOCK * split))
    unit = draw(cells | st.just(Picture()))
    geometry = Geometry(draw(st.integers(1, 40)), draw(st.integers(1, 40)), draw(st.integers(1, 3)))
    return unit, question(split, rounds=draw(st.sampled_from([*ROUNDS]))), geometry


# The numbers of a question.


def changed(**values: Any) -> Question:
    return dataclasses.replace(question(2, bits=4, best=2), **values)


@pytest.mark.parametrize(
    ("values", "argument"),
    [
        *(({"split": split}, "split") for split in (0, 3, -1, 2 * MAX_SPLIT)),
        *(({"rounds": rounds}, "rounds") for rounds in (0, 3, 5, 8)),
        *(({"candidate": candidate}, "candidate") for candidate in (-1, 2)),
        ({"scale": 0.5}, "candidate"),  # words have no scale
        *(({"candidate": 1, "scale": scale}, "scale") for scale in (0.0, -1.0, np.nan, np.inf, 0.1)),
        *(({"best": best}, "best") for best in (0, 16, 17)),
        *(({"heavy": heavy}, "heavy") for heavy in (0, MAX_TOTAL + 1)),
        *(({"light": light}, "light") for light in (0, 1 << 40)),
        ({"heavy": MAX_TOTAL, "light": 1}, "weights"),
        *(({"snr_gain": gain}, "snr_gain") for gain in (0.0, np.inf, 0.1)),
        *(({"index_bits": bits}, "index_bits") for bits in (0, 23)),
        ({"chunk_size": 2}, "chunk_size"),
        ({"exponent_units": -1}, "exponent_units"),
    ],
)
def test_numbers_out_of_range_are_refused(values: dict[str, Any], argument: str) -> None:
    with refused(argument):
        changed(**values)


def test_the_law_of_a_question_follows_from_its_numbers() -> None:
    step = question(bits=6, best=5, epsilon=3.0)
    assert step.weights == Weights(64, 5, step.heavy, step.light) == CODING.code.terms(step, CODING.channel)
    assert 2.999 < step.weights.epsilon <= 3.0


def test_columns_list_every_number() -> None:
    steps = (question(rounds=4), question(2, bits=5, best=3), question(4, scale=0.25, snr=0.5))
    listed = Question.to_columns(steps)
    assert set(listed) == {column.name for column in Question.columns}
    sizes = {"chunk_size": [1] * 3, "index_bits": [step.index_bits for step in steps]}
    assert Question.from_columns(listed | sizes) == steps
    assert STEPS[Question.number] is Question
    for column in Question.columns:
        if not column.floats:
            assert all(column.low <= value <= column.high for value in listed[column.name])


# Plans.


@pytest.mark.parametrize(
    ("unit", "steps", "argument"),
    [
        (Pixel(), [question()], "unit"),
        (Cells(6), [question()], "unit"),  # no whole coarse pixels
        (Cells(8), [question(4)], "unit"),
        (Cells(8), [question(2), question()], "split"),
        (Cells(8), [question(), question(2, rounds=2)], "rounds"),
    ],
)
def test_plans_that_no_unit_can_answer_are_refused(unit: Unit, steps: list[Question], argument: str) -> None:
    with refused(argument):
        questions_plan(unit, *steps)


def test_codes_channels_and_kinds_that_do_not_fit_are_refused() -> None:
    with refused("unit", "pixel"):
        Plan(Coding(Sign(period=1), Flat()), (question(),), unit=Picture())
    with refused("code", "answers"):
        Plan(CODING, (SensingStep(1.0, 0.5, 1.0, 1, 4),), unit=Picture())
    with refused("period", "unit"):  # a mask that leaves steps out would undercharge
        Plan(dataclasses.replace(CODING, channel=Sign(period=3)), (question(),), unit=Cells(8))
    with refused("separate"):
        Plan(CODING, (question(2),), separate=False, unit=Cells(8))
    with refused("code", "channel"):
        Plan(dataclasses.replace(CODING, channel=Laplace()), (question(),), unit=Cells(8))
    with refused("steps", "kind"):
        Plan(CODING, (question(), SensingStep(1.0, 0.5, 1.0, 1, 4)), unit=Picture())


# Grids and blocks.


@given(asked())
def test_a_coarse_pixel_lies_in_one_unit(drawn: tuple[Unit, Question, Geometry]) -> None:
    """Each pixel belongs to one coarse pixel, which has the same unit as the pixel."""
    unit, step, geometry = drawn
    coarse_unit, coarse = step.grid(unit, geometry)
    rows, columns = (unit.divisions(side, step.parts) for side in (geometry.height, geometry.width))
    assert (rows[0], rows[-1], columns[0], columns[-1]) == (0, geometry.height, 0, geometry.width)
    assert (np.diff(rows) > 0).all()
    assert (np.diff(columns) > 0).all()
    assert coarse == Geometry(len(rows) - 1, len(columns) - 1, geometry.channels)
    down = np.searchsorted(rows, np.arange(geometry.height), side="right") - 1
    across = np.searchsorted(columns, np.arange(geometry.width), side="right") - 1
    coarse_ids = coarse_unit.ids(coarse).reshape(coarse.shape)
    expected = coarse_ids[down][:, across]
    np.testing.assert_array_equal(expected, unit.ids(geometry).reshape(geometry.shape))
    assert coarse_unit.count(coarse) == unit.count(geometry)


@given(asked())
def test_a_block_lies_in_one_unit(drawn: tuple[Unit, Question, Geometry]) -> None:
    """Blocks of at most 4×4 divide the coarse pixels; each lies in one unit, and a unit has at most split² of them."""
    unit, step, geometry = drawn
    plan = questions_plan(unit, step)
    coarse_unit, coarse = step.grid(unit, geometry)
    dealt = plan.deal(SEED, 0, geometry)
    assert sorted(dealt.order.tolist()) == list(range(coarse.coordinates))
    assert dealt.count == plan.chunk_counts(geometry)[0]
    ids = coarse_unit.ids(coarse)
    for number in range(dealt.count):
        part = dealt.part(number)
        assert len(np.unique(ids[part])) == 1
        row, column = np.divmod(part // coarse.channels, coarse.width)
        assert len(np.unique(row // BLOCK)) == len(np.unique(column // BLOCK)) == 1
    parts, apart = BY_BLOCK.dealt(dealt, coarse_unit, coarse)
    assert apart
    assert parts.min() >= 1
    assert parts.max() <= plan.touches(geometry.channels, step) == step.split**2
    if coarse_unit.count(coarse) > 1:  # a block that takes in all of the next one
        together = Chunks(dealt.order, dealt.offsets[[0, -1]])
        assert not BY_BLOCK.dealt(together, coarse_unit, coarse).apart


@given(asked())
def test_rounds_are_a_partition_of_the_blocks(drawn: tuple[Unit, Question, Geometry]) -> None:
    unit, step, geometry = drawn
    _, coarse = step.grid(unit, geometry)
    dealt = questions_plan(unit, step).deal(SEED, 0, geometry)
    rounds = [dealt.in_round(turn) for turn in range(step.turns)]
    assert np.concatenate([chunks.order for chunks in rounds]).tolist() == dealt.order.tolist()
    assert sum(chunks.count for chunks in rounds) == dealt.count
    for turn, chunks in enumerate(rounds):
        for number in range(chunks.count):
            row, column = np.divmod(chunks.part(number)[0] // coarse.channels, coarse.width)
            pattern = ROUNDS[step.turns]
            assert pattern[row // BLOCK % len(pattern)][column // BLOCK % len(pattern)] == turn


def test_blocks_come_row_by_row_in_each_round() -> None:
    """Two rounds form a chequerboard; four rounds are the four corners of 2×2 blocks."""
    dealt = questions_plan(Cells(4), question(rounds=2)).deal(SEED, 0, Geometry(8, 12, 1))
    firsts = [int(dealt.part(number)[0]) for number in range(6)]
    assert firsts == [0, 8, 52, 4, 48, 56]
    assert dealt.rounds == (3,)
    dealt = questions_plan(Cells(4), question(rounds=4)).deal(SEED, 0, Geometry(8, 8, 1))
    assert [int(dealt.part(number)[0]) for number in range(4)] == [0, 36, 4, 32]
    assert dealt.rounds == (1, 2, 3)


def test_a_unit_pays_for_all_of_its_blocks() -> None:
    for split in SPLITS:
        assert BY_BLOCK.touches(FullMask(), 3, question(split), Picture()) == split**2
        BY_BLOCK.require_touched(split**2, FullMask(), 3, Picture())
    for wrong in (0, 2, 3, 9, 4096):
        with refused("touched"):
            BY_BLOCK.require_touched(wrong, FullMask(), 3, Picture())
    with refused("step", "question"):
        BY_BLOCK.touches(FullMask(), 3, SensingStep(1.0, 0.5, 1.0, 1, 4), Picture())
