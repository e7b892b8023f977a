"""Ways to protect pictures of people, each with its parameters and, if it has one, the ε of its unit.

| family | what is released | parameter |
|---|---|---|
| `clean` | the picture | |
| `blur` | Gaussian blur | σ in pixels |
| `pixelate` | means of squares | their side |
| `black box`, `redacted` | the face's box is black, or painted from its surroundings without being read (ε = 0) | |
| `DP-Pix` | means of cells in [−1, 1] with Laplace noise of scale 2/ε, in colour 6/ε [Fan, 2018] | side, ε |
| `DP-Pix, denoised` | the same after the network that dipp uses, at the best SNR | side, ε |
| `one shot` | one draw per cell among white signs, with 95 to 98 % of PrivUnitG's gain, after the network | side, ε |
| `region` | the face's box is painted from its surroundings, and asked what it shows | ε |
| `pixel` | `dipp encode --epsilon E` | ε |
| `cells` | `dipp encode --unit N --epsilon E` | side, ε |
| `picture` | `dipp encode --unit picture --epsilon E` | ε |
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image, ImageFilter

import dipp
from dipp import models
from dipp.codec import Codec, asking
from dipp.codec.grids import Cuts, interpolated
from dipp.codec.pictures import Pixels
from dipp.core.arrays import colours_last
from dipp.core.plan import Plan
from dipp.core.regions import Place, Regions
from dipp.core.signal import to_signal
from dipp.core.units import Cells
from dipp.format.archive import Archive
from dipp.models import embedded
from dipp.models.denoiser import Denoiser
from dipp.models.evidence import Evidence
from dipp.planning.questions import CODING, candidates_of, step_of
from dipp.planning.regions import plan_of_regions
from dipp.redaction import paint
from dipp.risk.recognition import Floats
from experiments.people.faces import BOXES

SNRS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
SCALES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4)
TUNED = 20
"""Number of clean gallery pictures on which rivals choose their best settings."""


@dataclass(frozen=True)
class Method:
    """A way to protect a picture."""

    family: str
    size: int = 0
    """σ, or the side of a square or cell; 0 if the method has none."""
    epsilon: float | None = None
    """ε of the unit; None without a certificate."""

    @property
    def name(self) -> str:
        """Name of the method in records."""
        parts = [self.family.replace(", ", "-").replace(" ", "-"), self.size or "", self.epsilon]
        return "-".join(
            f"{part:g}" if isinstance(part, float) else str(part) for part in parts if part not in ("", None)
        )

    def released(self, pictures: Pixels, tuning: Pixels) -> tuple[Pixels, Archive | None]:
        """Return the pictures that a receiver sees, and the archive, if there is one; `tuning` are public pictures."""
        if codec := self.codec(tuning):
            return encoded(codec, pictures)
        return PLAIN[self.family](self, pictures, tuning), None

    def codec(self, tuning: Pixels) -> Codec | None:
        """Return the codec of a method of dipp; None for other methods."""
        units: dict[str, int | str] = {"pixel": "pixel", "cells": self.size, "picture": "picture"}
        if self.family == "one shot":
            return one_shot(self, tuning)
        if self.family not in units:
            return None
        size = tuning.shape[1:3]
        return dipp.Codec.from_pretrained(epsilon=self.epsilon, unit=units[self.family], size=size, device="cpu")


METHODS = (
    Method("pixelate", 16),
    Method("cells", 16, 8.0),
    Method("picture", 0, 16.0),
    Method("black box"),
    Method("redacted", 0, 0.0),
    Method("cells", 32, 8.0),
    Method("DP-Pix", 16, 8.0),
    Method("picture", 0, 8.0),
    Method("clean"),
    Method("cells", 16, 16.0),
    Method("one shot", 16, 8.0),
    Method("DP-Pix, denoised", 16, 8.0),
    Method("picture", 0, 4.0),
    Method("pixelate", 28),
    Method("cells", 16, 4.0),
    Method("pixelate", 8),
    Method("blur", 4),
    Method("blur", 16),
    Method("blur", 8),
    Method("pixel", 0, 1.0),
    Method("region", 0, 4.0),
    Method("region", 0, 16.0),
)


def encoded(codec: Codec, pictures: Pixels) -> tuple[Pixels, Archive]:
    """Return the decoded pictures of an archive and the archive itself, without decoding it again."""
    seen: list[Pixels] = []
    archive = codec.encode(pictures, odometer=False, ends=lambda end: seen.append(end.pictures()))
    return np.concatenate(seen), archive


@functools.cache
def denoiser() -> Denoiser:
    """Return the denoiser that ships with dipp."""
    return models.load(embedded.FOLDER, "cpu")


def region(pictures: Pixels) -> Regions:
    """Return the face's box as a unit."""
    top, bottom, left, right = BOXES[pictures.shape[1:3]]
    return Regions((Place(0, left, top, right - left, bottom - top),))


def blurred(method: Method, pictures: Pixels, _: Pixels) -> Pixels:
    """Return pictures under a Gaussian blur."""
    blur = ImageFilter.GaussianBlur(method.size)
    return np.stack([np.asarray(Image.fromarray(picture).filter(blur)) for picture in pictures])


def pixelated(method: Method, pictures: Pixels, _: Pixels) -> Pixels:
    """Return means of squares, enlarged to the size of the picture."""
    return _shown(_enlarged(_means(pictures, method.size), pictures))


