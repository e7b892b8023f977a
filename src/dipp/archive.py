"""Archives: images as indices in a `.dipp` file, one or a million, with the certificate that covers every byte.

A header says all that is public (`header`, `docs/format.md`); the payloads follow, then a checksum over everything.
Fixed-length payloads of a run of equal-sized images are packed bit to bit: image i of the run starts at bit i·B. Zeta
coded ones are whole bytes, with a table of their lengths. An archive keeps the file's bytes and decodes what is asked
for; it never holds the indices of all images.
"""

from __future__ import annotations

import binascii
import contextlib
import functools
import itertools
import math
import mmap
import os
import secrets
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from dipp import entropy
from dipp.channels import Sign
from dipp.errors import DippError
from dipp.header import MAX_PIXELS, Certificate, Header, Integers, Reader, check_kind, checked, column, damaged
from dipp.plan import Plan

Shape = tuple[int, int, int]
"""Height, width, channels."""

CHECKSUM_FROM_BITS = 512
"""Images whose indices have at least so many bits carry a checksum of their own: it costs 3 % at most."""
CHECKSUM_BITS = 16
TRAILER_BYTES = 4
ROW_INDICES = 4096
"""Images of more indices are unpacked step by step: a row at a time would take hundreds of bytes an index."""
MAP_FROM_BYTES = 1 << 26
"""Larger files are mapped, and not read at once."""


def chunk_counts(plan: Plan, shape: Shape) -> tuple[int, ...]:
    """How many chunks, and so indices, each step of an image has: public, from the plan and the size alone."""
    height, width, channels = shape
    return _chunk_counts(plan, height * width, channels)


