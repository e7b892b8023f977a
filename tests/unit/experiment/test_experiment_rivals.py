"""The rivals: unbiased, of the power that they state, within their ε; and the real loss of a pixel in LDP-Slicing."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from helpers.scripts import benchmark
from helpers.statistics import bounded
from hypothesis import given
from hypothesis import strategies as st

from dipp.models.denoiser import Numbers
from dipp.models.evidence import Evidence
from experiments.cifar10 import rivals
from experiments.cifar10.rivals import RIVALS, Cube, Noise, OneBit, OneChannel, Rival
from experiments.cifar10.slicing import Slicing, worst_loss

COUNT = 400
"""Pictures of 16×16 that are drawn: 307,200 values."""


def level(value: int, count: int = COUNT) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.full((count, 16, 16, 3), value, np.uint8)


def drawn(rival: Rival, pixels: np.ndarray[Any, np.dtype[np.uint8]]) -> rivals.Signal:
    return np.concatenate(list(rival.release(pixels, "a name")))


@pytest.mark.parametrize("kind", RIVALS.values())
@pytest.mark.parametrize("value", [0, 128, 230])
def test_what_is_released_is_unbiased(kind: type[Rival], value: int) -> None:
    """The mean of n values has a deviation of at most √((1/SNR + C)/n); 7 of these give false alarms below 1e-11."""
    rival = kind(4.0)
    y = drawn(rival, level(value))
    assert abs(float(y.mean(dtype=np.float64)) - (value / 127.5 - 1)) < 7 * math.sqrt((1 / rival.snr + 3) / y.size)


@pytest.mark.parametrize("kind", RIVALS.values())
def test_the_snr_is_that_of_the_noise_on_grey(kind: type[Rival]) -> None:
    """A mean square of n values, with a fourth moment of at most 6·C times its square: 8 deviations, below 1e-11."""
    rival = kind(3.0)
    y = drawn(rival, np.concatenate([level(127), level(128)]))  # ±0.004, which adds nothing to the power
    assert float(np.square(y, dtype=np.float64).mean()) * rival.snr == pytest.approx(1, abs=8 * math.sqrt(18 / y.size))


def test_one_channel_of_each_pixel_is_released() -> None:
    for kind in (OneChannel, OneBit):
        y = drawn(kind(4.0), level(200, 4))
        assert ((y != 0).sum(axis=3) == 1).all()
        assert ((y != 0).mean(axis=(0, 1, 2)) > 0.2).all()
    values = np.unique(drawn(OneBit(4.0), level(200, 4)))
    assert values == pytest.approx([-3 / math.tanh(2), 0, 3 / math.tanh(2)])


@bounded
@given(st.floats(0.01, 60), st.floats(-1, 1), st.floats(-1, 1))
def test_a_bit_loses_at_most_epsilon(epsilon: float, x: float, other: float) -> None:
    t = math.tanh(epsilon / 2)
    for sign in (-1, 1):
        above, below = (1 + sign * t * x) / 2, (1 + sign * t * other) / 2
        if below > 0:  # tanh rounds to 1 for a large ε
            assert above <= below * math.exp(epsilon * (1 + 1e-6) + 1e-9)


def test_noise_has_the_scale_of_its_epsilon() -> None:
    """b = 2C/ε on all channels and 2/ε on one: a mean square of 2b², times C for the picked channels."""
    assert Noise(5.0).snr == pytest.approx(1 / (2 * (6 / 5.0) ** 2))
    assert OneChannel(5.0).snr == pytest.approx(1 / (2 * (2 / 5.0) ** 2) / 3)
    assert Cube(5.0).snr / Noise(5.0).snr == pytest.approx(2.7)


def test_noise_of_the_cube_falls_with_its_largest_value_alone() -> None:
    """‖n‖∞ ~ Gamma(C, 2/ε) and n/‖n‖∞ uniform on the surface of the cube give the density e^(−ε‖n‖∞/2).

    Of 102,400 pixels, a mean of deviation σ is within 6σ/√102,400 except with a probability of 2e-9, and a share
    within 6·0.5/√102,400.
    """
    epsilon, bound = 5.0, 6 / math.sqrt(COUNT * 256)
    noise = drawn(Cube(epsilon), level(0)).astype(np.float64) + 1
    size = np.abs(noise).max(axis=3)
    scale = 2 / epsilon
    assert size.mean() == pytest.approx(3 * scale, abs=bound * math.sqrt(3) * scale)
    assert np.square(size).mean() == pytest.approx(12 * scale**2, abs=bound * math.sqrt(360 - 144) * scale**2)
    others = np.sort(np.abs(noise), axis=3)[..., :2] / size[..., None]
    assert np.square(others).mean() == pytest.approx(1 / 3, abs=bound * 0.3)
    for channel in range(3):
        assert (np.abs(noise[..., channel]) == size).mean() == pytest.approx(1 / 3, abs=bound * 0.5)
        assert (noise[..., channel] > 0).mean() == pytest.approx(0.5, abs=bound * 0.5)


def test_what_is_stored_is_what_was_released() -> None:
    """Stored is a value for each channel, or one for each pixel, or only bits."""
    y = np.zeros((1, 2, 2, 3), np.float32)
    y[0, 0, 0] = (0, 3 * 0.5, 0)
    assert OneChannel(1.0).stored(y).tolist() == [[[191, 128], [128, 128]]]
    assert Noise(1.0).stored(np.full((1, 1, 1, 3), 7.0, np.float32)).tolist() == [[[[255, 255, 255]]]]
    assert OneBit(1.0).stored(y) is None


def test_a_name_draws_the_same_everywhere_and_another_something_else() -> None:
    pixels = level(90, 2)
    first, again, other = (np.concatenate(list(Noise(2.0).release(pixels, name))) for name in ("a", "a", "b"))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_rivals_are_denoised_at_the_snr_of_the_best_picture() -> None:
    asked: list[float] = []

    def predict(evidence: Evidence, *_: Numbers) -> torch.Tensor:
        asked.append(evidence.level)
        return torch.full_like(evidence.state, 0.0 if abs(asked[-1] - 0.6 * Noise(4.0).snr) < 1e-12 else 0.5)

    denoiser: Any = SimpleNamespace(predict=predict, device=torch.device("cpu"))
    pixels = level(127, 3)
    pictures, facts = rivals.denoised(Noise(4.0), pixels, denoiser, "a")
    assert facts["factor"] == 0.6
    assert facts["snr"] == Noise(4.0).snr
    assert asked[-1] == pytest.approx(0.6 * Noise(4.0).snr)
    assert (pictures == 128).all()


def test_shares_of_bits_go_by_the_roots_of_their_weights() -> None:
    shares = Slicing(6.0).shares
    assert shares.sum() == pytest.approx(6.0)
    assert shares[0] / shares[1] == pytest.approx(np.full(8, 2.0))
    assert shares[:, :-1] / shares[:, 1:] == pytest.approx(np.full((3, 7), math.sqrt(2)))


def test_bits_are_flipped_as_often_as_their_shares_say() -> None:
    """Over 102,400 draws a share has a deviation of at most 0.0016; the bound 0.0125 gives false alarms below 1e-13."""
    slicing, pixels = Slicing(8.0), level(77)
    differ = slicing.privatise(pixels, "a") ^ slicing.planes(pixels)
    rate = np.unpackbits(differ[..., None], axis=-1).reshape(-1, 3, 8).mean(axis=0)
    assert rate == pytest.approx(1 / (1 + np.exp(slicing.shares)), abs=0.0125)


def test_planes_are_luminance_and_colours() -> None:
    colours = np.array([[[[0, 0, 0], [255, 255, 255], [255, 0, 0], [0, 0, 255]]]], np.uint8)
    assert Slicing(1.0).planes(colours).tolist() == [[[[0, 128, 128], [255, 128, 128], [76, 85, 255], [29, 255, 107]]]]


def test_pruning_takes_away_the_mean_of_each_block() -> None:
    pixels = np.random.default_rng(0).integers(100, 140, (2, 4, 4, 3)).astype(np.uint8)
    planes = Slicing(1.0, pruned=True).planes(pixels).astype(np.float64) - 128
    means = planes.reshape(2, 2, 2, 2, 2, 3).mean(axis=(2, 4))
    assert np.abs(means).max() <= 0.5  # up to rounding
    assert np.array_equal(Slicing(1.0, pruned=True).planes(pixels), Slicing(1.0, pruned=True).planes(pixels + 40))


def test_a_pruned_pixel_loses_up_to_four_times_what_is_stated() -> None:
    """The loss is never larger, nearly as large for some pictures, and without pruning exactly what is stated."""
    plain, pruned = Slicing(4.0), Slicing(4.0, pruned=True)
    assert (plain.stated, pruned.stated) == (4.0, 1.0)
    assert 0.9 < worst_loss(plain, 300) <= 1 + 1e-12
    assert 3.4 < worst_loss(pruned, 1500) <= 4
    generator = np.random.default_rng(1)
    for _ in range(50):
        first = generator.integers(0, 256, (4, 4, 3)).astype(np.uint8)
        second = first.copy()
        second[1, 2] = generator.integers(0, 256, 3)
        assert plain.loss(first, second) <= 4 + 1e-9
        assert pruned.loss(first, second) <= 4 + 1e-9


@pytest.fixture
def beyond(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the benchmark of what noise could do beyond the experiment."""
    return benchmark("rivals", monkeypatch)


