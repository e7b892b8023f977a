"""`dipp.privatize`: a dataset in, a release with its papers out, in one call.

The command `dipp privatize` parses, calls this and prints.
"""

from __future__ import annotations

import contextlib
import json
import logging
import mimetypes
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack, cast

from dipp.codec.codec import Codec
from dipp.codec.options import DEFAULT_PRESET, EncodeOptions, object_size, plan_of, takes
from dipp.core.beacon import Beacon
from dipp.core.window import Window
from dipp.data import engines
from dipp.data import privatize as runs
from dipp.data.choices import QUIET, SHARD_SIZE, Choices, Conduct, Summary
from dipp.data.progress import Bar
from dipp.data.purpose import Purpose
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
from dipp.privacy.certificate import Certificate
from dipp.redaction.redact import MISSED, RedactOptions
from dipp.redaction.sources import OTHERS

if TYPE_CHECKING:
    from dipp.data.redacting import Redacting

LOGGER = logging.getLogger("dipp")
TABLES = (".parquet", ".tar", ".zip", ".npz", ".npy", ".json")
"""Suffixes of files with many pictures, which are read and never written."""


class Privatized(NamedTuple):
    """What a run has made."""

    summary: Summary
    papers: tuple[Path, ...]
    """Files that describe the release: a dataset card, and for encoded pictures Croissant metadata and an entry for a
    registry."""
    warnings: tuple[str, ...]
    """Warnings about its certificate, as `dipp info` prints them."""
    unused: tuple[str, ...]
    """Why the plan uses far less than the budget, if it does."""


ENCODING: dict[str, Any] = {
    **dict.fromkeys(
        ("epsilon", "delta", "rho", "hide", "unit", "bpp", "final_timestep", "calibration", "seed", "beacon", "window")
    ),
    **dict.fromkeys(("subject", "most_per_subject")),
    "preset": DEFAULT_PRESET,
    "prompt": "",
}
REDACTING: dict[str, Any] = {
    **dict.fromkeys(("kinds", "boxes", "gaps", "name_column")),
    "margin": "0",
    "fill": "paint",
    "accept_lossy": False,
    "allow_none": False,
}
"""Options that go with one purpose of a run alone, with their defaults."""


class PrivatizeOptions(EncodeOptions, RedactOptions, total=False):
    """How a dataset is released."""

    regions: str | Path | None
    """A file, or a folder of files, that declares regions; or "column:NAME", the column of a table that holds them.
    They are hidden, and redacted pictures are released. By default, pictures are encoded."""
    name_column: str | None
    """Column of a table with the names of the pictures, by which a file of regions means them. By default the paths
    beside the pictures, and the numbers of the rows, from 0, where there is none."""
    gaps: str | None
    """Pictures are frames of a video, in the order of their names: "refuse" a region that is missing between two
    frames, or "cover" its way. By default, pictures have nothing to do with each other."""

    split: str | None
    """Part of the source, where it has parts."""
    image_column: str | None
    """Column of the pictures, if there are several."""
    label_column: str | None
    """Column of the labels. By default "label"."""
    subject: str | None
    """Column that names whose picture it is, such as a patient: the price of the worst subject is stated. Where a
    source is no table, "label". By default, subjects are not counted."""
    most_per_subject: int | None
    """Pictures that are released of a subject, at most: the first ones of the source. By default all."""
    drop_labels: bool
    """Whether labels are left out. By default they are released as they are."""
    engine: str
    """"local" (the default) or "ray"."""
    workers: int | None
    """Number of processes, each with the model. By default the cores, or one on a GPU."""
    address: str | None
    """Address of a Ray cluster that is running."""
    shard_size: int
    """Images of a shard. By default 1024."""
    strict: bool
    """Whether the first bad picture ends the run. By default it is skipped."""
    overwrite: bool
    """Whether a release at the destination is replaced. The ε of both add up."""
    skip_changed: bool
    """Whether an interrupted run is finished without the pictures that have changed since it began."""


@takes(PrivatizeOptions)
def privatize(src: str | Path, dst: str | Path, **options: Unpack[PrivatizeOptions]) -> Summary:
    """Release every picture of a dataset once, as the command `dipp privatize` does.

    A run that was interrupted goes on when it is called again with the same arguments. Warnings go to the logger
    "dipp". With several workers, call it under `if __name__ == "__main__":`, since processes are spawned.

    Args:
        src: Folder of images, CIFAR-10, Parquet, tar shards, a saved dataset, or a hub id.
        dst: New folder of Parquet shards, or a .dipp file; with `regions`, a new folder of redacted pictures.
        options: The budget (`epsilon=4`) or `regions`, and other keywords, which `PrivatizeOptions`, `EncodeOptions`
            and `RedactOptions` describe.

    Returns:
        The facts of the release, and what was skipped.

    Raises:
        DippError: An argument, the source or all of its pictures cannot be used.
        LimitError: A picture would exceed the limit of the odometer; nothing was released.
    """
    made = privatized(src, dst, **options)
    for text in (*made.warnings, *made.unused):
        LOGGER.warning(text)
    return made.summary


