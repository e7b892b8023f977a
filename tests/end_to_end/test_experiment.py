"""The paper's experiment from end to end on a CPU: 12 pictures, two epochs, the embedded denoiser, and resuming."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from helpers.commands import Command
from helpers.datasets import save_cifar
from helpers.paths import ROOT
from helpers.refusals import printed, refused
from matplotlib.figure import Figure

import dipp
from dipp.cli.main import run_app
from dipp.core import randomness
from dipp.errors import DippError
from dipp.models import embedded
from experiments.cifar10 import figures, stages, tables
from experiments.cifar10 import run as running
from experiments.cifar10.__main__ import app
from experiments.cifar10.baseline import CODECS
from experiments.cifar10.config import Config
from experiments.cifar10.options import Options
from experiments.cifar10.releases import Maker
from experiments.cifar10.store import Store
from experiments.cifar10.training import Task, Wave
from experiments.comparisons.unclipped import SHARP, THRIFTY

SMOKE = ROOT / "experiments" / "cifar10" / "smoke.toml"
IMAGES = 12

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]


@pytest.fixture(scope="module")
def cifar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_cifar(tmp_path_factory.mktemp("cifar-10-batches-py"), IMAGES)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, cifar: Path) -> Path:
    """Return the folder of a whole run."""
    out = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "DPI", 20)
        run_stages(cifar, out)
    return out


def run_stages(
    cifar: Path, out: Path, *, config: Path = SMOKE, say: Callable[[str], None] | None = None, **options: Any
) -> list[str]:
    said: list[str] = []
    given = Options(config=config, data=cifar, output=out, commit="abc", **options)
    running.run(given, command="experiment", say=say or said.append)
    return said


def test_results_have_every_figure(finished: Path) -> None:
    """No figure is missing: bits from the bytes on disk, certificates within ε, accuracies and metrics."""
    results = json.loads((finished / "report" / "results.json").read_text())
    for row in results["releases"]:
        for output, measured in row["metrics"].items():
            if output != "clean":
                assert 0 < measured["psnr"] < 60
                assert measured["frechet"] >= -1e-6
        assert all(found["seeds"] == [0] and 0 <= found["last"] <= found["best"] for found in row["accuracy"].values())
        if row["method"] in ("clean", "laplace"):
            assert set(row["codecs"]) == (set() if row["name"] == "clean-clipped" else set(CODECS))
            continue
        archive = finished / "archives" / f"{row['name']}.dipp"
        assert row["file_bytes"] == archive.stat().st_size
        assert row["file_bpp"] == 8 * row["file_bytes"] / (row["images"] * 1024)
        overhead = row["overhead_bits_per_image"] / 1024
        assert row["payload_bpp"] + overhead == pytest.approx(row["file_bpp"], rel=1e-12)
        assert len(dipp.open(archive)) == row["images"]
        assert results["made_with"]["model"] == [dipp.open(archive).parameters.model]
        if row["method"] == "diffc":
            assert row["certificate"] is None
        else:
            assert row["certificate"]["epsilon"] <= row["epsilon"]
            assert row["certificate"]["epsilon_at_delta"] <= row["certificate"]["epsilon"]
    assert results["ancestral"]["fast"]["images"] == results["ancestral"]["ancestral"]["images"] == 2
    assert all(1 < found["kl_ratio"] < 2 for found in results["deviations"].values())
    assert {run["stage"] for run in results["runs"]} == set(stages.STAGES) - {"report"}
    assert results["commits"] == ["abc"]
    by_name = {row["name"]: row for row in results["releases"]}
    for epsilon in (1, 4):
        pair = [by_name[f"{method}-{epsilon}-plotted"]["final_timestep"] for method in ("paper", "diffc")]
        assert pair[0] == pair[1]
    found = {row["mechanism"] for row in results["releases"] if row["method"] == "unclipped"}
    assert found <= {SHARP.name, THRIFTY.name}
    assert not any(part["names"] for part in results["missing"].values())
    assert by_name["paper-4-quarter"]["snr"] < by_name["paper-4-plotted"]["snr"]
    assert by_name["laplace-4"]["denoising"]["timestep"] < by_name["laplace-1"]["denoising"]["timestep"]


def test_tables_and_figures_are_made_from_the_results(finished: Path) -> None:
    folder = finished / "report"
    text = (folder / "tables.md").read_text()
    assert text == tables.write(json.loads((folder / "results.json").read_text()))
    for release in Config.load(SMOKE).releases:
        assert release.name in text
    for name in ("panels", "surface", "deviations", "grid"):
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_each_curve_of_the_panels_is_of_its_own_pictures(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Figure] = []
    monkeypatch.setattr(figures, "_save", lambda figure, _: drawn.append(figure))
    results = json.loads((finished / "report" / "results.json").read_text())
    figures.panels(results, tmp_path / "panels.png")
    (figure,) = drawn
    rows = {row["name"]: row["accuracy"] for row in results["releases"]}
    curves: Any = figure.axes[1].containers
    middle = {curve.get_label(): curve.lines[0].get_ydata() for curve in curves}
    share = {name: rows[name][output]["last"] for name, output in (("laplace-4", "denoised"), ("laplace-1", "laplace"))}
    assert list(middle[figures.DENOISED[2]]) == [share["laplace-4"]]
    assert middle[figures.STYLES["laplace"][2]][0] == share["laplace-1"]


def test_the_grid_gives_no_epsilon_to_what_has_no_certificate(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Figure] = []
    monkeypatch.setattr(figures, "_save", lambda figure, _: drawn.append(figure))
    figures.grid(Config.load(SMOKE), Store(finished), tmp_path / "grid.png")
    labels = [text.get_text().strip() for axes in drawn[0].axes for text in axes.texts]
    assert {"clean", "laplace", "diffc (no certificate), noisy", "paper, denoised"} < set(labels)
    assert [axes.get_title() for axes in drawn[0].axes[2:4]] == ["ε ≤ 1 per pixel", "ε ≤ 4 per pixel"]


def test_public_seeds_are_drawn_before_pictures_are_read(
    cifar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each archive has the seed that was drawn for it."""
    order: list[str] = []
    seeds: list[bytes] = []
    fresh, load = randomness.fresh_seed, running.load

    def drawn() -> bytes:
        order.append("seed")
        seeds.append(fresh())
        return seeds[-1]

    def read(folder: Path, count: int, split: str) -> Any:
        order.append("pictures")
        return load(folder, count, split)

    monkeypatch.setattr(randomness, "fresh_seed", drawn)
    monkeypatch.setattr(running, "load", read)
    run_stages(cifar, tmp_path, stage="encode", only="paper-1-plotted,diffc-1-plotted")
    assert order == ["seed", "seed", "pictures"]
    found = [dipp.open(path).parameters.seed for path in (tmp_path / "archives").iterdir()]
    assert sorted(found) == sorted(seeds)
    assert len(set(seeds)) == 2


