"""Public pictures for training and calibration: folders, tar files, CIFAR-10, Parquet and NumPy files.

A picture of the wanted size is taken as it is. A larger picture gives up to `TILES` tiles of that size, evenly spread
and at full resolution, because the codec's network sees large pictures through windows. Pictures that are smaller or
cannot be read are counted and skipped. Pictures follow the order of their names, which is the same on every machine.

Networks for pictures of any size are calibrated on scenes: squares from the middle of photographs that were scaled down
first. So a square of 32×32 shows a whole scene, as the pictures of small datasets do.
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
"""Largest number of tiles from one picture."""


@dataclass(frozen=True)
class Scene:
    """The size of scenes: squares of `side` pixels from photographs whose shorter side is scaled down to `shorter`."""

    side: int
    shorter: int


SCENES = (Scene(32, 32), Scene(128, 384))
"""The scenes on which networks for pictures of any size are calibrated. `fitting` selects among them."""
LOOKED_AT = 64
"""Number of pictures by which the usual size of a source's pictures is estimated."""
SMALLER = 0.25
"""Share of these pictures that may be smaller than the usual size."""


@dataclass(frozen=True, eq=False)
class PublicPictures:
    """Pictures of one size, and the number of files that were skipped."""

    pixels: Pixels
    """Pictures and tiles (N, size, size, C)."""
    skipped: int
    """Number of files or rows that could not be read or were too small."""


def load(
    data: Path, size: int, limit: int | None = None, channels: int = 3, window: Window | None = None
) -> PublicPictures:
    """Load square pictures and tiles of one size.

    Args:
        data: Folder, or .tar, .parquet, .npy or .npz file.
        size: Height and width of the tiles, in pixels.
        limit: Largest number of tiles. None loads all.
        channels: 3 for colour, 1 for luminance.
        window: Values that become black and white in pictures of more than eight bits. None skips such pictures.

    Raises:
        DippError: No picture is large enough, or the source cannot be read.
    """
    tiles: list[Pixels] = []
    skipped = 0
    for picture in _each(data, channels, window):
        if picture is None or min(picture.shape[:2]) < size:
            skipped += 1
        else:
            tiles.extend(_tiles(picture, size))
        if limit is not None and len(tiles) >= limit:
            break
    if not tiles:
        raise DippError(
            "data", f"must hold a picture of at least {size}×{size}, but {data} has none ({skipped} skipped)"
        )
    return PublicPictures(np.stack(tiles[:limit]), skipped)


def usual_side(data: Path, most: int, window: Window | None = None) -> int:
    """Return a side in pixels that the shorter sides of three quarters of the pictures reach, at most `most`.

    The first `LOOKED_AT` readable pictures decide. Without any, the answer is `most`.

    Args:
        data: Path of the source.
        most: The largest answer.
        window: Values that become black and white, for pictures of more than eight bits.
    """
    readable = (picture for picture in _each(data, 3, window) if picture is not None)
    sides = sorted(min(picture.shape[:2]) for picture in itertools.islice(readable, LOOKED_AT))
    return min(most, sides[int(SMALLER * len(sides))]) if sides else most


def fitting(data: Path, window: Window | None = None) -> tuple[Scene, ...]:
    """Return the kinds of `SCENES` for which the pictures of a source are large enough.

    If the pictures are too small for all kinds, return squares as large as the pictures.

    Args:
        data: Path of the source.
        window: Values that become black and white, for pictures of more than eight bits.
    """
    side = usual_side(data, max(kind.side for kind in SCENES), window)
    return tuple(kind for kind in SCENES if kind.side <= side) or (Scene(side, side),)


