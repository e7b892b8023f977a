"""Test plans along timesteps: exact paths, budgets that are kept, and the numbers of a reference run."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from helpers.charges import selection_epsilon
from helpers.geometry import of_pixels
from helpers.refusals import refused
from helpers.statistics import bounded
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dipp.codes import Flat, StepLimited
from dipp.core.arithmetic import Arithmetic
from dipp.core.channels import Channel, Laplace, Sign
from dipp.core.plan import Coding, Plan
from dipp.core.steps import Step
from dipp.errors import DippError, NoCertificateError
from dipp.models.diffusion import NoiseSchedule
from dipp.planning.knapsack import Search
from dipp.planning.planner import NEAR_TIE, RESOLUTION, Planner, Point, Sizes
from dipp.planning.presets import DIFFC, PAPER
from dipp.planning.table import SLICES, ErrorTable, grid
from dipp.privacy import conversions
from dipp.privacy.budget import Budget
from dipp.privacy.certificate import Certificate
from experiments.comparisons.channels import Huber
from experiments.comparisons.unclipped import SHARP, THRIFTY

Floats = NDArray[np.float64]

MASKED = Coding(Sign(7), Flat())
PLAIN = Coding(Sign(1), Flat())
HUBER = Coding(Huber(1.0), Flat())
CODINGS = [PAPER, SHARP, THRIFTY, MASKED, PLAIN, HUBER]

REFERENCE_MSE = {
    4e-5: 0.3,
    0.00086: 0.275,
    0.0040: 0.213,
    0.018: 0.147,
    0.085: 0.090,
    0.40: 0.048,
    1.8: 0.022,
    8.4: 0.0093,
    39.0: 0.0035,
    1e4: 6e-5,
}
"""Mean squared error per sub-pixel by SNR: of the denoiser of a reference run, and two guesses at the ends."""


def error_table(model: NoiseSchedule, squares: Floats | None = None) -> ErrorTable:
    """Return a table of errors with exponential sizes and the mean squares of a reference run."""
    timesteps = grid(model)
    snrs = np.array([model.snr(t) for t in timesteps])
    if squares is None:
        squares = np.exp(np.interp(np.log(snrs), np.log([*REFERENCE_MSE]), np.log([*REFERENCE_MSE.values()])))
    sizes = -np.log1p(-(np.arange(SLICES) + 0.5) / SLICES)
    sizes /= math.sqrt(float(np.square(sizes).mean()))
    return ErrorTable(np.array(timesteps), snrs, np.minimum(np.sqrt(squares)[:, None] * sizes, 2.0))


MODEL = NoiseSchedule(np.cumprod(1 - np.linspace(1e-4, 0.02, 1000), dtype=np.float64))
TABLE = error_table(MODEL)
SMALL = NoiseSchedule(np.array([0.999, 0.98, 0.9, 0.6, 0.2, 0.05, 0.01, 0.001]))


def kl_bits(channel: Channel, step: Step) -> float:
    """Return the KL in bits per touched coordinate of a step."""
    return TABLE.kl_matrix(channel, np.array([MODEL.snr(step.start)]), np.array([[step.snr_gain]])).item()


@functools.cache
def planner(coding: Coding, pad: int = 3, separate: bool = False, pixels: int = 1024) -> Planner:
    return Planner(MODEL, TABLE, coding, geometry=of_pixels(pixels), sizes=Sizes(14 + pad, pad), separate=separate)


@functools.cache
def chosen(coding: Coding, budget: Budget) -> Point:
    return planner(coding).choose(budget)


def paths(nodes: int) -> Iterator[list[int]]:
    """Yield all paths from node 0 to a node."""
    for final in range(1, nodes):
        for count in range(final):
            for between in itertools.combinations(range(1, final), count):
                yield [0, *between, final]


@bounded
@given(st.data())
def test_the_knapsack_is_exact(data: st.DataObject) -> None:
    nodes, options = data.draw(st.integers(2, 7)), data.draw(st.integers(1, 2))
    capacity, seed = data.draw(st.integers(0, 12)), data.draw(st.integers(0, 2**32 - 1))
    generator = np.random.default_rng(seed)
    bits = generator.integers(1, 20, (options, nodes, nodes)).astype(np.float32)
    bits[generator.random(bits.shape) < 0.2] = math.inf
    costs = generator.integers(0, 6, bits.shape).astype(np.int32)
    cheapest = np.full((nodes, capacity + 1), math.inf)
    cheapest[0] = 0
    for path in paths(nodes):
        for taken in itertools.product(range(options), repeat=len(path) - 1):
            edges = [(option, i, j) for option, (i, j) in zip(taken, itertools.pairwise(path), strict=True)]
            used, sum_of_bits = sum(int(costs[edge]) for edge in edges), sum(float(bits[edge]) for edge in edges)
            cheapest[path[-1], used:] = np.minimum(cheapest[path[-1], used:], sum_of_bits)
    search = Search(bits, costs, (capacity,))
    best = search.best
    assert (best == cheapest).all()
    for final, units in zip(*np.nonzero(np.isfinite(best)), strict=True):
        way, taken_options = search.path(final, units)
        edges = list(zip(taken_options, way[:-1], way[1:], strict=True))
        assert way[0] == 0
        assert way[-1] == final
        assert sum(float(bits[edge]) for edge in edges) == best[final, units]
        assert sum(int(costs[edge]) for edge in edges) <= units
    for final, units in [*zip(*np.nonzero(np.isinf(best)), strict=True), (0, capacity + 1), (0, -1)]:
        with refused("path"):
            search.path(final, units)


BUDGETS = st.one_of(
    st.floats(0.05, 300).map(Budget.pure),
    st.floats(0.001, 300).map(Budget.zcdp),
    st.sampled_from([1e-30, 1e-9, 1e9, 1e300]).flatmap(
        lambda limit: st.sampled_from([Budget.pure(limit), Budget.zcdp(limit), Budget.approximate(limit, 1e-200)])
    ),
    st.builds(Budget.approximate, st.floats(0.05, 100), st.sampled_from([1e-9, 1e-6, 1e-3, 0.1])),
)
PLANNERS = st.builds(
    Planner,
    st.just(SMALL),
    st.lists(st.floats(0.01, 0.4), min_size=8, max_size=8).map(
        lambda squares: error_table(SMALL, np.array(sorted(squares, reverse=True)))
    ),
    st.sampled_from(CODINGS),
    geometry=st.sampled_from([of_pixels(8), of_pixels(64), of_pixels(1000)]),
    sizes=st.builds(Sizes, st.integers(8, 18), st.sampled_from([0.0, 2.5, 5.0])),
    separate=st.booleans(),
)


def has_a_step(planner: Planner, budget: Budget) -> bool:
    """Return whether any first step keeps the budget by more than the planner's rounding."""
    edges = np.argwhere(np.isfinite(planner._edges.bits[:, 0])).tolist()
    plans = (planner._plan([0, node], [option]) for option, node in edges)
    return any(budget.measure(planner._certificate(plan)) < 0.9 * budget.limit for plan in plans)


