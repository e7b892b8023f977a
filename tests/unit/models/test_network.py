"""The network for photographs: any size, its margin, extreme SNRs, and tiles that equal the whole picture."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

import pytest
import torch
from helpers.networks import SMALL, random_network
from hypothesis import given
from hypothesis import strategies as st

from dipp.models.config import LARGEST_SNR, Config
from dipp.models.tiles import spans, tiled


def in_tiles(
    predict: Callable[[torch.Tensor], torch.Tensor], y: torch.Tensor, config: Config, margin: int, side: int
) -> torch.Tensor:
    """Return the predictions for y, computed in tiles."""

    def part(rows: slice, columns: slice) -> torch.Tensor:
        return predict(y[..., rows, columns])

    found: torch.Tensor = tiled(part, (y.shape[2], y.shape[3]), config.stride, margin, side)
    return found


@pytest.mark.parametrize("size", [(1, 1), (3, 1), (7, 50), (32, 32), (65, 33)])
def test_predictions_have_the_size_of_the_picture(size: tuple[int, int]) -> None:
    network = random_network(SMALL).double()
    y = torch.randn(2, 3, *size, dtype=torch.float64)
    assert network(y, torch.tensor([0.0, 3.0])).shape == y.shape


@pytest.mark.parametrize("size", [(96, 208), (131, 203), (200, 65)])
@pytest.mark.parametrize("snr", [0.0, 0.05, 30.0])
def test_tiles_equal_the_whole(size: tuple[int, int], snr: float) -> None:
    network = random_network(SMALL).double()
    y, level = torch.randn(1, 3, *size, dtype=torch.float64), torch.tensor([snr], dtype=torch.float64)
    asked: list[tuple[int, ...]] = []

    def predict(part: torch.Tensor) -> torch.Tensor:
        asked.append(tuple(part.shape[2:]))
        found: torch.Tensor = network(part, level)
        return found

    tiles = in_tiles(predict, y, SMALL, SMALL.margin, side=16)
    assert len(asked) > 4
    assert max(max(shape) for shape in asked) <= 16 + 2 * SMALL.margin
    torch.testing.assert_close(tiles, network(y, level), rtol=0, atol=1e-12)


def test_tiles_of_the_default_network_in_single_precision() -> None:
    network, config = random_network(Config()), Config()
    y, level = torch.randn(1, 3, 33, 580), torch.tensor([1.0])
    whole = network(y, level)
    tiles = in_tiles(functools.partial(network, snr=level), y, config, config.margin, side=128)
    torch.testing.assert_close(tiles, whole, rtol=0, atol=1e-4 * whole.std().item())


def test_tiles_with_a_smaller_margin_differ_from_the_whole_picture() -> None:
    """With half of the margin, tiles do not equal the whole picture."""
    network = random_network(SMALL).double()
    y, level = torch.randn(1, 3, 96, 96, dtype=torch.float64), torch.tensor([1.0], dtype=torch.float64)
    tiles = in_tiles(functools.partial(network, snr=level), y, SMALL, SMALL.stride, side=16)
    assert (tiles - network(y, level)).abs().max() > 1e-6


@given(st.integers(1, 5000), st.integers(1, 40), st.integers(1, 40))
def test_tiles_cover_a_side_once_and_are_equal(length: int, stride: int, cells: int) -> None:
    places = list(spans(length, stride, cells * stride))
    assert (places[0][0], places[-1][1]) == (0, length)
    assert all(end == start for (_, end), (start, _) in itertools.pairwise(places))
    assert all(start % stride == 0 for start, _ in places)
    assert len(places) == -(-length // (cells * stride))
    sizes = [-(-(end - start) // stride) for start, end in places]
    assert max(sizes) <= cells
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("config", [SMALL, Config(channels=(2, 2, 2, 2, 2), up=(2, 2, 2, 1), embedding=4)])
def test_nothing_beyond_the_margin_matters(config: Config) -> None:
    network, margin = random_network(config).double(), config.margin
    side = 2 * margin + 3 * config.stride
    y, level = torch.zeros(1, 3, config.stride, side, dtype=torch.float64), torch.tensor([1.0])
    before = network(y, level)
    for place in (0, config.stride - 1, side // 2):
        changed = y.clone()
        changed[..., place] += 1
        reached = (network(changed, level) != before).any(dim=2)[0, 0].nonzero()
        distance = (reached - place).abs().max().item()
        assert margin - 3 * config.stride < distance <= margin


def test_predictions_at_the_smallest_and_largest_snr() -> None:
    network = random_network(SMALL).double()
    y = torch.randn(1, 3, 16, 16, dtype=torch.float64)
    nothing = network(y, torch.zeros(1))
    torch.testing.assert_close(nothing, network(torch.zeros_like(y), torch.zeros(1)), rtol=0, atol=0)
    most = network(y, torch.tensor([LARGEST_SNR]))
    torch.testing.assert_close(network(y, torch.tensor([1e9])), most, rtol=0, atol=0)
    assert (most - y).abs().max() < 0.2


@pytest.mark.parametrize("missing", [(0, 7), (7, 3)])
def test_a_masked_picture_is_predicted_as_a_smaller_picture(missing: tuple[int, int]) -> None:
    network = random_network(SMALL).double()
    height, width = (24 - lines for lines in missing)
    y, level = torch.randn(1, 3, 24, 24, dtype=torch.float64), torch.tensor([2.0])
    inside = torch.zeros(1, 1, 24, 24, dtype=torch.float64)
    inside[..., :height, :width] = 1
    masked, smaller = network(y, level, inside), network(y[..., :height, :width], level)
    torch.testing.assert_close(masked[..., :height, :width], smaller, rtol=0, atol=1e-12)


def test_a_config_without_all_scales_is_refused() -> None:
    with pytest.raises(ValueError, match="up one less"):
        Config(channels=(8, 8), down=(1, 1), up=(1, 1))
