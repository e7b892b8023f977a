"""Training of many classifiers at once on one device, each with pictures, seed and random numbers of its own.

A ResNet-56 on batches of 128 small pictures fills a fraction of a GPU, and most of its time goes into launching small
kernels. So the classifiers of a wave stand side by side in one network (`resnet`), whose step is compiled and captured
in a CUDA graph: 95,000 pictures per second on an H200; one classifier on each of 16 streams gave 55,000. On the CPU
the same step runs without a graph. In both cases the classifiers are independent of each other.

The random choices of an epoch (order, crops, flips) follow from seed and epoch, so that an interrupted wave continues
as if it had not been interrupted. Augmentations are of released pictures, and cost no ε.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from numpy.typing import NDArray

from dipp.codec.pictures import Pixels
from dipp.errors import DippError
from experiments.cifar10.config import Protocol
from experiments.cifar10.resnet import ResNet56

MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
"""Mean and deviation of each channel of CIFAR-10."""
EVALUATED = 250
"""The most pictures in a batch of the evaluation, for each classifier."""
WARM_UP = 3
"""Number of steps before a capture, in which libraries choose their kernels."""


@dataclass(frozen=True, eq=False)
class Task:
    """The training of one classifier: its pictures, its seed and its options."""

    name: str
    pictures: Pixels
    """Pictures (N, H, W, C): first those that train, then those that evaluate."""
    seed: int
    clip: bool
    """Whether gradients are clipped."""


class Draws(NamedTuple):
    """The random choices of an epoch of a classifier, each steps × batch."""

    picture: torch.Tensor
    """Numbers of the pictures."""
    top: torch.Tensor
    left: torch.Tensor
    flip: torch.Tensor

    @classmethod
    def of(cls, seed: int, epoch: int, count: int, protocol: Protocol) -> Draws:
        """Return the choices of an epoch: a permutation of the pictures, and a crop and a flip for each."""
        generator = np.random.default_rng([seed, epoch])
        steps, batch = count // protocol.batch, protocol.batch
        order = generator.permutation(count)[: steps * batch]
        top, left = generator.integers(0, 2 * protocol.pad + 1, (2, steps, batch))
        flip = generator.integers(0, 2, (steps, batch)).astype(np.bool_)
        return cls(*map(torch.from_numpy, (order.reshape(steps, batch), top, left, flip)))

    @classmethod
    def stacked(cls, draws: Sequence[Draws], device: torch.device) -> Draws:
        """Return the draws of several classifiers: steps × classifiers × batch."""
        return cls(*(torch.stack(parts, 1).to(device) for parts in zip(*draws, strict=True)))


def augmented(padded: torch.Tensor, which: torch.Tensor, draws: Draws, size: tuple[int, int]) -> torch.Tensor:
    """Return crops of pictures of the sets `which`, some of them mirrored: classifiers × batch × (H, W, C)."""
    height, width = (torch.arange(side, device=padded.device) for side in size)
    rows = draws.top[..., None] + height
    columns = draws.left[..., None] + torch.where(draws.flip[..., None], width.flip(0), width)
    return padded[which[:, None, None, None], draws.picture[..., None, None], rows[..., None], columns[..., None, :]]


def normalised(pictures: torch.Tensor) -> torch.Tensor:
    """Return pictures (…, H, W, C) of bytes as a network takes them: (…, C, H, W), channels last in memory."""
    mean, deviation = _statistics(pictures.device).unbind()
    return ((pictures / 255 - mean) / deviation).movedim(-1, -3)


def side_by_side(pictures: torch.Tensor) -> torch.Tensor:
    """Return batches of several classifiers (M, N, C, H, W) as the network takes them: (N, M·C, H, W)."""
    return pictures.permute(1, 3, 4, 0, 2).flatten(3).movedim(-1, 1)


@functools.cache
def _statistics(device: torch.device) -> torch.Tensor:
    """Return mean and deviation on the device, made once, because a graph must copy nothing from the host."""
    return torch.tensor((MEAN, DEVIATION), device=device)


class Wave:
    """Classifiers that are trained side by side, all on the labels of one set of pictures; the first ones train."""

    def __init__(
        self, tasks: Sequence[Task], labels: NDArray[np.int64], cut: int, protocol: Protocol, device: str
    ) -> None:
        shapes = {task.pictures.shape for task in tasks}
        if len(shapes) != 1 or shapes.pop()[0] != len(labels):
            raise DippError("tasks", "must have pictures of one shape, and a label for each")
        self.tasks, self.protocol, self.device = tasks, protocol, torch.device(device)
        self.size = tasks[0].pictures.shape[1:3]
        self.cut = cut
        self.labels = torch.from_numpy(labels).to(self.device)
        self.which, self.sets = self._sets([task.pictures for task in tasks])
        pad = protocol.pad
        self.padded = F.pad(self.sets[:, :cut], (0, 0, pad, pad, pad, pad))
        self.clip = torch.tensor([task.clip for task in tasks], device=self.device)
        self.network: ResNet56 = _made([task.seed for task in tasks]).to(  # type: ignore[call-overload]
            self.device, memory_format=torch.channels_last
        )
        self.rate = torch.tensor(0.0, device=self.device)
        self.optimiser = torch.optim.SGD(
            self.network.parameters(),
            lr=self.rate,
            momentum=protocol.momentum,
            weight_decay=protocol.weight_decay,
            fused=True,
        )
        self.draws = Draws.stacked([self._draws(task, 0) for task in tasks], self.device)
        self.batch = Draws(*(part[0].clone() for part in self.draws))
        self.epoch = 0
        self.curves: list[list[tuple[int, float]]] = [[] for _ in tasks]
        """Accuracies of each classifier, by the number of finished epochs."""
        self._graph: torch.cuda.CUDAGraph | None = None

    def _sets(self, pictures: Sequence[Pixels]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the number of each classifier's set of pictures, and the different sets, on the device."""
        sets = {id(picture): picture for picture in pictures}
        numbers = {key: number for number, key in enumerate(sets)}
        which = torch.tensor([numbers[id(picture)] for picture in pictures], device=self.device)
        return which, torch.stack([torch.from_numpy(one).to(self.device) for one in sets.values()])

    def _draws(self, task: Task, epoch: int) -> Draws:
        return Draws.of(task.seed, epoch, self.cut, self.protocol)

    @property
    def done(self) -> bool:
        """Whether all epochs are finished."""
        return self.epoch == self.protocol.epochs

    def run_epoch(self) -> None:
        """Train for an epoch, and evaluate if it is time to."""
        self.network.train()
        if self.device.type == "cuda" and self._graph is None:
            self._graph = self._captured()
        self.rate.fill_(self.protocol.rate(self.epoch))
        self.draws = Draws.stacked([self._draws(task, self.epoch) for task in self.tasks], self.device)
        for number in range(len(self.draws.picture)):
            for place, part in zip(self.batch, self.draws, strict=True):
                place.copy_(part[number])
            if self._graph is None:
                self._step()
            else:
                self._graph.replay()
        self.epoch += 1
        if self.epoch % self.protocol.evaluate_every == 0 or self.done:
            for curve, accuracy in zip(self.curves, self.accuracies(), strict=True):
                curve.append((self.epoch, accuracy))

    def _step(self) -> None:
        """Train each classifier on one batch: forward, backward, clip, step."""
        x = side_by_side(normalised(augmented(self.padded, self.which, self.batch, self.size)))
        parameters = list(self.network.parameters())
        gradients = torch.autograd.grad(self._loss(x, self.labels[self.batch.picture]), parameters)
        scale = self._clipping(gradients)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            scaled = self._parts(gradient) * scale.reshape(-1, *[1] * gradient.ndim)
            # The optimiser needs gradients in the layout of the parameters; the backward pass may choose another.
            parameter.grad = torch.empty_like(parameter).copy_(scaled.flatten(0, 1))
        self.optimiser.step()

    @functools.cached_property
    def _loss(self) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
        """Return the sum of the classifiers' mean cross-entropies, so that each classifier gets its own gradient."""
        network, device = self.network, self.device  # not the wave, which would then stay in memory after its last use

        def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            with _half_precision(device):
                logits = network(x)
            wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
            return F.cross_entropy(wide.flatten(0, 1), y.flatten(), reduction="sum") / y.shape[1]

        return torch.compile(loss) if self.device.type == "cuda" else loss

    def _clipping(self, gradients: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the factor by which the gradient of each classifier is cut to the largest norm, if it is clipped."""
        norms = torch.stack([self._parts(part).flatten(1).norm(dim=1) for part in gradients]).norm(dim=0)
        return torch.where(self.clip, (self.protocol.clip / (norms + 1e-6)).clamp(max=1), 1.0)

    def _parts(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor of the network with one row for each classifier."""
        return torch.unflatten(tensor, 0, (len(self.tasks), -1))

    def _captured(self) -> torch.cuda.CUDAGraph:
        """Return a training step as a CUDA graph; the steps that warm up for the capture are undone."""
        torch.backends.cudnn.benchmark = True
        before = self.states()
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(WARM_UP):
                self._step()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step()
        self.load(before)
        return graph

    @torch.no_grad()
    def accuracies(self, pictures: Sequence[Pixels] | None = None) -> list[float]:
        """Return the share of evaluation pictures that each classifier gets right, of its own release or of others."""
        self.network.eval()
        which, shown = (self.which, self.sets[:, self.cut :]) if pictures is None else self._sets(pictures)
        labels = self.labels[self.cut :]
        right = torch.zeros(len(self.tasks), device=self.device)
        for start in range(0, len(labels), EVALUATED):
            part = slice(start, start + EVALUATED)
            with _half_precision(self.device):
                logits = self.network(side_by_side(normalised(shown[:, part][which])))
            right += (logits.argmax(dim=2) == labels[part]).sum(dim=1)
        return [float(share) for share in (right / len(labels)).cpu()]

    def states(self) -> list[dict[str, Any]]:
        """Return a copy of each classifier's state."""
        return [
            {
                "epoch": self.epoch,
                "curve": list(self.curves[number]),
                "network": {key: part.clone() for key, part in self._network(number).items()},
                "momenta": {key: part.clone() for key, part in self._momenta(number).items()},
            }
            for number in range(len(self.tasks))
        ]

    def load(self, states: Sequence[dict[str, Any]]) -> None:
        """Continue from states of one epoch. Tensors are filled, not replaced: a graph knows their addresses."""
        epochs = {state["epoch"] for state in states}
        if len(states) != len(self.tasks) or len(epochs) != 1:
            raise DippError("states", "must have one state of each classifier, all of one epoch")
        self.epoch = epochs.pop()
        self.curves = [[(epoch, accuracy) for epoch, accuracy in state["curve"]] for state in states]
        for number, state in enumerate(states):
            places = (self._network(number), state["network"]), (self._momenta(number), state["momenta"])
            for place, value in ((own[key], kept[key]) for own, kept in places for key in own):
                place.copy_(value)

    def _network(self, number: int) -> dict[str, torch.Tensor]:
        """Return weights and statistics of a classifier, in place, as those of a network of its own."""
        state = self.network.state_dict()
        return {key: self._parts(tensor)[number] if tensor.ndim else tensor for key, tensor in state.items()}

    def _momenta(self, number: int) -> dict[str, torch.Tensor]:
        """Return the running averages of a classifier's gradients, in place; they begin at zero."""
        found = {}
        for key, parameter in self.network.named_parameters():
            state = self.optimiser.state[parameter]
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = torch.zeros_like(parameter)
            found[key] = self._parts(state["momentum_buffer"])[number]
        return found


def _half_precision(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Compute in bfloat16 on a GPU. Weights stay in single precision."""
    if device.type == "cpu":
        return contextlib.nullcontext()
    return torch.autocast("cuda", torch.bfloat16, cache_enabled=False)


def _made(seeds: Sequence[int]) -> ResNet56:
    """Return networks side by side, each initialised by its seed as it would be alone."""
    whole = ResNet56(copies=len(seeds))
    for number, seed in enumerate(seeds):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            single = ResNet56().state_dict()
        for key, tensor in whole.state_dict().items():
            if tensor.ndim:
                torch.unflatten(tensor, 0, (len(seeds), -1))[number].copy_(single[key])
    return whole


@torch.no_grad()
def features(network: ResNet56, pictures: Pixels, device: str) -> NDArray[np.float64]:
    """Return a classifier's 64 features of each picture."""
    network.eval()
    parts = [
        network.features(normalised(torch.from_numpy(pictures[start : start + EVALUATED]).to(device)))[0]
        for start in range(0, len(pictures), EVALUATED)
    ]
    return torch.cat(parts).double().cpu().numpy()
