"""Convolutions with the accuracy of fp32 at the speed of TF32 tensor cores, for the network inside the coded steps.

A tensor core multiplies numbers of 11 significant bits exactly, and adds in fp32. So every fp32 number v is split into
h + l, with h = v rounded to 11 bits, and

    x·w = h_x·h_w + l_x·h_w + h_x·l_w + l_x·l_w

The last product is below 2^−22 of the first, and is left out. The tensor core also rounds l to 11 bits, which causes an
error of the same size. So three products suffice, in one convolution with three times the channels: (h_x, l_x, h_x)
with (h_w, h_w, l_w).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

TILE = 1024
"""Elements that one program of the kernel splits."""
HALF_UNIT, KEPT = 0x1000, -0x2000
"""Half a unit of the 11th significant bit, and a mask of that bit and all above it, for a 32-bit float seen as an
integer."""

_HALF_UNIT, _KEPT = tl.constexpr(HALF_UNIT), tl.constexpr(KEPT)


class SplitConv2d(torch.nn.Module):
    """A convolution with the accuracy of fp32, by three TF32 products.

    Under bf16 autocast, or where TF32 is allowed, it is the plain convolution.

    Args:
        plain: The convolution that it replaces.
    """

    def __init__(self, plain: torch.nn.Conv2d) -> None:
        super().__init__()
        self.plain = plain
        high = rounded(plain.weight.detach().contiguous())
        parts = torch.cat([high, high, plain.weight.detach() - high], dim=1)
        self.register_buffer("parts", parts.contiguous(memory_format=torch.channels_last), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the convolution of x (N, C, H, W)."""
        plain = self.plain
        if torch.is_autocast_enabled(x.device.type) or torch.backends.cudnn.allow_tf32:
            return plain(x)  # type: ignore[no-any-return]
        with torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=True):
            parts: torch.Tensor = self.get_buffer("parts")
            return torch.nn.functional.conv2d(split(x), parts, plain.bias, plain.stride, plain.padding)


def with_split_convolutions(network: torch.nn.Module) -> torch.nn.Module:
    """Replace every plain convolution inside the network, in place, and return the network."""
    for name, child in network.named_children():
        if isinstance(child, torch.nn.Conv2d):
            if child.groups == 1 and child.dilation == (1, 1) and child.padding_mode == "zeros":
                setattr(network, name, SplitConv2d(child))
        else:
            with_split_convolutions(child)
    return network


def rounded(values: torch.Tensor) -> torch.Tensor:
    """Return fp32 values rounded to 11 significant bits, halves away from zero."""
    return ((values.view(torch.int32) + HALF_UNIT) & KEPT).view(torch.float32)


def split(x: torch.Tensor) -> torch.Tensor:
    """Return channels (h, l, h) (N, 3C, H, W), channels_last: h is x (N, C, H, W) rounded, and l the rest."""
    x = x.contiguous(memory_format=torch.channels_last)
    count, channels, height, width = x.shape
    out = x.new_empty((count, 3 * channels, height, width)).contiguous(memory_format=torch.channels_last)
    _split[(-(-x.numel() // TILE),)](x, out, x.numel(), channels, TILE=TILE)
    return out


@triton.jit
def _split(x: tl.tensor, out: tl.tensor, count: tl.tensor, channels: tl.tensor, TILE: tl.constexpr) -> None:  # noqa: N803
    """Write the parts h, l and h (`split`) of each element pixel·C + channel of x to its three channels in out."""
    i = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    inside = i < count
    value = tl.load(x + i, mask=inside)
    high = ((value.to(tl.int32, bitcast=True) + _HALF_UNIT) & _KEPT).to(tl.float32, bitcast=True)
    target = out + (i // channels) * 3 * channels + i % channels
    tl.store(target, high, mask=inside)
    tl.store(target + channels, value - high, mask=inside)
    tl.store(target + 2 * channels, high, mask=inside)
