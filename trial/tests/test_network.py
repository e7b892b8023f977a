"""The network: any size, no dependence beyond its margin, sane ends; tiles give what the whole gives."""

from __future__ import annotations

import pytest
import torch

from photonet.network import Config, Network
from photonet.tiles import predict

SMALL = Config(channels=(8, 12, 16), down=(1, 1, 1), up=(2, 1), embedding=16)


def random_network(config: Config) -> Network:
    """A network in which everything matters: none of its weights are zero."""
    torch.manual_seed(1)
    network = Network(config)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(0, 0.7 / max(1, parameter[0].numel()) ** 0.5)
    return network.double().eval().requires_grad_(False)


@pytest.mark.parametrize("size", [(1, 1), (3, 1), (7, 50), (32, 32), (65, 33)])
def test_any_size(size: tuple[int, int]) -> None:
    network = random_network(SMALL)
    y = torch.randn(2, 3, *size, dtype=torch.float64)
    assert network(y, torch.tensor([0.0, 3.0])).shape == y.shape


@pytest.mark.parametrize("size", [(96, 208), (131, 203), (200, 65)])
@pytest.mark.parametrize("snr", [0.0, 0.05, 30.0])
def test_tiles_equal_the_whole(size: tuple[int, int], snr: float) -> None:
    network = random_network(SMALL)
    y, precision = torch.randn(1, 3, *size, dtype=torch.float64), torch.rand(1, 3, *size, dtype=torch.float64)
    level = torch.tensor([snr], dtype=torch.float64)
    whole, tiled = network(y, level, precision), predict(network, y, level, precision, side=16)
    torch.testing.assert_close(tiled, whole, rtol=0, atol=1e-12)


def test_tiles_of_the_default_network_in_single_precision() -> None:
    network = random_network(Config()).float()
    y, level = torch.randn(1, 3, 33, 580), torch.tensor([1.0])
    whole, tiled = network(y, level), predict(network, y, level, side=32)
    torch.testing.assert_close(tiled, whole, rtol=0, atol=1e-4 * whole.std().item())


@pytest.mark.parametrize("config", [SMALL, Config(channels=(2, 2, 2, 2, 2), up=(2, 2, 2, 1), embedding=4)])
def test_nothing_beyond_the_margin_matters(config: Config) -> None:
    network, margin = random_network(config), config.margin
    side = 2 * margin + 3 * config.stride
    y, level = torch.zeros(1, 3, config.stride, side, dtype=torch.float64), torch.tensor([1.0])
    before = network(y, level)
    for place in (0, config.stride - 1, side // 2):
        changed = y.clone()
        changed[..., place] += 1
        reached = (network(changed, level) != before).any(dim=2)[0, 0].nonzero()
        distance = (reached - place).abs().max().item()
        assert margin - 3 * config.stride < distance <= margin


def test_ends_of_the_range() -> None:
    network = random_network(SMALL)
    y = torch.randn(1, 3, 16, 16, dtype=torch.float64)
    nothing = network(y, torch.zeros(1))
    torch.testing.assert_close(nothing, network(torch.zeros_like(y), torch.zeros(1)), rtol=0, atol=0)
    assert (network(y, torch.tensor([1e9])) - y).abs().max() < 1e-2


@pytest.mark.parametrize("missing", [(0, 7), (7, 3)])
def test_a_mask_is_a_smaller_picture(missing: tuple[int, int]) -> None:
    network = random_network(SMALL)
    height, width = (24 - lines for lines in missing)
    y, level = torch.randn(1, 3, 24, 24, dtype=torch.float64), torch.tensor([2.0])
    inside = torch.zeros(1, 1, 24, 24, dtype=torch.float64)
    inside[..., :height, :width] = 1
    masked, smaller = network(y, level, None, inside), network(y[..., :height, :width], level)
    torch.testing.assert_close(masked[..., :height, :width], smaller, rtol=0, atol=1e-12)
