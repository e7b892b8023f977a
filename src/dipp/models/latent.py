"""Latent diffusion models: pipelines in diffusers' format with a VAE and a network that predicts its latents.

| network | conditions beside the state and t | for example |
|---|---|---|
| `UNet2DModel` | none | latent models without text |
| `UNet2DConditionModel` | a prompt | Stable Diffusion 1.5, 2.1 |
| the same, with the embedding `text_time` | a prompt through two text encoders, and the picture's size | SDXL |
| `FluxTransformer2DModel` | a prompt through two text encoders | FLUX |

For a chain, such a model is a denoiser of pictures of latents (`core.latents`), and its noise schedule is
`ladder.Ladder.schedule`. The VAE works before and after the chain: `LatentDenoiser.coded` computes eight-bit latents of
private pixels, and `LatentDenoiser.picture` computes a picture from predicted latents.

**Evidence.** The network takes a state and a timestep. An estimate is merged into the state, and a map of precisions
becomes one SNR (`evidence`), whose nearest timestep is taken. Answers to comparisons are ignored.

**Numbers.** Weights are converted to fp32, whatever their stored dtype, and coded steps compute in fp32
(`denoiser.Numbers`). The last prediction and the VAE's decoding, which no other machine has to reproduce, are bf16 on
CUDA.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dipp.core.geometry import Geometry
from dipp.core.latents import REACH, Latents, require_prompt
from dipp.core.signal import to_levels, to_signal
from dipp.errors import DippError
from dipp.models import conditioning, watch
from dipp.models.components import Pipeline
from dipp.models.conditioning import Conditioning, Conditions
from dipp.models.denoiser import MAX_PICTURE, Denoiser, Device, Numbers
from dipp.models.diffusion import NoiseSchedule
from dipp.models.evidence import Evidence
from dipp.models.identity import covered
from dipp.models.ladder import Ladder
from dipp.models.running import in_calls
from dipp.models.unet import renamed

if TYPE_CHECKING:
    import torch

    from dipp.models.books import Books

Pixels = NDArray[np.uint8]

VAE_CLASS = "AutoencoderKL"
COLOURS = 3
LATENTS_PER_CALL = {"cpu": 1 << 12, "mps": 1 << 12, "cuda": 1 << 16}
"""Largest number of latents in one call of the network, by device. A picture of 512×512 pixels has 4,096."""


def load(name: str, folder: Path, config: dict[str, Any], config_path: Path, device_name: Device) -> LatentDenoiser:
    """Load a latent model.

    Args:
        name: Folder or hub id.
        folder: Not used: the pipeline finds its folder by the name.
        config: Config of the network.
        config_path: Path of that config, relative to the model's folder.
        device_name: Device on which the model shall run.

    Raises:
        DippError: A component is missing, damaged, or of an unsupported kind.
    """
    import torch

    del folder
    device = torch.device(device_name)
    pipeline, network = Pipeline.open(name), config_path.parent.as_posix()
    kind = conditioning.of(name, config)
    pipeline.require((network, "scheduler", *kind.parts, "vae"))
    ladder = Ladder.from_config(pipeline.config("scheduler"))  # refused before weights are read
    vae_config = pipeline.config("vae")
    latents = _latents(name, vae_config, config, kind)
    tensors = {part: pipeline.tensors(part) for part in (network, "vae")}
    height, width = _size(name, config, vae_config, latents)
    return LatentDenoiser(
        network=_network(name, config, tensors[network], device),
        schedule=ladder.schedule(),
        identity=pipeline.identity(tensors),
        device=device,
        channels=latents.channels,
        sample_size=(height, width),
        latents=latents,
        ladder=ladder,
        vae=_vae(name, vae_config, tensors["vae"], device),
        conditioning=kind,
        pipeline=pipeline,
    )


@dataclass(frozen=True, eq=False)
class LatentDenoiser(Denoiser):
    """A denoiser of eight-bit latents, with the VAE that encodes pictures as latents and decodes them."""

    network: torch.nn.Module
    """The network that predicts latents, on the device."""
    vae: Any
    """The VAE, on the device."""
    conditioning: Conditioning
    """How to call the network."""
    ladder: Ladder
    """Noise levels that the network was trained on."""
    schedule: NoiseSchedule
    """Noise schedule of the coded signal."""
    latents: Latents = field()
    """Shape of the latents of a picture."""
    identity: str
    """Hex SHA-256 over all components but the prompt (`components.Pipeline.identity`)."""
    channels: int
    """Channels of the latents."""
    sample_size: tuple[int, int]
    """Height and width of the latents that the network was trained on."""
    device: torch.device
    pipeline: Pipeline
    """Folder of the model, from which text encoders are loaded."""
    prompt: str = ""
    """Public text that conditions the network."""
    books: Books | None = None

    def prompted(self, prompt: str) -> LatentDenoiser:
        """Return the model with another prompt, which must be public; raise if it takes none."""
        if prompt == self.prompt:
            return self
        if not self.conditioning.parts and prompt:
            raise DippError("prompt", "cannot be used, because the model has no text encoder", "leave the prompt out")
        require_prompt(prompt)
        return replace(self, prompt=prompt)

    def prepare(self) -> None:
        """Run the text encoders, and the network on the smallest state, or raise if that fails."""
        import torch

        smallest = torch.zeros((1, self.channels, self.latents.patch, self.latents.patch))
        try:
            self.x0(smallest, len(self.schedule) - 1)
        except DippError:
            raise
        except (RuntimeError, ValueError, TypeError, AttributeError, KeyError, IndexError) as error:
            reason = " ".join(str(error).split())[:200]
            raise DippError(
                "model", f"{self.pipeline.name} has components that do not run together: {reason}"
            ) from None

    def require_size(self, picture: Geometry) -> None:
        """Raise if a picture is too large once it is padded to whole latents."""
        height, width = self.latents.padded(picture)
        if height * width > MAX_PICTURE:
            raise DippError(
                "image",
                f"of {picture.height}×{picture.width} takes {height}×{width} in whole latents, more than "
                f"{MAX_PICTURE >> 20} megapixels",
                "cut it into parts",
            )

    def x0(self, x_t: torch.Tensor, t: int, *, fast: bool = False) -> torch.Tensor:
        """Return the latents û, fp32 in [−1, 1], predicted from states (N, C, h, w) of any size at a timestep."""
        return self._x0(x_t, t, Numbers.FAST if fast else Numbers.EXACT)

    def predict(self, evidence: Evidence, numbers: Numbers = Numbers.SENSING) -> torch.Tensor:
        """Return the latents û (N, c, h, w) predicted from the merged state, at the timestep nearest to its SNR."""
        t = self.schedule.nearest(evidence.level)
        x_t = self.schedule.gamma(t) * evidence.merged.state
        x_hat: torch.Tensor = evidence.restored(self._x0(x_t, t, numbers))
        return x_hat

    def _x0(self, x_t: torch.Tensor, t: int, numbers: Numbers) -> torch.Tensor:
        import torch

        self._check_shape(tuple(x_t.shape))
        state = self.ladder.scale(t) * x_t.to(self.device, torch.float32)
        time = float(self.ladder.times[t])
        output = in_calls(lambda part: self._predict(part, time, numbers), state, LATENTS_PER_CALL[self.device.type])
        watch.predicted(len(x_t) * math.prod(x_t.shape[2:]) * self.latents.factor**2)
        return self.ladder.x0(output, state, t).contiguous()

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        if len(shape) != 4 or not all(shape) or shape[1] != self.channels:
            raise DippError("x_t", f"must be a batch (N, {self.channels}, h, w) of latents, got shape {shape}")
        if math.prod(shape[2:]) * self.latents.factor**2 > MAX_PICTURE:
            raise DippError("image", f"has {shape[2]}×{shape[3]} latents, too many for a network", "cut it into parts")

    def _predict(self, x: torch.Tensor, number: float, numbers: Numbers) -> torch.Tensor:
        from dipp.models.engine import computed

        exact = numbers if self.device.type == "cuda" else Numbers.EXACT
        conditions, factor = self._conditions, self.latents.factor
        call = functools.partial(self.conditioning.output, self.network, x, number, conditions, factor)
        return computed(call, self.device, exact)

    @functools.cached_property
    def _conditions(self) -> Conditions:
        """Conditions of the network for the prompt."""
        import torch

        with torch.inference_mode():
            return self.conditioning.conditions(self.pipeline, self.prompt, self.device)

    def coded(self, pixels: Any) -> Any:
        """Return eight-bit latents (N, h, w, c) of pixels (N, H, W, 3), which are as private as the pixels.

        A latent is the mode of the VAE's posterior, which has no randomness. No picture makes this fail: a latent that
        is not finite counts as 0, and a latent beyond the range ±R as ±R.
        """
        import torch

        with torch.inference_mode():
            return np.concatenate([self._coded(torch.from_numpy(picture)) for picture in pixels])

    def _coded(self, pixels: torch.Tensor) -> Pixels:
        import torch

        from dipp.models.engine import computed

        geometry = Geometry.of(pixels.shape)
        height, width = self.latents.padded(geometry)
        x = to_signal(pixels.to(self.device, torch.float32)).permute(2, 0, 1)[None]
        edges = (0, width - geometry.width, 0, height - geometry.height)
        x = torch.nn.functional.pad(x, edges, mode="replicate")
        z = computed(lambda: self.vae.encode(x).latent_dist.mode(), self.device, Numbers.EXACT)
        config = self.vae.config
        signal = (z - (config.shift_factor or 0.0)) * (config.scaling_factor / REACH)
        signal = signal.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
        coded: Pixels = to_levels(signal).permute(0, 2, 3, 1).cpu().numpy().astype(np.uint8)
        return coded

    def picture(self, x: torch.Tensor, geometry: Geometry) -> torch.Tensor:
        """Return the pictures (N, 3, H, W) of predicted latents (N, c, h, w), with values around [−1, 1]."""
        import torch

        from dipp.models.engine import computed

        numbers = Numbers.FAST if self.device.type == "cuda" else Numbers.EXACT
        config = self.vae.config
        z = x.nan_to_num(nan=0.0) * (REACH / config.scaling_factor) + (config.shift_factor or 0.0)
        with torch.inference_mode():
            decoded = [computed(functools.partial(self._decoded, latent[None]), self.device, numbers) for latent in z]
        return torch.cat(decoded)[:, :, : geometry.height, : geometry.width].clone()

    def _decoded(self, z: torch.Tensor) -> torch.Tensor:
        picture: torch.Tensor = self.vae.decode(z, return_dict=False)[0]
        return picture


def _latents(name: str, vae: Mapping[str, Any], network: Mapping[str, Any], kind: Conditioning) -> Latents:
    """Return the shape of a model's latents, or raise if its VAE is unsupported or does not fit the network."""
    channels, outside = vae.get("latent_channels"), {vae.get("in_channels"), vae.get("out_channels")}
    blocks = vae.get("block_out_channels")
    scaling, shift = vae.get("scaling_factor", 1.0), vae.get("shift_factor") or 0.0
    inputs = network.get("in_channels")
    outputs = network.get("out_channels") or inputs  # FLUX leaves them out if they are the same
    refusals = {
        f"has a {vae.get('_class_name')} as its VAE": vae.get("_class_name") != VAE_CLASS,
        "does not say the block_out_channels of its VAE": not isinstance(blocks, list) or not blocks,
        "does not say the latent_channels of its VAE": not isinstance(channels, int),
        "has a VAE of other pictures than RGB": outside != {COLOURS},
        "has no number above 0 as the scaling_factor of its VAE": not (_is_finite(scaling) and scaling > 0),
        "has no number as the shift_factor of its VAE": not _is_finite(shift),
        "has a VAE with means and deviations": any(vae.get(key) is not None for key in ("latents_mean", "latents_std")),
    }
    for reason, refused in refusals.items():
        if refused:
            raise DippError("model", f"{name} {reason}", f"name a model with an {VAE_CLASS} of RGB pictures")
    if not (isinstance(channels, int) and isinstance(blocks, list)) or {inputs, outputs} != {channels * kind.packs**2}:
        raise DippError(
            "model",
            f"{name} maps {inputs} channels to {outputs}, and its VAE has {channels}",
            "name a model that generates whole pictures",
        )
    return Latents(2 ** (len(blocks) - 1), channels, kind.multiple)


