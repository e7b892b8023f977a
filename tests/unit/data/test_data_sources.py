"""Sources: any range equals that part of a full reading; bad pictures get a problem, and do not end a run."""

from __future__ import annotations

import importlib
import io
import json
import os
import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.datasets import pixels, save_folder
from helpers.refusals import refused
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dipp.codec.pictures import read_picture
from dipp.core.window import FULL
from dipp.data.hub import open_hub
from dipp.data.listing import AGAIN
from dipp.data.recording import recorded, restored
from dipp.data.repeats import Register
from dipp.data.sources import CHANGED, MAX_FILE_BYTES, Columns, Labels, Source, SourcePicture, open_source
from dipp.data.states import State, machine, same
from dipp.models.denoiser import MAX_PICTURE

COUNT = 150
datasets: Any = importlib.import_module("datasets")  # benchmarks/ has a module of that name


def png(picture: np.ndarray[Any, Any]) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(picture).save(stream, "PNG")
    return stream.getvalue()


def make_folder(root: Path) -> tuple[Path, Labels | None]:
    return save_folder(root / "folder", COUNT), Labels(names=("cat", "dog"))


def make_cifar(root: Path) -> tuple[Path, Labels | None]:
    folder = root / "cifar-10-batches-py"
    folder.mkdir()
    (folder / "batches.meta").write_bytes(pickle.dumps({b"label_names": [b"plane", b"car"]}))
    data = pixels(COUNT, 32).transpose(0, 3, 1, 2).reshape(COUNT, -1)
    for number, part in enumerate(np.array_split(np.arange(COUNT), 5), 1):
        batch = {b"data": data[part], b"labels": [int(i) % 2 for i in part]}
        (folder / f"data_batch_{number}").write_bytes(pickle.dumps(batch))
    (folder / "test_batch").write_bytes(pickle.dumps({b"data": data[:7], b"labels": [1] * 7}))
    return root, Labels(names=("plane", "car"))


def table(kind: str) -> pa.Table:
    files = [png(picture) for picture in pixels(COUNT)]
    if kind == "bytes":
        return pa.table({"picture": files, "label": [f"label {i % 2}" for i in range(COUNT)], "who": ["Ann"] * COUNT})
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["no", "yes"])})
    rows = {"image": [{"bytes": file, "path": "x.png"} for file in files], "label": [i % 2 for i in range(COUNT)]}
    return pa.Table.from_pydict(rows, features.arrow_schema)


def make_parquet(root: Path) -> tuple[Path, Labels | None]:
    folder = root / "parquet"
    folder.mkdir()
    whole = table("huggingface")
    for number, (low, high) in enumerate(((0, 70), (70, 71), (71, COUNT))):
        pq.write_table(whole.slice(low, high - low), folder / f"part-{number}.parquet", row_group_size=16)
    return folder, Labels(names=("no", "yes"))


def make_parquet_of_bytes(root: Path) -> tuple[Path, Labels | None]:
    pq.write_table(table("bytes"), root / "one.parquet", row_group_size=100)
    return root / "one.parquet", Labels(text=True)


def make_saved(root: Path) -> tuple[Path, Labels | None]:
    data = datasets.Dataset(table("huggingface"))
    datasets.DatasetDict({"train": data, "test": data.select(range(3))}).save_to_disk(str(root / "saved"))
    return root / "saved", Labels(names=("no", "yes"))


def make_tars(root: Path) -> tuple[Path, Labels | None]:
    folder = root / "tars"
    folder.mkdir()
    for number, part in enumerate(np.array_split(np.arange(COUNT), 3)):
        with tarfile.open(folder / f"{number}.tar", "w") as tar:
            for i in part.tolist():
                members = {"png": png(pixels(COUNT)[i]), "cls": str(i % 2).encode(), "json": b'{"who": "Ann"}'}
                for suffix, content in members.items():
                    info = tarfile.TarInfo(f"set/sample-{i:05d}.{suffix}")
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))
    return folder, Labels()


