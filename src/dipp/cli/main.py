"""The command `dipp`. Its subcommands import heavy libraries only when they run, so that --help answers at once."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from typing import Annotated

import typer

from dipp import __version__
from dipp.cli.attest import keygen, sign, verify
from dipp.cli.audit import audit
from dipp.cli.calibrate import calibrate
from dipp.cli.card import card
from dipp.cli.console import listen
from dipp.cli.decode import decode
from dipp.cli.encode import encode
from dipp.cli.example import example
from dipp.cli.export import export
from dipp.cli.info import info
from dipp.cli.odometer import odometer
from dipp.cli.options import grouped
from dipp.cli.page import page
from dipp.cli.plan import plan
from dipp.cli.privatize import privatize
from dipp.cli.redact import check, redact, regions
from dipp.cli.risk import risk
from dipp.cli.simulate import simulate
from dipp.cli.train import train
from dipp.cli.words import words
from dipp.errors import DippError

app = typer.Typer(
    no_args_is_help=True, pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]}
)

COMMANDS = (
    *(example, plan, encode, info, decode),
    *(regions, redact, check),
    *(privatize, odometer, card, keygen, sign, verify),
    *(risk, audit, train, calibrate, words, export, page, simulate),
)
"""All subcommands, in the order of `dipp --help`: one picture, regions, a dataset, models and the rest."""

for command in COMMANDS:
    app.command()(grouped(command))


def main() -> None:
    """Run the command `dipp`."""
    run_app(app)


def run_app(app: typer.Typer) -> None:
    """Run a command; a bad argument or file, or a disk that fails, ends it with one clear line and exit code 1."""
    # Imports make hundreds of thousands of objects that stay. Collecting garbage among them again and again took a
    # fifth of the time of a short command.
    gc.set_threshold(100_000, 50, 100)
    atexit.register(_leave)
    try:
        app()
    except DippError as error:
        typer.echo(f"dipp: {error}", err=True)
        raise SystemExit(1) from None
    except OSError as error:  # such as a full disk to which standard output is redirected
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(f"dipp: {where}reading or writing failed ({error.strerror or error})", err=True)
        _give_up_output()
        raise SystemExit(1) from None


def _give_up_output() -> None:
    """Discard output that cannot be written: otherwise the interpreter would try again at its end, and fail."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _leave() -> None:
    """Skip the last garbage collection, except with Triton, which reports objects that are not freed as leaks."""
    if "triton" not in sys.modules:
        gc.freeze()


def _version(wanted: bool) -> None:
    """Print the version and exit, if wanted."""
    if wanted:
        typer.echo(f"dipp {__version__}")
        raise typer.Exit


@app.callback()
def dipp(
    version: Annotated[  # noqa: ARG001 - its callback reads it
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Jointly compress and privatise images, with a differential-privacy certificate computed from what was done."""
    listen()
