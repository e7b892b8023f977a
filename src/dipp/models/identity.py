"""The identity of a denoiser: one SHA-256, by which a file names the network that it was made with.

Sender and receiver need the same network, and the SNRs, and hence ε, come from its scheduler config. The hash is over
these parts, each preceded by its length (u64le):

    "dipp/model/1"
    the network config, then the scheduler config: JSON as written in the folder, less the keys that start
        with an underscore (class name, library version, path), with sorted keys, no spaces, in ASCII
    for each tensor, sorted by name: its name, stored dtype ("float16"), shape ("3,128,3,3") and bytes

A network of another class than diffusers' `UNet2DModel` has "dipp/model/2" in the place of the first part, and after it
one more: its class name. So the same numbers in another architecture are another model.

A latent model has "dipp/model/3" there, then the largest latent, the pipeline's list of its components, and for each of
those its name, class, config and tensors, or the names and bytes of a tokenizer's files (`components.Pipeline`).

The identity depends on what is stored, and neither on a library's version nor on the folder's name. Saving a model
again may add config keys or change the dtype, which makes it a different model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from dipp.core.arrays import Array, host, library

Add = Callable[[bytes | memoryview], None]
"""Adds a part to a hash."""

FIRST = "UNet2DModel"
"""The class of the networks that there were before any other."""


def identity(network: Mapping[str, Any], scheduler: Mapping[str, Any], tensors: Mapping[str, Array]) -> str:
    """Hex SHA-256 of a denoiser, as the module's text defines it."""
    digest = hashlib.sha256()

    def add(part: bytes | memoryview) -> None:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)

    kind = str(network.get("_class_name", FIRST))
    for part in ("dipp/model/1",) if kind == FIRST else ("dipp/model/2", kind):
        add(part.encode())
    for config in (network, scheduler):
        add_json(add, config)
    add_tensors(add, tensors)
    return digest.hexdigest()


def covered(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the identity covers of a config: all but the keys that start with an underscore.

    Networks are made from that alone. Libraries give such keys a meaning: by `_use_default_values`, for instance,
    diffusers ignores what a config says of others.
    """
    return {key: value for key, value in config.items() if not key.startswith("_")}


def add_json(add: Add, config: Mapping[str, Any]) -> None:
    """Add what is covered of a config."""
    add(json.dumps(covered(config), sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode())


def add_tensors(add: Add, tensors: Mapping[str, Array]) -> None:
    """Add name, dtype, shape and bytes of each tensor."""
    for name, tensor in sorted(tensors.items()):
        add(name.encode())
        add(str(tensor.dtype).removeprefix("torch.").encode())
        add(",".join(map(str, tensor.shape)).encode())
        # As bytes, in PyTorch's type of the same name: NumPy has no bfloat16.
        flat = tensor.ravel().view(library(tensor).uint8)
        add(host(flat).data)
