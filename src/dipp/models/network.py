"""A fully convolutional network for pictures of any height and width, in PyTorch. The denoiser that ships is one.

**What it computes.** A state is y = x0 + noise/√SNR, and the SNR is a number. The model estimates E[x0 | y]. With the
deviation d of pixel values, the estimate is the best linear one plus a correction by the network F,

    x̂0 = skip·y + out·F(in·y, ln SNR),    skip = SNR·d²/(1 + SNR·d²),  out = d/√(1 + SNR·d²),  in = √SNR/√(1 + SNR·d²)

(Karras et al., 2022), so that inputs and outputs of F are of the order of 1 at every SNR. At SNR 0 nothing of y is
used, and the estimate is a mean picture that the network has learnt.

**Shape.** Squares of 2×2 pixels are folded into channels. A U-net of plain 3×3 residual blocks on five scales follows.
In each block, the hidden channels are scaled and shifted by functions of ln SNR. A 2×2 convolution goes down a scale,
and a transposed one goes up; the states on the way up are added to those on the way down. There is no attention and no
normalisation: an output depends on the inputs within `margin` pixels and on nothing else, so tiles can give the output
of the whole picture (`tiles`).

**Borders.** A picture is padded with zeros to a multiple of `stride`, and a further input plane marks the inside. In
training, a mask marks it, because a batch of one shape holds pictures of many sizes.

**Planes.** The network takes one stacked tensor (`evidence.stacked`), whose planes the config names:

    state               y of each colour; F is given in·y
    inside              made here: 1 inside the picture and 0 outside
    precision           the SNR s of each pixel; F is given ln(s/SNR)/8, which is 0 if all pixels have one SNR
    estimate            e of each colour, of precision p; F is given √p/√(1 + p·d²)·e
    estimate precision  p; F is given p·d²/(1 + p·d²)
    compared            the prediction that each coordinate was last compared with; F is given it in units of d
    answer              the answer, from −1 to 1, and 0 where nothing was asked; F is given it as it is

With a plane of precisions, skip, out and in are computed from each pixel's own s, and the SNR scales the features
alone. All planes but the first two are 0 for a state of one SNR. So a network with zero weights for further planes
computes the same as without them, and training may go on from a network with fewer planes (`widened`).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from dipp.models.config import COLOURS, FOLD, LARGEST_SNR, SNR_RANGE, WAVES, Config


class Block(nn.Module):
    """A residual block, x + W₂·silu(a·(W₁·x) + b), with convolutions W₁ and W₂. The embedding of ln SNR gives a and b.

    Args:
        channels: Number of channels of x.
        embedding: Number of channels of the embedding.
    """

    def __init__(self, channels: int, embedding: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        self.modulation = nn.Linear(embedding, 2 * channels)
        for zero in (self.second.weight, self.modulation.weight, self.modulation.bias):
            nn.init.zeros_(zero)

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        """Return the block's output (N, C, H, W) for x (N, C, H, W) and embeddings (N, E)."""
        scale, shift = self.modulation(embedding)[:, :, None, None].chunk(2, dim=1)
        hidden = torch.addcmul(shift, self.first(x), 1 + scale)
        return x + self.second(functional.silu(hidden))  # type: ignore[no-any-return]


class Stage(nn.ModuleList):
    """A sequence of blocks at one scale."""

    def __init__(self, channels: int, blocks: int, embedding: int) -> None:
        super().__init__(Block(channels, embedding) for _ in range(blocks))

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        """Return the output of the last block (N, C, H, W), for embeddings (N, E)."""
        for block in self:
            x = block(x, embedding)
        return x


class Network(nn.Module):
    """The network for photographs, which estimates pictures x̂0 from planes of evidence.

    Args:
        config: Sizes and planes of the network.
    """

    waves: Tensor

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        fine, pairs = config.channels[0], list(pairwise(config.channels))
        # Set even while the weights are on the meta device, because no file holds it.
        self.register_buffer("waves", torch.from_numpy(WAVES.copy()), persistent=False)
        self.embed = nn.Sequential(nn.Linear(2 * len(self.waves), config.embedding), nn.SiLU())
        self.enter = nn.Conv2d(config.inputs * FOLD**2, fine, 3, padding=1)
        self.downs = nn.ModuleList(map(self._stage, config.channels, config.down))
        self.ups = nn.ModuleList(map(self._stage, config.channels, config.up))
        self.shrink = nn.ModuleList(nn.Conv2d(a, b, 2, stride=2) for a, b in pairs)
        self.grow = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in pairs)
        self.leave = nn.Conv2d(fine, COLOURS * FOLD**2, 3, padding=1)
        nn.init.zeros_(self.leave.weight)

    def matrices(self) -> list[Tensor]:
        """Return the weights of all convolutions but the first and the last."""
        middle = [*self.downs.modules(), *self.ups.modules(), *self.shrink, *self.grow]
        return [layer.weight for layer in middle if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d)]

    def _stage(self, channels: int, blocks: int) -> Stage:
        return Stage(channels, blocks, self.config.embedding)

    def forward(self, told: Tensor, snr: Tensor, inside: Tensor | None = None) -> Tensor:
        """Return the estimated pictures x̂0 (N, 3, H, W), not clamped.

        Args:
            told: Stacked planes of evidence (N, K, H, W), as `Evidence.stacked` returns them.
            snr: The SNR of each picture (N,), or of all pictures (1,).
            inside: Mask (N, 1, H, W), 1 inside the pictures and 0 outside. By default everything is inside.
        """
        height, width = told.shape[2:]
        level = snr.to(told).clamp(max=LARGEST_SNR)[:, None, None, None]
        given, kept, out = self.config.given(told, level, torch)
        given = given if inside is None else given * inside
        below, right = (-side % self.config.stride for side in (height, width))
        padded = functional.pad(given, (0, right, 0, below))
        x_hat: Tensor = kept + out * self.correction(padded, level.flatten())[:, :, :height, :width]
        return x_hat

    def correction(self, planes: Tensor, snr: Tensor) -> Tensor:
        """Return the correction F (N, 3, H, W) of the best linear estimate (`network`).

        Args:
            planes: Input planes (N, inputs, H, W). The stride divides H and W.
            snr: SNR of each picture (N,), or of all pictures (1,).
        """
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
    """Return weights for a network with further input planes, which it ignores because their weights are 0.

    Args:
        tensors: Weights of a network by their names.
        inputs: Number of channels of all planes of the wider network.
    """
    first = tensors["enter.weight"]
    more = first.new_zeros((len(first), inputs * FOLD**2 - first.shape[1], *first.shape[2:]))
    return {**tensors, "enter.weight": torch.cat([first, more], dim=1)}
