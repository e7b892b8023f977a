"""Runs over datasets in child processes, to be killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from dipp.odometer import Odometer
from helpers.datasets import Publications
from helpers.paths import ROOT


def start(
    model: Path, source: Path, target: Path, workers: int, *held: object, counted: bool = False, **options: Any
) -> subprocess.Popen[bytes]:
    """Start a run in a child process; it can be held after a number of shards, until a file exists."""
    path = f"{ROOT / 'tests'}{os.pathsep}{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    arguments = map(str, (model, source, target, workers, *held))
    command = [sys.executable, "-m", "helpers.privatize_script", *arguments]
    environment = {**os.environ, "PYTHONPATH": path, "NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    if counted:
        environment["COUNTED"] = "1"
    return subprocess.Popen(command, env=environment, **options)  # noqa: S603


def wait_for(watch: Publications, shards: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a number of shards is published. Fail if the held run ends before."""
    while watch.look() < shards:
        assert process.poll() is None, "it was over before so many shards were out"
        time.sleep(0.05)


def require_charged_once(images: int) -> None:
    """Check that all pictures of a source were charged to the odometer, each once."""
    counted = Odometer.open()
    assert counted.count() == images
    assert {picture.releases for picture in counted.pictures(10**6)} == {1}
