"""Run the network for photographs on the CPU, for large pictures: convolutions with a quarter of the multiplications.

Most of the time of a call goes into the 3×3 convolutions. Libraries compute them directly, near the peak of the
processor, so only fewer multiplications make them faster. Here they take a third of that time. The convolutions between
scales are products of matrices, since pictures have their channels side by side, (N, H, W, C). They do not use a
library's products, because its threads wait by spinning, which takes several times the processor time while other
programs have work to do.

**Mathematics.** Four outputs y of a convolution with three weights g, from six inputs d, are coefficients of a product
of polynomials, and a polynomial follows from its values at points (Toom and Cook; Winograd). With five points p and
N_j = Π_{l≠j} (p_j − p_l),

    y = Aᵀ[(G g) ⊙ (Bᵀ d)]      Aᵀ_ij = p_jⁱ,  G_jk = p_jᵏ/N_j,  Bᵀ_jk = coefficient of xᵏ in Π_{l≠j} (x − p_l)

and with a sixth point at infinity, which stands for leading coefficients and has Π_l (x − p_l) in Bᵀ. In two dimensions
a tile of 4×4 outputs is Aᵀ[(G g Gᵀ) ⊙ (Bᵀ d B)]A: 36 products instead of 144. Summed over input channels they are 36
products of matrices, tiles × inputs by inputs × outputs. The weights are transformed once, in double precision.

**Errors.** The transforms add numbers that are larger than their sum, by powers of the points and of their inverses. So
the points are 0, ±√½ and ±√2: a convolution of 64 channels of unit variance then errs by 8e-7 in the root mean square,
against 2e-7 of plain sums in fp32, and by 1.7e-6 with 0, ±1 and ±2. The order of a sum does not depend on the position
of its tile, so it does not depend on threads and batches either.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dipp.compiling import features
from dipp.models.config import COLOURS, FOLD, LARGEST_SNR, SNR_RANGE, WAVES, Config
from dipp.models.running import threads
from dipp.models.winograd_kernels import (
    OUT,
    PANEL,
    TILES,
    WEIGHTS,
    Floats,
    convolve_tiles,
    fold,
    grow_pixels,
    shrink_pixels,
    unfold,
)

STEP = 4 * TILES
"""Number of tiles, or of pixels, that a thread takes at a time."""


def possible(config: Config) -> bool:
    """Return whether the kernels support this machine and the numbers of channels of a network."""
    return {"avx2", "fma"} <= features() and not any(channels % PANEL for channels in config.channels)


def transformed(weights: Floats) -> Floats:
    """Return G g Gᵀ of a convolution's weights (O, I, 3, 3), as (O/PANEL, 36, I, PANEL). PANEL divides O and I."""
    both = np.kron(WEIGHTS, WEIGHTS)
    cells = both @ weights.reshape(-1, PANEL, weights.shape[1], 9).transpose(0, 2, 3, 1).astype(np.float64)
    return np.ascontiguousarray(cells.swapaxes(1, 2), np.float32)


