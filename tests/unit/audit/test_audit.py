"""The audit passes for the real encoder, fails for broken ones, and is made of parts that can fail on their own."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.neighbours import neighbouring
from helpers.refusals import printed, refused
from helpers.statistics import integer_weights
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image
from scipy import special  # type: ignore[import-untyped,unused-ignore]

from dipp import scoring
from dipp.audit import (
    blackbox,
    broken,
    controls,
    exact,
    law,
    likelihood,
    neighbours,
    observations,
    plot,
    setting,
    suite,
)
from dipp.audit.controls import Controls, PlantedMistake
from dipp.audit.setting import AuditSubject
from dipp.cli.main import main
from dipp.codec.encoder import Selector
from dipp.codes import Flat
from dipp.codes.exponential import SearchOutcomes
from dipp.core import randomness, selection
from dipp.core.channels import Sign
from dipp.core.geometry import Geometry
from dipp.core.plan import Coding
from dipp.core.price import Sensitivity
from dipp.core.steps import SensingStep
from dipp.core.units import Cells
from dipp.errors import NoCertificateError
from dipp.planning import presets
from dipp.planning.presets import PAPER, PRESETS
from dipp.privacy.certificate import Certificate
from dipp.scoring.cpu import CpuBackend
from experiments.comparisons.unclipped import SHARP

UNCLIPPED = AuditSubject(SHARP)
SUBJECTS = pytest.mark.parametrize("subject", [UNCLIPPED, AuditSubject(PAPER)], ids=["unclipped", "paper"])
"""With steps along timesteps; those of clipped sensing are in `test_sensing_audit`."""


pytestmark = pytest.mark.usefixtures("one_thread")


# The exact audit.


def test_the_log_law_follows_from_the_exact_weights() -> None:
    scores = np.random.default_rng(0).integers(-90_000, 90_000, 300).astype(np.int32)
    weights = integer_weights(scores[None], 10)[0]
    expected = [math.log(weight) - math.log(sum(weights)) for weight in weights.tolist()]
    outcomes = SearchOutcomes(scores, 10)
    np.testing.assert_allclose(outcomes.log_law(), expected, rtol=0, atol=1e-13)
    assert math.fsum(np.exp(outcomes.log_law())) == pytest.approx(1, abs=1e-12)
    assert outcomes.total == sum(weights)


@SUBJECTS
@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_no_pair_exceeds_the_claim_and_adversaries_reach_it(subject: AuditSubject, epsilon: float) -> None:
    plan, shape = setting.plan_for(subject, epsilon)
    results = {result.kind: result for result in exact.audit(plan, shape, 3, 1)}
    claimed = Certificate.of(plan, shape).epsilon
    assert 0.98 * epsilon < claimed <= epsilon
    assert all(result.within for result in results.values())
    assert all(result.claimed == claimed for kind, result in results.items() if kind != "small")
    assert 0.9 < results["small"].ratio <= 1
    assert 0.1 < results["random"].ratio < results["extreme"].ratio <= 1
    assert all(result.rho_ratio <= 1 and result.draws >= 3 and not result.wrong for result in results.values())
    assert 0.99 < min(results["adversarial"].attained) / claimed <= results["adversarial"].ratio <= 1
    # No outcome loses more than the bound.
    for result in results.values():
        assert all(abs(a) <= b for a, b in zip(result.attained, result.observed, strict=True))


@SUBJECTS
def test_pairs_differ_in_one_pixel(subject: AuditSubject) -> None:
    plan, shape = setting.plan_for(subject, 2.0)
    chain, generator = setting.chain_of(plan, shape, 3), np.random.default_rng(3)
    for x, y in neighbouring(chain, generator):
        assert len(set(np.flatnonzero(x != y) // 3)) <= 1


def test_the_audit_refutes_a_claim_that_is_too_low() -> None:
    """The encoder has ε = 4; if it claimed 3.9, the ratio of loss to claim would be 4/3.9."""
    plan, shape = setting.plan_for(UNCLIPPED, 4.0)
    result = exact.audit(plan, shape, 1, 1)[3]
    assert result.kind == "adversarial"
    lower = dataclasses.replace(result, claimed=3.9)
    assert result.within
    assert result.reached
    assert not lower.within
    assert lower.ratio == pytest.approx(4 / 3.9, rel=0.01)
    # An audit that observes too little is not trusted either.
    assert not dataclasses.replace(result, claimed=4.1).reached


@SUBJECTS
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_the_audit_refutes_half_of_rho(subject: AuditSubject, epsilon: float) -> None:
    plan, shape = setting.plan_for(subject, epsilon)
    result = exact.audit(plan, shape, 1, 1)[2]
    assert result.kind == "balanced"
    assert result.within
    assert result.claimed_rho == Certificate.of(plan, shape).rho
    halved = dataclasses.replace(result, claimed_rho=result.claimed_rho / 2)
    assert halved.ratio <= 1
    assert not halved.within


@pytest.mark.parametrize("order", [1.5, 2.0, 16.0])
def test_renyi_of_randomised_response(order: float) -> None:
    """The divergence of two outcomes follows from its definition, and is 0 between equal laws."""
    law = np.log(np.array([0.8, 0.2]))
    expected = math.log(0.8**order * 0.2 ** (1 - order) + 0.2**order * 0.8 ** (1 - order)) / (order - 1)
    assert likelihood.renyi(law, law[::-1], order) == pytest.approx(expected, rel=1e-12)
    assert likelihood.renyi(law, law, order) == pytest.approx(0, abs=1e-12)
    # If only one of two images can release an outcome, the divergence is infinite in either direction.
    assert likelihood.renyi(law, np.array([0.0, -math.inf]), order) == math.inf


def test_channels_that_share_chunks_cost_more_rho_and_stay_within_it() -> None:
    plan, shape = setting.plan_for(AuditSubject(PAPER), 4.0)
    together = dataclasses.replace(plan, separate=False)
    apart, shared = (exact.audit(audited, shape, 2, 1) for audited in (plan, together))
    assert all(result.within for result in shared)
    assert shared[3].reached
    assert shared[2].claimed_rho > 2 * apart[2].claimed_rho


def test_steps_that_touch_nothing_are_compared_too() -> None:
    plan = setting.plan_within(AuditSubject(Coding(Sign(period=7), Flat())), 4.0, 7, 1, 4)
    results = exact.audit(plan, Geometry(1, 1, 3), 3, 1)
    assert all(result.within for result in results)
    assert max(results[1].observed) > 1
    assert [result.draws for result in results] == [18, 18, 6, 6, 6]


# The draws.


def test_shares_of_indices_follow_from_the_exact_weights() -> None:
    """Each index has a share as large as its weight; bins come first, indices in them second."""
    scores = np.random.default_rng(1).integers(-3000, 3000, 40).astype(np.int32)
    weights, begin = integer_weights(scores[None], 10)[0], 0
    whole, _ = selection.exponents(scores, 10)
    searched, begins = SearchOutcomes(scores, 10), [0]
    for index in np.argsort(whole, kind="stable").tolist():
        share = (index, begin, begin + weights[index])
        assert searched.share(begin) == searched.share(begin + weights[index] - 1) == share
        begin += weights[index]
        begins.append(begin)
    assert begin == sum(weights) == searched.total
    # For any number, the edge is where a share other than the first begins.
    edges = {searched.edge(number * searched.total // 1000 + 7 * searched.total) for number in range(1000)}
    assert edges <= set(begins[1:-1])
    assert len(edges) > 5


def test_known_bytes_are_used_once_and_the_real_ones_restored() -> None:
    content = b"".join(map(SearchOutcomes.private_bytes, [(1 << 64) + 2, 3]))
    known, system = likelihood.KnownBytes(content), vars(randomness)["os"]
    with setting.replaced(randomness, "os", known):
        assert np.frombuffer(randomness.private_bytes(32), np.uint64).tolist() == [1, 2, 0, 3]
        assert known.used_up
        assert len(randomness.private_bytes(5)) == 5
        assert not known.used_up
    assert vars(randomness)["os"] is system
    assert not likelihood.KnownBytes(b"1").used_up


class WrongSumsBackend(CpuBackend):
    """A broken backend whose sums are too small by a unit of weight."""

    def bin_sums(self, scores: selection.Scores, fraction_bits: int) -> selection.Sums:
        sums = super().bin_sums(scores, fraction_bits)
        sums[:, 0] -= 1
        return sums


class WrongPlaceBackend(CpuBackend):
    """A broken backend that locates the neighbouring index."""

    def locate(
        self, scores: selection.Scores, fraction_bits: int, bins: NDArray[np.int64], offsets: selection.Sums
    ) -> NDArray[np.int64]:
        return super().locate(scores, fraction_bits, bins, offsets) ^ 1


@pytest.mark.parametrize("wrong", [None, WrongSumsBackend, WrongPlaceBackend])
def test_the_audit_notices_a_backend_that_sums_or_locates_wrongly(
    wrong: type[CpuBackend] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, shape = setting.single_step(UNCLIPPED, 2.0)
    chain = setting.chain_of(plan, shape, 0)
    pair = neighbours.extreme_pair(chain, np.random.default_rng(0))
    if wrong is not None:
        backend = wrong()
        monkeypatch.setattr(scoring, "backend", lambda _: backend)
        # Switch off the encoder's own check, which would end the encoding.
        monkeypatch.setattr(scoring.known, "ANSWERS", {})
        monkeypatch.setattr(scoring.rescoring, "SHARES", {"cpu": 0.0})
    comparison = likelihood.compare(chain, pair)
    assert comparison.draws == 2
    assert comparison.wrong == 2 * (wrong is not None)


@pytest.mark.parametrize("cells", [1, 2, 7, 300])
def test_chi_square_of_right_and_wrong_counts(cells: int) -> None:
    """Counts of the right law fail once in 10^7; counts of a uniform instead of a geometric law always fail."""
    generator = np.random.default_rng(cells)
    geometric = 0.97 ** np.arange(cells)
    probabilities = np.asarray(geometric / geometric.sum(), np.float64)
    right = generator.multinomial(20_000, probabilities).astype(np.float64)
    assert law.tail(right, probabilities) > law.FALSE_ALARM
    if cells > 2:
        assert (
            law.tail(generator.multinomial(20_000, np.full(cells, 1 / cells)).astype(np.float64), probabilities) < 1e-12
        )
    # Tails are as likely as they say: a twentieth of them is below 0.05, give or take five standard deviations.
    if cells == 7:
        tails = [law.tail(row * 1.0, probabilities) for row in generator.multinomial(20_000, probabilities, 4000)]
        assert abs(np.mean(np.array(tails) < 0.05) - 0.05) < 5.4 * math.sqrt(0.05 * 0.95 / 4000)


@SUBJECTS
@pytest.mark.parametrize("epsilon", [1 / 16, 1.0, 6.0])
def test_the_encoder_draws_by_its_law(subject: AuditSubject, epsilon: float) -> None:
    """The test fails for a correct encoder once in 10^7; at each claim, the mass is on many candidates."""
    result = suite.law_audit(subject, epsilon, 4000)
    assert result.passed, result
    assert (result.images, result.draws, result.wrong) == (law.SEEDS, 2 * law.SEEDS, 0)
    plan, shape = setting.single_step(subject, epsilon)
    chains = [setting.chain_of(plan, shape, number) for number in range(law.SEEDS)]
    images = [law.telling_image(chain, np.random.default_rng(number)) for number, chain in enumerate(chains)]
    laws = [likelihood.first_law(chain, image) for chain, image in zip(chains, images, strict=True)]
    # e to the entropy is the effective number of candidates: with some seeds, the Poisson order leaves fewer.
    assert max(math.exp(-np.sum(np.exp(logs) * logs)) for logs in laws) > 4


def hashed(high: NDArray[np.uint64], low: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return a fixed fraction of each total, as if it came from a hash: a public constant."""
    totals = [(h << 64) + w for h, w in zip(high.tolist(), low.tolist(), strict=True)]
    fraction = int.from_bytes(hashlib.sha256(b"public").digest()[:8], "little")
    drawn = [total * fraction >> 64 for total in totals]
    limbs = np.array([(integer >> 64, integer & ((1 << 64) - 1)) for integer in drawn], np.uint64).reshape(-1, 2)
    return limbs[:, 0], limbs[:, 1]


