"""Importing this module lets benchmarks import `experiments`: Python looks beside the script alone."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
