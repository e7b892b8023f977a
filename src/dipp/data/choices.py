"""A run's options, the observer of its progress, and its result."""

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
"""Default number of images in a shard: the 3 KB that a Parquet file adds are then a few bytes for each image."""


@dataclass(frozen=True)
class Choices:
    """Options that, like the source and the plan, must be the same when a run is resumed."""

    columns: Columns = field(default_factory=Columns)
    """The columns of a table and the part of a dataset that are used."""
    shard_size: int = SHARD_SIZE
    """Number of positions of the source in each shard."""
    drop_labels: bool = False
    """Whether labels are left out of the release."""
    seed: bytes | None = None
    """Public seed, for tests only; None draws a fresh seed. With a beacon, the sender's own part of the seed."""
    beacon: Beacon | None = None
    """Public beacon that is mixed into the seed; None if no beacon is used."""
    window: Window | None = None
    """Which values of pictures with more than eight bits become black and white; None skips such pictures."""
    subject: str | None = None
    """Column that names the subject of a picture; None if subjects are not counted."""
    most_per_subject: int | None = None
    """Largest number of pictures that are released of a subject; None for all."""

    def __post_init__(self) -> None:
        most = self.most_per_subject
        if most is not None and self.subject is None:
            raise DippError("most-per-subject", "needs --subject", "name the column of the subjects")
        if most is not None and (type(most) is not int or most < 1):
            raise DippError("most-per-subject", f"must be a whole number from 1, got {most}")


@dataclass(frozen=True)
class Summary:
    """The result of a run."""

    facts: dict[str, Any]
    """Facts about the release, as `dipp info --json` gives them."""
    skipped: tuple[tuple[int, str, str], ...]
    """Position, reason and name of each skipped picture. Names must be shown on the terminal only."""
    encoded: int
    """Number of images that this run made, without those that were published before."""
    seconds: float
    """Duration of this run in seconds."""
    labels_left_out: bool = False
    """Whether a single file leaves out labels that the source has and that the user did not drop."""


class Watcher:
    """Is notified of the progress of a run. This class ignores it; subclasses show it."""

    def overwriting(self) -> None:
        """Called before a release, or an unfinished run, is removed."""

    def surveying(self, images: int) -> None:
        """Called before all pictures are read for the survey, which happens before the first is released.

        Args:
            images: Number of pictures.
        """

    def start(self, images: int, published: int) -> None:
        """Called when the release of pictures starts.

        Args:
            images: Number of pictures.
            published: Number of pictures in shards that were published before.
        """

    def encoded(self, images: float) -> None:
        """Called when more images have been made.

        Args:
            images: Approximate number of images made since the last call, which may be a fraction.
        """

    def released(self, contents: Contents) -> None:
        """Called when a shard was published.

        Args:
            contents: What the shard holds.
        """

    def finished(self, summary: Summary) -> None:
        """Called when the run is over.

        Args:
            summary: The result of the run.
        """


QUIET = Watcher()
"""The watcher that ignores all progress."""


@dataclass(frozen=True)
class Conduct:
    """How a run is carried out. A resumed run may change these options."""

    strict: bool = False
    """Whether a bad picture ends the run before anything is charged; otherwise bad pictures are skipped."""
    overwrite: bool = False
    """Whether a finished release, or a run of another command, is replaced."""
    skip_changed: bool = False
    """Whether pictures that have changed since the run began are skipped; otherwise the first such picture ends the
    run."""
    meter: Meter | None = None
    """The odometer to which every picture is charged before the first is released; None counts nothing."""
    watcher: Watcher = QUIET
    """Receives the progress of the run."""


DEFAULT = Conduct()
"""The default way to carry out a run."""