def first_always(task: scoring.ScoringTask, on: scoring.Backend) -> NDArray[np.int64]:
    """Return the first candidate of every chunk."""
    del on
    return np.zeros(task.chunks, np.int64)


BUGS = {
    **controls.ALWAYS.laws,
    **controls.SEARCHED.laws,
    "a public fraction": PlantedMistake(selection, "_uniform_below", hashed),
    "the first candidate": PlantedMistake(scoring, "select", first_always),
}


@pytest.mark.slow
@pytest.mark.usefixtures("_quick")
@pytest.mark.parametrize("name", BUGS)
@SUBJECTS
def test_an_audit_of_a_broken_encoder_fails(subject: AuditSubject, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The encoder itself has a planted bug. The next test shows that the same audit passes without it."""
    monkeypatch.setattr(controls, "controls_of", lambda _: Controls())
    monkeypatch.setattr(suite, "BLACK_BOX_RUNS", 20)  # another audit must catch the bug
    with setting.replaced(*BUGS[name]):
        result = suite.audit_coding(subject, 1.0)
    assert not result.passed
    assert not result.law.passed
    # The exact audit fails, too, because the draws with known bytes contradict its law.
    assert any(pairs.wrong for pairs in result.exact)


@pytest.mark.slow
@pytest.mark.usefixtures("_quick")
@SUBJECTS
def test_an_audit_of_the_real_encoder_passes(subject: AuditSubject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controls, "controls_of", lambda _: Controls())
    assert suite.audit_coding(subject, 1.0).passed


# The black-box audit.


@pytest.mark.parametrize(("successes", "runs"), [(0, 100), (3, 100), (50, 100), (99, 100), (100, 100), (7, 20_000)])
def test_bounds_of_clopper_and_pearson_have_their_error(successes: int, runs: int) -> None:
    """At each bound, a count at least as extreme as the given one has exactly the probability `error`."""
    low, high = blackbox.clopper_pearson(successes, runs, 1e-4)
    assert 0 <= low <= successes / runs <= high <= 1
    if successes:
        assert special.bdtrc(successes - 1, runs, low) == pytest.approx(1e-4, rel=1e-6)
    if successes < runs:
        assert special.bdtr(successes, runs, high) == pytest.approx(1e-4, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_bound_is_below_a_known_epsilon(epsilon: float) -> None:
    """Randomised response has exactly ε; the bound exceeds it once in a million."""
    generator, truth = np.random.default_rng(0), 1 / (1 + math.exp(-epsilon))

    def respond(_: Any, rows: neighbours.Pixels) -> blackbox.Releases:
        lie = generator.random(len(rows)) > truth
        return (rows[:, :1] ^ lie[:, None]).astype(np.int64)

    pair = np.zeros(1, np.uint8), np.ones(1, np.uint8)
    chain: Any = None
    result = blackbox.audit(respond, chain, pair, 40_000)
    assert 0.85 * epsilon < result.epsilon <= epsilon


@SUBJECTS
def test_counts_of_the_real_encoder_stay_below_the_claim(subject: AuditSubject) -> None:
    facts = suite.black_box_audit(subject, 2.0, 20_000)
    assert 0.4 < facts["ratio"] <= 1
    assert 0 < facts["due"] <= facts["observed"]
    # For a small claim, a few runs cannot show anything, so nothing is due.
    assert suite.black_box_audit(subject, 1 / 16, 100)["due"] == 0


def test_the_bound_between_equal_images_is_near_zero() -> None:
    plan, shape = setting.single_step(UNCLIPPED, 2.0)
    chain = setting.chain_of(plan, shape, 0)
    x, _ = neighbours.grey_pair(chain, np.random.default_rng(0))
    assert blackbox.audit(blackbox.encoder, chain, (x, x), 4000).epsilon < 0.2


# Negative controls: each must be caught, and the real encoder in its place must not be.


def all_controls(subject: AuditSubject) -> list[str]:
    """Return the names of all mistakes that can be made with a coding."""
    mistakes = controls.controls_of(subject)
    return [*mistakes.releases, *mistakes.comparisons, *mistakes.laws, *mistakes.claims]


@pytest.mark.slow
@SUBJECTS
def test_every_broken_encoder_is_caught(subject: AuditSubject) -> None:
    facts = suite.control_audit(subject)
    assert list(facts) == all_controls(subject)
    assert len(facts) == 10
    assert all(control["caught"] for control in facts.values()), facts


@pytest.mark.slow
@SUBJECTS
def test_the_real_encoder_is_not_caught(subject: AuditSubject, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real encoder in place of each broken one raises no alarm."""
    honest = Controls(
        {"the real one": blackbox.encoder},
        {"really": (Selector, likelihood.log_law)},
        {"truly": PlantedMistake(selection, "draw_bins", selection.draw_bins)},
        {"in truth": PlantedMistake(Sensitivity, "units", Sensitivity.units)},
    )
    monkeypatch.setattr(controls, "controls_of", lambda _: honest)
    monkeypatch.setattr(suite, "CONTROL_TRIES", 4)
    monkeypatch.setattr(suite, "SPARES", suite.SPARES[::5])
    facts = suite.control_audit(subject)
    assert list(facts) == ["the real one", "really", "truly", "in truth"]
    assert not any(control["caught"] for control in facts.values()), facts


@pytest.mark.slow
@pytest.mark.usefixtures("_quick")
def test_an_audit_that_misses_a_control_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    good = suite.audit_coding(UNCLIPPED, 1.0)
    assert good.passed
    missed = {**good.controls, "noise in float32": {"caught": False}}
    assert not dataclasses.replace(good, controls=missed).passed
    assert not dataclasses.replace(good, black_box=good.black_box | {"ratio": 1.01}).passed
    assert not dataclasses.replace(good, black_box=good.black_box | {"due": 1.01}).passed
    assert not dataclasses.replace(good, law=dataclasses.replace(good.law, p=1e-8)).passed
    assert not dataclasses.replace(good, law=dataclasses.replace(good.law, wrong=1)).passed
    unreached = [dataclasses.replace(pairs, claimed=2.0) for pairs in good.exact]
    assert all(pairs.within for pairs in unreached)
    assert not dataclasses.replace(good, exact=unreached).passed
    # A preset passes if all of its codings do, and a real plan with them.
    both = suite.Audit("two", 1.0, {"one": good, "other": good})
    assert both.passed
    failed = dataclasses.replace(good, controls=missed)
    assert not dataclasses.replace(both, codings={"one": good, "other": failed}).passed
    assert not dataclasses.replace(both, model=[dataclasses.replace(good.exact[0], wrong=1)]).passed
    assert not dataclasses.replace(both, model=[dataclasses.replace(good.exact[0], claimed=0.01)]).passed
    honest = Controls({"the real one": blackbox.encoder})
    monkeypatch.setattr(controls, "controls_of", lambda _: honest)
    monkeypatch.setattr(suite, "CONTROL_TRIES", 1)
    assert not suite.control_audit(UNCLIPPED)["the real one"]["caught"]


def test_float32_noise_draws_only_outcomes_with_a_finite_log_law() -> None:
    """The control `noise in float32` relies on a rule for impossible outcomes: draws in float32 confirm it."""
    generator = np.random.default_rng(0)
    scores = generator.integers(-30_000, 30_000, 64).astype(np.int32)
    possible = np.isfinite(broken.float32_law(SearchOutcomes(scores, 10)))
    assert 1 < possible.sum() < 64
    nats = (scores * (math.log(2) / 1024)).astype(np.float32)
    cells = generator.integers(0, 1 << broken.FLOAT_BITS, (20_000, 64))
    # Draw uniform numbers of 24 bits and their Gumbel values; include both ends of the range.
    cells[:2000] = generator.choice([0, (1 << broken.FLOAT_BITS) - 1], (2000, 64))
    uniforms = (cells + 0.5) / (1 << broken.FLOAT_BITS)
    gumbel = (-np.log(-np.log(uniforms))).astype(np.float32)
    won = np.unique(np.argmax(nats + gumbel, axis=1))
    assert possible[won].all()


def test_replaced_functions_are_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Known bytes and planted mistakes end with the block that planted them, even if the block raises."""
    every = [controls.ALWAYS, controls.SEARCHED, controls.PAIRED, controls.STEPPED, controls.CLIPPED]
    plants = [plant for group in every for plant in (*group.laws.values(), *group.claims.values())]
    assert len(plants) == 9
    names = [(randomness, "os"), *((plant.owner, plant.name) for plant in plants)]
    before = [vars(module)[name] for module, name in names]
    mistakes = dataclasses.replace(controls.controls_of(UNCLIPPED), releases={})
    monkeypatch.setattr(controls, "controls_of", lambda _: mistakes)
    suite.control_audit(UNCLIPPED)
    for plant in plants:
        with pytest.raises(ZeroDivisionError), setting.replaced(*plant):
            1 / 0  # noqa: B018
    assert [vars(module)[name] for module, name in names] == before


# The command.


def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: object
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["dipp", "audit", *map(str, arguments)])
    with pytest.raises(SystemExit) as error:
        main()
    said = capsys.readouterr()
    return int(error.value.code or 0), said.out, said.err


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "BLACK_BOX_RUNS", 2000)
    monkeypatch.setattr(suite, "LAW_RUNS", 2000)
    monkeypatch.setattr(suite, "PAIRS", 3)
    monkeypatch.setattr(suite, "ADVERSARIES", 1)
    monkeypatch.setattr(suite, "SPARES", suite.SPARES[::4])
    monkeypatch.setattr(observations, "LADDER", (1, 2))
    monkeypatch.setattr(presets, "SENSED", presets.SENSED[:1])  # all of them: `test_sensing_audit`


audited = functools.cache(suite.audit_coding)


@pytest.fixture
def _once(_quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Audit each coding once for all tests of the output of the command."""
    monkeypatch.setattr(suite, "audit_coding", audited)


@pytest.mark.slow
@pytest.mark.usefixtures("_once")
def test_json_has_the_shape_that_scripts_rely_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = run(capsys, monkeypatch, "--json", "--epsilon", 1)
    assert code == 0, err
    facts = json.loads(out)
    kinds = ("random", "extreme", "balanced", "adversarial")
    assert all(0 < facts["exact"][kind]["ratio"] <= 1 for kind in kinds)
    assert all(0 < facts["exact"][kind]["rho"]["ratio"] <= 1 for kind in kinds)
    assert facts["law"]["passed"] is True
    assert facts["law"]["p"] > 1e-7
    assert facts["exact"]["adversarial"]["ratio"] >= 0.99
    assert facts["black_box"]["ratio"] <= 1
    assert all(control["caught"] is True for control in facts["controls"].values())
    code, out, _ = run(capsys, monkeypatch, "--json", "--epsilon", 1, "--preset", "swift", "--preset", "sharp")
    assert code == 0
    both = json.loads(out)
    assert list(both) == ["swift", "sharp"]
    assert both["swift"].keys() == facts.keys()


@pytest.mark.slow
@pytest.mark.usefixtures("_once")
def test_the_command_prints_each_control_and_draws_the_plot(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    code, out, err = run(capsys, monkeypatch, "--epsilon", 1, "--plot", tmp_path / "a.png")
    assert code == 0, err
    assert out.strip().endswith("passed: nothing tells more than is claimed")
    subjects = [AuditSubject(coding, SensingStep.kind) for coding in PRESETS["sharp"].codings]
    assert out.count("caught") == sum(len(all_controls(subject)) for subject in subjects)
    assert all(subject.coding.name in out for subject in subjects)
    assert "pixel" in out
    with Image.open(tmp_path / "a.png") as image:
        assert image.size[0] > 400


def test_a_plot_shows_losses_near_zero_at_its_lower_edge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = [observations.Observation("sharp", "random", 1.0, loss) for loss in (0.0, 1e-9, 0.5)]
    drawn: list[float] = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *_, **__: drawn.extend(heights(self)))
    plot.draw([*points, observations.Observation("sharp", "black box", 1.0, 0.3)], tmp_path / "a.png")
    low, high = 1 / 1.5, 1.5  # the ends of the line of claims
    edge = low / plot.EDGE
    assert sorted(drawn) == pytest.approx([edge, edge, 0.3, 0.5, low, high])


def test_a_plot_names_the_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named: list[str] = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *_, **__: named.extend(labels(self)))
    plot.draw([observations.Observation("sharp", "random", 1.0, 0.5)], tmp_path / "a.png", Cells(16))
    assert named == ["claimed ε per 16×16 cell", "observed ε per 16×16 cell"]


