"""Export denoisers for photographs as ONNX files (`graph`), for ONNX Runtime on other machines and in browsers.

The metadata of a file has the denoiser's `identity`, its noise levels by timestep (`alphas_cumprod`, JSON), the planes
that are stacked in its input (`planes`, JSON; the network itself makes `inside`), and the margin and stride with which
tiles give the output of the whole picture.
"""

from __future__ import annotations

import json
from pathlib import Path

import onnx

from dipp import files
from dipp.errors import DippError
from dipp.models.denoiser import Denoiser
from dipp.models.graph import Build, graph
from dipp.models.photonet import PhotoDenoiser


def export(denoiser: Denoiser, path: Path, kind: type[Build] = Build) -> None:
    """Write a denoiser as an ONNX file, whole or not at all.

    Args:
        denoiser: A denoiser for photographs, on the CPU.
        path: File to write.
        kind: How convolutions are written: `graph.Build`, or `winograd_graph.WinogradBuild` for fewer multiplications.

    Raises:
        DippError: The denoiser is not of the class PhotoNet, or not on the CPU.
    """
    if not isinstance(denoiser, PhotoDenoiser):
        raise DippError("model", "is not a PhotoNet", "name one that `dipp train` wrote, or `embedded`")
    if denoiser.device.type != "cpu":
        raise DippError("model", f"is on the device {denoiser.device}", "load it on the cpu to export it")
    config = denoiser.config
    facts = {
        "identity": denoiser.identity,
        "alphas_cumprod": json.dumps(denoiser.schedule.alphas_cumprod.tolist()),
        "planes": json.dumps(config.planes),
        "stride": str(config.stride),
        "margin": str(config.margin),
    }
    model = graph(config, denoiser.weights, facts, kind)
    onnx.checker.check_model(model)
    with files.atomic(path) as part:
        part.write_bytes(model.SerializeToString())
