"""`dipp train`: train a denoiser on public pictures, with a progress bar on a terminal and plain lines in a log."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dipp.cli.console import LOGGER
from dipp.cli.options import AUTO, Device
from dipp.core.words import counted
from dipp.errors import DippError

if TYPE_CHECKING:
    from dipp.training.run import Report

BATCH, SMALL_BATCH = {"cuda": 80}, 4
"""Default numbers of large tiles in a step. They are few on slow devices, where a step takes seconds and a run lasts
minutes."""


@dataclass(frozen=True)
class CourseOptions:
    """Options of a training run. When a run is resumed, only its length may differ."""

    minutes: Annotated[float | None, typer.Option(help="Length of the run in minutes, over all its parts.")] = None
    steps: Annotated[int | None, typer.Option(help="Length of the run in steps, in place of --minutes.")] = None
    batch: Annotated[
        int | None,
        typer.Option(
            help="Number of large tiles in a step, with ten times as many small ones.",
            show_default="80 on CUDA, 4 elsewhere",
        ),
    ] = None
    learning_rate: Annotated[
        float, typer.Option(help="Peak of the learning rate, which decays to zero at the end.")
    ] = 3e-3
    ema: Annotated[float, typer.Option(help="Decay of the running average of the weights.")] = 0.9995
    coded: Annotated[float, typer.Option(help="Share of a batch that trains on states of sensing.")] = 0.5
    told: Annotated[
        float,
        typer.Option(
            help="Share of the rest that trains on regions, partial answers, coarse pictures or answers by words."
        ),
    ] = 0.5
    seed: Annotated[int, typer.Option(help="Seed of every random choice of the run.")] = 0


def train(
    data: Annotated[Path, typer.Argument(help="PUBLIC photographs: a folder, .tar, Parquet, .npz or .npy.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder of the run; an interrupted run in it goes on.")
    ],
    course: CourseOptions,
    size: Annotated[
        int | None,
        typer.Option(
            help="Side of the large tiles that are cut from photographs.",
            show_default="192, or the side of most pictures",
        ),
    ] = None,
    network: Annotated[
        Path | None,
        typer.Option(
            help="JSON file with the sizes of the network, such as config.json.", show_default="the usual sizes"
        ),
    ] = None,
    start: Annotated[
        Path | None, typer.Option(help="Denoiser whose weights training starts from; `embedded` ships with dipp.")
    ] = None,
    validation: Annotated[
        Path | None, typer.Option(help="Pictures to validate on.", show_default="a share of DATA")
    ] = None,
    pause_after: Annotated[
        float | None, typer.Option(help="Stop after this number of minutes; run the command again to go on.")
    ] = None,
    device: Device = AUTO,
) -> None:
    """Train a denoiser for photographs of any size on public pictures."""
    from rich.progress import Progress, TextColumn

    from dipp.models.bars import console
    from dipp.models.denoiser import torch_device
    from dipp.training.run import TrainingRun
    from dipp.training.settings import Settings

    batch = BATCH.get(torch_device(device).type, SMALL_BATCH) if course.batch is None else course.batch
    run = TrainingRun(
        data,
        output,
        Settings(**{**vars(course), "batch": batch}),
        size=size,
        network=None if network is None else _config(network),
        start=start,
        validate_on=validation,
        device=device,
    )
    tiles, on_terminal = run.tiles, console().is_terminal
    LOGGER.info(
        f"{counted(tiles.photographs, 'photograph')} ({tiles.skipped} skipped), "
        f"{' and '.join(f'{len(sized)} tiles of {len(sized[0])}×{len(sized[0])}' for sized in tiles.training)}, "
        f"{sum(p.numel() for p in run.parameters) / 1e6:.2f} M parameters, {run.device.type}, "
        f"{run.settings.batch} large tiles a step, from step {run.step}"
    )
    columns = (*Progress.get_default_columns(), TextColumn("{task.fields[state]}"))
    with Progress(*columns, console=console(), disable=not on_terminal) as bars:
        task = bars.add_task("training", total=1.0, state="")
        bars.update(task, completed=run.progress)

        def tell(report: Report) -> None:
            state = f"step {report.step}, loss {report.loss:.4f}, {report.rate:.3g} steps/s"
            bars.update(task, completed=report.progress, state=state)
            if not on_terminal:
                LOGGER.info(f"{report.progress:6.1%}  {state}")

        finished = run.train(tell, pause_after)
    if not finished:
        typer.echo(f"paused at {run.progress:.1%}, step {run.step}; run the same command to go on")
        return
    measured = run.validate()
    lines = [
        f"  {name}: " + ", ".join(f"{value:.2f} dB at SNR {snr}" for snr, value in table.items())
        for name, table in measured.items()
        if isinstance(table, dict)
    ]
    done = f"denoiser: {output}, after {counted(run.step, 'step')}"
    typer.echo("\n".join([f"{done}; `dipp calibrate {output} PUBLIC_PICTURES` makes its tables", *lines]))


def _config(path: Path) -> Any:
    """Return the sizes of a network from a JSON file; raise if it does not hold an object."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise DippError("network", f"must name a JSON object, got {path}", "write the sizes of a network into it")
    return content
