"""Public pictures for training and calibration: folders, tar files, CIFAR-10, Parquet and NumPy files.

A picture of the wanted size is taken as it is. A larger one gives up to `TILES` tiles of that size, evenly spread and
at its own resolution, because the codec's network sees large pictures through windows. Pictures that are smaller or
cannot be read are counted and skipped. The order is that of the names, the same on every machine.

For networks that know many sizes there are scenes: squares from the middle of photographs that are scaled down first,
so that a square of 32×32 is a whole picture, as in datasets of small pictures, and not a patch of sky.
"""

from __future__ import annotations

import itertools
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from dipp.codec import pictures
from dipp.codec.pictures import Pixels
from dipp.core.window import Window
from dipp.data import cifar
from dipp.errors import DippError

Source = Path | bytes | Pixels | None
"""A stored picture: a file, its content, pixels, or None for one that is missing."""
TILES = 16
"""Tiles from one picture, at most."""


@dataclass(frozen=True)
class Scene:
    """Squares of `side` pixels from photographs whose shorter side is scaled down to `shorter`."""

    side: int
    shorter: int


SCENES = (Scene(32, 32), Scene(128, 384))
"""What networks for pictures of any size are calibrated on; `fitting` has those that small pictures allow."""
LOOKED_AT = 64
"""Pictures of a source from which it is told how large its pictures are."""
SMALLER = 0.25
"""The share of these that may be smaller than what is taken for the size of all."""


@dataclass(frozen=True, eq=False)
class PublicPictures:
    """Pictures of one size, and how many were skipped."""

    pixels: Pixels
    """Pictures and tiles (N, size, size, C)."""
    skipped: int
    """Number of files or rows that could not be read or were too small."""


def load(
    data: Path, size: int, limit: int | None = None, channels: int = 3, window: Window | None = None
) -> PublicPictures:
    """Load pictures and tiles of a source, at most `limit` of them (None: all): in colour or, C = 1, their luminance.

    `window` is for pictures of more than eight bits, which are skipped without one.
    """
    tiles: list[Pixels] = []
    skipped = 0
    for found in _each(data, channels, window):
        if found is None or min(found.shape[:2]) < size:
            skipped += 1
        else:
            tiles.extend(_tiles(found, size))
        if limit is not None and len(tiles) >= limit:
            break
    if not tiles:
        raise DippError(
            "data", f"must hold a picture of at least {size}×{size}, but {data} has none ({skipped} skipped)"
        )
    return PublicPictures(np.stack(tiles[:limit]), skipped)


def usual_side(data: Path, most: int, window: Window | None = None) -> int:
    """Return the shorter side that at least three of four pictures of a source have, or `most` if that is larger.

    It is told from the first `LOOKED_AT` pictures that can be read.
    """
    readable = (found for found in _each(data, 3, window) if found is not None)
    sides = sorted(min(found.shape[:2]) for found in itertools.islice(readable, LOOKED_AT))
    return min(most, sides[int(SMALLER * len(sides))]) if sides else most


def fitting(data: Path, window: Window | None = None) -> tuple[Scene, ...]:
    """Return those of `SCENES` that the pictures of a source are large enough for.

    Of pictures that are smaller than all of them, the scenes are squares as large as the pictures.
    """
    side = usual_side(data, max(kind.side for kind in SCENES), window)
    return tuple(kind for kind in SCENES if kind.side <= side) or (Scene(side, side),)


