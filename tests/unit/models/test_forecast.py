"""The forecast of the remaining time is logged once, if it is long."""

from __future__ import annotations

import io
import logging
import time
from collections.abc import Iterator

import pytest
from rich.console import Console

from dipp.data.progress import FASTER, Bar
from dipp.models import watch
from dipp.models.bars import shown

PIXELS = 1000


def lines(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, calls: int, each: float, known: bool = True
) -> list[str]:
    """Return the log for a picture whose calls take `each` seconds, and the first call an hour."""
    times: Iterator[float] = iter([3600 + each * call for call in range(100)])
    monkeypatch.setattr(time, "monotonic", lambda: next(times))
    with caplog.at_level(logging.INFO, logger="dipp"), shown("encoding", [PIXELS], known * calls, "do less"):
        watch.begin(1, PIXELS, calls)
        for number in range(calls):
            watch.step(number)
            watch.predicted(PIXELS)
    return caplog.messages


@pytest.mark.parametrize("known", [True, False])
def test_long_work_says_how_long(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """The time is measured from the second call on, without loading the network; the number of calls may be unknown."""
    assert lines(caplog, monkeypatch, 10, 10.0, known) == ["encoding: about 80 seconds to go; do less"]


def test_a_dataset_says_how_long(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run without a terminal says once how long the pictures take that an earlier run has not published."""
    times = iter([50.0, 51.0, 60.0, 70.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(times))
    bar = Bar(Console(file=io.StringIO()))
    with caplog.at_level(logging.INFO, logger="dipp"):
        bar.start(2000, 1000)
        for _ in range(4):
            bar.encoded(10)
    assert caplog.messages[1:] == [f"releasing: about 9 minutes to go; {FASTER}"]


def test_hours_are_said_in_minutes(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines(caplog, monkeypatch, 20, 60.0) == ["encoding: about 18 minutes to go; do less"]


@pytest.mark.parametrize(("calls", "each"), [(10, 3.0), (2, 1000.0), (1, 1000.0)])
def test_short_work_says_nothing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, calls: int, each: float
) -> None:
    assert lines(caplog, monkeypatch, calls, each) == []
