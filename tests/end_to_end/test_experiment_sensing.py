"""The experiment with clipped sensing and its rivals, on training and test set, from end to end on a CPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.datasets import save_cifar

import dipp
from dipp.models import embedded
from experiments.cifar10 import figures
from experiments.cifar10 import run as running
from experiments.cifar10.config import Config
from experiments.cifar10.options import Options
from experiments.cifar10.releases import Maker
from experiments.cifar10.slicing import Slicing
from experiments.cifar10.store import Store

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

BATCH = 3
CONFIG = """
images = 17
split = "train and test"
training = 15
previews = 2
plotted = "plotted"

[protocol]
epochs = 1
batch = 8
seeds = [0]
evaluate_every = 1
wave = 16

[probes]
method = "sharp"
epsilons = [4]
images = 2
bpp = 0.1

[[release]]
method = "clean"
train = ["clean"]
reason = "reference"

[[release]]
method = "sharp"
tag = "plotted"
epsilons = [4]
bpp = 0.06
seeds = [0, 1]
train = ["denoised", "sampled"]
reason = "the default preset"

[[release]]
method = "sharp"
tag = "low"
epsilons = [4]
bpp = 0.03
images = 4
reason = "the default preset at a low rate"
"""
RIVALS = ("noise", "one-channel", "one-bit", "slicing", "pruned-slicing")
GROUP = """
[[release]]
method = "{0}"
epsilons = [4]
train = ["{1}"]
reason = "a rival"
"""


@pytest.fixture(scope="module")
def cifar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_cifar(tmp_path_factory.mktemp("cifar-10-batches-py"), BATCH)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    outputs = {method: method if "slicing" in method else "denoised" for method in RIVALS}
    path = tmp_path_factory.mktemp("config") / "sensing.toml"
    path.write_text(CONFIG + "".join(GROUP.format(*pair) for pair in outputs.items()))
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, cifar: Path, config: Path) -> Path:
    out = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "DPI", 20)
        running.run(Options(config=config, data=cifar, output=out, commit="abc"), command="dipp", say=lambda _: None)
    return out


def test_nothing_is_missing_and_certificates_are_within_epsilon(finished: Path) -> None:
    results = json.loads((finished / "report" / "results.json").read_text())
    assert not any(part["names"] for part in results["missing"].values())
    rows = {row["name"]: row for row in results["releases"]}
    assert set(rows) == {"clean", "sharp-4-plotted", "sharp-4-low", *(f"{method}-4" for method in RIVALS)}
    ours = rows["sharp-4-plotted"]
    archive = dipp.open(finished / "archives" / "sharp-4-plotted.dipp")
    assert ours["certificate"]["epsilon"] == archive.certificate.epsilon <= 4
    assert ours["file_bpp"] == 8 * (finished / "archives" / "sharp-4-plotted.dipp").stat().st_size / (17 * 1024)
    assert ours["payload_bpp"] <= 0.06 * 1.08
    assert ours["decoder_difference"] < 0.5
    assert ours["accuracy"]["denoised"]["seeds"] == [0, 1]
    assert rows["one-bit-4"]["codecs"] == {"packed": 1.0}
    assert all(rows[f"{method}-4"]["certificate"] == {"epsilon": 4} for method in RIVALS)
    assert results["split"].startswith("pictures of train and test, in their order: the first 15 train")
    (claim,) = results["claims"]
    names = {entry["name"] for entry in claim["entries"]}
    assert names == {"sharp", "sharp, sampled", *RIVALS}
    assert claim["best_rival"] in RIVALS
    assert claim["margin"] is not None
    for name in ("panels", "surface", "grid", "probes"):
        assert (finished / "report" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert "Probes" in (finished / "report" / "tables.md").read_text()


def test_no_file_tells_more_than_the_certificate_allows(finished: Path) -> None:
    (probed,) = json.loads((finished / "report" / "results.json").read_text())["probes"]
    assert probed["certified"] <= 4
    for kind in probed["kinds"].values():
        assert kind["beyond"] == 0
        assert 0.5 <= kind["expected"] <= kind["bound"]
        assert kind["losses"]["largest"] <= kind["pixels"] * probed["certified"]


def test_pictures_come_back_from_the_archive_alone(finished: Path, cifar: Path, config: Path, tmp_path: Path) -> None:
    """The expected and the sampled pictures come back."""
    chosen = Config.load(config)
    pixels, _ = running.load(cifar, chosen.images, chosen.split)
    kept = Store(finished)
    maker = Maker(chosen, Store(tmp_path), pixels, str(embedded.FOLDER), None, "cpu")
    for name in ("archives", "records"):
        for path in (finished / name).iterdir():
            (tmp_path / name / path.name).write_bytes(path.read_bytes())
    release = chosen.release("sharp-4-plotted")
    for output in ("denoised", "sampled"):
        before: Any = kept.pictures(maker._key(release), output)
        assert np.array_equal(maker.pictures(release, output), before)


def test_classifiers_of_slices_are_evaluated_on_clean_slices(cifar: Path, config: Path, tmp_path: Path) -> None:
    chosen = Config.load(config)
    pixels, labels = running.load(cifar, chosen.images, chosen.split)
    assert len(pixels) == len(labels) == 17
    maker = Maker(chosen, Store(tmp_path), pixels, "", None, "cpu")
    for method, pruned in (("slicing", False), ("pruned-slicing", True)):
        release = chosen.release(f"{method}-4")
        assert np.array_equal(maker.clean(release), Slicing(4.0, pruned).planes(pixels[15:]))
    assert np.array_equal(maker.clean(chosen.release("noise-4")), pixels[15:])
