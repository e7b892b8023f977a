"""Chains of training and simulated encodings: what they promise about SNR, precision and their course."""

from __future__ import annotations

import torch
from torch import Tensor

from photonet.chains import COLOURS, Chains
from photonet.evaluate import Sensing, psnr, sense


def linear(y: Tensor, snr: Tensor, _: Tensor | None = None) -> Tensor:
    """The best estimate for independent Gaussian pixels of deviation ½."""
    power = (snr * 0.25).view(-1, 1, 1, 1)
    return power / (1 + power) * y


def test_chains_walk_and_start_anew() -> None:
    torch.manual_seed(0)
    pictures = torch.randn(12, COLOURS, 16, 16) / 2
    chains = Chains(3, pictures)
    seen, restarts = 0.0, 0
    for _ in range(200):
        before = chains.snr
        chains.advance(linear(chains.state, chains.snrs).clamp(-1, 1), torch.randn_like(pictures) / 2)
        assert chains.state.isfinite().all()
        restarts += int((chains.snr == 0).sum())
        going = chains.snr > 0
        assert (chains.snr >= before)[going].all()
        means = chains.precision.mean((1, 2, 3)).view(3, -1).mean(1)
        torch.testing.assert_close(means[going], torch.ones_like(means[going]), rtol=1e-3, atol=0)
        seen = max(seen, chains.snr.max().item())
    assert restarts > 3
    assert seen > 1


def test_the_state_is_right_on_average() -> None:
    """At the label SNR, the error of the state is 1/SNR: its gain is what the answers are worth."""
    torch.manual_seed(0)
    x0 = torch.randn(64, COLOURS, 32, 32) / 2
    x_hat, snr = sense(
        linear, x0, torch.randn_like(x0) / 2, Sensing(epsilon=2.0, groups=8, passes=3.0, clip=1.0), use_map=False
    )
    error = (x_hat - x0).square().mean().item()
    assert abs(error / (1 / (4 + snr)) - 1) < 0.1
    assert psnr(x_hat, x0) > psnr(torch.zeros_like(x0), x0) + 0.1
