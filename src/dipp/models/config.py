"""The config of a network for photographs, and what the network is given. No framework is imported here.

What is computed is written for NumPy arrays and torch tensors alike: the engines of the CPU need no PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

COLOURS = 3
PLAIN = ("state", "inside")
"""Planes of a network that is told a state and one SNR."""
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
"""Planes that a network has both or neither of."""
PRECISION_SCALE = 8.0
FOLD = 2
SNR_RANGE = (1e-4, 1e4)
"""SNRs that the waves of the embedding span."""
OCTAVES = 2.0 ** np.arange(2, -4, -1)
WAVES = (2 * math.pi / (math.log(SNR_RANGE[1] / SNR_RANGE[0]) * OCTAVES)).astype(np.float32)
"""Angular frequencies of the embedding on ln SNR: periods from four times the range down to an eighth of it."""
LARGEST_SNR = 1e3
"""Largest SNR of training: a state of a larger one is taken for a state of this, whose noise cannot be seen."""


@dataclass(frozen=True)
class Config:
    """The size of a network: per scale, from fine to coarse, its channels and blocks on the way down and up."""

    channels: tuple[int, ...] = (64, 128, 192, 256, 320)
    down: tuple[int, ...] = (1, 1, 1, 1, 1)
    """Blocks at each scale before going down; at the coarsest scale, all of its blocks."""
    up: tuple[int, ...] = (3, 2, 2, 1)
    """Blocks at each scale but the coarsest, after coming up."""
    embedding: int = 128
    """Channels of what is made of ln SNR."""
    deviation: float = 0.5
    """Standard deviation of pixel values in [−1, 1]; it only scales the network's correction."""
    planes: tuple[str, ...] = PLAIN
    """What the network is told."""

    def __post_init__(self) -> None:
        if not len(self.channels) == len(self.down) == len(self.up) + 1:
            raise ValueError("channels and down need one entry a scale, up one less")
        for least, values in ((1, (*self.channels, self.embedding)), (0, (*self.down, *self.up))):
            if not all(type(value) is int and value >= least for value in values):
                raise ValueError("channels and embedding must be whole numbers from 1 on, down and up from 0 on")
        if isinstance(self.deviation, bool) or not 0 < self.deviation < math.inf:
            raise ValueError("deviation must be a number above 0")
        named = tuple(name for name in CHANNELS if name in self.planes)
        apart = any((one in named) != (other in named) for one, other in TOGETHER)
        if self.planes != named or named[:2] != PLAIN or apart:
            raise ValueError(f"planes must be of {', '.join(CHANNELS)}, in this order, with the first two")

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Config:
        """The config in a JSON object; keys that start with an underscore are not of the network."""
        own: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in content.items()
            if not name.startswith("_")
        }
        return cls(**own)

    @property
    def inputs(self) -> int:
        """Channels of all planes."""
        return sum(CHANNELS[name] for name in self.planes)

    @property
    def stride(self) -> int:
        """Pixels that one position at the coarsest scale stands for."""
        return FOLD << (len(self.channels) - 1)

    @property
    def margin(self) -> int:
        """Pixels beyond which nothing reaches an output, as a multiple of the stride.

        A 3×3 convolution reaches as far as its scale's step, and a block has two of them; folding and going down reach
        over the rest of a cell, which together is less than one stride.
        """
        reach = 2 * FOLD  # the convolutions in and out
        for scale, blocks in enumerate(self.down):
            reach += 2 * (blocks + (self.up[scale] if scale < len(self.up) else 0)) * (FOLD << scale)
        return -(-(reach + self.stride - 1) // self.stride) * self.stride

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of all weights by their names, as PyTorch stores them."""
        fine, found = self.channels[0], dict[str, tuple[int, ...]]()

        def layer(name: str, weight: tuple[int, ...], outputs: int) -> None:
            found.update({f"{name}.weight": weight, f"{name}.bias": (outputs,)})

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
        return found

    def conditioned(self, snr: Any) -> tuple[Any, Any, Any]:
        """Return in, out and skip at SNRs."""
        power = 1 + snr * self.deviation**2
        return (snr / power) ** 0.5, self.deviation * power**-0.5, 1 - 1 / power

    def given(self, told: Any, level: Any, library: Any) -> tuple[Any, Any, Any]:
        """Return what F is given (N, inputs, H, W), and the part skip·y and the factor out of the estimate.

        Args:
            told: Stacked planes (N, K, H, W), without `inside`.
            level: The SNR of each picture, or one of all, (N, 1, 1, 1); at most `LARGEST_SNR`.
            library: NumPy or PyTorch, which both are arrays of.
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
