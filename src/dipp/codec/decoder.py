"""The decoder's part of the chain: it reads the indices of a file, step by step, and follows them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipp.codec import batches, questions, surroundings, work
from dipp.codec.chain import Chain, Indices, StepLayout
from dipp.codec.decoding import EXPECTED, ChainEnd, Decoding
from dipp.codec.pictures import Pixels
from dipp.codec.trajectory import trajectory
from dipp.core.arrays import Array
from dipp.core.geometry import Geometry
from dipp.core.plan import Plan
from dipp.errors import DippError, InconsistentError
from dipp.format import archive as archives
from dipp.format.archive import Archive
from dipp.format.parameters import PublicParameters
from dipp.models import watch
from dipp.models.denoiser import MAX_PICTURE, Denoiser

Sources = Archive | str | Path | Iterable[Archive | str | Path]
"""Anything that can be decoded: an archive, the path of a .dipp file, or an iterable of those."""


@dataclass(frozen=True, eq=False)
class IndexReader:
    """The decoder's source of indices (`chain.Choose`), which returns the indices of a file step by step."""

    indices: Indices
    """Indices of the file, images × chunks of all steps in order."""
    counts: tuple[int, ...]
    """Number of chunks of each step."""

    def __call__(self, layout: StepLayout, x_hat: Array) -> Indices:  # noqa: ARG002
        """Return the indices of one round of a step, images × chunks."""
        first = sum(self.counts[: layout.number]) + layout.first
        return self.indices[:, first : first + layout.chunks.count]


@dataclass(frozen=True, eq=False)
class Decoder:
    """A decoder of archives, which needs only a denoiser, because everything else is in the file."""

    denoiser: Denoiser
    """The denoiser that the archives were made with."""

    def pictures(self, source: Sources, decoding: Decoding = EXPECTED) -> Iterator[Pixels]:
        """Yield every image of one or several archives as a uint8 array (H, W, C).

        Args:
            source: An archive, the path of a .dipp file, or an iterable of those.
            decoding: Flags that choose the kind of picture.

        Raises:
            DippError: A file is damaged, asks for too much work, or was made with another model.
        """
        for archive in each_archive(source):
            for end in self.ends(archive, decoding):
                yield from end.pictures(decoding)

    def ends(self, source: Archive, decoding: Decoding = EXPECTED) -> Iterator[ChainEnd]:
        """Yield the final states of an archive, batch by batch.

        Args:
            source: The archive.
            decoding: Flags of decoding. Reports of progress (`models.watch`) count the calls for its pictures as well.

        Raises:
            DippError: The archive asks for too much work, or was made with another model.
        """
        parameters = source.parameters
        self.denoiser.require_identity(parameters.model)
        decoder = replace(self, denoiser=self.denoiser.prompted(parameters.prompt))
        questions.require_words(parameters.plan, self.denoiser, parameters.table)
        sizes = [(images, height * width) for images, height, width in source.runs.tolist()]
        work.require_affordable(sizes, self.calls(parameters.plan, decoding), source.size, decoding.max_work)
        first = 0
        for images, height, width in source.runs.tolist():
            if height * width > MAX_PICTURE:
                raise DippError("image", f"of {height}×{width} is larger than {MAX_PICTURE >> 20} megapixels")
            geometry, end = parameters.geometry(height, width), first + images
            while first < end:
                last = min(end, first + batches.batch_size(self.denoiser.device.type, geometry))
                grey = source.grey[first:last]
                yield decoder.end(parameters, geometry, source.batch(first, last), range(first, last), grey, decoding)
                first = last

    def end(
        self,
        parameters: PublicParameters,
        geometry: Geometry,
        rows: Indices,
        numbers: Sequence[int],
        grey: NDArray[np.bool_],
        decoding: Decoding = EXPECTED,
        base: Pixels | None = None,
    ) -> ChainEnd:
        """Return the final states of images of one geometry.

        Args:
            parameters: Public parameters of the encoding.
            geometry: Geometry of the images.
            rows: Indices, images × chunks of all steps.
            numbers: Numbers of the images in the archive.
            grey: Which images are grey, (images,).
            decoding: Flags of decoding, which may leave out steps.
            base: The picture (H, W, C) with its regions painted over, if the parameters do not carry it.
        """
        self._require_model(parameters)
        base = surroundings.of(parameters, geometry) if base is None else base
        chain = Chain.of_pictures(parameters.plan, self.denoiser, parameters.seed, geometry, base)
        steps = decoding.steps_of(parameters.plan)
        watch.begin(len(rows), len(rows) * geometry.pixels, self.calls(parameters.plan, decoding))
        state, _ = chain.run(numbers, IndexReader(rows, chain.plan.chunk_counts(chain.geometry)), steps)
        watch.step(steps)
        return ChainEnd(chain, steps, state, numbers, grey)

    def _require_model(self, parameters: PublicParameters) -> None:
        """Raise if the denoiser has other latents or another prompt than the parameters."""
        if parameters.latents != self.denoiser.latents:
            raise InconsistentError("latents", "of the file are not those of its model", "do not trust the file")
        if parameters.prompt != self.denoiser.prompt:
            raise DippError("prompt", f"of the file is {parameters.prompt!r}", "load the model with that prompt")

    def calls(self, plan: Plan, decoding: Decoding = EXPECTED) -> int:
        """Return the number of network calls that decode one picture.

        Args:
            plan: The plan of the archive.
            decoding: The kind of picture to decode.
        """
        steps = decoding.steps_of(plan)
        return steps + decoding.network_calls(trajectory(plan, self.denoiser), steps)

    def work(self, plan: Plan, decoding: Decoding = EXPECTED) -> float:
        """Return the work of decoding one picture, in network calls at the picture's full resolution.

        Args:
            plan: The plan of the archive.
            decoding: The kind of picture to decode.
        """
        return plan.work + self.calls(plan, decoding) - decoding.steps_of(plan)


def each_archive(source: Sources) -> Iterator[Archive]:
    """Yield the archives of a source.

    Args:
        source: An archive, the path of a .dipp file, or an iterable of those.

    Raises:
        DippError: The source is something else, or a file cannot be opened.
    """
    if isinstance(source, Archive):
        yield source
    elif isinstance(source, str | os.PathLike):
        yield archives.open(source)
    elif isinstance(source, Iterable) and not isinstance(source, bytes) and not hasattr(source, "__array__"):
        for part in source:
            if not isinstance(part, Archive | str | os.PathLike):
                raise _no_archive(part)
            yield from each_archive(part)
    else:
        raise _no_archive(source)


def _no_archive(value: Any) -> DippError:
    return DippError(
        "source", f"must be an archive, the path of a .dipp file, or an iterable of those, got {type(value).__name__}"
    )