def test_a_frechet_distance_is_from_the_same_pictures(finished: Path, cifar: Path) -> None:
    """Unchanged pictures have the distance 0, even if they are few."""
    pixels, labels = running.load(cifar, IMAGES)
    maker = Maker(Config.load(SMOKE), Store(finished), pixels, "", None, "cpu")
    run = stages.Run(maker, labels, [], 0.0, print)
    assert run._judge is not None
    size = np.trace(np.cov(run._judge.clean.T))
    assert run._measured(pixels[:8])["frechet"] == pytest.approx(0, abs=1e-6 * size)
    assert run._measured(pixels[8:16])["frechet"] > 1e-3 * size


def test_a_release_with_same_steps_has_all_steps_of_another(finished: Path) -> None:
    """A release that is like another has the same last step; with `same_steps` it has all of its steps."""
    config = Config.load(SMOKE)
    maker = Maker(config, Store(finished), np.zeros((0, 32, 32, 3), np.uint8), str(embedded.FOLDER), None, "cpu")
    other = dipp.open(finished / "archives" / "paper-256-unbound.dipp").parameters.plan
    same, free = (
        maker.point(replace(config.release(name), like="paper-256-unbound")).plan
        for name in ("diffc-4-same", "diffc-4-plotted")
    )
    assert [step.end for step in same.steps] == [step.end for step in other.steps]
    assert free.steps[-1].end == other.steps[-1].end
    assert len(free.steps) != len(other.steps)


