"""Detectors: they write files of regions, and dipp promises nothing about what they find."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.commands import Command
from helpers.paths import ROOT
from helpers.refusals import refused
from PIL import Image, ImageDraw, ImageFont

from dipp.redaction import detect, formats
from dipp.redaction.outlines import Box

FACE = ROOT / "benchmarks" / "pictures" / "face.png"
MIDDLE = (137, 115)
"""Between the eyes and the mouth of the face."""


def test_a_face_is_found() -> None:
    (kind, left, top, width, height), *others = detect.faces(np.asarray(Image.open(FACE).convert("RGB")))
    assert kind == "face"
    assert left < MIDDLE[0] < left + width
    assert top < MIDDLE[1] < top + height
    assert 80 < width < 160
    assert not others


def test_a_face_that_fills_a_large_picture_is_covered_whole() -> None:
    """At a large scale, the network finds only an eye and a mouth, and not the face."""
    side, around = 600, 110
    part = MIDDLE[0] - around, MIDDLE[1] - around, MIDDLE[0] + around, MIDDLE[1] + around
    with Image.open(FACE) as image:
        pixels = np.asarray(image.convert("RGB").crop(part).resize((side, side), Image.Resampling.LANCZOS))
    # Forehead to chin, and temple to temple.
    left, top, right, bottom = (edge * side / (2 * around) for edge in (55, 50, 160, 180))
    assert any(
        found[1] <= left and found[2] <= top and found[1] + found[3] >= right and found[2] + found[4] >= bottom
        for found in detect.faces(pixels)
    )


@pytest.mark.parametrize(
    "inner",
    [(20, 20, 40, 40, 0.9), (-9, -9, 199, 199, 0.9)],
    ids=["an eye", "as large, when both are cut at the edges"],
)
def test_a_box_in_another_box_is_not_a_second_face(inner: tuple[float, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    outer = (-99, -99, 300, 300, 0.6)
    monkeypatch.setattr(detect, "_centres", lambda *_: [np.array(inner, float), np.array(outer, float)])
    assert detect.faces(np.zeros((100, 100, 3), np.uint8)) == [("face", 0, 0, 100, 100)]


def test_boxes_that_overlap_partly_are_different_faces(monkeypatch: pytest.MonkeyPatch) -> None:
    boxes = [np.array(box, float) for box in ((10, 10, 50, 50, 0.9), (40, 40, 80, 80, 0.6))]
    monkeypatch.setattr(detect, "_centres", lambda *_: boxes)
    assert len(detect.faces(np.zeros((100, 100, 3), np.uint8))) == 2


def test_a_picture_without_faces_gets_no_boxes() -> None:
    for name in ("foliage", "sky", "text"):
        pixels = np.asarray(Image.open(FACE.with_name(f"{name}.png")).convert("RGB"))
        assert detect.faces(pixels) == []


@pytest.mark.skipif(shutil.which("tesseract") is None, reason="needs tesseract")
def test_words_are_found() -> None:
    page = Image.new("RGB", (400, 120), "white")
    ImageDraw.Draw(page).text((40, 40), "CONFIDENTIAL", "black", ImageFont.load_default(36))
    found = detect.text(np.asarray(page))
    assert found
    assert all(kind == "text" for kind, *_ in found)
    assert min(box[1] for box in found) < 60
    assert max(box[1] + box[3] for box in found) > 200


def test_what_the_command_writes_is_read_again(tmp_path: Path, run: Command) -> None:
    output = tmp_path / "faces.json"
    code, out, err = run("regions", FACE, "--detector", "faces", "-o", output)
    assert (code, err) == (0, "")
    assert "face.png: 1 region" in out
    assert "What the detector missed is not protected" in out
    declared = formats.load(output).of(FACE)
    assert declared is not None
    assert (declared.size, declared.oriented) == ((288, 288), True)
    assert isinstance(declared.regions[0].outline, Box)
    code, out, _ = run("redact", FACE, "-o", tmp_path / "out.png", "--regions", output, "--fill", "grey")
    assert code == 0
    assert "1 region hidden (1 face)" in out


def test_a_detector_of_a_user_can_be_named(tmp_path: Path, run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(
        "def corner(pixels):\n    yield 'corner', 0, 0, pixels.shape[1] / 2, 9\n"
        "def wrong(pixels):\n    yield 'corner'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    output = tmp_path / "r.json"
    assert run("regions", FACE, "--detector", "mine:corner", "-o", output)[0] == 0
    (entry,) = json.loads(output.read_text())["pictures"]
    assert entry["regions"] == [{"kind": "corner", "box": [0.0, 0.0, 144.0, 9.0]}]
    code, _, err = run("regions", FACE, "--detector", "mine:wrong", "-o", output, "--overwrite")
    assert code == 1
    assert "must return (kind, left, top, width, height) for each region, got corner" in err
    sys.modules.pop("mine")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("haar", "MODULE:FUNCTION"),
        ("nowhere:find", "nowhere:find"),
        ("math:find", "math:find"),
    ],
)
def test_unknown_detectors_are_refused(name: str, why: str) -> None:
    with refused("detector", why):
        detect.detector(name)


def test_without_the_weights_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    detect._network.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with refused("detector", remedy="pip"):
        detect.faces(np.zeros((64, 64, 3), np.uint8))


def test_without_tesseract_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with refused("detector", "program"):
        detect.text(np.zeros((64, 64, 3), np.uint8))
