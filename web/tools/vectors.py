"""Write results of the Python code for the tests of its port to TypeScript: `vectors.py OUT.json`.

Everything is drawn from a fixed seed. Doubles are written as 16 hex digits, so that they are compared to the last bit.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import itertools
import json
import math
import random
import struct
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dipp.codec import asking
from dipp.codec.codec import Codec
from dipp.codec.decoding import NOISY
from dipp.codec.trajectory import trajectory
from dipp.codes import Closest, Flat, Pairs, pairs
from dipp.core import chunking, masks, randomness
from dipp.core.arithmetic import Arithmetic, Clip
from dipp.core.beacon import Beacon
from dipp.core.channels import Sign
from dipp.core.closest import Weights, best_of
from dipp.core.geometry import Geometry
from dipp.core.plan import Coding, Plan
from dipp.core.price import Reach
from dipp.core.regions import Regions
from dipp.core.signal import SIGNAL_OF_PIXEL
from dipp.core.steps import MAX_LEVEL, SIGNS, WORDS, Question, SensingStep
from dipp.core.unit import Unit
from dipp.core.units import Cells, Picture
from dipp.core.window import Window
from dipp.errors import DippError
from dipp.format.archive import Archive
from dipp.format.header import checksum
from dipp.format.parameters import PublicParameters
from dipp.models.books import NAME, Book, Books
from dipp.models.config import CHANNELS, PLAIN, Config
from dipp.models.denoiser import Denoiser, Device, Numbers
from dipp.models.diffusion import NoiseSchedule
from dipp.models.evidence import Evidence
from dipp.models.export import export
from dipp.models.network import Network
from dipp.models.photonet import PhotoDenoiser
from dipp.privacy.printing import upper
from dipp.redaction import png
from dipp.redaction.answers import unit_of
from dipp.redaction.crops import crops
from dipp.redaction.outlines import Box, Margin, runs
from dipp.redaction.paint import Painter
from dipp.redaction.raster import Raster
from dipp.redaction.regions import PlacedRegions, Region
from dipp.redaction.sources import open_source

FAMILIES = ("raw", "between 1", "between 2", "between 3", "again", "finer")
BITS = (4, 6)
"""Index bits of the random books in these tests."""
SIZES = ((1, 1, 3), (2, 3, 3), (7, 9, 3), (16, 24, 3), (31, 33, 3), (20, 20, 1))


def double(value: float) -> str:
    """Return the bits of a double in hex."""
    return struct.pack(">d", value).hex()


def digest(array: Any, kind: str) -> str:
    """Return the SHA-256 of numbers in a byte order."""
    return hashlib.sha256(np.ascontiguousarray(array, kind).tobytes()).hexdigest()


def float32(value: float) -> float:
    """Return the nearest 32-bit float."""
    return float(np.float32(value))


class Shrinking(Denoiser):
    """A denoiser that TypeScript computes alike: x̂0 = y·SNR/(SNR + 1) within [−1, 1], plus 0.1 of the other planes."""

    any_size = True

    def __init__(self, books: Books | None = None, planes: tuple[str, ...] = ("state",)) -> None:
        self.books, self.planes = books, planes
        self.schedule = NoiseSchedule(np.linspace(0.99, 0.01, 50))
        self.identity = hashlib.sha256(b"shrinking").hexdigest()
        self.channels, self.sample_size, self.device = 3, (8, 8), torch.device("cpu")

    def predict(self, evidence: Evidence, numbers: Numbers = Numbers.SENSING) -> torch.Tensor:  # noqa: ARG002
        """Return x̂0 at any SNR."""
        snr = evidence.level
        found = (evidence.merged.state * float32(snr / (snr + 1))).clamp(-1, 1)
        if evidence.compared is not None and evidence.answers is not None:
            found = (found + (evidence.compared + evidence.answers) * float32(0.1)).clamp(-1, 1)
        restored: torch.Tensor = evidence.restored(found)
        return restored


class Counted:
    """Repeatable private bytes for tests: SHA-256 of 0, 1, 2, …, one after the other."""

    def __init__(self) -> None:
        self.used = 0

    def __call__(self, count: int) -> bytes:
        """Return the next `count` bytes."""
        first, last = self.used // 32, -(-(self.used + count) // 32)
        blocks = b"".join(hashlib.sha256(struct.pack("<Q", i)).digest() for i in range(first, last))
        found = blocks[self.used - 32 * first :][:count]
        self.used += count
        return found


class Vectors:
    """All test vectors, from one generator of random numbers."""

    def __init__(self) -> None:
        self.draw = random.Random(7)

    def seed(self) -> bytes:
        """Return a public seed."""
        return self.draw.randbytes(16)

    def plan(self, code: Flat | Pairs, steps: int | None = None, touches: int = 0) -> Plan:
        """Return a random sensing plan; `touches` bounds how often a pixel is touched, if given."""
        count = steps or self.draw.choice([1, 2, 5, 16, 32])
        groups = self.draw.choice([1, 2, 4, 16]) if not touches else max(1, -(-count // touches))
        tilt = float32(math.exp(self.draw.uniform(math.log(0.05), math.log(8 if code.name == "pairs" else 1.5))))
        made: list[SensingStep] = []
        for _ in range(count):
            clip, gain = (struct.unpack("<f", b"\0\0" + struct.pack("<f", value)[2:])[0] for value in self._sizes())
            size, bits = (1, 1) if code.name == "pairs" else (self.draw.randint(1, 200), self.draw.randint(4, 12))
            level = self.draw.randint(0, MAX_LEVEL) if made else 0
            made.append(SensingStep(tilt, clip, gain, size, bits, level=level))
        return Plan(Coding(Sign(period=3 * groups), code), tuple(made))

    def questions(self, unit: Unit) -> Plan:
        """Return a random plan of questions by words; some plans end with a question by signs."""
        splits = sorted(self.draw.choices((1, 2, 4), k=self.draw.randint(1, 3)))
        return Plan(
            Coding(Sign(period=1), Closest()), tuple(map(self._question, range(len(splits)), splits)), unit=unit
        )

    def _question(self, number: int, split: int) -> Question:
        candidate = self.draw.choice([WORDS, WORDS, SIGNS])
        bits = self.draw.choice(BITS)
        best = self.draw.choice([1, 1, 3])
        own = Weights.within(1 << bits, best, math.exp(self.draw.uniform(-3, 2.8)))
        scale = 1.0 if candidate == WORDS else float32(self.draw.uniform(0.1, 0.5))
        rounds = 1 if number else self.draw.choice([1, 2, 4])
        gain = float32(math.exp(self.draw.uniform(-2, 3)))
        return Question(split, rounds, candidate, scale, best, own.heavy, own.light, gain, 1, bits)

    def books(self) -> tuple[Books, bytes]:
        """Return random books, and the bytes of their file."""
        made = {
            (family, bits): Book(self._words(1 << bits), np.array(self.draw.choices(range(1, 99), k=1 << bits)))
            for family, bits in itertools.product(FAMILIES, BITS)
        }
        with tempfile.TemporaryDirectory() as folder:
            Books.write(Path(folder), made, [])
            found = Books.read(Path(folder))
            if found is None:
                raise DippError("books", "they were not written")
            return found, (Path(folder) / NAME).read_bytes()

    def _words(self, count: int) -> Any:
        return np.array([self.draw.gauss(0, 0.3) for _ in range(count * 48)], np.float32).reshape(count, 48)

    def weights(self) -> Iterator[dict[str, Any]]:
        """Return prices of draws among the closest candidates."""
        planned = [
            Weights.within(n, m, epsilon)
            for n, m in ((2, 1), (4, 3), (16, 1), (64, 5), (1024, 1), (4096, 30), (1 << 20, 1))
            for epsilon in (0.02, 0.5, 1.0, 4.0, 9.5, 16.0)
        ]
        odd = [Weights(2, 1, 1, 1), Weights(9, 4, 3, 2), Weights(5, 1, (1 << 61) + 1, 1), Weights(3, 2, 1 << 60, 7)]
        for one in [*planned, *odd]:
            price = [double(one.epsilon), double(one.rho)]
            whole = {"candidates": one.candidates, "best": one.best, "heavy": str(one.heavy), "light": str(one.light)}
            yield {**whole, "price": price}

    def nearest(self) -> Iterator[dict[str, Any]]:
        """Return scores of all kinds, and the sets T that follow from them."""
        for _ in range(60):
            count = self.draw.choice([2, 9, 40])
            scores = [
                self.draw.choice([0.5, -1.0, math.inf, -math.inf, math.nan, self.draw.random()]) for _ in range(count)
            ]
            best = self.draw.randint(1, count - 1)
            yield {
                "scores": [score if math.isfinite(score) else str(score) for score in scores],
                "best": best,
                "expected": best_of(np.array([scores]), best)[0].tolist(),
            }

    def _sizes(self) -> tuple[float, float]:
        return math.exp(self.draw.uniform(-4, 0)), math.exp(self.draw.uniform(-6, 1))

    def parameters(
        self, plan: Plan, channels: int = 3, model: str | None = None, *, windowed: bool = False
    ) -> PublicParameters:
        """Return public parameters with a plan."""
        table = self.draw.choice([None, hashlib.sha256(b"table").hexdigest()])
        delta = self.draw.choice([None, 1e-6])
        name = model or hashlib.sha256(b"model").hexdigest()
        given, seed, beacon = self.draw.random() < 0.5, self.seed(), None
        if self.draw.random() < 0.3:
            beacon = Beacon(self.draw.getrandbits(60), self.draw.randbytes(self.draw.randint(16, 64)), seed)
            seed = beacon.seed
        window = Window(*sorted(self.draw.sample(range(-(1 << 31), 1 << 31), 2))) if windowed else None
        hidden = (self.draw.randint(1, 99), self.draw.randint(1, 1 << 20)) if self.draw.random() < 0.3 else None
        return PublicParameters(plan, name, seed, channels, delta, table, given, beacon, window, hidden)

    def streams(self) -> Iterator[dict[str, Any]]:
        """Return streams with their words, permutations and draws."""
        for purpose, image, step in itertools.product(("candidates", "mask/pixels", "chunks"), (0, 3, 1 << 40), (0, 7)):
            seed = self.seed()
            source = randomness.stream(seed, image, step, purpose)
            count = self.draw.choice([1, 2, 63, 1000])
            places = [(self.draw.randrange(50), self.draw.randrange(9), self.draw.randrange(1 << 20)) for _ in range(5)]
            yield {
                "seed": seed.hex(),
                "image": image,
                "step": step,
                "purpose": purpose,
                "stream": list(source),
                "words": randomness.words(source, 11).tolist(),
                "permutation": randomness.permutation(source, count).tolist(),
                "draws": [
                    [*place_, int(randomness.draws(source, place_[0], np.array(place_[1]), np.array(place_[2])))]
                    for place_ in places
                ],
            }

    def masks(self) -> Iterator[dict[str, Any]]:
        """Return touched coordinates, their chunks, counts and worst costs."""
        for (height, width, channels), period in itertools.product(SIZES, (1, 3, 4, 12, 93)):
            if period != 1 and period < channels:
                continue
            mask, seed, geometry = masks.of_period(period), self.seed(), Geometry(height, width, channels)
            step = self.draw.randrange(2 * period)
            touched = mask.touched(seed, step, geometry)
            charges = [self.draw.uniform(0, 2) for _ in range(self.draw.choice([1, 5, 32, 200]))]
            found = {
                "seed": seed.hex(),
                "step": step,
                "pixels": geometry.pixels,
                "channels": channels,
                "period": period,
                "touched": touched.tolist(),
                "counts": mask.counts(2 * period, geometry).tolist(),
                "charges": [double(charge) for charge in charges],
                "worst": double(mask.worst(charges, channels)),
                "chunks": None,
            }
            if len(touched):
                size = self.draw.choice([1, 7, 50])
                count = max(-(-len(touched) // size), mask.touches(channels))
                dealt = chunking.chunks(seed, step, geometry, count, coordinates=touched)
                found["chunks"] = {"count": count, "order": dealt.order.tolist(), "offsets": dealt.offsets.tolist()}
            yield found

    def arithmetics(self) -> Iterator[dict[str, Any]]:
        """Return the integers of steps with and without a clip."""
        for _ in range(200):
            alpha = self.draw.choice([Fraction(1), Fraction(2), Fraction(3, 2), Fraction(1, 3)])
            period = self.draw.choice([1, 3, 12, 93])
            clip = Clip(float32(math.exp(self.draw.uniform(-5, 2.2))), float32(math.exp(self.draw.uniform(-6, 1))))
            gain = float32(math.exp(self.draw.uniform(-12, 0)))
            clipped = self.draw.random() < 0.7
            try:
                own = Arithmetic(Sign(period=period), gain, alpha, clip if clipped else None)
            except DippError:
                continue
            states = np.array([self.draw.uniform(-1.2, 1.2) for _ in range(20)] + [math.nan, math.inf, 0.0], np.float32)
            yield {
                "alpha": [alpha.numerator, alpha.denominator],
                "period": period,
                "gain": gain,
                "clip": [clip.tilt, clip.width] if clipped else None,
                "fraction_bits": own.fraction_bits,
                "unit": double(own.unit),
                "level": own.level_of_one,
                "largest": own.largest_shift,
                "limit": own.limit,
                "sensitivity": own.sensitivity,
                "levels": own.levels(SIGNAL_OF_PIXEL).tolist(),
                "states": [None if math.isnan(x) else 9e99 if math.isinf(x) else float(x) for x in states],
                "centres": own.centres(states).tolist(),
            }

    def prices(self) -> Iterator[dict[str, Any]]:
        """Return costs of single coordinates, and tables of thresholds."""
        for number in range(300):
            bits = self.draw.randint(3, 15)
            largest = self.draw.randint(1, min(1023, math.floor(19.9 / math.log(2) * 2**bits)))
            moved = Reach(self.draw.randint(1, 2 * largest), largest, bits)
            pair, flat = Pairs().charge(moved), Flat().charge(moved)
            yield {
                "moved": list(moved),
                "pairs": [double(pair.epsilon), double(pair.rho)],
                "flat": [double(flat.epsilon), double(flat.rho)],
                "printed": upper(pair.epsilon),
                "thresholds": digest(pairs.thresholds(largest, bits), "<u8") if number % 10 == 0 else None,
            }

    def archives(self) -> Iterator[dict[str, Any]]:
        """Return files of random indices: their bytes, their certificates, and whether damaged copies are read."""
        plans = [self.plan(Pairs() if number % 3 else Flat()) for number in range(32)]
        units: list[Unit] = [Cells(16), Cells(64), Picture(), Cells(32)]
        plans += [self.questions(unit) for unit in units for _ in range(4)]
        for number, plan in enumerate(plans):
            # The last files describe their source, which the page only reads: a window; no, some or all grey.
            described = 24 <= number < 32
            marks = number // 2 % 3 if described else 0
            release = self.parameters(plan, windowed=described and number % 2 == 1)
            shapes = [self.draw.choice([(1, 1, 3), (2, 3, 3), (7, 9, 3), (30, 41, 3)]) for _ in range(1 + number % 4)]
            rows = [
                [self.draw.randrange(1 << step.index_bits) for step, count in counted for _ in range(count)]
                for counted in (
                    list(zip(plan.steps, plan.chunk_counts(Geometry(h, w, c)), strict=True)) for h, w, c in shapes
                )
            ]
            grey = [marks == 2 or (marks == 1 and image % 2 == 0) for image in range(len(shapes))]
            archive = Archive.build(release, [Geometry(*shape) for shape in shapes], rows, grey=grey)
            change = self.draw.randint(1, 255)
            yield {
                "file": archive.to_bytes().hex(),
                "code": plan.code.name,
                "described": release.window is not None or any(grey),
                "window": None if release.window is None else [release.window.low, release.window.high],
                "grey": grey,
                "epsilon": double(archive.certificate.epsilon),
                "rho": double(archive.certificate.rho),
                "at_delta": [archive.certificate.approximate(delta) for delta in (1e-5, 1e-9)],
                "windows": [
                    [*size, double(found.epsilon), double(found.rho)]
                    for size in ((1, 1), (8, 8), (60, 80), (256, 256))
                    for found in [archive.certificate.for_object(*size)]
                ],
                "hidden": release.hidden,
                "headline": [double(archive.certificate.headline.epsilon), archive.certificate.headline.what],
                "unit": {name: getattr(plan.unit, name) for name in ("words", "reader", "short")},
                "change": [change, double(archive.certificate.ledger.epsilon_of_change(change))],
                "payload_bpp": archive.payload_bpp,
                "file_bpp": archive.file_bpp,
                "shapes": [list(shape[:2]) for shape in shapes],
                "indices": [digest(row, "<u4") for row in rows],
                "damaged": [self._damaged(archive.to_bytes()) for _ in range(40)] if plan.code.name != "flat" else [],
            }

    def _damaged(self, data: bytes) -> dict[str, Any]:
        """Return a file with one changed byte and a right checksum, and whether Python opens it."""
        inner = bytearray(data[:-4])
        inner[self.draw.randrange(min(len(inner), 300))] ^= 1 << self.draw.randrange(8)
        changed = bytes(inner) + checksum(bytes(inner))
        try:
            Archive.from_bytes(changed)
            return {"file": changed.hex(), "opens": True}
        except DippError as error:
            return {"file": changed.hex(), "opens": False, "why": str(error)}

    def encodings(self, books: Books) -> Iterator[dict[str, Any]]:
        """Return pictures that were really encoded with repeatable private bytes, and decoded."""
        plain, told = Shrinking(books), Shrinking(books, ("state", "compared", "answer"))
        plans = [
            (self.plan(code, steps=9, touches=3), size)
            for code, size in itertools.product((Pairs(), Pairs(), Flat()), SIZES[:5])
        ]
        for unit in (Cells(16), Cells(16), Cells(32), Picture(), Picture()):
            plans += [(self.questions(unit), size) for size in ((70, 50, 3), (33, 64, 3), (5, 3, 3))]
        for number, (plan, (height, width, channels)) in enumerate(plans):
            denoiser = told if number < len(SIZES[:5]) else plain
            pixels = np.frombuffer(self.draw.randbytes(height * width * channels), np.uint8)
            picture = pixels.reshape(height, width, channels)
            if plan.code.name == "flat" and width == 9:
                picture = picture[..., 0]  # a grey one
            table = books.digest if plan.kind == Question.kind else hashlib.sha256(b"table").hexdigest()
            codec, seed = Codec(denoiser, plan, table=table), self.seed()
            before, randomness.private_bytes = randomness.private_bytes, Counted()
            try:
                archive = codec.encode([picture], seed=seed, odometer=False)
            finally:
                randomness.private_bytes = before
            geometry = Geometry(height, width, channels)
            (expected,) = codec.decode(archive)
            (noisy,) = codec.decode(archive, NOISY)
            yield {
                "code": plan.code.name,
                "told": denoiser is told,
                "unit": plan.unit.kind,
                "steps": len(plan.steps),
                "rounds": plan.steps[0].turns,
                "file": archive.to_bytes().hex(),
                "picture": picture.tobytes().hex(),
                "grey": picture.ndim == 2,
                "expected": expected.tobytes().hex(),
                "gamma": denoiser.schedule.gamma(trajectory(plan, denoiser, geometry).timestep(len(plan.steps))),
                "noisy": noisy.tobytes().hex(),
            }

    def answers(self, books: Books) -> Iterator[dict[str, Any]]:
        """Return regions that were really asked with repeatable private bytes, and the decoded answers."""
        denoiser = Shrinking(books)
        cases = (
            ((20, 30), ((4, 3, 9, 12),), 1),
            ((33, 41), ((0, 5, 20, 9), (30, 20, 11, 13), (15, 10, 8, 8)), 2),
            ((24, 16), ((2, 2, 3, 2), (9, 0, 7, 24)), 4),
            ((12, 16), ((0, 0, 6, 6), (10, 0, 6, 6), (4, 2, 8, 3)), 1),
        )
        for (height, width), boxes, split in cases:
            sizes = height, width, 3
            base, pixels = (np.frombuffer(self.draw.randbytes(math.prod(sizes)), np.uint8) for _ in range(2))
            unit = self._regions((height, width), boxes)
            step = replace(self._question(1, split), candidate=WORDS, scale=1.0)
            plan = Plan(Coding(Sign(period=1), Closest()), (step,), unit=unit)
            before, randomness.private_bytes = randomness.private_bytes, Counted()
            try:
                made = asking.ask(
                    denoiser, plan, base.reshape(sizes), pixels.reshape(sizes), seed=bytes(randomness.SEED_BYTES)
                )
            finally:
                randomness.private_bytes = before
            yield {
                "shape": [height, width],
                "boxes": boxes,
                "places": [place_[:5] for place_ in unit.places],
                "base": base.tobytes().hex(),
                "picture": pixels.tobytes().hex(),
                "file": asking.alone(made).to_bytes().hex(),
                "decoded": asking.decoded(denoiser, made, base.reshape(sizes)).tobytes().hex(),
            }

    def _regions(self, shape: tuple[int, int], boxes: tuple[tuple[int, ...], ...]) -> Regions:
        """Return boxes as a unit, made by the code that redacts."""
        source = open_source(png.write(Raster(np.zeros((*shape, 3), np.uint8))))
        placed = PlacedRegions(
            tuple(Region(Box(box[0], box[1], box[0] + box[2], box[1] + box[3])) for box in boxes),
            (shape[1], shape[0]),
            1,
        )
        unit = unit_of(source, placed, Margin())
        if unit is None:
            raise DippError("regions", "there are none")
        return unit

    def networks(self) -> Iterator[dict[str, Any]]:
        """Return small random networks as they are exported, and their predictions from evidence of all kinds."""
        for planes in (PLAIN, (*PLAIN, "precision"), tuple(CHANNELS)[:5], tuple(CHANNELS)):
            with torch.random.fork_rng():
                torch.manual_seed(len(planes))
                network = Network(Config((8, 16), (1, 1), (1,), 8, planes=planes))
                for weights in network.parameters():
                    torch.nn.init.normal_(weights, std=0.1)
                arrays = {name: tensor.detach().numpy() for name, tensor in network.named_parameters()}
                schedule = NoiseSchedule(np.linspace(0.99, 0.01, 50))
                identity, config = hashlib.sha256(b"small").hexdigest(), network.config
                denoiser = PhotoDenoiser(schedule, identity, Device("cpu"), config, arrays)
                views = [torch.randn(1, 3, 9, 14) for _ in range(2)]
            with tempfile.TemporaryDirectory() as folder:
                export(denoiser, Path(folder) / "network.onnx")
                content = (Path(folder) / "network.onnx").read_bytes()
            yield {
                "planes": planes,
                "file": base64.b64encode(content).decode(),
                "shape": [9, 14],
                "views": [view.flatten().tolist() for view in views],
                "cases": [
                    [*precisions, self._predicted(denoiser, views, precisions)]
                    for precisions in ((0.3, None), (5e4, None), (0.0, 2.0), (0.7, 3.0), (1.0, 0.0), (40.0, 2e3))
                ],
            }

    def _predicted(self, denoiser: Denoiser, views: list[torch.Tensor], precisions: tuple[float, float | None]) -> Any:
        own, other = precisions
        estimate = (None, 0.0) if other is None else (views[1], other)
        told = (views[1], views[0]) if "answer" in denoiser.planes else (None, None)
        return denoiser.predict(Evidence(views[0], own, *estimate, *told)).flatten().tolist()

    def redactions(self) -> Iterator[dict[str, Any]]:
        """Return pictures with painted boxes, by a denoiser that TypeScript computes alike."""
        painter = Painter(Shrinking())
        for number, (height, width) in enumerate(((20, 30), (120, 90), (70, 200))):
            waves = np.add.outer(np.arange(height) / 7.0, np.arange(width) / 11.0)[..., None]
            waves = waves + np.arange(3) * (number != 1)  # the second picture is grey
            noise = np.frombuffer(self.draw.randbytes(height * width), np.uint8).reshape(height, width, 1) % 8
            pixels = np.clip(120 + 100 * np.sin(waves) + noise, 0, 255).astype(np.uint8)
            sides = [(self.draw.randint(4, width // 2), self.draw.randint(4, height // 2)) for _ in range(2)]
            boxes = [(self.draw.randint(0, width - w), self.draw.randint(0, height - h), w, h) for w, h in sides]
            mask = np.zeros((height, width), bool)
            for left, top, w, h in boxes:
                mask[top : top + h, left : left + w] = True
            whole = png.write(Raster(pixels))
            file = open_source(whole).redacted(mask, painter)
            yield {
                "shape": [height, width],
                "picture": pixels.tobytes().hex(),
                "whole": whole.hex(),
                "boxes": boxes,
                "runs": runs(mask),
                "file": file.hex(),
                "painted": np.broadcast_to(png.read(file).values, (height, width, 3)).tobytes().hex(),
                "crops": [[part[1].start, part[0].start, part[1].stop, part[0].stop] for part, _ in crops(mask)],
            }


def main() -> None:
    """Write the vectors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    out: Path = parser.parse_args().out
    vectors = Vectors()
    names = ("streams", "masks", "arithmetics", "prices", "archives", "weights", "nearest", "networks")
    content: dict[str, Any] = {name: list(getattr(vectors, name)()) for name in names}
    books, words = vectors.books()
    content["words"] = [words.hex()]
    content["encodings"] = list(vectors.encodings(books))
    content["answers"] = list(vectors.answers(books))
    sums = [[vectors.draw.uniform(-1, 1) * 10.0 ** vectors.draw.randint(-20, 20) for _ in range(40)] for _ in range(50)]
    content["sums"] = [[[double(value) for value in row], double(math.fsum(row))] for row in sums]
    content["redactions"] = list(vectors.redactions())
    content["golden"] = [_golden(path) for path in sorted((Path(__file__).parents[2] / "tests/golden").glob("*.dipp"))]
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(content))
    print(f"{out}: {out.stat().st_size >> 10} KiB", file=sys.stderr)


def _golden(path: Path) -> dict[str, Any]:
    """Return the facts about a golden file."""
    data = path.read_bytes()
    archive = Archive.from_bytes(data)
    coding = archive.parameters.plan.coding
    claims = [double(archive.certificate.epsilon), double(archive.certificate.rho)] if coding.certified else None
    return {
        "name": path.stem,
        "file": data.hex(),
        "readable": archive.parameters.latents is None
        and archive.parameters.plan.unit.kind != Regions.kind
        and coding.channel.name == "sign"
        and coding.code.name in ("flat", "pairs", "closest"),
        "kind": archive.parameters.plan.kind,
        "claims": claims,
        "window": None
        if archive.parameters.window is None
        else [archive.parameters.window.low, archive.parameters.window.high],
        "grey": archive.grey.tolist(),
        "indices": [digest(archive.image_indices(image), "<u4") for image in range(len(archive))],
    }


if __name__ == "__main__":
    main()