@pytest.mark.parametrize("kind", RIVALS.values())
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_the_law_of_the_noise_is_of_its_epsilon(beyond: Any, kind: type[Rival], epsilon: float) -> None:
    """For any released value, two values of a pixel differ by at most ε in its logarithm, and some by nearly ε."""
    rival = kind(epsilon)
    y = torch.from_numpy(drawn(rival, level(255, 4))).permute(0, 3, 1, 2)
    x = torch.rand((2, *y.shape), generator=torch.Generator().manual_seed(1)) * 2 - 1
    x[:, :2] = x[:, :2].sign()  # it is reached in the corners of the cube
    first, second = (beyond.log_likelihood(rival, y, part) for part in x)
    loss = (
        (first - second).mean(1) if kind is Cube else (first - second).sum(1)
    )  # the cube's density is of the whole pixel
    assert 0.9 * epsilon < float(loss.abs().max()) <= epsilon * (1 + 1e-5)


@pytest.mark.parametrize("kind", [Noise, OneChannel, OneBit])
def test_what_is_known_after_the_noise_is_the_posterior(beyond: Any, kind: type[Rival]) -> None:
    """Compared with an integral over x; importance sampling errs by its variance, which many pixels average out."""
    rival, generator = kind(4.0), torch.Generator().manual_seed(0)
    y = torch.full((1, 3, 64, 64), 2.4)  # one channel has three times the value
    mean, variance = beyond.posterior(rival, y, torch.full_like(y, 0.2), 0.09, generator)
    x = torch.linspace(-3, 3, 60001, dtype=torch.float64)
    law = beyond.log_likelihood(rival, torch.full_like(x, 2.4), x) - (x - 0.2) ** 2 / (2 * 0.09)
    weight = torch.exp(law - law.max())
    expected = float((weight * x).sum() / weight.sum())
    assert float(mean.mean()) == pytest.approx(expected, abs=3e-3)
    assert abs(expected - 0.2) > 0.01
    spread = float((weight * x.square()).sum() / weight.sum()) - expected**2
    assert variance == pytest.approx(spread, rel=0.02)


def test_bits_of_rounded_values_are_their_entropy(beyond: Any) -> None:
    """Four equally likely values take two bits per channel; with one channel, the others take none."""
    rival = Noise(4.0)
    size = 1 / math.sqrt(rival.snr)
    y = (np.arange(48).reshape(1, 4, 4, 3) % 4 * size + 0.2 * size).astype(np.float32)
    found, bits = beyond.rounded(rival, y, 1.0)
    assert bits == pytest.approx(6)
    assert found == pytest.approx(y - 0.2 * size, abs=1e-5)
    alone = OneChannel(4.0)
    wide = np.where(np.arange(3) == 1, y + math.sqrt(3 / alone.snr), 0).astype(np.float32)
    assert beyond.rounded(alone, wide, 1.0)[1] <= 2
    assert not beyond.rounded(alone, wide, 1.0)[0][..., [0, 2]].any()
