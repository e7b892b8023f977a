"""The masks, chunks and noise that sender and receiver draw alike, written only from the pages docs/format*.md."""

from __future__ import annotations

import hashlib
import math
import struct
from typing import Any

import numpy as np

from helpers.format_reader import PAIRS, SIGN, Archive


def stream(seed: bytes, purpose: str, image: int, step: int) -> tuple[int, int, int]:
    content = b"dipp/1/" + purpose.encode() + b"\0" + seed + struct.pack("<QI", image, step)
    return struct.unpack("<3I", hashlib.sha256(content).digest()[:12])


def philox(counter: list[Any], key: tuple[int, int]) -> list[Any]:
    c0, c1, c2, c3 = np.broadcast_arrays(*(np.asarray(word, np.uint64) for word in counter))
    (k0, k1), low, half = key, np.uint64(0xFFFFFFFF), np.uint64(32)
    for _ in range(10):
        p0, p2 = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (p2 >> half) ^ c1 ^ np.uint64(k0), p2 & low, (p0 >> half) ^ c3 ^ np.uint64(k1), p0 & low
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return [c0, c1, c2, c3]


def words(source: tuple[int, int, int], count: int) -> Any:
    return np.stack(philox([np.arange(-(-count // 4)), 0, 0, source[2]], source[:2]), axis=1).reshape(-1)[:count]


def permutation(source: tuple[int, int, int], count: int) -> Any:
    pairs = words(source, 2 * count).reshape(count, 2)
    return np.argsort((pairs[:, 0] << np.uint64(32)) | pairs[:, 1], kind="stable")


def touched(archive: Archive, step: int, pixels: int) -> Any:
    channels, period = archive.channels, archive.period
    if period == 1:
        return np.arange(pixels * channels)
    cycle, slot = divmod(step, period)
    rank = np.argsort(permutation(stream(archive.seed, "mask/pixels", 0, cycle), pixels))
    keys = words(stream(archive.seed, "mask/channels", 0, cycle), pixels * channels).reshape(pixels, channels)
    position = np.argsort(np.argsort(keys, axis=1, kind="stable"), axis=1)
    slots = (rank[:, None] + position * (period // channels)) % period
    return np.flatnonzero(slots.reshape(-1) == slot)


def chunks(archive: Archive, step: int, pixels: int) -> list[Any]:
    mine = touched(archive, step, pixels)
    count = -(-len(mine) // archive.steps[step]["chunk size"])
    if not count:
        return []
    if count == len(mine):
        return list(mine[:, None])
    c = archive.channels if archive.are_apart(count) else 1
    rank = np.argsort(permutation(stream(archive.seed, "chunks", 0, step), pixels * archive.channels // c))[mine // c]
    dealt = mine[np.argsort(rank * c + (mine % c + rank) % c)]
    return [np.sort(dealt[chunk::count]) for chunk in range(count)]


def draws(archive: Archive, image: int, step: int, chunk: int, index: int, groups: Any) -> Any:
    source = stream(archive.seed, "candidates", image, step)
    half = index % 8
    word = philox([groups, index // 8, chunk, source[2]], source[:2])[half // 2]
    return (word >> np.uint64(16 * (half % 2))) & np.uint64(0xFFFF)


def noise(archive: Archive, image: int, step: int) -> Any:
    """Return z of every coordinate of an image in one step. The Gaussian channel is missing: it needs a quantile."""
    height, width = archive.sizes[image]
    pixels, row = height * width, archive.indices[image]
    first = sum(archive.chunk_count(before, pixels) for before in range(step))
    z = np.zeros(pixels * archive.channels)
    for chunk, mine in enumerate(chunks(archive, step, pixels)):
        index, j = row[first + chunk], np.arange(len(mine))
        if archive.channel == SIGN:
            bits: Any = np.full(len(mine), index)
            if archive.code != PAIRS:
                bits = draws(archive, image, step, chunk, index, j // 16) >> (j % 16).astype(np.uint64) & np.uint64(1)
            z[mine] = np.where(bits == 1, 1.0, -1.0) * math.sqrt(archive.period)
        else:
            q = 2 * (draws(archive, image, step, chunk, index, j).astype(np.float64) + 0.5) / 2**16 - 1
            z[mine] = -np.sign(q) * np.log1p(-np.abs(q)) / math.sqrt(2)
    return z
