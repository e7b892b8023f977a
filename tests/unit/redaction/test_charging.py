"""The odometer knows what redactions released, and what several of them leave hidden."""

from __future__ import annotations

import json
import logging
import math
from pathlib import Path

import numpy as np
import pytest
from helpers.commands import Command
from helpers.redaction import BOX, SIZE, saved, scene
from helpers.refusals import refused

import dipp
from dipp.core.units import Cells
from dipp.odometer import Charge, Meter, Odometer, fresh_release
from dipp.odometer.accounts import LimitError
from dipp.redaction import charging

CONTENT = saved(scene(), "PNG")


def marked() -> tuple[Odometer, bytes]:
    odometer = Odometer.open(make=False)
    return odometer, odometer.mark(scene())


def redact(*boxes: tuple[int, int, int, int]) -> None:
    dipp.redact(CONTENT, regions=list(boxes), fill="grey")


def test_what_lies_outside_is_charged_as_released() -> None:
    redact(BOX)
    odometer, mark = marked()
    assert odometer.spent(mark).epsilon == math.inf
    assert [entry.command for entry in odometer.history(mark)] == ["redact"]
    assert charging.left(odometer, mark) == charging.Remainder(1, 30 * 26, 30 * 26 / math.prod(SIZE))


def test_a_second_redaction_leaves_what_both_hide(caplog: pytest.LogCaptureFixture) -> None:
    redact((10, 10, 20, 20))
    caplog.clear()
    with caplog.at_level(logging.WARNING, "dipp.odometer"):
        redact((20, 10, 20, 20))
    assert "of 400 pixels that are hidden now, only 200 were hidden each time" in caplog.text
    odometer, mark = marked()
    left = charging.left(odometer, mark)
    assert left is not None
    assert (left.releases, left.pixels) == (2, 200)


def test_what_was_hidden_until_now_is_not_shown_silently(caplog: pytest.LogCaptureFixture) -> None:
    redact((10, 10, 20, 20), (60, 10, 9, 9))
    redact((10, 10, 20, 20))
    assert "81 pixels that were hidden each time are shown now" in caplog.text


def test_the_same_regions_again_leave_everything(caplog: pytest.LogCaptureFixture) -> None:
    redact(BOX)
    caplog.clear()
    redact(BOX)
    assert "with other regions" not in caplog.text


def test_another_release_without_a_certificate_leaves_nothing() -> None:
    redact(BOX)
    odometer, mark = marked()
    odometer.charge(fresh_release(), "encode", [Charge(0, mark, math.inf, math.inf)])
    assert charging.left(odometer, mark) == charging.Remainder(2, 0, 0.0)


def test_a_certified_release_changes_nothing_of_what_is_hidden() -> None:
    redact(BOX)
    odometer, mark = marked()
    odometer.charge(fresh_release(), "encode", [Charge(0, mark, 1.0, 0.5)])
    left = charging.left(odometer, mark)
    assert left is not None
    assert left.pixels == 30 * 26
    assert charging.left(odometer, odometer.mark(scene(1))) is None


def test_the_same_picture_in_another_file_is_the_same() -> None:
    redact(BOX)
    dipp.redact(saved(scene(), "TIFF"), regions=[(0, 0, 9, 9)], fill="grey")
    odometer, mark = marked()
    left = charging.left(odometer, mark)
    assert left is not None
    assert (left.releases, left.pixels) == (2, 0)


def test_nothing_is_charged_for_a_picture_that_is_refused(tmp_path: Path) -> None:
    with refused("regions", "outside"):
        redact((900, 900, 9, 9))
    assert not Odometer.exists()
    dipp.redact(CONTENT, regions=[BOX], fill="grey", odometer=False)
    assert not Odometer.exists()
    dipp.redact(CONTENT, regions=[BOX], fill="grey", odometer=Meter(folder=tmp_path / "own"))
    assert Odometer.exists(tmp_path / "own")


def test_a_limit_refuses_a_redaction() -> None:
    """A limit is exceeded because ε is infinite outside the regions."""
    with refused("odometer", "exceed", kind=LimitError):
        dipp.redact(CONTENT, regions=[BOX], fill="grey", odometer=Meter(limit=100, begin=True))


def test_the_command_says_what_is_left(tmp_path: Path, run: Command) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(CONTENT)
    redact((10, 10, 20, 20))
    redact((20, 10, 20, 20))
    code, out, _ = run("odometer", path)
    assert code == 0
    assert "hidden by each of its releases without a certificate: 200 pixels (1.8%)" in out
    code, out, _ = run("odometer", path, "--json")
    assert json.loads(out)["pictures"][0]["hidden"]["pixels"] == 200


def test_what_all_redactions_hide_pays_for_the_other_releases(tmp_path: Path, run: Command) -> None:
    """For an object in hidden pixels, answers and an encoding by cells add up; outside, ε is infinite."""
    path = tmp_path / "a.png"
    path.write_bytes(CONTENT)
    for epsilon in (2.0, 1.0):
        dipp.redact(CONTENT, regions=[(10, 10, 20, 20), (40, 10, 20, 20)], fill="grey", epsilon=epsilon)
    odometer, mark = marked()
    odometer.charge(fresh_release(), "encode", [Charge(0, mark, 0.5, 0.1, unit=Cells(16))])
    _, out, _ = run("odometer", path)
    assert "certificate: 800 pixels (" in out
    assert "), which pay ε = 3.5 pure together for any one; everything else" in out
    _, out, _ = run("odometer", path, "--size", "12x12", "--json")
    (found,) = json.loads(out)["pictures"]
    assert found["epsilon"] is None
    assert found["hidden"]["epsilon"] == pytest.approx(2 * (2.0 + 1.0) + 4 * 0.5, rel=1e-4)


def test_masks_are_kept_as_they_are() -> None:
    mask = np.random.default_rng(0).random((13, 7)) < 0.4
    np.testing.assert_array_equal(charging.unpacked(charging.packed(mask)), mask)
