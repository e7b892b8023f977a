"""Parts of `model.py`: the uses of a denoiser beyond Gaussian states.

**Chains, cells.** Pictures are encoded by one plan, that of the network that ships, and decoded with each network.
Private randomness is drawn again for each, so figures of a few pictures vary by some hundredths of a dB.

**Boxes.** In crops of 256×256, only a square in the middle is unknown. Stated is the PSNR inside the square for the
harmonic interpolation, the painting of `dipp redact`, and one call of a network that takes maps of precision.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

import dipp
from dipp.codec.pictures import Pixels
from dipp.codec.pixels import to_pixels
from dipp.core.signal import to_signal
from dipp.models.denoiser import Denoiser
from dipp.models.evidence import EXACT, Evidence
from dipp.redaction.paint import Painter, Signal, smooth

PLANS: dict[str, dict[str, dict[str, Any]]] = {
    "chains": {f"sharp, ε = {epsilon} a pixel": {"epsilon": epsilon} for epsilon in (1, 4)},
    "cells": {"cells of 16, ε = 8": {"epsilon": 8, "unit": 16}},
}
SIDES = (32, 64)
FOUND = 15.0
"""Precision of the harmonic interpolation that a network is given: about one over its mean squared error."""


def psnr(found: Pixels, pixels: Pixels) -> float:
    """Return the PSNR in dB over all pictures."""
    return round(10 * math.log10(255**2 / float(np.square(found.astype(np.float64) - pixels).mean())), 2)


def coded(denoisers: Mapping[str, Denoiser], pixels: Pixels, part: str) -> dict[str, Any]:
    """Return the PSNR of the decoded pictures, by plan and network."""
    result: dict[str, Any] = {}
    for name, options in PLANS[part].items():
        chosen = dipp.Codec.from_pretrained(size=pixels.shape[1:3], device=str(denoisers["new"].device), **options)
        for which, denoiser in denoisers.items():
            worded: Any = dataclasses.replace(denoiser, books=chosen.denoiser.books)  # type: ignore[type-var]
            codec = dataclasses.replace(chosen, denoiser=worded)
            pictures = codec.decode(codec.encode(list(pixels), odometer=False))
            result.setdefault(name, {})[which] = psnr(np.stack(pictures), pixels)
    return result


def told(denoiser: Denoiser, known: Signal, unknown: Any) -> Signal:
    """Return the prediction of one call with exactly known surroundings and a harmonic interpolation."""

    def batch(values: Any) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(values.transpose(2, 0, 1)[None], np.float32))

    inside = batch(unknown[..., None])
    precision = torch.where(inside > 0, 0.0, EXACT)
    evidence = Evidence(batch(known), precision, inside * batch(smooth(known, unknown)), FOUND * inside)
    found: Signal = denoiser.predict(evidence)[0].permute(1, 2, 0).cpu().numpy()
    return found


def boxes(denoisers: Mapping[str, Denoiser], pixels: Pixels) -> dict[str, Any]:
    """Return the PSNR inside unknown squares, by side and method."""
    ways: dict[str, Callable[[Signal, Any], Signal]] = {"harmonic interpolation": smooth}
    for name, denoiser in denoisers.items():
        ways[f"painted, {name}"] = Painter(denoiser)
        if "precision" in denoiser.planes:
            ways[f"one call, {name}"] = functools.partial(told, denoiser)
    result: dict[str, Any] = {}
    for side in SIDES:
        unknown = np.zeros(pixels.shape[1:3], bool)
        height, width = pixels.shape[1:3]
        top, left = (height - side) // 2, (width - side) // 2
        unknown[top : top + side, left : left + side] = True
        for way, paint in ways.items():
            signals = (np.asarray(to_signal(one), np.float32) * ~unknown[..., None] for one in pixels)
            painted = torch.from_numpy(np.stack([paint(signal, unknown) for signal in signals])).permute(0, 3, 1, 2)
            shown = to_pixels(painted)
            result.setdefault(f"{side}×{side}", {})[way] = psnr(shown[:, unknown], pixels[:, unknown])
    return result


def tasks(part: str, denoisers: Mapping[str, Denoiser], sets: Mapping[str, Pixels]) -> dict[str, Any]:
    """Return the figures of one part, for each source of pictures of at least 256×256."""
    large = {name: one for name, one in sets.items() if min(one.shape[1:3]) >= 256}
    if part == "boxes":
        return {name: boxes(denoisers, one) for name, one in large.items()}
    return {name: coded(denoisers, one, part) for name, one in large.items()}
