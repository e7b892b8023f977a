"""Winograd's convolutions and their network agree with PyTorch for all sizes, bands and numbers of threads."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.networks import ROUNDING, random_network, weights_of
from numba.core.runtime import _nrt_python, rtsys
from torch.nn import functional

from dipp import models
from dipp.models import photonet, watch, winograd, winograd_network
from dipp.models.config import CHANNELS, LARGEST_SNR, Config
from dipp.models.evidence import Evidence
from dipp.models.photonet import PhotoDenoiser
from dipp.models.runtime import Runtime
from dipp.models.winograd import STEP, convolve, transformed
from dipp.models.winograd_kernels import INPUTS, LANES, OUTPUTS, PANEL, WEIGHTS, Floats, convolve_tiles
from dipp.models.winograd_network import Winograd

CONFIG = Config(channels=(64, 128), down=(1, 1), up=(2,), embedding=16)
ERROR = 5e-5
"""Largest error of one convolution of unit variance: some fifty times the root mean square."""


def numbers(*shape: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def layer(inputs: int, outputs: int) -> tuple[Floats, Floats, Floats]:
    """Return weights, scale and shift for which outputs are of the order of 1."""
    return (
        numbers(outputs, inputs, 3, 3) / np.float32(3 * inputs**0.5),
        numbers(outputs, seed=1),
        numbers(outputs, seed=2),
    )


def exact(x: Floats, weights: Floats, scale: Floats, shift: Floats) -> torch.Tensor:
    """Return scale·(W∗x) + shift in double precision, (H, W, O)."""
    given = torch.from_numpy(x).double().permute(2, 0, 1)
    found = functional.conv2d(given, torch.from_numpy(weights).double(), padding=1).permute(1, 2, 0)
    return found * torch.from_numpy(scale) + torch.from_numpy(shift)


def close(found: Floats, expected: torch.Tensor) -> None:
    torch.testing.assert_close(torch.from_numpy(found).double(), expected, rtol=0, atol=ERROR)


def test_the_matrices_make_a_convolution() -> None:
    d, g = np.random.default_rng(0).standard_normal((2, 6))
    expected = np.correlate(d, g[:3], "valid")
    np.testing.assert_allclose(OUTPUTS @ ((WEIGHTS @ g[:3]) * (INPUTS @ d)), expected, rtol=0, atol=1e-12)


@pytest.fixture(params=[2])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return a function that sets the number of threads, which is 2 until it is called."""

    def use(count: int) -> None:
        monkeypatch.setattr(winograd, "threads", lambda: count)

    use(request.param)
    return use


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("size", [(1, 1), (4, 4), (5, 3), (8, 9), (2, 31), (37, 42)])
def test_convolutions_are_those_of_pytorch(size: tuple[int, int]) -> None:
    """Convolutions agree with PyTorch at borders that cut tiles, and for fewer tiles than a group."""
    inputs, outputs = 2 * LANES, 3 * PANEL
    x, (weights, scale, shift) = numbers(*size, inputs), layer(inputs, outputs)
    kept, z, out = x.copy(), exact(x, weights, scale, shift), np.full((*size, outputs), np.nan, np.float32)
    convolve(x, transformed(weights), scale, shift, out, activate=True)
    close(out, functional.silu(z))
    before = out.copy()
    convolve(x, transformed(weights), scale, shift, out, activate=False)
    close(out, torch.from_numpy(before) + z)
    assert np.array_equal(x, kept)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(("first", "last"), [(0, 5), (4, 6), (4, 13), (8, 9)])
def test_rows_of_a_convolution_are_those_of_the_whole(first: int, last: int) -> None:
    x, (weights, scale, shift) = numbers(13, 10, LANES), layer(LANES, PANEL)
    whole, part = np.empty((13, 10, PANEL), np.float32), np.empty((last - first, 10, PANEL), np.float32)
    convolve(x, transformed(weights), scale, shift, whole, activate=True)
    above = max(0, first - 1)
    convolve(x[above : last + 1], transformed(weights), scale, shift, part, above=first - above, activate=True)
    close(part, torch.from_numpy(whole[first:last]).double())


def test_threads_do_not_change_a_bit(threads: Callable[[int], None]) -> None:
    x, (weights, scale, shift) = numbers(181, 50, LANES), layer(LANES, PANEL)
    assert 4 * STEP < 46 * 13  # there is something to share

    def found(count: int) -> Floats:
        threads(count)
        out = np.empty((*x.shape[:2], PANEL), np.float32)
        convolve(x, transformed(weights), scale, shift, out, activate=True)
        return out

    whole = found(1)
    for count in (2, 3, 50):
        assert np.array_equal(found(count), whole)


