"""The CUDA backend: scores are a tensor on the device, and each stage is one call of a kernel for a batch of chunks.

Triton has kernels for every law and every stage. If CuPy is installed and the device has the 1-bit tensor-core product,
CUDA C++ computes the sign score, the Laplace score and the bin sums several times faster. Only sums and indices come
back to the host.
"""

from __future__ import annotations

import functools
import importlib.util
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dipp.core import selection
from dipp.core.arrays import host
from dipp.core.laws import IntegerLaw, LaplaceLaw, PotentialLaw, SignLaw
from dipp.core.randomness import DRAWS_PER_BLOCK
from dipp.errors import DippError, installing
from dipp.scoring.task import ScoringTask

try:
    import torch

    from dipp.scoring import triton_kernels as kernels
except ImportError as error:
    raise DippError("device", "is cuda, which needs PyTorch and Triton", installing("cuda")) from error

Uploaded = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]
"""The arrays of a task on the device: `streams`, `offsets` and `shifts` of `ScoringTask`, then the constant that is
added to the scores of each chunk (`_bases`), and the Poisson order padded to whole blocks (or None)."""

CACHED_LAWS = 64
"""Number of laws whose tables stay on the device."""
SCORE_TILE, TILE, WINNER_TILE = 256, 4096, 256
"""Size of the tile of one Triton program: blocks of eight candidates to score, candidates to sum, and coordinates."""


class DeviceLaw(NamedTuple):
    """A law with its tables on the device, for `triton_kernels.scores` and `cuda_kernels.laplace_scores`."""

    law: Any
    """SIGN, LAPLACE or POTENTIAL of `triton_kernels`."""
    table: torch.Tensor
    """Ascending magnitudes |z| up to the limit (Laplace), or z of each draw (potential)."""
    knots: torch.Tensor
    """Φ at each knot (low 32 bits) and its rise to the next (high 32 bits)."""
    size: int
    """Number of magnitudes in the table (Laplace), or the knot bits (potential)."""
    gaps: bool = False
    """Whether the magnitudes skip an integer below the limit."""


