"""The audit: what an encoder really tells about a pixel, against what its certificate claims.

Three parts, each on the code that encodes: the exact audit (`exact`), the black-box audit (`blackbox`), and negative
controls that both must catch (`controls`). No model is needed: what is claimed holds for any denoiser, so a simple
public one stands in, the best linear one for white noise. Public seeds are fixed; only the private randomness differs
from one audit to the next.
"""

from __future__ import annotations

import importlib.util
import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from dipp import presets
from dipp.chain import Chain
from dipp.diffusion import NoiseSchedule
from dipp.errors import DippError, NoCertificateError
from dipp.layout import Shape
from dipp.plan import Mechanism, Plan, Step
from dipp.privacy.audit import blackbox, controls
from dipp.privacy.audit.exact import adversarial_pair, compare, extreme_pair, grey_pair, random_pair
from dipp.privacy.certificate import Certificate

if TYPE_CHECKING:
    import torch

    from dipp.model import Denoiser

CHANNELS = 3
INDEX_BITS = 8
"""log2 n. The number of candidates plays no part in ε."""
SIDE = 64
STEPS = 3
"""A whole cycle of the one-of-three sign channel."""
LEAST, LARGEST = 1 / 16, 24.0
"""ε that can be audited. Scores are clipped at 44 nats: a selection that costs much more than 8 cannot lose it all."""
BLACK_BOX_SIDE, BLACK_BOX_BITS, BLACK_BOX_RUNS = 8, 5, 100_000
BLACK_BOX_CLAIM = 6.0
"""Counts of so many runs could not show more."""
CONTROL_CLAIM, CONTROL_RUNS, CONTROL_TRIES = 2.0, 4000, 12
PAIRS = 12
ADVERSARIES = 6
SPARES = (*np.arange(-3.0, 6.0, 0.5).tolist(), *range(6, 30, 2))
"""Nats by which one candidate is favoured: what tells most depends on what is audited, so several are tried."""
LADDER = (1 / 8, 1 / 4, 1 / 2, 1, 2, 4)
"""Claims of a plot, relative to ε."""
NEARLY = 0.99
"""Share of the claim that adversarial pairs must reach, or the audit itself is broken."""
VARIANCE = 0.25
"""Of the pixels, as the simple denoiser believes."""


@dataclass(frozen=True, eq=False)
class Shrink:
    """A public denoiser that needs no weights: x̂0 = E[x0 | x_t] for independent pixels of variance v around grey."""

    schedule: NoiseSchedule

    @property
    def device(self) -> torch.device:
        """The CPU."""
        import torch

        return torch.device("cpu")

    def x0(self, x_t: torch.Tensor, t: int) -> torch.Tensor:
        """γ·v/(γ²·v + σ²)·x_t, clamped."""
        gamma, sigma = self.schedule.gamma(t), self.schedule.sigma(t)
        return (gamma * VARIANCE / (gamma**2 * VARIANCE + sigma**2) * x_t).clamp(-1, 1)


def schedule() -> NoiseSchedule:
    """The noise schedule of the first DDPM."""
    return NoiseSchedule(np.cumprod(1 - np.linspace(1e-4, 0.02, 1000), dtype=np.float64))


def plan_within(mechanism: Mechanism, epsilon: float, steps: int, chunk_size: int, index_bits: int) -> Plan:
    """Equal steps whose certificate is just within ε, for images of three channels and any size."""
    noise = schedule()

    def plan(gain: float) -> Plan:
        times, units = [len(noise) - 1], 80 if mechanism.ordered else 0
        for number in range(1, steps + 1):
            near = noise.nearest(noise.snr(len(noise) - 1) + number * gain)
            times.append(max(min(near, times[-1] - 1), steps - number))
        pairs = itertools.pairwise(times)
        return Plan(mechanism, tuple(Step(t, s, gain, chunk_size, index_bits, units) for t, s in pairs))

    # ε grows with the gain, but for the truncation of levels: the largest of those tried that fits.
    low, high = 0.0, 4.0
    for _ in range(40):
        middle = float(np.float32((low + high) / 2))
        fits = Certificate.of(plan(middle), CHANNELS, chunk_size).epsilon <= epsilon
        low, high = (middle, high) if fits else (low, middle)
    return plan(low)


def _chain(plan: Plan, shape: Shape, number: int, denoiser: Denoiser | None = None) -> Chain:
    """A chain with the public seed of so many, on a denoiser or the simple one (which has all that a chain uses)."""
    public = denoiser or cast("Denoiser", Shrink(schedule()))
    return Chain(plan, public, number.to_bytes(16, "little"), shape)


@dataclass(frozen=True)
class Exact:
    """The largest loss of a kind of pairs."""

    kind: str
    claimed: float
    observed: tuple[float, ...]
    """Σ of the largest losses of the selections, for each pair."""
    attained: tuple[float, ...]
    """Losses of the outcomes that were released."""

    @property
    def ratio(self) -> float:
        """Largest loss over what is claimed."""
        return max(self.observed) / self.claimed

    @property
    def passed(self) -> bool:
        """Whether nothing exceeds the claim, and adversaries come close, by an outcome that was really released.

        The logarithms round by less than η, which is in the claim.
        """
        close = self.kind != "adversarial" or max(self.attained) >= NEARLY * self.claimed
        return close and self.ratio <= 1


