"""The black-box audit of a mechanism by anybody: a function from a picture to everything that it releases.

The audit knows only what the function returns. It calls the function many times on each of two pictures that differ in
one pixel, in random order: so values that drift by themselves, such as a clock or a counter, do not tell the pictures
apart. A quarter of the runs learns a score that tells the two apart: the sum, over all released numbers, of the log
ratio of how often each of their values (or ranges of values) came from either picture. Another quarter chooses the
threshold of that score. On the other half, Clopper-Pearson bounds on the probabilities of exceeding the threshold give
a lower bound of ε (`blackbox`), which holds for any score. Over all pairs of pictures, it exceeds the true ε at most
once in a million audits. A mechanism that passes has not been proved private; one that fails has been refuted.
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
"""Height, width and channels of the pictures, unless the mechanism has an attribute `shape` that says others."""
RUNS = 4000
"""Default number of releases of each picture, enough to refute a claim below 4."""
LEAST_RUNS = 100
"""Smallest number of releases of each picture."""
CATEGORIES, RANGES = 64, 8
"""Largest number of values of a released number that are counted one by one, and the number of ranges into which the
values of other numbers are grouped."""
SHAPE_TELLS, TREND_TELLS = 5.0, 3.0
"""Standard deviations from which a released number counts as one that the pixel moves: those of its χ², and those of
its mean rank, which detects small shifts of many numbers. Other numbers would add noise to the score."""
BLACK, WHITE = 0, 255
"""Values of the pixel in which the two pictures differ."""

Mechanism = Callable[[NDArray[np.uint8]], Any]
"""A function from a picture (H, W, 3) to everything that it releases: numbers, bytes, arrays, or lists and dictionaries
of them."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Finding:
    """What the releases of two neighbouring pictures revealed."""

    pair: str
    """Content of the pictures, and the pixel in which they differ."""
    epsilon: float
    """Lower bound of the ε that the mechanism really has between the two pictures."""
    moved: int
    """Number of released numbers whose law the pixel visibly changes."""
    released: int
    """Largest number of released numbers in one release."""


@dataclass(frozen=True)
class MechanismAudit:
    """The results of the audit of a mechanism."""

    name: str
    """Name of the mechanism, as MODULE:FUNCTION."""
    claimed: float
    """ε per pixel that the mechanism claims."""
    runs: int
    """Number of releases of each picture."""
    pairs: Sequence[Finding] = field(repr=False)
    """A result for each pair of pictures."""

    @property
    def worst(self) -> Finding:
        """The result of the pair with the largest lower bound of ε."""
        return max(self.pairs, key=lambda result: result.epsilon)

    @property
    def passed(self) -> bool:
        """Whether no pair refutes the claim."""
        return self.worst.epsilon <= self.claimed

    def to_dict(self) -> dict[str, Any]:
        """Return the audit as a dictionary for JSON."""
        return {
            "mechanism": self.name,
            "claimed": self.claimed,
            "observed": self.worst.epsilon,
            "ratio": self.worst.epsilon / self.claimed,
            "runs": self.runs,
            "pairs": [vars(result) for result in self.pairs],
            "passed": self.passed,
        }


def load(name: str) -> Mechanism:
    """Return the function that MODULE:FUNCTION names, from the import path or the current folder.

    Args:
        name: Name of the function, such as "mechanisms:release".

    Raises:
        DippError: The name has no colon, the module cannot be imported, or it has no such function.
    """
    module, colon, function = name.partition(":")
    if not (module and colon and function):
        raise DippError("mechanism", f"must be MODULE:FUNCTION, got {name}")
    folder = str(Path.cwd())
    sys.path.insert(0, folder)
    try:
        imported = importlib.import_module(module)
    except (Exception, SystemExit) as error:  # a user's module may raise anything
        raise DippError(
            "mechanism", f"must be in a module that can be imported, got {name} ({_one_line(error)})"
        ) from None
    finally:
        sys.path.remove(folder)
    try:
        mechanism = getattr(imported, function)
    except AttributeError:
        raise DippError("mechanism", f"must exist, but {module} has no {function}") from None
    if not callable(mechanism):
        raise DippError("mechanism", f"must be a function, got {name}")
    return mechanism  # type: ignore[no-any-return] # a user's function has no known type


