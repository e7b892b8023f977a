"""Format 2: releases of sensing and of fields come back in one spelling; what is newer is named; tampering shows."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import struct
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from helpers.archives import MODEL, header_of, made_up, release, sealed, small_plan
from helpers.broken_archives import made_of, newer_seeds, written_again
from helpers.paths import GOLDEN
from helpers.sensing import sensing_plan
from helpers.statistics import bounded
from hypothesis import given
from hypothesis import strategies as st

from dipp.codes import CODES, Flat, Functional, Pairs, StepLimited
from dipp.core.beacon import Beacon
from dipp.core.channels import Channel, Gaussian, Laplace, Sign
from dipp.core.code import Code
from dipp.core.plan import Coding, Plan, SensingStep, Step
from dipp.core.window import FULL, LEAST, MOST, Window
from dipp.errors import DippError
from dipp.format import archive, header
from dipp.format.archive import Archive
from dipp.format.bytes import varint
from dipp.format.header import (
    BEACON,
    SENSING,
    SHORT_GAINS,
    SOURCE,
    VERSION,
    Header,
    release_from_bytes,
    release_to_bytes,
)
from dipp.format.packing import Shape
from dipp.format.release import Release
from dipp.format.steps import float_column
from dipp.planning.presets import DIFFC, PAPER
from experiments.comparisons.unclipped import SHARP, THRIFTY

MIXED = Beacon(7, bytes(32))
TABLE = hashlib.sha256(b"a table").hexdigest()
FIELDS_AT = 4 + 1 + 1 + 32 + 16
"""Where the number of the fields stands: behind name, version, flags, model and seed."""


def float32(low: float, high: float) -> st.SearchStrategy[float]:
    """Anything between, or with the upper half of the bits alone, which takes two bytes less."""
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
def sensing_drawn(draw: st.DrawFn) -> Release:
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
def stepped_drawn(draw: st.DrawFn) -> Release:
    """Along timesteps, with one field of format 2 at the least."""
    channel: Channel = draw(st.sampled_from([Laplace(), Gaussian(), Sign(3), Sign(7), Sign(1)]))
    code: Code = draw(st.one_of(st.builds(Flat, alphas), st.builds(StepLimited, alphas), st.just(Functional())))
    times = sorted(draw(st.sets(st.integers(0, 65535), min_size=2, max_size=5)), reverse=True)
    units = st.just(0) if code.fixed_length else st.integers(1, 255)
    steps = (
        Step(start, end, draw(float32(2**-14, 2**-9)), draw(st.integers(1, 99)), draw(st.integers(1, 22)), draw(units))
        for start, end in itertools.pairwise(times)
    )
    some = draw(fields.filter(lambda one: one[1] or {*one[:1], *one[2:]} != {None}))
    plan = Plan(Coding(channel, code), tuple(steps), draw(st.booleans()))
    return release(plan, draw(st.integers(1, 3)), draw(deltas), *some)


@bounded
@given(
    st.one_of(sensing_drawn(), stepped_drawn()), st.lists(st.tuples(st.integers(1, 5), st.integers(1, 7)), max_size=3)
)
def test_releases_come_back_in_one_spelling(public: Release, sizes: list[tuple[int, int]]) -> None:
    data = release_to_bytes(public)
    assert data[4] == VERSION == 2
    again = release_from_bytes(data)
    assert again == public
    assert release_to_bytes(again) == data
    shapes: list[Shape] = [(height, width, public.channels) for height, width in sizes]
    made = made_of(public, shapes)
    back = Archive.from_bytes(made.to_bytes())
    assert back.release == public
    assert [back.image_indices(i).tolist() for i in range(len(back))] == made_up(public.plan, shapes)
    assert written_again(back) == made.to_bytes()
    if public.plan.coding.certified:
        assert back.certificate == made.certificate
        assert all(
            one.code == (public.plan.code.name if public.plan.sensing else None) for one in back.ledger.selections
        )


@pytest.mark.parametrize("coding", [SHARP, PAPER, THRIFTY, DIFFC], ids=lambda one: one.name)
def test_what_format_1_can_say_is_said_in_format_1(coding: Coding) -> None:
    plain = release(small_plan(coding))
    assert (plain.version, release_to_bytes(plain)[4]) == (1, 1)
    mixed = {"beacon": MIXED, "seed": MIXED.seed}
    for more in ({"table": TABLE}, {"seed_given": True}, {"window": FULL}, mixed):
        other: Any = dataclasses.replace(plain, **more)
        assert (other.version, release_to_bytes(other)[4]) == (2, 2)
    assert release(sensing_plan()).version == 2


def test_format_1_is_not_written_in_format_2() -> None:
    """Every archive has one spelling: fields are what makes it format 2."""
    data = release_to_bytes(release(small_plan(SHARP), seed_given=True))
    assert data[FIELDS_AT : FIELDS_AT + 3] == bytes([1, 1, 0])
    bare = sealed(data[:FIELDS_AT] + bytes([0]) + data[FIELDS_AT + 3 :])
    with pytest.raises(DippError, match="format 1 would have done"):
        release_from_bytes(bare)


# What is newer.


def with_fields(public: Release, *parts: tuple[int, bytes]) -> bytes:
    """The release with these fields in place of its own, of which there are none."""
    data = release_to_bytes(public)
    assert data[FIELDS_AT] == 0
    packed = b"".join(varint(key) + varint(len(value)) + value for key, value in parts)
    return sealed(data[:FIELDS_AT] + varint(len(parts)) + packed + data[FIELDS_AT + 1 :])


@pytest.mark.parametrize("key", [5, 60, 255])
def test_fields_that_are_not_known_are_newer(key: int) -> None:
    public = release(sensing_plan())
    newer = f"written by a newer dipp (field {key} of the header); upgrade"
    known = {1: b"", 4: bytes(32)}
    after = {other: b"x" for other in (key + 1, key + 2) if other < 256}
    for more in ({}, known, {**known, **after}):
        parts = sorted({**more, key: b"some bytes"}.items())
        with pytest.raises(DippError) as error:
            release_from_bytes(with_fields(public, *parts))
        assert str(error.value) == newer


ENDS = struct.pack("<2i", 5, 9)


@pytest.mark.parametrize("plan", [sensing_plan(), small_plan(SHARP)], ids=["sensing", "stepped"])
@given(st.lists(st.booleans(), max_size=20))
def test_grey_images_come_back_in_one_spelling(plan: Plan, grey: list[bool]) -> None:
    """Beside the sizes, and not in the release; a file of none is what it was before."""
    public, shapes = release(plan), [(2, 3, 3)] * len(grey)
    made = Archive.build(public, shapes, made_up(plan, shapes), grey=grey)
    back = Archive.from_bytes(made.to_bytes())
    assert back.grey.tolist() == grey
    assert back.release == public
    assert back.facts()["grey"] == sum(grey)
    assert made.to_bytes()[4] == (2 if any(grey) else public.version)
    if not any(grey):
        assert made.to_bytes() == made_of(public, shapes).to_bytes()
    assert Archive.build(public, shapes, made_up(plan, shapes), grey=back.grey.tolist()).to_bytes() == made.to_bytes()
    if grey:
        with pytest.raises(DippError, match="grey"):
            Archive.build(public, shapes, made_up(plan, shapes), grey=[*grey, True])


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
def test_a_source_that_means_nothing_is_refused(content: bytes) -> None:
    """In a file without images nothing can be grey."""
    with pytest.raises(DippError, match=r"damaged|window"):
        release_from_bytes(with_fields(release(sensing_plan()), (SOURCE, content)))


@pytest.mark.parametrize("content", [b"\x02x", b"\x04", b"\x04\x00", b"\x04\xe0", b"\x04\x81", b"\x04\x80\x00"])
def test_grey_images_that_are_not_there_are_refused(content: bytes) -> None:
    """Three images: none of them, all of them, a fourth, and a byte too many or too few."""
    public, shapes = release(sensing_plan()), [(2, 3, 3)] * 3
    data = made_of(public, shapes).to_bytes()
    assert data[FIELDS_AT] == 0

    def with_field(value: bytes) -> bytes:
        packed = varint(1) + varint(SOURCE) + varint(len(value)) + value
        return sealed(data[:FIELDS_AT] + packed + data[FIELDS_AT + 1 :])

    assert Archive.from_bytes(with_field(b"\x04\x80")).grey.tolist() == [True, False, False]
    with pytest.raises(DippError, match="damaged"):
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
        ([(4, bytes(32)), (1, b"")], "field"),
        ([(1, b""), (1, b"")], "field"),
        ([(0, b"")], "field"),
    ],
)
def test_fields_have_one_order_and_one_length(parts: list[tuple[int, bytes]], word: str) -> None:
    with pytest.raises(DippError, match=f"the file is damaged or cut short: {word} is") as error:
        release_from_bytes(with_fields(release(sensing_plan()), *parts))
    assert "\n" not in str(error.value)


def test_a_seed_that_does_not_follow_from_its_beacon_is_refused() -> None:
    """Whatever of seed, own part, round and value was changed."""
    public = release(sensing_plan(), beacon=Beacon(7, bytes(range(32)), bytes(range(16))))
    data = release_to_bytes(public)
    at = FIELDS_AT + 3
    assert release_from_bytes(data) == public
    for place in (FIELDS_AT - 1, at, at + 15, at + 16, at + 24, at + 55):
        forged = bytearray(data)
        forged[place] ^= 1
        with pytest.raises(DippError, match="the seed does not follow from its beacon"):
            release_from_bytes(sealed(bytes(forged)))


def test_known_fields_are_read() -> None:
    public = release(sensing_plan())
    both = release_from_bytes(with_fields(public, (1, b""), (4, bytes.fromhex(TABLE))))
    assert both == dataclasses.replace(public, table=TABLE, seed_given=True)


@pytest.mark.parametrize("version", [3, 4, 255])
def test_newer_versions_get_one_line(version: int) -> None:
    for data in (one.to_bytes() for one in newer_seeds()):
        with pytest.raises(DippError) as error:
            Archive.from_bytes(data[:4] + bytes([version]) + data[5:])
        assert str(error.value) == f"written by a newer dipp (format {version}); upgrade"


@pytest.mark.parametrize("flag", [0x02, 0x04, 0x08, 0x10])
def test_flags_that_mean_nothing_are_refused(flag: int) -> None:
    data = bytearray(release_to_bytes(release(sensing_plan())))
    assert data[5] & SENSING
    data[5] |= flag
    with pytest.raises(DippError, match="flags that mean nothing"):
        release_from_bytes(sealed(bytes(data)))


def test_codes_have_their_numbers() -> None:
    """They stand in files, and are for ever."""
    assert {kind.number: name for name, kind in CODES.items()} == {
        0: "flat",
        1: "pairs",
        2: "step-limited PPR",
        3: "PFR",
    }


def test_numbers_are_short_where_all_of_them_are() -> None:
    short, long = release(sensing_plan()), float(np.float32(0.1))
    steps = short.plan.steps
    last = steps[-1]
    assert isinstance(last, SensingStep)
    lengths = [len(release_to_bytes(short))]
    for change in ({"clip": long}, {"snr_gain": long}, {"clip": long, "snr_gain": long}):
        changed: Any = dataclasses.replace(last, **change)  # type: ignore[arg-type]
        other = dataclasses.replace(short, plan=Plan(short.plan.coding, (*steps[:-1], changed)))
        data = release_to_bytes(other)
        assert release_from_bytes(data) == other
        assert not data[5] & SHORT_GAINS
        lengths.append(len(data))
    assert release_to_bytes(short)[5] & SHORT_GAINS
    assert lengths[0] < lengths[1]


@pytest.mark.parametrize("public", [release(sensing_plan()), release(small_plan(SHARP), seed_given=True)])
def test_numbers_that_could_be_short_must_be(public: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or an archive would have two spellings."""
    real, right = float_column, release_to_bytes(public)
    monkeypatch.setattr(header, "float_column", lambda values, **_: real(values, short=False))
    longer = release_to_bytes(public)
    assert len(longer) > len(right)
    with pytest.raises(DippError, match="snr_gain has too many bytes"):
        release_from_bytes(longer)
    assert release_from_bytes(right) == public


