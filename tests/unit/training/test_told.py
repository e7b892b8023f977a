"""Evidence for training: its noise has the power that its precision says, and its estimates follow the picture."""

from __future__ import annotations

import pytest
import torch

from dipp.models.evidence import Evidence
from dipp.training import told

COUNT = 200


@pytest.fixture(scope="module")
def drawn() -> tuple[torch.Tensor, Evidence]:
    torch.manual_seed(0)
    x0 = (0.5 * torch.randn(COUNT, 3, 8, 8)).repeat_interleave(4, 2).repeat_interleave(4, 3).clamp(-1, 1)
    return x0, told.evidence(x0)


def test_errors_have_the_power_that_a_precision_says(drawn: tuple[torch.Tensor, Evidence]) -> None:
    x0, evidence = drawn
    precision = torch.as_tensor(evidence.precision).expand_as(x0)
    exact, unknown = precision.isinf(), precision == 0
    assert torch.equal(evidence.state[exact], x0[exact])
    assert not evidence.state[unknown].any()
    noise = ((evidence.state - x0).square() * precision)[~exact & ~unknown]
    assert len(noise) > 100_000
    assert noise.mean().item() == pytest.approx(1, abs=0.05)  # ten deviations of the mean of χ²


def test_evidence_of_all_kinds_is_drawn(drawn: tuple[torch.Tensor, Evidence]) -> None:
    """The chance that a kind is missing among 200 pictures is 2e-20."""
    _, evidence = drawn
    precision, estimated = torch.as_tensor(evidence.precision), torch.as_tensor(evidence.estimate_precision)
    known = precision.isinf().flatten(1)
    assert ((known.any(1)) & (~known.all(1))).any()
    assert (precision.flatten(1) == 0).all(1).any()
    assert (estimated.flatten(1) > 0).all(1).any()
    assert (estimated.flatten(1) == 0).all(1).any()
    assert evidence.merged.state.isfinite().all()


def test_a_filling_keeps_what_is_known_and_continues_a_slope() -> None:
    slope = torch.linspace(-0.8, 0.8, 32).expand(1, 3, 24, 32)
    known = torch.ones(1, 1, 24, 32, dtype=torch.bool)
    known[..., 8:16, 10:20] = False
    found = told.filled(slope * known, known)
    assert torch.equal(found * known, slope * known)
    torch.testing.assert_close(found, slope, rtol=0, atol=0.1)
    assert not told.filled(slope, torch.zeros_like(known)).isnan().any()
