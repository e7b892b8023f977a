"""The odometer: add up the privacy losses of all releases of a picture, over commands, folders, copies and reruns.

| module | what it is |
|---|---|
| `accounts` | charges of releases and their sums, with the promises of the odometer |
| `prices` | the cost of a release for an object of a size |
| `place` | the folder of the odometer, its secret key, and the marks of pictures |
| `database` | the SQLite file |
| `meter` | the odometer as encoders use it, with a limit |
"""

from dipp.odometer.accounts import Charge, LimitError, Odometer, PastRelease, Reading, TotalCost, fresh_release
from dipp.odometer.meter import Meter

__all__ = ["Charge", "LimitError", "Meter", "Odometer", "PastRelease", "Reading", "TotalCost", "fresh_release"]
