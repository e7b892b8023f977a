"""`Jpeg`, a picture as the quantised DCT coefficients of its blocks, with functions that read and write files.

A written file depends on the `Jpeg` alone: baseline, one interleaved scan, the best Huffman tables for the written
coefficients, no restart intervals, and only the application segments that say what the numbers mean. So a file that
was read and written again keeps nothing of its Huffman tables, scan script, restart intervals, metadata, previews or
trailers. Two files with equal `Jpeg`s become the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dipp.errors import DippError
from dipp.models.denoiser import MAX_PICTURE
from dipp.redaction.jpeg import huffman, scans, segments
from dipp.redaction.jpeg.segments import Scan, Segments, damaged

BLOCK = 8
MAX_BLOCKS = 10
"""Largest number of blocks of an MCU in an interleaved scan."""
LARGEST_AC, LARGEST_DC = 10, 11
"""Largest number of bits of an AC coefficient, and of the difference between two DC coefficients."""

Plane = NDArray[np.int16]


@dataclass(frozen=True, eq=False)
class Component:
    """A component of a picture, such as luma: its sampling, its quantisation and its coefficients."""

    across: int
    down: int
    """Numbers of blocks in an MCU, horizontally (`across`) and vertically (`down`)."""
    quantisation: NDArray[np.int64]
    """Quantisation table (64,), row by row."""
    blocks: Plane
    """Quantised coefficients (rows, columns, 64), row by row; blocks fill whole MCUs."""


@dataclass(frozen=True, eq=False)
class Jpeg:
    """A picture as quantised DCT coefficients."""

    width: int
    height: int
    components: tuple[Component, ...]
    rgb: bool = False
    """Whether the three components are red, green and blue; otherwise they are luma and chroma."""
    orientation: int = 1
    """EXIF orientation, 1 to 8."""
    profile: bytes = b""
    """ICC profile; empty if the picture has no profile."""

    @property
    def mcu(self) -> tuple[int, int]:
        """Height and width of an MCU in pixels."""
        return (
            BLOCK * max(component.down for component in self.components),
            BLOCK * max(component.across for component in self.components),
        )

    @property
    def mcus(self) -> tuple[int, int]:
        """Numbers of rows and columns of MCUs."""
        tall, wide = self.mcu
        return -(-self.height // tall), -(-self.width // wide)

    def with_blocks(self, blocks: tuple[Plane, ...]) -> Jpeg:
        """Return the same picture with other coefficients."""
        parts = zip(self.components, blocks, strict=True)
        return replace(self, components=tuple(replace(component, blocks=plane) for component, plane in parts))


def read(content: bytes) -> Jpeg:
    """Return the picture in a JPEG file: baseline, extended or progressive, grey or colour, any usual chroma sampling.

    Raises:
        DippError: The file is damaged, too large, in CMYK, or coded in a rare way that is not supported.
    """
    parsed = segments.parse(content)
    if parsed.width * parsed.height > MAX_PICTURE:
        raise DippError(
            "image",
            f"must have at most {MAX_PICTURE >> 20} megapixels, got {parsed.width}×{parsed.height}",
            "scale it down",
        )
    factors = (
        [(1, 1)]
        if len(parsed.components) == 1
        else [(component.across, component.down) for component in parsed.components]
    )
    most_across, most_down = (max(factor[axis] for factor in factors) for axis in (0, 1))
    if any(most_across % across or most_down % down for across, down in factors):
        raise DippError("image", "is a JPEG with fractional chroma sampling, which is not supported", "save it again")
    if sum(across * down for across, down in factors) > MAX_BLOCKS:
        raise DippError("image", f"must be a JPEG of at most {MAX_BLOCKS} blocks in an MCU", "save it again")
    mcus = -(-parsed.height // (BLOCK * most_down)), -(-parsed.width // (BLOCK * most_across))
    shapes = [(mcus[0] * down, mcus[1] * across) for across, down in factors]
    offsets = np.cumsum([0, *(math.prod(shape) * 64 for shape in shapes)])
    coefficients = np.zeros(int(offsets[-1]), np.int16)
    for scan in parsed.scans:
        _read_scan(parsed, scan, factors, mcus, shapes, offsets, coefficients)
    planes = [coefficients[offsets[at] : offsets[at + 1]].reshape(*shape, 64) for at, shape in enumerate(shapes)]
    parts = zip(factors, _tables(parsed), planes, strict=True)
    components = tuple(Component(across, down, table, plane) for (across, down), table, plane in parts)
    profile = b"".join(parsed.profile[number] for number in sorted(parsed.profile))
    picture = Jpeg(parsed.width, parsed.height, components, _is_rgb(parsed), parsed.orientation, profile)
    for component in components:
        fill_up(component, blocks_of(picture, component))
    return picture


def _tables(parsed: Segments) -> list[NDArray[np.int64]]:
    """Return the quantisation table of each component."""
    if any(component.table not in parsed.quantisation for component in parsed.components):
        raise damaged("a quantisation table is missing")
    return [parsed.quantisation[component.table] for component in parsed.components]


def _is_rgb(parsed: Segments) -> bool:
    """Return whether three components are red, green and blue, by the rule that all common decoders follow."""
    if len(parsed.components) != 3 or parsed.jfif:
        return False
    if parsed.adobe is not None:
        return parsed.adobe == 0
    return bytes(component.name for component in parsed.components) == b"RGB"


def _real(size: tuple[int, int], mcu: tuple[int, int], factor: tuple[int, int]) -> tuple[int, int]:
    """Return the numbers of rows and columns of a component's blocks that belong to the picture.

    Args:
        size: Height and width of the picture in pixels.
        mcu: Height and width of an MCU in pixels.
        factor: Numbers of the component's blocks in an MCU, horizontally and vertically.
    """
    (height, width), (tall, wide), (across, down) = size, mcu, factor
    samples = -(-height * down * BLOCK // tall), -(-width * across * BLOCK // wide)
    return -(-samples[0] // BLOCK), -(-samples[1] // BLOCK)


def _read_scan(
    parsed: Segments,
    scan: Scan,
    factors: list[tuple[int, int]],
    mcus: tuple[int, int],
    shapes: list[tuple[int, int]],
    offsets: NDArray[np.int64],
    coefficients: NDArray[np.int16],
) -> None:
    """Read one scan into the array of all coefficients.

    Args:
        parsed: The segments of the file.
        scan: The scan.
        factors: Horizontal and vertical sampling factor of each component.
        mcus: Numbers of rows and columns of MCUs.
        shapes: Numbers of rows and columns of blocks of each component.
        offsets: Position in `coefficients` at which each component begins.
        coefficients: The coefficients of all components, which are changed in place.
    """
    rows = []
    mcu = BLOCK * max(down for _, down in factors), BLOCK * max(across for across, _ in factors)
    for component in scan.components:
        across, down = factors[component]
        if len(scan.components) == 1:  # an MCU is one block, and blocks beyond the picture are not coded
            down_blocks, across_blocks = _real((parsed.height, parsed.width), mcu, factors[component])
            rows.append((offsets[component], shapes[component][1], 1, 1, across_blocks, down_blocks, 0))
        else:
            rows.append((offsets[component], shapes[component][1], across, down, mcus[1], mcus[0], 0))
    kind = _kind(parsed, scan)
    ended = scans.read(
        scan.data,
        scan.bounds,
        scan.restart,
        kind,
        np.array([scan.first, scan.last, scan.high, scan.low], np.int64),
        np.array(rows, np.int64),
        np.stack([huffman.lookup(table) for table in scan.dc]),
        np.stack([huffman.lookup(table) for table in scan.ac]),
        coefficients,
    )
    if ended != scans.WHOLE:
        raise damaged("it ends early" if ended == scans.CUT else "a code is wrong")


def blocks_of(picture: Jpeg, component: Component) -> tuple[int, int]:
    """Return the numbers of rows and columns of a component's blocks that belong to the picture.

    Further blocks only fill up the last MCUs.

    Args:
        picture: The picture.
        component: A component of it.
    """
    return _real((picture.height, picture.width), picture.mcu, (component.across, component.down))


def fill_up(component: Component, real: tuple[int, int]) -> None:
    """Make the blocks that only fill up MCUs as `write` writes them: flat, at the level of the block before.

    Files have arbitrary values in these blocks, or none. Painting must not depend on values that are not written.

    Args:
        component: The component, which is changed in place.
        real: Numbers of rows and columns of blocks that belong to the picture.
    """
    across, down, blocks = component.across, component.down, component.blocks
    rows, columns = (np.arange(length) >= most for length, most in zip(blocks.shape[:2], real, strict=True))
    for number in range(1, across * down):
        row, column = divmod(number, across)
        before = divmod(number - 1, across)
        beyond = (rows[row::down, None] | columns[None, column::across])[..., None]
        flat = np.zeros_like(blocks[row::down, column::across])
        flat[..., 0] = blocks[before[0] :: down, before[1] :: across, 0]
        blocks[row::down, column::across] = np.where(beyond, flat, blocks[row::down, column::across])


def _kind(parsed: Segments, scan: Scan) -> int:
    """Return the kind of a scan: sequential, or one of the four progressive kinds."""
    if parsed.kind != segments.PROGRESSIVE:
        return scans.SEQUENTIAL
    if scan.first == 0:
        return scans.DC_REFINE if scan.high else scans.DC_FIRST
    return scans.AC_REFINE if scan.high else scans.AC_FIRST


def write(picture: Jpeg) -> bytes:
    """Return the file of a picture, which is the same for the same picture.

    Raises:
        DippError: A coefficient is larger than the format allows.
    """
    return segments.joined(_segments(picture))


def _segments(picture: Jpeg) -> Iterator[bytes]:
    """Yield the segments of the file of a picture."""
    components = picture.components
    if picture.rgb:
        yield segments.segment(segments.APP14, b"Adobe\0\x64" + bytes(5))
    else:
        yield segments.segment(segments.APP0, b"JFIF\0\x01\x01\0\0\x01\0\x01\0\0")
    if picture.orientation != 1:
        yield segments.segment(segments.APP1, segments.EXIF + segments.exif_of(picture.orientation))
    if picture.profile:  # our own profile, which fits into one segment
        yield segments.segment(segments.APP2, segments.ICC + b"\x01\x01" + picture.profile)
    numbers: dict[bytes, int] = {}
    for component in components:
        if (key := component.quantisation.tobytes()) not in numbers:
            numbers[key] = len(numbers)
            yield segments.segment(segments.DQT, _table(numbers[key], component.quantisation))
    wide = any(component.quantisation.max() > 255 for component in components)
    frame = bytes((8, *picture.height.to_bytes(2, "big"), *picture.width.to_bytes(2, "big"), len(components)))
    for at, component in enumerate(components):
        frame += bytes((at + 1, component.across << 4 | component.down, numbers[component.quantisation.tobytes()]))
    yield segments.segment(segments.EXTENDED if wide else segments.BASELINE, frame)
    tables, data = _coded(picture)
    for number, kinds in enumerate(tables):
        for kind, best in enumerate(kinds):
            yield segments.segment(segments.DHT, bytes((kind << 4 | number, *best.table)))
    header = bytes((len(components), *(word for at in range(len(components)) for word in (at + 1, 0x11 * min(at, 1)))))
    yield segments.segment(segments.SOS, header + bytes((0, 63, 0)))
    yield data


def _table(number: int, values: NDArray[np.int64]) -> bytes:
    """Return a quantisation table in the format of a file."""
    wide = bool(values.max() > 255)
    return bytes((wide << 4 | number,)) + values[segments.ZIGZAG].astype(">u2" if wide else np.uint8).tobytes()


def _coded(picture: Jpeg) -> tuple[list[list[huffman.ShortestCodes]], bytes]:
    """Return the best Huffman tables for a picture (of DC and of AC coefficients), and the bits of its scan."""
    components, mcus = picture.components, picture.mcus
    flat = np.concatenate([np.ascontiguousarray(component.blocks, np.int16).reshape(-1) for component in components])
    offsets = np.cumsum([0, *(component.blocks.size for component in components)])
    real = np.array([blocks_of(picture, component) for component in components], np.int64)
    layout = np.array(
        [
            (offsets[at], component.blocks.shape[1], component.across, component.down, mcus[1], mcus[0], min(at, 1))
            for at, component in enumerate(components)
        ],
        np.int64,
    )
    counts = np.zeros((2, 2, 256), np.int64)
    codes, lengths, none = np.zeros_like(counts), np.zeros_like(counts), np.zeros(0, np.uint8)
    scans.write(layout, real, flat, codes, lengths, none, counts)
    others = np.arange(256)[None] & 15
    if counts[:, 0, LARGEST_DC + 1 :].any() or counts[:, 1][np.broadcast_to(others > LARGEST_AC, (2, 256))].any():
        raise DippError("image", "has coefficients beyond the range of JPEG", "save it again")
    tables = [[huffman.best(counts[number, kind]) for kind in (0, 1)] for number in range(min(len(components), 2))]
    bits = 0
    for number, kinds in enumerate(tables):
        for kind, best in enumerate(kinds):
            codes[number, kind], lengths[number, kind] = best.codes, best.lengths
            extra = (np.arange(256) & 15) if kind else np.arange(256)
            bits += int((counts[number, kind] * (best.lengths + extra)).sum())
    out = np.empty(bits // 4 + 16, np.uint8)  # every byte may be stuffed
    written = scans.write(layout, real, flat, codes, lengths, out, np.zeros_like(counts))
    return tables, out[:written].tobytes()
