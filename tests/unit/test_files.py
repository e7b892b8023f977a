"""Files are written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from dipp import files
from dipp.errors import DippError


def test_the_file_appears_at_the_end(tmp_path: Path) -> None:
    place = tmp_path / "a"
    with files.atomic(place) as part:
        part.write_text("one")
        assert not place.exists()
    assert place.read_text() == "one"
    assert [*tmp_path.iterdir()] == [place]


def test_unfinished_files_are_known_by_their_names(tmp_path: Path) -> None:
    """A killed process may leave one, which others can tell from any file that was finished."""
    with files.atomic(tmp_path / "a") as part:
        part.write_text("half")
        assert files.is_part(part.name)
        assert part.parent == tmp_path
        with files.atomic(tmp_path / "a") as other:
            assert other != part
            other.touch()
    for name in ("a", ".part", ".0123456789abcdef.part.png", "0123456789abcdef.part", ".0123456789ABCDEF.part"):
        assert not files.is_part(name)


def test_after_an_error_all_is_as_it_was(tmp_path: Path) -> None:
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


def test_what_cannot_be_written_is_told_in_a_line(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "none" / "a"):
        with pytest.raises(DippError, match="cannot be written"), files.atomic(place) as part:
            part.write_text("x")
    assert not [*tmp_path.iterdir()]


def test_outputs_are_checked_at_the_start(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    files.require_writable(file)
    files.require_writable(tmp_path, folder=True)
    files.require_writable(tmp_path / "new", folder=True)
    for place, folder in ((tmp_path, False), (file, True), (file / "a", False), (tmp_path / "no" / "a", True)):
        with pytest.raises(DippError, match=r"^output"):
            files.require_writable(place, folder=folder)
