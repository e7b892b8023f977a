"""The audit of clipped sensing: codes reach their claims and never exceed them, and mistakes are caught."""

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
from dipp.audit.controls import Controls, PlantedMistake
from dipp.audit.exact import ExactAudit
from dipp.audit.setting import AuditSubject
from dipp.codec.encoder import Selector
from dipp.codes import Flat, Pairs, StepLimited, pairs
from dipp.codes.pairs import Pair
from dipp.core import randomness
from dipp.core.channels import Sign
from dipp.core.code import Indices, ScoredCandidates
from dipp.core.geometry import Geometry
from dipp.core.masks import TurnMask
from dipp.core.plan import Coding, Plan
from dipp.core.price import Sensitivity
from dipp.core.steps import SensingStep, Step
from dipp.models.denoiser import Numbers
from dipp.models.evidence import Evidence
from dipp.planning.presets import PRESETS, SENSED, SensingPreset
from dipp.privacy.certificate import Certificate
from experiments.comparisons.unclipped import SHARP

PAIRED, FLAT = (AuditSubject(Coding(Sign(period=12), code), SensingStep.kind) for code in (Pairs(), Flat()))
ORDERED = AuditSubject(Coding(Sign(period=12), StepLimited(Fraction(2))), SensingStep.kind)
SUBJECTS = pytest.mark.parametrize("subject", [PAIRED, FLAT], ids=["pairs", "flat"])

pytestmark = pytest.mark.usefixtures("one_thread")


def by_kind(results: list[ExactAudit]) -> dict[str, ExactAudit]:
    return {result.kind: result for result in results}


# Audited codings and plans.


def test_the_subjects_are_the_codings_of_the_presets() -> None:
    """Sensing presets are audited in every coding with clipped steps, and other presets with steps along timesteps."""
    sensing = {name: preset for name, preset in PRESETS.items() if isinstance(preset, SensingPreset)}
    assert list(sensing) == ["sharp", "swift"]
    for name, preset in sensing.items():
        subjects = suite.auditable(name, 1.0)
        assert [subject.coding for subject in subjects.values()] == list(preset.codings)
        assert all(subject.kind == SensingStep.kind for subject in subjects.values())
        assert {PAIRED, FLAT} <= set(subjects.values())
        assert list(subjects) == [coding.name for coding in preset.codings]
    (paper,) = suite.auditable("paper", 1.0).values()
    assert paper.kind == Step.kind


@SUBJECTS
@pytest.mark.parametrize("epsilon", [1 / 16, 1.0, 24.0])
@pytest.mark.parametrize(("passes", "touches"), [(0.5, 1), (1, 1), (2, 2), (2.5, 3), (3.5, 4)])
def test_plans_are_just_within(subject: AuditSubject, epsilon: float, passes: float, touches: int) -> None:
    plan, shape = setting.plan_for(subject, epsilon, passes)
    assert plan.kind == SensingStep.kind
    assert len(plan.steps) == 4 * passes
    assert {type(step) for step in plan.steps} == {SensingStep}
    claimed = Certificate.of(plan, shape)
    assert 0.98 * epsilon < claimed.epsilon <= epsilon
    # The worst pixel pays for each touch; the number of steps does not matter.
    assert claimed.epsilon == pytest.approx(touches * next(iter(claimed.steps)).epsilon, rel=1e-9)


def test_a_schedule_has_the_gains_of_its_plan() -> None:
    plan, _ = setting.plan_for(AuditSubject(SHARP), 4.0)
    schedule = setting.schedule(plan)
    for step in plan.steps:
        assert isinstance(step, Step)
        assert schedule.step(step.start, step.end).snr_gain == pytest.approx(step.snr_gain, rel=1e-9)


# The exact audit.


@pytest.mark.parametrize(
    ("subject", "epsilon"),
    [*((PAIRED, epsilon) for epsilon in (0.5, 1.0, 4.0, 16.0)), *((FLAT, epsilon) for epsilon in (0.5, 1.0, 4.0, 8.0))],
    ids=lambda value: value.coding.code.name if isinstance(value, AuditSubject) else f"{value:g}",
)
@pytest.mark.parametrize("passes", [1, 2, 2.5])
def test_adversaries_reach_the_claim_and_nobody_exceeds_it(
    subject: AuditSubject, epsilon: float, passes: float
) -> None:
    """The worst pixel is touched once, twice, and three times if the number of passes is not whole."""
    plan, shape = setting.plan_for(subject, epsilon, passes)
    claimed, results = Certificate.of(plan, shape), by_kind(exact.audit(plan, shape, 2, 1))
    assert all(result.within for result in results.values()), results
    adversarial = results["adversarial"]
    assert adversarial.claimed == claimed.epsilon
    assert 0.99 < adversarial.attained[0] / claimed.epsilon <= adversarial.ratio <= 1
    assert adversarial.draws == 2 * math.ceil(passes)
    assert 0.9 < results["small"].attained[0] / results["small"].claimed <= 1
    assert results["small"].claimed < claimed.epsilon
    # Both codes nearly reach their ρ, the flat code only if its selections are not too large.
    if subject is PAIRED or epsilon / math.ceil(passes) <= 1:
        assert 0.97 < results["balanced"].rho_ratio <= 1


