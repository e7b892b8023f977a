"""`dipp.privatize`: a dataset in, a release with its papers out, in one call.

The command `dipp privatize` parses, calls this and prints.
"""

from __future__ import annotations

import contextlib
import logging
import mimetypes
from pathlib import Path
from typing import NamedTuple, Unpack

from dipp.codec.codec import Codec
from dipp.codec.encoding import PlanArguments
from dipp.core.beacon import Beacon
from dipp.core.window import Window
from dipp.data import engines
from dipp.data import privatize as runs
from dipp.data.engines import Engine
from dipp.data.privatize import SHARD_SIZE, Choices, Conduct, Summary
from dipp.data.progress import Bar
from dipp.data.shards import MAX_ROWS
from dipp.data.sources import Columns
from dipp.data.store import Store
from dipp.errors import DippError
from dipp.models import embedded
from dipp.models.bars import console
from dipp.odometer import Meter
from dipp.papers import writing
from dipp.papers.guarantee import Words
from dipp.privacy import advice
from dipp.privacy.budget import why_unused

LOGGER = logging.getLogger("dipp")
TABLES = (".parquet", ".tar", ".zip", ".npz", ".npy", ".json")
"""Suffixes of files with many pictures, none of which is written."""


class Privatized(NamedTuple):
    """What a run has made."""

    summary: Summary
    papers: tuple[Path, ...]
    """Files that describe the release: a dataset card, Croissant metadata, an entry for a registry."""
    warnings: tuple[str, ...]
    """Warnings about its certificate, as `dipp info` prints them."""
    unused: tuple[str, ...]
    """Why the plan uses far less than the budget, if it does."""


def privatize(
    src: str | Path,
    dst: str | Path,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    preset: str = "sharp",
    bpp: float | None = None,
    final_timestep: int | None = None,
    model: str | Path = embedded.FOLDER,
    calibration: str | Path | None = None,
    device: str = "auto",
    split: str | None = None,
    image_column: str | None = None,
    label_column: str | None = None,
    drop_labels: bool = False,
    window: Window | str | tuple[int, int] | None = None,
    engine: str = "local",
    workers: int | None = None,
    address: str | None = None,
    shard_size: int = SHARD_SIZE,
    strict: bool = False,
    overwrite: bool = False,
    skip_changed: bool = False,
    seed: bytes | None = None,
    beacon: Beacon | None = None,
    odometer: bool | Meter = True,
    progress: bool = True,
) -> Summary:
    """Release every picture of a dataset once, as the command `dipp privatize` does.

    A run that was interrupted goes on when it is called again with the same arguments. Warnings go to the logger
    "dipp". With several workers, call it under `if __name__ == "__main__":`, since processes are spawned.

    Args:
        src: Folder of images, CIFAR-10, Parquet, tar shards, a saved dataset, or a hub id.
        dst: New folder of Parquet shards, or a .dipp file.
        epsilon: Budget per pixel: pure ε, or with `delta` ε of (ε, δ). Required, except with `rho` or preset "diffc".
        delta: δ of an (ε, δ) budget.
        rho: Budget per pixel as ρ (zCDP), in place of `epsilon`.
        preset: "sharp", "swift", "paper" or "diffc", which has no certificate.
        bpp: Most payload bits per pixel, as expected from public pictures. By default 1 for "sharp" and "swift".
        final_timestep: Timestep at which the coded steps end.
        model: Folder or hub id of a denoiser. By default the one that ships with dipp.
        calibration: Public cost table, if it is not calibration.json beside the weights.
        device: "auto", "cuda", "mps" or "cpu".
        split: Part of the source, where it has parts.
        image_column: Column of the pictures, if there are several.
        label_column: Column of the labels, if it is not "label".
        drop_labels: Whether labels are left out. By default they are released as they are.
        window: Values that become black and white in pictures of more than eight bits.
        engine: "local" or "ray".
        workers: Number of processes, each with the model. By default the cores, or one on a GPU.
        address: Address of a Ray cluster that is running.
        shard_size: Images of a shard.
        strict: Whether the first bad picture ends the run. By default it is skipped.
        overwrite: Whether a release at `dst` is replaced. The ε of both add up.
        skip_changed: Whether an interrupted run is finished without the pictures that have changed since it began.
        seed: 16 public bytes, for tests; by default drawn before a picture is read.
        beacon: Round of a public random beacon, which is mixed into the seed.
        odometer: True charges this user's odometer, a `Meter` one with a limit for instance, False none.
        progress: Whether a terminal shows a progress bar, and a table of skipped pictures at the end.

    Returns:
        The facts of the release, and what was skipped.

    Raises:
        DippError: An argument, the source or all of its pictures cannot be used.
        LimitError: A picture would exceed the limit of the odometer; nothing was released.
    """
    made = privatized(
        src,
        dst,
        runner=engines.engine(engine, workers, address, device),
        columns=Columns(image_column, label_column, split),
        drop_labels=drop_labels,
        shard_size=shard_size,
        strict=strict,
        overwrite=overwrite,
        skip_changed=skip_changed,
        seed=seed,
        beacon=beacon,
        window=window,
        odometer=odometer,
        progress=progress,
        model=model,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        preset=preset,
        bpp=bpp,
        final_timestep=final_timestep,
        calibration=calibration,
        device=device,
    )
    for text in (*made.warnings, *made.unused):
        LOGGER.warning(text)
    return made.summary


