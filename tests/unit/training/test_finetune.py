"""Training a DDPM further on answers by words: it sees what a decoder sees, and it can be stopped and resumed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from helpers.networks import linear_schedule, tiny_network
from helpers.scripts import benchmark

from dipp import models
from dipp.codec.trajectory import Answers
from dipp.core.geometry import Geometry
from dipp.core.plan import Plan
from dipp.core.units import Cells
from dipp.models.books import Book
from dipp.planning.questions import CODING, candidates_of, step_of

SIDE = 32


@pytest.fixture
def finetune(monkeypatch: pytest.MonkeyPatch) -> Any:
    found = benchmark("finetune", monkeypatch)
    monkeypatch.setattr(found, "FIRST_WORDS", 16)
    monkeypatch.setattr(found, "FIRST_STEPS", 2)
    return found


def pictures(count: int) -> torch.Tensor:
    """Return pictures of two colours each."""
    generator = torch.Generator().manual_seed(0)
    colours = torch.randint(256, (count, 3, 2, 1), generator=generator, dtype=torch.uint8)
    return colours.repeat_interleave(SIDE // 2, 2).expand(-1, -1, -1, SIDE).contiguous()


def trainer(finetune: Any) -> Any:
    return finetune.Trainer(tiny_network(size=SIDE), linear_schedule(), pictures(24), batch=10, seed=0)


@pytest.mark.parametrize(("side", "shape"), [(8, (1, 2)), (4, (1, 1)), (32, (2, 4))])
def test_the_network_is_told_what_a_decoder_tells_it(finetune: Any, side: int, shape: tuple[int, ...]) -> None:
    asker, epsilon = finetune.Asker(torch.device("cpu")), 4.0
    recipe = candidates_of(epsilon)
    setting = finetune.Setting(side, shape, epsilon, recipe.bits)
    x0 = pictures(5).float() / 127.5 - 1
    for number, split in enumerate(shape):
        steps = tuple(step_of(recipe._replace(split=one, rounds=1), epsilon) for one in shape)
        plan, geometry = Plan(CODING, steps, unit=Cells(side)), Geometry(SIDE, SIDE, 3)
        grid = steps[number].grid(plan.unit, geometry)[1]
        assert setting.grid(number) == grid.height == SIDE // side * 4 * split
        met: list[torch.Tensor] = []
        known = finetune.pooled(x0, grid.height) + 0.3 * torch.randn(5, 3, grid.height, grid.height)
        listening = SimpleNamespace(any_size=False, predict=lambda told, met=met: met.append(told.estimate) or x0)
        Answers(plan, listening, geometry).expected(number + 1, known)  # type: ignore[arg-type] # as much as is asked
        torch.testing.assert_close(asker.shown(setting, number, known), met[0], rtol=0, atol=1e-5)


def test_answers_mean_what_receivers_take_them_for(finetune: Any) -> None:
    epsilon, bits = 3.0, candidates_of(3.0).bits
    words, counts = torch.randn(1 << bits, 48), torch.arange(1, (1 << bits) + 1)
    meanings = torch.from_numpy(
        Book(words.numpy(), counts.numpy()).means(step_of(candidates_of(epsilon), epsilon).weights)
    )
    content = words[1].expand(4000, -1)
    told = finetune.Words(words, counts / counts.sum()).told(content, epsilon)
    index = torch.cdist(told, meanings).argmin(1)
    torch.testing.assert_close(told, meanings[index], rtol=0, atol=1e-4)
    right = math.exp(epsilon) / (math.exp(epsilon) + (1 << bits) - 1)
    deviation = math.sqrt(right * (1 - right) / len(content))
    assert abs(float((index == 1).float().mean()) - right) < 5 * deviation


@pytest.mark.slow
def test_pictures_are_asked_one_question_after_the_other(finetune: Any) -> None:
    own = trainer(finetune)
    before = [parameter.clone() for parameter in own.mean.parameters()]
    met = set()
    own.begin()
    for number in range(6):
        if number == 2:
            own.asker.make_later()
        met |= {group.number for group in own.groups}
        assert math.isfinite(float(own.step(number / 6)))
    assert {0, 1} <= met
    assert any(not torch.equal(a, b) for a, b in zip(before, own.mean.parameters(), strict=True))


@pytest.mark.slow
def test_training_goes_on_from_a_checkpoint(finetune: Any, tmp_path: Path) -> None:
    first, second = trainer(finetune), trainer(finetune)
    first.run(1.0, 4, tmp_path / "checkpoint")
    second.load(tmp_path / "checkpoint")
    assert second.steps == first.steps == 4
    assert second.spent > 0
    assert second.asker.books.keys() == first.asker.books.keys()
    for name in ("network", "mean"):
        for a, b in zip(getattr(first, name).parameters(), getattr(second, name).parameters(), strict=True):
            assert torch.equal(a, b)
    second.run(1.0, 6)
    assert second.steps == 6


def test_what_is_written_is_a_denoiser(finetune: Any, tmp_path: Path) -> None:
    network, like, out = tiny_network(size=SIDE), tmp_path / "like", tmp_path / "out"
    (like / "unet").mkdir(parents=True)
    (like / "scheduler").mkdir()
    (like / "model_index.json").write_text("{}")
    (like / "unet/config.json").write_text(json.dumps({**network.config, "_class_name": "UNet2DModel"}))
    schedule = {"beta_schedule": "linear", "beta_start": 1e-4, "beta_end": 0.02, "num_train_timesteps": 1000}
    (like / "scheduler/scheduler_config.json").write_text(json.dumps(schedule))
    finetune.write(network, like, out, {"steps": 3})
    assert models.load(out).identity
    again, levels = finetune.network_of(out, torch.device("cpu"))
    assert len(levels) == 1000
    for a, b in zip(network.parameters(), again.parameters(), strict=True):
        assert torch.equal(a.half().float(), b)
    assert json.loads((out / "training.json").read_text()) == {"steps": 3}
