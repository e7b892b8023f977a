"""A public beacon: the seed follows from it and from the sender's own part, by the documented formula."""

from __future__ import annotations

import hashlib

import pytest
from helpers.refusals import refused

from dipp.core.beacon import NOTHING, Beacon

VALUE = bytes(range(32))


def test_the_seed_follows_the_documented_formula() -> None:
    beacon = Beacon(3, VALUE, bytes(range(16)))
    text = b"dipp/2/beacon\x00" + bytes(range(16)) + bytes([3, 0, 0, 0, 0, 0, 0, 0]) + VALUE
    assert beacon.seed == hashlib.sha256(text).digest()[:16]
    assert beacon.seed.hex() == "ceae3a08adeedf22c998a4547ab906c7"


def test_the_seed_depends_on_every_part() -> None:
    beacons = [
        Beacon(3, VALUE),
        Beacon(4, VALUE),
        Beacon(3, VALUE[::-1]),
        Beacon(3, VALUE, b"\1" * 16),
        Beacon(3, VALUE * 2),
    ]
    assert len({beacon.seed for beacon in beacons}) == 5
    assert Beacon(3, VALUE).own == NOTHING
    assert Beacon(3, VALUE).mixed_with(b"\1" * 16) == beacons[3]


def test_a_beacon_is_parsed_and_read_back() -> None:
    assert Beacon.parse("3:" + VALUE.hex()) == Beacon.parse("3:" + VALUE.hex().upper()) == Beacon(3, VALUE)
    for beacon in (Beacon((1 << 64) - 1, VALUE * 2, b"\1" * 16), Beacon(0, VALUE[:16])):
        assert Beacon.from_bytes(beacon.to_bytes()) == beacon


MALFORMED = ("", "3", f":{VALUE.hex()}", "3:", f"-1:{VALUE.hex()}", "3:xyz", "3:" + "0" * 33, "3:00", "3:" + "00" * 65)
OUT_OF_RANGE = (f"{1 << 64}:{VALUE.hex()}", f"٣:{VALUE.hex()}", f"3:{VALUE.hex()}\n", f"{'9' * 5000}:{VALUE.hex()}")


@pytest.mark.parametrize("text", [*MALFORMED, *OUT_OF_RANGE])
def test_invalid_beacons_are_refused_in_one_line(text: str) -> None:
    with refused("beacon") as caught:
        Beacon.parse(text)
    assert len(str(caught.value)) < 120
