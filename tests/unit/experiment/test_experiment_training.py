"""The classifiers of the experiment: network, protocol, augmentation. A wave equals its members trained alone."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.paths import ROOT
from helpers.refusals import refused
from helpers.statistics import FALSE_ALARM
from scipy import stats

from experiments.cifar10 import metrics, training
from experiments.cifar10.config import Config, Protocol
from experiments.cifar10.resnet import ResNet56
from experiments.cifar10.training import DEVIATION, MEAN, Draws, Task, Wave, augmented, normalised, side_by_side

CONFIG = ROOT / "experiments" / "cifar10" / "config.toml"
SHORT = Protocol(epochs=3, batch=8, seeds=(0,), evaluate_every=1, milestones=(1,))
"""Three epochs of two batches."""


pytestmark = pytest.mark.usefixtures("one_thread")


ROUNDING = 1e-9
"""Largest difference after six steps in double precision if sums are taken in another order. Such sums differ by 1e-16
of their size, which 56 layers multiply, but not ten million times. (In single precision no digit would agree.)
"""


@pytest.fixture
def double_precision() -> Iterator[None]:
    """Compute waves in float64, so that the order of sums hardly matters."""
    torch.set_default_dtype(torch.float64)
    training._statistics.cache_clear()
    yield
    torch.set_default_dtype(torch.float32)
    training._statistics.cache_clear()


def test_the_network_is_resnet_56_with_free_shortcuts() -> None:
    """It has 55 convolutions and a linear layer; projections in shortcuts (option B) would add 2,752 parameters."""
    network = ResNet56()
    layers = [m for m in network.modules() if isinstance(m, torch.nn.Conv2d | torch.nn.Linear)]
    assert len(layers) == 56
    assert sum(parameter.numel() for parameter in network.parameters()) == 853_018
    x = torch.randn(2, 3, 32, 32)
    assert network.features(x).shape == (1, 2, 64)
    assert network(x).shape == (1, 2, 10)


@pytest.mark.slow
@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("training", [True, False])
def test_copies_side_by_side_are_those_that_stand_alone(training: bool) -> None:
    """Three networks in one have the logits that each has alone, with its shortcuts and statistics."""
    singles, x = [ResNet56(blocks=1) for _ in range(3)], torch.randn(3, 4, 3, 8, 8)
    whole = ResNet56(blocks=1, copies=3)
    states = [single.state_dict() for single in singles]
    whole.load_state_dict(
        {key: torch.cat([s[key] for s in states]) if states[0][key].ndim else states[0][key] for key in states[0]}
    )
    found = whole.train(training)(side_by_side(x))
    for number, single in enumerate(singles):
        torch.testing.assert_close(found[number], single.train(training)(x[number])[0], rtol=ROUNDING, atol=ROUNDING)
    assert sum(p.numel() for p in whole.parameters()) == 3 * sum(p.numel() for p in singles[0].parameters())


def test_shortcuts_take_every_other_pixel_and_add_channels_of_zeros() -> None:
    """With the residual's last scale at 0, a block that doubles the width is only its shortcut."""
    block = ResNet56(blocks=1).blocks[1].eval()
    torch.nn.init.zeros_(block.norm2.weight)  # type: ignore[arg-type, union-attr]
    x = torch.rand(2, 16, 8, 8)
    out = block(x)
    assert torch.equal(out[:, 8:24], x[:, :, ::2, ::2])
    assert not out[:, :8].any()
    assert not out[:, 24:].any()


@pytest.mark.parametrize("name", ["config", "first"])
def test_the_protocol_is_the_one_that_the_paper_cites(name: str) -> None:
    protocol = Config.load(CONFIG.with_name(f"{name}.toml")).protocol
    given = (protocol.epochs, protocol.batch, protocol.momentum, protocol.weight_decay, protocol.clip, protocol.pad)
    assert given == (250, 128, 0.9, 1e-4, 0.5, 4)
    rates = {0: 0.1, 79: 0.1, 80: 0.05, 159: 0.05, 160: 0.025, 199: 0.025, 200: 0.0125, 249: 0.0125}
    assert {epoch: protocol.rate(epoch) for epoch in rates} == rates


