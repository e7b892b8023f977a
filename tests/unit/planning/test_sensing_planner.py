"""Test that plans of sensing keep their budget, rate and calls, and are better with more bits."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from helpers.archives import release
from helpers.geometry import of_pixels
from helpers.ledgers import terms
from helpers.networks import linear_schedule, tiny_denoiser
from helpers.refusals import refused
from helpers.sensing import made_up_residuals, sensing_plan
from hypothesis import given, settings
from hypothesis import strategies as st

from dipp.codec.codec import Codec
from dipp.codec.decoding import Decoding
from dipp.codec.options import planned
from dipp.codes import Flat, Pairs, StepLimited
from dipp.core.geometry import Geometry
from dipp.core.plan import Plan
from dipp.core.sensitivity import TiltedCode
from dipp.core.steps import SensingStep
from dipp.errors import DippError, InconsistentError
from dipp.format.parameters import PublicParameters
from dipp.planning import verification
from dipp.planning.planner import NEAR_TIE, Point, short_floats
from dipp.planning.presets import DEFAULT_BPP, SensingPreset, preset
from dipp.planning.residuals import NAMES, Residuals
from dipp.planning.sensing import CLIPS, LEAST_GAIN, MOST_DRAWS, RATE_SLACK, WORTH_SAYING, SensingPlanner
from dipp.planning.sensing_choices import SENSING_CODES
from dipp.planning.table import ErrorTable
from dipp.planning.tilts import divergence, largest_tilt
from dipp.planning.verification import check_gains, check_indices
from dipp.privacy.budget import Budget
from dipp.privacy.certificate import Certificate

SCHEDULE = linear_schedule()


def planner(
    residuals: Residuals | None = None, calls: int = 11, pixels: int = 1024, channels: int = 3, rate: float = 1.0
) -> SensingPlanner:
    return SensingPlanner(residuals or made_up_residuals(), SCHEDULE, of_pixels(pixels, channels), calls, rate)


@functools.cache
def frontier(budget: Budget, calls: int = 11) -> tuple[Point, ...]:
    return planner(calls=calls).frontier(budget)


budgets = st.one_of(
    st.floats(math.log(0.1), math.log(64)).map(lambda e: Budget.pure(math.exp(e))),
    st.tuples(st.floats(math.log(0.1), math.log(64)), st.sampled_from([1e-3, 1e-6, 1e-9])).map(
        lambda one: Budget.approximate(math.exp(one[0]), one[1])
    ),
    st.floats(math.log(1e-3), math.log(30)).map(lambda rho: Budget.zcdp(math.exp(rho))),
)
tables = st.builds(
    made_up_residuals,
    start=st.floats(0.2, 0.6),
    power=st.floats(0.05, 0.5),
    shape=st.floats(0.5, 1.8),
    slices=st.sampled_from([1, 4]),
)
sizes = st.one_of(st.sampled_from([1, 7, 9, 64, 1024]), st.integers(1, 5000))


@pytest.mark.slow
@settings(max_examples=15)
@given(tables, budgets, sizes, st.sampled_from([1, 3]), st.sampled_from([0, 1, 4, 12]), st.floats(-6, 3))
def test_every_point_is_within_its_budget_its_rate_and_its_calls(
    table: Residuals, budget: Budget, pixels: int, channels: int, calls: int, log_rate: float
) -> None:
    """This holds for any residuals, sizes, budgets, rates and calls, by the certificate from the integers."""
    plans = planner(table, calls, pixels, channels)
    points = plans.frontier(budget)
    assert points
    for point in points:
        certificate = Certificate.of(point.plan, of_pixels(pixels, channels))
        assert budget.allows(certificate)
        assert 1 <= len(point.plan.steps) <= calls + 1
        assert point.bpp == pytest.approx(point.bits / pixels)
        assert point.psnr == pytest.approx(float(table.psnr(np.array([point.snr]))[0]))
        if point.plan.code.fixed_length:
            assert release(point.plan, channels).layout(of_pixels(pixels, channels)).index_bits == pytest.approx(
                point.bits
            )
    for before, after in itertools.pairwise(points):
        assert before.bits <= after.bits
        assert before.psnr + LEAST_GAIN < after.psnr
    rate = math.exp(log_rate)
    within = [point for point in points if point.bpp <= rate * (1 + RATE_SLACK)]
    if not within:
        with refused("bpp", remedy="give at least"):
            plans.choose(budget, bpp=rate)
        return
    chosen = plans.choose(budget, bpp=rate)
    assert chosen.bpp <= rate * (1 + RATE_SLACK)
    assert chosen.psnr >= within[-1].psnr - NEAR_TIE
    assert chosen.bits <= within[-1].bits
    assert chosen.bound == (len(within) < len(points) and points[-1].psnr > chosen.psnr + WORTH_SAYING)
    named = release(chosen.plan, channels, table=table.digest)
    check_gains(named, table)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
def test_plans_of_pairs_use_nearly_all_of_the_budget(epsilon: float) -> None:
    """They use at least 0.99 of it if the clip lies within the range of the data."""
    budget, used = Budget.pure(epsilon), []
    for point in frontier(budget):
        certificate = Certificate.of(point.plan, of_pixels(1024))
        narrow = all(
            (terms(selection).clip or 0) <= (terms(selection).slope or 0) for selection in certificate.ledger.selections
        )
        if point.plan.code == Pairs() and narrow:
            used.append(budget.measure(certificate) / epsilon)
    assert len(used) >= 3
    assert all(0.99 <= share <= 1 for share in used)


def test_each_code_is_the_best_for_some_budget_and_rate() -> None:
    """Pairs are best with many bits, flat with few bits, and the paper's code with a large ε and few bits."""
    found = {epsilon: {point.plan.code.name for point in frontier(Budget.pure(epsilon))} for epsilon in (1.0, 16.0)}
    assert set.union(*found.values()) == {"pairs", "flat", "step-limited PPR"}
    assert "step-limited PPR" in found[16.0]
    best = frontier(Budget.pure(1.0))[-1]
    assert best.plan.code == Pairs()


