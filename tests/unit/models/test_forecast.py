"""The forecast of the remaining time is logged once, if it is long."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import pytest

from dipp.models import watch
from dipp.models.bars import TIMED, shown


def lines(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, calls: float, each: float) -> list[str]:
    """Return the log for a picture of `TIMED` pixels whose calls take `each` seconds, and the first call an hour."""
    times: Iterator[float] = iter([3600 + each * call for call in range(100)])
    monkeypatch.setattr(time, "monotonic", lambda: next(times))
    with caplog.at_level(logging.INFO, logger="dipp"), shown("encoding", [TIMED], calls, "do less"):
        watch.begin(1, TIMED, int(calls))
        for number in range(int(calls)):
            watch.step(number)
            watch.predicted(TIMED)
    return caplog.messages


def test_long_work_says_how_long(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is measured from the second call on, without loading the network."""
    assert lines(caplog, monkeypatch, 10, 10.0) == ["encoding: about 80 seconds to go; do less"]


def test_hours_are_said_in_minutes(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines(caplog, monkeypatch, 20, 60.0) == ["encoding: about 18 minutes to go; do less"]


@pytest.mark.parametrize(("calls", "each"), [(10, 3.0), (2, 1000.0), (1, 1000.0)])
def test_short_work_says_nothing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, calls: int, each: float
) -> None:
    assert lines(caplog, monkeypatch, calls, each) == []
