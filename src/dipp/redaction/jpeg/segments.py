"""The segments of a JPEG file: tables, frame and scans are read, and everything else is left out.

Only three facts are read from application segments: the colour model of the components (JFIF, Adobe), the EXIF
orientation, and an ICC profile, from which `dipp.redaction.colour` recognises a standard colour space. Data after the
end of the picture (previews, depth maps, videos) are never read.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dipp.errors import DippError

SOI, EOI, SOS, DQT, DHT, DRI, DNL = 0xD8, 0xD9, 0xDA, 0xDB, 0xC4, 0xDD, 0xDC
APP0, APP1, APP2, APP14 = 0xE0, 0xE1, 0xE2, 0xEE
BASELINE, EXTENDED, PROGRESSIVE = 0xC0, 0xC1, 0xC2
FRAMES = {*range(0xC0, 0xD0)} - {DHT, 0xC8, 0xCC}
"""Markers that begin a frame; the markers DHT, JPG and DAC in this range do not."""
RESTARTS = range(0xD0, 0xD8)
ZIGZAG = np.array(
    [
        *(0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7),
        *(14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39),
        *(46, 53, 60, 61, 54, 47, 55, 62, 63),
    ],
    np.int64,
)
"""Position in a block, row by row, of the n-th coefficient in zigzag order."""
EXIF, ICC = b"Exif\0\0", b"ICC_PROFILE\0"
MAX_SCANS = 256
"""Largest number of scans of a file, because a few bytes can ask for many passes over a large picture."""

Bytes = NDArray[np.uint8]


def damaged(why: str) -> DippError:
    """Return the error about a file that is not a whole JPEG."""
    return DippError("image", f"is not a whole JPEG ({why})", "get it again")


@dataclass(frozen=True, eq=False)
class FrameComponent:
    """A component of a picture, such as luma, as the header of the frame describes it."""

    name: int
    """Number by which scans name the component."""
    across: int
    """Horizontal sampling factor."""
    down: int
    """Vertical sampling factor."""
    table: int
    """Number of its quantisation table."""


@dataclass(frozen=True, eq=False)
class Scan:
    """A scan: which coefficients it codes, the Huffman tables that it uses, and its bits."""

    components: tuple[int, ...]
    """Indices of its components in the frame."""
    dc: tuple[tuple[int, ...] | None, ...]
    """Huffman table of DC coefficients for each component: 16 counts, then symbols; None if it is missing."""
    ac: tuple[tuple[int, ...] | None, ...]
    """Huffman table of AC coefficients for each component."""
    first: int
    last: int
    """First and last coefficient, in zigzag order."""
    high: int
    low: int
    """Successive approximation: the bit position before this scan, and after it."""
    restart: int
    """Number of MCUs between two restart markers; 0 if there are no markers."""
    data: Bytes
    """Bits of the scan as bytes, without stuffing and markers."""
    bounds: NDArray[np.int64]
    """Positions in `data` where the parts between restart markers end."""


@dataclass(eq=False)
class Segments:
    """The content of the segments of a file."""

    kind: int = 0
    """Marker of the frame, which is its kind of coding."""
    width: int = 0
    height: int = 0
    components: tuple[FrameComponent, ...] = ()
    quantisation: dict[int, NDArray[np.int64]] = field(default_factory=dict)
    """Quantisation tables (64,), row by row, by their numbers."""
    scans: list[Scan] = field(default_factory=list)
    jfif: bool = False
    """Whether there is a JFIF segment."""
    adobe: int | None = None
    """Colour transform in the Adobe segment; None without such a segment."""
    orientation: int = 1
    """EXIF orientation, 1 to 8."""
    profile: dict[int, bytes] = field(default_factory=dict)
    """Parts of the ICC profile by their numbers."""


def parse(content: bytes) -> Segments:
    """Return the segments of the first picture in a file.

    Raises:
        DippError: The file is damaged, or coded in a rare way that is not supported.
    """
    parsed, huffman, restart = Segments(), dict[tuple[int, int], tuple[int, ...]](), 0
    array = np.frombuffer(content, np.uint8)
    marks = np.flatnonzero(array[:-1] == 0xFF)
    if content[:2] != bytes((0xFF, SOI)):
        raise damaged("it does not begin as one")
    position = 2
    while True:
        marker, position = _marker(content, position)
        if marker == EOI:
            break
        if marker in RESTARTS or marker == 0x01:
            continue
        body, position = _body(content, position)
        if marker in FRAMES:
            _frame(parsed, marker, body)
        elif marker == DQT:
            _quantisation(parsed, body)
        elif marker == DHT:
            _huffman(huffman, body)
        elif marker == DRI:
            restart = int.from_bytes(_exactly(body, 2), "big")
        elif marker == SOS:
            data, bounds, position = _entropy(array, marks, position)
            parsed.scans.append(_scan(parsed, huffman, restart, body, data, bounds))
            if len(parsed.scans) > MAX_SCANS:
                raise DippError("image", f"must be a JPEG of at most {MAX_SCANS} scans", "save it again")
        elif marker == DNL:
            raise DippError(
                "image", "is a JPEG whose height follows its pixels, which is not supported", "save it again"
            )
        else:
            _application(parsed, marker, body)
    if not parsed.components or not parsed.scans:
        raise damaged("there is no picture in it")
    return parsed


def _marker(content: bytes, position: int) -> tuple[int, int]:
    """Return the marker at a position, and the position after it."""
    if content[position : position + 1] != b"\xff":
        raise damaged("a marker is missing")
    while content[position : position + 1] == b"\xff":
        position += 1
    if position >= len(content):
        raise damaged("it ends early")
    return content[position], position + 1


def _body(content: bytes, position: int) -> tuple[bytes, int]:
    """Return the content of the segment at a position, and the position after it."""
    length = int.from_bytes(content[position : position + 2], "big")
    if length < 2 or position + length > len(content):
        raise damaged("it ends early")
    return content[position + 2 : position + length], position + length


def _exactly(body: bytes, length: int) -> bytes:
    """Return the content of a segment; raise if its length is another one."""
    if len(body) != length:
        raise damaged("a segment has a wrong length")
    return body


def _frame(parsed: Segments, kind: int, body: bytes) -> None:
    """Read the header of the frame into `parsed`; raise if its coding is not supported."""
    if kind not in (BASELINE, EXTENDED, PROGRESSIVE):
        raise DippError(
            "image", "is a lossless, hierarchical or arithmetic JPEG, which is not supported", "save it as usual"
        )
    if parsed.components:
        raise damaged("it has two frames")
    if len(body) < 6:
        raise damaged("a segment has a wrong length")
    if body[0] != 8:
        raise DippError("image", f"must be a JPEG of 8 bits, got {body[0]}", "save it as PNG")
    parsed.kind = kind
    parsed.height, parsed.width = int.from_bytes(body[1:3], "big"), int.from_bytes(body[3:5], "big")
    rows = _exactly(body[6:], 3 * body[5])
    parsed.components = tuple(
        FrameComponent(rows[at], rows[at + 1] >> 4, rows[at + 1] & 15, rows[at + 2]) for at in range(0, len(rows), 3)
    )
    if not parsed.height or not parsed.width:
        raise DippError("image", "is a JPEG that does not say its height", "save it again")
    if len(parsed.components) == 4:
        raise DippError("image", "is a JPEG in CMYK, which is not supported", "save it in RGB")
    if len(parsed.components) not in (1, 3):
        raise DippError("image", f"must be a JPEG of 1 or 3 components, got {len(parsed.components)}")
    if any(not (1 <= component.across <= 4 and 1 <= component.down <= 4) for component in parsed.components):
        raise damaged("a sampling factor is not 1 to 4")


def _quantisation(parsed: Segments, body: bytes) -> None:
    """Read the quantisation tables of a segment into `parsed`."""
    while body:
        wide, number = body[0] >> 4, body[0] & 15
        size = 64 << wide
        if wide > 1 or number > 3 or len(body) < 1 + size:
            raise damaged("a quantisation table is wrong")
        values = np.frombuffer(body[1 : 1 + size], ">u2" if wide else np.uint8).astype(np.int64)
        if not values.all():
            raise damaged("a quantisation table has a zero")
        if number in parsed.quantisation and parsed.scans:
            raise DippError(
                "image",
                "is a JPEG that changes its quantisation between scans, which is not supported",
                "save it again",
            )
        table = np.empty(64, np.int64)
        table[ZIGZAG] = values
        parsed.quantisation[number] = table
        body = body[1 + size :]


def _huffman(tables: dict[tuple[int, int], tuple[int, ...]], body: bytes) -> None:
    """Read the Huffman tables of a segment into `tables`, by kind (0 for DC, 1 for AC) and number."""
    while body:
        kind, number = body[0] >> 4, body[0] & 15
        count = sum(body[1:17])
        if kind > 1 or number > 3 or len(body) < 17 + count or count > 256:
            raise damaged("a Huffman table is wrong")
        tables[kind, number] = tuple(body[1 : 17 + count])
        body = body[17 + count :]


def _scan(
    parsed: Segments,
    tables: dict[tuple[int, int], tuple[int, ...]],
    restart: int,
    body: bytes,
    data: Bytes,
    bounds: NDArray[np.int64],
) -> Scan:
    """Return a scan.

    Args:
        parsed: The segments before the scan.
        tables: Huffman tables, by kind (0 for DC, 1 for AC) and number.
        restart: Number of MCUs between two restart markers; 0 without markers.
        body: Content of the header of the scan.
        data: Bits of the scan as bytes, without stuffing and markers.
        bounds: Positions in `data` where the parts between restart markers end.
    """
    count = body[0] if body else 0
    names = [component.name for component in parsed.components]
    if not 1 <= count <= len(names) or len(body) != 4 + 2 * count:
        raise damaged("a scan's header is wrong")
    rows = [(body[1 + 2 * at], body[2 + 2 * at]) for at in range(count)]
    first, last, bits = body[-3:]
    if len({name for name, _ in rows}) != count or any(name not in names for name, _ in rows):
        raise damaged("a scan names a component that is not there")
    if parsed.kind != PROGRESSIVE:
        first, last, bits = 0, 63, 0
    valid = (first == last == 0) or (0 < first <= last < 64 and count == 1) or parsed.kind != PROGRESSIVE
    if not valid or bits & 15 > 13 or bits >> 4 > 13:
        raise damaged("a scan's header is wrong")
    return Scan(
        components=tuple(names.index(name) for name, _ in rows),
        dc=tuple(tables.get((0, numbers >> 4)) for _, numbers in rows),
        ac=tuple(tables.get((1, numbers & 15)) for _, numbers in rows),
        first=first,
        last=last,
        high=bits >> 4,
        low=bits & 15,
        restart=restart,
        data=data,
        bounds=bounds,
    )


def _entropy(array: Bytes, marks: NDArray[np.int64], position: int) -> tuple[Bytes, NDArray[np.int64], int]:
    """Return the bits of a scan, without stuffing and markers.

    Args:
        array: The bytes of the file.
        marks: Positions of all bytes 0xFF in the file.
        position: Position in the file where the bits of the scan begin.

    Returns:
        The bits as bytes; the positions in them where the parts between restart markers end; and the position in the
        file where the scan ends.
    """
    within = marks[np.searchsorted(marks, position) :]
    after = array[within + 1]
    restarts = (after >= RESTARTS[0]) & (after <= RESTARTS[-1])
    ends = np.flatnonzero((after != 0) & (after != 0xFF) & ~restarts)
    if not ends.size:
        raise damaged("it ends early")
    end = int(within[ends[0]])
    within, after, restarts = within[: ends[0]], after[: ends[0]], restarts[: ends[0]]
    keep = np.ones(end - position, bool)
    keep[within[after == 0] + 1 - position] = False
    keep[within[after != 0] - position] = False  # fill bytes, and the first byte of restart markers
    keep[within[restarts] + 1 - position] = False
    kept = np.concatenate([[0], np.cumsum(keep)])
    bounds = np.append(kept[within[restarts] - position], kept[-1])
    return array[position:end][keep], bounds.astype(np.int64), end


def _application(parsed: Segments, marker: int, body: bytes) -> None:
    """Read colour model, orientation and ICC profile from an application segment into `parsed`."""
    if marker == APP0 and body.startswith(b"JFIF\0"):
        parsed.jfif = True
    elif marker == APP14 and body.startswith(b"Adobe") and len(body) >= 12:
        parsed.adobe = body[11]
    elif marker == APP1 and body.startswith(EXIF) and parsed.orientation == 1:
        parsed.orientation = orientation(body[len(EXIF) :])
    elif marker == APP2 and body.startswith(ICC) and len(body) > 14:
        parsed.profile.setdefault(body[12], body[14:])


def orientation(exif: bytes) -> int:
    """Return the orientation, 1 to 8, that EXIF data state; 1 if they cannot be read, which viewers assume too."""
    from PIL import Image

    tags = Image.Exif()
    try:
        tags.load(exif)
        stated = tags.get(0x0112, 1)
    except Exception:  # every writer has its own ways to damage EXIF
        return 1
    return stated if isinstance(stated, int) and 1 <= stated <= 8 else 1


def exif_of(turned: int) -> bytes:
    """Return EXIF data that state only an orientation, 1 to 8."""
    entry = (0x0112).to_bytes(2, "big") + (3).to_bytes(2, "big") + (1).to_bytes(4, "big")
    return b"MM\0*\0\0\0\x08\0\x01" + entry + turned.to_bytes(2, "big") + b"\0\0" + b"\0\0\0\0"


def segment(marker: int, body: bytes) -> bytes:
    """Return a segment with a marker and its length.

    Args:
        marker: Second byte of the marker.
        body: Content of the segment.
    """
    return bytes((0xFF, marker)) + (len(body) + 2).to_bytes(2, "big") + body


def joined(segments: Iterator[bytes]) -> bytes:
    """Return a whole file: its segments between the markers for the start and the end of an image."""
    file = io.BytesIO()
    file.write(bytes((0xFF, SOI)))
    for content in segments:
        file.write(content)
    file.write(bytes((0xFF, EOI)))
    return file.getvalue()
