"""Test that archives return their indices, state their certificate, and that all other files are refused."""

from __future__ import annotations

import dataclasses
import errno
import itertools
import math
import os
import pickle
import struct
import tracemalloc
from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.archives import (
    FLAT,
    MODEL,
    PPR,
    SEED,
    Shape,
    archive_of_indices,
    build,
    counts,
    header_of,
    made_up,
    nine_steps,
    release,
    small_plan,
    stated_claim,
    with_checksum,
)
from helpers.geometry import of_pixels
from helpers.refusals import refused
from helpers.statistics import bounded
from hypothesis import given
from hypothesis import strategies as st

from dipp.codes import Flat, Functional, StepLimited
from dipp.core.channels import Channel, Gaussian, Laplace, Sign
from dipp.core.geometry import Geometry
from dipp.core.plan import Coding, Plan
from dipp.core.selection import ETA
from dipp.core.steps import Step
from dipp.errors import DippError, NoCertificateError
from dipp.format import archive, packing
from dipp.format.archive import Archive
from dipp.format.bytes import column, varint
from dipp.format.header import Header
from dipp.format.steps import float_column
from dipp.planning.presets import DIFFC, PAPER
from dipp.privacy.certificate import Certificate


def certificate(plan: Plan, channels: int, pixels: int, separate: bool) -> Certificate:
    return Certificate.of(dataclasses.replace(plan, separate=separate), of_pixels(pixels, channels))


SHAPES = ((4, 5, 3),) * 3 + ((6, 4, 3), (2, 12, 3), (4, 5, 3))
CODINGS = {"paper": PAPER, "flat": FLAT, "ppr": PPR, "diffc": DIFFC}


# What goes in comes out.

channels_drawn = st.one_of(
    st.sampled_from([Laplace(), Gaussian(), Sign(1), Sign(3), Sign(6)]),
    st.integers(3, 8).map(Sign),
)
alphas_drawn = st.fractions(Fraction(1, 2), 4, max_denominator=9)
codes_drawn = st.one_of(st.builds(Flat, alphas_drawn), st.builds(StepLimited, alphas_drawn), st.just(Functional()))
codings_drawn = st.one_of(
    st.sampled_from([PAPER, FLAT, DIFFC]),
    st.builds(Coding, channels_drawn, codes_drawn),
)


@st.composite
def plans_drawn(draw: st.DrawFn) -> Plan:
    coding = draw(codings_drawn)
    times = sorted(draw(st.sets(st.integers(0, 65535), min_size=2, max_size=6)), reverse=True)
    gains = st.one_of(st.floats(2**-26, 2**-10, width=32), st.sampled_from([2**-10, 2**-12 * 1.5, 2**-20]))
    return Plan(
        coding,
        tuple(
            Step(
                start,
                end,
                draw(gains),
                draw(st.one_of(st.integers(1, 60), st.integers(1, (1 << 32) - 1))),
                draw(st.integers(1, 22)),
                0 if coding.code.fixed_length else draw(st.integers(1, 255)),
            )
            for start, end in itertools.pairwise(times)
        ),
    )


@st.composite
def shapes_drawn(draw: st.DrawFn) -> list[Shape]:
    channels = draw(st.integers(1, 3))
    side = st.integers(3, 7)
    shapes = []
    for height, width, count in draw(st.lists(st.tuples(side, side, st.integers(1, 10)), max_size=3)):
        shapes += [(height, width, channels)] * count
    return shapes