@pytest.mark.usefixtures("threads")
def test_an_error_in_another_thread_is_raised_by_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    began = threading.Barrier(2, timeout=60)

    def fail(*_: object) -> None:
        began.wait()  # both threads have work
        if threading.current_thread() is not threading.main_thread():
            raise MemoryError

    monkeypatch.setattr(winograd, "convolve_tiles", fail)
    out, nothing = numbers(4, 4 * 2 * STEP, PANEL), np.empty(0, np.float32)
    with pytest.raises(MemoryError):
        convolve(nothing, nothing, nothing, nothing, out, activate=True)


@pytest.mark.usefixtures("threads")
def test_without_further_threads_the_calling_one_does_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    x, (weights, scale, shift) = numbers(61, 50, LANES), layer(LANES, PANEL)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    out = np.empty((61, 50, PANEL), np.float32)
    convolve(x, transformed(weights), scale, shift, out, activate=True)
    close(out, functional.silu(exact(x, weights, scale, shift)))


@pytest.mark.parametrize("activate", [True, False])
def test_nothing_is_read_or_written_outside(activate: bool) -> None:
    """Guard values around input and output would show in the output if read, and stay unchanged."""
    weights, scale, shift = layer(LANES, PANEL)

    def guarded(channels: int, inner: Floats) -> tuple[Floats, Floats]:
        room = np.full(inner.size + 2 * 64 * channels, np.nan, np.float32)
        view = room[64 * channels : -64 * channels].reshape(inner.shape)
        view[:] = inner
        return room, view

    _, x = guarded(LANES, numbers(5, 6, LANES))
    room, out = guarded(PANEL, numbers(5, 6, PANEL))
    convolve(x, transformed(weights), scale, shift, out, activate=activate)
    assert np.isfinite(out).all()
    assert np.isnan(room).sum() == room.size - out.size


def test_the_activation_takes_numbers_of_any_size() -> None:
    z = np.array([-1e30, -1e4, -104, -88, -87, -20, -1e-3, 0, 1e-20, 1, 20, 88, 1e4, 1e30], np.float32)
    shift, out = np.resize(z, PANEL), np.empty((1, 1, PANEL), np.float32)
    nothing = transformed(np.zeros((PANEL, LANES, 3, 3), np.float32))
    convolve(numbers(1, 1, LANES), nothing, np.ones_like(shift), shift, out, activate=True)
    expected = functional.silu(torch.from_numpy(shift).double()).float()
    torch.testing.assert_close(torch.from_numpy(out[0, 0]), expected, rtol=5e-7, atol=1e-7)
    moderate = np.abs(shift) < 87
    torch.testing.assert_close(torch.from_numpy(out[0, 0, moderate]), expected[moderate], rtol=5e-7, atol=0)


def test_the_memory_of_tiles_is_freed() -> None:
    x, (weights, scale, shift) = numbers(40, 40, LANES), layer(LANES, PANEL)
    out = np.empty((40, 40, PANEL), np.float32)
    _nrt_python.memsys_enable_stats()
    try:
        before = rtsys.get_allocation_stats()
        for _ in range(3):
            convolve(x, transformed(weights), scale, shift, out, activate=True)
        after = rtsys.get_allocation_stats()
    finally:
        _nrt_python.memsys_disable_stats()
    assert after.alloc - before.alloc == after.free - before.free > 0


NARROW = f"""
import pytest
from dipp.models.winograd_kernels import LANES
assert LANES == 8
raise SystemExit(pytest.main([{__file__!r}, "-q", "-k", "those_of_pytorch or what_is_activated"]))
"""


@pytest.mark.slow
def test_machines_with_narrower_vectors_compute_the_same(request: pytest.FixtureRequest) -> None:
    home = {**os.environ, "NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx2,+fma,+sse4.2"}
    command = [sys.executable, "-c", NARROW]
    subprocess.run(command, env=home, cwd=request.config.rootpath, check=True, timeout=300)  # noqa: S603


# The network.


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("winograd")
    photonet.write(place, CONFIG, dict(random_network(CONFIG).named_parameters()))
    return place