def test_the_first_config_has_what_its_panels_need() -> None:
    """It has five ε of each method, about thirty configurations of three seeds, and a reason for every group."""
    config = Config.load(CONFIG.with_name("first.toml"))
    for method in ("laplace", "paper", "unclipped", "diffc"):
        shown = config.shown(method)
        assert [release.epsilon for release in shown] == [1, 4, 16, 64, 256]
        assert all(release.train for release in shown)
        assert all(release.images == 10_000 for release in shown)
    assert 25 <= sum(len(release.train) for release in config.releases) <= 35
    assert [release.name for release in config.releases if not release.clip] == ["clean"]
    assert all(config.reasons.values())


def test_the_config_has_every_rival_at_every_epsilon() -> None:
    """It has 30 configurations of three seeds; the first nine are the main comparison, and clean pictures."""
    config = Config.load(CONFIG)
    assert [release.epsilon for release in config.shown("sharp")] == [0.5, 1, 4, 16, 64]
    assert [release.epsilon for release in config.shown("noise")] == [0.5, 1, 4, 16, 64]
    for method in ("one-channel", "one-bit"):
        assert [release.epsilon for release in config.shown(method)] == [0.5, 1, 4, 16]
    assert all(release.bpp is not None and release.bpp <= 0.3 for release in config.matching("sharp-*-low"))
    jobs = [(release.name.removesuffix("-plotted"), output) for release in config.releases for output in release.train]
    assert [release.epsilon for release in config.shown("cube")] == [4, 16, 64]
    first = jobs[:9]
    assert len(jobs) == 30
    best = {(f"{method}-{epsilon}", "denoised") for method in ("sharp", "one-channel") for epsilon in (1, 4, 16)}
    assert set(first) == best | {("sharp-4", "sampled"), ("noise-16", "denoised"), ("clean", "clean")}


def test_the_low_rate_is_a_tenth_of_the_bits_of_noise_on_one_channel() -> None:
    """A rate limits the payload; each picture has 16 more bits of checksum and shares the header."""
    config, results = Config.load(CONFIG), json.loads((CONFIG.parent / "results" / "results.json").read_text())
    bits = {row["name"]: row.get("file_bpp") for row in results["releases"]}
    tenths = config.matching("sharp-*-tenth")
    assert [release.epsilon for release in tenths] == [1, 4, 16]
    for release in tenths:
        assert release.bpp is not None
        header = 0.001
        assert 10 * (release.bpp + 16 / 1024 + header) <= bits[f"one-channel-{release.epsilon:g}"]


def test_everybodys_protocol_trains_on_the_training_set() -> None:
    config = Config.load(CONFIG.with_name("everybody.toml"))
    assert (config.split, config.cut, config.images) == ("train and test", 50_000, 60_000)
    assert [release.epsilon for release in config.shown("sharp")] == [1, 4, 12]
    for epsilon in (1, 4, 12):
        here = [release for release in config.releases if release.epsilon == epsilon]
        assert {"sharp", "slicing"} < {release.method for release in here}
        assert any(release.method in ("noise", "one-channel", "one-bit") for release in here)
        assert {config.seeds(release) for release in here} == {(0, 1) if epsilon == 4 else (0,)}
    rates = [config.protocol.rate(epoch) for epoch in range(config.protocol.epochs)]
    assert rates[0] == 0.1
    assert rates[-1] == 0.1 / 1024


