"""`Purpose`: what a run releases of each picture. `encoding` releases indices, `redacting` redacted pictures."""

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
    """What a run releases of each picture, as the process sees it that begins and ends the run."""

    suffix: ClassVar[str]
    """Ending of the names of shards."""
    surveys: ClassVar[bool]
    """Whether every picture is decoded before the first is released, even if nothing is counted."""

    @property
    @abstractmethod
    def device(self) -> str:
        """Device of the workers, such as cpu."""

    @abstractmethod
    def begun(self, source: Source, scratch: Path) -> dict[str, Any]:
        """Return what the record of a run keeps of its purpose, as JSON has it. No picture is read.

        Args:
            source: The source of the run.
            scratch: Folder for files that workers need.
        """

    @abstractmethod
    def same(self, begun: dict[str, Any], wanted: dict[str, Any]) -> dict[str, bool]:
        """Return for each choice of a run that was begun whether this purpose makes the same one.

        Args:
            begun: What the record of the run says.
            wanted: What `begun` has returned for this call.
        """

    @abstractmethod
    def task(self, begun: dict[str, Any]) -> Task:
        """Return what workers do in a run that was begun."""

    @abstractmethod
    def worker(self, job: Job) -> Worker[Any]:
        """Return a worker of this process."""

    @abstractmethod
    def charge(self, meter: Meter, seen: SeenPicture[Any], name: str) -> Charge:
        """Return the row of the odometer for a picture that will be released."""

    @abstractmethod
    def surveyed(self) -> None:
        """Log what there is to say when all pictures were charged."""

    @abstractmethod
    def manifest(self, job: Job, contents: Iterable[Contents]) -> dict[str, Any]:
        """Return the manifest of the published shards; `contents` are those of this run."""
