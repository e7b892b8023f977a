"""Split convolutions: the parts add up, and three products come close to fp32, by Triton's interpreter on the CPU."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton")

PROGRAM = """
import torch
from dipp.models.tf32 import SplitConv2d, rounded, split, with_split_convolutions

torch.manual_seed(0)
x = torch.randn(3, 5, 7, 9) * torch.logspace(-6, 6, 9)
high, low, again = split(x).chunk(3, dim=1)
assert torch.equal(high, rounded(x.contiguous())) and torch.equal(again, high)
assert torch.equal(high + low, x) and split(x).is_contiguous(memory_format=torch.channels_last)
assert (high.abs().view(torch.int32) & 0x1FFF == 0).all(), "h has 11 significant bits"
assert (low.abs() <= x.abs() * 2.0**-11).all()

plain = torch.nn.Conv2d(5, 4, 3, stride=2, padding=1)
halves = SplitConv2d(plain)
exact = torch.nn.functional.conv2d(x.double(), plain.weight.double(), plain.bias.double(), 2, 1)
scale = torch.nn.functional.conv2d(x.double().abs(), plain.weight.double().abs(), plain.bias.double().abs(), 2, 1)
assert ((halves(x) - exact).abs() <= scale * 2.0**-20).all()
with torch.autocast("cpu", torch.bfloat16):
    assert torch.equal(halves(x), plain(x))

grouped = torch.nn.Conv2d(4, 4, 3, groups=2)
network = with_split_convolutions(torch.nn.Sequential(plain, torch.nn.Sequential(torch.nn.Conv2d(4, 2, 1)), grouped))
assert [type(m).__name__ for m in (network[0], network[1][0], network[2])] == ["SplitConv2d"] * 2 + ["Conv2d"]
"""


@pytest.mark.slow
def test_parts_add_up_and_products_are_close() -> None:
    """A separate process is used, because the interpreter must be chosen before Triton is imported."""
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    run = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    assert run.returncode == 0, run.stderr
