"""The archive: any number of images as indices in a `.dipp` file, and the certificate that covers every byte of it.

A header states all that is public (`header`, `docs/format.md`). The payloads of the images follow, and a checksum over
everything. Payloads of fixed length follow each other without a gap: image i of a run of equal-sized images starts at
bit i·B. Entropy-coded payloads take whole bytes each, and a table has their lengths. An archive keeps the bytes of the
file and unpacks the images that are asked for; it never holds the indices of all images.
"""

from __future__ import annotations

import itertools
import math
import mmap
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self, cast

import numpy as np

from dipp import files
from dipp.core.geometry import Geometry
from dipp.errors import FILE, DippError
from dipp.format.bytes import ByteReader, Integers, checked, column, damaged
from dipp.format.header import Header, checksum, without_checksum
from dipp.format.packing import FixedLayout, Layout, cut
from dipp.format.parameters import PublicParameters
from dipp.format.source import Flags
from dipp.privacy.certificate import Certificate
from dipp.privacy.ledger import Ledger

WORK = 1 << 20
"""Largest product of sizes and steps of any archive; a larger product needs at least as many bits in the file."""
MAP_FROM_BYTES = 1 << 26
"""Files of at least this number of bytes are mapped into memory instead of being read at once."""


@dataclass(frozen=True, eq=False)
class Archive:
    """The checked bytes of a file, and where its images are in it."""

    parameters: PublicParameters
    """All public parameters except the sizes of the images."""
    runs: Integers
    """A row (images, height, width) for each run of consecutive images of one size."""
    _data: memoryview
    _layouts: dict[Geometry, Layout]
    """How the images of each geometry are packed."""
    _images: Integers
    """Number of the first image of each run, followed by the number of all images."""
    _starts: Integers
    """First byte of each run in the file (of each image if lengths differ), followed by the end of the last one."""
    _certificate: Certificate | None
    grey: Flags
    """Whether the source of each image was grey, so that its channels are equal and are decoded as equal."""

    @classmethod
    def build(
        cls,
        parameters: PublicParameters,
        geometries: Sequence[Geometry],
        indices: Sequence[Sequence[int] | Integers] | Integers,
        *,
        recorded: Ledger | None = None,
        grey: Sequence[bool] = (),
    ) -> Self:
        """Return the archive of images that were encoded.

        Args:
            parameters: The public parameters of the encoding.
            geometries: Geometry of each image, all with the channels of the parameters.
            indices: Indices of each image, in the order of steps and chunks, as whole numbers.
            recorded: The ledger that the encoder wrote while it encoded. By default it is not compared.
            grey: Whether the source of each image was grey. By default no image was.

        Raises:
            DippError: The arguments do not fit together, or `recorded` is not the ledger of the plan.

        """
        if grey and len(grey) != len(geometries):
            raise DippError("grey", f"must have {len(geometries)} values, one for each image, got {len(grey)}")
        if len(geometries) != len(indices):
            raise DippError("indices", f"must have {len(geometries)} rows, one for each geometry, got {len(indices)}")
        if {geometry.channels for geometry in geometries} - {parameters.channels}:
            raise DippError(
                "images", f"must have {parameters.channels} channels", "make an archive for each number of channels"
            )
        sizes = [(len(list(run)), geometry) for geometry, run in itertools.groupby(geometries)]
        runs = np.array([(count, size.height, size.width) for count, size in sizes], np.int64).reshape(-1, 3)
        smallest = Header(parameters, runs, None).smallest
        parameters.require_recorded(smallest, recorded)
        payloads: list[bytes] = []
        lengths, at = [], 0
        for count, geometry in sizes:
            layout = parameters.layout(geometry)
            rows = _as_rows(indices[at : at + count], layout.indices)
            if isinstance(layout, FixedLayout):
                payloads.append(layout.pack(rows))
            else:
                payloads += layout.payloads(rows)
                lengths += [len(payload) - layout.least_bits // 8 for payload in payloads[at:]]
            at += count
        header = Header(parameters, runs, parameters.claim(smallest), np.array(grey, bool)).to_bytes()
        data = b"".join([header, column(np.array(lengths, np.int64)), *payloads])
        return cls.from_bytes(data + checksum(data))

    @classmethod
    def from_bytes(cls, data: bytes | mmap.mmap, *, verify: bool = True) -> Self:
        """Return the archive in the bytes of a file.

        Args:
            data: The whole file.
            verify: Whether to compute the checksum over all bytes. False suits a few images of a very large file.

        Raises:
            DippError: The file is damaged, or its certificate does not follow from its plan.
        """
        view = memoryview(data)
        inner = without_checksum(view, verify=verify)
        reader = ByteReader(inner)
        header = Header.read(reader)
        parameters, plan, runs = header.parameters, header.parameters.plan, header.runs
        counts = runs[:, 0]
        sizes, which = np.unique(runs[:, 1] << 32 | runs[:, 2], return_inverse=True)  # sides have 31 bits
        # Each cycle of the mask has an index, and each index a bit: a file that claims more is refused before any
        # arithmetic, and so is one of very many sizes and steps with next to nothing in most of them.
        work, least = len(sizes) * len(plan.steps), len(sizes) * plan.mask.least_steps(len(plan.steps))
        if least > 8 * reader.left or work > max(WORK, 8 * reader.left):
            raise damaged("its images need more bits than it has")
        geometries = [parameters.geometry(size >> 32, size & 0xFFFFFFFF) for size in sizes.tolist()]
        layouts = {geometry: parameters.layout(geometry) for geometry in geometries}
        each = np.array([layout.least_bits for layout in layouts.values()], np.int64)[which]
        # Floats first: the integers could overflow.
        if counts.astype(np.float64) @ each.astype(np.float64) > 8 * reader.left:
            raise damaged("its images need more bits than it has")
        if plan.code.fixed_length:
            lengths = -(-counts * each // 8)
        else:
            lengths = np.repeat(each // 8, counts)
            lengths += reader.column("lengths", len(lengths), 0, reader.left)
        starts = reader.at + np.concatenate([[0], np.cumsum(lengths)])
        if starts[-1] != len(inner):
            raise damaged("its length is wrong")
        if plan.code.fixed_length:
            ends = np.frombuffer(inner, np.uint8)[starts[1:] - 1]
            if (ends & ((1 << (8 * lengths - counts * each)) - 1)).any():
                raise damaged("padding after an image is not zero")
        images = np.concatenate([[0], np.cumsum(counts)])
        certificate = parameters.certificate(header.smallest)
        grey = header.grey if len(header.grey) else np.zeros(images[-1], bool)
        return cls(parameters, runs, view, layouts, images, starts, certificate, grey)

    def __repr__(self) -> str:
        images = "1 image" if len(self) == 1 else f"{len(self)} images"
        promise = "no certificate" if self._certificate is None else self._certificate.short()
        return f"<dipp.Archive: {images}, {self.file_bpp:.4g} bits per pixel, {promise}>"

    def __len__(self) -> int:
        """Number of images."""
        return int(self._images[-1])

    @property
    def certificate(self) -> Certificate:
        """The bound on what the file tells about any one unit, computed from its public parameters alone.

        A file that states other numbers cannot be opened.

        Raises:
            NoCertificateError: The coding has no differential-privacy guarantee.
        """
        self.parameters.plan.coding.require_certified()
        return cast("Certificate", self._certificate)

    def geometry(self, image: int) -> Geometry:
        """Return the height, width and channels of an image."""
        return self._geometry(self._run(image))

    def _geometry(self, run: int) -> Geometry:
        return self.parameters.geometry(*self.runs[run, 1:].tolist())

    def image_indices(self, image: int) -> Integers:
        """Return the indices of one image, in the order of steps and chunks. No other image is unpacked."""
        row: Integers = self.batch(image, image + 1)[0]
        return row

    def batch(self, first: int, last: int) -> Integers:
        """Return the indices of images of one geometry.

        Args:
            first: Number of the first image, from 0.
            last: Number of the image after the last one.

        Returns:
            The indices, of shape (last − first, indices) and dtype int64.

        Raises:
            DippError: The range is empty, or has images of several sizes.
        """
        runs = range(self._run(first), self._run(last - 1) + 1)
        sizes = set(map(self._geometry, runs))
        if first >= last or len(sizes) != 1:
            raise DippError(
                "first and last", f"must be the ends of a range of images of one size, got {first} and {last}"
            )
        layout = self._layouts[sizes.pop()]
        if not isinstance(layout, FixedLayout):
            ranges = itertools.pairwise(self._starts[first : last + 1].tolist())
            return layout.rows([bytes(self._data[low:high]) for low, high in ranges])
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
    def size(self) -> int:
        """Number of bytes of the file."""
        return len(self._data)

    @property
    def pixels(self) -> int:
        """Number of pixels of all images."""
        return sum(math.prod(run) for run in self.runs.tolist())

    @property
    def payload_bits(self) -> int:
        """Number of bits of all indices as they are coded, without header, lengths and checksums."""
        # Where lengths differ, each image has its own place in the file.
        lengths = np.diff(self._starts).tolist() if not self.parameters.plan.code.fixed_length else [0] * len(self)
        spans = itertools.pairwise(self._images.tolist())
        layouts = (self._layouts[self._geometry(run)] for run in range(len(self.runs)))
        return sum(layout.payload_bits(lengths[low:high]) for layout, (low, high) in zip(layouts, spans, strict=True))

    @property
    def payload_bpp(self) -> float:
        """Bits per pixel of the indices alone, which research articles compare."""
        return self.payload_bits / max(self.pixels, 1)

    @property
    def file_bpp(self) -> float:
        """Bits per pixel of the whole file."""
        return 8 * len(self._data) / max(self.pixels, 1)

    def facts(self) -> dict[str, Any]:
        """Return what the file states as a dictionary for JSON: certificate, rates, plan, model and seed."""
        plan, certified = self.parameters.plan, self.parameters.plan.coding.certified
        return {
            "certificate": self.certificate.to_dict() if certified else None,
            "whole": whole_facts(self._certificate, self._layouts),
            "payload_bpp": self.payload_bpp,
            "file_bpp": self.file_bpp,
            "images": len(self),
            "pixels": sum(images * height * width for images, height, width in self.runs.tolist()),
            "coding": plan.coding.name,
            "channel": plan.channel.name,
            "code": plan.code.name,
            "alpha": plan.code.alpha_name,
            "schedule": [step.to_dict() for step in plan.steps],
            "model": self.parameters.model,
            "latents": None if self.parameters.latents is None else asdict(self.parameters.latents),
            "prompt": self.parameters.prompt,
            "seed": self.parameters.seed.hex(),
            "seed_given": self.parameters.seed_given,
            "beacon": _beacon_facts(self.parameters),
            "window": None if self.parameters.window is None else str(self.parameters.window),
            "grey": int(self.grey.sum()),
        }

    def to_bytes(self) -> bytes:
        """Return the bytes of the file."""
        return bytes(self._data)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)

    def save(self, path: str | Path) -> None:
        """Write the file. A failure leaves nothing at its path.

        Args:
            path: Path of the file, which is replaced if it exists.
        """
        with files.atomic(Path(path)) as part:
            part.write_bytes(self._data)


def whole_facts(certificate: Certificate | None, geometries: Iterable[Geometry]) -> dict[str, Any] | None:
    """Return the size and the price of the picture that has the most units, as a dictionary for JSON.

    Args:
        certificate: The certificate of the pictures.
        geometries: The geometries of the pictures.

    Returns:
        Its height, width, ε and ρ. None without a certificate, without pictures, or if units do not cover a picture.

    """
    if certificate is None or certificate.unit.beyond:
        return None
    largest = certificate.unit.largest(geometries)
    if largest is None:
        return None
    whole = certificate.for_picture(largest)
    return {"height": largest.height, "width": largest.width, "epsilon": whole.epsilon, "rho": whole.rho}


def _beacon_facts(parameters: PublicParameters) -> dict[str, Any] | None:
    """Return the beacon of the seed as a dictionary for JSON; None without a beacon."""
    beacon = parameters.beacon
    return None if beacon is None else {"round": beacon.round, "value": beacon.value.hex(), "own": beacon.own.hex()}


def _as_rows(indices: Any, length: int) -> Integers:
    """Return the indices of images of one size as an array (images, length), or raise if they have another length."""
    try:
        rows = np.array(indices)
    except ValueError:
        rows = np.zeros(0)
    if rows.shape[1:] != (length,) or rows.dtype.kind not in "iu":
        raise DippError("indices", f"must have {length} integers for each image of its size")
    return rows


def open(path: str | Path, *, verify: bool = True) -> Archive:  # noqa: A001 - users say dipp.open
    """Return the archive in a file. A large file is mapped into memory, and read where it is needed.

    Args:
        path: Path of a `.dipp` file.
        verify: Whether to compute the checksum over all bytes. False reads little more than the header.

    Raises:
        DippError: The file cannot be read, is damaged, or states another certificate than its plan has.
    """
    path = Path(path)
    try:
        if path.is_dir():
            raise DippError(FILE, "is a folder", "open a dataset by dipp.load")
        if not path.is_file():
            raise DippError(FILE, "does not exist")
        with path.open("rb") as file:
            large = os.fstat(file.fileno()).st_size >= MAP_FROM_BYTES
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if large else file.read()
        return Archive.from_bytes(data, verify=verify)
    except OSError as error:
        raise DippError(str(path), f"cannot be read ({error.strerror})") from None
    except DippError as error:
        raise error.within(path) from None