def boxed(method: Method, pictures: Pixels, _: Pixels) -> Pixels:
    """Return pictures whose face is in a black box, or in a box painted from its surroundings."""
    top, bottom, left, right = BOXES[pictures.shape[1:3]]
    unknown = np.zeros(pictures.shape[1:3], bool)
    unknown[top:bottom, left:right] = True
    fill = paint.black if method.family == "black box" else paint.Painter(denoiser())
    known = [np.where(unknown[..., None], 0, to_signal(picture)).astype(np.float32) for picture in pictures]
    painted = np.stack([fill(one, unknown) for one in known])
    return np.where(unknown[..., None], _shown(painted.astype(float)), pictures)


def answered(method: Method, pictures: Pixels, _: Pixels) -> Pixels:
    """Return pictures whose box was painted from its surroundings and then asked with an ε of its own."""
    plan = plan_of_regions(region(pictures), method.epsilon or 0.0)
    bases = boxed(Method("redacted"), pictures, pictures)
    pairs = zip(bases, pictures, strict=True)
    archives = ((base, asking.ask(denoiser(), plan, base, picture)) for base, picture in pairs)
    return np.stack([asking.decoded(denoiser(), archive, base) for base, archive in archives])


def noisy(method: Method, pictures: Pixels, _: Pixels) -> Pixels:
    """Return DP-Pix: a cell can move its mean by at most 2 on each channel, and grey pictures have one channel."""
    return _shown(_enlarged(_noisy(method, pictures), pictures))


def denoised(method: Method, pictures: Pixels, tuning: Pixels) -> Pixels:
    """Return DP-Pix denoised by the network, at the SNR that is best on public pictures."""

    def shown(means: Floats, like: Pixels, snr: float) -> Pixels:
        signal = torch.from_numpy(means.transpose(0, 3, 1, 2).astype(np.float32).copy())
        unit = Cells(method.size)
        cuts = Cuts(*(unit.divisions(side, 1) for side in like.shape[1:3]))
        onto = Cuts(*(np.arange(side + 1) for side in like.shape[1:3]))
        found = interpolated(denoiser().predict(Evidence(signal, snr)), cuts, onto)
        return _shown(colours_last(found))

    trial, public = _noisy(method, tuning[:TUNED]), tuning[:TUNED]
    best = max(SNRS, key=lambda snr: quality(shown(trial, public, snr), public))
    return shown(_noisy(method, pictures), pictures, best)


def one_shot(method: Method, tuning: Pixels) -> Codec:
    """Return the codec with one draw per cell among white signs, with the settings that are best on public pictures."""
    epsilon, public = method.epsilon or 0.0, tuning[:TUNED]
    recipe = candidates_of(epsilon, signs=True)

    def codec(scale: float, snr: float) -> Codec:
        step = step_of(recipe._replace(scale=scale, snr=snr), epsilon)
        return Codec(denoiser(), Plan(CODING, (step,), unit=Cells(method.size)))

    tried = (codec(scale, snr) for scale, snr in itertools.product(SCALES, SNRS[::2]))
    return max(tried, key=lambda one: quality(encoded(one, public)[0], public))


PLAIN: dict[str, Callable[[Method, Pixels, Pixels], Pixels]] = {
    "clean": lambda _, pictures, __: pictures,
    "blur": blurred,
    "pixelate": pixelated,
    "black box": boxed,
    "redacted": boxed,
    "region": answered,
    "DP-Pix": noisy,
    "DP-Pix, denoised": denoised,
}


def quality(released: Pixels, originals: Pixels) -> float:
    """Return the mean PSNR in dB; each picture counts at most 99."""
    errors = np.square(released.astype(float) - originals).reshape(len(originals), -1).mean(axis=1)
    return float(np.mean(10 * np.log10(255**2 / errors.clip(1e-5))).clip(max=99))


def log_densities(method: Method, released: Pixels, candidates: Pixels) -> Floats:
    """Return ln of the density of pictures of DP-Pix for each candidate, up to a common constant.

    A clipped value counts as the end of the range, because the probability beyond it falls with the distance as well.
    """
    channels = 1 if (candidates == candidates[..., :1]).all() else 3
    seen, known = (_means(one, method.size)[..., :channels].reshape(len(one), -1) for one in (released, candidates))
    distances = np.stack([np.abs(one - known).sum(axis=1) for one in seen])
    return np.asarray(-distances / _scale(method, channels))


def _means(pictures: Pixels, side: int) -> Floats:
    """Return the means of squares as a signal (N, h, w, 3)."""
    rows, columns = (np.arange(0, length, side) for length in pictures.shape[1:3])
    sums = np.add.reduceat(np.add.reduceat(pictures, rows, axis=1, dtype=np.int64), columns, axis=2)
    areas = np.multiply.outer(*(np.diff([*at, n]) for at, n in zip((rows, columns), pictures.shape[1:3], strict=True)))
    means: Floats = to_signal(sums / areas[..., None])
    return means


def _noisy(method: Method, pictures: Pixels) -> Floats:
    means = _means(pictures, method.size)
    channels = 1 if (pictures == pictures[..., :1]).all() else 3
    noise = np.random.default_rng().laplace(0, _scale(method, channels), (*means.shape[:3], channels))
    return np.asarray(means + noise)


def _scale(method: Method, channels: int) -> float:
    return 2 * channels / (method.epsilon or 1.0)


def _enlarged(coarse: Floats, like: Pixels) -> Floats:
    """Return a coarse signal enlarged in squares, cut to the size of pictures."""
    height, width = like.shape[1:3]
    side = -(-height // coarse.shape[1])
    side = next(
        n
        for n in range(side, side + height)
        if -(-height // n) == coarse.shape[1] and -(-width // n) == coarse.shape[2]
    )
    return coarse.repeat(side, axis=1).repeat(side, axis=2)[:, :height, :width]


def _shown(signal: Floats) -> Pixels:
    return np.asarray(np.rint(((signal + 1) * 127.5).clip(0, 255)), np.uint8)
