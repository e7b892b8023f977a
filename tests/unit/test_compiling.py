"""How numba compiles: what the user has chosen for it stands, and it may have nowhere to write."""

from __future__ import annotations

from typing import Any

import numba
import pytest

from dipp import compiling


def test_functions_are_compiled_where_nothing_can_be_kept() -> None:
    """Kernels of a read-only installation, of a user without a home: numba has no folder for them."""
    space = dict[str, Any]()
    exec(compile("def twice(x): return 2 * x", "<nowhere>", "exec"), space)  # noqa: S102
    with pytest.raises(RuntimeError, match="no locator"):
        numba.njit(cache=True)(space["twice"])
    assert compiling.compiled()(space["twice"])(21) == 42


def test_where_numba_compiles_nothing_it_has_no_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    assert compiling.features() == set()


def test_vectors_that_the_user_has_forbidden_stay_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CPU_NAME", "CPU_FEATURES"):
        monkeypatch.setattr(numba.config, name, None)
    monkeypatch.setattr(numba.config, "ENABLE_AVX", 0)
    compiling.prefer_wide_vectors()
    assert numba.config.CPU_FEATURES is None
    assert not any(name.startswith("avx") for name in compiling.features())