@pytest.mark.slow
@settings(bounded, max_examples=300)
@given(planner=PLANNERS, budget=BUDGETS)
def test_the_certificate_is_never_above_the_budget(planner: Planner, budget: Budget) -> None:
    points = planner.frontier(budget)
    assert points or not has_a_step(planner, budget)
    for point in points:
        epsilon, rho = certificate(point.plan, planner.geometry.channels, planner.geometry.pixels, planner.separate)
        cost = Certificate.of(point.plan, planner.geometry)
        assert epsilon <= cost.epsilon <= float(epsilon) * (1 + 1e-9)
        assert rho <= cost.rho <= float(rho) * (1 + 1e-9)
        if budget.rho is not None:
            assert rho <= budget.rho
        elif budget.delta is None:
            assert epsilon <= (budget.epsilon or 0)
        else:
            assert min(float(epsilon), converted(rho, budget.delta)) <= (budget.epsilon or 0)
        assert point.plan.steps[0].start == len(SMALL) - 1
        assert point.plan.steps[-1].end == point.final_timestep


@settings(bounded, max_examples=30)
@given(coding=st.sampled_from(CODINGS), kind=st.sampled_from(["pure", "zcdp", "delta"]), log_limit=st.floats(-4, 6))
def test_no_budget_is_exceeded_on_a_real_schedule(coding: Coding, kind: str, log_limit: float) -> None:
    limit = math.exp(log_limit)
    budget = {"pure": Budget.pure(limit), "zcdp": Budget.zcdp(limit), "delta": Budget.approximate(limit, 1e-6)}[kind]
    plan, message = None, ""
    try:
        plan = short_planner(coding).choose(budget).plan
    except DippError as error:
        message = str(error)
    if plan is None:
        assert "too small for any step" in message
        assert not has_a_step(short_planner(coding), budget)
        return
    epsilon, rho = certificate(plan, 3, 1024, separate=False)
    approximate = min(float(epsilon), converted(rho, 1e-6))
    spent: Decimal | float = {"pure": epsilon, "zcdp": rho}.get(kind, approximate)
    assert spent <= limit
    if coding is PAPER and limit > 1:  # nothing saturates, so the budget is used
        assert spent > 0.6 * limit


