"""Read models from folders, or from repositories on the Hugging Face hub, with JSON configs and weights.

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
FLOATS = {"F16", "F32"}
"""Kinds of numbers that weights may have where they are read as NumPy arrays, by their names in safetensors."""


def fetch(name: str, files: tuple[str, ...]) -> Path:
    """Return the folder of a model; a hub repository is fetched first, or found in the local cache.

    Args:
        name: A folder, `embedded` for the denoiser that ships with dipp, or a hub id.
        files: Patterns of the files to fetch from a hub repository; files that it does not have are left out.

    Raises:
        DippError: There is no such folder, and no such repository can be fetched.
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
    raise DippError(
        "model",
        f"{name} is neither a folder nor in the hub's cache, and could not be fetched ({reasons[0]})",
        "check the name and the network",
    )


def find(name: str, folder: Path, candidates: tuple[str, ...]) -> Path:
    """Return the first of several paths that exists in a model's folder.

    Args:
        name: The model, for error messages.
        folder: The model's folder.
        candidates: Paths relative to the folder.

    Raises:
        DippError: The folder has none of them.
    """
    for candidate in candidates:
        if (folder / candidate).is_file():
            return Path(candidate)
    raise DippError(
        "model", f"{name} has no {candidates[0]}", "name a model that `dipp train` wrote, or one in diffusers' format"
    )


def read_json(name: str, path: Path) -> dict[str, Any]:
    """Return the JSON object in a file of the model `name`, or raise if the file holds something else.

    Args:
        name: Folder or hub id of the model, for errors.
        path: Path of the file.
    """
    with contextlib.suppress(ValueError, RecursionError):
        content = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(content, dict):
            return content
    raise DippError("model", f"{name} has a {path.name} that is not a JSON object", "fetch the model again")


def read_tensors(name: str, path: Path) -> dict[str, torch.Tensor]:
    """Return the tensors in a file of a model, which is fetched first if the model is on the hub.

    Args:
        name: Folder or hub id of the model.
        path: Path of the safetensors file, relative to the model's folder.

    Returns:
        Tensors in their stored dtypes, by their names.

    Raises:
        DippError: The file is missing or damaged.
    """
    from safetensors.torch import load_file

    return _loaded(load_file, name, path)


def read_arrays(name: str, path: Path) -> dict[str, NDArray[Any]]:
    """Return the tensors in a file of a model as NumPy arrays.

    Args:
        name: Folder or hub id of the model. A file on the hub is fetched first.
        path: Path of the safetensors file, relative to the model's folder.

    Returns:
        Arrays in their stored dtypes, by their names.

    Raises:
        DippError: The file is missing or damaged, or has numbers of a kind that NumPy lacks, such as bfloat16.
    """
    from safetensors import safe_open
    from safetensors.numpy import load_file

    def load(file: Path) -> dict[str, Any]:
        with safe_open(file, "np") as stored:
            kinds = {stored.get_slice(tensor).get_dtype() for tensor in stored.keys()}  # noqa: SIM118 - it is no dict
        if others := kinds - FLOATS:
            raise DippError(
                "model",
                f"{name} stores weights as {', '.join(sorted(others))} in {path.as_posix()}",
                f"store them as {' or '.join(sorted(FLOATS))}",
            )
        return load_file(file)

    return _loaded(load, name, path)


def _loaded(load: Callable[[Path], dict[str, Any]], name: str, path: Path) -> dict[str, Any]:
    from safetensors import SafetensorError

    folder = fetch(name, (path.as_posix(),))
    if not (folder / path).is_file():
        pickles = ", ".join(p.name for p in (folder / path.parent).glob("*.bin"))
        weights = f"pickled weights only ({pickles}), which can run code" if pickles else "no safetensors weights"
        raise DippError("model", f"{name} has {weights}", f"name a model with {path.as_posix()}")
    try:
        return load(folder / path)
    except SafetensorError:
        raise DippError("model", f"{name} has a damaged {path.as_posix()}", "fetch the model again") from None
