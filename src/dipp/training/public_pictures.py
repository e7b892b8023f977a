"""Public pictures for training and calibration: folders, CIFAR-10, Parquet and NumPy files, as one uint8 array.

A picture of the wanted size is taken as it is. A larger one gives up to `TILES` tiles of that size, evenly spread and
at its own resolution, because the codec's network sees large pictures through windows. Pictures that are smaller or
cannot be read are counted and skipped. The order is that of the names, the same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dipp.codec import pictures
from dipp.codec.pictures import Pixels
from dipp.data import cifar
from dipp.errors import DippError

TILES = 16
"""Tiles from one picture, at most."""


@dataclass(frozen=True, eq=False)
class PublicPictures:
    """Pictures of one size, and how many were skipped."""

    pixels: Pixels
    """Pictures and tiles (N, size, size, 3)."""
    skipped: int
    """Number of files or rows that could not be read or were too small."""


def load(data: Path, size: int, limit: int | None = None) -> PublicPictures:
    """Load pictures and tiles of a source, at most `limit` of them (None: all)."""
    tiles: list[Pixels] = []
    skipped = 0
    for picture in _each(data):
        if picture is None or min(picture.shape[:2]) < size:
            skipped += 1
        else:
            tiles.extend(_tiles(picture, size))
        if limit is not None and len(tiles) >= limit:
            break
    if not tiles:
        raise DippError(f"data: {data} holds no picture of at least {size}×{size}; {skipped} were skipped")
    return PublicPictures(np.stack(tiles[:limit]), skipped)


def _each(data: Path) -> Iterator[Pixels | None]:
    """Every picture of a source in order, or None for one that cannot be read."""
    if data.suffix in (".npy", ".npz"):
        yield from _numpy(data)
    elif data.suffix == ".parquet":
        yield from _parquet(data)
    elif not data.is_dir():
        raise DippError(f"data: {data} is neither a folder nor a .parquet, .npy or .npz file")
    elif (data / cifar.BATCHES["train"][0]).is_file():
        for name in cifar.BATCHES["train"]:
            yield from cifar.read(data / name)[0]
    else:
        files = sorted(path for path in data.rglob("*") if path.is_file())
        tables = [path for path in files if path.suffix == ".parquet"]
        for path in tables:
            yield from _parquet(path)
        for path in files if not tables else []:
            yield _read(path)


def _read(source: Path | bytes) -> Pixels | None:
    """The pixels of a picture file; None if it cannot be read."""
    try:
        return pictures.read(source)
    except DippError:
        return None


def _numpy(path: Path) -> Iterator[Pixels]:
    """The pictures of a uint8 array (N, H, W, 3): that of a .npy file, or the one called images in a .npz file."""
    try:
        content = np.load(path, allow_pickle=False)
        images = content if isinstance(content, np.ndarray) else content["images"]
    except Exception:
        raise DippError(f"data: {path.name} cannot be read; a .npy, or a .npz with `images`, is needed") from None
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] != 3:
        raise DippError(f"data: uint8 (N, H, W, 3) is needed, got {images.dtype} of shape {images.shape}")
    yield from images


def _parquet(path: Path) -> Iterator[Pixels | None]:
    """The pictures of a Parquet file's image column: bytes or, as Hugging Face's datasets write them, {bytes, path}."""
    from dipp.data.sources import Columns
    from dipp.data.tables import Tables

    try:
        table = Tables.open([path], Columns(labelled=False))
    except DippError as error:
        raise DippError(str(error).replace("src:", "data:", 1)) from None
    for record in table.read(0, len(table)):
        yield _read(record.content) if isinstance(record.content, bytes) else None


def _tiles(picture: Pixels, size: int) -> list[Pixels]:
    """The picture itself, or tiles on an even grid of at most √TILES × √TILES, which overlap only where they must."""
    rows, columns = (_starts(side, size) for side in picture.shape[:2])
    return [picture[top : top + size, left : left + size] for top in rows for left in columns]


def _starts(side: int, size: int) -> list[int]:
    """Where the tiles along one side start, in pixels."""
    count = min(-(-side // size), round(TILES**0.5))
    return sorted({round(start) for start in np.linspace(0, side - size, count)})