def test_the_cost_of_a_header() -> None:
    """A plan of 32 steps of one tilt takes about a picture's worth of 40×40 pixels at a bit a pixel."""
    plan = sensing_plan(groups=32, steps=32)
    assert len(release_to_bytes(release(plan, table=TABLE))) < 250


# Golden files, and what tampering does.

KNOWN = {
    "coded-diffc": "90ce60e94d020dd8d09f133e40429799a1a9218f67379f6066dddfb2d4ea28e3",
    "coded-paper": "d1c0b8f7e32f03edb21ff0498c3f28cdecf138e39a2d213e198d0bcb4ee72522",
    "coded-sharp": "199185d7a730bcfb8ad19914976f8c0df2f0cc088adce976797d6d0bbdc268d1",
    "coded-sizes": "dc0c3aa1b3ab9ee29d6cccc067fa494c76cae9527156ebd95157cd1fe3d73701",
    "coded-thrifty": "19d442a33daa92f3d80667a0315ae310b2ee9f73297cccb3cc31d0998e128671",
    "diffc": "8a68fb87d64c57e3bd1520ab600a512a95d36b302d16c1558c3570586fb37b0e",
    "paper": "7886e84e819681ef85d44529b8e6c726595c6cc3292456b8d67c90c96bd719dd",
    "sharp": "aab0690beee2af895b2acfcbc0dfc629ad5e0922d0785d6cdd5390cbc5dc1729",
    "thrifty": "5964775c847a5bdf153957653996e211ce420872675079d69ba2316e55d17501",
}
"""SHA-256 of the golden files of format 1."""


