from __future__ import annotations

import itertools
import json
import math
import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from dipp import models
from dipp.cli.main import app
from dipp.data import cifar
from dipp.errors import DippError
from dipp.models.diffusion import NoiseSchedule
from dipp.planning.table import ErrorTable
from dipp.training import chains, folder, objective, public_pictures, validation
from dipp.training import run as training
from dipp.training.run import CHECKPOINT, Run, Settings

NETWORK = {
    "sample_size": 8,
    "in_channels": 3,
    "out_channels": 3,
    "block_out_channels": [8, 16],
    "down_block_types": ["DownBlock2D", "DownBlock2D"],
    "up_block_types": ["UpBlock2D", "UpBlock2D"],
    "layers_per_block": 1,
    "norm_num_groups": 4,
    "dropout": 0.1,
}
SCHEDULE = NoiseSchedule.from_config(folder.SCHEDULER)
SETTINGS = Settings(steps=6, batch=4, half=True)


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module", autouse=True)
def _small() -> Iterator[None]:
    """A single validation, with few pictures: the networks are tiny."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "VALIDATIONS", 1)
        patch.setattr(validation, "GRID_SIDE", 2)
        yield


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "pictures.npz"
    np.savez(path, images=np.random.default_rng(1).integers(0, 256, (24, 8, 8, 3), dtype=np.uint8))
    return path


def run(data: Path, output: Path, settings: Settings = SETTINGS, **options: Any) -> Run:
    return Run(data, output, settings, network=NETWORK, **options)


def quiet(_: object) -> None:
    """Nobody is told."""


def test_the_folder_is_a_denoiser_that_diffusers_samples_from(data: Path, tmp_path: Path) -> None:
    from diffusers import DDPMPipeline

    made = run(data, tmp_path / "out")
    assert made.train(quiet)
    found = made.validate()
    denoiser = models.load(tmp_path / "out")
    assert denoiser.schedule.prediction == "v_prediction"
    assert denoiser.x0(torch.zeros(1, 3, 8, 8), 500).shape == (1, 3, 8, 8)
    record = json.loads((tmp_path / "out" / "training.json").read_text())
    assert record["identity"] == denoiser.identity
    assert record["steps"] == 6
    assert record["pictures seen"] == 24
    assert record["validations"][-1] == found
    assert (tmp_path / "out" / "samples" / "0000006.png").is_file()
    pipeline: Any = DDPMPipeline
    pipeline = pipeline.from_pretrained(tmp_path / "out")
    pipeline.set_progress_bar_config(disable=True)
    assert len(pipeline(num_inference_steps=2).images) == 1


def test_a_run_is_validated_on_the_way(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "VALIDATIONS", 3)
    made = run(data, tmp_path / "out")
    made.train(quiet)
    assert [found["step"] for found in made.validations] == [2, 4]
    assert (tmp_path / "out" / "samples" / "0000002.png").is_file()


@pytest.mark.slow
def test_training_lowers_the_loss(tmp_path: Path) -> None:
    """To a third; six seeds reach a quarter to an eighth, so that no processor's rounding decides."""
    ramp = np.linspace(0, 255, 8).astype(np.uint8)
    picture = np.stack([np.tile(ramp, (8, 1)), np.tile(ramp[:, None], (1, 8)), np.full((8, 8), 30, np.uint8)], axis=2)
    np.save(tmp_path / "ramps.npy", np.stack([picture] * 8))
    made = run(tmp_path / "ramps.npy", tmp_path / "out", Settings(steps=300, batch=8, learning_rate=5e-3, ema=0.9))
    before = made.validate()["bits per pixel of the path to SNR"]["2"]
    made.train(quiet)
    assert made.validate()["bits per pixel of the path to SNR"]["2"] < before / 3


@pytest.mark.parametrize("coded", [0.0, 0.5])
def test_a_run_that_was_interrupted_ends_as_if_it_had_not_been(data: Path, tmp_path: Path, coded: float) -> None:
    settings = Settings(steps=6, batch=4, coded=coded)
    run(data, tmp_path / "whole", settings).train(quiet)
    part = run(data, tmp_path / "parts", settings)
    assert not part.train(quiet, pause_after=0)
    assert part.step == 1
    assert models.load(tmp_path / "parts").sample_size == (8, 8)
    again = run(data, tmp_path / "parts", settings)
    assert again.step == 1
    assert again.train(quiet)
    whole, parts = (torch.load(tmp_path / name / CHECKPOINT, weights_only=True) for name in ("whole", "parts"))
    assert whole["step"] == parts["step"] == 6
    for one, other in zip(whole["average"], parts["average"], strict=True):
        assert torch.equal(one, other)
    for name, tensor in whole["network"].items():
        assert torch.equal(tensor, parts["network"][name]), name


