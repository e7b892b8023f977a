"""Time and memory of latent models with random weights: Stable Diffusion 1.5, and a quarter of its width.

    python benchmarks/latent.py                                # on the CPU: minutes
    python benchmarks/latent.py --device cuda --steps 62

No weights of a real model are needed, because neither time nor memory depends on them. Pictures are noise, and quality
is not measured.

**Weights.** With `--count`, the parameters of the components of four models, counted without allocating them, and their
memory in fp32.

**Calls.** One prediction of the latents of a picture as steps along timesteps take it (fp32), as questions do (TF32 on
CUDA), and as the last one does (bf16 on CUDA); VAE to latents and back. On CUDA also the network alone in fp16, weights
and all, as the public program of DiffC runs it. Stated is the median of some calls, after one that does not count.

**Chains.** A picture is encoded and decoded in three ways, each after one that does not count, which compiles kernels:

- *diffc*: along timesteps by the coding of the preset `diffc`: `--steps` steps, evenly spread in log SNR, in chunks of
  64 latents with indices of 16 bits;
- *diffc, in bf16*: the same on CUDA, with bf16 in the coded steps too, which dipp does not do: two machines would agree
  less;
- *sharp*: by `sharp --unit picture` at ε = 64: two questions by random signs, of 4 and 16 draws.

The paper of the public program of DiffC says that it compresses and decompresses with Stable Diffusion in under 10
seconds. Its configuration for Stable Diffusion 1.5 lists 62 timesteps until 200, at which its example stops, and about
160 in all.

Memory is the peak of the process on the CPU, which holds the weights once more while they are made, and on CUDA what
PyTorch has allocated at most during each of these.
"""

from __future__ import annotations

import dipp  # isort: skip - before PyTorch, because it sets how threads wait

import argparse
import copy
import dataclasses
import functools
import itertools
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import AutoencoderKL, FluxTransformer2DModel, UNet2DConditionModel
from provenance import provenance, write

from dipp.codes import Closest
from dipp.core.channels import Sign
from dipp.core.geometry import Geometry
from dipp.core.latents import Latents
from dipp.core.plan import Coding, Plan
from dipp.core.steps import Question, Step
from dipp.core.units import Picture
from dipp.models.components import Pipeline
from dipp.models.conditioning import Conditions, OneTextConditioning
from dipp.models.denoiser import Numbers, torch_device
from dipp.models.engine import ready
from dipp.models.evidence import Evidence
from dipp.models.ladder import Ladder
from dipp.models.latent import LatentDenoiser
from dipp.planning.presets import DIFFC
from dipp.planning.questions import candidates_of, step_of

SCHEDULER = {
    "num_train_timesteps": 1000,
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "prediction_type": "epsilon",
}
WIDTHS = {"a quarter of the width": (80, 160, 320, 320), "Stable Diffusion 1.5": (320, 640, 1280, 1280)}
TOKENS, TEXT = 77, 768
VAE: dict[str, Any] = {
    "block_out_channels": (128, 256, 512, 512),
    "down_block_types": ("DownEncoderBlock2D",) * 4,
    "up_block_types": ("UpDecoderBlock2D",) * 4,
    "layers_per_block": 2,
    "latent_channels": 4,
}
LAST = 200
"""Timestep at which chains end, as in the public program's example."""
CHUNK, INDEX_BITS, EXPONENT_UNITS = 64, 16, 80
EPSILON, DIVISIONS = 64.0, (2, 4)
"""ε of a chain of questions, and the number of blocks along a side of the picture in each question."""


class HalfPrecisionModel(LatentDenoiser):
    """A latent model that computes all steps with the precision of its last step."""

    def x0(self, x_t: torch.Tensor, t: int, *, fast: bool = False) -> torch.Tensor:  # noqa: ARG002
        """Return û in bf16."""
        return super().x0(x_t, t, fast=True)


@dataclass(frozen=True)
class RandomText(OneTextConditioning):
    """A prompt that no text encoder has seen."""

    def conditions(self, pipeline: Pipeline, prompt: str, device: torch.device) -> Conditions:  # noqa: ARG002
        """Return random states with the shape of CLIP's."""
        return (torch.randn(1, TOKENS, TEXT, generator=torch.Generator().manual_seed(0)).to(device),)


