"""The whole audit of a preset: how much its encoder really reveals about a unit, compared with what is claimed.

Every coding of the preset is audited in four parts, all on the real encoder: the exact audit (`exact`), the audit of
the law by which indices are drawn (`law`), the black-box audit (`blackbox`), and negative controls that these must
catch (`controls`). No model is needed (`setting`). Public seeds are fixed; only the private randomness differs from one
audit to the next.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dipp.audit import blackbox, controls, exact, law
from dipp.audit.blackbox import Encoder
from dipp.audit.controls import Plant
from dipp.audit.exact import Exact
from dipp.audit.likelihood import LogLaw, compare
from dipp.audit.neighbours import adversarial_pair, grey_pair
from dipp.audit.setting import CELL, Subject, chain_of, plan_for, replaced, single_step
from dipp.codec.encoder import Selector
from dipp.core.plan import Plan
from dipp.core.steps import SIGNS, WORDS, Question
from dipp.core.unit import Unit
from dipp.core.units import Pixel
from dipp.errors import DippError, NoCertificateError
from dipp.planning import presets, questions
from dipp.privacy.certificate import Certificate

if TYPE_CHECKING:
    from dipp.models.denoiser import Denoiser

LEAST, LARGEST = 1 / 16, 24.0
"""Range of ε that can be audited. Selections clip scores at 44 nats: one that costs much more than 8 cannot reach its
claim."""
BLACK_BOX_RUNS, BLACK_BOX_CLAIM = 100_000, 6.0
"""Encodings of each image in the black-box audit, and the largest ε that this number can show."""
FAIR, BAD_LUCK = 0.5, 6.0
"""The black-box audit must find the share `FAIR` of what the exact laws promise for its runs when the counts are
`BAD_LUCK` standard deviations off. Where that is not above 0, because the claim is small, nothing need be found."""
LAW_RUNS = 20_000
"""Encodings of each image in the law audit."""
CONTROL_CLAIM, CONTROL_RUNS, CONTROL_TRIES = 2.0, 4000, 12
"""Claim, encodings and public seeds with which a broken encoder must be caught."""
CONTROL_SIDE = 12
"""Side of the images of controls: large enough for more than a bit of divergence, on which some mistakes depend."""
PAIRS, ADVERSARIES = 12, 6
"""Pairs of images in the exact audit: random and extreme ones, and those that an adversary makes, of each kind."""
SPARES = (*np.arange(-3.0, 6.0, 0.5).tolist(), *range(6, 30, 2))
"""Nats by which adversarial pairs favour a candidate. What reveals most depends on the encoder, so all are tried."""
PIXEL = Pixel()
MOST_CELL = 64
"""Largest side of cells that are audited: ε does not depend on it."""
LADDER = (1 / 8, 1 / 4, 1 / 2, 1, 2, 4)
"""Claims in a plot, relative to ε."""

Facts = dict[str, Any]


def black_box_audit(subject: Subject, epsilon: float, runs: int) -> Facts:
    """Count encodings, in one step, of the adversarial pair for which the exact laws promise the largest bound."""
    plan, geometry = single_step(subject, min(epsilon, BLACK_BOX_CLAIM))
    claimed, chain = Certificate.of(plan, geometry).epsilon, chain_of(plan, geometry, 0)
    spares = SPARES[:1] if subject.alone else SPARES  # other pixels may have no part
    tried = [adversarial_pair(chain, np.random.default_rng(1), spare) for spare in spares]
    pair = max(tried, key=lambda one: blackbox.promise(chain, one, runs))
    due = FAIR * max(0.0, blackbox.promise(chain, pair, runs, BAD_LUCK))
    observed = blackbox.audit(blackbox.encoder, chain, pair, runs).epsilon
    return {"ratio": observed / claimed, "observed": observed, "claimed": claimed, "due": due, "runs": runs}


def law_audit(subject: Subject, epsilon: float, runs: int) -> law.Law:
    """Audit the law of the indices, at a claim that one selection can carry."""
    return law.audit(subject, min(epsilon, BLACK_BOX_CLAIM), runs)


def control_audit(subject: Subject) -> dict[str, Facts]:
    """For each mistake, whether an audit catches it at a claim that a few thousand runs can refute."""
    own = controls.controls_of(subject)
    return {
        **{name: _count(subject, encode) for name, encode in own.releases.items()},
        **{name: _compare(subject, *control) for name, control in own.comparisons.items()},
        **{name: _draw(subject, plant) for name, plant in own.laws.items()},
        **{name: _refute(subject, plant) for name, plant in own.claims.items()},
    }


def _count(subject: Subject, encode: Encoder) -> Facts:
    """Whether the black-box audit catches a broken encoder."""
    plan, geometry = single_step(subject, CONTROL_CLAIM, CONTROL_SIDE)
    claimed, observed = Certificate.of(plan, geometry).epsilon, 0.0
    for number in range(CONTROL_TRIES):
        chain = chain_of(plan, geometry, number)
        if number % 2:
            pair = adversarial_pair(chain, np.random.default_rng(number), -3.0)
        else:
            pair = controls.crossing_pair(encode, chain, number)
        observed = blackbox.audit(encode, chain, pair, CONTROL_RUNS).epsilon
        if observed > claimed:
            break
    return {"caught": observed > claimed, "by": "black box", "observed": observed, "claimed": claimed}


def _compare(subject: Subject, selector: type[Selector], rule: LogLaw) -> Facts:
    """Whether the exact audit catches a broken encoder."""
    plan, geometry = plan_for(subject, CONTROL_CLAIM)
    claimed, chain = Certificate.of(plan, geometry).epsilon, chain_of(plan, geometry, 0)
    adversarial = (adversarial_pair(chain, np.random.default_rng(0), spare) for spare in SPARES)
    for pair in itertools.chain([grey_pair(chain, np.random.default_rng(0))], adversarial):
        observed = compare(chain, pair, law=rule, selector=selector).bound
        if observed > claimed:
            break
    loss = observed if math.isfinite(observed) else "infinity"
    return {"caught": observed > claimed, "by": "exact", "observed": loss, "claimed": claimed}


def _draw(subject: Subject, plant: Plant) -> Facts:
    """Whether the law audit catches a mistake in the real encoder."""
    with replaced(*plant):
        met = law_audit(subject, CONTROL_CLAIM, CONTROL_RUNS)
    seen = f"p = {met.p:.0e}, {met.wrong} of {met.draws} wrong"
    return {"caught": not met.passed, "by": "law", "observed": seen, "claimed": CONTROL_CLAIM}


def _refute(subject: Subject, plant: Plant) -> Facts:
    """Whether the exact audit refutes a mistake in the accounting."""
    plan, geometry = plan_for(subject, CONTROL_CLAIM)
    with replaced(*plant):
        met = max(exact.audit(plan, geometry, 1, 1), key=lambda one: max(one.ratio, one.rho_ratio))
    observed, claimed, unit = max(met.observed), met.claimed, "ε"
    if met.rho_ratio > met.ratio:
        observed, claimed, unit = max(met.rho), met.claimed_rho, "ρ"
    return {"caught": not met.within, "by": f"exact, {unit}", "observed": observed, "claimed": claimed}


@dataclass(frozen=True)
class CodingAudit:
    """Everything that was found out about one coding."""

    exact: Sequence[Exact]
    law: law.Law
    black_box: Facts
    controls: dict[str, Facts]

    @property
    def passed(self) -> bool:
        """Whether the encoder keeps its claims, and the audit would have noticed if it did not."""
        caught = all(control["caught"] for control in self.controls.values())
        within = all(one.within for one in self.exact) and self.black_box["ratio"] <= 1
        told = self.law.passed and self.black_box["observed"] >= self.black_box["due"]
        return caught and within and told and all(one.reached for one in self.exact if one.kind == "adversarial")

    def to_dict(self) -> Facts:
        """The audit as a dictionary for JSON."""
        return {
            "exact": {one.kind: one.to_dict() for one in self.exact},
            "law": {**asdict(self.law), "passed": self.law.passed},
            "black_box": self.black_box,
            "controls": self.controls,
            "passed": self.passed,
        }


@dataclass(frozen=True)
class Audit:
    """Everything that was found out about a preset."""

    preset: str
    epsilon: float
    codings: dict[str, CodingAudit]
    """By the names of the codings that its plans may have."""
    unit: Unit = field(default_factory=Pixel)
    """What was audited: the unit of the claims."""
    model: Sequence[Exact] = ()
    """The exact audit of a real plan on its denoiser; empty if none was given. Nothing may exceed the claim there, but
    the claim need not be reached: predictions of a network are harder to foresee."""

    @property
    def passed(self) -> bool:
        """Whether all codings passed, and the real plan keeps its claims."""
        return all(one.passed for one in self.codings.values()) and all(one.within for one in self.model)

    def to_dict(self) -> Facts:
        """The audit as a dictionary for JSON: of each part what is worst over the codings, and each coding's own."""
        each = {name: one.to_dict() for name, one in self.codings.items()}
        found = {
            **_worst(list(each.values())),
            "passed": self.passed,
            "preset": self.preset,
            "epsilon": self.epsilon,
            "unit": self.unit.to_dict(),
            "codings": each,
        }
        return found | ({"model": {one.kind: one.to_dict() for one in self.model}} if self.model else {})