def test_the_paper_s_code_is_audited_in_sensing_too() -> None:
    """The planner may choose this code for small bit budgets."""
    results = by_kind(exact.audit(*setting.plan_for(ORDERED, 4.0), 2, 1))
    assert all(result.within for result in results.values())
    assert results["adversarial"].reached


def small_plan(subject: AuditSubject, clip: float = setting.CLIP) -> Plan:
    """Return a plan of ten steps of about ε = 4, with another clip at the same tilt."""
    plan = setting.plan_within(subject, 4.0, 10, 1 << 10, 6)
    width = float(np.float32(clip))
    steps = [dataclasses.replace(step, clip=width) for step in plan.steps if isinstance(step, SensingStep)]
    return dataclasses.replace(plan, steps=tuple(steps))


@SUBJECTS
@pytest.mark.parametrize("shape", [(1, 1, 3), (3, 3, 3), (1, 7, 3), (5, 5, 1)])
def test_claims_hold_for_tiny_and_odd_pictures(subject: AuditSubject, shape: tuple[int, int, int]) -> None:
    """Some steps touch nothing; a grey picture is touched by a mask of twelve groups."""
    results = exact.audit(small_plan(subject), Geometry(*shape), 3, 1)
    assert all(result.within for result in results)
    assert max(results[1].observed) > 0.5


class HostileDenoiser:
    """A public denoiser whose prediction is constant."""

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
def test_no_prediction_of_a_denoiser_exceeds_the_claim(subject: AuditSubject, clip: float, answer: float) -> None:
    """Predictions may be no value of a pixel, or not a number; clips may be wider than the range of pixels."""
    denoiser: Any = HostileDenoiser(answer)
    results = exact.audit(small_plan(subject, clip), Geometry(12, 12, 3), 1, 1, denoiser)
    assert all(result.within for result in results), results
    assert max(result.ratio for result in results) > 0.5


