"""The config of a network for photographs, and the computation of its inputs. No framework is imported here.

The functions take NumPy arrays and torch tensors alike, because the engines of the CPU run without PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

COLOURS = 3
"""Number of channels of the pictures."""
PLAIN = ("state", "inside")
"""Planes of a network that takes a state and one SNR."""
CHANNELS = {
    "state": COLOURS,
    "inside": 1,
    "precision": 1,
    "estimate": COLOURS,
    "estimate precision": 1,
    "compared": COLOURS,
    "answer": COLOURS,
}
"""Channels of each plane, in the order in which they are stacked."""
TOGETHER = (("estimate", "estimate precision"), ("compared", "answer"))
"""Pairs of planes that a network takes together or not at all."""
PRECISION_SCALE = 8.0
"""Divisor of the logarithms of precisions, so that they are of the order of 1."""
FOLD = 2
"""Side of the squares of pixels that are folded into channels."""
SNR_RANGE = (1e-4, 1e4)
"""Smallest and largest SNR of the embedding."""
OCTAVES = 2.0 ** np.arange(2, -4, -1)
"""Periods of the embedding's waves, in multiples of the range of ln SNR."""
WAVES = (2 * math.pi / (math.log(SNR_RANGE[1] / SNR_RANGE[0]) * OCTAVES)).astype(np.float32)
"""Angular frequencies of the embedding on ln SNR."""
LARGEST_SNR = 1e3
"""Largest SNR of training, at which noise cannot be seen. It replaces larger SNRs."""


@dataclass(frozen=True)
class Config:
    """The sizes of a network for photographs, and its input planes. Scales are listed from fine to coarse.

    Raises:
        ValueError: The sizes do not fit each other, or a plane is unknown.
    """

    channels: tuple[int, ...] = (64, 128, 192, 256, 320)
    """Number of channels at each scale."""
    down: tuple[int, ...] = (1, 1, 1, 1, 1)
    """Number of blocks at each scale on the way down; at the coarsest scale, of all its blocks."""
    up: tuple[int, ...] = (3, 2, 2, 1)
    """Number of blocks at each scale on the way up, without the coarsest scale."""
    embedding: int = 128
    """Number of channels of the embedding of ln SNR."""
    deviation: float = 0.5
    """Standard deviation of pixel values in [−1, 1], which scales the network's correction."""
    planes: tuple[str, ...] = PLAIN
    """Names of the planes that the network takes, in the order of `CHANNELS`."""

    def __post_init__(self) -> None:
        if not len(self.channels) == len(self.down) == len(self.up) + 1:
            raise ValueError("channels and down must have one entry for each scale, and up one less")
        for least, values in ((1, (*self.channels, self.embedding)), (0, (*self.down, *self.up))):
            if not all(type(value) is int and value >= least for value in values):
                raise ValueError("channels and embedding must be whole numbers of 1 or more, down and up of 0 or more")
        if isinstance(self.deviation, bool) or not 0 < self.deviation < math.inf:
            raise ValueError("deviation must be a positive number")
        named = tuple(name for name in CHANNELS if name in self.planes)
        apart = any((first in named) != (second in named) for first, second in TOGETHER)
        if self.planes != named or named[:2] != PLAIN or apart:
            raise ValueError(f"planes must be from {', '.join(CHANNELS)}, in this order, with the first two")

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Config:
        """Return the config in a JSON object, without keys that start with an underscore.

        Raises:
            TypeError: A key is unknown.
            ValueError: A value is invalid.
        """
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in content.items()
            if not name.startswith("_")
        }
        return cls(**fields)

    @property
    def inputs(self) -> int:
        """Number of channels of all planes."""
        return sum(CHANNELS[name] for name in self.planes)

    @property
    def stride(self) -> int:
        """Side, in pixels, of the square that one position at the coarsest scale covers."""
        return FOLD << (len(self.channels) - 1)

    @property
    def margin(self) -> int:
        """Largest distance, in pixels, of inputs that an output depends on, rounded up to a multiple of the stride.

        A 3×3 convolution reaches as far as one position of its scale, and a block has two of them. Folding and going
        down reach over the rest of a position, which in all is less than one stride.
        """
        reach = 2 * FOLD  # the convolutions in and out
        for scale, blocks in enumerate(self.down):
            reach += 2 * (blocks + (self.up[scale] if scale < len(self.up) else 0)) * (FOLD << scale)
        return -(-(reach + self.stride - 1) // self.stride) * self.stride

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of all weights in PyTorch's layout, by their names."""
        fine, shapes = self.channels[0], dict[str, tuple[int, ...]]()

        def layer(name: str, weight: tuple[int, ...], outputs: int) -> None:
            shapes.update({f"{name}.weight": weight, f"{name}.bias": (outputs,)})

        layer("embed.0", (self.embedding, 2 * len(WAVES)), self.embedding)
        layer("enter", (fine, self.inputs * FOLD**2, 3, 3), fine)
        for way, counts in (("downs", self.down), ("ups", self.up)):
            for scale, (channels, blocks) in enumerate(zip(self.channels, counts, strict=False)):
                for number in range(blocks):
                    block = f"{way}.{scale}.{number}"
                    for name in ("first", "second"):
                        layer(f"{block}.{name}", (channels, channels, 3, 3), channels)
                    layer(f"{block}.modulation", (2 * channels, self.embedding), 2 * channels)
        for scale, (a, b) in enumerate(pairwise(self.channels)):
            layer(f"shrink.{scale}", (b, a, 2, 2), b)
            layer(f"grow.{scale}", (b, a, 2, 2), a)
        layer("leave", (COLOURS * FOLD**2, fine, 3, 3), COLOURS * FOLD**2)
        return shapes

    def conditioned(self, snr: Any) -> tuple[Any, Any, Any]:
        """Return the factors *in* of the network's input, *out* of its output and *skip* of the state, at given SNRs.

        Args:
            snr: SNRs, an array or tensor of any shape, or a number.
        """
        power = 1 + snr * self.deviation**2
        return (snr / power) ** 0.5, self.deviation * power**-0.5, 1 - 1 / power

    def given(self, told: Any, level: Any, library: Any) -> tuple[Any, Any, Any]:
        """Return what the network F is given for states y, and the rest of x̂0 = skip·y + out·F (`network`).

        Args:
            told: Stacked planes of evidence (N, K, H, W), without `inside` (`Evidence.stacked`).
            level: The SNR of each picture (N, 1, 1, 1), or of all pictures (1, 1, 1, 1); at most `LARGEST_SNR`.
            library: The module `numpy` or `torch` that the arrays belong to.

        Returns:
            The planes of F (N, inputs, H, W), the part skip·y, and the factor out.
        """
        parts, first = dict[str, Any](), 0
        for name in self.planes:
            if name != "inside":
                parts[name] = told[:, first : first + CHANNELS[name]]
                first += CHANNELS[name]
        y, known = parts["state"], parts.get("precision", level)
        enter, out, skip = self.conditioned(known)
        planes = [enter * y, library.ones_like(y[:, :1])]
        if "precision" in parts:
            planes.append((library.log(known.clip(*SNR_RANGE)) - library.log(level.clip(*SNR_RANGE))) / PRECISION_SCALE)
        if "estimate" in parts:
            scale, _, share = self.conditioned(parts["estimate precision"])
            planes += [scale * parts["estimate"], share]
        if "compared" in parts:
            planes += [parts["compared"] / self.deviation, parts["answer"]]
        return library.concatenate(planes, 1), skip * y, out
