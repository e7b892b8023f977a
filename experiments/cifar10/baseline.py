"""The baseline: Laplace noise on every channel, then a lossless codec (privatise, then compress).

**Certificate.** A channel lies in [0, 255], so noise of scale b = 255·C/ε makes it (ε/C)-DP, and a pixel of C channels
ε-DP; rounding, the clamp and the codec are post-processing. That is the mathematics. In this experiment the
noise comes from an ordinary floating-point generator, so no picture made by it should be released.
"""

from __future__ import annotations

import functools
import io
import math
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image
from scipy import stats  # type: ignore[import-untyped,unused-ignore]

from dipp.codec.pictures import Pixels
from dipp.core.signal import HALF
from dipp.errors import DippError
from dipp.privacy import conversions

LARGEST = 255
"""Largest change of a channel."""
CODECS: dict[str, dict[str, Any]] = {
    "png": {"format": "PNG", "optimize": True},
    "webp": {"format": "WEBP", "lossless": True, "quality": 100},
    "jxl": {"format": "JXL", "lossless": True, "effort": 7},
}
"""Lossless codecs and their options. Each writes one file per picture. More effort would save less than 1 %."""
PACKED = "packed"
"""Name for storing one bit per pixel without a codec."""
COUNTED = 10_000
"""The most pictures whose files are counted."""
ORDERS = 1 + np.geomspace(1e-6, 1e6, 4001)
"""Rényi orders on which ρ is bounded."""


@dataclass(frozen=True)
class LaplaceNoise:
    """Independent Laplace noise on the channels of a pixel."""

    epsilon: float
    """Pure ε per pixel."""
    channels: int = 3

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < math.inf:
            raise DippError("epsilon", f"must be finite and above 0, got {self.epsilon}")

    @property
    def scale(self) -> float:
        """Return the scale of the noise in grey levels: 255·C/ε for C channels."""
        return LARGEST * self.channels / self.epsilon

    def privatise(self, pixels: Pixels, generator: np.random.Generator) -> Pixels:
        """Add noise to pictures, round and clip them."""
        noise = generator.laplace(scale=self.scale, size=pixels.shape)
        return np.clip(np.rint(pixels + noise), 0, LARGEST).astype(np.uint8)

    @functools.cached_property
    def line(self) -> tuple[float, float]:
        """Gain and deviation of the line around which released values lie: y ≈ gain·x + deviation·noise.

        Values are in a denoiser's units, with the clamp at ±1. The line is that of least squares for x uniform on the
        256 values. Clamping pulls towards the centre, so gain < 1; by symmetry the line goes through the centre. The
        sums are E(y | x) = Σ P(y > k | x) and E(y² | x) = Σ (2k + 1)·P(y > k | x) over k = 0 … 254, and y > k where x +
        noise > k + ½.
        """
        x, k = np.arange(LARGEST + 1.0), np.arange(float(LARGEST))
        above = stats.laplace.sf(k + 0.5 - x[:, None], scale=self.scale)
        mean, square = above.sum(1), above @ (2 * k + 1)
        gain = float(np.cov(x, mean, bias=True)[0, 1] / x.var())
        variance = float(square.mean() - mean.mean() ** 2 - gain**2 * x.var())
        return gain, math.sqrt(variance) / HALF

    @property
    def rho(self) -> float:
        """ρ of zCDP: C times sup D_a/a over the orders a > 1.

        With e = ε/C, D_a = ln(a/(2a−1)·e^((a−1)e) + (a−1)/(2a−1)·e^(−ae))/(a−1) [Mironov, 2017, Proposition 6]. It
        grows with a, so D_a'/a bounds D/order on [a, a']; above the grid D_∞/a = e/a does, below it D_a.
        """
        e, a = self.epsilon / self.channels, ORDERS
        grown = np.logaddexp(np.log(a / (2 * a - 1)) + (a - 1) * e, np.log((a - 1) / (2 * a - 1)) - a * e) / (a - 1)
        bounds = np.append(grown, e) / np.append(1.0, a)
        return self.channels * min(float(bounds.max()), e * e / 2) * conversions.UP

    def approximate(self, delta: float) -> float:
        """Return ε of (ε, δ): the smaller of pure ε and the conversion of ρ."""
        return min(self.epsilon, conversions.epsilon_of_zcdp(self.rho, delta))


def file_bytes(pictures: Iterable[Pixels], codec: str) -> int:
    """Return the bytes of each picture's file, as a codec of `CODECS` writes it."""
    if codec not in CODECS:
        raise DippError("codec", f"must be one of {', '.join(CODECS)}, got {codec}")
    if codec == "jxl":
        try:
            import pillow_jxl as _  # noqa: F401 - adds the format to PIL
        except ImportError:
            raise DippError("codec", "needs the package pillow-jxl-plugin", 'pip install ".[experiment]"') from None

    def size(picture: Pixels) -> int:
        buffer = io.BytesIO()
        Image.fromarray(picture).save(buffer, **CODECS[codec])
        return buffer.tell()

    with ThreadPoolExecutor() as pool:  # the codecs run outside Python's lock
        return sum(pool.map(size, pictures))
