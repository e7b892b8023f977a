"""Randomness: the common randomness of sender and receiver, and the private randomness of the sender.

Common randomness is Philox 4x32-10 [Salmon et al., 2011], a keyed counter-based generator: any draw of any candidate
can be regenerated alone. It is public; privacy never rests on it. Its layout is part of the file format:

    stream   = SHA-256("dipp/1/" + purpose + 0x00 + seed[16] + u64le(image) + u32le(step))
    key      = stream bytes 0-7  (two u32le);   nonce = stream bytes 8-11 (u32le)
    output   = Philox(counter = (group, candidate // 8, chunk, nonce), key): four 32-bit words, eight 16-bit draws
    draw     = the 16-bit half number candidate % 8 of the output, low halves first

The eight draws of an output belong to eight consecutive candidates and one *group* of coordinates: a group is one
coordinate for the 16-bit channels, and sixteen coordinates (bit i of the draw is coordinate 16·group + i) for the sign
channel. `image` may be the number of a public group of images, which then share their candidates.

Private randomness comes from the operating system's CSPRNG, through `private_bytes` alone. There is no seed for it, no
argument that replaces it, and no other source: if it were shared or guessable, the index would be a function of the
image, and ε = ∞.
"""

from __future__ import annotations

import hashlib
import os
import struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dipp.errors import DippError

SEED_BYTES = 16
"""Length of a public seed in bytes."""
DRAWS_PER_BLOCK = 8
"""Number of 16-bit draws in one Philox block, which is an output of 128 bits."""
CACHED_BLOCKS = 1 << 12
"""Number of Philox blocks that are computed at a time."""
PHILOX_ROUNDS = 10
PHILOX_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
PHILOX_WEYL = (0x9E3779B9, 0xBB67AE85)
"""The constants of Philox 4x32-10."""

Words = NDArray[np.uint32]
Draws = NDArray[np.uint16]


def private_bytes(count: int) -> bytes:
    """Return `count` bytes from the operating system's CSPRNG: the only source of private randomness in dipp."""
    return os.urandom(count)


def private_uniforms(count: int) -> NDArray[np.float64]:
    """Return `count` private reals, uniform on the midpoints of 2^52 equal parts of (0, 1), as float64.

    Only codes without a certified ε use them.
    """
    words = np.frombuffer(private_bytes(8 * count), np.uint64)
    return _midpoints(words >> np.uint64(12), 52)


def fresh_seed() -> bytes:
    """Return a new public seed of 16 bytes.

    Draw it before any image is read: a seed that is chosen after the image was seen leaks information about it.
    """
    return private_bytes(SEED_BYTES)


def parse_seed(text: str) -> bytes:
    """Return the public seed that a text of 32 hex digits names.

    Raises:
        DippError: The text has another form.

    """
    try:
        seed = bytes.fromhex(text)
    except ValueError:
        seed = b""
    if len(seed) != SEED_BYTES:
        raise DippError("seed", f"must be {2 * SEED_BYTES} hex digits, got {text!s:.40}")
    return seed


class Stream(NamedTuple):
    """Key and nonce of the public random numbers of one seed, image, step and purpose."""

    key0: int
    key1: int
    nonce: int


def stream(seed: bytes, image: int = 0, step: int = 0, purpose: str = "candidates") -> Stream:
    """Return the public stream of an image, a step and a purpose; the module's docstring has the formula.

    Args:
        seed: The public seed, 16 bytes.
        image: Number of the image, or of its group, from 0 to 2^64 − 1.
        step: Number of the step, from 0 to 2^32 − 1.
        purpose: What the numbers are for, such as "candidates": different purposes have independent streams.

    Raises:
        DippError: The seed has another length, or a number is out of its range.

    """
    if not isinstance(seed, bytes) or len(seed) != SEED_BYTES:
        got = len(seed) if isinstance(seed, bytes) else type(seed).__name__
        raise DippError("seed", f"must be {SEED_BYTES} bytes, got {got}")
    if not 0 <= image < 1 << 64:
        raise DippError("image", f"must be a number from 0 to 2^64 - 1, got {image}")
    if not 0 <= step < 1 << 32:
        raise DippError("step", f"must be a number from 0 to 2^32 - 1, got {step}")
    text = b"dipp/1/" + purpose.encode() + b"\0" + seed + struct.pack("<QI", image, step)
    return Stream(*struct.unpack("<3I", hashlib.sha256(text).digest()[:12]))


def philox(counter: tuple[Words, Words, Words, Words], key: tuple[Words, Words]) -> tuple[Words, Words, Words, Words]:
    """Return the outputs of Philox 4x32-10: the reference for every other implementation in dipp.

    Args:
        counter: The four counter words, uint32 arrays that broadcast against each other.
        key: The two key words, likewise.

    Returns:
        The four words of each output, uint32.
    """
    c0, c1, c2, c3 = (np.asarray(c, np.uint64) for c in counter)
    k0, k1 = (np.asarray(k, np.uint64) for k in key)
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    for _ in range(PHILOX_ROUNDS):
        p0, p1 = c0 * np.uint64(PHILOX_MULTIPLIERS[0]), c2 * np.uint64(PHILOX_MULTIPLIERS[1])
        c0, c1, c2, c3 = (p1 >> half) ^ c1 ^ k0, p1 & low, (p0 >> half) ^ c3 ^ k1, p0 & low
        k0, k1 = (k0 + np.uint64(PHILOX_WEYL[0])) & low, (k1 + np.uint64(PHILOX_WEYL[1])) & low
    return tuple(c.astype(np.uint32) for c in (c0, c1, c2, c3))  # type: ignore[return-value]