@pytest.fixture
def denoiser(folder: Path, monkeypatch: pytest.MonkeyPatch) -> PhotoDenoiser:
    """Return a denoiser that uses Winograd's convolutions for all pictures from 4×4 pixels on."""
    monkeypatch.setattr(winograd, "features", lambda: {"avx2", "fma"})
    monkeypatch.setattr(photonet, "LARGE_PIXELS", 4 * 4)
    found = models.load(folder)
    assert isinstance(found, PhotoDenoiser)
    return found


def states(count: int, *size: int) -> torch.Tensor:
    return torch.randn(count, 3, *size, generator=torch.Generator().manual_seed(count))


@pytest.mark.parametrize("size", [(4, 4), (3, 90), (17, 43), (70, 29)])
@pytest.mark.parametrize("snr", [0.0, 0.3, 900.0])
def test_the_network_computes_the_same_as_in_pytorch(
    denoiser: PhotoDenoiser, size: tuple[int, int], snr: float
) -> None:
    y = states(2, *size)
    kept, x_hat = y.clone(), denoiser.predict(Evidence(y, snr))
    expected = denoiser.network(y, torch.tensor([snr])).clamp(-1, 1)
    torch.testing.assert_close(x_hat, expected, rtol=0, atol=ROUNDING)
    assert torch.equal(y, kept)
    assert not x_hat.is_inference()
    assert len(convolve_tiles.signatures) == 1  # each takes seconds to compile


