"""`dipp simulate`: send one private number many times through a stochastic code.

A histogram compares the received values with the true density, and a text states rate and certificate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from dipp import files
from dipp.cli.options import Overwrite, require_drawing
from dipp.codes import FlatCode, StepLimitedPPR
from dipp.core import randomness
from dipp.core.channels import Channel, Laplace, LocationChannel, Sign
from dipp.core.words import counted
from dipp.errors import DippError
from dipp.privacy.printing import upper

ONE_SHOT_CHANNELS: dict[str, Channel] = {
    "laplace": Laplace(),
    "sign": Sign(period=1),
}
"""Channels that can convey a single number in one step, by name."""
ALPHA = "2"
"""Default α of the Poisson order."""
DRAWN = Path("simulation.png")
"""Default path of the histogram. The other defaults give an ε just below 4, in a few seconds."""


def simulate(
    output: Annotated[Path, typer.Option("--output", "-o", help="PNG file of the histogram.")] = DRAWN,
    channel: Annotated[str, typer.Option(help="Noise: laplace or sign.")] = "laplace",
    code: Annotated[
        str, typer.Option(help="Stochastic code: ppr (step-limited, Poisson order) or flat (α = 1).")
    ] = "ppr",
    x: Annotated[float, typer.Option(help="The private number, in [-1, 1].")] = 0.5,
    snr: Annotated[float, typer.Option(help="Power of the largest x divided by that of the noise.")] = 0.12,
    alpha: Annotated[
        str | None, typer.Option(help="α of the Poisson order (ppr), a rational of at least 1.", show_default=ALPHA)
    ] = None,
    candidates: Annotated[int, typer.Option(help="Number n of candidates that the encoder weighs.")] = 1024,
    samples: Annotated[int, typer.Option(help="Number of times that x is encoded, each with a fresh seed.")] = 4000,
    overwrite: Overwrite = False,
) -> None:
    """Send one private number many times through a stochastic code; compare received values with the true density."""
    if code == "flat" and alpha is not None:
        raise DippError("alpha", "needs --code ppr: the flat code has α = 1", "leave it out")
    simulation = Simulation.prepare(channel, code, x, snr, ALPHA if alpha is None else alpha, candidates, samples)
    require_drawing("output", output, overwrite=overwrite)
    typer.echo(simulation.run(output))


@dataclass(frozen=True)
class Simulation:
    """A simulation: a code, a private number, and how often the number is sent."""

    code: StepLimitedPPR | FlatCode
    x: float = field(repr=False)
    """The private number, in [−1, 1]."""
    samples: int
    """Number of times that x is sent."""

    @classmethod
    def prepare(
        cls, channel: str, code: str, x: float, snr: float, alpha: str, candidates: int, samples: int
    ) -> Simulation:
        """Return the simulation for the options of the command; raise if one is invalid."""
        if channel not in ONE_SHOT_CHANNELS:
            raise DippError("channel", f"must be one of {', '.join(ONE_SHOT_CHANNELS)}, got {channel}")
        if not abs(x) <= 1:
            raise DippError("x", f"must be in [−1, 1], got {x}")
        if samples < 1:
            raise DippError("samples", f"must be at least 1, got {samples}")
        if code == "flat":
            return cls(FlatCode(ONE_SHOT_CHANNELS[channel], snr, 1, candidates), x, samples)
        if code != "ppr":
            raise DippError("code", f"must be ppr or flat, got {code}")
        try:
            rational = Fraction(alpha)
        except (ValueError, ZeroDivisionError):
            raise DippError("alpha", f"must be a rational such as 2 or 3/2, got {alpha}") from None
        return cls(StepLimitedPPR(ONE_SHOT_CHANNELS[channel], snr, 1, candidates, alpha=rational), x, samples)

    def run(self, output: Path) -> str:
        """Encode and decode x many times, draw the histogram, and return a text with rate and certificate."""
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
                f"received     {counted(self.samples, 'sample')}, mean {received.mean():.4f}, "
                f"deviation {received.std():.4f}",
                f"rate         {rate:.2f} bits a number, in whole bytes (divergence {kl:.3f} bits)",
                f"certificate  ε = {upper(self.code.epsilon)} for the number, pure, each time it is sent",
                f"histogram    {output}",
            )
        )

    def _draw(self, received: NDArray[np.float64], output: Path) -> None:
        """Write a histogram of received values as a PNG, with the true density if the noise has one."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7, 4), layout="constrained")
        axes = figure.add_subplot()
        # The samples next to the quantiles, so that even few samples lie between them.
        low, high = np.quantile(received, 0.001, method="lower"), np.quantile(received, 0.999, method="higher")
        edges = np.histogram_bin_edges(received, 80, (low, high))  # edges differ even if all samples are equal
        axes.hist(
            received,
            bins=edges.tolist(),
            density=True,
            color="#9ecae1",
            label="decoded from the bytes",
        )
        channel, scale = self.code.channel, 1 / math.sqrt(self.code.snr)
        if isinstance(channel, LocationChannel):
            grid = np.linspace(edges[0], edges[-1], 801)
            levels = np.linspace(1e-6, 1 - 1e-6, 20001)
            z = channel.quantile(levels)
            density = np.interp((grid - self.x) / scale, (z[1:] + z[:-1]) / 2, np.diff(levels) / np.diff(z)) / scale
            axes.plot(grid, density, color="#08306b", lw=1.5, label=f"true density ({channel.name})")
        axes.axvline(self.x, color="#d94801", lw=1, ls="--", label="private x")
        axes.set(
            xlabel="received value",
            ylabel="density",
            title=f"ε = {upper(self.code.epsilon, 4)}, n = {self.code.candidates}",
        )
        axes.legend(frameon=False)
        with files.atomic(output) as part:
            figure.savefig(part, format="png", dpi=120)