MAKERS = {
    "folder": make_folder,
    "cifar": make_cifar,
    "parquet": make_parquet,
    "parquet of bytes": make_parquet_of_bytes,
    "saved": make_saved,
    "tars": make_tars,
}


@pytest.fixture(scope="module", params=MAKERS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Labels | None]:
    return MAKERS[request.param](tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def source(made: tuple[Path, Labels | None], tmp_path_factory: pytest.TempPathFactory) -> Source:
    return open_source(str(made[0]), Columns(), tmp_path_factory.mktemp("scratch"))


def decoded(record: SourcePicture) -> np.ndarray[Any, Any]:
    assert record.content is not None
    return np.asarray(Image.open(io.BytesIO(record.content))) if isinstance(record.content, bytes) else record.content


def test_every_picture_comes_once_with_its_label(source: Source, made: tuple[Path, Labels | None]) -> None:
    records = list(source.read(0, len(source)))
    assert [record.position for record in records] == list(range(COUNT))
    assert not any(record.problem for record in records)
    assert source.labels == made[1]
    expected = pixels(COUNT, 32 if "cifar" in type(source).__name__.lower() else 8)
    # A folder is read class by class; in all other sources the classes alternate.
    order = sorted(range(COUNT), key=lambda i: i % 2) if made[0].name == "folder" else range(COUNT)
    for record, i in zip(records, order, strict=True):
        assert (decoded(record) == expected[i]).all()
        assert record.label == (f"label {i % 2}" if made[0].name == "one.parquet" else i % 2)


@given(data=st.data())
def test_any_range_equals_that_part_of_a_full_reading(source: Source, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(source) - 1))
    stop = data.draw(st.integers(start, len(source)))
    part = list(source.read(start, stop))
    assert [record.position for record in part] == list(range(start, stop))
    for record in part[:: max(1, len(part) // 4)]:
        (alone,) = source.read(record.position, record.position + 1)
        assert (decoded(alone) == decoded(record)).all()
        assert alone.label == record.label


def test_a_source_pickles_to_few_bytes_and_keeps_its_fingerprint(
    source: Source, made: tuple[Path, Labels | None], tmp_path: Path
) -> None:
    assert len(pickle.dumps(source)) < 2000
    again = pickle.loads(pickle.dumps(source))  # noqa: S301 - made here
    assert next(iter(again.read(5, 6))).label == next(iter(source.read(5, 6))).label
    reopened = open_source(str(made[0]), Columns(), tmp_path)
    assert reopened.fingerprint == source.fingerprint
    assert source.name(3)


def test_a_changed_source_has_another_fingerprint(tmp_path: Path) -> None:
    folder, _ = make_folder(tmp_path)
    before = open_source(str(folder), Columns(), tmp_path).fingerprint
    (folder / "cat" / "another.png").write_bytes(png(pixels(1)[0]))
    assert open_source(str(folder), Columns(), tmp_path).fingerprint != before


@pytest.mark.parametrize("kind", MAKERS)
def test_files_that_change_during_a_run_are_not_read(kind: str, tmp_path: Path) -> None:
    """Rows that have moved would be released twice, so every picture of a changed file gets a problem."""
    scratch, root = tmp_path / "scratch", tmp_path / "source"
    scratch.mkdir()
    root.mkdir()
    path, _ = MAKERS[kind](root)
    source = open_source(str(path), Columns(), scratch)
    assert not any(record.problem for record in source.read(0, COUNT))
    holds = (".png", ".tar", ".parquet", ".arrow")
    file = max(path for path in root.rglob("*") if path.suffix in holds or path.name.startswith("data_batch_"))
    times = file.stat()
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns + 1))
    for opened in (source, pickle.loads(pickle.dumps(source))):  # noqa: S301 - made here
        records = list(opened.read(0, COUNT))
        assert [record.position for record in records] == list(range(COUNT))
        told = [record for record in records if record.problem]
        assert told
        assert all(record.content is None and record.problem == CHANGED for record in told)


