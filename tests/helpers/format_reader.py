"""A reader of `.dipp` files in plain Python and NumPy, written only from the pages docs/format*.md.

It shows that the document suffices. It reads headers and indices, computes the certificate, and refuses what the
document tells a reader to refuse; `format_draws` has the masks, chunks and noise.
"""

from __future__ import annotations

import binascii
import hashlib
import itertools
import math
import struct
import zlib
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np

LAPLACE, GAUSSIAN, SIGN = range(3)
FLAT, PAIRS, PPR, PFR, CLOSEST = range(5)
PIXEL, CELL, PICTURE, REGION = range(4)
LN2 = struct.unpack(">d", bytes.fromhex("3FE62E42FEFA39EF"))[0]
MAX_PIXELS = 2**31 - 1
FIELD_LENGTHS = {
    1: (0, 0),
    2: (40, 88),
    3: (1, 9 + MAX_PIXELS),
    4: (32, 32),
    5: (8, 8),
    6: (8, 8),
    7: (3, 3),
    8: (1, 4096),
    9: (1, MAX_PIXELS),
}


class RefusalError(Exception):
    pass


def require(condition: object, reason: str) -> None:
    if not condition:
        raise RefusalError(reason)


@dataclass
class Cursor:
    """A reader of bytes from front to back."""

    data: bytes
    at: int = 0

    def take(self, count: int) -> bytes:
        require(self.at + count <= len(self.data), "it ends too early")
        self.at += count
        return self.data[self.at - count : self.at]

    def varint(self, low: int, high: int) -> int:
        value = 0
        for place in range(10):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                require(byte or not place, "a varint is too long")
                require(low <= value <= high, f"{value} is not within {low} to {high}")
                return value
        raise RefusalError("a varint is too long")

    def column(self, count: int, low: int, high: int) -> list[int]:
        if count < 2:
            return [self.varint(low, high) for _ in range(count)]
        base, width = self.varint(low, high), self.take(1)[0]
        require(width <= 62, "a column is too wide")
        packed = self.take(-(-count * width // 8))
        bits = int.from_bytes(packed, "big")
        spare = 8 * len(packed) - count * width
        shifts = range(8 * len(packed) - width, spare - 1, -width) if width else [0] * count
        rows = [(bits >> shift) & ((1 << width) - 1) for shift in shifts]
        require(bits % (1 << spare) == 0, "a column does not end in zeros")
        require(not min(rows) and max(rows).bit_length() == width, "a column has another base or width")
        require(base + max(rows) <= high, "a number of a column is too large")
        return [base + row for row in rows]

    def floats(self, count: int) -> list[float]:
        zeros = self.take(1)[0]
        require(zeros <= 30, "a float column drops too many bits")
        bits = self.column(count, 1, 0x7F7FFFFF >> zeros)
        require(any(bit & 1 for bit in bits), "a float column drops too few bits")
        return [struct.unpack("<f", struct.pack("<I", bit << zeros))[0] for bit in bits]


class Archive(SimpleNamespace):
    """The content of a file, under the names of `read_header`."""

    @property
    def certified(self) -> bool:
        return bool(self.channel != GAUSSIAN and self.code != PFR)

    @property
    def sizes_of_runs(self) -> list[tuple[int, int]]:
        return [(height, width) for _, height, width in self.runs]

    @property
    def sizes(self) -> list[tuple[int, int]]:
        return [(height, width) for count, height, width in self.runs for _ in range(count)]

    def coded(self, height: int, width: int) -> tuple[int, int, int]:
        """Return height, width and channels of the coded array of an image."""
        if self.latents is None:
            return height, width, self.channels
        factor, channels, patch = self.latents
        rows, columns = (-(-side // (factor * patch)) * patch for side in (height, width))
        require(rows * columns <= MAX_PIXELS, "an image has too many latents")
        return rows, columns, channels

    def chunk_count(self, step: int, pixels: int, channels: int | None = None) -> int:
        touched: int = pixels * (channels or self.channels)
        if self.period > 1:  # ranks 0 … pixels − 1 fall into the slots (r + q·⌊P/C⌋) mod P
            slots = [(step - q * (self.period // self.channels)) % self.period for q in range(self.channels)]
            touched = sum(-(-(pixels - slot) // self.period) for slot in slots if slot < pixels)
        return -(-touched // int(self.steps[step]["chunk size"]))

    def indices_of(self, step: int, height: int, width: int) -> int:
        height, width, channels = self.coded(height, width)
        if self.code != CLOSEST:
            return self.chunk_count(step, height * width, channels)
        parts = 4 * int(self.steps[step]["split"])
        if self.unit == REGION:
            return len(self.places) * (parts // 4) ** 2
        rows, columns = (
            min(length, parts) if self.unit == PICTURE else -(-length // (self.side // parts))
            for length in (height, width)
        )
        return -(-rows // 4) * -(-columns // 4)

    def are_apart(self, chunks: int) -> bool:
        return bool(self.period > 1 or (self.apart and chunks >= self.channels))


def read(data: bytes) -> Archive:
    require(data[:4] == b"DIPP" and data[4:5] == b"\3", "not format 3")
    require(zlib.crc32(data[:-4]) == int.from_bytes(data[-4:], "little"), "wrong CRC-32")
    cursor = Cursor(data[5:-4])
    archive = read_header(cursor)
    read_indices(archive, cursor)
    require(cursor.at == len(cursor.data), "wrong length")
    for step in archive.steps if archive.code != CLOSEST else ():
        step_integers(archive, step)
    if archive.certified:
        require(certificate(archive)[:2] == archive.claim, "the certificate does not follow")
    return archive


def read_header(cursor: Cursor) -> Archive:
    model, seed = cursor.take(32), cursor.take(16)
    fields: dict[int, bytes] = {}
    for _ in range(cursor.varint(0, 255)):
        key = cursor.varint(max(fields, default=0) + 1, 255)
        require(key in FIELD_LENGTHS, "unknown field: upgrade")
        fields[key] = cursor.take(cursor.varint(*FIELD_LENGTHS[key]))
    if 2 in fields:
        require(hashlib.sha256(b"dipp/2/beacon\0" + fields[2]).digest()[:16] == seed, "the seed is not the beacon's")
    if 5 in fields:
        require(0 < struct.unpack("<d", fields[5])[0] < 1, "δ is not between 0 and 1")
    require(6 not in fields or min(struct.unpack("<2I", fields[6])) >= 1, "a hidden object has no size")
    latents = tuple(fields[7]) if 7 in fields else None
    if latents:
        require(all(1 <= value <= most for value, most in zip(latents, (64, 16, 64), strict=True)), "no latents")
    require(latents or 8 not in fields, "a prompt without latents")
    try:
        fields.get(8, b"").decode()
    except UnicodeDecodeError:
        raise RefusalError("the prompt is not UTF-8") from None
    unit, side, places = read_unit(cursor.take(cursor.varint(1, 1 << 24)))
    require(9 not in fields or unit == REGION, "surroundings without regions")
    channels, channel = cursor.varint(1, 16), cursor.varint(0, 2)
    period = cursor.varint(1, 65535) if channel == SIGN else 1
    require(period == 1 or period >= channels, "the period is too short")
    code, alpha = cursor.varint(0, 4), Fraction(1)
    if code in (FLAT, PPR):
        top, bottom = cursor.varint(1, 32767), cursor.varint(1, 32767)
        alpha = Fraction(top, bottom)
        require(alpha.numerator == top, "α is not in lowest terms")
    require(code != PAIRS or channel == SIGN, "pairs need the sign channel")
    apart = cursor.varint(0, 1) == 1
    claim = struct.unpack("<2d", cursor.take(16)) if channel != GAUSSIAN and code != PFR else None
    kind, count = cursor.varint(0, 2), cursor.varint(1, 4096)
    sensing = kind == 1
    require((kind == 2) == (code == CLOSEST) == (unit != PIXEL), "questions, closest and units come together")
    require(kind != 2 or (channel == SIGN and period == 1 and apart), "questions touch everything, block by block")
    if kind == 2:
        columns: dict[str, list[Any]] = read_questions(cursor, count)
    elif sensing:
        columns = {name: cursor.floats(count) for name in ("tilt", "clip", "gain")}
        columns["level"] = cursor.column(count, 0, 4)
        require(not columns["level"][0], "the first step has a level")
    else:
        times = cursor.column(count + 1, 0, 65535)
        require(all(s < t for t, s in itertools.pairwise(times)), "timesteps do not descend")
        columns = {"start": times[:-1], "end": times[1:], "gain": cursor.floats(count)}
    require(not latents or claim is None or unit == PICTURE, "latents certify whole pictures alone")
    ones, listed = [1] * count, code != PAIRS
    columns["chunk size"] = cursor.column(count, 1, 2**32 - 1) if listed and code != CLOSEST else ones
    columns["bits"] = cursor.column(count, 1, 22) if listed else ones
    columns["exponent"] = cursor.column(count, 1, 255) if code in (PPR, PFR) else [0] * count
    require(len(set(zip(columns["bits"], columns["exponent"], strict=True))) <= 256, "too many zeta codes")
    steps = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if kind == 2:
        require_questions(steps, unit, side)
    left = len(cursor.data) - cursor.at
    number = cursor.varint(0, left)
    runs = list(zip(*(cursor.column(number, 1, high) for high in (8 * left, MAX_PIXELS, MAX_PIXELS)), strict=True))
    require(all(a[1:] != b[1:] for a, b in itertools.pairwise(runs)), "runs of one size are apart")
    require(all(height * width <= MAX_PIXELS for _, height, width in runs), "an image is too large")
    images = sum(run[0] for run in runs)
    require(unit != REGION or images <= 1, "regions of several images")
    require_inside(places, runs)
    return Archive(
        model=model, seed=seed, fields=fields, window=read_window(fields.get(3)), grey=read_grey(fields.get(3), images),
        channels=channels, channel=channel, period=period, code=code, alpha=alpha, apart=apart, claim=claim,
        unit=unit, side=side, places=places, latents=latents, sensing=sensing, steps=steps, runs=runs, indices=[],
    )  # fmt: skip


def read_unit(content: bytes) -> tuple[int, int, list[Place]]:
    """Return the number of the unit, the side of a cell, and the places of regions."""
    if content[0] == CELL and len(content) == 3:
        side = int.from_bytes(content[1:], "little")
        require(2 <= side <= 4096, "a cell has another side")
        return CELL, side, []
    if content[0] == REGION:
        return REGION, 0, read_places(content[1:])
    require(len(content) == 1 and content[0] in (PIXEL, PICTURE), "unknown unit: upgrade")
    return content[0], 0, []


def read_places(content: bytes) -> list[Place]:
    require(len(content) % 4 == 0, "a number is cut off")
    numbers, places, masked = [*struct.unpack(f"<{len(content) // 4}I", content)], list[Place](), 0
    while numbers and len(places) <= 1024:
        require(len(numbers) >= 6 + numbers[min(5, len(numbers) - 1)], "a place is cut off")
        count = numbers[5]
        unit, left, top, width, height = numbers[:5]
        place = Place(unit, left, top, width, height, tuple(numbers[6 : 6 + count]))
        numbers = numbers[6 + count :]
        require(max(place.box) <= MAX_PIXELS and min(place.width, place.height) >= 1, "a box means nothing")
        require(place.width * place.height <= MAX_PIXELS, "a box is too large")
        require(place.unit <= len({place_.unit for place_ in places}), "units are not numbered in order")
        runs = place.runs
        require(not runs or (sum(runs) == place.width * place.height and 0 not in runs[1:]), "runs mean nothing")
        require(not runs or (len(runs) > 1 and not (runs[0] == 0 and len(runs) == 2)), "runs mean nothing")
        masked += place.width * place.height if runs else 0
        places.append(place)
    require(1 <= len(places) <= 1024 and masked <= 1 << 26, "too many or too large")
    for first, second in itertools.combinations(places, 2):
        require(first.unit == second.unit or not first.pixels(second), "two units share a pixel")
    return places


def require_inside(places: list[Place], runs: list[tuple[int, int, int]]) -> None:
    for (_, height, width), place in itertools.product(runs, places):
        require(place.left + place.width <= width and place.top + place.height <= height, "a box lies outside")


@dataclass(frozen=True)
class Place:
    """A box of a unit, and the runs of its mask."""

    unit: int
    left: int
    top: int
    width: int
    height: int
    runs: tuple[int, ...]

    @property
    def box(self) -> tuple[int, ...]:
        return self.unit, self.left, self.top, self.width, self.height, *self.runs

    def mask(self) -> np.ndarray[Any, Any]:
        inside = np.ones(self.width * self.height, bool)
        if self.runs:
            inside = np.repeat(np.arange(len(self.runs)) % 2 == 1, self.runs)
        return inside.reshape(self.height, self.width)

    def pixels(self, other: Place) -> bool:
        """Return whether two places share a pixel."""
        low = max(self.top, other.top), max(self.left, other.left)
        high = (
            min(self.top + self.height, other.top + other.height),
            min(self.left + self.width, other.left + other.width),
        )
        if low[0] >= high[0] or low[1] >= high[1]:
            return False
        parts = (
            one.mask()[low[0] - one.top : high[0] - one.top, low[1] - one.left : high[1] - one.left]
            for one in (self, other)
        )
        return bool(np.logical_and(*parts).any())


def read_questions(cursor: Cursor, count: int) -> dict[str, list[Any]]:
    limits = {"split": (1, 32), "rounds": (1, 4), "candidate": (0, 1)}
    columns: dict[str, list[Any]] = {name: cursor.column(count, *limit) for name, limit in limits.items()}
    columns["scale"] = cursor.floats(count)
    columns |= {name: cursor.column(count, 1, high) for name, high in (("m", 2**22 - 1), ("a", 2**62), ("b", 2**62))}
    return columns | {"gain": cursor.floats(count)}


def require_questions(steps: list[dict[str, Any]], unit: int, side: int) -> None:
    for number, step in enumerate(steps):
        n, m = 1 << step["bits"], step["m"]
        require(step["split"].bit_count() == 1 and step["rounds"] in (1, 2, 4), "a split or rounds mean nothing")
        require(number == 0 or (step["rounds"] == 1 and step["split"] >= steps[number - 1]["split"]), "wrong order")
        require(step["candidate"] == 1 or step["scale"] == 1, "words have no scale")
        require(1 <= m < n and step["b"] <= step["a"], "weights mean nothing")
        require(m * step["a"] + (n - m) * step["b"] <= 1 << 62, "weights are too large")
        require(unit != REGION or step["rounds"] == 1, "regions are asked in one round")
        require(unit in (PICTURE, REGION) or side % (4 * step["split"]) == 0, "a cell cannot be divided so")


def closest_price(step: dict[str, Any]) -> tuple[float, float]:
    a, b, m, n = step["a"], step["b"], step["m"], 1 << step["bits"]
    with localcontext(prec=100):
        up, one = 1 + Decimal(2) ** -50, Decimal(1)
        e = (Decimal(a) / b).ln()
        w, q = Decimal(min(m, n - m) * (a + b)) / (m * a + (n - m) * b), Decimal(a) / (a + b)

        def g(x: Decimal) -> Decimal:
            grown = (x * e).exp()
            return (1 - w + w * (q * grown + (1 - q) / grown)).ln() if x else Decimal(0)

        def bound(low: Decimal, high: Decimal) -> Decimal:
            t = (g(high) - g(low)) / (high - low)
            k = max(t * low - g(low), Decimal(0))
            x = min(max((k + (k * (k + t)).sqrt()) / t, low), high)
            return (t - k / x) / (one + x) if x else t

        def rounded_up(value: Decimal) -> float:
            found = float(value)
            return found if Decimal(found) >= value else math.nextafter(found, math.inf)

        if a == b:
            return rounded_up(e * up), 0.0
        v = w * e * (a - b) / (a + b)
        intervals = [(bound(Decimal(0), e / v), Decimal(0), e / v)]
        while (worst := max(intervals))[0] > v * (1 + Decimal(2) ** -24) and len(intervals) < 8192:
            _, low, high = worst
            y = (low + high) / 2
            intervals.remove(worst)
            intervals += [(bound(low, y), low, y), (bound(y, high), y, high)]
            v = max(v, g(y) / (y * (1 + y)))
        return rounded_up(e * up), rounded_up(max(v, max(intervals)[0]) * up)


def read_window(source: bytes | None) -> tuple[int, int] | None:
    if source is None or not source[0] & 1:
        return None
    require(len(source) >= 9, "the window is cut short")
    low, high = struct.unpack("<2i", source[1:9])
    require(low < high, "the window has no width")
    return low, high


def read_grey(source: bytes | None, images: int) -> list[bool]:
    if source is None:
        return [False] * images
    kind, which = source[0], source[9 if source[0] & 1 else 1 :]
    require(kind in (1, 2, 3, 4, 5) and (images or kind == 1), "the source means nothing")
    require(len(which) == (-(-images // 8) if kind & 4 else 0), "the source has a wrong length")
    bits = [bit == "1" for byte in which for bit in f"{byte:08b}"]
    require(not kind & 4 or 0 < sum(bits) == sum(bits[:images]) < images, "grey marks mean nothing")
    return bits[:images] if kind & 4 else [bool(kind & 2)] * images


def read_indices(archive: Archive, cursor: Cursor) -> None:
    layouts, left = [], 8 * (len(cursor.data) - cursor.at)
    work = len(set(archive.sizes_of_runs)) * len(archive.steps)
    require(work <= max(1 << 20, left), "too many sizes and steps")
    for images, height, width in archive.runs:
        counts = [archive.indices_of(step, height, width) for step in range(len(archive.steps))]
        left -= images * sum(counts)  # an index has at least a bit
        require(left >= 0, "more indices than bits")
        steps = [step for step, count in zip(archive.steps, counts, strict=True) for _ in range(count)]
        layouts.append((steps, 16 * (sum(step["bits"] for step in steps) >= 512)))
    if archive.code in (FLAT, PAIRS, CLOSEST):
        for (images, _, _), (steps, checksum) in zip(archive.runs, layouts, strict=True):
            widths = ([step["bits"] for step in steps] + [16] * bool(checksum)) * images
            packed = cursor.take(-(-sum(widths) // 8))
            bits = "".join(f"{byte:08b}" for byte in packed)
            ends = np.cumsum([0, *widths]).tolist()
            require("1" not in bits[ends[-1] :], "bits behind an image are not zero")
            numbers = [int(bits[low:high], 2) for low, high in itertools.pairwise(ends)]
            size = len(steps) + bool(checksum)
            for image in range(images):
                row = numbers[image * size : (image + 1) * size]
                archive.indices.append(checked(row[: len(steps)], row[len(steps) :]))
        return
    every = [layout for (images, _, _), layout in zip(archive.runs, layouts, strict=True) for _ in range(images)]
    extra = cursor.column(len(every), 0, len(cursor.data))
    for (steps, checksum), more in zip(every, extra, strict=True):
        least = -(-len(steps) // 8)
        payload, crc = cursor.take(least + more), cursor.take(checksum // 8)
        shortest = payload.rstrip(b"\0")
        require(len(payload) == max(least, len(shortest)), "a payload has bytes to spare")
        row = entropy_decoded(shortest, steps)
        archive.indices.append(checked(row, [int.from_bytes(crc, "big")] if crc else []))


def checked(indices: list[int], crc: list[int]) -> list[int]:
    """Return the indices, if their CRC-16 is right or they have none."""
    stored = b"".join(index.to_bytes(4, "big") for index in indices)
    require(not crc or crc == [binascii.crc_hqx(stored, 0xFFFF)], "wrong CRC-16")
    return indices


def zeta_cells(bits: int, exponent: int) -> list[tuple[int, int, int]]:
    """Return first k, number of k and weight of each cell."""
    cells, first, n = [], 1, 1 << bits
    while first <= n:
        octave = 1 << (first.bit_length() - 1)
        size = min(octave // min(octave, 8), n + 1 - first)
        root = (1 << (59 * 64 + exponent)) // (2 * first + size - 1) ** exponent
        for _ in range(6):
            root = math.isqrt(root)
        cells.append((first, size, max(1, (root + 1) // 2)))
        first += size
    return cells


def entropy_decoded(payload: bytes, steps: list[dict[str, Any]]) -> list[int]:
    """Return the indices of a payload; fail if a shorter payload has the same indices."""
    tables: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    low, span, scale, indices = 0, 1 << 128, 1 << 128, []
    value = Fraction(int.from_bytes(payload, "big"), 256 ** len(payload))
    for step in steps:
        kind = step["bits"], step["exponent"]
        cells = tables.setdefault(kind, zeta_cells(*kind))
        unit, before = span // sum(size * weight for _, size, weight in cells), 0
        target = math.floor(value * scale) - low
        for first, size, weight in cells:  # noqa: B007 - used below
            inside = (target - unit * before) // (unit * weight)
            if inside < size:
                break
            before += size * weight
        require(0 <= inside < size, "a payload lies outside every index")
        indices.append(first - 1 + inside)
        low, span = low + unit * (before + inside * weight), unit * weight
        while span <= 1 << 120:
            low, span, scale = 256 * low, 256 * span, 256 * scale
    for length in range(len(payload) + 1):  # the shortest number of the interval, and the smallest of those
        start, power = Fraction(low, scale), 256**length
        smallest = math.ceil(start * power)
        if smallest * scale < (low + span) * power:
            require(smallest.to_bytes(length, "big") == payload, "a payload has another spelling")
            return indices
    raise RefusalError("a payload is cut short")


def certificate(archive: Archive) -> tuple[float, float, list[dict[str, int]]]:
    """Return pure ε, ρ, and the integers of each step."""
    smallest = min((height * width for height, width in archive.sizes_of_runs), default=MAX_PIXELS)
    costs, integers = [], []
    if archive.code == CLOSEST:
        owners = [place_.unit for place_ in archive.places]
        most = max(map(owners.count, owners), default=1)
        prices = [(most * step["split"] ** 2, *closest_price(step)) for step in archive.steps]
        require(max(touched for touched, _, _ in prices) <= 1024, "a unit has too many blocks")
        return math.fsum(t * e for t, e, _ in prices), math.fsum(t * r for t, _, r in prices), []
    for number, step in enumerate(archive.steps):
        own = step_integers(archive, step)
        integers.append(own)
        touched = 1 if archive.period > 1 else archive.channels
        apart = archive.are_apart(archive.chunk_count(number, smallest))
        if archive.code == PAIRS:
            require(apart or touched == 1, "channels of pairs are not apart")
            epsilon, rho = pair_price(own)
            costs.append((touched * epsilon, touched * rho))
        else:
            raw = 2 * own["D"] * LN2 * 2.0 ** -own["S"] + 2.0**-38
            loss = math.nextafter(raw * (1 + 2.0**-50), math.inf)
            pure = touched * loss
            costs.append((pure, (touched * (loss * loss) if apart or touched == 1 else pure * pure) / 8))
    epsilon, rho = (worst(archive, [cost[i] for cost in costs]) for i in (0, 1))
    return epsilon, rho, integers


def step_integers(archive: Archive, step: dict[str, Any]) -> dict[str, int]:
    """Return S, A, M (0 without a clip), D and m."""
    alpha, sensing = float(archive.alpha), archive.sensing
    slope = {LAPLACE: math.sqrt(2), GAUSSIAN: 1.0, SIGN: math.sqrt(archive.period)}[archive.channel]
    a = alpha * (step["tilt"] / step["clip"] if sensing else slope * math.sqrt(step["gain"])) / LN2
    b = alpha * step["tilt"] / LN2 if sensing else a
    most = 15 - next(k for k in range(16) if 1 << k >= archive.alpha)
    scale = 0
    while math.trunc(b * 2.0**scale) < (512 if sensing else 128) and scale < most:
        scale += 1
    level, largest = math.trunc(a * 2.0**scale), math.trunc(b * 2.0**scale)
    require(1 <= largest < 1 << 10 and 1 <= level < 1 << 28, "the integers of a step do not fit")
    if not sensing:
        return {"S": scale, "A": level, "M": 0, "D": 2 * level, "m": 2 * level}
    return {"S": scale, "A": level, "M": largest, "D": 2 * min(level, largest), "m": min(2 * level, largest)}


def pair_price(own: dict[str, int]) -> tuple[float, float]:
    require(own["m"] * LN2 * 2.0 ** -own["S"] <= 20, "a pair is tilted too far")
    with localcontext(prec=50):
        up, one, two = Decimal("1.000000000000909494701772928"), Decimal(1), Decimal(2)
        unit = two.ln() / (1 << own["S"])
        v, d = own["m"] * unit, own["D"] * unit
        eta = two**-63 * (one + (2 * v).exp()) * up
        epsilon = ((one + (2 * v).exp()).ln() - (one + (2 * (v - d)).exp()).ln()) * up + eta
        rho = min((2 * d + 2 * eta) ** 2 / 8, epsilon * (epsilon.exp() - 1) / (epsilon.exp() + 1)) * up
        return float(epsilon), float(rho)


def worst(archive: Archive, costs: list[float]) -> float:
    period, channels = archive.period, archive.channels
    if period == 1:
        return math.fsum(costs)
    cycles = [costs[first : first + period] for first in range(0, len(costs), period)]
    slots = [{(r + q * (period // channels)) % period for q in range(channels)} for r in range(period)]
    return math.fsum(max(math.fsum(cycle[s] for s in slot if s < len(cycle)) for slot in slots) for cycle in cycles)