def _chunk_counts(plan: Plan, pixels: int, channels: int) -> tuple[int, ...]:
    checked("pixels", pixels, 1, MAX_PIXELS)
    period = _period(plan, channels)
    touched = (_touched(period, number, pixels, channels) for number in range(len(plan.steps)))
    counts = tuple(-(-dims // step.chunk_size) for dims, step in zip(touched, plan.steps, strict=True))
    if not all(counts):
        raise DippError(f"shape: {pixels} pixels are too few, some step would touch none of them; use a larger image")
    return counts


def _period(plan: Plan, channels: int) -> int:
    """Steps after which every coordinate was touched once."""
    period = plan.mechanism.channel.period if isinstance(plan.mechanism.channel, Sign) else 1
    if 1 < period < channels:
        raise DippError(f"period: 1, or at least the {channels} channels, is needed, got {period}")
    return period


def _touched(period: int, number: int, pixels: int, channels: int) -> int:
    """Coordinates that a step touches: the length of `Sign.touched`, in closed form.

    A pixel's rank r and a channel's position p fill slot (r + p·q) mod P, q = ⌊P/C⌋. Whole cycles of P ranks fill every
    slot C times. The m ranks that are left fill slot s once for each p·q from s − m + 1 to s or, going round, above
    s − m + P.
    """
    if period == 1:
        return pixels * channels
    slot, (cycles, left) = number % period, divmod(pixels, period)

    def positions_up_to(place: int) -> int:
        return min(max(place // (period // channels) + 1, 0), channels)

    inside = positions_up_to(slot) - positions_up_to(slot - left)
    return cycles * channels + inside + channels - positions_up_to(slot - left + period)


def certificate(plan: Plan, channels: int, pixels: int, separate: bool) -> Certificate | None:
    """ε and ρ of the worst pixel of images with at least so many pixels, from the plan's integers; None if it has none.

    **Proof sketch.** Let one pixel change. A selection in which t of its coordinates take part moves by t·s units at
    most: it is (t·a + η)-DP, with a bounded range of that size, where a + η = ε₁ belongs to t = 1 (`selection`). This
    holds whatever was selected before, so the ε of the selections add up, and so do their ρ = ε²/8.

    Where a step touches all C coordinates, they take part in k ≤ C selections with Σt = C. The ε add up to C·a + k·η
    ≤ C·ε₁, and their squares to no more than (C·ε₁)². Dealt to different chunks, they are C selections with t = 1 and
    squares C·ε₁². That is so where `separate` is set and the step has at least C chunks; the smallest image has the
    fewest, and so is the worst.

    A sign channel of period P ≥ C touches one coordinate of a pixel or none. In every cycle of P steps, a pixel of rank
    r is touched in the C slots r + p·⌊P/C⌋ mod P. Ranks are shuffled anew in each cycle, so the worst pixel meets the
    worst r in each.

    **Rounding.** ε₁ is rounded up by 2^−50 of itself, more than the few operations here can lose; fsum rounds once.
    Nothing depends on the platform, so that a stored certificate is compared to the last bit.
    """
    arithmetics = [plan.arithmetic(step) for step in plan.steps]
    period = _period(plan, channels)
    if not plan.mechanism.certified:
        return None
    losses = [arithmetic.epsilon() for arithmetic in arithmetics]
    if period > 1:
        pairs = list(_worst_cycles(losses, period, channels))
    else:
        apart = [separate and count >= channels for count in _chunk_counts(plan, pixels, channels)]
        pairs = [
            (channels * e, channels * e**2 if one else (channels * e) ** 2)
            for e, one in zip(losses, apart, strict=True)
        ]
    return Certificate(math.fsum(pure for pure, _ in pairs), math.fsum(square for _, square in pairs) / 8)


def _worst_cycles(losses: list[float], period: int, channels: int) -> Iterable[tuple[float, float]]:
    """For each cycle the largest Σε and the largest Σε² over the ranks mod P."""
    for first in range(0, len(losses), period):
        met = defaultdict(list)
        for slot, loss in enumerate(losses[first : first + period]):
            for position in range(channels):
                met[(slot - position * (period // channels)) % period].append(loss)
        yield max(map(math.fsum, met.values())), max(math.fsum(loss**2 for loss in one) for one in met.values())


@dataclass(frozen=True)
class _Layout:
    """What every image of a size has in the file: as many indices of each step, and perhaps a checksum."""

    plan: Plan
    counts: tuple[int, ...]

    @functools.cached_property
    def indices(self) -> int:
        return sum(self.counts)

    @functools.cached_property
    def index_bits(self) -> int:
        """Bits of all indices at fixed length."""
        return sum(count * step.index_bits for count, step in zip(self.counts, self.plan.steps, strict=True))

    @property
    def has_checksum(self) -> bool:
        return self.index_bits >= CHECKSUM_FROM_BITS

    @property
    def least_bits(self) -> int:
        """Fewest bits of an image in the file, and all of them at fixed length.

        Zeta coded indices take a bit each, at least, in whole bytes: the likeliest would cost nothing, and a small file
        must not ask for endless work. Shorter payloads are filled up with zeros.
        """
        bits = 8 * self._least_bytes if self.plan.mechanism.ordered else self.index_bits
        return bits + CHECKSUM_BITS * self.has_checksum

    @property
    def _least_bytes(self) -> int:
        return -(-self.indices // 8)

    @functools.cached_property
    def _groups(self) -> list[tuple[int, int]]:
        """How many numbers of how many bits follow each other in an image of fixed length."""
        groups = [(count, step.index_bits) for count, step in zip(self.counts, self.plan.steps, strict=True)]
        return groups + [(1, CHECKSUM_BITS)] * self.has_checksum

    @functools.cached_property
    def _row_code(self) -> entropy.FixedLength:
        return entropy.FixedLength(tuple(width for count, width in self._groups for _ in range(count)))

    @functools.cached_property
    def _zeta_codes(self) -> list[entropy.ZetaCode]:
        """The code of each index."""
        codes = [entropy.ZetaCode(1 << s.index_bits, Fraction(s.exponent_units, 64)) for s in self.plan.steps]
        return [code for code, count in zip(codes, self.counts, strict=True) for _ in range(count)]

    def pack(self, rows: Integers) -> bytes:
        """Images × indices at fixed length, each with its checksum, bit to bit."""
        return self._row_code.pack(np.hstack([rows, _checksums(rows)]) if self.has_checksum else rows)

    def unpack(self, data: bytes, images: int) -> Integers:
        """The rows that `pack` packed."""
        if self.indices <= ROW_INDICES:
            return self._verified(self._row_code.unpack(data, images))
        return self._verified(np.stack([self._unpack_one(data, i * self.least_bits) for i in range(images)]))

    def _unpack_one(self, data: bytes, at: int) -> Integers:
        parts = []
        for count, width in self._groups:
            part = _cut(data, at, at + count * width)
            parts.append(entropy.FixedLength((width,)).unpack(part, count)[:, 0])
            at += count * width
        return np.concatenate(parts)

    def encode(self, row: Integers) -> bytes:
        """The zeta coded indices of an image, and their checksum."""
        coded = entropy.encode(zip(self._zeta_codes, row.tolist(), strict=True)).ljust(self._least_bytes, b"\0")
        return coded + int(_checksums(row[None])[0, 0]).to_bytes(2, "big") if self.has_checksum else coded

    def decode(self, data: bytes) -> Integers:
        """The row that `encode` encoded."""
        coded, checksum = (data[:-2], data[-2:]) if self.has_checksum else (data, b"")
        shortest = coded.rstrip(b"\0")
        if len(coded) > max(len(shortest), self._least_bytes):
            raise damaged("an image is longer than needed")
        row = entropy.decode(shortest, self._zeta_codes) + [int.from_bytes(checksum, "big")] * self.has_checksum
        return self._verified(np.array([row], np.int64)).reshape(-1)

    def _verified(self, rows: Integers) -> Integers:
        if self.has_checksum and (_checksums(rows[:, :-1]) != rows[:, -1:]).any():
            raise damaged("the checksum of an image is wrong")
        return rows[:, : self.indices]


def _checksums(rows: Integers) -> Integers:
    """CRC-16 of each row, the indices as four bytes each with the highest first; a column."""
    return np.array([[binascii.crc_hqx(row, 0xFFFF)] for row in np.ascontiguousarray(rows, ">u4")], np.int64)


def _cut(data: bytes | memoryview, low: int, high: int) -> bytes:
    """Bits low … high − 1, the highest of a byte first, as a byte string of their own, filled up with zeros."""
    value = int.from_bytes(data[low // 8 : -(-high // 8)], "big") >> -high % 8
    bits = high - low
    return ((value & ((1 << bits) - 1)) << -bits % 8).to_bytes(-(-bits // 8), "big")


@dataclass(frozen=True, eq=False)
class Archive:
    """The bytes of a file, checked, and where its images are."""

    header: Header
    _data: memoryview
    _layouts: dict[int, _Layout]
    """By number of pixels."""
    _images: Integers
    """Number of the first image of each run, and of images."""
    _starts: Integers
    """Where each run starts in the file, or each image if they are zeta coded, and where the last ends."""

    @classmethod
    def build(
        cls,
        plan: Plan,
        model: str,
        seed: bytes,
        shapes: Sequence[Shape],
        indices: Sequence[Sequence[int] | Integers] | Integers,
        *,
        separate: bool = False,
        delta: float | None = None,
    ) -> Archive:
        """Archive images, given their sizes and, in the order of steps and chunks, their indices."""
        if len(shapes) != len(indices):
            raise DippError(f"shapes, indices: one of each an image is needed, got {len(shapes)} and {len(indices)}")
        if len({channels for _, _, channels in shapes}) > 1:
            raise DippError("shapes: images with one number of channels are needed; make an archive for each")
        channels = shapes[0][2] if shapes else 1
        sizes = [(len(list(run)), height, width) for (height, width, _), run in itertools.groupby(shapes)]
        for _, height, width in sizes:
            checked("height", height, 1, MAX_PIXELS)
            checked("width", width, 1, MAX_PIXELS)
        runs = np.array(sizes, np.int64).reshape(-1, 3)
        header = Header(plan, model, seed, channels, separate, runs, _worst(plan, channels, runs, separate), delta)
        layout_of = functools.cache(lambda pixels: _Layout(header.plan, _chunk_counts(plan, pixels, channels)))
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
        if header.certificate != _worst(plan, header.channels, runs, header.separate):
            raise DippError("the certificate in the file is not the one of its plan; do not trust the file")
        counts, pixels = runs[:, 0], runs[:, 1] * runs[:, 2]
        sizes, which = np.unique(pixels, return_inverse=True)
        # An image has an index a step, and an index has a bit: whoever claims more is not worth the arithmetic.
        if len(sizes) * len(plan.steps) > 8 * reader.left:
            raise damaged("its images do not fit into it")
        layouts = [_Layout(plan, _chunk_counts(plan, size, header.channels)) for size in sizes.tolist()]
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
        return cls(header, view, dict(zip(sizes.tolist(), layouts, strict=True)), images, starts)

    def __len__(self) -> int:
        """Number of images."""
        return int(self._images[-1])

    @property
    def certificate(self) -> Certificate | None:
        """ε and ρ of the worst pixel; None if the mechanism has none."""
        return self.header.certificate

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
            bits = _cut(data, int(low) * layout.least_bits, int(high) * layout.least_bits)
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

    def _sizes(self) -> Iterable[tuple[int, _Layout]]:
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
        path = Path(path)
        part = path.parent / f".{secrets.token_hex(8)}.part"
        try:
            with part.open("xb") as file:
                file.write(self._data)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except OSError as error:
            raise DippError(f"{path}: cannot be written ({error.strerror})") from None
        finally:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)


def _worst(plan: Plan, channels: int, runs: Integers, separate: bool) -> Certificate | None:
    return certificate(plan, channels, int((runs[:, 1] * runs[:, 2]).min(initial=MAX_PIXELS)), separate)


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
