"""Denoisers for photographs: folders, identity, any size and batch, the SNR as a number."""

from __future__ import annotations

import copy
import json
import os
import pickle
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.networks import ROUNDING, SMALL, random_network
from helpers.refusals import refused
from safetensors.torch import load_file, save_file

from dipp import models
from dipp.models import photonet
from dipp.models.config import LARGEST_SNR
from dipp.models.denoiser import Device, Numbers
from dipp.models.evidence import Evidence
from dipp.models.photonet import PhotoDenoiser
from dipp.models.runtime import Floats, Runtime

TF32 = 5e-3
"""Largest error of predictions by one TF32 product for each convolution."""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("photonet")
    photonet.write(place, SMALL, dict(random_network().named_parameters()))
    return place


@pytest.fixture(scope="module")
def small(original: Path) -> PhotoDenoiser:
    return load(original)


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    """Return a copy of the model that a test may damage."""
    return Path(shutil.copytree(original, tmp_path / "copy"))


def load(folder: Path, device: str = "cpu") -> PhotoDenoiser:
    denoiser = models.load(folder, device)
    assert isinstance(denoiser, PhotoDenoiser)
    return denoiser


def test_weights_in_a_format_that_numpy_lacks_are_named(folder: Path) -> None:
    stored = load_file(folder / photonet.WEIGHTS)
    name = min(stored)
    save_file(stored | {name: stored[name].bfloat16()}, folder / photonet.WEIGHTS)
    with refused("model", "as BF16 in", photonet.WEIGHTS, remedy="F16 or F32"):
        load(folder)


def noisy(count: int, *size: int) -> torch.Tensor:
    return torch.randn(count, 3, *(size or (16, 16)), generator=torch.Generator().manual_seed(count))


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_loaded_denoiser_has_its_attributes(small: PhotoDenoiser) -> None:
    assert (small.channels, small.sample_size) == (3, (32, 32))
    assert len(small.schedule) == 1000
    assert len(bytes.fromhex(small.identity)) == 32
    assert not any(parameter.requires_grad for parameter in small.network.parameters())


def test_weights_are_stored_in_half_precision(original: Path, small: PhotoDenoiser) -> None:
    stored = load_file(original / photonet.WEIGHTS)
    assert {tensor.dtype for tensor in stored.values()} == {torch.float16}
    for name, parameter in random_network().named_parameters():
        torch.testing.assert_close(small.network.get_parameter(name), parameter.half().float(), rtol=0, atol=0)


@pytest.mark.parametrize("t", [0, 250, 999])
def test_predictions_at_a_timestep_are_those_at_its_snr(small: PhotoDenoiser, t: int) -> None:
    x_t, gamma, snr = noisy(2), small.schedule.gamma(t), small.schedule.snr(t)
    x_hat = small.x0(x_t, t)
    assert x_hat.dtype == torch.float32
    assert x_hat.abs().max() <= 1
    torch.testing.assert_close(x_hat, small.predict(Evidence(x_t / gamma, snr)), rtol=0, atol=0)
    expected = small.network(x_t / gamma, torch.tensor([snr])).clamp(-1, 1)
    torch.testing.assert_close(x_hat, expected, rtol=0, atol=ROUNDING)


def test_snrs_between_timesteps_are_not_rounded(small: PhotoDenoiser) -> None:
    low, high = small.schedule.snr(501), small.schedule.snr(500)
    y, middle = noisy(1), (low * high) ** 0.5
    assert len({small.predict(Evidence(y, snr)).sum().item() for snr in (low, middle, high)}) == 3


def test_images_do_not_depend_on_their_batch(small: PhotoDenoiser, monkeypatch: pytest.MonkeyPatch) -> None:
    y = noisy(7)
    whole, sizes = small.predict(Evidence(y, 2.0)), list[int]()

    def counted(runtime: Runtime, x: Floats, snr: float) -> Floats:
        sizes.append(len(x))
        return call(runtime, x, snr)

    call = Runtime.__call__
    monkeypatch.setattr(Runtime, "__call__", counted)
    monkeypatch.setitem(photonet.PIXELS_PER_CALL, "cpu", 3 * 16 * 16)
    torch.testing.assert_close(small.predict(Evidence(y, 2.0)), whole, rtol=0, atol=ROUNDING)
    assert sizes == [3, 3, 1]
    monkeypatch.setitem(photonet.PIXELS_PER_CALL, "cpu", 1)
    torch.testing.assert_close(small.predict(Evidence(y.flip(0), 2.0)).flip(0), whole, rtol=0, atol=ROUNDING)
    assert sizes[3:] == [1] * 7


