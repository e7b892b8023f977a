"""If a source changes during a run, no picture is released twice under one charge, and none uncharged."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.commands import Command
from helpers.datasets import Publications, pixels, save_table, tiny_codec
from helpers.refusals import refused
from PIL import Image

from dipp.codec.codec import Codec
from dipp.data.choices import Choices, Conduct, Summary
from dipp.data.engines import LocalEngine
from dipp.data.folder import RUN
from dipp.data.privatize import privatize
from dipp.data.shards import Shard
from dipp.data.sources import CHANGED
from dipp.data.store import Store
from dipp.errors import DippError
from dipp.odometer import Meter, Odometer

pytestmark = pytest.mark.usefixtures("one_thread", "quick")
COUNT = 5
EARLY = (10**9, 10**9)
Change = Callable[[Path], None]


def swap(source: Path) -> None:
    """Exchange the names of the first two files, as mv does."""
    (source / "0.bmp").rename(source / "t")
    (source / "1.bmp").rename(source / "0.bmp")
    (source / "t").rename(source / "1.bmp")


def replace(source: Path) -> None:
    """Write another picture of the same size into a file, and set its time back."""
    Image.fromarray(pixels(9)[8]).save(source / "1.bmp")
    os.utime(source / "1.bmp", EARLY)


def exchange(source: Path) -> None:
    """Replace a file by another file of the same size and time."""
    Image.fromarray(pixels(9)[8]).save(source / "new", format="BMP")
    os.utime(source / "new", EARLY)
    (source / "new").rename(source / "1.bmp")


def remove(source: Path) -> None:
    (source / "1.bmp").unlink()


def touch(source: Path) -> None:
    (source / "1.bmp").touch()


CHANGES: dict[str, Change] = {"swap": swap, "replace": replace, "exchange": exchange, "remove": remove}


class ChangingEngine(LocalEngine):
    """An engine that changes the source when the first shard is published."""

    def __init__(self, source: Path, change: Change) -> None:
        super().__init__()
        object.__setattr__(self, "change", lambda: change(source))

    def run(self, *arguments: Any) -> Iterator[Any]:
        shards = super().run(*arguments)
        yield next(shards)
        self.change()  # type: ignore[attr-defined]
        yield from shards


class StoppingEngine(LocalEngine):
    """An engine that is interrupted when the first shard is published."""

    def run(self, *arguments: Any) -> Iterator[Any]:
        yield next(iter(super().run(*arguments)))
        raise KeyboardInterrupt


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Save files of equal size and time."""
    folder = tmp_path / "source"
    folder.mkdir()
    for number, picture in enumerate(pixels(COUNT)):
        Image.fromarray(picture).save(folder / f"{number}.bmp")
        os.utime(folder / f"{number}.bmp", EARLY)
    return folder


@pytest.fixture
def codec(light_model: Path) -> Codec:
    return tiny_codec(light_model)


@pytest.fixture(params=["charged", "not charged"])
def meter(request: pytest.FixtureRequest) -> Meter | None:
    return Meter() if request.param == "charged" else None


def release(source: Path, model: Path, codec: Codec, engine: Any, **conduct: Any) -> Summary:
    target = source.parent / "out"
    return privatize(str(source), target, codec, str(model), engine, Choices(shard_size=1), Conduct(**conduct))


def released(source: Path) -> tuple[list[int], list[str]]:
    """Return the numbers of the released pictures, and why others were skipped."""
    shards = [Shard.read(path) for path in Store(source.parent / "out").shards()]
    numbers = [number for shard in shards for number in shard.ids.tolist()]
    return numbers, [skipped.reason for shard in shards for skipped in shard.skipped]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_during_a_run_ends_it(
    change: str, source: Path, light_model: Path, codec: Codec, meter: Meter | None
) -> None:
    """With --skip-changed it finishes without the changed pictures; each picture stays charged once."""
    watch = Publications(Store(source.parent / "out"))
    with refused("src", "1.bmp", "was changed after the run began", remedy="--skip-changed"):
        release(source, light_model, codec, ChangingEngine(source, CHANGES[change]), meter=meter)
    assert watch.look() == 1
    with pytest.raises(DippError) as error:
        release(source, light_model, codec, LocalEngine(1), meter=meter)
    assert error.value.argument in ("src", "dst")
    assert "--skip-changed" in error.value.remedy
    assert watch.look() == 1
    summary = release(source, light_model, codec, LocalEngine(1), meter=meter, skip_changed=True)
    assert watch.look() == COUNT
    assert released(source) == ([0, 2, 3, 4], [CHANGED])
    assert [name for _, _, name in summary.skipped] == ["1.bmp"]
    if meter is not None:
        assert {picture.releases for picture in Odometer.open().pictures(100)} == {1}
        assert Odometer.open().count() == COUNT


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_before_a_run_is_resumed_ends_it(
    change: str, source: Path, light_model: Path, codec: Codec, meter: Meter | None
) -> None:
    with pytest.raises(KeyboardInterrupt):
        release(source, light_model, codec, StoppingEngine(), meter=meter)
    CHANGES[change](source)
    with pytest.raises(DippError) as error:
        release(source, light_model, codec, LocalEngine(1), meter=meter)
    assert error.value.argument in ("src", "dst")
    assert "--skip-changed" in error.value.remedy
    assert released(source) == ([0], [])
    release(source, light_model, codec, LocalEngine(1), meter=meter, skip_changed=True)
    assert released(source) == ([0, 2, 3, 4], [CHANGED])