@pytest.mark.parametrize("kind", MAKERS)
def test_a_replaced_file_of_equal_size_and_time_is_not_read(kind: str, tmp_path: Path) -> None:
    """This holds for content that is replaced in place or by another file, and for a restored source as well."""
    scratch, root = tmp_path / "scratch", tmp_path / "source"
    scratch.mkdir()
    root.mkdir()
    path, _ = MAKERS[kind](root)
    holds = (".png", ".tar", ".parquet", ".arrow")
    file = max(path for path in root.rglob("*") if path.suffix in holds or path.name.startswith("data_batch_"))
    for by_rename in (False, True):
        source = open_source(str(path), Columns(), scratch)
        again = restored(json.loads(json.dumps(recorded(source))))
        for opened in (source, again):
            assert not any(record.problem for record in opened.read(0, COUNT))
        content, times = file.read_bytes(), file.stat()
        copy = file.with_name(".copy")
        (copy if by_rename else file).write_bytes(content)
        os.utime(copy if by_rename else file, ns=(times.st_atime_ns, times.st_mtime_ns))
        if by_rename:
            copy.rename(file)
        assert open_source(str(path), Columns(), scratch).fingerprint == source.fingerprint
        for opened in (source, again):
            assert {record.problem for record in opened.read(0, COUNT)} >= {CHANGED}


def test_devices_are_compared_on_one_machine_only() -> None:
    before = State(1, 2, 3, 4, 5)
    assert same(before, before, machine())
    assert not same(before, before._replace(device=9), machine())
    assert same(before, before._replace(device=9), "another")
    for name in State._fields[1:]:
        for where in (machine(), "another"):
            assert not same(before, before._replace(**{name: 9}), where)
    assert not same(before, None, machine())


def test_a_link_does_not_release_a_picture_twice(tmp_path: Path) -> None:
    folder, _ = make_folder(tmp_path)
    link, other = folder / "cat" / "link.png", folder / "again"
    link.symlink_to(next(path for path in (folder / "cat").iterdir()))
    (folder / ".annex").mkdir()
    (folder / ".annex" / "blob").write_bytes(png(pixels(1)[0]))
    (folder / "cat" / "annexed.png").symlink_to(folder / ".annex" / "blob")
    source = open_source(str(folder), Columns(), tmp_path)
    problems = {source.name(record.position): record.problem for record in source.read(0, len(source))}
    assert {name for name, problem in problems.items() if problem} == {"cat/link.png"}
    assert len(problems) == COUNT + 2
    other.symlink_to("cat")
    with refused("src", "twice"):
        open_source(str(folder), Columns(), tmp_path)
    other.unlink()
    outside = tmp_path / "outside"
    outside.mkdir()
    other.symlink_to(outside)
    assert len(open_source(str(folder), Columns(), tmp_path)) == COUNT + 2
    (folder / "third").symlink_to(outside)
    with refused("src", "third"):
        open_source(str(folder), Columns(), tmp_path)


def test_a_link_to_itself_is_skipped(tmp_path: Path) -> None:
    """Links to themselves, or in a circle of two, get a problem, and all other pictures are read."""
    folder, _ = make_folder(tmp_path)
    loops = ("loop.png", "cat/loop", "cat/one", "cat/two")
    for name in loops[:2]:
        (folder / name).symlink_to(folder / name)
    (folder / "cat" / "one").symlink_to(folder / "cat" / "two")
    (folder / "cat" / "two").symlink_to(folder / "cat" / "one")
    problems = problems_of(folder, tmp_path)
    assert set(problems) == set(loops)
    assert all(problem.startswith("is not a file that can be found (") for problem in problems.values())
    assert len(open_source(str(folder), Columns(), tmp_path)) == COUNT + 4


@pytest.mark.parametrize("target", [".", "dog/..", "..", "../.."])
def test_a_link_back_to_the_source_is_skipped(tmp_path: Path, target: str) -> None:
    """A link to a folder that contains it gets a problem, and all other pictures are read."""
    folder, _ = make_folder(tmp_path)
    (folder / "again").symlink_to(target)
    assert set(problems_of(folder, tmp_path)) == {"again"}
    assert len(open_source(str(folder), Columns(), tmp_path)) == COUNT + 1


