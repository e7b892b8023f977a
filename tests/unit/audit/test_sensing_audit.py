"""The audit of clipped sensing: claims of pairs and of codes that search are reached and never exceeded, and mistakes
that only sensing can make are caught."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from helpers.neighbours import neighbouring

from dipp import scoring
from dipp.audit import blackbox, broken, controls, exact, law, likelihood, neighbours, setting, suite
from dipp.audit.controls import Controls, Plant
from dipp.audit.exact import Exact
from dipp.audit.setting import Subject
from dipp.codec.encoder import Selector
from dipp.codes import Flat, Pairs, StepLimited, pairs
from dipp.codes.pairs import Pair
from dipp.core import randomness
from dipp.core.channels import Sign
from dipp.core.code import Indices, Scored
from dipp.core.geometry import Geometry
from dipp.core.masks import Turns
from dipp.core.plan import Coding, Plan
from dipp.core.price import Sensitivity
from dipp.core.steps import SensingStep, Step
from dipp.models.denoiser import Numbers
from dipp.models.evidence import Evidence
from dipp.planning.presets import PRESETS, SENSED, SensingPreset
from dipp.privacy.certificate import Certificate
from experiments.comparisons.unclipped import SHARP

PAIRED, FLAT = (Subject(Coding(Sign(period=12), code), SensingStep.kind) for code in (Pairs(), Flat()))
ORDERED = Subject(Coding(Sign(period=12), StepLimited(Fraction(2))), SensingStep.kind)
SUBJECTS = pytest.mark.parametrize("subject", [PAIRED, FLAT], ids=["pairs", "flat"])

pytestmark = pytest.mark.usefixtures("one_thread")


def by_kind(found: list[Exact]) -> dict[str, Exact]:
    return {one.kind: one for one in found}


# What is audited.


def test_the_subjects_are_the_codings_of_the_presets() -> None:
    """Every coding of a sensing preset, with clipped steps; one with steps along timesteps for the others."""
    sensing = {name: preset for name, preset in PRESETS.items() if isinstance(preset, SensingPreset)}
    assert list(sensing) == ["sharp", "swift"]
    for name, preset in sensing.items():
        subjects = suite._auditable(name, 1.0)
        assert [one.coding for one in subjects.values()] == list(preset.codings)
        assert all(one.kind == SensingStep.kind for one in subjects.values())
        assert {PAIRED, FLAT} <= set(subjects.values())
        assert list(subjects) == [coding.name for coding in preset.codings]
    (paper,) = suite._auditable("paper", 1.0).values()
    assert paper.kind == Step.kind


@SUBJECTS
@pytest.mark.parametrize("epsilon", [1 / 16, 1.0, 24.0])
@pytest.mark.parametrize(("passes", "touches"), [(0.5, 1), (1, 1), (2, 2), (2.5, 3), (3.5, 4)])
def test_plans_are_just_within(subject: Subject, epsilon: float, passes: float, touches: int) -> None:
    plan, shape = setting.plan_for(subject, epsilon, passes)
    assert plan.kind == SensingStep.kind
    assert len(plan.steps) == 4 * passes
    assert {type(step) for step in plan.steps} == {SensingStep}
    claimed = Certificate.of(plan, shape)
    assert 0.98 * epsilon < claimed.epsilon <= epsilon
    # The worst pixel pays for its touches, whatever the number of steps.
    assert claimed.epsilon == pytest.approx(touches * next(iter(claimed.steps)).epsilon, rel=1e-9)


def test_a_schedule_has_the_gains_of_its_plan() -> None:
    plan, _ = setting.plan_for(Subject(SHARP), 4.0)
    schedule = setting.schedule(plan)
    for step in plan.steps:
        assert isinstance(step, Step)
        assert schedule.step(step.start, step.end).snr_gain == pytest.approx(step.snr_gain, rel=1e-9)


# The exact audit.


@pytest.mark.parametrize(
    ("subject", "epsilon"),
    [*((PAIRED, epsilon) for epsilon in (0.5, 1.0, 4.0, 16.0)), *((FLAT, epsilon) for epsilon in (0.5, 1.0, 4.0, 8.0))],
    ids=lambda value: value.coding.code.name if isinstance(value, Subject) else f"{value:g}",
)
@pytest.mark.parametrize("passes", [1, 2, 2.5])
def test_adversaries_reach_the_claim_and_nobody_exceeds_it(subject: Subject, epsilon: float, passes: float) -> None:
    """A pixel is touched once, twice, and three times in passes that are not whole."""
    plan, shape = setting.plan_for(subject, epsilon, passes)
    claimed, found = Certificate.of(plan, shape), by_kind(exact.audit(plan, shape, 2, 1))
    assert all(one.within for one in found.values()), found
    adversarial = found["adversarial"]
    assert adversarial.claimed == claimed.epsilon
    assert 0.99 < adversarial.attained[0] / claimed.epsilon <= adversarial.ratio <= 1
    assert adversarial.draws == 2 * math.ceil(passes)
    assert 0.9 < found["small"].attained[0] / found["small"].claimed <= 1
    assert found["small"].claimed < claimed.epsilon
    # ρ of pairs is reached as well, and that of the flat code where its selections are not too large.
    if subject is PAIRED or epsilon / math.ceil(passes) <= 1:
        assert 0.97 < found["balanced"].rho_ratio <= 1


def test_the_paper_s_code_is_audited_in_sensing_too() -> None:
    """The planner may take it where bits are few."""
    found = by_kind(exact.audit(*setting.plan_for(ORDERED, 4.0), 2, 1))
    assert all(one.within for one in found.values())
    assert found["adversarial"].reached


def small_plan(subject: Subject, clip: float = setting.CLIP) -> Plan:
    """Ten steps of about ε = 4, with another clip at the same tilt."""
    plan = setting.plan_within(subject, 4.0, 10, 1 << 10, 6)
    width = float(np.float32(clip))
    steps = [dataclasses.replace(step, clip=width) for step in plan.steps if isinstance(step, SensingStep)]
    return dataclasses.replace(plan, steps=tuple(steps))


@SUBJECTS
@pytest.mark.parametrize("shape", [(1, 1, 3), (3, 3, 3), (1, 7, 3), (5, 5, 1)])
def test_tiny_and_odd_pictures(subject: Subject, shape: tuple[int, int, int]) -> None:
    """Some steps touch nothing; a grey picture is touched by a mask of twelve groups."""
    found = exact.audit(small_plan(subject), Geometry(*shape), 3, 1)
    assert all(one.within for one in found)
    assert max(found[1].observed) > 0.5


class Hostile:
    """A public denoiser that always says the same."""

    device, planes = torch.device("cpu"), ("state",)

    def __init__(self, answer: float) -> None:
        self.answer = answer

    def predict(self, evidence: Evidence, numbers: Numbers) -> torch.Tensor:  # noqa: ARG002
        return torch.full_like(evidence.state, self.answer)

    def placed(self, values: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(values)


@SUBJECTS
@pytest.mark.parametrize("clip", [0.05, 1.5])
@pytest.mark.parametrize("answer", [-1.0, 0.5, math.nan, math.inf])
def test_no_denoiser_leads_beyond_the_claim(subject: Subject, clip: float, answer: float) -> None:
    """Predictions beyond what a pixel can be, and those that are no numbers; clips wider than any pixel."""
    denoiser: Any = Hostile(answer)
    found = exact.audit(small_plan(subject, clip), Geometry(12, 12, 3), 1, 1, denoiser)
    assert all(one.within for one in found), found
    assert max(one.ratio for one in found) > 0.5


def test_an_adversary_looks_for_room() -> None:
    """Where a prediction is white, a pixel cannot move the shift up: another one is taken, if there is any."""
    plan, shape = setting.plan_for(PAIRED, 4.0, 1)
    chain = setting.chain_of(plan, shape, 0)
    layouts = [chain.layout(number, [0]) for number in range(len(plan.steps))]
    white = [np.ones(len(one.chunks.order), np.float32) for one in layouts]
    free = layouts[2].chunks.order[5]
    white[2][5] = 0.6
    dark, light = neighbours.adversarial_pair(chain, np.random.default_rng(0), predictions=white)
    assert set(np.flatnonzero(dark != light) // 3) == {free // 3}
    assert (dark[free], light[free]) == (0, 255)


@SUBJECTS
def test_pairs_of_images_differ_in_one_pixel(subject: Subject) -> None:
    plan, shape = setting.single_step(subject, 2.0)
    chain, generator = setting.chain_of(plan, shape, 3), np.random.default_rng(3)
    touched = set(chain.layout(0, [0]).chunks.order // 3)
    for x, y in neighbouring(chain, generator):
        changed = set(np.flatnonzero(x != y) // 3)
        assert len(changed) <= 1
        assert changed <= touched
    x, y = neighbours.adversarial_pair(chain, generator, change=8)
    assert set(y.astype(int)[x != y] - x[x != y]) == {8}


@SUBJECTS
def test_a_small_change_is_charged_by_the_slope(subject: Subject) -> None:
    """Eight levels cost what the certificate says between such images, and more than their share of the whole ε."""
    plan, shape = setting.plan_for(subject, 4.0)
    found = by_kind(exact.audit(plan, shape, 1, 1))["small"]
    first, second = np.full(shape.shape, 100, np.uint8), np.full(shape.shape, 100, np.uint8)
    second[3, 4] += exact.SMALL
    claimed = Certificate.of(plan, shape)
    assert found.claimed == claimed.between(first, second)
    assert found.claimed > 2 * claimed.epsilon * exact.SMALL / 255


# The laws, and the draws.


def test_the_outcomes_of_a_pair_are_those_of_its_threshold() -> None:
    """By definition: T of 2^64 integers give +, in exact logarithms however unlikely − is."""
    one = Pair((1 << 64) - 3)
    np.testing.assert_allclose(one.log_law(), [math.log(3) - 64 * math.log(2), 0], rtol=1e-15, atol=1e-16)
    assert one.share(0) == one.share((1 << 64) - 4) == (1, 0, (1 << 64) - 3)
    assert one.share((1 << 64) - 3) == one.share((1 << 64) - 1) == (0, (1 << 64) - 3, 1 << 64)
    assert {one.edge(number) for number in (0, 1 << 63, (1 << 64) - 1, 1 << 80)} == {(1 << 64) - 3}
    assert np.frombuffer(Pair.private_bytes((1 << 64) - 3), np.uint64).tolist() == [(1 << 64) - 3]
    assert Pair(1 << 63).log_law().tolist() == [-math.log(2)] * 2


def test_the_law_of_pairs_is_a_logistic_of_the_shift() -> None:
    """Against floats: P[+] = 1/(1 + e^(−2v)), for the shifts that the encoder has."""
    plan, shape = setting.plan_for(PAIRED, 16.0, 1)
    chain = setting.chain_of(plan, shape, 0)
    image = np.random.default_rng(0).integers(0, 256, shape.coordinates, np.uint8)
    layout = chain.layout(0, [0])
    selector = Selector(plan, chain.seed, image[None], "cpu")
    task = selector.task(layout, torch.zeros(1, len(layout.chunks.order)))
    found = plan.code.outcomes(scoring.Candidates(task, scoring.backend))
    tilts = 2 * task.shifts * math.log(2) * 2.0**-task.fraction_bits
    expected = np.stack([-np.logaddexp(0, tilts), -np.logaddexp(0, -tilts)], axis=1)
    np.testing.assert_allclose([one.log_law() for one in found], expected, rtol=1e-9)
    assert len(found) == 64
    assert np.abs(tilts).max() == pytest.approx(16, rel=0.01)


def test_the_law_of_a_step_of_several_pairs_is_that_of_its_outcomes() -> None:
    plan, shape = setting.single_step(PAIRED, 2.0)
    chain = setting.chain_of(plan, shape, 0)
    image = np.random.default_rng(1).integers(0, 256, shape.coordinates, np.uint8)
    found = likelihood.first_law(chain, image)
    assert found.shape == (16,)
    assert math.fsum(np.exp(found)) == pytest.approx(1, abs=1e-12)
    bits = np.array(np.unravel_index(np.arange(16), (2,) * 4)).T
    np.testing.assert_array_equal(likelihood.numbers(chain, bits), np.arange(16))
    # The marginal law of each bit is the one of its coordinate alone.
    order = chain.layout(0, [0]).chunks.order
    for place, coordinate in enumerate(order):
        other = np.full_like(image, 128)
        other[coordinate] = image[coordinate]
        alone = likelihood.first_law(chain, other)
        shares = [np.exp(law_)[bits[:, place] == 1].sum() for law_ in (found, alone)]
        assert shares[0] == pytest.approx(shares[1], rel=1e-12)


@SUBJECTS
@pytest.mark.parametrize("epsilon", [1 / 16, 1.0, 6.0])
def test_the_encoder_draws_by_its_law(subject: Subject, epsilon: float) -> None:
    """Fails on right code once in 10^7."""
    found = suite.law_audit(subject, epsilon, 4000)
    assert found.passed, found
    assert (found.wrong, found.images) == (0, law.SEEDS)
    assert found.draws == 2 * law.SEEDS * (4 if subject is PAIRED else 1)


def same_bytes(count: int) -> bytes:
    """The same eight private bytes for all coordinates."""
    return (PRIVATE_BYTES(8) * count)[:count]


def at_most(code: Pairs, scored: Scored) -> Indices:
    """u ≤ T in place of u < T: one integer of 2^64 too many gives +."""
    del code
    shifts, table = scored.shifts(), pairs.thresholds(scored.limit, scored.fraction_bits)
    drawn = np.frombuffer(randomness.private_bytes(8 * len(shifts)), np.uint64)
    return (drawn <= table[shifts + scored.limit]).astype(np.int64)


PRIVATE_BYTES = randomness.private_bytes
BUGS = {
    **controls.ALWAYS.laws,
    **controls.PAIRED.laws,
    "one draw for all": Plant(randomness, "private_bytes", same_bytes),
    "one integer too many": Plant(Pairs, "draw", at_most),
}


@pytest.mark.parametrize("name", BUGS)
def test_bits_that_are_drawn_wrongly_are_found_out(name: str) -> None:
    """By the counts or by the known bytes; the exact audit sees it on its own, too."""
    plan, shape = setting.plan_for(PAIRED, 1.0)
    with setting.replaced(*BUGS[name]):
        assert not suite.law_audit(PAIRED, 1.0, 4000).passed
        found = exact.audit(plan, shape, 4, 1)
    assert any(one.wrong for one in found)
    assert not any(one.wrong for one in exact.audit(plan, shape, 4, 1))


def test_known_bytes_are_at_the_edge_of_the_law() -> None:
    """Not even one integer in 2^64 may differ: half of the draws are at it."""
    plan, shape = setting.plan_for(PAIRED, 1.0, 1)
    chain = setting.chain_of(plan, shape, 0)
    image = np.random.default_rng(0).integers(0, 256, shape.coordinates, np.uint8)
    found = [likelihood.compare(chain, (image, 255 - image))]
    with setting.replaced(Pairs, "draw", at_most):
        found.append(likelihood.compare(chain, (image, 255 - image)))
    assert [one.draws for one in found] == [512, 512]
    assert [one.wrong for one in found] == [0, 256]


# Counts.


@SUBJECTS
def test_counts_of_the_real_encoder(subject: Subject) -> None:
    """Wrong, on right code, once in a million."""
    found = suite.black_box_audit(subject, 2.0, 20_000)
    assert 0.45 < found["ratio"] <= 1
    assert 0 < found["due"] <= found["observed"]
    assert suite.black_box_audit(subject, 1 / 16, 100)["due"] == 0


# Mistakes.

NEW = (
    "a group chosen by the picture",
    "a gain fitted to the picture",
    "a clip that depends on the picture",
    "a slope derived from the clip",
)


@pytest.mark.slow
@SUBJECTS
def test_every_mistake_is_caught(subject: Subject) -> None:
    found = suite.control_audit(subject)
    assert all(one["caught"] for one in found.values()), found
    assert set(NEW) <= set(found)
    assert ("pairs charged with ρ = ε²/8" in found) == (subject is PAIRED)
    assert "pixels not clamped" not in found
    assert len(found) == (11 if subject is PAIRED else 13)


@pytest.mark.slow
@SUBJECTS
def test_the_real_encoder_is_not_caught(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    """All mistakes replaced by the real thing: no alarm, whatever is tried."""
    honest = Controls(
        {"the real one": blackbox.encoder, "the rule": broken.encoder(broken._honest)},
        {"really": (Selector, likelihood.log_law)},
        {"truly": Plant(randomness, "private_bytes", randomness.private_bytes)},
        {
            "a fair charge": Plant(Pairs, "charge", Pairs.charge),
            "the slope": Plant(Sensitivity, "units", Sensitivity.units),
        },
    )
    monkeypatch.setattr(controls, "controls_of", lambda _: honest)
    monkeypatch.setattr(suite, "CONTROL_TRIES", 4)
    monkeypatch.setattr(suite, "SPARES", suite.SPARES[::5])
    found = suite.control_audit(subject)
    assert len(found) == 6
    assert not any(one["caught"] for one in found.values()), found


@SUBJECTS
def test_a_clip_of_the_picture_s_own_moves_every_tilt(subject: Subject) -> None:
    """One pixel that turns white widens the clip of all: what is lost grows with the picture, far above ε."""
    found = suite._compare(subject, *controls.CLIPPED.comparisons["a clip that depends on the picture"])
    assert found["caught"]
    assert found["observed"] > 10 * found["claimed"]


@SUBJECTS
@pytest.mark.parametrize("name", ["a group chosen by the picture", "a gain fitted to the picture"])
def test_what_is_said_beside_the_bits_is_counted(subject: Subject, name: str) -> None:
    found = suite._count(subject, controls.CLIPPED.releases[name])
    assert found["caught"]
    assert found["observed"] > 2 * found["claimed"]


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 16.0])
def test_rho_of_pairs_is_not_an_eighth_of_the_square(epsilon: float) -> None:
    """By the exact Rényi divergences, as long as the claim is not as large as ε itself."""
    plan, shape = setting.plan_for(PAIRED, epsilon)
    with setting.replaced(Pairs, "charge", broken.bounded_range):
        wrong = by_kind(exact.audit(plan, shape, 1, 1))
    right = by_kind(exact.audit(plan, shape, 1, 1))
    assert wrong["adversarial"].claimed_rho == pytest.approx(right["adversarial"].claimed ** 2 / 3 / 8, rel=1e-9)
    assert not wrong["adversarial"].within
    assert wrong["adversarial"].ratio <= 1 < wrong["adversarial"].rho_ratio
    assert right["adversarial"].within


@SUBJECTS
def test_a_slope_derived_from_the_clip_is_refuted(subject: Subject) -> None:
    """A small change loses about 1/clip times what such a slope would claim; the whole ε is the same."""
    plan, shape = setting.plan_for(subject, 4.0)
    with setting.replaced(Sensitivity, "units", broken.slope_of_clip):
        found = by_kind(exact.audit(plan, shape, 1, 1))
    assert found["small"].ratio > 0.9 / setting.CLIP
    assert not found["small"].within
    assert all(one.within for kind, one in found.items() if kind != "small")


def average(mask: Turns, charges: Sequence[float], channels: int) -> float:
    """What the steps charge a pixel on the average."""
    return math.fsum(charges) * mask.mean_touches(channels)


@SUBJECTS
def test_an_average_over_the_pixels_is_refuted(subject: Subject) -> None:
    """In two and a half passes the worst pixel pays three times."""
    plan, shape = setting.plan_for(subject, 4.0)
    with setting.replaced(Turns, "worst", average):
        found = by_kind(exact.audit(plan, shape, 1, 1))
    assert found["adversarial"].ratio == pytest.approx(3 / 2.5, rel=0.01)
    assert not found["adversarial"].within


def test_which_mistakes_can_be_made() -> None:
    """Both kinds of codes have their own; what a clip bounds, and what only a clip can get wrong."""
    named = {}
    for subject in (PAIRED, FLAT, Subject(SHARP)):
        own = controls.controls_of(subject)
        named[subject] = {*own.releases, *own.comparisons, *own.laws, *own.claims}
    assert set(NEW) <= named[PAIRED] & named[FLAT]
    assert not set(NEW) & named[Subject(SHARP)]
    assert "noise in float32" in named[FLAT] & named[Subject(SHARP)]
    assert "logistic noise in float32" in named[PAIRED]
    assert named[PAIRED] & named[FLAT] >= {
        "private randomness from the shared seed",
        "infinite alpha with an epsilon",
        "private bytes from a known seed",
        "a constant private draw",
        "scores times 1.15",
    }


# All of it.


@pytest.mark.slow
def test_a_preset_of_several_codings_tells_the_worst_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = {"BLACK_BOX_RUNS": 2000, "LAW_RUNS": 2000, "PAIRS": 3, "ADVERSARIES": 1, "SPARES": suite.SPARES[::4]}
    for name, value in quick.items():
        monkeypatch.setattr(suite, name, value)
    mistakes = controls.controls_of  # `test_every_mistake_is_caught` has those of the flat code
    monkeypatch.setattr(controls, "controls_of", lambda one: mistakes(one) if one.alone else Controls())
    audit = suite.audit("sharp", 1.0)
    assert audit.passed
    found = audit.to_dict()
    each = list(found["codings"].values())
    assert list(found["codings"]) == [coding.name for coding in SENSED]
    for kind in ("random", "extreme", "balanced", "adversarial", "small"):
        assert found["exact"][kind]["ratio"] == max(one["exact"][kind]["ratio"] for one in each) <= 1
        rho = max(one["exact"][kind]["rho"]["ratio"] for one in each)
        assert found["exact"][kind]["rho"]["ratio"] == rho <= 1
    assert found["black_box"]["ratio"] == max(one["black_box"]["ratio"] for one in each)
    assert found["law"]["p"] == min(one["law"]["p"] for one in each)
    assert set(found["controls"]) == {name for one in each for name in one["controls"]}
    # What fails in one coding fails at the top.
    first, *rest = audit.codings.items()
    missed = first[1].controls | {"a constant private draw": {"caught": False}}
    wrong = dataclasses.replace(first[1].law, wrong=1, p=1.0)
    failed = dataclasses.replace(first[1], controls=missed, law=wrong)
    for codings in ([(first[0], failed), *rest], [*rest, (first[0], failed)]):
        top = dataclasses.replace(audit, codings=dict(codings)).to_dict()
        assert not top["passed"]
        assert not top["controls"]["a constant private draw"]["caught"]
        assert not top["law"]["passed"]
