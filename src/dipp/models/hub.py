"""Where denoisers come from: a folder, or a repository of the hub, of JSON configs and safetensors weights.

Weights are safetensors, never pickles, which can run code.
"""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dipp.errors import DippError

if TYPE_CHECKING:
    import torch

HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")


def fetch(name: str, files: tuple[str, ...]) -> Path:
    """Find the folder of that name, or get the hub's snapshot with those of the files that it has."""
    if (folder := Path(name)).is_dir():
        return folder
    if not HUB_ID.fullmatch(name):
        raise DippError(f"model: {name} is neither a folder nor a hub id (owner/name)")
    from huggingface_hub import snapshot_download

    reasons = []
    for cached in (False, True):  # when the hub says no, or cannot be reached, what the cache holds may do
        try:
            return Path(snapshot_download(name, allow_patterns=list(files), local_files_only=cached))
        except Exception as error:  # each transport has its own
            reasons.append(type(error).__name__)
    raise DippError(f"model: {name} is no folder, not in the hub's cache, not to be fetched ({reasons[0]})")


def find(name: str, folder: Path, candidates: tuple[str, ...]) -> Path:
    """The first of some files that the folder of a model has."""
    for candidate in candidates:
        if (folder / candidate).is_file():
            return Path(candidate)
    raise DippError(f"model: {name} has no {candidates[0]}; a model in diffusers' format is needed")


def read_json(name: str, path: Path) -> dict[str, Any]:
    """The JSON object of a file of the model."""
    with contextlib.suppress(ValueError):
        content = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(content, dict):
            return content
    raise DippError(f"model: {path.name} of {name} is not a JSON object; fetch the model again")


def read_tensors(name: str, path: Path) -> dict[str, torch.Tensor]:
    """The stored tensors of a model, by name, fetched first where the model is on the hub."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    folder = fetch(name, (path.as_posix(),))
    if not (folder / path).is_file():
        pickles = ", ".join(p.name for p in (folder / path.parent).glob("*.bin"))
        found = f"pickled weights only ({pickles}), which can run code" if pickles else "no safetensors weights"
        raise DippError(f"model: {name} has {found}; {path.as_posix()} is needed")
    try:
        return load_file(folder / path)
    except SafetensorError:
        raise DippError(f"model: {path.as_posix()} of {name} is damaged; fetch the model again") from None
