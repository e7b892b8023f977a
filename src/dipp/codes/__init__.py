"""Codes: the ways to draw the index of a chunk, with their cost in privacy and in bits, and to pack the index.

| module | for the codec | for one vector | what it is | certificate |
|---|---|---|---|---|
| `flat` | `Flat` | `FlatCode` | α = 1, no order, an index of fixed length | its integers |
| `pairs` | `Pairs` | | one bit per coordinate: randomised response against the prediction | its integers |
| `ppr` | `StepLimited` | `StepLimitedPPR` | the paper's Definition 3: α ≥ 1, Poisson order, zeta code | its integers |
| `pfr` | `Functional` | `PFR` | α = ∞, no private randomness | none |
| `closest` | `Closest` | | one of the nearest of n candidates for each block of a unit | its integers |
| `exact` | | `ExactPPR` | Definition 2, α > 1, any mechanism of bounded ratio | 2αε in exact arithmetic |

Shared parts are in `exponential` (the draw of `flat` and `ppr`, and its price), `ordered` (the Poisson order of `ppr`
and `pfr`) and `oneshot` (codes for one vector).

The codes for the codec have one interface, `dipp.core.code.Code`, and a plan names one of them. To add a code, write a
module here and name its class in `CODES`.
"""

from dipp.codes.closest import Closest
from dipp.codes.exact import ExactPPR
from dipp.codes.flat import Flat, FlatCode
from dipp.codes.pairs import Pairs
from dipp.codes.pfr import PFR, Functional
from dipp.codes.ppr import StepLimited, StepLimitedPPR
from dipp.core.code import Code

CODES: dict[str, type[Code]] = {kind.name: kind for kind in (Flat, Pairs, StepLimited, Functional, Closest)}
"""Class of each code that a plan may use, by its name."""

__all__ = [
    "CODES",
    "PFR",
    "Closest",
    "ExactPPR",
    "Flat",
    "FlatCode",
    "Functional",
    "Pairs",
    "StepLimited",
    "StepLimitedPPR",
]