@pytest.mark.parametrize(
    ("change", "tokens"),
    [
        ({"images": 100}, ["50", "100", "128"]),
        ({"training": 10_000}, ["10000 of 10000"]),
        ({"split": "validation"}, ["split", "test, train and test", "validation"]),
        ({"release": [{"method": "clean", "reason": "", "seeds": [1, 1]}]}, ["[1, 1]"]),
        (
            {"probes": {"method": "paper", "epsilons": [1], "images": 1, "bpp": 1.0}},
            ["probes", "10000"],
        ),
        (
            {"release": [{"method": "sharp", "epsilons": [2], "like": "sharp-2", "reason": ""}]},
            ["sharp-2"],
        ),
        ({"ancestral": {"release": "nothing", "images": 1}}, ["nothing"]),
        ({}, ["clean", "1"]),
        ({"colour": "red"}, ["colour"]),
        ({"calls": 0}, ["calls", "0"]),
        ({"protocol": {"epochs": 0}}, ["epochs", "0"]),
        ({"protocol": {"wave": 0}}, ["wave", "0"]),
        ({"protocol": {"evaluate_every": 0}}, ["evaluate_every", "0"]),
        ({"protocol": {"evaluate_every": "a"}}, ["evaluate_every", "got a"]),
        ({"protocol": {"epochs": True}}, ["epochs", "True"]),
        ({"previews": -1}, ["previews", "-1"]),
        ({"protocol": {"learning_rate": "a"}}, ["milestones", "pad"]),
        ({"protocol": {"milestones": ["a"]}}, ["milestones", "pad"]),
        ({"protocol": {"pad": -1}}, ["milestones", "pad"]),
        ({"release": [{"method": "laplace", "epsilons": [2], "bpp": 1, "reason": ""}]}, ["laplace-2"]),
        (
            {
                "release": [
                    {"method": "diffc", "epsilons": [2], "like": "paper-2", "reason": ""},
                    {"method": "paper", "epsilons": [2], "reason": ""},
                ]
            },
            ["diffc-2", "paper-2"],
        ),
        (
            {
                "release": [
                    {"method": "laplace", "epsilons": [2], "reason": ""},
                    {"method": "paper", "epsilons": [2], "like": "laplace-2", "reason": ""},
                ]
            },
            ["paper-2", "laplace-2"],
        ),
        ({"protocol": {"epochs": 2.5}}, ["epochs", "2.5"]),
        ({"protocol": {"seeds": [0, 0]}}, ["[0, 0]"]),
        ({"protocol": {"seeds": [-1]}}, ["[-1]"]),
        ({"protocol": {"seeds": 3}}, ["config.toml"]),
        ({"protocol": {"batch": 0}}, ["batch", "0"]),
        ({"protocol": {"seeds": []}}, ["seeds", "0"]),
        (
            {"deviations": 0, "release": [{"method": "paper", "tag": "plotted", "epsilons": [2], "reason": ""}]},
            ["deviations", "0"],
        ),
        (
            {"ancestral": {"release": "clean", "images": 0}},
            ["ancestral", "0"],
        ),
        ({"release": [{"method": "laplace", "reason": ""}]}, ["laplace", "clean"]),
        ({"release": [{"method": "clean", "epsilons": [1], "reason": ""}]}, ["clean-1"]),
        ({"release": [{"method": "paper", "epsilons": [0], "reason": ""}]}, ["paper-0"]),
        ({"release": [{"method": "paper", "epsilons": [1], "bpp": -1, "reason": ""}]}, ["paper-1"]),
        ({"release": [{"method": "paper", "epsilons": [1], "relative_snr": 0.5, "reason": ""}]}, ["paper-1"]),
        ({"release": [{"method": "clean", "reason": "", "images": 10_001}]}, ["clean", "10001", "10000"]),
        (
            {
                "deviations": 9,
                "release": [
                    {"method": "laplace", "epsilons": [2], "reason": ""},
                    {"method": "paper", "tag": "plotted", "epsilons": [2], "images": 8, "reason": ""},
                ],
            },
            ["deviations", "9"],
        ),
        (
            {"release": [{"method": "clean", "reason": "", "like": "clean"}]},
            ["clean"],
        ),
        (
            {
                "release": [{"method": "paper", "tag": "plotted", "epsilons": [2], "reason": ""}],
                "ancestral": {"release": "paper-2-plotted", "images": 1},
            },
            ["paper-2-plotted", "laplace"],
        ),
        ({"release": [{"method": "clean", "reason": ""}, {"method": "clean", "reason": ""}]}, []),
        ({"release": [{"method": "clean", "reason": "", "images": 5}]}, ["clean", "10000"]),
        (
            {
                "plotted": "drawn",
                "release": [{"method": "paper", "tag": "undrawn", "epsilons": [2], "reason": ""}],
                "ancestral": {"release": "paper-2-undrawn", "images": 1},
            },
            ["drawn"],
        ),
        (
            {
                "release": [
                    {"method": "clean", "reason": ""},
                    {"method": "laplace", "epsilons": [2], "reason": ""},
                    {"method": "paper", "tag": "plotted", "epsilons": [2], "reason": ""},
                ],
                "ancestral": {"release": "paper-2-plotted", "images": 1},
            },
            ["clean"],
        ),
        (
            {"release": [{"method": "paper", "epsilons": [2], "like": "paper-2", "bpp": 1, "reason": ""}]},
            ["paper-2"],
        ),
        (
            {
                "release": [
                    {
                        "method": "diffc",
                        "epsilons": [2],
                        "like": "paper-2",
                        "same_steps": True,
                        "relative_snr": 0.5,
                        "reason": "",
                    }
                ]
            },
            ["diffc-2"],
        ),
        ({"release": [{"method": "clean", "reason": "", "train": ["noisy"]}]}, ["clean", "noisy"]),
        ({"release": [{"method": "clean", "reason": "", "train": ["clean"], "images": 5}]}, ["clean", "10000"]),
    ],
)
def test_a_config_that_cannot_work_is_refused(change: dict[str, Any], tokens: list[str], tmp_path: Path) -> None:
    path = write_config(tmp_path, change)
    with refused("config", *tokens):
        Config.load(path)