SAVES_ALWAYS = """
from dipp.cli import main
from dipp.training import run

run.CHECKPOINT_SECONDS = 0.0
save = run.Run._save


def save_and_tell(self):
    save(self)
    print("saved", flush=True)


run.Run._save = save_and_tell
main()
"""


@pytest.mark.slow
def test_a_killed_process_goes_on_from_its_checkpoint(data: Path, tmp_path: Path) -> None:
    config, output = tmp_path / "network.json", tmp_path / "out"
    config.write_text(json.dumps(NETWORK))
    arguments = ["train", str(data), "-o", str(output), "--network", str(config), "--batch", "4", "--steps", "100000"]
    command = [sys.executable, "-c", SAVES_ALWAYS, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stdout is not None
        assert "saved\n" in iter(process.stdout.readline, ""), "it ended before its first checkpoint"
        process.kill()
    reached = torch.load(output / CHECKPOINT, weights_only=True)["step"]
    assert reached >= 1
    resumed = Run(data, output, Settings(steps=100_000, batch=4), network=NETWORK)
    assert resumed.step == reached


def test_the_rate_rises_then_falls_to_zero_and_minutes_add_up() -> None:
    steps = Settings(steps=1000, learning_rate=1e-3)
    rates = [steps.rate(step, steps.progress(step, 0)) for step in range(1000)]
    assert rates[0] == pytest.approx(1e-3 / 50)
    assert max(rates) == pytest.approx(1e-3 * 0.951, rel=1e-3)
    assert rates[-1] == pytest.approx(1e-6)
    minutes = Settings(minutes=2)
    assert minutes.progress(10**6, 60) == 0.5
    assert minutes.progress(0, 240) == 1
    assert minutes.rate(10**6, 1.0) == 0


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
    [({"seed": 1}, "another seed"), ({"batch": 8}, "another batch"), ({"coded": 0.5}, "another coded")],
)
def test_another_run_in_the_same_folder_is_refused(
    data: Path, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    run(data, tmp_path / "out").train(quiet, pause_after=0)
    with pytest.raises(DippError, match=message):
        run(data, tmp_path / "out", replace(SETTINGS, **change))


def test_the_length_of_a_run_may_be_changed_on_the_way(data: Path, tmp_path: Path) -> None:
    run(data, tmp_path / "out").train(quiet, pause_after=0)
    longer = run(data, tmp_path / "out", replace(SETTINGS, steps=8))
    assert longer.train(quiet)
    assert longer.step == 8


def test_a_damaged_checkpoint_is_refused(data: Path, tmp_path: Path) -> None:
    run(data, tmp_path / "out").train(quiet, pause_after=0)
    path = tmp_path / "out" / CHECKPOINT
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(DippError, match="damaged"):
        run(data, tmp_path / "out")


def test_a_wrong_folder_fails_at_the_start(data: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("keep me")
    with pytest.raises(DippError, match="neither empty nor a training run"):
        run(data, tmp_path / "thesis")
    with pytest.raises(DippError, match="not a folder that can be made"):
        run(data, data)
    with pytest.raises(DippError, match="neither a folder nor"):
        run(tmp_path / "nowhere", tmp_path / "out")


def test_too_little_disk_fails_at_the_start(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 20))
    with pytest.raises(DippError, match=r"\d+ MB of disk are needed .* 1 MB are free"):
        run(data, tmp_path / "out")


@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"steps": 1, "minutes": 1.0},
        {"steps": 0},
        {"minutes": 0.0},
        {"steps": 1, "batch": 0},
        {"steps": 1, "ema": 1},
    ],
)
def test_settings_that_make_no_run_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(DippError):
        Settings(**bad)


def test_the_default_network_is_small_enough_to_ship() -> None:
    with torch.device("meta"):
        network = folder.build(folder.default_network(32))
    assert 2 * sum(parameter.numel() for parameter in network.parameters()) < 23_000_000


def test_a_run_starts_from_another_denoiser(data: Path, tmp_path: Path) -> None:
    first = run(data, tmp_path / "first")
    first.train(quiet)
    first.validate()
    second = Run(data, tmp_path / "second", SETTINGS, start=tmp_path / "first")
    for one, other in zip(first.average, second.average, strict=True):
        assert torch.equal(one.half().float(), other)


