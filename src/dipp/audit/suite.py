"""The whole audit of a preset: how much its encoder really reveals about a pixel, compared with what is claimed.

It has four parts, all on the real encoder: the exact audit (`likelihood`), the audit of the law by which indices are
drawn (`law`), the black-box audit (`blackbox`), and negative controls that these must catch (`controls`). No model is
needed (`setting`). Public seeds are fixed; only the private randomness differs from one audit to the next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dipp.audit import blackbox, controls, law
from dipp.audit.likelihood import ORDERS, Comparison, adversarial_pair, compare, extreme_pair, random_pair
from dipp.audit.setting import chain_of, plan_for, replaced, single_step
from dipp.codec.chain import Chain
from dipp.core.plan import Coding, Plan
from dipp.errors import DippError, NoCertificateError
from dipp.format.packing import Shape
from dipp.planning import presets
from dipp.privacy.certificate import Certificate

if TYPE_CHECKING:
    from dipp.models.denoiser import Denoiser

LEAST, LARGEST = 1 / 16, 24.0
"""Range of ε that can be audited. Selections clip scores at 44 nats: one that costs much more than 8 cannot reach its
claim."""
BLACK_BOX_RUNS, BLACK_BOX_CLAIM = 100_000, 6.0
"""Encodings of each image in the black-box audit, and the largest ε that so many can show."""
FAIR, BAD_LUCK = 0.5, 6.0
"""The black-box audit must find the share `FAIR` of what the exact laws promise for its runs when the counts are
`BAD_LUCK` standard deviations off. Where that is not above 0, because the claim is small, nothing need be found."""
LAW_RUNS = 20_000
"""Encodings of each image in the law audit."""
CONTROL_CLAIM, CONTROL_RUNS, CONTROL_TRIES = 2.0, 4000, 12
"""Claim, encodings and public seeds with which a broken encoder must be caught."""
CONTROL_SIDE = 12
"""Side of the images of controls: large enough for more than a bit of divergence, on which some mistakes depend."""
PAIRS = 12
"""Random and extreme pairs of images, of each kind."""
ADVERSARIES, ATTEMPTS = 6, 4
"""Adversarial pairs, and attempts at making each of them."""
SPARES = (*np.arange(-3.0, 6.0, 0.5).tolist(), *range(6, 30, 2))
"""Nats by which adversarial pairs favour a candidate. What reveals most depends on the encoder, so all are tried."""
BALANCED = -9.0
"""Nats by which balanced pairs favour a candidate: in effect not at all."""
LADDER = (1 / 8, 1 / 4, 1 / 2, 1, 2, 4)
"""Claims in a plot, relative to ε."""
NEARLY = 0.99
"""Share of the claim that adversarial pairs must reach, or the audit itself is broken."""


@dataclass(frozen=True)
class Exact:
    """The exact audit of one kind of pairs. Losses and ε are in nats, per pixel."""

    kind: str
    claimed: float
    observed: tuple[float, ...]
    """Sum of the largest losses of the selections, for each pair."""
    attained: tuple[float, ...]
    """Loss of the outcomes that were really released, for each pair."""
    claimed_rho: float
    rho: tuple[float, ...]
    """Largest ratio of a Rényi divergence to its order, for each pair; at most ρ is claimed."""
    draws: int
    """Number of draws with known bytes."""
    wrong: int
    """How many of those draws differed from the exact ones."""

    @classmethod
    def of(cls, kind: str, claimed: Certificate, compared: Sequence[Comparison]) -> Exact:
        """Gather the comparisons of one kind of pairs."""
        return cls(
            kind,
            claimed.epsilon,
            tuple(one.bound for one in compared),
            tuple(one.attained for one in compared),
            claimed.rho,
            tuple(float(np.max(one.divergences / ORDERS)) for one in compared),
            sum(one.draws for one in compared),
            sum(one.wrong for one in compared),
        )

    @property
    def ratio(self) -> float:
        """Largest loss, relative to the claimed ε."""
        return max(self.observed) / self.claimed

    @property
    def rho_ratio(self) -> float:
        """Largest Rényi divergence, relative to what the claimed ρ allows."""
        return max(self.rho) / self.claimed_rho

    @property
    def within(self) -> bool:
        """Whether no loss or divergence exceeds the claims, and all draws were exact.

        The logarithms are rounded by less than η, which the claims include.
        """
        return self.ratio <= 1 and self.rho_ratio <= 1 and not self.wrong

    @property
    def reached(self) -> bool:
        """Whether an outcome that was really released nearly reaches the claim."""
        return max(self.attained) >= NEARLY * self.claimed

    def to_dict(self) -> dict[str, Any]:
        """The result as a dictionary for JSON."""
        found = {"ratio": self.ratio, "observed": max(self.observed), "claimed": self.claimed}
        found |= {"attained": max(self.attained), "pairs": len(self.observed)}
        rho = {"ratio": self.rho_ratio, "observed": max(self.rho), "claimed": self.claimed_rho, "orders": ORDERS}
        return found | {"rho": rho, "draws": self.draws, "wrong": self.wrong}


def _claim(plan: Plan, shape: Shape) -> Certificate:
    """The certificate of a plan for images of one shape."""
    return Certificate.of(plan, shape[2], shape[0] * shape[1])


def exact_audit(
    plan: Plan, shape: Shape, pairs: int, adversaries: int, denoiser: Denoiser | None = None
) -> list[Exact]:
    """Audit random, extreme, balanced and adversarial pairs of images, each with a public seed of its own.

    Adversarial pairs come closest to ε. Balanced pairs, the same pixel with no candidate favoured, come closest to ρ:
    half of the mass goes up and half goes down.
    """
    claimed = _claim(plan, shape)
    generator = np.random.default_rng(0)
    found = []
    for kind, make in (("random", random_pair), ("extreme", extreme_pair)):
        chains = [chain_of(plan, shape, number, denoiser) for number in range(pairs)]
        found.append(Exact.of(kind, claimed, [compare(chain, make(chain, generator)) for chain in chains]))
    chains = [chain_of(plan, shape, number, denoiser) for number in range(adversaries)]
    balanced = [compare(chain, adversarial_pair(chain, np.random.default_rng(0), BALANCED)) for chain in chains]
    found.append(Exact.of("balanced", claimed, balanced))
    found.append(Exact.of("adversarial", claimed, [_attack(chain, claimed.epsilon) for chain in chains]))
    return found


def _attack(chain: Chain, claimed: float) -> Comparison:
    """The adversarial pair of largest loss out of a few, each made with the predictions that the one before met."""
    predictions, found = None, []
    for number in range(ATTEMPTS):
        pair = adversarial_pair(chain, np.random.default_rng(number), predictions=predictions)
        found.append(compare(chain, pair, follow=True))
        if found[-1].attained >= NEARLY * claimed:
            break
        predictions = found[-1].predictions
    return max(found, key=lambda one: one.attained)


def black_box_audit(coding: Coding, epsilon: float, runs: int) -> dict[str, Any]:
    """Count encodings, in one step, of the adversarial pair for which the exact laws promise the largest bound."""
    plan, shape = single_step(coding, min(epsilon, BLACK_BOX_CLAIM))
    claimed, chain = _claim(plan, shape).epsilon, chain_of(plan, shape, 0)
    tried = [adversarial_pair(chain, np.random.default_rng(1), spare) for spare in SPARES]
    pair = max(tried, key=lambda one: blackbox.promise(chain, one, runs))
    due = FAIR * max(0.0, blackbox.promise(chain, pair, runs, BAD_LUCK))
    observed = blackbox.audit(blackbox.encoder, chain, pair, runs).epsilon
    return {"ratio": observed / claimed, "observed": observed, "claimed": claimed, "due": due, "runs": runs}


def law_audit(coding: Coding, epsilon: float, runs: int) -> law.Law:
    """Audit the law of the indices, at a claim that one selection can carry."""
    return law.audit(coding, min(epsilon, BLACK_BOX_CLAIM), runs)


def control_audit(coding: Coding) -> dict[str, dict[str, Any]]:
    """For each broken encoder, whether an audit catches it at a claim that a few thousand runs can refute."""
    plan, shape = single_step(coding, CONTROL_CLAIM, CONTROL_SIDE)
    claimed = _claim(plan, shape).epsilon
    found: dict[str, dict[str, Any]] = {}
    for name, encode in controls.RELEASES.items():
        observed = 0.0
        for number in range(CONTROL_TRIES):
            chain = chain_of(plan, shape, number)
            if number % 2:
                pair = adversarial_pair(chain, np.random.default_rng(number), -3.0)
            else:
                pair = controls.crossing_pair(encode, chain, number)
            observed = blackbox.audit(encode, chain, pair, CONTROL_RUNS).epsilon
            if observed > claimed:
                break
        found[name] = {"caught": observed > claimed, "by": "black box", "observed": observed, "claimed": claimed}
    plan, shape = plan_for(coding, CONTROL_CLAIM)
    claimed = _claim(plan, shape).epsilon
    for name, (selector, rule) in controls.COMPARISONS.items():
        for spare in SPARES:
            chain = chain_of(plan, shape, 0)
            pair = adversarial_pair(chain, np.random.default_rng(0), spare)
            observed = compare(chain, pair, law=rule, selector=selector).bound
            if observed > claimed:
                break
        loss = observed if math.isfinite(observed) else "infinity"
        found[name] = {"caught": observed > claimed, "by": "exact", "observed": loss, "claimed": claimed}
    for name, plant in controls.PLANTED.items():
        with replaced(*plant):
            met = law_audit(coding, CONTROL_CLAIM, CONTROL_RUNS)
        seen = {"observed": f"p = {met.p:.0e}, {met.wrong} of {met.draws} wrong", "claimed": CONTROL_CLAIM}
        found[name] = {"caught": not met.passed, "by": "law", **seen}
    return found


@dataclass(frozen=True)
class Audit:
    """Everything that was found out about a preset."""

    preset: str
    epsilon: float
    exact: list[Exact]
    law: law.Law
    black_box: dict[str, Any]
    controls: dict[str, dict[str, Any]]
    model: list[Exact]
    """The exact audit of a real plan on its denoiser; empty if none was given. Nothing may exceed the claim there, but
    the claim need not be reached: predictions of a network are harder to foresee."""

    @property
    def passed(self) -> bool:
        """Whether the encoder keeps its claims, and the audit would have noticed if it did not."""
        caught = all(control["caught"] for control in self.controls.values())
        within = all(one.within for one in (*self.exact, *self.model)) and self.black_box["ratio"] <= 1
        told = self.law.passed and self.black_box["observed"] >= self.black_box["due"]
        return caught and within and told and all(one.reached for one in self.exact if one.kind == "adversarial")

    def to_dict(self) -> dict[str, Any]:
        """The audit as a dictionary for JSON."""
        found: dict[str, Any] = {
            "exact": {one.kind: one.to_dict() for one in self.exact},
            "law": {**asdict(self.law), "passed": self.law.passed},
            "black_box": self.black_box,
            "controls": self.controls,
            "passed": self.passed,
            "preset": self.preset,
            "epsilon": self.epsilon,
        }
        return found | ({"model": {one.kind: one.to_dict() for one in self.model}} if self.model else {})


def _auditable(name: str, epsilon: float) -> Coding:
    """The coding of a preset; refused if it has no certificate, or if ε is out of range."""
    coding = presets.preset(name).coding
    if not coding.certified:
        raise NoCertificateError(f"preset: {name} has no certificate, so there is nothing to audit; use another")
    if not LEAST <= epsilon <= LARGEST:
        raise DippError(f"epsilon: {LEAST} to {LARGEST:g} can be audited, got {epsilon:g}")
    return coding


def audit(name: str, epsilon: float, real: tuple[Plan, Denoiser] | None = None) -> Audit:
    """Audit a preset at about ε; if `real` is given, add the exact audit of that plan on that denoiser."""
    coding = _auditable(name, epsilon)
    exact = exact_audit(*plan_for(coding, epsilon), PAIRS, ADVERSARIES)
    counted, caught, model = black_box_audit(coding, epsilon, BLACK_BOX_RUNS), control_audit(coding), []
    if real is not None:
        plan, denoiser = real
        shape = (*denoiser.sample_size, denoiser.channels)
        model = exact_audit(plan, shape, PAIRS // 3, ADVERSARIES // 3, denoiser)
    return Audit(name, epsilon, exact, law_audit(coding, epsilon, LAW_RUNS), counted, caught, model)


class Observation(NamedTuple):
    """An observed loss and the claimed ε, both per pixel: a point of the plot."""

    preset: str
    kind: str
    claimed: float
    observed: float


def ladder(name: str, epsilon: float) -> list[Observation]:
    """Exact and black-box audits at claims around ε, for a plot of observed against claimed."""
    coding, points = _auditable(name, epsilon), []
    for claim in (epsilon * factor for factor in LADDER):
        if LEAST <= claim <= LARGEST:
            for one in exact_audit(*plan_for(coding, claim), PAIRS, ADVERSARIES):
                losses = one.attained if one.kind == "adversarial" else one.observed
                points += [Observation(name, one.kind, one.claimed, loss) for loss in losses]
            if claim <= BLACK_BOX_CLAIM:
                found = black_box_audit(coding, claim, BLACK_BOX_RUNS)
                points.append(Observation(name, "black box", found["claimed"], found["observed"]))
    return points
