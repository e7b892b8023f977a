"""Deals by units and by blocks of units."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dipp.core.chunking import Chunks, Deal, DealtUnits, Integers, StepCoordinates
from dipp.core.geometry import Geometry
from dipp.core.masks import Mask
from dipp.core.step import CodedStep
from dipp.core.steps import BLOCK, ROUNDS
from dipp.core.unit import Unit
from dipp.errors import DippError


class UnitDeal(Deal):
    """The deal by units: a chunk has all touched coordinates of one unit, so each unit has one draw."""

    alone = True

    def require_unit(self, unit: Unit) -> None:
        """Accept any unit."""

    def counts(self, mask: Mask, unit: Unit, geometry: Geometry, steps: Sequence[CodedStep]) -> Integers:
        """Return the number of units that each step touches."""
        return mask.units(len(steps), unit, geometry)

    def touches(self, mask: Mask, channels: int, step: CodedStep, unit: Unit) -> int:  # noqa: ARG002
        """Return 1: a unit takes part in one selection of a step, because its coordinates are one chunk."""
        return 1

    def apart(self, mask: Mask, channels: int, count: int, separate: bool) -> bool:  # noqa: ARG002
        """Return true, because all coordinates of a unit are in one chunk."""
        return True

    def chunks(self, seed: bytes, touched: StepCoordinates, apart: bool) -> Chunks:  # noqa: ARG002
        """Return one chunk for each unit, in the order of the units."""
        coordinates = touched.coordinates
        units = touched.unit.of(coordinates, touched.geometry)
        order = coordinates[np.argsort(units, kind="stable")]
        sizes = np.bincount(units)
        offsets = np.concatenate([[0], np.cumsum(sizes[sizes > 0])]).astype(np.int64)
        order.flags.writeable = offsets.flags.writeable = False
        return Chunks(order, offsets)

    def dealt(self, dealt: Chunks, unit: Unit, geometry: Geometry) -> DealtUnits:
        """Return the number of chunks in which each unit has coordinates, and whether each chunk lies in one unit."""
        pairs = np.unique(np.stack([unit.of(dealt.order, geometry), dealt.owners()]), axis=1)
        return DealtUnits(np.bincount(pairs[0], minlength=unit.count(geometry)), pairs.shape[1] == dealt.count)


class BlockDeal(UnitDeal):
    """The deal by blocks: a chunk has the 4×4 coarse pixels of one block of a unit (`core.steps.Question`).

    Coordinates, unit and geometry are those of the coarse picture (`CodedStep.grid`). Each unit is divided by whole
    blocks, so a block lies in one unit; at the picture's edges blocks may be cut off. Blocks come in the order of the
    rounds, and within a round row by row.
    """

    def require_separate(self, separate: bool) -> None:
        """Raise if `separate` is false: each block has a chunk of its own."""
        if not separate:
            raise DippError("separate", "must be true where each block of a unit has a draw of its own, got false")

    def counts(self, mask: Mask, unit: Unit, geometry: Geometry, steps: Sequence[CodedStep]) -> Integers:  # noqa: ARG002
        """Return the number of blocks of the coarse picture of each step."""
        grids = (step.grid(unit, geometry)[1] for step in steps)
        return np.array([-(-grid.height // BLOCK) * -(-grid.width // BLOCK) for grid in grids], np.int64)

    def touches(self, mask: Mask, channels: int, step: CodedStep, unit: Unit) -> int:  # noqa: ARG002
        """Return the number of blocks of a unit: its boxes times the blocks of each box."""
        return unit.most_places * step.draws

    def require_touched(self, touched: int, mask: Mask, channels: int, unit: Unit) -> None:  # noqa: ARG002
        """Raise unless a unit of one step can have `touched` blocks, and so `touched` draws.

        A unit has at most `most_places` boxes, each with split × split blocks for a power of two `split`.
        """
        if touched not in {unit.most_places * 4**i for i in range(6)}:
            times = f", times its {unit.most_places} places" * (unit.most_places > 1)
            raise DippError("touched", f"must be 1, 4, 16, 64, 256 or 1024 blocks of a unit{times}, got {touched}")

    def chunks(self, seed: bytes, touched: StepCoordinates, apart: bool) -> Chunks:  # noqa: ARG002
        """Return one chunk for each block of the grid, in the order of the rounds."""
        step, coordinates, geometry = touched.step, touched.coordinates, touched.geometry
        row, column = np.divmod(coordinates // geometry.channels, geometry.width)
        row, column = row // BLOCK, column // BLOCK
        blocks = row * -(-geometry.width // BLOCK) + column
        pattern = np.array(ROUNDS[step.turns])
        turn = pattern[row % len(pattern), column % len(pattern)]
        keys = turn * (int(blocks.max()) + 1) + blocks
        dealt, sizes = np.argsort(keys, kind="stable"), np.unique(keys, return_counts=True)[1]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        starts = np.searchsorted(turn[dealt][offsets[:-1]], np.arange(1, step.turns))
        order = coordinates[dealt]
        order.flags.writeable = offsets.flags.writeable = False
        return Chunks(order, offsets, tuple(starts.tolist()))


BY_UNIT, BY_BLOCK = UnitDeal(), BlockDeal()
"""The deals by units, and by blocks of units."""
