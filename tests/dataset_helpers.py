"""A tiny model on disk, a plan that costs next to nothing, and pictures: for the tests of whole datasets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from diffusers import DDPMScheduler
from PIL import Image
from tiny_network import tiny_network

from dipp.codec import Codec
from dipp.model import Denoiser
from dipp.plan import DIFFC, SHARP, Mechanism, Plan, Step
from dipp.privacy.budget import Budget


def save_model(folder: Path) -> Path:
    """A tiny denoiser in diffusers' format."""
    tiny_network().save_pretrained(folder / "unet", safe_serialization=True)
    scheduler: Any = DDPMScheduler
    scheduler(num_train_timesteps=200, beta_end=0.08).save_pretrained(folder / "scheduler")
    index = {"unet": ["diffusers", "UNet2DModel"], "scheduler": ["diffusers", "DDPMScheduler"]}
    (folder / "model_index.json").write_text(json.dumps({"_class_name": "DDPMPipeline", **index}))
    return folder


def plan(denoiser: Denoiser, mechanism: Mechanism = SHARP) -> Plan:
    """Three steps with few candidates: an image is 3·4 indices of 6 bits."""
    steps = []
    for start, end in ((199, 190), (190, 180), (180, 170)):
        gain = float(np.float32(denoiser.schedule.step(start, end).snr_gain))
        steps.append(Step(start, end, gain, 16, 6, 64 if mechanism.ordered else 0))
    return Plan(mechanism, tuple(steps))


def tiny_codec(model: Path, mechanism: Mechanism = SHARP) -> Codec:
    """Without a certificate (diffc) it needs no private randomness: what it encodes is repeatable."""
    denoiser = Denoiser.load(model)
    budget = None if mechanism is DIFFC else Budget.pure(64.0)
    return Codec(denoiser, plan(denoiser, mechanism), budget)


def pixels(count: int, side: int = 8) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.random.default_rng(0).integers(0, 256, (count, side, side, 3)).astype(np.uint8)


def save_folder(folder: Path, count: int, classes: tuple[str, ...] = ("cat", "dog")) -> Path:
    """PNGs in class sub-folders, in turn."""
    for number, picture in enumerate(pixels(count)):
        place = folder / classes[number % len(classes)]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(place / f"secret-name-{number:05d}.png")
    return folder