def _worst(each: Sequence[Facts]) -> Facts:
    """Return, for each part of the audit, the facts of the coding that comes nearest to failing."""

    def ratio(facts: Facts) -> float:
        return float(facts["ratio"])

    kinds = {kind: [one["exact"][kind] for one in each] for kind in each[0]["exact"]}
    mistakes = dict.fromkeys(name for one in each for name in one["controls"])
    tried = {name: [one["controls"][name] for one in each if name in one["controls"]] for name in mistakes}
    return {
        "exact": {
            kind: max(facts, key=ratio) | {"rho": max((one["rho"] for one in facts), key=ratio)}
            for kind, facts in kinds.items()
        },
        "law": min((one["law"] for one in each), key=lambda facts: (facts["passed"], facts["p"])),
        "black_box": max((one["black_box"] for one in each), key=ratio),
        "controls": {name: min(facts, key=lambda one: bool(one["caught"])) for name, facts in tried.items()},
    }


def _auditable(name: str, epsilon: float, unit: Unit = PIXEL) -> dict[str, Subject]:
    """What is audited of a preset, by coding; refused if it has no certificate, or if ε is out of range."""
    preset = presets.preset(name)
    if not preset.certified:
        raise NoCertificateError("preset", f"{name} has no certificate, so there is nothing to audit", "use another")
    if not LEAST <= epsilon <= LARGEST:
        raise DippError("epsilon", f"{LEAST} to {LARGEST:g} can be audited, got {epsilon:g}")
    if unit == Pixel():
        return {coding.name: Subject(coding, preset.kind) for coding in preset.codings}
    if not preset.any_unit:
        raise DippError(
            "unit", f"plans of the preset {name} protect pixels alone, got {unit.short}", "use another preset"
        )
    if unit.square is not None and (unit.square % CELL or unit.square > MOST_CELL):
        raise DippError("unit", f"cells of a multiple of {CELL} up to {MOST_CELL} can be audited, got {unit.short}")
    kinds = {"words": WORDS, "signs": SIGNS}
    return {
        f"{questions.CODING.code.name} code, {kind}": Subject(questions.CODING, Question.kind, unit, number)
        for kind, number in kinds.items()
    }