def scenes(data: Path, kinds: Sequence[Scene], limit: int, window: Window | None = None) -> tuple[list[Pixels], int]:
    """Scenes of each kind (N, side, side, 3), and how many pictures were skipped.

    Of the first kind there are at most `limit`; of a larger one fewer, so that all have about as many pixels. Those are
    spread evenly over the pictures.
    """
    found: list[list[Pixels]] = [[] for _ in kinds]
    skipped = 0
    for one in _each(data, 3, window):
        if one is None or min(one.shape[:2]) < max(kind.side for kind in kinds):
            skipped += 1
            continue
        for squares, kind in zip(found, kinds, strict=True):
            squares.append(_scene(one, kind))
        if len(found[0]) == limit:
            break
    count = len(found[0])
    if not count:
        largest = max(kind.side for kind in kinds)
        raise DippError(
            "data", f"must hold a picture of at least {largest}×{largest}, but {data} has none ({skipped} skipped)"
        )
    shares = [max(1, count * kinds[0].side ** 2 // kind.side**2) for kind in kinds]
    picked = [np.linspace(0, count - 1, share).round().astype(int) for share in shares]
    return [np.stack([squares[i] for i in chosen]) for squares, chosen in zip(found, picked, strict=True)], skipped


def _scene(picture: Pixels, kind: Scene) -> Pixels:
    height, width = picture.shape[:2]
    scale = min(1.0, max(kind.shorter, kind.side) / min(height, width))
    size = max(kind.side, round(width * scale)), max(kind.side, round(height * scale))
    scaled = np.asarray(Image.fromarray(picture).resize(size, Image.Resampling.LANCZOS))
    top, left = ((side - kind.side) // 2 for side in scaled.shape[:2])
    return scaled[top : top + kind.side, left : left + kind.side]


def _each(data: Path, channels: int, window: Window | None) -> Iterator[Pixels | None]:
    """Every picture of a source in order, or None for one that cannot be read."""
    return (picture(source, channels, window) for source in sources(data))


def sources(data: Path) -> Iterator[Source]:
    """Every picture of a source in order, as it is stored: what `picture` reads."""
    if data.suffix in (".npy", ".npz"):
        yield from _numpy(data)
    elif data.suffix == ".parquet":
        yield from _parquet(data)
    elif data.suffix == ".tar":
        yield from _tar(data)
    elif not data.is_dir():
        raise DippError("data", f"must be a folder or a .tar, .parquet, .npy or .npz file, but {data} is neither")
    elif (data / cifar.TEN.batches["train"][0]).is_file():
        for name in cifar.TEN.batches["train"]:
            yield from cifar.read(data / name)[0]
    else:
        files = sorted(path for path in data.rglob("*") if path.is_file())
        tables = [path for path in files if path.suffix == ".parquet"]
        for path in tables:
            yield from _parquet(path)
        yield from files if not tables else []


def picture(source: Source, channels: int = 3, window: Window | None = None) -> Pixels | None:
    """The pixels of a stored picture; None if it cannot be read."""
    if source is None:
        return None
    try:
        if isinstance(source, np.ndarray):
            return pictures.of_colour(source, channels).pixels
        return pictures.read(source, channels, window)
    except DippError:
        return None


def _tar(path: Path) -> Iterator[bytes]:
    """The files in a tar file, in the order of their names."""
    try:
        with tarfile.open(path) as tar:
            for member in sorted(tar.getmembers(), key=lambda one: one.name):
                if content := tar.extractfile(member) if member.isfile() else None:
                    yield content.read()
    except (tarfile.TarError, EOFError):
        raise DippError("data", f"must be a whole tar file, but {path.name} cannot be read", "get it again") from None


def _numpy(path: Path) -> Iterator[Pixels]:
    """The pictures of a uint8 array (N, H, W, 3), or (N, H, W, 1) in grey: of a .npy file, or `images` of a .npz."""
    try:
        content = np.load(path, allow_pickle=False)
        images = content if isinstance(content, np.ndarray) else content["images"]
    except Exception:
        raise DippError(
            "data", f"cannot be read from {path.name}", "give a .npy, or a .npz with an array called images"
        ) from None
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] not in (1, 3):
        raise DippError(
            "data", f"must be uint8 of shape (N, H, W, 3) or (N, H, W, 1), got {images.dtype} of shape {images.shape}"
        )
    yield from images


def _parquet(path: Path) -> Iterator[bytes | None]:
    """The pictures of a Parquet file's image column: bytes or, as Hugging Face's datasets write them, {bytes, path}."""
    from dipp.data.sources import Columns
    from dipp.data.tables import Tables

    try:
        table = Tables.open([path], Columns(labelled=False))
    except DippError as error:
        raise error.renamed("src", "data") from None
    for record in table.read(0, len(table)):
        yield record.content if isinstance(record.content, bytes) else None


def _tiles(picture: Pixels, size: int) -> list[Pixels]:
    """The picture itself, or tiles on an even grid of at most √TILES × √TILES, which overlap only where they must."""
    rows, columns = (_starts(side, size) for side in picture.shape[:2])
    return [picture[top : top + size, left : left + size] for top in rows for left in columns]


def _starts(side: int, size: int) -> list[int]:
    """Where the tiles along one side start, in pixels."""
    count = min(-(-side // size), round(TILES**0.5))
    return sorted({round(start) for start in np.linspace(0, side - size, count)})
