"""A compiled denoiser, for the final denoising of thousands of pictures in batches of one size."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import torch

from dipp.models.unet import UNetDenoiser


def compiled(denoiser: UNetDenoiser) -> Callable[[torch.Tensor, int], torch.Tensor]:
    """Return the function `x0` of a denoiser in bf16, compiled by torch.compile.

    Compiling takes most of a minute for each batch size. Coded steps do not use it, because receivers must reproduce
    them.
    """
    network: Any = torch.compile(denoiser.network, dynamic=False)
    return functools.partial(dataclasses.replace(denoiser, network=network).x0, fast=True)
