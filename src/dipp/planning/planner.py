"""Plan along timesteps: find the steps that a privacy budget is best spent on.

**Graph.** The nodes are all timesteps 0 … T − 1 of the noise schedule; an edge t → s < t is a coded step. Paths start
at T − 1, whose state is common randomness. An edge takes bits, and costs privacy (`dipp.privacy.budget`).

*Bits.* The KL divergence of a step is d·E kl(|error|·√ΔSNR) for its d touched coordinates, with the errors of public
images (`dipp.planning.table`). Each chunk gets at most index_bits − pad bits of the divergence. So m chunks take
m·⌈KL/m + pad⌉ bits with the flat code, or m times what the code expects (`Code.expected_bits`): by KL alone, tiny
steps would look best. Steps that lose more than `saturation` of the shift's energy to the sign channel's bounds
(`ErrorTable.unsaturated_gains`) are barred, or the shortest path would choose exactly those.

**Path.** To every final timestep, the path of fewest bits within the budget:

- *Pure ε* is a knapsack (`dipp.planning.knapsack`): the cost of an edge is its ε as a number of 2048ths of the budget,
  rounded up. No path of k steps within the share 1 − k/2048 of the budget takes fewer bits.
- *ρ* is proportional to the gain in SNR, however many the steps (up to truncation, which lowers it): the budget bars
  final timesteps, and the path is the shortest, exactly. But if chunks keep the C coordinates of a pixel apart
  (`separate`), a step in fewer than C chunks costs C times as much as one in more: a knapsack again, with both
  options for each edge. Its costs are differences of rounded SNRs: rounding does not grow with the number of steps.
- *(ε, δ)* is kept by a plan that keeps either ε or the ρ that converts to it: both are solved, and fewer bits win.
- A sign channel with a period P above C touches a pixel in C of P steps. The search counts the average cost of a pixel,
  and takes the first path, from the full budget downwards, whose worst pixel is within the budget; that path need not
  be the best.

Whatever the search believes, a path counts only if its certificate, from its integers, is within the budget.

**Choice.** The final timestep of the best expected quality; within 0.1 dB of it, fewest bits.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dipp.core import arithmetic
from dipp.core.geometry import Geometry
from dipp.core.masks import Mask
from dipp.core.plan import Coding, Plan
from dipp.core.step import MAX_INDEX_BITS
from dipp.core.steps import Step
from dipp.errors import DippError
from dipp.models.diffusion import NoiseSchedule
from dipp.planning.knapsack import Bits, Integers, Search
from dipp.planning.table import ErrorTable
from dipp.privacy.budget import SLACK, Budget, is_number, is_whole, losses
from dipp.privacy.certificate import Certificate
from dipp.privacy.printing import upper

Floats = NDArray[np.float64]

RESOLUTION = 2048
"""Number of equal parts of a budget, in which the costs of edges are counted."""
NEAR_TIE = 0.1
"""Expected PSNR in dB that is given up for fewer bits."""
CIFAR = Geometry(32, 32, 3)
"""Default geometry of a planner."""
MAX_CHUNK = 1 << 18
"""Largest number of coordinates of a chunk, so that scores with the Poisson order stay below 2^30."""


@dataclass(frozen=True)
class Sizes:
    """The sizes of indices: larger ones take more bits and time, and give a better picture."""

    index_bits: int = 17
    """Largest number of bits of an index: log2 of the candidates of a chunk."""
    pad: float = 3.0
    """Number of bits by which an index exceeds the KL divergence of its chunk."""
    saturation: float = 0.03
    """Largest fraction of the shift's energy that a step may lose to the bounds of its channel."""

    def __post_init__(self) -> None:
        if not 0 <= self.pad < self.index_bits <= MAX_INDEX_BITS:
            bounds = f"0 ≤ pad < index_bits ≤ {MAX_INDEX_BITS}"
            raise DippError("pad and index_bits", f"must satisfy {bounds}, got {self.pad:g} and {self.index_bits}")
        if not 0 < self.saturation < 1:
            raise DippError("saturation", f"must be between 0 and 1, got {self.saturation}")


@dataclass(frozen=True)
class Point:
    """A plan, with its expected rate and quality."""

    final_timestep: int | None
    """Timestep at which the steps end; None if they end at an SNR between timesteps."""
    plan: Plan
    bits: float
    """Expected payload of an image in bits."""
    bpp: float
    """Expected payload of an image in bits per pixel."""
    snr: float
    """SNR of the last state."""
    psnr: float
    """Expected PSNR of x̂0 at the last state, in dB."""
    table: str | None = None
    """SHA-256 of the public table that the gains follow from; None if they follow from the noise schedule."""
    bound: bool = False
    """Whether the rate, and not the budget, limits the quality."""


