"""Selection: integer scores in, one index out, exactly. The privacy-critical core; no floats, no framework.

**Law.** Scores u_k are integers in units of 2^−S bits (α and the public Poisson order are already in them). With
u_max = max u, the exponent e_k = min(u_max − u_k, R·2^S) splits into whole bits j and a fraction f, and

    P[K = k] = w_k / Σ_i w_i,      w_k = F[f_k] · 2^(R − j_k),      F[f] = round(2^(40 − f/2^S)) ∈ [2^39, 2^40].

All sums are exact integers: at most 2^22 fractions below 2^40 fit into an int64, and the R + 1 bin sums, shifted and
added, fit into two 64-bit limbs. One uniform integer below the total, from the operating system's CSPRNG, picks the bin
and then the index inside it.

**Proof sketch of privacy.** Let the input move so that no score moves by more than s units: |u_k − u'_k| ≤ s for all k.
Put ũ_k = max(u_k, u_max − R·2^S). Since u_max moves by at most s, so does every ũ_k: the clip is free. Without the
rounding of F, P[k] = 2^(ũ_k/2^S) / Σ_i 2^(ũ_i/2^S) (the common factor u_max cancels); numerator and denominator each
change by a factor of at most 2^(s/2^S), so ln P[k]/P'[k] ≤ 2s·ln 2/2^S. Rounding moves a weight by at most 1/2, and no
rounded weight is below 2^39·2^(2^−15) > 2^39·(1 + 2^−16), so each moves by a relative 2^−40/(1 + 2^−16) at most; that
enters once in the numerator and once in the denominator of P and of P': together η < 2^−38. So one selection is
(2s·ln 2/2^S + η)-DP; and as ln P/P' at any two indices differs by no more than that, it has bounded range of the same
size. All this holds for every fixed common randomness, any number n of candidates and any law of theirs.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import NDArray

from dipp.core import randomness
from dipp.errors import DippError

RANGE_BITS = 64
"""R: scores further than this below the best one are treated as if they were this far."""
BINS = RANGE_BITS + 1
"""Bins of candidates, one for each whole number of bits j = 0 … R."""
FRACTION_WEIGHT_BITS = 40
"""log2 of the largest fraction weight F[0]."""
POWER_BITS = 192
"""Bits to which powers of two with fractional exponents are computed."""
MAX_FRACTION_BITS = 15
"""Largest S: the table of fractions has 2^S entries."""
MAX_CANDIDATES = 1 << 22
"""Largest n: 2^22 weights of at most 2^40 add up to less than 2^63."""
MAX_ABS_SCORE = 1 << 30
"""Scores are smaller than this in absolute value, so that sums and differences are exact in int32."""
ETA = 2.0**-38
"""Nats that the rounding of the weights can add to the loss of one selection."""

Scores = NDArray[np.int32]
Sums = NDArray[np.int64]


def _check_scale(fraction_bits: int) -> None:
    if not 0 <= fraction_bits <= MAX_FRACTION_BITS:
        raise DippError("fraction_bits", f"0 to {MAX_FRACTION_BITS} is needed, got {fraction_bits}")


def epsilon(sensitivity: int, fraction_bits: int) -> float:
    """Pure ε of a selection whose scores move by at most s units of 2^−S bits: 2s·ln 2/2^S + η, rounded up."""
    if sensitivity < 0:
        raise DippError("sensitivity", f"a count of units ≥ 0 is needed, got {sensitivity}")
    _check_scale(fraction_bits)
    exact = 2 * sensitivity * math.log(2) * 2.0**-fraction_bits + ETA
    return math.nextafter(exact * (1 + 2.0**-50), math.inf)


@functools.cache
def _roots(fraction_bits: int) -> tuple[int, ...]:
    """2^(−2^i/2^S)·2^192 for i = 0 … S: each the square root of the next, rounded down, from 2^−1 down."""
    roots = [1 << (POWER_BITS - 1)]
    for _ in range(fraction_bits):
        roots.append(math.isqrt(roots[-1] << POWER_BITS))
    return tuple(reversed(roots))


def power(units: int, fraction_bits: int) -> int:
    """2^(−units/2^S)·2^192 for units ≥ 0, by integer arithmetic; its relative error stays below 2^−170."""
    _check_scale(fraction_bits)
    whole, fraction = units >> fraction_bits, units & ((1 << fraction_bits) - 1)
    product = 1 << POWER_BITS
    for i, root in enumerate(_roots(fraction_bits)):
        if fraction >> i & 1:
            product = (product * root) >> POWER_BITS
    return product >> whole


@functools.cache
def fraction_weights(fraction_bits: int) -> Sums:
    """F[f] = round(2^(40 − f/2^S)) for f = 0 … 2^S − 1, by integer arithmetic only.

    2^(−1/2^S) is taken by S integer square roots at 192 bits and raised to the powers by multiplication; the error of
    the chain stays below 2^−170 relative, so that every entry is the nearest integer (a tie is impossible:
    2^(40 − f/2^S) is irrational for 0 < f < 2^S).
    """
    _check_scale(fraction_bits)
    root, weights, weight = _roots(fraction_bits)[0], [], 1 << POWER_BITS
    half = 1 << (POWER_BITS - FRACTION_WEIGHT_BITS - 1)
    for _ in range(1 << fraction_bits):
        weights.append((weight + half) >> (POWER_BITS - FRACTION_WEIGHT_BITS))
        weight = (weight * root) >> POWER_BITS
    table = np.array(weights, np.int64)
    table.flags.writeable = False
    return table


def exponents(scores: Scores, fraction_bits: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Whole bits j and fraction f of e_k = min(u_max − u_k, R·2^S), along the last axis."""
    _check_scale(fraction_bits)
    wide = scores.astype(np.int64)
    clipped = np.minimum(wide.max(axis=-1, keepdims=True) - wide, RANGE_BITS << fraction_bits)
    return clipped >> fraction_bits, clipped & ((1 << fraction_bits) - 1)


