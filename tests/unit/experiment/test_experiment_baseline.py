"""Laplace noise, then compression: the scale of the noise, its certificate in other terms, and the bytes of files."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
from helpers.refusals import refused
from helpers.statistics import bounded
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from scipy import integrate, stats

from experiments.cifar10.baseline import CODECS, LaplaceNoise, file_bytes

GENERATOR_SEED = 5


def grey(count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.full((count, 32, 32, 3), 128, np.uint8)


@bounded
@given(st.floats(0.01, 1000), st.sampled_from([1, 3, 4]))
def test_the_scale_is_255_channels_over_epsilon(epsilon: float, channels: int) -> None:
    assert LaplaceNoise(epsilon, channels).scale == pytest.approx(255 * channels / epsilon, rel=1e-12)


def test_the_noise_has_the_scale() -> None:
    """E|noise| = b = 765/256; the mean of 307,200 values has a deviation of b/√307200 = 0.0054.

    Rounding to whole numbers moves E|noise| by less than 1/(12·b) = 0.028, and 0.04 are 7 deviations: false alarms
    have a probability of 1e-11.
    """
    noisy = LaplaceNoise(256.0).privatise(grey(100), np.random.default_rng(GENERATOR_SEED))
    assert LaplaceNoise(256.0).scale == 765 / 256
    assert abs(np.abs(noisy.astype(np.float64) - 128).mean() - 765 / 256) < 0.04 + 0.028


def test_values_are_clamped() -> None:
    noisy = LaplaceNoise(0.1).privatise(grey(1), np.random.default_rng(GENERATOR_SEED))
    assert noisy.dtype == np.uint8
    assert (noisy == 0).mean() > 0.4
    assert (noisy == 255).mean() > 0.4


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 16.0, 256.0, 1e4])
def test_the_line_is_that_of_least_squares(epsilon: float) -> None:
    """The line is compared with the joint law of clean and released values, one cell at a time."""
    noise, values = LaplaceNoise(epsilon), np.arange(256.0)
    edges = np.concatenate([[-np.inf], values[:-1] + 0.5, [np.inf]])
    law = np.diff(stats.laplace.cdf(edges - values[:, None], scale=noise.scale), axis=1) / 256
    x, y = np.meshgrid(values / 127.5 - 1, values / 127.5 - 1, indexing="ij")
    gain, deviation = noise.line
    assert (law * x * y).sum() / (law * x * x).sum() == pytest.approx(gain, rel=1e-9)
    assert math.sqrt((law * (y - gain * x) ** 2).sum()) == pytest.approx(deviation, rel=1e-6)


@pytest.mark.parametrize("epsilon", [1.0, 16.0, 256.0])
def test_released_values_lie_about_the_line(epsilon: float) -> None:
    """Compared with 400 draws of each value, in units where the clamp is at ±1.

    What is left, r, has no slope over x and the mean square deviation². The slope of n draws has a deviation of
    √(E x²r²/n)/var x, which is at most 3·deviation/√n since x² ≤ 1 and var x ≥ 1/3; the mean square has √(E r⁴/n), at
    most √6·deviation²/√n for a Laplace r, whose tails the clamp only shortens. Bounds of 7 of these have a
    probability below 1e-11.
    """
    gain, deviation = LaplaceNoise(epsilon).line
    x = np.tile(np.arange(256, dtype=np.uint8), 400)
    y = LaplaceNoise(epsilon).privatise(x, np.random.default_rng(GENERATOR_SEED)) / 127.5 - 1
    left = y - gain * (x / 127.5 - 1)
    slope = np.polynomial.Polynomial.fit(x / 127.5 - 1, left, 1, domain=[-1, 1]).coef[1]
    assert abs(slope) < 7 * 3 * deviation / math.sqrt(len(x))
    assert abs(np.square(left).mean() / deviation**2 - 1) < 7 * math.sqrt(6 / len(x))
    assert gain < 1


@pytest.mark.parametrize("epsilon", [0.3, 3.0, 30.0])
def test_rho_bounds_the_divergences_and_is_no_looser_than_it_must_be(epsilon: float) -> None:
    """Compared with Rényi divergences of one channel by numerical integration."""
    e, noise = epsilon / 3, LaplaceNoise(epsilon)

    def divergence(order: float) -> float:
        def integrand(z: float) -> float:
            return math.exp(-order * abs(z) - (1 - order) * abs(z - e)) / 2

        total, _ = integrate.quad(integrand, -60, 60 + e, points=[0, e], limit=400)
        return math.log(total) / (order - 1)

    ratios = [divergence(order) / order for order in (1.001, 1.5, 2.0, 4.0)]
    assert max(ratios) * 3 <= noise.rho * (1 + 1e-6)
    assert noise.rho <= 3 * min(e * e / 2, e) * (1 + 1e-9)
    assert noise.rho <= 3 * max(ratios) * 1.02
    assert noise.approximate(1e-5) <= epsilon


@pytest.mark.parametrize("codec", CODECS)
def test_the_bytes_are_those_of_lossless_files(codec: str) -> None:
    pictures = LaplaceNoise(16.0).privatise(grey(3), np.random.default_rng(GENERATOR_SEED))
    total = file_bytes(pictures, codec)
    files = []
    for picture in pictures:
        buffer = io.BytesIO()
        Image.fromarray(picture).save(buffer, **CODECS[codec])
        assert np.array_equal(np.asarray(Image.open(buffer)), picture)
        files.append(buffer.getvalue())
    assert total == sum(map(len, files))


def test_bad_arguments_are_refused() -> None:
    with refused("epsilon"):
        LaplaceNoise(0.0)
    with refused("codec", "webp"):
        file_bytes(grey(1), "gif")
