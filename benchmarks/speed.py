"""Compare the speed of two checkouts: codec and scoring on the CPU.

    git worktree add --detach ../base 89b0fc8        # the old side, with a .venv of its own
    python benchmarks/speed.py ../base . --out benchmarks/results/speed.json

Each checkout runs `speed_side.py` (from this checkout, so that both sides run the same script) under its own
`.venv/bin/python`, once for the whole run. The two sides take turns, a case at a time and in changing order, so that
other work on the machine slows both. The processor's time of one thread counts. For each case and side the shortest
time of all rounds is kept, because other work only adds time. The ratio is that of new to old.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from compare import python_of
from provenance import commit_of, provenance, write

SIDE = Path(__file__).with_name("speed_side.py")
ROUNDS = 15


class Side:
    """The process of one checkout, which waits for names of cases."""

    def __init__(self, checkout: Path, folder: Path, cleanup: ExitStack) -> None:
        environment = {**os.environ, "HOME": str(folder), "DIPP_ODOMETER": str(folder / "odometer")}
        environment |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
        environment.pop("PYTHONPATH", None)
        command = [str(python_of(checkout)), str(SIDE), str(checkout / "src")]
        self._process = cleanup.enter_context(
            subprocess.Popen(command, env=environment, cwd=folder, text=True, stdin=-1, stdout=-1)  # noqa: S603
        )
        self.cases: list[str] = self.asked()

    def asked(self, case: str | None = None) -> Any:
        """Return the seconds that the side reports for a case."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if case is not None:
            print(case, file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self._process.args!r} ended before it answered")
        return json.loads(line)

    def end(self) -> None:
        """Let the process end."""
        self._process.communicate()


def main() -> None:
    """Time both sides in turns, print the ratios and write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, help="checkout to compare with")
    parser.add_argument("new", type=Path, help="checkout to time beside it")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", default="", help="time only cases whose names contain this text")
    parser.add_argument("--out", type=Path, help="path of the JSON to write")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as cleanup:
        sides = [Side(path.resolve(), Path(folder), cleanup) for path in (arguments.old, arguments.new)]
        rows = []
        for case in (case for case in sides[0].cases if arguments.only in case):
            times: tuple[list[float], list[float]] = ([], [])
            for number in range(arguments.rounds + 1):  # the first run only warms up
                for which in (0, 1) if number % 2 else (1, 0):
                    spent = sides[which].asked(case)
                    if number:
                        times[which].append(spent)
            old, new = map(min, times)
            rows.append({"case": case, "old_seconds": old, "new_seconds": new, "ratio": new / old})
            print(f"{case:40} {old:9.4f} s → {new:9.4f} s   {new / old:5.2f}", flush=True)
        for side in sides:
            side.end()
    if arguments.out:
        commits = {"old": commit_of(arguments.old), "new": commit_of(arguments.new)}
        write(arguments.out, {**provenance(), **commits, "rounds": arguments.rounds, "rows": rows})


if __name__ == "__main__":
    main()
