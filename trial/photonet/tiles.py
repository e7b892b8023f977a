"""Large pictures in bounded memory: the network on tiles, with the output of the whole picture.

An output depends on the inputs within the network's margin alone. So a tile is cut out with that margin around it, as
far as the picture goes, and the margin of the output is thrown away: what is left is what the network gives on the
whole picture, to float rounding. Tiles start at multiples of the stride, so that the network's cells fall on the same
pixels, and where a tile touches the picture's border it is continued there just as the whole picture is.
"""

from __future__ import annotations

import torch
from torch import Tensor

from photonet.network import Network

SIDE = 1024
"""Pixels of a tile without its margin, if nothing else is asked for."""


def predict(network: Network, y: Tensor, snr: Tensor, precision: Tensor | None = None, side: int = SIDE) -> Tensor:
    """x̂0 of states (N, 3, H, W) at SNRs (N,), not clamped, in tiles of `side` pixels."""
    stride, margin = network.config.stride, network.config.margin
    side = max(stride, side // stride * stride)
    height, width = y.shape[2:]
    if height <= side + margin and width <= side + margin:  # margins would cost more than they save
        return network(y, snr, precision)  # type: ignore[no-any-return]
    whole = torch.empty_like(y)
    for top in range(0, height, side):
        for left in range(0, width, side):
            above, before = max(0, top - margin), max(0, left - margin)
            around = (..., slice(above, top + side + margin), slice(before, left + side + margin))
            tile = network(y[around], snr, None if precision is None else precision[around])
            inside = (..., slice(top - above, top - above + side), slice(left - before, left - before + side))
            whole[..., top : top + side, left : left + side] = tile[inside]
    return whole
