"""How to call networks of latents: the conditions that they take beside a noisy state and its time, and the layout.

Each kind of networks has a class here, which knows the components of a pipeline that make its conditions, and how to
call the network with them. No other module depends on the kind of a network.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from dipp.errors import DippError
from dipp.models import prompts
from dipp.models.components import ZEROS, Pipeline

if TYPE_CHECKING:
    import torch

    Conditions = tuple[torch.Tensor, ...]
else:
    Conditions = tuple

GUIDANCE = 0.0
"""Guidance scale that FLUX.1-dev is given: 0, as in the public program of DiffC."""
FLOW_TIMES = 1000.0
"""Factor from the time that FLUX takes to the time of its scheduler."""


class Conditioning(ABC):
    """The conditions that networks of one class take beside noisy latents, and the way to call them."""

    parts: ClassVar[tuple[str, ...]] = ()
    """Components of the pipeline that make the conditions."""
    packs: ClassVar[int] = 1
    """Side of the patches of latents that the network takes as one position, in latents."""

    @property
    def multiple(self) -> int:
        """Number that must divide both sides of the latents."""
        return self.packs

    def conditions(self, pipeline: Pipeline, prompt: str, device: torch.device) -> Conditions:  # noqa: ARG002
        """Return the conditions for a prompt, by default none.

        Args:
            pipeline: The model's components.
            prompt: A public text.
            device: Where to compute them.

        Returns:
            Tensors with a first axis of length 1.
        """
        return ()

    @abstractmethod
    def output(self, network: Any, state: torch.Tensor, time: float, given: Conditions, factor: int) -> torch.Tensor:
        """Return the output of the network (N, c, h, w).

        Args:
            network: The network.
            state: States z_t (N, c, h, w).
            time: Time of the states in the scheduler's units.
            given: What the method `conditions` returned.
            factor: Pixels along a side of a latent.
        """


@dataclass(frozen=True)
class NoConditioning(Conditioning):
    """`UNet2DModel`: a network without conditions."""

    halvings: int
    """Number of times that the network halves the sides of its states."""

    @property
    def multiple(self) -> int:
        """Number that must divide both sides of the latents: 2 to the power of `halvings`."""
        return 1 << self.halvings

    def output(self, network: Any, state: torch.Tensor, time: float, given: Conditions, factor: int) -> torch.Tensor:  # noqa: ARG002
        """Return the output of the network, without conditions."""
        output: torch.Tensor = network(state, _times(state, time), return_dict=False)[0]
        return output


class OneTextConditioning(Conditioning):
    """`UNet2DConditionModel` of Stable Diffusion 1 and 2, which takes a prompt."""

    parts = ("text_encoder", "tokenizer")

    def conditions(self, pipeline: Pipeline, prompt: str, device: torch.device) -> Conditions:
        """Return the states of the text encoder for a prompt."""
        return (prompts.last_states(pipeline, prompt, device),)

    def output(self, network: Any, state: torch.Tensor, time: float, given: Conditions, factor: int) -> torch.Tensor:  # noqa: ARG002
        """Return the output of the network for the states of the text encoder."""
        (states,) = _repeated(given, len(state))
        output: torch.Tensor = network(state, _times(state, time), states, return_dict=False)[0]
        return output


class TwoTextConditioning(Conditioning):
    """`UNet2DConditionModel` of SDXL, which takes a prompt through two text encoders, and the picture's size."""

    parts = ("text_encoder", "text_encoder_2", "tokenizer", "tokenizer_2")

    def conditions(self, pipeline: Pipeline, prompt: str, device: torch.device) -> Conditions:
        """Return states and pooled output of the text encoders, or zeros for an empty prompt if the index says so."""
        states, pooled = prompts.states_of_two(pipeline, prompt, device)
        if not prompt and pipeline.index.get(ZEROS):
            return states.new_zeros(states.shape), pooled.new_zeros(pooled.shape)
        return states, pooled

    def output(self, network: Any, state: torch.Tensor, time: float, given: Conditions, factor: int) -> torch.Tensor:
        """Return the output of the network for pictures of the states' size, which were not cropped."""
        states, pooled = _repeated(given, len(state))
        size = [factor * side for side in state.shape[2:]]
        sizes = state.new_tensor([*size, 0, 0, *size]).expand(len(state), -1)
        added = {"text_embeds": pooled, "time_ids": sizes}
        times = _times(state, time)
        output: torch.Tensor = network(state, times, states, added_cond_kwargs=added, return_dict=False)[0]
        return output


