"""What a received file may cost: an estimate before any work, and the limit that it is compared with.

A file of 657 bytes can ask for 8192×8192 pixels in 4,096 steps, which takes gigabytes for hours. The cost of decoding
is the number of pixels that go through the network: pixels × network calls, over all pictures of the file. The largest
picture counts as `LEAST_CALLS` calls at least, because it takes memory even in a few.

Honest files stay far below the limit. A picture of 12 megapixels by the default preset takes 0.26 billion. Larger files
may cost more, `PER_BYTE` pixels for each byte: the default preset takes 168, `diffc` at 0.1 bits per pixel 20,000.
"""

from __future__ import annotations

from collections.abc import Iterable

from dipp.errors import DippError

FREE = 1 << 30
"""Pixels through the network that a file of any size may cost."""
PER_BYTE = 1 << 16
"""Pixels through the network that each byte of a file may cost, if that is more."""
LEAST_CALLS = 64
"""Network calls that the largest picture counts as, at least: 16 megapixels are free."""
BILLION = 10**9


def require_affordable(
    sizes: Iterable[tuple[int, int]], calls: int, file_bytes: int, max_work: float | None = None
) -> None:
    """Raise if decoding a file costs more than its size justifies, or more than the caller allows.

    Args:
        sizes: Pairs (number of pictures, pixels of each).
        calls: Network calls for each picture.
        file_bytes: Size of the file.
        max_work: Billions of pixels through the network that are allowed; None for the limit of this module.

    Raises:
        DippError: With the estimate, and the option that allows it.
    """
    sizes = list(sizes)
    total = calls * sum(pictures * pixels for pictures, pixels in sizes)
    estimate = max(total, LEAST_CALLS * max((pixels for _, pixels in sizes), default=0))
    if max_work is None:
        limit = float(max(FREE, PER_BYTE * file_bytes))
    elif max_work > 0:  # not a number is not
        limit = max_work * BILLION
    else:
        raise DippError("max-work", f"a number above 0 is needed, got {max_work}")
    if estimate > limit:
        needed = -(-estimate * 10 // BILLION) / 10
        raise DippError(
            "archive",
            f"decoding its {file_bytes} bytes takes {needed:g} billion pixels through the network, more than "
            f"{limit / BILLION:.3g}",
            f"if you trust the sender, allow it by --max-work {needed:g} (in Python, max_work)",
        )
