"""A fully convolutional network for pictures of any height and width: that of the denoiser that ships.

**What it computes.** A state is y = x0 + noise/√SNR, with the SNR as a number, and the network estimates E[x0 | y].
With the deviation d of pixel values, the estimate is the best linear one plus a correction by the network F,

    x̂0 = skip·y + out·F(in·y, ln SNR),    skip = SNR·d²/(1 + SNR·d²),  out = d/√(1 + SNR·d²),  in = √SNR/√(1 + SNR·d²)

(Karras et al., 2022), so that F takes and gives values of the order of 1 at every SNR. At SNR 0 nothing of y is used,
and the estimate is the network's idea of a mean picture.

**Shape.** Pixels are folded 2×2 into channels, and then comes a U-net of plain 3×3 residual blocks: at each of five
scales the block's hidden channels are scaled and shifted by functions of ln SNR. Going down is a 2×2 convolution, going
up its transpose, and what goes up is added to what came down. There is no attention and no normalisation: an output
depends on the inputs within `margin` pixels and on nothing else, so tiles can give what the whole gives (`tiles`).

**Borders.** A picture is continued with zeros to a multiple of `stride`, and one more input plane says what is inside.
Training says so with a mask, for batches of one shape that hold pictures of many sizes.

**Planes.** What the network is told is one stacked tensor (`evidence.stacked`), whose planes the config names:

    state               y of each colour; F is given in·y
    inside              made here: 1 inside the picture and 0 outside
    precision           the SNR s of each pixel; F is given ln(s/SNR)/8, which is 0 where all are known alike
    estimate            e of each colour, of precision p; F is given √p/√(1 + p·d²)·e
    estimate precision  p; F is given p·d²/(1 + p·d²)
    compared            what each coordinate was last compared with; F is given it in units of d
    answer              what came of it, from −1 to 1, and 0 where nothing was asked; F is given it as it is

With a plane of precisions, skip, out and in are those of each pixel's own s, and the SNR scales the features
alone. All planes but the first two are 0 for a state of one SNR: with zero weights for them, a network computes what it
did without them, so training may go on from one with fewer planes (`widened`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

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


class Block(nn.Module):
    """x + W₂·silu(a·(W₁·x) + b), with a and b linear in the embedding of ln SNR."""

    def __init__(self, channels: int, embedding: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        self.modulation = nn.Linear(embedding, 2 * channels)
        for zero in (self.second.weight, self.modulation.weight, self.modulation.bias):
            nn.init.zeros_(zero)

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        """The block's output (N, C, H, W), for embeddings (N, E)."""
        scale, shift = self.modulation(embedding)[:, :, None, None].chunk(2, dim=1)
        hidden = torch.addcmul(shift, self.first(x), 1 + scale)
        return x + self.second(functional.silu(hidden))  # type: ignore[no-any-return]


class Stage(nn.ModuleList):
    """Blocks one after the other."""

    def __init__(self, channels: int, blocks: int, embedding: int) -> None:
        super().__init__(Block(channels, embedding) for _ in range(blocks))

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        """The last block's output."""
        for block in self:
            x = block(x, embedding)
        return x


