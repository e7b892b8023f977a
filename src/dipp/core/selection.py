"""Selection: the private draw of one index from integer scores, by an exact law. This is the privacy-critical core.

**Law.** Candidate k of n has a score u_k, an integer that counts multiples of 2^−S bits (α and the public Poisson order
are already in it). The best score is u_max, and scores more than R bits below it count as if they were R bits below.
The exponent e_k = min(u_max − u_k, R·2^S) splits into whole bits j and a fraction f, and the index K has the law

    P[K = k] = w_k / Σ_i w_i,      w_k = F[f_k] · 2^(R − j_k),      F[f] = round(2^(40 − f/2^S)) ∈ [2^39, 2^40].

All sums are exact integers: at most 2^22 fractions below 2^40 fit into an int64, and the R + 1 bin sums, shifted and
added, fit into two 64-bit limbs. One uniform integer below the total, from the operating system's CSPRNG, picks the bin
and then the index inside it.

**Proof sketch of privacy.** Let the input change so that no score moves by more than s: |u_k − u'_k| ≤ s for all k.
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
"""R, in bits: scores further than this below the best one are treated as if they were this far below it."""
BINS = RANGE_BITS + 1
"""Number of bins of candidates, one for each whole number of bits j = 0 … R."""
FRACTION_WEIGHT_BITS = 40
"""log2 of the largest fraction weight F[0]."""
POWER_BITS = 192
"""Precision, in bits, of powers of two with fractional exponents."""
MAX_FRACTION_BITS = 15
"""Largest S: the table of fractions has 2^S entries."""
MAX_CANDIDATES = 1 << 22
"""Largest n: 2^22 weights of at most 2^40 add up to less than 2^63."""
MAX_ABS_SCORE = 1 << 30
"""Scores are smaller than this in absolute value, so that sums and differences are exact in int32."""
ETA = 2.0**-38
"""η: the nats that the rounding of the weights can add to the privacy loss of one selection, at most."""

Scores = NDArray[np.int32]
Sums = NDArray[np.int64]


def _check_scale(fraction_bits: int) -> None:
    if not 0 <= fraction_bits <= MAX_FRACTION_BITS:
        raise DippError("fraction_bits", f"must be from 0 to {MAX_FRACTION_BITS}, got {fraction_bits}")


def epsilon(sensitivity: int, fraction_bits: int) -> float:
    """Return the pure ε of a selection, 2s·ln 2/2^S + η, rounded up.

    Args:
        sensitivity: s, the most by which a change of the input moves any score, in multiples of 2^−S bits.
        fraction_bits: S, the number of bits after the binary point of a score.

    Raises:
        DippError: `sensitivity` is negative, or `fraction_bits` is out of range.
    """
    if sensitivity < 0:
        raise DippError("sensitivity", f"must be a number of units from 0, got {sensitivity}")
    _check_scale(fraction_bits)
    exact = 2 * sensitivity * math.log(2) * 2.0**-fraction_bits + ETA
    return math.nextafter(exact * (1 + 2.0**-50), math.inf)


@functools.cache
def _roots(fraction_bits: int) -> tuple[int, ...]:
    """Return 2^(−2^i/2^S)·2^192 for i = 0 … S (S: `fraction_bits`); each is the root of the next, rounded down."""
    roots = [1 << (POWER_BITS - 1)]
    for _ in range(fraction_bits):
        roots.append(math.isqrt(roots[-1] << POWER_BITS))
    return tuple(reversed(roots))


def power(units: int, fraction_bits: int) -> int:
    """Return 2^(−units/2^S)·2^192 for units ≥ 0, by integer arithmetic, with a relative error below 2^−170.

    Args:
        units: The negative exponent, in multiples of 2^−S.
        fraction_bits: S, the number of bits after the binary point of a score.
    """
    _check_scale(fraction_bits)
    whole, fraction = units >> fraction_bits, units & ((1 << fraction_bits) - 1)
    product = 1 << POWER_BITS
    for i, root in enumerate(_roots(fraction_bits)):
        if fraction >> i & 1:
            product = (product * root) >> POWER_BITS
    return product >> whole


@functools.cache
def fraction_weights(fraction_bits: int) -> Sums:
    """Return the table F[f] = round(2^(40 − f/2^S)) for f = 0 … 2^S − 1 as int64, where S is `fraction_bits`.

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
    """Return how far each score lies below the best score of its chunk: whole bits j, and the fraction f in 2^−S bits.

    Args:
        scores: Scores of chunks × n candidates, int32.
        fraction_bits: S, the number of bits after the binary point of a score.
    """
    _check_scale(fraction_bits)
    wide = scores.astype(np.int64)
    clipped = np.minimum(wide.max(axis=-1, keepdims=True) - wide, RANGE_BITS << fraction_bits)
    return clipped >> fraction_bits, clipped & ((1 << fraction_bits) - 1)


def bin_sums(scores: Scores, fraction_bits: int) -> Sums:
    """Return the exact sums of the fraction weights F[f] over the candidates of each bin.

    Bin j has the candidates whose scores lie j whole bits below the best score of their chunk (`exponents`).

    Args:
        scores: Chunks × n scores, int32.
        fraction_bits: S, the number of bits after the binary point of a score.

    Returns:
        Chunks × (R + 1) sums, int64.
    """
    whole, fraction = exponents(scores, fraction_bits)
    weights = fraction_weights(fraction_bits)[fraction]
    sums = np.zeros((scores.shape[0], BINS), np.int64)
    np.add.at(sums, (np.arange(scores.shape[0])[:, None], whole), weights)
    return sums