def audit(name: str, mechanism: Mechanism, epsilon: float, runs: int = RUNS) -> MechanismAudit:
    """Bound the ε of a mechanism from below, and compare the bound with the claim.

    Args:
        name: Name of the mechanism in the report.
        mechanism: A function from a picture, uint8 (H, W, 3), to everything that it releases. Its attribute `epsilon`,
            if it has one, is the claim; its attribute `shape` is the shape of the pictures, by default 8×8×3.
        epsilon: The claimed ε per pixel of a mechanism without an attribute `epsilon`.
        runs: Number of releases of each picture, by default 4000.

    Returns:
        The bound, the claim, and what each pair of neighbouring pictures revealed.

    Raises:
        DippError: The claim is not above 0, the runs are too few to refute it, or the mechanism fails.

    Example::

        from dipp.audit import mechanism

        def release(picture):
            return picture.mean() + np.random.default_rng().laplace(scale=4)

        mechanism.audit("mean", release, epsilon=0.5).passed
    """
    stated = getattr(mechanism, "epsilon", epsilon)
    try:
        claimed = float(stated)
    except (TypeError, ValueError):
        claimed = math.nan
    if not claimed >= MIN_BUDGET:
        raise DippError("epsilon", f"must be above 0, got {stated!s:.40}")
    if runs < LEAST_RUNS:
        raise DippError("runs", f"must be at least {LEAST_RUNS}, got {runs}")
    pairs = dict(neighbours(getattr(mechanism, "shape", SHAPE)))
    error, tested = FALSE_ALARM / (2 * len(pairs)), runs - runs // 2
    reach = ratio_bound(tested, 0, tested, error)
    if claimed >= reach:
        raise DippError(
            "epsilon",
            f"must be below {lower(reach, 3)} to be refutable with {runs} runs, got {upper(claimed)}",
            "use more --runs",
        )
    return MechanismAudit(name, claimed, runs, [_compare(mechanism, *pair, runs, error) for pair in pairs.items()])


