"""`dipp train`: train a denoiser on public pictures, with a progress bar on a terminal and plain lines in a log."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dipp.cli.options import Device
from dipp.errors import DippError

if TYPE_CHECKING:
    from dipp.training.run import Report


@dataclass(frozen=True)
class CourseOptions:
    """Options of a run. When it is resumed, only its length, --half and --compile may differ."""

    minutes: Annotated[float | None, typer.Option(help="Length of the run, over all its parts.")] = None
    steps: Annotated[int | None, typer.Option(help="Length of the run in steps, instead of minutes.")] = None
    batch: Annotated[int, typer.Option(help="Pictures a step.")] = 512
    learning_rate: Annotated[float, typer.Option(help="Its peak; it decays to zero at the end.")] = 8e-4
    ema: Annotated[float, typer.Option(help="Decay of the running average of the weights.")] = 0.9995
    coded: Annotated[float, typer.Option(help="Share of a batch with the noise of sign steps, not Gaussian.")] = 0.0
    half: Annotated[bool, typer.Option("--half", help="Store the weights in fp16.")] = False
    compile_mode: Annotated[
        str, typer.Option("--compile", help="torch.compile on CUDA: reduce-overhead (CUDA graphs), default or none.")
    ] = "reduce-overhead"
    seed: Annotated[int, typer.Option(help="Seed of every random choice of the run.")] = 0


def train(
    data: Annotated[Path, typer.Argument(help="PUBLIC pictures: a folder, CIFAR-10's folder, Parquet, .npz or .npy.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the run; one that was killed goes on.")],
    course: CourseOptions,
    size: Annotated[int, typer.Option(help="Side of the pictures; larger ones are cut into tiles.")] = 32,
    network: Annotated[Path | None, typer.Option(help="UNet2DModel config (JSON), instead of the default one.")] = None,
    start: Annotated[Path | None, typer.Option(help="Denoiser to go on from: its network and weights.")] = None,
    validation: Annotated[Path | None, typer.Option(help="Pictures to validate on, if not a share of DATA.")] = None,
    pause_after: Annotated[float | None, typer.Option(help="Stop after so many minutes; run again to go on.")] = None,
    device: Device = "cpu",
) -> None:
    """Train a denoiser on public pictures; writes a folder in diffusers' format."""
    from rich.console import Console
    from rich.progress import Progress, TextColumn

    from dipp.training.run import Run, Settings

    run = Run(
        data,
        output,
        Settings(**vars(course)),
        size=size,
        network=None if network is None else _config(network),
        start=start,
        validate_on=validation,
        device=device,
    )
    console = Console(stderr=True)
    console.print(
        f"{len(run.pixels)} pictures ({run.skipped} skipped), {len(run.held_out)} held out, "
        f"{sum(p.numel() for p in run.parameters) / 1e6:.2f} M parameters, from step {run.step}",
        highlight=False,
    )
    columns = (*Progress.get_default_columns(), TextColumn("{task.fields[state]}"))
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        task = bars.add_task("training", total=1.0, state="")
        bars.update(task, completed=run.progress)

        def tell(report: Report) -> None:
            state = (
                f"step {report.step}, loss {report.loss:.5f}, {report.rate:,.0f} img/s, lr {report.learning_rate:.2g}"
            )
            bars.update(task, completed=report.progress, state=state)
            if not console.is_terminal:
                print(f"{report.progress:6.1%}  {state}", flush=True)

        finished = run.train(tell, pause_after)
    if not finished:
        typer.echo(f"paused at {run.progress:.1%}, step {run.step}; run the same command to go on")
        return
    bits = run.validate()["bits per pixel of the path to SNR"]
    lines = [f"  SNR {snr:>7}: {value:.4g} bits per pixel" for snr, value in bits.items()]
    typer.echo("\n".join([f"denoiser: {output}, after {run.step} steps; the Gaussian path costs", *lines]))


def _config(path: Path) -> Any:
    """The network config in a JSON file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        content = None
    if not isinstance(content, dict):
        raise DippError(f"network: {path} is not a JSON object; a UNet2DModel config is needed")
    return content
