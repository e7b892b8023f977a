"""Benchmarks as modules, so that their functions can be tested."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import pytest

from helpers.paths import ROOT


def benchmark(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the module `benchmarks/NAME.py`, which finds its neighbours as when it is run."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
