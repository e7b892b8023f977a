"""One private number, sent many times through a stochastic code: bytes, samples, a histogram against the density."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dipp import randomness
from dipp.channels import Channel, Huber, Laplace, LocationChannel, Logistic, Sign
from dipp.codes import FlatCode, StepLimitedPPR
from dipp.errors import DippError

CHANNELS: dict[str, Channel] = {
    "laplace": Laplace(),
    "logistic": Logistic(),
    "huber": Huber(1.0),
    "sign": Sign(period=1),
}


@dataclass(frozen=True)
class Simulation:
    """A code, the number that it hides, and how often it is sent."""

    code: StepLimitedPPR | FlatCode
    x: float = field(repr=False)
    samples: int

    @classmethod
    def prepare(
        cls, channel: str, code: str, x: float, snr: float, alpha: str, candidates: int, samples: int
    ) -> Simulation:
        """Check the words of a command and make the code."""
        if channel not in CHANNELS:
            raise DippError(f"channel: one of {', '.join(CHANNELS)} is needed, got {channel}")
        if not abs(x) <= 1:
            raise DippError("x: a number in [-1, 1] is needed")
        if samples < 1:
            raise DippError(f"samples: at least one is needed, got {samples}")
        if code == "flat":
            return cls(FlatCode(CHANNELS[channel], snr, 1, candidates), x, samples)
        if code != "ppr":
            raise DippError(f"code: ppr or flat is needed, got {code}")
        try:
            rational = Fraction(alpha)
        except (ValueError, ZeroDivisionError):
            raise DippError(f"alpha: a rational such as 2 or 3/2 is needed, got {alpha}") from None
        return cls(StepLimitedPPR(CHANNELS[channel], snr, 1, candidates, alpha=rational), x, samples)

    def run(self, output: Path) -> str:
        """Encode to bytes, decode from them, draw the histogram; the text tells rate and certificate."""
        if not output.parent.is_dir() or output.is_dir():
            raise DippError(f"output: {output} is a folder, or its folder does not exist; name a file in one that does")
        x = np.array([self.x])
        received, sent = np.empty(self.samples), 0
        for i in range(self.samples):
            seed = randomness.fresh_seed()
            payload = self.code.encode(x, seed)
            received[i] = self.code.decode(payload, seed)[0]
            sent += len(payload)
        self._draw(received, output)
        scale = 1 / math.sqrt(self.code.snr)
        kl = float(self.code.channel.kl(np.asarray(self.x / scale)))
        rate = 8 * sent / self.samples
        return "\n".join(
            (
                f"channel      {self.code.channel.name}, noise of standard deviation {scale:.3f} on x = {self.x:g}",
                f"received     {self.samples} samples, mean {received.mean():.4f}, deviation {received.std():.4f}",
                f"rate         {rate:.2f} bits a number, in whole bytes (divergence {kl:.3f} bits)",
                f"certificate  ε = {self.code.epsilon:.4f} for the number, pure, each time it is sent",
                f"histogram    {output}",
            )
        )

    def _draw(self, received: NDArray[np.float64], output: Path) -> None:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7, 4), layout="constrained")
        axes = figure.add_subplot()
        low, high = np.quantile(received, [0.001, 0.999])
        axes.hist(
            received,
            bins=np.linspace(low, high, 81).tolist(),
            density=True,
            color="#9ecae1",
            label="decoded from the bytes",
        )
        channel, scale = self.code.channel, 1 / math.sqrt(self.code.snr)
        if isinstance(channel, LocationChannel):
            grid = np.linspace(low, high, 801)
            edges = np.linspace(1e-6, 1 - 1e-6, 20001)
            z = channel.quantile(edges)
            density = np.interp((grid - self.x) / scale, (z[1:] + z[:-1]) / 2, np.diff(edges) / np.diff(z)) / scale
            axes.plot(grid, density, color="#08306b", lw=1.5, label=f"true density ({channel.name})")
        axes.axvline(self.x, color="#d94801", lw=1, ls="--", label="private x")
        axes.set(
            xlabel="received value", ylabel="density", title=f"ε = {self.code.epsilon:.2f}, n = {self.code.candidates}"
        )
        axes.legend(frameon=False)
        partial = output.with_name(f".{output.name}.partial")
        try:
            figure.savefig(partial, format="png", dpi=120)
            partial.replace(output)
        except OSError as error:
            raise DippError(f"output: {output} cannot be written ({error.strerror}); name another place") from None
