"""A public beacon: a random value that a third party publishes at a known time, mixed into the public seed.

Services such as drand or NIST's beacon publish numbered rounds. Each is a value that nobody could know before. A seed
that follows from a round did not exist before it; and if the sender's own part was fixed by then, nobody chose it.

    seed = first 16 bytes of SHA-256("dipp/2/beacon" + 0x00 + own[16] + u64le(round) + value)

`own` are sixteen bytes of the sender, given or drawn before a picture is read. All three are in the file, so every
reader can compute the seed again, and can compare the value with the published round.

**What it shows, and what not.** Privacy never rests on the seed: for an honest sender, any seed will do that was drawn
before the pictures were read. A beacon serves readers who do not want to take the sender's word for that. A sender who
draws the own part again and again after the round is out can still choose among the resulting seeds. A sender who
publishes it before the round, or uses sixteen zero bytes, cannot.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from dataclasses import dataclass

from dipp.core.randomness import SEED_BYTES
from dipp.errors import DippError

MIN_VALUE, MAX_VALUE = 16, 64
"""Least and largest length of a beacon's value in bytes: drand has 32, NIST 64."""
ROUNDS = 1 << 64
"""Round numbers are below this."""
NOTHING = bytes(SEED_BYTES)
"""The own part of a sender who adds nothing: sixteen zero bytes."""


@dataclass(frozen=True)
class Beacon:
    """A round of a public beacon, with the sender's own part: together they give the public seed.

    Raises:
        DippError: A number or a length is out of its range.

    """

    round: int
    """Number of the round, from 0 to 2^64 − 1."""
    value: bytes
    """The published value, 16 to 64 bytes."""
    own: bytes = NOTHING
    """The sender's own part, 16 bytes."""

    def __post_init__(self) -> None:
        if not 0 <= self.round < ROUNDS:
            raise DippError("beacon", f"must have a round from 0 to 2^64 − 1, got {self.round!s:.30}")
        if not MIN_VALUE <= len(self.value) <= MAX_VALUE:
            raise DippError("beacon", f"must have a value of {MIN_VALUE} to {MAX_VALUE} bytes, got {len(self.value)}")
        if len(self.own) != SEED_BYTES:
            raise DippError("beacon", f"must have an own part of {SEED_BYTES} bytes, got {len(self.own)}")

    @classmethod
    def parse(cls, text: str) -> Beacon:
        """Return the beacon that a text ROUND:VALUE names, with the value in hex digits, as commands take it.

        Raises:
            DippError: The text has another form, or a number is out of its range.

        """
        match = re.fullmatch(r"(\d{1,20}):((?:[0-9a-fA-F]{2})+)", text, flags=re.ASCII)
        if not match:
            raise DippError("beacon", "must be ROUND:VALUE, a whole number and hex digits, as they were published")
        return cls(int(match[1]), bytes.fromhex(match[2]))

    @classmethod
    def of(cls, beacon: Beacon | str | None) -> Beacon | None:
        """Return a beacon as it is, or parse it from a text ROUND:VALUE; None stays None.

        Raises:
            DippError: The beacon is not a `Beacon`, a text or None, or its text is malformed.
        """
        if beacon is None or isinstance(beacon, Beacon):
            return beacon
        if not isinstance(beacon, str):
            raise DippError("beacon", f'must be "ROUND:VALUE" or a Beacon, got {beacon!r:.40}')
        return cls.parse(beacon)

    def mixed_with(self, part: bytes) -> Beacon:
        """Return the same round with another part of the sender.

        Args:
            part: The sender's own part, 16 bytes.
        """
        return dataclasses.replace(self, own=part)

    @property
    def seed(self) -> bytes:
        """The public seed, 16 bytes: the formula is in the module's docstring."""
        content = b"dipp/2/beacon\0" + self.own + self.round.to_bytes(8, "little") + self.value
        return hashlib.sha256(content).digest()[:SEED_BYTES]

    def to_bytes(self) -> bytes:
        """Return the own part, the round in eight bytes (the lowest first) and the value, as files store them."""
        return self.own + self.round.to_bytes(8, "little") + self.value

    @classmethod
    def from_bytes(cls, data: bytes) -> Beacon:
        """Return the beacon that `to_bytes` wrote."""
        part, rest = data[:SEED_BYTES], data[SEED_BYTES:]
        return cls(int.from_bytes(rest[:8], "little"), rest[8:], part)
