"""The denoiser that ships with dipp is small, complete, calibrated, in the wheel, and better than noise and PNG."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from helpers.paths import ROOT

import dipp
from dipp import models
from dipp.codec import pictures
from dipp.models import embedded
from dipp.planning.presets import PRESETS, SteppedPreset
from dipp.planning.table import FILE_NAME, ErrorTable

FILES = ("config.json", "scheduler_config.json", "training.json", "words.safetensors", "README.md")
WEIGHTS = "model.safetensors"


def test_the_model_is_small_and_described() -> None:
    files = [path for path in embedded.FOLDER.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sum(path.stat().st_size for path in files) <= 20_000_000
    names = {path.relative_to(embedded.FOLDER).as_posix() for path in files}
    assert names == {"__init__.py", WEIGHTS, FILE_NAME, *FILES}
    denoiser = models.load(embedded.FOLDER)
    assert denoiser.sample_size == (32, 32)
    record = json.loads((embedded.FOLDER / "training.json").read_text())
    card = (embedded.FOLDER / "README.md").read_text()
    assert record["identity"] == denoiser.identity
    assert denoiser.identity in card
    assert f"{record['steps']:,}" in card
    assert f"{record['photographs']:,}" in card


def test_the_cost_table_belongs_to_the_model_and_serves_all_presets() -> None:
    table, denoiser = ErrorTable.load(embedded.FOLDER / FILE_NAME), models.load(embedded.FOLDER)
    table.require(denoiser.schedule)
    assert table.provenance["model"] == denoiser.identity
    assert table.residuals is not None
    stepped = [one for one in PRESETS.values() if isinstance(one, SteppedPreset)]
    assert {one.chains for one in stepped if one.certified} <= set(table.inflation)


@pytest.mark.slow
def test_a_picture_is_encoded_and_decoded_in_two_lines(tmp_path: Path) -> None:
    """The embedded model, the default preset and a budget are enough."""
    large = pictures.read(ROOT / "examples" / "pictures" / "coffee.png")
    original = large.reshape(32, 4, 32, 4, 3).mean(axis=(1, 3)).round().astype(np.uint8)
    codec = dipp.Codec.from_pretrained(epsilon=16)
    archive = codec.encode([original])
    archive.save(tmp_path / "cup.dipp")
    archive = dipp.open(tmp_path / "cup.dipp")
    assert archive.certificate is not None
    assert 12 < archive.certificate.epsilon <= 16
    (decoded,) = archive.decode()
    noisy = np.random.default_rng(0).laplace(original, 765 / 16).clip(0, 255)
    ours, plain = (np.mean((picture - original.astype(float)) ** 2) for picture in (decoded, noisy))
    assert plain > 10**0.1 * ours, "a decibel better than noise of the same ε"
    assert archive.payload_bpp < 1


INSTALLED = """
import sys
installed = sys.argv[1]
sys.path.insert(0, installed)
from typer.testing import CliRunner
from dipp.cli.main import COMMANDS, app
for words in (["example", "cat.png"], ["plan", "--epsilon", "2"], *([c.__name__, "--help"] for c in COMMANDS)):
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
loaded = (getattr(module, "__file__", None) for name, module in sys.modules.items() if name.split(".")[0] == "dipp")
print([path for path in loaded if path and not path.startswith(installed)])
"""


@pytest.mark.slow
def test_the_wheel_contains_the_model(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)  # noqa: S603
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as content:
        content.extractall(tmp_path / "installed")
        names = {name.removeprefix("dipp/models/embedded/") for name in content.namelist() if "embedded" in name}
    assert names == {"__init__.py", WEIGHTS, FILE_NAME, *FILES}
    # Its commands run where there is no checkout.
    command = [sys.executable, "-c", INSTALLED, str(tmp_path / "installed")]
    done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)  # noqa: S603
    assert done.stdout.splitlines()[-1] == "[]"
    assert (tmp_path / "cat.png").read_bytes() == (ROOT / "examples" / "pictures" / "cat.png").read_bytes()
