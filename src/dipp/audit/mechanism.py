"""The audit of somebody else's mechanism: a function from a picture to everything that it releases of it.

Nothing is known of the function but what it returns. It is called many times on each of two pictures that differ in one
pixel, in random order: so what drifts by itself, such as a clock or a number that counts, does not tell them apart. A
quarter of the runs learns what tells the two apart, as a score: the sum, over all released numbers, of the log
ratio of how often each of their values (or ranges of values) came from either picture. Another quarter chooses the
threshold of that score. On the other half, Clopper-Pearson bounds on the probabilities of being beyond it give a lower
bound of ε (`blackbox`), whatever the score is worth. Over all pairs of pictures, it exceeds the true ε at most once in
a million audits. A mechanism that passes has not been proved private; one that fails has been refuted.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipp.audit.blackbox import FALSE_ALARM, ratio_bound
from dipp.errors import DippError
from dipp.privacy.budget import MIN_BUDGET
from dipp.privacy.printing import lower, upper

SHAPE = (8, 8, 3)
"""Pictures that a mechanism is given, unless its attribute `shape` says another height, width and channels."""
RUNS = 4000
"""Releases of each picture, by default: enough to refute a claim below 4."""
LEAST_RUNS = 100
CATEGORIES, RANGES = 64, 8
"""Most values of a released number that are told apart; numbers with more values are put into as many ranges."""
SHAPE_TELLS, TREND_TELLS = 5.0, 3.0
"""Standard deviations from which on a released number counts as one that the pixel moves: of its χ², and of its mean
rank, which sees small shifts of many numbers. The others would add noise to the score."""
BLACK, WHITE = 0, 255

Mechanism = Callable[[NDArray[np.uint8]], Any]
"""A picture (H, W, C) → all that is released of it: numbers, bytes, arrays, or lists and dictionaries of them."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Found:
    """What the releases of two neighbouring pictures have told."""

    pair: str
    """What the pictures show, and which pixel differs."""
    epsilon: float
    """Lower bound of the ε that the mechanism really has between them."""
    moved: int
    """Released numbers whose law the pixel visibly changes."""
    released: int
    """Released numbers in all, at most."""


@dataclass(frozen=True)
class MechanismAudit:
    """Everything that was found out about a mechanism."""

    name: str
    claimed: float
    """ε per pixel that it claims."""
    runs: int
    """Releases of each picture."""
    pairs: Sequence[Found] = field(repr=False)

    @property
    def worst(self) -> Found:
        """The pair that is told apart best."""
        return max(self.pairs, key=lambda one: one.epsilon)

    @property
    def passed(self) -> bool:
        """Whether no pair was told apart by more than is claimed."""
        return self.worst.epsilon <= self.claimed

    def to_dict(self) -> dict[str, Any]:
        """The audit as a dictionary for JSON."""
        return {
            "mechanism": self.name,
            "claimed": self.claimed,
            "observed": self.worst.epsilon,
            "ratio": self.worst.epsilon / self.claimed,
            "runs": self.runs,
            "pairs": [vars(one) for one in self.pairs],
            "passed": self.passed,
        }


def load(name: str) -> Mechanism:
    """The function that MODULE:FUNCTION names; modules are looked for in the current folder as well."""
    module, colon, function = name.partition(":")
    if not (module and colon and function):
        raise DippError("mechanism", f"MODULE:FUNCTION is needed, got {name}")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        imported = importlib.import_module(module)
    except (Exception, SystemExit) as error:  # whatever is wrong with somebody's module
        raise DippError("mechanism", f"{module} cannot be imported ({_one_line(error)})") from None
    finally:
        sys.path.remove(here)
    try:
        found = getattr(imported, function)
    except AttributeError:
        raise DippError("mechanism", f"{module} has no {function}") from None
    if not callable(found):
        raise DippError("mechanism", f"{name} is no function")
    return found  # type: ignore[no-any-return] # it is whatever the user wrote


