"""What is painted looks like its surroundings: no seam, and as much grain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.redaction import inside

from dipp.redaction import paint

SHAPE = (83, 131, 3)


def noisy(deviation: float) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return a slope from dark to bright with grey noise."""
    rng = np.random.default_rng(5)
    slope = np.linspace(-0.5, 0.5, SHAPE[1])[None, :, None].repeat(SHAPE[0], axis=0).repeat(3, axis=2)
    return (slope + rng.normal(0, deviation, SHAPE[:2])[..., None]).astype(np.float32)


@pytest.mark.parametrize("deviation", [0.01, 0.04])
def test_grain_is_as_strong_as_around(deviation: float) -> None:
    mask = inside(SHAPE)
    clean = np.where(mask[..., None], noisy(0), noisy(deviation))
    made = paint.grain(clean, mask)
    added = (made - clean)[mask]
    assert added.std() == pytest.approx(deviation, rel=0.2)
    assert (added[:, 0] == added[:, 1]).all()
    np.testing.assert_array_equal(made[~mask], clean[~mask])


def test_clean_surroundings_get_no_grain() -> None:
    mask = inside(SHAPE)
    flat = np.full(SHAPE, 0.25, np.float32)
    np.testing.assert_array_equal(paint.grain(flat, mask), flat)
    everything = np.ones(SHAPE[:2], bool)
    np.testing.assert_array_equal(paint.grain(noisy(0.1), everything), noisy(0.1))


@pytest.mark.usefixtures("one_thread")
def test_a_slope_goes_on_without_a_seam() -> None:
    mask = inside(SHAPE)
    known = noisy(0.002)
    fill = paint.fill("paint", "embedded", "cpu")
    made = fill(np.where(mask[..., None], np.float32(0), known), mask, (slice(None), slice(None)))
    np.testing.assert_array_equal(made[~mask], known[~mask])
    assert np.abs(made - noisy(0))[mask].max() < 0.1