def exact_audit(
    plan: Plan, shape: Shape, pairs: int, adversaries: int, denoiser: Denoiser | None = None
) -> list[Exact]:
    """Random, extreme and adversarial pairs of images, each pair with a public seed of its own."""
    claimed = Certificate.of(plan, shape[2], shape[0] * shape[1]).epsilon
    generator, found = np.random.default_rng(0), []
    for kind, make, count in (
        ("random", random_pair, pairs),
        ("extreme", extreme_pair, pairs),
        ("adversarial", adversarial_pair, adversaries),
    ):
        compared = []
        for number in range(count):
            chain = _chain(plan, shape, number, denoiser)
            compared.append(compare(chain, make(chain, generator), follow=kind == "adversarial"))
        observed, attained = ([getattr(one, name) for one in compared] for name in ("bound", "attained"))
        found.append(Exact(kind, claimed, tuple(observed), tuple(attained)))
    return found


def plan_for(mechanism: Mechanism, epsilon: float) -> tuple[Plan, Shape]:
    """A plan for the exact audit: images so large that the other pixels can favour a candidate as much as needed."""
    side = SIDE * math.ceil(math.sqrt(max(1.0, 1 / epsilon)))
    plan = plan_within(mechanism, epsilon, STEPS, side * side, INDEX_BITS)
    return plan, (side, side, CHANNELS)


def single_step(mechanism: Mechanism, epsilon: float) -> tuple[Plan, Shape]:
    """A plan of one step and one selection that carries all of ε: what black-box counts can show most of."""
    dims = BLACK_BOX_SIDE**2 * CHANNELS
    return plan_within(mechanism, epsilon, 1, dims, BLACK_BOX_BITS), (BLACK_BOX_SIDE, BLACK_BOX_SIDE, CHANNELS)


def black_box_audit(mechanism: Mechanism, epsilon: float, runs: int) -> dict[str, Any]:
    """One-step encodings of an adversarial pair, counted. The pair is the one whose exact laws promise most."""
    plan, shape = single_step(mechanism, min(epsilon, BLACK_BOX_CLAIM))
    claimed, chain = Certificate.of(plan, CHANNELS, shape[0] * shape[1]).epsilon, _chain(plan, shape, 0)
    tried = [adversarial_pair(chain, np.random.default_rng(1), spare) for spare in SPARES]
    pair = max(tried, key=lambda one: blackbox.promise(chain, one, runs))
    found = blackbox.audit(blackbox.encoder, chain, pair, runs)
    return {"ratio": found.epsilon / claimed, "observed": found.epsilon, "claimed": claimed, "runs": found.runs}


def control_audit(mechanism: Mechanism) -> dict[str, dict[str, Any]]:
    """Whether each broken encoder is found out, at a claim that some thousand runs can refute."""
    plan, shape = single_step(mechanism, CONTROL_CLAIM)
    claimed = Certificate.of(plan, CHANNELS, shape[0] * shape[1]).epsilon
    found: dict[str, dict[str, Any]] = {}
    for name, encode in controls.RELEASES.items():
        observed = 0.0
        for number in range(CONTROL_TRIES):
            chain, generator = _chain(plan, shape, number), np.random.default_rng(number)
            pair = grey_pair(chain, generator) if number % 2 else adversarial_pair(chain, generator, -3.0)
            observed = blackbox.audit(encode, chain, pair, CONTROL_RUNS).epsilon
            if observed > claimed:
                break
        found[name] = {"caught": observed > claimed, "by": "black box", "observed": observed, "claimed": claimed}
    plan, shape = plan_for(mechanism, CONTROL_CLAIM)
    claimed = Certificate.of(plan, CHANNELS, shape[0] * shape[1]).epsilon
    for name, (selector, law) in controls.COMPARISONS.items():
        for spare in SPARES:
            chain = _chain(plan, shape, 0)
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
    denoiser: str

    @property
    def passed(self) -> bool:
        """Whether the encoder keeps its claims and the audit can tell."""
        caught = all(control["caught"] for control in self.controls.values())
        return caught and all(one.passed for one in self.exact) and self.black_box["ratio"] <= 1

    def to_dict(self) -> dict[str, Any]:
        """The audit for JSON."""
        kinds = {
            one.kind: {
                "ratio": one.ratio,
                "observed": max(one.observed),
                "claimed": one.claimed,
                "attained": max(one.attained),
                "pairs": len(one.observed),
            }
            for one in self.exact
        }
        return {
            "exact": kinds,
            "black_box": self.black_box,
            "controls": self.controls,
            "passed": self.passed,
            "preset": self.preset,
            "epsilon": self.epsilon,
            "denoiser": self.denoiser,
        }


def _auditable(name: str, epsilon: float) -> Mechanism:
    mechanism = presets.preset(name).mechanism
    if not mechanism.certified:
        raise NoCertificateError(f"preset: {name} has no certificate, so there is nothing to audit; use another")
    if not LEAST <= epsilon <= LARGEST:
        raise DippError(f"epsilon: {LEAST} to {LARGEST:g} can be audited, got {epsilon:g}")
    return mechanism


def audit(name: str, epsilon: float, real: tuple[Plan, Denoiser] | None = None) -> Audit:
    """Audit a preset at about ε. A real plan and its denoiser, if given, go through the exact audit instead."""
    mechanism = _auditable(name, epsilon)
    if importlib.util.find_spec("torch") is None:
        raise DippError("audit: torch is missing; install dp-dipp[torch]")
    if real is None:
        exact, used = exact_audit(*plan_for(mechanism, epsilon), PAIRS, ADVERSARIES), "linear, for white noise"
    else:
        plan, denoiser = real
        shape = (*denoiser.sample_size, denoiser.channels)
        exact = exact_audit(plan, shape, PAIRS // 3, ADVERSARIES // 3, denoiser)
        used = denoiser.identity
    counted = black_box_audit(mechanism, epsilon, BLACK_BOX_RUNS)
    return Audit(name, epsilon, exact, counted, control_audit(mechanism), used)


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
