"""The formats of sources, in the order in which they are tried on a path or hub id.

To add a format, write a module with a `Source` and a function that recognises it, and add the function here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dipp.data import cifar_source, hub, listing, saved, tables, tars
from dipp.data.sources import Columns, Source

Recognise = Callable[[str, Columns, Path], Source | None]
"""A function that opens the source at a path or hub id, with a folder for its listing. It returns None for another
format."""

RECOGNISERS: tuple[Recognise, ...] = (
    saved.saved_folder,
    cifar_source.cifar_folder,
    tables.parquet_files,
    tars.tar_files,
    listing.picture_folder,
    hub.hub_dataset,
)
"""The functions of all formats. Those that would accept any folder or any name come last."""