@pytest.mark.parametrize("name", KNOWN)
def test_files_of_format_1_are_read_and_written_as_they_were(name: str) -> None:
    data = (GOLDEN / f"{name}.dipp").read_bytes()
    assert hashlib.sha256(data).hexdigest() == KNOWN[name]
    opened = archive.open(GOLDEN / f"{name}.dipp")
    assert data[4] == opened.release.version == 1
    assert (opened.release.table, opened.release.seed_given) == (None, False)
    assert written_again(opened) == data


def tampered(made: Archive, **change: float) -> bytes:
    """The file with some numbers of all its steps changed, and a right checksum, but the old claim."""
    old = header_of(made)
    steps: Any = tuple(dataclasses.replace(step, **change) for step in old.release.plan.steps)
    plan = dataclasses.replace(old.release.plan, steps=steps)
    front = Header(dataclasses.replace(old.release, plan=plan), old.runs, old.claim).to_bytes()
    return sealed(front + made.to_bytes()[len(old.to_bytes()) :])


@pytest.mark.parametrize("code", [Pairs(), Flat(), StepLimited()], ids=lambda code: code.name)
@pytest.mark.parametrize("factor", [0.5, 0.99, 1.01, 2.0])
def test_an_edited_tilt_is_refused(code: Code, factor: float) -> None:
    """The claim is computed from it."""
    made = made_of(release(sensing_plan(code, steps=4)), [(8, 8, 3)])
    assert tampered(made) == made.to_bytes()
    with pytest.raises(DippError, match="the certificate in the file is not the one of its plan"):
        Archive.from_bytes(tampered(made, tilt=float(np.float32(factor))))


