"""A public beacon: a random value that somebody else publishes at a known time, mixed into the public seed.

Services such as drand or NIST's beacon publish numbered rounds, each a value that nobody could know before. A seed that
follows from one was not at hand before the round; and if the sender's own part was fixed (or public) by then, nobody
has chosen it.

    seed = first 16 bytes of SHA-256("dipp/2/beacon" + 0x00 + own[16] + u64le(round) + value)

`own` are sixteen bytes of the sender: drawn before a picture is read, or given. All three are in the file, so that
every reader computes the seed again. That the value is the one of its round, a reader compares with what was published.

**What it shows, and what not.** Privacy never rests on the seed: for an honest sender, any seed will do that was drawn
before the pictures were read. A beacon is for those who do not want to believe that it was. A sender who draws his own
part again and again after the round is out can still choose among the seeds that he gets; one who publishes it before
the round, or sends sixteen zero bytes, cannot.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from dataclasses import dataclass

from dipp.core.randomness import SEED_BYTES
from dipp.errors import DippError

MIN_VALUE, MAX_VALUE = 16, 64
"""Bytes of a beacon's value: drand's have 32, NIST's 64."""
ROUNDS = 1 << 64
NOTHING = bytes(SEED_BYTES)
"""The own part of a sender who adds nothing: the seed follows from the beacon alone."""


@dataclass(frozen=True)
class Beacon:
    """A round of a beacon, and what the sender adds of his own."""

    round: int
    value: bytes
    own: bytes = NOTHING

    def __post_init__(self) -> None:
        if not 0 <= self.round < ROUNDS:
            raise DippError("beacon", f"a round from 0 to 2^64 − 1 is needed, got {self.round!s:.30}")
        if not MIN_VALUE <= len(self.value) <= MAX_VALUE:
            raise DippError("beacon", f"a value of {MIN_VALUE} to {MAX_VALUE} bytes is needed, got {len(self.value)}")
        if len(self.own) != SEED_BYTES:
            raise DippError("beacon", f"{SEED_BYTES} bytes of one's own are needed, got {len(self.own)}")

    @classmethod
    def parse(cls, text: str) -> Beacon:
        """A beacon as it is given to commands, ROUND:VALUE, with the value in hex digits."""
        found = re.fullmatch(r"(\d{1,20}):((?:[0-9a-fA-F]{2})+)", text, flags=re.ASCII)
        if not found:
            raise DippError("beacon", "ROUND:VALUE is needed, a whole number and hex digits, as they were published")
        return cls(int(found[1]), bytes.fromhex(found[2]))

    @classmethod
    def of(cls, beacon: Beacon | str | None) -> Beacon | None:
        """Return the beacon that an argument means: itself, or as `parse` reads it."""
        if beacon is None or isinstance(beacon, Beacon):
            return beacon
        if not isinstance(beacon, str):
            raise DippError("beacon", f'"ROUND:VALUE" or a Beacon is needed, got {beacon!r:.40}')
        return cls.parse(beacon)

    def mixed_with(self, own: bytes) -> Beacon:
        """The same round with the sender's own bytes."""
        return dataclasses.replace(self, own=own)

    @property
    def seed(self) -> bytes:
        """The public seed that follows."""
        content = b"dipp/2/beacon\0" + self.own + self.round.to_bytes(8, "little") + self.value
        return hashlib.sha256(content).digest()[:SEED_BYTES]

    def to_bytes(self) -> bytes:
        """The field of a file's header."""
        return self.own + self.round.to_bytes(8, "little") + self.value

    @classmethod
    def from_bytes(cls, data: bytes) -> Beacon:
        """What `to_bytes` wrote."""
        own, rest = data[:SEED_BYTES], data[SEED_BYTES:]
        return cls(int.from_bytes(rest[:8], "little"), rest[8:], own)
