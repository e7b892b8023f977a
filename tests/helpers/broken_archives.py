"""Broken and costly_files archives, in a module that child processes can import.

Files are made from small archives by flipped bits, edited bytes, cuts, insertions, splices and oversized numbers. Most
get a right checksum, so that the damage reaches the parser; some also get a consistent header with its certificate, so
that the damage reaches the decoders of indices.
"""

from __future__ import annotations

import binascii
import contextlib
import functools
import math
import random
import re
import struct
import time
import tracemalloc
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from dipp.codes import Flat, Pairs, StepLimited
from dipp.core.beacon import Beacon
from dipp.core.channels import Gaussian, Laplace, Sign
from dipp.core.closest import Weights
from dipp.core.geometry import MAX_PIXELS
from dipp.core.plan import Coding, Plan
from dipp.core.steps import Question, SensingStep, Step
from dipp.core.window import Window
from dipp.errors import DippError
from dipp.format.archive import Archive
from dipp.format.bytes import varint
from dipp.format.header import Header
from dipp.format.parameters import PublicParameters
from dipp.planning.presets import DIFFC, PAPER
from dipp.privacy.certificate import Certificate
from helpers.archives import (
    FLAT,
    MODEL,
    PPR,
    Shape,
    build,
    geometries,
    header_of,
    made_up,
    nine_steps,
    of_latents,
    release,
    small_plan,
    stated_claim,
    with_checksum,
)
from helpers.geometry import of_pixels
from helpers.questions import PLANS
from helpers.sensing import sensing_plan

TRACED = 16
"""The memory of every sixteenth file is traced; tracing is slow."""
REWRITTEN = 4
"""Every fourth decoded archive is written again."""
ADDRESS_SPACE = 1 << 30
"""Bytes of address space, beyond the libraries, after which an allocation raises MemoryError."""


@dataclass
class Survey:
    """The outcomes of reading a number of files."""

    refused: int = 0
    decoded: int = 0
    reasons: frozenset[str] = frozenset()
    slowest: float = 0.0
    largest: int = 0


@dataclass(frozen=True)
class Sample:
    """A good archive, from which broken ones are made."""

    header: Header
    front: bytes
    rest: bytes

    @classmethod
    def of(cls, archive: Archive) -> Sample:
        header = header_of(archive)
        front = header.to_bytes()
        return cls(header, front, archive.to_bytes()[len(front) :])


def seeds() -> list[Archive]:
    """Return small archives of every kind: codes, channels, kinds of steps, runs, checksums, fields."""
    halves = Coding(Laplace(), StepLimited(Fraction(3, 2)))
    sparse = Coding(Sign(6), Flat())
    return [
        build(small_plan(FLAT), [(4, 5, 3)] * 3),
        build(small_plan(PAPER), [(4, 5, 3)] * 3, separate=True),
        build(small_plan(DIFFC), [(4, 5, 3), (3, 3, 3)]),
        build(small_plan(sparse, 3), [(4, 5, 3), (2, 10, 3), (5, 5, 3)], delta=1e-6),
        build(small_plan(halves), [(3, 3, 1)] * 2, delta=1e-9),
        build(small_plan(Coding(Gaussian(), Flat())), [(2, 2, 1)] * 9),
        build(small_plan(FLAT, 1), [(5, 6, 3)] * 2),
        build(small_plan(DIFFC, 1), [(5, 6, 1)]),
        build(nine_steps(FLAT, 32), [(4, 4, 3)]),
        build(small_plan(PAPER), ()),
        build(small_plan(PPR), [(4, 5, 3)] * 3),
        *sensing_archives(),
        made_of(of_latents(PLANS["picture by signs"], "une forêt"), [(9, 40, 3), (17, 1, 3)]),
        made_of(of_latents(small_plan(DIFFC)), [(9, 40, 3), (17, 1, 3)]),
        *(made_of(release(plan, 3, None, MODEL), [(9, 5, 3), (9, 5, 3), (1, 17, 3)]) for plan in PLANS.values()),
    ]


