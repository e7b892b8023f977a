"""`python -m experiments.cifar10`: run the experiment, or a stage of it, from the root of a checkout."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import typer

from dipp.cli.console import listen
from dipp.cli.main import run_app
from dipp.cli.options import grouped
from experiments.cifar10.options import Options

app = typer.Typer(pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]})


def experiment(options: Options) -> None:
    """Reproduce the paper's experiment, stage by stage.

    The exit code 3 says that work is left, because time was up or a release is not encoded yet; the last line says how
    to continue.
    """
    from experiments.cifar10.run import run

    listen()
    done = run(options, command=noted(sys.argv[1:]), say=typer.echo)
    raise typer.Exit(0 if done else 3)


def noted(words: list[str]) -> str:
    """Return the command with absolute paths cut to their last part, so that records name no folders of the machine."""
    named = []
    for word in words:
        option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
        named.append(f"{option}{equals}{Path(value).name if Path(value).is_absolute() else value}")
    return shlex.join(["python", "-m", "experiments.cifar10", *named])


app.command()(grouped(experiment))

if __name__ == "__main__":
    run_app(app)