def test_large_pictures_in_tiles_equal_the_whole_picture(small: PhotoDenoiser, monkeypatch: pytest.MonkeyPatch) -> None:
    y = noisy(1, photonet.TILE + SMALL.margin + 1, 24)
    found, heights = small.predict(Evidence(y, 0.5)), list[int]()
    with torch.inference_mode():
        whole = small.network(y, torch.tensor([0.5])).clamp(-1, 1)
    torch.testing.assert_close(found, whole, rtol=0, atol=ROUNDING)

    def counted(_: Runtime, x: Floats, __: float) -> Floats:
        heights.append(x.shape[2])
        return x

    monkeypatch.setattr(Runtime, "__call__", counted)
    small.predict(Evidence(y, 0.5))
    assert len(heights) == 2
    assert max(heights) < photonet.TILE


def test_other_sizes_and_dtypes_are_predicted(small: PhotoDenoiser) -> None:
    assert small.predict(Evidence(noisy(2, 5, 1), 1.0)).shape == (2, 3, 5, 1)
    torch.testing.assert_close(small.predict(Evidence(noisy(1).double(), 1.0)), small.predict(Evidence(noisy(1), 1.0)))


def test_result_is_an_ordinary_tensor_and_the_program_stays_as_it_was(original: Path) -> None:
    before, y = torch.get_rng_state(), noisy(2)
    kept = y.clone()
    x_hat = load(original).predict(Evidence(y, 1.0))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(y, kept)
    assert not x_hat.is_inference()
    assert x_hat.is_contiguous()


@pytest.mark.parametrize("shape", [(3, 16, 16), (0, 3, 16, 16), (1, 1, 16, 16), (1, 3, 16, 0)])
def test_bad_shapes_are_refused(small: PhotoDenoiser, shape: tuple[int, ...]) -> None:
    with refused("x_t"):
        small.predict(Evidence(torch.zeros(shape), 1.0))


def test_an_snr_beyond_fp32_is_the_largest(small: PhotoDenoiser) -> None:
    assert torch.equal(small.predict(Evidence(noisy(1), 1e300)), small.predict(Evidence(noisy(1), LARGEST_SNR)))


