"""A small network that an attacker trains within seconds: it recognises people."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dipp.risk.recognition import Floats, Integers, Pixels, Scores, greys

if TYPE_CHECKING:
    from torch import Tensor

SIDE = 56
"""Longer side in pixels to which pictures are reduced for the network."""
BATCH = 32
"""Pictures in one training step, at most."""
SHIFT = 3
"""Largest random shift of training pictures, in pixels."""


@dataclass(frozen=True)
class SmallNetwork:
    """A recogniser of four convolutions and a linear layer, trained on the gallery with random shifts and contrasts."""

    name: str = "network"
    steps: int = 200
    """Number of training steps."""

    def fit(self, pictures: Pixels, people: Integers) -> Scores:
        """Train the network on a gallery, and return a function that scores probes by the network's logits.

        Args:
            pictures: Pictures of the gallery, uint8 (N, H, W, 3).
            people: Number of the person in each picture.

        Returns:
            A function from probes (M, H, W, 3) to scores (M, people).
        """
        import torch
        from torch import nn

        count, data, labels = int(people.max()) + 1, planes(pictures), torch.from_numpy(people)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            widths = (1, 32, 48, 64, 96)
            layers: list[nn.Module] = []
            for before, after in itertools.pairwise(widths):
                layers += [nn.Conv2d(before, after, 3, 2, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
            network = nn.Sequential(*layers, nn.Flatten(), nn.Dropout(0.3), nn.LazyLinear(count))
            network(data[:2])
            for chosen in trained(network, len(data), self.steps):
                loss = nn.functional.cross_entropy(network(_varied(data[chosen])), labels[chosen])
                loss.backward()  # type: ignore[no-untyped-call]
        network.eval()

        def scores(probes: Pixels) -> Floats:
            with torch.no_grad():
                logits = torch.cat([network(batch) for batch in torch.split(planes(probes), 256)])
            return np.asarray(logits.double().numpy())

        return scores


def planes(pictures: Pixels) -> Tensor:
    """Return pictures as grey tensors for a network.

    Args:
        pictures: uint8 (N, H, W, 3).

    Returns:
        float32 (N, 1, h, w), with values from −2 to 2; h and w are even, and at most `SIDE`.
    """
    import torch

    scale = min(1.0, SIDE / max(pictures.shape[1:3]))
    height, width = (max(1, round(length * scale)) for length in pictures.shape[1:3])
    rows = greys(pictures, SIDE).reshape(len(pictures), 1, height, width)
    even = np.pad(rows, ((0, 0), (0, 0), (0, height % 2), (0, width % 2)), "edge")
    return torch.from_numpy(((even - 128) / 64).astype(np.float32))


def _varied(batch: Tensor) -> Tensor:
    """Return a batch of pictures, each shifted and made brighter or darker at random."""
    import torch

    across, down = torch.randint(-SHIFT, SHIFT + 1, (2,)).tolist()
    contrast = 0.8 + 0.4 * torch.rand(len(batch), 1, 1, 1)
    light = 0.4 * torch.rand(len(batch), 1, 1, 1) - 0.2
    return batch.roll((down, across), (2, 3)) * contrast + light


def trained(network: Any, count: int, steps: int) -> Iterator[Any]:
    """Train a network: yield the pictures of each step, and update the weights when the caller asks for the next step.

    The caller computes the loss of the pictures that were yielded, and calls its `backward`.

    Args:
        network: A `torch.nn.Module`, whose weights are updated in place.
        count: Number of training pictures.
        steps: Number of training steps.

    Yields:
        Indices of the pictures of a step: an int64 tensor (min(`BATCH`, `count`),).
    """
    import torch

    optimiser = torch.optim.AdamW(network.parameters(), lr=2e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, steps + 1)
    for _ in range(steps):
        yield torch.randint(0, count, (min(BATCH, count),))
        optimiser.step()
        schedule.step()
        optimiser.zero_grad(set_to_none=True)