def weights() -> dict[str, Any]:
    """Return the parameters of each component of real models, and the GiB of those that stay in memory."""
    from transformers import T5Config, T5EncoderModel

    made: dict[str, Any] = {"UNet": UNet2DConditionModel, "FLUX": FluxTransformer2DModel, "VAE": AutoencoderKL}
    sd2 = {"cross_attention_dim": 1024, "attention_head_dim": (5, 10, 20, 20), "use_linear_projection": True}
    xl = {
        "block_out_channels": (320, 640, 1280),
        "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        "transformer_layers_per_block": (1, 2, 10),
        "attention_head_dim": (5, 10, 20),
        "cross_attention_dim": 2048,
        "use_linear_projection": True,
        "addition_embed_type": "text_time",
        "addition_time_embed_dim": 256,
        "projection_class_embeddings_input_dim": 2816,
    }
    large = clip(768, 12, 12)
    with torch.device("meta"):
        parts = {
            "Stable Diffusion 1.5": (made["UNet"](cross_attention_dim=TEXT), made["VAE"](**VAE), large),
            "Stable Diffusion 2.1": (made["UNet"](**sd2), made["VAE"](**VAE), clip(1024, 23, 16)),
            "SDXL": (made["UNet"](**xl), made["VAE"](**VAE), large, clip(1280, 32, 20)),
            "FLUX.1-dev": (
                made["FLUX"](guidance_embeds=True),
                made["VAE"](**{**VAE, "latent_channels": 16}),
                large,
                T5EncoderModel(
                    T5Config(d_model=4096, d_ff=10240, num_layers=24, num_heads=64, feed_forward_proj="gated-gelu")
                ),
            ),
        }
    found = {}
    for name, (network, vae, *texts) in parts.items():
        own, image, text = (sum(p.numel() for m in some for p in m.parameters()) for some in ([network], [vae], texts))
        gib = {"network and VAE": 4 * (own + image) / 2**30, "text encoders, for a moment": 4 * text / 2**30}
        sizes = {"network": own, "VAE": image, "text encoders": text}
        found[name] = {"parameters": sizes, "GiB in fp32": {key: round(value, 1) for key, value in gib.items()}}
    return found


def clip(width: int, layers: int, heads: int) -> Any:
    """Return a text encoder like CLIP's."""
    from transformers import CLIPTextConfig, CLIPTextModel

    with torch.device("meta"):
        return CLIPTextModel(
            CLIPTextConfig(
                hidden_size=width, intermediate_size=4 * width, num_hidden_layers=layers, num_attention_heads=heads
            )
        )


def filled(make: Callable[[], Any], device: torch.device) -> Any:
    """Fill a network with small random weights, and return it."""
    with torch.device("meta"):
        network = make()
    network = network.to_empty(device=device)
    generator = torch.Generator(device).manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(1.0 if parameter.ndim == 1 else 0.0, 0.02, generator=generator)
    return ready(network, device, split=False)


def model(widths: tuple[int, ...], device: torch.device) -> LatentDenoiser:
    """Return a latent model with the shape of Stable Diffusion 1.5."""

    def unet() -> Any:
        made: Any = UNet2DConditionModel
        groups = 32 if widths[0] % 32 == 0 else 16
        return made(
            sample_size=64,
            block_out_channels=widths,
            cross_attention_dim=TEXT,
            attention_head_dim=8,
            norm_num_groups=groups,
        )

    def vae() -> Any:
        made: Any = AutoencoderKL
        return made(**VAE)

    ladder = Ladder.from_config(SCHEDULER)
    return LatentDenoiser(
        network=filled(unet, device),
        vae=filled(vae, device),
        conditioning=RandomText(),
        ladder=ladder,
        schedule=ladder.schedule(),
        latents=Latents(8, 4),
        identity="00" * 32,
        channels=4,
        sample_size=(64, 64),
        device=device,
        pipeline=Pipeline("random", Path(), {}),
    )


