"""Convolutions on the CPU with a quarter of the multiplications, for the network for photographs (`winograd_network`).

Most of the time of a call goes into the 3×3 convolutions. Libraries compute them directly, near the peak of the
processor, so only fewer multiplications make them faster. Here they take a third of that time. The convolutions between
scales are products of matrices, since pictures have their channels side by side, (H, W, C). They do not use a library's
products, because its threads wait by spinning, which takes several times the processor time while other programs have
work to do.

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
of its tile, so it does not depend on threads either.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

import numpy as np

from dipp.compiling import features
from dipp.models.config import Config
from dipp.models.running import threads
from dipp.models.winograd_kernels import (
    OUT,
    PANEL,
    TILES,
    WEIGHTS,
    Floats,
    convolve_tiles,
    grow_pixels,
    shrink_pixels,
)

STEP = 4 * TILES
"""Largest number of tiles, or of pixels, that a thread takes at a time."""


def possible(config: Config) -> bool:
    """Return whether the kernels support this machine and the numbers of channels of a network."""
    return {"avx2", "fma"} <= features() and not any(channels % PANEL for channels in config.channels)


def transformed(weights: Floats) -> Floats:
    """Return the products G g Gᵀ (O/PANEL, 36, I, PANEL) of weights g (O, I, 3, 3), where PANEL divides O and I."""
    both = np.kron(WEIGHTS, WEIGHTS)
    cells = both @ weights.reshape(-1, PANEL, weights.shape[1], 9).transpose(0, 2, 3, 1).astype(np.float64)
    return np.ascontiguousarray(cells.swapaxes(1, 2), np.float32)


def panels(matrix: Floats) -> Floats:
    """Return a matrix (I, O) cut into panels of PANEL columns, (O/PANEL, I, PANEL)."""
    return np.ascontiguousarray(matrix.reshape(len(matrix), -1, PANEL).swapaxes(0, 1))


def convolve(
    x: Floats, weights: Floats, scale: Floats, shift: Floats, out: Floats, *, above: int = 0, activate: bool
) -> None:
    """Compute z = scale·(W∗x) + shift, where W∗x is a 3×3 convolution, and write silu(z) to `out` or add z to it.

    All arrays are in C order.

    Args:
        x: Rows of a picture (h, W, I). Everything outside of them is 0.
        weights: The `transformed` weights W.
        scale: Factors (O,).
        shift: Summands (O,).
        out: Where the result goes (H, W, O).
        above: Number of rows of x above the first row of the result.
        activate: Whether to write silu(z) to `out`, and not to add z.
    """
    count = -(-out.shape[0] // OUT) * -(-out.shape[1] // OUT)
    shared(lambda *part: convolve_tiles(x, weights, scale, shift, out, above, activate, *part), count)


def shrunk(x: Floats, weights: Floats, bias: Floats) -> Floats:
    """Return the 2×2 convolution of x (2H, 2W, I) with stride 2, (H, W, O).

    Args:
        x: Rows of a picture, in C order.
        weights: The `panels` of the weights (4·I, O), of the upper left pixel first, then of the upper right one.
        bias: Summands (O,).
    """
    out = np.empty((len(x) // 2, x.shape[1] // 2, len(bias)), np.float32)
    shared(lambda *part: shrink_pixels(x, weights, bias, out, *part), out[..., 0].size)
    return out


def grow(x: Floats, weights: Floats, bias: Floats, onto: Floats) -> None:
    """Add the transposed 2×2 convolution of x (H, W, I), and its bias, to `onto` (2H, 2W, O).

    Args:
        x: Rows of a picture, in C order.
        weights: The `panels` of the weights (I, 4·O), in the order of `shrunk`.
        bias: Summands (O,).
        onto: Where the result is added, in C order.
    """
    shared(lambda *part: grow_pixels(x, weights, bias, onto, *part), x[..., 0].size)


def shared(work: Callable[[int, int], None], count: int) -> None:
    """Call a function for parts (start, stop) of the range from 0 to `count`, by `running.threads()` threads.

    The threads end with the call, because a forked process would not have them.

    Args:
        work: The function, which receives start and stop of a part.
        count: End of the range.
    """
    errors: list[BaseException] = []
    most = threads()
    step = min(STEP, -(-count // (2 * most * TILES)) * TILES) or TILES  # at least two parts for each thread
    starts = iter(range(0, count, step))

    def run() -> None:
        try:
            for start in starts:  # all threads take from this iterator
                work(start, min(start + step, count))
        except BaseException as error:
            errors.append(error)

    others: list[threading.Thread] = []
    with contextlib.suppress(RuntimeError):  # no further thread can be started: the others do the work
        for _ in range(min(most, -(-count // step)) - 1):
            other = threading.Thread(target=run)
            other.start()  # a pool would refuse work after the main thread ended, while others may still encode
            others.append(other)
    run()
    for other in others:
        other.join()
    if errors:
        raise errors[0]