def test_neither_threads_nor_the_batch_change_a_bit_of_a_prediction(denoiser: PhotoDenoiser) -> None:
    y, before = states(3, 50, 41), torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = denoiser.predict(Evidence(y, 1.0))
        torch.set_num_threads(2)
        assert torch.equal(denoiser.predict(Evidence(y, 1.0)), alone)
        assert torch.equal(denoiser.predict(Evidence(y[1:2], 1.0)), alone[1:2])
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(("size", "bands"), [((150, 90), 19), ((131, 40), 17), ((8, 300), 1), ((33, 7), 5)])
def test_bands_equal_the_whole_picture(
    denoiser: PhotoDenoiser, size: tuple[int, int], bands: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bands of twice the stride give what one band gives, and each is reported."""
    y = states(1, *size)
    whole, finished = denoiser.predict(Evidence(y, 1.0)), list[int]()
    monkeypatch.setattr(winograd_network, "BAND", 1)
    monkeypatch.setattr(watch, "predicted", finished.append)
    torch.testing.assert_close(denoiser.predict(Evidence(y, 1.0)), whole, rtol=0, atol=ROUNDING)
    assert len(finished) == bands == -(-size[0] // (2 * denoiser.config.stride))
    assert sum(finished) == math.prod(size)


def test_bands_of_all_scales_equal_the_whole_picture() -> None:
    """Bands equal the whole for five scales, stages without blocks, and maps of precision."""
    config = Config((PANEL,) * 5, (1, 0, 1, 1, 2), (3, 1, 0, 1), embedding=16, planes=tuple(CHANNELS))
    network, state = random_network(config), states(1, 700, 45)
    precision = torch.rand(1, 1, 700, 45, generator=torch.Generator().manual_seed(0)) * 4
    evidence = Evidence(state, precision, state / 2, 0.5, state / 3, state.sign())
    told = evidence.stacked(config.planes, LARGEST_SNR)
    engine = Winograd(config, weights_of(network))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(winograd_network, "BAND", 1)
        bands = engine(told.numpy(), evidence.level)
    expected = network(told, torch.tensor([evidence.level])).clamp(-1, 1)
    torch.testing.assert_close(torch.from_numpy(bands), expected, rtol=0, atol=ROUNDING)


def test_memory_does_not_grow_with_the_height(denoiser: PhotoDenoiser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(winograd_network, "BAND", 1)
    engine = Winograd(denoiser.config, denoiser.weights)

    def peak(height: int) -> int:
        plane = np.zeros((1, 3, height, 64), np.float32)
        tracemalloc.start()
        try:
            x0 = engine.predict(lambda rows: plane[:, :, rows], (height, 64), 1.0)
            return tracemalloc.get_traced_memory()[1] - x0.nbytes
        finally:
            tracemalloc.stop()

    assert peak(2048) < 1.1 * peak(256)


def test_very_wide_pictures_go_in_tiles(denoiser: PhotoDenoiser, monkeypatch: pytest.MonkeyPatch) -> None:
    y = states(1, 50, 90)
    whole, tiles = denoiser.predict(Evidence(y, 1.0)), list[tuple[int, ...]]()
    monkeypatch.setattr(photonet, "WIDEST", 89)
    monkeypatch.setattr(photonet, "TILE", 2 * denoiser.config.stride)

    def noted(own: Winograd, y: Floats, snr: float, predict: Callable[..., Floats] = Winograd.__call__) -> Floats:
        tiles.append(y.shape)
        return predict(own, y, snr)

    monkeypatch.setattr(Winograd, "__call__", noted)
    torch.testing.assert_close(denoiser.predict(Evidence(y, 1.0)), whole, rtol=0, atol=ROUNDING)
    assert len(tiles) > 4


def test_only_large_pictures_of_supported_networks_use_winograd(
    denoiser: PhotoDenoiser, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[str]()

    def noted(_: Runtime, y: Floats, __: float) -> Floats:
        asked.append("Runtime")
        return y

    def banded(_: Winograd, told: Callable[[slice], Floats], *__: object) -> Floats:
        asked.append("Winograd")
        return told(slice(None))

    monkeypatch.setattr(Runtime, "__call__", noted)
    monkeypatch.setattr(Winograd, "predict", banded)
    for size in ((4, 4), (3, 5), (2, 8)):
        assert denoiser.predict(Evidence(states(2, *size), 1.0)).shape == (2, 3, *size)
    assert asked == ["Winograd", "Winograd", "Runtime", "Winograd", "Winograd"]
    assert winograd.possible(denoiser.config)
    assert not winograd.possible(Config(channels=(64, PANEL + 8), down=(1, 1), up=(1,)))
    monkeypatch.setattr(winograd, "features", lambda: {"neon"})
    assert not winograd.possible(denoiser.config)
    vars(denoiser).pop("_large")
    denoiser.predict(Evidence(states(2, 4, 4), 1.0))
    assert asked[5:] == ["Runtime", "Runtime"]


def test_settings_of_the_calling_program_change_nothing(denoiser: PhotoDenoiser) -> None:
    y = states(1, 20, 30)
    expected = denoiser.predict(Evidence(y, 1.0))
    vars(denoiser).pop("_large")
    torch.set_default_dtype(torch.float64)
    try:
        with torch.autocast("cpu", torch.bfloat16), torch.device("meta"):
            assert torch.equal(denoiser.predict(Evidence(y, 1.0)), expected)
    finally:
        torch.set_default_dtype(torch.float32)


LATE = """
import sys, threading

import dipp.models
import torch
from dipp.models import photonet, winograd
from dipp.models.evidence import Evidence

winograd.features = lambda: {"avx2", "fma"}
photonet.LARGE_PIXELS = 1
torch.set_num_threads(2)
denoiser, y = dipp.models.load(sys.argv[1]), torch.zeros(1, 3, 150, 150)


def late():
    threading.main_thread().join()
    print(denoiser.predict(Evidence(y, 1.0)).shape)


threading.Thread(target=late).start()
"""


@pytest.mark.slow
def test_a_thread_predicts_after_the_main_thread_has_ended(folder: Path) -> None:
    command = [sys.executable, "-c", LATE, str(folder)]
    done = subprocess.run(command, check=True, timeout=120, capture_output=True, text=True)  # noqa: S603
    assert "150, 150" in done.stdout, done.stderr


FORKS = """
import os, sys, warnings

import dipp.models
import torch
from dipp.models import photonet, winograd
from dipp.models.evidence import Evidence

warnings.simplefilter("ignore")  # of threads and forks: that is what is tested
winograd.features = lambda: {"avx2", "fma"}
photonet.LARGE_PIXELS = 1
torch.set_num_threads(2)
denoiser, y = dipp.models.load(sys.argv[1]), torch.zeros(1, 3, 150, 150)
expected = denoiser.predict(Evidence(y, 1.0))
if child := os.fork():
    again = denoiser.predict(Evidence(y, 1.0))
    sys.exit(os.waitpid(child, 0)[1] or not torch.equal(again, expected))
torch.set_num_threads(1)  # PyTorch's own threads do not come along
assert torch.equal(denoiser.predict(Evidence(y, 1.0)), expected)
"""


@pytest.mark.slow
def test_a_forked_process_predicts_the_same(folder: Path) -> None:
    subprocess.run([sys.executable, "-c", FORKS, str(folder)], check=True, timeout=120)  # noqa: S603