def locate(scores: Scores, fraction_bits: int, bins: NDArray[np.int64], offsets: Sums) -> NDArray[np.int64]:
    """Return, for each chunk, the first candidate at which the running sum of the weights in a bin exceeds an offset.

    Args:
        scores: Chunks × n scores, int32.
        fraction_bits: S, the number of bits after the binary point of a score.
        bins: The drawn bin of each chunk (`draw_bins`).
        offsets: The drawn offset of each chunk into the weights of its bin (`draw_bins`).

    Returns:
        The index of each chunk, int64.

    Raises:
        DippError: An offset is not below the weights of its bin, because the sums belong to other scores.

    """
    whole, fraction = exponents(scores, fraction_bits)
    inside = whole == bins[:, None]
    running = np.cumsum(np.where(inside, fraction_weights(fraction_bits)[fraction], 0), axis=1)
    indices: NDArray[np.int64] = np.argmax(running > offsets[:, None], axis=1).astype(np.int64)
    if not (running[:, -1] > offsets).all():
        raise DippError("offsets", "must be below the weights of the chosen bins; the sums belong to other scores")
    return indices


def draw_bins(sums: Sums) -> tuple[NDArray[np.int64], Sums]:
    """Draw for each chunk, by one private integer, a bin of candidates and an offset into the weights of this bin.

    Args:
        sums: Chunks × (R + 1) sums of weights, int64 (`bin_sums`).

    Returns:
        The bin and the offset of each chunk, int64.

    *Claim.* Both have their exact law.

    *Proof.* The total T = Σ_j sums[j]·2^(R − j) < 2^63·2^65 = 2^128 is a two-limb integer. A uniform r < T falls into
    bin j with probability sums[j]·2^(R − j)/T; given that, r minus what lies before is uniform below sums[j]·2^(R − j),
    and its quotient by 2^(R − j) is uniform below sums[j].

    Raises:
        DippError: The sums are negative, of another shape, or 0 in a row.
    """
    if sums.dtype != np.int64 or sums.ndim != 2 or sums.shape[1] != BINS or not len(sums) or sums.min() < 0:
        raise DippError("sums", f"must be one or more rows of {BINS} non-negative int64")
    if not sums.any(axis=1).all():
        raise DippError("sums", "must have a positive total in every row")
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
    """Return the running sums of sums[j]·2^(64 − j) over the bins j up to the last used one, as high and low limbs."""
    used = int(np.flatnonzero(sums.any(axis=0))[-1]) + 1
    words, whole = sums[:, :used].astype(np.uint64), np.arange(used, dtype=np.uint64)
    full = np.uint64(64)
    low, high = words << ((full - whole) % full), words >> (whole % full)
    # Machine words cannot be shifted by 64 bits: the modulo above shifted them by 0 instead, which this corrects.
    low[:, :1], high[:, 64:] = 0, 0
    low_total = np.cumsum(low, axis=1, dtype=np.uint64)
    carries = np.cumsum(low_total < low, axis=1, dtype=np.uint64)
    return np.cumsum(high, axis=1, dtype=np.uint64) + carries, low_total


def _uniform_below(high: NDArray[np.uint64], low: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Draw private uniform integers below the given two-limb integers: masked random bits, redrawn until below."""
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
    """Return integers in which every bit below the highest set bit is set, too."""
    for shift in (1, 2, 4, 8, 16, 32):
        word = word | (word >> np.uint64(shift))
    return word


def _shift_right(high: NDArray[np.uint64], low: NDArray[np.uint64], shift: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return (high·2^64 + low) >> shift for 0 ≤ shift ≤ 64; the result must fit into one limb."""
    full = np.uint64(64)
    partial = (low >> (shift % full)) | (high << ((full - shift) % full))
    return np.where(shift == full, high, np.where(shift == 0, low, partial))


def select(scores: Scores, fraction_bits: int) -> NDArray[np.int64]:
    """Draw one index for each chunk: the reference for what every scoring backend does in parts.

    Args:
        scores: Chunks × n scores, int32, below `MAX_ABS_SCORE` in absolute value; 1 ≤ n ≤ `MAX_CANDIDATES`.
        fraction_bits: S, the number of bits after the binary point of a score.

    Returns:
        The index of each chunk, int64.

    Raises:
        DippError: The scores have another shape, type or range.

    """
    if scores.ndim != 2 or not 1 <= scores.shape[1] <= MAX_CANDIDATES:
        raise DippError("scores", f"must be chunks × n scores with 1 ≤ n ≤ {MAX_CANDIDATES}, got shape {scores.shape}")
    if scores.dtype != np.int32 or (np.abs(scores.astype(np.int64)) >= MAX_ABS_SCORE).any():
        raise DippError("scores", f"must be int32 below {MAX_ABS_SCORE} in size, got {scores.dtype}")
    bins, offsets = draw_bins(bin_sums(scores, fraction_bits))
    return locate(scores, fraction_bits, bins, offsets)
