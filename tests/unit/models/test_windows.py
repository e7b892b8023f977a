from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.networks import ROUNDING, tiny_denoiser
from helpers.refusals import refused
from hypothesis import given
from hypothesis import strategies as st

from dipp.models import windows
from dipp.models.denoiser import Denoiser

SIDES = st.integers(1, 100)
SIZES = st.sampled_from([1, 2, 8, 32])


@given(SIDES, SIZES)
def test_the_windows_cover_the_side_and_overlap(side: int, native: int) -> None:
    side = max(side, native)
    starts, size = windows.grid(side, native), windows.window(side, native)
    assert size == (2 * native if side >= 2 * native else native)
    assert starts[0] == 0
    assert starts[-1] == side - size
    gaps, stride = np.diff(starts), max(1, size - max(1, native // 4))
    assert ((gaps >= 1) & (gaps <= stride)).all()
    assert len(starts) <= 1 + -(-(side - size) // stride)


@given(SIDES, SIZES)
def test_the_weights_of_a_pixel_sum_to_one_and_are_never_negative(side: int, native: int) -> None:
    side = max(side, native)
    total, size = np.zeros(side), windows.window(side, native)
    for start, weights in zip(windows.grid(side, native), windows._weights(side, native), strict=True):
        assert (weights > 0).all()
        total[start : start + size] += weights
    np.testing.assert_allclose(total, 1, atol=1e-6)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 3))
def test_predictions_that_agree_in_all_windows_are_kept(height: int, width: int, count: int) -> None:
    x = torch.rand(count, 2, height, width, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(windows.blend(lambda part: 2 * part, x, (8, 8)), 2 * x)


def test_windows_join_without_a_seam() -> None:
    """Windows whose predictions differ by 1 fade into each other: neighbouring pixels differ by a fraction of 1."""
    calls: list[int] = []

    def disagree(part: torch.Tensor) -> torch.Tensor:
        numbers = torch.arange(sum(calls), sum(calls) + len(part)) % 2
        calls.append(len(part))
        return numbers.view(-1, 1, 1, 1).expand_as(part).float()

    blended = windows.blend(disagree, torch.zeros(1, 1, 400, 400), (32, 32))
    assert float(blended.min()) == 0
    assert float(blended.max()) == 1
    for axis in (2, 3):
        assert float(blended.diff(dim=axis).abs().max()) < 0.15


def test_the_number_of_windows_cut_out_at_a_time_is_bounded() -> None:
    seen: list[tuple[int, ...]] = []

    def predict(part: torch.Tensor) -> torch.Tensor:
        seen.append(tuple(part.shape))
        return part

    windows.blend(predict, torch.zeros(2, 3, 300, 200), (8, 8))
    assert max(shape[0] for shape in seen) == windows.WINDOWS
    assert {shape[1:] for shape in seen} == {(3, 16, 16)}


@pytest.mark.parametrize(("side", "expected"), [(1, [0, 0, 0, 0, 0]), (2, [0, 1, 0, 1, 0]), (3, [0, 1, 2, 1, 0])])
def test_small_pictures_are_mirrored(side: int, expected: list[int]) -> None:
    row = torch.arange(side).float().reshape(1, 1, 1, side)
    assert windows.mirrored(row, (1, 5)).flatten().tolist() == expected
    assert windows.mirrored(row.transpose(2, 3), (5, 1)).flatten().tolist() == expected


@pytest.fixture(scope="module")
def denoiser() -> Denoiser:
    return tiny_denoiser()


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (3, 5), (8, 7), (13, 21), (512, 512)])
def test_the_denoiser_takes_any_size_and_repeats_itself(shape: tuple[int, int], denoiser: Denoiser) -> None:
    x_t = torch.randn(1, 3, *shape, generator=torch.Generator().manual_seed(1))
    once = denoiser.x0(x_t, 300)
    assert once.shape == x_t.shape
    assert float(once.abs().max()) <= 1 + 1e-6
    assert torch.equal(once, denoiser.x0(x_t, 300))


def test_a_picture_that_is_too_long_and_thin_to_be_extended_is_refused(denoiser: Denoiser) -> None:
    with refused("image", "1×16777216"):
        denoiser.x0(torch.empty(1, device="meta").expand(1, 3, 1, 1 << 24), 300)


def test_a_single_window_is_predicted_as_a_small_picture(denoiser: Denoiser) -> None:
    """Where a single window covers the picture, x̂0 is that of the window alone."""
    x_t = torch.randn(1, 3, 8, 30, generator=torch.Generator().manual_seed(2))
    left = denoiser.x0(x_t[..., :16], 300)
    torch.testing.assert_close(denoiser.x0(x_t, 300)[..., :14], left[..., :14], atol=ROUNDING, rtol=0)
