"""`dipp privatize`: release a whole dataset, with a progress bar, a table of skipped pictures, and a summary."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from dipp.cli.console import LOGGER
from dipp.cli.options import (
    AUTO,
    WHAT_TO_HIDE,
    BeaconRound,
    Device,
    HidingOptions,
    OdometerOptions,
    PlanOptions,
    Seed,
    SourceWindow,
    given,
    public_seed,
)

EXIT_SKIPPED = 3
"""Exit code if the dataset was released but bad pictures were skipped."""


@dataclass(frozen=True)
class SourceOptions:
    """Options that determine what is read from the source and released."""

    split: Annotated[str | None, typer.Option(help="Part of the source, if it has parts.", show_default="train")] = None
    image_column: Annotated[
        str | None, typer.Option(help="Column of the pictures, if several columns hold pictures.")
    ] = None
    label_column: Annotated[str | None, typer.Option(help="Column of the labels.", show_default="label")] = None
    name_column: Annotated[
        str | None,
        typer.Option(
            help="Column of a table with the names of pictures in --regions.", show_default="path, or row number"
        ),
    ] = None
    drop_labels: Annotated[bool, typer.Option("--drop-labels", help="Do not release the labels.")] = False
    subject: Annotated[
        str | None,
        typer.Option(help="Column that names whose picture it is: the price of the worst subject is stated."),
    ] = None
    most_per_subject: Annotated[
        int | None,
        typer.Option(help="Largest number of released pictures of a subject: its first ones.", show_default="all"),
    ] = None
    window: SourceWindow = None


@dataclass(frozen=True)
class RunOptions:
    """Options that determine how the run is carried out."""

    device: Device = AUTO
    engine: Annotated[str, typer.Option(help="local or ray.")] = "local"
    workers: Annotated[
        int | None,
        typer.Option(
            help="Number of processes, each with the model.", show_default="the number of cores, or 1 on a GPU"
        ),
    ] = None
    address: Annotated[str | None, typer.Option(help="Address of a running Ray cluster.")] = None
    shard_size: Annotated[int, typer.Option(help="Number of pictures in a shard.")] = 1024
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first bad picture.")] = False
    skip_changed: Annotated[
        bool,
        typer.Option(
            "--skip-changed", help="Finish an interrupted run without the pictures that have changed since it began."
        ),
    ] = False
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Replace an existing release: the ε of both add up for a reader who saw both."
        ),
    ] = False


def privatize(
    src: Annotated[
        str, typer.Argument(help="A folder of pictures, CIFAR-10, Parquet, tar shards, a saved dataset, or a hub id.")
    ],
    dst: Annotated[
        Path,
        typer.Argument(
            help="A new folder for Parquet shards, or a .dipp file; with --regions, a new folder for pictures."
        ),
    ],
    plan: PlanOptions,
    hiding: HidingOptions,
    source: SourceOptions,
    run: RunOptions,
    counting: OdometerOptions,
    as_json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON.")] = False,
    seed: Seed = None,
    beacon: BeaconRound = None,
    regions: Annotated[
        str | None,
        typer.Option(help=f"{WHAT_TO_HIDE} Or column:NAME of a table. Pictures are redacted, and not encoded."),
    ] = None,
) -> None:
    """Release a whole dataset, each picture once. Labels are released as they are: they are not private here.

    Pictures are encoded within the budget --epsilon. With --regions they are redacted instead: ordinary pictures come
    out, and what the regions hide is never read.

    Exit code 3: the dataset was released, but bad pictures were skipped.
    """
    from dipp import release
    from dipp.cli import progress

    try:
        released = release.privatized(
            src,
            dst,
            **given(plan, hiding, source, run),
            regions=regions,
            seed=public_seed(seed),
            beacon=beacon,
            odometer=counting.meter(plan.delta) or False,
        )
    except KeyboardInterrupt:
        LOGGER.warning("interrupted; published pictures are safe, run the same command again to go on")
        raise typer.Exit(130) from None
    summary = released.summary
    facts = progress.summary_facts(released)
    typer.echo(json.dumps(facts) if as_json else progress.summary_text(released, dst))
    for line in released.unused:
        LOGGER.info(line)
    raise typer.Exit(EXIT_SKIPPED if summary.skipped else 0)