@pytest.mark.parametrize("code", SENSING_CODES, ids=lambda code: code.name)
def test_a_planner_of_one_code_takes_no_other(code: TiltedCode) -> None:
    every = dataclasses.replace(planner(), codes=(code,)).frontier(Budget.pure(1.0))
    assert {point.plan.code for point in every} == {code}


@pytest.mark.parametrize("codes", [(), (Flat(Fraction(2)),)])
def test_a_planner_without_codes_or_of_unknown_ones_is_refused(codes: tuple[TiltedCode, ...]) -> None:
    with refused("codes", "pairs"):
        dataclasses.replace(planner(), codes=codes)


def test_each_pixel_pays_once_under_pure_epsilon() -> None:
    """At 1 bit per pixel and ε = 4, one pass of many groups is best. Under ρ, pixels may be touched more often."""
    chosen = planner(calls=31).choose(Budget.pure(4.0))
    assert len(chosen.plan.steps) == chosen.plan.mask.period // 3 == 32
    certificate = Certificate.of(chosen.plan, of_pixels(1024))
    assert certificate.epsilon == pytest.approx(certificate.ledger.selections[0].charge().epsilon, rel=1e-12)


@pytest.mark.parametrize("epsilon", [1.0, 16.0])
def test_delta_never_costs_quality(epsilon: float) -> None:
    most = [points[-1].psnr for points in (frontier(Budget.pure(epsilon)), frontier(Budget.approximate(epsilon, 1e-6)))]
    assert most[1] >= most[0] - LEAST_GAIN


def test_more_epsilon_bits_or_calls_are_never_worse() -> None:
    """Near ties, which are decided by fewer bits, are the only exception."""
    best = [frontier(Budget.pure(epsilon))[-1].psnr for epsilon in (1.0, 4.0, 16.0)]
    assert best == sorted(best)
    qualities = [planner().choose(Budget.pure(4.0), bpp=rate).psnr for rate in (0.05, 0.2, 1.0, 3.0)]
    assert qualities == sorted(qualities)
    few, many = (frontier(Budget.pure(4.0), calls)[-1].psnr for calls in (3, 11))
    assert few < many


