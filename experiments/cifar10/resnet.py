"""ResNet-56 for CIFAR-10 [He et al., 2016, section 4.2], with shortcuts that have no parameters (option A).

Several copies, each with weights of its own, can stand side by side: the channels of copy i are the i-th group of every
layer, and its parameters the i-th part of every tensor. No number of one copy depends on another.
"""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn

WIDTHS = (16, 32, 64)
CLASSES = 10


class Block(nn.Module):
    """Two convolutions and a shortcut; a block that doubles the width halves the picture."""

    def __init__(self, width: int, planes: int, copies: int) -> None:
        super().__init__()
        self.copies = copies
        self.added = (planes - width) // 2
        self.conv1 = _convolution(width, planes, copies, stride=planes // width)
        self.norm1 = nn.BatchNorm2d(copies * planes)
        self.conv2 = _convolution(planes, planes, copies)
        self.norm2 = nn.BatchNorm2d(copies * planes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return relu(shortcut + residual)."""
        residual = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        if self.added:  # option A: every other pixel, and channels of zeros on both sides
            split = torch.unflatten(x[:, :, ::2, ::2], 1, (self.copies, -1))
            x = _channels_last(F.pad(split, (0, 0, 0, 0, self.added, self.added)).flatten(1, 2))
        return F.relu(x + residual)


class FirstConvolution(nn.Conv2d):
    """The first convolution: pictures get channels of zeros beside their three channels, which change no sum.

    So it has the shape of the following convolutions. cuDNN computes groups of three channels one after the other,
    which took a sixth of the time of training.
    """

    def __init__(self, planes: int, copies: int) -> None:
        super().__init__(copies * 3, copies * planes, 3, padding=1, bias=False, groups=copies)
        self.zeros = (0, 0, 0, 0, 0, planes - 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the convolution of x."""
        wide = F.pad(torch.unflatten(x, 1, (self.groups, -1)), self.zeros).flatten(1, 2)
        return F.conv2d(_channels_last(wide), F.pad(self.weight, self.zeros), padding=1, groups=self.groups)


class ResNet56(nn.Module):
    """ResNet-56: nine blocks at each of three widths, 853,018 parameters per copy."""

    def __init__(self, blocks: int = 9, copies: int = 1) -> None:
        super().__init__()
        self.copies = copies
        self.conv = FirstConvolution(WIDTHS[0], copies)
        self.norm = nn.BatchNorm2d(copies * WIDTHS[0])
        widths = (WIDTHS[0], *(width for width in WIDTHS for _ in range(blocks)))
        self.blocks = nn.Sequential(*(Block(*pair, copies) for pair in itertools.pairwise(widths)))
        self.head = nn.Linear(WIDTHS[-1], copies * CLASSES)
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(module.weight)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """Return the features that are classified, copies × N × 64: the mean of the last block over the picture."""
        found: torch.Tensor = self.blocks(F.relu(self.norm(self.conv(x)))).mean(dim=(2, 3))
        return torch.unflatten(found, 1, (self.copies, -1)).transpose(0, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits (copies, N, classes) of pictures (N, copies·3, H, W)."""
        weight, bias = (torch.unflatten(part, 0, (self.copies, -1)) for part in (self.head.weight, self.head.bias))
        return torch.matmul(self.features(x), weight.transpose(1, 2)) + bias[:, None]


def _channels_last(x: torch.Tensor) -> torch.Tensor:
    """Return a tensor in the layout of convolutions; in another it would be copied in every block."""
    return x.contiguous(memory_format=torch.channels_last)


def _convolution(width: int, planes: int, copies: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(copies * width, copies * planes, 3, stride, padding=1, bias=False, groups=copies)
