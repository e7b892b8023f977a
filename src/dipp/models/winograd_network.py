"""Run the network for photographs on the CPU, for large pictures: in bands of rows, by Winograd's convolutions.

A band of rows goes through all scales before the next one does. A convolution needs the row below each row of its
output, so every layer lags behind the one before it, and keeps the few rows that it needs again. The last band ends at
the lower edge of the picture, and pushes out what is left. So the network computes every row of every layer once, and
gives the output of the whole picture, to the rounding of floats. Tiles with margins would compute up to twice as many.
Memory grows with the width of a picture, and not with its height.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dipp.models.config import COLOURS, FOLD, LARGEST_SNR, SNR_RANGE, WAVES, Config
from dipp.models.winograd import convolve, grow, panels, shrunk, transformed
from dipp.models.winograd_kernels import PANEL, Floats, fold, unfold

BAND = 1 << 18
"""Number of pixels of a band, about; a picture of less than twice as many is one band. The allocator reuses the memory
of arrays of this size, where it would ask the system for that of larger ones each time."""


class Winograd:
    """A network for photographs with Winograd's convolutions, called in the same way as `runtime.Runtime`.

    Args:
        config: Config of the network, for which `winograd.possible` is true.
        weights: Its weights by their names, fp32.
    """

    def __init__(self, config: Config, weights: Mapping[str, Floats]) -> None:
        self.config, self.weights = config, weights
        self.enter, self.leave = (_Convolution(weights, name) for name in ("enter", "leave"))
        self.blocks = {
            name: [_Block(weights, f"{name}.{number}") for number in range(blocks)]
            for way, counts in (("downs", config.down), ("ups", config.up))
            for name, blocks in ((f"{way}.{scale}", blocks) for scale, blocks in enumerate(counts))
        }
        pairs = range(len(config.up))
        down, up = ([weights[f"{way}.{scale}.weight"] for scale in pairs] for way in ("shrink", "grow"))
        self.shrink = [panels(weight.transpose(2, 3, 1, 0).reshape(-1, len(weight))) for weight in down]
        self.grow = [panels(weight.transpose(0, 2, 3, 1).reshape(len(weight), -1)) for weight in up]

    def __call__(self, told: Floats, snr: float) -> Floats:
        """Return estimated pictures x̂0 (N, 3, H, W), clamped to [−1, 1], for stacked planes (N, K, H, W) at one SNR."""
        size = told.shape[2], told.shape[3]
        return np.concatenate([self.predict(functools.partial(_rows_of, one), size, snr) for one in told])

    def predict(
        self,
        told: Callable[[slice], Floats],
        size: tuple[int, int],
        snr: float,
        report: Callable[[int], None] = lambda _: None,
    ) -> Floats:
        """Return the estimate x̂0 (1, 3, H, W) of one picture, clamped to [−1, 1].

        Args:
            told: Function from rows of the picture to its stacked planes in them (1, K, h, W). It is called for bands
                of rows from top to bottom.
            size: Height and width of the picture.
            snr: SNR of the picture.
            report: Callback that receives the number of pixels of each band that has gone through the network.
        """
        height, width = size
        level = np.full((1, 1, 1, 1), min(snr, LARGEST_SNR), np.float32)
        correction = _Correction(self, width, float(level.item()))
        x0, done = np.empty((1, COLOURS, height, width), np.float32), 0
        factors = np.empty((1, 1, 0, width), np.float32)  # of the rows that are not done
        least = 2 * self.config.stride  # so that tiles are whole at all scales but the coarsest
        step = height if height * width < 2 * BAND else max(1, BAND // (width * least)) * least
        for top in range(0, height, step):
            rows = slice(top, min(top + step, height))
            given, x0[:, :, rows], out = self.config.given(told(rows), level, np)
            factors = np.concatenate([factors, np.broadcast_to(out, (1, 1, rows.stop - top, width))], axis=2)
            found = correction(given[0], rows.stop == height)[:, : height - done, :width]
            count = found.shape[1]
            part = x0[0, :, done : done + count]
            part += factors[0, :, :count] * found
            np.clip(part, -1, 1, out=part)
            factors, done = factors[:, :, count:], done + count
            report((rows.stop - top) * width)
        return x0

    def linear(self, x: Floats, name: str) -> Floats:
        """Return the output of the linear layer `name` for the input `x`, a row of values."""
        return self.weights[f"{name}.weight"] @ x + self.weights[f"{name}.bias"]


class _Correction:
    """The correction that the network computes for one picture (`network`), whose rows arrive in bands.

    Args:
        network: The network.
        width: Width of the picture.
        snr: SNR of the picture.
    """

    def __init__(self, network: Winograd, width: int, snr: float) -> None:
        level = np.float32(np.log(np.clip(snr, *SNR_RANGE))) * WAVES
        embedding = _silu(network.linear(np.concatenate([np.sin(level), np.cos(level)]), "embed.0"))
        self.stride = network.config.stride
        self.width = -(-width // self.stride) * self.stride // FOLD
        self.enter = _Convolved(network.enter, self.width)
        self.scales = _Scale(network, 0, self.width, embedding)
        self.leave = _Convolved(network.leave, self.width)

    def __call__(self, given: Floats, last: bool) -> Floats:
        """Take further rows of the planes (inputs, h, W), and return the finished rows of the correction (3, h', W').

        Args:
            given: The rows, whose number the stride divides, except in the last band.
            last: Whether there are no further rows.
        """
        height = -(-given.shape[1] // self.stride) * self.stride // FOLD
        folded = np.zeros((height, self.width, self.enter.convolution.inputs), np.float32)
        fold(given, folded)
        x = self.leave(self.scales([self.enter(folded, last)], last), last)
        planes = np.empty((COLOURS, FOLD * len(x), FOLD * self.width), np.float32)
        unfold(x, planes)
        return planes


class _Scale:
    """The part of the network at one scale and all coarser ones, for rows that arrive in bands.

    Args:
        network: The network.
        scale: Number of the scale, from 0 for the finest.
        width: Width of the rows.
        embedding: Embedding of the SNR.
    """

    def __init__(self, network: Winograd, scale: int, width: int, embedding: Floats) -> None:
        self.down = _Stage(network, f"downs.{scale}", width, embedding)
        self.coarser: _Scale | None = None
        if scale < len(network.grow):
            self.coarser = _Scale(network, scale + 1, width // 2, embedding)
            self.up = _Stage(network, f"ups.{scale}", width, embedding)
            self.shrink, self.grow = (
                (weights[scale], network.weights[f"{name}.{scale}.bias"])
                for name, weights in (("shrink", network.shrink), ("grow", network.grow))
            )
            self.passed: list[Floats] = []
            """Rows from the way down that wait for the coarser scale."""

    def __call__(self, parts: Sequence[Floats], last: bool) -> Floats:
        """Take further rows (h, W, C), in parts, and return the finished rows. The parts are overwritten."""
        x = self.down(parts, last)
        if self.coarser is None:
            return x
        self.passed.append(x)
        return self.up(self._grown(self.coarser([shrunk(x, *self.shrink)], last)), last)

    def _grown(self, coarse: Floats) -> list[Floats]:
        """Return waiting rows of the way down, in parts, after adding finished rows of the coarser scale to them."""
        parts = list[Floats]()
        while len(coarse):
            x = self.passed.pop(0)
            count = min(len(x) // 2, len(coarse))
            parts.append(x[: 2 * count])
            grow(coarse[:count], *self.grow, parts[-1])
            coarse = coarse[count:]
            if 2 * count < len(x):
                self.passed.insert(0, x[2 * count :])
        return parts


class _Stage:
    """The residual blocks of one scale on the way down or up, for rows that arrive in bands.

    Args:
        network: The network.
        name: Name of the stage in the network.
        width: Width of the rows.
        embedding: Embedding of the SNR.
    """

    def __init__(self, network: Winograd, name: str, width: int, embedding: Floats) -> None:
        self.blocks = network.blocks[name]
        self.modulations = [network.linear(embedding, f"{block.name}.modulation") for block in self.blocks]
        nothing = np.empty((0, width, network.config.channels[int(name.rpartition(".")[2])]), np.float32)
        self.arrived = self.done = 0
        self.kept = nothing
        """Rows that have arrived and are not done."""
        self.hidden = [nothing] * len(self.blocks)
        """Rows of the hidden layer of each block that it needs again."""

    def __call__(self, parts: Sequence[Floats], last: bool) -> Floats:
        """Take further rows (h, W, C), in parts, and return the finished rows, an even number of them.

        The parts may be overwritten. After n rows, a block whose input ends at row n has n − 1 rows of its hidden
        layer, and n − 2 rows of its output.
        """
        x, base = _joined(self.kept, parts), self.done
        before, self.arrived = self.arrived, self.arrived + sum(map(len, parts))
        after = self.arrived + 2 * len(self.blocks) * last  # below the last row everything is 0
        scratch = np.empty((len(x) + 2, *x.shape[1:]), np.float32)
        for number, (block, modulation) in enumerate(zip(self.blocks, self.modulations, strict=True)):
            given, hidden, end = (max(0, min(self.arrived, after - 2 * number - lag)) for lag in (0, 1, 2))
            first, start = (max(0, before - 2 * number - lag) for lag in (1, 2))
            above, needed = max(0, first - 1), max(0, start - 1)
            room = scratch[: hidden - needed]
            room[: first - needed] = self.hidden[number]
            block.hide(x[above - base : given - base], room[first - needed :], first - above, modulation)
            block.add(room, x[start - base : end - base], start - needed)
            self.hidden[number] = room[max(0, end - 1) - needed :].copy()
        self.done = self.arrived if last else max(0, after - 2 * len(self.blocks)) & ~1
        self.kept = x[self.done - base :].copy()
        return x[: self.done - base]


class _Convolved:
    """A convolution of rows that arrive in bands.

    Args:
        convolution: The convolution.
        width: Width of the rows.
    """

    def __init__(self, convolution: _Convolution, width: int) -> None:
        self.convolution, self.arrived, self.done = convolution, 0, 0
        self.kept = np.empty((0, width, convolution.inputs), np.float32)
        """Rows that are needed again."""

    def __call__(self, rows: Floats, last: bool) -> Floats:
        """Take further rows (h, W, I), and return the finished rows (h', W, O)."""
        x, before, needed = _joined(self.kept, [rows]), self.done, max(0, self.done - 1)
        self.arrived += len(rows)
        self.done = self.arrived if last else max(0, self.arrived - 1)
        self.kept = x[max(0, self.done - 1) - needed :].copy()
        return self.convolution(x, self.done - before, before - needed)


class _Convolution:
    """A 3×3 convolution (h, W, I) → (H, W, O), with I and O padded by zeros to multiples of `PANEL`."""

    def __init__(self, weights: Mapping[str, Floats], name: str) -> None:
        weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
        more, missing = (-count % PANEL for count in weight.shape[:2])
        self.weights = transformed(np.pad(weight, ((0, more), (0, missing), (0, 0), (0, 0))))
        self.bias = np.pad(bias, (0, more))
        self.inputs = weight.shape[1] + missing

    def __call__(self, x: Floats, height: int, above: int) -> Floats:
        """Return `height` rows of the convolution, where x has `above` more rows at the top."""
        out = np.zeros((height, x.shape[1], len(self.bias)), np.float32)
        convolve(x, self.weights, np.ones_like(self.bias), self.bias, out, above=above, activate=False)
        return out


class _Block:
    """A residual block (`network.Block`), which adds W₂·silu(a·(W₁·x) + b) to x."""

    def __init__(self, weights: Mapping[str, Floats], name: str) -> None:
        self.name = name
        self.weights = [transformed(weights[f"{name}.{which}.weight"]) for which in ("first", "second")]
        self.biases = [weights[f"{name}.{which}.bias"] for which in ("first", "second")]

    def hide(self, x: Floats, hidden: Floats, above: int, modulation: Floats) -> None:
        """Write rows of silu(a·(W₁·x) + b) to `hidden`, where x has `above` more rows at the top."""
        scale, shift = np.split(modulation, 2)
        a = 1 + scale
        convolve(x, self.weights[0], a, a * self.biases[0] + shift, hidden, above=above, activate=True)

    def add(self, hidden: Floats, x: Floats, above: int) -> None:
        """Add the block's output to rows of x, where `hidden` has `above` more rows at the top."""
        bias = self.biases[1]
        convolve(hidden, self.weights[1], np.ones_like(bias), bias, x, above=above, activate=False)


def _rows_of(told: Floats, rows: slice) -> Floats:
    """Return rows of one picture's planes (K, H, W), as (1, K, h, W)."""
    return told[None, :, rows]


def _joined(kept: Floats, parts: Sequence[Floats]) -> Floats:
    """Return kept rows and further rows as one array. A single part is returned as it is if no rows were kept."""
    return parts[0] if len(parts) == 1 and not len(kept) else np.concatenate([kept, *parts])


def _silu(x: Floats) -> Any:
    return x / (1 + np.exp(-x))
