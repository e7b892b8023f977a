"""What `dipp privatize` and `dipp info DST` show: one bar, a table of what was skipped, a few lines or JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from dipp.commands import make_codec
from dipp.data import engines, release
from dipp.data import privatize as runs
from dipp.data.privatize import Choices, Summary, Watcher
from dipp.data.sources import Columns
from dipp.data.store import RELEASED_TWICE, read_manifest
from dipp.data.worker import Outcome
from dipp.errors import DippError
from dipp.privacy.certificate import UNIT

EXIT_SKIPPED = 3
TABLE_ROWS = 20


class Bar(Watcher):
    """Images, images/s, bits per pixel so far, time left; on a terminal only."""

    def __init__(self, console: Console) -> None:
        columns = (BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn())
        self.bar = Progress(*columns, console=console, disable=not console.is_terminal)
        self._bits = self._pixels = self._ahead = 0

    def overwriting(self) -> None:
        """Say what it costs."""
        self.bar.console.print(f"overwriting: {RELEASED_TWICE}, for whoever saw both", highlight=False, soft_wrap=True)

    def start(self, images: int, published: int) -> None:
        """Show the bar, from where an interrupted run stopped."""
        if published:
            self.bar.console.print(
                f"going on: {published} of {images} pictures were dealt with before", highlight=False, soft_wrap=True
            )
        self._task = self.bar.add_task("", total=images, completed=published, bpp=None)

    def encoded(self, images: int) -> None:
        """Move on before the shard is out."""
        self._ahead += images
        self.bar.advance(self._task, images)

    def released(self, outcome: Outcome) -> None:
        """Count exactly what was published."""
        self._bits, self._pixels = self._bits + outcome.payload_bits, self._pixels + outcome.pixels
        counted = min(outcome.images, self._ahead)
        self._ahead -= counted
        self.bar.advance(self._task, outcome.images + outcome.skipped - counted)
        self.bar.update(self._task, bpp=self._bits / self._pixels if self._pixels else None)


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        """Images a second, and bits a pixel."""
        speed = task.finished_speed or task.speed
        rate = "" if speed is None else f"{speed:.1f} images/s"
        bpp = task.fields["bpp"]
        return Text(rate if bpp is None else f"{rate}, {bpp:.4f} bpp")


def privatize(
    source: str,
    destination: Path,
    model: str,
    options: dict[str, Any],
    engine: str,
    workers: int | None,
    address: str | None,
    shard_size: int,
    columns: Columns,
    seed: str | None,
    *,
    drop_labels: bool,
    strict: bool,
    overwrite: bool,
    as_json: bool,
) -> int:
    """Run, and tell; the exit code says whether pictures were skipped."""
    choices = Choices(columns, shard_size, drop_labels, _public_seed(seed))
    if shard_size < 1:
        raise DippError(f"shard-size: at least 1 is needed, got {shard_size}")
    runner = _engine(engine, workers, address, str(options["device"]))
    if not destination.parent.is_dir():
        raise DippError(f"dst: the folder {destination.parent} does not exist")
    console = Console(stderr=True)
    codec = make_codec(model, **options)
    place = str(Path(model).resolve()) if Path(model).is_dir() else model
    bar = Bar(console)
    try:
        with bar.bar:
            summary = runs.privatize(
                source,
                destination.resolve(),
                codec,
                place,
                runner,
                choices,
                strict=strict,
                overwrite=overwrite,
                watcher=bar,
            )
    except KeyboardInterrupt:
        said = "dipp: interrupted; what was published is safe, run the same command again to go on"
        console.print(said, highlight=False, soft_wrap=True)
        return 130
    if summary.skipped:
        console.print(_table(summary))
    print(json.dumps(_json(summary)) if as_json else _text(summary, destination))
    return EXIT_SKIPPED if summary.skipped else 0


def _public_seed(text: str | None) -> bytes | None:
    try:
        seed = None if text is None else bytes.fromhex(text)
    except ValueError:
        seed = b""
    if seed is not None and len(seed) != 16:
        raise DippError("seed: 32 hex digits are needed")
    return seed


def _engine(name: str, workers: int | None, address: str | None, device: str) -> engines.Engine:
    if workers is not None and workers < 1:
        raise DippError(f"workers: at least 1 is needed, got {workers}")
    if name == "ray":
        return engines.Ray(workers, address)
    if name != "local":
        raise DippError(f"engine: local or ray is needed, got {name}")
    if address is not None:
        raise DippError("address: a cluster goes with --engine ray")
    if device.startswith("cuda"):
        if workers not in (None, 1):
            raise DippError("workers: one is needed for a GPU; several GPUs go with --engine ray")
        return engines.Local(1)
    return engines.Local(workers or engines.cores())


def _table(summary: Summary) -> Table:
    table = Table(title=f"{len(summary.skipped)} skipped (names are shown here only)")
    for heading in ("position", "reason", "name"):
        table.add_column(heading)
    for position, reason, name in summary.skipped[:TABLE_ROWS]:
        table.add_row(str(position), Text(reason), Text(name))
    if len(summary.skipped) > TABLE_ROWS:
        table.add_row("…", f"and {len(summary.skipped) - TABLE_ROWS} more", "")
    return table


def _json(summary: Summary) -> dict[str, Any]:
    return {
        **summary.facts,
        "skipped": [{"position": position, "reason": reason} for position, reason, _ in summary.skipped],
        "encoded_now": summary.encoded,
        "seconds": summary.seconds,
        "images_per_second": summary.encoded / summary.seconds,
    }


def _text(summary: Summary, destination: Path) -> str:
    return "\n".join(
        (
            *_lines(summary.facts),
            f"not hidden   {release.not_hidden(summary.facts.get('labels') is not None)}",
            f"speed        {summary.encoded / summary.seconds:.1f} images/s in this run",
            f"written to   {destination}",
        )
    )


def _lines(facts: dict[str, Any]) -> list[str]:
    claim = facts["certificate"]
    promise = "none: this mechanism is not differentially private"
    if claim is not None:
        promise = f"ε = {claim['epsilon']:.6g} pure, ρ = {claim['rho']:.6g} zCDP, per {UNIT}"
    rate = "none"
    if facts["payload_bpp"] is not None:
        rate = f"{facts['payload_bpp']:.4f} bits per pixel of payload, {facts['file_bpp']:.4f} of file"
    return [f"certificate  {promise}", f"rate         {rate}", f"images       {facts['images']}"]


def info(folder: Path, *, as_json: bool, verify: bool) -> str:
    """What a release says of itself; with `verify`, after every shard was checked."""
    facts = release.verify(folder) if verify else read_manifest(folder)
    if as_json:
        return json.dumps({**facts, "verified": verify})
    try:
        shards, skipped, labels = len(facts["shards"]), len(facts["skipped"]), facts["labels"]
        lines = [
            *_lines(facts),
            f"shards       {shards}{', each verified' if verify else ''}",
            f"skipped      {skipped}",
            f"labels       {'none' if labels is None else 'released as they are'}",
            f"not hidden   {facts['not_hidden']}",
            f"model        {facts['model']}",
        ]
    except (KeyError, TypeError, ValueError):
        raise DippError(f"{folder}: its manifest is damaged; get it again") from None
    return "\n".join(lines)