class Flux(Conditioning):
    """`FluxTransformer2DModel`, which takes a prompt through two text encoders, and latents in patches of 2×2."""

    parts = ("text_encoder", "text_encoder_2", "tokenizer", "tokenizer_2")
    packs = 2

    def conditions(self, pipeline: Pipeline, prompt: str, device: torch.device) -> Conditions:
        """Return CLIP's pooled output and the states of T5 for a prompt."""
        return prompts.pooled_and_t5(pipeline, prompt, device)

    def output(self, network: Any, state: torch.Tensor, time: float, given: Conditions, factor: int) -> torch.Tensor:  # noqa: ARG002
        """Return the output of the network, which reads and writes patches, as states (N, c, h, w)."""
        pooled, states = _repeated(given, len(state))
        height, width = (side // 2 for side in state.shape[2:])
        guidance = state.new_full((len(state),), GUIDANCE) if network.config.guidance_embeds else None
        output = network(
            hidden_states=packed(state),
            timestep=_times(state, time / FLOW_TIMES),
            guidance=guidance,
            pooled_projections=pooled,
            encoder_hidden_states=states,
            txt_ids=state.new_zeros((states.shape[1], 3)),
            img_ids=positions(height, width, state),
            return_dict=False,
        )[0]
        return unpacked(output, height, width)


def packed(state: torch.Tensor) -> torch.Tensor:
    """Return latents (N, c, 2h, 2w) as rows of patches (N, h·w, 4c)."""
    count, channels, height, width = state.shape
    patches = state.reshape(count, channels, height // 2, 2, width // 2, 2).permute(0, 2, 4, 1, 3, 5)
    return patches.reshape(count, height * width // 4, 4 * channels)


def unpacked(patches: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """Return the latents (N, c, 2h, 2w) of rows of patches (N, h·w, 4c): the inverse of `packed`.

    Args:
        patches: The rows of patches.
        height: Number h of patches in a column.
        width: Number w of patches in a row.
    """
    count, channels = len(patches), patches.shape[2] // 4
    state = patches.reshape(count, height, width, channels, 2, 2).permute(0, 3, 1, 4, 2, 5)
    return state.reshape(count, channels, 2 * height, 2 * width)


def positions(height: int, width: int, like: torch.Tensor) -> torch.Tensor:
    """Return (0, row, column) of each patch, a tensor (h·w, 3) of the dtype and on the device of `like`."""
    ids = like.new_zeros((height, width, 3))
    ids[..., 1] += ids.new_tensor(range(height))[:, None]
    ids[..., 2] += ids.new_tensor(range(width))
    return ids.reshape(-1, 3)


def _repeated(conditions: Conditions, count: int) -> Conditions:
    """Return conditions of one state, repeated for `count` states."""
    return tuple(condition.expand(count, *condition.shape[1:]) for condition in conditions)


def _times(state: torch.Tensor, time: float) -> torch.Tensor:
    return state.new_full((len(state),), time)


UNET, FLUX = "UNet2DConditionModel", "FluxTransformer2DModel"
KINDS = ("UNet2DModel", UNET, FLUX)
"""The classes of networks of latents."""


def of(name: str, config: Mapping[str, Any]) -> Conditioning:
    """Return the conditioning of a network.

    Args:
        name: The model, for error messages.
        config: Config of the network.

    Raises:
        DippError: The network is of an unknown class, or takes more than a prompt.
    """
    kind = str(config.get("_class_name"))
    if kind not in KINDS:
        raise DippError("model", f"{name} has a VAE around a {kind}", f"name a model of {', '.join(KINDS)}")
    if kind == FLUX:
        return Flux()
    conditions = {
        "classes": "class_embed_type",
        "a number of classes": "num_class_embeds",
        "images": "encoder_hid_dim_type",
        "guidance": "time_cond_proj_dim",
    }
    for what, key in conditions.items():
        if config.get(key) is not None:
            raise DippError("model", f"{name} takes {what} ({key})", "name a model that takes nothing but a prompt")
    if kind == "UNet2DModel":
        if config.get("time_embedding_type") == "fourier":
            raise DippError("model", f"{name} takes noise levels", "name a model that takes timesteps")
        return NoConditioning(len(config.get("block_out_channels") or [0]) - 1)
    added = config.get("addition_embed_type")
    if added not in (None, "text_time"):
        raise DippError(
            "model", f"{name} takes {added} (addition_embed_type)", "name a model that takes nothing but a prompt"
        )
    return OneTextConditioning() if added is None else TwoTextConditioning()
