"""`dipp train`: train a denoiser for photographs on public pictures.

Each step adds the losses of a stream of large tiles and of one of small ones (`objective`). Weights of convolutions
follow Muon, all others AdamW. The learning rate rises over the first steps of every part of a run, and falls to zero in
a straight line with the share of the run that is done. On CUDA a whole step is captured as one graph: its thousands of
kernels take longer to start than to run.

A run that was killed goes on from its checkpoint: weights and their running average in half precision, 37 MB for the
default network, so that it travels between machines. Moments and chains start anew. Under `--minutes` time is summed
over all parts of the run.

After the first validation or pause, the folder holds a denoiser at any time:

    config.json, model.safetensors, scheduler_config.json   the running average of the weights (`models.photonet`)
    training.json                                           settings, data, time, validations
    checkpoint.pt                                           what the run needs to go on
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
from dipp.training.objective import Stream
from dipp.training.settings import Settings
from dipp.training.validation import gaussian_psnr
from dipp.training.worded import Worded

CHECKPOINT = "checkpoint.pt"
RECORD = "training.json"
SIDE, LEAST_SIDE = 192, 8
"""Default and least side of large tiles, in pixels."""
SMALL_SIDE = 32
"""Side of small tiles, in pixels."""
SMALL_TILES = 10
"""Small tiles for each large one in a batch."""
CUT_TILES = (3, 12)
"""Large and small tiles that are cut of a small photograph (`bank`)."""
SCENE = 0.4
"""The least share of a photograph that a small tile shows."""
COHORTS = (16, 64)
"""Pictures of a cohort of chains, at most: large and small ones."""
ADAM = 1 / 3
"""The learning rate of AdamW over that of Muon."""
VALIDATIONS = 5
"""Number of validations, evenly spread over a run."""
REPORT_SECONDS = 10.0
CHECKPOINT_SECONDS = 60.0
LOOK = 10
"""Steps between two looks at the clock on CUDA; each look waits for the device."""
CLIP = 1.0
"""Largest norm of the gradient; larger ones are scaled down to it."""


@dataclass(frozen=True)
class Report:
    """A report on the steps since the last one."""

    step: int
    progress: float
    """Share of the run that is done."""
    loss: float
    """Mean loss of the two streams; about 1, since it is relative to a running mean."""
    rate: float
    """Steps per second."""


class Run:
    """A run in a folder. Making the object checks everything and resumes from a checkpoint; `train` does the work."""

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
        made: Any = Network(config)
        if tensors is not None:
            made.load_state_dict(tensors)
        self.network: Network = made.to(self.device, memory_format=torch.channels_last)
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
            Stream(
                Bank(tiles, self.device), config, settings.sizes(count, cohort, worded=Worded.fits(books, side)), books
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
        """The learning rate of Muon in this step, the share of the running average that is kept, and summed losses."""
        self.graph: torch.cuda.CUDAGraph | None = None
        self.step, self.since, self.seconds = 0, 0, 0.0
        self.validations: list[dict[str, Any]] = []
        self.facts = {
            "data": data.name,
            "photographs": self.tiles.photographs,
            "tiles": {f"{len(one[0])}×{len(one[0])}": len(one) for one in self.tiles.training},
            "network": asdict(config),
            "start": None if start is None else start.name,
            "device": torch.cuda.get_device_name(self.device) if cuda else "cpu",
        }
        self._resume()
        setup.make_folder(output)

    @property
    def progress(self) -> float:
        """The share of the run that is done."""
        return self.settings.progress(self.step, self.seconds)

    def train(self, tell: Callable[[Report], None], pause_after: float | None = None) -> bool:
        """Train to the end, or for `pause_after` minutes; return whether the end was reached. `tell` gets reports."""
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
                    "train", "has reached a loss that is not finite", "lower --learning-rate and start anew"
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
        """Write the denoiser, measure it as it is stored, and write the record of the run."""
        self._export()
        denoiser = models.load(self.output, str(self.device))
        found: dict[str, Any] = {"step": self.step, "minutes": round(self.seconds / 60, 2)}
        for tiles in self.tiles.held_out:
            table = gaussian_psnr(denoiser, tiles)
            found[f"PSNR on {len(tiles[0])}×{len(tiles[0])}"] = {f"{snr:g}": round(v, 2) for snr, v in table.items()}
        self.validations.append(found)
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
        return found

    def _capture(self) -> None:
        """Record a step as a graph, after some steps in which libraries choose their kernels."""
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
        torch.backends.cudnn.benchmark = False  # what is validated on comes in other sizes

    def _update(self) -> None:
        """Take one step, as the graph if there is one."""
        settings = self.settings
        self.rate.fill_(settings.learning_rate * settings.pace(self.since, self.progress))
        self.step, self.since = self.step + 1, self.since + 1
        self.kept.fill_(min(settings.ema, self.step / (9 + self.step)))
        if self.graph is None:
            self._work()
        else:
            self.graph.replay()

    def _work(self) -> None:
        """What a step does on the device."""
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
        """A prediction; bf16 on CUDA only: on some CPUs its backward pass ends in an illegal instruction."""
        told = told.contiguous(memory_format=torch.channels_last)
        with torch.autocast("cuda", torch.bfloat16, enabled=self.device.type == "cuda", cache_enabled=False):
            x_hat: torch.Tensor = self.network(told, snr, inside)
        return x_hat.float()

    def _averaged(self) -> dict[str, torch.Tensor]:
        """The running average of the weights, by name."""
        return dict(zip((name for name, _ in self.network.named_parameters()), self.average, strict=True))

    def _export(self) -> None:
        """Write the denoiser with the averaged weights."""
        photonet.write(self.output, self.network.config, self._averaged())

    def _course(self) -> dict[str, Any]:
        """What must be equal in a checkpoint for a run to be resumed; its length may change."""
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
        """Go on from the folder's checkpoint, if there is one; refuse one of another run."""
        path = self.output / CHECKPOINT
        if not path.is_file():
            return
        try:
            content = torch.load(path, map_location=self.device, weights_only=True)
            course = json.loads(content["course"])
        except Exception:
            raise DippError(CHECKPOINT, "is damaged", "delete it to start anew") from None
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
            raise DippError(CHECKPOINT, "is not whole", "delete it to start anew") from None
        torch.manual_seed((self.settings.seed << 40) + self.step)  # not the same tiles again
