"""Gaussian diffusion without a code: the (ε, δ) of releasing a noisy state x_s (the paper's appendix A).

It has no pure ε at any noise level, and certifies no file of dipp, because indices and the public seed tell at least
as much as the state that they lead to. It serves for comparison with certificates.

**One step.** Given the state x_t, the mean of x_s moves by √(SNR(s) − SNR(t))·D in units of its deviation σ(s, t), when
the image moves by D in the Euclidean norm: a pixel of C channels in [−1, 1] moves by D = 2√C at most. A Gaussian that
moves by μ deviations is (ε, δ)-DP if and only if

    δ ≥ Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ)                                        [Balle & Wang, 2018, Theorem 8]

**A whole schedule.** The log likelihood ratio of one step is N(±μ²/2, μ²), whatever came before, so that of all steps
together is N(±Σμ²/2, Σμ²): exactly the ratio of a single Gaussian that moves by √Σμ². As μ² = ΔSNR·D² telescopes, the
schedule does not matter, only where it ends. No composition theorem is needed, and none could be tighter.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from dipp.errors import DippError

DIAMETER = 2.0
"""Largest change of a channel, whose values are in [−1, 1]."""
HALVINGS = 200
"""Number of bisection steps: more than enough to reach neighbouring floats."""


@dataclass(frozen=True)
class GaussianDiffusion:
    """Gaussian diffusion whose noisy states are released down to a signal-to-noise ratio; the unit is a pixel."""

    snr: float
    """SNR of the last state; if the chain starts from common randomness, less the SNR of the start."""
    channels: int = 3

    def __post_init__(self) -> None:
        if not 0 < self.snr < math.inf:
            raise DippError("snr", f"must be finite and above 0, got {self.snr}")
        if self.channels < 1:
            raise DippError("channels", f"must be a whole number of at least 1, got {self.channels}")

    @classmethod
    def of_steps(cls, gains: Iterable[float], channels: int = 3) -> GaussianDiffusion:
        """Return the schedule of steps with these SNR gains."""
        steps = tuple(gains)
        if not all(0 < gain < math.inf for gain in steps):
            raise DippError("gains", "must be finite and above 0")
        return cls(math.fsum(steps), channels)

    @property
    def mu(self) -> float:
        """Return μ of Gaussian differential privacy: by how many standard deviations a pixel can move the states."""
        return DIAMETER * math.sqrt(self.channels * self.snr)

    @property
    def rho(self) -> float:
        """Return ρ of zCDP, which is μ²/2."""
        return self.mu**2 / 2

    def delta(self, epsilon: float) -> float:
        """Return the smallest δ that holds with ε."""
        if not 0 <= epsilon < math.inf:
            raise DippError("epsilon", f"must be finite and at least 0, got {epsilon}")
        return _delta(self.mu, epsilon)

    def epsilon(self, delta: float) -> float:
        """Return the smallest ε ≥ 0 that holds with δ."""
        if not 0 < delta < 1:
            raise DippError("delta", f"must be between 0 and 1, got {delta}")
        if _delta(self.mu, 0.0) <= delta:
            return 0.0
        # δ falls with ε, and a Gaussian tail bounds it at the upper end.
        low, high = 0.0, self.rho + self.mu * math.sqrt(2 * math.log(1 / delta))
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            if _delta(self.mu, middle) <= delta:
                high = middle
            else:
                low = middle
        return high


def _delta(mu: float, epsilon: float) -> float:
    """Return Φ(a) − e^ε·Φ(b) with a = μ/2 − ε/μ and b = a − μ, without the cancellation of large numbers.

    As b² = a² + 2ε, e^ε·Φ(b) = e^(−a²/2)·erfcx(−b/√2)/2, and for a < 0 Φ(a) is of the same form.
    """
    from scipy import special  # imported here, because the import is slow and few functions need it

    a = mu / 2 - epsilon / mu
    behind = special.erfcx((mu - a) / math.sqrt(2))
    if a < 0:
        return max(0.0, math.exp(-a * a / 2) / 2 * float(special.erfcx(-a / math.sqrt(2)) - behind))
    return max(0.0, float(special.ndtr(a) - math.exp(-a * a / 2) / 2 * behind))
