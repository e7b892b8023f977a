"""Chains for training: the SNR of their states, tiles, the weights of the loss, and steps of Muon."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from dipp.models.config import CHANNELS, COLOURS, Config
from dipp.training.bank import MORE, Bank, Cut, cut_all
from dipp.training.chains import Chains
from dipp.training.muon import orthogonal
from dipp.training.objective import BatchStream, RunningErrors, Shares, log_uniform

CPU = torch.device("cpu")


def linear(y: Tensor, snr: Tensor) -> Tensor:
    """Return the best estimate for independent Gaussian pixels of deviation ½."""
    power = (snr * 0.25).view(-1, 1, 1, 1)
    return power / (1 + power) * y


def test_chains_advance_and_start_anew() -> None:
    torch.manual_seed(0)
    pictures = torch.randn(12, COLOURS, 16, 16) / 2
    chains = Chains(3, pictures)
    seen, restarts = 0.0, 0
    for _ in range(200):
        before = chains.snr.clone()
        chains.advance(linear(chains.state, chains.snrs).clamp(-1, 1), torch.randn_like(pictures) / 2)
        assert chains.state.isfinite().all()
        restarts += int((chains.snr == 0).sum())
        going = chains.snr > 0
        assert (chains.snr >= before)[going].all()
        seen = max(seen, chains.snr.max().item())
    assert restarts > 3
    assert seen > 1


def test_the_error_of_a_state_is_what_its_snr_says() -> None:
    """On average over cohorts of 64 pictures in the middle of their chains, SNR·E[(y − x0)²] is 1.

    Over 20 seeds the mean over ten to twelve cohorts was 0.989 to 0.998.
    """
    torch.manual_seed(0)
    pictures = torch.randn(12 * 64, COLOURS, 16, 16) / 2
    chains = Chains(12, pictures)
    for _ in range(12):
        chains.advance(linear(chains.state, chains.snrs), torch.randn_like(pictures) / 2)
    going = (chains.snrs > 1e-3).nonzero().flatten()
    error = (chains.state - chains.x0).square().mean((1, 2, 3)) * chains.snrs
    assert len(going) >= 3 * 64
    assert error[going].mean().item() == pytest.approx(1, abs=0.1)


def test_a_step_touches_one_colour_of_a_group() -> None:
    torch.manual_seed(0)
    pictures = torch.randn(4, COLOURS, 32, 32) / 2
    chains = Chains(1, pictures)
    chains.settings[1] = 100.0
    groups = int(chains.settings[0].item())
    before = chains.total.clone()
    chains.advance(torch.zeros_like(pictures), pictures)
    touched = chains.total != before
    assert (touched.sum(1) <= 1).all()
    assert touched.float().mean().item() == pytest.approx(1 / (3 * groups), rel=0.35)


def test_snrs_are_drawn_log_uniformly() -> None:
    torch.manual_seed(0)
    drawn = log_uniform(1e-3, 1e3, 100_000, CPU).log() / math.log(1e3)
    assert (drawn.abs() <= 1.0001).all()
    assert drawn.mean().item() == pytest.approx(0, abs=0.01)
    assert drawn.square().mean().item() == pytest.approx(1 / 3, abs=0.01)


def test_the_weights_of_the_loss_balance_every_snr() -> None:
    """With errors a thousand times as large at one SNR, after some steps both give a loss of 1."""
    weights, snr = RunningErrors(CPU), torch.tensor([0.01] * 32 + [100.0] * 32)
    errors = torch.cat([torch.full((32,), 0.3), torch.full((32,), 3e-4)])
    for _ in range(200):
        loss = weights.loss(errors, snr)
    assert loss.item() == pytest.approx(1, rel=0.01)
    assert weights.loss(errors[:32], snr[:32]).item() == pytest.approx(1, rel=0.02)


def test_a_stream_counts_what_is_inside() -> None:
    torch.manual_seed(0)
    bank = Bank(np.random.default_rng(0).integers(0, 256, (8, 16, 16, 3), dtype=np.uint8), CPU)
    config = Config(channels=(8, 8, 8), down=(1, 1, 1), up=(1, 1), planes=tuple(CHANNELS))
    stream, seen = BatchStream(bank, config, Shares(1, 4, 200, 6)), list[Tensor]()

    def predict(told: Tensor, snr: Tensor, inside: Tensor) -> Tensor:
        assert (told.shape, snr.shape, inside.shape) == ((210, 14, 16, 16), (210,), (210, 1, 16, 16))
        assert not told[:204, 4:8].any()  # only the last ones have estimates
        assert not told[4:, 8:].any()  # only chains have answers
        seen.append(inside)
        return torch.zeros_like(told[:, :3])

    assert stream.loss(predict).isfinite()
    missing = 256 - seen[0].sum((1, 2, 3))[:204]
    assert (missing[:4] == 0).all()  # chains are whole
    assert 0.03 < (missing > 0).float().mean().item() < 0.3
    assert missing.max().item() <= 256 - 9 * 9


# Tiles.


def test_photographs_give_tiles_by_their_size() -> None:
    rng = np.random.default_rng(0)
    large, small, tiny = (rng.integers(0, 256, (side, side + 9, 3), dtype=np.uint8) for side in (460, 40, 10))
    cuts = (Cut(32, 2, 0.0), Cut(8, 3, 0.4))
    tiles, used, skipped = cut_all([large, None, small, tiny, b"no picture"], cuts)
    assert [tile.shape for tile in tiles] == [(2 * MORE + 2, 32, 32, 3), (3 * MORE + 3 + 3, 8, 8, 3)]
    assert (used, skipped) == (3, 2)
    again, _, _ = cut_all([large, None, small, tiny, b"no picture"], cuts)
    assert all(np.array_equal(one, other) for one, other in zip(tiles, again, strict=True))


def test_a_photograph_of_the_size_of_a_tile_is_the_tile() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    (tiles,), _, _ = cut_all([pixels], [Cut(16, 2, 0.0)])
    assert all(np.array_equal(tile, pixels) for tile in tiles)


def test_drawn_tiles_are_pictures() -> None:
    torch.manual_seed(0)
    bank = Bank(np.random.default_rng(0).integers(0, 256, (8, 16, 16, 3), dtype=np.uint8), CPU)
    drawn = bank.draw(50)
    assert drawn.shape == (50, 3, 16, 16)
    assert drawn.abs().max() <= 1
    assert len({one.sum().item() for one in drawn}) > 15


# Muon.


@pytest.mark.parametrize("shape", [(2, 8, 8), (3, 16, 40), (1, 40, 16)])
def test_singular_values_become_close_to_one(shape: tuple[int, int, int]) -> None:
    torch.manual_seed(0)
    values = torch.linalg.svdvals(orthogonal(torch.randn(shape)))
    assert values.max() < 1.3
    assert values.median() > 0.6
