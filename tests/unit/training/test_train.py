"""Training of denoisers for photographs: runs, their folders, and resuming after a stop."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from helpers.networks import SMALL
from helpers.refusals import refused
from typer.testing import CliRunner

from dipp import models
from dipp.cli.main import app
from dipp.errors import DippError
from dipp.models import photonet
from dipp.models.config import CHANNELS, Config
from dipp.models.network import Network
from dipp.training import calibrate, sensing
from dipp.training import run as training
from dipp.training.run import CHECKPOINT, TrainingRun
from dipp.training.settings import MAX_SEED, Settings

NETWORK = asdict(SMALL)
SETTINGS = Settings(steps=6, batch=4)
SIDE = 16


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module", autouse=True)
def _small() -> Iterator[None]:
    """Let training validate once, because the networks are tiny."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "VALIDATIONS", 1)
        yield


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "pictures.npz"
    np.savez(path, images=np.random.default_rng(1).integers(0, 256, (24, 20, 24, 3), dtype=np.uint8))
    return path


def run(data: Path, output: Path, settings: Settings = SETTINGS, **options: Any) -> TrainingRun:
    return TrainingRun(data, output, settings, size=SIDE, **({"network": NETWORK} | options))


def quiet(_: object) -> None:
    """Ignore a line about the progress."""


@pytest.mark.slow
def test_the_folder_of_a_run_is_a_denoiser(data: Path, tmp_path: Path) -> None:
    made = run(data, tmp_path / "out")
    assert made.train(quiet)
    found = made.validate()
    denoiser = models.load(tmp_path / "out")
    assert isinstance(denoiser, photonet.PhotoDenoiser)
    assert denoiser.network.config == replace(SMALL, planes=tuple(CHANNELS))
    for name, average in made._averaged().items():
        torch.testing.assert_close(denoiser.network.get_parameter(name), average.half().float(), rtol=0, atol=0)
    record = json.loads((tmp_path / "out" / "training.json").read_text())
    assert record["identity"] == denoiser.identity
    assert record["steps"] == 6
    assert record["photographs"] == 23  # the first picture is held out
    assert record["validations"][-1] == found
    assert sorted(found["PSNR on 16×16"]) == sorted(["0.01", "0.05", "0.2", "1", "4", "16", "64", "100"])


def test_a_run_is_validated_while_it_trains(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "VALIDATIONS", 3)
    made = run(data, tmp_path / "out")
    made.train(quiet)
    assert [found["step"] for found in made.validations] == [2, 4]


@pytest.mark.slow
def test_training_lowers_the_error(tmp_path: Path) -> None:
    """All pictures are ramps; an untrained network knows nothing but the noise level."""
    ramp = np.linspace(0, 255, 24).astype(np.uint8)
    wide, tall = np.tile(ramp, (20, 1)), np.tile(ramp[:20, None], (1, 24))
    picture = np.stack([wide, tall, np.full((20, 24), 30, np.uint8)], axis=2)
    np.save(tmp_path / "ramps.npy", np.stack([picture] * 60))
    made = run(tmp_path / "ramps.npy", tmp_path / "out", Settings(steps=150, batch=4, learning_rate=1e-2, ema=0.9))
    before = made.validate()["PSNR on 16×16"]
    made.train(quiet)
    after = made.validate()["PSNR on 16×16"]
    assert after["1"] > before["1"] + 3


def test_an_interrupted_run_resumes_with_the_same_result(data: Path, tmp_path: Path) -> None:
    part = run(data, tmp_path / "out")
    assert not part.train(quiet, pause_after=0)
    assert part.step == 1
    assert models.load(tmp_path / "out").channels == 3
    again = run(data, tmp_path / "out")
    assert again.step == 1
    for mine, theirs in zip(again.parameters, part.parameters, strict=True):
        torch.testing.assert_close(mine, theirs.half().float(), rtol=0, atol=0)
    for mine, theirs in zip(again.average, part.average, strict=True):
        torch.testing.assert_close(mine, theirs.half().float(), rtol=0, atol=0)
    assert again.train(quiet)
    assert again.step == 6


def test_a_checkpoint_is_weights_and_average_in_half_precision(data: Path, tmp_path: Path) -> None:
    made = run(data, tmp_path / "out")
    made.train(quiet)
    content = torch.load(tmp_path / "out" / CHECKPOINT, weights_only=True)
    for part in ("weights", "average"):
        assert {tensor.dtype for tensor in content[part].values()} == {torch.float16}
    count = sum(parameter.numel() for parameter in made.parameters)
    assert (tmp_path / "out" / CHECKPOINT).stat().st_size < 4 * count + 40_000