def test_an_adversary_chooses_a_pixel_whose_shift_can_move() -> None:
    """A pixel that is predicted to be white cannot move the shift up, so the adversary chooses another if it can."""
    plan, shape = setting.plan_for(PAIRED, 4.0, 1)
    chain = setting.chain_of(plan, shape, 0)
    layouts = [chain.layout(number, [0]) for number in range(len(plan.steps))]
    white = [np.ones(len(layout.chunks.order), np.float32) for layout in layouts]
    free = layouts[2].chunks.order[5]
    white[2][5] = 0.6
    dark, light = neighbours.adversarial_pair(chain, np.random.default_rng(0), predictions=white)
    assert set(np.flatnonzero(dark != light) // 3) == {free // 3}
    assert (dark[free], light[free]) == (0, 255)


@SUBJECTS
def test_pairs_of_images_differ_in_one_pixel(subject: AuditSubject) -> None:
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
def test_a_small_change_is_charged_by_the_slope(subject: AuditSubject) -> None:
    """A change of eight levels costs what the certificate states for it, and more than its share of the whole ε."""
    plan, shape = setting.plan_for(subject, 4.0)
    small = by_kind(exact.audit(plan, shape, 1, 1))["small"]
    first, second = np.full(shape.shape, 100, np.uint8), np.full(shape.shape, 100, np.uint8)
    second[3, 4] += exact.SMALL
    claimed = Certificate.of(plan, shape)
    assert small.claimed == claimed.between(first, second)
    assert small.claimed > 2 * claimed.epsilon * exact.SMALL / 255


# Laws and draws.


def test_the_outcomes_of_a_pair_follow_from_its_threshold() -> None:
    """T of 2^64 integers give +; logarithms are exact even if − is very unlikely."""
    pair = Pair((1 << 64) - 3)
    np.testing.assert_allclose(pair.log_law(), [math.log(3) - 64 * math.log(2), 0], rtol=1e-15, atol=1e-16)
    assert pair.share(0) == pair.share((1 << 64) - 4) == (1, 0, (1 << 64) - 3)
    assert pair.share((1 << 64) - 3) == pair.share((1 << 64) - 1) == (0, (1 << 64) - 3, 1 << 64)
    assert {pair.edge(number) for number in (0, 1 << 63, (1 << 64) - 1, 1 << 80)} == {(1 << 64) - 3}
    assert np.frombuffer(Pair.private_bytes((1 << 64) - 3), np.uint64).tolist() == [(1 << 64) - 3]
    assert Pair(1 << 63).log_law().tolist() == [-math.log(2)] * 2


def test_the_law_of_pairs_is_a_logistic_of_the_shift() -> None:
    """For the shifts of the encoder, the law agrees with floats: P[+] = 1/(1 + e^(−2v))."""
    plan, shape = setting.plan_for(PAIRED, 16.0, 1)
    chain = setting.chain_of(plan, shape, 0)
    image = np.random.default_rng(0).integers(0, 256, shape.coordinates, np.uint8)
    layout = chain.layout(0, [0])
    selector = Selector(plan, chain.seed, image[None], "cpu")
    task = selector.task(layout, torch.zeros(1, len(layout.chunks.order)))
    outcomes = plan.code.outcomes(scoring.Candidates(task, scoring.backend))
    tilts = 2 * task.shifts * math.log(2) * 2.0**-task.fraction_bits
    expected = np.stack([-np.logaddexp(0, tilts), -np.logaddexp(0, -tilts)], axis=1)
    np.testing.assert_allclose([outcome.log_law() for outcome in outcomes], expected, rtol=1e-9)
    assert len(outcomes) == 64
    assert np.abs(tilts).max() == pytest.approx(16, rel=0.01)


def test_the_law_of_a_step_of_several_pairs_has_the_law_of_each_bit() -> None:
    plan, shape = setting.single_step(PAIRED, 2.0)
    chain = setting.chain_of(plan, shape, 0)
    image = np.random.default_rng(1).integers(0, 256, shape.coordinates, np.uint8)
    step_law = likelihood.first_law(chain, image)
    assert step_law.shape == (16,)
    assert math.fsum(np.exp(step_law)) == pytest.approx(1, abs=1e-12)
    bits = np.array(np.unravel_index(np.arange(16), (2,) * 4)).T
    np.testing.assert_array_equal(likelihood.numbers(chain, bits), np.arange(16))
    # The marginal law of each bit equals the law of its coordinate alone.
    order = chain.layout(0, [0]).chunks.order
    for column, coordinate in enumerate(order):
        other = np.full_like(image, 128)
        other[coordinate] = image[coordinate]
        alone = likelihood.first_law(chain, other)
        shares = [np.exp(law_)[bits[:, column] == 1].sum() for law_ in (step_law, alone)]
        assert shares[0] == pytest.approx(shares[1], rel=1e-12)


@SUBJECTS
@pytest.mark.parametrize("epsilon", [1 / 16, 1.0, 6.0])
def test_the_encoder_draws_by_its_law(subject: AuditSubject, epsilon: float) -> None:
    """The test fails for a correct encoder once in 10^7."""
    result = suite.law_audit(subject, epsilon, 4000)
    assert result.passed, result
    assert (result.wrong, result.images) == (0, law.SEEDS)
    assert result.draws == 2 * law.SEEDS * (4 if subject is PAIRED else 1)


def same_bytes(count: int) -> bytes:
    """Return the same eight private bytes for all coordinates."""
    return (PRIVATE_BYTES(8) * count)[:count]


def at_most(code: Pairs, scored: ScoredCandidates) -> Indices:
    """Draw + for u ≤ T instead of u < T: one integer of 2^64 too many gives +."""
    del code
    shifts, table = scored.shifts(), pairs.thresholds(scored.limit, scored.fraction_bits)
    drawn = np.frombuffer(randomness.private_bytes(8 * len(shifts)), np.uint64)
    return (drawn <= table[shifts + scored.limit]).astype(np.int64)


PRIVATE_BYTES = randomness.private_bytes
BUGS = {
    **controls.ALWAYS.laws,
    **controls.PAIRED.laws,
    "one draw for all": PlantedMistake(randomness, "private_bytes", same_bytes),
    "one integer too many": PlantedMistake(Pairs, "draw", at_most),
}


@pytest.mark.parametrize("name", BUGS)
def test_audits_catch_bits_that_are_drawn_wrongly(name: str) -> None:
    """The law audit catches them by counts or by known bytes; the exact audit catches them, too."""
    plan, shape = setting.plan_for(PAIRED, 1.0)
    with setting.replaced(*BUGS[name]):
        assert not suite.law_audit(PAIRED, 1.0, 4000).passed
        results = exact.audit(plan, shape, 4, 1)
    assert any(result.wrong for result in results)
    assert not any(result.wrong for result in exact.audit(plan, shape, 4, 1))


def test_known_bytes_are_at_the_edge_of_the_law() -> None:
    """Half of the draws use the integer at the edge of a share, so that one wrong integer of 2^64 is noticed."""
    plan, shape = setting.plan_for(PAIRED, 1.0, 1)
    chain = setting.chain_of(plan, shape, 0)
    image = np.random.default_rng(0).integers(0, 256, shape.coordinates, np.uint8)
    comparisons = [likelihood.compare(chain, (image, 255 - image))]
    with setting.replaced(Pairs, "draw", at_most):
        comparisons.append(likelihood.compare(chain, (image, 255 - image)))
    assert [comparison.draws for comparison in comparisons] == [512, 512]
    assert [comparison.wrong for comparison in comparisons] == [0, 256]


# Counts.


@SUBJECTS
def test_counts_of_the_real_encoder_stay_below_the_claim(subject: AuditSubject) -> None:
    """The test fails for a correct encoder once in a million."""
    facts = suite.black_box_audit(subject, 2.0, 20_000)
    assert 0.45 < facts["ratio"] <= 1
    assert 0 < facts["due"] <= facts["observed"]
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
def test_every_mistake_is_caught(subject: AuditSubject) -> None:
    facts = suite.control_audit(subject)
    assert all(control["caught"] for control in facts.values()), facts
    assert set(NEW) <= set(facts)
    assert ("pairs charged with ρ = ε²/8" in facts) == (subject is PAIRED)
    assert "pixels not clamped" not in facts
    assert len(facts) == (11 if subject is PAIRED else 13)


@pytest.mark.slow
@SUBJECTS
def test_the_real_encoder_is_not_caught(subject: AuditSubject, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real encoder in place of each broken one raises no alarm."""
    honest = Controls(
        {"the real one": blackbox.encoder, "the rule": broken.encoder(broken._honest)},
        {"really": (Selector, likelihood.log_law)},
        {"truly": PlantedMistake(randomness, "private_bytes", randomness.private_bytes)},
        {
            "a fair charge": PlantedMistake(Pairs, "charge", Pairs.charge),
            "the slope": PlantedMistake(Sensitivity, "units", Sensitivity.units),
        },
    )
    monkeypatch.setattr(controls, "controls_of", lambda _: honest)
    monkeypatch.setattr(suite, "CONTROL_TRIES", 4)
    monkeypatch.setattr(suite, "SPARES", suite.SPARES[::5])
    facts = suite.control_audit(subject)
    assert len(facts) == 6
    assert not any(control["caught"] for control in facts.values()), facts


@SUBJECTS
def test_a_clip_of_the_picture_s_own_moves_every_tilt(subject: AuditSubject) -> None:
    """A pixel that turns white widens the clip of all pixels: the loss grows with the picture, far above ε."""
    facts = suite._compare(subject, *controls.CLIPPED.comparisons["a clip that depends on the picture"])
    assert facts["caught"]
    assert facts["observed"] > 10 * facts["claimed"]


@SUBJECTS
@pytest.mark.parametrize("name", ["a group chosen by the picture", "a gain fitted to the picture"])
def test_the_black_box_audit_catches_what_is_released_beside_the_bits(subject: AuditSubject, name: str) -> None:
    facts = suite._count(subject, controls.CLIPPED.releases[name])
    assert facts["caught"]
    assert facts["observed"] > 2 * facts["claimed"]


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 16.0])
def test_rho_of_pairs_is_not_an_eighth_of_the_square(epsilon: float) -> None:
    """The exact Rényi divergences refute ε²/8, as long as that is below ε itself."""
    plan, shape = setting.plan_for(PAIRED, epsilon)
    with setting.replaced(Pairs, "charge", broken.bounded_range):
        wrong = by_kind(exact.audit(plan, shape, 1, 1))
    right = by_kind(exact.audit(plan, shape, 1, 1))
    assert wrong["adversarial"].claimed_rho == pytest.approx(right["adversarial"].claimed ** 2 / 3 / 8, rel=1e-9)
    assert not wrong["adversarial"].within
    assert wrong["adversarial"].ratio <= 1 < wrong["adversarial"].rho_ratio
    assert right["adversarial"].within


@SUBJECTS
def test_a_slope_derived_from_the_clip_is_refuted(subject: AuditSubject) -> None:
    """A small change loses about 1/clip times what such a slope would claim; the whole ε is the same."""
    plan, shape = setting.plan_for(subject, 4.0)
    with setting.replaced(Sensitivity, "units", broken.slope_of_clip):
        results = by_kind(exact.audit(plan, shape, 1, 1))
    assert results["small"].ratio > 0.9 / setting.CLIP
    assert not results["small"].within
    assert all(result.within for kind, result in results.items() if kind != "small")


def average(mask: TurnMask, charges: Sequence[float], channels: int) -> float:
    """Return what the steps charge a pixel on average."""
    return math.fsum(charges) * mask.mean_touches(channels)


@SUBJECTS
def test_an_average_over_the_pixels_is_refuted(subject: AuditSubject) -> None:
    """In two and a half passes the worst pixel pays three times."""
    plan, shape = setting.plan_for(subject, 4.0)
    with setting.replaced(TurnMask, "worst", average):
        results = by_kind(exact.audit(plan, shape, 1, 1))
    assert results["adversarial"].ratio == pytest.approx(3 / 2.5, rel=0.01)
    assert not results["adversarial"].within


def test_each_coding_has_the_mistakes_that_can_be_made_with_it() -> None:
    """Each kind of code has mistakes of its own; a clip rules out some mistakes and allows others."""
    named = {}
    for subject in (PAIRED, FLAT, AuditSubject(SHARP)):
        mistakes = controls.controls_of(subject)
        named[subject] = {*mistakes.releases, *mistakes.comparisons, *mistakes.laws, *mistakes.claims}
    assert set(NEW) <= named[PAIRED] & named[FLAT]
    assert not set(NEW) & named[AuditSubject(SHARP)]
    assert "noise in float32" in named[FLAT] & named[AuditSubject(SHARP)]
    assert "logistic noise in float32" in named[PAIRED]
    assert named[PAIRED] & named[FLAT] >= {
        "private randomness from the shared seed",
        "infinite alpha with an epsilon",
        "private bytes from a known seed",
        "a constant private draw",
        "scores times 1.15",
    }


# The whole audit.


@pytest.mark.slow
def test_a_preset_of_several_codings_reports_the_worst_result_of_each_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = {"BLACK_BOX_RUNS": 2000, "LAW_RUNS": 2000, "PAIRS": 3, "ADVERSARIES": 1, "SPARES": suite.SPARES[::4]}
    for name, value in quick.items():
        monkeypatch.setattr(suite, name, value)
    mistakes = controls.controls_of  # `test_every_mistake_is_caught` has those of the flat code
    monkeypatch.setattr(controls, "controls_of", lambda subject: mistakes(subject) if subject.alone else Controls())
    audit = suite.audit("sharp", 1.0)
    assert audit.passed
    facts = audit.to_dict()
    each = list(facts["codings"].values())
    assert list(facts["codings"]) == [coding.name for coding in SENSED]
    for kind in ("random", "extreme", "balanced", "adversarial", "small"):
        assert facts["exact"][kind]["ratio"] == max(coding["exact"][kind]["ratio"] for coding in each) <= 1
        rho = max(coding["exact"][kind]["rho"]["ratio"] for coding in each)
        assert facts["exact"][kind]["rho"]["ratio"] == rho <= 1
    assert facts["black_box"]["ratio"] == max(coding["black_box"]["ratio"] for coding in each)
    assert facts["law"]["p"] == min(coding["law"]["p"] for coding in each)
    assert set(facts["controls"]) == {name for coding in each for name in coding["controls"]}
    # A part that fails in one coding fails for the whole preset.
    first, *rest = audit.codings.items()
    missed = first[1].controls | {"a constant private draw": {"caught": False}}
    wrong = dataclasses.replace(first[1].law, wrong=1, p=1.0)
    failed = dataclasses.replace(first[1], controls=missed, law=wrong)
    for codings in ([(first[0], failed), *rest], [*rest, (first[0], failed)]):
        top = dataclasses.replace(audit, codings=dict(codings)).to_dict()
        assert not top["passed"]
        assert not top["controls"]["a constant private draw"]["caught"]
        assert not top["law"]["passed"]
