"""Releases: which plan each has, encoding the pictures into archives on disk, decoding these.

All that chooses a plan is public: ε, rates, final timesteps, and the cost table of the denoiser.
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

from cifar10 import provenance
from cifar10.baseline import LaplaceNoise
from cifar10.config import CLEAN, LAPLACE, Config, Release, preset_of
from cifar10.store import Store
from dipp import models
from dipp.codec.chain import Chain
from dipp.codec.codec import Codec, batch_size
from dipp.codec.encoder import Selector
from dipp.codec.pictures import Pixels, to_pixels
from dipp.core.signal import to_signal
from dipp.errors import DippError
from dipp.format import archive as archives
from dipp.format.archive import Archive
from dipp.format.packing import Shape
from dipp.models import diffusion
from dipp.models.denoiser import Denoiser
from dipp.models.unet import UNetDenoiser
from dipp.planning.planner import Planner, Point
from dipp.planning.table import ErrorTable
from dipp.privacy.budget import Budget
from dipp.privacy.ledger import Recorder

DELTA = 1e-5
"""δ at which (ε, δ) is stated."""


@dataclass(frozen=True, eq=False)
class Maker:
    """Makes releases of pictures with a denoiser, which is loaded only if it is needed."""

    config: Config
    store: Store
    pixels: Pixels
    model: str
    calibration: Path | None
    device: str
    seeds: Mapping[str, bytes] = field(default_factory=dict)
    """Public seeds of the releases that may be encoded, drawn before the pictures were read."""

    @functools.cached_property
    def denoiser(self) -> Denoiser:
        """The backbone."""
        found = models.load(self.model, self.device)
        self.store.require("model", found.identity)
        return found

    @functools.cached_property
    def _sampler(self) -> Callable[[torch.Tensor, int], torch.Tensor]:
        """x̂0 of whole batches, for the final denoising: on a GPU it is worth compiling for them."""
        if self.device != "cpu" and isinstance(self.denoiser, UNetDenoiser):
            return self.denoiser.sampler()
        return self._plain

    def _plain(self, x_t: torch.Tensor, t: int) -> torch.Tensor:
        return self.denoiser.x0(x_t, t, fast=True)

    def budget(self, release: Release) -> Budget | None:
        """What binds a release of the codec: its ε; None where the preset has no certificate."""
        certified = preset_of(release.method).certified
        return Budget.pure(release.epsilon) if certified and release.epsilon is not None else None

    @functools.cached_property
    def _table(self) -> tuple[ErrorTable, str]:
        """The cost table, and its fingerprint."""
        table = ErrorTable.of_model(self.model, self.calibration)
        factors = [(name, row.tolist()) for name, row in sorted(table.inflation.items())]
        known = provenance.fingerprint(table.timesteps.tolist(), table.snrs.tolist(), table.quantiles.tolist(), factors)
        self.store.require("calibration", known)
        return table, known

    @functools.cached_property
    def _planner(self) -> Any:
        table, _ = self._table

        @functools.lru_cache(maxsize=16)
        def make(method: str, budget: Budget | None) -> Planner:
            return preset_of(method).planner(self.denoiser, table, budget)

        return make

    def point(self, release: Release) -> Point:
        """The plan of a release; one that is like another goes by the plan in the archive of that."""
        budget = self.budget(release)
        planner: Planner = self._planner(release.method, budget)
        if release.like is None:
            return planner.choose(budget, bpp=release.bpp)
        steps = self._open(self.config.release(release.like)).release.plan.steps
        if release.same_steps:
            return planner.along([steps[0].start, *(step.end for step in steps)])
        if release.relative_snr is None:
            return planner.choose(budget, final_timestep=steps[-1].end)
        wanted = math.log(release.relative_snr * self.denoiser.schedule.snr(steps[-1].end))
        return min(planner.frontier(budget), key=lambda point: abs(math.log(point.snr) - wanted))

    def encode(self, release: Release) -> dict[str, Any]:
        """Encode the pictures into the archive of the release; what it took, and what it promises.

        The encoder ends in the states that a decoder of the archive reaches, so their pictures are kept at once; how
        far those that are really decoded differ is measured on the first batch.
        """
        point, budget = self.point(release), self.budget(release)
        plan, pixels = point.plan, self.pixels[: release.images]
        codec, recorder, seed = Codec(self.denoiser, plan, budget), Recorder(), self.seeds[release.name]
        shape: Shape = pixels.shape[1:]
        codec.check_shape(shape)
        chain, size = Chain(plan, self.denoiser, seed, shape), codec.batch_size(shape)
        rows, noisy, denoised, seconds = [], [], [], 0.0
        for start in range(0, len(pixels), size):
            begin, part = time.perf_counter(), pixels[start : start + size]
            selector = Selector(plan, seed, part.reshape(len(part), -1), self.denoiser.device.type, recorder)
            state, chosen = chain.run(range(start, start + len(part)), selector)
            rows.append(np.concatenate(chosen, axis=1))
            noisy.append(to_pixels(state))
            seconds += time.perf_counter() - begin
            denoised.append(self._denoised(state, plan.steps[-1].end))
        recorded = recorder.ledger(plan, len(pixels))
        shapes = [shape] * len(pixels)
        made = Archive.build(codec.release(seed), shapes, np.concatenate(rows), recorded=recorded)
        self.store.forget(release.name)
        self._keep(release, "denoised", np.concatenate(denoised))
        self._keep(release, "noisy", np.concatenate(noisy))
        made.save(self.store.archive(release.name))
        state, _ = next(codec.states(archives.open(self.store.archive(release.name))))
        return {
            "release": release.name,
            **rate(self.store.archive(release.name)),
            "certificate": certificate(made),
            "model": self.denoiser.identity,
            "calibration": self._table[1],
            "mechanism": plan.coding.name,
            "final_timestep": point.final_timestep,
            "timesteps": [step.end for step in plan.steps],
            "steps": len(plan.steps),
            "snr": point.snr,
            "expected_psnr": point.psnr,
            "expected_bpp": point.bpp,
            "encode_seconds": seconds,
            "decoder_difference": float(np.abs(noisy[0].astype(np.int16) - to_pixels(state)).mean()),
        }

    def pictures(self, release: Release, output: str) -> Pixels:
        """A reconstruction of all pictures of a release, from disk, or decoded from the archive there."""
        if release.method == CLEAN:
            self.store.write_pictures(release.name, output, self.pixels[: self.config.previews], "previews")
            return self.pixels
        found = self.store.pictures(self._key(release), output)
        if found is not None:
            return found
        if release.coded:
            self._decode(release)
        else:
            assert release.epsilon is not None
            noise = LaplaceNoise(release.epsilon)
            if output == LAPLACE:
                # Each ε has noise of its own; a fixed seed lets any machine make the same pictures.
                generator = np.random.default_rng(list(release.name.encode()))
                self._keep(release, output, noise.privatise(self.pixels[: release.images], generator))
            else:
                found, facts = self._denoised_baseline(noise, self.pictures(release, LAPLACE))
                self.store.write_record(f"denoising.{release.name}", facts)
                self._keep(release, output, found)
        return self.pictures(release, output)

    def _denoised_baseline(self, noise: LaplaceNoise, noisy: Pixels) -> tuple[Pixels, dict[str, Any]]:
        """Pictures with Laplace noise, denoised as the codec's are: post-processing of what was released; and how.

        They are taken for states x_t of the timestep at which noise has the same share, and scaled to them; what the
        clamp has pulled towards grey is stretched again (`LaplaceNoise.line`). That noise is not normal, which the
        denoiser does not know.
        """
        schedule, (gain, deviation) = self.denoiser.schedule, noise.line
        t = schedule.nearest((gain / deviation) ** 2)
        size = batch_size(self.denoiser.device.type, noisy.shape[1:])
        found = []
        for start in range(0, len(noisy), size):
            values = torch.from_numpy(noisy[start : start + size]).to(self.denoiser.device).permute(0, 3, 1, 2)
            found.append(self._denoised(schedule.gamma(t) / gain * to_signal(values), t))
        facts = {"timestep": t, "gain": gain, "deviation": deviation, "model": self.denoiser.identity}
        return np.concatenate(found), facts

    def _decode(self, release: Release) -> None:
        """Noisy and denoised reconstructions, in one walk along the chain."""
        source = self._open(release)
        noisy, denoised = [], []
        for state, t in Codec(self.denoiser, source.release.plan).states(source):
            noisy.append(to_pixels(state))
            denoised.append(self._denoised(state, t))
        self._keep(release, "denoised", np.concatenate(denoised))
        self._keep(release, "noisy", np.concatenate(noisy))

    def _denoised(self, state: torch.Tensor, t: int) -> Pixels:
        whole = len(state) == batch_size(self.denoiser.device.type, self.pixels.shape[1:])
        predict = self._sampler if whole else self._plain
        return to_pixels(diffusion.fast(predict, self.denoiser.schedule, state, t, self.config.calls))

    def ancestral(self, release: Release, count: int) -> Pixels:
        """The first pictures of a release, denoised by DDPM sampling through every timestep, as the paper does."""
        found = self.store.pictures(self._key(release), "ancestral")
        if found is None or len(found) != count:
            source = self._open(release)
            shapes = [source.shape(number) for number in range(count)]
            first = Archive.build(source.release, shapes, source.batch(0, count))
            found = np.stack(list(Codec(self.denoiser, source.release.plan).pictures(first, ancestral=True)))
            self._keep(release, "ancestral", found)
        return found

    def _open(self, release: Release) -> Archive:
        path = self.store.archive(release.name)
        if self.store.record(f"encode.{release.name}") is None:
            raise DippError(f"{release.name}: it is not encoded yet; run the stage encode first")
        if not path.exists():
            # It is not made anew of itself: that would be another release, and what was trained is of this one.
            raise DippError(f"{path}: the archive is missing; bring it here, or delete all records of {release.name}")
        return archives.open(path)

    def _keep(self, release: Release, output: str, pixels: Pixels) -> None:
        self.store.write_pictures(release.name, output, pixels[: self.config.previews], "previews")
        self.store.write_pictures(self._key(release), output, pixels)

    def _key(self, release: Release) -> str:
        """The name of its pictures: those of another config are not taken for them."""
        return f"{release.name}.{provenance.of_pictures(self.config, release)}"


def rate(path: Path) -> dict[str, Any]:
    """Bits of an archive from its bytes on disk; header, lengths and checksum are shared out evenly to the images."""
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
    """Pure ε, ρ and the ε at `DELTA`, per pixel; None for a coding without."""
    if not source.release.plan.coding.certified:
        return None
    found = source.certificate
    return {"epsilon": found.epsilon, "rho": found.rho, "delta": DELTA, "epsilon_at_delta": found.approximate(DELTA)}
