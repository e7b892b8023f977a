"""A tiny model on disk, a cheap plan, and pictures, for tests of whole datasets."""

from __future__ import annotations

import io
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image
from typer.testing import CliRunner

import dipp
from dipp import models
from dipp.cli.main import app
from dipp.codec.codec import Codec
from dipp.core.plan import Coding, Plan
from dipp.core.steps import Step
from dipp.data import manifest
from dipp.data.folder import sha256
from dipp.data.shards import Shard
from dipp.data.store import Store
from dipp.models import photonet
from dipp.models.denoiser import Denoiser
from dipp.planning.presets import DIFFC
from dipp.privacy.budget import Budget
from experiments.comparisons.unclipped import SHARP
from helpers.networks import SMALL, random_network, tiny_network

SHARD_SIZE = 10
SCHEDULER = {"num_train_timesteps": 200, "beta_end": 0.08}


def filled(release: Path, model: Path, cache: Path) -> None:
    """Decode a release into a cache. A spawned process finds the function in this module."""
    torch.set_num_threads(1)
    dipp.load(release, model, cache=cache).fill()


def save_model(folder: Path, size: int = 8) -> Path:
    """Save a tiny denoiser in diffusers' format."""
    from diffusers import DDPMScheduler

    tiny_network(size=size).save_pretrained(folder / "unet", safe_serialization=True)
    scheduler: Any = DDPMScheduler
    scheduler(**SCHEDULER).save_pretrained(folder / "scheduler")
    index = {"unet": ["diffusers", "UNet2DModel"], "scheduler": ["diffusers", "DDPMScheduler"]}
    (folder / "model_index.json").write_text(json.dumps({"_class_name": "DDPMPipeline", **index}))
    return folder


def save_light_model(folder: Path) -> Path:
    """Save a tiny denoiser for photographs, which processes load without the seconds that diffusers takes."""
    photonet.write(folder, SMALL, dict(random_network().named_parameters()))
    (folder / photonet.SCHEDULER_CONFIG).write_text(json.dumps(photonet.SCHEDULER | SCHEDULER))
    return folder


def smooth_pictures(folder: Path, seed: int = 0) -> Path:
    """Return six pictures of 8×8, each of four plain quarters."""
    generator = np.random.default_rng(seed)
    for number in range(6):
        smooth = np.kron(generator.integers(0, 256, (2, 2, 3)), np.ones((4, 4, 1))).astype(np.uint8)
        Image.fromarray(smooth).save(folder / f"{number}.png")
    return folder


def calibrate(model: Path, pictures: Path, count: int) -> None:
    """Make the cost table of a model by the command, from public pictures."""
    result = CliRunner().invoke(app, ["calibrate", str(model), str(pictures), "--count", str(count)])
    assert result.exit_code == 0, result.output
    assert f"calibrated on {count} of " in result.output


def plan(denoiser: Denoiser, coding: Coding, index_bits: int) -> Plan:
    """Return a plan of three steps, by which an image has 3·4 indices."""
    steps = []
    for start, end in ((199, 190), (190, 180), (180, 170)):
        gain = float(np.float32(denoiser.schedule.step(start, end).snr_gain))
        steps.append(Step(start, end, gain, 16, index_bits, 0 if coding.code.fixed_length else 64))
    return Plan(coding, tuple(steps))


def tiny_codec(model: Path, coding: Coding = SHARP, index_bits: int = 6) -> Codec:
    """Return a codec with few candidates, which is fast.

    Without a certificate (diffc) it needs no private randomness, so its encodings are repeatable.
    """
    denoiser = models.load(model)
    budget = None if coding is DIFFC else Budget.pure(64.0)
    return Codec(denoiser, plan(denoiser, coding, index_bits), budget)


def pixels(count: int, side: int = 8) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.random.default_rng(0).integers(0, 256, (count, side, side, 3)).astype(np.uint8)


def save_folder(folder: Path, count: int, classes: tuple[str, ...] = ("cat", "dog")) -> Path:
    """Save PNGs in class sub-folders, in turn."""
    for number, picture in enumerate(pixels(count)):
        place = folder / classes[number % len(classes)]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(place / f"secret-name-{number:05d}.png")
    return folder


def save_cifar(folder: Path, images: int) -> Path:
    """Write a folder like CIFAR-10's with `images` smooth pictures per batch, whose colour tells the label."""
    generator = np.random.default_rng(0)
    names = [f"class {number}".encode() for number in range(10)]
    (folder / "batches.meta").write_bytes(pickle.dumps({b"label_names": names}))
    for batch in ("test_batch", *(f"data_batch_{number}" for number in range(1, 6))):
        labels = generator.integers(0, 10, images)
        coarse = generator.integers(0, 80, (images, 3, 4, 4)) + 15 * labels[:, None, None, None]
        rows = np.kron(coarse, np.ones((8, 8))).astype(np.uint8).reshape(images, -1)
        (folder / batch).write_bytes(pickle.dumps({b"data": rows, b"labels": labels.tolist()}))
    return folder


def save_table(path: Path, count: int) -> Path:
    """Save pictures with labels in a Parquet file."""
    files = []
    for picture in pixels(count):
        stream = io.BytesIO()
        Image.fromarray(picture).save(stream, "PNG")
        files.append(stream.getvalue())
    pq.write_table(pa.table({"image": files, "label": [i % 7 for i in range(count)]}), path, row_group_size=100)
    return path


class Publications:
    """A watch of a store, which checks that each shard stays the file that it was when it was first seen."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.seen: dict[str, tuple[int, int, str]] = {}

    def look(self) -> int:
        """Return the number of published shards; fail if one was replaced, changed or withdrawn."""
        found = {path.name: (path.stat().st_ino, path.stat().st_mtime_ns, sha256(path)) for path in self.store.shards()}
        for name, facts in self.seen.items():
            assert found.get(name) == facts, f"{name} was released twice"
        self.seen = found
        return len(found)


def check_release(folder: Path, count: int) -> None:
    """Check that a release has each image once, with its own label, and nothing else."""
    facts = manifest.verify(folder)
    assert facts["images"] == count
    assert not facts["skipped"]
    shards = [Shard.read(path) for path in Store(folder).shards()]
    assert [number for shard in shards for number in shard.ids.tolist()] == list(range(count))
    assert [label for shard in shards for label in shard.labels.to_pylist()] == [i % 7 for i in range(count)]
    assert {path.name for path in folder.iterdir()} == {"manifest.json"} | {
        path.name for path in Store(folder).shards()
    }


def require_same_shards(one: Path, other: Path) -> None:
    """Check that two releases have the same shards: ids, labels and payloads."""
    for path in Store(one).shards():
        mine, its = Shard.read(path), Shard.read(other / path.name)
        assert mine.ids.tolist() == its.ids.tolist()
        assert mine.labels == its.labels
        assert mine.payloads == its.payloads
