"""`dipp.load`: a release as training data, which is decoded in batches when it is asked for.

A release is small: once a shard was used, its payloads stay in memory, at a few dozen bytes an image. Pictures are
decoded again each time. Decoding uses all cores or the GPU by itself, so a DataLoader needs no worker processes. If it
is given some, they must be spawned (`multiprocessing_context="spawn"`): a forked one cannot use numba's threads.
"""

from __future__ import annotations

import functools
import itertools
import operator
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol, SupportsIndex, overload

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from dipp.codec.codec import Codec, batch_size
from dipp.data.shards import Shard
from dipp.data.sources import Label
from dipp.data.store import read_manifest, sha256, shard_entries
from dipp.errors import DippError
from dipp.format import archive as archives
from dipp.format.archive import Archive
from dipp.format.bytes import Integers
from dipp.format.packing import Shape
from dipp.format.release import Release
from dipp.models import embedded
from dipp.privacy.certificate import Certificate

Item = Any
"""(picture, label), or the picture alone if the release has no labels."""


def load(
    destination: str | Path,
    model: str | Path = embedded.FOLDER,
    *,
    device: str = "cpu",
    denoise: bool = True,
    sample: bool = False,
) -> Pictures:
    """Open a release (a folder of shards, or a .dipp archive) as a PyTorch dataset.

    `model` is the denoiser that the release was made with, by default the one that ships with dipp. It is loaded with
    the first picture: length, labels and certificate do not need it. Pictures are the expected ones; `sample` draws
    plausible ones instead, and denoise = False gives noisy reconstructions.
    """
    return Pictures(Path(destination), str(model), device, denoise, sample)


class Pictures(Dataset[Item]):
    """The pictures of a release as uint8 tensors (C, H, W).

    `dataset[i]` decodes one picture and `dataset[i:j]` a list. A DataLoader asks for whole batches (`__getitems__`),
    and iteration decodes in batches as well. `stream()` gives PyTorch's iterable kind of dataset.
    """

    def __init__(self, place: Path, model: str, device: str, denoise: bool, sample: bool) -> None:
        self._model, self._device, self._denoise, self._sample = model, device, denoise, sample
        self._codec: Codec | None = None
        self._parts: list[_Part]
        self.labelled = False
        """Whether items have labels; −1, or the empty text, stands for a missing one."""
        self.classes: tuple[str, ...] = ()
        """Names of the classes; empty if the source had none."""
        if place.is_dir():
            stated = read_manifest(place)
            try:
                self._parts = [_ShardPart(place / name, entry) for name, entry in shard_entries(stated)]
                if not all(type(part.images) is int and 0 <= part.images < 1 << 40 for part in self._parts):
                    raise TypeError
                self.labelled = stated["labels"] is not None
                self.classes = tuple(map(str, stated["labels"]["names"])) if self.labelled else ()
            except (KeyError, TypeError, ValueError) as error:
                told = str(error) if isinstance(error, DippError) else "its manifest is damaged; get it again"
                raise DippError(f"{place}: {told}") from None
        else:
            self._parts = [_ArchivePart(archives.open(place))]
        self._starts = [0, *itertools.accumulate(part.images for part in self._parts)]

    def __len__(self) -> int:
        return self._starts[-1]

    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    @overload
    def __getitem__(self, index: SupportsIndex) -> Item: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Item:
        """One picture, or the list of those in a slice."""
        if isinstance(index, slice):
            return self.__getitems__(range(*index.indices(len(self))))
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[SupportsIndex]) -> list[Item]:
        """Several pictures; those of one size are decoded together. PyTorch's DataLoader calls this."""
        places = [self._find(operator.index(index)) for index in indices]
        groups: dict[Shape, list[int]] = {}
        for at, (part, row) in enumerate(places):
            groups.setdefault(part.shape(row), []).append(at)
        pictures: dict[int, torch.Tensor] = {}
        for shape, group in groups.items():
            size = self._batch_size(shape)
            for low in range(0, len(group), size):
                some = group[low : low + size]
                pictures.update(zip(some, self._decode(shape, [places[at] for at in some]), strict=True))
        if not self.labelled:
            return [pictures[at] for at in range(len(indices))]
        return [(pictures[at], part.label(row)) for at, (part, row) in enumerate(places)]

    def __iter__(self) -> Iterator[Item]:
        """All pictures in order, decoded a batch at a time."""
        return self._range(0, len(self))

    def stream(self) -> IterableDataset[Item]:
        """The same pictures as PyTorch's iterable kind of dataset, divided among a DataLoader's workers."""
        return _Stream(self)

    @property
    def certificate(self) -> Certificate | None:
        """Certificate of the whole release, the worst of its parts; None if the mechanism has none."""
        known = [found for part in self._parts if (found := part.certificate) is not None]
        # All parts have the same plan, so the part with the smallest image has both the largest ε and the largest ρ.
        return max(known, key=lambda found: (found.epsilon, found.rho), default=None)

    def labels(self) -> list[Label]:
        """The labels of all pictures, without decoding any; empty if there are none."""
        return [part.label(row) for part in self._parts for row in range(part.images)] if self.labelled else []

    def _range(self, start: int, stop: int) -> Iterator[Item]:
        """Items start … stop − 1 in order, decoded a batch at a time."""
        while start < stop:
            part, row = self._find(start)
            end = min(start + self._batch_size(part.shape(row)), stop)
            yield from self.__getitems__(range(start, end))
            start = end

    def _batch_size(self, shape: Shape) -> int:
        return batch_size(torch.device(self._device).type, shape)

    def _find(self, index: int) -> tuple[_Part, int]:
        """The part that holds a picture, and its row in it; a negative index counts from the end."""
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(f"index: 0 to {len(self) - 1} is needed, got {index}")
        part = bisect_right(self._starts, at) - 1
        return self._parts[part], at - self._starts[part]

    def _decode(self, shape: Shape, places: list[tuple[_Part, int]]) -> Iterable[torch.Tensor]:
        """Decode pictures of one shape, given by part and row."""
        rows = np.concatenate([part.rows([row for _, row in run]) for part, run in groupby(places, key=lambda p: p[0])])
        _refuse_forked()
        release = places[0][0].release
        codec = self._codec_for(release)
        if any(part.release.seed != release.seed for part, _ in places):
            raise DippError("the shards belong to several releases; get them again")
        numbers = [part.number(row) for part, row in places]
        found = codec.reconstruct(rows, shape, numbers, release.seed, denoise=self._denoise, sample=self._sample)
        return torch.from_numpy(found).permute(0, 3, 1, 2).contiguous()

    def _codec_for(self, release: Release) -> Codec:
        if self._codec is None:
            self._codec = Codec.for_release(release, self._model, device=self._device)
        if (self._codec.plan, self._codec.denoiser.identity) != (release.plan, release.model):
            raise DippError("the shards belong to several releases; get them again")
        return self._codec

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_codec": None}


