"""A run in a process of its own, to be killed: MODEL SOURCE DESTINATION WORKERS [HELD_AT GATE].

The environment variable COUNTED charges the odometer.
"""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path
from unittest import mock

from dipp.data import privatize
from dipp.data.choices import Choices, Conduct
from dipp.data.engines import LocalEngine
from dipp.data.store import Store
from dipp.odometer import Meter
from helpers.datasets import SHARD_SIZE, tiny_codec
from helpers.held_store import HeldStore


def main() -> None:
    model, source, destination, workers, *held = sys.argv[1:]
    store = functools.partial(HeldStore, held_at=int(held[0]), gate=Path(held[1])) if held else Store
    choices, codec = Choices(shard_size=SHARD_SIZE), tiny_codec(Path(model))
    engine, meter = LocalEngine(int(workers)), Meter() if "COUNTED" in os.environ else None
    with mock.patch.object(privatize, "Store", store):
        privatize.privatize(source, Path(destination), codec, model, engine, choices, Conduct(meter=meter))


if __name__ == "__main__":
    main()
