"""A dataset release as training data: cache, transforms, workers of a DataLoader, other sizes, exports."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import pickle
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from helpers.commands import Command
from helpers.datasets import filled, save_folder, save_model, save_table, tiny_codec
from helpers.networks import tiny_network
from helpers.refusals import refused
from PIL import Image
from rich.console import Console
from torch.utils.data import DataLoader

import dipp
from dipp.codec.decoder import Decoder
from dipp.core.geometry import Geometry
from dipp.core.plan import Coding
from dipp.data import cache as caches
from dipp.data.cache import Cache, Key
from dipp.data.choices import Choices
from dipp.data.engines import LocalEngine
from dipp.data.exporting import _safe
from dipp.data.loading import Pictures
from dipp.data.privatize import privatize
from dipp.data.shards import Shard
from dipp.data.store import Store
from dipp.models import bars
from dipp.planning.presets import PAPER
from experiments.comparisons.unclipped import SHARP

pytestmark = pytest.mark.usefixtures("one_thread")


def mixed(folder: Path) -> Path:
    """Save five pictures of two classes and two sizes; one is grey, and one has no class."""
    generator = np.random.default_rng(1)
    for place, shape in {
        "cat/0.png": (8, 8, 3),
        "cat/1.png": (8, 8),
        "a dog/2.png": (8, 16, 3),
        "a dog/3.png": (8, 8, 3),
        "4.png": (8, 16, 3),
    }.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(generator.integers(0, 256, shape, np.uint8)).save(folder / place)
    return folder


@pytest.fixture(scope="module")
def release(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release")
    source = mixed(folder / "source")
    privatize(str(source), folder / "out", tiny_codec(model), str(model), LocalEngine(1), Choices(shard_size=2))
    return folder / "out"


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the number of pictures of each call that decodes."""
    counts: list[int] = []
    real = Decoder.end

    def count(self: Decoder, release: Any, geometry: Any, rows: Any, *more: Any) -> Any:
        counts.append(len(rows))
        return real(self, release, geometry, rows, *more)

    monkeypatch.setattr(Decoder, "end", count)
    return counts


def same(first: Any, second: Any) -> bool:
    pairs = zip(first, second, strict=True)
    return all(torch.equal(one, two) and label == other for (one, label), (two, other) in pairs)


# The cache.