def test_more_epsilon_is_never_worse_at_a_low_rate() -> None:
    """The budget allows larger tilts than one bit can use; smaller tilts ask more pixels in the same bits."""
    for rate in (0.1, 1.0):
        psnrs = [planner(rate=rate).choose(Budget.pure(epsilon)).psnr for epsilon in (8, 64, 1000)]
        assert all(later > before - 0.1 for before, later in itertools.pairwise(psnrs)), (rate, psnrs)


def test_plans_are_not_called_bound_by_the_rate_for_tiny_gains() -> None:
    """Under ρ a second touch costs nearly what it gains: from some rate on, more bits buy a tenth of a dB."""
    plans, budget = planner(), Budget(rho=0.5)
    assert plans.choose(budget, bpp=0.2).bound
    point = plans.choose(budget, bpp=3)
    best = plans.frontier(budget)[-1]
    assert (best.bpp > 2 * point.bpp, point.psnr < best.psnr < point.psnr + 0.25, point.bound) == (True, True, False)


def test_plans_say_that_the_rate_limits_them() -> None:
    plans, budget = planner(), Budget.pure(16.0)
    usual = plans.choose(budget)
    assert usual.bound
    assert usual.bpp <= DEFAULT_BPP * (1 + RATE_SLACK)
    assert not plans.choose(budget, bpp=100.0).bound
    assert plans.choose(budget, bpp=100.0).psnr > usual.psnr + 1


@pytest.mark.parametrize("timestep", [900, 600, 300])
def test_plans_that_end_at_the_snr_of_a_timestep(timestep: int) -> None:
    """They take the fewest bits that reach it, at any rate."""
    budget = Budget.pure(64.0)
    chosen, wanted = planner().choose(budget, final_timestep=timestep), SCHEDULE.snr(timestep)
    reached = [point for point in frontier(budget) if point.snr >= wanted]
    assert chosen.snr >= wanted
    assert chosen.bits == reached[0].bits
    assert not chosen.bound


def test_limits_that_no_plan_keeps_are_refused_in_one_line() -> None:
    plans, budget = planner(), Budget.pure(4.0)
    with refused("final_timestep", "0 ", "ε = 4 per pixel", remedy="give at least "):
        plans.choose(budget, final_timestep=0)
    with refused("bpp", "1e-06", "ε = 4 per pixel", remedy="give at least "):
        plans.choose(budget, bpp=1e-6)
    for bpp in (math.nan, "1"):
        with refused("bpp", "a positive number", repr(bpp)):
            plans.choose(budget, bpp=bpp)  # type: ignore[arg-type]
    for timestep in (5000, 5.5):
        with refused("final_timestep", "a whole number from 0 to 999"):
            plans.choose(budget, final_timestep=timestep)  # type: ignore[arg-type]
    with refused("final_timestep and bpp"):
        plans.choose(budget, final_timestep=9, bpp=1.0)
    with refused("budget", remedy="give epsilon"):
        plans.choose(None)
    with refused("budget", "0.0001", "too small for any step"):
        plans.choose(Budget.pure(1e-4))


def test_a_limit_that_an_error_suggests_is_enough() -> None:
    plans = planner()

    def ask(name: str, value: float) -> Point:
        limits: dict[str, Any] = {name: int(value) if name == "final_timestep" else value}
        return plans.choose(Budget.pure(4.0), **limits)

    for name in ("bpp", "final_timestep"):
        with pytest.raises(DippError) as error:
            ask(name, 1e-6)
        least = float(error.value.remedy.split("at least ")[1].split(" ")[0])
        assert ask(name, least)
        with refused(name, remedy="give at least"):
            ask(name, 0.9 * least)
    for small in (Budget.pure(1e-6), Budget.zcdp(1e-12), Budget.approximate(1e-6, 1e-6)):
        with refused("budget", "pixel") as error:
            plans.choose(small)
        words = dict(pair.split(" = ") for pair in error.value.remedy.split(" per ")[0].split(", "))
        names = {"ε": "epsilon", "δ": "delta", "ρ": "rho"}
        limits = {names[word]: float(value) for word, value in words.items()}
        assert plans.choose(Budget(limits.get("epsilon"), limits.get("delta"), limits.get("rho")))


# Tilts, against the certificates of their integers.


