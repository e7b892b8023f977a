"""Test that sums of the odometer are bounds, marks reveal nothing, and releases are charged wholly or not at all."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.commands import Command
from helpers.refusals import printed, refused
from hypothesis import given, settings
from hypothesis import strategies as st

from dipp.core.units import Pixel
from dipp.errors import DippError
from dipp.odometer import Charge, LimitError, Meter, Odometer, TotalCost, database, place
from dipp.privacy import conversions

PICTURE, OTHER = bytes(32), bytes(31) + b"\x01"


def picture(*shape: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


@pytest.fixture
def counted(odometer: Path) -> Odometer:
    return Odometer.open(odometer)


# Where it is, and who may read it.


def test_tests_use_an_odometer_of_their_own(odometer: Path) -> None:
    """No file in a home folder is read or written, in this process or in one that it starts."""
    assert place.folder() == odometer
    assert not odometer.is_relative_to(Path.home() / ".local")
    program = "from dipp.odometer import place; print(place.folder())"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout  # noqa: S603
    assert said.strip() == str(odometer)


def test_the_folder_follows_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(place.VARIABLE, str(tmp_path / "here"))
    assert place.folder() == tmp_path / "here"
    monkeypatch.delenv(place.VARIABLE)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert place.folder() == tmp_path / "data" / "dipp" / "odometer"
    for ignored in ("", "relative/data"):
        monkeypatch.setenv("XDG_DATA_HOME", ignored)
        assert place.folder() == tmp_path / ".local" / "share" / "dipp" / "odometer"


def test_commands_that_only_read_make_no_odometer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, run: Command
) -> None:
    monkeypatch.setenv(place.VARIABLE, str(tmp_path / "none"))
    for question in ((), ("a.png",), ("--json",), ("--add", "2"), ("a.png", "--add", "0")):
        code, out, err = run("odometer", *question)
        assert (code, out) == (1, "")
        error = ("add",) if "--add" in question else ("odometer", f"does not exist in {tmp_path / 'none'}; ")
        assert err.startswith(printed(*error))
    assert not list(tmp_path.iterdir())


def test_only_the_owner_can_read_the_odometer(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        Odometer.open(tmp_path / "new" / "odometer").charge("r", "test", [Charge(0, PICTURE, 1.0, 0.1)])
    finally:
        os.umask(before)
    folder = tmp_path / "new" / "odometer"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {
        "key": 0o600,
        "odometer.sqlite": 0o600,
    }


def test_an_odometer_opens_again_with_the_same_key(counted: Odometer) -> None:
    assert Odometer.open(counted.folder) == counted
    assert len(counted.key) == 32
    assert repr(counted.key) not in repr(counted)


@pytest.mark.parametrize(
    "harm",
    ["no key", "another key", "no proof", "newer", "older", "no database", "emptied", "gone", "a file in its place"],
)
def test_an_odometer_that_cannot_be_used_is_refused(harm: str, counted: Odometer) -> None:
    counted.charge("r", "test", [Charge(0, PICTURE, 1.0, 0.1)])
    match harm:
        case "no key":
            (counted.folder / "key").unlink()
        case "another key":
            (counted.folder / "key").write_bytes(bytes(32))
        case "no proof":
            with contextlib.closing(sqlite3.connect(counted.folder / "odometer.sqlite")) as database, database:
                database.execute("DELETE FROM keys")
        case "emptied":  # what was counted is lost, and must not be counted from nothing
            (counted.folder / "odometer.sqlite").write_bytes(b"")
        case "gone":
            (counted.folder / "odometer.sqlite").unlink()
        case "newer":
            sqlite3.connect(counted.folder / "odometer.sqlite").execute("PRAGMA user_version = 99").connection.close()
        case "older":
            sqlite3.connect(counted.folder / "odometer.sqlite").execute("PRAGMA user_version = 1").connection.close()
        case "no database":
            (counted.folder / "odometer.sqlite").write_bytes(b"something else, and long enough to be looked at" * 100)
        case "a file in its place":
            shutil.rmtree(counted.folder)
            counted.folder.write_text("")
    with refused("odometer") as caught:
        Odometer.open(counted.folder)
    assert ("key is missing; restore it" in str(caught.value)) == (harm == "no key")


@pytest.mark.parametrize("moment", ["no tables", "no key", "half a key", "no proof"])
def test_a_process_that_is_killed_while_it_makes_an_odometer_does_no_harm(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was charged, so the next process makes the tables and the key."""

    class KilledError(Exception):
        pass

    def killed(*_: object) -> bytes:
        if moment == "half a key":
            (tmp_path / "key").write_bytes(b"half")
        raise KilledError

    name = {"no tables": "require_tables", "no proof": "place.proof"}.get(moment, "place.make_key")
    with monkeypatch.context() as patched:
        patched.setattr(f"dipp.odometer.accounts.{name}", killed)
        with pytest.raises(KilledError):
            Odometer.open(tmp_path)
    counted = Odometer.open(tmp_path)
    assert len(counted.key) == 32
    assert Odometer.open(tmp_path) == counted


