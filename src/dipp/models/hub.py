"""Where denoisers come from: a folder, or a repository on the hub, with JSON configs and weights.

Weights must be safetensors: pickles can run code, and are never opened.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from dipp.errors import DippError
from dipp.models import embedded

if TYPE_CHECKING:
    import torch

HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")
"""Pattern of a hub id: owner/name."""


def fetch(name: str, files: tuple[str, ...]) -> Path:
    """The folder called `name`, or a local snapshot of the hub repository `name` with those of `files` that it has.

    `embedded` is the denoiser that ships with dipp, unless there is a folder of that name.
    """
    if (folder := Path(name)).is_dir():
        return folder
    if name == embedded.NAME:
        return embedded.FOLDER
    if not HUB_ID.fullmatch(name):
        raise DippError(
            "model",
            f"{name} is neither a folder nor a hub id (owner/name)",
            "name one with --model or, to calibrate and export, as the argument MODEL",
        )
    from huggingface_hub import snapshot_download

    reasons = []
    for cached in (False, True):  # without an answer from the hub, the local cache may do
        try:
            return Path(snapshot_download(name, allow_patterns=list(files), local_files_only=cached))
        except Exception as error:  # each transport raises exceptions of its own
            reasons.append(type(error).__name__)
    raise DippError("model", f"{name} is no folder, not in the hub's cache, not to be fetched ({reasons[0]})")


def find(name: str, folder: Path, candidates: tuple[str, ...]) -> Path:
    """The first of the relative paths `candidates` that a model's folder has; `name` is the model in error messages."""
    for candidate in candidates:
        if (folder / candidate).is_file():
            return Path(candidate)
    raise DippError(
        "model", f"{name} has no {candidates[0]}", "one that `dipp train` wrote, or in diffusers' format, is needed"
    )


def read_json(name: str, path: Path) -> dict[str, Any]:
    """The JSON object in a file of the model `name`."""
    with contextlib.suppress(ValueError, RecursionError):
        content = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(content, dict):
            return content
    raise DippError("model", f"{path.name} of {name} is not a JSON object", "fetch the model again")


def read_tensors(name: str, path: Path) -> dict[str, torch.Tensor]:
    """The tensors in a file of the model `name`, by their names; the file is fetched first if it is on the hub."""
    from safetensors.torch import load_file

    return _loaded(load_file, name, path)


def read_arrays(name: str, path: Path) -> dict[str, NDArray[Any]]:
    """The same as arrays of NumPy."""
    from safetensors.numpy import load_file

    return _loaded(load_file, name, path)


def _loaded(load: Callable[[Path], dict[str, Any]], name: str, path: Path) -> dict[str, Any]:
    from safetensors import SafetensorError

    folder = fetch(name, (path.as_posix(),))
    if not (folder / path).is_file():
        pickles = ", ".join(p.name for p in (folder / path.parent).glob("*.bin"))
        found = f"pickled weights only ({pickles}), which can run code" if pickles else "no safetensors weights"
        raise DippError("model", f"{name} has {found}", f"{path.as_posix()} is needed")
    try:
        return load(folder / path)
    except (SafetensorError, TypeError, KeyError):  # NumPy has no bfloat16
        raise DippError("model", f"{path.as_posix()} of {name} is damaged", "fetch the model again") from None
