"""The diffusion's mathematics, checked by quadrature, exact arithmetic, diffusers' own schedulers and known laws.

Statistical tests state their threshold for a false alarm of 1e-7 each on correct code; all together stay below 1e-6.
"""

from __future__ import annotations

import itertools
import math
import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import DDIMScheduler, DDPMScheduler
from helpers.refusals import refused
from numpy.typing import NDArray
from scipy import optimize, special, stats  # type: ignore[import-untyped,unused-ignore]

from dipp.core import randomness
from dipp.errors import DippError
from dipp.models import betas, diffusion, samplers
from dipp.models.diffusion import NoiseSchedule

Floats = NDArray[np.float64]

LINEAR = {"num_train_timesteps": 1000, "beta_schedule": "linear", "beta_start": 1e-4, "beta_end": 0.02}
SCALED = {"num_train_timesteps": 1000, "beta_schedule": "scaled_linear", "beta_start": 8.5e-4, "beta_end": 0.012}
COSINE = {"num_train_timesteps": 1000, "beta_schedule": "squaredcos_cap_v2"}
TRAINED = {"num_train_timesteps": 5, "trained_betas": [0.01, 0.02, 0.1, 0.3, 0.2]}
CONFIGS = {"linear": LINEAR, "scaled": SCALED, "cosine": COSINE, "trained": TRAINED}
Z_1E_7 = 5.33
"""Two-sided normal quantile of 1e-7."""
KS_1E_7 = 2.90
"""√(ln(2/1e-7)/2): the Kolmogorov-Smirnov distance times √n exceeds it with probability below 1e-7."""


@pytest.fixture(scope="module")
def linear() -> NoiseSchedule:
    return NoiseSchedule.from_config(LINEAR)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("scheduler", [DDPMScheduler, DDIMScheduler])
def test_the_schedule_equals_that_of_diffusers(name: str, scheduler: Any) -> None:
    schedule = NoiseSchedule.from_config(CONFIGS[name])
    theirs = scheduler(**CONFIGS[name]).alphas_cumprod.numpy().astype(np.float64)
    ours = schedule.alphas_cumprod
    assert len(schedule) == len(theirs)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    snrs = np.array([schedule.snr(t) for t in range(len(schedule))])
    # Theirs are rounded to float32, which hurts where 1 − ᾱ is small.
    assert (np.abs(snrs * (1 - theirs) / theirs - 1) < 1e-4 + 2e-7 / (1 - theirs)).all()


def test_linear_and_scaled_products_are_right_in_exact_arithmetic() -> None:
    for kind in ("linear", "scaled_linear"):
        config = {"num_train_timesteps": 60, "beta_schedule": kind, "beta_start": 1e-3, "beta_end": 0.3}
        ends = [Fraction(v) for v in ((1e-3, 0.3) if kind == "linear" else (math.sqrt(1e-3), math.sqrt(0.3)))]
        product, expected = Fraction(1), []
        for i in range(60):
            value = ends[0] + (ends[1] - ends[0]) * Fraction(i, 59)
            product *= 1 - (value if kind == "linear" else value**2)
            expected.append(float(product))
        np.testing.assert_allclose(NoiseSchedule.from_config(config).alphas_cumprod, expected, rtol=1e-13)


def test_cosine_is_its_closed_form_where_no_beta_is_capped() -> None:
    schedule = NoiseSchedule.from_config(COSINE)
    u = np.arange(1, 1000) / 1000
    closed = np.cos((u + 0.008) / 1.008 * math.pi / 2) ** 2 / math.cos(0.008 / 1.008 * math.pi / 2) ** 2
    np.testing.assert_allclose(schedule.alphas_cumprod[:-1], closed, rtol=1e-10)
    assert schedule.alphas_cumprod[-1] == pytest.approx(closed[-1] * 0.001, rel=1e-9)