@functools.cache
def short_planner(coding: Coding) -> Planner:
    model = NoiseSchedule(MODEL.alphas_cumprod[::9].copy())
    return Planner(model, error_table(model), coding, separate=False)


@pytest.mark.slow
@settings(bounded, max_examples=50)
@given(planner=PLANNERS, budget=BUDGETS)
def test_paths_are_the_best_up_to_the_resolution(planner: Planner, budget: Budget) -> None:
    """They are compared with all paths and options of a small graph, with the costs of their integers."""
    assume(planner.coding is not MASKED)
    edges = planner._edges
    options = range(edges.bits.shape[0])
    limit = budget.epsilon if budget.rho is None else budget.rho
    assert limit is not None
    strict: dict[int, float] = {}
    loose: dict[int, float] = {}
    for nodes in paths(len(SMALL)):
        for taken in itertools.product(options, repeat=len(nodes) - 1):
            steps = list(zip(taken, itertools.pairwise(nodes), strict=True))
            bits = planner.coding.code.padding_bits + sum(float(edges.bits[option, i, j]) for option, (i, j) in steps)
            if math.isinf(bits):
                continue
            plan = planner._plan(nodes, list(taken))
            used = budget.measure(Certificate.of(plan, planner.geometry)) / limit
            final = plan.steps[-1].end
            if used <= 1:
                strict[final] = min(strict.get(final, math.inf), bits)
            # Rounding, and what truncation makes of ρ: the search counts the untruncated number.
            if used <= 1 - 0.02 - (len(nodes) * 9) / RESOLUTION:
                loose[final] = min(loose.get(final, math.inf), bits)
    found = {t: point.bits for point in planner.frontier(budget) if (t := point.final_timestep) is not None}
    rounding = 1 + len(SMALL) * 2.0**-23  # the search adds up at most as many numbers, in 32 bits
    assert found.keys() <= strict.keys()
    assert all(found[final] * rounding >= strict[final] for final in found)
    assert loose.keys() <= found.keys()
    assert all(found[final] <= loose[final] * rounding for final in loose)


def test_pure_paths_lose_no_more_than_the_rounding() -> None:
    """Costs under a pure budget are those of the integers, so k steps can lose a share of at most k/2048."""
    planner = Planner(SMALL, error_table(SMALL), SHARP)
    reference = {point.final_timestep: point for point in planner.frontier(Budget.pure(40))}
    assert reference
    for point in reference.values():
        needed = Certificate.of(point.plan, of_pixels(1024)).epsilon
        enough = Budget.pure(needed / (1 - len(point.plan.steps) / RESOLUTION) * (1 + 1e-7))
        again = {other.final_timestep: other for other in planner.frontier(enough)}
        assert again[point.final_timestep].bits <= point.bits


