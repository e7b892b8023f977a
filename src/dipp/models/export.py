"""A denoiser for photographs as an ONNX file, for ONNX Runtime on other machines and in browsers.

    inputs   y (N, 3, H, W), states x0 + noise/√SNR of any height and width; snr (1,)
    output   x0 (N, 3, H, W), the expected picture, clamped to [−1, 1]

Metadata names the denoiser (`identity`), its SNRs by timestep (`alphas_cumprod`, JSON) and the margin and stride by
which tiles give what the whole gives. Weights that are numbers of half precision, as those of every stored network are,
stay so in the file, which halves it: ONNX Runtime turns them into the same fp32 numbers as it loads them.
"""

from __future__ import annotations

import io
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dipp import files
from dipp.errors import DippError
from dipp.models.denoiser import Denoiser
from dipp.models.photonet import PhotoDenoiser

OPSET = 17
LEAST_HALVED = 256
"""Numbers that a tensor must have to be stored in half precision."""


class _Clamped(torch.nn.Module):
    """The network as a denoiser asks it."""

    def __init__(self, network: torch.nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, y: torch.Tensor, snr: torch.Tensor) -> torch.Tensor:
        return self.network(y, snr).clamp(-1, 1)  # type: ignore[no-any-return]


def export(denoiser: Denoiser, place: Path) -> None:
    """Write the file, whole or not at all."""
    if not isinstance(denoiser, PhotoDenoiser):
        raise DippError("model: only networks of the class PhotoNet can be exported")
    try:
        import onnx
    except ImportError:
        raise DippError("export: the package onnx is missing; pip install 'dp-dipp[onnx]'") from None
    sides = {0: "batch", 2: "height", 3: "width"}
    stream: Any = io.BytesIO()
    example = torch.zeros(1, 3, 64, 96), torch.ones(1)
    with warnings.catch_warnings():
        # PyTorch's newer exporter needs a package more, and fixes the sizes of some pictures.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            _Clamped(denoiser.network).cpu(),
            example,
            stream,
            input_names=["y", "snr"],
            output_names=["x0"],
            dynamic_axes={"y": sides, "x0": sides},
            opset_version=OPSET,
            dynamo=False,
        )
    made = onnx.load_from_string(stream.getvalue())
    _halve(made, onnx)
    config = denoiser.network.config
    facts = {
        "identity": denoiser.identity,
        "alphas_cumprod": json.dumps(denoiser.schedule.alphas_cumprod.tolist()),
        "stride": str(config.stride),
        "margin": str(config.margin),
    }
    onnx.helper.set_model_props(made, facts)
    onnx.checker.check_model(made)
    with files.atomic(place) as part:
        part.write_bytes(made.SerializeToString())


def _halve(made: Any, onnx: Any) -> None:
    """Store weights in half precision where that is exact, each with a cast to fp32 in front of the network."""
    casts = []
    for tensor in made.graph.initializer:
        values = onnx.numpy_helper.to_array(tensor)
        half = values.astype(np.float16) if values.dtype == np.float32 else values
        if (
            values.dtype != np.float32
            or values.size < LEAST_HALVED
            or not np.array_equal(half.astype(np.float32), values)
        ):
            continue
        name, stored = tensor.name, f"{tensor.name}.half"
        tensor.CopyFrom(onnx.numpy_helper.from_array(half, stored))
        casts.append(onnx.helper.make_node("Cast", [stored], [name], to=onnx.TensorProto.FLOAT))
    nodes = [*casts, *made.graph.node]
    del made.graph.node[:]
    made.graph.node.extend(nodes)