def test_a_config_with_a_preset_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    path = write_config(tmp_path, {"release": [{"method": "dance", "reason": ""}]})
    with refused("preset", "dance"):
        Config.load(path)


def write_config(folder: Path, change: dict[str, Any]) -> Path:
    """Write a config that can work, with some values changed, and return its path."""
    lines = {"images": 10_000, "calls": 1, "deviations": 1, "previews": 1, "plotted": "plotted"}
    clean = [{"method": "clean", "reason": "", "train": ["clean"]}]
    content: dict[str, Any] = {**lines, "ancestral": {"release": "clean", "images": 1}, "release": clean, **change}
    path = folder / "config.toml"
    path.write_text("\n".join(_toml(content)))
    return path


def test_training_at_an_epsilon_that_is_not_made_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(CONFIG.with_name("first.toml").read_text().replace("noisy = [16, 64]", "noisy = [16, 65]", 1))
    with refused("config", "65"):
        Config.load(path)


def _toml(content: dict[str, Any]) -> list[str]:
    """Write JSON's values as TOML."""
    lines = [f"{key} = {json.dumps(value)}" for key, value in content.items() if not isinstance(value, dict | list)]
    for key, value in content.items():
        for table in value if isinstance(value, list) else [value] if isinstance(value, dict) else []:
            lines.append(f"[[{key}]]" if isinstance(value, list) else f"[{key}]")
            lines += [f"{inner} = {json.dumps(item)}" for inner, item in table.items()]
    return lines


def pictures(count: int, side: int = 8, seed: int = 0) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.random.default_rng(seed).integers(0, 256, (count, side, side, 3)).astype(np.uint8)


