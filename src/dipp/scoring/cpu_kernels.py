"""The CPU score kernels: numba, parallel over tiles of candidates, with inner loops that LLVM turns into SIMD.

A tile is up to 2048 candidates, for which a loop computes scores at the same time. Each candidate of a tile has a
*lane*, a 16-bit integer in which its score is added up; before lanes can overflow, they are added to 32-bit sums. For
each group of coordinates that share draws, a tile generates up to 256 Philox blocks (outputs of four 32-bit words), and
reads their words as 2048 sixteen-bit draws. The draws of word j of block b belong to the candidates 8·b + 2·j and
8·b + 2·j + 1, so lanes are put into candidate order only once, when a tile is written out. Candidates are never stored:
the memory is that of the n scores.

The intrinsics are LLVM instructions that Python cannot express: multiplication, addition and shifts that stay in 16-bit
integers. Written with NumPy scalars they would be widened to 64 bits and lose most of the SIMD width.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from dipp.compiling import compiled, prefer_wide_vectors
from dipp.core.randomness import DRAWS_PER_BLOCK, PHILOX_MULTIPLIERS, PHILOX_ROUNDS, PHILOX_WEYL, Draws, Words
from dipp.core.selection import Scores

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

MAX_BLOCKS = 256
"""Largest number of Philox blocks in a tile: enough that a call costs little, few enough for the first-level cache."""
GROUP = 16
"""Number of coordinates that share a draw of the sign law."""

M0, M1 = np.uint64(PHILOX_MULTIPLIERS[0]), np.uint64(PHILOX_MULTIPLIERS[1])
W0, W1 = np.uint64(PHILOX_WEYL[0]), np.uint64(PHILOX_WEYL[1])
LOW, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
ROUNDS = PHILOX_ROUNDS
u16, i16 = np.uint16, np.int16

_WORD = ir.IntType(16)

prefer_wide_vectors()


@intrinsic
def _high16(_context: Any, _a: Any, _b: Any) -> Any:
    """Return (a·b) >> 16 of unsigned 16-bit integers."""

    def generate(_target: Any, builder: Any, _signature: Any, args: Any) -> Any:
        wide = ir.IntType(32)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 16)), _WORD)

    return types.uint16(types.uint16, types.uint16), generate


@intrinsic
def _saturating_add16(_context: Any, _a: Any, _b: Any) -> Any:
    """Return min(a + b, 2^16 − 1) of unsigned 16-bit integers."""

    def generate(_target: Any, builder: Any, _signature: Any, args: Any) -> Any:
        signature = ir.FunctionType(_WORD, [_WORD, _WORD])
        return builder.call(builder.module.declare_intrinsic("llvm.uadd.sat", [_WORD], signature), args)

    return types.uint16(types.uint16, types.uint16), generate


@intrinsic
def _shift_right16(_context: Any, _a: Any, _b: Any) -> Any:
    """Return a >> b of unsigned 16-bit integers, b < 16."""

    def generate(_target: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.lshr(args[0], args[1])

    return types.uint16(types.uint16, types.uint16), generate


@compiled()
def round_keys(stream: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """Return the pair of keys of each Philox round."""
    keys = np.empty(2 * ROUNDS, np.uint64)
    k0, k1 = np.uint64(stream[0]), np.uint64(stream[1])
    for r in range(ROUNDS):
        keys[2 * r], keys[2 * r + 1] = k0, k1
        k0, k1 = (k0 + W0) & LOW, (k1 + W1) & LOW
    return keys


@compiled()
def fill(words: NDArray[np.uint32], keys: NDArray[np.uint64], group: int, block: int, chunk: int, nonce: int) -> None:
    """Fill `words` with Philox blocks: words[j, b] is word j of the block of candidates 8·(block + b) and following."""
    for b in range(words.shape[1]):
        c0, c1, c2, c3 = np.uint64(group), np.uint64(block + b), np.uint64(chunk), np.uint64(nonce)
        for r in range(ROUNDS):
            p0, p1 = (c0 & LOW) * M0, (c2 & LOW) * M1
            c0, c1 = (p1 >> HALF) ^ c1 ^ keys[2 * r], p1 & LOW
            c2, c3 = (p0 >> HALF) ^ c3 ^ keys[2 * r + 1], p0 & LOW
        words[0, b], words[1, b], words[2, b], words[3, b] = c0, c1, c2, c3


@compiled()
def _add_signs(draws: Draws, m: NDArray[np.int16], lanes: NDArray[np.int16]) -> None:
    """Add to each lane the sum of the shifts m_i for which bit i of its draw is set.

    The loop over i is unrolled, because LLVM does not vectorise it.
    """
    m0, m1, m2, m3, m4, m5, m6, m7 = m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7]
    m8, m9, m10, m11, m12, m13, m14, m15 = m[8], m[9], m[10], m[11], m[12], m[13], m[14], m[15]
    for t in range(draws.size):
        d = i16(draws[t])
        s = lanes[t]
        s += (-(d & 1)) & m0
        s += (-((d >> 1) & 1)) & m1
        s += (-((d >> 2) & 1)) & m2
        s += (-((d >> 3) & 1)) & m3
        s += (-((d >> 4) & 1)) & m4
        s += (-((d >> 5) & 1)) & m5
        s += (-((d >> 6) & 1)) & m6
        s += (-((d >> 7) & 1)) & m7
        s += (-((d >> 8) & 1)) & m8
        s += (-((d >> 9) & 1)) & m9
        s += (-((d >> 10) & 1)) & m10
        s += (-((d >> 11) & 1)) & m11
        s += (-((d >> 12) & 1)) & m12
        s += (-((d >> 13) & 1)) & m13
        s += (-((d >> 14) & 1)) & m14
        s += (-((d >> 15) & 1)) & m15
        lanes[t] = i16(s)


@compiled()
def _normalise(y: NDArray[np.uint16], whole: NDArray[np.uint16], unit: int) -> None:
    """Do one doubling of `LaplaceLaw`: where the top bit of y is clear, double y and add `unit` to the magnitude."""
    for t in range(y.size):
        clear = u16(~u16(i16(y[t]) >> 15))
        whole[t] = _saturating_add16(whole[t], u16(clear & unit))
        y[t] = u16(y[t] + (clear & y[t]))


@compiled()
def _add_laplace(
    draws: Draws, law: NDArray[np.uint16], c3: Draws, flip: int, size: int, lanes: Draws, y: Draws, whole: Draws
) -> None:
    """Add min(max(z·sign(m), 0), |m|) to each lane, for one shift m and the Laplace variable z of each lane's draw.

    Args:
        draws: The draw of each lane.
        law: The numbers (unit, c1, c2, extra_bits, octaves, c3) of `LaplaceLaw`.
        c3: An array that repeats c3, because LLVM widens the multiplication by a scalar to 32 bits.
        flip: 0xFFFF for a negative m, which mirrors z, and 0 otherwise.
        size: |m|.
        lanes: The lanes, which are changed.
        y: Scratch space of the same size.
        whole: Scratch space of the same size.
    """
    unit, c1, c2, extra_bits, octaves = law[0], law[1], law[2], law[3], law[4]
    for t in range(draws.size):
        u = u16(draws[t] ^ flip)
        y[t] = u16(~(u16(u << 1) & u16(i16(u) >> 15)))
        whole[t] = 0
    for _ in range(octaves - 1):
        _normalise(y, whole, unit)
    for t in range(draws.size):
        clear = u16(~u16(i16(y[t]) >> 15))
        g = u16(~u16(y[t] + (clear & y[t])))
        cubic = _high16(g, _saturating_add16(_high16(g, _saturating_add16(_high16(g, c3[t]), c2)), c1))
        z = _saturating_add16(_saturating_add16(whole[t], u16(clear & unit)), cubic)
        lanes[t] = u16(lanes[t] + min(_shift_right16(z, extra_bits), size))


@compiled()
def _add_near_laplace(draws: Draws, law: NDArray[np.uint16], c3: Draws, flip: int, size: int, lanes: Draws) -> None:
    """Add what `_add_laplace` adds to each lane, in one pass, for laws of one doubling; large steps have more."""
    unit, c1, c2, extra_bits = law[0], law[1], law[2], law[3]
    for t in range(draws.size):
        u = u16(draws[t] ^ flip)
        y = u16(~(u16(u << 1) & u16(i16(u) >> 15)))
        clear = u16(~u16(i16(y) >> 15))
        g = u16(~u16(y + (clear & y)))
        cubic = _high16(g, _saturating_add16(_high16(g, _saturating_add16(_high16(g, c3[t]), c2)), c1))
        z = _saturating_add16(u16(clear & unit), cubic)
        lanes[t] = u16(lanes[t] + min(_shift_right16(z, extra_bits), size))


@compiled()
def _tiling(candidates: int) -> tuple[int, int, int]:
    """Divide candidates into tiles; return numbers of Philox blocks in a tile, tiles, and candidates in a tile."""
    blocks = min(MAX_BLOCKS, -(-candidates // DRAWS_PER_BLOCK))
    width = DRAWS_PER_BLOCK * blocks
    return blocks, -(-candidates // width), width


@compiled()
def _generator(
    stream: NDArray[np.uint32], blocks: int
) -> tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.uint16]]:
    """Return the round keys of a stream, memory for the words of a tile, and a view of that memory as draws."""
    words = np.empty((4, blocks), np.uint32)
    return round_keys(stream), words, words.reshape(4 * blocks).view(np.uint16)


@compiled(parallel=True)
def sign_scores(
    streams: Words, offsets: Longs, m: NDArray[np.int16], totals: Ints, safe_groups: int, out: Scores
) -> None:
    """Write the scores of the sign law: twice the sum of the shifts whose bit is set, less the sum of all shifts.

    Args:
        streams: A row (key0, key1, nonce, number of the chunk) for each chunk.
        offsets: Where each chunk begins among the rows of `m`.
        m: The shifts in rows of sixteen, which share a draw; the last row of a chunk is padded with zeros.
        totals: Sum of the shifts of each chunk.
        safe_groups: Number of rows whose shifts add up in a 16-bit lane without overflow.
        out: The scores, chunks × candidates.
    """
    blocks, tiles, width = _tiling(out.shape[1])
    for task in numba.prange(out.shape[0] * tiles):
        row, tile = task // tiles, task % tiles
        keys, words, draws = _generator(streams[row], blocks)
        lanes, sums = np.zeros(width, np.int16), np.zeros(width, np.int32)
        for group in range(offsets[row + 1] - offsets[row]):
            fill(words, keys, group, tile * blocks, streams[row, 3], streams[row, 2])
            _add_signs(draws, m[offsets[row] + group], lanes)
            if (group + 1) % safe_groups == 0:
                sums += lanes
                lanes[:] = 0
        sums += lanes
        _write(out[row], tile, sums, 2, totals[row])


@compiled(parallel=True)
def laplace_scores(
    streams: Words, offsets: Longs, shifts: Ints, law: NDArray[np.uint16], safe_shifts: int, out: Scores
) -> None:
    """Write the scores 2·Σ min(max(z·sign(m), 0), |m|) − Σ |m| of the Laplace law, which equal Σ (|z| − |z − m|).

    Args:
        streams: A row (key0, key1, nonce, number of the chunk) for each chunk.
        offsets: Where each chunk begins among the shifts.
        shifts: The shift m of each coordinate.
        law: The numbers (unit, c1, c2, extra_bits, octaves, c3) of `LaplaceLaw`.
        safe_shifts: Number of shifts that add up in a 16-bit lane without overflow.
        out: The scores, chunks × candidates.
    """
    blocks, tiles, width = _tiling(out.shape[1])
    for task in numba.prange(out.shape[0] * tiles):
        row, tile = task // tiles, task % tiles
        keys, words, draws = _generator(streams[row], blocks)
        lanes, sums = np.zeros(width, np.uint16), np.zeros(width, np.int32)
        y, whole, c3 = np.empty(width, np.uint16), np.empty(width, np.uint16), np.full(width, law[5])
        total = 0
        for i in range(offsets[row + 1] - offsets[row]):
            m = shifts[offsets[row] + i]
            total += abs(m)
            fill(words, keys, i, tile * blocks, streams[row, 3], streams[row, 2])
            flip, size = u16(0xFFFF if m < 0 else 0), u16(abs(m))
            if law[4] == 1:
                _add_near_laplace(draws, law, c3, flip, size, lanes)
            else:
                _add_laplace(draws, law, c3, flip, size, lanes, y, whole)
            if (i + 1) % safe_shifts == 0:
                sums += lanes
                lanes[:] = 0
        sums += lanes
        _write(out[row], tile, sums, 2, total)


@compiled()
def _write(row: Ints, tile: int, sums: Ints, scale: int, total: int) -> None:
    """Write scale·sum − total for the sum of each candidate of a tile into `row`, in the order of the candidates."""
    blocks = sums.size // DRAWS_PER_BLOCK
    for j in range(4):
        for b in range(blocks):
            for h in range(2):
                candidate = tile * sums.size + DRAWS_PER_BLOCK * b + 2 * j + h
                if candidate < row.size:
                    row[candidate] = scale * sums[(j * blocks + b) * 2 + h] - total


@compiled(parallel=True)
def potential_scores(
    streams: Words, offsets: Longs, shifts: Ints, values: Ints, knots: Ints, knot_bits: int, out: Scores
) -> None:
    """Write the scores Σ (Φ(z) − Φ(z − m)) of a potential law, with Φ looked up as in `PotentialLaw`.

    Args:
        streams: A row (key0, key1, nonce, number of the chunk) for each chunk.
        offsets: Where each chunk begins among the shifts.
        shifts: The shift m of each coordinate.
        values: The noise z of each of the 2^16 draws.
        knots: Φ at the knots.
        knot_bits: Knots lie 2^knot_bits apart.
        out: The scores, chunks × candidates.
    """
    blocks, tiles, width = _tiling(out.shape[1])
    mask = (1 << knot_bits) - 1
    for task in numba.prange(out.shape[0] * tiles):
        row, tile = task // tiles, task % tiles
        keys, words, draws = _generator(streams[row], blocks)
        sums = np.zeros(width, np.int32)
        for i in range(offsets[row + 1] - offsets[row]):
            m = np.int64(shifts[offsets[row] + i])
            fill(words, keys, i, tile * blocks, streams[row, 3], streams[row, 2])
            for t in range(width):
                z = np.int64(values[draws[t]])
                near, far = abs(z), abs(z - m)
                a, b = near >> knot_bits, far >> knot_bits
                phi_near = knots[a] + (((knots[a + 1] - knots[a]) * (near & mask)) >> knot_bits)
                phi_far = knots[b] + (((knots[b + 1] - knots[b]) * (far & mask)) >> knot_bits)
                sums[t] += phi_near - phi_far
        _write(out[row], tile, sums, 1, 0)