@pytest.mark.parametrize(
    "change",
    ["epochs = 3", "calls = 3", "bpp = 0.5", "deviations = 3", "clip = true"],
)
def test_records_of_another_config_are_refused(finished: Path, cifar: Path, tmp_path: Path, change: str) -> None:
    """Without the refusal, they would be reported as if they belonged to this config."""
    key = change.split(" ")[0]
    lines = [change if line.split(" ")[0] == key else line for line in SMOKE.read_text().splitlines()]
    other = tmp_path / "other.toml"
    other.write_text("\n".join(lines))
    with refused("output", "config", remedy="folder"):
        run_stages(cifar, finished, config=other, stage="report")


def test_pictures_of_another_config_are_not_used(cifar: Path, tmp_path: Path) -> None:
    run_stages(cifar, tmp_path, stage="baseline", only="laplace-1")
    maker = Maker(Config.load(SMOKE), Store(tmp_path), np.zeros((8, 32, 32, 3), np.uint8), "", None, "cpu")
    release = maker.config.release("laplace-1")
    assert len(maker.pictures(release, "laplace")) == IMAGES
    fewer = replace(release, images=8)
    assert len(maker.pictures(fewer, "laplace")) == 8


def test_a_release_follows_the_recorded_plan_of_the_one_it_is_like(finished: Path, tmp_path: Path) -> None:
    """A release is compared with the plan in its record, and not with the plan that would be chosen today."""
    config, pixels = Config.load(SMOKE), np.zeros((0, 32, 32, 3), np.uint8)
    maker = Maker(config, Store(tmp_path), pixels, str(embedded.FOLDER), None, "cpu")
    with refused("paper-4-plotted", "not encoded", remedy="encode"):
        maker.point(config.release("diffc-4-plotted"))
    shutil.copy(finished / "archives" / "paper-256-unbound.dipp", tmp_path / "archives" / "paper-4-plotted.dipp")
    shutil.copy(finished / "records" / "encode.paper-4-plotted.json", tmp_path / "records")
    made = dipp.open(tmp_path / "archives" / "paper-4-plotted.dipp").parameters.plan
    assert maker.point(config.release("diffc-4-plotted")).final_timestep == made.steps[-1].end
    quarter = json.loads((finished / "records" / "encode.paper-4-quarter.json").read_text())
    assert maker.point(config.release("paper-4-quarter")).snr > 2 * quarter["snr"]  # as close as this ε allows


@pytest.fixture
def travelled(finished: Path, tmp_path: Path) -> Path:
    """Return a copy of a finished run on another machine: some files and two results are missing."""
    for name in ("archives", "records", "previews", "weights"):
        shutil.copytree(finished / name, tmp_path / name)
    for pattern in ("*.unclipped-1-plotted*", "metrics.laplace-4.denoised*"):
        for place in (tmp_path / "records").glob(pattern):
            place.unlink()
    return tmp_path


@pytest.mark.parametrize(("stage", "only"), [("encode", "*"), ("metrics", "laplace-4")])
def test_records_of_another_model_are_refused(travelled: Path, cifar: Path, stage: str, only: str) -> None:
    known = Store(travelled).made_with("model")[0]
    for place in (travelled / "records").iterdir():
        place.write_text(place.read_text().replace(known, "another"))
    with refused("model", "another", known, remedy="folder"):
        run_stages(cifar, travelled, stage=stage, only=only)


