"""Square tiles of photographs for training: cut once on the CPU, then drawn in batches on the device.

The scale of a tile is random: from that of the photograph to one at which the whole photograph fits the tile. Small
tiles show whole scenes, like the pictures of small datasets. A photograph that is smaller than a tile is left out.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image

from dipp.codec.pictures import Pixels
from dipp.core.signal import to_signal
from dipp.training import public_pictures
from dipp.training.public_pictures import Source

FILTERS = (Image.Resampling.LANCZOS, Image.Resampling.BICUBIC, Image.Resampling.BOX)
STRETCH = 1.15
"""Largest factor by which a tile changes the ratio of width to height."""
LARGE = 400
"""A photograph whose shorter side has at least this many pixels gives `MORE` times as many tiles."""
MORE = 6


@dataclass(frozen=True)
class Cut:
    """The size of tiles, and how many are cut from each photograph."""

    side: int
    """Height and width of a tile, in pixels."""
    tiles: int
    """Number of tiles from a small photograph."""
    whole: float
    """The least share of a photograph's shorter side that a tile shows. 0 allows tiles at full resolution."""


def cut_all(sources: Iterable[Source], cuts: Sequence[Cut]) -> tuple[list[Pixels], int, int]:
    """Cut tiles of several sizes from photographs.

    Args:
        sources: The photographs.
        cuts: The sizes of the tiles.

    Returns:
        For each cut a uint8 array (N, side, side, 3); then the numbers of photographs that were used and skipped.
    """
    with ThreadPoolExecutor() as pool:  # threads suffice: decoding and scaling run beside Python
        per_source = list(pool.map(functools.partial(_cut_one, cuts=cuts), sources, itertools.count()))
    used = [tiles for tiles in per_source if any(tiles)]
    each = [[tile for tiles in used for tile in tiles[number]] for number in range(len(cuts))]
    sides = [cut.side for cut in cuts]
    stacked = [np.stack(t) if t else np.zeros((0, s, s, 3), np.uint8) for t, s in zip(each, sides, strict=True)]
    return stacked, len(used), len(per_source) - len(used)


def _cut_one(source: Source, seed: int, cuts: Sequence[Cut]) -> list[list[Pixels]]:
    """Return the tiles of one photograph for each cut. A photograph that cannot be read has no tiles."""
    pixels = public_pictures.picture(source)
    if pixels is None:
        return [[] for _ in cuts]
    rng, photograph = np.random.default_rng(seed), Image.fromarray(pixels)
    return [[_tile(photograph, cut, rng) for _ in range(_count(photograph, cut))] for cut in cuts]


def _count(photograph: Image.Image, cut: Cut) -> int:
    shorter = min(photograph.size)
    return 0 if shorter < cut.side else cut.tiles * (MORE if shorter >= LARGE else 1)


def _tile(photograph: Image.Image, cut: Cut, rng: np.random.Generator) -> Pixels:
    shorter = min(photograph.size)
    least = max(cut.side, cut.whole * shorter)
    extent = math.exp(rng.uniform(math.log(least), math.log(shorter)))
    if extent < 1.05 * cut.side:  # nothing to scale: the pixels as they are
        x, y = (int(rng.integers(side - cut.side + 1)) for side in photograph.size)
        return np.asarray(photograph.crop((x, y, x + cut.side, y + cut.side)))
    stretch = math.exp(rng.uniform(-1, 1) * math.log(STRETCH) / 2)
    wide, tall = min(photograph.width, extent * stretch), min(photograph.height, extent / stretch)
    left, top = rng.uniform(0, photograph.width - wide), rng.uniform(0, photograph.height - tall)
    way, box = FILTERS[rng.integers(len(FILTERS))], (left, top, left + wide, top + tall)
    return np.asarray(photograph.resize((cut.side, cut.side), way, box, 3.0))


class Bank:
    """Tiles on a device, from which random batches are drawn.

    Args:
        tiles: uint8 array (N, side, side, 3).
        device: Where the tiles are kept.
    """

    def __init__(self, tiles: Pixels, device: torch.device) -> None:
        self.tiles = torch.from_numpy(tiles).to(device)

    def draw(self, count: int) -> torch.Tensor:
        """Return `count` random tiles (count, 3, side, side) in [−1, 1], some mirrored, turned or recoloured."""
        device = self.tiles.device
        tiles = self.tiles[torch.randint(len(self.tiles), (count,), device=device)].permute(0, 3, 1, 2)
        x: torch.Tensor = to_signal(tiles)

        def chance(share: float) -> torch.Tensor:
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
