"""Compile functions by numba for the vector registers of this machine, and keep the results for later processes."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numba
from llvmlite import binding as llvm
from numba.core.codegen import get_host_cpu_features
from numba.np import linalg


def _load_arrays_without_scipy() -> None:
    """Load numba's support of arrays without SciPy, whose import takes as long as that of numba.

    numba imports SciPy to see whether it can compile products of matrices, which no function of dipp takes. It asks
    again whenever it compiles one, so other functions of the process compile as before.
    """
    ask, linalg.ensure_blas = linalg.ensure_blas, lambda: None
    try:
        importlib.import_module("numba.np.arraymath")
    finally:
        linalg.ensure_blas = ask


_load_arrays_without_scipy()


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator like `numba.njit` that keeps what it compiles in a cache on the disk.

    If neither the folder of the package nor that of the user can be written, each process compiles for itself.

    Args:
        options: Keyword arguments of `numba.njit`, except `cache`.
    """

    def compile_it(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(cache=True, **options)(function)
        except RuntimeError:  # numba finds no folder for its cache
            return numba.njit(**options)(function)

    return compile_it


def prefer_wide_vectors() -> None:
    """Let LLVM use 512-bit registers if the processor has them, and the user has not chosen a target.

    LLVM's default of 256 bits makes the random generator a third slower. numba reads its configuration when it compiles
    for the first time, so call this before.
    """
    features, config = llvm.get_host_cpu_features(), numba.config
    if config.CPU_NAME is None and config.CPU_FEATURES is None and config.ENABLE_AVX and features.get("avx512bw"):
        features["prefer-256-bit"] = False
        config.CPU_NAME, config.CPU_FEATURES = llvm.get_host_cpu_name(), features.flatten()


def features() -> set[str]:
    """Return LLVM's names of the instruction sets that numba may use; an empty set if compilation is disabled."""
    if numba.config.DISABLE_JIT:
        return set()
    chosen = numba.config.CPU_FEATURES
    flat = get_host_cpu_features() if chosen is None else chosen
    return {name[1:] for name in flat.split(",") if name.startswith("+")}