@pytest.mark.parametrize("coding", [PAPER, SHARP, PLAIN])
def test_costs_of_edges_are_rounded_up(coding: Coding) -> None:
    """The search never counts less than the ε of the integers, so that its first path keeps the budget."""
    one = planner(coding)
    (search,) = one._searches(Budget.pure(16.0))
    assert search.capacities[0] == RESOLUTION
    coordinates = 1 if coding is SHARP else 3
    for i, j in np.random.default_rng(0).integers(0, 1000, (300, 2)).tolist():
        cost = search.costs[0, i, j]
        if i < j and cost <= search.capacities[0]:
            integers = Arithmetic(coding.channel, one._edges.gain[i, j], coding.code.score_alpha)
            loss = coordinates * selection_epsilon(integers)
            unit = 16 / RESOLUTION
            assert loss <= cost * unit < loss * (1 + 1e-7) + unit


def test_bits_are_those_of_the_steps() -> None:
    """They follow from the KL of the errors, chunks of at most index_bits − pad, and the price of every index."""
    for coding in (SHARP, PAPER):
        point = chosen(coding, Budget.pure(16.0))
        touched = 1024 if coding is SHARP else 3072
        fixed = coding.code.fixed_length
        total = 0.0 if fixed else 8.0  # an image of the zeta code takes whole bytes
        for step in point.plan.steps:
            assert np.float32(step.snr_gain).view(np.int32) % (1 << 16) == 0
            real = MODEL.snr(step.end) - MODEL.snr(step.start)
            assert real * (1 - 1 / 128) < step.snr_gain <= real
            kl = touched * kl_bits(coding.channel, step)
            chunks = math.ceil(touched / step.chunk_size)
            assert kl / chunks <= 14 + 1e-9
            assert step.index_bits == min(17, math.ceil(kl / chunks + 3))
            zeta = StepLimited().expected_bits(np.array(kl / chunks), np.array(step.index_bits))
            total += chunks * (step.index_bits if fixed else float(zeta))
            assert step.exponent_units == 0 if fixed else step.exponent_units > 64
        assert point.bits == pytest.approx(total, rel=1e-6)
        assert point.bpp == pytest.approx(total / 1024, rel=1e-6)


@pytest.mark.parametrize(
    ("kl", "pad", "simulated"),
    [
        (0, 3, 1.85),
        (2, 2, 3.23),
        (2, 7, 4.94),
        (6, 4, 7.71),
        (8, 2, 8.47),
        (8, 5, 9.96),
        (12, 3, 12.58),
        (16, 2, 15.71),
    ],
)
def test_zeta_bits_fit_the_simulation(kl: float, pad: float, simulated: float) -> None:
    assert float(StepLimited().expected_bits(np.array(kl), np.array(kl + pad))) == pytest.approx(simulated, abs=0.3)


@pytest.mark.parametrize(("coding", "rate"), [(PAPER, 33.94), (SHARP, 6.93), (PLAIN, 12.0)])
def test_one_step_reaches_what_the_law_says(coding: Coding, rate: float) -> None:
    """Since ε = rate·√ΔSNR, the largest final SNR of one step is (ε/rate)², up to the grid of timesteps."""
    unlimited = replace(planner(coding), sizes=Sizes(saturation=0.99))
    for epsilon in (1.0, 4.0):
        reach = max(point.snr for point in unlimited.frontier(Budget.pure(epsilon)))
        limit = (epsilon / rate) ** 2 + MODEL.snr(999)
        spacing = MODEL.snr(MODEL.nearest(limit) - 2) / MODEL.snr(MODEL.nearest(limit))
        assert limit / spacing < reach < limit * 1.017


@pytest.mark.parametrize(("separate", "coding", "rate"), [(False, PAPER, 144), (True, PAPER, 48), (False, SHARP, 6)])
def test_rho_is_a_multiple_of_the_final_snr(separate: bool, coding: Coding, rate: float) -> None:
    reach = max(point.snr for point in planner(coding, separate=separate).frontier(Budget.zcdp(3.0)))
    assert 3 / rate * 0.96 < reach <= 3 / rate * 1.017