def audit_coding(subject: Subject, epsilon: float) -> CodingAudit:
    """Audit a coding at about ε."""
    return CodingAudit(
        exact.audit(*plan_for(subject, epsilon), PAIRS, ADVERSARIES),
        law_audit(subject, epsilon, LAW_RUNS),
        black_box_audit(subject, epsilon, BLACK_BOX_RUNS),
        control_audit(subject),
    )


def audit(name: str, epsilon: float, real: tuple[Plan, Denoiser] | None = None, unit: Unit = PIXEL) -> Audit:
    """Audit a preset at about ε of a unit.

    Args:
        name: The preset.
        epsilon: ε of the unit.
        real: A plan and its denoiser, of which the exact audit is added; by default none.
        unit: The unit of the claims, by default a pixel.

    Raises:
        DippError: The preset has no certificate, or ε or the unit cannot be audited.
    """
    subjects = _auditable(name, epsilon, unit)
    found, model = {coding: audit_coding(subject, epsilon) for coding, subject in subjects.items()}, list[Exact]()
    if real is not None:
        plan, denoiser = real
        model = exact.audit(plan, denoiser.geometry(), PAIRS // 3, ADVERSARIES // 3, denoiser)
    return Audit(name, epsilon, found, unit, model)


class Observation(NamedTuple):
    """An observed loss and the claimed ε, both per unit: a point of the plot."""

    preset: str
    """With the coding, where the preset has several."""
    kind: str
    claimed: float
    observed: float


def ladder(name: str, epsilon: float, unit: Unit = PIXEL) -> list[Observation]:
    """Exact and black-box audits at claims around ε, for a plot of observed against claimed."""
    subjects, points = _auditable(name, epsilon, unit), []
    for coding, subject in subjects.items():
        title = name if len(subjects) == 1 else f"{name}: {coding}"
        for claim in (epsilon * factor for factor in LADDER):
            if not LEAST <= claim <= LARGEST:
                continue
            for one in exact.audit(*plan_for(subject, claim), PAIRS, ADVERSARIES):
                losses = one.attained if one.kind == "adversarial" else one.observed
                points += [Observation(title, one.kind, one.claimed, loss) for loss in losses]
            if claim <= BLACK_BOX_CLAIM:
                counted = black_box_audit(subject, claim, BLACK_BOX_RUNS)
                points.append(Observation(title, "black box", counted["claimed"], counted["observed"]))
    return points