@pytest.mark.parametrize("code", [Pairs(), Flat(), StepLimited()], ids=lambda code: code.name)
@pytest.mark.parametrize("touches", [1, 2, 5])
@pytest.mark.parametrize(
    "budget",
    [
        *map(Budget.pure, (0.25, 1.0, 4.0, 16.0, 32.0)),
        *map(Budget.zcdp, (0.01, 0.5, 4.0)),
        Budget.approximate(1.0, 1e-6),
        Budget.approximate(8.0, 1e-3),
    ],
    ids=str,
)
def test_the_largest_tilt_is_within_the_budget_and_nearly_uses_it(
    code: TiltedCode, touches: int, budget: Budget
) -> None:
    tilt = largest_tilt(code, touches, budget)
    certificate = Certificate.of(sensing_plan(code, groups=2, steps=2 * touches, tilt=tilt), of_pixels(1024))
    assert 0.98 * budget.limit <= budget.measure(certificate) <= budget.limit


def test_large_tilts_have_room_for_the_rounding_of_their_thresholds() -> None:
    """ε is a whole number of units of the integers, plus η: up to 0.003 more at V = 19."""
    for units in range(520, 876, 5):
        epsilon = 2 * units * math.log(2) / 32 * (1 + 1.5e-7)
        tilt = largest_tilt(Pairs(), 1, Budget.pure(epsilon))
        reached = Certificate.of(sensing_plan(groups=4, steps=4, tilt=tilt), of_pixels(1024)).epsilon
        assert 0.99 * epsilon <= reached <= epsilon


@pytest.mark.parametrize(("code", "most"), [(Pairs(), 19.0), (Flat(), 8.0), (StepLimited(), 8.0)])
def test_tilts_have_a_largest_value(code: TiltedCode, most: float) -> None:
    assert largest_tilt(code, 1, Budget.pure(1e4)) == pytest.approx(most, rel=1e-6)
    assert largest_tilt(code, 1, Budget.zcdp(1e6)) == pytest.approx(most, rel=1e-6)
    assert largest_tilt(code, 1, Budget.pure(1e-20)) < 1e-12


def test_divergences_are_those_of_tilted_coins() -> None:
    theta = np.array([1e-3, 0.1, 1.0, 5.0, 19.0])
    up = 1 / (1 + np.exp(-2 * theta))
    entropy = -(up * np.log2(up) + (1 - up) * np.log2(np.maximum(1 - up, 1e-300)))
    assert divergence(theta) == pytest.approx(1 - entropy, rel=1e-6, abs=1e-12)


# Presets.


def error_table(residuals: Residuals | None) -> ErrorTable:
    timesteps = np.array([900, 500, 100])
    snrs = np.array([SCHEDULE.snr(t) for t in timesteps.tolist()])
    return ErrorTable(timesteps, snrs, np.full((3, 4), 0.2), residuals=residuals)


def test_presets_of_sensing_limit_network_calls() -> None:
    """`sharp` asks the network 20 times, the final denoising included; `swift` four times along the chain."""
    denoiser, table, budget = tiny_denoiser(), error_table(made_up_residuals()), Budget.pure(4.0)
    for name, calls in (("sharp", 19), ("swift", 4)):
        chosen = preset(name)
        assert isinstance(chosen, SensingPreset)
        assert chosen.certified
        assert all(coding.certified for coding in chosen.codings)
        plans = chosen.planner(denoiser, table, budget)
        assert isinstance(plans, SensingPlanner)
        assert (plans.calls, plans.rate, plans.geometry) == (calls, 1.0, Geometry(8, 8, 3))
        assert chosen.planner(denoiser, table, budget, of_pixels(900)).geometry == of_pixels(900)