@pytest.mark.parametrize(("epsilon", "steps", "bpp"), [(1, 2, 0.0166), (4, 2, 0.105), (16, 4, 0.310), (64, 9, 0.573)])
def test_the_sign_channel_of_a_reference_run(epsilon: float, steps: int, bpp: float) -> None:
    """Number of steps and rate at these budgets, measured with other tables and another choice of final SNR."""
    point = chosen(SHARP, Budget.pure(float(epsilon)))
    assert abs(len(point.plan.steps) - steps) <= 1 + steps // 8
    assert 0.6 < point.bpp / bpp < 1.7


@pytest.mark.parametrize(
    ("epsilon", "share", "steps", "kl_bpp"),
    [(4, 0.8, 2, 0.0124), (16, 0.8, 2, 0.136), (16, 0.4, 3, 0.056), (64, 0.4, 4, 0.342), (64, 0.15, 9, 0.154)],
)
def test_the_paper_of_a_reference_run(epsilon: float, share: float, steps: int, kl_bpp: float) -> None:
    target = MODEL.nearest(share * (epsilon / 33.94) ** 2)
    point = planner(PAPER, pad=2).choose(Budget.pure(float(epsilon)), final_timestep=target)
    assert abs(len(point.plan.steps) - steps) <= 1
    kl = sum(3 * kl_bits(Laplace(), step) for step in point.plan.steps)
    assert kl == pytest.approx(kl_bpp, rel=0.3)


def test_the_default_is_the_best_quality_and_then_fewest_bits() -> None:
    budget = Budget.pure(16.0)
    points, point = planner(SHARP).frontier(budget), chosen(SHARP, budget)
    best = max(other.psnr for other in points)
    near = [other for other in points if other.psnr >= best - NEAR_TIE]
    assert point in near
    assert point.bits == min(other.bits for other in near)
    assert [other.snr for other in points] == sorted(other.snr for other in points)
    assert point.psnr == pytest.approx(10 * math.log10(4 / float(TABLE.mse(point.snr))), abs=1e-9)


def test_the_plan_along_the_timesteps_of_a_plan_is_the_same() -> None:
    """A path of the frontier gives its own plan again, and another coding takes the same timesteps."""
    bits = {}
    for coding in (SHARP, PAPER):
        point = planner(coding).frontier(Budget.pure(16.0))[-1]
        timesteps = [point.plan.steps[0].start, *(step.end for step in point.plan.steps)]
        assert planner(coding).along(timesteps) == point
        other = planner(DIFFC).along(timesteps)
        assert [(step.start, step.end) for step in other.plan.steps] == list(itertools.pairwise(timesteps))
        bits[coding] = (point.bits, other.bits)
    certified, gaussian = bits[PAPER]
    assert gaussian < certified, "for the same coordinates, Gaussian noise takes fewer bits"


@pytest.mark.parametrize("timesteps", [[], [999], [998, 500], [999, 500, 500], [999, 400, 500], [999, -1]])
def test_timesteps_that_do_not_fall_from_the_first_are_refused(timesteps: list[int]) -> None:
    with refused("timesteps"):
        planner(SHARP).along(timesteps)


def test_plans_keep_a_rate_and_a_final_timestep() -> None:
    budget = Budget.pure(16.0)
    free, frontier = chosen(SHARP, budget), planner(SHARP).frontier(budget)
    for bpp in (0.02, 0.1):
        point = planner(SHARP).choose(budget, bpp=bpp)
        assert point.bpp <= bpp
        assert point.psnr < free.psnr
        assert point.psnr >= max(other.psnr for other in frontier if other.bpp <= bpp) - NEAR_TIE
    assert planner(SHARP).choose(budget, bpp=10.0) == free
    more = {point.final_timestep: point for point in planner(SHARP).frontier(Budget.pure(64.0))}
    for t in (300, 600, 900):
        point = planner(SHARP).choose(budget, final_timestep=t)
        assert point.plan.steps[-1].end == t
        assert point.bits >= more[t].bits


