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
INPUTS = COLOURS + 1
"""The state of each colour, and whether the pixel is inside the picture."""
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

    def __post_init__(self) -> None:
        if not len(self.channels) == len(self.down) == len(self.up) + 1:
            raise ValueError("channels and down need one entry a scale, up one less")
        for least, values in ((1, (*self.channels, self.embedding)), (0, (*self.down, *self.up))):
            if not all(type(value) is int and value >= least for value in values):
                raise ValueError("channels and embedding must be whole numbers from 1 on, down and up from 0 on")
        if isinstance(self.deviation, bool) or not 0 < self.deviation < math.inf:
            raise ValueError("deviation must be a number above 0")

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
        self.enter = nn.Conv2d(INPUTS * FOLD**2, fine, 3, padding=1)
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

    def forward(self, y: Tensor, snr: Tensor, inside: Tensor | None = None) -> Tensor:
        """x̂0 of states y (N, 3, H, W) at SNRs (N,), or at one SNR (1,), not clamped.

        Where a mask (N, 1, H, W) is 0, no picture is.
        """
        height, width = y.shape[2:]
        snr = snr.to(y).clamp(max=LARGEST_SNR)
        power = 1 + snr * self.config.deviation**2
        enter, out, skip = ((snr / power).sqrt(), self.config.deviation * power.rsqrt(), 1 - 1 / power)
        planes = torch.cat([enter[:, None, None, None] * y, torch.ones_like(y[:, :1])], dim=1)
        planes = planes if inside is None else planes * inside
        below, right = (-side % self.config.stride for side in (height, width))
        correction = self.correction(functional.pad(planes, (0, right, 0, below)), snr)[:, :, :height, :width]
        return skip[:, None, None, None] * y + out[:, None, None, None] * correction

    def correction(self, planes: Tensor, snr: Tensor) -> Tensor:
        """F of the planes (N, 4, H, W), sides being multiples of the stride."""
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