def test_encoding_makes_no_more_network_calls_than_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """A real network is called at most 20 times for sharp in all, and 4 times along the chain for swift."""
    denoiser, table, calls = tiny_denoiser(), error_table(made_up_residuals()), list[int]()
    ask = type(denoiser)._predict

    def counted(self: Any, x_t: Any, t: int, numbers: Any) -> Any:
        calls.append(t)
        return ask(self, x_t, t, numbers)

    monkeypatch.setattr(type(denoiser), "_predict", counted)
    picture = np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)
    for name, most in (("sharp", 19), ("swift", 4)):
        budgets = (Budget.pure(1.0), Budget.pure(4.0), Budget.zcdp(2.0))
        plans = [(preset(name).planner(denoiser, table, budget).choose(budget).plan, budget) for budget in budgets]
        plan, budget = max(plans, key=lambda plan: len(plan[0].steps))
        assert len(plan.steps) == most + 1, "what is allowed is made use of, and no more"
        codec = Codec(denoiser, plan, budget)
        calls.clear()
        archive = codec.encode([picture])
        assert len(calls) == most, "the first step asks nothing"
        calls.clear()
        codec.decode(archive, Decoding(calls=1))
        assert len(calls) == most + 1, "a decoder repeats them, and asks once more"


def test_a_table_without_residuals_is_refused_in_one_line() -> None:
    with refused("calibration", "residuals", remedy="dipp calibrate"):
        preset("sharp").planner(tiny_denoiser(), error_table(None), Budget.pure(4.0))


# Residuals.


def test_residuals_are_interpolated_over_log_snr() -> None:
    residuals = made_up_residuals()
    assert residuals.at(np.array([0.0]))[0] == pytest.approx(residuals.quantiles[0], rel=1e-12)
    assert residuals.at(residuals.snrs[1:]) == pytest.approx(residuals.quantiles[1:], rel=1e-12)
    middle = math.sqrt(residuals.snrs[3] * residuals.snrs[4])
    expected = np.sqrt(residuals.quantiles[3] * residuals.quantiles[4])
    assert residuals.at(np.array([middle]))[0] == pytest.approx(expected, rel=1e-9)
    early = residuals.at(np.array([residuals.snrs[1] / 4]))[0]
    assert early == pytest.approx(residuals.quantiles[0] ** 0.75 * residuals.quantiles[1] ** 0.25, rel=1e-9)
    beyond = residuals.at(residuals.snrs[-1] * np.array([1.0, 10.0, 100.0]))
    assert beyond[0] == pytest.approx(residuals.quantiles[-1], rel=1e-12)
    assert (np.diff(beyond, axis=0) < 0).all()
    assert beyond[2] / beyond[1] == pytest.approx(beyond[1] / beyond[0], rel=1e-9)
    assert residuals.mse(residuals.snrs) == pytest.approx(np.square(residuals.quantiles).mean(axis=1))
    assert residuals.psnr(residuals.snrs) == pytest.approx(10 * np.log10(4 / residuals.mse(residuals.snrs)))
    assert residuals.realised_at(6.0, 0.5) == residuals.realised_at(6.4, 0.1) == 0.94
    assert residuals.realised_at(4.0, 1.0) == pytest.approx((0.9 + 0.97) / 2)
    assert residuals.realised_at(20.0, 8.0) == 0.99


def test_digests_follow_from_the_statistics() -> None:
    """A digest changes with every number, and stays the same through a file."""
    base = made_up_residuals()
    assert base.digest == made_up_residuals().digest
    others = []
    for name in NAMES:
        changed = {part: np.array(getattr(base, part)) for part in NAMES}
        changed[name].flat[-1] *= 1 - 1e-9
        others.append(Residuals(**changed).digest)
    assert len({base.digest, *others}) == 6
    rounded = Residuals.from_dict(base.to_dict(lambda values: np.asarray(values).tolist()))
    assert rounded.digest == base.digest


def test_a_table_with_residuals_survives_a_file(tmp_path: Any) -> None:
    table = error_table(made_up_residuals())
    table.save(tmp_path / "a.json")
    loaded = ErrorTable.load(tmp_path / "a.json")
    loaded.save(tmp_path / "b.json")
    again = ErrorTable.load(tmp_path / "b.json")
    assert loaded.residuals is not None
    assert again.residuals is not None
    assert loaded.residuals.digest == again.residuals.digest
    assert loaded.residuals.quantiles == pytest.approx(made_up_residuals().quantiles, rel=1e-4)
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


