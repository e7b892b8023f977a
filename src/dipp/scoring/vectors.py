"""What numba compiles for: the vectors of this machine."""

from __future__ import annotations

import numba
from llvmlite import binding as llvm


def prefer_wide_vectors() -> None:
    """Let LLVM use 512-bit registers where there are any; its default of 256 bits makes the generator a third slower.

    numba takes its target from its configuration when it compiles for the first time; a choice of the user's is kept.
    """
    features = llvm.get_host_cpu_features()
    if numba.config.CPU_NAME is None and numba.config.CPU_FEATURES is None and features.get("avx512bw"):
        features["prefer-256-bit"] = False
        numba.config.CPU_NAME, numba.config.CPU_FEATURES = llvm.get_host_cpu_name(), features.flatten()


def features() -> set[str]:
    """The instructions that numba may use, by LLVM's names."""
    chosen = numba.config.CPU_FEATURES
    flat = llvm.get_host_cpu_features().flatten() if chosen is None else chosen
    return {name[1:] for name in flat.split(",") if name.startswith("+")}