def convolve(
    x: Floats, weights: Floats, scale: Floats, shift: Floats, out: Floats, *, activate: bool, threads: int
) -> None:
    """Compute a 3×3 convolution z = scale·(W∗x) + shift, and then out = silu(z) or out += z.

    Args:
        x: Pictures (N, H, W, I), in C order.
        weights: The `transformed` weights W.
        scale: Factors (O,).
        shift: Summands (O,).
        out: Where the result goes (N, H, W, O), in C order.
        activate: Whether to compute out = silu(z), and not out += z.
        threads: Number of threads.
    """
    count = len(x) * -(-x.shape[1] // OUT) * -(-x.shape[2] // OUT)
    shared(lambda *part: convolve_tiles(x, weights, scale, shift, out, activate, *part), count, threads)


def shared(work: Callable[[int, int], None], count: int, threads: int) -> None:
    """Call a function for parts (start, stop) of the numbers from 0 to `count`, by several threads.

    The threads end with the call, because a forked process would not have them.

    Args:
        work: The function.
        count: Number of things to do.
        threads: Largest number of threads.
    """
    errors: list[BaseException] = []
    starts = iter(range(0, count, STEP))

    def run() -> None:
        try:
            for start in starts:  # all threads take from this iterator
                work(start, min(start + STEP, count))
        except BaseException as error:
            errors.append(error)

    others: list[threading.Thread] = []
    with contextlib.suppress(RuntimeError):  # no further thread can be started: the others do the work
        for _ in range(min(threads, -(-count // STEP)) - 1):
            other = threading.Thread(target=run)
            other.start()  # a pool would refuse work after the main thread ended, while others may still encode
            others.append(other)
    run()
    for other in others:
        other.join()
    if errors:
        raise errors[0]


class Winograd:
    """A network for photographs with Winograd's convolutions, called in the same way as `runtime.Runtime`.

    Args:
        config: Config of the network, for which `possible` is true.
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
        self.shrink = [_panels(weight.transpose(2, 3, 1, 0).reshape(-1, len(weight))) for weight in down]
        self.grow = [_panels(weight.transpose(0, 2, 3, 1).reshape(len(weight), -1)) for weight in up]

    def __call__(self, told: Floats, snr: float) -> Floats:
        """Return x̂0 (N, 3, H, W), clamped to [−1, 1], of stacked planes (N, K, H, W) at one SNR."""
        height, width = told.shape[2:]
        level = np.full((1, 1, 1, 1), min(snr, LARGEST_SNR), np.float32)
        given, kept, out = self.config.given(told, level, np)
        kept += out * self.correction(given, float(level.item()))[:, :, :height, :width]
        x0: Floats = np.clip(kept, -1, 1, out=kept)
        return x0

    def correction(self, given: Floats, snr: float) -> Floats:
        """Return the correction F of planes (N, inputs, H, W), padded with zeros to multiples of the stride."""
        level = np.float32(np.log(np.clip(snr, *SNR_RANGE))) * WAVES
        embedding = _silu(self._linear(np.concatenate([np.sin(level), np.cos(level)]), "embed.0"))
        sides = tuple(-(-side // self.config.stride) * self.config.stride // FOLD for side in given.shape[2:])
        folded = np.zeros((len(given), *sides, self.enter.inputs), np.float32)
        fold(given, folded)
        x, passed = self.enter(folded), list[Floats]()
        del given, folded
        for scale, (weights, _) in enumerate(zip(self.shrink, self.config.up, strict=True)):
            passed.append(self._stage(x, f"downs.{scale}", embedding))
            x = _shrunk(x, weights, self.weights[f"shrink.{scale}.bias"])
        x = self._stage(x, f"downs.{len(passed)}", embedding)
        for scale, weights in reversed([*enumerate(self.grow)]):
            x = self._stage(
                _grown(x, weights, self.weights[f"grow.{scale}.bias"], passed.pop()), f"ups.{scale}", embedding
            )
        planes = np.empty((len(x), COLOURS, FOLD * x.shape[1], FOLD * x.shape[2]), np.float32)
        unfold(self.leave(x), planes)
        return planes

    def _stage(self, x: Floats, name: str, embedding: Floats) -> Floats:
        """Apply the blocks of a stage to x (N, H, W, C) in place, and return it."""
        hidden = np.empty_like(x)
        for block in self.blocks[name]:
            block(x, hidden, self._linear(embedding, f"{block.name}.modulation"))
        return x

    def _linear(self, x: Floats, name: str) -> Floats:
        return self.weights[f"{name}.weight"] @ x + self.weights[f"{name}.bias"]


class _Convolution:
    """A 3×3 convolution (N, H, W, I) → (N, H, W, O), with I and O padded by zeros to multiples of `PANEL`."""

    def __init__(self, weights: Mapping[str, Floats], name: str) -> None:
        weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
        more, missing = (-count % PANEL for count in weight.shape[:2])
        self.weights = transformed(np.pad(weight, ((0, more), (0, missing), (0, 0), (0, 0))))
        self.bias = np.pad(bias, (0, more))
        self.inputs = weight.shape[1] + missing

    def __call__(self, x: Floats) -> Floats:
        out = np.zeros((*x.shape[:3], len(self.bias)), np.float32)
        convolve(x, self.weights, np.ones_like(self.bias), self.bias, out, activate=False, threads=threads())
        return out


class _Block:
    """A residual block (`network.Block`), applied in place at one SNR."""

    def __init__(self, weights: Mapping[str, Floats], name: str) -> None:
        self.name = name
        self.weights = [transformed(weights[f"{name}.{which}.weight"]) for which in ("first", "second")]
        self.biases = [weights[f"{name}.{which}.bias"] for which in ("first", "second")]

    def __call__(self, x: Floats, hidden: Floats, modulation: Floats) -> None:
        """Add W₂·silu(a·(W₁·x) + b) to x (N, H, W, C). `hidden`, of the same shape, is overwritten."""
        scale, shift = np.split(modulation, 2)
        a, (first, second) = 1 + scale, self.biases
        convolve(x, self.weights[0], a, a * first + shift, hidden, activate=True, threads=threads())
        convolve(hidden, self.weights[1], np.ones_like(a), second, x, activate=False, threads=threads())


def _panels(matrix: Floats) -> Floats:
    """Return a matrix (I, O) as panels (O/PANEL, I, PANEL)."""
    return np.ascontiguousarray(matrix.reshape(len(matrix), -1, PANEL).swapaxes(0, 1))


def _shrunk(x: Floats, weights: Floats, bias: Floats) -> Floats:
    """Return the 2×2 convolution of x (N, H, W, C) with stride 2."""
    batch, height, width, _ = x.shape
    out = np.empty((batch, height // 2, width // 2, len(bias)), np.float32)
    shared(lambda *part: shrink_pixels(x, weights, bias, out, *part), out[..., 0].size, threads())
    return out


def _grown(x: Floats, weights: Floats, bias: Floats, onto: Floats) -> Floats:
    """Add the transposed 2×2 convolution of x (N, H, W, I), and its bias, to `onto` (N, 2H, 2W, O), and return that."""
    shared(lambda *part: grow_pixels(x, weights, bias, onto, *part), x[..., 0].size, threads())
    return onto


def _silu(x: Floats) -> Any:
    return x / (1 + np.exp(-x))
