"""Golden archives of every mechanism decode to the same indices and the same pixels, on the CPU and on CUDA."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_codec import make_plan, pictures

from dipp.format import archive
from dipp.codec.codec import Codec
from dipp.models.denoiser import Denoiser
from dipp.core.plan import DIFFC, PAPER, SHARP, THRIFTY

GOLDEN = Path(__file__).parent / "golden"
MECHANISMS = {"sharp": SHARP, "thrifty": THRIFTY, "paper": PAPER, "diffc": DIFFC}
ARCHIVES = {**MECHANISMS, "sizes": SHARP}
SIZES = ((8, 8), (13, 21), (7, 9), (40, 24))
"""Of pictures in the archive `sizes`: the denoiser's own, uneven ones, and one that it sees through windows."""
TWO_LEVELS = 2 / 127.5
"""Two of 255 grey levels in [−1, 1]."""
HAS_CUDA = torch.cuda.is_available() and importlib.util.find_spec("triton") is not None
CUDA = pytest.mark.skipif(not HAS_CUDA, reason="needs a CUDA device")
DEVICES = ["cpu", pytest.param("cuda", marks=CUDA)]


pytestmark = pytest.mark.usefixtures("one_thread")


def images(name: str) -> list[Any]:
    return [pictures(1, *size)[0] for size in SIZES] if name == "sizes" else list(pictures(3))


def reconstructions(codec: Codec, source: archive.Archive) -> dict[str, Any]:
    """Of all pictures, one after the other."""
    found: dict[str, list[Any]] = {"noisy": [], "mean": []}
    for state, t in codec.states(source):
        found["noisy"].append(state.cpu().numpy().ravel())
        found["mean"].append(codec.denoiser.x0(state, t).cpu().numpy().ravel())
    return {kind: np.concatenate(parts) for kind, parts in found.items()}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ARCHIVES)
def test_golden_archives_decode_to_the_same_pixels(name: str, device: str) -> None:
    """Files of format 1 with a denoiser that never changes: noisy reconstruction and posterior mean within 2/255."""
    source = archive.open(GOLDEN / f"coded-{name}.dipp")
    expected = np.load(GOLDEN / f"coded-{name}.npz")
    found = reconstructions(Codec.for_archive(source, GOLDEN / "denoiser", device=device), source)
    for kind, values in found.items():
        assert np.abs(values - expected[kind].ravel()).max() < TWO_LEVELS, kind
    assert np.abs(expected["noisy"]).max() > 1


@CUDA
@pytest.mark.parametrize("encoder", ["cpu", "cuda"])
@pytest.mark.parametrize("name", ARCHIVES)
def test_either_device_decodes_what_either_encoded(name: str, encoder: str) -> None:
    denoisers = {device: models.load(GOLDEN / "denoiser", device) for device in ("cpu", "cuda")}
    plan = make_plan(ARCHIVES[name], denoisers["cpu"].schedule)
    source = Codec(denoisers[encoder], plan).encode(images(name))
    cpu, cuda = (reconstructions(Codec(denoisers[device], plan), source) for device in ("cpu", "cuda"))
    for kind in cpu:
        assert np.abs(cpu[kind] - cuda[kind]).max() < TWO_LEVELS, kind