class GpuBackend:
    """The scoring backend of a CUDA device; tests run it by Triton's interpreter on the CPU."""

    name = "cuda"
    scores_per_batch = 1 << 26

    def __init__(self, device: str = "cuda") -> None:
        if device == "cuda" and not torch.cuda.is_available():
            raise DippError("device", "is cuda, but PyTorch sees no CUDA device")
        self.device = torch.device(device)
        self._device_law = functools.lru_cache(CACHED_LAWS)(self._device_law_of)
        self._weights = functools.cache(lambda bits: self._send(selection.fraction_weights(bits)))
        # Devices beyond compute capability 9 only emulate the 1-bit product, which is slow.
        suited = device == "cuda" and torch.cuda.get_device_capability(self.device)[0] in (8, 9)
        self.native = suited and importlib.util.find_spec("cupy") is not None
        """Whether CUDA C++ kernels are used for the stages in which they are faster."""

    def scores(self, task: ScoringTask) -> torch.Tensor:
        """Return chunks × n scores, int32: a view into rows that are padded to a multiple of eight candidates."""
        stride = -(-task.candidates // DRAWS_PER_BLOCK) * DRAWS_PER_BLOCK
        scores = torch.empty((task.chunks, stride), dtype=torch.int32, device=self.device)
        self._score(task.law, self._upload(task, stride), scores)
        return scores[:, : task.candidates]

    def _upload(self, task: ScoringTask, stride: int) -> Uploaded:
        """Return the arrays of a task on the device, with the Poisson order padded to `stride` candidates."""
        streams, offsets, shifts = (self._send(x) for x in (task.streams.view(np.int32), task.offsets, task.shifts))
        order = None if task.order is None else self._send(np.pad(task.order, (0, stride - task.candidates)))
        return streams, offsets, shifts, _bases(task.law, offsets, shifts), order

    def _score(self, law: IntegerLaw, task: Uploaded, scores: torch.Tensor) -> None:
        """Write the scores of a task, by CUDA C++ if it has a kernel for the law and otherwise by Triton."""
        tables = self._device_law(law)
        if self.native and isinstance(law, SignLaw) and law.limit < self._cuda.SIGN_LIMIT:
            self._cuda.sign_scores(task, scores)
        elif self.native and isinstance(law, LaplaceLaw) and law.limit < self._cuda.LAPLACE_LIMIT:
            self._cuda.laplace_scores(task, scores, tables.table, tables.size, tables.gaps)
        else:
            rows, stride = scores.shape
            *arrays, order = task
            kernels.scores[(rows, -(-stride // (DRAWS_PER_BLOCK * SCORE_TILE)))](
                scores,
                *arrays,
                scores if order is None else order,
                tables.table,
                tables.knots,
                tables.size,
                stride,
                LAW=tables.law,
                ORDERED=order is not None,
                TILE=SCORE_TILE,
            )

    def bin_sums(self, scores: torch.Tensor, fraction_bits: int) -> selection.Sums:
        """Return the exact sums of weights of each bin (`selection.bin_sums`)."""
        rows, candidates = scores.shape
        sums = torch.zeros((rows, selection.BINS), dtype=torch.int64, device=self.device)
        tops, weights = scores.amax(1), self._weights(fraction_bits)
        if self.native:
            self._cuda.bin_sums(sums, scores, tops, weights, fraction_bits)
        else:
            shape = (candidates, scores.stride(0), fraction_bits)
            kernels.bin_sums[(rows, -(-candidates // TILE))](sums, scores, tops, weights, *shape, TILE=TILE)
        return self.host(sums)

    def locate(
        self, scores: torch.Tensor, fraction_bits: int, bins: NDArray[np.int64], offsets: selection.Sums
    ) -> NDArray[np.int64]:
        """Return the index at the drawn offset of each chunk, or −1 if the weights of its bin end before the offset.

        The first kernel sums the weights of the bin in each tile; the second finds the index inside the right tile.
        """
        rows, candidates = scores.shape
        count = -(-candidates // TILE)
        tiles = torch.empty((rows, count), dtype=torch.int64, device=self.device)
        located = torch.empty(rows, dtype=torch.int64, device=self.device)
        drawn = (scores.amax(1), self._weights(fraction_bits), self._send(bins))
        shape = (candidates, scores.stride(0), fraction_bits)
        kernels.tile_sums[(rows, count)](tiles, scores, *drawn, *shape, TILE=TILE)
        powers = 1 << (count - 1).bit_length()
        targets = self._send(offsets)
        kernels.place[(rows,)](located, tiles, targets, count, scores, *drawn, *shape, COUNT=powers, TILE=TILE)
        return self.host(torch.where(tiles.sum(1) > targets, located, -1))

    def best(self, scores: torch.Tensor) -> NDArray[np.int64]:
        """Return the first index of the largest score of each chunk."""
        return self.host(scores.argmax(1))

    def winners(
        self, law: IntegerLaw, streams: NDArray[np.uint32], offsets: NDArray[np.int64], indices: NDArray[np.int64]
    ) -> torch.Tensor:
        """Return the draws of the chosen candidate of each chunk, coordinate after coordinate."""
        draws = torch.empty(int(offsets[-1]), dtype=torch.int16, device=self.device)
        sent = (self._send(x) for x in (streams.view(np.int32), offsets, indices))
        grid = (len(indices), -(-int(np.diff(offsets).max()) // WINNER_TILE))
        kernels.winners[grid](draws, *sent, GROUP=law.group_size, TILE=WINNER_TILE)
        return draws.to(torch.int32) & 0xFFFF

    def host(self, values: torch.Tensor | NDArray[Any]) -> NDArray[Any]:
        """Return the values as a NumPy array; shifts that lie on the host already are returned as they are."""
        return host(values)

    @property
    def _cuda(self) -> Any:
        from dipp.scoring import cuda_kernels

        return cuda_kernels

    def _send(self, array: NDArray[Any] | torch.Tensor) -> torch.Tensor:
        if isinstance(array, torch.Tensor):
            return array.to(self.device)
        return torch.from_numpy(np.require(array, requirements=["C", "W"])).to(self.device)

    def _device_law_of(self, law: IntegerLaw) -> DeviceLaw:
        none = torch.empty(0, dtype=torch.int64, device=self.device)
        if isinstance(law, SignLaw):
            return DeviceLaw(kernels.SIGN, none, none, 0)
        if isinstance(law, LaplaceLaw):
            magnitudes = _magnitudes(law)
            padded = np.pad(magnitudes, (0, -len(magnitudes) % 8))
            gaps = bool((np.diff(magnitudes) > 1).any())
            return DeviceLaw(kernels.LAPLACE, self._send(padded), none, len(magnitudes), gaps)
        if isinstance(law, PotentialLaw):
            short = bool((np.abs(law.values) < 1 << 15).all())
            values = law.values.astype(np.int16) if short else law.values
            low, high = law.knots[:-1].astype(np.int64), law.knots[1:].astype(np.int64)
            knots = (low & 0xFFFFFFFF) | ((high - low) << 32)
            return DeviceLaw(kernels.POTENTIAL, self._send(values), self._send(knots), law.knot_bits)
        raise DippError("law", f"must have a kernel of the CUDA backend, got {type(law).__name__}")


def _bases(law: IntegerLaw, offsets: torch.Tensor, shifts: torch.Tensor) -> torch.Tensor:
    """Return the constant of each chunk that kernels add to doubled sums: −Σ m (sign law) or −Σ |m| (Laplace law)."""
    running = torch.cumsum(shifts.abs() if isinstance(law, LaplaceLaw) else shifts, 0, dtype=torch.int64)
    ends = running[offsets[1:] - 1]
    return torch.diff(-ends, prepend=ends.new_zeros(1)).to(torch.int32)


def _magnitudes(law: LaplaceLaw) -> NDArray[Any]:
    """Return the ascending z of positive draws, clipped to the limit, up to and including the first z at the limit."""
    clipped = np.minimum(law.values[1 << 15 :], law.limit).astype(np.int16 if law.limit < 1 << 15 else np.int32)
    return clipped[: int(np.searchsorted(clipped, law.limit)) + 1]
