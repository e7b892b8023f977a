"""Whole datasets on one machine, from the command to training data; killed, resumed, forged, on a full disk."""

from __future__ import annotations

import dataclasses
import io
import itertools
import json
import os
import pickle
import re
import resource
import shutil
import signal
import stat
import struct
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from helpers.codecs import selected
from helpers.commands import Command
from helpers.datasets import (
    SHARD_SIZE,
    Publications,
    check_release,
    pixels,
    require_same_shards,
    save_folder,
    save_table,
    tiny_codec,
)
from helpers.opened import order_of_events
from helpers.paths import DOCS
from helpers.processes import children, wait_for_end, watched
from helpers.refusals import printed, refused
from helpers.runs import require_charged_once, start, wait_for
from PIL import Image
from rich.console import Console

import dipp
from dipp.cli.main import main
from dipp.cli.options import EXIT_NOT_COMPARED
from dipp.codec import batches
from dipp.codec.decoder import Decoder
from dipp.codec.decoding import Decoding
from dipp.core.beacon import Beacon
from dipp.data import engines
from dipp.data.choices import Choices, Conduct
from dipp.data.contents import Contents, SkippedPosition
from dipp.data.encoding import Encoder, EncodeTask
from dipp.data.engines import LocalEngine
from dipp.data.folder import PAPERS, RUN, sha256
from dipp.data.privatize import privatize
from dipp.data.progress import Bar
from dipp.data.shards import Shard
from dipp.data.sources import Columns, SourcePicture
from dipp.data.store import RUN_FILE, Store
from dipp.data.survey import Survey
from dipp.data.tables import Tables
from dipp.data.worker import Job
from dipp.format.header import parameters_to_bytes
from dipp.models import embedded
from dipp.odometer import Meter, Odometer
from dipp.planning.presets import DIFFC
from dipp.privacy.recorder import Recorder

