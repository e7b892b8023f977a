"""Golden archives of every coding decode to the same indices and the same pixels, on the CPU and on CUDA."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
import torch
from helpers.codecs import make_plan
from helpers.golden_codec import ARCHIVES, images, reconstructions
from helpers.paths import GOLDEN

from dipp import models
from dipp.codec.codec import Codec
from dipp.format import archive

TWO_LEVELS = 2 / 127.5
"""Two of 255 grey levels in [−1, 1]."""
HAS_CUDA = torch.cuda.is_available() and importlib.util.find_spec("triton") is not None
WITHOUT_CUDA = pytest.mark.skipif(not HAS_CUDA, reason="needs a CUDA device")
DEVICES = ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, WITHOUT_CUDA])]


pytestmark = pytest.mark.usefixtures("one_thread")


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


@pytest.mark.parametrize("name", ARCHIVES)
def test_golden_archives_are_written_alike(name: str) -> None:
    """From what they say and from their indices, byte for byte."""
    source = archive.open(GOLDEN / f"coded-{name}.dipp")
    shapes = [source.shape(i) for i in range(len(source))]
    rows = [source.image_indices(i) for i in range(len(source))]
    assert shapes == [image.shape for image in images(name)]
    made = archive.Archive.build(source.release, shapes, rows)
    assert made.to_bytes() == (GOLDEN / f"coded-{name}.dipp").read_bytes()


@pytest.mark.gpu
@WITHOUT_CUDA
@pytest.mark.parametrize("encoder", ["cpu", "cuda"])
@pytest.mark.parametrize("name", ARCHIVES)
def test_either_device_decodes_what_either_encoded(name: str, encoder: str) -> None:
    denoisers = {device: models.load(GOLDEN / "denoiser", device) for device in ("cpu", "cuda")}
    plan = make_plan(ARCHIVES[name], denoisers["cpu"].schedule)
    source = Codec(denoisers[encoder], plan).encode(images(name))
    cpu, cuda = (reconstructions(Codec(denoisers[device], plan), source) for device in ("cpu", "cuda"))
    for kind in cpu:
        assert np.abs(cpu[kind] - cuda[kind]).max() < TWO_LEVELS, kind