def problems_of(path: Path, scratch: Path) -> dict[str, str]:
    """Return the problem of each bad picture, by its name."""
    source = open_source(str(path), Columns(), scratch)
    problems = {source.name(record.position): record.problem for record in source.read(0, len(source))}
    return {name: problem for name, problem in problems.items() if problem}


def test_a_hard_link_does_not_release_a_picture_twice(tmp_path: Path) -> None:
    folder, _ = make_folder(tmp_path)
    before = open_source(str(folder), Columns(), tmp_path).fingerprint
    first, second = sorted((folder / "cat").iterdir())[:2]
    (folder / "dog" / "again.png").hardlink_to(first)
    (folder / "dog" / "zzz.png").hardlink_to(second)
    assert problems_of(folder, tmp_path) == {"dog/again.png": AGAIN, "dog/zzz.png": AGAIN}
    assert len(list(tmp_path.glob("listing-*"))) == 2, "one listing for each source"
    assert open_source(str(folder), Columns(), tmp_path).fingerprint != before


def test_two_links_to_a_file_outside_do_not_release_it_twice(tmp_path: Path) -> None:
    """The targets of both links are outside of the source."""
    folder, _ = make_folder(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "one.png").write_bytes(png(pixels(1)[0]))
    (outside / "two.png").write_bytes(png(pixels(2)[1]))
    (folder / "cat" / "one.png").symlink_to(outside / "one.png")
    (folder / "cat" / "two.png").symlink_to(outside / "two.png")
    (folder / "dog" / "two again.png").symlink_to(outside / "two.png")
    (folder / "zebra").symlink_to(outside)
    assert problems_of(folder, tmp_path) == dict.fromkeys(
        ("dog/two again.png", "zebra/one.png", "zebra/two.png"), AGAIN
    )


@pytest.mark.parametrize("link", ["hard", "symbolic"])
@pytest.mark.parametrize(
    ("kind", "pattern"),
    [("parquet", "*.parquet"), ("tars", "*.tar"), ("cifar", "*/data_batch_*"), ("saved", "train/*.arrow")],
)
def test_a_second_name_of_a_file_of_many_pictures_is_refused(
    kind: str, pattern: str, link: str, tmp_path: Path
) -> None:
    root = tmp_path / "source"
    root.mkdir()
    path, _ = MAKERS[kind](root)
    first, *others = sorted(path.glob(pattern))
    second = others[0] if kind == "cifar" else first.with_stem(f"{first.stem}-again")
    second.unlink(missing_ok=True)
    if link == "hard":
        second.hardlink_to(first)
    else:
        second.symlink_to(first)
    if kind == "saved":
        state = path / "train" / "state.json"
        facts = json.loads(state.read_text())
        facts["_data_files"].append({"filename": second.name})
        state.write_text(json.dumps(facts))
    with refused("src", first.name, second.name, "one file"):
        open_source(str(path), Columns(), tmp_path)


def test_a_table_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    path, _ = make_saved(tmp_path)
    state = path / "train" / "state.json"
    facts = json.loads(state.read_text())
    facts["_data_files"] *= 2
    state.write_text(json.dumps(facts))
    with refused("src", "named"):
        open_source(str(path), Columns(), tmp_path)


def test_a_member_that_was_appended_again_is_released_once(tmp_path: Path) -> None:
    """A member of the same name in another tar is another picture."""
    folder, _ = make_tars(tmp_path)
    for number in (0, 1):
        with tarfile.open(folder / f"{number}.tar", "a") as tar:
            for name in ("set/sample-00003.png", "./set//sample-00004.png", "/set/sample-00005.png", "set/other.png"):
                content = png(pixels(COUNT)[3])
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    problems = problems_of(folder, tmp_path)
    names = ("set/sample-00003.png", "./set//sample-00004.png", "/set/sample-00005.png")
    assert problems == {f"0.tar: {name}": AGAIN for name in names}
    source = open_source(str(folder), Columns(), tmp_path)
    assert len(source) == COUNT + 8
    bad = [record for record in source.read(0, len(source)) if record.problem]
    assert [record.position for record in bad] == [50, 51, 52], "the first of a name is the picture"
    assert all(record.content is None for record in bad)


