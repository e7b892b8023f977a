"""A denoiser for photographs as an ONNX file (`graph`), for ONNX Runtime on other machines and in browsers.

Metadata names the denoiser (`identity`), its SNRs by timestep (`alphas_cumprod`, JSON), the planes that are stacked in
its input (`planes`, JSON; the network itself makes `inside`), and the margin and stride by which tiles give what the
whole gives.
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


def export(denoiser: Denoiser, place: Path, kind: type[Build] = Build) -> None:
    """Write the file, whole or not at all, with convolutions of a kind."""
    if not isinstance(denoiser, PhotoDenoiser):
        raise DippError("model", "only networks of the class PhotoNet can be exported")
    if denoiser.device.type != "cpu":
        raise DippError("model", f"it is on the device {denoiser.device}", "load it on the cpu to export it")
    config = denoiser.config
    facts = {
        "identity": denoiser.identity,
        "alphas_cumprod": json.dumps(denoiser.schedule.alphas_cumprod.tolist()),
        "planes": json.dumps(config.planes),
        "stride": str(config.stride),
        "margin": str(config.margin),
    }
    made = graph(config, denoiser.weights, facts, kind)
    onnx.checker.check_model(made)
    with files.atomic(place) as part:
        part.write_bytes(made.SerializeToString())