@bounded
@given(plans_drawn(), shapes_drawn(), st.booleans(), st.sampled_from([None, 1e-6]), st.integers(0, 99))
def test_an_archive_returns_its_plan_indices_and_certificate(
    plan: Plan, shapes: list[Shape], separate: bool, delta: float | None, salt: int
) -> None:
    indices = made_up(plan, shapes, salt)
    plan = dataclasses.replace(plan, separate=separate)
    made = archive_of_indices(plan, shapes, indices, delta)
    back = Archive.from_bytes(made.to_bytes())
    assert back.parameters.plan == plan
    assert (back.parameters.model, back.parameters.seed) == (MODEL, SEED)
    assert back.parameters.delta == delta
    assert len(back) == len(shapes)
    assert [back.geometry(i).shape for i in range(len(back))] == shapes
    assert [back.image_indices(i).tolist() for i in range(len(back))] == indices
    if plan.coding.certified:
        assert back.certificate == made.certificate
        assert back.certificate.ledger.to_dict() == made.certificate.ledger.to_dict()
    else:
        with pytest.raises(NoCertificateError):
            made.certificate  # noqa: B018
        with pytest.raises(NoCertificateError):
            made.certificate.ledger  # noqa: B018
    assert back.to_bytes() == made.to_bytes()


@pytest.mark.parametrize("coding", CODINGS.values(), ids=CODINGS.keys())
def test_random_access_is_full_decoding(coding: Coding) -> None:
    plan = small_plan(coding)
    shapes = [(4, 5, 3)] * 21
    indices = np.array(made_up(plan, shapes))
    made = archive_of_indices(plan, shapes, indices)
    np.testing.assert_array_equal(made.batch(0, 21), indices)
    for first in range(21):
        np.testing.assert_array_equal(made.image_indices(first), indices[first])
        np.testing.assert_array_equal(made.batch(first, 21), indices[first:])
        np.testing.assert_array_equal(made.batch(0, first + 1), indices[: first + 1])


@pytest.mark.parametrize("coding", CODINGS.values(), ids=CODINGS.keys())
def test_a_batch_has_images_of_one_geometry(coding: Coding) -> None:
    made = build(small_plan(coding), SHAPES)
    assert made.batch(0, 2).tolist() == [made.image_indices(0).tolist(), made.image_indices(1).tolist()]
    for first, last in ((2, 4), (3, 5), (1, 1), (3, 2)):
        with refused("first and last", "images"):
            made.batch(first, last)
    for first, last in ((0, 7), (-1, 2), (6, 7)):
        with refused("image"):
            made.batch(first, last)