def audit(name: str, mechanism: Mechanism, epsilon: float, runs: int = RUNS) -> MechanismAudit:
    """Audit a mechanism; its claim is its own attribute `epsilon` or, where it has none, what is given here."""
    stated = getattr(mechanism, "epsilon", epsilon)
    try:
        claimed = float(stated)
    except (TypeError, ValueError):
        claimed = math.nan
    if not claimed >= MIN_BUDGET:
        raise DippError("epsilon", f"a claim above 0 is needed, got {stated!s:.40}")
    if runs < LEAST_RUNS:
        raise DippError("runs", f"at least {LEAST_RUNS} are needed, got {runs}")
    pairs = dict(neighbours(getattr(mechanism, "shape", SHAPE)))
    error, tested = FALSE_ALARM / (2 * len(pairs)), runs - runs // 2
    reach = ratio_bound(tested, 0, tested, error)
    if claimed >= reach:
        raise DippError(
            "epsilon",
            f"{runs} runs can refute a claim below {lower(reach, 3)}, got {upper(claimed)}",
            "use more --runs",
        )
    return MechanismAudit(name, claimed, runs, [_compare(mechanism, *pair, runs, error) for pair in pairs.items()])


def neighbours(shape: tuple[int, int, int]) -> Iterator[tuple[str, tuple[NDArray[np.uint8], NDArray[np.uint8]]]]:
    """Pictures in which one pixel goes from black to white: on flat and on random grounds, inside and in a corner."""
    if not (isinstance(shape, tuple | list) and len(shape) == 3 and all(type(n) is int and n > 0 for n in shape)):
        raise DippError("shape", f"height, width and channels are needed, the mechanism says {shape!s:.40}")
    height, width, channels = shape
    noise = np.random.default_rng(0).integers(0, 256, (height, width, channels)).astype(np.uint8)
    grounds = {"grey": np.full_like(noise, 128), "black": np.full_like(noise, BLACK), "random": noise}
    for ground, picture in grounds.items():
        for place, where in (("a pixel inside", (height // 2, width // 2)), ("the first pixel", (0, 0))):
            first, second = picture.copy(), picture.copy()
            first[where], second[where] = BLACK, WHITE
            yield f"{ground}, {place}", (first, second)


def _compare(
    mechanism: Mechanism, pair: str, pictures: tuple[NDArray[np.uint8], NDArray[np.uint8]], runs: int, error: float
) -> Found:
    """Release both pictures many times, learn what tells them apart, and count how well it does."""
    released: tuple[list[Floats], list[Floats]] = ([], [])
    for first in np.random.default_rng().integers(0, 2, runs).tolist():
        for which in (first, 1 - first):
            released[which].append(_release(mechanism, pictures[which]))
    width = max(len(row) for rows in released for row in rows)
    # A release of another length is told by its length, and by values that no other has.
    filled = np.full((2, runs, width + 1), -np.inf)
    for rows, place in zip(released, filled, strict=True):
        for row, values in zip(rows, place, strict=True):
            values[: len(row)], values[-1] = row, len(row)
    learnt, chosen, half = runs // 4, runs // 2, runs - runs // 2
    moved, scores = 0, np.zeros((2, runs))
    for values in np.moveaxis(filled, 2, 0):
        edges = _edges(values[:, :learnt])
        counts = np.stack([np.bincount(one, minlength=len(edges) + 1) for one in _ranges(edges, values[:, :learnt])])
        if _tells(counts):
            moved += 1
            scores += np.log((counts[1] + 0.5) / (counts[0] + 0.5))[_ranges(edges, values)]
    if not moved:
        return Found(pair, 0.0, 0, width)
    best = 0.0
    for sign in (1, -1):  # the set that speaks for the second picture, then the set that speaks for the first
        no, yes = (sign * scores)[::sign]
        threshold = _threshold(yes[learnt:chosen], no[learnt:chosen], error)
        hits, misses = (int(np.count_nonzero(one[chosen:] >= threshold)) for one in (yes, no))
        best = max(best, ratio_bound(hits, misses, half, error))
    return Found(pair, best, moved, width)


def _release(mechanism: Mechanism, picture: NDArray[np.uint8]) -> Floats:
    """All that a mechanism releases of a picture, as one row of numbers."""
    try:
        released = mechanism(picture.copy())
    except (Exception, SystemExit) as error:  # whatever somebody's function does
        raise DippError("mechanism", f"it failed on a picture {picture.shape} ({_one_line(error)})") from error
    return _numbers(released)


def _one_line(error: BaseException) -> str:
    """What went wrong in somebody else's code."""
    told = str(error).strip().splitlines()
    return f"{type(error).__name__}: {told[0]:.200}" if told else type(error).__name__


def _threshold(yes: Floats, no: Floats, error: float) -> float:
    """The threshold beyond which the counts of two samples of scores bound ε best."""
    places = np.unique(yes)
    above = [len(one) - np.searchsorted(np.sort(one), places) for one in (yes, no)]
    bounds = [ratio_bound(int(y), int(n), len(yes), error) for y, n in zip(*above, strict=True)]
    return float(places[int(np.argmax(bounds))])


def _tells(counts: NDArray[np.int64]) -> bool:
    """Whether the laws of two rows of equally many counts visibly differ."""
    counts = counts[:, counts.any(axis=0)]
    both, freedom = counts.sum(axis=0), counts.shape[1] - 1
    if not freedom:
        return False
    statistic = float((np.square(counts[0] - counts[1]) / both).sum())
    ranks = np.arange(freedom + 1) - np.arange(freedom + 1) @ both / both.sum()
    trend = float((counts[1] - counts[0]) @ ranks) / math.sqrt(float(np.square(ranks) @ both))
    return statistic - freedom > SHAPE_TELLS * math.sqrt(2 * freedom) or abs(trend) > TREND_TELLS


def _edges(values: Floats) -> Floats:
    """Where ranges of values begin, but for the first: at each value or, of many, so that all have equally many."""
    distinct = np.unique(values)
    if len(distinct) <= CATEGORIES:
        return distinct[1:]
    return np.unique(np.quantile(values, np.arange(1, RANGES) / RANGES, method="lower"))


def _ranges(edges: Floats, values: Floats) -> NDArray[np.int64]:
    """The number of the range that each value is in."""
    return np.searchsorted(edges, values, side="right").astype(np.int64)


def _numbers(released: Any) -> Floats:
    """All that was released, as one row of numbers."""
    if isinstance(released, bytes | bytearray | memoryview):
        return np.frombuffer(bytes(released), np.uint8).astype(np.float64)
    if isinstance(released, str):
        return _numbers(released.encode())
    if isinstance(released, Mapping):
        return _numbers([part for pair in sorted(released.items(), key=lambda one: repr(one[0])) for part in pair])
    if isinstance(released, list | tuple):
        return np.concatenate([_numbers(part) for part in released]) if released else np.empty(0)
    if hasattr(released, "detach"):
        released = released.detach().cpu().numpy()
    try:
        values = np.asarray(released)
        if values.dtype.kind == "c":
            values = np.stack([values.real, values.imag])
        if values.dtype.kind in "iu" and values.dtype.itemsize == 8:  # a float holds 53 bits of it
            values = np.stack([values >> 32, values & 0xFFFFFFFF]) if (np.abs(values) >> 53).any() else values
        numbers = values.astype(np.float64).reshape(-1)
    except (TypeError, ValueError, OverflowError):
        raise DippError(
            "mechanism", f"numbers, bytes, arrays, or lists of them are needed, it released {type(released).__name__}"
        ) from None
    return np.nan_to_num(numbers, nan=np.inf)
