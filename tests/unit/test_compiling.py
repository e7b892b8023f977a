"""Test that numba keeps the user's configuration and works without a folder for its cache."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numba
import pytest

from dipp import compiling


def test_functions_are_compiled_without_a_folder_for_the_cache() -> None:
    """In a read-only installation, for a user without a home, numba has no folder for compiled functions."""
    space = dict[str, Any]()
    exec(compile("def twice(x): return 2 * x", "<nowhere>", "exec"), space)  # noqa: S102
    with pytest.raises(RuntimeError, match="no locator"):
        numba.njit(cache=True)(space["twice"])
    assert compiling.compiled()(space["twice"])(21) == 42


def test_numba_has_no_instruction_sets_if_compilation_is_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    assert compiling.features() == set()


def test_wide_vectors_stay_disabled_if_the_user_disabled_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CPU_NAME", "CPU_FEATURES"):
        monkeypatch.setattr(numba.config, name, None)
    monkeypatch.setattr(numba.config, "ENABLE_AVX", 0)
    compiling.prefer_wide_vectors()
    assert numba.config.CPU_FEATURES is None
    assert not any(name.startswith("avx") for name in compiling.features())


@pytest.mark.slow
def test_products_of_matrices_are_compiled_as_before() -> None:
    """Numba asks for SciPy when it compiles a product, although dipp loads numba without it."""
    program = (
        "import sys, numpy, numba, dipp.compiling; assert 'scipy.linalg' not in sys.modules;"
        "product = numba.njit(lambda a: a @ a)(2 * numpy.eye(3)); assert (product == 4 * numpy.eye(3)).all()"
    )
    subprocess.run([sys.executable, "-c", program], check=True)  # noqa: S603