@pytest.mark.parametrize("coding", [FLAT, Coding(Sign(6), Flat())])
def test_large_images_are_unpacked_step_by_step(coding: Coding, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = small_plan(coding, chunk_size=2)
    made = build(plan, [(16, 16, 3)] * 5)
    whole = made.batch(0, 5)
    monkeypatch.setattr(packing, "ROW_INDICES", 0)
    np.testing.assert_array_equal(made.batch(0, 5), whole)
    np.testing.assert_array_equal(made.image_indices(3), whole[3])


def test_images_of_fixed_length_are_packed_without_gaps() -> None:
    plan = small_plan(FLAT)
    lengths = [len(build(plan, [(4, 5, 3)] * count).to_bytes()) for count in (0, 1, 8, 80)]
    # One chunk a step: 9 + 12 bits an image.
    assert lengths[3] - lengths[2] == 72 * 21 // 8
    assert lengths[2] - lengths[1] == 21 - 3


def test_the_likeliest_indices_take_a_bit_each() -> None:
    plan = small_plan(PAPER, chunk_size=1)
    made = archive_of_indices(plan, [(4, 5, 3)], [[0] * 120])
    assert made.payload_bits == 120
    assert made.image_indices(0).tolist() == [0] * 120


@pytest.mark.parametrize("coding", CODINGS.values(), ids=CODINGS.keys())
def test_many_images_are_opened_and_read_fast_and_small(coding: Coding, tmp_path: Path) -> None:
    plan, count = small_plan(coding, 60), 400_000 if coding.code.fixed_length else 20_000
    indices = np.arange(2 * count).reshape(count, 2) % 512
    archive_of_indices(plan, [(4, 5, 3)] * count, indices).save(tmp_path / "many.dipp")
    size = (tmp_path / "many.dipp").stat().st_size
    tracemalloc.start()
    opened = archive.open(tmp_path / "many.dipp")
    assert opened.image_indices(count - 1).tolist() == indices[-1].tolist()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Zeta coded images have an offset each, and the bits of their lengths are spread out once.
    assert peak < 3 * size + 100_000 + (not coding.code.fixed_length) * 200 * count
    np.testing.assert_array_equal(opened.batch(count // 2, count), indices[count // 2 :])


# Sizes.


def test_a_header_is_short() -> None:
    """A header of nine steps takes about 135 bytes, if the gains have 16 bits."""
    assert len(header_of(build(nine_steps(FLAT), [(32, 32, 3)])).to_bytes()) == 134
    assert len(header_of(build(nine_steps(FLAT, 32), [(32, 32, 3)])).to_bytes()) == 155
    assert len(header_of(build(nine_steps(PAPER), [(32, 32, 3)])).to_bytes()) == 135
    assert len(header_of(build(nine_steps(FLAT), [(32, 32, 3)] * 100, delta=1e-6)).to_bytes()) == 144


@pytest.mark.parametrize("coding", CODINGS.values(), ids=CODINGS.keys())
@pytest.mark.parametrize("shapes", [(), ((32, 32, 3),), SHAPES], ids=["none", "one", "some"])
def test_rates_count_bytes_on_the_disk(coding: Coding, shapes: Sequence[Shape], tmp_path: Path) -> None:
    plan = small_plan(coding)
    made = build(plan, shapes)
    made.save(tmp_path / "a.dipp")
    pixels = sum(height * width for height, width, _ in shapes)
    size = (tmp_path / "a.dipp").stat().st_size
    assert made.pixels == pixels
    assert made.file_bpp == 8 * size / max(pixels, 1)
    assert made.payload_bpp * pixels == pytest.approx(made.payload_bits, rel=1e-12)
    assert made.payload_bits <= 8 * (size - len(header_of(made).to_bytes()) - 4)
    if coding.code.fixed_length:
        per_shape = [np.dot(counts(plan, shape), [9, 12]) for shape in shapes]
        assert made.payload_bits == sum(per_shape)


@pytest.mark.parametrize("coding", [FLAT, PAPER], ids=["flat", "paper"])
def test_large_payloads_carry_a_checksum_each(coding: Coding) -> None:
    """From 512 bits on, damage is found in its image without reading the others."""
    plan = small_plan(coding, 1)
    made = build(plan, [(16, 16, 3)] * 4)
    data = bytearray(made.to_bytes())
    data[-500] ^= 4
    with refused("file", "checksum"):
        Archive.from_bytes(bytes(data))
    damaged = Archive.from_bytes(bytes(data), verify=False)
    np.testing.assert_array_equal(damaged.batch(0, 3), made.batch(0, 3))
    with refused("payload" if coding is PAPER else "file"):
        damaged.image_indices(3)


# The number of chunks.


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("period", [1, 2, 3, 4, 5, 6, 7, 11])
def test_chunk_counts_follow_the_mask_of_the_sign_channel(period: int, channels: int) -> None:
    steps = tuple(Step(30 - i, 29 - i, 2**-10, 1, 1) for i in range(2 * period + 1))
    plan = Plan(Coding(Sign(period), Flat()), steps)
    if 1 < period < channels:
        with refused("period", "channels"):
            counts(plan, (3, 5, channels))
        return
    for pixels in (1, 2, 3, 5, 7, 12, 24, 25, 64):
        touched = [len(plan.mask.touched(SEED, i, of_pixels(pixels, channels))) for i in range(len(steps))]
        assert counts(plan, (1, pixels, channels)) == tuple(touched)
        assert touched[0]
        assert touched[period]


@pytest.mark.parametrize("channel", [Laplace(), Gaussian(), Sign(1)])
def test_chunk_counts_of_noise_on_every_coordinate(channel: Channel) -> None:
    plan = small_plan(Coding(channel, Flat()), 7)
    assert counts(plan, (4, 5, 3)) == (9, 9)
    assert counts(plan, (1, 7, 1)) == (1, 1)


# The certificate.


def losses(plan: Plan) -> list[Decimal]:
    """Return ε of one coordinate in each step, from the integers, to forty digits."""
    scales = [plan.arithmetic(step) for step in plan.steps]
    return [2 * scale.sensitivity * Decimal(2).ln() / (1 << scale.fraction_bits) + Decimal(ETA) for scale in scales]


@bounded
@given(plans_drawn(), st.sampled_from([1, 2, 3, 4]), st.integers(20, 400), st.booleans())
def test_certificate_bounds_every_pixel_of_the_mask_design(
    plan: Plan, channels: int, pixels: int, separate: bool
) -> None:
    channel = plan.coding.channel
    if not plan.coding.certified:
        with pytest.raises(NoCertificateError):
            certificate(plan, channels, pixels, separate)
        return
    if isinstance(channel, Sign) and 1 < channel.period < channels:
        with refused("period"):
            certificate(plan, channels, pixels, separate)
        return
    claim = certificate(plan, channels, pixels, separate)
    with localcontext(prec=40):
        each = losses(plan)
        apart = [separate and count >= channels for count in counts(plan, (1, pixels, channels))]
        pure, squares = np.full(pixels, Decimal(0)), np.full(pixels, Decimal(0))
        for number, loss in enumerate(each):
            touched = np.full(pixels, channels)
            if isinstance(channel, Sign):
                coordinates = plan.mask.touched(SEED, number, of_pixels(pixels, channels))
                touched = np.bincount(coordinates // channels, minlength=pixels)
            pure += touched * loss
            squares += touched * loss**2 if apart[number] else (touched * loss) ** 2
        assert pure.max() <= Decimal(claim.epsilon)
        assert squares.max() / 8 <= Decimal(claim.rho)
        if not isinstance(channel, Sign) or channel.period == channels or len(each) <= channel.period <= pixels:
            assert Decimal(claim.epsilon) <= pure.max() * (1 + Decimal(2) ** -48)
            assert Decimal(claim.rho) <= squares.max() / 8 * (1 + Decimal(2) ** -47)


def test_certificates_of_the_presets_are_those_of_the_theory() -> None:
    root = sum(math.sqrt(step.snr_gain) for step in nine_steps(PAPER).steps)
    final = sum(step.snr_gain for step in nine_steps(PAPER).steps)
    for coding, separate, pure, rho in (
        (PAPER, False, 33.94, 144),
        (PAPER, True, 33.94, 48),
        (FLAT, False, 6.928, 6),
        (FLAT, True, 6.928, 6),
    ):
        # Small chunks, so that every step has at least three.
        plan = nine_steps(coding)
        claim = certificate(plan, 3, 1024, separate)
        assert pure * root * (1 - 1 / 128) < claim.epsilon < pure * root * 1.0002
        assert rho * final * (1 - 1 / 64) < claim.rho < rho * final * 1.0002
    with refused("gaussian channel, PFR code", kind=NoCertificateError):
        certificate(nine_steps(DIFFC), 3, 1024, separate=False)


def test_a_long_cycle_counts_the_pixel_that_meets_the_dearest_steps() -> None:
    plan = Plan(
        Coding(Sign(6), Flat()),
        tuple(
            Step(20 - i, 19 - i, gain, 8, 4)
            for i, gain in enumerate((0.25, 2**-10, 2**-10, 2**-10, 2**-4, 2**-10, 0.25))
        ),
    )
    first, cheap, _, _, fifth, _, last = (float(loss) for loss in losses(plan))
    claim = certificate(plan, 3, 64, separate=False)
    # Three channels, two slots apart: the slots of a cycle are 0, 2, 4 or 1, 3, 5.
    assert claim.epsilon == pytest.approx(first + cheap + fifth + last, rel=1e-12)
    assert claim.rho == pytest.approx((first**2 + cheap**2 + fifth**2 + last**2) / 8, rel=1e-12)


def test_separation_needs_as_many_chunks_as_channels() -> None:
    plan = small_plan(PAPER, 30)
    together, apart = (certificate(plan, 3, 30, separate) for separate in (False, True))
    small = certificate(plan, 3, 20, separate=True)
    assert apart.epsilon == together.epsilon
    assert apart.rho == pytest.approx(together.rho / 3, rel=1e-12)
    assert (small.epsilon, small.rho) == (together.epsilon, together.rho)
    # One small image is enough to lose it.
    assert build(plan, [(5, 6, 3)] * 3, separate=True).certificate == apart
    assert build(plan, [(5, 6, 3), (5, 4, 3), (5, 6, 3)], separate=True).certificate == small


@pytest.mark.parametrize("place", range(16))
def test_a_changed_certificate_is_refused(place: int) -> None:
    made = build(small_plan(FLAT), SHAPES)
    data = made.to_bytes()
    at = data.index(struct.pack("<2d", made.certificate.epsilon, made.certificate.rho))
    for bit in (1, 0x80):
        changed = bytearray(data)
        changed[at + place] ^= bit
        with refused("file", "certificate"):
            Archive.from_bytes(with_checksum(bytes(changed)))


def test_a_changed_plan_is_refused() -> None:
    """A smaller gain would decode to the same picture, but promise more than the encoder kept."""
    made = build(small_plan(FLAT), SHAPES)
    steps = (dataclasses.replace(step, snr_gain=step.snr_gain / 2) for step in made.parameters.plan.steps)
    cheaper = dataclasses.replace(made.parameters.plan, steps=tuple(steps))
    assert stated_claim(cheaper, 3, 20) != header_of(made).claim
    forged = Header(release(cheaper), made.runs, header_of(made).claim)
    with refused("file", "certificate"):
        Archive.from_bytes(with_checksum(forged.to_bytes() + made.to_bytes()[len(header_of(made).to_bytes()) :]))


# Refusals.


@pytest.mark.parametrize("coding", CODINGS.values(), ids=CODINGS.keys())
def test_every_truncation_is_refused(coding: Coding, tmp_path: Path) -> None:
    data = build(small_plan(coding), SHAPES).to_bytes()
    for length in range(1, len(data)):
        with refused("file", "damaged or cut short"):
            Archive.from_bytes(data[:length])
        with refused("file"):
            Archive.from_bytes(data[:length], verify=False)
    (tmp_path / "cut.dipp").write_bytes(data[:-9])
    with refused(tmp_path / "cut.dipp", "is damaged"):
        archive.open(tmp_path / "cut.dipp")


@pytest.mark.parametrize("coding", CODINGS.values(), ids=CODINGS.keys())
def test_every_flipped_bit_is_refused(coding: Coding) -> None:
    data = build(small_plan(coding), SHAPES).to_bytes()
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        with refused("file"):
            Archive.from_bytes(bytes(changed))


@pytest.mark.parametrize(
    "data", [b"", b"\x89PNG\r\n\x1a\n" + bytes(40), b"PK\x03\x04", b"D", b"DIPQ" + bytes(99), b"DIPP\0"]
)
def test_foreign_files_are_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "foreign").write_bytes(data)
    with refused(tmp_path / "foreign"):
        archive.open(tmp_path / "foreign")


def test_newer_and_older_files_are_refused() -> None:
    data = build(small_plan(FLAT), SHAPES).to_bytes()
    with refused("file", "newer dipp (format 4)", remedy="upgrade dipp"):
        Archive.from_bytes(data[:4] + b"\x04" + data[5:])
    with refused("file", "(format 255)", remedy="upgrade dipp"):
        Archive.from_bytes(b"DIPP\xff and all that")
    for version in (1, 2):
        with refused("file", f"format {version}", remedy="commit 89b0fc8 of dipp"):
            Archive.from_bytes(b"DIPP" + bytes([version]) + data[5:])


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with refused(tmp_path, "is a folder", remedy="dipp.load"):
        archive.open(tmp_path)
    with refused(tmp_path / "none", "does not exist"):
        archive.open(tmp_path / "none")


def test_sizes_beyond_the_file_are_refused_before_memory_is_allocated() -> None:
    """Two megabytes of memory are enough to refuse petabytes."""
    plans = (small_plan(FLAT), small_plan(PAPER), small_plan(DIFFC), small_plan(FLAT, 1))
    runs = (
        [[1 << 33, 3, 7]],
        [[1, 1 << 15, 1 << 15]],
        [[1 << 62, 1 << 30, 1]],
        [[1, 3, i + 3] for i in range(60_000)],
        [[5000, 3, i + 3] for i in range(500)],
    )
    for plan in plans:
        for rows in runs:
            claim = stated_claim(plan, 3, min(height * width for _, height, width in rows))
            front = Header(release(plan), np.array(rows), claim).to_bytes()
            tracemalloc.start()
            with refused("file"):
                Archive.from_bytes(with_checksum(front + bytes(999)))
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < (2 << 20) + 60 * len(front)
    # A column of equal numbers can state any number of runs.
    front = header_of(build(small_plan(FLAT), ())).to_bytes()[:-1] + varint(1 << 40) + b"\x01\x00" * 3
    with refused("file", "runs is 1099511627776"):
        Archive.from_bytes(with_checksum(front + bytes(99)))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"model": "ff"}, ("model", "SHA-256")),
        ({"model": MODEL.upper()}, ("model", "SHA-256")),
        ({"seed": b"short"}, ("seed", "16")),
        ({"delta": 1.0}, ("delta",)),
        ({"delta": math.nan}, ("delta",)),
        ({"channels": 0}, ("channels", "16")),
        ({"channels": 17}, ("channels", "16")),
        ({"channels": 4}, ("period", "channels")),
    ],
)
def test_invalid_public_parameters_are_refused(change: dict[str, Any], complaint: tuple[str, ...]) -> None:
    good = release(small_plan(FLAT))
    with refused(*complaint):
        dataclasses.replace(good, **change)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"geometries": [Geometry(4, 5, 3), Geometry(4, 5, 1)]}, ("images", "channels")),
        ({"geometries": [Geometry(4, 5, 3)]}, ("indices",)),
        ({"indices": [[0, 0], [0]]}, ("indices", "2")),
        ({"indices": [[0], [0]]}, ("indices", "2")),
        ({"indices": [[0.0, 0], [0, 0]]}, ("indices", "2")),
        ({"indices": [[512, 0], [0, 0]]}, ("indices", "width")),
        ({"indices": [[-1, 0], [0, 0]]}, ("indices", "width")),
    ],
)
def test_images_that_do_not_fit_their_plan_are_refused(change: dict[str, Any], complaint: tuple[str, ...]) -> None:
    good: dict[str, Any] = {"geometries": [Geometry(4, 5, 3)] * 2, "indices": [[0, 0]] * 2}
    public = release(small_plan(FLAT))
    Archive.build(public, **good)
    with refused(*complaint):
        Archive.build(public, **{**good, **change})