pytestmark = pytest.mark.usefixtures("one_thread", "quick")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Save forty pictures in two classes, and five files that are not pictures."""
    source = save_folder(tmp_path / "private-source", 40)
    cat = source / "cat"
    (cat / "zero.png").write_bytes(b"")
    (cat / "cut.png").write_bytes((cat / "secret-name-00002.png").read_bytes()[:60])
    (cat / "text.png").write_text("not a picture")
    first, *others = map(Image.fromarray, pixels(3))
    first.save(cat / "frames.png", format="PNG", save_all=True, append_images=others)
    # The header claims 1,600 megapixels, and nothing follows.
    Image.new("1", (1, 1)).save(cat / "bomb.png")
    content = bytearray((cat / "bomb.png").read_bytes())
    content[16:24] = struct.pack(">2I", 40_000, 40_000)
    content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
    (cat / "bomb.png").write_bytes(content)
    return source


def options(model: Path, *more: object) -> tuple[object, ...]:
    return ("--model", model, "--epsilon", 8, "--workers", 1, "--shard-size", 16, *more)


def test_a_folder_becomes_training_data(folder: Path, model: Path, tmp_path: Path, run: Command) -> None:
    """Bad pictures are skipped and reported; all others are released once, with their labels and nothing else."""
    target = tmp_path / "out"
    code, out, err = run("privatize", folder, target, *options(model, "--json"))
    assert code == 3, err
    said = json.loads(out)
    assert said["images"] == 40
    assert len(said["skipped"]) == 5
    assert said["certificate"]["epsilon"] <= 8
    assert said["payload_bpp"] <= said["file_bpp"]
    for word in ("0 bytes", "megapixels", "supported format", "frames"):
        assert word in err, "the table tells the reasons"
    assert "cut.png" in err, "names are for the terminal"
    assert "images/s" not in err, "no bar without a terminal"

    names = [b"secret-name", b"private-source", b".png", str(tmp_path).encode(), str(model).encode()]
    for path in target.iterdir():
        content = path.read_bytes()
        assert not any(name in content for name in names), f"{path.name} tells a name"
    others = {"manifest.json", *PAPERS}
    assert {path.name for path in target.iterdir() if path.suffix != ".parquet"} == others

    code, out, err = run("info", target, "--json", "--verify", "--model", model)
    assert code == 0, err
    assert json.loads(out)["certificate"] == said["certificate"]
    code, out, _ = run("info", target)
    assert code == 0
    assert "labels       released as they are" in out
    assert "computed from the shards; --verify" in out
    code, out, _ = run("info", target, "--verify")
    assert "--verify" not in out

    data = dipp.load(target, model)
    assert len(data) == 40
    assert data.classes == ("cat", "dog")
    assert data.labels() == [0] * 20 + [1] * 20
    picture, label = data[25]
    assert picture.shape == (3, 8, 8)
    assert picture.dtype == torch.uint8
    assert label == 1
    assert (data[-1][0] == data[39][0]).all()
    loader = torch.utils.data.DataLoader(data, batch_size=7, shuffle=True)
    assert sum(len(labels) for _, labels in loader) == 40
    streamed = [picture for picture, _ in data.stream()]
    assert all((picture == item[0]).all() for picture, item in zip(streamed, data, strict=True))
    assert (pickle.loads(pickle.dumps(data))[3][0] == data[3][0]).all()  # noqa: S301 - made here
    assert [label for _, label in data[18:22]] == [0, 0, 1, 1]
    assert data[30:10] == []
    assert data[np.int64(3)][1] == data[torch.tensor(3)][1] == 0
    for index in (40, -41):
        with pytest.raises(IndexError, match="0 to 39"):
            data[index]
    for wrong in ("3", 3.0, None):
        with pytest.raises(TypeError):
            data[wrong]  # type: ignore[call-overload]
    with refused("model"):
        dipp.load(target)[0]  # by default with the denoiser of dipp, which is another

    code, _, err = run("privatize", folder, target, *options(model))
    assert code == 1
    assert "adds its ε" in err


def test_large_pictures_are_decoded_few_at_a_time(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch has a limit of pixels, and not only of pictures, in decoding as in encoding."""
    source = save_table(tmp_path / "s.parquet", 12)
    privatize(str(source), tmp_path / "out", tiny_codec(model), str(model), LocalEngine(1), Choices())
    sizes: list[int] = []
    expected = dipp.load(tmp_path / "out", model)[:]
    real = Decoder.end

    def counted(self: Decoder, release: Any, geometry: Any, rows: Any, *more: Any) -> Any:
        sizes.append(len(rows))
        return real(self, release, geometry, rows, *more)

    monkeypatch.setattr(Decoder, "end", counted)
    monkeypatch.setattr(batches, "BATCH_PIXELS", 5 * 64)

    def fresh() -> dipp.Pictures:
        return dipp.load(tmp_path / "out", model)

    for items in (fresh()[:], list(fresh()), list(fresh().stream())):
        for (picture, _), (other, _) in zip(items, expected, strict=True):
            assert (picture.int() - other.int()).abs().max() <= 1, "rounding alone may differ from batch to batch"
    assert sizes == [5, 5, 2] * 3


def test_decoded_pictures_are_near_their_sources(model: Path, tmp_path: Path) -> None:
    """At a high SNR each loaded picture is near its source: ids select the randomness, with or without gaps."""
    source = save_table(tmp_path / "s.parquet", 30)
    codec = tiny_codec(model, DIFFC)
    privatize(str(source), tmp_path / "out", codec, str(model), LocalEngine(1), Choices(shard_size=7))
    for shard in map(Shard.read, Store(tmp_path / "out").shards()):
        images = [pixels(30)[number] for number in shard.ids]
        expected, end = selected(codec, images, shard.ids.tolist(), shard.parameters.seed, Recorder())
        assert (shard.rows(range(len(shard))) == expected).all()
    loaded = dipp.load(tmp_path / "out", model)
    for number, state in zip(shard.ids, end.pictures(), strict=True):
        assert np.abs(loaded[number][0].permute(1, 2, 0).numpy().astype(int) - state).max() <= 1


