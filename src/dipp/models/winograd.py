"""The network for photographs on the CPU, for large pictures: convolutions in a quarter of the multiplications.

Most of the time of a call goes into the 3×3 convolutions of the blocks and of the entrance. Libraries compute them
directly, near the peak of the processor, so only fewer multiplications make them faster. Here they take a third of that
time; all else of the network is left to PyTorch.

**Mathematics.** Four outputs y of a convolution with three weights g, from six inputs d, come of a product of
polynomials, and a polynomial is known from its values at points (Toom and Cook; Winograd). With five points p and
N_j = Π_{l≠j} (p_j − p_l),

    y = Aᵀ[(G g) ⊙ (Bᵀ d)]      Aᵀ_ij = p_jⁱ,  G_jk = p_jᵏ/N_j,  Bᵀ_jk = coefficient of xᵏ in Π_{l≠j} (x − p_l)

and with a sixth point at infinity, which stands for leading coefficients and has Π_l (x − p_l) in Bᵀ. In two dimensions
a tile of 4×4 outputs is Aᵀ[(G g Gᵀ) ⊙ (Bᵀ d B)]A: 36 products instead of 144. Summed over input channels they are 36
products of matrices, tiles × inputs by inputs × outputs. The weights are transformed once, in double precision.

**Errors.** The transforms add numbers that are larger than their sum, by powers of the points and of their inverses. So
the points are 0, ±√½ and ±√2: a convolution of 64 channels of unit variance then errs by 8e-7 in the root mean square,
against 2e-7 of plain sums in fp32, and by 1.7e-6 with 0, ±1 and ±2. The order of a sum does not depend on the place of
its tile, and so not on threads and batches.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from dipp.compiling import features
from dipp.models.network import Config, Network, Stage
from dipp.models.winograd_kernels import OUT, PANEL, TILES, WEIGHTS, Floats, convolve_tiles

if TYPE_CHECKING:
    from dipp.models.network import Block

STEP = 4 * TILES
"""Tiles that a thread takes at a time."""


def possible(config: Config) -> bool:
    """Whether the kernels are made for this machine and the channels of a network."""
    return {"avx2", "fma"} <= features() and not any(channels % PANEL for channels in config.channels)


def transformed(weights: Floats) -> Floats:
    """G g Gᵀ of the weights (O, I, 3, 3) of a convolution, as (O/PANEL, 36, I, PANEL); PANEL divides O and I."""
    both = np.kron(WEIGHTS, WEIGHTS)
    cells = both @ weights.reshape(-1, PANEL, weights.shape[1], 9).transpose(0, 2, 3, 1).astype(np.float64)
    return np.ascontiguousarray(cells.swapaxes(1, 2), np.float32)


def convolve(
    x: Floats, weights: Floats, scale: Floats, shift: Floats, out: Floats, *, activate: bool, threads: int
) -> None:
    """With z = scale·(W∗x) + shift: out = silu(z), or out += z.

    x is (N, H, W, I) and out (N, H, W, O), in C order; scale and shift are (O,), and the weights are `transformed`.
    Threads end with the call, so that a forked process misses none.
    """
    errors: list[BaseException] = []
    count = len(x) * -(-x.shape[1] // OUT) * -(-x.shape[2] // OUT)
    starts = iter(range(0, count, STEP))

    def work() -> None:
        try:
            for start in starts:  # the threads share it
                convolve_tiles(x, weights, scale, shift, out, activate, start, min(start + STEP, count))
        except BaseException as error:
            errors.append(error)

    others: list[threading.Thread] = []
    with contextlib.suppress(RuntimeError):  # no more threads are to be had: then those that there are do it all
        for _ in range(min(threads, -(-count // STEP)) - 1):
            other = threading.Thread(target=work)
            other.start()  # no pool: it would refuse once the main thread has ended, though others may still encode
            others.append(other)
    work()
    for other in others:
        other.join()
    if errors:
        raise errors[0]


class Winograd:
    """A network whose blocks are computed so, with as many threads as PyTorch has; it is called as a `Runtime` is."""

    def __init__(self, network: Network) -> None:
        with torch.device("meta"):
            self.network = Network(network.config)
        self.network.load_state_dict(network.state_dict(), assign=True)
        self.network.enter = _Enter(network.enter)  # type: ignore[assignment]
        self.network.downs, self.network.ups = (
            nn.ModuleList(_Stage(stage) for stage in stages)  # type: ignore[arg-type]
            for stages in (network.downs, network.ups)
        )

    def __call__(self, y: Tensor, snr: float) -> Tensor:
        """x̂0, clamped to [−1, 1], of stacked planes (N, K, H, W)."""
        with torch.inference_mode(), torch.autocast("cpu", enabled=False):  # whatever the calling program has set
            y = y.contiguous(memory_format=torch.channels_last)
            x0: Tensor = self.network(y, torch.tensor([snr], device="cpu"))
            return x0.clamp(-1, 1)


class _Enter(nn.Module):
    """The convolution at the entrance, with inputs that are 0 up to a multiple of `PANEL`."""

    def __init__(self, convolution: nn.Conv2d) -> None:
        super().__init__()
        weight, bias = (one.detach().numpy() for one in (convolution.weight, convolution.bias))  # type: ignore[union-attr]
        self.missing = -weight.shape[1] % PANEL
        self.weights = transformed(np.pad(weight, ((0, 0), (0, self.missing), (0, 0), (0, 0))))
        self.bias = bias

    def forward(self, x: Tensor) -> Tensor:
        """The convolution's output."""
        given = nn.functional.pad(x.permute(0, 2, 3, 1), (0, self.missing)).contiguous().numpy()
        out = np.zeros((*given.shape[:3], len(self.bias)), np.float32)
        ones, threads = np.ones_like(self.bias), torch.get_num_threads()
        convolve(given, self.weights, ones, self.bias, out, activate=False, threads=threads)
        return torch.from_numpy(out).permute(0, 3, 1, 2)


class _Stage(nn.Module):
    """`Stage` at one SNR."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.blocks = [_Block(block) for block in stage]  # type: ignore[arg-type]

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        """The last block's output, in the place of x (N, C, H, W), for an embedding (1, E)."""
        x = x.contiguous(memory_format=torch.channels_last)
        outer, inner = (one.permute(0, 2, 3, 1).numpy() for one in (x, torch.empty_like(x)))
        for block in self.blocks:
            block(outer, inner, embedding)
        return x


class _Block:
    """`Block` at one SNR, in place."""

    def __init__(self, block: Block) -> None:
        own = {name: tensor.detach().numpy() for name, tensor in block.named_parameters()}
        self.modulation = block.modulation
        self.weights = [transformed(own[f"{name}.weight"]) for name in ("first", "second")]
        self.biases = own["first.bias"], own["second.bias"]

    def __call__(self, x: Floats, hidden: Floats, embedding: Tensor) -> None:
        """x += W₂·silu(a·(W₁·x) + b), for x and the room for hidden channels (N, H, W, C)."""
        threads = torch.get_num_threads()
        scale, shift = np.split(self.modulation(embedding)[0].numpy(), 2)
        a, (first, second) = 1 + scale, self.biases
        convolve(x, self.weights[0], a, a * first + shift, hidden, activate=True, threads=threads)
        convolve(hidden, self.weights[1], np.ones_like(a), second, x, activate=False, threads=threads)
