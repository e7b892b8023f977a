"""The folder that training writes, in diffusers' format: `dipp.models` and diffusers' DDPMPipeline can load it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import diffusers
import torch
from safetensors.torch import save

from dipp import files
from dipp.errors import DippError
from dipp.models.unet import INDEX, NETWORK_CONFIGS, SCHEDULER_CONFIGS, WEIGHTS

CHANNELS = 3
SCHEDULER = {
    "_class_name": "DDPMScheduler",
    "_diffusers_version": diffusers.__version__,
    "num_train_timesteps": 1000,
    "beta_schedule": "linear",
    "beta_start": 1e-4,
    "beta_end": 0.02,
    "prediction_type": "v_prediction",
    "variance_type": "fixed_small",
    "clip_sample": True,
    "timestep_spacing": "leading",
}
"""Scheduler config with the noise of Ho et al., so that SNRs, and hence ε and schedules, are those of published
DDPMs."""


def default_network(size: int) -> dict[str, Any]:
    """Config of a small network: 10.4 M parameters, and 0.3 of the CPU time of Ho et al.'s network for CIFAR-10.

    There are few channels where there are many pixels, and always multiples of 64, which fill the tiles of tensor
    cores. Attention is global, at a quarter of the side, where it is cheap.
    """
    return {
        "sample_size": size,
        "in_channels": CHANNELS,
        "out_channels": CHANNELS,
        "block_out_channels": [64, 128, 192],
        "layers_per_block": 2,
        "down_block_types": ["DownBlock2D", "DownBlock2D", "AttnDownBlock2D"],
        "up_block_types": ["AttnUpBlock2D", "UpBlock2D", "UpBlock2D"],
        "attention_head_dim": 64,
        "norm_num_groups": 32,
        "norm_eps": 1e-6,
        "dropout": 0.0,
        "downsample_padding": 0,
        "flip_sin_to_cos": False,
        "freq_shift": 1,
    }


def build(config: Mapping[str, Any]) -> Any:
    """A UNet2DModel of a config, with fresh random weights."""
    try:
        return diffusers.UNet2DModel.from_config(dict(config))  # type: ignore[no-untyped-call]
    except Exception as error:  # diffusers checks little, so anything may be raised
        raise DippError(f"network: the config makes no UNet2DModel: {' '.join(str(error).split())[:200]}") from None


def complete(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config with every key, defaults included, as diffusers would write it."""
    with torch.device("meta"):
        network = build(config)
    made = json.loads(network.to_json_string())
    if (made["in_channels"], made["out_channels"]) != (CHANNELS, CHANNELS):
        raise DippError(f"network: {CHANNELS} channels in and out are needed: pictures are read in colour")
    return {key: value for key, value in made.items() if key != "_name_or_path"}


def write(
    folder: Path,
    config: Mapping[str, Any],
    scheduler: Mapping[str, Any],
    tensors: Mapping[str, torch.Tensor],
    half: bool,
) -> None:
    """Write a denoiser, each file whole or not at all; `half` stores the weights in fp16 instead of fp32."""
    index = {
        "_class_name": "DDPMPipeline",
        "_diffusers_version": diffusers.__version__,
        "scheduler": ["diffusers", "DDPMScheduler"],
        "unet": ["diffusers", "UNet2DModel"],
    }
    for name, content in ((INDEX, index), (NETWORK_CONFIGS[0], config), (SCHEDULER_CONFIGS[0], scheduler)):
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        write_json(place, dict(content))
    kind = torch.float16 if half else torch.float32
    stored = {name: tensor.detach().to("cpu", kind).contiguous() for name, tensor in tensors.items()}
    if not all(bool(tensor.isfinite().all()) for tensor in stored.values()):
        raise DippError("train: the weights are no longer finite; lower --learning-rate")
    with files.atomic(folder / NETWORK_CONFIGS[0].replace("config.json", WEIGHTS)) as part:
        part.write_bytes(save(stored))


def write_json(path: Path, content: object) -> None:
    """Write indented JSON, whole or not at all."""
    with files.atomic(path) as part:
        part.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
