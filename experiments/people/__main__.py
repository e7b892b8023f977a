"""`python -m experiments.people`: run the experiment, or a stage of it, from the root of a checkout."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from dipp.cli.main import run_app
from dipp.errors import DippError
from experiments.people import claims, faces, figures, guessing, reading, recognising
from experiments.people.store import Store, commit

app = typer.Typer(pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]})
STAGES = ("claims", "text", "guesses", "faces", "report")


def experiment(
    data: Annotated[Path, typer.Argument(help="Faces: a folder of people, or the sheet of ORL.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the run; results in it are kept.")],
    stage: Annotated[str | None, typer.Option(help=f"{', '.join(STAGES)}, instead of all of them.")] = None,
    only: Annotated[
        str, typer.Option(help="Names or patterns of records to make, such as 'faces.blur-*,text.*'.")
    ] = "*",
) -> None:
    """Measure who is recognised, what is read and what is guessed. All stages take about an hour of one core."""
    import torch

    if stage is not None and stage not in STAGES:
        raise DippError("stage", f"must be one of {', '.join(STAGES)}, got {stage}")
    torch.set_num_threads(1)
    words = [Path(word).name if Path(word).is_absolute() else word for word in sys.argv[1:]]
    store = Store(output, shlex.join(["python", "-m", "experiments.people", *words]), commit(), only)
    people = faces.load(data)
    for name in STAGES if stage is None else (stage,):
        {
            "claims": lambda: claims.stage(people, store),
            "text": lambda: reading.stage(store),
            "guesses": lambda: guessing.stage(people, store),
            "faces": lambda: recognising.stage(people, store),
            "report": lambda: figures.stage(store),
        }[name]()


app.command()(experiment)

if __name__ == "__main__":
    run_app(app)
