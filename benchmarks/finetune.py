"""Continue the training of a DDPM on answers by words (`codec.questions`).

    python benchmarks/finetune.py DDPM CIFAR OUT --minutes 5 --device cuda

DDPM is a folder in diffusers' format, of a network for pictures of 32×32. CIFAR is the folder `cifar-10-batches-py`.
OUT becomes a folder in the same format, with the mean of the last weights in half precision. Its `training.json` says
how they were made.

Training pictures are asked like pictures of users: cells of 4, 8 and 16 pixels and whole pictures, one to four
questions, at an ε of a draw from 0.4 to 16. The network gets what a decoder gives it (`codec.trajectory`,
`Answers`): the answers, steadied and interpolated to the picture's size, at the timestep whose SNR is nearest to about
half of one over their mean squared error. The loss compares its prediction with the picture, and the next question asks
for the difference. A fifth of each batch are pictures with Gaussian noise, so that the network still denoises.

Words are made on the device from training pictures, separately for each size of units. Words for later questions follow
the network: they are made again from what it misses, `REMADE` times.

`--compile` lets PyTorch compile the network's training steps for the device.

With `--checkpoint FILE`, training continues where it was stopped; only the pictures that are being asked are lost.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import math
import random
import shutil
import time
from collections import defaultdict, deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from provenance import provenance
from torch import Tensor

from dipp import files
from dipp.codec.grids import Cuts, between, interpolated, rounds, squares, steadied
from dipp.core.geometry import Geometry
from dipp.core.steps import BLOCK
from dipp.models import hub, unet
from dipp.models.books import AGAIN, FINER
from dipp.models.diffusion import NoiseSchedule
from dipp.planning.questions import MOST, candidates_of
from dipp.training import public_pictures
from dipp.training.recipes import LEAST, SHAPES
from dipp.training.worded import FIRST, TURNS
from dipp.training.words import BITS, MARGIN, clustered

SIDE, COLOURS = 32, 3
GRIDS = (4, 8, 16, 32)
"""Sides of the coarse pictures that questions are about."""
BUDGETS = {4: (1.0, 16.0), 8: (2.0, 40.0), 16: (4.0, 40.0), SIDE: (4.0, 150.0)}
"""Range of ε of a unit by its side in pixels; ε is drawn log-uniformly."""
SHARES = (2.0, 4.0, 3.0, 4.0)
"""Relative frequency of units of each side."""
LABEL, SPREAD = 0.5, 0.35
"""Median, and deviation of the logarithm, of the SNR that the network is given, in units of one over the mean squared
error of the answers."""
LEAST_ERROR = 1e-4
GROUPS = 8
"""Number of groups of pictures in a batch; the pictures of a group are asked the same questions."""
WORDED = 0.8
"""Share of a batch that is asked; the other pictures get Gaussian noise."""
RATE, WARM, FLAT, LAST_RATE = 1e-4, 100, 0.4, 0.02
"""Learning rate, steps that it rises over, share of the time before it falls, and where it ends, relative to `RATE`."""
MEAN = 0.997
"""Weight of the past in the running mean of the weights; smaller in the first steps."""
KEPT_ERROR = 0.98
"""Weight of the past in the running means of errors, by which losses are divided."""
FIRST_WORDS = 16000
"""Number of pictures that the words of first questions are made from."""
REMADE = (0.0, 0.1, 0.4)
"""Shares of the time at which words of later questions are made again."""
RECENT, VECTORS = 300, 1 << 16
"""Number of groups whose missed blocks are kept for words of later questions, and the most blocks that make words."""
SAID, SAVED = 50, 1000
"""Steps between two lines about the progress, and between two checkpoints."""
FIRST_STEPS = 20
"""Number of steps before words of later questions are made."""


class Words(NamedTuple):
    """A book on the device."""

    words: Tensor
    """The words (words × dimensions)."""
    shares: Tensor
    """The share of public blocks that each word is nearest to."""

    @classmethod
    def of(cls, vectors: Tensor, bits: int) -> Words:
        """Return 2^bits words that are made from public blocks."""
        book = clustered(vectors.float().cpu().numpy(), 1 << bits, vectors.device)
        counts = torch.from_numpy(book.counts).to(vectors.device).float()
        return cls(torch.from_numpy(book.words).to(vectors.device), counts / counts.sum())

    def told(self, content: Tensor, epsilon: float) -> Tensor:
        """Return the meaning of answers about blocks (… × dimensions), at this ε of each draw."""
        flat = content.reshape(-1, content.shape[-1])
        scores = flat @ self.words.T - self.words.square().sum(1) / 2
        count, odds = len(self.words), math.expm1(epsilon)
        guessed = torch.rand(len(flat), device=flat.device) < count / (odds + count)
        index = torch.where(guessed, torch.randint(count, (len(flat),), device=flat.device), scores.argmax(1))
        excess = odds * self.shares[:, None]
        meanings = (excess * self.words + self.shares @ self.words) / (excess + 1)
        return meanings[index].reshape(content.shape)


class Setting(NamedTuple):
    """The questions that a group is asked."""

    side: int
    """Side of the unit in pixels; the side of the picture if the unit is the picture."""
    shape: tuple[int, ...]
    """Number of divisions of the unit in each question."""
    epsilon: float
    """ε of each draw."""
    bits: int
    """Number of bits of the books."""

    @classmethod
    def drawn(cls, source: random.Random) -> Setting:
        """Draw the questions of a group."""
        (side,) = source.choices(list(BUDGETS), SHARES)
        total = math.exp(source.uniform(*map(math.log, BUDGETS[side])))
        possible = [(shape, total / sum(split**2 for split in shape)) for shape in SHAPES if side >= BLOCK * shape[-1]]
        within = [(shape, each) for shape, each in possible if LEAST <= each <= MOST]
        shape, epsilon = source.choice(within or [((1,), min(total, MOST))])
        return cls(side, shape, epsilon, candidates_of(epsilon).bits)

    def grid(self, number: int) -> int:
        """Return the side of the coarse picture of a question, in coarse pixels."""
        return SIDE // self.side * BLOCK * self.shape[number]

    def family(self, number: int) -> str:
        """Return the family of words of a question after the first."""
        return AGAIN if self.shape[number] == self.shape[number - 1] else FINER

    @property
    def odds(self) -> float:
        """Return the odds of a wrong answer to a right one."""
        return ((1 << self.bits) - 1) * math.exp(-self.epsilon)


def pooled(pictures: Tensor, grid: int) -> Tensor:
    """Return the coarse pictures of pictures (N, C, H, W), with `grid` coarse pixels along a side."""
    return torch.nn.functional.avg_pool2d(pictures, pictures.shape[2] // grid)


def blocks(coarse: Tensor) -> Tensor:
    """Return coarse pictures as pictures × blocks × dimensions."""
    count, channels, side, _ = coarse.shape
    folded = coarse.reshape(count, channels, side // BLOCK, BLOCK, side // BLOCK, BLOCK).permute(0, 2, 4, 3, 5, 1)
    return folded.reshape(count, -1, BLOCK**2 * channels)


def unfolded(values: Tensor, grid: int) -> Tensor:
    """Return pictures × blocks × dimensions as coarse pictures."""
    rows = grid // BLOCK
    folded = values.reshape(len(values), rows, rows, BLOCK, BLOCK, -1).permute(0, 5, 1, 3, 2, 4)
    return folded.reshape(len(values), -1, grid, grid)


class Asker:
    """Asks pictures by words, as senders do, and returns what receivers know."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.books: dict[tuple[int, str, int], Words] = {}
        """The books, by grid of the first question, family and bits."""
        self.missed: dict[tuple[int, str], deque[Tensor]] = defaultdict(lambda: deque(maxlen=RECENT))
        """Blocks that recent predictions missed, by grid of the first question and family."""
        self.onto: dict[int, Tensor] = {}
        """Matrices that interpolate coarse pictures to pixels, by the side of their grid."""
        self.turns: dict[int, Tensor] = {}
        """The round of each coarse pixel, by the side of their grid."""
        self.asked: dict[int, list[Tensor]] = {}
        """The numbers of the blocks of each round, by the side of their grid."""
        pixels = np.arange(SIDE + 1)
        for grid in GRIDS:
            same = np.arange(grid + 1)
            source, onto = Cuts(squares(SIDE, SIDE // grid)[: grid + 1], same), Cuts(pixels, same)
            self.onto[grid] = interpolated(torch.eye(grid)[None, None], source, onto)[0, 0].to(device)
            turns = torch.from_numpy(rounds(Geometry(grid, grid, COLOURS), TURNS))
            flat = turns[::BLOCK, ::BLOCK].reshape(-1)
            self.turns[grid] = turns.to(device)
            self.asked[grid] = [(flat == turn).nonzero()[:, 0].to(device) for turn in range(TURNS)]

    def make_first(self, pictures: Tensor, bits: Sequence[int] = BITS) -> None:
        """Make the words of first questions on all grids, from public pictures."""
        for grid, count in itertools.product(GRIDS, bits):
            setting = Setting(SIDE * BLOCK // grid, (1,), count * math.log(2) + MARGIN, count)
            self.first(setting, pictures, make=True)

    def make_later(self, bits: Sequence[int] = BITS) -> None:
        """Make the words of later questions again, from blocks that recent predictions missed."""
        for (grid, name), contents in self.missed.items():
            vectors = torch.cat(list(contents))
            vectors = vectors[torch.randperm(len(vectors), device=vectors.device)[:VECTORS]]
            for count in bits:
                self.books[grid, name, count] = Words.of(vectors, count)

    def first(self, setting: Setting, pictures: Tensor, *, make: bool = False) -> Tensor:
        """Return the answers to the first question; with `make`, first make the words of each round."""
        grid = setting.grid(0)
        coarse, turns = pooled(pictures, grid), self.turns[grid]
        known = torch.zeros_like(coarse)
        for turn in range(TURNS):
            asked = self.asked[grid][turn]
            if not len(asked):
                continue
            predicted = between(known, turns < turn) if turn else known
            content = blocks(coarse - predicted)
            key = grid, FIRST[turn], setting.bits
            if make:
                self.books[key] = Words.of(content[:, asked].flatten(0, 1), setting.bits)
            added = torch.zeros_like(content)
            added[:, asked] = self.books[key].told(content[:, asked], setting.epsilon)
            known = torch.where(turns == turn, predicted + unfolded(added, grid), known)
        return known

    def later(self, setting: Setting, number: int, pictures: Tensor, x_hat: Tensor) -> Tensor | None:
        """Return the answers to a later question, about what predictions x̂0 miss; None without words for it."""
        grid, name = setting.grid(number), setting.family(number)
        predicted = pooled(x_hat, grid)
        content = blocks(pooled(pictures, grid) - predicted)
        if number == 1:
            self.missed[setting.grid(0), name].append(content.flatten(0, 1))
        book = self.books.get((setting.grid(0), name, setting.bits))
        return None if book is None else predicted + unfolded(book.told(content, setting.epsilon), grid)

    def shown(self, setting: Setting, number: int, known: Tensor) -> Tensor:
        """Return the answers on all pixels, as the network gets them."""
        matrix = self.onto[setting.grid(number)]
        found: Tensor = matrix @ steadied(known, setting.odds) @ matrix.T
        return found.clamp(-1, 1)


class Group(NamedTuple):
    """Pictures that are asked the same questions."""

    setting: Setting
    number: int
    """The number of the last question."""
    pictures: Tensor
    known: Tensor
    """The answers so far."""


class Trainer:
    """A network with its mean, its optimiser, and the pictures that are being asked."""

    def __init__(
        self,
        network: torch.nn.Module,
        schedule: NoiseSchedule,
        pixels: Tensor,
        batch: int,
        seed: int,
        *,
        compiled: bool = False,
    ) -> None:
        """Begin training.

        Args:
            network: Takes states (N, C, H, W) and timesteps (N), and returns a tuple with its output.
            schedule: Its noise levels.
            pixels: Training pictures (N, C, H, W), as integers from 0 to 255, on the device.
            batch: Number of pictures of a step.
            seed: Seed of all random choices.
            compiled: Whether the network's training steps are compiled.
        """
        self.device, self.pixels, self.schedule = pixels.device, pixels, schedule
        self.network = network.train()
        self.called: Any = torch.compile(network) if compiled else network
        self.mean = copy.deepcopy(network).eval().requires_grad_(False)
        fused = self.device.type == "cuda"
        self.optimiser = torch.optim.AdamW(network.parameters(), RATE, betas=(0.9, 0.98), weight_decay=0.0, fused=fused)
        self.source = random.Random(seed)  # noqa: S311 - nothing of it is secret
        torch.manual_seed(seed)
        self.asker = Asker(self.device)
        alphas = torch.tensor(schedule.alphas_cumprod).to(self.device)
        self.alphas, self.log_snrs = alphas.float(), (alphas.log() - (-alphas).log1p()).float()
        self.size = max(1, int(batch * WORDED) // GROUPS)
        self.plain = max(1, batch - GROUPS * self.size)
        self.groups: list[Group] = []
        self.errors: dict[Any, Tensor] = {}
        """Running means of errors, by kind of question."""
        self.steps, self.spent, self.remade = 0, 0.0, 0

    def begin(self) -> None:
        """Make the words of first questions, and begin with new groups."""
        if not self.asker.books:
            self.asker.make_first(self.drawn(min(FIRST_WORDS, len(self.pixels))))
        self.groups = [self.fresh() for _ in range(GROUPS)]

    def drawn(self, count: int) -> Tensor:
        """Return training pictures in [−1, 1], half of them mirrored."""
        index = torch.randint(len(self.pixels), (count,), device=self.device)
        x0 = self.pixels[index].float() / 127.5 - 1
        return torch.where(torch.rand((count, 1, 1, 1), device=self.device) < 0.5, x0, x0.flip(3))

    def fresh(self) -> Group:
        """Return a group after its first question."""
        setting, pictures = Setting.drawn(self.source), self.drawn(self.size)
        return Group(setting, 0, pictures, self.asker.first(setting, pictures))

    def next(self, group: Group, x_hat: Tensor) -> Group:
        """Return the group after the question that follows its predictions; a new group after the last one."""
        number = group.number + 1
        if number >= len(group.setting.shape):
            return self.fresh()
        known = self.asker.later(group.setting, number, group.pictures, x_hat)
        if known is None:
            return self.fresh()
        return Group(group.setting, number, group.pictures, known)

    def told(self, group: Group) -> tuple[Tensor, Tensor]:
        """Return the estimate (N, C, H, W) that the network gets of a group, and the timestep (N)."""
        coarse = pooled(group.pictures, group.setting.grid(group.number))
        error = (group.known - coarse).square().mean().clamp(min=LEAST_ERROR)
        label = math.log(LABEL) + SPREAD * self.source.gauss()
        t = (self.log_snrs - (label - error.log())).abs().argmin()
        return self.asker.shown(group.setting, group.number, group.known), t.expand(len(group.pictures))

    def predicted(self, network: torch.nn.Module, x_t: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        """Return the network's output, and x̂0."""
        alpha = self.alphas[t].view(-1, 1, 1, 1)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            (output,) = network(x_t.contiguous(memory_format=torch.channels_last), t, return_dict=False)
        output = output.float()
        return output, (x_t - (1 - alpha).sqrt() * output) / alpha.sqrt()

    def step(self, share: float) -> Tensor:
        """Take one step at a share of the time, and return the loss."""
        for values in self.optimiser.param_groups:
            values["lr"] = RATE * min(1, (self.steps + 1) / WARM) * falling(share)
        told, times = zip(*(self.told(group) for group in self.groups), strict=True)
        pictures, noise = self.drawn(self.plain), torch.randn((self.plain, COLOURS, SIDE, SIDE), device=self.device)
        t = torch.randint(len(self.alphas), (self.plain,), device=self.device)
        alpha = self.alphas[torch.cat(times)].view(-1, 1, 1, 1)
        noisy = self.alphas[t].view(-1, 1, 1, 1)
        states = torch.cat([alpha.sqrt() * torch.cat(told), noisy.sqrt() * pictures + (1 - noisy).sqrt() * noise])
        output, x_hat = self.predicted(self.called, states, torch.cat([*times, t]))
        parts = torch.split(x_hat[: -self.plain], self.size)
        losses = [self.weighed("noise", (output[-self.plain :] - noise).square().mean()) * self.plain]
        for group, part in zip(self.groups, parts, strict=True):
            error = (part - group.pictures).square().mean()
            losses.append(self.weighed((group.setting.grid(group.number), group.number > 0), error) * self.size)
        loss = torch.stack(losses).sum() / len(states)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.steps += 1
        with torch.no_grad():
            own, mean = (
                [parameter.data for parameter in network.parameters()] for network in (self.network, self.mean)
            )
            torch._foreach_lerp_(mean, own, 1 - min(MEAN, self.steps / (self.steps + 20)))
            found = [part.detach().clamp(-1, 1) for part in parts]
            self.groups = [self.next(group, part) for group, part in zip(self.groups, found, strict=True)]
        return loss.detach()

    def weighed(self, kind: Any, error: Tensor) -> Tensor:
        """Return an error divided by its running mean."""
        now = error.detach()
        self.errors[kind] = now if kind not in self.errors else self.errors[kind].lerp(now, 1 - KEPT_ERROR)
        return error / self.errors[kind]

    def run(self, minutes: float, most: int | None = None, checkpoint: Path | None = None) -> None:
        """Train for some minutes, or for `most` steps."""
        self.begin()
        began, losses = time.monotonic() - self.spent, list[Tensor]()
        while (share := self.spent / (60 * minutes)) < 1 and self.steps != most:
            share = share if most is None else max(share, self.steps / most)
            losses.append(self.step(share))
            if self.remade < len(REMADE) and share >= REMADE[self.remade] and self.steps >= FIRST_STEPS:
                self.asker.make_later()
                self.remade += 1
            if self.steps % SAID == 0:
                print(json.dumps({"steps": self.steps, **self.facts(losses)}), flush=True)
                losses.clear()
                if checkpoint and self.steps % SAVED == 0:
                    self.save(checkpoint)
            self.spent = time.monotonic() - began
        if checkpoint:
            self.save(checkpoint)

    def facts(self, losses: list[Tensor]) -> dict[str, Any]:
        """Return the time, the mean loss and the running errors in dB."""
        errors = {str(kind): round(-10 * math.log10(float(one) / 4), 2) for kind, one in self.errors.items()}
        return {"seconds": round(self.spent), "loss": round(float(torch.stack(losses).mean()), 4), "dB": errors}

    def save(self, path: Path) -> None:
        """Write a checkpoint."""
        content = {
            "network": self.network.state_dict(),
            "mean": self.mean.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "books": {key: tuple(book) for key, book in self.asker.books.items()},
            "errors": self.errors,
            "numbers": (self.steps, self.spent, self.remade),
        }
        with files.atomic(path) as part:
            torch.save(content, part)

    def load(self, path: Path) -> None:
        """Continue from a checkpoint."""
        content = torch.load(path, map_location=self.device, weights_only=True)
        self.network.load_state_dict(content["network"])
        self.mean.load_state_dict(content["mean"])
        self.optimiser.load_state_dict(content["optimiser"])
        self.asker.books = {key: Words(*book) for key, book in content["books"].items()}
        self.errors = content["errors"]
        self.steps, self.spent, self.remade = content["numbers"]


def falling(share: float) -> float:
    """Return the learning rate at a share of the time, relative to the largest."""
    return 1.0 if share < FLAT else max(LAST_RATE, (1 - share) / (1 - FLAT))


def network_of(folder: Path, device: torch.device) -> tuple[torch.nn.Module, NoiseSchedule]:
    """Return the network of a folder in diffusers' format, without dropout, and its noise levels."""
    from diffusers import UNet2DModel

    config = hub.read_json(folder.name, folder / "unet/config.json")
    network = UNet2DModel.from_config({**config, "dropout": 0.0})  # type: ignore[no-untyped-call]
    tensors = unet.renamed(hub.read_tensors(str(folder), Path("unet") / unet.WEIGHTS))
    network.load_state_dict({name: one.float() for name, one in tensors.items()})
    schedule = NoiseSchedule.from_config(hub.read_json(folder.name, folder / "scheduler/scheduler_config.json"))
    return network.to(device, memory_format=torch.channels_last), schedule


def write(network: torch.nn.Module, like: Path, out: Path, facts: dict[str, Any]) -> None:
    """Write a folder in diffusers' format, like the DDPM's with other weights."""
    from safetensors.torch import save

    for name in (unet.INDEX, "unet/config.json", "scheduler/scheduler_config.json"):
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(like / name, out / name)
    tensors = {name: one.half().contiguous().cpu() for name, one in network.state_dict().items()}
    with files.atomic(out / "unet" / unet.WEIGHTS) as part:
        part.write_bytes(save(tensors))
    with files.atomic(out / "training.json") as part:
        part.write_text(json.dumps(facts, indent=1) + "\n")


def main() -> None:
    """Train, and write the network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("pictures", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--steps", type=int, help="largest number of steps")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--skip", type=int, default=0, help="number of first training pictures to leave out")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compile", action="store_true", help="compile the network's training steps")
    parser.add_argument("--checkpoint", type=Path)
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    pixels = public_pictures.load(arguments.pictures, SIDE).pixels[arguments.skip :]
    network, schedule = network_of(arguments.model, device)
    trainer = Trainer(
        network,
        schedule,
        torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous().to(device),
        arguments.batch,
        arguments.seed,
        compiled=arguments.compile,
    )
    if arguments.checkpoint and arguments.checkpoint.exists():
        trainer.load(arguments.checkpoint)
    trainer.run(arguments.minutes, arguments.steps, arguments.checkpoint)
    facts = {
        **provenance(arguments.device),
        "pictures": len(pixels),
        "steps": trainer.steps,
        "minutes": round(trainer.spent / 60, 2),
        "dB": trainer.facts([torch.zeros(())])["dB"],
    }
    write(trainer.mean, arguments.model, arguments.out, facts)


if __name__ == "__main__":
    main()
