"""How networks of latents are asked: what they are told beside a noisy state and its time, and in which layout.

A kind of networks is a class here. It knows which components of a pipeline make its conditions, and how the network is
called with them; nothing else asks which kind a network is.
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
"""What FLUX.1-dev is told of guidance: as by the public program of DiffC, none."""
FLOW_TIMES = 1000.0
"""Times of a flow scheduler for each unit of time that FLUX is told."""


class Conditioning(ABC):
    """A kind of networks."""

    parts: ClassVar[tuple[str, ...]] = ()
    """Components of the pipeline that conditions are made from."""
    packs: ClassVar[int] = 1
    """Latents along a side of what the network takes as one place."""

    @property
    def multiple(self) -> int:
        """Number that must divide both sides of the latents."""
        return self.packs

    def told(self, pipeline: Pipeline, prompt: str, device: torch.device) -> Conditions:  # noqa: ARG002
        """Return what the network is told of a prompt, one row each; by default nothing."""
        return ()

    @abstractmethod
    def output(self, network: Any, state: torch.Tensor, time: float, told: Conditions, factor: int) -> torch.Tensor:
        """Return the output of the network.

        Args:
            network: The network.
            state: States z_t (N, c, h, w).
            time: What the scheduler calls their time.
            told: What `told` has returned.
            factor: Pixels along a side of a latent.
        """


@dataclass(frozen=True)
class Unconditional(Conditioning):
    """`UNet2DModel`: a network that is told nothing, and halves its states so often that sides must suit it."""

    halvings: int

    @property
    def multiple(self) -> int:
        """Two to the number of halvings."""
        return 1 << self.halvings

    def output(self, network: Any, state: torch.Tensor, time: float, told: Conditions, factor: int) -> torch.Tensor:  # noqa: ARG002
        """Return the output."""
        found: torch.Tensor = network(state, _times(state, time), return_dict=False)[0]
        return found


class OfOneText(Conditioning):
    """`UNet2DConditionModel` of Stable Diffusion 1 and 2: a prompt."""

    parts = ("text_encoder", "tokenizer")

    def told(self, pipeline: Pipeline, prompt: str, device: torch.device) -> Conditions:
        """Return the states of the text encoder."""
        return (prompts.last_states(pipeline, prompt, device),)

    def output(self, network: Any, state: torch.Tensor, time: float, told: Conditions, factor: int) -> torch.Tensor:  # noqa: ARG002
        """Return the output."""
        (states,) = _rows(told, len(state))
        found: torch.Tensor = network(state, _times(state, time), states, return_dict=False)[0]
        return found


class OfTwoTexts(Conditioning):
    """`UNet2DConditionModel` of SDXL: a prompt of two text encoders, and the size of the picture, not cropped."""

    parts = ("text_encoder", "text_encoder_2", "tokenizer", "tokenizer_2")

    def told(self, pipeline: Pipeline, prompt: str, device: torch.device) -> Conditions:
        """Return states and pooled output; zeros for an empty prompt, if the pipeline says so."""
        states, pooled = prompts.states_of_two(pipeline, prompt, device)
        if not prompt and pipeline.index.get(ZEROS):
            return states.new_zeros(states.shape), pooled.new_zeros(pooled.shape)
        return states, pooled

    def output(self, network: Any, state: torch.Tensor, time: float, told: Conditions, factor: int) -> torch.Tensor:
        """Return the output."""
        states, pooled = _rows(told, len(state))
        size = [factor * side for side in state.shape[2:]]
        sizes = state.new_tensor([*size, 0, 0, *size]).expand(len(state), -1)
        added = {"text_embeds": pooled, "time_ids": sizes}
        times = _times(state, time)
        found: torch.Tensor = network(state, times, states, added_cond_kwargs=added, return_dict=False)[0]
        return found


class Flux(Conditioning):
    """`FluxTransformer2DModel`: a prompt of two text encoders; latents are packed in patches of 2×2."""

    parts = ("text_encoder", "text_encoder_2", "tokenizer", "tokenizer_2")
    packs = 2

    def told(self, pipeline: Pipeline, prompt: str, device: torch.device) -> Conditions:
        """Return CLIP's pooled output and the states of T5."""
        return prompts.pooled_and_t5(pipeline, prompt, device)

    def output(self, network: Any, state: torch.Tensor, time: float, told: Conditions, factor: int) -> torch.Tensor:  # noqa: ARG002
        """Return the output, unpacked."""
        pooled, states = _rows(told, len(state))
        height, width = (side // 2 for side in state.shape[2:])
        guidance = state.new_full((len(state),), GUIDANCE) if network.config.guidance_embeds else None
        found = network(
            hidden_states=packed(state),
            timestep=_times(state, time / FLOW_TIMES),
            guidance=guidance,
            pooled_projections=pooled,
            encoder_hidden_states=states,
            txt_ids=state.new_zeros((states.shape[1], 3)),
            img_ids=places(height, width, state),
            return_dict=False,
        )[0]
        return unpacked(found, height, width)


def packed(state: torch.Tensor) -> torch.Tensor:
    """Return latents (N, c, 2h, 2w) as a row of patches, N × h·w × 4c."""
    count, channels, height, width = state.shape
    patches = state.reshape(count, channels, height // 2, 2, width // 2, 2).permute(0, 2, 4, 1, 3, 5)
    return patches.reshape(count, height * width // 4, 4 * channels)


def unpacked(patches: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """Return the latents (N, c, 2h, 2w) of a row of h × w patches."""
    count, channels = len(patches), patches.shape[2] // 4
    state = patches.reshape(count, height, width, channels, 2, 2).permute(0, 3, 1, 4, 2, 5)
    return state.reshape(count, channels, 2 * height, 2 * width)


def places(height: int, width: int, like: torch.Tensor) -> torch.Tensor:
    """Return row and column of each patch behind a zero, h·w × 3."""
    found = like.new_zeros((height, width, 3))
    found[..., 1] += found.new_tensor(range(height))[:, None]
    found[..., 2] += found.new_tensor(range(width))
    return found.reshape(-1, 3)


def _rows(told: Conditions, count: int) -> Conditions:
    """Return the same conditions for each of `count` states."""
    return tuple(one.expand(count, *one.shape[1:]) for one in told)


def _times(state: torch.Tensor, time: float) -> torch.Tensor:
    return state.new_full((len(state),), time)


UNET, FLUX = "UNet2DConditionModel", "FluxTransformer2DModel"
KINDS = ("UNet2DModel", UNET, FLUX)
"""The classes of networks of latents."""


def of(name: str, config: Mapping[str, Any]) -> Conditioning:
    """Return how a network is asked, by its config, or raise if it asks for more than is known here."""
    kind = str(config.get("_class_name"))
    if kind not in KINDS:
        raise DippError("model", f"{name} has a VAE around a {kind}", f"one of {', '.join(KINDS)} is needed")
    if kind == FLUX:
        return Flux()
    other = {
        "classes": "class_embed_type",
        "a number of classes": "num_class_embeds",
        "images": "encoder_hid_dim_type",
        "guidance": "time_cond_proj_dim",
    }
    for what, key in other.items():
        if config.get(key) is not None:
            raise DippError(
                "model", f"{name} has to be told {what} ({key})", "one that is told a prompt at most is needed"
            )
    if kind == "UNet2DModel":
        if config.get("time_embedding_type") == "fourier":
            raise DippError("model", f"{name} takes noise levels, and not timesteps", "another is needed")
        return Unconditional(len(config.get("block_out_channels") or [0]) - 1)
    added = config.get("addition_embed_type")
    if added not in (None, "text_time"):
        raise DippError("model", f"{name} has to be told {added} (addition_embed_type)", "another is needed")
    return OfOneText() if added is None else OfTwoTexts()