def test_limits_out_of_reach_are_refused() -> None:
    with refused("budget", "0.001"):
        planner(SHARP).choose(Budget.pure(0.001))
    with refused("budget", "1e-09"):
        planner(PAPER).choose(Budget.zcdp(1e-9))
    with refused("budget", "1e-05"):
        planner(PAPER).choose(Budget.approximate(1e-5, 1e-12))
    for timestep in (10, 999):
        with refused("final_timestep", f"{timestep}", remedy="998"):
            planner(PAPER).choose(Budget.pure(1.0), final_timestep=timestep)
    with refused("bpp", "1e-05"):
        planner(PAPER).choose(Budget.pure(1.0), bpp=1e-5)
    for bpp in (0.0, -1.0, math.nan):
        with refused("bpp"):
            planner(PAPER).choose(Budget.pure(1.0), bpp=bpp)
    with refused("final_timestep and bpp"):
        planner(PAPER).choose(Budget.pure(1.0), bpp=1.0, final_timestep=500)


def test_a_coding_without_a_certificate_takes_no_budget() -> None:
    free = planner(DIFFC, pad=2)
    with pytest.raises(NoCertificateError):
        free.choose(Budget.pure(16.0))
    with refused("bpp", "rate"):
        free.choose(None)
    point = free.choose(None, final_timestep=400)
    assert point.plan.steps[-1].end == 400
    assert all(step.exponent_units > 64 for step in point.plan.steps)
    assert free.choose(None, bpp=0.1).bpp <= 0.1
    # At the same final timestep, half the bits of the Laplace channel or less.
    bound = planner(PAPER, pad=2).choose(Budget.zcdp(1e4), final_timestep=400)
    assert 0.4 < point.bits / bound.bits < 0.65


def test_saturated_steps_are_barred() -> None:
    """Every step keeps the limit, by its definition; without the limit some steps would not."""

    def lost(point: Point) -> float:
        rows = [(np.abs(TABLE.snrs - MODEL.snr(step.start)).argmin(), step.snr_gain) for step in point.plan.steps]
        theta = [TABLE.quantiles[row] * math.sqrt(3 * gain) for row, gain in rows]
        return max(float(np.square(t - np.tanh(t)).mean() / np.square(t).mean()) for t in theta)

    for epsilon in (4.0, 16.0, 64.0):
        assert lost(chosen(SHARP, Budget.pure(epsilon))) < 0.03 * 1.3  # the nearest row stands in for the start
    unlimited = Planner(MODEL, TABLE, SHARP, sizes=Sizes(saturation=0.9)).choose(Budget.pure(64.0))
    assert lost(unlimited) > 0.1
    assert len(unlimited.plan.steps) < len(chosen(SHARP, Budget.pure(64.0)).plan.steps)
    assert unlimited.snr > chosen(SHARP, Budget.pure(64.0)).snr


def test_under_rho_more_steps_cost_no_privacy() -> None:
    """At the same final timestep ρ allows more and smaller steps than pure ε, and they take fewer bits."""
    pure = chosen(SHARP, Budget.pure(16.0))
    rho = Certificate.of(pure.plan, of_pixels(1024)).rho * 1.05
    freed = planner(SHARP).choose(Budget.zcdp(rho), final_timestep=pure.final_timestep)
    assert len(freed.plan.steps) > 2 * len(pure.plan.steps)
    assert freed.bits < 0.9 * pure.bits
    assert Certificate.of(freed.plan, of_pixels(1024)).epsilon > 16
    # A megapixel pays the overhead of a chunk less often, and takes smaller steps still.
    large = planner(SHARP, pixels=1 << 20).choose(Budget.zcdp(rho), final_timestep=pure.final_timestep)
    assert len(large.plan.steps) > 4 * len(freed.plan.steps)
    assert large.bpp < freed.bpp


def test_delta_takes_the_better_of_both() -> None:
    """One step of pure ε reaches furthest. Before that, ρ allows more steps, which save bits in a large image."""
    large = planner(SHARP, pixels=1 << 20)
    pure, rho, both = (
        {point.final_timestep: point for point in large.frontier(budget)}
        for budget in (
            Budget.pure(1.0),
            Budget.zcdp(conversions.zcdp_of_epsilon(1.0, 1e-5)),
            Budget.approximate(1.0, 1e-5),
        )
    )
    assert both.keys() == pure.keys() > rho.keys()
    for final, point in both.items():
        assert point.bits == min(found[final].bits for found in (pure, rho) if final in found)
    assert min(both[final].bits / pure[final].bits for final in rho) < 0.98


