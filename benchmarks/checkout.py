"""Make `experiments` importable in benchmarks: Python looks only in the folder of the script."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
