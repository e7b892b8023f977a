"""Denoisers: the protocol, the networks that implement it, and loading them from folders and the hub.

| module | what it is |
|---|---|
| `denoiser` | the protocol of a denoiser |
| `evidence` | what is known of a picture: a state, the precision of each pixel, a second estimate |
| `diffusion`, `betas` | the noise schedule and the steps of the reverse process; schedules in diffusers' configs |
| `samplers` | drawing pictures from a noisy state |
| `photonet` | denoisers for photographs of any size, among them the one that ships |
| `config`, `network` | the config of their convolutional network; the network in PyTorch |
| `tiles` | large pictures in bounded memory, where the network does not take them in bands |
| `runtime`, `graph` | the same network in ONNX Runtime, for the CPU, and as an ONNX graph |
| `winograd_graph` | the ONNX graph with fewer multiplications, for the page |
| `winograd`, `winograd_kernels` | convolutions with fewer multiplications on the CPU |
| `winograd_network` | the same network with these convolutions, for large pictures in bands of rows |
| `unet`, `windows` | diffusers' networks of the class `UNet2DModel`; pictures of other sizes than the network's own |
| `latent`, `ladder` | latent models: a VAE around a network of latents; the noise levels of that network |
| `components`, `conditioning`, `prompts` | the parts of a pipeline; how to call its network; conditions from a text |
| `running`, `engine`, `tf32` | code that networks share; running them in PyTorch; fp32 convolutions on tensor cores |
| `watch`, `bars` | reports of progress; progress bars on a terminal |
| `export` | denoisers for photographs as ONNX files |
| `books` | the public words of a model, by which questions describe blocks |
| `identity`, `hub` | the hash by which a file names its denoiser; models in folders and on the hub |
| `embedded/` | the denoiser that ships with dipp |

The network config in a model's folder names its architecture. A new architecture is a module with a function `load`,
and an entry in `ARCHITECTURES`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from dipp.errors import DippError
from dipp.models import books, conditioning, hub, latent, photonet, unet
from dipp.models.books import Books
from dipp.models.denoiser import Denoiser, device_named
from dipp.models.diffusion import NoiseSchedule
from dipp.models.ladder import Ladder
from dipp.models.unet import INDEX, NETWORK_CONFIGS, SCHEDULER_CONFIGS

if TYPE_CHECKING:
    import torch

ARCHITECTURES: dict[str, Callable[..., Denoiser]] = {
    photonet.CLASS: photonet.load,
    "UNet2DModel": unet.load,
    **dict.fromkeys((conditioning.UNET, conditioning.FLUX), latent.load),
}
"""Functions that load denoisers, by the class that the network config names."""
VAE = "vae/config.json"
"""Path of the config of a latent model's VAE, in the model's folder."""


def load(name_or_folder: str | Path, device: str | torch.device = "cpu", prompt: str = "") -> Denoiser:
    """Load a denoiser.

    Args:
        name_or_folder: A folder that `dipp train` wrote or in diffusers' format, a hub id, or "embedded" for the
            denoiser that ships with dipp.
        device: "auto", "cuda", "mps" or "cpu".
        prompt: A public text, for latent models that take one.

    Returns:
        The denoiser, with the words in its folder, if there are any.

    Raises:
        DippError: The model is missing, damaged or of an unknown class, or the device is not available.

    Example::

        denoiser = dipp.models.load("google/ddpm-cifar10-32", device="cuda")
    """
    name, chosen = str(name_or_folder), device_named(device)
    folder = hub.fetch(name, (INDEX, *NETWORK_CONFIGS, VAE, *SCHEDULER_CONFIGS))
    path = hub.find(name, folder, NETWORK_CONFIGS)
    config = hub.read_json(name, folder / path)
    kind = str(config.get("_class_name"))
    if kind not in ARCHITECTURES:
        raise DippError("model", f"{name} holds a {kind}", f"name a model of {', '.join(ARCHITECTURES)}")
    load_kind = latent.load if (folder / VAE).is_file() else ARCHITECTURES[kind]
    denoiser = load_kind(name, folder, config, path, chosen).prompted(prompt)
    model_words = words(name)
    return denoiser if model_words is None else dataclasses.replace(denoiser, books=model_words)  # type: ignore[type-var]


def words(name_or_folder: str | Path) -> Books | None:
    """Return the public words of a model without loading its weights.

    Args:
        name_or_folder: Folder or hub id of the model.

    Returns:
        The words, or None if the model has none.
    """
    return Books.read(hub.fetch(str(name_or_folder), (books.NAME,)))


def schedule(name_or_folder: str | Path) -> NoiseSchedule:
    """Return the noise schedule of a model without loading its weights.

    Args:
        name_or_folder: Folder or hub id of the model.

    Raises:
        DippError: The model has no scheduler config, or it is invalid.
    """
    name = str(name_or_folder)
    folder = hub.fetch(name, (*SCHEDULER_CONFIGS, VAE))
    config = hub.read_json(name, folder / hub.find(name, folder, SCHEDULER_CONFIGS))
    return Ladder.from_config(config).schedule() if (folder / VAE).is_file() else NoiseSchedule.from_config(config)


def channels(name_or_folder: str | Path) -> int:
    """Return the number of channels of a model's pictures without loading its weights.

    Args:
        name_or_folder: Folder or hub id of the model.

    Returns:
        1 or 3; 3 if the network config does not state it.
    """
    name = str(name_or_folder)
    folder = hub.fetch(name, (*NETWORK_CONFIGS, VAE))
    if (folder / VAE).is_file():
        return latent.COLOURS
    config = hub.read_json(name, folder / hub.find(name, folder, NETWORK_CONFIGS))
    count: int = config.get("in_channels", photonet.PhotoDenoiser.channels)
    return count
