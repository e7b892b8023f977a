"""Structure-aware fuzzing of files that come from other people: archives, and datasets of shards with a manifest.

    python benchmarks/fuzz.py archives --files 10000000 --workers 16 --out benchmarks/results/fuzz-archives.json
    python benchmarks/fuzz.py datasets --files 100000 --workers 16 --out benchmarks/results/fuzz-datasets.json

Files are made from small good ones (`tests/helpers/broken_archives.py`, `broken_datasets.py`); most have right
checksums, so that the damage is not found at once. Each file must be refused in one clear line, or be read. A file that
is read must have the certificate that follows from its plan, and an archive must have one spelling. A crash, any other
exception, more than a second of CPU time or more than 64 MiB of memory is a finding: its bytes are kept in the JSON,
and should be added to `tests/corpus`. Work is done in blocks, each from its own seed, in child processes that may
crash. The JSON is written after every block, and the same command continues where it stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import multiprocessing
import re
import resource
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import checkout  # noqa: F401 - for `experiments`
from helpers import broken_archives, broken_datasets
from provenance import provenance, write

from dipp.errors import DippError

BLOCK = {"archives": 5000, "datasets": 100}
"""Number of files that a process reads before it reports."""
SECONDS = 1.0
"""Largest CPU time of a file, in seconds."""
MEMORY = 64 << 20
"""Largest memory of a file, in bytes. All files are far smaller."""
KEPT = 1 << 16
"""Number of bytes of a file that are kept in case the process crashes."""
FINDINGS = 50
"""Largest number of kept findings."""

Facts = dict[str, Any]
Case = Callable[[], None]
"""Read one file, or raise."""


class Hang(BaseException):
    """Raised when reading a file takes too long."""


def cases(kind: str, block: int, size: int) -> Iterator[tuple[bytes, bool, Case]]:
    """Yield the files of a block: their bytes for the record, whether their checksums are right, and their reader."""
    source: Any = broken_archives if kind == "archives" else broken_datasets
    return source.cases(block, size)  # type: ignore[no-any-return]


def survey(kind: str, block: int, size: int, current: Any) -> Facts:
    """Read the files of a block, and count the outcomes."""
    found: Facts = {"files": 0, "past_checksums": 0, "read": 0, "slowest": 0.0}
    reasons, findings, start = Counter[str](), [], time.process_time()

    def hang(*_: object) -> None:
        raise Hang

    signal.signal(signal.SIGPROF, hang)
    for number, (data, right, case) in enumerate(cases(kind, block, size)):
        length = min(len(data), KEPT)
        current[0] = (block << 32) | (number << 17) | length
        ctypes.memmove(ctypes.addressof(current) + 8, data, length)
        found["files"] += 1
        found["past_checksums"] += right
        began, problem = time.process_time(), ""
        try:
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            try:
                case()
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            found["read"] += 1
        except DippError as error:
            told = re.sub(r"[0-9a-f]{16,}|\d+", "N", re.sub(r"^/\S+: ", "", str(error)))
            reasons[told[:120]] += 1
            problem = "an error of several lines" if "\n" in str(error) else ""
        except Hang:
            problem = f"more than {SECONDS:g} s"
        except Exception as error:  # any other exception is a finding
            problem = repr(error)[:300]
        found["slowest"] = max(found["slowest"], time.process_time() - began)
        if problem:
            findings.append({"block": block, "file": number, "problem": problem, "bytes": data[:KEPT].hex()})
    return {**found, "cpu_seconds": time.process_time() - start, "reasons": reasons, "findings": findings}


def work(kind: str, size: int, current: Any, pipe: Connection) -> None:
    """Survey the blocks that come through the pipe, with little memory beyond that of the libraries."""
    warnings.simplefilter("error")
    survey(kind, -1, 4, current)  # libraries allocate their memory before the limit
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
    with contextlib.suppress(EOFError):
        while True:
            pipe.send(survey(kind, pipe.recv(), size, current))


class Process:
    """A worker process, the file that it reads, and its block."""

    def __init__(self, kind: str, size: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._current = context.RawArray(ctypes.c_int64, 1 + KEPT // 8)
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=work, args=(kind, size, self._current, other), daemon=True)
        self.process.start()
        other.close()
        self.block = -1

    def give(self, block: int) -> None:
        """Send a block to the process."""
        self.block = block
        self.pipe.send(block)

    def crashed(self) -> Facts:
        """Return the finding about a process that has died."""
        self.process.join()
        word = int(self._current[0])
        data = bytes(memoryview(self._current).cast("B")[8 : 8 + (word & 0x1FFFF)])
        problem = f"the process ended with {self.process.exitcode}"
        return {"block": self.block, "file": word >> 17 & 0x7FFF, "problem": problem, "bytes": data.hex()}


def add(total: Facts, found: Facts) -> None:
    """Add the counts of a block to the total."""
    for name in ("files", "past_checksums", "read", "cpu_seconds"):
        total[name] += found[name]
    total["slowest"] = max(total["slowest"], found["slowest"])
    total["reasons"] = dict((Counter(total["reasons"]) + found["reasons"]).most_common())
    total["findings"] = (total["findings"] + found["findings"])[:FINDINGS]


def run(kind: str, files: int, size: int, workers: int, out: Path, seconds: float) -> Facts:
    """Survey the blocks that are missing in `out`, for at most a number of seconds."""
    total: Facts = {"kind": kind, "block_size": size, "done": [], "seconds": 0.0, "cpu_seconds": 0.0, "files": 0}
    total |= {"past_checksums": 0, "read": 0, "slowest": 0.0, "reasons": {}, "findings": []}
    if out.exists():
        total = json.loads(out.read_text())["result"]
        if (total["kind"], total["block_size"]) != (kind, size):
            raise SystemExit(f"out: {out} counts other files; choose another, or the same kind and block")
    done, before, began = set(total["done"]), total["seconds"], time.monotonic()
    left = [block for block in range(-(-files // size)) if block not in done][::-1]
    crew = [Process(kind, size) for _ in range(min(workers, len(left)))]
    for one in crew:
        one.give(left.pop())
    while crew:
        for ready in wait([one.pipe for one in crew]):
            one = next(member for member in crew if member.pipe is ready)
            try:
                add(total, one.pipe.recv())
            except EOFError:  # the file that it read has killed it; the rest of its block is skipped
                total["findings"] = [*total["findings"], one.crashed()][:FINDINGS]
                done.add(one.block)
                crew[crew.index(one)] = one = Process(kind, size)
            else:
                done.add(one.block)
            total |= {"done": sorted(done), "seconds": before + time.monotonic() - began}
            total["per_cpu_second"] = total["files"] / max(total["cpu_seconds"], 1e-9)
            total["share_past_checksums"] = total["past_checksums"] / max(total["files"], 1)
            write(out, {**provenance(), "result": total})
            if left and time.monotonic() - began < seconds:
                one.give(left.pop())
            else:
                one.pipe.close()
                one.process.join()
                crew.remove(one)
    return total


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=sorted(BLOCK))
    parser.add_argument("--files", type=int, required=True)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--block", type=int, help="Number of files that a process reads before it reports.")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="Seconds after which to stop; run it again to continue."
    )
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    size = options.block or BLOCK[options.kind]
    found = run(options.kind, options.files, size, options.workers, options.out, options.seconds)
    shown = {name: found[name] for name in ("files", "read", "share_past_checksums", "slowest", "per_cpu_second")}
    print(json.dumps({**shown, "findings": len(found["findings"])}))


if __name__ == "__main__":
    main()
