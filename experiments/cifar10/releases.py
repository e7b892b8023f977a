"""Releases: the plan of each, encoding the pictures into archives on disk, and decoding the archives.

Only public numbers choose a plan: ε, rates, final timesteps, and the cost table of the denoiser.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dipp import models
from dipp.codec.batches import batch_size
from dipp.codec.codec import Codec
from dipp.codec.decoder import Decoder
from dipp.codec.decoding import NOISY, ChainEnd, Decoding
from dipp.codec.pictures import Pixels
from dipp.codec.pixels import to_pixels
from dipp.core.geometry import Geometry
from dipp.core.signal import to_signal
from dipp.core.steps import Step
from dipp.errors import DippError
from dipp.format import archive as archives
from dipp.format.archive import Archive
from dipp.models import samplers
from dipp.models.denoiser import Denoiser
from dipp.models.unet import UNetDenoiser
from dipp.planning.planner import Planner, Point
from dipp.planning.presets import Plans
from dipp.planning.table import ErrorTable
from dipp.privacy.budget import Budget
from experiments.cifar10 import provenance, rivals
from experiments.cifar10.baseline import LaplaceNoise
from experiments.cifar10.compiled import compiled
from experiments.cifar10.config import Config
from experiments.cifar10.methods import CLEAN, LAPLACE, NOISES, PRUNED, SLICING, Release, preset_of
from experiments.cifar10.slicing import Slicing
from experiments.cifar10.store import Store

DELTA = 1e-5
"""δ at which (ε, δ) is stated."""
DECODED = 64
"""The most pictures of an archive that are decoded right after encoding, as a check."""


@dataclass(frozen=True, eq=False)
class Maker:
    """A maker of releases. It loads its denoiser when it first needs it."""

    config: Config
    store: Store
    pixels: Pixels
    model: str
    calibration: Path | None
    device: str
    seeds: Mapping[str, bytes] = field(default_factory=dict)
    """Public seeds of the releases to encode, drawn before the pictures were read."""

    @functools.cached_property
    def denoiser(self) -> Denoiser:
        """The denoiser."""
        found = models.load(self.model, self.device)
        self.store.require("model", found.identity)
        return found

    @functools.cached_property
    def _sampler(self) -> Callable[[torch.Tensor, int], torch.Tensor]:
        """x̂0 of whole batches, for the final denoising: on a GPU it is worth compiling for them."""
        if self.device != "cpu" and isinstance(self.denoiser, UNetDenoiser):
            return compiled(self.denoiser)
        return self._plain

    def _plain(self, x_t: torch.Tensor, t: int) -> torch.Tensor:
        found: torch.Tensor = self.denoiser.x0(x_t, t, fast=True)
        return found

    def budget(self, release: Release) -> Budget | None:
        """Return the budget of a release of the codec, which is its ε; None for a preset without a certificate."""
        certified = preset_of(release.method).certified
        return Budget.pure(release.epsilon) if certified and release.epsilon is not None else None

    @functools.cached_property
    def _table(self) -> tuple[ErrorTable, str]:
        """Return the cost table and its fingerprint."""
        table = ErrorTable.of_model(self.model, self.calibration)
        factors = [(name, row.tolist()) for name, row in sorted(table.inflation.items())]
        sensed = [] if table.residuals is None else [table.residuals.digest]
        parts = (table.timesteps.tolist(), table.snrs.tolist(), table.quantiles.tolist(), factors, *sensed)
        known = provenance.fingerprint(*parts)
        self.store.require("calibration", known)
        return table, known

    @functools.cached_property
    def _planner(self) -> Any:
        table, _ = self._table

        @functools.lru_cache(maxsize=16)
        def make(method: str, budget: Budget | None) -> Plans:
            return preset_of(method).planner(self.denoiser, table, budget)

        return make

    def choose(self, method: str, budget: Budget | None, bpp: float | None) -> Point:
        """Return the plan of a preset within a budget and a rate."""
        planner: Plans = self._planner(method, budget)
        return planner.choose(budget, bpp=bpp)

    def point(self, release: Release) -> Point:
        """Return the plan of a release; a release that is like another takes the plan in the other's archive."""
        budget = self.budget(release)
        if release.like is None:
            return self.choose(release.method, budget, release.bpp)
        planner: Planner = self._planner(release.method, budget)
        steps = self._open(self.config.release(release.like)).parameters.plan.steps
        if release.same_steps:
            return planner.along([steps[0].start, *(step.end for step in steps)])
        if release.relative_snr is None:
            return planner.choose(budget, final_timestep=steps[-1].end)
        wanted = math.log(release.relative_snr * self.denoiser.schedule.snr(steps[-1].end))
        return min(planner.frontier(budget), key=lambda point: abs(math.log(point.snr) - wanted))

    def encode(self, release: Release) -> dict[str, Any]:
        """Encode the pictures into the archive of the release; return its time, its size and its certificate.

        The encoder ends in the states that a decoder of the archive reaches, so their pictures are kept at once.
        Their difference from really decoded pictures is measured on the first batch.
        """
        point, budget = self.point(release), self.budget(release)
        plan, pixels = point.plan, self.pixels[: release.images]
        digest = self._table[0].residuals.digest if release.sensed and self._table[0].residuals else None
        codec = Codec(self.denoiser, plan, budget, digest)
        made = {output: list[Pixels]() for output in self._wanted(release)}
        states: list[torch.Tensor] = []
        finishing = 0.0

        def keep(end: ChainEnd) -> None:
            nonlocal finishing
            begin = time.perf_counter()
            if not states:
                states.append(end.noisy()[0][:DECODED])
            for output, found in made.items():
                found.append(self._finished(release, output, end))
            finishing += time.perf_counter() - begin

        begin, seed = time.perf_counter(), self.seeds[release.name]
        archive = codec.encode(pixels, seed=seed, given=False, odometer=False, ends=keep)
        seconds = time.perf_counter() - begin - finishing
        self.store.forget(release.name)
        for output, found in made.items():
            self._keep(release, output, np.concatenate(found))
        archive.save(self.store.archive(release.name))
        first = self._first(archives.open(self.store.archive(release.name)), DECODED)
        decoded, _ = next(Decoder(self.denoiser).ends(first, NOISY)).noisy()
        differ = to_pixels(states[0]).astype(np.int16) - to_pixels(decoded)
        return {
            "release": release.name,
            **rate(self.store.archive(release.name)),
            "certificate": certificate(archive),
            "model": self.denoiser.identity,
            "calibration": self._table[1],
            "mechanism": plan.coding.name,
            **self._described(release, point),
            "steps": len(plan.steps),
            "snr": point.snr,
            "expected_psnr": point.psnr,
            "expected_bpp": point.bpp,
            "encode_seconds": seconds,
            "decoder_difference": float(np.abs(differ).mean()),
        }

    @staticmethod
    def _described(release: Release, point: Point) -> dict[str, Any]:
        """Return the facts of a plan along timesteps, or of a plan of sensing."""
        steps = point.plan.steps
        if release.sensed:
            return {"code": point.plan.code.name, "period": point.plan.mask.period, "bound_by_rate": point.bound}
        ends = [step.end for step in steps if isinstance(step, Step)]
        return {"final_timestep": point.final_timestep, "timesteps": ends}

    @staticmethod
    def _wanted(release: Release) -> tuple[str, ...]:
        """Return the reconstructions to make with an archive; sampled ones only if classifiers are trained on them."""
        return tuple(output for output in release.outputs if output != "sampled" or output in release.train)

    def _finished(self, release: Release, output: str, end: ChainEnd) -> Pixels:
        """Return a reconstruction of the last states of a batch."""
        if release.sensed:
            return end.pictures(Decoding(sample=output == "sampled"))
        noisy, t = end.noisy()
        return to_pixels(noisy) if output == "noisy" else self._denoised(noisy, t)

    def pictures(self, release: Release, output: str) -> Pixels:
        """Return a reconstruction of all pictures of a release, from disk or decoded from its archive."""
        if release.method == CLEAN:
            self.store.write_pictures(release.name, output, self.pixels[: self.config.previews], "previews")
            return self.pixels
        found = self.store.pictures(self._key(release), output)
        if found is not None:
            return found
        if release.coded:
            self._decode(release)
        else:
            self._keep(release, output, self._rival(release, output))
        return self.pictures(release, output)

    def _rival(self, release: Release, output: str) -> Pixels:
        """Return the pictures of a rival. Each release has its own fixed seed, so any machine makes the same."""
        assert release.epsilon is not None
        if release.method == LAPLACE and output == LAPLACE:
            generator = np.random.default_rng(list(release.name.encode()))
            return LaplaceNoise(release.epsilon).privatise(self._own(release), generator)
        if release.method not in (LAPLACE, *NOISES):
            return self._slicing(release).privatise(self._own(release), release.name)
        if release.method == LAPLACE:
            noise = LaplaceNoise(release.epsilon)
            found, facts = self._denoised_baseline(noise, self.pictures(release, LAPLACE))
        else:
            rival = rivals.RIVALS[release.method](release.epsilon)
            found, facts = rivals.denoised(rival, self._own(release), self.denoiser, release.name)
        self.store.write_record(f"denoising.{release.name}", {**facts, "model": self.denoiser.identity})
        return found

    def stored(self, release: Release, count: int) -> Pixels | None:
        """Return what lossless codecs store of a release without the codec; None if it is one bit per pixel."""
        if release.method not in NOISES:
            return self.pictures(release, release.method)[:count]
        assert release.epsilon is not None
        rival = rivals.RIVALS[release.method](release.epsilon)
        parts = [rival.stored(y) for y in rival.release(self._own(release)[:count], release.name)]
        whole = [part for part in parts if part is not None]
        return np.concatenate(whole) if whole else None

    def clean(self, release: Release) -> Pixels:
        """Return the evaluation pictures without noise, as a classifier of a release takes them."""
        shown = self._evaluated
        return self._slicing(release).planes(shown) if release.method in (SLICING, PRUNED) else shown

    @functools.cached_property
    def _evaluated(self) -> Pixels:
        """Return the evaluation pictures as one view for all classifiers, because a wave keeps each object once."""
        return self.pixels[self.config.cut :]

    @staticmethod
    def _slicing(release: Release) -> Slicing:
        assert release.epsilon is not None
        return Slicing(release.epsilon, pruned=release.method == PRUNED)

    def _own(self, release: Release) -> Pixels:
        return self.pixels[: release.images]

    def _denoised_baseline(self, noise: LaplaceNoise, noisy: Pixels) -> tuple[Pixels, dict[str, Any]]:
        """Return pictures with Laplace noise, denoised as the codec's are, and how they were denoised.

        They are scaled to states x_t of the timestep at which noise has the same share; values that the clamp has
        pulled towards grey are stretched again (`LaplaceNoise.line`). The denoiser assumes normal noise, which this is
        not.
        """
        schedule, (gain, deviation) = self.denoiser.schedule, noise.line
        t = schedule.nearest((gain / deviation) ** 2)
        size = batch_size(self.denoiser.device.type, Geometry.of(noisy.shape[1:]))
        found = []
        for start in range(0, len(noisy), size):
            values = torch.from_numpy(noisy[start : start + size]).to(self.denoiser.device).permute(0, 3, 1, 2)
            found.append(self._denoised(schedule.gamma(t) / gain * to_signal(values), t))
        facts = {"timestep": t, "gain": gain, "deviation": deviation}
        return np.concatenate(found), facts

    def _decode(self, release: Release) -> None:
        """Return all wanted reconstructions, decoded in one pass along the chain."""
        made = {output: list[Pixels]() for output in self._wanted(release)}
        for end in Decoder(self.denoiser).ends(self._open(release), Decoding(max_work=math.inf)):
            for output, found in made.items():
                found.append(self._finished(release, output, end))
        for output, found in made.items():
            self._keep(release, output, np.concatenate(found))

    def _denoised(self, state: torch.Tensor, t: int) -> Pixels:
        whole = len(state) == batch_size(self.denoiser.device.type, Geometry.of(self.pixels.shape[1:]))
        predict = self._sampler if whole else self._plain
        return to_pixels(samplers.fast(predict, self.denoiser.schedule, state, t, self.config.calls))

    def ancestral(self, release: Release, count: int) -> Pixels:
        """Return the first pictures of a release, denoised by DDPM sampling through every timestep, as in the paper."""
        found = self.store.pictures(self._key(release), "ancestral")
        if found is None or len(found) != count:
            first = self._first(self._open(release), count)
            found = np.stack(list(Decoder(self.denoiser).pictures(first, Decoding(ancestral=True))))
            self._keep(release, "ancestral", found)
        return found

    @staticmethod
    def _first(source: Archive, count: int) -> Archive:
        """Return an archive of the first pictures of another archive."""
        last = min(count, len(source))
        geometries = [source.geometry(number) for number in range(last)]
        return Archive.build(source.parameters, geometries, source.batch(0, last))

    def require(self, release: Release, output: str) -> None:
        """Raise if neither the pictures nor the archive of a release exist, before time is spent on a wave."""
        if release.coded and not self.store.has_pictures(self._key(release), output):
            self._require_archive(release)

    def _require_archive(self, release: Release) -> Path:
        path = self.store.archive(release.name)
        if self.store.record(f"encode.{release.name}") is None:
            raise DippError(release.name, "is not encoded yet", "run the stage encode first")
        if not path.exists():
            # Encoding again would make another release, and the trained classifiers belong to this one.
            raise DippError(str(path), "is missing", f"bring it here, or delete all records of {release.name}")
        return path

    def _open(self, release: Release) -> Archive:
        return archives.open(self._require_archive(release))

    def _keep(self, release: Release, output: str, pixels: Pixels) -> None:
        self.store.write_pictures(release.name, output, pixels[: self.config.previews], "previews")
        self.store.write_pictures(self._key(release), output, pixels)

    def _key(self, release: Release) -> str:
        """Return the name under which the pictures of a release are kept; another config gives another name."""
        return f"{release.name}.{provenance.of_pictures(self.config, release)}"


def rate(path: Path) -> dict[str, Any]:
    """Return bits per pixel of an archive on disk; images share header, lengths and checksum equally."""
    source, size = archives.open(path), path.stat().st_size
    overhead = 8 * size - source.payload_bits
    return {
        "images": len(source),
        "file_bytes": size,
        "file_bpp": 8 * size / source.pixels,
        "payload_bpp": source.payload_bits / source.pixels,
        "overhead_bits_per_image": overhead / len(source),
    }


def certificate(source: Archive) -> dict[str, Any] | None:
    """Return pure ε, ρ and ε at `DELTA` per pixel; None for a coding without a certificate."""
    if not source.parameters.plan.coding.certified:
        return None
    found = source.certificate
    return {"epsilon": found.epsilon, "rho": found.rho, "delta": DELTA, "epsilon_at_delta": found.approximate(DELTA)}
