"""Test that files are written whole or not at all."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.paths import ROOT
from helpers.processes import children, wait_for_end, watched
from helpers.refusals import refused

from dipp import files


@pytest.mark.usefixtures("kind")
def test_a_file_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    place = tmp_path / "a"
    with files.atomic(place) as part:
        part.write_text("one")
        assert not place.exists()
    assert place.read_text() == "one"
    with files.atomic(place) as part:
        part.write_text("two")
        assert place.read_text() == "one"
    assert place.read_text() == "two"
    assert [*tmp_path.iterdir()] == [place]


@pytest.fixture(params=["unnamed", "named"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Choose files without a name (O_TMPFILE), or the fallback for systems without them."""
    if request.param == "named":
        monkeypatch.setattr(files, "_unnamed", lambda _: None)
    return str(request.param)


def test_other_users_cannot_read_an_unfinished_file(tmp_path: Path, kind: str) -> None:
    """It has no name, or a name that no finished file has and permissions for its owner only."""
    mask = os.umask(0o022)
    try:
        with files.atomic(tmp_path / "a") as part:
            part.write_text("half")
            found = [*tmp_path.iterdir()]
            assert len(found) == (kind == "named")
            assert all(files.is_part(path.name) and path.stat().st_mode & 0o777 == 0o600 for path in found)
            with files.atomic(tmp_path / "a") as other:
                assert other != part
                other.touch()
        assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644, "a finished file has the permissions of a new file"
        assert (tmp_path / "a").read_text() == "half"
    finally:
        os.umask(mask)
    for name in ("a", ".part", ".0123456789abcdef.part.png", "0123456789abcdef.part", ".0123456789ABCDEF.part"):
        assert not files.is_part(name)


@pytest.mark.parametrize(
    ("kind", "moment", "before"),
    [
        *itertools.product(("unnamed", "named"), ("write", "sync", "publish"), (None, b"first")),
        ("named", "rename", None),
        ("named", "rename", b"first"),
        ("unnamed", "rename", b"first"),  # nothing is renamed where nothing is replaced
    ],
)
def test_an_unfinished_file_vanishes_if_the_process_is_killed(
    kind: str, moment: str, before: bytes | None, tmp_path: Path
) -> None:
    """SIGKILL ends it while it writes, before the file is on the disk, or before the file gets its name."""
    place = tmp_path / "a.dipp"
    if before is not None:
        place.write_bytes(before)
    script = ROOT / "tests" / "helpers" / "unfinished_script.py"
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, str(script), kind, moment, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"there\n"
    assert ([*tmp_path.glob(".*.part")] != []) == (kind == "named" or moment == "rename")
    with watched(children(process.pid)) as guards:
        process.kill()
        process.communicate()
        wait_for_end(guards)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == ([("a.dipp", before)] if before else [])


def test_a_vanishing_folder_is_removed_with_its_content(tmp_path: Path) -> None:
    folder = tmp_path / "- a; folder $0"
    folder.mkdir()
    with files.vanishing(folder):
        (folder / "inner").mkdir()
        (folder / "inner" / "file").touch()
    assert not [*tmp_path.iterdir()]


def test_the_block_removes_its_files_if_there_is_no_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    with files.vanishing(tmp_path / "file"), files.vanishing(tmp_path / "folder"):
        (tmp_path / "file").touch()
        (tmp_path / "folder").mkdir()
    assert not [*tmp_path.iterdir()]


def test_the_block_removes_its_files_if_the_guard_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system short of memory may kill the guard; the file left behind would be a second encoding."""
    started: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def kept(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(real(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", kept)
    with files.vanishing(tmp_path / "file"), files.vanishing(tmp_path / "folder"):
        (tmp_path / "file").touch()
        (tmp_path / "folder").mkdir()
        for guard in started:
            guard.kill()
            guard.wait()
    assert len(started) == 2
    assert not [*tmp_path.iterdir()]


@pytest.mark.usefixtures("kind")
def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    place = tmp_path / "a"
    place.write_text("before")

    def fail() -> None:
        with files.atomic(place) as part:
            part.write_text("half")
            raise ValueError("on the way")

    with pytest.raises(ValueError, match="on the way"):
        fail()
    assert place.read_text() == "before"
    assert [*tmp_path.iterdir()] == [place]


@pytest.mark.usefixtures("kind")
def test_a_path_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "none" / "a"):
        with refused(place, "written"), files.atomic(place) as part:
            part.write_text("x")
    assert not [*tmp_path.iterdir()]


def test_outputs_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    files.require_writable(file)
    files.require_writable(tmp_path, folder=True)
    files.require_writable(tmp_path / "new", folder=True)
    for place, folder in ((tmp_path, False), (file, True), (file / "a", False), (tmp_path / "no" / "a", True)):
        with refused("output"):
            files.require_writable(place, folder=folder)