class UnknownChannel(Laplace):
    """A channel that the format does not know."""

    name = "unnumbered"


class UnknownCode(Flat):
    """A code that the format does not know."""

    name = "unplaced"


@pytest.mark.parametrize(
    ("coding", "units", "complaint"),
    [
        (PAPER, 0, ("exponent_units", "255")),
        (FLAT, 1, ("exponent_units",)),
        (Coding(Laplace(), Flat(Fraction(32769, 1 << 15))), 0, ("alpha", "32767")),
        (Coding(UnknownChannel(), Flat()), 0, ("channel", "unnumbered")),
        (Coding(Laplace(), UnknownCode()), 0, ("code", "unplaced")),
    ],
)
def test_plans_that_the_format_cannot_hold_are_refused(coding: Coding, units: int, complaint: tuple[str, ...]) -> None:
    plan = Plan(coding, (Step(9, 5, 2**-7, 60, 9, units),))
    with refused(*complaint):
        archive_of_indices(plan, (), ())


def test_periods_are_those_that_the_format_can_hold() -> None:
    longest = small_plan(Coding(Sign((1 << 16) - 1), Flat()))
    assert Archive.from_bytes(build(longest, [(4, 5, 3)]).to_bytes()).parameters.plan == longest
    with refused("period", "65535"):
        Sign(1 << 16)


