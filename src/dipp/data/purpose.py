"""`Purpose`: what a run makes of each picture. `encoding` makes indices, `redacting` makes redacted pictures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

from dipp.data.contents import Contents
from dipp.data.sources import Source
from dipp.data.worker import Job, SeenPicture, Task, Worker
from dipp.odometer import Charge, Meter


class Purpose(ABC):
    """What a run makes of each picture, for the process that begins and ends the run."""

    suffix: ClassVar[str]
    """Ending of the names of shards."""
    surveys: ClassVar[bool]
    """Whether every picture is decoded before the first is released, even if no odometer counts it."""

    @property
    @abstractmethod
    def device(self) -> str:
        """Device of the workers, such as cpu."""

    @abstractmethod
    def begun(self, source: Source, scratch: Path) -> dict[str, Any]:
        """Return the options of this purpose for the record of a run, as JSON values. No picture is read.

        Args:
            source: The source of the run.
            scratch: Folder for files that workers need.
        """

    @abstractmethod
    def same(self, begun: dict[str, Any], wanted: dict[str, Any]) -> dict[str, bool]:
        """Return, for each choice of a recorded run, whether this purpose makes the same choice.

        Args:
            begun: The options in the record of the run.
            wanted: What `begun` returned for this call.
        """

    @abstractmethod
    def task(self, begun: dict[str, Any]) -> Task:
        """Return what the workers of a recorded run make of each picture.

        Args:
            begun: The options in the record of the run.
        """

    @abstractmethod
    def worker(self, job: Job) -> Worker[Any]:
        """Return a worker of this process.

        Args:
            job: The job of the run.
        """

    @abstractmethod
    def charge(self, meter: Meter, surveyed: SeenPicture[Any], name: str) -> Charge:
        """Return the row of the odometer for a picture that will be released.

        Args:
            meter: The odometer.
            surveyed: The picture, as a worker has read it.
            name: Name of the picture, which the odometer lists.
        """

    @abstractmethod
    def surveyed(self) -> None:
        """Log what the user should know when all pictures are charged."""

    @abstractmethod
    def manifest(self, job: Job, contents: Iterable[Contents]) -> dict[str, Any]:
        """Return the manifest of the published shards.

        Args:
            job: The job of the run.
            contents: Contents of the shards that this run published.
        """
