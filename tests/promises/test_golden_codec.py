"""Golden archives of every coding decode to the same indices and the same pixels, on the CPU and on CUDA."""

from __future__ import annotations

import hashlib
import importlib.util
import math
import struct

import numpy as np
import pytest
import torch
from helpers.archives import made_up
from helpers.golden_codec import (
    ASKED,
    CODED,
    LATENT,
    MADE_UP,
    MADE_UP_SHAPES,
    MIXED,
    SENSED,
    SOURCED,
    TABLE,
    codec_of,
    images,
    made_up_archive,
    of_ends,
    plan_of,
    reconstructions,
)
from helpers.paths import GOLDEN

from dipp import models
from dipp.codec.codec import Codec
from dipp.codec.decoding import ChainEnd
from dipp.format import archive

TWO_LEVELS = 2 / 127.5
"""Two of 255 grey levels in [−1, 1]."""
HAS_CUDA = torch.cuda.is_available() and importlib.util.find_spec("triton") is not None
WITHOUT_CUDA = pytest.mark.skipif(not HAS_CUDA, reason="needs a CUDA device")
DEVICES = ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, WITHOUT_CUDA])]


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CODED)
def test_golden_archives_decode_to_the_same_pixels(name: str, device: str) -> None:
    """On a denoiser that never changes, noisy reconstruction and posterior mean agree within 2/255."""
    source = archive.open(GOLDEN / f"{name}.dipp")
    expected = np.load(GOLDEN / f"{name}.npz")
    found = reconstructions(Codec.for_parameters(source.parameters, GOLDEN / "denoiser", device=device), source)
    for kind, values in found.items():
        assert np.abs(values - expected[kind].ravel()).max() < TWO_LEVELS, kind
    assert np.abs(expected["noisy"]).max() > (0.1 if name in ASKED else 1)


@pytest.mark.parametrize("name", CODED)
def test_golden_archives_are_written_alike(name: str) -> None:
    """Made again from their parameters and indices, they are the same byte for byte."""
    source = archive.open(GOLDEN / f"{name}.dipp")
    shapes = [source.geometry(i) for i in range(len(source))]
    rows = [source.image_indices(i) for i in range(len(source))]
    assert [shape.shape[:2] for shape in shapes] == [image.shape[:2] for image in images(name)]
    made = archive.Archive.build(source.parameters, shapes, rows, grey=source.grey.tolist())
    assert made.to_bytes() == (GOLDEN / f"{name}.dipp").read_bytes()


@pytest.mark.parametrize("name", [*MADE_UP, LATENT])
def test_golden_archives_of_made_up_indices_are_written_alike(name: str) -> None:
    opened, made = archive.open(GOLDEN / f"{name}.dipp"), made_up_archive(name)
    assert opened.parameters == made.parameters
    assert [opened.geometry(i).shape for i in range(6)] == MADE_UP_SHAPES
    coded = [opened.parameters.coded(opened.geometry(i)).shape for i in range(6)]
    assert [opened.image_indices(i).tolist() for i in range(6)] == made_up(opened.parameters.plan, coded)
    assert made.to_bytes() == (GOLDEN / f"{name}.dipp").read_bytes()


@pytest.mark.parametrize("name", SENSED)
def test_golden_archives_of_sensing_say_what_they_are(name: str) -> None:
    """Their plans, digests, codes and certificates are the same as when they were made."""
    source = archive.open(GOLDEN / f"{name}.dipp")
    denoiser = models.load(GOLDEN / "denoiser")
    assert source.parameters.plan == plan_of(name, denoiser)
    assert (source.parameters.table, source.parameters.model) == (TABLE, denoiser.identity)
    assert not source.parameters.seed_given
    # Two touches of V = 738·ln 2/2^9 = 0.99911 nats, at 2V each for pairs, and at 4V each for the flat code. The other
    # code searches at α = 2, in units of half the size.
    times = {"sensing-pairs": 2, "sensing-flat": 4, "sensing-ppr": 8}[name]
    assert source.certificate.epsilon == pytest.approx(2 * times * 738 * math.log(2) / 512, rel=1e-9)


@pytest.mark.parametrize("name", MIXED)
def test_golden_seeds_follow_from_their_beacons(name: str) -> None:
    """A version with another derivation would refuse the file. The numbers are those of SHA-256, computed apart."""
    public = archive.open(GOLDEN / f"{name}.dipp").parameters
    assert (public.delta, public.beacon, public.seed_given) == (1e-6, MIXED[name], True)
    content = b"dipp/2/beacon\0" + bytes(range(16)) + (4242).to_bytes(8, "little") + bytes(range(100, 132))
    assert public.seed == hashlib.sha256(content).digest()[:16]


@pytest.mark.parametrize("name", SOURCED)
def test_golden_sources_are_described(name: str) -> None:
    """The window and the grey pictures are the same in the bytes and in the decoded pictures."""
    source = archive.open(GOLDEN / f"{name}.dipp")
    assert source.parameters.window == SOURCED[name]
    assert source.grey.tolist() == [False, True, True]
    field = bytes([3, 1 + 8 + 1, 1 | 4]) + struct.pack("<2i", -100, 900) + bytes([0b01100000])
    assert source.to_bytes()[53:].startswith(bytes([2]) + field)  # before the digest of the table
    colour, *grey = Codec.for_parameters(source.parameters, GOLDEN / "denoiser").decode(source)
    assert (colour[..., 0] != colour[..., 1]).any()
    assert all((one == one[..., :1]).all() for one in grey)


@pytest.mark.parametrize("decoder", DEVICES)
@pytest.mark.parametrize("encoder", DEVICES)
@pytest.mark.parametrize("name", CODED)
def test_either_device_decodes_what_either_encoded(name: str, encoder: str, decoder: str) -> None:
    """The states that the receiver reaches are those of the sender."""
    sender, receiver = (codec_of(name, models.load(GOLDEN / "denoiser", device)) for device in (encoder, decoder))
    sent = list[ChainEnd]()
    source = sender.encode(images(name), window=SOURCED.get(name), odometer=False, ends=sent.append)
    reached, expected = reconstructions(receiver, source), of_ends(sender, sent)
    for kind, values in reached.items():
        assert np.abs(values - expected[kind]).max() < TWO_LEVELS, kind