def test_records_of_another_cost_table_are_refused(travelled: Path, cifar: Path, tmp_path: Path) -> None:
    text = json.loads((embedded.FOLDER / "calibration.json").read_text())
    text["quantiles"][0][-1] *= 1.5
    other = tmp_path / "other.json"
    other.write_text(json.dumps(text))
    with refused("calibration", "records"):
        run_stages(cifar, travelled, stage="encode", calibration=other)


def test_records_of_another_judge_are_refused(travelled: Path, cifar: Path) -> None:
    place = travelled / "weights" / "clean.0.pt"
    weights = torch.load(place)
    torch.save({name: weight + 1 for name, weight in weights.items()}, place)
    with refused("judge", "records"):
        run_stages(cifar, travelled, stage="metrics", only="laplace-4")


def test_folders_of_two_judges_are_not_reported_as_one(travelled: Path, cifar: Path) -> None:
    place = travelled / "records" / "metrics.laplace-4.laplace.json"
    place.write_text(json.dumps({**json.loads(place.read_text()), "judge": "another"}))
    with refused("output", "more than one judge"):
        run_stages(cifar, travelled, stage="report")


def test_results_of_an_archive_are_not_reported_with_another_archive(travelled: Path, cifar: Path) -> None:
    """Encoding again makes another release, and no result of the first may be reported with it."""
    place = travelled / "records" / "encode.paper-1-plotted.json"
    place.unlink()
    with refused("paper-1-plotted", "encode.paper-1"):
        run_stages(cifar, travelled, stage="encode", only="paper-1-plotted")
    for kind in ("train.", "metrics.", "deviations."):
        for record in (travelled / "records").glob(f"{kind}paper-1-plotted*"):
            record.unlink()
    stale = travelled / "checkpoints" / "train.paper-1-plotted.denoised.0.abcd.pt"
    stale.write_bytes(b"")
    before = (travelled / "archives" / "paper-1-plotted.dipp").read_bytes()
    run_stages(cifar, travelled, stage="encode", only="paper-1-plotted")
    assert place.exists()
    assert (travelled / "archives" / "paper-1-plotted.dipp").read_bytes() != before
    assert not stale.exists()


def test_without_the_judge_only_the_frechet_distance_is_missing(travelled: Path, cifar: Path) -> None:
    place, name = travelled / "records" / "metrics.laplace-4.laplace.json", "weights/clean.0.pt"
    before = json.loads(place.read_text())
    place.unlink()
    weights = (travelled / name).read_bytes()
    (travelled / name).unlink()
    for _ in range(2):
        said = run_stages(cifar, travelled, stage="metrics", only="laplace-4")
        assert f"no Fréchet distance is measured: {name} is not here" in said
        facts = json.loads(place.read_text())
        assert {*before} - {*facts} == {"frechet", "judge"}
        assert facts == {key: before[key] for key in facts}
    (travelled / name).write_bytes(weights)
    run_stages(cifar, travelled, stage="metrics", only="laplace-4")
    assert json.loads(place.read_text()) == before


def test_missing_files_of_another_machine_are_named(travelled: Path, cifar: Path) -> None:
    (travelled / "archives" / "paper-4-plotted.dipp").unlink()
    (travelled / "records" / "train.paper-4-plotted.denoised.0.json").unlink()
    with refused(travelled / "archives" / "paper-4-plotted.dipp", "missing", remedy="records of paper-4-plotted"):
        run_stages(cifar, travelled, stage="train", only="paper-4-plotted")


@pytest.mark.parametrize("name", ["records/baseline.clean.png.json", "weights/clean.0.pt", "pictures"])
def test_files_that_were_cut_on_the_way_are_named(travelled: Path, cifar: Path, name: str) -> None:
    place = travelled / name
    if name == "pictures":
        maker = Maker(Config.load(SMOKE), Store(travelled), np.zeros((8, 32, 32, 3), np.uint8), "", None, "cpu")
        maker.pictures(maker.config.release("laplace-4"), "laplace")
        (place,) = place.iterdir()
    place.write_bytes(place.read_bytes()[:-20])
    with refused(place, "whole", remedy="delete it"):
        run_stages(cifar, travelled, stage="metrics", only="laplace-4")