def neighbours(shape: tuple[int, int, int]) -> Iterator[tuple[str, tuple[NDArray[np.uint8], NDArray[np.uint8]]]]:
    """Yield pairs of pictures in which one pixel goes from black to white, each with a name.

    The pixel is in the middle or in a corner, on a grey, a black and a random picture.

    Args:
        shape: Height, width and channels.

    Yields:
        A name and two pictures, uint8 of the given shape.

    Raises:
        DippError: The shape is not three positive integers.
    """
    if not (isinstance(shape, tuple | list) and len(shape) == 3 and all(type(n) is int and n > 0 for n in shape)):
        raise DippError("shape", f"must be height, width and channels, got {shape!s:.40} from the mechanism")
    height, width, channels = shape
    noise = np.random.default_rng(0).integers(0, 256, (height, width, channels)).astype(np.uint8)
    grounds = {"grey": np.full_like(noise, 128), "black": np.full_like(noise, BLACK), "random": noise}
    for ground, picture in grounds.items():
        for name, pixel in (("a pixel inside", (height // 2, width // 2)), ("the first pixel", (0, 0))):
            first, second = picture.copy(), picture.copy()
            first[pixel], second[pixel] = BLACK, WHITE
            yield f"{ground}, {name}", (first, second)


def _compare(
    mechanism: Mechanism, pair: str, pictures: tuple[NDArray[np.uint8], NDArray[np.uint8]], runs: int, error: float
) -> Finding:
    """Bound ε from below for a pair of pictures: release both many times, and learn and count what tells them apart.

    Args:
        mechanism: The function from a picture to what it releases.
        pair: Name of the pair.
        pictures: The two pictures.
        runs: Number of releases of each picture.
        error: Largest probability that the bound exceeds the true ε.
    """
    released: tuple[list[Floats], list[Floats]] = ([], [])
    for first in np.random.default_rng().integers(0, 2, runs).tolist():
        for which in (first, 1 - first):
            released[which].append(_release(mechanism, pictures[which]))
    width = max(len(row) for rows in released for row in rows)
    # Shorter releases are filled up with −∞, and the last column is the length.
    filled = np.full((2, runs, width + 1), -np.inf)
    for rows, columns in zip(released, filled, strict=True):
        for row, values in zip(rows, columns, strict=True):
            values[: len(row)], values[-1] = row, len(row)
    learnt, chosen, half = runs // 4, runs // 2, runs - runs // 2
    moved, scores = 0, np.zeros((2, runs))
    for values in np.moveaxis(filled, 2, 0):
        edges = _edges(values[:, :learnt])
        counts = np.stack(
            [np.bincount(sample, minlength=len(edges) + 1) for sample in _ranges(edges, values[:, :learnt])]
        )
        if _tells(counts):
            moved += 1
            scores += np.log((counts[1] + 0.5) / (counts[0] + 0.5))[_ranges(edges, values)]
    if not moved:
        return Finding(pair, 0.0, 0, width)
    best = 0.0
    for sign in (1, -1):  # the set that speaks for the second picture, then the set that speaks for the first
        no, yes = (sign * scores)[::sign]
        threshold = _threshold(yes[learnt:chosen], no[learnt:chosen], error)
        hits, misses = (int(np.count_nonzero(sample[chosen:] >= threshold)) for sample in (yes, no))
        best = max(best, ratio_bound(hits, misses, half, error))
    return Finding(pair, best, moved, width)


def _release(mechanism: Mechanism, picture: NDArray[np.uint8]) -> Floats:
    """Call a mechanism on a picture, and return everything that it releases as one row of numbers."""
    try:
        released = mechanism(picture.copy())
    except (Exception, SystemExit) as error:  # a user's function may raise anything
        raise DippError("mechanism", f"failed on a picture of shape {picture.shape} ({_one_line(error)})") from error
    return _numbers(released)


def _one_line(error: BaseException) -> str:
    """Return the class of an error and the first line of its message, in at most about 200 characters."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]:.200}" if lines else type(error).__name__


def _threshold(yes: Floats, no: Floats, error: float) -> float:
    """Return the threshold that gives the largest bound on ε, when scores above it are counted in two samples.

    Args:
        yes: Scores of the releases of one picture.
        no: Scores of the releases of the other picture.
        error: Largest probability that a bound exceeds the true value.
    """
    thresholds = np.unique(yes)
    above = [len(sample) - np.searchsorted(np.sort(sample), thresholds) for sample in (yes, no)]
    bounds = [ratio_bound(int(y), int(n), len(yes), error) for y, n in zip(*above, strict=True)]
    return float(thresholds[int(np.argmax(bounds))])


def _tells(counts: NDArray[np.int64]) -> bool:
    """Return whether a released number visibly depends on which of two pictures it comes from.

    Args:
        counts: How often it had each value, or a value in each range, for either picture (2, values).
    """
    counts = counts[:, counts.any(axis=0)]
    together, freedom = counts.sum(axis=0), counts.shape[1] - 1
    if not freedom:
        return False
    statistic = float((np.square(counts[0] - counts[1]) / together).sum())
    ranks = np.arange(freedom + 1) - np.arange(freedom + 1) @ together / together.sum()
    trend = float((counts[1] - counts[0]) @ ranks) / math.sqrt(float(np.square(ranks) @ together))
    return statistic - freedom > SHAPE_TELLS * math.sqrt(2 * freedom) or abs(trend) > TREND_TELLS


def _edges(values: Floats) -> Floats:
    """Return the values at which the ranges begin by which a released number is counted, except for the first range.

    Each distinct value is a range; if there are too many, the ranges hold equally many of the values.
    """
    distinct = np.unique(values)
    if len(distinct) <= CATEGORIES:
        return distinct[1:]
    return np.unique(np.quantile(values, np.arange(1, RANGES) / RANGES, method="lower"))


def _ranges(edges: Floats, values: Floats) -> NDArray[np.int64]:
    """Return the number of the range that holds each value; `edges` are the beginnings of ranges from `_edges`."""
    return np.searchsorted(edges, values, side="right").astype(np.int64)


def _numbers(released: Any) -> Floats:
    """Return everything that a mechanism returned, as one row of numbers."""
    if isinstance(released, bytes | bytearray | memoryview):
        return np.frombuffer(bytes(released), np.uint8).astype(np.float64)
    if isinstance(released, str):
        return _numbers(released.encode())
    if isinstance(released, Mapping):
        return _numbers([part for pair in sorted(released.items(), key=lambda item: repr(item[0])) for part in pair])
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
            "mechanism", f"must have released numbers, bytes, arrays, or lists of them, got {type(released).__name__}"
        ) from None
    return np.nan_to_num(numbers, nan=np.inf)
