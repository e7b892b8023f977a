"""The one function that drops private values.

**Claim.** What `redact` writes is a function of public numbers (sizes, tables, regions) and of values outside the
hidden cells. *Proof.* Readers give arrays of values to `without` and to nothing else, after looking at their shapes
alone; its result does not depend on hidden cells, and all that follows (painting, coding, the record) sees that
result. `tests/promises` gives arrays that cannot be looked at to everything before it.

With ε above 0, private values have one other use: `Original.levels` gives the pixels of the original to
`codec.asking.ask`, and only its answers follow from them (`redaction.answers`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipp.redaction.outlines import Mask


def without(values: NDArray[Any], hidden: Mask) -> NDArray[Any]:
    """Return values (H, W, …) with zeros in place of everything hidden.

    Args:
        values: Pixels (H, W, C), or blocks of coefficients (rows, columns, 64).
        hidden: (H, W): which pixels or blocks are hidden.
    """
    return np.where(hidden[..., None], values.dtype.type(0), values)
