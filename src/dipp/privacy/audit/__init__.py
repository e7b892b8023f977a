"""The audit: what an encoder really tells about a pixel, against what its certificate claims.

Three parts, each on the code that encodes: the exact audit (`exact`), the black-box audit (`blackbox`), and negative
controls that both must catch (`controls`). No model is needed (`setting`). Public seeds are fixed; only the private
randomness differs from one audit to the next.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dipp import presets
from dipp.chain import Chain
from dipp.errors import DippError, NoCertificateError
from dipp.layout import Shape
from dipp.plan import Mechanism, Plan
from dipp.privacy.audit import blackbox, controls
from dipp.privacy.audit.exact import Comparison, adversarial_pair, compare, extreme_pair, grey_pair, random_pair
from dipp.privacy.audit.setting import chain_of, plan_for, single_step
from dipp.privacy.certificate import Certificate

if TYPE_CHECKING:
    from dipp.model import Denoiser

LEAST, LARGEST = 1 / 16, 24.0
"""ε that can be audited. Scores are clipped at 44 nats: a selection that costs much more than 8 cannot lose it all."""
BLACK_BOX_RUNS, BLACK_BOX_CLAIM = 100_000, 6.0
"""Encodings of each image, and the largest ε that so many could show."""
CONTROL_CLAIM, CONTROL_RUNS, CONTROL_TRIES = 2.0, 4000, 12
PAIRS = 12
ADVERSARIES, ATTEMPTS = 6, 4
SPARES = (*np.arange(-3.0, 6.0, 0.5).tolist(), *range(6, 30, 2))
"""Nats by which one candidate is favoured: what tells most depends on what is audited, so several are tried."""
LADDER = (1 / 8, 1 / 4, 1 / 2, 1, 2, 4)
"""Claims of a plot, relative to ε."""
NEARLY = 0.99
"""Share of the claim that adversarial pairs must reach, or the audit itself is broken."""


@dataclass(frozen=True)
class Exact:
    """The largest loss of a kind of pairs."""

    kind: str
    claimed: float
    observed: tuple[float, ...]
    """Σ of the largest losses of the selections, for each pair."""
    attained: tuple[float, ...]
    """Losses of the outcomes that were released."""

    @classmethod
    def of(cls, kind: str, claimed: float, compared: Sequence[Comparison]) -> Exact:
        """Of comparisons."""
        return cls(kind, claimed, tuple(one.bound for one in compared), tuple(one.attained for one in compared))

    @property
    def ratio(self) -> float:
        """Largest loss over what is claimed."""
        return max(self.observed) / self.claimed

    @property
    def within(self) -> bool:
        """Whether nothing exceeds the claim. The logarithms round by less than η, which is in it."""
        return self.ratio <= 1

    @property
    def reached(self) -> bool:
        """Whether the claim is nearly reached, by an outcome that was really released."""
        return max(self.attained) >= NEARLY * self.claimed

    def to_dict(self) -> dict[str, Any]:
        """The losses for JSON."""
        found = {"ratio": self.ratio, "observed": max(self.observed), "claimed": self.claimed}
        return found | {"attained": max(self.attained), "pairs": len(self.observed)}


def _claim(plan: Plan, shape: Shape) -> float:
    return Certificate.of(plan, shape[2], shape[0] * shape[1]).epsilon


def exact_audit(
    plan: Plan, shape: Shape, pairs: int, adversaries: int, denoiser: Denoiser | None = None
) -> list[Exact]:
    """Random, extreme and adversarial pairs of images, each pair with a public seed of its own."""
    claimed = _claim(plan, shape)
    generator = np.random.default_rng(0)
    found = []
    for kind, make in (("random", random_pair), ("extreme", extreme_pair)):
        chains = [chain_of(plan, shape, number, denoiser) for number in range(pairs)]
        found.append(Exact.of(kind, claimed, [compare(chain, make(chain, generator)) for chain in chains]))
    chains = [chain_of(plan, shape, number, denoiser) for number in range(adversaries)]
    found.append(Exact.of("adversarial", claimed, [_attack(chain, claimed) for chain in chains]))
    return found


def _attack(chain: Chain, claimed: float) -> Comparison:
    """The best of a few adversarial pairs, each made with the predictions that the last one met."""
    predictions, found = None, []
    for number in range(ATTEMPTS):
        pair = adversarial_pair(chain, np.random.default_rng(number), predictions=predictions)
        found.append(compare(chain, pair, follow=True))
        if found[-1].attained >= NEARLY * claimed:
            break
        predictions = found[-1].predictions
    return max(found, key=lambda one: one.attained)


def black_box_audit(mechanism: Mechanism, epsilon: float, runs: int) -> dict[str, Any]:
    """One-step encodings of an adversarial pair, counted. The pair is the one whose exact laws promise most."""
    plan, shape = single_step(mechanism, min(epsilon, BLACK_BOX_CLAIM))
    claimed, chain = _claim(plan, shape), chain_of(plan, shape, 0)
    tried = [adversarial_pair(chain, np.random.default_rng(1), spare) for spare in SPARES]
    pair = max(tried, key=lambda one: blackbox.promise(chain, one, runs))
    found = blackbox.audit(blackbox.encoder, chain, pair, runs)
    return {"ratio": found.epsilon / claimed, "observed": found.epsilon, "claimed": claimed, "runs": found.runs}


def control_audit(mechanism: Mechanism) -> dict[str, dict[str, Any]]:
    """Whether each broken encoder is found out, at a claim that some thousand runs can refute."""
    plan, shape = single_step(mechanism, CONTROL_CLAIM)
    claimed = _claim(plan, shape)
    found: dict[str, dict[str, Any]] = {}
    for name, encode in controls.RELEASES.items():
        observed = 0.0
        for number in range(CONTROL_TRIES):
            chain, generator = chain_of(plan, shape, number), np.random.default_rng(number)
            pair = grey_pair(chain, generator) if number % 2 else adversarial_pair(chain, generator, -3.0)
            observed = blackbox.audit(encode, chain, pair, CONTROL_RUNS).epsilon
            if observed > claimed:
                break
        found[name] = {"caught": observed > claimed, "by": "black box", "observed": observed, "claimed": claimed}
    plan, shape = plan_for(mechanism, CONTROL_CLAIM)
    claimed = _claim(plan, shape)
    for name, (selector, law) in controls.COMPARISONS.items():
        for spare in SPARES:
            chain = chain_of(plan, shape, 0)
            pair = adversarial_pair(chain, np.random.default_rng(0), spare)
            observed = compare(chain, pair, law=law, selector=selector).bound
            if observed > claimed:
                break
        loss = observed if math.isfinite(observed) else "infinity"
        found[name] = {"caught": observed > claimed, "by": "exact", "observed": loss, "claimed": claimed}
    return found


@dataclass(frozen=True)
class Audit:
    """All that was found about a preset."""

    preset: str
    epsilon: float
    exact: list[Exact]
    black_box: dict[str, Any]
    controls: dict[str, dict[str, Any]]
    model: list[Exact]
    """The exact audit of a real plan on its denoiser, if there is one: nothing may exceed the claim there. That it is
    reached is not asked for: a network is harder to lead where one wants it."""

    @property
    def passed(self) -> bool:
        """Whether the encoder keeps its claims and the audit can tell."""
        caught = all(control["caught"] for control in self.controls.values())
        within = all(one.within for one in (*self.exact, *self.model)) and self.black_box["ratio"] <= 1
        return caught and within and all(one.reached for one in self.exact if one.kind == "adversarial")

    def to_dict(self) -> dict[str, Any]:
        """The audit for JSON."""
        found: dict[str, Any] = {
            "exact": {one.kind: one.to_dict() for one in self.exact},
            "black_box": self.black_box,
            "controls": self.controls,
            "passed": self.passed,
            "preset": self.preset,
            "epsilon": self.epsilon,
        }
        return found | ({"model": {one.kind: one.to_dict() for one in self.model}} if self.model else {})


def _auditable(name: str, epsilon: float) -> Mechanism:
    mechanism = presets.preset(name).mechanism
    if not mechanism.certified:
        raise NoCertificateError(f"preset: {name} has no certificate, so there is nothing to audit; use another")
    if not LEAST <= epsilon <= LARGEST:
        raise DippError(f"epsilon: {LEAST} to {LARGEST:g} can be audited, got {epsilon:g}")
    return mechanism


def audit(name: str, epsilon: float, real: tuple[Plan, Denoiser] | None = None) -> Audit:
    """Audit a preset at about ε, and exactly, if they are given, a real plan on its denoiser."""
    mechanism = _auditable(name, epsilon)
    if importlib.util.find_spec("torch") is None:
        raise DippError("audit: torch is missing; install dp-dipp[torch]")
    exact = exact_audit(*plan_for(mechanism, epsilon), PAIRS, ADVERSARIES)
    counted, caught, model = black_box_audit(mechanism, epsilon, BLACK_BOX_RUNS), control_audit(mechanism), []
    if real is not None:
        plan, denoiser = real
        shape = (*denoiser.sample_size, denoiser.channels)
        model = exact_audit(plan, shape, PAIRS // 3, ADVERSARIES // 3, denoiser)
    return Audit(name, epsilon, exact, counted, caught, model)


class Point(NamedTuple):
    """An observed loss, and what was claimed."""

    preset: str
    kind: str
    claimed: float
    observed: float


def ladder(name: str, epsilon: float) -> list[Point]:
    """Exact and black-box audits at claims around ε, for a plot of observed against claimed."""
    mechanism, points = _auditable(name, epsilon), []
    for claim in (epsilon * factor for factor in LADDER):
        if LEAST <= claim <= LARGEST:
            for one in exact_audit(*plan_for(mechanism, claim), PAIRS, ADVERSARIES):
                losses = one.attained if one.kind == "adversarial" else one.observed
                points += [Point(name, one.kind, one.claimed, loss) for loss in losses]
            if claim <= BLACK_BOX_CLAIM:
                found = black_box_audit(mechanism, claim, BLACK_BOX_RUNS)
                points.append(Point(name, "black box", found["claimed"], found["observed"]))
    return points