class _Edges(NamedTuple):
    """The steps between all pairs of nodes i < j, in arrays [i, j] or [o, i, j]; node i is timestep T − 1 − i.

    Option o = 0 takes as few chunks as the KL divergence needs; o = 1, if it exists, at least C. `gain` is ΔSNR,
    rounded down (`short_floats`), `size` the coordinates of a chunk; a barred step takes ∞ bits.
    """

    gain: Floats
    loss: Floats
    kl: Floats
    size: Integers
    index_bits: Integers
    bits: Bits


@dataclass(frozen=True, eq=False)
class Planner:
    """A planner along timesteps, for one coding, model and geometry of pictures. It looks at public numbers alone."""

    schedule: NoiseSchedule
    table: ErrorTable
    coding: Coding
    chains: str | None = None
    """Name of the factors in the table by which coded chains have larger errors (`ErrorTable.inflation`); None: 1."""
    geometry: Geometry = CIFAR
    """Geometry of a picture. The plan serves other sizes at about the same bits per pixel."""
    sizes: Sizes = Sizes()
    separate: bool = True
    """Whether the encoder keeps the coordinates of a pixel in different chunks if a step has at least C."""
    area: int = 1
    """Number of pixels of the picture for each pixel of `geometry`; more than 1 if `geometry` is that of latents."""

    def __post_init__(self) -> None:
        self.table.require(self.schedule)
        self._mask.require(self.geometry.channels)

    def choose(self, budget: Budget | None, *, final_timestep: int | None = None, bpp: float | None = None) -> Point:
        """Return the plan of the best expected quality within the budget, and within a rate or to a timestep.

        Args:
            budget: The budget; None for codings without a certificate, which need one of the other arguments.
            final_timestep: Timestep at which the steps end. By default that of the best expected quality.
            bpp: Largest payload in bits per pixel. By default the rate has no limit.

        Raises:
            DippError: An argument is invalid, or no plan keeps the limits.
        """
        limits = (final_timestep is not None) + (bpp is not None)
        if limits > 1:
            raise DippError("final_timestep and bpp", "cannot both be given", "leave one out")
        if budget is None and not limits:
            raise DippError(
                "bpp", "must be a rate for a coding without a certificate", "pass --bpp or --final-timestep"
            )
        require_limits(self.schedule, final_timestep, bpp)
        points = self.frontier(budget)
        if budget is not None and not points:
            least = budget.measure(self._certificate(self._plan([0, 1], [0])))
            raise DippError(
                "budget", f"{budget} is too small for any step of this model", f"give at least {upper(least, 3)}"
            )
        within = [p for p in points if final_timestep in (None, p.final_timestep) and (bpp is None or p.bpp <= bpp)]
        if not within:
            limit, value = ("final_timestep", f"{final_timestep}") if bpp is None else ("bpp", f"{bpp:g}")
            advice = f"give at least {upper(min((point.bpp for point in points), default=0.0), 3)}"
            if bpp is None:
                reached = [point.final_timestep or 0 for point in points] or [0]
                advice = f"choose one from {min(reached)} to {max(reached)}"
            verb = "reached" if bpp is None else "kept"
            raise DippError(limit, f"{value} cannot be {verb}{f' within {budget}' if budget else ''}", advice)
        good = max(point.psnr for point in within) - NEAR_TIE
        return min((point for point in within if point.psnr >= good), key=lambda point: (point.bits, -point.psnr))

    def along(self, timesteps: Sequence[int]) -> Point:
        """Return the plan along given timesteps without a budget, to compare codings.

        Args:
            timesteps: Two or more timesteps in falling order, of which the first is T − 1.

        Raises:
            DippError: The timesteps are invalid, or the coding cannot take a step between two of them.
        """
        last = len(self.schedule) - 1
        nodes = [last - t for t in timesteps]
        if nodes[:1] != [0] or nodes != sorted(set(nodes)) or not 0 < nodes[-1] <= last:
            raise DippError("timesteps", f"must be two or more, falling from {last} to at least 0")
        costs = np.stack([self._edges.bits[:, i, j] for i, j in itertools.pairwise(nodes)], axis=1)
        bits = costs.min(axis=0).sum().item() + self.coding.code.padding_bits
        if not math.isfinite(bits):
            raise DippError("timesteps", f"have a step that {self.coding.name} cannot take", "use smaller steps")
        plan, snr = self._plan(nodes, costs.argmin(axis=0).tolist()), self.schedule.snr(timesteps[-1])
        quality = float(self.table.psnr(snr, self.chains))
        return Point(timesteps[-1], plan, bits, bits / (self.geometry.pixels * self.area), snr, quality)

    def frontier(self, budget: Budget | None) -> tuple[Point, ...]:
        """Return the plan of fewest bits to every final timestep within a budget, in ascending SNR."""
        if budget is not None:
            self.coding.require_certified()
        searches = list(self._searches(budget))
        cheapest = {
            t: best for t in range(len(self.schedule) - 2, -1, -1) if (best := self._cheapest(searches, t, budget))
        }
        snrs = np.array([self.schedule.snr(t) for t in cheapest])
        expected = zip(cheapest.items(), snrs.tolist(), self.table.psnr(snrs, self.chains).tolist(), strict=True)
        pixels = self.geometry.pixels * self.area
        return tuple(Point(t, plan, bits, bits / pixels, snr, psnr) for (t, (bits, plan)), snr, psnr in expected)

    def _cheapest(self, searches: list[Search], final: int, budget: Budget | None) -> tuple[float, Plan] | None:
        """Return bits and plan of the cheapest path to a timestep whose certificate is within the budget, or None.

        The certificate needs the integers of the whole plan. So it is computed last, and for the cheapest path first.
        """
        options, node = [], len(self.schedule) - 1 - final
        for number, search in enumerate(searches):
            costs = search.best[node, list(search.capacities)] + self.coding.code.padding_bits
            options += [(bits, number, -units) for bits, units in zip(costs.tolist(), search.capacities, strict=True)]
        for bits, number, units in sorted(options):
            if math.isinf(bits):
                return None
            plan = self._plan(*searches[number].path(node, -units))
            if budget is None or budget.allows(self._certificate(plan)):
                return bits, plan
        return None

    def _plan(self, nodes: list[int], options: list[int]) -> Plan:
        steps = [self._step(edge) for edge in zip(options, nodes, nodes[1:], strict=False)]
        return Plan(self.coding, tuple(steps), self.separate)

    @functools.cached_property
    def _step(self) -> Callable[[tuple[int, int, int]], Step]:
        """A function from an edge [o, i, j] to its step, with a cache, because neighbouring paths share most steps."""
        edges, last = self._edges, len(self.schedule) - 1

        @functools.cache
        def step(edge: tuple[int, int, int]) -> Step:
            _, i, j = edge
            size = edges.size[edge].item()
            units = self.coding.code.exponent_units(edges.kl[i, j].item() / -(-self._touched // size))
            return Step(last - i, last - j, edges.gain[i, j].item(), size, edges.index_bits[edge].item(), units)

        return step

    def _certificate(self, plan: Plan) -> Certificate:
        return Certificate.of(plan, self.geometry)

    @property
    def _mask(self) -> Mask:
        return self.coding.channel.mask

    @functools.cached_property
    def _touched(self) -> int:
        """Largest number of coordinates that a step touches."""
        return self._mask.largest(self.geometry)

    @functools.cached_property
    def _snrs(self) -> Floats:
        return np.array([self.schedule.snr(t) for t in range(len(self.schedule) - 1, -1, -1)])

    @functools.cached_property
    def _edges(self) -> _Edges:
        snrs, channel, name = self._snrs, self.coding.channel, self.chains
        forward = np.triu(np.ones((len(snrs), len(snrs)), np.bool_), 1)
        real = np.where(forward, snrs - snrs[:, None], 1.0)
        gain, loss = short_floats(real), np.full_like(real, math.inf)
        allowed = forward & (gain <= self.table.unsaturated_gains(channel, snrs, self.sizes.saturation, name)[:, None])
        level, loss[allowed] = losses(self.coding, gain[allowed])  # most are barred, so only the others are computed
        allowed[allowed] = (level >= 1) & (level < arithmetic.MAX_LEVEL)
        kl = self._touched * self.table.kl_matrix(channel, snrs, gain, name)
        apart = self.separate and self._mask.touches(self.geometry.channels) > 1
        chunked = [self._chunked(kl, allowed, least) for least in (1, self.geometry.channels)[: 1 + apart]]
        return _Edges(gain, loss, kl, *map(np.stack, zip(*chunked, strict=True)))

    def _chunked(self, kl: Floats, allowed: NDArray[np.bool_], least: int) -> tuple[Integers, Integers, Bits]:
        """Return the size of a chunk, the bits of an index and the bits of a step, in at least `least` chunks."""
        target, real = self.sizes.index_bits - self.sizes.pad, kl[allowed]
        # At most index_bits − pad bits a chunk; the clip at one coordinate may leave more, which bars the step.
        size = np.clip(np.floor(self._touched * target / real), 1, min(self._touched // least, MAX_CHUNK))
        count = np.ceil(self._touched / size)
        share = np.minimum(real / count, target)
        index_bits = np.clip(np.ceil(share + self.sizes.pad), 1, self.sizes.index_bits)
        bits = self.coding.code.expected_bits(share, index_bits)
        sizes, indices, costs = (
            np.ones(kl.shape, np.int32),
            np.ones(kl.shape, np.int32),
            np.full(kl.shape, np.inf, np.float32),
        )
        sizes[allowed], indices[allowed] = size, index_bits
        costs[allowed] = np.where(real <= count * target * SLACK, count * bits, math.inf)
        return sizes, indices, costs

    def _searches(self, budget: Budget | None) -> Iterator[Search]:
        bits = self._edges.bits
        if budget is None:
            yield Search(bits, np.zeros(bits.shape, np.int32), (0,))
            return
        # If a step does not touch all pixels, costs are averages over them. The least capacity is safe for each pixel.
        coordinates = self._mask.mean_touches(self.geometry.channels)
        shares = (1.0, *np.geomspace(0.995, 0.99 * min(coordinates, 1.0), 16))
        capacities = tuple(math.floor(RESOLUTION * share) for share in shares)
        if budget.epsilon is not None:
            costs = np.ceil(self._edges.loss * (coordinates * SLACK * RESOLUTION / budget.epsilon))
            yield Search(bits, _units(costs, bits.shape), capacities)
        if not (rho := budget.zcdp_limit):
            return
        # ρ is 2·α²·L²·ΔSNR for one coordinate in a selection; C times that for C coordinates of a pixel in different
        # selections, and C² times in the same one.
        crowd = self._mask.touches(self.geometry.channels)
        alpha, slope = float(self.coding.code.score_alpha), self.coding.channel.slope
        rate = 2 * alpha**2 * slope**2 * coordinates * SLACK / rho
        used = (self._snrs - self._snrs[0]) * rate
        if len(bits) == 1:
            yield Search(bits, _units(used * crowd > 1, bits.shape), (0,))
            return
        rounded = np.ceil(used * RESOLUTION)
        crowded = np.ceil(self._touched / self._edges.size) < self.geometry.channels
        costs = (rounded - rounded[:, None]) * np.where(crowded, crowd, 1)
        yield Search(bits, _units(costs, bits.shape), capacities)


def require_limits(schedule: NoiseSchedule, final_timestep: object, bpp: object) -> None:
    """Raise if a schedule does not have a final timestep, or if a rate is not a positive number; None is no limit.

    Args:
        schedule: The noise schedule.
        final_timestep: The final timestep; None is no limit.
        bpp: The rate in bits per pixel; None is no limit.

    Raises:
        DippError: One of them is invalid.
    """
    last = len(schedule) - 1
    if final_timestep is not None and not (is_whole(final_timestep) and 0 <= final_timestep <= last):
        raise DippError("final_timestep", f"must be a whole number from 0 to {last}, got {final_timestep!r}")
    if bpp is not None and not (is_number(bpp) and bpp > 0):
        raise DippError("bpp", f"must be a positive number, got {bpp!r}")


def short_floats(values: Floats) -> Floats:
    """Return numbers cut to the upper half of a 32-bit float, which makes them smaller by less than 1/128.

    In a file, such numbers take two bytes less each.
    """
    short = values.astype(np.float32)
    below = np.where(short > values, np.nextafter(short, np.float32(0)), short)
    return (below.view(np.int32) & -(1 << 16)).view(np.float32).astype(np.float64)


def _units(units: NDArray[np.generic], shape: tuple[int, ...]) -> Integers:
    return np.ascontiguousarray(np.broadcast_to(np.clip(units, 0, 1 << 30), shape), np.int32)