def test_one_process_at_a_time_is_in_a_stage(travelled: Path, cifar: Path) -> None:
    with (
        Store(travelled).alone("encode"),
        refused("output", "stage encode", remedy="wait"),
    ):
        run_stages(cifar, travelled, stage="encode")
    with Store(travelled).alone("encode"):
        run_stages(cifar, travelled, stage="baseline")
    (travelled / ".report.lock").mkdir()
    with refused("output", "locked"):
        run_stages(cifar, travelled, stage="report")


def test_a_run_notes_how_it_ended(cifar: Path, tmp_path: Path) -> None:
    """Each end is a record of its own, whose name has the time."""
    store, known = Store(tmp_path), set[str]()

    def ended() -> str:
        """Return the reason for its end that the record states."""
        names = {path.name for path in (tmp_path / "records").glob("run.*")}
        (new,) = names - known
        known.update(names)
        return str(json.loads((tmp_path / "records" / new).read_text())["ended"])

    assert run_stages(cifar, tmp_path, stage="baseline", only="clean")[-1] == "the stage baseline is finished"
    assert ended() == "finished"
    assert run_stages(cifar, tmp_path, stage="baseline", only="laplace-1", minutes=1e-9)[-1].endswith(
        "(out of time): run it again to go on"
    )
    assert ended() == "out of time"
    with pytest.raises(DippError):
        run_stages(cifar, tmp_path, stage="metrics", only="laplace-1")
    assert ended() == "by an error or from outside"

    def stopped(_: str) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt):
        run_stages(cifar, tmp_path, stage="baseline", only="laplace-1", say=stopped)
    assert ended() == "by an error or from outside"
    assert len(list(store.records("run."))) == 4


def test_results_on_disk_are_not_made_again(finished: Path, cifar: Path) -> None:
    """A finished run only writes its report; deleted pictures come back the same from the archive."""

    def files() -> dict[str, int]:
        kept = ("archives", "records", "weights")
        found = (path for name in kept for path in (finished / name).iterdir() if not path.name.startswith("run."))
        return {path.name: path.stat().st_mtime_ns for path in found}

    before = files()
    said = run_stages(cifar, finished)
    assert said[:-1] == [f"the stage {name} is finished" for name in stages.STAGES if name != "report"]
    assert files() == before
    (place,) = (finished / "pictures").glob("paper-4-plotted.*.noisy.npy")
    pictures = np.load(place)
    place.unlink()
    (finished / "records" / "metrics.paper-4-plotted.noisy.json").unlink()
    run_stages(cifar, finished, stage="metrics")
    assert np.array_equal(np.load(place), pictures)


