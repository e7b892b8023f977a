"""Limit the work that a received file may ask for, by an estimate before anything is decoded.

A file of 657 bytes can ask for 8192×8192 pixels in 4,096 steps, which takes gigabytes of memory for hours. The cost of
decoding is the number of pixels that go through the network: pixels × network calls, over all pictures of the file. The
largest picture counts with at least `LEAST_CALLS` calls, because it takes memory even in a few calls.

Honest files stay far below the limit. A picture of 12 megapixels by the default preset takes 0.26 billion. Larger files
may cost more, `PER_BYTE` pixels for each byte: the default preset takes 168, `diffc` at 0.1 bits per pixel 20,000.
"""

from __future__ import annotations

from collections.abc import Iterable

from dipp.errors import DippError

FREE = 1 << 30
"""Number of pixels that any file may send through the network."""
PER_BYTE = 1 << 16
"""Number of pixels that a file may send through the network for each of its bytes, if that is more than `FREE`."""
LEAST_CALLS = 64
"""Smallest number of network calls that is assumed for the largest picture. So 16 megapixels are free."""
BILLION = 10**9


def require_affordable(
    sizes: Iterable[tuple[int, int]], calls: int, file_bytes: int, max_work: float | None = None
) -> None:
    """Raise if decoding a file costs more than its size justifies, or more than the caller allows.

    Args:
        sizes: Pairs of a number of pictures and the number of pixels of each.
        calls: Network calls for each picture.
        file_bytes: Size of the file in bytes.
        max_work: Billions of pixels that the file may send through the network; None for the limit of this module.

    Raises:
        DippError: The estimate exceeds the limit, or `max_work` is not positive.
    """
    sizes = list(sizes)
    total = calls * sum(pictures * pixels for pictures, pixels in sizes)
    estimate = max(total, LEAST_CALLS * max((pixels for _, pixels in sizes), default=0))
    if max_work is None:
        limit = float(max(FREE, PER_BYTE * file_bytes))
    elif max_work > 0:  # false for NaN
        limit = max_work * BILLION
    else:
        raise DippError("max-work", f"must be positive, got {max_work}")
    if estimate > limit:
        needed = -(-estimate * 10 // BILLION) / 10
        raise DippError(
            "archive",
            f"of {file_bytes} bytes sends {needed:g} billion pixels through the network, more than "
            f"{limit / BILLION:.3g}",
            f"if you trust the sender, allow it by --max-work {needed:g} (in Python, max_work)",
        )