@pytest.mark.parametrize("change", [swap, touch, lambda source: (source / "1.bmp").chmod(0o600)])
def test_a_restored_file_is_released(
    change: Change, source: Path, light_model: Path, codec: Codec, meter: Meter | None
) -> None:
    """The state of a file shows that it was changed; its content shows that it was restored."""
    with refused("src", "1.bmp"):
        release(source, light_model, codec, ChangingEngine(source, change), meter=meter)
    if change is swap:
        swap(source)
    os.utime(source / "1.bmp", EARLY)
    assert release(source, light_model, codec, LocalEngine(1), meter=meter).encoded == COUNT - 1
    assert released(source) == (list(range(COUNT)), [])


def test_a_change_before_anything_is_charged_leaves_nothing(source: Path, light_model: Path, codec: Codec) -> None:
    """A file changes between listing and survey; the same command then begins a new run."""

    class LateMeter(Meter):
        def mark(self, known: Any) -> bytes:
            touch(source)
            return super().mark(known)

    with refused("src", "1.bmp"):
        release(source, light_model, codec, LocalEngine(1), meter=LateMeter())
    assert not (source.parent / "out").exists()
    assert not Odometer.open().count()
    assert release(source, light_model, codec, LocalEngine(1), meter=Meter()).encoded == COUNT


def test_a_single_archive_is_not_finished_without_a_changed_picture(
    source: Path, light_model: Path, codec: Codec
) -> None:
    target = source.parent / "out.dipp"

    def run(engine: Any, **conduct: Any) -> Summary:
        return privatize(
            str(source), target, codec, str(light_model), engine, Choices(shard_size=1), Conduct(**conduct)
        )

    for skip_changed in (False, True):
        with refused("src", "1.bmp", "was changed after the run began", remedy="/.out.dipp.work and start"):
            run(ChangingEngine(source, exchange), skip_changed=skip_changed)
    assert not target.exists()
    shutil.rmtree(source.parent / ".out.dipp.work")
    assert run(LocalEngine(1)).encoded == COUNT


def test_all_rows_of_a_table_that_changes_are_left_out(light_model: Path, tmp_path: Path, codec: Codec) -> None:
    """Rows may have moved, so none is read."""
    (tmp_path / "source").mkdir()
    for name in ("a", "b"):
        save_table(tmp_path / "source" / f"{name}.parquet", 3)
    with pytest.raises(KeyboardInterrupt):
        release(tmp_path / "source", light_model, codec, StoppingEngine())
    save_table(tmp_path / "source" / "b.parquet", 2)
    with refused("dst", "source has changed", remedy="--skip-changed"):
        release(tmp_path / "source", light_model, codec, LocalEngine(1))
    release(tmp_path / "source", light_model, codec, LocalEngine(1), skip_changed=True)
    assert released(tmp_path / "source") == ([0, 1, 2], [CHANGED] * 3)


def test_a_run_cannot_be_finished_with_another_source(source: Path, light_model: Path, codec: Codec) -> None:
    with pytest.raises(KeyboardInterrupt):
        release(source, light_model, codec, StoppingEngine())
    source.rename(source.parent / "other")
    with refused("skip-changed", "/source", "/other"):
        release(source.parent / "other", light_model, codec, LocalEngine(1), skip_changed=True)


def test_the_command_finishes_without_changed_pictures(
    source: Path, light_model: Path, codec: Codec, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Codec, "from_pretrained", lambda *_, **__: codec)
    target = source.parent / "out"
    with pytest.raises(KeyboardInterrupt):
        release(source, light_model, codec, StoppingEngine(), meter=Meter())
    assert (target / RUN).stat().st_mode & 0o077 == 0, "the digests are the owner's alone"
    exchange(source)
    command = ("privatize", source, target, "--model", light_model, "--workers", 1, "--shard-size", 1, "--epsilon", 64)
    code, _, err = run(*command)
    assert code == 1
    assert err.splitlines()[-1].endswith("or finish without it by --skip-changed")
    code, _, err = run(*command, "--skip-changed")
    assert code == 3, err
    assert CHANGED in err
    assert released(source) == ([0, 2, 3, 4], [CHANGED])
