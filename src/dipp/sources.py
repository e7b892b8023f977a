"""Public pictures for training and calibration: folders, CIFAR-10, Parquet and NumPy files, as one uint8 array.

A picture of the wanted size is taken as it is. A larger one gives up to `TILES` tiles of that size, evenly spread and
in its own resolution, because the codec's network sees large pictures through windows of its own size. What is smaller,
or cannot be read, is counted and skipped. The order is that of the names, the same on every machine.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from dipp import pictures
from dipp.errors import DippError
from dipp.pictures import Pixels

TILES = 16
CIFAR_BATCHES = tuple(f"data_batch_{i}" for i in range(1, 6))
PARQUET_ROWS = 256


@dataclass(frozen=True, eq=False)
class Pictures:
    """Pictures of one size, and how many others there were."""

    pixels: Pixels
    """(N, size, size, 3)."""
    skipped: int
    """Files or rows that could not be read or were too small."""


def load(data: Path, size: int, limit: int | None = None) -> Pictures:
    """Load the pictures of a source, at most `limit` of them."""
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
    return Pictures(np.stack(tiles[:limit]), skipped)


def _each(data: Path) -> Iterator[Pixels | None]:
    """Every picture, and None for one that cannot be read."""
    if data.suffix in (".npy", ".npz"):
        yield from _numpy(data)
    elif data.suffix == ".parquet":
        yield from _parquet(data)
    elif not data.is_dir():
        raise DippError(f"data: {data} is neither a folder nor a .parquet, .npy or .npz file")
    elif (data / CIFAR_BATCHES[0]).is_file():
        for name in CIFAR_BATCHES:
            yield from _cifar(data / name)
    else:
        files = sorted(path for path in data.rglob("*") if path.is_file())
        tables = [path for path in files if path.suffix == ".parquet"]
        for path in tables:
            yield from _parquet(path)
        for path in files if not tables else []:
            yield _read(path)


def _read(source: Path | bytes) -> Pixels | None:
    try:
        return pictures.read(source)
    except DippError:
        return None


class _Plain(pickle.Unpickler):
    """An unpickler that can make arrays and plain Python values, and nothing that could run code."""

    MODULES = ("numpy", "numpy.core.multiarray", "numpy._core.multiarray")
    MAKERS: ClassVar[dict[str, Any]] = {
        "_reconstruct": np.empty(0).__reduce__()[0],
        "ndarray": np.ndarray,
        "dtype": np.dtype,
    }

    def find_class(self, module: str, name: str) -> Any:
        """Only what a pickled NumPy array names."""
        if module in self.MODULES and name in self.MAKERS:
            return self.MAKERS[name]
        raise pickle.UnpicklingError(f"{module}.{name} is not allowed")


def _cifar(path: Path) -> Iterator[Pixels]:
    """A batch of CIFAR-10's Python version: rows of 3072 bytes, channel by channel."""
    try:
        with path.open("rb") as stream:
            batch = _Plain(stream, encoding="bytes").load()
        rows = np.asarray(batch[b"data"], np.uint8).reshape(-1, 3, 32, 32)
    except FileNotFoundError:
        raise DippError(f"data: {path.name} of CIFAR-10 is missing; unpack the archive again") from None
    except Exception:  # a damaged pickle can raise almost anything
        raise DippError(f"data: {path.name} is not a batch of CIFAR-10; unpack the archive again") from None
    yield from np.ascontiguousarray(rows.transpose(0, 2, 3, 1))


def _numpy(path: Path) -> Iterator[Pixels]:
    """Pictures (N, H, W, 3) as uint8: the array of a .npy, or the one called images in a .npz."""
    try:
        content = np.load(path, allow_pickle=False)
        images = content if isinstance(content, np.ndarray) else content["images"]
    except Exception:
        raise DippError(f"data: {path.name} cannot be read; a .npy, or a .npz with `images`, is needed") from None
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] != 3:
        raise DippError(f"data: uint8 (N, H, W, 3) is needed, got {images.dtype} of shape {images.shape}")
    yield from images


def _parquet(path: Path) -> Iterator[Pixels | None]:
    """Pictures of the first column that holds files: bytes, or as Hugging Face's datasets write it {bytes, path}."""
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise DippError("data: pyarrow is needed to read Parquet; install dp-dipp[parquet]") from None
    try:
        table = parquet.ParquetFile(path)
        schema = table.schema_arrow
    except (OSError, arrow.ArrowException):
        raise DippError(f"data: {path.name} is not a Parquet file; fetch it again") from None
    column = next((f.name for f in schema if _holds_files(arrow, f.type)), None)
    if column is None:
        raise DippError(f"data: {path.name} has no column of pictures as bytes; it has {', '.join(schema.names)}")
    for batch in table.iter_batches(PARQUET_ROWS, columns=[column]):
        for value in batch.column(0).to_pylist():
            content = value["bytes"] if isinstance(value, dict) else value
            yield None if content is None else _read(content)


def _holds_files(arrow: Any, kind: Any) -> bool:
    if arrow.types.is_struct(kind):
        names = [kind.field(i).name for i in range(kind.num_fields)]
        return "bytes" in names and _holds_files(arrow, kind.field(names.index("bytes")).type)
    return bool(arrow.types.is_binary(kind) or arrow.types.is_large_binary(kind))


def _tiles(picture: Pixels, size: int) -> list[Pixels]:
    """The picture itself, or tiles on an even grid of at most √TILES × √TILES; they overlap only to fill the sides."""
    rows, columns = (_starts(side, size) for side in picture.shape[:2])
    return [picture[top : top + size, left : left + size] for top in rows for left in columns]


def _starts(side: int, size: int) -> list[int]:
    count = min(-(-side // size), round(TILES**0.5))
    return sorted({round(start) for start in np.linspace(0, side - size, count)})
