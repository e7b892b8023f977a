"""The identity of a denoiser: a SHA-256 by which an archive names the network that it was made with.

Sender and receiver need the same network, and the SNRs, and hence ε, come from its scheduler config. The hash covers
these parts, each preceded by its length (u64le):

    "dipp/model/1"
    the network config, then the scheduler config: JSON as written in the folder, without the keys that start
        with an underscore (class name, library version, path), with sorted keys, no spaces, in ASCII
    for each tensor, sorted by name: its name, stored dtype ("float16"), shape ("3,128,3,3") and bytes

For a network of another class than diffusers' `UNet2DModel`, the first part is "dipp/model/2", and the class name
follows it. So the same numbers in another architecture are another model.

For a latent model, the first part is "dipp/model/3". The largest latent and the pipeline's list of its components
follow, and then for each component its name, class, config and tensors, or the names and bytes of a tokenizer's files
(`components.Pipeline`).

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
"""A function that adds one part to a hash."""

FIRST = "UNet2DModel"
"""Class of the networks whose hash does not cover their class name."""


def identity(network: Mapping[str, Any], scheduler: Mapping[str, Any], tensors: Mapping[str, Array]) -> str:
    """Return the identity of a denoiser on pixels: the SHA-256 over its configs and weights that this module defines.

    Args:
        network: The network config.
        scheduler: The scheduler config.
        tensors: The stored weights by their names, as NumPy arrays or tensors, in their stored dtypes.

    Returns:
        A hex SHA-256.
    """
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
    """Return the part of a config that the identity covers: all keys but those that start with an underscore.

    Networks are made from that part alone, because libraries give the other keys a meaning. With
    `_use_default_values`, for instance, diffusers ignores the values of other keys.
    """
    return {key: value for key, value in config.items() if not key.startswith("_")}


def add_json(add: Add, config: Mapping[str, Any]) -> None:
    """Add to a hash the covered part of a config, as canonical JSON.

    Args:
        add: Function that adds bytes to the hash.
        config: The config.
    """
    add(json.dumps(covered(config), sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode())


def add_tensors(add: Add, tensors: Mapping[str, Array]) -> None:
    """Add to a hash the name, dtype, shape and bytes of each tensor, sorted by name.

    Args:
        add: Function that adds bytes to the hash.
        tensors: Tensors by their names.
    """
    for name, tensor in sorted(tensors.items()):
        add(name.encode())
        add(str(tensor.dtype).removeprefix("torch.").encode())
        add(",".join(map(str, tensor.shape)).encode())
        # As bytes, in PyTorch's type of the same name: NumPy has no bfloat16.
        flat = tensor.ravel().view(library(tensor).uint8)
        add(host(flat).data)