def draws(source: Stream, chunk: int, group: NDArray[np.integer], candidate: NDArray[np.integer]) -> Draws:
    """Return the 16-bit draws of candidates for groups of coordinates: random access to the common randomness.

    Args:
        source: The stream of the step.
        chunk: Number of the chunk.
        group: Numbers of the groups of coordinates; a group is one coordinate, or sixteen for the sign channel.
        candidate: Numbers of the candidates; broadcast against `group`.

    Returns:
        The draws as uint16, of the broadcast shape.
    """
    word = np.uint32
    groups, candidates = np.broadcast_arrays(np.asarray(group, word), np.asarray(candidate, word))
    counter = (groups, candidates // word(DRAWS_PER_BLOCK), np.asarray(chunk, word), np.asarray(source.nonce, word))
    words = np.stack(philox(counter, (np.asarray(source.key0, word), np.asarray(source.key1, word))))
    half = candidates % word(DRAWS_PER_BLOCK)
    chosen = np.take_along_axis(words, (half // word(2))[None].astype(np.intp), axis=0)[0]
    drawn: Draws = (chosen >> (word(16) * (half % word(2)))).astype(np.uint16)
    return drawn


def uniforms(source: Stream, count: int) -> NDArray[np.float64]:
    """Return `count` public uniform numbers in (0, 1) with 32 bits each, as float64.

    Numbers 4·i … 4·i + 3 are the words of Philox block i of the stream.

    Args:
        source: The stream of public random words.
        count: Number of values.
    """
    return _midpoints(words(source, count), 32)


def uniforms_at(source: Stream, index: NDArray[np.integer], dims: int) -> NDArray[np.float64]:
    """Return `dims` public uniform numbers in (0, 1) with 52 bits for each index: random access to a stream.

    Args:
        source: The stream.
        index: Whole numbers below 2^64, in any order, of shape (n,).
        dims: How many numbers each index has; a Philox block gives two.

    Returns:
        Numbers of shape (n, dims), float64.
    """
    index = np.asarray(index, np.uint64)[:, None]
    half = np.uint64(32)
    counter = (
        np.arange(-(-dims // 2), dtype=np.uint32)[None],
        (index & np.uint64(0xFFFFFFFF)).astype(np.uint32),
        (index >> half).astype(np.uint32),
        np.asarray(source.nonce, np.uint32),
    )
    words = philox(counter, (np.asarray(source.key0, np.uint32), np.asarray(source.key1, np.uint32)))
    w0, w1, w2, w3 = (w.astype(np.uint64) for w in words)
    pairs = np.stack([(w0 << half) | w1, (w2 << half) | w3], axis=-1).reshape(len(index), -1)[:, :dims]
    return _midpoints(pairs >> np.uint64(12), 52)


def permutation(source: Stream, count: int) -> NDArray[np.int64]:
    """Return a public uniform permutation of 0 … count − 1 as int64, the same on every platform.

    It is the stable order of 64-bit keys from the stream. Numbers are sorted several times faster than their positions
    are, so each key gets its position in place of its lowest bits. The few keys that agree in all other bits are
    then put in order.

    Args:
        source: The stream of public random words.
        count: Number of positions.
    """
    halves = words(source, 2 * count).reshape(count, 2)
    keys = halves[:, 0].astype(np.uint64)
    keys <<= np.uint64(32)
    keys |= halves[:, 1]
    bits = np.uint64(max(1, count - 1).bit_length())
    marked = (keys >> bits << bits) | np.arange(count, dtype=np.uint64)
    marked.sort()
    order = (marked & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.int64)
    marked >>= bits
    tied = np.flatnonzero(marked[1:] == marked[:-1])
    places = np.union1d(tied, tied + 1)
    numbers = order[places]
    order[places] = numbers[np.lexsort((numbers, keys[numbers]))]
    return order


def _midpoints(cells: NDArray[np.unsignedinteger], bits: int) -> NDArray[np.float64]:
    """Return the midpoints of the parts with these numbers, where 2^bits equal parts divide (0, 1)."""
    return (cells.astype(np.float64) + 0.5) * 2.0**-bits


def words(source: Stream, count: int) -> Words:
    """Return the first `count` 32-bit words of a stream as uint32; words 4·i … 4·i + 3 are Philox block i.

    Args:
        source: The stream.
        count: Number of words.
    """
    zero, nonce, *key = (np.asarray(word, np.uint32) for word in (0, source.nonce, source.key0, source.key1))
    blocks = np.empty((-(-count // 4), 4), np.uint32)
    for first in range(0, len(blocks), CACHED_BLOCKS):  # so that the rounds of Philox work in the processor's cache
        part = blocks[first : first + CACHED_BLOCKS]
        counter = (np.arange(first, first + len(part), dtype=np.uint32), zero, zero, nonce)
        part[:] = np.stack(philox(counter, (key[0], key[1])), axis=1)
    return blocks.reshape(-1)[:count]
