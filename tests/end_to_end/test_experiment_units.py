"""The experiment on what classifiers learn from cells and whole pictures, on a CPU: a few pictures, one epoch."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from helpers.datasets import save_cifar
from helpers.paths import ROOT
from helpers.refusals import refused
from helpers.statistics import bounded
from hypothesis import given
from hypothesis import strategies as st

import dipp
from dipp.codec.pictures import Pixels
from dipp.core.unit import Unit
from dipp.core.units import Cells, Picture
from dipp.models import embedded
from experiments.cifar10.units import METHODS, Case, cases, experiment, table
from experiments.comparisons import units as rivals

pytestmark = pytest.mark.usefixtures("one_thread")
IMAGES = 12
ONLY = "8-32-*,picture-8-dipp,clean"
RESULTS = ROOT / "experiments/cifar10/results/units"


@pytest.fixture(scope="module")
def cifar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_cifar(tmp_path_factory.mktemp("cifar-10-batches-py"), IMAGES)


def go(cifar: Path, out: Path, stage: str | None = None, only: str = ONLY) -> None:
    experiment(cifar, out, embedded.FOLDER, stage, only, seeds=1, images=IMAGES, epochs=1, device="cpu")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, cifar: Path) -> Path:
    out = tmp_path_factory.mktemp("run")
    go(cifar, out)
    return out


@pytest.mark.slow
def test_every_case_is_released_trained_and_reported(finished: Path) -> None:
    results = json.loads((finished / "report/results.json").read_text())
    rows = {(row["unit"], row["epsilon"], row["method"]): row for row in results["rows"]}
    assert set(rows) == {*(("8", 32.0, method) for method in METHODS), ("picture", 8.0, "dipp")}
    for (unit, epsilon, method), row in rows.items():
        assert 0 < row["certified"] <= epsilon
        assert row["accuracy"]["epochs"] == [1]
        assert 5 < row["psnr"] < 60
        if method in ("dipp", "words"):
            certificate = dipp.open(finished / f"archives/{unit}-{epsilon:g}-{method}.dipp").certificate
            assert certificate.epsilon == row["certified"]
            assert certificate.ledger.unit == (Picture() if unit == "picture" else Cells(8))
    assert results["clean"]["each"]
    assert (finished / "report/units.png").read_bytes().startswith(b"\x89PNG")
    assert "| 8×8 cell | 32 |" in (finished / "report/tables.md").read_text()


@pytest.mark.slow
def test_nothing_is_released_or_trained_twice(finished: Path, cifar: Path, tmp_path: Path) -> None:
    out = Path(shutil.copytree(finished, tmp_path / "run"))
    before = {path: path.read_bytes() for path in out.rglob("*.*") if "report" not in path.parts and path.is_file()}
    go(cifar, out)
    assert all(path.read_bytes() == content for path, content in before.items() if path.name[0] != ".")
    (out / "pictures/8-32-words.released.npy").unlink()
    (out / "records/train.8-32-words.0.json").unlink()
    with refused("8-32-words", "12 pictures"):
        go(cifar, out, "train")


def test_names_of_cases_differ(cifar: Path, tmp_path: Path) -> None:
    names = [case.name for case in cases()]
    assert len(set(names)) == len(names)
    assert names[0] == Case("8", 8.0, "dipp").name == "8-8-dipp"
    with refused("only", "9-9"):
        go(cifar, tmp_path, only="9-9-*")
    with refused("stage", "release"):
        go(cifar, tmp_path, "encode")
    assert "Clean pictures teach –" in table({"rows": [], "clean": None})


def test_the_page_has_the_table_that_follows_from_the_committed_records(cifar: Path, tmp_path: Path) -> None:
    shutil.copytree(RESULTS / "records", tmp_path / "records")
    go(cifar, tmp_path, "report", only="*")
    for name in ("results.json", "tables.md"):
        assert (tmp_path / "report" / name).read_text() == (RESULTS / name).read_text()
    written = (RESULTS / "tables.md").read_text().split("\n\n")[0]
    assert written in (ROOT / "docs/experiment.md").read_text()


def test_the_page_about_people_has_the_figures_of_what_is_learnt() -> None:
    page = (ROOT / "docs/people.md").read_text().split("## What is still learnt?")[1].split("\n## ")[0]
    results = json.loads((RESULTS / "results.json").read_text())
    learnt = {
        method: [round(100 * row["accuracy"]["last"]) for row in results["rows"] if row["method"] == method]
        for method in METHODS
    }
    own = (round(100 * results["clean"]["last"]), *learnt["dipp"])
    assert all(re.search(rf"\b{percent}\b", page) for percent in own)
    assert f"DP-Pix, denoised, {min(learnt['DP-Pix'])} to {max(learnt['DP-Pix'])} %" in page
    assert f"PrivUnitG, denoised, {min(learnt['PrivUnitG'])} to {max(learnt['PrivUnitG'])} %" in page
    assert f"from {min(learnt['words'])} to {max(learnt['words'])} %" in page


def picture(level: int, count: int) -> Pixels:
    return np.full((count, 16, 16, 3), level, np.uint8)


@pytest.mark.parametrize("unit", [Cells(8), Picture()])
@pytest.mark.parametrize("level", [0, 100, 255])
def test_releases_of_rivals_are_unbiased_and_as_noisy_as_stated(unit: Unit, level: int) -> None:
    """The mean of n values of deviation σ is within 7·σ/√n (false alarms 1e-11), and the power within a tenth."""
    generator, count = np.random.default_rng(0), 4000
    pixels, expected = picture(level, count), level / 127.5 - 1
    radius = rivals.radii(pixels[:1], unit, 2)[-1]
    for answers in (
        rivals.dp_pix(pixels, unit, 6.0, generator),
        rivals.priv_unit(pixels, unit, 2, 1.5 * radius, 6.0, generator),
    ):
        noise = answers.state.numpy() - expected
        assert abs(noise.mean()) < 7 / np.sqrt(answers.snr * noise.size)
        assert np.square(noise).mean() * answers.snr == pytest.approx(1, abs=0.1)


@bounded
@given(st.integers(0, 1), st.integers(0, 1))
def test_a_changed_unit_changes_only_its_own_answers(row: int, column: int) -> None:
    """With the same noise and another content of one cell, only the coarse pixels of this cell change."""
    before = np.random.default_rng(1).integers(0, 256, (1, 16, 16, 3), np.uint8)
    after = before.copy()
    after[:, 8 * row : 8 * row + 8, 8 * column : 8 * column + 8] = 255
    one, other = (rivals.dp_pix(pixels, Cells(8), 4.0, np.random.default_rng(2)).state for pixels in (before, after))
    moved = (one != other).any(dim=1)[0].numpy()
    assert moved.sum() == 1
    assert moved[row, column]
    assert float((one - other).abs().sum()) <= 6
