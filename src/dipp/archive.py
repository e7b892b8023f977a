"""Archives: images as indices in a `.dipp` file, one or a million, with the certificate that covers every byte.

A header says all that is public (`header`, `docs/format.md`); the payloads follow, then a checksum over everything.
Fixed-length payloads of a run of equal-sized images are packed bit to bit: image i of the run starts at bit i·B. Zeta
coded ones are whole bytes, with a table of their lengths. An archive keeps the file's bytes and decodes what is asked
for; it never holds the indices of all images.
"""

from __future__ import annotations

import functools
import itertools
import math
import mmap
import os
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dipp import files
from dipp.errors import DippError, NoCertificateError
from dipp.header import MAX_PIXELS, Header, Integers, Reader, check_kind, checked, column, damaged
from dipp.layout import CHECKSUM_BITS, Layout, Shape, counts_of, cut, least_indices
from dipp.plan import Plan
from dipp.privacy.certificate import Certificate
from dipp.privacy.ledger import Ledger

TRAILER_BYTES = 4
WORK = 1 << 20
"""Sizes × steps of any archive; more must have as many bits."""
MAP_FROM_BYTES = 1 << 26
"""Larger files are mapped, and not read at once."""


@dataclass(frozen=True, eq=False)
class Archive:
    """The bytes of a file, checked, and where its images are."""

    header: Header
    _data: memoryview
    _layouts: dict[int, Layout]
    """By number of pixels."""
    _images: Integers
    """Number of the first image of each run, and of images."""
    _starts: Integers
    """Where each run starts in the file, or each image if they are zeta coded, and where the last ends."""
    _certificate: Certificate | None

    @classmethod
    def build(
        cls,
        plan: Plan,
        model: str,
        seed: bytes,
        shapes: Sequence[Shape],
        indices: Sequence[Sequence[int] | Integers] | Integers,
        *,
        delta: float | None = None,
        recorded: Ledger | None = None,
        channels: int = 1,
    ) -> Archive:
        """Archive images, given their sizes and, in the order of steps and chunks, their indices.

        `recorded` is what the encoder wrote down as it went: nothing is archived if that is not what the plan says,
        from which the certificate is made, here and by every reader. `channels` is for an
        archive without any images.
        """
        if len(shapes) != len(indices):
            raise DippError(f"shapes, indices: one of each an image is needed, got {len(shapes)} and {len(indices)}")
        if len({channels for _, _, channels in shapes}) > 1:
            raise DippError("shapes: images with one number of channels are needed; make an archive for each")
        channels = shapes[0][2] if shapes else channels
        sizes = [(len(list(run)), height, width) for (height, width, _), run in itertools.groupby(shapes)]
        for _, height, width in sizes:
            checked("height", height, 1, MAX_PIXELS)
            checked("width", width, 1, MAX_PIXELS)
        runs = np.array(sizes, np.int64).reshape(-1, 3)
        found = _certificate(plan, channels, runs, delta)
        if recorded is not None and (found is None or found.releases != (recorded,)):
            raise DippError("ledger: what the encoder did is not what its plan says; nothing is written, report this")
        claim = None if found is None else (found.epsilon, found.rho)
        header = Header(plan, model, seed, channels, runs, claim, delta)
        layout_of = functools.cache(lambda pixels: Layout(header.plan, counts_of(plan, pixels, channels)))
        payloads: list[bytes] = []
        lengths, at = [], 0
        for count, height, width in sizes:
            layout = layout_of(height * width)
            rows = _as_rows(indices[at : at + count], layout.indices)
            if plan.mechanism.ordered:
                payloads += map(layout.encode, rows)
                lengths += [len(payload) - layout.least_bits // 8 for payload in payloads[at:]]
            else:
                payloads.append(layout.pack(rows))
            at += count
        data = b"".join([header.to_bytes(), column(np.array(lengths, np.int64)), *payloads])
        return cls.from_bytes(data + zlib.crc32(data).to_bytes(TRAILER_BYTES, "little"))

    @classmethod
    def from_bytes(cls, data: bytes | mmap.mmap, *, verify: bool = True) -> Archive:
        """Check and take over the bytes of a file; verify = False skips the checksum, for a few images of very many."""
        view = memoryview(data)
        check_kind(bytes(view[:5]))
        inner, trailer = view[:-TRAILER_BYTES], view[-TRAILER_BYTES:]
        if verify and zlib.crc32(inner) != int.from_bytes(trailer, "little"):
            raise damaged("its checksum is wrong")
        reader = Reader(inner)
        header = Header.read(reader)
        plan, runs = header.plan, header.runs
        found = _certificate(plan, header.channels, runs, header.delta)
        if header.claim != (None if found is None else (found.epsilon, found.rho)):
            raise DippError("the certificate in the file is not the one of its plan; do not trust the file")
        counts, pixels = runs[:, 0], runs[:, 1] * runs[:, 2]
        sizes, which = np.unique(pixels, return_inverse=True)
        # An image has an index a cycle, and an index has a bit: whoever claims more is not worth the arithmetic.
        # Nor is one of very many sizes and steps, with next to nothing in most of them.
        work = len(sizes) * len(plan.steps)
        if len(sizes) * least_indices(plan, header.channels) > 8 * reader.left or work > max(WORK, 8 * reader.left):
            raise damaged("its images do not fit into it")
        layouts = [Layout(plan, counts_of(plan, size, header.channels)) for size in sizes.tolist()]
        each = np.array([layout.least_bits for layout in layouts], np.int64)[which]
        # Floats first: the integers could overflow.
        if counts.astype(np.float64) @ each.astype(np.float64) > 8 * reader.left:
            raise damaged("its images do not fit into it")
        if plan.mechanism.ordered:
            lengths = np.repeat(each // 8, counts)
            lengths += reader.column("lengths", len(lengths), 0, reader.left)
        else:
            lengths = -(-counts * each // 8)
        starts = reader.at + np.concatenate([[0], np.cumsum(lengths)])
        if starts[-1] != len(inner):
            raise damaged("its length is wrong")
        if not plan.mechanism.ordered:
            ends = np.frombuffer(inner, np.uint8)[starts[1:] - 1]
            if (ends & ((1 << (8 * lengths - counts * each)) - 1)).any():
                raise damaged("bits behind an image are not zero")
        images = np.concatenate([[0], np.cumsum(counts)])
        return cls(header, view, dict(zip(sizes.tolist(), layouts, strict=True)), images, starts, found)

    def __len__(self) -> int:
        """Number of images."""
        return int(self._images[-1])

    @property
    def certificate(self) -> Certificate:
        """What the file may have told about any one pixel, from its public parameters alone.

        A file whose own numbers differ is not opened. A mechanism that has no certificate raises.
        """
        if self._certificate is None:
            name = self.header.plan.mechanism.name
            raise NoCertificateError(f"{name}: it is not differentially private, so this file has no certificate")
        return self._certificate

    @property
    def ledger(self) -> Ledger:
        """The selections that the file is made of."""
        return self.certificate.ledger

    def shape(self, image: int) -> Shape:
        """Height, width and channels of an image."""
        _, height, width = self.header.runs[self._run(image)].tolist()
        return height, width, self.header.channels

    def image_indices(self, image: int) -> Integers:
        """The indices of one image, in the order of steps and chunks, decoded without any other."""
        row: Integers = self.batch(image, image + 1)[0]
        return row

    def batch(self, first: int, last: int) -> Integers:
        """The indices of images first … last − 1, a row each; they must have equally many pixels."""
        runs = range(self._run(first), self._run(last - 1) + 1)
        sizes = {height * width for _, height, width in self.header.runs[runs.start : runs.stop].tolist()}
        if first >= last or len(sizes) != 1:
            raise DippError(f"first, last: one or more images of one size are needed, got {first} and {last}")
        layout = self._layouts[sizes.pop()]
        if layout.plan.mechanism.ordered:
            ranges = itertools.pairwise(self._starts[first : last + 1].tolist())
            return np.stack([layout.decode(bytes(self._data[low:high])) for low, high in ranges])
        parts = []
        for run in runs:
            low, high = np.clip([first, last], *self._images[run : run + 2]) - self._images[run]
            data = self._data[self._starts[run] : self._starts[run + 1]]
            bits = cut(data, int(low) * layout.least_bits, int(high) * layout.least_bits)
            parts.append(layout.unpack(bits, int(high - low)))
        return np.concatenate(parts)

    def _run(self, image: int) -> int:
        checked("image", image, 0, len(self) - 1)
        return int(np.searchsorted(self._images, image, side="right")) - 1

    @property
    def pixels(self) -> int:
        """Pixels of all images."""
        return sum(math.prod(run) for run in self.header.runs.tolist())

    @property
    def payload_bits(self) -> int:
        """Bits of all indices as they are coded, without header, lengths and checksums."""
        if self.header.plan.mechanism.ordered:
            checksums = sum(count * layout.has_checksum for count, layout in self._sizes())
            return 8 * int(self._starts[-1] - self._starts[0]) - checksums * CHECKSUM_BITS
        return sum(count * layout.index_bits for count, layout in self._sizes())

    def _sizes(self) -> Iterable[tuple[int, Layout]]:
        return ((count, self._layouts[height * width]) for count, height, width in self.header.runs.tolist())

    @property
    def payload_bpp(self) -> float:
        """Bits a pixel of the indices alone: what papers compare."""
        return self.payload_bits / max(self.pixels, 1)

    @property
    def file_bpp(self) -> float:
        """Bits a pixel of the whole file."""
        return 8 * len(self._data) / max(self.pixels, 1)

    def to_bytes(self) -> bytes:
        """The file."""
        return bytes(self._data)

    def __reduce__(self) -> tuple[Any, ...]:
        return Archive.from_bytes, (self.to_bytes(),)

    def save(self, path: str | Path) -> None:
        """Write the file at once or not at all: to another name in the same folder, then renamed."""
        with files.atomic(Path(path)) as part:
            part.write_bytes(self._data)


def _certificate(plan: Plan, channels: int, runs: Integers, delta: float | None) -> Certificate | None:
    """That of the smallest image, which is the worst; None where the mechanism has none."""
    if not plan.mechanism.certified:
        return None
    return Certificate.of(plan, channels, int((runs[:, 1] * runs[:, 2]).min(initial=MAX_PIXELS)), delta)


def _as_rows(indices: Any, length: int) -> Integers:
    """Images of one size as an array of integers."""
    try:
        rows = np.array(indices)
    except ValueError:
        rows = np.zeros(0)
    if rows.shape[1:] != (length,) or rows.dtype.kind not in "iu":
        raise DippError(f"indices: {length} integers are needed for each image of its size")
    return rows


def open(path: str | Path, *, verify: bool = True) -> Archive:  # noqa: A001 - users say dipp.open
    """Open a file; a large one is mapped, and read where it is needed. verify = False reads the header only."""
    path = Path(path)
    try:
        if not path.is_file():
            raise DippError("there is no such file")
        with path.open("rb") as file:
            large = os.fstat(file.fileno()).st_size >= MAP_FROM_BYTES
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if large else file.read()
        return Archive.from_bytes(data, verify=verify)
    except OSError as error:
        raise DippError(f"{path}: cannot be read ({error.strerror})") from None
    except DippError as error:
        raise DippError(f"{path}: {error}") from None
