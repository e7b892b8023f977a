"""An untrained network for 8×8 or other small pictures: what the codec promises does not depend on how good it is."""

from __future__ import annotations

from typing import Any

import torch
from diffusers import UNet2DModel


def tiny_network(channels: int = 3, size: int = 8) -> Any:
    """The same weights every time."""
    torch.manual_seed(0)
    make: Any = UNet2DModel
    return make(
        sample_size=size,
        in_channels=channels,
        out_channels=channels,
        block_out_channels=(8, 16),
        down_block_types=("DownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "UpBlock2D"),
        layers_per_block=1,
        norm_num_groups=4,
    )
