"""What `dipp train` shows: a bar on a terminal, plain lines in a log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress, TextColumn

from dipp.errors import DippError
from dipp.train import Report, Run, Settings


def train(
    data: Path,
    output: Path,
    settings: Settings,
    size: int,
    network: Path | None,
    start: Path | None,
    validate_on: Path | None,
    pause_after: float | None,
    device: str,
) -> str:
    """Train, validate, and say what was made."""
    run = Run(
        data,
        output,
        settings,
        size=size,
        network=None if network is None else _config(network),
        start=start,
        validate_on=validate_on,
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
        return f"paused at {run.progress:.1%}, step {run.step}; run the same command to go on"
    bits = run.validate()["bits per pixel of the path to SNR"]
    lines = [f"  SNR {snr:>7}: {value:.4g} bits per pixel" for snr, value in bits.items()]
    return "\n".join([f"denoiser: {output}, after {run.step} steps; the Gaussian path costs", *lines])


def _config(path: Path) -> Any:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        content = None
    if not isinstance(content, dict):
        raise DippError(f"network: {path} is not a JSON object; a UNet2DModel config is needed")
    return content
