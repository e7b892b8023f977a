"""What a run is asked for, how it is carried out and watched, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dipp.core.beacon import Beacon
from dipp.core.window import Window
from dipp.data.contents import Contents
from dipp.data.sources import Columns
from dipp.errors import DippError
from dipp.odometer import Meter

SHARD_SIZE = 1024
"""Images in a shard, by default: the 3 KB of a Parquet file's own data are then a few bytes an image."""


@dataclass(frozen=True)
class Choices:
    """Choices that, like the source and the plan, must be the same when a run is resumed."""

    columns: Columns = field(default_factory=Columns)
    shard_size: int = SHARD_SIZE
    """Positions of the source in each shard."""
    drop_labels: bool = False
    seed: bytes | None = None
    """Public seed, for tests only; None draws a fresh one. With a beacon, the sender's own part of it."""
    beacon: Beacon | None = None
    """Public beacon that is mixed into the seed; None for none."""
    window: Window | None = None
    """Which values of pictures of more than eight bits become black and white; None skips such pictures."""
    subject: str | None = None
    """Column that names the subject of a picture; None if subjects are not counted."""
    most_per_subject: int | None = None
    """Pictures that are released of a subject, at most; None for all."""

    def __post_init__(self) -> None:
        most = self.most_per_subject
        if most is not None and self.subject is None:
            raise DippError("most-per-subject", "it goes with --subject", "name the column of the subjects")
        if most is not None and (type(most) is not int or most < 1):
            raise DippError("most-per-subject", f"a whole number from 1 is needed, got {most}")


@dataclass(frozen=True)
class Summary:
    """The result of a run."""

    facts: dict[str, Any]
    """Facts about the release, as `dipp info --json` gives them."""
    skipped: tuple[tuple[int, str, str], ...]
    """Position, reason and name of each skipped picture; names are for the terminal only."""
    encoded: int
    """Images that this run made, without those that were published before."""
    seconds: float
    """Duration of this run."""
    labels_left_out: bool = False
    """Whether the source has labels that were not asked to be dropped, and a single file has no place for them."""


class Watcher:
    """Receives how a run goes. This class ignores it; subclasses show it."""

    def overwriting(self) -> None:
        """A release, or an unfinished run, is about to be removed."""

    def surveying(self, images: int) -> None:
        """This number of pictures is about to be read, before the first is released."""

    def start(self, images: int, published: int) -> None:
        """The run starts: the number of pictures, and of those in shards that were published before."""

    def encoded(self, images: float) -> None:
        """About this number of images were made since the last call, whole or in parts."""

    def released(self, contents: Contents) -> None:
        """A shard was published."""

    def finished(self, summary: Summary) -> None:
        """The run is over."""


QUIET = Watcher()


@dataclass(frozen=True)
class Conduct:
    """How a run is carried out. It may be another when a run is resumed."""

    strict: bool = False
    """Whether a bad picture ends the run before anything is charged; otherwise bad pictures are skipped."""
    overwrite: bool = False
    """Whether a finished release, or a run of another command, is replaced."""
    skip_changed: bool = False
    """Whether the run is finished without the pictures that have changed since it began; otherwise these end it."""
    meter: Meter | None = None
    """The odometer that every picture is charged to before the first is released; None counts nothing."""
    watcher: Watcher = QUIET


DEFAULT = Conduct()
