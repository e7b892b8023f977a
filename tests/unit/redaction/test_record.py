"""Records: they follow from what was done, hold nothing of the original, and anybody can check them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.redaction import BOX, SIZE, opened, saved, scene
from helpers.refusals import refused

import dipp
from dipp.redaction import Record, Region, check, paint
from dipp.redaction.outlines import Box, Polygon
from dipp.redaction.record import beside

FILLS = ("paint", "grey", "black")

pytestmark = pytest.mark.usefixtures("one_thread")


def made(folder: Path, kind: str = "JPEG", **options: Any) -> Path:
    """Return the path of a redacted picture, with its record beside it."""
    path = folder / ("out.jpg" if kind == "JPEG" else f"out.{kind.lower()}")
    dipp.redact(saved(scene(), kind), regions=[BOX], device="cpu", **options).save(path)
    return path


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF"])
def test_a_redacted_picture_is_its_own_redaction(kind: str, fill: str, tmp_path: Path) -> None:
    path = made(tmp_path, kind, fill=fill, margin=2)
    found = check(path, Record.read(beside(path)), "cpu")
    assert (found.regions, found.repainted) == (1, "same bytes")


def test_a_record_has_every_edge_exactly(tmp_path: Path) -> None:
    """−1000 + 1000.1 is more than 0.1, so a rounded width would hide another row of pixels than the record says."""
    edges = Box(-1000.0, -1000.0, np.nextafter(50.0, 0), np.nextafter(40.0, 100))
    path = tmp_path / "out.png"
    dipp.redact(saved(scene(), "PNG"), regions=[Region(edges)], fill="grey").save(path)
    assert check(path, Record.read(beside(path)), "cpu").repainted == "same bytes"


def test_a_record_states_what_was_done(tmp_path: Path) -> None:
    path = tmp_path / "out.jpg"
    regions = [
        Region(Box(5, 5, 20, 20), "face", "anna"),
        Region(Polygon(((40, 40), (60, 40), (50, 60))), "badge", "anna"),
        Region(Box(90, 10, 99, 19), "plate"),
    ]
    dipp.redact(saved(scene(), "JPEG", subsampling=2), regions=regions, fill="grey", margin="10%").save(path)
    facts = json.loads(beside(path).read_text())
    assert facts["output"] == {
        "name": "out.jpg",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "bytes": path.stat().st_size,
        "kind": "JPEG",
        "size": list(SIZE),
        "orientation": 1,
    }
    assert facts["certificate"]["unit"] == {"kind": "region", "regions": 3, "units": 2}
    assert (facts["certificate"]["epsilon"], facts["certificate"]["outside"]) == (0.0, "released as it was")
    assert [region["kind"] for region in facts["regions"]] == ["face", "badge", "plate"]
    # An id tells what belongs together. It may be a name, which a record does not give away.
    assert [region.get("id") for region in facts["regions"]] == ["1", "1", None]
    assert "anna" not in beside(path).read_text()
    assert facts["hidden"]["cell"] == [16, 16]
    assert facts["hidden"]["pixels"] % 16 == 0
    assert any("MCU" in assumption for assumption in facts["certificate"]["assumptions"])


def test_nothing_of_the_original_is_in_a_record(tmp_path: Path) -> None:
    """There is not even a digest, by which somebody who guesses the original could tell that the guess is right."""
    original = saved(scene(), "PNG")
    path = tmp_path / "out.png"
    dipp.redact(original, regions=[BOX], fill="grey").save(path)
    text = beside(path).read_text()
    for name in ("sha256", "sha1", "md5", "blake2b"):
        assert hashlib.new(name, original).hexdigest() not in text
        assert hashlib.new(name, scene().tobytes()).hexdigest() not in text


def tampered(folder: Path, change: Any) -> tuple[Path, Record]:
    path = made(folder, "PNG", fill="grey")
    facts = json.loads(beside(path).read_text())
    change(facts)
    return path, Record(facts)


LIES: dict[str, tuple[Any, tuple[str, str]]] = {
    "another file": (lambda facts: facts["output"].update(sha256="0" * 64), ("out.png", "file")),
    "a size": (lambda facts: facts["output"].update(size=[7, 7]), ("out.png", "orientation")),
    "fewer regions": (lambda facts: facts.update(regions=[]), ("out.png", "cover")),
    "a smaller region": (lambda facts: facts["regions"][0].update(box=[37, 21, 2, 2]), ("out.png", "cover")),
    "fewer pixels": (lambda facts: facts["hidden"].update(pixels=7), ("out.png", "cover")),
    "an ε": (lambda facts: facts["certificate"].update(epsilon=1.0), ("out.png", "certificate")),
    "a unit": (lambda facts: facts["certificate"]["unit"].update(units=9), ("out.png", "certificate")),
    "another fill": (lambda facts: facts.update(fill="black"), ("out.png", "surroundings")),
    "no fill": (lambda facts: facts.update(fill="blur"), ("fill", "grey")),
    "nothing": (lambda facts: facts.pop("output"), ("out.png", "whole")),
    "words": (lambda facts: facts.update(margin="wide"), ("out.png", "whole")),
}


@pytest.mark.parametrize("name", LIES)
def test_records_that_lie_are_refused(name: str, tmp_path: Path) -> None:
    change, why = LIES[name]
    path, record = tampered(tmp_path, change)
    with refused(*why):
        check(path, record, "cpu")


@pytest.mark.parametrize("fill", FILLS)
def test_a_region_that_holds_something_is_found(fill: str, tmp_path: Path) -> None:
    """The check finds a sender who blurs a region or leaves the original in it, and writes a record of its own."""
    path = made(tmp_path, "PNG", fill=fill)
    record = Record.read(beside(path))
    pixels = opened(path.read_bytes()).copy()
    left, top, width, height = BOX
    pixels[top : top + height, left : left + width] = scene()[top : top + height, left : left + width]
    path.write_bytes(saved(pixels, "PNG"))
    record.facts["output"]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    with refused("out.png", "surroundings"):
        check(path, record, "cpu")


def test_a_picture_that_another_denoiser_painted_is_said_to_be_so(tmp_path: Path) -> None:
    path = made(tmp_path)
    record = Record.read(beside(path))
    record.facts["model"] = "another"
    with refused("out.jpg", "denoiser"):
        check(path, record, "cpu")


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
@pytest.mark.parametrize("levels", [0.5, 8])
def test_painting_may_round_differently_elsewhere(
    kind: str, levels: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a level may move a coefficient by a whole step, which is many levels."""
    paints = paint.Painter.__call__

    def elsewhere(self: paint.Painter, known: Any, unknown: Any, part: Any) -> Any:
        drawn = np.random.default_rng(0).normal(0, levels / 127.5, known.shape).astype(np.float32)
        return paints(self, known, unknown, part) + drawn * unknown[..., None]

    with monkeypatch.context() as patch:
        patch.setattr(paint.Painter, "__call__", elsewhere)
        path = made(tmp_path, kind)
    record = Record.read(beside(path))
    if levels > 2:
        with refused(path.name, "surroundings"):
            check(path, record, "cpu")
        return
    assert check(path, record, "cpu").repainted.startswith("within ")
    path.write_bytes(path.read_bytes() + b"secret")
    record.facts["output"]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    with refused(path.name, "more"):
        check(path, record, "cpu")


def test_a_picture_with_nothing_to_hide_has_no_certificate() -> None:
    found = dipp.redact(saved(scene(), "PNG"), regions=[], allow_none=True)
    np.testing.assert_array_equal(opened(found.content), scene())
    assert found.record.facts["certificate"]["epsilon"] is None


def test_a_name_of_another_format_is_refused(tmp_path: Path) -> None:
    with refused("output", "out.png"):
        dipp.redact(saved(scene(), "JPEG"), regions=[BOX], fill="grey").save(tmp_path / "out.png")
    assert not list(tmp_path.iterdir())
