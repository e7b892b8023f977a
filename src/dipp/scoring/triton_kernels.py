"""Triton kernels for every law and every stage: scores, bin sums, locating, winners.

A program works on one chunk (axis 0 of the grid) and one tile of its candidates or coordinates (axis 1). Draws are
generated where they are used, in Philox blocks of eight consecutive candidates and one group; each word of a block
holds two draws. In the first Philox rounds, values that depend on the group alone stay scalar, and the compiler moves
values that depend on the candidates alone out of the loop over the groups.
"""

from __future__ import annotations

from typing import TypeAlias

import triton
import triton.language as tl

from dipp.core.randomness import DRAWS_PER_BLOCK, PHILOX_MULTIPLIERS, PHILOX_ROUNDS, PHILOX_WEYL
from dipp.core.selection import BINS, RANGE_BITS

SIGN, LAPLACE, POTENTIAL = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)

_M0, _M1 = (tl.constexpr(m) for m in PHILOX_MULTIPLIERS)
_W0, _W1 = (tl.constexpr(w) for w in PHILOX_WEYL)
_ROUNDS = tl.constexpr(PHILOX_ROUNDS)
_PER_BLOCK = tl.constexpr(DRAWS_PER_BLOCK)
_BINS, _RANGE_BITS = tl.constexpr(BINS), tl.constexpr(RANGE_BITS)


T: TypeAlias = tl.tensor
"""Type of all kernel arguments: a tensor, a pointer into one, or a number."""


@triton.jit
def _philox(group: T, block: T, stream: T) -> T:
    """Return the four words of a Philox block: `randomness.philox` at (group, block, chunk, nonce)."""
    key0, key1 = tl.load(stream).to(tl.uint32), tl.load(stream + 1).to(tl.uint32)
    c0, c1 = tl.cast(group, tl.uint32), tl.cast(block, tl.uint32)
    c2, c3 = tl.load(stream + 3).to(tl.uint32), tl.load(stream + 2).to(tl.uint32)
    for _ in tl.static_range(_ROUNDS):
        p0, p1 = c0.to(tl.uint64) * _M0, c2.to(tl.uint64) * _M1
        c0, c2 = (p1 >> 32).to(tl.uint32) ^ c1 ^ key0, (p0 >> 32).to(tl.uint32) ^ c3 ^ key1
        c1, c3 = p1.to(tl.uint32), p0.to(tl.uint32)
        key0, key1 = key0 + _W0, key1 + _W1
    return c0, c1, c2, c3


@triton.jit
def _phi(z: T, knots: T, knot_bits: T) -> T:
    """Return Φ(z) as in `PotentialLaw.phi`; a knot holds Φ and its rise to the next knot in one 64-bit word."""
    size = tl.abs(z)
    knot = tl.load(knots + (size >> knot_bits))
    within = (size & ((1 << knot_bits) - 1)).to(tl.int64)
    return knot.to(tl.int32) + (((knot >> 32) * within) >> knot_bits).to(tl.int32)


@triton.jit
def _term(draw: T, shift: T, table: T, knots: T, size: T, LAW: tl.constexpr) -> T:
    """Return the contribution of one draw to the sum of a Laplace or potential score.

    Laplace: min(max(±z, 0), |m|), where `table` has the `size` magnitudes up to the limit; `scores` doubles the sum and
    subtracts Σ |m|. Potential: Φ(z) − Φ(z − m), where `table` has z of each draw and `size` is the knot bits.
    """
    if LAW == LAPLACE:
        above = draw - (1 << 15)
        index = tl.where(shift < 0, -1 - above, above)
        magnitude = tl.load(table + tl.minimum(tl.maximum(index, 0), size - 1)).to(tl.int32)
        return tl.minimum(magnitude, tl.abs(shift))
    else:  # noqa: RET505 - both branches are needed at compile time
        z = tl.load(table + draw).to(tl.int32)
        return _phi(z, knots, size) - _phi(z - shift, knots, size)