def test_a_folder_becomes_one_archive(folder: Path, model: Path, tmp_path: Path, run: Command) -> None:
    """A .dipp file has the good pictures, numbered without gaps, so that every decoder finds their randomness."""
    target = tmp_path / "out.dipp"
    code, out, err = run("privatize", folder, target, *options(model, "--json"))
    assert code == 3, err
    assert json.loads(out)["images"] == 40
    assert len(json.loads(out)["skipped"]) == 5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.dipp", "out.dipp.papers", "private-source"]
    assert b"secret-name" not in target.read_bytes()
    data = dipp.load(target, model)
    codec, sampled = (
        dipp.Codec.for_parameters(dipp.open(target).parameters, model),
        dipp.load(target, model, sample=True),
    )
    pictures = codec.decode(dipp.open(target))
    assert len(data) == len(pictures) == 40
    assert (data[39].permute(1, 2, 0).numpy() == pictures[39]).all()
    assert (sampled[39].permute(1, 2, 0).numpy() == codec.decode(dipp.open(target), Decoding(sample=True))[39]).all()
    code, _, err = run("privatize", folder, target, *options(model))
    assert code == 1
    assert "adds its ε" in err
    before = target.read_bytes()
    code, _, err = run("privatize", folder, target, *options(model, "--overwrite"))
    assert code == 3
    assert "adds its ε" in err
    assert target.read_bytes() != before


def test_overwriting_removes_no_other_files_and_nothing_for_a_bad_source(
    folder: Path, model: Path, tmp_path: Path, run: Command
) -> None:
    """A release stays if the new source cannot be read; files that are no release stay as well."""
    good, empty = tmp_path / "out", tmp_path / "empty"
    assert run("privatize", folder, good, *options(model))[0] == 3
    before = {path.name: path.read_bytes() for path in good.iterdir()}
    empty.mkdir()
    table = save_table(tmp_path / "s.parquet", 5)
    for source, more in ((empty, ()), (table, ("--label-column", "nobody"))):
        code, _, err = run("privatize", source, good, *options(model, "--overwrite", *more))
        assert code == 1
        assert "overwriting" not in err
        assert {path.name: path.read_bytes() for path in good.iterdir()} == before
    thesis, odd = tmp_path / "thesis.dipp", tmp_path / "folder.dipp"
    odd.mkdir()
    thesis.write_text("precious")
    for target in (good / "manifest.json", thesis, odd):
        code, _, err = run("privatize", folder, target, *options(model, "--overwrite"))
        assert code == 1
        assert err.strip().splitlines()[-1].startswith("dipp: ")
    assert {path.name: path.read_bytes() for path in good.iterdir()} == before
    assert thesis.read_text() == "precious"


def test_two_concurrent_runs_make_one_release(model: Path, tmp_path: Path) -> None:
    """The second run overtakes the first, which then ends; if both make one archive, the first raises."""
    source, codec, choices = save_table(tmp_path / "s.parquet", 60), tiny_codec(model), Choices(shard_size=20)

    class OvertakenEngine(LocalEngine):
        def __init__(self, target: Path) -> None:
            super().__init__()
            object.__setattr__(self, "target", target)

        def run(self, *arguments: Any) -> Iterator[Any]:
            for number, result in enumerate(super().run(*arguments)):
                if number == 1:
                    privatize(str(source), self.target, codec, str(model), LocalEngine(1), choices)  # type: ignore[attr-defined]
                yield result

    target = tmp_path / "out"
    watch = Publications(Store(target))
    privatize(str(source), target, codec, str(model), OvertakenEngine(target), choices)
    watch.look()
    check_release(target, 60)
    with refused("dst"):
        privatize(str(source), tmp_path / "o.dipp", codec, str(model), OvertakenEngine(tmp_path / "o.dipp"), choices)
    assert len(dipp.open(tmp_path / "o.dipp")) == 60


@pytest.mark.parametrize("name", ["out", "out.dipp"])
def test_strict_stops_before_anything_is_charged(
    name: str, folder: Path, model: Path, tmp_path: Path, run: Command
) -> None:
    """The run leaves nothing behind, so that the repaired source can be released."""
    target = tmp_path / name
    code, _, err = run("privatize", folder, target, *options(model, "--strict"))
    assert code == 1
    assert err.strip().splitlines()[-1].startswith(printed("src", "has a bad picture: cat/"))
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]
    assert not Odometer.open().count()
    for bad in ("zero", "cut", "text", "frames", "bomb"):
        (folder / "cat" / f"{bad}.png").unlink()
    code, _, err = run("privatize", folder, target, *options(model, "--strict"))
    assert code == 0, err


