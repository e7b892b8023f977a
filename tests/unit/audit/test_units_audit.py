"""The audit of questions: cells and whole pictures, by words and by signs."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from helpers.commands import Command
from helpers.refusals import refused

from dipp.audit import controls, exact, law, neighbours, setting, suite
from dipp.audit.setting import AuditSubject
from dipp.core.units import Cells, Picture
from dipp.privacy.certificate import Certificate

pytestmark = pytest.mark.usefixtures("one_thread")
SUBJECTS = {
    f"{unit.short}, {name}": subject
    for unit in (Cells(8), Cells(16), Picture())
    for name, subject in suite.auditable("sharp", 4.0, unit).items()
}
EVERY = pytest.mark.parametrize("name", SUBJECTS)


@EVERY
@pytest.mark.parametrize("epsilon", [1.0, 16.0])
def test_no_pair_exceeds_the_claim_and_adversaries_reach_it(name: str, epsilon: float) -> None:
    plan, geometry = setting.plan_for(SUBJECTS[name], epsilon)
    claimed = Certificate.of(plan, geometry)
    assert 0.98 * epsilon < claimed.epsilon <= epsilon
    results = {result.kind: result for result in exact.audit(plan, geometry, 2, 2)}
    assert all(result.within and not result.wrong for result in results.values())
    assert 0.99 < min(results["adversarial"].attained) / claimed.epsilon <= results["adversarial"].ratio <= 1
    assert all(result.claimed == claimed.epsilon for result in results.values())  # a small change costs as much
    assert 0 < results["adversarial"].rho_ratio <= 1
    lower = dataclasses.replace(results["adversarial"], claimed=0.98 * claimed.epsilon)
    assert not lower.within


@EVERY
def test_pairs_differ_in_one_unit(name: str) -> None:
    plan, geometry = setting.plan_for(SUBJECTS[name], 2.0)
    chain, generator = setting.chain_of(plan, geometry, 3), np.random.default_rng(3)
    makers: tuple[Any, ...] = (neighbours.random_pair, neighbours.extreme_pair, neighbours.adversarial_pair)
    ids = plan.unit.ids(geometry)
    for make in (*makers, neighbours.grey_pair, neighbours.balanced_pair):
        for _ in range(3):
            x, y = make(chain, generator)
            assert len(set(ids[x != y].tolist())) == 1


@EVERY
def test_the_law_and_the_black_box_audit_pass(name: str) -> None:
    subject = SUBJECTS[name]
    assert suite.law_audit(subject, 4.0, 2000).passed
    facts = suite.black_box_audit(subject, 2.0, 4000)
    assert facts["observed"] <= facts["claimed"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SUBJECTS if not name.startswith("16")])
def test_every_mistake_is_caught(name: str) -> None:
    controls = suite.control_audit(SUBJECTS[name])
    assert all(facts["caught"] for facts in controls.values()), controls


def test_cells_have_mistakes_of_their_own() -> None:
    names = [set(_names(controls.controls_of(SUBJECTS[name]))) for name in SUBJECTS]
    local = {
        "one private integer for two cells",
        "a score that reads the next cell",
        "contents normalised over the picture",
        "ties broken by another cell",
    }
    anywhere = {
        "m that depends on the picture",
        "ε of a draw chosen by the picture",
        "candidates chosen by the picture",
        "several draws charged as one",
        "private randomness from the shared seed",
    }
    assert all(anywhere <= each for each in names)
    assert all(local <= each for each in names[:4])
    assert all(not local & each for each in names[4:])


def _names(mistakes: controls.Controls) -> list[str]:
    return [name for group in dataclasses.fields(mistakes) for name in getattr(mistakes, group.name)]


def test_units_that_cannot_be_audited_are_refused() -> None:
    with refused("unit", "64"):
        suite.audit("sharp", 4.0, unit=Cells(12))
    with refused("unit", "preset"):
        suite.audit("paper", 4.0, unit=Picture())


def test_the_command_audits_a_unit(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[AuditSubject] = []

    def audit_coding(subject: AuditSubject, epsilon: float) -> suite.CodingAudit:
        asked.append(subject)
        facts = {"ratio": 0.5, "observed": 2.0, "claimed": epsilon, "due": 1.0, "runs": 1}
        plan, geometry = setting.plan_for(subject, epsilon)
        return suite.CodingAudit(exact.audit(plan, geometry, 1, 1), law.Law(0.5, 1, 1, 1, 0), facts, {})

    monkeypatch.setattr(suite, "audit_coding", audit_coding)
    code, out, _ = run("audit", "--unit", 16, "--epsilon", 4, "--json")
    assert code == 0
    assert {(subject.unit, subject.candidate) for subject in asked} == {(Cells(16), 0), (Cells(16), 1)}
    assert '"unit": {"kind": "cell", "side": 16}' in out
    code, out, _ = run("audit", "--unit", "picture")
    assert code == 0
    assert "per the whole picture" in out
    assert run("audit", "--unit", 12)[0] == 1