def test_a_new_key_replaces_links_and_files_of_its_name(tmp_path: Path) -> None:
    """A link or a file that other users can read would let them read the key."""
    Odometer.open(tmp_path)
    (tmp_path / "key").unlink()
    (tmp_path / "elsewhere").write_bytes(b"")
    (tmp_path / "key").symlink_to(tmp_path / "elsewhere")
    counted = Odometer.open(tmp_path)
    assert (tmp_path / "elsewhere").read_bytes() == b""
    assert stat.S_IMODE((tmp_path / "key").lstat().st_mode) == 0o600
    assert (tmp_path / "key").read_bytes() == counted.key


# Marks.


def test_a_mark_depends_on_pixels_and_size(counted: Odometer) -> None:
    one = picture(4, 6, 3)
    assert counted.mark(one) == counted.mark(one.copy()) == counted.mark(np.asfortranarray(one))
    different = [
        one.reshape(6, 4, 3),
        one[::-1],
        one[:, :5],
        np.where(np.arange(72).reshape(4, 6, 3) == 7, one ^ 1, one),
    ]
    assert len({counted.mark(other) for other in [one, *different]}) == 5


def test_a_grey_picture_has_the_mark_of_its_colour_copy(counted: Odometer) -> None:
    """Denoisers of one and of three channels encode the same picture."""
    grey = picture(5, 5, 1)
    assert counted.mark(grey) == counted.mark(np.repeat(grey, 3, axis=2))


def test_a_mark_depends_on_the_key(counted: Odometer, tmp_path: Path) -> None:
    one = picture(4, 4, 3)
    assert counted.mark(one) != Odometer.open(tmp_path / "other").mark(one)


def test_the_database_has_neither_pixels_nor_names(counted: Odometer) -> None:
    one, meter = picture(16, 16, 3), Meter(folder=counted.folder)
    meter.charge("r", "test", [meter.item(0, meter.mark(one), (1.0, 0.1), "ward-7.png", Pixel())])
    content = (counted.folder / "odometer.sqlite").read_bytes()
    assert b"ward-7" not in content
    assert not any(one.tobytes()[at : at + 8] in content for at in range(0, 700, 4))
    meter = Meter(names=True, folder=counted.folder)
    meter.charge("s", "test", [meter.item(0, meter.mark(one), (1.0, 0.1), "ward-7.png", Pixel())])
    assert counted.spent(meter.mark(one)).name == "ward-7.png"


# Sums.

LOSSES = st.floats(0, 1e6, allow_subnormal=False)


@settings(max_examples=15)
@given(st.lists(st.tuples(LOSSES, LOSSES), min_size=1, max_size=12))
def test_sums_are_the_smallest_floats_that_are_upper_bounds(
    tmp_path_factory: pytest.TempPathFactory, each: list[tuple[float, float]]
) -> None:
    counted = Odometer.open(tmp_path_factory.mktemp("sums"))
    for number, (epsilon, rho) in enumerate(each):
        counted.charge(f"{number}", "test", [Charge(0, PICTURE, epsilon, rho), Charge(1, OTHER, 1.0, 1.0)])
    spent = counted.spent(PICTURE)
    assert spent.releases == len(each)
    for found, losses in zip((spent.epsilon, spent.rho), zip(*each, strict=True), strict=True):
        exact = sum(map(Fraction, losses))
        assert Fraction(found) >= exact
        assert not found or Fraction(math.nextafter(found, 0)) < exact