def privatized(
    src: str | Path,
    dst: str | Path,
    *,
    runner: Engine,
    columns: Columns,
    drop_labels: bool,
    shard_size: int,
    strict: bool,
    overwrite: bool,
    skip_changed: bool,
    seed: bytes | None,
    beacon: Beacon | None,
    window: Window | str | tuple[int, int] | None,
    odometer: bool | Meter,
    progress: bool,
    model: str | Path,
    **plan: Unpack[PlanArguments],
) -> Privatized:
    """Release as `privatize` does, but return the warnings instead of logging them."""
    target = Path(dst)
    choices = Choices(columns, shard_size, drop_labels, seed, beacon, Window.of(window))
    if not 1 <= shard_size <= MAX_ROWS:
        raise DippError(f"shard-size: 1 to {MAX_ROWS} is needed, got {shard_size}")
    _refuse_file_names(target)
    if not target.parent.is_dir():
        raise DippError(f"dst: the folder {target.parent} does not exist")
    meter = Meter.of(odometer, plan.get("delta"))
    codec = Codec.from_pretrained(model, **plan)
    bar = Bar(console()) if progress else None
    with contextlib.nullcontext() if bar is None else bar.bar:
        summary = runs.privatize(
            str(src),
            target.resolve(),
            codec,
            str(Path(model).resolve()) if Path(model).is_dir() else str(model),
            runner,
            choices,
            Conduct(strict, overwrite, skip_changed, meter, bar or runs.QUIET),
        )
    if bar is not None:
        bar.finished(summary)
    if not summary.facts["images"]:
        _remove_nothing(target)
        raise DippError(
            f"src: none of its pictures can be used, the first because: {summary.skipped[0][1]}; nothing was released"
        )
    papers = writing.write(target, Words(), overwrite=True)  # those of an earlier release at this place are replaced
    claim = summary.facts["certificate"]
    warnings = advice.warnings(claim["epsilon"], claim["delta"], summary.facts["pixels"]) if claim else ()
    unused = why_unused(codec.budget, claim, codec.bound, plan.get("final_timestep"))
    return Privatized(summary, tuple(papers), warnings, unused)


def _refuse_file_names(dst: Path) -> None:
    """Raise for a new folder with the name of a file."""
    kind = mimetypes.guess_type(f"a{dst.suffix}")[0] or ""
    if not dst.is_dir() and (str(dst) == "-" or dst.suffix.lower() in TABLES or kind.startswith("image/")):
        raise DippError(f"dst: a new folder of shards, or a name in .dipp, is needed, got {dst.name}")


def _remove_nothing(dst: Path) -> None:
    """Remove a release of no picture: it would pass for one, and stand in the way of the next."""
    with contextlib.suppress(OSError):
        if dst.is_file():
            dst.unlink()
        else:
            Store(dst).overwrite()
            dst.rmdir()
