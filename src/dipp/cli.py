"""The command `dipp`. Heavy libraries are imported by the commands that need them, so that help answers at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dipp import __version__
from dipp.errors import DippError

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def main() -> None:
    """Run the command; a bad argument or file ends in one clear line and exit code 1."""
    try:
        app()
    except DippError as error:
        typer.echo(f"dipp: {error}", err=True)
        raise SystemExit(1) from None


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dipp {__version__}")
        raise typer.Exit


@app.callback()
def dipp(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Jointly compress and privatise, with a differential-privacy certificate computed from what was done."""


@app.command()
def simulate(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the histogram goes (PNG).")],
    channel: Annotated[str, typer.Option(help="laplace, logistic, huber or sign.")] = "laplace",
    code: Annotated[str, typer.Option(help="ppr (step-limited, Poisson order) or flat (α = 1).")] = "ppr",
    x: Annotated[float, typer.Option(help="The private number, in [-1, 1].")] = 0.5,
    snr: Annotated[float, typer.Option(help="Power of the largest x over that of the noise.")] = 4.0,
    alpha: Annotated[str, typer.Option(help="α of the Poisson order, a rational of at least 1.")] = "2",
    candidates: Annotated[int, typer.Option(help="n: candidates that the encoder weighs.")] = 1024,
    samples: Annotated[int, typer.Option(help="How often x is encoded, each time with a fresh seed.")] = 20_000,
) -> None:
    """Send one private number many times through a stochastic code, and compare what arrives with the true density."""
    from dipp.simulation import Simulation

    simulation = Simulation.prepare(channel, code, x, snr, alpha, candidates, samples)
    typer.echo(simulation.run(output))
