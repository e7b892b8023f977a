"""The audit of a mechanism by anybody: it refutes broken mechanisms of any kind of release, and passes correct ones."""

from __future__ import annotations

import functools
import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.commands import Command
from helpers.paths import ROOT
from helpers.refusals import refused

from dipp.audit import mechanism
from dipp.audit.blackbox import ratio_bound

RUNS = 400


def audited(function: Callable[[Any], Any], epsilon: float = 1.0, runs: int = RUNS) -> mechanism.MechanismAudit:
    return mechanism.audit("toy", function, epsilon, runs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "passes", "moved", "runs"),
    [
        ("noise", True, None, ()),
        ("blurred", False, 12, ("--runs", 1000)),
        ("every_epoch", False, None, ("--runs", 1000)),
    ],
)
def test_the_examples_pass_and_fail_as_documented(
    name: str, passes: bool, moved: int | None, runs: tuple[object, ...], run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One example keeps its claim (refuted once in a million audits); two reveal far more than they claim.

    Fresh noise in 30 epochs takes the longest, and 1,000 runs show ε > 1.1 by each of the six pairs.
    """
    monkeypatch.chdir(ROOT)
    code, out, err = run("audit", "--mechanism", f"examples.mechanisms:{name}", "--json", *runs)
    assert code == (0 if passes else 1), err
    facts = json.loads(out)
    assert facts["passed"] is passes
    assert facts["claimed"] == 1
    assert (facts["observed"] > 1) is not passes
    if moved is not None:
        worst = max(facts["pairs"], key=lambda pair: pair["epsilon"])
        assert worst["moved"] == pytest.approx(moved, abs=2), "a pixel in the corner moves four means of three channels"


def test_the_command_names_the_pair_that_refutes_the_claim(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / "tests")
    code, out, _ = run("audit", "--mechanism", "helpers.toy_mechanisms:leaky", "--runs", RUNS, "--epsilon", 1.5)
    assert code == 1
    assert "FAILED: it reveals at least ε = 2." in out
    assert "and claims 1.5; the pixel moves 1 of the numbers" in out
    code, out, _ = run("audit", "--mechanism", "helpers.toy_mechanisms:silent", "--runs", RUNS, "--epsilon", 1)
    assert code == 0
    assert "passed: nothing was found beyond the claim, which does not prove it" in out


@pytest.mark.parametrize(
    "release",
    [
        lambda picture: picture,
        lambda picture: picture.tobytes(),
        lambda picture: bytes(int(picture.sum()) % 97),  # the length alone tells
        lambda picture: {"picture": picture.astype(np.float32), "seed": b"\0\1"},
        lambda picture: [float(picture.mean()), "text", np.random.default_rng().normal(size=3)],
        lambda picture: np.where(picture == 255, np.nan, 0.5),
        lambda picture: str(picture.tolist()),
        lambda picture: 1j * picture.mean(),
        lambda picture: (1 << 60) + int((picture == 255).all(axis=2).sum()),  # a float would round it away
        lambda picture: {1: 0, "mean": picture.mean()},
    ],
    ids=["array", "bytes", "length", "dictionary", "mixed", "nan", "text", "complex", "large", "keys"],
)
def test_the_audit_reads_every_kind_of_release(release: Callable[[Any], Any]) -> None:
    result = audited(release)
    assert not result.passed
    assert result.worst.epsilon == ratio_bound(RUNS // 2, 0, RUNS // 2, 1e-6 / 12), "told apart in every run"


def test_values_that_drift_by_themselves_are_not_taken_for_leaks() -> None:
    """Many formats contain a counter of releases or a clock, which reveals nothing about the picture."""
    count = itertools.count()
    assert audited(lambda _: [next(count), time.perf_counter()], epsilon=0.1).passed


def test_the_bound_for_randomised_response_is_between_half_and_all_of_epsilon() -> None:
    """Randomised response keeps a bit of a pixel with probability e^ε/(1 + e^ε)."""
    generator, keep = np.random.default_rng(), 1 / (1 + np.exp(-1.0))
    result = audited(lambda picture: (picture[0, 0, 0] > 127) ^ (generator.random() > keep), epsilon=1.0, runs=4000)
    assert result.passed
    assert result.worst.epsilon > 0.5
    assert {pair.pair for pair in result.pairs if pair.epsilon > 0.4} >= {"grey, the first pixel"}
    assert not audited(
        lambda picture: (picture[0, 0, 0] > 127) ^ (generator.random() > keep), epsilon=0.4, runs=4000
    ).passed


def test_an_attribute_of_the_mechanism_overrides_the_given_claim() -> None:
    def silent(_: Any) -> int:
        return 0

    assert audited(silent, 2.0).claimed == 2.0
    silent.epsilon = 0.5  # type: ignore[attr-defined]
    assert audited(silent, 2.0).claimed == 0.5
    assert audited(silent).worst.epsilon == 0


def test_a_mechanism_can_name_the_shape_of_its_pictures() -> None:
    seen = set()

    def watching(picture: Any) -> int:
        seen.add(picture.shape)
        return 0

    watching.shape = (3, 5, 1)  # type: ignore[attr-defined]
    audited(watching, runs=200)
    assert seen == {(3, 5, 1)}


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("nothing", "MODULE:FUNCTION"),
        ("no_such_module:f", "no_such_module"),
        ("json:no_such", "no_such"),
        ("json:__name__", "function"),
        ("..json:dumps", "TypeError"),
        ("broken_module:f", "broken_module"),
    ],
)
def test_names_that_cannot_be_loaded_are_refused(
    name: str, word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_module.py").write_text("1 / 0")
    monkeypatch.chdir(tmp_path)
    with refused("mechanism", word):
        mechanism.load(name)


def fails(_: Any) -> None:
    raise ValueError("one line\nand another")


def test_impossible_claims_and_mechanisms_that_fail_are_refused(run: Command) -> None:
    for options, word in (({"epsilon": 0.0}, "epsilon"), ({"runs": 10}, "runs"), ({"epsilon": 9.0}, "epsilon")):
        with refused(word):
            audited(lambda _: 0, **options)
    with refused("mechanism", "released"):
        audited(lambda _: object())
    with refused("mechanism", "ValueError"):
        audited(fails)
    for name, value in (("epsilon", "much"), ("epsilon", None), ("shape", (4, 4)), ("shape", 5), ("shape", (0, 4, 3))):
        claims = functools.partial(fails)
        setattr(claims, name, value)
        with refused(name):
            audited(claims)
    code, _, err = run("audit", "--mechanism", "json:dumps", "--preset", "sharp")
    assert code == 1
    assert "audited alone" in err
