"""How numba compiles: for the vectors of this machine, and once on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import binding as llvm
from numba.core.codegen import get_host_cpu_features


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit`, and what it compiles is kept for other processes.

    Where neither the folder of the package nor that of the user can be written, each process compiles for itself.
    """

    def compile_it(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(cache=True, **options)(function)
        except RuntimeError:  # numba finds no place for it
            return numba.njit(**options)(function)

    return compile_it


def prefer_wide_vectors() -> None:
    """Let LLVM use 512-bit registers where there are any; its default of 256 bits makes the generator a third slower.

    numba takes its target from its configuration when it compiles for the first time; a choice of the user's is kept.
    """
    features, config = llvm.get_host_cpu_features(), numba.config
    if config.CPU_NAME is None and config.CPU_FEATURES is None and config.ENABLE_AVX and features.get("avx512bw"):
        features["prefer-256-bit"] = False
        config.CPU_NAME, config.CPU_FEATURES = llvm.get_host_cpu_name(), features.flatten()


def features() -> set[str]:
    """The instructions that numba may use, by LLVM's names: none, where the user has it compile nothing."""
    if numba.config.DISABLE_JIT:
        return set()
    chosen = numba.config.CPU_FEATURES
    flat = get_host_cpu_features() if chosen is None else chosen
    return {name[1:] for name in flat.split(",") if name.startswith("+")}
