"""Untrained networks for small pictures. The promises of the codec do not depend on how good a network is."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dipp.models.config import Config
from dipp.models.diffusion import NoiseSchedule
from dipp.models.network import Network
from dipp.models.unet import UNetDenoiser

IDENTITY = "ab" * 32
"""Identity of `tiny_denoiser`; it is no hash."""
ROUNDING = 1e-4
"""Largest difference between two x̂0 of a network that only come from another order of sums. fp32 errs by 6e-8 of a
number, a layer adds up some hundreds of numbers, and there are some twenty layers. Two really different x̂0 differ a
thousand times as much.
"""


def tiny_network(channels: int = 3, size: int = 8) -> Any:
    """Return a tiny network with the same weights every time."""
    from diffusers import UNet2DModel  # the import takes seconds, and not every process needs it

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


def linear_schedule() -> NoiseSchedule:
    """Return the noise schedule of the first DDPM, with a thousand timesteps."""
    config = {"beta_schedule": "linear", "beta_start": 1e-4, "beta_end": 0.02, "num_train_timesteps": 1000}
    return NoiseSchedule.from_config(config)


def tiny_denoiser(channels: int = 3, size: int = 8) -> UNetDenoiser:
    """Return the tiny network with that schedule, on the CPU."""
    network = tiny_network(channels, size).eval()
    return UNetDenoiser(linear_schedule(), IDENTITY, torch.device("cpu"), network, channels, (size, size), 2)


SMALL = Config(channels=(8, 12, 16), down=(1, 1, 1), up=(2, 1), embedding=16)
"""Config of a network for photographs that takes no time."""


def random_network(config: Config = SMALL, seed: int = 1) -> Network:
    """Return a network for photographs none of whose weights are zero, so that every part matters."""
    torch.manual_seed(seed)
    network = Network(config)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(0, 0.7 / max(1, parameter[0].numel()) ** 0.5)
    return network.eval().requires_grad_(False)


def weights_of(network: Network) -> dict[str, NDArray[np.float32]]:
    """Return the weights of a network for photographs in the form that its CPU engines take."""
    return {name: tensor.detach().numpy() for name, tensor in network.named_parameters()}