class Network(nn.Module):
    """The correction F, on pictures whose sides are multiples of the stride, and the estimate x̂0 for any picture."""

    waves: Tensor

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        fine, pairs = config.channels[0], list(pairwise(config.channels))
        span = math.log(SNR_RANGE[1] / SNR_RANGE[0])
        # Angular frequencies on ln SNR: periods from four times the range down to an eighth of it.
        # On the CPU even if the weights are still nowhere (the meta device): no file holds it.
        octaves = 2.0 ** torch.arange(2, -4, -1, device="cpu", dtype=torch.float32)
        self.register_buffer("waves", 2 * math.pi / (span * octaves), persistent=False)
        self.embed = nn.Sequential(nn.Linear(2 * len(self.waves), config.embedding), nn.SiLU())
        self.enter = nn.Conv2d(config.inputs * FOLD**2, fine, 3, padding=1)
        self.downs = nn.ModuleList(map(self._stage, config.channels, config.down))
        self.ups = nn.ModuleList(map(self._stage, config.channels, config.up))
        self.shrink = nn.ModuleList(nn.Conv2d(a, b, 2, stride=2) for a, b in pairs)
        self.grow = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in pairs)
        self.leave = nn.Conv2d(fine, COLOURS * FOLD**2, 3, padding=1)
        nn.init.zeros_(self.leave.weight)

    def matrices(self) -> list[Tensor]:
        """The weights of all convolutions but the first and the last: most of the network."""
        middle = [*self.downs.modules(), *self.ups.modules(), *self.shrink, *self.grow]
        return [layer.weight for layer in middle if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d)]

    def _stage(self, channels: int, blocks: int) -> Stage:
        return Stage(channels, blocks, self.config.embedding)

    def forward(self, told: Tensor, snr: Tensor, inside: Tensor | None = None) -> Tensor:
        """x̂0, not clamped, of stacked planes (N, K, H, W), at SNRs (N,) or at one SNR (1,).

        Where a mask (N, 1, H, W) is 0, no picture is.
        """
        height, width = told.shape[2:]
        names = [name for name in self.config.planes if name != "inside"]
        parts: dict[str, Tensor] = dict(
            zip(names, torch.split(told, [CHANNELS[name] for name in names], 1), strict=True)
        )
        y, level = parts["state"], snr.to(told).clamp(max=LARGEST_SNR)[:, None, None, None]
        known = parts.get("precision", level)
        enter, out, skip = self.conditioned(known)
        planes = [enter * y, torch.ones_like(y[:, :1])]
        if "precision" in parts:
            planes.append((known.clamp(*SNR_RANGE).log() - level.clamp(*SNR_RANGE).log()) / PRECISION_SCALE)
        if "estimate" in parts:
            scale, _, share = self.conditioned(parts["estimate precision"])
            planes += [scale * parts["estimate"], share]
        if "compared" in parts:
            planes += [parts["compared"] / self.config.deviation, parts["answer"]]
        stacked = torch.cat(planes, dim=1)
        stacked = stacked if inside is None else stacked * inside
        below, right = (-side % self.config.stride for side in (height, width))
        padded = functional.pad(stacked, (0, right, 0, below))
        x_hat: Tensor = skip * y + out * self.correction(padded, level.flatten())[:, :, :height, :width]
        return x_hat

    def conditioned(self, snr: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return in, out and skip at SNRs."""
        power = 1 + snr * self.config.deviation**2
        return (snr / power).sqrt(), self.config.deviation * power.rsqrt(), 1 - 1 / power

    def correction(self, planes: Tensor, snr: Tensor) -> Tensor:
        """F of the planes (N, inputs, H, W), sides being multiples of the stride."""
        level = snr.clamp(*SNR_RANGE).log()[:, None] * self.waves
        embedding = self.embed(torch.cat([level.sin(), level.cos()], dim=1))
        x = self.enter(functional.pixel_unshuffle(planes, FOLD))
        passed = []
        for stage, shrink in zip(self.downs, self.shrink, strict=False):
            x = stage(x, embedding)
            passed.append(x)
            x = shrink(x)
        x = self.downs[-1](x, embedding)
        for stage, grow in reversed(list(zip(self.ups, self.grow, strict=True))):
            x = stage(grow(x) + passed.pop(), embedding)
        return functional.pixel_shuffle(self.leave(x), FOLD)


def widened(tensors: Mapping[str, Tensor], inputs: int) -> dict[str, Tensor]:
    """Return the weights of a network with more planes, which are given zero weights: it computes the same at first."""
    first = tensors["enter.weight"]
    more = first.new_zeros((len(first), inputs * FOLD**2 - first.shape[1], *first.shape[2:]))
    return {**tensors, "enter.weight": torch.cat([first, more], dim=1)}