def sensing_archives() -> list[Archive]:
    """Return small archives of sensing by every code, and of steps along timesteps, with every field."""
    shapes = [(4, 5, 3), (4, 5, 3), (1, 7, 3)]
    plans = (sensing_plan(), sensing_plan(Flat(), steps=3), sensing_plan(StepLimited(), groups=1, steps=2))
    made = [made_of(release(plan, 3, delta), shapes) for plan, delta in zip(plans, (None, 1e-6, None), strict=True)]
    stepped = release(small_plan(FLAT), 3, None, MODEL, True)
    mixed = release(plans[0], 3, None, MODEL, True, Beacon(7, bytes(range(32)), bytes(range(16))))
    windowed = release(plans[0], 3, window=Window(-100, 900))
    return [
        *made,
        *(made_of(one, shapes, grey=[False, True, True]) for one in (windowed, stepped)),
        made_of(release(plans[0], 3, None, MODEL, True), shapes[:1]),
        *(made_of(one, shapes) for one in (stepped, mixed)),
    ]


def made_of(public: PublicParameters, shapes: list[Shape], grey: Sequence[bool] = ()) -> Archive:
    """Return an archive of made-up indices."""
    coded = [public.coded(geometry).shape for geometry in geometries(shapes)]
    return Archive.build(public, geometries(shapes), made_up(public.plan, coded), grey=grey)


def sizes(rng: random.Random, most: int) -> int:
    """Return sizes: mostly small, sometimes as large as allowed."""
    return int(2 ** rng.uniform(0, math.log2(most)))


