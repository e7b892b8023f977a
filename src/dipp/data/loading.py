"""`dipp.load`: a release as training data, which is decoded in batches when it is requested.

A release is small: once a shard was used, its payloads stay in memory, at a few dozen bytes for each image. Decoded
pictures stay in memory up to a limit, or all of them in a folder (`cache`). Decoding uses all cores or the GPU by
itself, so a DataLoader needs no worker processes to decode; to read from a full cache, they help. They may be forked or
spawned. A forked worker has a single thread, and cannot use a GPU that the parent has used; the pictures that it
decodes are lost when it ends.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import logging
import operator
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, SupportsIndex, overload

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from dipp import files
from dipp.codec.batches import batch_size
from dipp.codec.decoding import Decoding
from dipp.codec.pictures import Pixels
from dipp.core.geometry import Geometry
from dipp.data.cache import Cache, Key, Memory
from dipp.data.folder import read_manifest, shard_entries
from dipp.data.part_decoder import PartDecoder
from dipp.data.parts import ArchivePart, Part, ShardPart
from dipp.data.sources import Label
from dipp.errors import DippError
from dipp.format import archive as archives
from dipp.models import embedded
from dipp.models.bars import shown
from dipp.models.denoiser import torch_device
from dipp.privacy.certificate import Certificate

LOGGER = logging.getLogger("dipp")
Item = Any
"""(picture, label), or the picture alone if the release has no labels."""


def load(
    destination: str | Path,
    model: str | Path = embedded.FOLDER,
    *,
    device: str = "auto",
    noisy: bool = False,
    sample: bool = False,
    calls: int | None = None,
    cache: str | Path | None = None,
    transform: Callable[[torch.Tensor], Any] | None = None,
    max_work: float | None = None,
) -> Pictures:
    """Open a release (a folder of shards, or a .dipp archive) as a PyTorch dataset.

    Nothing is decoded before the first picture is requested. Length, labels and certificate need no denoiser.

    Args:
        destination: The folder or the archive.
        model: Folder or hub id of the denoiser that the release was made with. By default the denoiser that ships with
            dipp.
        device: "auto", "cuda", "mps" or "cpu". By default "auto", the first of the others that is available.
        noisy: Whether pictures are noisy reconstructions. False by default: each picture is the expected one.
        sample: Whether pictures are plausible samples instead of the expected pictures. False by default.
        calls: Number of network calls for each picture. By default 1, or 8 for a sample.
        cache: Folder in which decoded pictures are kept. By default they are kept in memory, up to 512 MiB.
        transform: Function that is applied to each picture, a uint8 tensor (C, H, W), whenever it is requested. The
            cache holds the picture before the transform.
        max_work: Limit of the cost of decoding, in billions of pixels through the network. By default the limit follows
            from the size of the file (`codec.work`).

    Returns:
        A dataset of pictures, or of (picture, label) pairs if the release has labels.

    Raises:
        DippError: The release is missing, unfinished or damaged.

    Example::

        from torch.utils.data import DataLoader

        data = dipp.load("release")
        loader = DataLoader(data, batch_size=64, collate_fn=dipp.collate)
    """
    decoding = Decoding(noisy=noisy, sample=sample, calls=calls, max_work=max_work)
    folder = None if cache is None else Path(cache)
    return Pictures(Path(destination), str(model), device, decoding, folder, transform)


def collate(items: Sequence[Item]) -> Any:
    """Combine items of any sizes into a batch, for `DataLoader(collate_fn=dipp.collate)`.

    Args:
        items: Items of a `Pictures` dataset.

    Returns:
        A list of pictures and their labels: a tensor of whole numbers, or a list of texts. Without labels, the list of
            pictures alone.

    Example::

        loader = DataLoader(dipp.load("release"), batch_size=32, collate_fn=dipp.collate)
        for pictures, labels in loader:
            ...
    """
    if not items or not isinstance(items[0], tuple):
        return list(items)
    pictures, labels = zip(*items, strict=True)
    text = any(isinstance(label, str) for label in labels)
    return list(pictures), list(labels) if text else torch.tensor(labels)


class Pictures(Dataset[Item]):
    """A PyTorch dataset of the pictures of a release: uint8 tensors (C, H, W), with labels if the release has them.

    `dataset[i]` decodes one picture and `dataset[i:j]` a list. A DataLoader requests whole batches (`__getitems__`),
    and iteration decodes in batches as well. `stream()` gives PyTorch's iterable kind of dataset. `dipp.load` makes
    these objects.
    """

    def __init__(
        self,
        path: Path,
        model: str,
        device: str,
        decoding: Decoding,
        cache: Path | None,
        transform: Callable[[torch.Tensor], Any] | None,
    ) -> None:
        self._place, self._device, self._decoding = path, device, decoding
        self._cache_folder, self._transform = cache, transform
        self._decoder = PartDecoder(model, device, decoding, lasting=cache is not None)
        self._parts: list[Part]
        self.labelled = False
        """Whether items have labels; −1, or the empty text, stands for a missing label."""
        self.classes: tuple[str, ...] = ()
        """Names of the classes; empty if the source had none."""
        if path.is_dir():
            stated = read_manifest(path)
            try:
                self.labelled = stated["labels"] is not None
                self.classes = tuple(map(str, stated["labels"]["names"])) if self.labelled else ()
                self._parts = [ShardPart(path / name, entry, self.classes) for name, entry in shard_entries(stated)]
                if not all(type(part.images) is int and 0 <= part.images < 1 << 40 for part in self._parts):
                    raise TypeError
            except (KeyError, TypeError, ValueError) as error:
                if isinstance(error, DippError):
                    raise error.within(path) from None
                raise DippError(str(path), "has a damaged manifest", "get it again") from None
        else:
            self._parts = [ArchivePart(archives.open(path))]
        self._starts = [0, *itertools.accumulate(part.images for part in self._parts)]

    def __len__(self) -> int:
        return self._starts[-1]

    def __repr__(self) -> str:
        pictures = "1 picture" if len(self) == 1 else f"{len(self)} pictures"
        labels = f"{len(self.classes)} classes" if self.classes else "labelled" if self.labelled else "no labels"
        return f"<dipp.Pictures: {pictures}, {labels}, of {self._place}>"

    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    @overload
    def __getitem__(self, index: SupportsIndex) -> Item: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Item:
        """Return one item, or a list of the items in a slice."""
        if isinstance(index, slice):
            return self.__getitems__(range(*index.indices(len(self))))
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[SupportsIndex]) -> list[Item]:
        """Return several items; pictures of equal size are decoded together. PyTorch's DataLoader calls this.

        Args:
            indices: Numbers of the pictures; negative numbers count from the end.

        Raises:
            IndexError: There is no picture of a number.
            DippError: A shard or the denoiser cannot be used.
        """
        numbers = [self._number(operator.index(index)) for index in indices]
        decoded = self._pictures(numbers)
        items: list[Item] = []
        for number in numbers:
            # Each item gets a tensor of its own: a write to one must not change another, nor the batch.
            tensor = torch.from_numpy(np.array(decoded[number].transpose(2, 0, 1), order="C"))
            picture = tensor if self._transform is None else self._transform(tensor)
            part, row = self._find(number)
            items.append((picture, _label_of(part, row)) if self.labelled else picture)
        return items

    def __iter__(self) -> Iterator[Item]:
        """Yield all items in order, decoded in batches."""
        return self._range(0, len(self))

    def decoded(self) -> Iterator[tuple[torch.Tensor, Label, bool]]:
        """Yield every picture in order, before any transform, with its label and whether its source was grey.

        Yields:
            A uint8 tensor (C, H, W); the label, None if it is missing; and whether the source was grey.
        """
        for start, stop in self._batches(0, len(self)):
            pictures = self._pictures(range(start, stop))
            for number in range(start, stop):
                part, row = self._find(number)
                tensor = torch.from_numpy(np.array(pictures[number].transpose(2, 0, 1), order="C"))
                yield tensor, part.label(row), part.grey(row)

    def fill(self, *, progress: bool = True) -> None:
        """Decode all pictures that the cache on disk lacks, in batches, and keep them there.

        Args:
            progress: Whether a terminal shows a progress bar.

        Raises:
            DippError: The dataset has no cache on disk.
        """
        if self._cache_folder is None:
            raise DippError("cache", "must be a folder to be filled", "name it in dipp.load(…, cache=FOLDER)")
        cached = self._cache.numbers() if isinstance(self._cache, Cache) else set()
        missing = [geometry.pixels for number, geometry in enumerate(self.geometries()) if number not in cached]
        with shown("decoding", missing, wanted=progress and bool(missing)):
            for start, stop in self._batches(0, len(self)):
                self._pictures(range(start, stop))

    def export(self, target: str | Path) -> None:
        """Write all pictures as PNG files to a new folder, by their classes; or to a Parquet file for `datasets`.

        Args:
            target: The new folder, or a new file that ends in .parquet.

        Raises:
            DippError: The target exists, or cannot be written.
        """
        from dipp.data.exporting import export

        files.require_new(Path(target), overwrite=False)
        export(self, Path(target))

    def stream(self) -> IterableDataset[Item]:
        """Return the same pictures as PyTorch's iterable kind of dataset, divided among a DataLoader's workers."""
        return _Stream(self)

    @property
    def certificate(self) -> Certificate | None:
        """Certificate of the whole release: that of its worst shard or archive; None if the coding has none."""
        certificates = [certificate for part in self._parts if (certificate := part.certificate) is not None]
        # All parts have the same plan, so the part with the smallest image has both the largest ε and the largest ρ.
        return max(certificates, key=lambda certificate: (certificate.epsilon, certificate.rho), default=None)

    def labels(self) -> list[Label]:
        """Return the label of each picture as items have it, without decoding any; empty if the release has no labels.

        −1, or the empty text, stands for a missing label.
        """
        return [_label_of(part, row) for part in self._parts for row in range(part.images)] if self.labelled else []

    def given_labels(self) -> list[Label]:
        """Return the label of each picture as its source had it, without decoding any; None for a missing label."""
        return [part.label(row) for part in self._parts for row in range(part.images)]

    def geometries(self) -> list[Geometry]:
        """Return the height, width and channels of each picture, without decoding any."""
        return [part.geometry(row) for part in self._parts for row in range(part.images)]

    def _range(self, start: int, stop: int) -> Iterator[Item]:
        """Yield items `start` … `stop` − 1 in order, decoded in batches."""
        for low, high in self._batches(start, stop):
            yield from self.__getitems__(range(low, high))

    def _batches(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges of picture numbers that are decoded together, as first number and number after the last."""
        while start < stop:
            part, row = self._find(start)
            end = min(start + self._batch_size(part.geometry(row)), stop)
            yield start, end
            start = end

    def _batch_size(self, geometry: Geometry) -> int:
        """Return the number of pictures of a geometry that are decoded together."""
        return batch_size(torch_device(self._device).type, geometry)

    def _number(self, index: int) -> int:
        """Return the number of a picture; a negative index counts from the end."""
        number = index + len(self) if index < 0 else index
        if not 0 <= number < len(self):
            raise IndexError(f"index must be from 0 to {len(self) - 1}, got {index}")
        return number

    def _find(self, number: int) -> tuple[Part, int]:
        """Return the shard or archive that holds a picture, and the picture's row in it."""
        part = bisect_right(self._starts, number) - 1
        return self._parts[part], number - self._starts[part]

    def _pictures(self, numbers: Iterable[int]) -> dict[int, Pixels]:
        """Return pictures (H, W, C) by their numbers: from the cache, or decoded and then kept there."""
        places = {number: self._find(number) for number in numbers}
        geometries = {number: part.geometry(row) for number, (part, row) in places.items()}
        pictures = self._cache.get(geometries)
        groups: dict[Geometry, list[int]] = {}
        for number in places:
            if number not in pictures:
                groups.setdefault(geometries[number], []).append(number)
        for geometry, group in groups.items():
            size = self._batch_size(geometry)
            for low in range(0, len(group), size):
                batch = group[low : low + size]
                decoded = self._decoder.decoded(geometry, [places[number] for number in batch])
                pictures.update(zip(batch, decoded, strict=True))
                self._cache.put(batch, decoded)
        return pictures

    @functools.cached_property
    def _cache(self) -> Cache | Memory:
        """The cache of decoded pictures, on disk or in memory."""
        if self._cache_folder is None or not len(self):
            return Memory()
        release = tuple(part.digest for part in self._parts)
        key = Key(
            release,
            self._find(0)[0].parameters.model,
            dataclasses.astuple(dataclasses.replace(self._decoding, max_work=None)),
        )
        return Cache(self._cache_folder, key.digest())


def _label_of(part: Part, row: int) -> Label:
    """Return the label in a row of a shard or archive; a missing label is returned as −1 or empty text."""
    label = part.label(row)
    return part.missing if label is None else label


class _Stream(IterableDataset[Item]):
    """A PyTorch iterable dataset of all pictures in order; each worker of a DataLoader gets a range of them."""

    def __init__(self, pictures: Pictures) -> None:
        self.pictures = pictures

    def __repr__(self) -> str:
        return f"<dipp stream of {self.pictures!r}>"

    def __iter__(self) -> Iterator[Item]:
        info, count = get_worker_info(), len(self.pictures)
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        return self.pictures._range(count * worker // workers, count * (worker + 1) // workers)
