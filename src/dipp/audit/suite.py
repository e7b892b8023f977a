"""The whole audit of a preset: how much its encoder really reveals about a unit, compared with what is claimed.

Every coding of the preset is audited in four ways, all on the real encoder: the exact audit (`exact`), the audit of the
law of the drawn indices (`law`), the black-box audit (`blackbox`), and negative controls that these must catch
(`controls`). No model is needed (`setting`). Public seeds are fixed; only the private randomness differs from one audit
to the next.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dipp.audit import blackbox, controls, exact, law
from dipp.audit.blackbox import Encoder
from dipp.audit.controls import PlantedMistake
from dipp.audit.exact import ExactAudit
from dipp.audit.likelihood import LogLaw, compare
from dipp.audit.neighbours import adversarial_pair, grey_pair
from dipp.audit.setting import CELL, AuditSubject, chain_of, plan_for, replaced, single_step
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
"""Range of ε that can be audited. Selections clip scores at 44 nats: a selection that costs much more than 8 cannot
reach its claim."""
BLACK_BOX_RUNS, BLACK_BOX_CLAIM = 100_000, 6.0
"""Encodings of each image in the black-box audit, and the largest ε that this number can show."""
FAIR, BAD_LUCK = 0.5, 6.0
"""Two parameters of the bound that the black-box audit must observe. The exact laws promise an ε for counts that are
`BAD_LUCK` standard deviations off; the audit must observe the share `FAIR` of it. If a claim is so small that this ε is
not above 0, nothing need be observed."""
LAW_RUNS = 20_000
"""Encodings of each image in the law audit."""
CONTROL_CLAIM, CONTROL_RUNS, CONTROL_TRIES = 2.0, 4000, 12
"""Claimed ε, number of encodings and number of public seeds with which a broken encoder must be caught."""
CONTROL_SIDE = 12
"""Side of the images of controls: large enough for more than a bit of divergence, on which some mistakes depend."""
PAIRS, ADVERSARIES = 12, 6
"""Number of pairs of images in the exact audit: of each kind that is random or extreme, and of each adversarial
kind."""
SPARES = (*np.arange(-3.0, 6.0, 0.5).tolist(), *range(6, 30, 2))
"""Nats by which adversarial pairs favour a candidate. Which of them reveals most depends on the encoder, so all are
tried."""
PIXEL = Pixel()
"""The unit that is audited by default."""
MOST_CELL = 64
"""Largest side of audited cells in pixels: ε does not depend on it."""

Facts = dict[str, Any]
"""Results of an audit by name, for JSON."""


def black_box_audit(subject: AuditSubject, epsilon: float, runs: int) -> Facts:
    """Run the black-box audit on an adversarial pair: the pair for which the exact laws promise the largest bound.

    Args:
        subject: The coding, kind of steps and unit.
        epsilon: ε of the unit; more than `BLACK_BOX_CLAIM` is not tried.
        runs: Number of encodings of each image.

    Returns:
        "observed", the lower bound of ε; "claimed", ε of the certificate; "ratio", their quotient; "due", what the
            audit must observe to pass; and "runs".
    """
    plan, geometry = single_step(subject, min(epsilon, BLACK_BOX_CLAIM))
    claimed, chain = Certificate.of(plan, geometry).epsilon, chain_of(plan, geometry, 0)
    spares = SPARES[:1] if subject.alone else SPARES  # favours are useless if other pixels have no influence
    tried = [adversarial_pair(chain, np.random.default_rng(1), spare) for spare in spares]
    pair = max(tried, key=lambda images: blackbox.promise(chain, images, runs))
    due = FAIR * max(0.0, blackbox.promise(chain, pair, runs, BAD_LUCK))
    observed = blackbox.audit(blackbox.encoder, chain, pair, runs).epsilon
    return {"ratio": observed / claimed, "observed": observed, "claimed": claimed, "due": due, "runs": runs}


def law_audit(subject: AuditSubject, epsilon: float, runs: int) -> law.Law:
    """Run the law audit, at a claim that one selection can spend.

    Args:
        subject: The coding, kind of steps and unit.
        epsilon: ε of the unit; more than `BLACK_BOX_CLAIM` is not tried.
        runs: Number of encodings of each image.
    """
    return law.audit(subject, min(epsilon, BLACK_BOX_CLAIM), runs)


def control_audit(subject: AuditSubject) -> dict[str, Facts]:
    """Return, for each planted mistake, whether an audit catches it at a claim that a few thousand runs can refute.

    Args:
        subject: The coding, kind of steps and unit.
    """
    mistakes = controls.controls_of(subject)
    return {
        **{name: _count(subject, encode) for name, encode in mistakes.releases.items()},
        **{name: _compare(subject, *control) for name, control in mistakes.comparisons.items()},
        **{name: _draw(subject, plant) for name, plant in mistakes.laws.items()},
        **{name: _refute(subject, plant) for name, plant in mistakes.claims.items()},
    }


def _count(subject: AuditSubject, encode: Encoder) -> Facts:
    """Return whether the black-box audit catches a broken encoder."""
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


def _compare(subject: AuditSubject, selector: type[Selector], rule: LogLaw) -> Facts:
    """Return whether the exact audit catches a broken encoder."""
    plan, geometry = plan_for(subject, CONTROL_CLAIM)
    claimed, chain = Certificate.of(plan, geometry).epsilon, chain_of(plan, geometry, 0)
    adversarial = (adversarial_pair(chain, np.random.default_rng(0), spare) for spare in SPARES)
    for pair in itertools.chain([grey_pair(chain, np.random.default_rng(0))], adversarial):
        observed = compare(chain, pair, law=rule, selector=selector).bound
        if observed > claimed:
            break
    loss = observed if math.isfinite(observed) else "infinity"
    return {"caught": observed > claimed, "by": "exact", "observed": loss, "claimed": claimed}


def _draw(subject: AuditSubject, plant: PlantedMistake) -> Facts:
    """Return whether the law audit catches a mistake in the real encoder."""
    with replaced(*plant):
        met = law_audit(subject, CONTROL_CLAIM, CONTROL_RUNS)
    measured = f"p = {met.p:.0e}, {met.wrong} of {met.draws} wrong"
    return {"caught": not met.passed, "by": "law", "observed": measured, "claimed": CONTROL_CLAIM}


def _refute(subject: AuditSubject, plant: PlantedMistake) -> Facts:
    """Return whether the exact audit refutes a mistake in the accounting."""
    plan, geometry = plan_for(subject, CONTROL_CLAIM)
    with replaced(*plant):
        met = max(exact.audit(plan, geometry, 1, 1), key=lambda result: max(result.ratio, result.rho_ratio))
    observed, claimed, unit = max(met.observed), met.claimed, "ε"
    if met.rho_ratio > met.ratio:
        observed, claimed, unit = max(met.rho), met.claimed_rho, "ρ"
    return {"caught": not met.within, "by": f"exact, {unit}", "observed": observed, "claimed": claimed}


@dataclass(frozen=True)
class CodingAudit:
    """The results of all audits of one coding."""

    exact: Sequence[ExactAudit]
    """A result for each kind of pairs."""
    law: law.Law
    black_box: Facts
    controls: dict[str, Facts]
    """For each mistake, whether it was caught, and by which audit."""

    @property
    def passed(self) -> bool:
        """Whether the encoder keeps its claims, and the audit would have noticed if it did not."""
        caught = all(control["caught"] for control in self.controls.values())
        within = all(kind.within for kind in self.exact) and self.black_box["ratio"] <= 1
        sensitive = self.law.passed and self.black_box["observed"] >= self.black_box["due"]
        reached = all(pairs.reached for pairs in self.exact if pairs.kind == "adversarial")
        return caught and within and sensitive and reached

    def to_dict(self) -> Facts:
        """Return the audit as a dictionary for JSON."""
        return {
            "exact": {pairs.kind: pairs.to_dict() for pairs in self.exact},
            "law": {**asdict(self.law), "passed": self.law.passed},
            "black_box": self.black_box,
            "controls": self.controls,
            "passed": self.passed,
        }


@dataclass(frozen=True)
class Audit:
    """The results of all audits of a preset."""

    preset: str
    epsilon: float
    """The ε that was asked for; the claims of the audited plans are about as large."""
    codings: dict[str, CodingAudit]
    """A result for each coding that the plans of the preset may have, by its name."""
    unit: Unit = field(default_factory=Pixel)
    """The unit of the claims."""
    model: Sequence[ExactAudit] = ()
    """The exact audit of a real plan on its denoiser; empty if no plan was given. Nothing may exceed the claim there,
    but the claim need not be reached: predictions of a network are harder to foresee."""

    @property
    def passed(self) -> bool:
        """Whether all codings passed, and the real plan keeps its claims."""
        return all(coding.passed for coding in self.codings.values()) and all(pairs.within for pairs in self.model)

    def to_dict(self) -> Facts:
        """Return the audit as a dictionary for JSON: the worst result of each kind, and the results of each coding."""
        each = {name: coding.to_dict() for name, coding in self.codings.items()}
        facts = {
            **_worst(list(each.values())),
            "passed": self.passed,
            "preset": self.preset,
            "epsilon": self.epsilon,
            "unit": self.unit.to_dict(),
            "codings": each,
        }
        return facts | ({"model": {pairs.kind: pairs.to_dict() for pairs in self.model}} if self.model else {})


def _worst(each: Sequence[Facts]) -> Facts:
    """Return, for each kind of audit, the result of the coding that comes nearest to failing.

    `each` holds the results of each coding, as `CodingAudit.to_dict` returns them.
    """

    def ratio(facts: Facts) -> float:
        return float(facts["ratio"])

    kinds = {kind: [coding["exact"][kind] for coding in each] for kind in each[0]["exact"]}
    mistakes = dict.fromkeys(name for coding in each for name in coding["controls"])
    tried = {name: [coding["controls"][name] for coding in each if name in coding["controls"]] for name in mistakes}
    return {
        "exact": {
            kind: max(facts, key=ratio) | {"rho": max((coding["rho"] for coding in facts), key=ratio)}
            for kind, facts in kinds.items()
        },
        "law": min((coding["law"] for coding in each), key=lambda facts: (facts["passed"], facts["p"])),
        "black_box": max((coding["black_box"] for coding in each), key=ratio),
        "controls": {name: min(facts, key=lambda coding: bool(coding["caught"])) for name, facts in tried.items()},
    }


def auditable(name: str, epsilon: float, unit: Unit = PIXEL) -> dict[str, AuditSubject]:
    """Return what to audit for a preset: a subject for each coding that its plans may have, by the coding's name.

    Args:
        name: Name of the preset.
        epsilon: ε of the unit.
        unit: The unit of the claims.

    Raises:
        DippError: The preset has no certificate, or ε or the unit cannot be audited.
    """
    preset = presets.preset(name)
    if not preset.certified:
        raise NoCertificateError("preset", f"must have a certificate to be audited, got {name}", "use another preset")
    if not LEAST <= epsilon <= LARGEST:
        raise DippError("epsilon", f"must be from {LEAST} to {LARGEST:g} to be audited, got {epsilon:g}")
    if unit == Pixel():
        return {coding.name: AuditSubject(coding, preset.kind) for coding in preset.codings}
    if not preset.any_unit:
        raise DippError("unit", f"must be a pixel with the preset {name}, got {unit.short}", "use another preset")
    if unit.square is not None and (unit.square % CELL or unit.square > MOST_CELL):
        raise DippError("unit", f"must have a side that is a multiple of {CELL} up to {MOST_CELL}, got {unit.short}")
    kinds = {"words": WORDS, "signs": SIGNS}
    return {
        f"{questions.CODING.code.name} code, {kind}": AuditSubject(questions.CODING, Question.kind, unit, number)
        for kind, number in kinds.items()
    }


def audit_coding(subject: AuditSubject, epsilon: float) -> CodingAudit:
    """Audit a coding at about ε, in all four ways.

    Args:
        subject: The coding, kind of steps and unit.
        epsilon: ε of the unit, from 1/16 to 24.
    """
    return CodingAudit(
        exact.audit(*plan_for(subject, epsilon), PAIRS, ADVERSARIES),
        law_audit(subject, epsilon, LAW_RUNS),
        black_box_audit(subject, epsilon, BLACK_BOX_RUNS),
        control_audit(subject),
    )


def audit(name: str, epsilon: float, real: tuple[Plan, Denoiser] | None = None, unit: Unit = PIXEL) -> Audit:
    """Audit every coding of a preset at about ε of a unit.

    Args:
        name: Name of the preset.
        epsilon: ε of the unit, from 1/16 to 24.
        real: A plan and its denoiser, for an exact audit of real predictions in addition. None by default.
        unit: The unit of the claims, by default a pixel.

    Returns:
        The results; `passed` says whether the encoder keeps its claims.

    Raises:
        DippError: The preset has no certificate, or ε or the unit cannot be audited.

    Example::

        from dipp.audit import audit

        audit("sharp", 4.0).passed
    """
    subjects = auditable(name, epsilon, unit)
    codings, model = (
        {coding: audit_coding(subject, epsilon) for coding, subject in subjects.items()},
        list[ExactAudit](),
    )
    if real is not None:
        plan, denoiser = real
        model = exact.audit(plan, denoiser.geometry(), PAIRS // 3, ADVERSARIES // 3, denoiser)
    return Audit(name, epsilon, codings, unit, model)
