"""ResNet-56 for CIFAR-10 [He et al., 2016, section 4.2], with shortcuts that have no parameters (option A)."""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn

WIDTHS = (16, 32, 64)
CLASSES = 10


class Block(nn.Module):
    """Two convolutions and a shortcut; where the width doubles, the picture is halved."""

    def __init__(self, width: int, planes: int) -> None:
        super().__init__()
        self.stride = planes // width
        self.added = (planes - width) // 2
        self.conv1 = nn.Conv2d(width, planes, 3, self.stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(planes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """relu(shortcut + residual)."""
        residual = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        if self.added:  # option A: every other pixel, and channels of zeros on both sides
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.added, self.added))
        return F.relu(x + residual)


class ResNet56(nn.Module):
    """Nine blocks at each of three widths: 853,018 parameters."""

    def __init__(self, blocks: int = 9) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, WIDTHS[0], 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(WIDTHS[0])
        widths = (WIDTHS[0], *(width for width in WIDTHS for _ in range(blocks)))
        self.blocks = nn.Sequential(*itertools.starmap(Block, itertools.pairwise(widths)))
        self.head = nn.Linear(WIDTHS[-1], CLASSES)
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(module.weight)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """The 64 features that are classified: the mean of the last block over the picture."""
        found: torch.Tensor = self.blocks(F.relu(self.norm(self.conv(x)))).mean(dim=(2, 3))
        return found

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        logits: torch.Tensor = self.head(self.features(x))
        return logits
