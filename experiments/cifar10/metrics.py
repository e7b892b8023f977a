"""Measures of reconstructions against clean pictures: PSNR, MS-SSIM, and a Fréchet distance of features.

*MS-SSIM.* Pictures of 32×32 are too small for the usual five scales and window of 11 pixels. So there are three scales
(32, 16 and 8 pixels), with the first three of the usual exponents scaled to a sum of 1, and a Gaussian window of 7
pixels (σ = 0.8).

*Fréchet distance.* |m − m'|² + tr(S + S' − 2·√(S·S')) of the means and covariances of features, as in FID. But
the 64 features are of a ResNet-56 that was trained on clean pictures of this experiment, and not of Inception, so the
numbers cannot be compared with published FIDs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dipp.codec.pictures import Pixels
from dipp.errors import DippError

USUAL_BETAS = (0.0448, 0.2856, 0.3001)
SIGMA = 0.8
BATCH = 1000

Features = NDArray[np.float64]


def psnr(pictures: Pixels, clean: Pixels) -> float:
    """Return 10·log10(255²/MSE), with the mean squared error over all pictures."""
    error = np.square(pictures.astype(np.float32) - clean).mean(dtype=np.float64)
    return 10 * math.log10(255**2 / error) if error else math.inf


def ms_ssim(pictures: Pixels, clean: Pixels, device: str) -> float:
    """Return the mean multi-scale structural similarity, with the module's scales and window."""
    try:
        from torchmetrics.functional.image import multiscale_structural_similarity_index_measure as similarity
    except ImportError:
        raise DippError("metrics", "need the package torchmetrics", 'pip install ".[experiment]"') from None
    betas = tuple(beta / sum(USUAL_BETAS) for beta in USUAL_BETAS)
    total = 0.0
    for start in range(0, len(pictures), BATCH):
        pair = [
            torch.from_numpy(part[start : start + BATCH]).to(device).permute(0, 3, 1, 2).float()
            for part in (pictures, clean)
        ]
        options: dict[str, Any] = {"kernel_size": 7, "data_range": 255.0, "betas": betas, "normalize": "relu"}
        found = similarity(*pair, sigma=SIGMA, reduction="sum", **options)
        assert isinstance(found, torch.Tensor)
        total += float(found)
    return total / len(pictures)


def frechet(found: Features, clean: Features) -> float:
    """Return the Fréchet distance between two sets of features, one row for each picture."""
    (m, s), (n, t) = ((rows.mean(axis=0), np.cov(rows, rowvar=False)) for rows in (found, clean))
    # The eigenvalues of S·T are those of √S·T·√S: real and at least 0, up to rounding.
    roots = np.sqrt(np.clip(np.linalg.eigvals(s @ t).real, 0, None))
    return float(np.square(m - n).sum() + np.trace(s) + np.trace(t) - 2 * roots.sum())
