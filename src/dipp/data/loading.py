"""`dipp.load`: a release as training data, which is decoded in batches when it is asked for.

A release is small: once a shard was used, its payloads stay in memory, at a few dozen bytes an image. Decoded pictures
stay in memory up to a bound, or all of them in a folder (`cache`). Decoding uses all cores or the GPU by itself, so a
DataLoader needs no worker processes to decode; to read from a full cache they help. They may be forked or spawned. A
forked one has a single thread, and cannot use a GPU that the parent has used; what it decodes is lost with it.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import logging
import operator
import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, SupportsIndex, overload

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from dipp import files, models
from dipp.codec import work
from dipp.codec.batches import batch_size
from dipp.codec.decoder import Decoder
from dipp.codec.decoding import Decoding
from dipp.codec.pictures import Pixels
from dipp.core.geometry import Geometry
from dipp.core.plan import Plan
from dipp.data.cache import Cache, Key, Memory
from dipp.data.parts import ArchivePart, Part, ShardPart
from dipp.data.sources import Label
from dipp.data.store import read_manifest, shard_entries
from dipp.errors import DippError
from dipp.format import archive as archives
from dipp.format.release import Release
from dipp.models import embedded
from dipp.models.bars import shown
from dipp.models.denoiser import torch_device
from dipp.privacy.certificate import Certificate

LOGGER = logging.getLogger("dipp")
WORKERS = (
    "workers of a DataLoader lose what they have decoded after each epoch; use num_workers=0, or "
    "dipp.load(…, cache=FOLDER)"
)

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

    `model` is the denoiser that the release was made with, by default the one in dipp itself. It is loaded with
    the first picture: length, labels and certificate do not need it. Pictures are the expected ones; `sample` draws
    plausible ones instead, in `calls` calls of the network, and `noisy` gives noisy reconstructions.

    Decoded pictures are kept, so that a second epoch does not decode them again: in the folder `cache`, or in memory up
    to 512 MiB. `transform` is applied to each picture, a uint8 tensor (C, H, W), whenever it is asked for; the cache
    holds what was before it.

    `max_work` allows a file to cost more than its size justifies (`codec.work`), in billions of pixels through the
    network.
    """
    decoding = Decoding(noisy=noisy, sample=sample, calls=calls, max_work=max_work)
    folder = None if cache is None else Path(cache)
    return Pictures(Path(destination), str(model), device, decoding, folder, transform)


def collate(items: Sequence[Item]) -> Any:
    """Items of any sizes as a batch, for DataLoader(collate_fn=dipp.collate): a list of pictures, and their labels.

    Whole numbers become a tensor, text stays a list; without labels, the list of pictures is all.
    """
    if not items or not isinstance(items[0], tuple):
        return list(items)
    pictures, labels = zip(*items, strict=True)
    text = any(isinstance(label, str) for label in labels)
    return list(pictures), list(labels) if text else torch.tensor(labels)