def test_a_second_epoch_reads_the_cache(release: Path, model: Path, tmp_path: Path, decoded: list[int]) -> None:
    plain = list(dipp.load(release, model))
    del decoded[:]
    data = dipp.load(release, model, cache=tmp_path / "new" / "cache")
    assert same(data, plain)
    assert sum(decoded) == 5
    assert same(data, plain)
    assert same([data[3], data[-1]], [plain[3], plain[4]])
    again = dipp.load(release, "no such model", cache=str(tmp_path / "new" / "cache"))
    assert same(again, plain), "another process needs no model any more"
    assert sum(decoded) == 5
    (file,) = (tmp_path / "new" / "cache").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_a_second_epoch_is_kept_in_memory_by_default(
    release: Path, model: Path, decoded: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    data = dipp.load(release, model)
    first = list(data)
    assert sum(decoded) == 5
    first[0][0].zero_()  # neither the cache nor another item may change
    assert same(data, dipp.load(release, model))
    assert sum(decoded) == 10
    assert not same([first[0]], [data[0]])
    assert not caplog.records
    again = pickle.loads(pickle.dumps(data))  # noqa: S301 - made here
    assert len(pickle.dumps(data)) < 20_000, "decoded pictures do not travel"
    assert same(again, data)
    assert sum(decoded) == 15


def test_a_cache_too_large_for_memory_is_reported_once(
    release: Path, model: Path, decoded: list[int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(caches, "KEPT_BYTES", 3 * 8 * 8 * 3)
    data = dipp.load(release, model)
    for _ in range(3):
        list(data)
    assert sum(decoded) == 5 + 3 + 3
    (record,) = caplog.records
    assert record.getMessage().startswith("decoded pictures take more than 0 MiB of memory")
    assert "cache=FOLDER" in record.getMessage()


def test_workers_without_a_cache_folder_warn_of_the_cost(
    release: Path, model: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for cached in (False, True):
        data = dipp.load(release, model, cache=release.parent / "cache" if cached else None)
        loader = DataLoader(data, batch_size=1, num_workers=2, multiprocessing_context="fork", collate_fn=dipp.collate)
        assert len(list(loader)) == 5
        assert capfd.readouterr().err.count("lose what they have decoded") == (not cached)


def test_filling_a_cache_shows_progress(
    release: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A terminal shows a bar for the missing pictures."""
    screen = io.StringIO()
    monkeypatch.setattr(bars, "console", lambda: Console(file=screen, force_terminal=True, width=120))
    data = dipp.load(release, model, cache=tmp_path)
    data[0]
    data.fill()
    assert "decoding" in screen.getvalue()
    assert "of 4, step " in screen.getvalue()
    assert "100%" in screen.getvalue()
    before = screen.getvalue()
    data.fill()
    assert screen.getvalue() == before, "nothing is missing"
    dipp.load(release, model, cache=tmp_path / "other").fill(progress=False)
    assert screen.getvalue() == before


def test_a_batch_decodes_only_what_is_missing(release: Path, model: Path, tmp_path: Path, decoded: list[int]) -> None:
    data = dipp.load(release, model, cache=tmp_path)
    assert len(data.__getitems__([1, 1, 0])) == 3
    assert decoded == [2]
    loader = DataLoader(data, batch_size=5, collate_fn=dipp.collate)
    assert [len(pictures) for pictures, _ in loader] == [5]
    assert sum(decoded) == 5
    data.fill()
    assert sum(decoded) == 5
    with refused("cache"):
        dipp.load(release, model).fill()


def test_another_choice_release_or_model_has_another_cache(
    release: Path, model: Path, tmp_path: Path, decoded: list[int]
) -> None:
    cache = tmp_path / "cache"
    choices: list[dict[str, Any]] = [{}, {"sample": True}, {"sample": True, "calls": 3}, {"noisy": True}]
    shown = [dipp.load(release, model, cache=cache, **choice)[0][0] for choice in choices]
    assert len(decoded) == 4
    assert len({one.numpy().tobytes() for one in shown}) == 4
    assert torch.equal(dipp.load(release, model, sample=True)[0][0], shown[1])
    other_model = save_model(tmp_path / "model")
    torch.manual_seed(3)
    other = tiny_network()
    for parameter in other.parameters():
        parameter.data.mul_(1.1)
    other.save_pretrained(other_model / "unet", safe_serialization=True)
    source = mixed(tmp_path / "source")
    for number, one in enumerate((model, other_model)):
        privatize(
            str(source), tmp_path / str(number), tiny_codec(one), str(one), LocalEngine(1), Choices(seed=bytes(16))
        )
        dipp.load(tmp_path / str(number), one, cache=cache).fill()
    assert len(list(cache.iterdir())) == 6
    keys = (Key(("a",), "m", (1,)), Key(("b",), "m", (1,)), Key(("a",), "n", (1,)), Key(("a",), "m", (2,)))
    assert len({key.digest() for key in (*keys, Key(("a", "a"), "m", (1,)))}) == 5


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE pictures SET pixels = zeroblob(192)",
        "UPDATE pictures SET pixels = 'text'",
        "UPDATE pictures SET pixels = NULL, digest = NULL",
        "UPDATE pictures SET digest = zeroblob(16)",
        "UPDATE pictures SET number = number + 100",
        "UPDATE pictures SET pixels = (SELECT pixels FROM pictures WHERE number = 0)",
        "DROP TABLE pictures",
        "bytes",
        "cut",
        "empty",
    ],
)
def test_a_damaged_entry_is_decoded_again(
    damage: str, release: Path, model: Path, tmp_path: Path, decoded: list[int]
) -> None:
    plain = list(dipp.load(release, model))
    data = dipp.load(release, model, cache=tmp_path)
    data.fill()
    (file,) = tmp_path.iterdir()
    if damage == "bytes":
        file.write_bytes(b"\x07" * file.stat().st_size)
    elif damage in ("cut", "empty"):
        os.truncate(file, 5000 if damage == "cut" else 0)
    else:
        with sqlite3.connect(file) as database:
            database.execute(damage)
        database.close()
    del decoded[:]
    for one in (data, dipp.load(release, model, cache=tmp_path)):
        assert same(one, plain)
    assert sum(decoded) >= 3
    del decoded[:]
    assert same(dipp.load(release, model, cache=tmp_path), plain)
    assert not decoded


def test_a_cache_that_others_could_write_is_refused(release: Path, model: Path, tmp_path: Path) -> None:
    dipp.load(release, model, cache=tmp_path).fill()
    (file,) = tmp_path.iterdir()
    file.chmod(0o666)
    with refused("cache"):
        dipp.load(release, model, cache=tmp_path)[0]
    (tmp_path / "file").touch()
    with refused("cache", "cannot be used"):
        dipp.load(release, model, cache=tmp_path / "file" / "cache")[0]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_processes_share_a_cache(light_model: Path, tmp_path: Path, decoded: list[int]) -> None:
    release, cache, context = tmp_path / "out", tmp_path / "cache", multiprocessing.get_context("fork")
    source = str(mixed(tmp_path / "source"))
    privatize(source, release, tiny_codec(light_model), str(light_model), LocalEngine(1), Choices(shard_size=2))
    workers = [context.Process(target=filled, args=(release, light_model, cache)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    data = dipp.load(release, "no such model", cache=cache)
    assert len(list(data)) == 5
    assert not decoded


def test_entries_are_whole_or_not_there(tmp_path: Path) -> None:
    cache = Cache(tmp_path, "a")
    pictures = np.arange(24, dtype=np.uint8).reshape(2, 2, 2, 3)
    cache.put([4, 9], pictures)
    shapes = dict.fromkeys((4, 9, 10), Geometry(2, 2, 3))
    assert sorted(cache.get(shapes)) == [4, 9]
    np.testing.assert_array_equal(cache.get(shapes)[9], pictures[1])
    assert cache.get({4: Geometry(2, 3, 2), 9: Geometry(1, 2, 3)}) == {}, "of another size is another picture"
    with pytest.raises(ValueError, match=r"longer|shorter"):
        cache.put([1, 2, 3], pictures)
    assert 1 not in cache.get({1: Geometry(2, 2, 3)})
    many = dict.fromkeys(range(2000), Geometry(2, 2, 3))
    assert sorted(cache.get(many)) == [4, 9]


# Transforms, batches and workers.


def test_a_transform_sees_each_picture_each_time(release: Path, model: Path, tmp_path: Path) -> None:
    seen = []

    def halved(picture: torch.Tensor) -> torch.Tensor:
        seen.append(picture.shape)
        picture //= 2  # in place: neither the cache nor another item may change
        return picture

    plain = dipp.load(release, model)
    data = dipp.load(release, model, transform=halved, cache=tmp_path)
    for _ in range(2):
        for (one, label), (two, other) in zip(data, plain, strict=True):
            assert torch.equal(one, two // 2)
            assert label == other
    first, second = data.__getitems__([0, 0])
    assert torch.equal(first[0], second[0])
    assert torch.equal(second[0], plain[0][0] // 2)
    assert seen[0] == (3, 8, 16)


def test_other_sizes_are_collated_as_a_list(release: Path, model: Path) -> None:
    data = dipp.load(release, model)
    assert data.geometries()[:2] == [Geometry(8, 16, 3)] * 2
    with pytest.raises(RuntimeError, match="equal size"):
        next(iter(DataLoader(data, batch_size=5)))
    ((pictures, labels),) = DataLoader(data, batch_size=5, collate_fn=dipp.collate)
    assert [tuple(picture.shape) for picture in pictures] == [(3, 8, 16), (3, 8, 16), (3, 8, 8), (3, 8, 8), (3, 8, 8)]
    assert labels.tolist() == [-1, 0, 0, 1, 1]
    assert dipp.collate([]) == []
    assert dipp.collate([(torch.zeros(1), "a"), (torch.zeros(2), "b")])[1] == ["a", "b"]
    assert len(dipp.collate([torch.zeros(1), torch.zeros(2)])) == 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize(
    ("start", "coding", "kind"),
    [("fork", SHARP, "model"), ("fork", PAPER, "model"), ("spawn", SHARP, "light_model")],
    ids=str,
)
def test_workers_may_be_forked_or_spawned(
    start: str, coding: Coding, kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """After the parent has decoded on its own threads, workers decode and write side by side, and then read."""
    model: Path = request.getfixturevalue(kind)
    source = save_table(tmp_path / "s.parquet", 6)
    privatize(str(source), tmp_path / "out", tiny_codec(model, coding), str(model), LocalEngine(1), Choices())
    plain = torch.stack([picture for picture, _ in dipp.load(tmp_path / "out", model)])
    data = dipp.load(tmp_path / "out", model, cache=tmp_path / "cache")
    workers = 2 if start == "fork" else 1  # a spawned worker takes seconds to start
    some: dict[str, Any] = {"batch_size": 2, "num_workers": workers, "multiprocessing_context": start}
    loader = DataLoader(data, **some, persistent_workers=True)
    for _ in range(2):
        found = torch.cat([pictures for pictures, _ in loader])
        assert (found.int() - plain.int()).abs().max() <= 1  # one thread may round differently from several
    again = dipp.load(tmp_path / "out", "no such model", cache=tmp_path / "cache")
    assert torch.equal(torch.stack([picture for picture, _ in again]), found)
    if start == "fork":
        streamed = DataLoader(dipp.load(tmp_path / "out", model).stream(), **some)
        assert sum(len(labels) for _, labels in streamed) == 6


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_that_cannot_decode_is_told_what_to_do(
    release: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = dipp.load(release, model)
    data[0]
    monkeypatch.setattr(data._decoder, "_process", -1)
    monkeypatch.setattr("dipp.data.part_decoder.torch_device", lambda _: torch.device("cuda"))
    with refused("DataLoader"):
        data[1]


def test_a_dataset_prints_a_short_description(release: Path, model: Path, tmp_path: Path) -> None:
    data = dipp.load(release, model)
    assert repr(data) == f"<dipp.Pictures: 5 pictures, 2 classes, of {release}>"
    assert repr(data.stream()) == f"<dipp stream of {data!r}>"
    tiny_codec(model).encode(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / "a.dipp")
    assert (
        repr(dipp.load(tmp_path / "a.dipp", model))
        == f"<dipp.Pictures: 1 picture, no labels, of {tmp_path / 'a.dipp'}>"
    )
    assert isinstance(data, Pictures)


# Exports.


def test_decode_exports_pictures_with_their_labels(release: Path, model: Path, tmp_path: Path, run: Command) -> None:
    target = tmp_path / "pictures"
    code, said, err = run("decode", release, "-o", target, "--model", model)
    assert code == 0, err
    assert "5 pictures written to" in said
    found = {str(path.relative_to(target)) for path in target.rglob("*.png")}
    assert found == {"00000.png", "a dog/00001.png", "a dog/00002.png", "cat/00003.png", "cat/00004.png"}
    for (picture, _), name in zip(dipp.load(release, model), sorted(found, key=lambda one: one[-9:]), strict=True):
        with Image.open(target / name) as image:
            np.testing.assert_array_equal(np.asarray(image.convert("RGB")), picture.permute(1, 2, 0).numpy())
    with Image.open(target / "cat" / "00004.png") as grey:
        assert grey.mode == "L"
    code, _, err = run("decode", release, "-o", target, "--model", model)
    assert code == 1
    assert "empty folder" in err
    code, said, _ = run("decode", release, "-o", target, "--model", model, "--overwrite", "--sample")
    assert code == 0
    assert "made up" in said
    (target / "cat" / "00002.png").write_bytes(b"of another release")
    code, _, err = run("decode", release, "-o", target, "--model", model, "--overwrite")
    assert code == 1
    assert f"{target} holds cat/00002.png of another decoding" in err
    (target / "cat" / "00002.png").unlink()
    again = privatize(str(target), tmp_path / "again", tiny_codec(model), str(model), LocalEngine(1), Choices())
    assert again.facts["labels"] == {"names": ["a dog", "cat"]}
    for wrong in (("-o", tmp_path / "a.png"), ("-o", tmp_path / "new", "--steps", 2)):
        code, _, err = run("decode", release, *wrong, "--model", model)
        assert code == 1
        assert err.count("\n") == 1


def test_decode_writes_a_table_that_datasets_opens(release: Path, model: Path, tmp_path: Path, run: Command) -> None:
    import datasets

    table = tmp_path / "out.parquet"
    assert run("decode", release, "-o", table, "--model", model)[0] == 0
    found = datasets.Dataset.from_parquet(str(table), cache_dir=str(tmp_path / "hub"))
    assert found.features["label"].names == ["a dog", "cat"]
    assert found["label"] == [None, 0, 0, 1, 1]
    plain = dipp.load(release, model)
    for row, (picture, _) in zip(found, plain, strict=True):
        np.testing.assert_array_equal(np.asarray(row["image"].convert("RGB")), picture.permute(1, 2, 0).numpy())
    assert found[4]["image"].mode == "L"
    code, _, err = run("decode", release, "-o", table, "--model", model)
    assert code == 1
    assert "--overwrite" in err
    with refused("output", "out.parquet"):
        plain.export(table)
    with refused("output", ".parquet", "a.png"):
        plain.export(tmp_path / "a.png")
    plain.export(tmp_path / "folder")
    assert len(list((tmp_path / "folder").rglob("*.png"))) == 5


def test_an_archive_and_text_are_exported_too(model: Path, tmp_path: Path, run: Command) -> None:
    codec = tiny_codec(model)
    codec.encode(np.zeros((2, 8, 8, 3), np.uint8)).save(tmp_path / "a.dipp")
    assert run("decode", tmp_path / "a.dipp", "-o", tmp_path / "a.parquet", "--model", model)[0] == 0
    assert pq.read_table(tmp_path / "a.parquet").column_names == ["image"]
    rows = pq.read_table(save_table(tmp_path / "s.parquet", 3))
    words = ["../evil", "", ".hidden/é"]
    pq.write_table(rows.set_column(1, "label", pa.array(words)), tmp_path / "s.parquet")
    privatize(str(tmp_path / "s.parquet"), tmp_path / "out", codec, str(model), LocalEngine(1), Choices())
    (tmp_path / "deep").mkdir()
    dipp.load(tmp_path / "out", model).export(tmp_path / "deep" / "er")
    inside = {path.relative_to(tmp_path / "deep" / "er").parent.name for path in (tmp_path / "deep").rglob("*.png")}
    assert inside == {"%2E.%2Fevil", "%", "%2Ehidden%2Fé"}
    dipp.load(tmp_path / "out", model).export(tmp_path / "t.parquet")
    assert pq.read_table(tmp_path / "t.parquet").column("label").to_pylist() == words


def test_folders_of_labels_have_plain_and_different_names() -> None:
    names = ["cat", "a/b", "a%2Fb", "..", ".", "", "%", "x" * 300, "x" * 301, "\0", "nul\n", "C:\\", "é ü", "a.b"]
    found = [_safe(name) for name in names]
    assert len(set(found)) == len(names)
    for one in found:
        assert one
        assert not {"/", "\\", "\0", "\n", ":"} & set(one)
        assert not one.startswith(".")
        assert len(one) < 200
    assert (found[0], found[-2], found[-1]) == ("cat", "é ü", "a.b")


# Reports about labels, and edited manifests.


@pytest.mark.parametrize("kind", ["folder", "table"])
def test_a_single_file_says_that_it_leaves_labels_out(kind: str, model: Path, tmp_path: Path, run: Command) -> None:
    source = save_folder(tmp_path / "source", 2) if kind == "folder" else save_table(tmp_path / "s.parquet", 2)
    asked = ("--model", model, "--epsilon", 64, "--workers", 1)
    _, said, _ = run("privatize", source, tmp_path / "a.dipp", *asked, "--window", "full")
    assert "window       stored values of 0 are black, 65535 white" in said
    assert "labels       left out" in said
    _, said, _ = run("privatize", source, tmp_path / "b.dipp", *asked, "--drop-labels")
    assert "left out" not in said
    _, said, _ = run("privatize", source, tmp_path / "c.dipp", *asked, "--json")
    assert json.loads(said)["labels_left_out"] is True


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("certificate", {"epsilon": 0.1, "rho": 0.001, "delta": None}),
        ("certificate", None),
        ("images", 4),
        ("payload_bpp", 0.001),
        ("model", "0" * 64),
        ("seed", "0" * 32),
        ("labels", None),
        ("labels", {"names": ["dog", "cat"]}),
        ("labels", {"names": []}),
        ("skipped", [{"position": 0, "reason": "x"}]),
        ("window", "0:1"),
        ("grey", 0),
    ],
    ids=str,
)
def test_info_does_not_believe_an_edited_manifest(
    key: str, value: Any, release: Path, tmp_path: Path, run: Command
) -> None:
    """Without --verify as well, all facts are computed from the shards."""
    folder = tmp_path / "out"
    folder.mkdir()
    for path in release.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    code, said, _ = run("info", folder, "--json")
    assert code == 0
    before = json.loads(said)
    assert before["verified"] is None
    (shard, *_) = (Shard.read(path) for path in Store(folder).shards())
    assert before["certificate"]["epsilon"] == pytest.approx(shard.certificate.epsilon)  # type: ignore[union-attr]
    stated = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**stated, key: value}))
    code, said, err = run("info", folder)
    assert code == 1, said
    assert err.count("\n") == 1
    (folder / "manifest.json").write_text(json.dumps({**stated, "not_hidden": "nothing", "dipp": "9"}))
    code, said, _ = run("info", folder)
    assert code == 0
    assert "nothing" not in said
    assert "grey         1 of 5" in said
