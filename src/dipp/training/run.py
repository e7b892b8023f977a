"""`dipp train`: train a denoiser on public pictures.

The course of a run depends on its settings and data alone. Every step seeds the generators with its own number, so a
run that was killed goes on from its last checkpoint as if it had not been interrupted (bit for bit where the arithmetic
is repeatable, as on the CPU). Under `--minutes` the learning rate follows the share of the time that has passed, summed
over all parts of the run.

After the first validation or pause, the folder holds a denoiser at any time:

    model_index.json, unet/, scheduler/   the running average of the weights, in diffusers' format
    training.json                         settings, data, time, losses, validations
    samples/*.png                         pictures sampled from noise, one sheet for each validation
    checkpoint.pt                         what the run needs to go on; it may be deleted when the run is finished
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from dipp import files, models
from dipp.errors import DippError
from dipp.models.diffusion import NoiseSchedule
from dipp.training import folder, setup, validation
from dipp.training.objective import Objective

CHECKPOINT = "checkpoint.pt"
RECORD = "training.json"
WARM_UP_STEPS = 500
"""Steps in which the learning rate rises; in a short run, a twentieth of its steps. Counted in steps and not in time,
because compilation takes time as well."""
VALIDATIONS = 5
"""Number of validations, evenly spread over a run."""
COMPILE_MODES = ("reduce-overhead", "default", "none")
"""How torch.compile is used on CUDA: for fused kernels and CUDA graphs (the kernels are small, and launching them one
by one takes longer than running them), for fused kernels alone, or not at all."""
REPORT_SECONDS = 10.0
"""Time between two reports."""
CHECKPOINT_SECONDS = 60.0
"""Time between two checkpoints."""
CLIP = 1.0
"""Largest norm of the gradient; larger ones are scaled down to it."""


@dataclass(frozen=True)
class Settings:
    """The settings on which the course of a run depends."""

    steps: int | None = None
    """Length of the run in steps; None if `minutes` is given."""
    minutes: float | None = None
    """Length of the run in minutes, over all its parts; None if `steps` is given."""
    batch: int = 512
    """Pictures in each step."""
    learning_rate: float = 8e-4
    """Peak of the learning rate, which decays to zero at the end."""
    ema: float = 0.9995
    """Decay per step of the running average of the weights; at the start of a run it is smaller."""
    coded: float = 0.0
    """Share of the batch that chains of sign steps take, instead of pictures with Gaussian noise."""
    seed: int = 0
    """Seed of all random choices."""
    half: bool = False
    """Whether weights are stored in fp16."""
    compile_mode: str = COMPILE_MODES[0]
    """One of `COMPILE_MODES`; without effect on the CPU."""

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.minutes is None):
            raise DippError("steps, minutes: one of them is needed")
        if not (self.steps is None or self.steps >= 1) or not (self.minutes is None or 0 < self.minutes < math.inf):
            raise DippError("steps, minutes: a number above 0 is needed")
        if self.batch < 1 or not 0 < self.learning_rate < 1 or not 0 <= self.ema < 1 or not 0 <= self.coded <= 1:
            raise DippError("train: batch ≥ 1, 0 < learning-rate < 1, 0 ≤ ema < 1 and 0 ≤ coded ≤ 1 are needed")
        if self.compile_mode not in COMPILE_MODES:
            raise DippError(f"compile: one of {', '.join(COMPILE_MODES)} is needed, got {self.compile_mode}")

    def progress(self, step: int, seconds: float) -> float:
        """The share of the run that is done after so many steps and seconds, from 0 to 1."""
        return min(1.0, step / self.steps if self.steps else seconds / (60 * (self.minutes or math.inf)))

    def rate(self, step: int, progress: float) -> float:
        """The learning rate: it rises linearly in the warm-up, and falls with the share of the run that is left."""
        rising = min(WARM_UP_STEPS, -(-self.steps // 20) if self.steps else WARM_UP_STEPS)
        return self.learning_rate * min(1.0, (step + 1) / rising) * (1 - progress)


@dataclass(frozen=True)
class Report:
    """A report on the steps since the last one."""

    step: int
    progress: float
    """Share of the run that is done."""
    loss: float
    """Mean loss."""
    rate: float
    """Pictures per second."""
    learning_rate: float


class Run:
    """A run in a folder. Making the object checks everything and resumes from a checkpoint; `train` does the work."""

    def __init__(
        self,
        data: Path,
        output: Path,
        settings: Settings,
        *,
        size: int = 32,
        network: Mapping[str, Any] | None = None,
        start: Path | None = None,
        validate_on: Path | None = None,
        device: str = "cpu",
    ) -> None:
        self.output, self.settings, self.device = output, settings, torch.device(device)
        if self.device.type == "cuda" and not torch.cuda.is_available():
            raise DippError("device: cuda is not available here; use cpu")
        setup.check_folder(output, CHECKPOINT)
        config, scheduler, tensors = setup.origin(network or folder.default_network(size), start)
        self.config, self.scheduler = folder.complete(config), scheduler
        torch.manual_seed(settings.seed)
        self.network = folder.build(self.config)
        if tensors is not None:
            self.network.load_state_dict(tensors)
        setup.check_disk(output, sum(tensor.numel() for tensor in self.network.parameters()))
        training, held_out, skipped = setup.pictures(data, validate_on, self.config["sample_size"])
        self.skipped, self.held_out = skipped, held_out
        # All pictures stay on the device, in eight bits: CIFAR-10 takes 150 MB.
        self.pixels = torch.from_numpy(training.transpose(0, 3, 1, 2)).contiguous().to(self.device)
        self.network.to(self.device, memory_format=torch.channels_last).train()
        self.parameters = [p for p in self.network.parameters() if p.requires_grad]
        self.current = [p.detach() for p in self.parameters]  # these share memory with the parameters
        self.average = [p.clone() for p in self.current]
        self.optimiser = torch.optim.AdamW(
            self.parameters, lr=settings.learning_rate, betas=(0.9, 0.99), fused=self.device.type == "cuda"
        )
        self.objective = Objective(NoiseSchedule.from_config(self.scheduler), settings.coded, self.device)
        self.step, self.seconds = 0, 0.0
        self.validations: list[dict[str, Any]] = []
        self.facts = {
            "data": data.name,
            "pictures": len(training),
            "held out": len(held_out),
            "network": self.config,
            "scheduler": self.scheduler,
            "start": None if start is None else start.name,
            "device": torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "cpu",
        }
        self._resume()

    @property
    def progress(self) -> float:
        """The share of the run that is done."""
        return self.settings.progress(self.step, self.seconds)

    def train(self, tell: Callable[[Report], None], pause_after: float | None = None) -> bool:
        """Train to the end, or for `pause_after` minutes; return whether the end was reached. `tell` gets reports."""
        settings, network = self.settings, self.network
        if self.device.type == "cuda":
            torch.backends.cudnn.benchmark = True  # the shapes are always the same
            if settings.compile_mode != "none":
                network = torch.compile(self.network, mode=settings.compile_mode)
        before, began = self.seconds, time.monotonic()
        told = saved = began
        told_step, losses = self.step, torch.zeros((), device=self.device)
        while self.progress < 1:
            rate = settings.rate(self.step, self.progress)
            losses += self._update(network, rate)
            self.step += 1
            now = time.monotonic()
            self.seconds = before + now - began
            if now - told >= REPORT_SECONDS or self.progress == 1:
                count = self.step - told_step
                loss = float(losses) / count  # this waits for the device
                now = time.monotonic()
                if not math.isfinite(loss):
                    raise DippError("train: the loss is no longer finite; lower --learning-rate and start anew")
                tell(Report(self.step, self.progress, loss, count * settings.batch / (now - told), rate))
                told, told_step, losses = now, self.step, torch.zeros_like(losses)
            paused = pause_after is not None and now - began >= 60 * pause_after
            if now - saved >= CHECKPOINT_SECONDS or paused:
                self._save()
                saved = now
            if paused and self.progress < 1:
                self._export()
                return False
            if self.progress < 1 and len(self.validations) < int(self.progress * VALIDATIONS):
                self.validate()
        self._save()
        return True

    def validate(self) -> dict[str, Any]:
        """Write the denoiser, measure it as it is stored, draw a sheet of samples, and write the record of the run."""
        self._export()
        denoiser = models.load(self.output, str(self.device))
        table = validation.errors(denoiser, self.held_out)
        bits = validation.path_bits(table, denoiser)
        samples = self.output / "samples"
        samples.mkdir(exist_ok=True)
        validation.sample_grid(denoiser, samples / f"{self.step:07d}.png")
        found = {
            "step": self.step,
            "minutes": round(self.seconds / 60, 2),
            "mse of x0 at SNR": {f"{snr:g}": float(f"{table.mse(snr):.4g}") for snr in bits},
            "bits per pixel of the path to SNR": {f"{snr:g}": float(f"{value:.4g}") for snr, value in bits.items()},
        }
        self.validations.append(found)
        record = {
            **self.facts,
            "skipped": self.skipped,
            "settings": asdict(self.settings),
            "steps": self.step,
            "pictures seen": self.step * self.settings.batch,
            "minutes": round(self.seconds / 60, 2),
            "parameters": sum(parameter.numel() for parameter in self.parameters),
            "identity": denoiser.identity,
            "validations": self.validations,
        }
        folder.write_json(self.output / RECORD, record)
        return found

    def _update(self, network: Any, rate: float) -> torch.Tensor:
        """Take one optimiser step with the given learning rate; return its loss, which stays on the device."""
        settings = self.settings
        torch.manual_seed((settings.seed << 40) + self.step)
        batch = self.pixels[torch.randint(len(self.pixels), (settings.batch,), device=self.device)]
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        if self.device.type == "cuda":  # results of the last step in the graphs' memory may be overwritten
            torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
        loss = self.objective.loss(network, batch)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.parameters, CLIP)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        decay = min(settings.ema, (1 + self.step) / (10 + self.step))
        torch._foreach_lerp_(self.average, self.current, 1 - decay)
        return loss.detach()

    def _export(self) -> None:
        """Write the denoiser with the averaged weights."""
        folder.write(self.output, self.config, self.scheduler, self._average(), self.settings.half)

    def _average(self) -> dict[str, torch.Tensor]:
        """The network's tensors by name, with the running averages in place of its parameters."""
        averages = iter(self.average)
        return {name: next(averages) for name, parameter in self.network.named_parameters() if parameter.requires_grad}

    def _course(self) -> dict[str, Any]:
        """What must be equal in a checkpoint for a run to be resumed; its length may change."""
        settings = asdict(self.settings)
        for name in ("steps", "minutes", "half", "compile_mode"):
            settings.pop(name)
        return {**{name: value for name, value in self.facts.items() if name != "device"}, **settings}

    def _save(self) -> None:
        """Write a checkpoint."""
        content = {
            "network": self.network.state_dict(),
            "average": self.average,
            "optimiser": self.optimiser.state_dict(),
            "chains": self.objective.chains.state,
            "step": self.step,
            "seconds": self.seconds,
            "validations": json.dumps(self.validations),
            "course": json.dumps(self._course()),
        }
        with files.atomic(self.output / CHECKPOINT) as part:
            torch.save(content, part)

    def _resume(self) -> None:
        """Go on from the folder's checkpoint, if there is one; refuse one of another run."""
        path = self.output / CHECKPOINT
        if not path.is_file():
            return
        try:
            content = torch.load(path, map_location=self.device, weights_only=True)
            course = json.loads(content["course"])
        except Exception:
            raise DippError(f"{CHECKPOINT}: damaged; delete it to start anew") from None
        ours = self._course()
        other = [name for name, value in ours.items() if course.get(name) != json.loads(json.dumps(value))]
        if other:
            raise DippError(f"output: {self.output} holds a run with another {', '.join(other)}; use another folder")
        self.network.load_state_dict(content["network"])
        for mine, stored in zip(self.average, content["average"], strict=True):
            mine.copy_(stored)
        self.optimiser.load_state_dict(content["optimiser"])
        self.objective.chains.state = content.get("chains", {})  # absent in old checkpoints: chains start anew
        self.step, self.seconds = content["step"], content["seconds"]
        self.validations = json.loads(content["validations"])
