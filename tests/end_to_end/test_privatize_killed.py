"""A run is killed at every write to the disk, and repeated: no picture is released twice, and none is lost."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.datasets import Publications, check_release, save_table, tiny_codec
from helpers.killer import Killer
from helpers.refusals import refused

import dipp
from dipp.codec.codec import Codec
from dipp.data import manifest
from dipp.data.choices import Choices, Conduct
from dipp.data.engines import LocalEngine
from dipp.data.privatize import privatize
from dipp.data.shards import Shard
from dipp.data.store import Store

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

COUNT, SHARD_SIZE = 2, 1


@pytest.fixture(scope="module")
def codec(light_model: Path) -> Codec:
    return tiny_codec(light_model)


@pytest.fixture
def killer() -> Iterator[Killer]:
    with pytest.MonkeyPatch.context() as patch:
        yield Killer(patch)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_killed_run_of_shards_is_completed_by_the_same_command(
    codec: Codec, light_model: Path, tmp_path: Path, killer: Killer
) -> None:
    source = str(save_table(tmp_path / "s.parquet", COUNT))
    finished = deaths = 0
    for touches in range(1000):
        target = tmp_path / f"out{touches}"
        watch = Publications(Store(target))

        def run(target: Path = target) -> None:
            privatize(source, target, codec, str(light_model), LocalEngine(1), Choices(shard_size=SHARD_SIZE))

        killed = killer.kills(run, touches)
        watch.look()
        if watch.store.finished:
            finished += 1
            with refused("dst", remedy="--overwrite"):
                run()
        else:
            run()
        assert watch.look() == COUNT // SHARD_SIZE
        check_release(target, COUNT)
        deaths += killed
        if not killed:
            break
    assert deaths > 30
    assert finished > 1, "it was never killed between the manifest and the end"


def test_a_killed_run_of_one_archive_is_completed_by_the_same_command(
    codec: Codec, light_model: Path, tmp_path: Path, killer: Killer
) -> None:
    source = str(save_table(tmp_path / "s.parquet", COUNT))
    for touches in range(1000):
        folder = tmp_path / f"folder{touches}"
        folder.mkdir()
        target = folder / "out.dipp"
        watch = Publications(Store(folder / ".out.dipp.work"))

        def run(target: Path = target) -> None:
            privatize(source, target, codec, str(light_model), LocalEngine(1), Choices(shard_size=SHARD_SIZE))

        killed = killer.kills(run, touches)
        if target.exists():
            before = target.read_bytes()
            with refused("dst", remedy="--overwrite"):
                run()
            assert target.read_bytes() == before
        else:
            watch.look()
            shards = {path.name: Shard.read(path) for path in watch.store.shards()}
            run()
            whole = dipp.open(target)
            for shard in shards.values():
                assert shard.parameters.seed == whole.parameters.seed
                for number, row in zip(shard.ids, shard.all_rows(), strict=True):
                    assert (whole.image_indices(number) == row).all(), "an image was encoded twice"
        assert names(folder) == ["out.dipp"]
        assert len(dipp.open(target)) == COUNT
        if not killed:
            break
    assert touches > 30


def test_a_killed_overwriting_run_is_completed_by_the_same_command(
    codec: Codec, light_model: Path, tmp_path: Path, killer: Killer
) -> None:
    """The new shards that the killed command has published stay when the command is repeated."""
    source = str(save_table(tmp_path / "s.parquet", COUNT))
    gone_on = 0
    options = (codec, str(light_model), LocalEngine(1), Choices(shard_size=SHARD_SIZE))
    privatize(source, tmp_path / "old", *options)
    old = manifest.verify(tmp_path / "old")["seed"]
    for touches in range(1000):
        target = shutil.copytree(tmp_path / "old", tmp_path / f"out{touches}")

        def run(target: Path = target) -> None:
            privatize(source, target, *options, Conduct(overwrite=True))

        killed = killer.kills(run, touches)
        store = Store(target)
        begun, watch = store.begun(), Publications(store)
        if begun is not None:
            gone_on += watch.look() > 0
        elif store.finished:
            assert len(store.shards()) == COUNT // SHARD_SIZE, "a release that lost a shard calls itself finished"
        if killed:
            run()
        watch.look()
        check_release(target, COUNT)
        assert manifest.verify(target)["seed"] != old
        if not killed:
            break
    assert gone_on > 5
