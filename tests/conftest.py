"""Fixtures that several files of tests share. dipp is imported before PyTorch, because it sets how threads wait."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.commands import Command
from hypothesis import HealthCheck, settings

from dipp.cli.main import main

# No clock decides a test, neither for running nor for drawing an example. Examples are the same every time.
settings.register_profile(
    "steady",
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("steady")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests that need a CUDA device on machines without one."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked:
        import torch

        for item in marked if not torch.cuda.is_available() else ():
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


@pytest.fixture(scope="session", autouse=True)
def _odometers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Iterator[Path]]:
    """Return paths of odometers that do not exist yet; the first serves fixtures that outlive a test."""
    folder = tmp_path_factory.mktemp("odometers")
    places = (folder / str(number) for number in itertools.count())
    with pytest.MonkeyPatch.context() as session:
        session.setenv("DIPP_ODOMETER", str(next(places)))
        yield places


@pytest.fixture(autouse=True)
def odometer(monkeypatch: pytest.MonkeyPatch, _odometers: Iterator[Path]) -> Path:
    """Return an odometer for this test and the processes that it starts, outside the user's home."""
    place = next(_odometers)
    monkeypatch.setenv("DIPP_ODOMETER", str(place))
    return place


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    """Run the command `dipp` in this process, and return its exit code and its two streams."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["dipp", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 0
        out = capfd.readouterr()
        return code, out.out, out.err

    return call


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Run PyTorch on one thread: tiny networks gain nothing from more, and repeat to the bit."""
    import numba
    import torch

    before = torch.get_num_threads()
    numba.get_num_threads()  # this starts numba's threads; starting them later would change PyTorch's number of threads
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def quick() -> Iterator[None]:
    """Make presets and calibrations cheap for tests of commands."""
    from helpers.quick import quick_commands

    with quick_commands():
        yield


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of six pictures, which no test may change."""
    from helpers.datasets import smooth_pictures

    return smooth_pictures(tmp_path_factory.mktemp("pictures"))


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory, pictures: Path) -> Path:
    """Return the folder of a tiny denoiser, calibrated by the command; no test may change it."""
    from helpers.datasets import calibrate, save_model
    from helpers.quick import quick_commands

    folder = save_model(tmp_path_factory.mktemp("model"))
    with quick_commands():
        calibrate(folder, pictures, 6)
    return folder


@pytest.fixture(scope="session")
def light_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a tiny denoiser that other processes load quickly; no test may change it."""
    from helpers.datasets import save_light_model

    return save_light_model(tmp_path_factory.mktemp("light"))