def edited(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Return bytes with some of them changed, lost or added."""
    out = bytearray(data)
    at = rng.randrange(len(out))
    # The numbers that control the parser come before the payload.
    front = rng.randrange(53, min(len(out), 140))
    match rng.randrange(8):
        case 0:
            for _ in range(rng.randint(1, 8)):
                out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
        case 1:
            for _ in range(rng.randint(1, 4)):
                out[rng.randrange(len(out))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        case 2:
            out[front] = rng.randrange(256)
        case 3:
            del out[at:]
        case 4:
            out[at:at] = rng.randbytes(rng.randint(1, 16))
        case 5:
            out[at:] = other[rng.randrange(len(other)) :]
        case 6:
            out[front : front + 1] = varint(sizes(rng, 1 << 69))
        case 7:
            end = at + rng.randint(1, 16)
            out[at:at] = out[at:end]
            del out[end : end + rng.randint(0, 16)]
    return bytes(out)


def with_another_header(rng: random.Random, old: Sample) -> bytes:
    """Return a consistent header of another plan or of other images, before the old payload."""
    plan, runs, channels = old.header.parameters.plan, old.header.runs.copy(), old.header.parameters.channels
    match rng.randrange(4):
        case 0:
            steps = list(plan.steps)
            place = rng.randrange(len(steps))
            step = steps[place]
            units = 0 if plan.code.fixed_length else rng.randint(1, 255)
            gain = 2.0 ** -rng.randint(3, 120)
            size = sizes(rng, (1 << 32) - 1)
            if isinstance(step, SensingStep):
                tilt, clip = (float(np.float32(2 ** rng.uniform(-130, 127))) for _ in range(2))
                tilt = rng.choice((tilt, float(np.float32(2 ** rng.uniform(-8, 10)))))
                whole = (1, 1) if isinstance(plan.code, Pairs) else (size, rng.randint(1, 12))
                steps[place] = SensingStep(tilt, clip, gain, *whole, units)
            elif isinstance(step, Step):
                steps[place] = Step(step.start, step.end, gain, size, rng.randint(1, 12), units)
            elif isinstance(step, Question):
                law = Weights(1 << (bits := rng.randint(1, 12)), 1, rng.randint(sizes(rng, 1 << 40), 1 << 41), 1)
                weights = {"best": law.best, "heavy": law.heavy, "light": law.light, "index_bits": bits}
                steps[place] = replace(step, split=1 << rng.randint(0, place), snr_gain=gain, **weights)
            plan = replace(plan, steps=tuple(steps))
        case 1 if len(runs):
            runs[rng.randrange(len(runs)), rng.randrange(3)] = sizes(rng, 1 << rng.choice((4, 16, 31)))
        case 2:
            runs = np.array([[sizes(rng, 1 << 10) for _ in range(3)] for _ in range(sizes(rng, 60))], np.int64)
        case 3:
            channels = rng.randint(1, 16)
    smallest = int((runs[:, 1] * runs[:, 2]).min(initial=MAX_PIXELS))
    public = replace(old.header.parameters, plan=plan, channels=channels)
    return Header(public, runs, public.claim(of_pixels(min(smallest, MAX_PIXELS), channels))).to_bytes() + old.rest


def with_another_payload(rng: random.Random, old: Sample) -> bytes:
    """Return the old header before another payload, mostly of the same length."""
    payload = bytearray(old.rest[:-4])
    for _ in range(rng.randint(1, 8) if payload else 0):
        payload[rng.randrange(len(payload))] = rng.choice((0, 0xFF, rng.randrange(256)))
    if rng.random() < 0.1:
        payload = bytearray(rng.randbytes(rng.randrange(2 * len(payload) + 2)))
    return old.front + payload + old.rest[-4:]


def broken(rng: random.Random, samples: list[Sample]) -> bytes:
    """Return a file with one or more faults; most have the right checksum."""
    kind, old, other = rng.random(), rng.choice(samples), rng.choice(samples)
    data = old.front + old.rest
    if kind < 0.15:
        with contextlib.suppress(DippError):
            data = with_another_header(rng, old)
    elif kind < 0.3:
        return with_checksum(with_another_payload(rng, old))
    if kind > 0.08:
        data = edited(rng, data, other.front + other.rest)
    return with_checksum(data) if kind < 0.6 else data


def read(data: bytes) -> Archive:
    """Open a file and decode all of it."""
    archive = Archive.from_bytes(data)
    first = 0
    for count in archive.runs[:, 0].tolist():
        archive.batch(first, first + count)
        first += count
    return archive


def written_again(archive: Archive) -> bytes:
    indices = [archive.image_indices(i) for i in range(len(archive))]
    shapes = [archive.geometry(i) for i in range(len(archive))]
    return Archive.build(archive.parameters, shapes, indices, grey=archive.grey.tolist()).to_bytes()


@functools.lru_cache(maxsize=4096)
def recomputed(plan: Plan, channels: int, smallest: int, delta: float | None) -> tuple[float, float]:
    """Return ε and ρ of a plan, computed only from its ledger."""
    certificate = Certificate.of(plan, of_pixels(smallest, channels), delta)
    return certificate.epsilon, certificate.rho


def checked_read(data: bytes, again: bool) -> None:
    """Read a file, and check that its certificate is computed again and, if asked, that it has one spelling."""
    archive = read(data)
    parameters = archive.parameters
    if parameters.plan.coding.certified:
        smallest = min((height * width for _, height, width in archive.runs.tolist()), default=MAX_PIXELS)
        due = recomputed(parameters.plan, parameters.channels, smallest, parameters.delta)
        stated = archive.certificate.epsilon, archive.certificate.rho
        # The file states the same 64-bit floats; a reader that only computed them would not see a false claim.
        assert stated == due, "another certificate than the recomputed one"
        assert struct.pack("<2d", *due) in data, "the file states another certificate than the recomputed one"
    if again:
        assert written_again(archive) == data, "another spelling of the same archive"


def cases(seed: int, count: int) -> Iterator[tuple[bytes, bool, Callable[[], None]]]:
    """Yield broken files, whether their checksum is right, and a function that reads them."""
    rng, samples = random.Random(seed), list(map(Sample.of, seeds()))
    for number in range(count):
        data = broken(rng, samples)
        right = zlib.crc32(data[:-4]).to_bytes(4, "little") == data[-4:]
        yield data, right, functools.partial(checked_read, data, number % (4 * REWRITTEN) == 0)


def limited_survey(seed: int, count: int) -> Survey:
    """Run `survey` in a child process with little memory."""
    warnings.simplefilter("error")
    limit_memory()
    return survey(seed, count)


def survey(seed: int, count: int) -> Survey:
    """Read `count` files; any exception except DippError, warnings included, ends the survey."""
    rng, samples, found, reasons = random.Random(seed), list(map(Sample.of, seeds())), Survey(), set()
    for number in range(count):
        data = broken(rng, samples)
        traced = number % TRACED == 0
        if traced:
            tracemalloc.start()
        began, complaint = time.process_time(), ""
        try:
            archive = read(data)
            found.decoded += 1
            # Every archive has one spelling.
            if found.decoded % REWRITTEN == 0:
                assert written_again(archive) == data
        except DippError as error:
            complaint = str(error)
            found.refused += 1
        except BaseException as error:
            raise AssertionError(f"file {number} of survey {seed}, {data.hex()}: {error!r}") from error
        reasons.add(re.sub(r"\d+", "N", complaint))
        if traced:
            found.largest = max(found.largest, tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        else:
            found.slowest = max(found.slowest, time.process_time() - began)
    found.reasons = frozenset(reasons)
    assert not any("\n" in reason for reason in reasons)
    return found


def limit_memory() -> None:
    """Let a huge allocation fail, on systems that can."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError):
        return
    limit = pages * resource.getpagesize() + ADDRESS_SPACE
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


def archive_of_zeros(plan: Plan, runs: list[list[int]], channels: int, body: bytes, checksummed: int = 0) -> bytes:
    """Return an archive whose indices are all zero, after the given table of lengths."""
    rows = np.array(runs)
    front = Header(release(plan, channels), rows, stated_claim(plan, channels, int((rows[:, 1] * rows[:, 2]).min())))
    checksum = binascii.crc_hqx(bytes(4 * checksummed), 0xFFFF).to_bytes(2, "big") if checksummed else b""
    return with_checksum(front.to_bytes() + body + checksum + bytes(4))


def costly_files(name: str) -> bytes:
    """Yield files that ask for as much work as their length allows."""
    dense = Coding(Laplace(), Flat())
    sparse = Coding(Sign(65535), Flat())
    bit, likely = Step(9, 5, 2**-9, 1, 1), Step(9, 5, 2**-9, 1, 1, 255)
    every = tuple(Step(9999 - i, 9998 - i, 2**-9, 1 << 30, 1) for i in range(4096))
    codes = tuple(Step(999 - i, 998 - i, 2**-9, 1 << 30, 21 + i // 255, i % 255 + 1) for i in range(256))
    match name:
        case "a large image":
            return archive_of_zeros(Plan(dense, (bit,)), [[1, 256, 512]], 1, bytes(1 << 14), 1 << 17)
        case "small images":
            return archive_of_zeros(Plan(dense, (bit,)), [[1 << 17, 1, 1]], 1, bytes(1 << 14))
        case "many sizes":
            return archive_of_zeros(Plan(dense, (bit,)), [[1, 1 + i % 2, 1] for i in range(4096)], 1, bytes(4096))
        case "likely indices":
            return archive_of_zeros(Plan(PAPER, (likely,)), [[1, 256, 128]], 1, b"\0" + bytes(1 << 12), 1 << 15)
        case "small likely images":
            return archive_of_zeros(Plan(PAPER, (likely,)), [[1 << 13, 1, 1]], 1, b"\0\0" + bytes(1 << 13))
        case "many zeta codes":
            return archive_of_zeros(Plan(PAPER, codes), [[1, 1, 1]], 1, b"\0" + bytes(32), 256)
        case _:
            return archive_of_zeros(Plan(sparse, every), [[1, 256, 256]], 16, bytes(512), 4096)