@dataclass
class Watch:
    """A record of the seconds and the memory of calls."""

    device: torch.device
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    memory: dict[str, float] = dataclasses.field(default_factory=dict)

    def take(self, what: str, call: Callable[[], Any], rounds: int = 1, *, before: int = 1) -> Any:
        """Record the median seconds of calls, after uncounted ones, and return the last result."""
        found = [call() for _ in range(before)]
        taken = []
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        for _ in range(rounds):
            self.wait()
            began = time.perf_counter()
            found = [call()]
            self.wait()
            taken.append(time.perf_counter() - began)
        self.seconds[what], self.memory[what] = round(statistics.median(taken), 4), self.peak()
        print(f"{what}: {self.seconds[what]} s, {self.memory[what]} GiB", flush=True)
        return found[-1]

    def wait(self) -> None:
        """Wait until the device has finished."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def peak(self) -> float:
        """Return the largest memory so far, in GiB."""
        if self.device.type == "cuda":
            return round(torch.cuda.max_memory_allocated() / 2**30, 2)
        return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)


def along_timesteps(denoiser: LatentDenoiser, steps: int) -> Plan:
    """Return a plan along timesteps, evenly spread in log SNR."""
    schedule = denoiser.schedule
    logs = np.log([schedule.snr(t) for t in range(len(schedule))])
    wanted = np.linspace(logs[-1], logs[LAST], steps + 1)
    times = [int(np.abs(logs - level).argmin()) for level in wanted]
    made = []
    for t, s in itertools.pairwise(times):
        gain = np.float32((schedule.snr(s) - schedule.snr(t)) * (1 - 2**-20))
        made.append(Step(t, s, float(gain), CHUNK, INDEX_BITS, EXPONENT_UNITS))
    return Plan(DIFFC, tuple(made))


def by_questions() -> Plan:
    """Return a plan of questions about the whole picture, with random signs."""
    each = EPSILON / sum(split**2 for split in DIVISIONS)
    recipe = candidates_of(each, signs=True)._replace(scale=0.125)
    steps: list[Question] = [step_of(recipe._replace(split=split), each) for split in DIVISIONS]
    return Plan(Coding(Sign(period=1), Closest()), tuple(steps), unit=Picture())


def chains(denoiser: LatentDenoiser, steps: int) -> dict[str, dipp.Codec]:
    """Return the codecs by which a picture is encoded."""
    timesteps = along_timesteps(denoiser, steps)
    found = {"diffc": dipp.Codec(denoiser, timesteps)}
    if denoiser.device.type == "cuda":
        parts = {part.name: getattr(denoiser, part.name) for part in dataclasses.fields(denoiser)}
        found["diffc, in bf16"] = dipp.Codec(HalfPrecisionModel(**parts), timesteps)
    return {**found, "sharp": dipp.Codec(denoiser, by_questions(), table="00" * 32)}


def measure(name: str, sides: list[int], rounds: int, steps: int, device: torch.device) -> dict[str, Any]:
    """Return the time and memory of one model."""
    began = time.perf_counter()
    denoiser = model(WIDTHS[name], device)
    print(f"{name}: random weights in {time.perf_counter() - began:.1f} s", flush=True)
    sizes = {part: sum(p.numel() for p in getattr(denoiser, part).parameters()) for part in ("network", "vae")}
    found: dict[str, Any] = {
        "parameters": sizes,
        "weights in GiB": round(4 * sum(sizes.values()) / 2**30, 2),
        "pictures": {},
    }
    for side in sides:
        picture = np.random.default_rng(0).integers(0, 256, (1, side, side, 3), np.uint8)
        geometry, state = Geometry(side, side, 3), torch.randn(1, 4, side // 8, side // 8, device=device)
        watch = Watch(device)
        watch.take("a coded step", functools.partial(denoiser.x0, state, 500), rounds)
        evidence = Evidence(state, denoiser.schedule.snr(500))
        watch.take("a prediction between questions", functools.partial(denoiser.predict, evidence), rounds)
        watch.take("the last prediction", functools.partial(denoiser.predict, evidence, Numbers.FAST), rounds)
        watch.take("to latents", functools.partial(denoiser.coded, picture), rounds)
        watch.take("from latents", functools.partial(denoiser.picture, state, geometry), rounds)
        for way, codec in chains(denoiser, steps).items() if steps else ():
            compiles = int(device.type == "cuda")
            encode = functools.partial(codec.encode, picture[0], odometer=False)
            archive = watch.take(f"{way}: encoding", encode, before=compiles)
            watch.take(f"{way}: decoding", functools.partial(codec.decode, archive), before=compiles)
        found["pictures"][f"{side}×{side}"] = {"seconds": watch.seconds, "peak memory in GiB": watch.memory}
    if device.type == "cuda":
        found["alone in fp16"] = in_fp16(denoiser, max(sides), rounds)
    return found


def in_fp16(denoiser: LatentDenoiser, side: int, rounds: int) -> dict[str, Any]:
    """Return the time and memory of a call of the network alone with fp16 weights, and nothing else in memory."""
    network, (text,) = (
        copy.deepcopy(denoiser.network).half(),
        denoiser.conditioning.conditions(denoiser.pipeline, "", denoiser.device),
    )
    state = torch.randn(1, 4, side // 8, side // 8, device=denoiser.device).half()
    times, watch, own = torch.full((1,), 500.0, device=denoiser.device), Watch(denoiser.device), text.half()
    before = torch.cuda.memory_allocated() - sum(p.numel() * 2 for p in network.parameters())
    with torch.inference_mode():
        watch.take("a call", lambda: network(state, times, own, return_dict=False), rounds)
    memory = watch.memory["a call"] - before / 2**30
    return {"side": side, "seconds": watch.seconds["a call"], "peak memory in GiB": round(memory, 2)}


def main() -> None:
    """Measure, and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sizes", type=int, nargs="+", default=[256, 512])
    parser.add_argument("--networks", nargs="+", choices=list(WIDTHS), default=list(WIDTHS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4, help="Steps of the chain; 0 encodes nothing.")
    parser.add_argument("--count", action="store_true", help="Count the weights of real models too.")
    parser.add_argument("-o", "--output", type=Path, default=Path("benchmarks/results/latent.json"))
    options = parser.parse_args()
    device = torch_device(options.device)
    found = {name: measure(name, options.sizes, options.rounds, options.steps, device) for name in options.networks}
    counted = {"weights": weights()} if options.count else {}
    write(options.output, {**provenance(device.type), **counted, "steps of a chain": options.steps, "models": found})


if __name__ == "__main__":
    main()
