"""`dipp example` writes a photograph to try dipp with, and replaces nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.commands import Command
from helpers.paths import ROOT
from helpers.refusals import printed
from PIL import Image

from dipp.cli import example

NAMES = ("astronaut.png", "cat.png", "coffee.png")


@pytest.mark.parametrize("name", NAMES)
def test_a_photograph_is_written(name: str, tmp_path: Path, run: Command) -> None:
    code, out, _ = run("example", tmp_path / name)
    assert (code, out) == (0, f"{tmp_path / name} written\n")
    assert (tmp_path / name).read_bytes() == (ROOT / "examples" / "pictures" / name).read_bytes()
    with Image.open(tmp_path / name) as picture:
        assert picture.mode == "RGB"


def test_it_is_found_where_a_wheel_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Command) -> None:
    installed = tmp_path / "pictures"
    installed.mkdir()
    Image.new("RGB", (3, 2)).save(installed / "dog.png")
    monkeypatch.setattr(example, "PLACES", (installed, tmp_path / "no checkout"))
    code, _, _ = run("example", tmp_path / "dog.png")
    assert code == 0
    assert (tmp_path / "dog.png").read_bytes() == (installed / "dog.png").read_bytes()


def test_others_are_refused_in_a_line(tmp_path: Path, run: Command) -> None:
    code, _, err = run("example", tmp_path / "dog.png")
    assert (code, err) == (1, printed("picture", f"must be one of {', '.join(NAMES)}, got dog.png") + "\n")


def test_nothing_is_replaced(tmp_path: Path, run: Command) -> None:
    (tmp_path / "cat.png").write_bytes(b"mine")
    code, _, err = run("example", tmp_path / "cat.png")
    assert code == 1
    assert printed("picture", "must not exist yet, got") in err
    assert (tmp_path / "cat.png").read_bytes() == b"mine"