def test_the_command(data: Path, tmp_path: Path) -> None:
    config = tmp_path / "network.json"
    config.write_text(json.dumps(NETWORK))
    arguments = ["train", str(data), "-o", str(tmp_path / "out"), "--network", str(config), "--steps", "3"]
    result = CliRunner().invoke(app, [*arguments, "--batch", "4", "--coded", "0.5", "--validation", str(data)])
    assert result.exit_code == 0, result.output
    assert "img/s" in result.output
    assert "SNR       2:" in result.output
    config.write_text("[]")
    with pytest.raises(DippError, match="not a JSON object"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)
    config.write_text('{"in_channels": 1, "out_channels": 1}')
    with pytest.raises(DippError, match="3 channels in and out are needed"):
        CliRunner().invoke(app, [*arguments[:3], str(tmp_path / "grey"), *arguments[4:]], catch_exceptions=False)
    config.write_text('{"block_out_channels": [8]}')
    with pytest.raises(DippError, match="makes no UNet2DModel"):
        CliRunner().invoke(app, [*arguments[:3], str(tmp_path / "new"), *arguments[4:]], catch_exceptions=False)


# What is drawn


def test_timesteps_are_drawn_where_coded_steps_end() -> None:
    alphas = torch.tensor(SCHEDULE.alphas_cumprod.copy())
    weights = objective.density(alphas)
    assert float(weights.sum()) == pytest.approx(1)
    assert float(weights.min()) > 0
    snr = alphas / (1 - alphas)
    whole = math.log(float(snr[0] / snr[-1]))
    low, high = objective.CODED_SNRS
    inside = float(weights[(snr >= low) & (snr <= high)].sum())
    assert inside == pytest.approx(0.8 + 0.2 * math.log(high / low) / whole, abs=0.01)
    short = objective.density(torch.tensor([0.9999, 0.9998]).double())
    assert float(short.sum()) == pytest.approx(1)


def test_chains_reach_the_states_that_their_timesteps_say() -> None:
    """Σ of sign steps: x_t/γ_t is x0 plus noise of variance 1/SNR(t), and single steps touch 1/P of the coordinates.

    Steps that are small against saturation, from the prediction 0; five deviations of the means over 48,000 chains'
    coordinates and more are far below the tolerances (false alarms below 1e-6).
    """
    torch.manual_seed(0)
    x0 = torch.rand(256, 3, 16, 16) * 2 - 1
    ride = chains.Chains(SCHEDULE, 30.0, torch.device("cpu"))
    ride.begin(x0)
    ride.state["power"].fill_(0.02)
    ride.state["period"].fill_(3)
    ride.state["place"] = torch.randint(3, (256, 1, 16, 16)).float()
    start, t_start = ride.state["x_t"], ride.state["t"]
    ride.advance(torch.zeros_like(x0), x0)
    first = ride.state
    assert bool((first["t"] < t_start).all())
    still = first["x_t"] / start  # an untouched coordinate is rescaled only
    for number in range(256):
        share = (still[number] - still[number].median()).abs() < 1e-3 * still[number].median().abs()
        assert float(share.float().mean()) == pytest.approx(2 / 3, abs=0.02)
    for _ in range(5):
        ride.advance(torch.zeros_like(x0), x0)
    state = ride.state
    snr = ride.snrs[state["t"]].view(-1, 1, 1, 1)
    y = state["x_t"] / ride.gammas[state["t"]].view(-1, 1, 1, 1)
    assert bool((state["number"] == 6).all())
    slope = float((snr * y * state["x0"]).sum() / (snr * state["x0"].square()).sum())
    assert slope == pytest.approx(1, abs=0.05)
    assert float((snr * (y - state["x0"]).square()).mean()) == pytest.approx(1, abs=0.05)


def test_a_chain_that_ends_starts_anew_with_a_fresh_picture() -> None:
    torch.manual_seed(0)
    old, new = torch.full((8, 3, 8, 8), 0.5), torch.full((8, 3, 8, 8), -0.5)
    ride = chains.Chains(SCHEDULE, 30.0, torch.device("cpu"))
    ride.begin(old)
    seen = []
    for _ in range(chains.LONGEST + 1):
        seen.append(ride.state)
        ride.advance(ride.state["x0"] * 0.9, new)
    assert bool((ride.state["x0"] == new).all())
    for before, after in itertools.pairwise(seen):
        anew = after["number"] == 0
        assert bool((after["t"] < before["t"])[~anew].all())
        assert bool((after["t"] == len(SCHEDULE) - 1)[anew].all())
        assert bool((after["number"] <= chains.LONGEST).all())
        assert bool((ride.snrs[after["t"]] <= 30).all())


