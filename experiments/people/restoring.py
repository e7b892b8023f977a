"""A small network that an attacker trains within seconds: it restores pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dipp.risk.networks import planes, trained
from dipp.risk.recognition import Pixels


@dataclass(frozen=True)
class Restorer:
    """Six convolutions over 2×2 pixels, trained to make clean pictures of protected ones: grey, and small (`SIDE`)."""

    steps: int = 100

    def fit(self, protected: Pixels, clean: Pixels) -> Any:
        """Return a function from protected pictures to restored ones, learnt from pairs."""
        import torch
        from torch import nn

        given, wanted = planes(protected), planes(clean)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            layers: list[nn.Module] = [nn.PixelUnshuffle(2), nn.Conv2d(4, 48, 3, padding=1), nn.ReLU()]
            for reach in (1, 2, 4, 2):
                layers += [nn.Conv2d(48, 48, 3, padding=reach, dilation=reach), nn.ReLU()]
            network = nn.Sequential(*layers, nn.Conv2d(48, 4, 3, padding=1), nn.PixelShuffle(2))
            for chosen in trained(network, len(given), self.steps):
                loss = (given[chosen] + network(given[chosen]) - wanted[chosen]).square().mean()
                loss.backward()
        network.eval()

        def restored(pictures: Pixels) -> Pixels:
            with torch.no_grad():
                made = torch.cat([part + network(part) for part in torch.split(planes(pictures), 64)])
            grey = (made[:, 0] * 64 + 128).clamp(0, 255).round().to(torch.uint8).numpy()
            return np.repeat(grey[..., None], 3, axis=3)

        return restored
