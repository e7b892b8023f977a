"""Cheap presets and calibrations, for tests of commands."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dipp.planning.planner import Sizes
from dipp.planning.presets import PRESETS, SensingPreset, SteppedPreset
from dipp.training import calibrate


def quick_presets(patch: pytest.MonkeyPatch, index_bits: int) -> None:
    """Let `sharp` call its network three times along the chain, and `paper` search few candidates."""
    sharp, paper = PRESETS["sharp"], PRESETS["paper"]
    assert isinstance(sharp, SensingPreset)
    assert isinstance(paper, SteppedPreset)
    patch.setitem(PRESETS, "sharp", dataclasses.replace(sharp, calls=3))
    patch.setitem(PRESETS, "paper", dataclasses.replace(paper, sizes=Sizes(index_bits, 2.0)))


@contextmanager
def quick_commands() -> Iterator[None]:
    """Let commands use few steps, few candidates, and calibrations at one ε."""
    with pytest.MonkeyPatch.context() as patch:
        quick_presets(patch, index_bits=10)
        patch.setattr(calibrate, "EPSILONS", (8.0,))
        yield