def test_too_many_steps_or_zeta_codes_are_refused() -> None:
    steps = [Step(5000 - i, 4999 - i, 2**-9, 60, 9) for i in range(4097)]
    archive_of_indices(Plan(FLAT, tuple(steps[:4096])), (), ())
    with refused("steps", "4096"):
        archive_of_indices(Plan(FLAT, tuple(steps)), (), ())
    codes = tuple(Step(500 - i, 499 - i, 2**-9, 60, 1 + i // 200, 1 + i % 200) for i in range(257))
    with refused("zeta codes", "256"):
        archive_of_indices(Plan(PAPER, codes), (), ())


def test_headers_have_one_spelling() -> None:
    made = build(small_plan(FLAT), [(4, 5, 3)] * 2)
    data, front = made.to_bytes(), header_of(made).to_bytes()
    gains = float_column([2**-7, 2**-6])
    assert data.count(gains) == 1
    halves = bytes([gains[0] - 1]) + column(np.array([0x3C000000, 0x3C800000]) >> gains[0] - 1)
    infinite = bytes([23]) + column(np.array([0xFF, 0xFE]))
    coding = bytes([1, 0, 3, 2, 3, 0, 1, 1, 0])  # unit, channels, sign channel of period 3, flat code, α = 1, together
    assert data.count(coding) == 1
    runs = made.runs
    split = Header(made.parameters, np.vstack([runs, runs]), header_of(made).claim).to_bytes()
    for forged, complaint in (
        (data.replace(coding, coding[:6] + b"\x02\x02\x00"), ("file", "lowest")),
        (data.replace(coding, coding[:3] + b"\x0f" + coding[4:]), ("file", "(channel 15)")),
        (data.replace(coding, coding[:5] + b"\x0f" + coding[6:]), ("file", "(code 15)")),
        (data.replace(coding, coding[:8] + b"\x02"), ("file", "deal is 2")),
        (data.replace(coding, b"\x02\x00\x00" + coding[2:]), ("unit", "pixel")),
        (data.replace(coding, b"\x01\x09" + coding[2:]), ("unit", "9")),
        (data.replace(coding, b"\x00" + coding[2:]), ("file", "unit is 0")),
        (data.replace(gains, halves), ("file", "snr_gain")),
        (data.replace(gains, infinite), ("file", "snr_gain is 255")),
        (data.replace(gains, bytes([31]) + gains[1:]), ("file", "snr_gain is 31")),
        (split + 2 * data[len(front) : -4] + bytes(4), ("file", "apart")),
        (data[:-5] + b"\x01" + data[-4:], ("file", "zero")),
    ):
        assert forged != data
        with refused(*complaint):
            Archive.from_bytes(with_checksum(forged))


def test_zeta_coded_images_have_one_spelling() -> None:
    made = build(small_plan(PAPER), [(4, 5, 3)])
    front, body = header_of(made).to_bytes(), made.to_bytes()[len(header_of(made).to_bytes()) : -4]
    longer = Archive.from_bytes(with_checksum(front + bytes([body[0] + 1]) + body[1:] + bytes(5)))
    with refused("file", "longer"):
        longer.image_indices(0)


# Files.


def test_saved_files_open_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = build(small_plan(FLAT), SHAPES)
    path = tmp_path / "a.dipp"
    made.save(path)
    made.save(str(path))
    assert [file.name for file in tmp_path.iterdir()] == ["a.dipp"]
    assert path.stat().st_mode & 0o777 == 0o666 & ~current_umask()
    monkeypatch.setattr(archive, "MAP_FROM_BYTES", 0)
    for opened in (archive.open(path), archive.open(str(path), verify=False)):
        assert opened.to_bytes() == made.to_bytes() == path.read_bytes()
        assert opened.image_indices(4).tolist() == made.image_indices(4).tolist()
        opened.save(path)


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("existing", [None, b"what was there"])
def test_a_failed_write_leaves_no_new_file(
    error: BaseException, existing: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.dipp"
    if existing is not None:
        path.write_bytes(existing)

    def fail(_: int) -> None:
        raise error

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises((DippError, KeyboardInterrupt)) as caught:
        build(small_plan(FLAT), SHAPES).save(path)
    if isinstance(error, OSError):
        assert isinstance(caught.value, DippError)
        assert caught.value.argument == str(path)
        assert "No space left on device" in caught.value.problem
    assert [file.read_bytes() for file in tmp_path.iterdir()] == ([] if existing is None else [existing])


def test_a_missing_folder_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "none" / "a.dipp"
    made = build(small_plan(FLAT), ())
    with refused(path, "No such file or directory"):
        made.save(path)
    (tmp_path / "none").write_bytes(b"a file")
    with refused(path, "Not a directory"):
        made.save(path)
    with refused(tmp_path, "cannot be written"):
        made.save(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["none"]


def test_many_sizes_of_tiny_images_are_refused() -> None:
    """Each size takes work for each step, even if most steps of a small image have no index."""
    coding = Coding(Sign(65535), Flat())
    steps = tuple(Step(5000 - i, 4999 - i, 2.0**-10, 1, 1) for i in range(4096))
    shapes, plan = [(1, width, 3) for width in range(1, 600)], Plan(coding, steps)
    rows = [[0] * sum(counts(plan, shape)) for shape in shapes]
    with refused("file", "bits"):
        archive_of_indices(plan, shapes, rows)


# As documented.


def read_as_documented(payload: bytes, codes: list[tuple[int, int]]) -> list[int]:
    """Return the indices of a zeta-coded payload by exact intervals, from (bits, exponent units) of each index."""
    indices, low, span, one = [], 0, 1 << 128, 1 << 128
    for bits, units in codes:
        weights: list[int] = []
        while (first := len(weights) + 1) <= 1 << bits:
            size = min(max((1 << first.bit_length()) // 16, 1), (1 << bits) + 1 - first)
            with localcontext(prec=60):
                middle = (Decimal(first) + Decimal(first + size - 1)) / 2
                weight = max(1, int((Decimal(2) ** 58 / middle ** (Decimal(units) / 64)).to_integral_value()))
            weights += [weight] * size
        unit = span // sum(weights)
        target = int.from_bytes(payload, "big") * one // 256 ** len(payload) - low
        ends = list(itertools.accumulate(weights, initial=0))
        index = next(k for k in range(1 << bits) if target < unit * ends[k + 1])
        indices.append(index)
        low, span = low + unit * ends[index], unit * weights[index]
        while span <= 1 << 120:
            low, span, one = 256 * low, 256 * span, 256 * one
    return indices


def test_zeta_coded_payloads_are_as_documented() -> None:
    plan = small_plan(PAPER)
    made = build(plan, [(4, 5, 3)])
    # A column of one length, then one payload without a checksum of its own, then the checksum of all.
    payload = made.to_bytes()[len(header_of(made).to_bytes()) + 1 : -4]
    codes = [(s.index_bits, s.exponent_units) for s in plan.steps for _ in range(3)]
    assert read_as_documented(payload, codes) == made.image_indices(0).tolist()


def test_archives_can_be_sent_to_other_processes() -> None:
    made = build(small_plan(FLAT), SHAPES)
    assert pickle.loads(pickle.dumps(made)).to_bytes() == made.to_bytes()  # noqa: S301