@pytest.mark.parametrize(
    "change",
    [
        {"snrs": [0.0, 1.0]},
        {"snrs": [0.1] * 13},
        {"snrs": list(range(1, 14))},
        {"snrs": [0.0, 2.0, 1.0]},
        {"quantiles": [[0.1]]},
        {"quantiles": [[-0.1]] * 13},
        {"quantiles": [[0.0]] * 13},
        {"quantiles": [[math.nan]] * 13},
        {"touched": [1.0]},
        {"touched": [1.0] * 12 + [2.5]},
        {"realised": [0.5]},
        {"realised": [0.5] * 7 + [0.0]},
        {"realised": [0.5] * 7 + [math.inf]},
        {"searched": [(3.0, 1.0), (3.0, 0.5)] * 4},
        {"searched": [(3.0, 0.0), (3.0, 0.5), (4.0, 0.5), (4.0, 1.0)] * 2},
    ],
    ids=str,
)
def test_bad_residuals_are_refused_in_one_line(change: dict[str, Any]) -> None:
    base = made_up_residuals()
    parts = {name: getattr(base, name) for name in NAMES}
    with pytest.raises(DippError) as error:
        Residuals(**{**parts, **{name: np.array(value) for name, value in change.items()}})
    assert "\n" not in str(error.value)


# Gains that follow from their tilts.


def named(point: Point, table: Residuals) -> Any:
    return release(point.plan, table=table.digest)


@functools.cache
def chosen(epsilon: float, bpp: float) -> tuple[Point, Residuals]:
    table = made_up_residuals(slices=8)
    return planner(table).choose(Budget.pure(epsilon), bpp=bpp), table


@pytest.mark.parametrize(("epsilon", "bpp"), [(0.5, 1.0), (4.0, 1.0), (4.0, 0.2), (16.0, 0.5), (16.0, 4.0)])
def test_gains_of_plans_follow_from_their_tilts(epsilon: float, bpp: float) -> None:
    point, table = chosen(epsilon, bpp)
    check_gains(named(point, table), table)
    with refused("table", "residuals"):
        check_gains(named(point, table), made_up_residuals(start=0.4))
    with refused("table"):
        check_gains(release(point.plan), table)


def flat_indices(shares: np.ndarray[Any, Any]) -> tuple[PublicParameters, list[tuple[Geometry, np.ndarray[Any, Any]]]]:
    """Return a release by the flat code, and indices at these fractions of their numbers of candidates."""
    plan = sensing_plan(Flat())
    plan = dataclasses.replace(plan, steps=tuple(dataclasses.replace(step, index_bits=16) for step in plan.steps))
    count = sum(plan.chunk_counts(of_pixels(256)))
    return release(plan), [(of_pixels(256), np.floor(np.resize(shares, count) * 2**16).astype(np.int64))]


