"""The audit: right about the encoder, right about broken ones, and made of parts that can fail on their own."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import special  # type: ignore[import-untyped,unused-ignore]
from statistics_helpers import integer_weights

from dipp import presets, randomness
from dipp.chain import Selector
from dipp.cli import main
from dipp.errors import DippError, NoCertificateError
from dipp.plan import PAPER, SHARP, Mechanism
from dipp.privacy import audit
from dipp.privacy.audit import blackbox, controls, exact, setting
from dipp.privacy.certificate import Certificate

MECHANISMS = pytest.mark.parametrize("mechanism", [SHARP, PAPER], ids=lambda m: m.name)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# The exact audit.


def test_the_law_is_that_of_the_exact_weights() -> None:
    scores = np.random.default_rng(0).integers(-90_000, 90_000, 300).astype(np.int32)
    weights = integer_weights(scores[None], 10)[0]
    expected = [math.log(weight) - math.log(sum(weights)) for weight in weights.tolist()]
    np.testing.assert_allclose(exact.log_law(scores, 10), expected, rtol=0, atol=1e-13)
    assert math.fsum(np.exp(exact.log_law(scores, 10))) == pytest.approx(1, abs=1e-12)


@MECHANISMS
@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_no_pair_exceeds_the_claim_and_adversaries_reach_it(mechanism: Mechanism, epsilon: float) -> None:
    plan, shape = setting.plan_for(mechanism, epsilon)
    found = {one.kind: one for one in audit.exact_audit(plan, shape, 6, 2)}
    claimed = Certificate.of(plan, 3, shape[0] * shape[1]).epsilon
    assert 0.98 * epsilon < claimed <= epsilon
    assert all(one.within and one.claimed == claimed for one in found.values())
    assert 0.1 < found["random"].ratio < found["extreme"].ratio <= 1
    assert 0.99 < min(found["adversarial"].attained) / claimed <= found["adversarial"].ratio <= 1
    # No outcome loses more than the bound.
    for one in found.values():
        assert all(abs(a) <= b for a, b in zip(one.attained, one.observed, strict=True))


@MECHANISMS
def test_pairs_differ_in_one_pixel(mechanism: Mechanism) -> None:
    plan, shape = setting.plan_for(mechanism, 2.0)
    chain, generator = setting.chain_of(plan, shape, 3), np.random.default_rng(3)
    for make in (exact.random_pair, exact.extreme_pair, exact.grey_pair, exact.adversarial_pair):
        for _ in range(3):
            x, y = make(chain, generator)
            assert x.shape == y.shape == (math.prod(shape),)
            assert len(set(np.flatnonzero(x != y) // 3)) <= 1


def test_a_claim_that_is_too_low_is_found_out() -> None:
    """The encoder at ε = 4, compared with a claim of 3.9: the audit must fail, and by as much."""
    plan, shape = setting.plan_for(SHARP, 4.0)
    found = audit.exact_audit(plan, shape, 1, 1)[-1]
    lower = dataclasses.replace(found, claimed=3.9)
    assert found.within
    assert found.reached
    assert not lower.within
    assert lower.ratio == pytest.approx(4 / 3.9, rel=0.01)
    # And an audit that finds too little is not trusted either.
    assert not dataclasses.replace(found, claimed=4.1).reached


# The black-box audit.


@pytest.mark.parametrize(("successes", "runs"), [(0, 100), (3, 100), (50, 100), (99, 100), (100, 100), (7, 20_000)])
def test_clopper_pearson(successes: int, runs: int) -> None:
    """By definition: at the bounds, a count as far out as this one has the probability of the error."""
    low, high = blackbox.clopper_pearson(successes, runs, 1e-4)
    assert 0 <= low <= successes / runs <= high <= 1
    if successes:
        assert special.bdtrc(successes - 1, runs, low) == pytest.approx(1e-4, rel=1e-6)
    if successes < runs:
        assert special.bdtr(successes, runs, high) == pytest.approx(1e-4, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_bound_is_below_a_known_epsilon(epsilon: float) -> None:
    """Randomised response has exactly ε; false alarms are one in a million."""
    generator, truth = np.random.default_rng(0), 1 / (1 + math.exp(-epsilon))

    def respond(_: Any, rows: exact.Pixels) -> blackbox.Releases:
        lie = generator.random(len(rows)) > truth
        return (rows[:, :1] ^ lie[:, None]).astype(np.int64)

    pair = np.zeros(1, np.uint8), np.ones(1, np.uint8)
    chain: Any = None
    found = blackbox.audit(respond, chain, pair, 40_000)
    assert 0.85 * epsilon < found.epsilon <= epsilon


@MECHANISMS
def test_counts_of_the_real_encoder(mechanism: Mechanism) -> None:
    found = audit.black_box_audit(mechanism, 2.0, 20_000)
    assert 0.4 < found["ratio"] <= 1


def test_equal_images_tell_nothing() -> None:
    plan, shape = setting.single_step(SHARP, 2.0)
    chain = setting.chain_of(plan, shape, 0)
    x, _ = exact.grey_pair(chain, np.random.default_rng(0))
    assert blackbox.audit(blackbox.encoder, chain, (x, x), 4000).epsilon < 0.2


# Negative controls: each must be caught, and the real encoder in its place must not be.


@MECHANISMS
def test_every_broken_encoder_is_caught(mechanism: Mechanism) -> None:
    found = audit.control_audit(mechanism)
    assert set(found) == {*controls.RELEASES, *controls.COMPARISONS}
    assert all(one["caught"] for one in found.values()), found


@MECHANISMS
def test_the_real_encoder_is_not_caught(mechanism: Mechanism, monkeypatch: pytest.MonkeyPatch) -> None:
    """All controls replaced by the real thing: no alarm, whatever is tried."""
    monkeypatch.setattr(controls, "RELEASES", {"the real one": blackbox.encoder})
    monkeypatch.setattr(controls, "COMPARISONS", {"really": (Selector, exact.log_law)})
    found = audit.control_audit(mechanism)
    assert set(found) == {"the real one", "really"}
    assert not any(one["caught"] for one in found.values()), found


@pytest.mark.usefixtures("_quick")
def test_an_audit_that_misses_a_control_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    good = audit.audit("sharp", 1.0)
    assert good.passed
    missed = {**good.controls, "noise in float32": {"caught": False}}
    assert not dataclasses.replace(good, controls=missed).passed
    assert not dataclasses.replace(good, black_box={"ratio": 1.01}).passed
    exceeded = dataclasses.replace(good.exact[0], claimed=0.01)
    assert not dataclasses.replace(good, model=[exceeded]).passed
    assert not dataclasses.replace(good, exact=[*good.exact[:2], dataclasses.replace(good.exact[2], claimed=2)]).passed
    monkeypatch.setitem(controls.RELEASES, "the real one", blackbox.encoder)
    monkeypatch.setattr(audit, "CONTROL_TRIES", 1)
    assert not audit.control_audit(SHARP)["the real one"]["caught"]


def test_float32_noise_never_reaches_what_is_called_unreachable() -> None:
    """The rule that the control stands for, run: only outcomes with a finite ln P ever win."""
    generator = np.random.default_rng(0)
    scores = generator.integers(-30_000, 30_000, 64).astype(np.int32)
    possible = np.isfinite(controls.float32_law(scores, 10))
    assert 1 < possible.sum() < 64
    nats = (scores * (math.log(2) / 1024)).astype(np.float32)
    cells = generator.integers(0, 1 << controls.FLOAT_BITS, (20_000, 64))
    # A uniform float32 of 24 bits, and its Gumbel value; the ends of the range are tried on purpose.
    cells[:2000] = generator.choice([0, (1 << controls.FLOAT_BITS) - 1], (2000, 64))
    uniforms = (cells + 0.5) / (1 << controls.FLOAT_BITS)
    gumbel = (-np.log(-np.log(uniforms))).astype(np.float32)
    won = np.unique(np.argmax(nats + gumbel, axis=1))
    assert possible[won].all()


def test_private_randomness_is_never_replaced() -> None:
    """The controls break what is done with scores; the private source itself stays what it is."""
    before = randomness.private_bytes
    audit.control_audit(SHARP)
    assert randomness.private_bytes is before


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
    monkeypatch.setattr(audit, "BLACK_BOX_RUNS", 4000)
    monkeypatch.setattr(audit, "PAIRS", 3)
    monkeypatch.setattr(audit, "ADVERSARIES", 1)
    monkeypatch.setattr(audit, "LADDER", (1, 2))


@pytest.mark.usefixtures("_quick")
def test_json_has_the_shape_that_scripts_rely_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = run(capsys, monkeypatch, "--json", "--epsilon", 1)
    assert code == 0, err
    found = json.loads(out)
    assert all(0 < found["exact"][kind]["ratio"] <= 1 for kind in ("random", "extreme", "adversarial"))
    assert found["exact"]["adversarial"]["ratio"] >= 0.99
    assert found["black_box"]["ratio"] <= 1
    assert all(control["caught"] is True for control in found["controls"].values())
    code, out, _ = run(capsys, monkeypatch, "--json", "--epsilon", 1, "--preset", "paper", "--preset", "sharp")
    assert code == 0
    both = json.loads(out)
    assert list(both) == ["paper", "sharp"]
    assert both["paper"].keys() == found.keys()


@pytest.mark.usefixtures("_quick")
def test_text_and_plot(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code, out, err = run(capsys, monkeypatch, "--epsilon", 1, "--plot", tmp_path / "a.png")
    assert code == 0, err
    assert out.strip().endswith("passed: nothing tells more than is claimed")
    assert out.count("caught") == len(controls.RELEASES) + len(controls.COMPARISONS)
    assert "pixel" in out
    with Image.open(tmp_path / "a.png") as image:
        assert image.size[0] > 400


@pytest.mark.usefixtures("_quick")
def test_a_failed_audit_exits_with_1(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "NEARLY", 1.5)
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
        (("--preset", "diffc"), "preset: diffc has no certificate"),
        (("--plot", "/nowhere/a.png"), "output"),
    ],
)
def test_bad_arguments(
    arguments: tuple[str, ...], word: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = run(capsys, monkeypatch, *arguments)
    assert code == 1
    assert not out
    assert err.startswith(f"dipp: {word}")


def test_without_torch_there_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(DippError, match=r"install dp-dipp\[torch\]"):
        audit.audit("sharp", 1.0)


def test_only_certified_presets_can_be_audited() -> None:
    for name, preset in presets.PRESETS.items():
        if not preset.mechanism.certified:
            with pytest.raises(NoCertificateError):
                audit.audit(name, 1.0)
    with pytest.raises(DippError, match="epsilon"):
        audit.ladder("sharp", 100.0)