_decoder: int | None = None
"""Id of the process that has decoded a picture; None before the first."""


def _refuse_forked() -> None:
    """Refuse to decode in a forked process, which numba's threads would end without a message."""
    global _decoder
    if _decoder not in (None, os.getpid()):
        raise DippError('DataLoader: spawned workers are needed, multiprocessing_context="spawn"; or num_workers=0')
    _decoder = os.getpid()


class _Stream(IterableDataset[Item]):
    """All pictures in order; each worker of a DataLoader gets a range of them."""

    def __init__(self, pictures: Pictures) -> None:
        self.pictures = pictures

    def __iter__(self) -> Iterator[Item]:
        info, count = get_worker_info(), len(self.pictures)
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        return self.pictures._range(count * worker // workers, count * (worker + 1) // workers)


class _Part(Protocol):
    """Images that are stored together, in rows 0 … images − 1; `number` is the number of a row in the dataset."""

    images: int

    @property
    def release(self) -> Release: ...
    @property
    def certificate(self) -> Certificate | None: ...
    def shape(self, row: int) -> Shape: ...
    def number(self, row: int) -> int: ...
    def label(self, row: int) -> Label: ...
    def rows(self, rows: Sequence[int]) -> Integers: ...


class _ShardPart:
    """A shard, which is read when it is first needed, and then checked against its entry in the manifest."""

    def __init__(self, path: Path, entry: dict[str, Any]) -> None:
        self.path, self.images, self.checksum = path, entry["images"], entry["sha256"]

    @functools.cached_property
    def _shard(self) -> Shard:
        if self.path.is_file() and sha256(self.path) != self.checksum:
            raise DippError(f"{self.path.name}: its checksum is wrong; get it again")
        shard = Shard.read(self.path)
        if len(shard) != self.images:
            raise DippError(f"{self.path.name}: the manifest speaks of {self.images} images, it has {len(shard)}")
        return shard

    @property
    def release(self) -> Release:
        return self._shard.release

    @property
    def certificate(self) -> Certificate | None:
        return self._shard.certificate

    def shape(self, row: int) -> Shape:
        return self._shard.shape(row)

    def number(self, row: int) -> int:
        return int(self._shard.ids[row])

    def label(self, row: int) -> Label:
        label = self._shard.labels[row].as_py()
        missing: Label = "" if self._shard.labels.type == "string" else -1
        return missing if label is None else label

    def rows(self, rows: Sequence[int]) -> Integers:
        return self._shard.rows(rows)


class _ArchivePart:
    """An archive, which is the only part of its release and has no labels."""

    def __init__(self, archive: Archive) -> None:
        self.archive, self.release, self.images = archive, archive.release, len(archive)

    @property
    def certificate(self) -> Certificate | None:
        return self.archive.certificate if self.release.plan.coding.certified else None

    def shape(self, row: int) -> Shape:
        return self.archive.shape(row)

    def number(self, row: int) -> int:
        return row

    def label(self, row: int) -> Label:  # noqa: ARG002
        return None

    def rows(self, rows: Sequence[int]) -> Integers:
        return np.stack([self.archive.image_indices(row) for row in rows])
