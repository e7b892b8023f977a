"""Test tables of a denoiser's errors: their statistics, their file, and how they are measured."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.refusals import refused
from numpy.typing import NDArray

from dipp.core.channels import Channel, Gaussian, Laplace, Sign
from dipp.errors import DippError
from dipp.models.diffusion import NoiseSchedule
from dipp.planning.table import FILE_NAME, SLICES, ErrorTable, grid, measure
from experiments.comparisons.channels import Huber, Logistic

Floats = NDArray[np.float64]

SEED = bytes(range(16))
SCHEDULE = NoiseSchedule(np.cumprod(1 - np.linspace(1e-4, 0.02, 1000), dtype=np.float64))
CHANNELS: list[Channel] = [Laplace(), Gaussian(), Logistic(), Huber(1.0), Sign(1), Sign(3), Sign(8)]


def table(schedule: NoiseSchedule = SCHEDULE, points: int = 48, slices: int = 64) -> ErrorTable:
    """Return a table of exponential sizes of errors, whose mean square falls with the SNR."""
    timesteps = grid(schedule, points)
    snrs = np.array([schedule.snr(t) for t in timesteps])
    quantiles = -np.log1p(-(np.arange(slices) + 0.5) / slices)
    scale = np.sqrt(0.25 / (1 + 8 * np.sqrt(snrs)) / np.square(quantiles).mean())
    return ErrorTable(np.array(timesteps), snrs, np.minimum(scale[:, None] * quantiles, 2.0))


TABLE = table()


def test_grid_is_even_in_log_snr() -> None:
    timesteps = grid(SCHEDULE)
    assert timesteps[0] == 999
    assert timesteps[-1] == 0
    assert 40 <= len(timesteps) <= 48
    gaps = np.diff(np.log([SCHEDULE.snr(t) for t in timesteps]))
    assert gaps.max() < 2.1 * np.median(gaps)
    assert grid(NoiseSchedule(np.array([0.9, 0.5, 0.1])), 48) == (2, 1, 0)


def test_mse_is_exact_at_rows_and_interpolated_between_them() -> None:
    exact = np.square(TABLE.quantiles).mean(axis=1)
    assert TABLE.mse(TABLE.snrs) == pytest.approx(exact, rel=1e-12)
    middle = math.sqrt(TABLE.snrs[7] * TABLE.snrs[8])
    assert float(TABLE.mse(middle)) == pytest.approx(math.sqrt(exact[7] * exact[8]), rel=1e-12)
    assert float(TABLE.mse(TABLE.snrs[0] / 10)) == pytest.approx(exact[0], rel=1e-12)
    assert float(TABLE.psnr(TABLE.snrs[20])) == pytest.approx(10 * math.log10(4 / exact[20]), rel=1e-12)


def kl_bits(table: ErrorTable, channel: Channel, snr: float, gains: Floats, chains: str | None = None) -> Floats:
    return table.kl_matrix(channel, np.array([snr]), gains[None], chains).reshape(-1)


@pytest.mark.parametrize("channel", CHANNELS, ids=repr)
def test_kl_is_the_mean_over_the_errors(channel: Channel) -> None:
    gains = np.geomspace(1e-5, 1e3, 37)
    for row in (0, 11, 30, len(TABLE.snrs) - 1):
        exact = [channel.kl(TABLE.quantiles[row] * math.sqrt(gain)).mean() for gain in gains]
        assert kl_bits(TABLE, channel, TABLE.snrs[row], gains) == pytest.approx(np.array(exact), rel=4e-3, abs=1e-9)


def test_kl_between_two_rows_lies_between_them() -> None:
    low, high, middle = TABLE.snrs[10], TABLE.snrs[11], math.sqrt(TABLE.snrs[10] * TABLE.snrs[11])
    at = [kl_bits(TABLE, Laplace(), snr, np.array([0.5]))[0] for snr in (low, middle, high)]
    assert at[0] > at[1] > at[2]
    assert at[1] == pytest.approx(math.sqrt(at[0] * at[2]), rel=1e-9)


def test_inflation_scales_the_errors() -> None:
    inflated = TABLE.with_inflation("sharp", np.array([1e-3, 1.0]), np.array([1.2, 1.8]))
    snr = TABLE.snrs[15]
    factor = float(inflated.mse(snr, "sharp") / TABLE.mse(snr))
    assert 1.2 < factor < 1.8
    assert inflated.mse(snr) == TABLE.mse(snr)
    assert inflated.mse(snr, "paper") == TABLE.mse(snr)
    assert float(inflated.mse(1e-5, "sharp") / TABLE.mse(1e-5)) == pytest.approx(1.2)
    gains = np.geomspace(1e-3, 10, 9)
    more = kl_bits(TABLE, Sign(3), snr, gains * factor)
    assert kl_bits(inflated, Sign(3), snr, gains, "sharp") == pytest.approx(more, rel=2e-3)
    assert not TABLE.inflation


@pytest.mark.parametrize("period", [1, 3, 8])
@pytest.mark.parametrize("loss", [0.003, 0.03, 0.3])
def test_unsaturated_gains_lose_the_allowed_fraction(period: int, loss: float) -> None:
    gains = TABLE.unsaturated_gains(Sign(period), TABLE.snrs, loss)
    for errors, gain in zip(TABLE.quantiles, gains, strict=True):
        theta = math.sqrt(period * gain) * errors
        # The mean that the tilted coins deliver, √P·tanh θ, against the wanted √P·θ.
        lost = (
            np.square(math.sqrt(period) * (theta - np.tanh(theta))).sum() / np.square(math.sqrt(period) * theta).sum()
        )
        assert lost == pytest.approx(loss, rel=0.03)


def test_other_channels_do_not_saturate() -> None:
    assert np.isinf(TABLE.unsaturated_gains(Laplace(), TABLE.snrs, 0.03)).all()


def test_a_table_survives_a_file(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    full = ErrorTable(
        TABLE.timesteps,
        TABLE.snrs,
        TABLE.quantiles,
        {"sharp": np.linspace(1, 1.5, len(TABLE.snrs))},
        provenance={"data": "public", "images": 3, "command": "dipp calibrate"},
    )
    full.save(path)
    loaded = ErrorTable.load(path)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    assert path.stat().st_size < 40_000
    assert (loaded.timesteps == full.timesteps).all()
    assert (loaded.snrs == full.snrs).all()
    assert loaded.quantiles == pytest.approx(full.quantiles, rel=1e-4)
    assert loaded.inflation["sharp"] == pytest.approx(full.inflation["sharp"], rel=1e-4)
    assert dict(loaded.provenance) == dict(full.provenance)
    loaded.save(path.with_name("again.json"))
    assert path.with_name("again.json").read_bytes() == path.read_bytes()
    loaded.require(SCHEDULE)


def _content() -> dict[str, Any]:
    return {
        "version": 1,
        "timesteps": [2, 1, 0],
        "snrs": [0.1, 1.0, 10.0],
        "quantiles": [[0.1, 0.2]] * 3,
        "inflation": {},
        "provenance": {},
    }


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"version": None},
        {"timesteps": [0, 1, 2]},
        {"timesteps": [2, 1, -1]},
        {"timesteps": "none"},
        {"timesteps": [1e400, 1, 0]},
        {"snrs": [0.1, 1.0]},
        {"snrs": [10.0, 1.0, 0.1]},
        {"snrs": [0.0, 1.0, 2.0]},
        {"snrs": [0.1, 1.0, float("nan")]},
        {"quantiles": [[0.1, 0.2]] * 2},
        {"quantiles": [[0.1, 0.2], [0.1], [0.1, 0.2]]},
        {"quantiles": [[0.1, -0.2]] * 3},
        {"quantiles": [[0.0, 0.0]] * 3},
        {"quantiles": [["a", "b"]] * 3},
        {"quantiles": [[], [], []]},
        {"inflation": {"sharp": [1.0]}},
        {"inflation": {"sharp": [1.0, 0.0, 1.0]}},
        {"inflation": []},
        {"provenance": 7},
    ],
)
def test_bad_files_are_refused_in_one_line(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "calibration.json"
    path.write_text(json.dumps(_content()), encoding="utf-8")
    assert ErrorTable.load(path).quantiles.shape == (3, 2)
    path.write_text(json.dumps(_content() | change), encoding="utf-8")
    with pytest.raises(DippError) as error:
        ErrorTable.load(path)
    assert error.value.argument.startswith("calibration.json")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("missing", ["timesteps", "snrs", "quantiles", "inflation", "provenance", "version"])
def test_a_file_with_missing_numbers_is_refused(tmp_path: Path, missing: str) -> None:
    path = tmp_path / "calibration.json"
    path.write_text(json.dumps({key: value for key, value in _content().items() if key != missing}), encoding="utf-8")
    with pytest.raises(DippError):
        ErrorTable.load(path)


def test_missing_files_and_invalid_json_are_refused(tmp_path: Path) -> None:
    with refused("absent.json", "cannot"):
        ErrorTable.load(tmp_path / "absent.json")
    for content in (b"{", b"[]", b"\xff\xfe", b"[" * 100_000):
        (tmp_path / "bad.json").write_bytes(content)
        with refused("bad.json", remedy="dipp calibrate"):
            ErrorTable.load(tmp_path / "bad.json")


def test_a_table_belongs_to_its_schedule() -> None:
    other = NoiseSchedule(np.cumprod(1 - np.linspace(1e-4, 0.03, 1000), dtype=np.float64))
    for schedule in (other, NoiseSchedule(SCHEDULE.alphas_cumprod[:500])):
        with refused("calibration", "schedule"):
            TABLE.require(schedule)


def test_bad_inflation_is_refused() -> None:
    for snrs, factors in (([1.0, 0.1], [1, 1]), ([1.0], [1, 1]), ([], []), ([1.0], [0]), ([1.0], [math.inf])):
        with pytest.raises(DippError):
            TABLE.with_inflation("sharp", np.array(snrs), np.array(factors))


SMALL = NoiseSchedule(np.linspace(0.98, 0.02, 12))


def shrink(x_t: Any, t: int) -> Any:
    """Return the best linear estimate of x0 with variance ⅓ from x_t."""
    gamma, sigma = SMALL.gamma(t), SMALL.sigma(t)
    return x_t * (gamma / 3 / (gamma**2 / 3 + sigma**2))


def images(count: int = 40) -> NDArray[np.float32]:
    return np.random.default_rng(5).uniform(-1, 1, (count, 3, 16, 16)).astype(np.float32)


def test_measured_errors_are_those_of_the_denoiser() -> None:
    """For linear shrinkage of uniform data, the error variance is (1/3)/(1 + SNR/3)."""
    measured = measure(shrink, SMALL, images(), SEED, provenance={"data": "uniform"})
    assert measured.quantiles.shape == (12, SLICES)
    assert (np.diff(measured.quantiles, axis=1) >= 0).all()
    assert measured.mse(measured.snrs) == pytest.approx((1 / 3) / (1 + measured.snrs / 3), rel=0.03)
    assert dict(measured.provenance) == {"images": 40, "data": "uniform"}
    again = measure(shrink, SMALL, images(), SEED, timesteps=[3, 9])
    assert again.timesteps.tolist() == [9, 3]
    assert (again.quantiles == measured.quantiles[[2, 8]]).all()
    other = measure(shrink, SMALL, images(), bytes(16), timesteps=[3, 9])
    assert (again.quantiles != other.quantiles).any()


def test_torch_images_give_the_same_table() -> None:
    import torch

    arrays = measure(shrink, SMALL, images(4), SEED)
    tensors = measure(shrink, SMALL, torch.tensor(images(4)), SEED)
    assert tensors.quantiles == pytest.approx(arrays.quantiles, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("bad", [images()[0], images() * 1.1, images() * np.nan, images()[:0], images()[:1, :, :2, :2]])
def test_bad_images_are_refused(bad: NDArray[np.float32]) -> None:
    with refused("images"):
        measure(shrink, SMALL, bad, SEED)