def bin_sums(scores: Scores, fraction_bits: int) -> Sums:
    """Exact sums Σ F[f_k] over the candidates of each bin j: chunks × n scores → chunks × (R + 1) sums."""
    whole, fraction = exponents(scores, fraction_bits)
    weights = fraction_weights(fraction_bits)[fraction]
    sums = np.zeros((scores.shape[0], BINS), np.int64)
    np.add.at(sums, (np.arange(scores.shape[0])[:, None], whole), weights)
    return sums


def locate(scores: Scores, fraction_bits: int, bins: NDArray[np.int64], offsets: Sums) -> NDArray[np.int64]:
    """The first candidate at which the running sum of weights inside the chosen bin exceeds the offset."""
    whole, fraction = exponents(scores, fraction_bits)
    inside = whole == bins[:, None]
    running = np.cumsum(np.where(inside, fraction_weights(fraction_bits)[fraction], 0), axis=1)
    found: NDArray[np.int64] = np.argmax(running > offsets[:, None], axis=1).astype(np.int64)
    if not (running[:, -1] > offsets).all():
        raise DippError("offsets", "below the weights of the chosen bins are needed; the sums are not of these scores")
    return found


def draw_bins(sums: Sums) -> tuple[NDArray[np.int64], Sums]:
    """One secure draw per chunk: the bin, and the offset into the bin's weights, both exactly distributed.

    The total T = Σ_j sums[j]·2^(R − j) < 2^63·2^65 = 2^128 is a two-limb integer. A uniform r < T falls into bin j with
    probability sums[j]·2^(R − j)/T; given that, r minus what lies before is uniform below sums[j]·2^(R − j), and its
    quotient by 2^(R − j) is uniform below sums[j].
    """
    if sums.dtype != np.int64 or sums.ndim != 2 or sums.shape[1] != BINS or not len(sums) or sums.min() < 0:
        raise DippError("sums", f"one or more rows of {BINS} non-negative int64 are needed")
    if not sums.any(axis=1).all():
        raise DippError("sums", "a positive total is needed in every row")
    high, low = _running_totals(sums)
    target_high, target_low = _uniform_below(high[:, -1], low[:, -1])
    # The first bin whose running total exceeds the target: compare the high limbs, then step past the rare ties.
    rows, bins = np.arange(len(sums)), np.count_nonzero(high < target_high[:, None], axis=1)
    while (tied := (high[rows, bins] == target_high) & (low[rows, bins] <= target_low)).any():
        bins += tied
    before_high = np.where(bins > 0, high[rows, bins - 1], np.uint64(0))
    before_low = np.where(bins > 0, low[rows, bins - 1], np.uint64(0))
    rest_low = target_low - before_low
    rest_high = target_high - before_high - (target_low < before_low)
    shift = (RANGE_BITS - bins).astype(np.uint64)
    return bins.astype(np.int64), _shift_right(rest_high, rest_low, shift).astype(np.int64)


