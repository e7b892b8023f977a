"""However many attempts there are at a shard, the store publishes one whole attempt, and never mixes releases."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from helpers.refusals import refused

from dipp.data import manifest
from dipp.data.folder import RUN, read_manifest, remains, shard_entries, shard_name
from dipp.data.store import Store
from dipp.errors import DippError

DEEP = "[" * 100_000


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "out")


def begin(store: Store, **facts: object) -> str:
    store.prepare()
    token: str = store.begin(dict(facts))["token"]
    return token


def test_one_of_many_attempts_is_published(store: Store) -> None:
    """Threads race for the same shards: each shard is the whole file of one attempt, and never changes."""
    token = begin(store)
    barrier = threading.Barrier(8)

    def attempt(who: int) -> None:
        barrier.wait()
        for shard in range(20):
            store.publish(token, shard, lambda file: file.write(bytes([who]) * 100_000))

    threads = [threading.Thread(target=attempt, args=(who,)) for who in range(8)]
    for thread in threads:
        thread.start()
    seen: dict[str, int] = {}
    while any(thread.is_alive() for thread in threads):
        for path in store.shards():
            facts = path.stat()
            assert facts.st_size == 100_000
            assert seen.setdefault(path.name, facts.st_ino) == facts.st_ino, "a published shard was replaced"
    assert len(store.shards()) == 20
    for path in store.shards():
        assert len(set(path.read_bytes())) == 1
    assert not list((store.run_folder / f"attempts-{token}").iterdir()), "an attempt was left"


def test_a_failed_attempt_leaves_nothing(store: Store) -> None:
    token = begin(store)

    def fail(_: object) -> None:
        raise OSError(28, os.strerror(28))

    with refused("dst", "space"):
        store.publish(token, 0, fail)
    assert not store.published(0)
    assert not list((store.run_folder / f"attempts-{token}").iterdir())


def test_a_second_run_joins_the_first(store: Store) -> None:
    first = begin(store, seed="one")
    joined = store.begin({"seed": "two"})
    assert joined == {"seed": "one", "token": first}


def test_a_worker_of_an_overwritten_run_cannot_publish(store: Store) -> None:
    """The folder of its attempts is gone, even if its attempt is already written."""
    token = begin(store)
    store.publish(token, 0, lambda file: file.write(b"old"))

    def slow(_: object) -> None:
        store.overwrite()
        new = begin(store)
        store.publish(new, 0, lambda file: file.write(b"new"))

    with refused("dst", "overwritten"):
        store.publish(token, 1, slow)
    with refused("dst", "overwritten"):
        store.publish(token, 2, lambda file: file.write(b"old"))
    with refused("dst", "overwritten"):
        store.finish(token, {"format": "dipp dataset", "version": 1})
    assert [path.read_bytes() for path in store.shards()] == [b"new"]
    assert store.begun(), "the old run has ended the new one"


def test_a_finished_release_cannot_be_continued(store: Store) -> None:
    token = begin(store)
    store.publish(token, 0, lambda file: file.write(b"x"))
    store.finish(token, {"format": "dipp dataset", "version": 1})
    assert sorted(path.name for path in store.folder.iterdir()) == ["manifest.json", shard_name(0)]
    for name in (RUN, f"{RUN}-dead"):  # as a run that died while it cleaned up would leave them
        (store.folder / name).mkdir()
        with refused(store.folder, "names of files"):
            manifest.verify(store.folder)
    with refused("dst", remedy="adds"):
        store.prepare()
    assert not remains(store.folder)
    store.overwrite()
    assert not list(store.folder.iterdir())


def test_other_files_are_never_removed(store: Store) -> None:
    store.folder.mkdir()
    mine = store.folder / "thesis.txt"
    mine.write_text("precious")
    with refused("dst", "files"):
        store.prepare()
    mine.rename(store.folder / "manifest.json")
    with refused(store.folder, "manifest"):
        store.overwrite()
    assert (store.folder / "manifest.json").read_text() == "precious"
    (store.folder / "manifest.json").unlink()
    (store.folder / shard_name(3)).write_text("of no run")
    with refused("dst", remedy="--overwrite"):
        store.prepare()
    store.overwrite()
    begin(store)


@pytest.mark.parametrize("text", ["", "[]", "5", "{}", '{"token": 3}', '{"token": "../x"}', DEEP], ids=range(7))
def test_the_error_about_a_damaged_record_names_the_remedy(text: str, store: Store) -> None:
    begin(store)
    (store.run_folder / "run.json").write_text(text)
    with refused("dst", "run.json", remedy=f"remove {store.run_folder}, then --overwrite"):
        store.begun()


def test_invalid_manifests_are_refused(store: Store) -> None:
    store.folder.mkdir()
    for text in ("", "[]", "{}", '{"format": "dipp dataset"}', "x", '{"format": "dipp dataset", "version": 9}', DEEP):
        (store.folder / "manifest.json").write_text(text)
        with pytest.raises(DippError):
            read_manifest(store.folder)
    for name in ("../../etc/passwd", "/etc/passwd", "shard-000001.parquet/..", 3):
        with refused("manifest.json", "shard"):
            list(shard_entries({"shards": [{"name": name}]}))
