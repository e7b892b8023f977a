"""The exact audit: kinds of neighbouring images, their exact losses and divergences, and the claims about them.

| kind | images | what for |
|---|---|---|
| random | noise; a unit takes other values | what is usual |
| extreme | black and white; a unit goes from black to white | what is usual at worst |
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
"""Attempts at making an adversarial pair, and at making a small pair. The first attempt knows no predictions yet."""
SMALL = 8
"""Grey levels by which each channel of a pixel changes in small pairs."""
NEARLY = 0.99
"""Share of the claim that adversarial pairs must reach; otherwise the audit itself is broken."""


@dataclass(frozen=True)
class ExactAudit:
    """The exact audit of one kind of pairs of neighbouring images. Losses and ε are in nats, per unit."""

    kind: str
    """Kind of the pairs: random, extreme, balanced, adversarial or small."""
    claimed: float
    """The claimed ε."""
    observed: tuple[float, ...]
    """Sum over the selections of the largest loss, for each pair."""
    attained: tuple[float, ...]
    """Loss of the outcomes that were really released, for each pair."""
    claimed_rho: float
    """The claimed ρ of zero-concentrated differential privacy."""
    rho: tuple[float, ...]
    """Largest ratio of a Rényi divergence to its order, for each pair; it must not exceed the claimed ρ."""
    draws: int
    """Number of draws that were repeated with known bytes instead of random ones."""
    wrong: int
    """Number of those draws that differed from the exact ones."""

    @classmethod
    def of(cls, kind: str, claimed: float, claimed_rho: float, compared: Sequence[Comparison]) -> ExactAudit:
        """Return the audit of one kind of pairs, from a comparison of the two images of each pair.

        Args:
            kind: Kind of the pairs.
            claimed: The claimed ε.
            claimed_rho: The claimed ρ.
            compared: A comparison for each pair.
        """
        return cls(
            kind,
            claimed,
            tuple(comparison.bound for comparison in compared),
            tuple(comparison.attained for comparison in compared),
            claimed_rho,
            tuple(float(np.max(comparison.divergences / ORDERS)) for comparison in compared),
            sum(comparison.draws for comparison in compared),
            sum(comparison.wrong for comparison in compared),
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
        """Whether no loss or divergence exceeds its claim, and all draws were exact.

        No tolerance is needed: rounding of the losses is smaller than the claims are rounded up.
        """
        return self.ratio <= 1 and self.rho_ratio <= 1 and not self.wrong

    @property
    def reached(self) -> bool:
        """Whether an outcome that was really released nearly reaches the claim."""
        return max(self.attained) >= NEARLY * self.claimed

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a dictionary for JSON."""
        losses = {"ratio": self.ratio, "observed": max(self.observed), "claimed": self.claimed}
        losses |= {"attained": max(self.attained), "pairs": len(self.observed)}
        rho = {"ratio": self.rho_ratio, "observed": max(self.rho), "claimed": self.claimed_rho, "orders": ORDERS}
        return losses | {"rho": rho, "draws": self.draws, "wrong": self.wrong}


def audit(
    plan: Plan, geometry: Geometry, pairs: int, adversaries: int, denoiser: Denoiser | None = None
) -> list[ExactAudit]:
    """Compute the exact losses of pairs of neighbouring images, of five kinds; each pair has its own public seed.

    Args:
        plan: The plan to encode with.
        geometry: Size of the images.
        pairs: Number of random and of extreme pairs.
        adversaries: Number of balanced, of adversarial and of small pairs.
        denoiser: The denoiser of the plan; by default the simple public one of `setting`.

    Returns:
        A result for each kind: random, extreme, balanced, adversarial, small.
    """
    claimed = Certificate.of(plan, geometry)
    black, grey = (np.full((1, 1, geometry.channels), level, np.uint8) for level in (0, SMALL))
    epsilon, rho, between = claimed.epsilon, claimed.rho, claimed.between(black, grey)
    chains = [chain_of(plan, geometry, number, denoiser) for number in range(max(pairs, adversaries))]
    many, few, generator = chains[:pairs], chains[:adversaries], np.random.default_rng(0)
    return [
        ExactAudit.of("random", epsilon, rho, [compare(chain, random_pair(chain, generator)) for chain in many]),
        ExactAudit.of("extreme", epsilon, rho, [compare(chain, extreme_pair(chain, generator)) for chain in many]),
        ExactAudit.of("balanced", epsilon, rho, [compare(chain, balanced_pair(chain, generator)) for chain in few]),
        ExactAudit.of("adversarial", epsilon, rho, [_attack(chain, epsilon) for chain in few]),
        ExactAudit.of("small", between, rho, [_attack(chain, between, SMALL, SMALL_ATTEMPTS) for chain in few]),
    ]


def _attack(chain: Chain, claimed: float, change: int = LARGEST, attempts: int = ATTEMPTS) -> Comparison:
    """Return the comparison of largest loss among a few adversarial pairs; each uses the last one's predictions."""
    predictions, comparisons = None, []
    for number in range(attempts):
        pair = adversarial_pair(chain, np.random.default_rng(number), predictions=predictions, change=change)
        comparisons.append(compare(chain, pair, follow=True))
        if comparisons[-1].attained >= NEARLY * claimed:
            break
        predictions = comparisons[-1].predictions
    return max(comparisons, key=lambda comparison: comparison.attained)