def test_on_other_devices_than_the_cpu_and_cuda_pictures_of_all_sizes_go_through_pytorch(
    small: PhotoDenoiser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The device `meta`, which computes shapes alone, stands for Apple's: neither has CUDA's graphs."""
    asked = list[Numbers]()

    def forward(network: Any, y: torch.Tensor, snr: torch.Tensor, numbers: Numbers) -> torch.Tensor:
        asked.append(numbers)
        return network(y, snr)  # type: ignore[no-any-return]

    monkeypatch.setattr(PhotoDenoiser, "_forward", staticmethod(forward))
    monkeypatch.setitem(photonet.PIXELS_PER_CALL, "meta", 1)
    elsewhere = replace(small, device=Device("meta"))
    assert elsewhere.predict(Evidence(noisy(2), 1.0)).shape == (2, 3, 16, 16)
    assert elsewhere.predict(Evidence(noisy(1), 1.0), Numbers.FAST).shape == (1, 3, 16, 16)
    assert set(asked) == {Numbers.EXACT}


@pytest.mark.parametrize("snr", [-1.0, float("nan"), float("inf")])
def test_bad_snrs_are_refused(small: PhotoDenoiser, snr: float) -> None:
    with refused("snr"):
        small.predict(Evidence(noisy(1), snr))


# Identity.


def test_identity_is_of_weights_config_schedule_and_class(folder: Path, small: PhotoDenoiser) -> None:
    found = {small.identity}

    def changed() -> str:
        identity = models.load(folder).identity
        assert identity not in found
        found.add(identity)
        return identity

    assert models.load(folder).identity == small.identity
    edit(folder / photonet.CONFIG, deviation=0.25)
    changed()
    edit(folder / photonet.SCHEDULER_CONFIG, beta_end=0.03)
    changed()
    weights = load_file(folder / photonet.WEIGHTS)
    weights["leave.bias"] = weights["leave.bias"] + 1
    save_file(weights, folder / photonet.WEIGHTS)
    last = changed()
    edit(folder / photonet.CONFIG, _comment="neither names nor comments count")
    assert models.load(folder).identity == last


def test_the_same_numbers_in_another_architecture_are_another_model(
    folder: Path, small: PhotoDenoiser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(models.ARCHITECTURES, "OtherNet", photonet.load)
    edit(folder / photonet.CONFIG, _class_name="OtherNet")
    assert models.load(folder).identity != small.identity


# What is refused.


def test_incomplete_folders_are_refused(folder: Path) -> None:
    edit(folder / photonet.CONFIG, channels=[8, 12, 20])
    with refused("model", "network"):
        models.load(folder)
    for wrong in ({"down": [-1, 1, 1]}, {"deviation": 0}, {"embedding": True}, {"channels": [8.0, 12, 16]}):
        edit(folder / photonet.CONFIG, **({"channels": [8, 12, 16]} | wrong))
        with refused("model", "network"):
            models.load(folder)
        edit(folder / photonet.CONFIG, down=[1, 1, 1], deviation=0.5, embedding=16)
    edit(folder / photonet.CONFIG, channels=[8, 12, 16], heads=4)
    with refused("model", "network"):
        models.load(folder)
    config = json.loads((folder / photonet.CONFIG).read_text())
    del config["deviation"], config["heads"]
    (folder / photonet.CONFIG).write_text(json.dumps(config))
    with refused("model", "deviation"):
        models.load(folder)
    edit(folder / photonet.CONFIG, deviation=0.5)
    (folder / photonet.WEIGHTS).unlink()
    with refused("model", remedy="model.safetensors"):
        models.load(folder)
    (folder / photonet.SCHEDULER_CONFIG).unlink()
    with refused("model", "scheduler_config.json"):
        models.load(folder)


def test_weights_that_are_not_finite_are_not_written(tmp_path: Path) -> None:
    tensors = {name: tensor * 1e6 for name, tensor in random_network().named_parameters()}
    with refused("model", "finite"):
        photonet.write(tmp_path / "new", SMALL, tensors)
    assert not (tmp_path / "new").exists()


# Copies, threads and processes.


def test_copies_and_pickles_predict_the_same(original: Path) -> None:
    used = load(original)
    expected = used.predict(Evidence(noisy(1), 1.0))
    for other in (copy.copy(used), copy.deepcopy(used), pickle.loads(pickle.dumps(used))):  # noqa: S301 - our own
        assert other.identity == used.identity
        assert torch.equal(other.predict(Evidence(noisy(1), 1.0)), expected)


def test_the_runtime_uses_as_many_threads_as_pytorch(original: Path) -> None:
    denoiser, before = load(original), torch.get_num_threads()
    try:
        for threads in (1, 2, 1):
            torch.set_num_threads(threads)
            denoiser.predict(Evidence(noisy(1), 1.0))
    finally:
        torch.set_num_threads(before)
    found = {n: one.get_session_options().intra_op_num_threads for n, one in denoiser._runtime.sessions.items()}
    assert found == {1: 1, 2: 2}


FORKS = """
import os, sys, warnings

import dipp.models
import torch
from dipp.models.evidence import Evidence

warnings.simplefilter("ignore")  # of threads and forks: that is what is tested
torch.set_num_threads(2)
denoiser, y = dipp.models.load(sys.argv[1]), torch.zeros(1, 3, 16, 16)
expected = denoiser.predict(Evidence(y, 1.0))
if child := os.fork():
    again = denoiser.predict(Evidence(y, 1.0))
    sys.exit(os.waitpid(child, 0)[1] or not torch.equal(again, expected))
if sys.argv[2] == "predict":
    assert torch.equal(denoiser.predict(Evidence(y, 1.0)), expected)
del denoiser
"""


@pytest.mark.slow
@pytest.mark.parametrize("what", ["predict", "nothing"])
def test_a_forked_process_predicts_and_ends(what: str, original: Path, tmp_path: Path) -> None:
    """A forked process does not have its parent's threads, must not wait for them, and prints nothing."""
    home = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    home |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", FORKS, str(original), what], env=home, check=True, timeout=120)  # noqa: S603
    assert not list(tmp_path.rglob("*onnxruntime*"))


# CUDA.


@pytest.mark.gpu
@pytest.mark.parametrize("size", [(16, 16), (80, 64)])
def test_cuda_agrees_with_the_cpu_in_every_batch(original: Path, small: PhotoDenoiser, size: tuple[int, int]) -> None:
    """Small pictures, which go through graphs, and larger ones agree with the CPU."""
    on_gpu = load(original, "cuda")
    assert on_gpu.identity == small.identity
    for count in (1, 3, 8):
        y = noisy(count, *size)
        for snr in (0.3, 0.3, 20.0):  # captured, then replayed
            torch.testing.assert_close(
                on_gpu.predict(Evidence(y, snr)).cpu(), small.predict(Evidence(y, snr)), rtol=0, atol=TF32
            )
        torch.testing.assert_close(on_gpu.x0(y, 500).cpu(), small.x0(y, 500), rtol=0, atol=1e-4)
        quick = on_gpu.predict(Evidence(y, 0.3), Numbers.FAST).cpu()
        assert 0 < (quick - small.predict(Evidence(y, 0.3))).abs().mean() < 0.02