def test_epsilon_at_delta_follows_from_the_sums(counted: Odometer) -> None:
    for number in range(20):
        counted.charge(str(number), "test", [Charge(0, PICTURE, 1.0, 0.125)])
    spent = counted.spent(PICTURE)
    assert (spent.epsilon, spent.rho) == (20.0, 2.5)
    assert spent.at(None) == 20.0
    assert spent.at(1e-6) == conversions.epsilon_of_zcdp(2.5, 1e-6) < 14
    assert spent.at(1e-300) == 20.0


def test_a_release_without_certificate_has_infinite_sums(counted: Odometer) -> None:
    counted.charge("a", "test", [Charge(0, PICTURE, 1.0, 0.1)])
    counted.charge("b", "test", [Charge(0, PICTURE, math.inf, math.inf)])
    spent = counted.spent(PICTURE)
    assert spent.at(1e-6) == spent.epsilon == math.inf
    assert spent.statement().startswith("none")
    with pytest.raises(LimitError):
        counted.charge("c", "test", [Charge(0, PICTURE, 1.0, 0.1)], limit=1e9)


def test_a_picture_twice_in_a_release_counts_twice(counted: Odometer) -> None:
    reading = counted.charge("a", "test", [Charge(0, PICTURE, 1.0, 0.1), Charge(1, PICTURE, 1.0, 0.1)])
    assert (reading.pictures, reading.again) == (1, 1)
    assert counted.spent(PICTURE).epsilon == 2.0


def test_a_release_is_charged_once(counted: Odometer) -> None:
    def charges() -> Iterator[Charge]:
        asked.append(True)
        yield Charge(0, PICTURE, 1.0, 0.1)

    asked: list[bool] = []
    for _ in range(3):
        counted.charge("a", "test", charges())
    assert len(asked) == 1
    assert counted.spent(PICTURE) == TotalCost(PICTURE, 1, 1.0, 0.1)


def test_a_release_that_fails_while_it_is_charged_charges_nothing(counted: Odometer) -> None:
    def charges() -> Iterator[Charge]:
        yield Charge(0, PICTURE, 1.0, 0.1)
        raise DippError("src", "gone")

    with refused("src", "gone"):
        counted.charge("a", "test", charges())
    assert counted.count() == 0
    assert not counted.releases()