def labels(count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.arange(count) % 10


def test_an_epoch_shows_every_picture_once_in_whole_batches() -> None:
    draws = Draws.of(0, 7, 50, Protocol(batch=8))
    assert draws.picture.shape == (6, 8)
    assert len(set(draws.picture.flatten().tolist())) == 48
    again, other, later = (Draws.of(seed, epoch, 50, Protocol(batch=8)) for seed, epoch in ((0, 7), (1, 7), (0, 8)))
    assert all(map(torch.equal, draws, again))
    assert not torch.equal(draws.picture, other.picture)
    assert not torch.equal(draws.picture, later.picture)


def test_crops_and_flips_are_uniform() -> None:
    """χ² of 200 epochs of 128 pictures against the uniform laws; all false alarms together are 1e-7."""
    draws = [Draws.of(3, epoch, 128, Protocol()) for epoch in range(200)]
    for name, values in (("top", 9), ("left", 9), ("flip", 2)):
        drawn = torch.cat([getattr(draw, name).flatten() for draw in draws]).to(torch.int64)
        counts = torch.bincount(drawn, minlength=values)
        assert len(counts) == values
        assert stats.chisquare(counts.numpy()).pvalue > FALSE_ALARM / 3


def test_augmentation_is_crop_and_flip_of_the_padded_picture() -> None:
    """Compared with the definition, for two classifiers with sets of their own."""
    images = torch.from_numpy(np.stack([pictures(6), pictures(6, seed=1)]))
    padded = torch.nn.functional.pad(images, (0, 0, 4, 4, 4, 4))
    protocol = Protocol(batch=6)
    draws = Draws.stacked([Draws.of(seed, 0, 6, protocol) for seed in (0, 1)], torch.device("cpu"))
    batch = Draws(*(part[0] for part in draws))
    found = augmented(padded, torch.tensor([1, 0]), batch, (8, 8))
    for classifier, which in enumerate((1, 0)):
        for number in range(6):
            picture, top, left, flip = (int(part[classifier, number]) for part in batch)
            crop = padded[which, picture, top : top + 8, left : left + 8]
            assert torch.equal(found[classifier, number], crop.flip(1) if flip else crop)


def test_pictures_are_normalised_by_channel() -> None:
    white = normalised(torch.full((1, 4, 4, 3), 255, dtype=torch.uint8))
    assert white.shape == (1, 3, 4, 4)
    expected = [(1 - mean) / deviation for mean, deviation in zip(MEAN, DEVIATION, strict=True)]
    assert white[0, :, 0, 0].tolist() == pytest.approx(expected)


def wave(names: str, protocol: Protocol = SHORT) -> Wave:
    """Return classifiers on sets of their own, but a and b share one; the gradients of c and d are not clipped."""
    sets = {"a": pictures(32), "c": pictures(32, seed=2), "d": pictures(32, seed=3)}
    sets["b"] = sets["a"]
    tasks = [Task(name, sets[name], ord(name), clip=name in "ab") for name in names]
    return Wave(tasks, labels(32), 16, protocol, "cpu")


def run(one: Wave) -> Wave:
    while not one.done:
        one.run_epoch()
    return one


def same(first: Wave, second: Wave, pairs: list[tuple[int, int]], tolerance: float = 0.0) -> bool:
    states = [one.states() for one in (first, second)]
    return all(
        torch.allclose(tensor, states[1][j][part][key], rtol=tolerance, atol=tolerance)
        for part in ("network", "momenta")
        for i, j in pairs
        for key, tensor in states[0][i][part].items()
    )


@pytest.mark.slow
@pytest.mark.usefixtures("double_precision")
def test_classifiers_of_a_wave_do_not_know_of_each_other() -> None:
    """Another neighbour changes no bit; fewer neighbours change only the order of sums."""
    together = run(wave("abc"))
    assert same(together, run(wave("abd")), [(0, 0), (1, 1)])
    assert same(together, run(wave("b")), [(1, 0)], ROUNDING)
    assert not same(together, together, [(0, 1)], ROUNDING)
    assert not same(together, run(wave("abd")), [(2, 2)], ROUNDING)


@pytest.mark.slow
def test_a_wave_that_was_stopped_goes_on_to_the_bit() -> None:
    whole, stopped = run(wave("ac")), wave("ac")
    while not stopped.done:
        stopped.run_epoch()
        states, stopped = stopped.states(), wave("ac")
        stopped.load(states)
    assert same(whole, stopped, [(0, 0), (1, 1)])
    assert whole.curves == stopped.curves


@pytest.mark.slow
@pytest.mark.usefixtures("double_precision")
def test_classifiers_resume_in_another_wave_if_their_epochs_agree() -> None:
    """A state belongs to a classifier: begun in a wave of two, it ends alone as it would have ended there."""
    whole, begun = run(wave("ac")), wave("ac")
    begun.run_epoch()
    alone, first = wave("c"), begun.states()
    alone.load(first[1:])
    assert same(whole, run(alone), [(1, 0)], ROUNDING)
    begun.run_epoch()
    with refused("states"):
        wave("ac").load([first[0], begun.states()[1]])


@pytest.mark.usefixtures("double_precision")
def test_a_step_is_that_of_plain_sgd_with_decay_momentum_and_clipped_gradients() -> None:
    """Two steps agree with the formulas of the protocol, for a classifier with and without a clip."""
    one = wave("ac", dataclasses.replace(SHORT, epochs=1, learning_rate=0.05))
    twins = [ResNet56() for _ in one.tasks]
    for twin, state in zip(twins, one.states(), strict=True):
        twin.load_state_dict(state["network"])
    run(one)
    norms = []
    for number, (task, twin) in enumerate(zip(one.tasks, twins, strict=True)):
        twin.train()
        draws = Draws.of(task.seed, 0, 16, SHORT)
        padded = torch.nn.functional.pad(torch.from_numpy(task.pictures[:16]), (0, 0, 4, 4, 4, 4))[None]
        momenta = [torch.zeros_like(p) for p in twin.parameters()]
        for step in range(2):
            batch = Draws(*(part[step][None] for part in draws))
            x = normalised(augmented(padded, torch.tensor([0]), batch, (8, 8)))[0]
            y = one.labels[batch.picture[0]]
            gradients = torch.autograd.grad(torch.nn.functional.cross_entropy(twin(x)[0], y), list(twin.parameters()))
            norm = math.sqrt(sum(float(g.double().square().sum()) for g in gradients))
            norms.append(norm)
            scale = min(1.0, 0.5 / norm) if task.clip else 1.0
            with torch.no_grad():
                for p, g, m in zip(twin.parameters(), gradients, momenta, strict=True):
                    m.mul_(0.9).add_(g * scale + 1e-4 * p)
                    p.sub_(0.05 * m)
        ours = one.states()[number]["network"]
        for key, theirs in twin.named_parameters():
            torch.testing.assert_close(ours[key], theirs.detach(), rtol=ROUNDING, atol=ROUNDING)
    assert min(norms) > 0.5  # so that clipping has been tested


@pytest.mark.slow
def test_a_wave_of_classifiers_learns() -> None:
    """The label of a picture is its brightness; after six epochs most of the other half are recognised."""
    kinds = np.arange(128) % 2
    shown = (pictures(128) // 4 + 150 * kinds[:, None, None, None]).astype(np.uint8)
    protocol = dataclasses.replace(SHORT, epochs=6, milestones=())
    one = run(Wave([Task("x", shown, 0, clip=True)], kinds, len(kinds) // 2, protocol, "cpu"))
    assert one.curves[0][-1][1] > 0.8
    assert one.accuracies([shown[len(shown) // 2 :]]) == [one.curves[0][-1][1]]


def test_sets_that_do_not_fit_are_refused() -> None:
    with refused("tasks"):
        Wave([Task("x", pictures(16), 0, clip=True)], labels(18), 8, SHORT, "cpu")


def test_psnr_follows_from_a_known_error() -> None:
    clean = np.full((2, 8, 8, 3), 100, np.uint8)
    assert metrics.psnr(clean + np.uint8(10), clean) == pytest.approx(20 * math.log10(25.5))
    assert metrics.psnr(clean, clean) == math.inf


@pytest.mark.slow
def test_ms_ssim_is_one_for_equals_and_falls_with_noise() -> None:
    clean = np.kron(pictures(4, 8), np.ones((1, 4, 4, 1), np.uint8))
    noise = np.random.default_rng(0).normal(size=clean.shape)
    little, much = (np.clip(clean + scale * noise, 0, 255).astype(np.uint8) for scale in (5, 60))
    found = [metrics.ms_ssim(one, clean, "cpu") for one in (clean, little, much)]
    assert found[0] == pytest.approx(1, abs=1e-5)
    assert found[0] > found[1] > found[2]


def test_the_frechet_distance_of_known_gaussians() -> None:
    """Scaled and moved copies have the exact distance |Δ|² + tr(S)·(1 − k)² for features k·x + Δ."""
    rows = np.random.default_rng(0).normal(size=(500, 8)) @ np.diag(np.arange(1, 9))
    trace = float(np.trace(np.cov(rows, rowvar=False)))
    assert metrics.frechet(rows, rows) == pytest.approx(0, abs=1e-6 * trace)
    assert metrics.frechet(3 * rows + 2, rows) == pytest.approx(
        np.square(3 * rows.mean(0) + 2 - rows.mean(0)).sum() + 4 * trace, rel=1e-6
    )
