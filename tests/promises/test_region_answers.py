"""The promise of redaction with ε above 0: a region decides only its own answers, and the surroundings stay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.redaction import BOX, inside, pair, saved, scene
from helpers.refusals import refused
from helpers.taint import LeakError, PrivateArray
from PIL import Image

import dipp
from dipp.core import randomness
from dipp.odometer import Meter
from dipp.redaction import charging, record, sources
from dipp.redaction.output import RedactedPicture
from dipp.scoring.blocks import Blocks

OTHER = (70, 60, 20, 16)
KINDS: dict[str, dict[str, Any]] = {
    "PNG": {},
    "JPEG": {"quality": 90, "subsampling": 0},
    "JPEG 4:2:0": {"quality": 80, "subsampling": 2},
}

pytestmark = pytest.mark.usefixtures("one_thread")


def redacted(content: bytes, epsilon: float = 8.0, **options: Any) -> RedactedPicture:
    given: dict[str, Any] = {"regions": [BOX], "fill": "grey", "odometer": False, "device": "cpu", **options}
    return dipp.redact(content, epsilon=epsilon, **given)


def file_of(pixels: Any, kind: str) -> bytes:
    return saved(pixels, kind.split()[0], **KINDS[kind])


@pytest.fixture
def same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make sets, private integers and the public seed the same for every picture."""
    monkeypatch.setattr(Blocks, "nearest", lambda self, count: np.tile(np.arange(count), (len(self.present), 1)))
    monkeypatch.setattr(randomness, "private_bytes", lambda count: bytes(range(8)) * (count // 8))
    monkeypatch.setattr(randomness, "fresh_seed", lambda: bytes(16))


@pytest.mark.usefixtures("same_answers")
@pytest.mark.parametrize("kind", KINDS)
def test_with_the_answers_fixed_pictures_that_differ_in_a_region_become_the_same(kind: str) -> None:
    made = [redacted(file_of(pixels, kind)) for pixels in pair()]
    assert made[0].content == made[1].content
    assert made[0].record.to_json() == made[1].record.to_json()
    archives = [one.archive.to_bytes() for one in made if one.archive is not None]
    assert len(archives) == 2
    assert archives[0] == archives[1]


@pytest.mark.parametrize("kind", KINDS)
def test_the_surroundings_are_those_of_epsilon_0(kind: str, tmp_path: Path) -> None:
    """The check of the record shows too that regions follow from their surroundings and answers."""
    content = file_of(pair()[0], kind)
    never, asked = redacted(content, 0), redacted(content, 64)
    opened = [sources.open_source(one.content) for one in (never, asked)]
    cells = opened[0].covered(opened[0].cells(inside(opened[0].decoded().shape)))
    levels = [one.levels() for one in opened]
    np.testing.assert_array_equal(levels[0][~cells], levels[1][~cells])
    assert (levels[0][cells] != levels[1][cells]).any()
    path = tmp_path / ("a.png" if kind == "PNG" else "a.jpg")
    read = record.Record.read(asked.save(path))
    assert record.check(path, read, "cpu").repainted == "same bytes"
    assert 63 < read.facts["certificate"]["epsilon"] <= 64
    assert asked.archive is not None
    (picture,) = asked.archive.decode(device="cpu")
    np.testing.assert_array_equal(picture[~cells], levels[1][~cells])


def test_records_that_contradict_themselves_are_refused(tmp_path: Path) -> None:
    made = redacted(file_of(pair()[0], "PNG"))
    path = tmp_path / "a.png"
    facts = json.loads(made.save(path).read_text())
    other = redacted(file_of(scene(), "PNG"), regions=[OTHER]).record.facts["answers"]
    certificate = facts["certificate"]
    for change, argument in (
        ({"certificate": {**certificate, "epsilon": 1.0}}, "a.png"),
        ({"answers": other}, "a.png"),
        ({"answers": "AAAA"}, "file"),
        ({"answers": redacted(file_of(pair()[0], "PNG"), 64).record.facts["answers"]}, "a.png"),
    ):
        with refused(argument):
            record.check(path, record.Record({**facts, **change}), "cpu")
    without = {key: value for key, value in facts.items() if key != "answers"}
    with refused("a.png"):
        record.check(path, record.Record(without), "cpu")


def test_private_pixels_are_looked_at_by_the_questions_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every value of the original is tainted, and only the function that makes sets reads it, once."""
    real, nearest, opened = sources.RasterOriginal.levels, Blocks.nearest, []

    def levels(self: Any) -> Any:
        opened.append(self)
        return PrivateArray(real(self)) if len(opened) == 2 else real(self)  # the first is the painted picture

    def bare(self: Blocks, count: int) -> Any:
        assert isinstance(self.content, PrivateArray)
        object.__setattr__(self, "content", self.content.open("nearest"))
        return nearest(self, count)

    monkeypatch.setattr(sources.RasterOriginal, "levels", levels)
    with pytest.raises(LeakError):
        redacted(file_of(pair()[0], "PNG"))
    opened.clear()
    monkeypatch.setattr(Blocks, "nearest", bare)
    PrivateArray.opened.clear()
    assert redacted(file_of(pair()[0], "PNG")).archive is not None
    assert PrivateArray.opened == {"nearest": 1}


def test_a_region_is_charged_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside ε is infinite, the region pays its ε, and a second redaction adds up, even if its encoder fails."""
    meter, content = Meter(folder=tmp_path), file_of(pair()[0], "PNG")
    redacted(content, odometer=meter)

    def fail(*_: Any) -> Any:
        raise RuntimeError

    monkeypatch.setattr(Blocks, "nearest", fail)
    with pytest.raises(RuntimeError):
        redacted(content, odometer=meter)
    mark = meter.mark(charging._known_by(content, sources.open_source(content)))
    entries = meter.odometer.history(mark)
    told = [entry.epsilon for entry in entries if entry.unit.kind == "region"]
    assert len(told) == 2
    assert all(7.9 < epsilon <= 8 for epsilon in told)
    left = charging.left(meter.odometer, mark)
    assert left is not None
    assert (left.releases, left.pixels) == (2, BOX[2] * BOX[3])
    assert meter.odometer.spent(mark).releases == 2


def test_regions_that_share_a_cell_or_an_id_are_one_unit() -> None:
    from dipp.redaction.answers import unit_of
    from dipp.redaction.outlines import Box, Margin
    from dipp.redaction.regions import PlacedRegions, Region

    source = sources.open_source(file_of(scene(), "JPEG 4:2:0"))
    boxes = [Region(Box(x, 2, x + 4, 6), id=name) for x, name in ((0, None), (10, "a"), (33, "b"), (70, "a"))]
    unit = unit_of(source, PlacedRegions(tuple(boxes), source.size), Margin())
    assert unit is not None
    assert [(place_.unit, place_.left, place_.width) for place_ in unit.places] == [
        (0, 0, 16),
        (0, 0, 16),
        (1, 32, 16),
        (0, 64, 16),
    ]


@pytest.mark.parametrize("epsilon", [-1.0, float("nan"), True])
def test_an_invalid_epsilon_is_refused(epsilon: float) -> None:
    with refused("epsilon", str(epsilon)):
        redacted(file_of(scene(), "PNG"), epsilon=epsilon)


def test_pixels_of_16_bits_can_only_be_hidden_with_0() -> None:
    wide = Image.fromarray(scene()[..., 0].astype(np.uint16) * 251)
    with refused("epsilon", "16-bit"):
        redacted(saved(np.asarray(wide), "PNG"))
