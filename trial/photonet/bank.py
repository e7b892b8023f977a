"""Training pictures: square tiles of photographs at many scales, cut once on the CPU and drawn from on the device.

A photograph is seen at scales between two ends: at its own, and shrunk until the whole of it fits a tile. Small tiles
are whole scenes, as the pictures of small datasets are.
"""

from __future__ import annotations

import io
import math
import tarfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

Tiles = NDArray[np.uint8]
FILTERS = (Image.Resampling.LANCZOS, Image.Resampling.BICUBIC, Image.Resampling.BOX)
STRETCH = 1.15
"""Largest change of the ratio of width to height."""
LARGE = 450
"""A photograph whose shorter side is at least this has more to show, and gives `MORE` times as many tiles."""
MORE = 20


@dataclass(frozen=True)
class Cut:
    """How tiles of one size are cut."""

    side: int
    tiles: int
    """Of a small photograph."""
    whole: float
    """The smallest share of a photograph's shorter side in a tile; 0: as little as its own scale gives."""


def cut_all(packs: Sequence[Path], cuts: Sequence[Cut], workers: int) -> list[Tiles]:
    """All tiles of the photographs in the packs, for each of the cuts an array (N, side, side, 3)."""
    contents = [content for pack in packs for content in read(pack)]
    with ProcessPoolExecutor(workers) as pool:
        found = list(pool.map(cut_one, contents, [tuple(cuts)] * len(contents), range(len(contents)), chunksize=8))
    return [np.concatenate([tiles[index] for tiles in found]) for index in range(len(cuts))]


def read(pack: Path) -> list[bytes]:
    """The picture files in a tar file."""
    with tarfile.open(pack) as tar:
        members = (tar.extractfile(member) for member in tar.getmembers() if member.isfile())
        return [member.read() for member in members if member is not None]


def cut_one(content: bytes, cuts: tuple[Cut, ...], seed: int) -> list[Tiles]:
    """The tiles of one photograph, in the order of the cuts."""
    rng = np.random.default_rng(seed)
    picture = Image.open(io.BytesIO(content)).convert("RGB")
    shorter = min(picture.size)
    result = []
    for cut in cuts:
        tiles = []
        for _ in range(cut.tiles * (MORE if shorter >= LARGE else 1)):
            least = min(shorter, max(cut.side, cut.whole * shorter))
            extent = math.exp(rng.uniform(math.log(least), math.log(shorter)))
            stretch = math.exp(rng.uniform(-1, 1) * math.log(STRETCH) / 2)
            wide, tall = min(picture.width, extent * stretch), min(picture.height, extent / stretch)
            left, top = rng.uniform(0, picture.width - wide), rng.uniform(0, picture.height - tall)
            if extent < 1.05 * cut.side:  # nothing to scale: the pixels as they are
                left, top = int(left), int(top)
                wide, tall = min(picture.width - left, cut.side), min(picture.height - top, cut.side)
            way = FILTERS[rng.integers(len(FILTERS))]
            tile = picture.resize((cut.side, cut.side), way, (left, top, left + wide, top + tall), 3.0)
            tiles.append(np.asarray(tile))
        result.append(np.stack(tiles))
    return result


class Bank:
    """Tiles on a device, in eight bits, and batches of them."""

    def __init__(self, tiles: Tiles, device: torch.device) -> None:
        self.tiles = torch.from_numpy(tiles).to(device)

    def draw(self, count: int) -> Tensor:
        """So many tiles (N, 3, side, side) in [−1, 1], mirrored, turned and with other colours at random."""
        device = self.tiles.device
        tiles = self.tiles[torch.randint(len(self.tiles), (count,), device=device)].permute(0, 3, 1, 2)
        x = tiles.float() / 127.5 - 1

        def chance(share: float) -> Tensor:
            return torch.rand(count, 1, 1, 1, device=device) < share

        x = torch.where(chance(0.5), x.flip(3), x)
        x = torch.where(chance(0.1), x.flip(2), x)
        x = torch.where(chance(0.1), x.transpose(2, 3), x)
        x = torch.where(chance(0.05), x.roll(1, 1), x)
        x = torch.where(chance(0.03), x.mean(1, keepdim=True), x)
        contrast = torch.empty(count, 1, 1, 1, device=device).uniform_(-0.4, 0.3).exp()
        brightness = torch.empty(count, 3, 1, 1, device=device).normal_(0, 0.04)
        brightness = brightness + torch.empty(count, 1, 1, 1, device=device).normal_(0, 0.12)
        return torch.where(chance(0.5), (contrast * x + brightness).clamp(-1, 1), x).contiguous()
