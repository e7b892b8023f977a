"""`dipp train`: train a denoiser for photographs on public pictures.

Each step adds the losses of a stream of large tiles and of one of small ones (`objective`). Weights of convolutions
follow Muon, all others AdamW. The learning rate rises over the first steps of every part of a run, and falls to zero in
a straight line with the share of the run that is done. On CUDA a whole step is captured as one graph: its thousands of
kernels take longer to start than to run.

A killed run goes on from its checkpoint, also on another machine. The checkpoint has the weights and their running
average in half precision, 37 MB for the default network. Moments and chains start again. `--minutes` counts the time of
all parts of the run.

From the first validation or pause on, the folder always holds a denoiser:

    config.json, model.safetensors, scheduler_config.json   the running average of the weights (`models.photonet`)
    training.json                                           settings, data, time, validations
    checkpoint.pt                                           the state from which a killed run goes on
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
from dipp.models import photonet
from dipp.models.denoiser import torch_device
from dipp.models.network import Network
from dipp.training import public_pictures, setup
from dipp.training.bank import Bank, Cut
from dipp.training.muon import Muon
from dipp.training.objective import BatchStream
from dipp.training.settings import Settings
from dipp.training.validation import gaussian_psnr
from dipp.training.worded import WordCohorts

CHECKPOINT = "checkpoint.pt"
RECORD = "training.json"
SIDE, LEAST_SIDE = 192, 8
"""Default and least side of large tiles, in pixels."""
SMALL_SIDE = 32
"""Side of small tiles, in pixels."""
SMALL_TILES = 10
"""Small tiles for each large one in a batch."""
CUT_TILES = (3, 12)
"""Numbers of large and small tiles from a small photograph (`bank`)."""
SCENE = 0.4
"""The least share of a photograph that a small tile shows."""
COHORTS = (16, 64)
"""Largest numbers of pictures in a cohort of chains, for large and small tiles."""
ADAM = 1 / 3
"""The learning rate of AdamW divided by that of Muon."""
VALIDATIONS = 5
"""Number of validations in a run, at equal distances."""
REPORT_SECONDS = 10.0
CHECKPOINT_SECONDS = 60.0
LOOK = 10
"""Steps between two looks at the clock on CUDA, because each look waits for the device."""
CLIP = 1.0
"""Largest norm of the gradient. Larger gradients are scaled down to it."""


@dataclass(frozen=True)
class Report:
    """The progress of a run since the previous report."""

    step: int
    progress: float
    """Share of the run that is done."""
    loss: float
    """Mean loss of the two streams. It is about 1, since losses are divided by a running mean."""
    rate: float
    """Steps per second."""


class TrainingRun:
    """A training run in a folder. The constructor checks everything and resumes from a checkpoint; `train` trains.

    Args:
        data: Public photographs: a folder, or a .tar, .parquet, .npy or .npz file.
        output: Folder of the run: a new or empty one, or that of a run with the same settings, which goes on.
        settings: Settings of the run.
        size: Side of large tiles in pixels. None takes at most 192, as the photographs allow.
        network: Config of a fresh network. None takes the default, or that of `start`.
        start: Folder of a denoiser for photographs to start from. None starts from fresh weights.
        validate_on: Photographs for validation. None holds out one in fifty of `data`.
        device: "auto", "cuda", "mps" or "cpu".

    Raises:
        DippError: Photographs, folder, network, disk or checkpoint do not suit the run. Nothing is left behind.
    """

    def __init__(
        self,
        data: Path,
        output: Path,
        settings: Settings,
        *,
        size: int | None = None,
        network: Mapping[str, Any] | None = None,
        start: Path | None = None,
        validate_on: Path | None = None,
        device: str = "cpu",
    ) -> None:
        self.output, self.settings, self.device = output, settings, torch_device(device)
        setup.check_folder(output, CHECKPOINT)
        config, tensors = setup.origin(network, start, told=settings.told > 0)
        torch.manual_seed(settings.seed)
        created: Any = Network(config)
        if tensors is not None:
            created.load_state_dict(tensors)
        self.network: Network = created.to(self.device, memory_format=torch.channels_last)
        self.parameters = list(self.network.parameters())
        setup.check_disk(output, sum(parameter.numel() for parameter in self.parameters))
        size = public_pictures.usual_side(data, SIDE) if size is None else size
        if size < LEAST_SIDE:
            raise DippError("size", f"must be at least {LEAST_SIDE} pixels, for tiles and pictures alike, got {size}")
        sides = (size, min(size, SMALL_SIDE))
        cuts = [Cut(side, count, whole) for side, count, whole in zip(sides, CUT_TILES, (0.0, SCENE), strict=True)]
        self.tiles = setup.tiles(data, validate_on, cuts)
        counts = (settings.batch, SMALL_TILES * settings.batch)
        books = None if start is None or not settings.told else models.load(start).books
        self.streams = [
            BatchStream(
                Bank(tiles, self.device),
                config,
                settings.sizes(count, cohort, worded=WordCohorts.fits(books, side)),
                books,
            )
            for tiles, count, cohort, side in zip(self.tiles.training, counts, COHORTS, sides, strict=True)
        ]
        matrices = self.network.matrices()
        others = [p for p in self.parameters if not any(p is weight for weight in matrices)]
        cuda = self.device.type == "cuda"
        self.muon = Muon(matrices)
        self.adam = torch.optim.AdamW(
            others,
            lr=torch.zeros((), device=self.device),
            betas=(0.9, 0.99),
            weight_decay=0.01,
            fused=cuda,
            capturable=cuda,
        )
        self.average = [p.detach().clone() for p in self.parameters]
        self.rate, self.kept, self.loss = (torch.zeros((), device=self.device) for _ in range(3))
        """Muon's learning rate in this step, the share of the running average that it keeps, and the sum of losses."""
        self.graph: torch.cuda.CUDAGraph | None = None
        self.step, self.since, self.seconds = 0, 0, 0.0
        self.validations: list[dict[str, Any]] = []
        self.facts = {
            "data": data.name,
            "photographs": self.tiles.photographs,
            "tiles": {f"{len(sized[0])}×{len(sized[0])}": len(sized) for sized in self.tiles.training},
            "network": asdict(config),
            "start": None if start is None else start.name,
            "device": torch.cuda.get_device_name(self.device) if cuda else "cpu",
        }
        self._resume()
        setup.make_folder(output)

    @property
    def progress(self) -> float:
        """Share of the run that is done, from 0 to 1."""
        return self.settings.progress(self.step, self.seconds)

    def train(self, tell: Callable[[Report], None], pause_after: float | None = None) -> bool:
        """Train to the end of the run, or until a pause.

        Args:
            tell: Callback that receives a report every ten seconds.
            pause_after: Minutes after which the run pauses. None trains to the end.

        Returns:
            Whether the run has reached its end.

        Raises:
            DippError: The loss is no longer finite.
        """
        before, began = self.seconds, time.monotonic()
        if self.device.type == "cuda" and self.progress < 1:
            self._capture()
        told = saved = began
        told_step = self.step
        self.loss.zero_()
        while self.progress < 1:
            self._update()
            if self.graph is not None and self.step % LOOK and self.step != self.settings.steps:
                continue
            summed = float(self.loss)  # this waits for the device
            now = time.monotonic()
            self.seconds = before + now - began
            if not math.isfinite(summed):
                raise DippError(
                    "train", "has reached a loss that is not finite", "lower --learning-rate and start again"
                )
            if now - told >= REPORT_SECONDS or self.progress == 1:
                count = self.step - told_step
                tell(Report(self.step, self.progress, summed / (2 * count), count / (now - told)))
                told, told_step = now, self.step
                self.loss.zero_()
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
        """Write the denoiser, load and measure it, write the record of the run, and return the measurements."""
        self._export()
        denoiser = models.load(self.output, str(self.device))
        figures: dict[str, Any] = {"step": self.step, "minutes": round(self.seconds / 60, 2)}
        for tiles in self.tiles.held_out:
            table = gaussian_psnr(denoiser, tiles)
            figures[f"PSNR on {len(tiles[0])}×{len(tiles[0])}"] = {f"{snr:g}": round(v, 2) for snr, v in table.items()}
        self.validations.append(figures)
        record = {
            **self.facts,
            "skipped": self.tiles.skipped,
            "settings": asdict(self.settings),
            "steps": self.step,
            "minutes": round(self.seconds / 60, 2),
            "parameters": sum(parameter.numel() for parameter in self.parameters),
            "identity": denoiser.identity,
            "validations": self.validations,
        }
        with files.atomic(self.output / RECORD) as part:
            part.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        return figures

    def _capture(self) -> None:
        """Capture a step as a CUDA graph, after some steps in which libraries choose their kernels."""
        torch.backends.cudnn.benchmark = True  # the shapes are always the same
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._update()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._work()
        self.graph = graph
        torch.backends.cudnn.benchmark = False  # tiles for validation have other sizes

    def _update(self) -> None:
        """Take one step, by the captured graph if there is one."""
        settings = self.settings
        self.rate.fill_(settings.learning_rate * settings.pace(self.since, self.progress))
        self.step, self.since = self.step + 1, self.since + 1
        self.kept.fill_(min(settings.ema, self.step / (9 + self.step)))
        if self.graph is None:
            self._work()
        else:
            self.graph.replay()

    def _work(self) -> None:
        """Do the work of a step on the device: losses, gradients, and updates of weights and averages."""
        self.network.zero_grad(set_to_none=True)
        for stream in self.streams:
            loss = stream.loss(self._predict)
            loss.backward()  # type: ignore[no-untyped-call]
            self.loss += loss.detach()
        torch.nn.utils.clip_grad_norm_(self.parameters, CLIP)
        self.adam.param_groups[0]["lr"].copy_(self.rate * ADAM)
        self.adam.step()
        self.muon.step(self.rate)
        moved = torch._foreach_sub([p.detach() for p in self.parameters], self.average)
        torch._foreach_mul_(moved, 1 - self.kept)
        torch._foreach_add_(self.average, moved)

    def _predict(self, told: torch.Tensor, snr: torch.Tensor, inside: torch.Tensor) -> torch.Tensor:
        """Return the network's predictions for stacked planes, SNRs, and masks of what is inside.

        It is computed in bf16 on CUDA only, because on some CPUs the backward pass ends in an illegal instruction.
        """
        told = told.contiguous(memory_format=torch.channels_last)
        with torch.autocast("cuda", torch.bfloat16, enabled=self.device.type == "cuda", cache_enabled=False):
            x_hat: torch.Tensor = self.network(told, snr, inside)
        return x_hat.float()

    def _averaged(self) -> dict[str, torch.Tensor]:
        """Return the running average of the weights by name."""
        return dict(zip((name for name, _ in self.network.named_parameters()), self.average, strict=True))

    def _export(self) -> None:
        """Write the denoiser with the averaged weights."""
        photonet.write(self.output, self.network.config, self._averaged())

    def _course(self) -> dict[str, Any]:
        """Return the settings and data that a run must share with the checkpoint it resumes: all but its length."""
        settings = {name: value for name, value in asdict(self.settings).items() if name not in ("steps", "minutes")}
        return {**{name: value for name, value in self.facts.items() if name != "device"}, **settings}

    def _save(self) -> None:
        """Write a checkpoint."""
        content = {
            "weights": {name: p.detach().half().cpu() for name, p in self.network.named_parameters()},
            "average": {name: p.half().cpu() for name, p in self._averaged().items()},
            "step": self.step,
            "seconds": self.seconds,
            "validations": json.dumps(self.validations),
            "course": json.dumps(self._course()),
        }
        with files.atomic(self.output / CHECKPOINT) as part:
            torch.save(content, part)

    def _resume(self) -> None:
        """Load the folder's checkpoint if there is one; raise if it belongs to another run."""
        path = self.output / CHECKPOINT
        if not path.is_file():
            return
        try:
            content = torch.load(path, map_location=self.device, weights_only=True)
            course = json.loads(content["course"])
        except Exception:
            raise DippError(CHECKPOINT, "is damaged", "delete it to start again") from None
        ours = self._course()
        other = [name for name, value in ours.items() if course.get(name) != json.loads(json.dumps(value))]
        if other:
            raise DippError(
                "output",
                f"must be of the same run, but {self.output} has another {', '.join(other)}",
                "name another folder",
            )
        try:
            self.network.load_state_dict({name: tensor.float() for name, tensor in content["weights"].items()})
            for name, mine in self._averaged().items():
                mine.copy_(content["average"][name])
            self.step, self.seconds = content["step"], content["seconds"]
            self.validations = json.loads(content["validations"])
        except (KeyError, RuntimeError):
            raise DippError(CHECKPOINT, "is not whole", "delete it to start again") from None
        torch.manual_seed((self.settings.seed << 40) + self.step)  # so that other tiles are drawn