def test_indices_that_crowd_are_refused_and_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a false-alarm rate of 0.05, fewer than 5 % of 2,000 uniform rows are refused, and more than none."""
    rng = np.random.default_rng(0)
    check_indices(*flat_indices(np.array([0.5])))
    check_indices(*flat_indices(np.array([1 - 1e-9])))
    check_indices(flat_indices(np.ones(1))[0], ())
    crowded = flat_indices(np.array([0.0]))
    with refused("indices", "small", kind=InconsistentError):
        check_indices(*crowded)
    check_indices(dataclasses.replace(crowded[0], plan=sensing_plan(StepLimited())), crowded[1])
    monkeypatch.setattr(verification, "FALSE_ALARM", 0.05)
    caught = 0
    for _ in range(2000):
        try:
            check_indices(*flat_indices(rng.random(200)))
        except DippError:
            caught += 1
    assert 0 < caught < 0.05 * 2000


def forged(point: Point, **factors: float) -> Point:
    """Return the plan with some numbers of all steps multiplied, as 32-bit floats."""
    steps = []
    for step in point.plan.steps:
        assert isinstance(step, SensingStep)
        numbers = {name: float(np.float32(getattr(step, name) * factor)) for name, factor in factors.items()}
        steps.append(SensingStep(**{**vars(step), **numbers}))
    plan = Plan(point.plan.coding, tuple(steps), point.plan.separate)
    return Point(None, plan, point.bits, point.bpp, point.snr, point.psnr)


@pytest.mark.parametrize(("epsilon", "bpp"), [(0.5, 1.0), (4.0, 1.0), (4.0, 0.2)])
@pytest.mark.parametrize(
    "factors",
    [
        {"tilt": 0.5},
        {"tilt": 0.9},
        {"clip": 0.5},
        {"clip": 1.5},
        {"snr_gain": 0.98},
        {"snr_gain": 1.02},
        {"tilt": 0.9, "clip": 0.5},
    ],
)
def test_forged_numbers_are_caught(epsilon: float, bpp: float, factors: dict[str, float]) -> None:
    """A lower tilt would state a lower ε for the same bits, but the gains do not follow from it and the table."""
    point, table = chosen(epsilon, bpp)
    other = forged(point, **factors)
    if "tilt" in factors:
        assert (
            Certificate.of(other.plan, of_pixels(1024)).epsilon
            < 0.92 * Certificate.of(point.plan, of_pixels(1024)).epsilon
        )
    with refused("plan", kind=InconsistentError):
        check_gains(named(other, table), table)


def test_one_forged_step_is_caught() -> None:
    point, table = chosen(4.0, 1.0)
    low = forged(point, tilt=0.8).plan.steps
    steps: Any = (*point.plan.steps[:7], low[7], *point.plan.steps[8:])
    plan = Plan(point.plan.coding, steps, point.plan.separate)
    with refused("plan", "different", kind=InconsistentError):
        check_gains(release(plan, table=table.digest), table)


@pytest.mark.parametrize("epsilon", [4.0, 16.0, 64.0])
@pytest.mark.parametrize("size", [(32, 32), (512, 768), (3000, 4000)])
def test_a_plan_never_searches_for_more_than_minutes(epsilon: float, size: tuple[int, int]) -> None:
    point = planned(device="cpu", epsilon=epsilon, size=size).point
    plan, geometry = point.plan, Geometry(*size, 3)
    if plan.code.searches:
        touched = len(plan.mask.touched(bytes(16), 0, geometry))
        assert sum(touched * 2**step.index_bits for step in plan.steps) <= 1.1 * MOST_DRAWS
    else:
        assert size != (32, 32) or epsilon < 16  # small pictures have the time to search


@pytest.mark.parametrize(("epsilon", "bpp"), [(4.0, 1.0), (16.0, 4.0)])
def test_other_clips_cannot_hide_a_lower_tilt(epsilon: float, bpp: float) -> None:
    """A plan that states a lower tilt, and a narrower clip to keep its gain, is refused.

    Narrower clips convey nearly as much with less tilt, so gains are compared in all digits. The ratio k of the clip to
    the deviation must be one of `CLIPS`.
    """
    point, table = chosen(epsilon, bpp)
    assert isinstance(point.plan.code, Pairs)
    gains = np.array([step.snr_gain for step in point.plan.steps])
    deviations = np.sqrt(table.mse(np.concatenate([[0.0], np.cumsum(gains)[:-1]])))
    caught = 0
    for k, factor in itertools.product((0.01, 0.1, *CLIPS), (0.99, 0.97, 0.95, 0.9, 0.8)):
        steps = tuple(
            SensingStep(float(np.float32(factor * step.tilt)), clip, step.snr_gain, 1, 1)
            for step, clip in zip(point.plan.steps, short_floats(k * deviations).tolist(), strict=True)
        )
        with refused("plan", kind=InconsistentError):
            check_gains(release(Plan(point.plan.coding, steps), table=table.digest), table)
        caught += 1
    assert caught == 45


def test_a_searching_code_realised_one_of_the_measured_fractions() -> None:
    """Any measured fraction is valid, but all steps must have the same one."""
    point, table = chosen(4.0, 0.2)
    assert isinstance(point.plan.code, Flat)
    for share in (1.0, 0.8):
        shares = np.full(8, share)
        other = dataclasses.replace(table, realised=shares)
        with refused("plan", "gain", kind=InconsistentError):
            check_gains(release(point.plan, table=other.digest), other)
    steps = point.plan.steps
    mixed: Any = tuple(forged(point, snr_gain=0.86).plan.steps[i] if i % 2 else step for i, step in enumerate(steps))
    with refused("plan", "residuals", kind=InconsistentError):
        check_gains(release(Plan(point.plan.coding, mixed), table=table.digest), table)
