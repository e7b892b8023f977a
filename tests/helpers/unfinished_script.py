"""Write a file and stop midway, to be killed there: KIND MOMENT PLACE. Prints a line when it has stopped."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from unittest import mock

from dipp import files
from dipp.data import publishing


def stop(*_: object, **__: object) -> None:
    print("there", flush=True)
    sys.stdin.read()


def main() -> None:
    kind, moment, place = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    with mock.patch.object(files, "_unnamed", files._unnamed if kind == "unnamed" else lambda _: None):
        if moment == "publish":
            with mock.patch.object(os, "link", stop) if kind == "named" else mock.patch.object(files, "_link", stop):
                publishing.publish(place.parent, place, lambda file: file.write(b"second"))
        elif moment == "rename":
            with mock.patch.object(Path, "replace", stop), files.atomic(place) as part:
                part.write_bytes(b"second")
        elif moment == "sync":
            with mock.patch.object(os, "fsync", stop), files.atomic(place) as part:
                part.write_bytes(b"second")
        else:
            with files.atomic(place) as part:
                part.write_bytes(b"second")
                stop()


if __name__ == "__main__":
    main()