def test_the_path_costs_what_its_errors_say() -> None:
    snrs = [SCHEDULE.snr(t) for t in (999, 0)]
    table = ErrorTable(np.array([999, 0]), np.array(snrs), np.full((2, 4), 0.5))
    denoiser: Any = SimpleNamespace(schedule=SCHEDULE, channels=3)
    bits = validation.path_bits(table, denoiser, [0.1, 2.0])
    for snr, found in bits.items():
        assert found == pytest.approx(3 * 0.25 * (snr - snrs[0]) / (2 * math.log(2)), rel=1e-9)


# Where pictures come from


def test_a_folder_of_pictures_with_bad_ones(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    (tmp_path / "deep").mkdir()
    Image.fromarray(pixels).save(tmp_path / "deep" / "a.png")
    Image.fromarray(pixels[:4]).save(tmp_path / "b-too-small.png")
    Image.fromarray(np.tile(pixels, (2, 3, 1))[:, :20]).save(tmp_path / "c-large.png")
    (tmp_path / "d.png").write_bytes(b"no picture")
    whole = (tmp_path / "deep" / "a.png").read_bytes()
    (tmp_path / "e.png").write_bytes(whole[: len(whole) // 2])
    found = public_pictures.load(tmp_path, 8)
    assert found.skipped == 3
    assert len(found.pixels) == 1 + 2 * 3
    assert any(np.array_equal(tile, pixels) for tile in found.pixels)
    with pytest.raises(DippError, match="no picture of at least 64×64"):
        public_pictures.load(tmp_path, 64)


def test_tiles_are_limited_and_cover_the_sides() -> None:
    picture = np.arange(100 * 90 * 3, dtype=np.uint32).astype(np.uint8).reshape(100, 90, 3)
    tiles = public_pictures._tiles(picture, 8)
    assert len(tiles) == public_pictures.TILES
    assert np.array_equal(tiles[0], picture[:8, :8])
    assert np.array_equal(tiles[-1], picture[-8:, -8:])


def test_cifar_training_batches_only(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = {}
    for name in (*cifar.BATCHES["train"], "test_batch"):
        rows[name] = rng.integers(0, 256, (2, 3072), dtype=np.uint8)
        (tmp_path / name).write_bytes(pickle.dumps({b"data": rows[name], b"labels": [0, 1]}, protocol=4))
    found = public_pictures.load(tmp_path, 32)
    assert len(found.pixels) == 10
    assert np.array_equal(found.pixels[3], rows["data_batch_2"][1].reshape(3, 32, 32).transpose(1, 2, 0))
    (tmp_path / "data_batch_4").write_bytes(b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R.")
    with pytest.raises(DippError, match="data_batch_4 is not a batch"):
        public_pictures.load(tmp_path, 32)
    (tmp_path / "data_batch_4").unlink()
    with pytest.raises(DippError, match="data_batch_4 of CIFAR-10 is missing"):
        public_pictures.load(tmp_path, 32)


@pytest.mark.parametrize("nested", [True, False])
def test_parquet(tmp_path: Path, nested: bool) -> None:
    arrow: Any = pytest.importorskip("pyarrow")
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    files = [(tmp_path / "a.png").read_bytes(), b"bad", None]
    (tmp_path / "a.png").unlink()
    column = [f and {"bytes": f, "path": "x"} for f in files] if nested else files
    parquet.write_table(arrow.table({"label": [1, 2, 3], "image": column}), tmp_path / "train.parquet")
    for place in (tmp_path / "train.parquet", tmp_path):
        found = public_pictures.load(place, 8)
        assert np.array_equal(found.pixels, pixels[None])
        assert found.skipped == 2
    parquet.write_table(arrow.table({"label": [1]}), tmp_path / "train.parquet")
    with pytest.raises(DippError, match="no column of pictures"):
        public_pictures.load(tmp_path, 8)
    (tmp_path / "train.parquet").write_bytes(b"PAR1")
    with pytest.raises(DippError, match="not a Parquet file"):
        public_pictures.load(tmp_path, 8)


def test_arrays_of_another_kind_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((2, 8, 8, 3)))
    with pytest.raises(DippError, match="uint8"):
        public_pictures.load(tmp_path / "a.npy", 8)
    np.savez(tmp_path / "a.npz", other=np.zeros(3))
    with pytest.raises(DippError, match="images"):
        public_pictures.load(tmp_path / "a.npz", 8)
