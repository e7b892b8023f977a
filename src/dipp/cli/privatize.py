"""`dipp privatize`: release a whole dataset, with a progress bar, a table of skipped pictures, and a summary."""

from __future__ import annotations

import contextlib
import json
import mimetypes
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dipp.cli.console import LOGGER, console
from dipp.cli.options import (
    AUTO,
    BeaconRound,
    Device,
    OdometerOptions,
    PlanOptions,
    Seed,
    SourceWindow,
    public_beacon,
    public_seed,
)
from dipp.core.window import Window
from dipp.errors import DippError

if TYPE_CHECKING:
    from dipp.data.engines import Engine

TABLES = (".parquet", ".tar", ".zip", ".npz", ".npy", ".json")
"""Suffixes of files with many pictures, none of which is written."""
EXIT_SKIPPED = 3
"""Exit code if the dataset was released but bad pictures were skipped."""


@dataclass(frozen=True)
class SourceOptions:
    """Options that determine what is read from the source and released."""

    split: Annotated[str | None, typer.Option(help="Part of the source, where it has parts.", show_default="train")] = (
        None
    )
    image_column: Annotated[str | None, typer.Option(help="Column of the pictures, if there are several.")] = None
    label_column: Annotated[str | None, typer.Option(help="Column of the labels, if not label.")] = None
    drop_labels: Annotated[bool, typer.Option("--drop-labels", help="Do not release the labels.")] = False
    window: SourceWindow = None


@dataclass(frozen=True)
class RunOptions:
    """Options that determine how the run is carried out."""

    device: Device = AUTO
    engine: Annotated[str, typer.Option(help="local or ray.")] = "local"
    workers: Annotated[
        int | None, typer.Option(help="Processes, each with the model. Default: the cores, or one on a GPU.")
    ] = None
    address: Annotated[str | None, typer.Option(help="A Ray cluster that is there.")] = None
    shard_size: Annotated[int, typer.Option(help="Images of a shard.")] = 1024
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first bad picture.")] = False
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a release: the ε of both add up for whoever saw both.")
    ] = False

    def runner(self) -> Engine:
        """The engine that runs the workers."""
        from dipp.data import engines

        if self.workers is not None and self.workers < 1:
            raise DippError(f"workers: at least 1 is needed, got {self.workers}")
        if self.engine == "ray":
            return engines.Ray(self.workers, self.address)
        if self.engine != "local":
            raise DippError(f"engine: local or ray is needed, got {self.engine}")
        if self.address is not None:
            raise DippError("address: a cluster goes with --engine ray")
        from dipp.models.denoiser import torch_device

        if torch_device(self.device).type != "cpu":
            if self.workers not in (None, 1):
                raise DippError("workers: one is needed for a GPU; --device cpu has several, --engine ray several GPUs")
            return engines.Local(1)
        return engines.Local(self.workers or engines.cores())


def privatize(
    src: Annotated[str, typer.Argument(help="Folder of images, CIFAR-10, Parquet, tar shards, datasets, hub id.")],
    dst: Annotated[Path, typer.Argument(help="New folder of Parquet shards, or a .dipp file.")],
    plan: PlanOptions,
    source: SourceOptions,
    run: RunOptions,
    counting: OdometerOptions,
    as_json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON.")] = False,
    seed: Seed = None,
    beacon: BeaconRound = None,
) -> None:
    """Release a whole dataset, each picture once. Labels are released as they are: they are not private here.

    Exit code 3: released, but bad pictures were skipped.
    """
    from dipp import report
    from dipp.cli import progress
    from dipp.data import privatize as release
    from dipp.data.shards import MAX_ROWS
    from dipp.data.sources import Columns
    from dipp.papers import writing
    from dipp.papers.guarantee import Words

    columns = Columns(source.image_column, source.label_column, source.split)
    public = public_seed(seed), public_beacon(beacon), Window.of(source.window)
    choices = release.Choices(columns, run.shard_size, source.drop_labels, *public)
    if not 1 <= run.shard_size <= MAX_ROWS:
        raise DippError(f"shard-size: 1 to {MAX_ROWS} is needed, got {run.shard_size}")
    runner = run.runner()
    _refuse_file_names(dst)
    if not dst.parent.is_dir():
        raise DippError(f"dst: the folder {dst.parent} does not exist")
    meter, codec = counting.meter(plan.delta), plan.codec(run.device)
    place = str(Path(plan.model).resolve()) if Path(plan.model).is_dir() else plan.model
    bar = progress.Bar(console())
    try:
        with bar.bar:
            summary = release.privatize(
                src,
                dst.resolve(),
                codec,
                place,
                runner,
                choices,
                strict=run.strict,
                overwrite=run.overwrite,
                watcher=bar,
                meter=meter,
            )
    except KeyboardInterrupt:
        LOGGER.warning("interrupted; what was published is safe, run the same command again to go on")
        raise typer.Exit(130) from None
    if summary.skipped:
        console().print(progress.skipped_table(summary))
    if not summary.facts["images"]:
        _remove_nothing(dst)
        raise DippError("src: none of its pictures can be used, for the reasons above; nothing was released")
    papers = writing.write(dst, Words(), overwrite=True)  # of the release that was there before, if any are left
    typer.echo(json.dumps(progress.summary_facts(summary)) if as_json else progress.summary_text(summary, dst, papers))
    for line in report.unused(codec.budget, summary.facts["certificate"], codec.bound, plan.final_timestep):
        LOGGER.info(line)
    raise typer.Exit(EXIT_SKIPPED if summary.skipped else 0)


def _refuse_file_names(dst: Path) -> None:
    """Refuse a new folder that is called like a file: whoever names it so expects one."""
    kind = mimetypes.guess_type(f"a{dst.suffix}")[0] or ""
    if not dst.is_dir() and (str(dst) == "-" or dst.suffix.lower() in TABLES or kind.startswith("image/")):
        raise DippError(f"dst: a new folder of shards, or a name in .dipp, is needed, got {dst.name}")


def _remove_nothing(dst: Path) -> None:
    """Remove a release of no picture: it would pass for one, and stand in the way of the next."""
    from dipp.data.store import Store

    with contextlib.suppress(OSError):
        if dst.is_file():
            dst.unlink()
        else:
            Store(dst).overwrite()
            dst.rmdir()
