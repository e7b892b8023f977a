"""The decoder's part: what is decoded, the indices of a file, step by step, and where they lead."""

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
from dipp.codec.decoding import EXPECTED, Decoding, End
from dipp.codec.pictures import Pixels
from dipp.codec.trajectory import trajectory
from dipp.core.arrays import Array
from dipp.core.geometry import Geometry
from dipp.core.plan import Plan
from dipp.errors import DippError, InconsistentError
from dipp.format import archive as archives
from dipp.format.archive import Archive
from dipp.format.release import Release
from dipp.models import watch
from dipp.models.denoiser import MAX_PICTURE, Denoiser

Sources = Archive | str | Path | Iterable[Archive | str | Path]
"""What is decoded: an archive, the path of a file, or an iterable of those."""


@dataclass(frozen=True, eq=False)
class IndexReader:
    """The decoder's `Choose`: the indices of the file, step by step."""

    indices: Indices
    """Images × chunks of all steps, in order."""
    counts: tuple[int, ...]
    """Chunks of each step."""

    def __call__(self, layout: StepLayout, x_hat: Array) -> Indices:  # noqa: ARG002
        """Return the columns of this round of the step."""
        first = sum(self.counts[: layout.number]) + layout.first
        return self.indices[:, first : first + layout.chunks.count]


@dataclass(frozen=True, eq=False)
class Decoder:
    """Decodes archives. It needs a denoiser alone: everything else is in the file."""

    denoiser: Denoiser

    def pictures(self, source: Sources, decoding: Decoding = EXPECTED) -> Iterator[Pixels]:
        """Decode every image of archives, one by one, as uint8 arrays (H, W, C)."""
        for archive in each_archive(source):
            for end in self.ends(archive, decoding):
                yield from end.pictures(decoding)

    def ends(self, source: Archive, decoding: Decoding = EXPECTED) -> Iterator[End]:
        """Decode the states of an archive, batch by batch.

        A watcher is told of the network calls that `decoding` takes afterwards, too.
        """
        release = source.release
        self.denoiser.require_identity(release.model)
        own = replace(self, denoiser=self.denoiser.prompted(release.prompt))
        questions.require_words(release.plan, self.denoiser, release.table)
        sizes = [(images, height * width) for images, height, width in source.runs.tolist()]
        work.require_affordable(sizes, self.calls(release.plan, decoding), source.size, decoding.max_work)
        first = 0
        for images, height, width in source.runs.tolist():
            if height * width > MAX_PICTURE:
                raise DippError("image", f"{height}×{width} is larger than can be decoded")
            geometry, end = release.geometry(height, width), first + images
            while first < end:
                last = min(end, first + batches.batch_size(self.denoiser.device.type, geometry))
                grey = source.grey[first:last]
                yield own.end(release, geometry, source.batch(first, last), range(first, last), grey, decoding)
                first = last

    def end(
        self,
        release: Release,
        geometry: Geometry,
        rows: Indices,
        numbers: Sequence[int],
        grey: NDArray[np.bool_],
        decoding: Decoding = EXPECTED,
        base: Pixels | None = None,
    ) -> End:
        """Decode the states of images of one geometry, from a row of indices for each.

        `base` is the painted picture of regions, where the release does not carry it.
        """
        self._require_model(release)
        base = surroundings.of(release, geometry) if base is None else base
        chain = Chain.of_pictures(release.plan, self.denoiser, release.seed, geometry, base)
        steps = decoding.steps_of(release.plan)
        watch.begin(len(rows), len(rows) * geometry.pixels, self.calls(release.plan, decoding))
        state, _ = chain.run(numbers, IndexReader(rows, chain.plan.chunk_counts(chain.geometry)), steps)
        watch.step(steps)
        return End(chain, steps, state, numbers, grey)

    def _require_model(self, release: Release) -> None:
        """Raise unless the denoiser has the latents and the prompt of a release."""
        if release.latents != self.denoiser.latents:
            raise InconsistentError("latents", "those of the file are not those of its model", "do not trust the file")
        if release.prompt != self.denoiser.prompt:
            raise DippError("prompt", f"the file was made with {release.prompt!r}", "load its model with that")

    def calls(self, plan: Plan, decoding: Decoding = EXPECTED) -> int:
        """Return the network calls that decode one picture."""
        steps = decoding.steps_of(plan)
        return steps + decoding.network_calls(trajectory(plan, self.denoiser), steps)

    def work(self, plan: Plan, decoding: Decoding = EXPECTED) -> float:
        """Return the work of these calls, in calls at the resolution of the picture."""
        return plan.work + self.calls(plan, decoding) - decoding.steps_of(plan)


def each_archive(source: Sources) -> Iterator[Archive]:
    """The archives of a source, one by one."""
    if isinstance(source, Archive):
        yield source
    elif isinstance(source, str | os.PathLike):
        yield archives.open(source)
    elif isinstance(source, Iterable) and not isinstance(source, bytes) and not hasattr(source, "__array__"):
        for one in source:
            if not isinstance(one, Archive | str | os.PathLike):
                raise _no_archive(one)
            yield from each_archive(one)
    else:
        raise _no_archive(source)


def _no_archive(found: Any) -> DippError:
    return DippError(
        "source", f"an archive, the path of a .dipp file, or an iterable of those is needed, got {type(found).__name__}"
    )