@given(st.lists(st.none() | st.tuples(st.integers(0, 2), st.integers(0, 3))))
def test_the_register_names_all_repetitions(known: list[tuple[int, int] | None]) -> None:
    register = Register()
    for identity in known:
        register.add(identity)
    assert register.later() == [i for i, identity in enumerate(known) if identity is not None and identity in known[:i]]


def test_the_name_of_a_link_decides_its_format(tmp_path: Path) -> None:
    """The target may have no suffix, as the blobs in the hub's cache."""
    path, labels = make_parquet_of_bytes(tmp_path)
    path.rename(tmp_path / "blob")
    path.symlink_to(tmp_path / "blob")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "one.parquet").symlink_to(tmp_path / "blob")
    for named in (path, tmp_path / "folder"):
        assert open_source(str(named), Columns(), tmp_path).labels == labels


def test_the_parquet_files_of_a_hub_id_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub is out of reach in tests, so a folder takes the place of the dataset."""
    folder, labels = make_parquet(tmp_path)
    (folder / "part-0.parquet").rename(folder / "train-0.parquet")
    monkeypatch.chdir(tmp_path)
    source = open_hub(f"./{folder.name}", Columns())
    assert source.labels == labels
    assert len(source) == 70
    with refused("split"):
        open_hub(f"./{folder.name}", Columns(split="validation"))


def test_splits_of_saved_datasets_and_cifar_are_read(tmp_path: Path) -> None:
    saved, _ = make_saved(tmp_path)
    assert len(open_source(str(saved), Columns(split="test"), tmp_path)) == 3
    cifar, _ = make_cifar(tmp_path)
    assert len(open_source(str(cifar), Columns(split="test"), tmp_path)) == 7
    for path in (saved, cifar):
        with refused("split"):
            open_source(str(path), Columns(split="all"), tmp_path)
    assert len(open_source(str(saved), Columns(), tmp_path)) == len(open_source(str(cifar), Columns(), tmp_path)) == 150


def test_a_split_of_tables_selects_the_files_of_its_name(tmp_path: Path) -> None:
    """A split is never ignored, because all pictures would be released."""
    rows = pa.table({"image": [png(picture) for picture in pixels(5)]})
    for name, count in (("train-00000-of-00002", 1), ("train-00001-of-00002", 2), ("train-more", 5), ("test", 1)):
        pq.write_table(rows.slice(0, count), tmp_path / f"{name}.parquet")
    for split, count in ((None, 9), ("train", 3), ("test", 1)):
        assert len(open_source(str(tmp_path), Columns(split=split), tmp_path)) == count
    for path in (tmp_path, tmp_path / "test.parquet"):
        for split in ("nonsense", "t...", ""):
            with refused("split", remedy="--split"):
                open_source(str(path), Columns(split=split), tmp_path)


def test_splits_and_columns_that_a_source_cannot_have_are_refused(tmp_path: Path) -> None:
    (folder, _), (tars, _) = make_folder(tmp_path), make_tars(tmp_path)
    datasets.Dataset(table("huggingface")).save_to_disk(str(tmp_path / "one"))
    for path in (folder, tars, tmp_path / "one"):
        with refused("split", remedy="--split"):
            open_source(str(path), Columns(split="train"), tmp_path)
    with refused("split", remedy="/folder/cat"):
        open_source(str(folder), Columns(split="cat"), tmp_path)
    (cifar, _) = make_cifar(tmp_path)
    for path in (folder, tars, cifar):
        for columns, option in ((Columns(image="x"), "image-column"), (Columns(label="x"), "label-column")):
            with refused(option, "table"):
                open_source(str(path), columns, tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"splits": 5}', '{"splits": [5]}', "[" * 100_000], ids=range(6))
def test_a_damaged_list_of_splits_is_refused(text: str, tmp_path: Path) -> None:
    saved, _ = make_saved(tmp_path)
    (saved / "dataset_dict.json").write_text(text)
    with refused("src", "dataset_dict.json"):
        open_source(str(saved), Columns(), tmp_path)


def test_metadata_that_nests_too_deep_loses_only_the_class_names(tmp_path: Path) -> None:
    made = pa.table({"image": [png(pixels(1)[0])], "label": [0]})
    pq.write_table(made.replace_schema_metadata({"huggingface": "[" * 100_000}), tmp_path / "t.parquet")
    assert open_source(str(tmp_path / "t.parquet"), Columns(), tmp_path).labels == Labels()


def test_bad_files_get_a_problem(tmp_path: Path) -> None:
    folder = tmp_path / "bad"
    folder.mkdir()
    (folder / "a.png").write_bytes(b"")
    (folder / "b.png").symlink_to(folder / "nowhere")
    (folder / "c.png").write_bytes(png(pixels(1)[0]))
    (folder / "d.png").write_bytes(b"")
    with (folder / "d.png").open("r+b") as file:
        file.truncate(1 << 31)  # takes no room on the disk
    (folder / "e.png").write_bytes(b"x")
    (folder / "f\x1b[2J\n.png").write_bytes(b"x")
    source = open_source(str(folder), Columns(), tmp_path)
    assert source.name(5) == "f?[2J?.png"
    (folder / "e.png").unlink()
    problems = [record.problem for record in source.read(0, len(source))]
    assert source.labels is None
    assert "0 bytes" in problems[0]
    assert "not a file" in problems[1]
    assert problems[2] == ""
    assert "MiB" in problems[3]
    assert "cannot be opened" in problems[4]
    assert not any("png" in problem or str(tmp_path) in problem for problem in problems), "a reason tells a name"


def test_no_pixel_makes_a_file_too_large() -> None:
    """The largest file of a picture is a plain PPM of bright pixels; dark pixels take a third of that."""
    content = b"P3 64 64 65535\n" + b"65535 " * (3 * 64 * 64)
    assert read_picture(content, 3, FULL).pixels.min() == 255
    assert len(content) / (64 * 64) < MAX_FILE_BYTES / MAX_PICTURE


def test_rows_without_bytes_get_a_problem(tmp_path: Path) -> None:
    files = [png(pixels(1)[0]), None, b""]
    pq.write_table(pa.table({"image": files}), tmp_path / "some.parquet")
    source = open_source(str(tmp_path / "some.parquet"), Columns(), tmp_path)
    assert [bool(record.problem) for record in source.read(0, 3)] == [False, True, True]


def test_only_the_rows_of_a_damaged_page_get_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "some.parquet"
    options: Any = {"row_group_size": 50, "compression": "gzip", "write_page_checksum": True}
    pq.write_table(table("bytes"), path, **options)
    chunk = pq.ParquetFile(path).metadata.row_group(1).column(0)
    content = bytearray(path.read_bytes())
    middle = chunk.data_page_offset + chunk.total_compressed_size // 2
    content[middle : middle + 64] = bytes(64)
    path.write_bytes(content)
    source = open_source(str(path), Columns(), tmp_path)
    records = list(source.read(0, COUNT))
    assert [record.position for record in records] == list(range(COUNT))
    assert not any(record.problem for record in records[:50])
    assert any(record.problem for record in records[50:100])


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (pa.array(["a", None, "b"]).dictionary_encode(), ["a", None, "b"]),
        (pa.array(["a", None, "b"], pa.string_view()), ["a", None, "b"]),
        (pa.array([True, None, False]), [1, None, 0]),
        (pa.array([None] * 3), [None] * 3),
        (pa.array([-5, None, 7], pa.int8()), [-5, None, 7]),
        (pa.array([5, None, (1 << 64) - 1], pa.uint64()), [5, None, "63 bits"]),
        (pa.array([1.0, None, 2.0]), "label-column"),
    ],
    ids=["categories", "views", "truths", "nothing", "small", "large", "floats"],
)
def test_labels_of_all_types_are_read_or_refused(labels: Any, expected: Any, tmp_path: Path) -> None:
    """Whole numbers and text of any storage type are read; a column of another type may be left out."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"my.image ✓": pa.array([png(pixels(1)[0])] * 3, pa.binary_view()), "label": labels}), path)
    unread = open_source(str(path), Columns(labelled=False), tmp_path)
    assert unread.labels == Labels()  # there are some
    assert [record.label for record in unread.read(0, 3)] == [None] * 3
    if expected == "label-column":
        with refused("label-column", remedy="--drop-labels"):
            open_source(str(path), Columns(), tmp_path)
        return
    source = open_source(str(path), Columns(), tmp_path)
    assert [record.problem[-7:] or record.label for record in source.read(0, 3)] == expected


