"""Test ledgers of sensing: recorded ones equal planned ones, and forged ones are refused."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest
from helpers.archives import SEED, release
from helpers.geometry import of_pixels
from helpers.ledgers import changed, record, terms
from helpers.refusals import refused
from helpers.sensing import code_of, sensing_plan
from helpers.statistics import bounded
from hypothesis import given
from hypothesis import strategies as st

from dipp.codes import CODES, Flat, Pairs, StepLimited
from dipp.core import chunking
from dipp.core.geometry import Geometry
from dipp.core.plan import Plan
from dipp.core.steps import SensingStep, Step
from dipp.errors import DippError
from dipp.format.archive import Archive
from dipp.privacy.certificate import Certificate
from dipp.privacy.ledger import Ledger
from experiments.comparisons.unclipped import SHARP

SIZES = {"1x1": 1, "3x3": 9, "1x7": 7, "5x13": 65, "32x32": 1024}
CODES_TAKEN = {"pairs": Pairs(), "flat": Flat(), "ordered": StepLimited()}
sizes = pytest.mark.parametrize("pixels", SIZES.values(), ids=SIZES.keys())
codes = pytest.mark.parametrize("code", CODES_TAKEN.values(), ids=CODES_TAKEN.keys())


@codes
@sizes
@pytest.mark.parametrize(("groups", "steps"), [(4, 4), (4, 6), (4, 3), (1, 5), (16, 33), (8, 24)])
def test_the_recorded_ledger_equals_the_planned_one(code: Any, pixels: int, groups: int, steps: int) -> None:
    """The ledgers agree for odd and tiny pictures, several sizes in one archive, and unfinished passes."""
    plan = sensing_plan(code, groups=groups, steps=steps)
    planned = Ledger.planned(plan, of_pixels(pixels))
    assert record(plan, pixels).ledger(plan, 1) == planned
    both = record(plan, pixels, recorder=record(plan, 4 * pixels + 1))
    assert both.ledger(plan, 2) == planned
    assert [selection.code for selection in planned.selections] == [code.name] * steps


@sizes
@pytest.mark.parametrize("groups", [1, 2, 5, 16])
@pytest.mark.parametrize("passes", [0.2, 0.5, 1.0, 1.01, 2.0, 2.5, 3.0, 3.25, 7.0])
@pytest.mark.parametrize("channels", [1, 3])
def test_the_worst_pixel_pays_for_one_touch_in_each_pass(
    groups: int, passes: float, pixels: int, channels: int
) -> None:
    """For any g and any size, the real masks touch no pixel more than ⌈T⌉ times."""
    steps = math.ceil(passes * groups)
    plan = sensing_plan(groups=groups, steps=steps, channels=channels)
    ledger, touches = Ledger.planned(plan, of_pixels(pixels, channels)), math.ceil(steps / groups)
    one = ledger.selections[0].charge()
    assert ledger.epsilon == pytest.approx(touches * one.epsilon, rel=1e-12)
    assert ledger.rho == pytest.approx(touches * one.rho, rel=1e-12)
    met = np.zeros(pixels, np.int64)
    for number in range(steps):
        touched = plan.mask.touched(SEED, number, of_pixels(pixels, channels))
        assert len(touched) == plan.mask.counts(steps, of_pixels(pixels, channels))[number]
        each = np.bincount(touched // channels, minlength=pixels)
        assert each.max(initial=0) <= 1
        met += each
    assert met.max() <= touches
    if pixels >= 3 * groups * channels and passes <= channels:
        assert met.max() == touches
    if steps % groups == 0:
        assert (met == touches).all()


def test_rho_of_pixels_adds_up_if_no_two_share_a_draw() -> None:
    """It is kρ with pairs, and k²ρ with codes whose chunks mix pixels; each release follows its own rule."""
    pairs, flat = (Certificate.of(sensing_plan(code), of_pixels(1024)) for code in (Pairs(), Flat()))
    assert [pairs.ledger.alone, flat.ledger.alone] == [True, False]
    for count in (2, 64, 10**6):
        assert pairs.for_units(count).rho == pytest.approx(count * pairs.rho, rel=1e-11)
        assert flat.for_units(count).rho == pytest.approx(count**2 * flat.rho, rel=1e-11)
        both = pairs.compose(flat).for_units(count).rho
        assert both == pytest.approx(count * pairs.rho + count**2 * flat.rho, rel=1e-11)
        assert both >= pairs.for_units(count).rho + flat.for_units(count).rho
        for one in (pairs, flat):
            grown = math.fsum(step.rho for step in one.for_units(count).steps) / math.fsum(s.rho for s in one.steps)
            assert grown == pytest.approx(one.for_units(count).rho / one.rho, rel=1e-11)


@codes
def test_a_ledger_survives_json(code: Any) -> None:
    certificate = Certificate.of(sensing_plan(code, clip=4.0), of_pixels(1024), delta=1e-6)
    for one in (certificate, certificate.compose(certificate), certificate.for_units(3)):
        assert Certificate.from_json(one.to_json()) == one
    rows = json.loads(certificate.to_json())["releases"][0]["selections"]
    for row, step in zip(rows, certificate.ledger.selections, strict=True):
        assert (row["code"], row["clip"], row["slope"]) == (code.name, terms(step).clip, terms(step).slope)
        assert row["sensitivity"] == 2 * min(row["clip"], row["slope"])


def forgeries() -> dict[str, dict[str, Any]]:
    """Yield changes of the first record of a pairs plan that would state a smaller cost, or are invalid."""
    return {
        "a smaller clip": {"clip": 100},
        "a smaller clip, and all that follows": {"clip": 100, "sensitivity": 200},
        "a slope below the clip": {"slope": 700},
        "no clip": {"clip": None},
        "no slope": {"slope": None},
        "neither": {"clip": None, "slope": None},
        "not a number": {"clip": 738.0},
        "true": {"slope": True},
        "nothing": {"clip": 0, "sensitivity": 0},
        "beyond": {"slope": 1 << 28},
        "eta of the exponential mechanism": {"eta": 2.0**-38},
        "no eta": {"eta": 0.0},
        "another code": {"code": "flat"},
        "an unknown code": {"code": "cheap"},
        "no code": {"code": None},
        "a code of no certificate": {"code": "PFR"},
        "another alpha": {"alpha": "2"},
        "a finer scale": {"fraction_bits": 12},
    }


@pytest.mark.parametrize("change", forgeries().values(), ids=forgeries().keys())
def test_a_forged_record_is_refused(change: dict[str, Any]) -> None:
    """The record itself is refused, or the stated ε does not follow from it."""
    content = json.loads(Certificate.of(sensing_plan(), of_pixels(1024)).to_json())
    forged = copy.deepcopy(content)
    row = forged["releases"][0]["selections"][0]
    assert (row["clip"], row["slope"], row["fraction_bits"], row["code"]) == (738, 2954, 9, "pairs")
    row.update({name: value for name, value in change.items() if value is not None})
    for name in [name for name, value in change.items() if value is None]:
        del row[name]
    with pytest.raises(DippError) as error:
        Certificate.from_json(json.dumps(forged))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "change",
    [
        {"sensitivity": 1474},
        {"sensitivity": 738},
        {"clip": 737},
        {"slope": 737},
        {"clip": None},
        {"slope": None},
        {"clip": 0, "sensitivity": 0},
        {"clip": True},
        {"slope": 1 << 28},
        {"code": "cheap"},
        {"eta": 0.0},
        {"fraction_bits": 10},
    ],
    ids=str,
)
def test_records_are_checked_on_their_own(change: dict[str, Any]) -> None:
    """The certificate around them does not matter."""
    (good,) = Ledger.planned(sensing_plan(steps=1), of_pixels(64)).selections
    with pytest.raises(DippError) as error:
        changed(good, **change)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("slope", [738, 800])
def test_a_smaller_slope_than_that_of_the_plan_is_refused(slope: int) -> None:
    """ε and ρ do not need it, so that a certificate alone cannot tell; but small changes would seem to cost less.

    What a reader of a file computes comes from the plan, and what an encoder wrote down is compared with that.
    """
    plan = sensing_plan(steps=1)
    true = Certificate.of(plan, of_pixels(1024))
    (row,) = true.ledger.selections
    forged = dataclasses.replace(true.ledger, selections=(changed(row, slope=slope),))
    assert forged.epsilon == true.epsilon
    assert forged.epsilon_of_change(3) < true.ledger.epsilon_of_change(3)
    assert Certificate((forged,)) != true
    with refused("ledger", "plan"):
        release(plan).require_recorded(of_pixels(1024), forged)


def wrong() -> dict[str, dict[str, Any]]:
    together = chunking.chunks(SEED, 0, of_pixels(64), 192, apart=False)
    return {
        "another clip": {"clip": 700},
        "no clip": {"clip": None},
        "a clip of the picture's own": {"clip": 739},
        "a table of a steeper slope": {"table": np.arange(-3000, 3001, 50, dtype=np.int32)},
        "another scale": {"fraction_bits": 8},
        "other candidates": {"candidates": 4},
        "every coordinate": {"chunks": together},
    }


@pytest.mark.parametrize("changes", wrong().values(), ids=wrong().keys())
def test_an_encoder_that_deviates_from_its_plan_writes_no_archive(changes: dict[str, Any]) -> None:
    plan = sensing_plan()
    rows = [[0] * sum(plan.chunk_counts(of_pixels(64)))]
    Archive.build(release(plan), [Geometry(8, 8, 3)], rows, recorded=record(plan, 64).ledger(plan, 1))
    with pytest.raises(DippError) as error:
        Archive.build(release(plan), [Geometry(8, 8, 3)], rows, recorded=record(plan, 64, **changes).ledger(plan, 1))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("changes", [{"clip": 700}, {"table": np.arange(-2952, 2953, 72, dtype=np.int32)}])
def test_clips_and_slopes_are_the_same_for_all_pictures(changes: dict[str, Any]) -> None:
    """Clips and slopes that depended on the picture would reveal something of it."""
    plan = sensing_plan(steps=1)
    with refused("step 0"):
        record(plan, 64, recorder=record(plan, 64), **changes)


@bounded
@given(
    st.sampled_from([*CODES_TAKEN]),
    st.floats(math.log(0.01), math.log(8.0)).map(lambda v: float(np.float32(math.exp(v)))),
    st.floats(math.log(0.01), math.log(6.0)).map(lambda v: float(np.float32(math.exp(v)))),
    st.integers(1, 255),
)
def test_the_metric_form_of_clipped_steps(name: str, tilt: float, width: float, change: int) -> None:
    """A shift moves by at most `moved` for each pair of values at this distance, and by less with other integers."""
    code = CODES_TAKEN[name]
    sizes, units = ((1, 1), 0) if name == "pairs" else ((9, 5), 0 if code.fixed_length else 80)
    base = sensing_plan(code)
    plan = Plan(base.coding, (SensingStep(tilt, width, 2**-5, *sizes, units),))
    own, ledger = plan.arithmetic(plan.steps[0]), Ledger.planned(plan, of_pixels(64))
    (one,) = ledger.selections
    table = own.levels(np.arange(256) / 127.5 - 1).astype(int)
    most = own.largest_shift or 0
    for centre in (0, own.level_of_one - most // 2, -own.level_of_one, own.level_of_one // 3):
        shifts = np.clip(table - max(-own.level_of_one, min(own.level_of_one, centre)), -most, most)
        assert np.abs(shifts[change:] - shifts[: 256 - change]).max() <= terms(one).units(change)
    assert terms(one).units(255) == terms(one).sensitivity == own.sensitivity
    assert ledger.epsilon_of_change(change) <= ledger.epsilon * (1 + 1e-14)
    assert ledger.epsilon_of_change(255) == pytest.approx(ledger.epsilon, rel=1e-12)


@pytest.mark.parametrize(
    ("tilt", "width"), [(0.7738261222839355, 0.006459787487983704), (0.8688900470733643, 0.013905626721680164)]
)
def test_a_whole_bound_covers_the_rounding_of_floats(tilt: float, width: float) -> None:
    """If 255 divides (2A + 2)·change, the float product of some pixel value rounds to one unit more."""
    plan = Plan(sensing_plan(Pairs()).coding, (SensingStep(tilt, width, 2**-5, 1, 1),))
    own, (one,) = plan.arithmetic(plan.steps[0]), Ledger.planned(plan, of_pixels(64)).selections
    table = own.levels(np.arange(256) / 127.5 - 1).astype(int)
    whole = [change for change in range(1, 255) if (2 * own.level_of_one + 2) * change % 255 == 0]
    beyond = 0
    for change in whole:
        moved = int(np.abs(table[change:] - table[: 256 - change]).max())
        beyond += moved > (2 * own.level_of_one + 2) * change // 255
        assert min(moved, terms(one).sensitivity) <= terms(one).units(change)
    assert beyond, "the case that is tested does not occur"


def test_small_changes_cost_relatively_more_than_before() -> None:
    """A change of a tenth of the range costs a narrow clip the whole ε, and a tenth of it without a clip."""
    ledger = Ledger.planned(sensing_plan(clip=0.5), of_pixels(64))
    assert ledger.epsilon_of_change(26) > 0.9 * ledger.epsilon
    steps = (Step(9, 5, 2**-6, 20, 9), Step(5, 2, 2**-6, 20, 9))
    before = Ledger.planned(Plan(SHARP, steps), of_pixels(64))
    assert before.epsilon_of_change(26) < 0.12 * before.epsilon
    images = np.zeros((2, 4, 4, 3), np.uint8)
    images[1, 2, 2] = 26
    assert Certificate((ledger,)).between(*images) == pytest.approx(ledger.epsilon_of_change(26), rel=1e-11)


@pytest.mark.parametrize("name", ["pairs", "flat"])
def test_records_name_codes_that_exist(name: str) -> None:
    one = Ledger.planned(sensing_plan(code_of(name)), of_pixels(64)).selections[0]
    assert one.rule == code_of(name)
    assert one.code in CODES
    for other in {*CODES} - {name}:
        if CODES[other].name == "PFR":
            continue
        if name == "pairs" or other == "pairs":
            with pytest.raises(DippError) as error:
                dataclasses.replace(one, code=other)
            assert error.value.argument in ("eta", "alpha", "closest")
