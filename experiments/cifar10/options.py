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

    config: Annotated[Path, typer.Argument(help="What is made, in TOML: experiments/cifar10/config.toml.")]
    data: Annotated[Path, typer.Option(help="Folder of CIFAR-10's Python version.")]
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the run; what is there is not made again.")]
    model: Model = EMBEDDED
    stage: Annotated[
        str | None, typer.Option(help="baseline, encode, train, metrics, probe or report, instead of all of them.")
    ] = None
    only: Annotated[str, typer.Option(help="Patterns of the releases that are made, such as 'clean,paper-*'.")] = "*"
    calibration: Calibration = None
    device: Device = AUTO
    minutes: Annotated[float | None, typer.Option(help="Stop after this many; run it again to go on.")] = None
    commit: Annotated[str | None, typer.Option(help="Commit of the code, instead of what git says.")] = None