@triton.jit(do_not_specialize=["size"])
def scores(
    out: T,
    streams: T,
    offsets: T,
    shifts: T,
    bases: T,
    order: T,
    table: T,
    knots: T,
    size: T,
    stride: T,
    LAW: tl.constexpr,
    ORDERED: tl.constexpr,
    TILE: tl.constexpr,
) -> None:
    """Write the scores of TILE blocks of eight candidates of a chunk."""
    row = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1) * TILE + tl.arange(0, TILE)
    low = tl.load(offsets + row)
    dimension = (tl.load(offsets + row + 1) - low).to(tl.int32)
    shifts += low
    stream = streams + 4 * row
    s0 = tl.zeros([TILE], tl.int32)
    s1, s2, s3, s4, s5, s6, s7 = s0, s0, s0, s0, s0, s0, s0
    if LAW == SIGN:
        for group in range((dimension + 15) // 16):
            w0, w1, w2, w3 = _philox(group, block, stream)
            for bit in tl.static_range(16):
                m = tl.load(shifts + 16 * group + bit, mask=16 * group + bit < dimension, other=0)
                s0 += tl.where(w0 & (1 << bit) != 0, m, 0)
                s1 += tl.where(w0 & (1 << 16 + bit) != 0, m, 0)
                s2 += tl.where(w1 & (1 << bit) != 0, m, 0)
                s3 += tl.where(w1 & (1 << 16 + bit) != 0, m, 0)
                s4 += tl.where(w2 & (1 << bit) != 0, m, 0)
                s5 += tl.where(w2 & (1 << 16 + bit) != 0, m, 0)
                s6 += tl.where(w3 & (1 << bit) != 0, m, 0)
                s7 += tl.where(w3 & (1 << 16 + bit) != 0, m, 0)
    else:
        for group in range(dimension):
            w0, w1, w2, w3 = _philox(group, block, stream)
            m = tl.load(shifts + group)
            s0 += _term((w0 & 0xFFFF).to(tl.int32), m, table, knots, size, LAW)
            s1 += _term((w0 >> 16).to(tl.int32), m, table, knots, size, LAW)
            s2 += _term((w1 & 0xFFFF).to(tl.int32), m, table, knots, size, LAW)
            s3 += _term((w1 >> 16).to(tl.int32), m, table, knots, size, LAW)
            s4 += _term((w2 & 0xFFFF).to(tl.int32), m, table, knots, size, LAW)
            s5 += _term((w2 >> 16).to(tl.int32), m, table, knots, size, LAW)
            s6 += _term((w3 & 0xFFFF).to(tl.int32), m, table, knots, size, LAW)
            s7 += _term((w3 >> 16).to(tl.int32), m, table, knots, size, LAW)
    even = tl.interleave(tl.interleave(s0, s4), tl.interleave(s2, s6))
    odd = tl.interleave(tl.interleave(s1, s5), tl.interleave(s3, s7))
    total = tl.interleave(even, odd)
    if LAW != POTENTIAL:
        total = 2 * total + tl.load(bases + row)
    k = tl.program_id(1) * (TILE * _PER_BLOCK) + tl.arange(0, TILE * _PER_BLOCK)
    if ORDERED:
        total += tl.load(order + k, mask=k < stride, other=0)
    tl.store(out + row * stride + k, total, mask=k < stride)


@triton.jit
def _exponents(scores: T, k: T, top: T, candidates: T, fraction_bits: T) -> T:
    """Return how far each score lies below the top, as whole bits and a fraction; beyond the candidates, R + 1 bits."""
    score = tl.load(scores + k, mask=k < candidates, other=0)
    clipped = tl.minimum(top - score, _RANGE_BITS << fraction_bits)
    return tl.where(k < candidates, clipped >> fraction_bits, _BINS), clipped & ((1 << fraction_bits) - 1)


@triton.jit(do_not_specialize=["fraction_bits"])
def bin_sums(
    out: T, scores: T, tops: T, weights: T, candidates: T, stride: T, fraction_bits: T, TILE: tl.constexpr
) -> None:
    """Add the weights of TILE candidates to the sums of their bins; the sums are exact in any order of addition."""
    row = tl.program_id(0).to(tl.int64)
    k = tl.program_id(1) * TILE + tl.arange(0, TILE)
    whole, fraction = _exponents(scores + row * stride, k, tl.load(tops + row), candidates, fraction_bits)
    weight = tl.load(weights + fraction, mask=whole < _BINS, other=0)
    tl.atomic_add(out + row * _BINS + whole, weight, mask=whole < _BINS, sem="relaxed")


@triton.jit(do_not_specialize=["fraction_bits"])
def tile_sums(
    out: T, scores: T, tops: T, weights: T, bins: T, candidates: T, stride: T, fraction_bits: T, TILE: tl.constexpr
) -> None:
    """Write the sum of the weights of those candidates of a tile that lie in the chosen bin."""
    row = tl.program_id(0).to(tl.int64)
    k = tl.program_id(1) * TILE + tl.arange(0, TILE)
    whole, fraction = _exponents(scores + row * stride, k, tl.load(tops + row), candidates, fraction_bits)
    weight = tl.load(weights + fraction, mask=whole == tl.load(bins + row), other=0)
    tl.store(out + row * tl.num_programs(1) + tl.program_id(1), tl.sum(weight))


@triton.jit(do_not_specialize=["fraction_bits", "count"])
def place(
    out: T,
    tiles: T,
    targets: T,
    count: T,
    scores: T,
    tops: T,
    weights: T,
    bins: T,
    candidates: T,
    stride: T,
    fraction_bits: T,
    COUNT: tl.constexpr,
    TILE: tl.constexpr,
) -> None:
    """Find the first candidate at which the running sum of the weights of the chosen bin exceeds the target.

    Running sums never fall, so its number is the number of running sums that are at most the target: first among the
    `count` tiles, then inside the tile.
    """
    row = tl.program_id(0).to(tl.int64)
    t = tl.arange(0, COUNT)
    sums = tl.load(tiles + row * count + t, mask=t < count, other=0)
    target = tl.load(targets + row)
    before = (tl.cumsum(sums, 0) <= target) & (t < count)
    rest = target - tl.sum(tl.where(before, sums, 0))
    first = tl.sum(before.to(tl.int32)) * TILE
    k = first + tl.arange(0, TILE)
    whole, fraction = _exponents(scores + row * stride, k, tl.load(tops + row), candidates, fraction_bits)
    weight = tl.load(weights + fraction, mask=whole == tl.load(bins + row), other=0)
    tl.store(out + row, (first + tl.sum((tl.cumsum(weight, 0) <= rest).to(tl.int32))).to(tl.int64))


@triton.jit
def winners(out: T, streams: T, offsets: T, indices: T, GROUP: tl.constexpr, TILE: tl.constexpr) -> None:
    """Write the draws of the chosen candidate for TILE coordinates: 16 bits each or, in groups of 16, one bit each."""
    row = tl.program_id(0).to(tl.int64)
    low, high = tl.load(offsets + row), tl.load(offsets + row + 1)
    i = tl.program_id(1) * TILE + tl.arange(0, TILE)
    index = tl.load(indices + row).to(tl.int32)
    w0, w1, w2, w3 = _philox(i // GROUP, index // _PER_BLOCK, streams + 4 * row)
    position = index % _PER_BLOCK
    word = tl.where(position < 4, tl.where(position < 2, w0, w1), tl.where(position < 6, w2, w3))
    draw = word >> (16 * (position % 2)).to(tl.uint32) & 0xFFFF
    if GROUP > 1:
        draw = draw >> (i % GROUP).to(tl.uint32) & 1
    tl.store(out + low + i, draw.to(tl.int16), mask=low + i < high)
