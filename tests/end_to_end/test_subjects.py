"""Subjects: the price of the worst one, how many pictures of each are released, and what reports say of it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.commands import Command
from helpers.datasets import pixels, save_folder, save_model, tiny_codec
from helpers.refusals import refused
from PIL import Image

from dipp.core.geometry import Geometry
from dipp.data import manifest, subjects
from dipp.data.choices import Choices, Conduct
from dipp.data.engines import LocalEngine
from dipp.data.privatize import privatize
from dipp.data.recording import recorded, restored
from dipp.data.sources import Columns, Source, open_source
from dipp.data.subjects import BySubject
from dipp.papers import writing
from dipp.papers.guarantee import OwnerDetails
from dipp.privacy.certificate import Certificate

PATIENTS = ("Ann", "Bob", "Ann", "Cleo", "Ann", "Bob", "Cleo", "Ann")
SIZES = ((8, 8), (8, 8), (8, 8), (12, 20), (8, 8), (8, 8), (8, 8), (8, 8))


def png(number: int, height: int, width: int) -> bytes:
    stream = io.BytesIO()
    picture = np.resize(pixels(1)[0] + number, (height, width, 3)).astype(np.uint8)
    Image.fromarray(picture).save(stream, "PNG")
    return stream.getvalue()


def save(path: Path, patients: tuple[Any, ...] = PATIENTS, **more: Any) -> Path:
    files = [png(number, *SIZES[number % len(SIZES)]) for number in range(len(patients))]
    pq.write_table(pa.table({"image": files, "patient": list(patients), **more}), path, row_group_size=3)
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("model"))


def released(table: Path, folder: Path, model: Path, **choices: Any) -> dict[str, Any]:
    wanted = Choices(shard_size=3, **choices)
    privatize(str(table), folder, tiny_codec(model), str(model), LocalEngine(1), wanted, Conduct())
    return manifest.verify(folder)


def by_subject(table: Path, scratch: Path, most: int | None = None, column: str = "patient") -> BySubject:
    return BySubject.of(open_source(str(table), Columns(labelled=False), scratch), column, most, scratch)


def test_a_subject_pays_for_all_its_pictures(model: Path, tmp_path: Path) -> None:
    """Cleo's two pictures have more pixels than Ann's four, so hers is the worst price, and not an average."""
    facts = released(save(tmp_path / "a.parquet"), tmp_path / "out", model, subject="patient")
    claim = Certificate.from_json(json.dumps(facts["certificate"]))
    own = [claim.for_picture(Geometry(*size, 3)) for size in ((12, 20), (8, 8))]
    found = facts["subjects"]
    assert found["worst"]["pictures"] == 2
    assert found["worst"]["epsilon"] == pytest.approx(sum(one.epsilon for one in own), rel=1e-9)
    assert found["worst"]["epsilon"] >= sum(one.epsilon for one in own)
    assert found["worst"]["rho"] == pytest.approx(sum(one.rho for one in own), rel=1e-9)
    assert (found["count"], found["column"], found["left_out"], found["most_per_subject"]) == (3, "patient", 0, None)
    assert facts["images"] == 8


def test_a_limit_keeps_the_first_pictures_of_each_subject(model: Path, tmp_path: Path) -> None:
    """The first ones in the order of the source; other pictures are neither read nor released."""
    table = save(tmp_path / "a.parquet")
    facts = released(table, tmp_path / "out", model, subject="patient", most_per_subject=1)
    assert facts["images"] == facts["positions"] == 3
    assert facts["subjects"]["left_out"] == 5
    assert facts["subjects"]["worst"]["pictures"] == 1
    assert facts["subjects"]["worst"]["epsilon"] == pytest.approx(facts["whole"]["epsilon"])
    assert not facts["skipped"]


def test_positions_are_numbered_anew(tmp_path: Path) -> None:
    """Records, names and restored records of a run agree with the inner source."""
    found = by_subject(save(tmp_path / "a.parquet"), tmp_path, 2)
    places = [0, 1, 2, 3, 5, 6]
    inner = list(found.inner.read(0, len(found.inner)))
    for source in (found, restored(json.loads(json.dumps(recorded(found))))):
        assert isinstance(source, Source)
        assert len(source) == 6
        records = list(source.read(0, 6))
        assert [record.position for record in records] == list(range(6))
        assert [record.content for record in records] == [inner[place_].content for place_ in places]
        assert [record.content for record in source.read(3, 5)] == [inner[place].content for place in (3, 5)]
        assert [source.name(number) for number in range(6)] == [found.inner.name(place_) for place_ in places]
    others = [by_subject(tmp_path / "a.parquet", tmp_path, most) for most in (None, 1)]
    assert len({one.fingerprint for one in (found, *others)}) == 3


def test_subjects_are_chosen_without_reading_pixels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dipp.data.tables.Tables.read", lambda *_: pytest.fail("a picture was read"))
    assert len(by_subject(save(tmp_path / "a.parquet"), tmp_path, 1)) == 3


def test_sub_folders_name_the_subjects_of_a_folder(tmp_path: Path) -> None:
    """Sub-folders are the subjects, for sources that are no table."""
    folder = save_folder(tmp_path / "pictures", 9, ("ann", "bob", "cleo"))
    found = by_subject(folder, tmp_path, 2, "label")
    assert (len(found), found.subjects) == (6, 3)
    with refused("subject", "patient"):
        by_subject(folder, tmp_path, column="patient")


@pytest.mark.parametrize(
    ("column", "words"), [("who", ("image, patient, age", "who")), ("age", ("whole numbers or text", "age"))]
)
def test_columns_that_cannot_name_subjects_are_refused(column: str, words: tuple[str, ...], tmp_path: Path) -> None:
    table = save(tmp_path / "a.parquet", age=[0.5] * 8)
    with refused("subject", *words):
        by_subject(table, tmp_path, column=column)


def test_every_picture_needs_a_subject(tmp_path: Path) -> None:
    with refused("subject", "a.parquet row 1", "patient"):
        by_subject(save(tmp_path / "a.parquet", ("Ann", None, "Bob")), tmp_path)


def test_numbers_and_text_are_different_subjects(tmp_path: Path) -> None:
    assert by_subject(save(tmp_path / "a.parquet", (1, 2, 1)), tmp_path).subjects == 2


def test_invalid_choices_about_subjects_are_refused(model: Path, tmp_path: Path) -> None:
    with refused("most-per-subject", "--subject"):
        Choices(most_per_subject=2)
    with refused("most-per-subject", "1"):
        Choices(subject="patient", most_per_subject=0)
    table = save(tmp_path / "a.parquet")
    with refused("subject", ".dipp"):
        released(table, tmp_path / "one.dipp", model, subject="patient")


def test_an_interrupted_run_keeps_its_subjects(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, folder = save(tmp_path / "a.parquet"), tmp_path / "out"
    with monkeypatch.context() as patched:
        patched.setattr("dipp.data.store.Store.finish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            released(table, folder, model, subject="patient", most_per_subject=1)
    with refused("dst", "source", "subject"):
        released(table, folder, model, subject="patient", most_per_subject=2)
    facts = released(table, folder, model, subject="patient", most_per_subject=1)
    assert facts["subjects"]["count"] == facts["images"] == 3


@pytest.mark.parametrize(
    "change",
    [
        {"count": 0},
        {"count": 9},
        {"worst": {"pictures": 0, "epsilon": 1e6, "rho": 1e6}},
        {"worst": {"pictures": 8, "epsilon": 1e6, "rho": 1e6}},
        {"worst": {"pictures": 2, "epsilon": 0.1, "rho": 1e6}},
        {"worst": {"pictures": 2, "epsilon": 1e9, "rho": 1e6}},
        {"worst": {"pictures": 2}},
        {"most_per_subject": 1},
        {"worst": None},
    ],
)
def test_a_stated_price_that_contradicts_the_shards_is_refused(
    change: dict[str, Any], model: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    facts = released(save(tmp_path / "a.parquet"), folder, model, subject="patient")
    stated = json.loads((folder / "manifest.json").read_text())
    assert subjects.checked(stated["subjects"], facts) == facts["subjects"]
    stated["subjects"] |= change
    (folder / "manifest.json").write_text(json.dumps(stated))
    with refused(folder):
        manifest.verify(folder)


def test_reports_and_papers_state_the_price_of_a_subject(model: Path, tmp_path: Path, run: Command) -> None:
    folder = tmp_path / "out"
    facts = released(save(tmp_path / "a.parquet"), folder, model, subject="patient", most_per_subject=3)
    told = subjects.words(facts["subjects"])
    assert told.startswith("3 by the column patient, at most 3 pictures of each (1 left out); the worst has 2 pictures")
    assert "Bystanders are not counted" in told
    code, out, _ = run("info", folder)
    assert code == 0
    assert f"subjects     {told}\n" in out
    writing.write(folder, OwnerDetails(), overwrite=True)
    assert f"| subjects | {told} |" in (folder / "README.md").read_text()
    assert told in (folder / "croissant.json").read_text()
    plain = released(tmp_path / "a.parquet", tmp_path / "plain", model)
    assert plain["subjects"] is None
    assert "subjects " not in run("info", tmp_path / "plain")[1]
