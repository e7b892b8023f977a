"""The odometer: what all releases of a picture add up to, over commands, folders, copies and reruns.

`place` says where it is kept and under which secret key; `prices` what a release costs an object of a size; `accounts`
what is charged, with its promises; `database` is the file that holds it; `meter` is an odometer as an encoder uses it,
with a limit.
"""

from dipp.odometer.accounts import Charge, LimitError, Odometer, PastRelease, Reading, Spent, fresh_release
from dipp.odometer.meter import Meter

__all__ = ["Charge", "LimitError", "Meter", "Odometer", "PastRelease", "Reading", "Spent", "fresh_release"]