def test_strict_leaves_nothing_behind_without_an_odometer(
    folder: Path, model: Path, tmp_path: Path, run: Command
) -> None:
    target = tmp_path / "out"
    code, _, err = run("privatize", folder, target, *options(model, "--strict", "--no-odometer"))
    assert code == 1
    assert err.strip().splitlines()[-1].startswith(printed("src", "has a bad picture: cat/"))
    assert not target.exists()


def test_a_run_that_published_nothing_says_so(model: Path, tmp_path: Path, run: Command) -> None:
    source, target, codec = save_table(tmp_path / "s.parquet", 4), tmp_path / "out", tiny_codec(model)

    class StoppingEngine(LocalEngine):
        def run(self, *_: Any) -> Iterator[Any]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        privatize(str(source), target, codec, str(model), StoppingEngine(), Choices())
    with refused("dst", "source", "labels"):
        privatize(str(source), target, codec, str(model), LocalEngine(1), Choices(drop_labels=True))
    code, _, err = run("info", target)
    assert code == 1
    assert "not finished" in err
    assert privatize(str(source), target, codec, str(model), LocalEngine(1), Choices()).encoded == 4


@pytest.mark.parametrize("name", ["out", "out.dipp"])
def test_a_source_without_good_pictures_is_not_released(name: str, model: Path, tmp_path: Path, run: Command) -> None:
    """The reasons are printed, and the command can be repeated once the source is repaired."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.png").write_text("not a picture")
    code, out, err = run("privatize", source, tmp_path / name, *options(model))
    assert (code, out) == (1, "")
    assert "supported format" in err
    assert err.splitlines()[-1].startswith(printed("src", "has no picture that can be used"))
    assert [path.name for path in tmp_path.iterdir()] == ["source"]
    Image.fromarray(pixels(1)[0]).save(source / "a.png")
    assert run("privatize", source, tmp_path / name, *options(model))[0] == 0


def test_a_release_is_refused_as_a_source(model: Path, tmp_path: Path, run: Command) -> None:
    source = save_table(tmp_path / "s.parquet", 2)
    for made in (tmp_path / "out", tmp_path / "out.dipp"):
        privatize(str(source), made, tiny_codec(model), str(model), LocalEngine(1), Choices())
        code, _, err = run("privatize", made, tmp_path / "again", *options(model))
        assert code == 1
        assert err.splitlines()[-1].startswith(printed("src"))
        assert made.name in err
        assert "`dipp decode`" in err
        assert not (tmp_path / "again").exists()


def test_labels_can_be_left_out(folder: Path, model: Path, tmp_path: Path, run: Command) -> None:
    target = tmp_path / "out"
    code, out, _ = run("privatize", folder, target, *options(model, "--drop-labels"))
    assert code == 3
    assert "their labels" not in out
    for path in target.iterdir():
        assert b"dog" not in path.read_bytes()
    data = dipp.load(target, model)
    assert data[0].shape == (3, 8, 8)
    assert data.classes == ()


def test_12_the_seed_of_a_dataset_is_drawn_before_a_picture_is_read(
    folder: Path, model: Path, tmp_path: Path, run: Command
) -> None:
    with order_of_events(folder) as order:
        code, _, err = run("privatize", folder, tmp_path / "out", *options(model))
    assert code == 3, err
    assert order[0] == "seed"
    assert order.count("seed") == 1
    assert order.count("picture") >= 40


def test_a_dataset_says_whether_its_seed_was_given(model: Path, tmp_path: Path, run: Command) -> None:
    """A run that was begun with a given seed can be resumed with or without it, and still says that it was given."""
    source, target = save_table(tmp_path / "s.parquet", 30), tmp_path / "out"
    codec, seed = tiny_codec(model), bytes(range(16))

    class StoppingEngine(LocalEngine):
        def run(self, *arguments: Any) -> Iterator[Any]:
            yield from itertools.islice(super().run(*arguments), 1)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        privatize(str(source), target, codec, str(model), StoppingEngine(), Choices(shard_size=10, seed=seed))
    privatize(str(source), target, codec, str(model), LocalEngine(1), Choices(shard_size=10))
    assert {Shard.read(path).parameters.seed_given for path in Store(target).shards()} == {True}
    _, out, _ = run("info", target, "--verify")
    assert f"seed         {seed.hex()}, given by the caller" in out


def test_a_dataset_resumes_only_with_its_own_beacon(model: Path, tmp_path: Path, run: Command) -> None:
    source, target = save_table(tmp_path / "s.parquet", 30), tmp_path / "out"
    codec, beacon = tiny_codec(model), Beacon(7, bytes(range(32)))

    class StoppingEngine(LocalEngine):
        def run(self, *arguments: Any) -> Iterator[Any]:
            yield from itertools.islice(super().run(*arguments), 1)
            raise KeyboardInterrupt

    same = Choices(shard_size=10, beacon=beacon)
    with pytest.raises(KeyboardInterrupt):
        privatize(str(source), target, codec, str(model), StoppingEngine(), same)
    for other in (None, Beacon(8, bytes(range(32)))):
        with refused("dst", "beacon"):
            privatize(str(source), target, codec, str(model), LocalEngine(1), dataclasses.replace(same, beacon=other))
    privatize(str(source), target, codec, str(model), LocalEngine(1), same)
    (parameters,) = {Shard.read(path).parameters for path in Store(target).shards()}
    assert parameters.beacon is not None
    assert parameters.seed == beacon.mixed_with(parameters.beacon.own).seed
    _, out, _ = run("info", target, "--verify")
    assert "which follows from round 7 of a public beacon and 16 bytes drawn by the encoder" in out
    # The manifest is checked against the shards.
    manifest = json.loads((target / "manifest.json").read_text())
    (target / "manifest.json").write_text(json.dumps({**manifest, "seed": "00" * 16}))
    code, _, err = run("info", target)
    assert code == 1
    assert len(err.strip().splitlines()) == 1


def test_an_interrupted_run_cannot_be_resumed_with_other_choices(model: Path, tmp_path: Path) -> None:
    """Another source, budget, shard size, label choice or seed is refused; the same choices keep the seed."""
    source, target = save_table(tmp_path / "s.parquet", 100), tmp_path / "out"
    codec, other = tiny_codec(model), tiny_codec(model, DIFFC)

    class StoppingEngine(LocalEngine):
        def run(self, *arguments: Any) -> Iterator[Any]:
            for number, result in enumerate(super().run(*arguments)):
                if number == 3:
                    raise KeyboardInterrupt
                yield result

    with pytest.raises(KeyboardInterrupt):
        privatize(str(source), target, codec, str(model), StoppingEngine(), Choices(shard_size=10))
    watch = Publications(Store(target))
    assert watch.look() == 4
    seed = Shard.read(watch.store.shards()[0]).parameters.seed
    tests: dict[str, tuple[Any, Choices]] = {
        "model or budget": (other, Choices(shard_size=10)),
        "shard-size": (codec, Choices(shard_size=20)),
        "labels": (codec, Choices(shard_size=10, drop_labels=True)),
        "seed": (codec, Choices(shard_size=10, seed=bytes(16))),
    }
    for word, (with_codec, choices) in tests.items():
        with refused("dst", word):
            privatize(str(source), target, with_codec, str(model), LocalEngine(1), choices)
    same = Choices(shard_size=10)
    content, times = source.read_bytes(), source.stat()
    save_table(source, 99)
    with refused("dst", "source"):
        privatize(str(source), target, codec, str(model), LocalEngine(1), same)
    source.write_bytes(content)
    os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))
    summary = privatize(str(source), target, codec, str(model), LocalEngine(1), same)
    assert summary.encoded == 60
    assert watch.look() == 10
    assert {Shard.read(path).parameters.seed for path in watch.store.shards()} == {seed}
    check_release(target, 100)
    assert not (target / RUN / RUN_FILE).exists()


def test_a_damaged_record_is_refused_whatever_is_missing(model: Path, tmp_path: Path) -> None:
    """--overwrite is refused, too: the same command may have begun the run, and must not release a picture twice."""
    source, target = save_table(tmp_path / "s.parquet", 20), tmp_path / "out"
    codec, choices = tiny_codec(model), Choices(shard_size=10)

    class StoppingEngine(LocalEngine):
        def run(self, *arguments: Any) -> Iterator[Any]:
            yield next(super().run(*arguments))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        privatize(str(source), target, codec, str(model), StoppingEngine(1), choices)
    record = json.loads((target / RUN / RUN_FILE).read_text())
    spoilt = [{**record, "purpose": wrong} for wrong in ({"archive": "x"}, {"archive": ""}, {"archive": 3}, {}, [3])]
    spoilt += [{**record, "source": [3]}]
    spoilt += [{**record, "source": {**record["source"], "kind": "Nothing"}}]
    for wrong in spoilt + [{key: record[key] for key in record if key != name} for name in record]:
        (target / RUN / RUN_FILE).write_text(json.dumps(wrong))
        for overwrite in (False, True):
            with refused("dst", "run.json"):
                privatize(str(source), target, codec, str(model), LocalEngine(1), choices, Conduct(overwrite=overwrite))
    shutil.rmtree(target / RUN)
    again = privatize(str(source), target, codec, str(model), LocalEngine(1), choices, Conduct(overwrite=True))
    assert again.encoded == 20


def test_the_shards_of_a_single_file_are_readable_by_their_owner_alone(model: Path, tmp_path: Path) -> None:
    """They stay when the run is killed, so that it can be resumed; if it is not, they are a second encoding."""
    source = save_table(tmp_path / "s.parquet", 4)

    class StoppingEngine(LocalEngine):
        def run(self, *arguments: Any) -> Iterator[Any]:
            yield from super().run(*arguments)
            raise KeyboardInterrupt

    for name, mode in ((".out.dipp.work", 0o700), ("folder", 0o755)):
        target, before = tmp_path / ("out.dipp" if name.startswith(".") else name), os.umask(0o022)
        try:
            with pytest.raises(KeyboardInterrupt):
                privatize(str(source), target, tiny_codec(model), str(model), StoppingEngine(1), Choices(shard_size=2))
        finally:
            os.umask(before)
        assert len(Store(tmp_path / name).shards()) == 2
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == mode


def test_a_lack_of_memory_ends_the_run_and_skips_no_picture(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run can be resumed when there is enough memory."""
    source, target, codec = save_folder(tmp_path / "pictures", 4), tmp_path / "out", tiny_codec(model)
    with monkeypatch.context() as patch:
        patch.setattr(Image, "open", mock.Mock(side_effect=MemoryError))
        with pytest.raises(MemoryError):
            privatize(str(source), target, codec, str(model), LocalEngine(1), Choices())
    summary = privatize(str(source), target, codec, str(model), LocalEngine(1), Choices())
    assert (summary.encoded, summary.skipped) == (4, ())


