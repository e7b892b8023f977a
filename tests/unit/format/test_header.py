"""Test that headers survive their bytes in one spelling, name newer parts, and show tampering."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import struct
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from helpers.archives import FLAT, MODEL, Shape, geometries, header_of, made_up, release, small_plan, with_checksum
from helpers.broken_archives import made_of, sensing_archives, written_again
from helpers.ledgers import terms
from helpers.refusals import refused
from helpers.sensing import sensing_plan
from helpers.statistics import bounded
from hypothesis import given
from hypothesis import strategies as st

from dipp.codes import CODES, Flat, Functional, Pairs, StepLimited
from dipp.core import units
from dipp.core.beacon import Beacon
from dipp.core.channels import CHANNELS, Channel, Gaussian, Laplace, Sign
from dipp.core.chunking import ShuffledDeal
from dipp.core.code import Code
from dipp.core.plan import Coding, Plan
from dipp.core.steps import STEPS, SensingStep, Step
from dipp.core.units import Pixel
from dipp.core.window import LEAST, MOST, Window
from dipp.errors import DippError
from dipp.format import steps
from dipp.format.archive import Archive
from dipp.format.bytes import ByteReader, column, varint
from dipp.format.header import (
    BEACON,
    DELTA,
    SOURCE,
    VERSION,
    Header,
    parameters_from_bytes,
    parameters_to_bytes,
)
from dipp.format.parameters import PublicParameters
from dipp.planning.presets import DIFFC

MIXED = Beacon(7, bytes(32))
TABLE = hashlib.sha256(b"a table").hexdigest()
FIELDS_AT = 4 + 1 + 32 + 16
"""Where the number of the fields stands: behind name, version, model and seed."""


def float32(low: float, high: float) -> st.SearchStrategy[float]:
    """Draw a 32-bit float between two bounds, sometimes with the upper half of the bits only."""
    first, last = (int(np.float32(value).view(np.int32)) >> 16 for value in (low, high))
    short = st.integers(first + 1, last).map(lambda half: float(np.int32(half << 16).view(np.float32)))
    return st.one_of(st.floats(float(np.float32(low)), float(np.float32(high)), width=32), short)


alphas = st.fractions(Fraction(1, 2), 4, max_denominator=9)
beacons = st.builds(
    Beacon, st.integers(0, (1 << 64) - 1), st.binary(min_size=16, max_size=64), st.binary(min_size=16, max_size=16)
)
windows = st.tuples(st.integers(LEAST, MOST - 1), st.integers(1, MOST)).map(
    lambda one: Window(one[0], min(one[0] + one[1], MOST))
)
fields = st.tuples(
    st.sampled_from([None, TABLE, MODEL]),
    st.booleans(),
    st.one_of(st.none(), beacons),
    st.one_of(st.none(), windows),
)
deltas = st.sampled_from([None, 1e-6, 0.5])


@st.composite
def sensing_drawn(draw: st.DrawFn) -> PublicParameters:
    code: Code = draw(st.one_of(st.just(Pairs()), st.builds(Flat, alphas), st.builds(StepLimited, alphas)))
    channels, same = draw(st.integers(1, 4)), draw(st.booleans())
    period = draw(st.integers(channels, 60).filter(lambda value: value > 1))
    tilt, gains = draw(float32(0.01, 12)), draw(st.sampled_from([float32(2**-14, 2.0), st.just(2**-6)]))
    steps = []
    for _ in range(draw(st.integers(1, 9))):
        sizes = (1, 1) if isinstance(code, Pairs) else (draw(st.integers(1, 1 << 31)), draw(st.integers(1, 22)))
        units = 0 if code.fixed_length else draw(st.integers(1, 255))
        one = tilt if same else draw(float32(0.01, 12))
        steps.append(SensingStep(one, draw(float32(0.01, 4)), draw(gains), *sizes, units))
    plan = Plan(Coding(Sign(period), code), tuple(steps), draw(st.booleans()))
    return release(plan, channels, draw(deltas), *draw(fields))


@st.composite
def stepped_drawn(draw: st.DrawFn) -> PublicParameters:
    """Draw public parameters of a plan along timesteps, with any fields."""
    channel: Channel = draw(st.sampled_from([Laplace(), Gaussian(), Sign(3), Sign(7), Sign(1)]))
    code: Code = draw(st.one_of(st.builds(Flat, alphas), st.builds(StepLimited, alphas), st.just(Functional())))
    times = sorted(draw(st.sets(st.integers(0, 65535), min_size=2, max_size=5)), reverse=True)
    units = st.just(0) if code.fixed_length else st.integers(1, 255)
    steps = (
        Step(start, end, draw(float32(2**-14, 2**-9)), draw(st.integers(1, 99)), draw(st.integers(1, 22)), draw(units))
        for start, end in itertools.pairwise(times)
    )
    plan = Plan(Coding(channel, code), tuple(steps), draw(st.booleans()))
    return release(plan, draw(st.integers(1, 3)), draw(deltas), *draw(fields))


@bounded
@given(
    st.one_of(sensing_drawn(), stepped_drawn()), st.lists(st.tuples(st.integers(1, 5), st.integers(1, 7)), max_size=3)
)
def test_releases_survive_their_bytes_in_one_spelling(public: PublicParameters, sizes: list[tuple[int, int]]) -> None:
    data = parameters_to_bytes(public)
    assert data[4] == VERSION == 3
    again = parameters_from_bytes(data)
    assert again == public
    assert parameters_to_bytes(again) == data
    shapes: list[Shape] = [(height, width, public.channels) for height, width in sizes]
    made = made_of(public, shapes)
    back = Archive.from_bytes(made.to_bytes())
    assert back.parameters == public
    assert [back.image_indices(i).tolist() for i in range(len(back))] == made_up(public.plan, shapes)
    assert written_again(back) == made.to_bytes()
    if public.plan.coding.certified:
        assert back.certificate == made.certificate
        assert {selection.code for selection in back.certificate.ledger.selections} == {public.plan.code.name}


# What is newer.


def with_fields(public: PublicParameters, *parts: tuple[int, bytes]) -> bytes:
    """Return the release with these fields."""
    data = parameters_to_bytes(public)
    assert data[FIELDS_AT] == 0
    packed = b"".join(varint(key) + varint(len(value)) + value for key, value in parts)
    return with_checksum(data[:FIELDS_AT] + varint(len(parts)) + packed + data[FIELDS_AT + 1 :])


@pytest.mark.parametrize("key", [10, 60, 255])
def test_unknown_fields_are_reported_as_newer(key: int) -> None:
    public = release(sensing_plan())
    newer = f"was written by a newer dipp (field {key} of the header)", "upgrade dipp"
    known = {1: b"", 4: bytes(32)}
    after = {other: b"x" for other in (key + 1, key + 2) if other < 256}
    for more in ({}, known, {**known, **after}):
        parts = sorted({**more, key: b"some bytes"}.items())
        with pytest.raises(DippError) as error:
            parameters_from_bytes(with_fields(public, *parts))
        assert (error.value.problem, error.value.remedy) == newer


ENDS = struct.pack("<2i", 5, 9)


@pytest.mark.parametrize("plan", [sensing_plan(), small_plan(FLAT)], ids=["sensing", "stepped"])
@given(st.lists(st.booleans(), max_size=20))
def test_grey_images_survive_their_bytes_in_one_spelling(plan: Plan, grey: list[bool]) -> None:
    """They are stored beside the sizes. A file without grey images has no such field."""
    public, shapes = release(plan), [(2, 3, 3)] * len(grey)
    archive = Archive.build(public, geometries(shapes), made_up(plan, shapes), grey=grey)
    back = Archive.from_bytes(archive.to_bytes())
    assert back.grey.tolist() == grey
    assert back.parameters == public
    assert back.facts()["grey"] == sum(grey)
    if not any(grey):
        assert archive.to_bytes() == made_of(public, shapes).to_bytes()
    assert (
        Archive.build(public, geometries(shapes), made_up(plan, shapes), grey=back.grey.tolist()).to_bytes()
        == archive.to_bytes()
    )
    if grey:
        with refused("grey"):
            Archive.build(public, geometries(shapes), made_up(plan, shapes), grey=[*grey, True])


@pytest.mark.parametrize(
    "content",
    [
        *(bytes([kind]) for kind in (0, 1, 6, 7, 8, 255)),
        bytes([1]) + ENDS[:7],
        bytes([1]) + ENDS + b"x",
        bytes([1]) + ENDS[::-1][4:] + ENDS[:4],
        bytes([2]),
        bytes([2]) + b"x",
        bytes([3]) + ENDS,
        bytes([4]),
        bytes([4, 0x80]),
        bytes([5]) + ENDS,
        bytes([5]) + ENDS[:5],
    ],
)
def test_an_invalid_field_about_the_source_is_refused(content: bytes) -> None:
    """A file without images cannot have grey images."""
    with pytest.raises(DippError) as error:
        parameters_from_bytes(with_fields(release(sensing_plan()), (SOURCE, content)))
    assert error.value.argument in ("file", "window")


@pytest.mark.parametrize("content", [b"\x02x", b"\x04", b"\x04\x00", b"\x04\xe0", b"\x04\x81", b"\x04\x80\x00"])
def test_marks_of_grey_images_that_do_not_exist_are_refused(content: bytes) -> None:
    """For three images, marks of none, of all, of a fourth, and a byte too many or too few are refused."""
    public, shapes = release(sensing_plan()), [(2, 3, 3)] * 3
    data = made_of(public, shapes).to_bytes()
    assert data[FIELDS_AT] == 0

    def with_field(value: bytes) -> bytes:
        packed = varint(1) + varint(SOURCE) + varint(len(value)) + value
        return with_checksum(data[:FIELDS_AT] + packed + data[FIELDS_AT + 1 :])

    assert Archive.from_bytes(with_field(b"\x04\x80")).grey.tolist() == [True, False, False]
    with refused("file", "damaged"):
        Archive.from_bytes(with_field(content))


@pytest.mark.parametrize(
    ("parts", "word"),
    [
        ([(1, b"x")], "length"),
        ([(SOURCE, b"")], "length"),
        ([(4, bytes(31))], "length"),
        ([(4, bytes(33))], "length"),
        ([(BEACON, bytes(39))], "length"),
        ([(BEACON, bytes(89))], "length"),
        ([(DELTA, bytes(4))], "length"),
        ([(4, bytes(32)), (1, b"")], "field"),
        ([(1, b""), (1, b"")], "field"),
        ([(0, b"")], "field"),
    ],
)
def test_fields_have_one_order_and_one_length(parts: list[tuple[int, bytes]], word: str) -> None:
    with refused("file", word):
        parameters_from_bytes(with_fields(release(sensing_plan()), *parts))


def test_a_seed_that_does_not_follow_from_its_beacon_is_refused() -> None:
    """A change of the seed, the own part, the round or the value is refused."""
    public = release(sensing_plan(), beacon=Beacon(7, bytes(range(32)), bytes(range(16))))
    data = parameters_to_bytes(public)
    at = FIELDS_AT + 3
    assert parameters_from_bytes(data) == public
    for place in (FIELDS_AT - 1, at, at + 15, at + 16, at + 24, at + 55):
        forged = bytearray(data)
        forged[place] ^= 1
        with refused("seed", "beacon"):
            parameters_from_bytes(with_checksum(bytes(forged)))


def test_known_fields_are_read() -> None:
    public = release(sensing_plan())
    both = parameters_from_bytes(with_fields(public, (1, b""), (4, bytes.fromhex(TABLE))))
    assert both == dataclasses.replace(public, table=TABLE, seed_given=True)


@pytest.mark.parametrize("version", [4, 5, 255])
def test_newer_versions_are_refused_in_one_line(version: int) -> None:
    for data in (seed.to_bytes() for seed in sensing_archives()):
        with pytest.raises(DippError) as error:
            Archive.from_bytes(data[:4] + bytes([version]) + data[5:])
        assert (error.value.problem, error.value.remedy) == (
            f"was written by a newer dipp (format {version})",
            "upgrade dipp",
        )


@pytest.mark.parametrize("kind", [3, 255])
def test_unknown_kinds_of_steps_are_refused(kind: int) -> None:
    public = release(sensing_plan())
    data = parameters_to_bytes(public)
    listed = steps.to_bytes(public.plan)
    assert data.count(listed) == 1
    with refused("file", f"(kind {kind} of steps)", remedy="upgrade"):
        parameters_from_bytes(with_checksum(data.replace(listed, varint(kind) + listed[1:])))


@dataclass(frozen=True)
class Stripe(Pixel):
    """A toy unit with a parameter: some rows of a picture."""

    rows: int = 1
    kind, number = "stripe", 77

    def _parameters_to_bytes(self) -> bytes:
        return varint(self.rows)

    @classmethod
    def _from_parameters(cls, content: bytes) -> Stripe:
        return cls(ByteReader(memoryview(content)).varint("rows", 1, 1 << 20))


def test_files_store_units_with_their_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    """The coding has no certificate, so that no ledger has to price the toy unit."""
    monkeypatch.setitem(units.UNITS, Stripe.number, Stripe)
    monkeypatch.setattr(ShuffledDeal, "require_unit", lambda *_: None)  # which knows pixels alone
    plan = dataclasses.replace(small_plan(DIFFC), unit=Stripe(300))
    data = parameters_to_bytes(release(plan))
    assert data.count(bytes([3, 77, 0xAC, 2])) == 1
    assert parameters_from_bytes(data).plan == plan
    assert parameters_from_bytes(parameters_to_bytes(release(small_plan(DIFFC)))).plan.unit == Pixel()
    monkeypatch.delitem(units.UNITS, Stripe.number)
    with refused("unit", "77"):
        parameters_from_bytes(data)


def test_codes_channels_and_steps_have_their_numbers() -> None:
    """Files store these numbers, so they may never change."""
    assert {kind.number: name for name, kind in CODES.items()} == {
        0: "flat",
        1: "pairs",
        2: "step-limited PPR",
        3: "PFR",
        4: "closest",
    }
    assert {number: kind.name for number, kind in CHANNELS.items()} == {0: "laplace", 1: "gaussian", 2: "sign"}
    assert {number: kind.__name__ for number, kind in STEPS.items()} == {0: "Step", 1: "SensingStep", 2: "Question"}


@given(st.lists(float32(2**-20, 2**20), min_size=1, max_size=9))
def test_columns_of_floats_drop_common_trailing_zeros(values: list[float]) -> None:
    """So a number with more digits lengthens its own column only."""
    data = steps.float_column(values)
    bits = [int(np.float32(value).view(np.int32)) for value in values]
    zeros = min((number & -number).bit_length() - 1 for number in bits)
    assert data == bytes([zeros]) + column(np.array(bits) >> zeros)


def test_numbers_of_few_digits_are_short() -> None:
    short, long = release(sensing_plan()), float(np.float32(0.1))
    last, lengths = short.plan.steps[-1], [len(parameters_to_bytes(short))]
    for change in ({"clip": long}, {"clip": long, "snr_gain": long}, {"clip": long, "snr_gain": long, "tilt": long}):
        changed: Any = dataclasses.replace(last, **change)
        other = dataclasses.replace(short, plan=Plan(short.plan.coding, (*short.plan.steps[:-1], changed)))
        assert parameters_from_bytes(parameters_to_bytes(other)) == other
        lengths.append(len(parameters_to_bytes(other)))
    assert lengths == sorted(set(lengths))


def test_a_header_of_many_steps_is_short() -> None:
    """A plan of 32 steps of one tilt takes about as many bits as a picture of 40×40 pixels at 1 bit per pixel."""
    plan = sensing_plan(groups=32, steps=32)
    assert len(parameters_to_bytes(release(plan, table=TABLE))) < 200


# What tampering does.


def tampered(made: Archive, **change: float) -> bytes:
    """Return the file with changed numbers in all steps, a right checksum, and the old certificate."""
    old = header_of(made)
    steps: Any = tuple(dataclasses.replace(step, **change) for step in old.parameters.plan.steps)
    plan = dataclasses.replace(old.parameters.plan, steps=steps)
    front = Header(dataclasses.replace(old.parameters, plan=plan), old.runs, old.claim).to_bytes()
    return with_checksum(front + made.to_bytes()[len(old.to_bytes()) :])


@pytest.mark.parametrize("code", [Pairs(), Flat(), StepLimited()], ids=lambda code: code.name)
@pytest.mark.parametrize("factor", [0.5, 0.99, 1.01, 2.0])
def test_an_edited_tilt_is_refused(code: Code, factor: float) -> None:
    """The certificate is computed from it."""
    made = made_of(release(sensing_plan(code, steps=4)), [(8, 8, 3)])
    assert tampered(made) == made.to_bytes()
    with refused("file", "certificate"):
        Archive.from_bytes(tampered(made, tilt=float(np.float32(factor))))


def test_an_edited_clip_is_refused_where_it_changes_the_claim() -> None:
    """A clip wider than the range of the data lowers the sensitivity; others affect small changes only."""
    made = made_of(release(sensing_plan(steps=4)), [(8, 8, 3)])
    with refused("file", "certificate"):
        Archive.from_bytes(tampered(made, clip=2.5))
    narrower = Archive.from_bytes(tampered(made, clip=0.0625)).certificate
    assert narrower != made.certificate
    wide, narrow = made.certificate.ledger, narrower.ledger
    assert (terms(wide.selections[0]).slope, terms(narrow.selections[0]).slope) == (2954, 11818)
    assert narrow.epsilon_of_change(5) > wide.epsilon_of_change(5)


def test_an_edited_gain_is_found_only_with_the_table() -> None:
    """It does not change the certificate; `planning.verification.check_gains` compares it with the table."""
    made = made_of(release(sensing_plan(steps=4)), [(8, 8, 3)])
    assert Archive.from_bytes(tampered(made, snr_gain=2**-4)).certificate == made.certificate


def test_an_edited_claim_is_refused() -> None:
    made = made_of(release(sensing_plan(), delta=1e-6), [(8, 8, 3)])
    old = struct.pack("<2d", made.certificate.epsilon, made.certificate.rho)
    assert made.to_bytes().count(old) == 1
    for better in ((0.5, made.certificate.rho), (made.certificate.epsilon, 0.1)):
        with refused("file", "certificate"):
            Archive.from_bytes(with_checksum(made.to_bytes().replace(old, struct.pack("<2d", *better))))
