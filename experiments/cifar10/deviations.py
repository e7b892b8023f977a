"""The paper's appendix C: how far a step moves a coordinate, and its cost with Laplace and with Gaussian noise.

δ = |μ_q − μ_p|/σ = |x0 − x̂0|·√ΔSNR is the standardised mean deviation. It is measured on the coded chain itself, for
every coordinate that a step touches. In nats a Gaussian then costs δ²/2 and the Laplace of the same variance
√2·δ − 1 + e^(−√2·δ) = δ² + O(δ³): up to twice as much, and less where δ is large.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipp.codec.chain import Chain, Indices, StepLayout
from dipp.codec.decoder import IndexReader
from dipp.codec.pictures import Pixels
from dipp.core.arrays import Array, host
from dipp.core.channels import Gaussian, Laplace
from dipp.core.signal import to_signal
from dipp.format.archive import Archive
from dipp.models.denoiser import Denoiser

QUANTILES = {"low": 0.05, "q1": 0.25, "median": 0.5, "q3": 0.75, "high": 0.95}


@dataclass(frozen=True, eq=False)
class Observer:
    """A decoder's reader of indices that also notes the δ of every coordinate."""

    reader: IndexReader
    pixels: Pixels
    """The pictures that were encoded: images × coordinates."""
    met: list[NDArray[np.float32]] = field(default_factory=list)

    def __call__(self, layout: StepLayout, x_hat: Array) -> Indices:
        """Return the indices of a step, and note the δ of its coordinates."""
        clean = to_signal(self.pixels[:, layout.chunks.order].astype(np.float32))
        self.met.append(np.abs(clean - host(x_hat)) * np.float32(math.sqrt(layout.step.snr_gain)))
        return self.reader(layout, x_hat)


def measure(source: Archive, denoiser: Denoiser, pixels: Pixels) -> dict[str, Any]:
    """Return quantiles of δ over all steps, pictures and coordinates, and both divergences along the same chain."""
    plan, geometry, count = source.parameters.plan, source.geometry(0), len(pixels)
    reader = IndexReader(source.batch(0, count), plan.chunk_counts(geometry))
    observer = Observer(reader, pixels.reshape(count, -1))
    Chain(plan, denoiser, source.parameters.seed, geometry).run(range(count), observer)
    delta = np.concatenate([step.reshape(-1) for step in observer.met]).astype(np.float64)
    bits = {channel.name: float(channel.kl(delta).sum()) / pixels[..., 0].size for channel in (Laplace(), Gaussian())}
    return {
        "images": count,
        "quantiles": {name: float(np.quantile(delta, share)) for name, share in QUANTILES.items()},
        "above_one": float((delta > 1).mean()),
        "laplace_kl_bpp": bits["laplace"],
        "gaussian_kl_bpp": bits["gaussian"],
        "kl_ratio": bits["laplace"] / bits["gaussian"],
    }