def _running_totals(sums: Sums) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Running two-limb sums of sums[j]·2^(64 − j) over j, up to the last bin in use (most of the R + 1 are empty)."""
    used = int(np.flatnonzero(sums.any(axis=0))[-1]) + 1
    words, whole = sums[:, :used].astype(np.uint64), np.arange(used, dtype=np.uint64)
    full = np.uint64(64)
    low, high = words << ((full - whole) % full), words >> (whole % full)
    # Shifts by 64 bits, which machine words do not have: the modulo above made them shifts by 0.
    low[:, :1], high[:, 64:] = 0, 0
    low_total = np.cumsum(low, axis=1, dtype=np.uint64)
    carries = np.cumsum(low_total < low, axis=1, dtype=np.uint64)
    return np.cumsum(high, axis=1, dtype=np.uint64) + carries, low_total


def _uniform_below(high: NDArray[np.uint64], low: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Uniform two-limb integers below the given ones: masked random bits, redrawn until they are below (exact)."""
    mask_high = _smear(high)
    mask_low = np.where(high > 0, np.uint64(0xFFFFFFFFFFFFFFFF), _smear(low))
    out_high, out_low = np.empty_like(high), np.empty_like(low)
    pending = np.arange(len(high))
    while pending.size:
        words = np.frombuffer(randomness.private_bytes(16 * pending.size), np.uint64).reshape(-1, 2)
        try_high, try_low = words[:, 0] & mask_high[pending], words[:, 1] & mask_low[pending]
        out_high[pending], out_low[pending] = try_high, try_low
        below = (try_high < high[pending]) | ((try_high == high[pending]) & (try_low < low[pending]))
        pending = pending[~below]
    return out_high, out_low


def _smear(word: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Set every bit below the highest set one."""
    for shift in (1, 2, 4, 8, 16, 32):
        word = word | (word >> np.uint64(shift))
    return word


def _shift_right(high: NDArray[np.uint64], low: NDArray[np.uint64], shift: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """(high·2^64 + low) >> shift for 0 ≤ shift ≤ 64, where the result fits into one limb."""
    full = np.uint64(64)
    partial = (low >> (shift % full)) | (high << ((full - shift) % full))
    return np.where(shift == full, high, np.where(shift == 0, low, partial))


def select(scores: Scores, fraction_bits: int) -> NDArray[np.int64]:
    """One index per row of chunks × n scores: the reference for what every scoring backend does in parts."""
    if scores.ndim != 2 or not 1 <= scores.shape[1] <= MAX_CANDIDATES:
        raise DippError(
            "scores", f"chunks × n scores with 1 ≤ n ≤ {MAX_CANDIDATES} are needed, got shape {scores.shape}"
        )
    if scores.dtype != np.int32 or (np.abs(scores.astype(np.int64)) >= MAX_ABS_SCORE).any():
        raise DippError("scores", f"int32 below {MAX_ABS_SCORE} in size are needed, got {scores.dtype}")
    bins, offsets = draw_bins(bin_sums(scores, fraction_bits))
    return locate(scores, fraction_bits, bins, offsets)