def test_a_plot_that_is_interrupted_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(_: Figure, path: Path, **__: Any) -> None:
        Path(path).write_bytes(b"half")
        raise KeyboardInterrupt

    (tmp_path / "a.png").write_bytes(b"before")
    monkeypatch.setattr(Figure, "savefig", stopped)
    with pytest.raises(KeyboardInterrupt):
        plot.draw([observations.Observation("sharp", "random", 1.0, 0.5)], tmp_path / "a.png")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"before"]


def labels(figure: Figure) -> list[str]:
    """Return the axis labels of the first panel."""
    return [figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()]


def heights(figure: Figure) -> list[float]:
    """Return the heights of all markers, and of both ends of the line of claims."""
    lines = [line for axes in figure.axes for line in axes.get_lines()]
    return [float(height) for line in lines for height in np.asarray(line.get_ydata())]


@pytest.mark.slow
@pytest.mark.usefixtures("_once")
def test_a_failed_audit_exits_with_1(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "NEARLY", 1.5)
    code, out, _ = run(capsys, monkeypatch, "--epsilon", 1)
    assert code == 1
    assert "FAILED" in out


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--epsilon", "0"), "epsilon"),
        (("--epsilon", "1e9"), "epsilon"),
        (("--epsilon", "nan"), "epsilon"),
        (("--preset", "x"), "preset"),
        (("--preset", "diffc"), "preset"),
        (("--plot", "/nowhere/a.png"), "output"),
    ],
)
def test_the_command_refuses_bad_arguments(
    arguments: tuple[str, ...], word: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = run(capsys, monkeypatch, *arguments)
    assert code == 1
    assert not out
    assert err.startswith(printed(word))


def test_only_certified_presets_can_be_audited() -> None:
    for name, preset in PRESETS.items():
        if not preset.certified:
            with pytest.raises(NoCertificateError):
                suite.audit(name, 1.0)
    with refused("epsilon"):
        observations.ladder("sharp", 100.0)
