"""Plans and archives of made-up indices, for tests of the file format, which need no denoiser."""

from __future__ import annotations

import dataclasses
import hashlib
import struct
import zlib
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from dipp.codes import Flat, StepLimited
from dipp.core.beacon import Beacon
from dipp.core.channels import Sign
from dipp.core.geometry import Geometry
from dipp.core.latents import Latents
from dipp.core.plan import Coding, Plan
from dipp.core.steps import Step
from dipp.core.window import Window
from dipp.format.archive import Archive
from dipp.format.header import Claim, Header
from dipp.format.parameters import PublicParameters
from helpers.geometry import of_pixels

FLAT = Coding(Sign(period=3), Flat())
PPR = Coding(Sign(period=3), StepLimited(Fraction(2)))
"""The sign channel along timesteps, under the flat code and under the paper's."""
MODEL = hashlib.sha256(b"a denoiser").hexdigest()
SEED = bytes(range(16))
TIMES = (999, 620, 560, 505, 455, 410, 365, 325, 290, 255)
GAINS = (2**-8, 2**-7.5, 2**-7, 2**-6.5, 2**-6, 2**-5.5, 2**-5, 2**-4.5, 2**-4)
SIZES = (1024, 800, 640, 512, 400, 320, 250, 180, 128)


def rounded_down(value: float, bits: int = 16) -> float:
    """Return a value with only the first bits of its 32-bit float."""
    pattern = int.from_bytes(struct.pack(">f", value)) >> 32 - bits << 32 - bits
    return float(struct.unpack(">f", pattern.to_bytes(4))[0])


def nine_steps(coding: Coding, gain_bits: int = 16) -> Plan:
    """Return a plan as a schedule makes them for pictures of 32×32."""
    units = 0 if coding.code.fixed_length else 70
    rows = zip(TIMES, TIMES[1:], GAINS, SIZES, strict=False)
    return Plan(
        coding,
        tuple(Step(start, end, rounded_down(gain, gain_bits), size, 14, units) for start, end, gain, size in rows),
        separate=False,
    )


def small_plan(coding: Coding, chunk_size: int = 20) -> Plan:
    units = 0 if coding.code.fixed_length else 80
    steps = Step(9, 5, 2**-7, chunk_size, 9, units), Step(5, 2, 2**-6, chunk_size, 12, units)
    return Plan(coding, steps, separate=False)


def release(
    plan: Plan,
    channels: int = 3,
    delta: float | None = None,
    table: str | None = None,
    seed_given: bool = False,
    beacon: Beacon | None = None,
    window: Window | None = None,
) -> PublicParameters:
    seed = SEED if beacon is None else beacon.seed
    return PublicParameters(plan, MODEL, seed, channels, delta, table, seed_given, beacon, window)


def of_latents(plan: Plan, prompt: str = "") -> PublicParameters:
    """Return a release of latents: 4 channels for each 8×8 pixels, with an even number of latents along a side."""
    return dataclasses.replace(release(plan, table="0f" * 32), latents=Latents(8, 4, 2), prompt=prompt)


Shape = tuple[int, int, int]
"""Height, width and channels."""


def geometries(shapes: Sequence[Shape]) -> list[Geometry]:
    """Return the geometry of each shape."""
    return [Geometry(*shape) for shape in shapes]


def counts(plan: Plan, shape: Shape) -> tuple[int, ...]:
    """Return the number of chunks of each step of an image."""
    return plan.chunk_counts(Geometry(*shape))


def made_up(plan: Plan, shapes: Sequence[Shape], salt: int = 0) -> list[list[int]]:
    """Return indices that look random and are the same on every machine; small ones are common, as in a zeta code."""
    images = []
    for image, shape in enumerate(shapes):
        widths = [step.index_bits for step, n in zip(plan.steps, counts(plan, shape), strict=True) for _ in range(n)]
        words = [zlib.crc32(struct.pack("<3I", salt, image, place)) for place in range(len(widths))]
        images.append([(word >> 5) % (1 << word % (width + 1)) for word, width in zip(words, widths, strict=True)])
    return images


def archive_of_indices(plan: Plan, shapes: Sequence[Shape], indices: Any, delta: float | None = None) -> Archive:
    """Return an archive of given indices; an archive without images has three channels."""
    return Archive.build(release(plan, shapes[0][2] if shapes else 3, delta), geometries(shapes), indices)


def build(
    plan: Plan, shapes: Sequence[Shape], salt: int = 0, separate: bool = False, delta: float | None = None
) -> Archive:
    """Return an archive of made-up indices."""
    plan = dataclasses.replace(plan, separate=separate)
    return archive_of_indices(plan, shapes, made_up(plan, shapes, salt), delta)


def header_of(archive: Archive) -> Header:
    """Return the header of an archive, read from its file."""
    front = Header(archive.parameters, archive.runs, None)
    return dataclasses.replace(front, claim=archive.parameters.claim(front.smallest))


def stated_claim(plan: Plan, channels: int, pixels: int) -> Claim | None:
    """Return the certificate that a header states for a plan and images of this size."""
    return release(plan, channels).claim(of_pixels(pixels, channels))


def with_checksum(data: bytes) -> bytes:
    """Return the bytes with the right checksum in place of their last four."""
    return data[:-4] + zlib.crc32(data[:-4]).to_bytes(4, "little")