def privatized(src: str | Path, dst: str | Path, **options: Unpack[PrivatizeOptions]) -> Privatized:
    """Release as `privatize` does, but return the warnings instead of logging them."""
    target, shard_size = Path(dst), options.get("shard_size", SHARD_SIZE)
    model, device = options.get("model", embedded.FOLDER), str(options.get("device", "auto"))
    regions = options.get("regions")
    _refuse_others(options, ENCODING if regions is not None else REDACTING, regions is not None)
    choices = Choices(
        Columns(options.get("image_column"), options.get("label_column"), options.get("split")),
        shard_size,
        options.get("drop_labels", False),
        options.get("seed"),
        Beacon.of(options.get("beacon")),
        Window.of(options.get("window")),
        options.get("subject"),
        options.get("most_per_subject"),
    )
    if not 1 <= shard_size <= MAX_ROWS:
        raise DippError("shard-size", f"1 to {MAX_ROWS} is needed, got {shard_size}")
    _refuse_file_names(target, single=regions is None)
    if not target.parent.is_dir():
        raise DippError("dst", f"the folder {target.parent} does not exist")
    if regions is not None:
        purpose = _redacting(regions, options)
        summary, papers = _carried_out(src, target, purpose, choices, options)
        dropped = (OTHERS,) if OTHERS in summary.facts["certificate"]["assumptions"] else ()
        visible = purpose.left_visible(position for position, *_ in summary.skipped)
        return Privatized(summary, papers, (*dropped, *([visible] if visible else ()), MISSED), ())
    codec = Codec.from_pretrained(model, device=device, **plan_of(options))
    place = str(Path(model).resolve()) if Path(model).is_dir() else str(model)
    summary, papers = _carried_out(src, target, runs.encoding(codec, place, choices), choices, options)
    claim = summary.facts["certificate"]
    warnings = advice.release_warnings(claim, summary.facts["pixels"], summary.facts["images"])
    found = None if claim is None else Certificate.from_json(json.dumps(claim))
    unused = why_unused(codec.budget, found, codec.bound, options.get("final_timestep"))
    return Privatized(summary, papers, warnings, unused)


def _carried_out(
    src: str | Path, target: Path, purpose: Purpose, choices: Choices, options: PrivatizeOptions
) -> tuple[Summary, tuple[Path, ...]]:
    """Carry out a run and write its papers; return what was released, and the papers."""
    device = str(options.get("device", "auto"))
    runner = engines.engine(options.get("engine", "local"), options.get("workers"), options.get("address"), device)
    bar = Bar(console()) if options.get("progress", True) else None
    conduct = Conduct(
        options.get("strict", False),
        options.get("overwrite", False),
        options.get("skip_changed", False),
        Meter.of(options.get("odometer", True), options.get("delta"), object_size(options.get("hide"))),
        bar or QUIET,
    )
    with contextlib.nullcontext() if bar is None else bar.bar:
        summary = runs.carry_out(str(src), target.resolve(), purpose, runner, choices, conduct)
    if bar is not None:
        bar.finished(summary)
    if not summary.facts["images"]:
        _remove_nothing(target)
        raise DippError(
            "src",
            f"none of its pictures can be used, the first because: {summary.skipped[0][1]}",
            "nothing was released",
        )
    papers = writing.write(target, Words(), overwrite=True)  # those of an earlier release at this place are replaced
    return summary, tuple(papers)


def _redacting(regions: str | Path, options: PrivatizeOptions) -> Redacting:
    """Return the purpose of a run that redacts."""
    from dipp.data.redacting import Redacting
    from dipp.redaction.redact import Redactor

    wanted = {name: value for name, value in options.items() if name in RedactOptions.__annotations__}
    redactor = Redactor.of(**cast(RedactOptions, wanted))
    return Redacting(
        redactor, regions, options.get("gaps"), options.get("name_column"), options.get("drop_labels", False)
    )


def _refuse_others(options: PrivatizeOptions, names: dict[str, Any], redacts: bool) -> None:
    """Raise for options that go with the other purpose of a run."""
    wrong = [name for name, default in names.items() if options.get(name, default) != default]
    if wrong:
        option = wrong[0].replace("_", "-")
        advice = "goes without --regions: redacted pictures have no ε of pixels" if redacts else "goes with --regions"
        raise DippError(option, f"it {advice}", "leave it out")


def _refuse_file_names(dst: Path, *, single: bool) -> None:
    """Raise for a new folder with the name of a file; `single` says whether one .dipp file may be made."""
    if not single and dst.suffix == ".dipp":
        raise DippError("dst", f"redacted pictures go into a new folder, got {dst.name}")
    kind = mimetypes.guess_type(f"a{dst.suffix}")[0] or ""
    if not dst.is_dir() and (str(dst) == "-" or dst.suffix.lower() in TABLES or kind.startswith("image/")):
        raise DippError("dst", f"a new folder of shards, or a name in .dipp, is needed, got {dst.name}")


def _remove_nothing(dst: Path) -> None:
    """Remove a release of no picture: it would pass for one, and stand in the way of the next."""
    with contextlib.suppress(OSError):
        if dst.is_file():
            dst.unlink()
        else:
            Store(dst).overwrite()
            dst.rmdir()
