"""Options of a run of the experiment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from dipp.cli.options import AUTO, EMBEDDED, Calibration, Device, Model


@dataclass(frozen=True)
class Options:
    """What is run, on which data, and where the results go."""

    config: Annotated[Path, typer.Argument(help="Settings of the run, in TOML: experiments/cifar10/config.toml.")]
    data: Annotated[Path, typer.Option(help="Folder of CIFAR-10's Python version.")]
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the run; results in it are kept.")]
    model: Model = EMBEDDED
    stage: Annotated[
        str | None, typer.Option(help="One stage: baseline, encode, train, metrics, probe or report. By default all.")
    ] = None
    only: Annotated[str, typer.Option(help="Names or patterns of the releases to make, such as 'clean,paper-*'.")] = "*"
    calibration: Calibration = None
    device: Device = AUTO
    minutes: Annotated[
        float | None, typer.Option(help="Minutes after which no more work begins; run it again to continue.")
    ] = None
    commit: Annotated[str | None, typer.Option(help="Commit of the code, in place of git's answer.")] = None
