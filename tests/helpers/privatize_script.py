"""A run in a process of its own, to be killed: MODEL SOURCE DESTINATION WORKERS."""

from __future__ import annotations

import sys
from pathlib import Path

from dipp.data.engines import Local
from dipp.data.privatize import Choices, privatize
from helpers.datasets import SHARD_SIZE, tiny_codec


def main() -> None:
    model, source, destination, workers = sys.argv[1:]
    choices = Choices(shard_size=SHARD_SIZE)
    codec = tiny_codec(Path(model))
    privatize(source, Path(destination), codec, model, Local(int(workers)), choices)


if __name__ == "__main__":
    main()
