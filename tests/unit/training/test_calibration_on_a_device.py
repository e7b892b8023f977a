"""Calibration and words on a GPU: predictions on the device and pictures on the host meet as arrays of one library."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.devices import DeviceBackend, moved
from helpers.questions import BlurringDenoiser
from helpers.sensing import WienerDenoiser, waves

from dipp import scoring
from dipp.core.units import Cells
from dipp.models.denoiser import Denoiser
from dipp.planning.questions import Recipe, step_of
from dipp.planning.table import ErrorTable
from dipp.training import calibrate, sensing
from dipp.training.asking import AskedPictures

SIDE = 8

pytestmark = pytest.mark.usefixtures("one_thread", "device")
CPU = scoring.backend("cpu")


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "backend", lambda name="cpu": DeviceBackend() if name == "cuda" else CPU)
    monkeypatch.setattr(sensing, "TILTS", {1.0: 1})
    monkeypatch.setattr(calibrate, "EPSILONS", (4.0,))
    monkeypatch.setattr(calibrate, "ROUNDS", 1)


def table(denoiser: Denoiser) -> ErrorTable:
    return calibrate.calibrate(denoiser, waves(4, SIDE, seed=1), {}, others=[waves(4, SIDE, seed=2)])


def test_a_denoiser_on_a_device_is_calibrated() -> None:
    """The errors on exact states are those on the CPU; those on coded chains depend on private random bits."""
    found, expected = table(moved(WienerDenoiser(SIDE))), table(WienerDenoiser(SIDE))
    np.testing.assert_allclose(found.mse(1.0), expected.mse(1.0), rtol=0.2)
    assert found.residuals is not None
    assert expected.residuals is not None
    np.testing.assert_allclose(found.residuals.quantiles[0], expected.residuals.quantiles[0], rtol=1e-6)


def test_pictures_are_asked_on_a_device() -> None:
    errors = []
    for denoiser in (moved(BlurringDenoiser(size=16)), BlurringDenoiser(size=16)):
        asked = AskedPictures(denoiser, Cells(8), waves(4, 16, seed=1))
        asked.ask(step_of(Recipe(4, rounds=4), 40.0))
        asked.ask(step_of(Recipe(4), 40.0))
        errors.append(asked.error(asked.steps[-1]))
    assert errors[0] == pytest.approx(errors[1], rel=0.3)
