"""`dipp experiment`: run an experiment from a checkout of the repository.

Experiments are not part of the installed package, because they need training data, hours of a GPU, and libraries that
the codec does not need.
"""

from __future__ import annotations

import importlib
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from dipp.cli.console import LOGGER
from dipp.cli.options import AUTO, EMBEDDED, Calibration, Device, Model
from dipp.errors import DippError

CHECKOUT = Path(__file__).parents[3]
EXPERIMENTS = CHECKOUT / "experiments"
"""Folder of the experiments, if dipp is installed from a checkout."""


@dataclass(frozen=True)
class ExperimentOptions:
    """Options of a run of an experiment."""

    config: Annotated[Path, typer.Argument(help="What is made, in TOML: experiments/cifar10/config.toml.")]
    data: Annotated[Path, typer.Option(help="Folder of CIFAR-10's Python version.")]
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder of the run; what is there is not made again.")
    ] = None
    out: Annotated[Path | None, typer.Option("--out", hidden=True, help="Deprecated: --output.")] = None
    model: Model = EMBEDDED
    stage: Annotated[
        str | None, typer.Option(help="baseline, encode, train, metrics, probe or report, instead of all of them.")
    ] = None
    only: Annotated[str, typer.Option(help="Patterns of the releases that are made, such as 'clean,paper-*'.")] = "*"
    calibration: Calibration = None
    device: Device = AUTO
    minutes: Annotated[float | None, typer.Option(help="Stop after so many; run it again to go on.")] = None
    commit: Annotated[str | None, typer.Option(help="Commit of the code, instead of what git says.")] = None

    @property
    def folder(self) -> Path:
        """Folder of the run."""
        if self.out is not None:
            LOGGER.warning("--out is deprecated; write --output")
        if (found := self.output or self.out) is None:
            raise DippError("output: name the folder of the run with --output")
        return found


def experiment(
    name: Annotated[str, typer.Argument(help="cifar10: the paper's experiment.")], options: ExperimentOptions
) -> None:
    """Reproduce the paper's experiment, stage by stage; needs a checkout of the repository.

    Exit code 3: the stage has more to do, because time was up or something is not encoded yet; its last line says how
    to go on.
    """
    module = _module(name)
    done = module.run(options, command=_command(sys.argv), say=typer.echo)
    raise typer.Exit(0 if done else 3)


def _module(name: str) -> Any:
    """The module of an experiment, from the checkout that dipp is installed from."""
    if not EXPERIMENTS.is_dir():
        raise DippError(
            "experiment: its code is in the repository; clone that and pip install -e '.[experiment]' there"
        )
    names = sorted(path.parent.name for path in EXPERIMENTS.glob("*/run.py"))
    if name not in names:
        raise DippError(f"experiment: one of {', '.join(names)} is needed, got {name}")
    sys.path.insert(0, str(CHECKOUT))
    try:
        return importlib.import_module(f"experiments.{name}.run")
    except ModuleNotFoundError as error:
        raise DippError(f"experiment: {error.name} is missing; pip install -e '.[experiment]'") from None
    finally:
        sys.path.remove(str(CHECKOUT))


def _command(words: list[str]) -> str:
    """The command as it was given, with absolute paths cut to their last part, so that a record shows none of them."""
    named = []
    for word in words[1:]:
        option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
        named.append(f"{option}{equals}{Path(value).name if Path(value).is_absolute() else value}")
    return shlex.join(["dipp", *named])