SAVES_ALWAYS = """
from dipp.cli import main
from dipp.training import run

run.CHECKPOINT_SECONDS = 0.0
save = run.TrainingRun._save


def save_and_tell(self):
    save(self)
    print("saved", flush=True)


run.TrainingRun._save = save_and_tell
main()
"""


@pytest.mark.slow
def test_a_killed_process_resumes_from_its_checkpoint(data: Path, tmp_path: Path) -> None:
    config, output = tmp_path / "network.json", tmp_path / "out"
    config.write_text(json.dumps(NETWORK))
    arguments = ["train", str(data), "-o", str(output), "--network", str(config), "--batch", "4", "--steps", "100000"]
    command = [sys.executable, "-c", SAVES_ALWAYS, *arguments, "--size", str(SIDE)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stdout is not None
        assert "saved\n" in iter(process.stdout.readline, ""), "it ended before its first checkpoint"
        process.kill()
    reached = torch.load(output / CHECKPOINT, weights_only=True)["step"]
    assert reached >= 1
    assert run(data, output, Settings(steps=100_000, batch=4)).step == reached


def test_the_rate_rises_then_falls_to_zero_and_minutes_add_up() -> None:
    steps = Settings(steps=1000)
    paces = [steps.pace(step, steps.progress(step, 0)) for step in range(1000)]
    assert paces[0] == pytest.approx(1 / 200)
    assert max(paces) == pytest.approx(0.801, rel=1e-3)
    assert paces[-1] == pytest.approx(1e-3)
    minutes = Settings(minutes=2)
    assert minutes.progress(10**6, 60) == 0.5
    assert minutes.progress(0, 240) == 1
    assert minutes.pace(10**6, 1.0) == 0


@pytest.mark.parametrize("tiles", [2, 3, 40, 80, 800])
@pytest.mark.parametrize("coded", [0.01, 0.5, 0.99])
def test_a_batch_has_chains_and_gaussian_states(tiles: int, coded: float) -> None:
    for share in (0.0, 0.5, 0.99):
        for worded in (False, True):
            shares = Settings(steps=1, coded=coded, told=share).sizes(tiles, 16, worded=worded)
            assert min(shares.cohorts, shares.cohort, shares.gaussian) >= 1
            told = shares.told + math.prod(shares.worded)
            assert shares.cohorts * shares.cohort + shares.gaussian + told == tiles
            assert told == 0 if share == 0 or shares.gaussian + told == 1 else told <= shares.gaussian * 100
            assert shares.told >= math.prod(shares.worded) >= (1 if worded and shares.told > 1 else 0)


def test_time_is_summed_over_the_parts(data: Path, tmp_path: Path) -> None:
    settings = replace(SETTINGS, steps=None, minutes=60)
    part = run(data, tmp_path / "out", settings)
    assert not part.train(quiet, pause_after=0)
    again = run(data, tmp_path / "out", settings)
    assert again.seconds == part.seconds > 0
    assert not again.train(quiet, pause_after=0)
    assert again.seconds > part.seconds


@pytest.mark.parametrize(
    ("change", "message"),
    [({"seed": 1}, "seed"), ({"batch": 8}, "batch"), ({"coded": 0.25}, "coded")],
)
def test_another_run_in_the_same_folder_is_refused(
    data: Path, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    run(data, tmp_path / "out").train(quiet, pause_after=0)
    with refused("output", message):
        run(data, tmp_path / "out", replace(SETTINGS, **change))


def test_the_length_of_a_run_may_be_changed_when_it_resumes(data: Path, tmp_path: Path) -> None:
    run(data, tmp_path / "out").train(quiet, pause_after=0)
    longer = run(data, tmp_path / "out", replace(SETTINGS, steps=8))
    assert longer.train(quiet)
    assert longer.step == 8


def test_a_damaged_checkpoint_is_refused(data: Path, tmp_path: Path) -> None:
    run(data, tmp_path / "out").train(quiet, pause_after=0)
    path = tmp_path / "out" / CHECKPOINT
    content = torch.load(path, weights_only=True)
    for name in ("weights", "average", "step", "seconds", "validations"):
        torch.save({key: value for key, value in content.items() if key != name}, path)
        with refused("checkpoint.pt", remedy="delete"):
            run(data, tmp_path / "out")
    path.write_bytes(path.read_bytes()[:1000])
    with refused("checkpoint.pt", "damaged"):
        run(data, tmp_path / "out")


def test_a_run_of_the_largest_seed_can_be_resumed(data: Path, tmp_path: Path) -> None:
    settings = replace(SETTINGS, seed=MAX_SEED - 1)
    run(data, tmp_path / "out", settings).train(quiet, pause_after=0)
    assert run(data, tmp_path / "out", settings).step == 1


def test_a_wrong_folder_fails_at_the_start(data: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("keep me")
    with refused("output", "training"):
        run(data, tmp_path / "thesis")
    with refused("output", "made"):
        run(data, data)
    with refused("output", "made"):
        run(data, data / "below")
    with refused("data", "neither"):
        run(tmp_path / "nowhere", tmp_path / "new" / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pictures.npz", "thesis"], (
        "a run that is refused leaves nothing behind"
    )


def test_pictures_that_are_too_small_fail_at_the_start(data: Path, tmp_path: Path) -> None:
    with refused("data", remedy="--size"):
        TrainingRun(data, tmp_path / "out", SETTINGS, size=64, network=NETWORK)
    with refused("size", "pictures"):
        TrainingRun(data, tmp_path / "out", SETTINGS, size=4, network=NETWORK)
    assert not (tmp_path / "out").exists()


def test_small_grey_pictures_train_and_calibrate(tmp_path: Path) -> None:
    """The pictures have one channel and are smaller than the network's stride; only the length is given."""
    path, config = tmp_path / "grey.npz", Config(channels=(8,) * 5, down=(1,) * 5, up=(1,) * 4, embedding=16)
    images = np.random.default_rng(0).integers(0, 256, (8, 12, 14, 1), dtype=np.uint8)
    np.savez(path, images=images)
    made = TrainingRun(path, tmp_path / "out", SETTINGS, network=asdict(config))
    assert made.tiles.training[0].shape[1:] == (12, 12, 3)
    assert config.stride > 12
    made.train(quiet)
    assert all(bool(average.isfinite().all()) for average in made.average)
    made.validate()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sensing, "TILTS", {0.5: 1})
        patch.setattr(calibrate, "EPSILONS", (4.0,))
        result = CliRunner().invoke(app, ["calibrate", str(tmp_path / "out"), str(path), "--count", "2"])
    assert "calibrated on 2 of 12×12 (0 skipped)" in result.output, result.output


def test_too_little_disk_fails_at_the_start(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 20))
    with refused("output", "disk"):
        run(data, tmp_path / "out")


@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"steps": 1, "minutes": 1.0},
        {"steps": 0},
        {"minutes": 0.0},
        {"steps": 1, "batch": 1},
        {"steps": 1, "ema": 1},
        {"steps": 1, "coded": 0.0},
        {"steps": 1, "seed": -1},
        {"steps": 1, "seed": MAX_SEED},
    ],
)
def test_invalid_settings_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(DippError):
        Settings(**bad)