def test_gradients_of_all_but_the_clean_reference_are_clipped(
    cifar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clip of the config reaches the classifiers, their records and their checkpoints."""
    seen: dict[str, bool] = {}
    evaluated = []

    class WatchedWave(Wave):
        def __init__(self, tasks: Sequence[Task], *rest: Any) -> None:
            seen.update({task.name: task.clip for task in tasks})
            super().__init__(tasks, *rest)

        def accuracies(self, pictures: Any = None) -> list[float]:
            evaluated.append(pictures)
            return super().accuracies(pictures)

    monkeypatch.setattr(stages, "Wave", WatchedWave)
    run_stages(cifar, tmp_path, stage="train", only="clean*")
    assert seen == {"train.clean.clean.0": False, "train.clean-clipped.clean.0": True}
    for name, clip in seen.items():
        assert json.loads((tmp_path / "records" / f"{name}.json").read_text())["clip"] is clip
    clean, _ = running.load(cifar, IMAGES)
    assert all(np.array_equal(shown, clean[IMAGES // 2 :]) for shown in evaluated[-1])  # all, on clean pictures too
    config = Config.load(SMOKE)
    maker = Maker(config, Store(tmp_path), np.zeros((0, 32, 32, 3), np.uint8), "", None, "cpu")
    run, plain = stages.Run(maker, np.zeros(0, np.int64), [], 0.0, print), config.release("clean")
    names = {run._checkpoint(stages.Job(replace(plain, clip=clip), "clean", 0)) for clip in (False, True)}
    assert len(names) == 2


def test_a_stopped_run_resumes_with_the_same_result(
    finished: Path, cifar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is stopped after every epoch gives the same classifiers, to the bit, as a run that is not stopped."""
    only: dict[str, Any] = {
        "stage": "train",
        "only": "clean,laplace-*",
    }  # no archives are needed; a whole wave, as in the other run
    clock = iter(range(10**6))
    for module in (stages, running):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    for _ in range(20):
        said = run_stages(cifar, tmp_path, **only, minutes=6 / 60)
        assert sum("out of time" in line for line in said) <= 1
        if "the stage train is not finished (out of time): run it again to go on" not in said:
            break
        assert any((tmp_path / "checkpoints").iterdir())
    assert not any((tmp_path / "checkpoints").iterdir())
    names = [f"train.{name}.0.json" for name in ("clean.clean", "laplace-1.laplace", "laplace-4.denoised")]
    for name in names:
        assert (tmp_path / "records" / name).read_text() == (finished / "records" / name).read_text()
    assert [path.name for path in (tmp_path / "weights").iterdir()] == ["clean.0.pt"]
    weights = [torch.load(folder / "weights" / "clean.0.pt") for folder in (tmp_path, finished)]
    assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[1])


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["experiments.cifar10", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            run_app(app)
        out = capsys.readouterr()
        return int(stop.value.code or 0), out.out, out.err

    return call


def test_invalid_options_of_the_command_are_refused(finished: Path, cifar: Path, command: Command) -> None:
    common = ("--data", cifar, "--output", finished)
    code, out, _ = command(SMOKE, *common, "--stage", "report")
    assert (code, out) == (0, f"report: {finished / 'report'}\n")
    for arguments, argument in (
        (
            (SMOKE, *common, "--stage", "dance"),
            "stage",
        ),
        ((cifar, *common), "config"),
        (
            (SMOKE, "--data", embedded.FOLDER, "--output", finished),
            "data",
        ),
        ((SMOKE, "--data", "nowhere", "--output", finished), "data"),
        ((SMOKE, *common, "--only", "laplace-1,paper"), "only"),
        ((SMOKE, *common, "--minutes", "nan"), "minutes"),
        ((SMOKE, *common, "--minutes", "-5"), "minutes"),
        (
            (SMOKE, *common, "--device", "abacus"),
            "device",
        ),
    ):
        code, _, err = command(*arguments)
        assert code == 1
        assert err.startswith(printed(argument))
        assert err.count("\n") == 1


def test_a_report_of_nothing_is_refused(cifar: Path, tmp_path: Path) -> None:
    with refused("output", "no records", remedy="stage"):
        run_stages(cifar, tmp_path, stage="report")
    assert not (tmp_path / "report").exists()


def test_the_exit_code_says_that_work_is_left(cifar: Path, tmp_path: Path, command: Command) -> None:
    common = ("--data", cifar, "--output", tmp_path, "--stage", "baseline", "--only", "laplace-1")
    assert command(SMOKE, *common, "--minutes", "1e-9")[0] == 3
    assert command(SMOKE, *common)[0] == 0


def test_metrics_need_the_clean_classifier(cifar: Path, tmp_path: Path) -> None:
    with refused("metrics", "classifier", remedy="train"):
        run_stages(cifar, tmp_path, stage="metrics", only="laplace-1")


def test_an_unfinished_run_can_be_reported(cifar: Path, tmp_path: Path) -> None:
    """Missing results are named, have a dash in the tables, and are left out of the figures."""
    run_stages(cifar, tmp_path, stage="baseline", only="laplace-1")
    said = run_stages(cifar, tmp_path, stage="report")
    assert said[0] == "missing: 6 of 9 records of baseline, from baseline.clean.png on"
    assert [line.split(" records of ")[1].split(",")[0] for line in said[1:-1]] == ["encode", "train", "metrics"]
    results = json.loads((tmp_path / "report" / "results.json").read_text())
    claim = results["claims"][0]
    (noisy,) = (row for row in results["releases"] if row["name"] == "laplace-1")
    entries = {entry["name"]: entry for entry in claim["entries"]}
    assert entries["laplace"]["bpp"] == min(noisy["codecs"].values())
    assert entries["paper"]["bpp"] is entries["unclipped"]["accuracy"] is claim["best_rival"] is None
    text = (tmp_path / "report" / "tables.md").read_text()
    assert said[0] in text
    assert f"| paper-4-plotted | noisy | {tables.MISSING} |" in text


def test_another_machine_continues_from_copied_files(finished: Path, cifar: Path, tmp_path: Path) -> None:
    """Archives, records, previews and weights, or some of them, are enough; work that needs more is left out."""
    for name in ("archives", "records", "previews", "weights"):
        shutil.copytree(finished / name, tmp_path / name)
    gone = ["encode.unclipped-4-plotted", "metrics.diffc-1-plotted.noisy", "metrics.unclipped-4-plotted.noisy"]
    for name in (*gone, "train.diffc-1-plotted.denoised.0", "train.unclipped-4-plotted.denoised.0"):
        (tmp_path / "records" / f"{name}.json").unlink()
    (tmp_path / "archives" / "unclipped-4-plotted.dipp").unlink()
    for stage in ("train", "metrics"):
        said = run_stages(cifar, tmp_path, stage=stage, only="diffc-*, unclipped-4-*")
        how = "run the stage encode, then this one"
        assert said[-1] == f"the stage {stage} is not finished (not encoded yet: unclipped-4-plotted): {how}"
    names = ["encode.unclipped-4-plotted", "train.unclipped-4-plotted.denoised.0", "metrics.unclipped-4-plotted.noisy"]
    said = run_stages(cifar, tmp_path, stage="report")
    assert [line.rsplit(", from ", 1)[1] for line in said[:-1]] == [f"{name} on" for name in names]
    assert (tmp_path / "records" / "train.diffc-1-plotted.denoised.0.json").exists()
    (decoded,), (encoded,) = (
        [np.load(place) for place in (folder / "pictures").glob("diffc-1-plotted.*.denoised.npy")]
        for folder in (tmp_path, finished)
    )
    assert np.array_equal(decoded, encoded)


@pytest.mark.parametrize("stage", ["train", "metrics"])
def test_a_lost_archive_is_noticed_before_anything_is_made(
    finished: Path, cifar: Path, tmp_path: Path, stage: str
) -> None:
    """A wave takes minutes, so an error about the next wave comes before the first. Here a wave has one classifier."""
    config = tmp_path / "waves.toml"
    config.write_text(SMOKE.read_text().replace("wave = 4", "wave = 1"))
    for name in ("records", "weights"):
        shutil.copytree(finished / name, tmp_path / name)
    for name in ("train.clean.clean.0", "metrics.laplace-1.laplace"):
        (tmp_path / "records" / f"{name}.json").unlink()
    for name in ("train.diffc-1-plotted.denoised.0", "metrics.diffc-1-plotted.denoised"):
        (tmp_path / "records" / f"{name}.json").unlink()
    before = sorted((tmp_path / "records").glob("[!r]*"))
    with refused(tmp_path / "archives" / "diffc-1-plotted.dipp", "missing", remedy="delete all"):
        run_stages(cifar, tmp_path, config=config, stage=stage)
    assert sorted((tmp_path / "records").glob("[!r]*")) == before


def test_unknown_names_of_releases_are_refused(cifar: Path, tmp_path: Path) -> None:
    with refused("only", "paper", "clean, clean-clipped"):
        run_stages(cifar, tmp_path, only="paper")