class Pictures(Dataset[Item]):
    """The pictures of a release as uint8 tensors (C, H, W).

    `dataset[i]` decodes one picture and `dataset[i:j]` a list. A DataLoader asks for whole batches (`__getitems__`),
    and iteration decodes in batches as well. `stream()` gives PyTorch's iterable kind of dataset.
    """

    def __init__(
        self,
        place: Path,
        model: str,
        device: str,
        decoding: Decoding,
        cache: Path | None,
        transform: Callable[[torch.Tensor], Any] | None,
    ) -> None:
        self._place, self._model, self._device, self._decoding = place, model, device, decoding
        self._cache_folder, self._transform = cache, transform
        self._affordable: set[Part] = set()
        self._decoder: Decoder | None = None
        self._plan: Plan | None = None
        self._process = os.getpid()
        self._parts: list[Part]
        self.labelled = False
        """Whether items have labels; −1, or the empty text, stands for a missing one."""
        self.classes: tuple[str, ...] = ()
        """Names of the classes; empty if the source had none."""
        if place.is_dir():
            stated = read_manifest(place)
            try:
                self.labelled = stated["labels"] is not None
                self.classes = tuple(map(str, stated["labels"]["names"])) if self.labelled else ()
                self._parts = [ShardPart(place / name, entry, self.classes) for name, entry in shard_entries(stated)]
                if not all(type(part.images) is int and 0 <= part.images < 1 << 40 for part in self._parts):
                    raise TypeError
            except (KeyError, TypeError, ValueError) as error:
                if isinstance(error, DippError):
                    raise error.within(place) from None
                raise DippError(str(place), "its manifest is damaged", "get it again") from None
        else:
            self._parts = [ArchivePart(archives.open(place))]
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
        """One picture, or the list of those in a slice."""
        if isinstance(index, slice):
            return self.__getitems__(range(*index.indices(len(self))))
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[SupportsIndex]) -> list[Item]:
        """Several pictures; those of one size are decoded together. PyTorch's DataLoader calls this."""
        numbers = [self._number(operator.index(index)) for index in indices]
        decoded = self._pictures(numbers)
        items: list[Item] = []
        for number in numbers:
            # A tensor of its own for each item: a write to one must not change another, nor the batch.
            tensor = torch.from_numpy(np.array(decoded[number].transpose(2, 0, 1), order="C"))
            picture = tensor if self._transform is None else self._transform(tensor)
            part, row = self._find(number)
            items.append((picture, _shown(part, row)) if self.labelled else picture)
        return items

    def __iter__(self) -> Iterator[Item]:
        """All pictures in order, decoded a batch at a time."""
        return self._range(0, len(self))

    def decoded(self) -> Iterator[tuple[torch.Tensor, Label, bool]]:
        """All pictures in order, before any transform, with their labels (None for none) and whether they are grey."""
        for start, stop in self._batches(0, len(self)):
            pictures = self._pictures(range(start, stop))
            for number in range(start, stop):
                part, row = self._find(number)
                tensor = torch.from_numpy(np.array(pictures[number].transpose(2, 0, 1), order="C"))
                yield tensor, part.label(row), part.grey(row)

    def fill(self, *, progress: bool = True) -> None:
        """Decode all pictures that the cache does not have yet, in batches, and keep them there.

        Args:
            progress: Whether a terminal shows a progress bar.

        Raises:
            DippError: If no folder was named for the cache.
        """
        if self._cache_folder is None:
            raise DippError("cache", "name a folder for it, dipp.load(…, cache=FOLDER)")
        there = self._cache.numbers() if isinstance(self._cache, Cache) else set()
        missing = [geometry.pixels for number, geometry in enumerate(self.geometries()) if number not in there]
        with shown("decoding", missing, wanted=progress and bool(missing)):
            for start, stop in self._batches(0, len(self)):
                self._pictures(range(start, stop))

    def export(self, target: str | Path) -> None:
        """Write all pictures as PNG files to a new folder, by their classes; or to a Parquet file for `datasets`."""
        from dipp.data.exporting import export

        files.require_new(Path(target), overwrite=False)
        export(self, Path(target))

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
        return [_shown(part, row) for part in self._parts for row in range(part.images)] if self.labelled else []

    def given_labels(self) -> list[Label]:
        """The labels of all pictures as their source had them, without decoding any: None where there is none."""
        return [part.label(row) for part in self._parts for row in range(part.images)]

    def geometries(self) -> list[Geometry]:
        """Return the height, width and channels of each picture, without decoding any."""
        return [part.geometry(row) for part in self._parts for row in range(part.images)]

    def _range(self, start: int, stop: int) -> Iterator[Item]:
        """Items start … stop − 1 in order, decoded a batch at a time."""
        for low, high in self._batches(start, stop):
            yield from self.__getitems__(range(low, high))

    def _batches(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Ranges of numbers that are decoded at a time."""
        while start < stop:
            part, row = self._find(start)
            end = min(start + self._batch_size(part.geometry(row)), stop)
            yield start, end
            start = end

    def _batch_size(self, geometry: Geometry) -> int:
        return batch_size(torch_device(self._device).type, geometry)

    def _number(self, index: int) -> int:
        """The number of a picture; a negative index counts from the end."""
        number = index + len(self) if index < 0 else index
        if not 0 <= number < len(self):
            raise IndexError(f"index: 0 to {len(self) - 1} is needed, got {index}")
        return number

    def _find(self, number: int) -> tuple[Part, int]:
        """The part that holds a picture, and its row in it."""
        part = bisect_right(self._starts, number) - 1
        return self._parts[part], number - self._starts[part]

    def _pictures(self, numbers: Iterable[int]) -> dict[int, Pixels]:
        """Pictures (H, W, C) by their numbers: from the cache, or decoded, and kept there."""
        places = {number: self._find(number) for number in numbers}
        geometries = {number: part.geometry(row) for number, (part, row) in places.items()}
        found = self._cache.get(geometries)
        groups: dict[Geometry, list[int]] = {}
        for number in places:
            if number not in found:
                groups.setdefault(geometries[number], []).append(number)
        for geometry, group in groups.items():
            size = self._batch_size(geometry)
            for low in range(0, len(group), size):
                some = group[low : low + size]
                decoded = self._decode(geometry, [places[number] for number in some])
                found.update(zip(some, decoded, strict=True))
                self._cache.put(some, decoded)
        return found

    @functools.cached_property
    def _cache(self) -> Cache | Memory:
        if self._cache_folder is None or not len(self):
            return Memory()
        release = tuple(part.digest for part in self._parts)
        key = Key(
            release,
            self._find(0)[0].release.model,
            dataclasses.astuple(dataclasses.replace(self._decoding, max_work=None)),
        )
        return Cache(self._cache_folder, key.digest())

    def _decode(self, geometry: Geometry, places: list[tuple[Part, int]]) -> Pixels:
        """Decode pictures of one geometry, given by part and row."""
        rows = np.concatenate([part.rows([row for _, row in run]) for part, run in groupby(places, key=lambda p: p[0])])
        self._check_process()
        release = places[0][0].release
        decoder = self._decoder_for(release)
        for part, _ in places:
            self._require_affordable(part, decoder)
        if any(part.release.seed != release.seed for part, _ in places):
            raise DippError("shards", "they belong to several releases", "get them again")
        numbers = [part.number(row) for part, row in places]
        grey = np.array([part.grey(row) for part, row in places], bool)
        return decoder.end(release, geometry, rows, numbers, grey, self._decoding).pictures(self._decoding)

    def _require_affordable(self, part: Part, decoder: Decoder) -> None:
        """Raise if a part costs more than its file justifies; once for each part."""
        if part not in self._affordable:
            sizes = [(1, part.geometry(row).pixels) for row in range(part.images)]
            calls = decoder.calls(part.release.plan, self._decoding)
            work.require_affordable(sizes, calls, part.size, self._decoding.max_work)
            self._affordable.add(part)

    def _check_process(self) -> None:
        """See that a forked process decodes with one thread: the parent's are gone, and a GPU does not come along."""
        if self._process == os.getpid():
            return
        if torch_device(self._device).type != "cpu":
            raise DippError(
                "DataLoader",
                'a GPU needs spawned workers, multiprocessing_context="spawn"; or num_workers=0, or a '
                "cache that was filled before",
            )
        torch.set_num_threads(1)
        self._process = os.getpid()
        worker = get_worker_info()
        if self._cache_folder is None and worker is not None and worker.id == 0:
            LOGGER.warning(WORKERS)

    def _decoder_for(self, release: Release) -> Decoder:
        if self._decoder is None:
            denoiser = models.load(self._model, self._device)
            denoiser.require_identity(release.model)
            self._decoder, self._plan = Decoder(denoiser.prompted(release.prompt)), release.plan
        if (self._plan, self._decoder.denoiser.identity) != (release.plan, release.model):
            raise DippError("shards", "they belong to several releases", "get them again")
        return self._decoder

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_decoder": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _process=os.getpid())


def _shown(part: Part, row: int) -> Label:
    """A label as items have it: −1, or the empty text, stands for a missing one."""
    label = part.label(row)
    return part.missing if label is None else label


class _Stream(IterableDataset[Item]):
    """All pictures in order; each worker of a DataLoader gets a range of them."""

    def __init__(self, pictures: Pictures) -> None:
        self.pictures = pictures

    def __repr__(self) -> str:
        return f"<dipp stream of {self.pictures!r}>"

    def __iter__(self) -> Iterator[Item]:
        info, count = get_worker_info(), len(self.pictures)
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        return self.pictures._range(count * worker // workers, count * (worker + 1) // workers)