def test_the_default_network_is_small_enough_to_ship() -> None:
    with torch.device("meta"):
        network = Network(Config())
    assert 2 * sum(parameter.numel() for parameter in network.parameters()) < 19_500_000


def test_a_run_starts_from_another_denoiser(data: Path, tmp_path: Path) -> None:
    first = run(data, tmp_path / "first")
    first.train(quiet)
    first.validate()
    second = run(data, tmp_path / "second", start=tmp_path / "first", network=None)
    for one, other in zip(first.average, second.average, strict=True):
        assert torch.equal(one.half().float(), other)
    with refused("network and start"):
        run(data, tmp_path / "third", start=tmp_path / "first")


def test_the_command_trains_a_denoiser(data: Path, tmp_path: Path) -> None:
    config = tmp_path / "network.json"
    config.write_text(json.dumps(NETWORK))
    arguments = ["train", str(data), "-o", str(tmp_path / "out"), "--network", str(config), "--steps", "3"]
    arguments += ["--size", str(SIDE), "--device", "cpu"]
    result = CliRunner().invoke(app, [*arguments, "--coded", "0.3", "--validation", str(data)])
    assert result.exit_code == 0, result.output
    assert "steps/s" in result.output
    assert "dB at SNR 0.01" in result.output
    settings = json.loads((tmp_path / "out" / "training.json").read_text())["settings"]
    assert settings["batch"] == 4, "on a CPU, unless told, so that a step takes seconds"
    for text in ("[]", "[" * 100_000):
        config.write_text(text)
        with refused("network", "object"):
            CliRunner().invoke(app, arguments, catch_exceptions=False)
    for wrong in ({"block_out_channels": [8]}, {"channels": [8, 8]}, {"embedding": 0}, {"deviation": "a"}):
        config.write_text(json.dumps(wrong))
        with refused("network", "config"):
            CliRunner().invoke(app, [*arguments[:3], str(tmp_path / "new"), *arguments[4:]], catch_exceptions=False)


@pytest.mark.gpu
def test_on_cuda_steps_are_one_graph(data: Path, tmp_path: Path) -> None:
    made = run(data, tmp_path / "out", Settings(steps=30, batch=4), device="cuda")
    assert made.train(quiet)
    assert made.graph is not None
    assert made.step == 30
    assert all(bool(average.isfinite().all()) for average in made.average)
