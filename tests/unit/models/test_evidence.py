"""Evidence: merging, levels, and that all engines of a network compute the same from all planes."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest
import torch
from helpers.networks import ROUNDING, SMALL, random_network, tiny_denoiser, weights_of
from helpers.refusals import refused
from hypothesis import given
from hypothesis import strategies as st

from dipp import models
from dipp.models import photonet
from dipp.models.config import CHANNELS, LARGEST_SNR, Config
from dipp.models.evidence import EXACT, Evidence, levels
from dipp.models.network import Network, widened
from dipp.models.photonet import PhotoDenoiser
from dipp.models.runtime import Runtime
from dipp.models.winograd_kernels import PANEL
from dipp.models.winograd_network import Winograd

ALL = tuple(CHANNELS)
WIDE = dataclasses.replace(SMALL, planes=ALL)
SNR = st.floats(1e-4, 1e3)


def noisy(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def mixed(*size: int) -> Evidence:
    """Return evidence: a state exactly known on the left and unknown on the right, an estimate, and answers."""
    precision = torch.full((1, 1, *size), EXACT)
    precision[..., size[1] // 2 :] = 0
    precision[..., -1] = 0.7
    estimated = torch.where(precision == 0, 5.0, 0.0)
    views = [noisy(2, 3, *size, seed=seed) for seed in (1, 2, 3)]
    return Evidence(noisy(2, 3, *size).clamp(-1, 1), precision, views[0], estimated, views[1], views[2].clamp(-1, 1))


@given(SNR, SNR, st.floats(-1, 1), st.floats(-1, 1))
def test_merging_is_the_best_mean_of_two_views(s: float, p: float, y: float, e: float) -> None:
    """The merged state has an error of power 1/(s + p), for maps and for numbers."""
    for own, other in ((s, p), (torch.full((1, 1, 1, 1), s), torch.full((1, 1, 1, 1), p))):
        merged = Evidence(torch.full((1, 1, 1, 1), y), own, torch.full((1, 1, 1, 1), e), other).merged
        assert float(merged.precision) == pytest.approx(s + p, rel=1e-5)
        assert merged.state.item() == pytest.approx((s * y + p * e) / (s + p), abs=1e-5)
        assert merged.estimate is None


def test_an_estimate_alone_is_a_state_to_the_bit() -> None:
    answers = noisy(1, 3, 4, 4)
    merged = Evidence(torch.zeros_like(answers), 0.0, answers, 0.3).merged
    assert merged.state is answers
    assert merged.precision == 0.3


@given(SNR, SNR, st.floats(0.05, 0.95))
def test_the_level_keeps_the_variance_that_is_left(first: float, second: float, share: float) -> None:
    count = max(1, round(100 * share))
    precision = torch.tensor([first] * count + [second] * (100 - count)).view(1, 1, 10, 10)
    level = Evidence(torch.zeros(1, 3, 10, 10), precision).level
    left = (count / (1 + first / 4) + (100 - count) / (1 + second / 4)) / 100
    assert level == pytest.approx(4 * (1 / left - 1), rel=1e-3)
    assert Evidence(torch.zeros(1, 3, 10, 10), first).level == first


def test_half_known_and_half_unknown_is_a_level_of_its_own() -> None:
    precision = torch.tensor([EXACT, 0.0]).view(1, 1, 1, 2)
    assert levels(precision).item() == pytest.approx(4)


@pytest.mark.parametrize("bad", [-1.0, math.nan])
def test_a_negative_precision_and_one_that_is_not_a_number_are_refused(bad: float) -> None:
    with refused("snr", str(bad)):
        Evidence(torch.zeros(1, 3, 2, 2), bad)
    with refused("snr", str(bad)):
        Evidence(torch.zeros(1, 3, 2, 2), 1.0, torch.zeros(1, 3, 2, 2), bad)


def test_a_network_with_more_planes_starts_as_it_was() -> None:
    plain, wide = random_network(), Network(WIDE)
    wide.load_state_dict(widened(plain.state_dict(), WIDE.inputs))
    y = noisy(2, 3, 40, 24)
    for snr in (0.0, 0.3, 5e3):
        stacked = Evidence(y, snr).stacked(ALL, LARGEST_SNR)
        expected = plain(y, torch.tensor([snr]))
        torch.testing.assert_close(wide(stacked, torch.tensor([snr])), expected, rtol=0, atol=ROUNDING)


@pytest.mark.slow
def test_every_engine_takes_all_planes() -> None:
    config = Config(channels=(PANEL, PANEL), down=(1, 1), up=(1,), embedding=16, planes=ALL)
    network, evidence = random_network(config), mixed(45, 38)
    stacked = evidence.stacked(ALL, LARGEST_SNR)
    expected = network(stacked, torch.tensor([evidence.level])).clamp(-1, 1)
    for engine in (Runtime(config, weights_of(network)), Winograd(config, weights_of(network))):
        found = torch.from_numpy(engine(stacked.numpy(), evidence.level))
        torch.testing.assert_close(found, expected, rtol=0, atol=ROUNDING)
    for plane in range(stacked.shape[1]):  # each matters
        other = stacked.clone()
        other[:, plane] += 0.5
        assert not torch.allclose(network(other, torch.tensor([evidence.level])), expected, atol=10 * ROUNDING)


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> PhotoDenoiser:
    folder = tmp_path_factory.mktemp("wide")
    photonet.write(folder, WIDE, dict(random_network(WIDE).named_parameters()))
    denoiser = models.load(folder)
    assert isinstance(denoiser, PhotoDenoiser)
    assert denoiser.planes == ALL
    return denoiser


def test_exactly_known_pixels_come_back_and_no_others(wide: PhotoDenoiser) -> None:
    evidence = mixed(32, 40)
    for denoiser in (wide, tiny_denoiser(size=32)):
        x_hat = denoiser.predict(evidence)
        assert torch.equal(x_hat[..., :20], evidence.state[..., :20])
        assert (x_hat[..., 20:] != evidence.state[..., 20:]).float().mean() > 0.9


def test_tiles_of_all_planes_equal_the_whole_picture(wide: PhotoDenoiser, monkeypatch: pytest.MonkeyPatch) -> None:
    evidence = mixed(150, 90)
    whole = wide.predict(evidence)
    monkeypatch.setattr(photonet, "TILE", wide.config.stride)
    torch.testing.assert_close(wide.predict(evidence), whole, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize(
    "planes", [("state",), ("inside", "state"), (*ALL[:2], "estimate"), (*ALL, "state"), (*ALL[:2], "colour")]
)
def test_invalid_lists_of_planes_are_refused(planes: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="planes must be from"):
        dataclasses.replace(SMALL, planes=planes)


def test_a_config_without_planes_is_the_plain_network(tmp_path: Path) -> None:
    """A config without planes loads as the plain network, and its identity is that of the stored config."""
    photonet.write(tmp_path, SMALL, dict(random_network().named_parameters()))
    config = tmp_path / photonet.CONFIG
    config.write_text(config.read_text().replace(',\n  "planes": [\n    "state",\n    "inside"\n  ]', ""))
    assert "planes" not in config.read_text()
    assert models.load(tmp_path).planes == ("state", "inside")
