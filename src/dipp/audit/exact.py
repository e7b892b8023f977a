"""The exact audit: kinds of neighbouring images, their exact losses and divergences, and what is claimed of them.

| kind | images | what for |
|---|---|---|
| random | noise; a pixel takes another value | what is usual |
| extreme | black and white; a pixel goes from black to white | what is usual at worst |
| balanced | the dearest pixel goes from black to white, and no candidate is favoured | comes closest to ρ |
| adversarial | the same, and the other pixels favour a candidate | comes closest to ε, or the audit is broken |
| small | the same for a small change, where the clip lets all of it through | what `Certificate.between` claims |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dipp.audit.likelihood import ORDERS, Comparison, compare
from dipp.audit.neighbours import LARGEST, adversarial_pair, balanced_pair, extreme_pair, random_pair
from dipp.audit.setting import chain_of
from dipp.codec.chain import Chain
from dipp.core.geometry import Geometry
from dipp.core.plan import Plan
from dipp.privacy.certificate import Certificate

if TYPE_CHECKING:
    from dipp.models.denoiser import Denoiser

ATTEMPTS, SMALL_ATTEMPTS = 4, 2
"""Attempts at making an adversarial pair and a small one: the first knows no predictions yet."""
SMALL = 8
"""Levels, of 255, by which each channel of a pixel changes in small pairs."""
NEARLY = 0.99
"""Share of the claim that adversarial pairs must reach, or the audit itself is broken."""


@dataclass(frozen=True)
class Exact:
    """The exact audit of one kind of pairs. Losses and ε are in nats, per unit."""

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
    def of(cls, kind: str, claimed: float, claimed_rho: float, compared: Sequence[Comparison]) -> Exact:
        """Gather the comparisons of one kind of pairs."""
        return cls(
            kind,
            claimed,
            tuple(one.bound for one in compared),
            tuple(one.attained for one in compared),
            claimed_rho,
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

        The logarithms are rounded by less than the claims are rounded up.
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


def audit(
    plan: Plan, geometry: Geometry, pairs: int, adversaries: int, denoiser: Denoiser | None = None
) -> list[Exact]:
    """Audit `pairs` pairs of each of the first two kinds, and `adversaries` of the others, each with its own seed."""
    claimed = Certificate.of(plan, geometry)
    black, grey = (np.full((1, 1, geometry.channels), level, np.uint8) for level in (0, SMALL))
    epsilon, rho, between = claimed.epsilon, claimed.rho, claimed.between(black, grey)
    chains = [chain_of(plan, geometry, number, denoiser) for number in range(max(pairs, adversaries))]
    many, few, generator = chains[:pairs], chains[:adversaries], np.random.default_rng(0)
    return [
        Exact.of("random", epsilon, rho, [compare(chain, random_pair(chain, generator)) for chain in many]),
        Exact.of("extreme", epsilon, rho, [compare(chain, extreme_pair(chain, generator)) for chain in many]),
        Exact.of("balanced", epsilon, rho, [compare(chain, balanced_pair(chain, generator)) for chain in few]),
        Exact.of("adversarial", epsilon, rho, [_attack(chain, epsilon) for chain in few]),
        Exact.of("small", between, rho, [_attack(chain, between, SMALL, SMALL_ATTEMPTS) for chain in few]),
    ]


def _attack(chain: Chain, claimed: float, change: int = LARGEST, attempts: int = ATTEMPTS) -> Comparison:
    """The adversarial pair of largest loss out of a few, each made with the predictions that the one before met."""
    predictions, found = None, []
    for number in range(attempts):
        pair = adversarial_pair(chain, np.random.default_rng(number), predictions=predictions, change=change)
        found.append(compare(chain, pair, follow=True))
        if found[-1].attained >= NEARLY * claimed:
            break
        predictions = found[-1].predictions
    return max(found, key=lambda one: one.attained)
