"""Find shortest paths under a constraint: the path of fewest bits to every node within every charge.

Nodes are numbered along the way, so that an edge i → j has i < j. An edge takes bits, and is charged a whole number of
units of the constrained quantity. There may be several options for an edge. With best[0, r] = 0,

    best[j, r] = min over i < j and options o of best[i, r − charge(o, i, j)] + bits(o, i, j),

which is exact for these units, up to the rounding of 32-bit floats.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dipp.errors import DippError

Bits = NDArray[np.float32]
"""Bits as 32-bit floats: the search is twice as fast, and the rounding is below a millionth."""
Integers = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Search:
    """The edges of a graph, and all shortest paths from node 0."""

    bits: Bits
    """Bits of the edge from node i to node j by option o, at [o, i, j]; ∞ if there is no such edge."""
    charges: Integers
    """Number of units that each edge is charged, at [o, i, j]."""
    capacities: tuple[int, ...]
    """Budgets of the paths, in units, the largest first. It bounds the table `best`."""

    @functools.cached_property
    def best(self) -> Bits:
        """Fewest bits of a path to node j that is charged at most r units, at [j, r]; ∞ if there is no such path."""
        best = np.full((self.bits.shape[1], self.capacities[0] + 1), np.inf, self.bits.dtype)
        relax, _ = _compiled()
        relax(self.bits, self.charges, best)
        return best

    def path(self, node: int, units: int) -> tuple[list[int], list[int]]:
        """Return the nodes of the path with `best[node, units]` bits, and the options of its edges.

        Args:
            node: The last node.
            units: Largest charge of the path, in units.

        Raises:
            DippError: There is no such path.
        """
        if not 0 <= units < self.best.shape[1] or np.isinf(self.best[node, units]):
            raise DippError("path", f"to node {node} does not exist within {units} units")
        _, trace = _compiled()
        nodes, options = trace(self.bits, self.charges, self.best, node, units)
        return nodes.tolist(), options.tolist()


def _relax(bits: Bits, charges: Integers, best: Bits) -> None:
    """Fill `best`, which is ∞ at first."""
    (options, nodes, _), units = bits.shape, best.shape[1]
    first = np.full(nodes, units)  # the fewest units for which each node is reached
    first[0], best[0] = 0, 0
    for block in range(1, nodes, 16):  # sixteen ends share each start while it is in the cache
        end = min(block + 16, nodes)
        for i in range(end - 1):
            for option in range(options):
                for j in range(max(block, i + 1), end):
                    cost, charge = bits[option, i, j], charges[option, i, j]
                    least = first[i] + charge
                    if cost < np.inf and least < units:
                        first[j] = min(first[j], least)
                        source, row = best[i, first[i] : units - charge], best[j, least:]
                        for r in range(len(row)):
                            row[r] = min(row[r], source[r] + cost)


def _trace(bits: Bits, charges: Integers, best: Bits, final: int, units: int) -> tuple[Integers, Integers]:
    path, taken = [final], [0]
    while path[-1]:
        j = path[-1]
        for edge in range(bits.shape[0] * j):
            option, i = edge // j, edge % j
            remaining = units - charges[option, i, j]
            if remaining >= 0 and best[i, remaining] + bits[option, i, j] == best[j, units]:
                path.append(i)
                taken.append(option)
                units = remaining
                break
    return np.array(path[::-1], np.int32), np.array(taken[:0:-1], np.int32)


@functools.cache
def _compiled() -> tuple[Callable[..., None], Callable[..., tuple[Integers, Integers]]]:
    from dipp.compiling import compiled  # imported here, because numba is slow to import

    return compiled()(_relax), compiled()(_trace)