@pytest.mark.parametrize("name", CONFIGS)
def test_state_keeps_unit_variance(name: str) -> None:
    schedule = NoiseSchedule.from_config(CONFIGS[name])
    for t in (0, len(schedule) // 2, len(schedule) - 1):
        assert schedule.gamma(t) ** 2 + schedule.sigma(t) ** 2 == pytest.approx(1, abs=1e-15)
        assert schedule.snr(t) == pytest.approx((schedule.gamma(t) / schedule.sigma(t)) ** 2, rel=1e-12)


def posterior_by_quadrature(betas: Floats, t: int, s: int, x_t: float, x0: float) -> tuple[float, float]:
    """Return mean and deviation of x_s given x_t and x0, by the forward chain x_k = √(1−β_k)·x_{k−1} + √β_k·η."""

    def push(gain: float, variance: float, chain: Floats) -> tuple[float, float]:
        for beta in chain:
            gain, variance = gain * math.sqrt(1 - beta), variance * (1 - beta) + beta
        return gain, variance

    gain_s, variance_s = push(1.0, 0.0, betas[: s + 1])
    gain_ts, variance_ts = push(1.0, 0.0, betas[s + 1 : t + 1])

    def log_joint(x: Floats) -> Floats:
        prior, likelihood = (x - gain_s * x0) ** 2 / variance_s, (x_t - gain_ts * x) ** 2 / variance_ts
        return -(prior + likelihood) / 2

    peak = optimize.minimize_scalar(lambda x: -log_joint(np.array(x)), bracket=(-2, 2), options={"xtol": 1e-12}).x
    width = 12 * min(math.sqrt(variance_s), math.sqrt(variance_ts) / gain_ts)
    grid = peak + np.linspace(-width, width, 20001)
    weights = np.exp(log_joint(grid) - log_joint(np.array(peak)))
    mean = float((weights * grid).sum() / weights.sum())
    return mean, math.sqrt(float((weights * (grid - mean) ** 2).sum() / weights.sum()))


@pytest.mark.parametrize("name", ["linear", "scaled", "trained"])
@pytest.mark.parametrize(("share_t", "share_s"), [(1.0, 0.6), (0.6, 0.4), (0.6, 0.599), (0.2, 0.0), (1.0, 0.0)])
@pytest.mark.parametrize(("x_t", "x0"), [(0.3, -0.8), (-1.7, 1.0)])
def test_posterior_is_that_of_the_forward_chain(
    name: str, share_t: float, share_s: float, x_t: float, x0: float
) -> None:
    config = CONFIGS[name]
    schedule = NoiseSchedule.from_config(config)
    last = len(schedule) - 1
    t = round(share_t * last)
    s = min(round(share_s * last), t - 1)
    diffusers: Any = DDPMScheduler
    betas = diffusers(**config).betas.double().numpy()
    mean, deviation = posterior_by_quadrature(betas, t, s, x_t, x0)
    step = schedule.step(t, s)
    # Betas rounded to float32 leave 1e-7 of doubt.
    assert step.mean(np.array(x_t), np.array(x0)) == pytest.approx(mean, abs=2e-6)
    assert step.sigma == pytest.approx(deviation, rel=2e-6)


@pytest.mark.parametrize("name", CONFIGS)
def test_shift_between_the_means_is_the_root_of_the_snr_gain(name: str) -> None:
    schedule = NoiseSchedule.from_config(CONFIGS[name])
    last = len(schedule) - 1
    x_t, x0, x_hat = np.array(0.4), np.array(0.9), np.array(-0.3)
    for t, s in [(last, last - 1), (last, 0), (last // 2, last // 4), (1, 0)]:
        step = schedule.step(t, s)
        shift = (step.mean(x_t, x0) - step.mean(x_t, x_hat)) / step.sigma
        gain = schedule.gamma(s) ** 2 / schedule.sigma(s) ** 2 - schedule.gamma(t) ** 2 / schedule.sigma(t) ** 2
        assert shift == pytest.approx(1.2 * math.sqrt(gain), rel=1e-9)
        assert step.snr_gain == pytest.approx(gain, rel=1e-9)


def test_two_steps_with_one_prediction_equal_one_step(linear: NoiseSchedule) -> None:
    first, second, whole = linear.step(900, 500), linear.step(500, 120), linear.step(900, 120)
    x_t, x0 = np.array([1.3, -0.2]), np.array([0.5, -1.0])
    np.testing.assert_allclose(second.mean(first.mean(x_t, x0), x0), whole.mean(x_t, x0), rtol=1e-12)
    variance = (second.state_weight * first.sigma) ** 2 + second.sigma**2
    assert variance == pytest.approx(whole.sigma**2, rel=1e-12)
    assert first.snr_gain + second.snr_gain == pytest.approx(whole.snr_gain, rel=1e-12)


def test_next_state_adds_scaled_noise_and_keeps_the_precision(linear: NoiseSchedule) -> None:
    step = linear.step(700, 300)
    x_t, x_hat, z = (np.array([v], np.float32) for v in (0.5, -0.25, 2.0))
    state = step.next_state(x_t, x_hat, z)
    assert state.dtype == np.float32
    assert state[0] == pytest.approx(step.data_weight * -0.25 + step.state_weight * 0.5 + step.sigma * 2, rel=1e-6)
    tensor = step.next_state(*(torch.from_numpy(v) for v in (x_t, x_hat, z)))
    assert tensor.dtype == torch.float32
    assert tensor.item() == pytest.approx(state[0], rel=1e-6)


@pytest.mark.parametrize("prediction", diffusion.PREDICTIONS)
@pytest.mark.parametrize("t", [0, 300, 999])
def test_every_prediction_type_gives_back_the_image(prediction: str, t: int) -> None:
    schedule = NoiseSchedule.from_config({**LINEAR, "prediction_type": prediction})
    rng = np.random.default_rng(1)
    x0, eta = rng.uniform(-1, 1, 50), rng.normal(size=50)
    gamma = math.sqrt(schedule.alphas_cumprod[t])
    sigma = math.sqrt(1 - schedule.alphas_cumprod[t])
    x_t = schedule.noised(x0, eta, t)
    np.testing.assert_allclose(x_t, gamma * x0 + sigma * eta, rtol=1e-15)
    output = {"epsilon": eta, "v_prediction": gamma * eta - sigma * x0, "sample": x0}[prediction]
    np.testing.assert_allclose(schedule.x0(output, x_t, t), x0, atol=1e-11)
    as_tensor = schedule.x0(torch.from_numpy(output), torch.from_numpy(x_t), t)
    np.testing.assert_allclose(as_tensor.numpy(), x0, atol=1e-11)


@pytest.mark.parametrize("prediction", diffusion.PREDICTIONS)
def test_prediction_is_clamped(prediction: str) -> None:
    schedule = NoiseSchedule.from_config({**LINEAR, "prediction_type": prediction})
    x = schedule.x0(np.array([-40.0, 40.0]), np.zeros(2), 500)
    assert sorted(x) == [-1, 1]


def test_nearest_timesteps_and_grids_of_timesteps(linear: NoiseSchedule) -> None:
    assert [linear.nearest(linear.snr(t)) for t in (0, 1, 500, 999)] == [0, 1, 500, 999]
    assert linear.nearest(1e9) == 0
    for t, calls in [(999, 20), (999, 1), (400, 7), (30, 20), (19, 20), (3, 20), (0, 20)]:
        grid = linear.grid(t, calls)
        assert len(grid) <= calls
        assert grid[0] == t
        assert all(after < before for before, after in itertools.pairwise(grid))
        assert grid[-1] == (t if calls == 1 else 0)
    strides = np.diff([math.log(linear.snr(t)) for t in linear.grid(999, 20)])
    assert len(strides) == 19
    assert strides[0] > math.log(diffusion.LEAST_SNR / linear.snr(999))
    np.testing.assert_allclose(strides[1:], strides[1:].mean(), rtol=0.3)  # whole timesteps are coarse near 0


REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "no timesteps": ({"beta_schedule": "linear"}, "num_train_timesteps"),
    "one timestep": ({**LINEAR, "num_train_timesteps": 1}, "num_train_timesteps"),
    "too many timesteps": ({**LINEAR, "num_train_timesteps": (1 << 16) + 1}, "num_train_timesteps"),
    "no schedule": ({"num_train_timesteps": 10}, "beta_schedule"),
    "sigmoid": ({**LINEAR, "beta_schedule": "sigmoid"}, "beta_schedule"),
    "no betas": ({"num_train_timesteps": 10, "beta_schedule": "linear"}, "beta_start and beta_end"),
    "negative beta": ({**LINEAR, "beta_start": -0.1}, "beta_start and beta_end"),
    "beta of one": ({"trained_betas": [0.1, 1.0]}, "scheduler config"),
    "betas that are a number": ({"trained_betas": 5}, "trained_betas"),
    "betas that are words": ({"trained_betas": ["a", "b"]}, "trained_betas"),
    "too few betas": ({**TRAINED, "num_train_timesteps": 6}, "trained_betas"),
    "beta of zero": ({"trained_betas": [0.1, 0.0]}, "scheduler config"),
    "NaN": ({"trained_betas": [0.1, math.nan]}, "scheduler config"),
    "flow": ({**LINEAR, "prediction_type": "flow_prediction"}, "prediction_type"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_bad_config_is_refused_in_one_line(case: str) -> None:
    config, argument = REFUSALS[case]
    with refused(argument):
        NoiseSchedule.from_config(config)


@pytest.mark.parametrize("kind", betas.BETA_SCHEDULES)
def test_a_config_of_endless_timesteps_takes_no_memory(kind: str) -> None:
    """A config of 10⁹ timesteps, which would take 7 GB, is refused before memory is allocated."""
    tracemalloc.start()
    try:
        with refused("num_train_timesteps"):
            NoiseSchedule.from_config({**LINEAR, "beta_schedule": kind, "num_train_timesteps": 10**9})
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_bad_timesteps_are_refused(linear: NoiseSchedule) -> None:
    calls: list[Callable[[], object]] = [
        lambda: linear.step(5, 5),
        lambda: linear.step(5, 6),
        lambda: linear.step(5, -1),
        lambda: linear.snr(1000),
        lambda: linear.gamma(-1),
        lambda: linear.grid(1000, 5),
        lambda: linear.grid(10, 0),
        lambda: linear.nearest(0.0),
        lambda: NoiseSchedule(np.array([0.9, 0.0])),
        lambda: NoiseSchedule(np.array([1.0, 0.5])),
        lambda: NoiseSchedule(np.array([0.5, 0.5])),
        lambda: NoiseSchedule(np.array([0.5])),
    ]
    for call in calls:
        with pytest.raises(DippError):
            call()


def test_schedule_cannot_be_changed(linear: NoiseSchedule) -> None:
    with pytest.raises(ValueError, match="read-only"):
        linear.alphas_cumprod[0] = 0.5


def test_start_is_public_normal_noise() -> None:
    seed = bytes(range(16))
    x = diffusion.start(seed, (3, 64, 64))
    assert x.dtype == np.float32
    uniforms = randomness.uniforms(randomness.stream(seed, 0, 0, "start"), 5)
    expected = [NormalDist().inv_cdf(float(u)) for u in uniforms]
    np.testing.assert_allclose(x.reshape(-1)[:5], expected, rtol=1e-5)
    np.testing.assert_array_equal(x, diffusion.start(seed, (3, 64, 64)))
    assert np.abs(x - diffusion.start(bytes(16), (3, 64, 64))).max() > 1
    assert stats.kstest(x.reshape(-1), "norm").statistic * math.sqrt(x.size) < KS_1E_7


MEAN, DEVIATION = 0.2, 0.25


def gaussian_denoiser(schedule: NoiseSchedule) -> Callable[[Floats, int], Floats]:
    """Return E[x0 | x_t] for x0 ~ N(MEAN, DEVIATION²)."""

    def denoise(x_t: Floats, t: int) -> Floats:
        gamma, sigma, variance = schedule.gamma(t), schedule.sigma(t), DEVIATION**2
        gain = gamma * variance / (gamma**2 * variance + sigma**2)
        return MEAN + gain * (x_t - gamma * MEAN)

    return denoise


@pytest.mark.parametrize("name", ["linear", "cosine"])
@pytest.mark.parametrize("share", [1.0, 0.4])
def test_ancestral_sampling_reproduces_a_gaussian_law(name: str, share: float) -> None:
    """The bias of the discrete chain, which leaves out the variance of x0 given x_t, is below 1 % of the variance."""
    schedule = NoiseSchedule.from_config(CONFIGS[name])
    t, count = round(share * (len(schedule) - 1)), 20000
    rng = np.random.default_rng(2)
    x_t = schedule.noised(MEAN + DEVIATION * rng.normal(size=count), rng.normal(size=count), t)
    exact = gaussian_denoiser(schedule)
    called: list[int] = []
    asked: list[int] = []

    def denoise(x_t: Floats, t: int) -> Floats:
        called.append(t)
        return exact(x_t, t)

    def noise(s: int) -> Floats:
        asked.append(s)
        return rng.normal(size=count)

    x = samplers.ancestral(denoise, schedule, x_t, t, noise)
    assert called == list(range(t, -1, -1))
    assert asked == list(range(t - 1, -1, -1))
    assert abs(x.mean() - MEAN) < DEVIATION * Z_1E_7 / math.sqrt(count)
    assert abs(x.var() / DEVIATION**2 - 1) < 0.01 + Z_1E_7 * math.sqrt(2 / count)
    distance = stats.kstest(x, stats.norm(MEAN, DEVIATION).cdf).statistic
    assert distance < 0.003 + KS_1E_7 / math.sqrt(count)


@pytest.mark.parametrize("name", ["linear", "scaled", "cosine"])
@pytest.mark.parametrize("share", [1.0, 0.6, 0.2])
def test_fast_sampling_follows_the_exact_flow_of_a_gaussian_law(name: str, share: float) -> None:
    """The flow maps quantiles to quantiles. There is no randomness, and so no false alarm."""
    schedule = NoiseSchedule.from_config(CONFIGS[name])
    t = round(share * (len(schedule) - 1))
    exact = gaussian_denoiser(schedule)
    called: list[int] = []

    def denoise(x_t: Floats, t: int) -> Floats:
        called.append(t)
        return exact(x_t, t)

    quantile = np.linspace(-3, 3, 13)
    spread = math.hypot(schedule.gamma(t) * DEVIATION, schedule.sigma(t))
    x = samplers.fast(denoise, schedule, schedule.gamma(t) * MEAN + spread * quantile, t, 20)
    assert len(called) <= 20
    assert np.abs((x - MEAN) / DEVIATION - quantile).max() < 0.05


def mixture_flow_error(calls: int, first_order: bool = False) -> float:
    """Return the largest error of the fast sampler on ½N(−½, 0.1²) + ½N(½, 0.1²), with the flow F_0^−1(F_t(x_t))."""
    schedule = NoiseSchedule.from_config(LINEAR)
    width, t = 0.1, 700
    place = np.array([-0.5, 0.5])

    def cdf(x: Floats, t: int) -> Floats:
        scale = math.hypot(schedule.gamma(t) * width, schedule.sigma(t))
        return np.asarray(special.ndtr((x[:, None] - schedule.gamma(t) * place) / scale).mean(axis=1), np.float64)

    def denoise(x_t: Floats, t: int) -> Floats:
        gamma, variance = schedule.gamma(t), (schedule.gamma(t) * width) ** 2 + schedule.sigma(t) ** 2
        residual = x_t[:, None] - gamma * place
        share = special.softmax(-(residual**2) / (2 * variance), axis=1)
        return np.asarray((share * (place + gamma * width**2 / variance * residual)).sum(axis=1), np.float64)

    x_t = np.linspace(-2.5, 2.5, 41)
    if first_order:
        x = x_t
        for before, after in itertools.pairwise(schedule.grid(t, calls)):
            x_hat = denoise(x, before)
            eta = (x - schedule.gamma(before) * x_hat) / schedule.sigma(before)
            x = schedule.noised(x_hat, eta, after)
        x = denoise(x, 0)
    else:
        x = samplers.fast(denoise, schedule, x_t, t, calls)
    return float(np.abs(cdf(x, 0) - cdf(x_t, t)).max())


def test_fast_sampling_is_of_second_order_on_a_law_that_is_not_gaussian() -> None:
    errors = {calls: mixture_flow_error(calls) for calls in (10, 20, 40)}
    assert errors[20] < 0.02
    assert errors[20] < errors[10] / 2
    assert errors[40] < errors[20] / 2.5
    assert errors[20] < mixture_flow_error(20, first_order=True) / 2


def test_samplers_run_on_tensors_and_end_at_once_at_timestep_zero(linear: NoiseSchedule) -> None:
    x_t = torch.full((2, 3), 0.3)
    half: Callable[[torch.Tensor, int], torch.Tensor] = lambda x, t: x / 2  # noqa: E731, ARG005
    assert torch.equal(samplers.fast(half, linear, x_t, 0, 20), x_t / 2)
    assert torch.equal(samplers.ancestral(half, linear, x_t, 0, torch.zeros), x_t / 2)
    assert samplers.fast(half, linear, x_t, 50, 20).dtype == torch.float32
