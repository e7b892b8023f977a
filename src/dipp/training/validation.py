"""Measure the quality of a denoiser: its PSNR on pictures with Gaussian noise of several SNRs.

PSNR is 10·log₁₀(4/MSE), with the mean squared error over all pictures, for pixels in [−1, 1] and clipped predictions.
The noise is the same for every denoiser.
"""

from __future__ import annotations

import math

import torch

from dipp.codec.pictures import Pixels
from dipp.core.signal import to_signal
from dipp.models.denoiser import Denoiser
from dipp.models.evidence import Evidence

SNRS = (0.01, 0.05, 0.2, 1.0, 4.0, 16.0, 64.0, 100.0)
SEED = 1234


def gaussian_psnr(denoiser: Denoiser, pixels: Pixels) -> dict[float, float]:
    """Return, for each SNR of `SNRS`, the PSNR in dB of the denoiser's predictions of noisy pictures (N, H, W, C).

    Args:
        denoiser: The denoiser.
        pixels: uint8 pictures.
    """
    x0 = torch.from_numpy(to_signal(pixels)).permute(0, 3, 1, 2).float().to(denoiser.device)
    noise = torch.randn(x0.shape, generator=torch.Generator().manual_seed(SEED)).to(x0)

    def psnr(snr: float) -> float:
        x_hat = denoiser.predict(Evidence(x0 + noise / math.sqrt(snr), snr))
        return 10 * math.log10(4 / (x_hat - x0).double().square().mean().item())

    return {snr: psnr(snr) for snr in SNRS}
