"""A trained network as a folder: `config.json` and `model.safetensors`, the weights in half precision."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from photonet.network import Config, Network

CONFIG = "config.json"
WEIGHTS = "model.safetensors"


def write(folder: Path, config: Config, tensors: Mapping[str, Tensor]) -> None:
    """Write config and weights, each to a temporary name first."""
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f".{CONFIG}.partial"
    partial.write_text(json.dumps(asdict(config), indent=2) + "\n", encoding="utf-8")
    partial.replace(folder / CONFIG)
    stored = {name: tensor.detach().to("cpu", torch.float16).contiguous() for name, tensor in tensors.items()}
    partial = folder / f".{WEIGHTS}.partial"
    save_file(stored, partial)
    partial.chmod(0o644)
    partial.replace(folder / WEIGHTS)


def read(folder: Path, device: str = "cpu") -> Network:
    """The network of a folder, in fp32 and ready to predict."""
    content = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    settings: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in content.items()}
    config = Config(**settings)
    network = Network(config)
    network.load_state_dict({name: tensor.float() for name, tensor in load_file(folder / WEIGHTS).items()})
    return network.eval().requires_grad_(False).to(device, memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]