def _size(name: str, network: Mapping[str, Any], vae: Mapping[str, Any], latents: Latents) -> tuple[int, int]:
    """Return height and width of the latents that a network was trained on, from its config or its VAE's."""
    size, pixels = network.get("sample_size"), 1
    if size is None:
        size, pixels = vae.get("sample_size", 512), latents.factor
    sides = [size, size] if type(size) is int else size
    if not (
        isinstance(sides, list) and len(sides) == 2 and all(type(side) is int and side >= pixels for side in sides)
    ):
        raise DippError(
            "model", f"{name} must have one or two whole numbers from {pixels} as its sample_size, got {size!r:.40}"
        )
    return sides[0] // pixels, sides[1] // pixels


def _is_finite(number: Any) -> bool:
    return type(number) in (int, float) and math.isfinite(number)


def _network(
    name: str, config: dict[str, Any], tensors: Mapping[str, torch.Tensor], device: torch.device
) -> torch.nn.Module:
    import diffusers

    from dipp.models.engine import built

    kind: Any = getattr(diffusers, config["_class_name"])
    return built(name, lambda: kind.from_config(covered(config)), renamed(tensors), device, split=False)


def _vae(name: str, config: dict[str, Any], tensors: Mapping[str, torch.Tensor], device: torch.device) -> Any:
    from diffusers import AutoencoderKL

    from dipp.models.engine import built

    kind: Any = AutoencoderKL
    return built(name, lambda: kind.from_config(covered(config)), renamed(tensors), device, split=False)
