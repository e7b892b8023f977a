"""Find shortest paths within a budget: the path of fewest bits from node 0 to every node, for every whole cost.

Nodes are numbered along the way, so that an edge i → j has i < j. An edge takes a number of bits, and has a cost, which
is a whole number. There may be several options for an edge. The fewest bits best[j, r] of a path to node j whose edges
cost at most r together follow from best[0, r] = 0 and

    best[j, r] = min over i < j and options o of best[i, r − cost(o, i, j)] + bits(o, i, j),

which is exact up to the rounding of 32-bit floats.
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
    costs: Integers
    """Cost of the edge from node i to node j by option o, a whole number, at [o, i, j]."""
    capacities: tuple[int, ...]
    """Largest costs that paths may have, the largest first."""

    @functools.cached_property
    def best(self) -> Bits:
        """Fewest bits of a path to node j that costs at most r, at [j, r]; ∞ if there is no such path."""
        best = np.full((self.bits.shape[1], self.capacities[0] + 1), np.inf, self.bits.dtype)
        relax, _ = _compiled()
        relax(self.bits, self.costs, best)
        return best

    def path(self, node: int, units: int) -> tuple[list[int], list[int]]:
        """Return the nodes of the path with `best[node, units]` bits, and the options of its edges.

        Args:
            node: The last node.
            units: Largest cost of the path.

        Raises:
            DippError: There is no such path.
        """
        if not 0 <= units < self.best.shape[1] or np.isinf(self.best[node, units]):
            raise DippError("path", f"to node {node} does not exist within {units} units")
        _, trace = _compiled()
        nodes, options = trace(self.bits, self.costs, self.best, node, units)
        return nodes.tolist(), options.tolist()


def _relax(bits: Bits, costs: Integers, best: Bits) -> None:
    """Fill the table `best` of fewest bits (`Search.best`), which is ∞ at first."""
    (options, nodes, _), units = bits.shape, best.shape[1]
    first = np.full(nodes, units)  # the least cost for which each node is reached
    first[0], best[0] = 0, 0
    for block in range(1, nodes, 16):  # sixteen ends share each start while it is in the cache
        end = min(block + 16, nodes)
        for i in range(end - 1):
            for option in range(options):
                for j in range(max(block, i + 1), end):
                    edge_bits, cost = bits[option, i, j], costs[option, i, j]
                    least = first[i] + cost
                    if edge_bits < np.inf and least < units:
                        first[j] = min(first[j], least)
                        source, row = best[i, first[i] : units - cost], best[j, least:]
                        for r in range(len(row)):
                            row[r] = min(row[r], source[r] + edge_bits)


def _trace(bits: Bits, costs: Integers, best: Bits, final: int, units: int) -> tuple[Integers, Integers]:
    path, taken = [final], [0]
    while path[-1]:
        j = path[-1]
        for edge in range(bits.shape[0] * j):
            option, i = edge // j, edge % j
            remaining = units - costs[option, i, j]
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