def test_an_edited_clip_is_refused_where_it_changes_the_claim() -> None:
    """A wider one than the range of the data lowers the sensitivity; others change the costs of small changes alone."""
    made = made_of(release(sensing_plan(steps=4)), [(8, 8, 3)])
    with pytest.raises(DippError, match="the certificate in the file is not the one of its plan"):
        Archive.from_bytes(tampered(made, clip=2.5))
    narrower = Archive.from_bytes(tampered(made, clip=0.0625)).certificate
    assert narrower != made.certificate
    assert (made.ledger.selections[0].slope, narrower.ledger.selections[0].slope) == (2954, 11818)
    assert narrower.ledger.epsilon_of_change(5) > made.ledger.epsilon_of_change(5)


def test_an_edited_gain_is_left_to_whoever_has_the_table() -> None:
    """It has no part in the privacy: `planning.sensing.check_gains` compares it with the table."""
    made = made_of(release(sensing_plan(steps=4)), [(8, 8, 3)])
    assert Archive.from_bytes(tampered(made, snr_gain=2**-4)).certificate == made.certificate


def test_an_edited_claim_is_refused() -> None:
    made = made_of(release(sensing_plan(), delta=1e-6), [(8, 8, 3)])
    old = struct.pack("<2d", made.certificate.epsilon, made.certificate.rho)
    assert made.to_bytes().count(old) == 1
    for better in ((0.5, made.certificate.rho), (made.certificate.epsilon, 0.1)):
        with pytest.raises(DippError, match="the certificate in the file is not the one of its plan"):
            Archive.from_bytes(sealed(made.to_bytes().replace(old, struct.pack("<2d", *better))))