def test_keeping_channels_apart_pays_under_rho() -> None:
    apart, together = (planner(PAPER, separate=flag).choose(Budget.zcdp(3.0)) for flag in (True, False))
    assert apart.snr == pytest.approx(3 * together.snr, rel=0.1)
    assert min(math.ceil(3072 / step.chunk_size) for step in apart.plan.steps[1:]) >= 3
    assert certificate(apart.plan, 3, 1024, separate=True)[1] <= 3
    assert certificate(apart.plan, 3, 1024, separate=False)[1] > 3


def test_coded_chains_cost_more_bits() -> None:
    inflated = TABLE.with_inflation("sharp", np.array([1e-3, 1.0]), np.array([1.5, 1.5]))
    target = chosen(SHARP, Budget.pure(16.0)).final_timestep
    plain = planner(SHARP).choose(Budget.pure(64.0), final_timestep=target)
    coded = Planner(MODEL, inflated, SHARP, chains="sharp").choose(Budget.pure(64.0), final_timestep=target)
    assert coded.bits > 1.2 * plain.bits
    assert plain.psnr - coded.psnr == pytest.approx(10 * math.log10(1.5), abs=1e-6)


@pytest.mark.parametrize("change", [{"geometry": of_pixels(64, 4)}, {"schedule": SMALL}])
def test_bad_settings_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(DippError):
        replace(planner(SHARP), **change)


@pytest.mark.parametrize(
    "sizes",
    [
        {"index_bits": 23, "pad": 3},
        {"index_bits": 3, "pad": 3},
        {"pad": -1},
        {"pad": math.nan},
        {"saturation": 0},
        {"saturation": math.nan},
    ],
)
def test_bad_sizes_are_refused(sizes: dict[str, Any]) -> None:
    with pytest.raises(DippError):
        Sizes(**sizes)


def certificate(plan: Plan, channels: int, pixels: int, separate: bool) -> tuple[Decimal, Decimal]:
    """Return ε and ρ of the worst pixel, computed from the integers with 40 digits."""
    channel, alpha = plan.channel, plan.code.score_alpha
    period = channel.period if isinstance(channel, Sign) else 1
    with localcontext(prec=40):
        charged = []
        for step in plan.steps:
            integers = plan.arithmetic(step)
            bits = float(alpha) * channel.slope * math.sqrt(step.snr_gain) / math.log(2)
            assert integers.level_of_one <= bits * 2.0**integers.fraction_bits * (1 + 1e-12)
            moved = Decimal(2 * 2 * integers.level_of_one) / Decimal(2) ** integers.fraction_bits
            loss = moved * Decimal(2).ln() + Decimal(2) ** -38
            apart = separate and -(-pixels * channels // step.chunk_size) >= channels
            if period > 1:
                charged.append((loss, loss**2 / 8))
            else:
                charged.append((channels * loss, (channels if apart else channels**2) * loss**2 / 8))
        worst = []
        for kind in (0, 1):
            total = Decimal(0)
            for first in range(0, len(charged), period):
                cycle = charged[first : first + period]
                touched = [
                    [charge[kind] for slot, charge in enumerate(cycle) if period == 1 or slot in slots]
                    for slots in (
                        {(rank + place * (period // channels)) % period for place in range(channels)}
                        for rank in range(period)
                    )
                ]
                total += max(sum(charges, Decimal(0)) for charges in touched)
            worst.append(total)
    return worst[0], worst[1]


def converted(rho: Decimal, delta: float) -> float:
    """Return the ε of ρ-zCDP at δ with a relative error of 10^−6: the best of many orders."""
    excess = np.geomspace(1e-4, 1e8, 20_000)
    bounds = float(rho) * (1 + excess) - np.log1p(1 / excess) - (math.log(delta) + np.log1p(excess)) / excess
    return float(bounds.min()) * (1 - 1e-6)
