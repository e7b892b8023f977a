"""The formats of sources, in the order in which a place is compared with them.

To add a format is to write a module with a `Source` and a function that recognises it, and to name that function here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dipp.data import listing, saved, sources, tables
from dipp.data.sources import Columns, Source

Recognise = Callable[[str, Columns, Path], Source | None]
"""Opens what is at a path or hub id, with a folder for listings; None, if it is of another format."""

FORMATS: tuple[Recognise, ...] = (
    saved.saved_folder,
    sources.cifar_folder,
    tables.parquet_files,
    listing.tar_files,
    listing.picture_folder,
    tables.hub_dataset,
)
"""Those that any folder would pass for, and any name, come last."""