def scenes(data: Path, kinds: Sequence[Scene], limit: int, window: Window | None = None) -> tuple[list[Pixels], int]:
    """Cut scenes of several kinds from public pictures.

    Args:
        data: Folder, or .tar, .parquet, .npy or .npz file.
        kinds: The kinds of scenes, the smallest first.
        limit: Largest number of scenes of the first kind. Larger kinds have fewer scenes, evenly spread over the
            pictures, so that all kinds have about as many pixels.
        window: Values that become black and white in pictures of more than eight bits. None skips such pictures.

    Returns:
        For each kind a uint8 array (N, side, side, 3), and the number of pictures that were skipped.

    Raises:
        DippError: No picture is large enough for all kinds, or the source cannot be read.
    """
    by_kind: list[list[Pixels]] = [[] for _ in kinds]
    skipped = 0
    for picture in _each(data, 3, window):
        if picture is None or min(picture.shape[:2]) < max(kind.side for kind in kinds):
            skipped += 1
            continue
        for squares, kind in zip(by_kind, kinds, strict=True):
            squares.append(_scene(picture, kind))
        if len(by_kind[0]) == limit:
            break
    count = len(by_kind[0])
    if not count:
        largest = max(kind.side for kind in kinds)
        raise DippError(
            "data", f"must hold a picture of at least {largest}×{largest}, but {data} has none ({skipped} skipped)"
        )
    shares = [max(1, count * kinds[0].side ** 2 // kind.side**2) for kind in kinds]
    picked = [np.linspace(0, count - 1, share).round().astype(int) for share in shares]
    return [np.stack([squares[i] for i in chosen]) for squares, chosen in zip(by_kind, picked, strict=True)], skipped


def _scene(picture: Pixels, kind: Scene) -> Pixels:
    height, width = picture.shape[:2]
    scale = min(1.0, max(kind.shorter, kind.side) / min(height, width))
    size = max(kind.side, round(width * scale)), max(kind.side, round(height * scale))
    scaled = np.asarray(Image.fromarray(picture).resize(size, Image.Resampling.LANCZOS))
    top, left = ((side - kind.side) // 2 for side in scaled.shape[:2])
    return scaled[top : top + kind.side, left : left + kind.side]


def _each(data: Path, channels: int, window: Window | None) -> Iterator[Pixels | None]:
    """Yield the pixels of each picture at a path in order, and None for each that cannot be read."""
    return (picture(source, channels, window) for source in sources(data))


def sources(data: Path) -> Iterator[Source]:
    """Yield the stored pictures of a source in order. `picture` decodes them.

    Raises:
        DippError: The source is neither a folder nor a file of a known format, or is damaged.
    """
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
    """Return the uint8 pixels (H, W, C) of a stored picture, or None if it cannot be read.

    Args:
        source: The stored picture.
        channels: Number of channels; 3 by default.
        window: Values that become black and white, for pictures of more than eight bits.
    """
    if source is None:
        return None
    try:
        if isinstance(source, np.ndarray):
            return pictures.of_colour(source, channels).pixels
        return pictures.read(source, channels, window)
    except DippError:
        return None


def _tar(path: Path) -> Iterator[bytes]:
    """Yield the contents of the files in a tar file, in the order of their names."""
    try:
        with tarfile.open(path) as tar:
            for member in sorted(tar.getmembers(), key=lambda member: member.name):
                if content := tar.extractfile(member) if member.isfile() else None:
                    yield content.read()
    except (tarfile.TarError, EOFError):
        raise DippError("data", f"must be a whole tar file, but {path.name} cannot be read", "get it again") from None


def _numpy(path: Path) -> Iterator[Pixels]:
    """Yield the pictures of a uint8 array (N, H, W, 1 or 3): that of a .npy file, or `images` of a .npz file."""
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
    """Yield the pictures in a Parquet file's image column, whose values are bytes or structs {bytes, path}."""
    from dipp.data.sources import Columns
    from dipp.data.tables import Tables

    try:
        table = Tables.open([path], Columns(labelled=False))
    except DippError as error:
        raise error.renamed("src", "data") from None
    for record in table.read(0, len(table)):
        yield record.content if isinstance(record.content, bytes) else None


def _tiles(picture: Pixels, size: int) -> list[Pixels]:
    """Return square tiles of a picture, on an even grid of at most √TILES × √TILES. They overlap in a small picture."""
    rows, columns = (_starts(side, size) for side in picture.shape[:2])
    return [picture[top : top + size, left : left + size] for top in rows for left in columns]


def _starts(side: int, size: int) -> list[int]:
    """Return where tiles of `size` pixels start along a side of a picture, in pixels."""
    count = min(-(-side // size), round(TILES**0.5))
    return sorted({round(start) for start in np.linspace(0, side - size, count)})