def test_a_process_that_still_reads_pictures_keeps_no_other_waiting(
    counted: Odometer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A survey of a large dataset takes minutes, while other processes charge and read without waiting."""
    monkeypatch.setattr(database, "PATIENCE", 0.0)

    def charges() -> Iterator[Charge]:
        yield Charge(0, PICTURE, 1.0, 0.1)
        Odometer.open(counted.folder).charge("quick", "test", [Charge(0, PICTURE, 2.0, 0.1)])
        assert counted.spent(PICTURE).epsilon == 2.0
        yield Charge(1, OTHER, 1.0, 0.1)

    reading = counted.charge("slow", "test", charges())
    assert reading.again == 1
    assert counted.spent(PICTURE).epsilon == 3.0


def test_a_release_over_the_limit_charges_nothing(counted: Odometer) -> None:
    """Three releases of ε = 1.5 are allowed; a fourth is refused, with all other pictures in it."""
    for number in range(3):
        counted.charge(str(number), "test", [Charge(0, PICTURE, 1.5, 0.1)], limit=4.5)
    with refused("odometer", "4.5", kind=LimitError):
        counted.charge("3", "test", [Charge(0, OTHER, 1.5, 0.1), Charge(1, PICTURE, 1.5, 0.1)], limit=4.5)
    assert counted.spent(PICTURE).epsilon == 4.5
    assert counted.spent(OTHER).releases == 0
    # The same at a δ, where the sums are worth less.
    counted.charge("4", "test", [Charge(0, PICTURE, 1.5, 0.1)], limit=5.9, delta=1e-5)


def test_the_odometer_lists_releases_and_pictures(counted: Odometer) -> None:
    counted.charge("a", "encode", [Charge(0, PICTURE, 1.0, 0.1)])
    counted.charge("b", "privatize", [Charge(0, PICTURE, 2.0, 0.2), Charge(1, OTHER, 2.5, 0.2)])
    assert [one.picture for one in counted.pictures(9)] == [PICTURE, OTHER]
    assert [one.picture for one in counted.pictures(1)] == [PICTURE]
    assert [(release[0], *release[2:]) for release in counted.releases()] == [
        ("a", "encode", 1, 1.0, 0.1),
        ("b", "privatize", 2, 2.5, 0.2),
    ]
    assert [(one.release, one.epsilon) for one in counted.history(PICTURE)] == [("a", 1.0), ("b", 2.0)]


def test_statements_say_the_sums_in_words(counted: Odometer, caplog: pytest.LogCaptureFixture) -> None:
    meter = Meter(folder=counted.folder)
    caplog.clear()
    meter.charge("a", "test", [Charge(0, PICTURE, 1.0, 0.1)])
    assert not caplog.messages
    meter.charge("b", "test", [Charge(0, PICTURE, 1.0, 0.1), Charge(1, OTHER, 3.0, 0.1)])
    (said,) = caplog.messages
    assert said.startswith("odometer: 1 of 2 pictures")
    assert "ε = 3 pure" in said


def test_the_worst_picture_has_the_largest_rho_of_those_with_the_largest_epsilon(counted: Odometer) -> None:
    """The order of the marks, which is random, does not matter."""
    for mark in (PICTURE, OTHER):
        other = OTHER if mark == PICTURE else PICTURE
        reading = counted.charge(mark.hex(), "test", [Charge(0, mark, 1.0, 0.1), Charge(1, other, 1.0, 0.3)])
        assert reading.worst is not None
        assert reading.worst.rho == pytest.approx(0.3 if mark == PICTURE else 0.4)
        assert reading.worst == max((counted.spent(one) for one in (PICTURE, OTHER)), key=lambda one: one.rho)


# How it begins.


def test_a_new_odometer_is_logged_once(odometer: Path, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        Odometer.open(odometer)
    (said,) = caplog.messages
    assert said.startswith(f"odometer: begun in {odometer}; it adds up what this user releases on this machine")


def test_a_limit_needs_an_odometer_that_exists(odometer: Path) -> None:
    """A new odometer knows no releases: if a limit began one in each new home folder, it would refuse nothing."""
    Meter(folder=odometer).prepare()
    with refused("odometer-limit", remedy="--odometer-begin"):
        Meter(limit=3.0, folder=odometer).prepare()
    assert not odometer.exists(), "to prepare makes nothing"
    odometer.mkdir()
    (odometer / "odometer.sqlite").touch()  # an empty file is no odometer either
    with refused("odometer-limit", "odometer"):
        Meter(limit=3.0, folder=odometer).prepare()
    begun = Meter(limit=3.0, begin=True, folder=odometer)
    begun.prepare()
    begun.charge("a", "test", [Charge(0, PICTURE, 1.0, 0.1)])
    Meter(limit=3.0, folder=odometer).prepare()
    (odometer / "odometer.sqlite").unlink()
    with refused("odometer", "odometer.sqlite"):  # it did exist: its key is there
        Meter(limit=3.0, folder=odometer).prepare()


@pytest.mark.parametrize("limit", [0, -1.0, math.nan])
def test_a_limit_is_positive(limit: float) -> None:
    with refused("odometer-limit"):
        Meter(limit=limit)


@pytest.mark.parametrize("page", ["root", "leaf", "emptied", "doubled"])
def test_a_damaged_index_is_not_taken_for_no_release(page: str, counted: Odometer) -> None:
    """Sums are read through an index, and rows in a lost page of it would not be counted."""
    count = 2000
    marks = [number.to_bytes(32, "big") for number in range(count)]
    counted.charge("r", "test", [Charge(number, mark, 1.0, 0.1) for number, mark in enumerate(marks)])
    path = counted.folder / "odometer.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as database:
        (size,) = database.execute("PRAGMA page_size").fetchone()
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'charges_of_picture'"
        (root,) = database.execute(query).fetchone()
    content = bytearray(path.read_bytes())
    start = (root - 1) * size
    if page != "root":  # the child of the first cell of the root, an interior page of an index
        cell = start + int.from_bytes(content[start + 12 : start + 14], "big")
        start = (int.from_bytes(content[cell : cell + 4], "big") - 1) * size
        assert content[start] == 10, "a leaf of an index"
    if page == "doubled":  # a sound page with as many entries, which are those of another
        cells = content[start + 3 : start + 5]
        pages = range(0, len(content), size)
        (other, *_) = (at for at in pages if at != start and content[at] == 10 and content[at + 3 : at + 5] == cells)
        content[start : start + size] = content[other : other + size]
    elif page == "emptied":  # a sound page without any entry
        content[start + 1 : start + 8] = bytes(4) + size.to_bytes(2, "big") + bytes(1)
        content[start + 8 : start + size] = bytes(size - 8)
    else:
        content[start : start + size] = bytes(size)
    path.write_bytes(content)
    with refused("odometer", "odometer.sqlite"):
        Odometer.open(counted.folder)


# Processes.

CHARGE = """
import sys
from pathlib import Path
from dipp.errors import DippError
from dipp.odometer import Charge, LimitError, Odometer
folder, release, limit = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
counted = Odometer.open(folder)
print("open", flush=True)
sys.stdin.readline()
try:
    counted.charge(release, "test", [Charge(i, bytes(32), 1.0, 0.1) for i in range(1)], limit)
    print("charged", flush=True)
except LimitError:
    print("refused", flush=True)
"""


def start(program: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603


def test_processes_that_charge_at_once_stay_within_the_limit(tmp_path: Path) -> None:
    """They also make the odometer at the same time, with one key."""
    running = [start(CHARGE, tmp_path / "new", f"r{number}", 3.0) for number in range(8)]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
    said = sorted(process.communicate("\n")[0] for process in running)
    assert said == ["charged\n"] * 3 + ["refused\n"] * 5
    assert Odometer.open(tmp_path / "new").spent(PICTURE) == TotalCost(PICTURE, 3, 3.0, 0.30000000000000004)


def test_processes_that_share_a_release_charge_it_once(tmp_path: Path) -> None:
    running = [start(CHARGE, tmp_path / "new", "same", 1.0) for _ in range(4)]
    assert [process.communicate("\n")[0] for process in running] == ["open\ncharged\n"] * 4
    assert Odometer.open(tmp_path / "new").spent(PICTURE).releases == 1


KILLED = """
import sys, time
from pathlib import Path
from dipp.odometer import Charge, Odometer, accounts
folder, moment = Path(sys.argv[1]), sys.argv[2]
def wait():
    print("here", flush=True)
    time.sleep(1000)
def charges():
    for image in range(20000):
        if moment == "streaming" and image == 19000:
            wait()
        yield Charge(image, image.to_bytes(32), 1.0, 0.1)
reading = accounts._reading
def before_commit(*arguments):
    found = reading(*arguments)
    if moment == "before the commit":
        wait()
    return found
accounts._reading = before_commit
counted = Odometer.open(folder)
counted.charge("killed", "test", charges())
wait()
"""


@pytest.mark.parametrize(("moment", "charged"), [("streaming", 0), ("before the commit", 0), ("charged", 20000)])
def test_a_process_killed_at_any_moment_has_charged_all_or_nothing(moment: str, charged: int, tmp_path: Path) -> None:
    """SIGKILL ends it. The next process that opens the file undoes writes without a commit."""
    with start(KILLED, tmp_path, moment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        process.kill()
        assert process.wait() == -signal.SIGKILL
    counted = Odometer.open(tmp_path)
    assert counted.count() == charged
    assert sum(images for _, _, _, images, _, _ in counted.releases()) == charged
    counted.charge("next", "test", [Charge(0, PICTURE, 1.0, 0.1)])