def test_columns_with_the_same_name_are_refused(tmp_path: Path) -> None:
    file = png(pixels(1)[0])
    twice = pa.Table.from_arrays([pa.array([file]), pa.array([1]), pa.array([2])], names=["image", "label", "label"])
    pq.write_table(twice, tmp_path / "t.parquet")
    with refused("src", "several"):
        open_source(str(tmp_path / "t.parquet"), Columns(), tmp_path)
    pq.write_table(pa.table({"image": [file], "image.thumbnail": [b""], "label": [1]}), tmp_path / "t.parquet")
    (record,) = open_source(str(tmp_path / "t.parquet"), Columns(), tmp_path).read(0, 1)
    assert record.content == file, "among several columns, the column called image is read"


@pytest.mark.parametrize(
    ("columns", "word"),
    [
        (Columns(image="who"), "image-column"),
        (Columns(image="one", label="nobody"), "label-column"),
        (Columns(image="one", label="where"), "label-column"),
        (Columns(), "image-column"),
    ],
)
def test_columns_that_are_unknown_or_ambiguous_are_refused(columns: Columns, word: str, tmp_path: Path) -> None:
    file = png(pixels(1)[0])
    content = {"one": [file], "two": [file], "who": ["Ann"], "where": [[1.0, 2.0]]}
    pq.write_table(pa.table(content), tmp_path / "t.parquet")
    path = str(tmp_path / "t.parquet")
    with refused(word):
        open_source(path, columns, tmp_path)
    assert open_source(path, Columns(image="two", label="who"), tmp_path).labels == Labels(text=True)