def test_a_source_that_shrinks_publishes_nothing(model: Path, tmp_path: Path) -> None:
    """A shard covers all of its positions, or is not written."""

    class ShrunkTables(Tables):
        def read(self, start: int, stop: int) -> Iterator[SourcePicture]:
            return super().read(start, stop - 1)

    source = ShrunkTables.open([save_table(tmp_path / "s.parquet", 5)], Columns())
    store, codec = Store(tmp_path / "out"), tiny_codec(model)
    store.prepare()
    token = store.begin({})["token"]
    survey = Survey(store.run_folder / "survey", 5)
    task = EncodeTask(codec.parameters(bytes(16)), codec.budget, str(model))
    job = Job(source, store, token, "cpu", 5, True, strict=False, survey=survey, task=task)
    with refused("src"):
        Encoder(job, task, codec).release(0)
    assert not store.shards()


@pytest.mark.slow
def test_the_engines_agree_up_to_private_randomness(
    light_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a code without private draws, a pool of processes gives the same columns and payloads as this process.

    Each process has one thread, because the number of threads may change the order of the network's sums.
    """
    monkeypatch.setattr(engines, "cores", lambda: 2)
    source = save_table(tmp_path / "s.parquet", 60)
    codec, choices = tiny_codec(light_model, DIFFC), Choices(shard_size=20, seed=bytes(range(16)))
    for name, engine in {"one": LocalEngine(1), "two": LocalEngine(2)}.items():
        privatize(str(source), tmp_path / name, codec, str(light_model), engine, choices)
    require_same_shards(tmp_path / "one", tmp_path / "two")
    private = tiny_codec(light_model)
    privatize(str(source), tmp_path / "three", private, str(light_model), LocalEngine(1), choices)
    privatize(str(source), tmp_path / "four", private, str(light_model), LocalEngine(1), choices)
    three, four = (Shard.read(Store(tmp_path / name).shards()[0]) for name in ("three", "four"))
    assert parameters_to_bytes(three.parameters) == parameters_to_bytes(four.parameters)
    assert three.payloads != four.payloads, "private randomness must not follow the public seed"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="waits for the processes of others")
def test_killed_and_resumed_it_is_charged_once_and_first(light_model: Path, tmp_path: Path) -> None:
    """A worker and then the run get SIGKILL: all pictures are released once, and were charged before."""
    count, target, gate = 24 * SHARD_SIZE, tmp_path / "out", tmp_path / "go on"
    source = save_table(tmp_path / "s.parquet", count)
    watch = Publications(Store(target))
    with start(light_model, source, target, 2, 20, gate, counted=True) as process:
        # Wait for more than the four shards that the pool works on, so that the run has received an answer.
        wait_for(watch, 5, process)
        require_charged_once(count)
        # The pool's first child may be multiprocessing's resource tracker, which the run survives as well.
        os.kill(children(process.pid)[-1], signal.SIGKILL)
        wait_for(watch, watch.look() + 5, process)  # a killed worker does not end the run
        with watched(children(process.pid)) as orphans:
            process.kill()
            assert process.wait() == -signal.SIGKILL
            wait_for_end(orphans)  # this would wait for ever if workers outlived their run
    assert not watch.store.finished
    codec, counted = tiny_codec(light_model), Conduct(meter=Meter())
    privatize(str(source), target, codec, str(light_model), LocalEngine(1), Choices(shard_size=SHARD_SIZE), counted)
    assert watch.look() == count // SHARD_SIZE
    check_release(target, count)
    require_charged_once(count)


def test_a_full_disk_loses_nothing(light_model: Path, tmp_path: Path) -> None:
    """A limit on the size of files simulates a full disk: the run raises, and published shards stay."""
    source, target = save_table(tmp_path / "s.parquet", 40), tmp_path / "out"
    size = 2800  # larger than the run's own files, and smaller than a shard
    codec, choices = tiny_codec(light_model), Choices(shard_size=40)

    def run(source: Path) -> None:
        privatize(str(source), target, codec, str(light_model), LocalEngine(1), choices)

    with refused("src", "none"):
        run(tmp_path / "none")
    assert not target.exists(), "nothing was begun, so nothing is left"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        with refused("dst", "shard-000000.parquet", remedy="published shards are safe"):
            run(source)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not Store(target).shards()
    run(source)
    assert min(path.stat().st_size for path in Store(target).shards()) > size
    check_release(target, 40)


@pytest.fixture(scope="module")
def two_releases(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("releases")
    source = save_table(folder / "s.parquet", 60)
    for name in ("out", "other"):
        privatize(str(source), folder / name, tiny_codec(model), str(model), LocalEngine(1), Choices(shard_size=20))
    return folder


@pytest.mark.parametrize(
    "harm", ["flip", "missing", "more", "other run", "manifest ε", "manifest count", "manifest coding", "twice"]
)
def test_verify_refuses_damaged_and_forged_releases(
    harm: str, two_releases: Path, tmp_path: Path, run: Command
) -> None:
    for name in ("out", "other"):
        shutil.copytree(two_releases / name, tmp_path / name)
    target = tmp_path / "out"
    assert run("info", target, "--verify")[0] == EXIT_NOT_COMPARED
    first, second, third = Store(target).shards()
    manifest = json.loads((target / "manifest.json").read_text())
    match harm:
        case "flip":
            content = bytearray(first.read_bytes())
            content[60] ^= 1
            first.write_bytes(content)
        case "missing":
            second.unlink()
        case "more":
            third.with_name("shard-000003.parquet").write_bytes(third.read_bytes())
        case "other run":
            second.write_bytes((tmp_path / "other" / second.name).read_bytes())
            manifest["shards"][1]["sha256"] = sha256(second)
        case "twice":
            second.write_bytes(first.read_bytes())
            manifest["shards"][1]["sha256"] = sha256(second)
        case "manifest ε":
            manifest["certificate"]["epsilon"] /= 2
        case "manifest count":
            manifest["images"] += 1
        case "manifest coding":
            manifest["coding"] = "another"
    (target / "manifest.json").write_text(json.dumps(manifest))
    code, _, err = run("info", target, "--verify")
    assert code == 1
    assert err.startswith("dipp: ")
    assert len(err.strip().splitlines()) == 1
    if harm in ("flip", "missing"):
        with refused(f"shard-00000{int(harm == 'missing')}.parquet"):
            dipp.load(target, two_releases).labels()


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--engine", "slurm"), "engine"),
        (("--workers", 0), "workers"),
        (("--address", "auto"), "address"),
        (("--shard-size", 0), "shard-size"),
        (("--seed", "12"), "seed"),
        (("--split", "none"), "split"),
        (("--label-column", "x"), "label-column"),
    ],
)
def test_bad_options_are_refused(
    arguments: tuple[object, ...], word: str, model: Path, tmp_path: Path, run: Command
) -> None:
    """The error is one line that names the option, and nothing is left behind."""
    source = save_table(tmp_path / "s.parquet", 5)
    if word == "split":
        source = tmp_path / "saved"
        source.mkdir()
        (source / "dataset_dict.json").write_text('{"splits": ["x"]}')
    code, _, err = run("privatize", source, tmp_path / "out", *options(model, *arguments))
    assert code == 1
    assert err.strip().splitlines()[-1].startswith(printed(word))
    assert not (tmp_path / "out").exists()


PAGE = (DOCS / "release-a-dataset.md").read_text()


def test_the_worked_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commands and the code of the docs run on two classes of pictures that ε = 4 still tells apart."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(embedded.FOLDER, "MODEL")
    generator = np.random.default_rng(0)
    for name, level in {"night": 20, "noon": 235}.items():
        (tmp_path / "pets" / name).mkdir(parents=True)
        for number in range(30):
            picture = np.clip(level + generator.normal(0, 10, (8, 8, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(picture).save(tmp_path / "pets" / name / f"{number}.png")
    block = next(block for block in re.findall(r"```\n(.*?)```", PAGE, flags=re.S) if "dipp privatize pets" in block)
    for line in block.splitlines():
        monkeypatch.setattr(sys, "argv", [*line.split(), *(["--workers", "1"] if "privatize" in line else [])])
        with pytest.raises(SystemExit) as stop:
            main()
        assert stop.value.code == 0
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.S)
    torch.manual_seed(0)
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 - the page's own example
    assert "60 ('night', 'noon')" in capsys.readouterr().out
    assert names["accuracy"] > 0.9


def test_the_bar_shows_images_speed_and_bits_per_pixel(caplog: pytest.LogCaptureFixture) -> None:
    """Images that are encoded before their shard is published are not counted twice."""
    caplog.set_level("INFO", "dipp")
    screen = io.StringIO()
    bar, ticks = Bar(Console(file=screen, force_terminal=True, width=140)), itertools.count()
    bar.bar.get_time = lambda: float(next(ticks))  # each look takes a second, so there is a rate at any time
    with bar.bar:
        bar.start(100, 20)
        for _ in range(2):
            bar.encoded(30)
            skipped = (SkippedPosition(0, "0 bytes"),) * 5
            bar.released(
                Contents("s", 1, "", 35, 0, 40, skipped, pixels=35 * 64, smallest=64, payload_bits=35 * 64, grey=0)
            )
    shown = screen.getvalue()
    assert "going on: 20 of 100" in caplog.text
    assert "100/100" in shown
    assert "images/s, 1.0000 bpp" in shown
    assert bar.bar.tasks[0].completed == 100
