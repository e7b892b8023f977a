"""`dipp.privatize`: release a dataset with its papers in one call.

The command `dipp privatize` parses its options, calls `privatized` and prints the result.
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
from dipp.papers.guarantee import OwnerDetails
from dipp.privacy import advice
from dipp.privacy.budget import why_unused
from dipp.privacy.certificate import Certificate
from dipp.redaction.redact import MISSED, RedactOptions
from dipp.redaction.sources import OTHERS

if TYPE_CHECKING:
    from dipp.data.redacting import RedactionPurpose

LOGGER = logging.getLogger("dipp")
TABLES = (".parquet", ".tar", ".zip", ".npz", ".npy", ".json")
"""Suffixes of files with many pictures, which a run can read and never writes."""


class DatasetRelease(NamedTuple):
    """The result of `privatized`: what was released, its papers, and warnings about it."""

    summary: Summary
    papers: tuple[Path, ...]
    """Files that describe the release: a dataset card, and for encoded pictures metadata and a registry entry."""
    warnings: tuple[str, ...]
    """Warnings about its certificate, as `dipp info` prints them."""
    unused: tuple[str, ...]
    """The reason why the plan uses far less than the budget, if it does."""


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
"""Defaults of the options that only a run of one purpose takes: `ENCODING` or `REDACTING` pictures."""


class PrivatizeOptions(EncodeOptions, RedactOptions, total=False):
    """Keyword arguments of `privatize`, beside those of `EncodeOptions` and `RedactOptions`."""

    regions: str | Path | None
    """A file or a folder of files that declares regions, or "column:NAME" for a column of a table.

    The regions are hidden, and redacted pictures are released. By default, pictures are encoded."""
    name_column: str | None
    """Column of a table with the names by which a file of regions refers to pictures.

    By default the paths beside the pictures, or without paths the numbers of the rows from 0."""
    gaps: str | None
    """For frames of a video, in the order of their names: what to do if a region is missing in frames between others.

    "refuse" raises an error, "cover" hides the region there too. By default, pictures are independent."""

    split: str | None
    """Part of the source to read, such as "train", if it has parts."""
    image_column: str | None
    """Column of the pictures, if a table has several."""
    label_column: str | None
    """Column of the labels. By default "label"."""
    subject: str | None
    """Column that names the subject of a picture, such as a patient; "label" if the source is not a table.

    The price of the worst subject is stated. By default, subjects are not counted."""
    most_per_subject: int | None
    """Largest number of pictures of a subject that are released: the first ones of the source. By default all."""
    drop_labels: bool
    """Whether labels are left out. By default they are released unchanged."""
    engine: str
    """"local" (the default) or "ray"."""
    workers: int | None
    """Number of processes, each with the model. By default the cores, or one on a GPU."""
    address: str | None
    """Address of a running Ray cluster."""
    shard_size: int
    """Number of images in a shard. By default 1024."""
    strict: bool
    """Whether the first bad picture ends the run. By default it is skipped."""
    overwrite: bool
    """Whether a release at the destination is replaced. The ε of the old and the new one add up."""
    skip_changed: bool
    """Whether an interrupted run is finished without the pictures that have changed since it began."""


@takes(PrivatizeOptions)
def privatize(src: str | Path, dst: str | Path, **options: Unpack[PrivatizeOptions]) -> Summary:
    """Release every picture of a dataset once, as the command `dipp privatize` does.

    An interrupted run continues if you call it again with the same arguments. Warnings go to the logger "dipp". With
    several workers, call it under `if __name__ == "__main__":`, since processes are spawned.

    Args:
        src: Folder of images, CIFAR-10, Parquet, tar shards, a saved dataset, or a hub id.
        dst: New folder of Parquet shards, or a .dipp file; with `regions`, a new folder of redacted pictures.
        options: The budget (`epsilon=4`) or `regions`, and other keywords, which `PrivatizeOptions`, `EncodeOptions`
            and `RedactOptions` describe.

    Returns:
        The facts of the release, and the pictures that were skipped.

    Raises:
        DippError: An argument is invalid, or the source or all of its pictures cannot be read.
        LimitError: A picture would exceed the limit of the odometer; nothing was released.

    Example::

        summary = dipp.privatize("pictures", "released", epsilon=4)
    """
    result = privatized(src, dst, **options)
    for text in (*result.warnings, *result.unused):
        LOGGER.warning(text)
    return result.summary


def privatized(src: str | Path, dst: str | Path, **options: Unpack[PrivatizeOptions]) -> DatasetRelease:
    """Release a dataset as `privatize` does, but return the warnings instead of logging them.

    Args:
        src: Path or hub id of the source.
        dst: Path of the release.
        options: Options of `privatize`.

    Returns:
        The release, its papers and its warnings.

    Raises:
        DippError: An argument is invalid, or the source or all of its pictures cannot be read.
    """
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
        raise DippError("shard-size", f"must be from 1 to {MAX_ROWS}, got {shard_size}")
    _refuse_file_names(target, single=regions is None)
    if not target.parent.is_dir():
        raise DippError("dst", f"lies in the folder {target.parent}, which does not exist", "make that folder first")
    if regions is not None:
        purpose = _redacting(regions, options)
        summary, papers = _carried_out(src, target, purpose, choices, options)
        dropped = (OTHERS,) if OTHERS in summary.facts["certificate"]["assumptions"] else ()
        visible = purpose.left_visible(position for position, *_ in summary.skipped)
        return DatasetRelease(summary, papers, (*dropped, *([visible] if visible else ()), MISSED), ())
    codec = Codec.from_pretrained(model, device=device, **plan_of(options))
    named = str(Path(model).resolve()) if Path(model).is_dir() else str(model)
    summary, papers = _carried_out(src, target, runs.encoding(codec, named, choices), choices, options)
    claim = summary.facts["certificate"]
    warnings = advice.release_warnings(claim, summary.facts["pixels"], summary.facts["images"])
    certificate = None if claim is None else Certificate.from_json(json.dumps(claim))
    unused = why_unused(codec.budget, certificate, codec.bound, options.get("final_timestep"))
    return DatasetRelease(summary, papers, warnings, unused)


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
        _remove_empty(target)
        _, reason, name = summary.skipped[0]
        raise DippError("src", f"has no picture that can be used: {name} {reason}", "nothing was released")
    # Papers of an earlier release at this path are replaced.
    papers = writing.write(target, OwnerDetails(), overwrite=True)
    return summary, tuple(papers)


def _redacting(regions: str | Path, options: PrivatizeOptions) -> RedactionPurpose:
    """Return the purpose of a run that redacts."""
    from dipp.data.redacting import RedactionPurpose
    from dipp.redaction.redact import Redactor

    chosen = {name: value for name, value in options.items() if name in RedactOptions.__annotations__}
    redactor = Redactor.of(**cast(RedactOptions, chosen))
    return RedactionPurpose(
        redactor, regions, options.get("gaps"), options.get("name_column"), options.get("drop_labels", False)
    )


def _refuse_others(options: PrivatizeOptions, names: dict[str, Any], redacts: bool) -> None:
    """Raise if an option belongs to the other purpose of a run.

    Args:
        options: The options of the run.
        names: The defaults of the options of the other purpose.
        redacts: Whether the run redacts pictures.
    """
    wrong = [name for name, default in names.items() if options.get(name, default) != default]
    if wrong:
        option = wrong[0].replace("_", "-")
        reason = "cannot be given with --regions: redacted pictures have no ε" if redacts else "needs --regions"
        raise DippError(option, reason, "leave it out")


def _refuse_file_names(dst: Path, *, single: bool) -> None:
    """Raise if a new folder would have the name of a file; `single` says whether a .dipp file may be written."""
    if not single and dst.suffix == ".dipp":
        raise DippError("dst", f"must be a new folder for redacted pictures, got {dst.name}")
    kind = mimetypes.guess_type(f"a{dst.suffix}")[0] or ""
    if not dst.is_dir() and (str(dst) == "-" or dst.suffix.lower() in TABLES or kind.startswith("image/")):
        raise DippError("dst", f"must be a new folder of shards, or a name in .dipp, got {dst.name}")


def _remove_empty(dst: Path) -> None:
    """Remove a release without pictures, which would look like a real one and block the next run."""
    with contextlib.suppress(OSError):
        if dst.is_file():
            dst.unlink()
        else:
            Store(dst).overwrite()
            dst.rmdir()
