"""LDP-Slicing, implemented from its description [Cao, Li and He, 2026]: randomised response on bit planes of pictures.

A picture becomes Y, Cb and Cr of eight bits each. Bit b = 1 … 8 (8 the highest) of channel c is flipped with
probability 1/(1 + e^ε_cb), where the stated ε is shared out by ε_cb = ε·√W_cb/Σ√W, with the weights W_cb = w_c·2^(b−1),
w_Y = 4, w_Cb = w_Cr = 1. The release is the picture of the 24 flipped bits.

Before that the authors prune, to hide the picture from the eye: they set the coefficients LL of a one-level Haar
transform of each channel to zero, which subtracts the mean of its 2×2 block from each pixel. They count no cost for it.

**What a pixel loses.** Without pruning the 24 bits of a pixel are functions of that pixel alone, and the losses of
independent bits add up: exactly the stated ε, for pixels whose 24 bits all differ. With pruning they are not. A
pixel enters the mean of its block, so another value of it moves all four pixels of the block, ¾ of the change in itself
and −¼ in the three others; and a move by one level can flip all eight bits of a channel (127 → 128). So the loss is a
sum over up to 4·24 bits: **at most 4 times the stated ε**, and near that (`worst_loss` finds pairs that lose 3.9 times
as much). To be ε-DP for a pixel, the stated ε has to be ε/4.

Each picture is released once. The public code of the authors draws fresh noise in every epoch, which releases it again.

Classifiers are trained on Y, Cb and Cr; a conversion to RGB would lose more by its clamp.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dipp.codec.pictures import Pixels

BITS = 8
GREY = 128.0
BLOCK = 2
LUMA = np.array([0.299, 0.587, 0.114])
"""Luma Y of R, G and B. Cb and Cr are (B − Y)/1.772 and (R − Y)/1.402 around mid-grey, as in JPEG files."""
WEIGHTS = np.array([4.0, 1.0, 1.0])
"""Weights w of Y, Cb and Cr."""
PART = 1000
"""Number of pictures that are drawn at a time."""


@dataclass(frozen=True)
class Slicing:
    """Randomised bit planes with a pure ε per pixel."""

    epsilon: float
    """The largest privacy loss of a pixel."""
    pruned: bool = False
    """Whether block means are removed first, as the authors do."""

    @property
    def stated(self) -> float:
        """The ε that the authors would state; the module's docstring explains the difference."""
        return self.epsilon / BLOCK**2 if self.pruned else self.epsilon

    @property
    def shares(self) -> NDArray[np.float64]:
        """ε of each bit, channels × bits, the highest bit first."""
        roots = np.sqrt(WEIGHTS[:, None] * 2.0 ** np.arange(BITS)[::-1])
        return np.asarray(self.stated * roots / roots.sum(), np.float64)

    def planes(self, pixels: Pixels) -> Pixels:
        """Return the planes Y, Cb and Cr of pictures (N, H, W, 3), pruned if wanted. They have no noise."""
        wide = pixels.astype(np.float64)
        luma = wide @ LUMA
        found = np.stack([luma, GREY + (wide[..., 2] - luma) / 1.772, GREY + (wide[..., 0] - luma) / 1.402], axis=-1)
        if self.pruned:
            count, height, width, channels = found.shape
            blocks = found.reshape(count, height // BLOCK, BLOCK, width // BLOCK, BLOCK, channels)
            found = (GREY + blocks - blocks.mean(axis=(2, 4), keepdims=True)).reshape(found.shape)
        return np.asarray(np.clip(np.rint(found), 0, 255), np.uint8)

    def privatise(self, pixels: Pixels, seed: str) -> Pixels:
        """Return the released pictures; a named seed lets any machine draw the same."""
        generator = np.random.default_rng(list(seed.encode()))
        flips = (1 / (1 + np.exp(self.shares))).astype(np.float32)
        found = []
        for start in range(0, len(pixels), PART):
            planes = self.planes(pixels[start : start + PART])
            flipped = generator.random((*planes.shape, BITS), np.float32) < flips
            found.append(planes ^ np.packbits(flipped, axis=-1)[..., 0])
        return np.concatenate(found)

    def loss(self, first: Pixels, second: Pixels) -> float:
        """Return the largest loss of any outcome between two pictures: the shares of all bits that differ, summed."""
        differ = self.planes(first[None]) ^ self.planes(second[None])
        return float((np.unpackbits(differ.reshape(-1, 3), axis=0).reshape(-1, BITS, 3) * self.shares.T).sum())


def worst_loss(slicing: Slicing, tries: int, seed: int = 0) -> float:
    """Return the largest loss found between two pictures that differ in one pixel, over the stated ε: a lower bound.

    It tries grey blocks of 2×2 pixels, one of whose pixels goes from any level to any other, and then random changes.
    """
    generator = np.random.default_rng(seed)
    best, at = max(((slicing.loss(*pair), pair) for pair in _grey_pairs(generator, tries)), key=lambda found: found[0])
    for _ in range(tries):
        first = np.clip(at[0].astype(np.int64) + generator.integers(-3, 4, at[0].shape), 0, 255).astype(np.uint8)
        second = first.copy()
        moved = at[1][0, 0].astype(np.int64) + generator.integers(-3, 4, 3)
        second[0, 0] = np.clip(moved, 0, 255).astype(np.uint8)
        found = slicing.loss(first, second)
        best, at = (found, (first, second)) if found > best else (best, at)
    return best / slicing.stated


def _grey_pairs(generator: np.random.Generator, tries: int) -> Iterator[tuple[Pixels, Pixels]]:
    for _ in range(tries):
        others, before, after = generator.integers(0, 256, 3)
        first = np.full((BLOCK, BLOCK, 3), others, np.uint8)
        first[0, 0] = before
        second = first.copy()
        second[0, 0] = after
        yield first, second
