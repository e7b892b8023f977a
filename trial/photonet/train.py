"""Train the denoiser: `python -m photonet.train PACKS OUT --seconds 900`.

Each step adds the losses of a stream of large tiles and of one of small ones. Weights of convolutions follow Muon, all
others AdamW. The learning rate rises over the first steps and falls to zero in a straight line with the time that has
passed. On CUDA a whole step is captured as one graph: its thousands of kernels take longer to start than to run.

What is written is the running average of the weights; `checkpoint.pt` holds it and the weights themselves in half
precision, and `--resume` starts a further run from there, with moments anew.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from photonet import folder
from photonet.bank import Bank, Cut, cut_all
from photonet.evaluate import gaussian_errors
from photonet.muon import Muon
from photonet.network import Config, Network
from photonet.objective import Stream

CHECKPOINT = "checkpoint.pt"


@dataclass(frozen=True)
class Settings:
    """What a run follows from."""

    seconds: float
    rate: float = 3e-3
    """The highest learning rate, of Muon."""
    adam: float = 1e-3
    """Likewise of AdamW."""
    warm_up: int = 200
    average: float = 0.9995
    """Decay of the running average of the weights, once it has warmed up."""
    large: tuple[int, int, int] = (3, 16, 32)
    """Of the large tiles in a batch: cohorts of chains, pictures in each, Gaussian states."""
    small: tuple[int, int, int] = (6, 64, 384)
    clip: float = 1.0
    """Largest norm of a gradient."""
    seed: int = 0


class Run:
    """Network, data and optimisers on a device."""

    def __init__(self, config: Config, settings: Settings, banks: tuple[Bank, Bank], device: torch.device) -> None:
        torch.manual_seed(settings.seed)
        self.settings, self.device, self.step = settings, device, 0
        self.network: Network = Network(config).to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.streams = tuple(
            Stream(bank, config.stride, *sizes)
            for bank, sizes in zip(banks, (settings.large, settings.small), strict=True)
        )
        self.parameters = list(self.network.parameters())
        middle = [*self.network.downs.modules(), *self.network.ups.modules(), *self.network.shrink, *self.network.grow]
        matrices = [layer.weight for layer in middle if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d)]
        others = [p for p in self.parameters if not any(p is weight for weight in matrices)]
        cuda = device.type == "cuda"
        self.muon = Muon(matrices)
        self.adam = torch.optim.AdamW(
            others, lr=torch.zeros((), device=device), betas=(0.9, 0.99), weight_decay=0.01, fused=cuda, capturable=cuda
        )
        self.average = [p.detach().clone() for p in self.parameters]
        self.pace = torch.zeros((), device=device)
        """Of both learning rates, the share of the highest."""
        self.decay = torch.zeros((), device=device)
        """Of the running average, in this step."""
        self.losses = torch.zeros(2, device=device)
        """Of the two streams, summed over steps."""
        self.graph: torch.cuda.CUDAGraph | None = None

    def update(self, progress: float) -> None:
        """One step, as the graph if there is one."""
        settings = self.settings
        self.pace.fill_(min(1.0, (self.step + 1) / settings.warm_up) * (1 - progress))
        self.step += 1
        self.decay.fill_(min(settings.average, self.step / (9 + self.step)))
        if self.graph is None:
            self._update()
        else:
            self.graph.replay()

    def capture(self) -> None:
        """Record a step as a graph, after some steps in which libraries choose their kernels."""
        torch.backends.cudnn.benchmark = True
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.update(0.0)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._update()
        self.graph = graph
        torch.backends.cudnn.benchmark = False  # what is validated on comes in other sizes

    def _update(self) -> None:
        self.network.zero_grad(set_to_none=True)
        for index, stream in enumerate(self.streams):
            loss = stream.loss(self._predict)
            loss.backward()  # type: ignore[no-untyped-call]
            self.losses[index] += loss.detach()
        torch.nn.utils.clip_grad_norm_(self.parameters, self.settings.clip)
        self.adam.param_groups[0]["lr"].copy_(self.pace * self.settings.adam)
        self.adam.step()
        self.muon.step(self.pace * self.settings.rate)
        moved = torch._foreach_sub([p.detach() for p in self.parameters], self.average)
        torch._foreach_mul_(moved, 1 - self.decay)
        torch._foreach_add_(self.average, moved)

    def _predict(self, y: Tensor, snr: Tensor, precision: Tensor, inside: Tensor) -> Tensor:
        """A prediction in bf16 on CUDA, in channels-last order."""
        y, precision = (value.contiguous(memory_format=torch.channels_last) for value in (y, precision))
        with torch.autocast("cuda", torch.bfloat16, enabled=self.device.type == "cuda", cache_enabled=False):
            x_hat: Tensor = self.network(y, snr, precision, inside)
        return x_hat.float()

    def averaged(self) -> dict[str, Tensor]:
        """The running average of the weights, by name."""
        return dict(zip((name for name, _ in self.network.named_parameters()), self.average, strict=True))

    def save(self, out: Path) -> None:
        """Write the network and what a further run starts from."""
        folder.write(out, self.network.config, self.averaged())
        weights = {name: p.detach().half().cpu() for name, p in self.network.named_parameters()}
        average = {name: p.half().cpu() for name, p in self.averaged().items()}
        partial = out / f".{CHECKPOINT}.partial"
        torch.save({"weights": weights, "average": average, "step": self.step}, partial)
        partial.replace(out / CHECKPOINT)

    def validate(self, pictures: dict[str, Tensor]) -> dict[str, float]:
        """PSNRs of the running average on Gaussian states of pictures."""
        network = Network(self.network.config).to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        network.load_state_dict(self.averaged())
        found = {name: gaussian_errors(network.eval(), x0) for name, x0 in pictures.items()}
        values = {f"{name} {snr:g}": value for name, table in found.items() for snr, value in table.items()}
        return {"step": self.step, **values}

    def resume(self, path: Path) -> None:
        """Start from a checkpoint."""
        content = torch.load(path, map_location=self.device, weights_only=True)
        self.network.load_state_dict({name: tensor.float() for name, tensor in content["weights"].items()})
        for mine, stored in zip(self.average, content["average"].values(), strict=True):
            mine.copy_(stored)


def train(
    run: Run, out: Path, pictures: dict[str, Tensor], save_every: float = 60.0, tell_every: float = 15.0
) -> Iterator[dict[str, float]]:
    """Go on until the time is up; yields what is told on the way: losses, and PSNRs on pictures to validate on."""
    began = told = saved = time.monotonic()
    first = run.step
    run.losses.zero_()
    while (now := time.monotonic()) - began < run.settings.seconds:
        run.update((now - began) / run.settings.seconds)
        if run.step % 10:
            continue
        large, small = (run.losses / max(1, run.step - first)).tolist()  # waits for the device
        if now - told >= tell_every:
            rate = (run.step - first) / (now - told)
            yield {"step": run.step, "seconds": round(now - began), "large": large, "small": small, "rate": rate}
            told, first = now, run.step
            run.losses.zero_()
        if now - saved >= save_every:
            run.save(out)
            saved = now
            yield run.validate(pictures)
    run.save(out)
    yield run.validate(pictures)


def main() -> None:
    """Train from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packs", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--tiles", type=int, nargs=2, default=(5, 24), help="large and small tiles of a photograph")
    parser.add_argument("--side", type=int, default=192, help="of large tiles")
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--graph", action="store_true", help="capture a step as a CUDA graph")
    parser.add_argument("--resume", type=Path)
    parser.add_argument("--validation", type=Path, help="npz of pictures to validate on")
    parser.add_argument("--config", type=json.loads, default={}, help="JSON of sizes of the network")
    parser.add_argument("--settings", type=json.loads, default={}, help="JSON of further settings")
    options = parser.parse_args()
    device, began = torch.device(options.device), time.monotonic()
    options.out.mkdir(parents=True, exist_ok=True)
    cuts = (Cut(options.side, options.tiles[0], 0.0), Cut(32, options.tiles[1], 0.4))
    packs = sorted(options.packs.glob("*.tar"))
    large, small = (Bank(tiles, device) for tiles in cut_all(packs, cuts, options.workers))
    count, seconds = [len(large.tiles), len(small.tiles)], round(time.monotonic() - began)
    print(f"{count[0]} large and {count[1]} small tiles in {seconds} s", flush=True)
    settings = Settings(seconds=options.seconds, **options.settings)
    run = Run(Config(**options.config), settings, (large, small), device)
    if options.resume:
        run.resume(options.resume)
    if options.graph:
        run.capture()
        print(f"captured after {time.monotonic() - began:.0f} s", flush=True)
    record: dict[str, Any] = {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "torch": torch.__version__,
        "parameters": sum(p.numel() for p in run.parameters),
        "config": asdict(run.network.config),
        "settings": asdict(settings),
        "tiles": [len(large.tiles), len(small.tiles)],
        "resumed": bool(options.resume),
        "losses": [],
    }
    stored = np.load(options.validation) if options.validation else {}
    pictures = {name: (torch.from_numpy(stored[name]).permute(0, 3, 1, 2) / 127.5 - 1).to(device) for name in stored}
    for told in train(run, options.out, pictures):
        print(" ".join(f"{name} {value:.4g}" for name, value in told.items()), flush=True)
        record["losses"].append({name: round(value, 4) for name, value in told.items()})
    record["steps"], record["seconds"] = run.step, round(time.monotonic() - began)
    (options.out / "training.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(f"done: {run.step} steps", flush=True)


if __name__ == "__main__":
    main()