class EvilPickle:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("this must not run",)


def test_a_pickle_cannot_run_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, _ = make_cifar(tmp_path)
    (tmp_path / "cifar-10-batches-py" / "data_batch_3").write_bytes(
        pickle.dumps({b"data": EvilPickle(), b"labels": [1]})
    )
    with refused("src", "data_batch_3"):
        open_source(str(path), Columns(), tmp_path)
    assert "must not run" not in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["empty", "text", "zip", "cut tar", "gzip tar", "no parquet", "bad saved"])
def test_files_that_are_no_source_are_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "place"
    match kind:
        case "empty":
            path.mkdir()
        case "text":
            path = tmp_path / "a.txt"
            path.write_text("hello")
        case "zip":
            path = tmp_path / "a.tar.gz"
            path.write_bytes(b"PK")
        case "cut tar":
            folder, _ = make_tars(tmp_path)
            path = folder / "0.tar"
            path.write_bytes(path.read_bytes()[:1000])
        case "gzip tar":
            path = tmp_path / "a.tar"
            with tarfile.open(path, "w:gz"):
                pass
        case "no parquet":
            path = tmp_path / "a.parquet"
            path.write_bytes(b"PAR1 and nothing more")
        case "bad saved":
            path.mkdir()
            (path / "state.json").write_text(json.dumps({}))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with refused("src", remedy="unpack it first" if kind == "zip" else ""):
        open_source(str(path), Columns(), scratch)
