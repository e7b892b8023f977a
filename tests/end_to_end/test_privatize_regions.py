"""`dipp privatize --regions` turns a folder, tar shards or a table into redacted pictures with their records."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.commands import Command
from helpers.killer import Killer
from helpers.redaction import BOX, inside, opened, saved, scene
from helpers.refusals import refused
from PIL import Image

import dipp
from dipp.data import redacted
from dipp.data.choices import Choices, Conduct
from dipp.data.engines import LocalEngine, RayEngine
from dipp.data.folder import PICTURES, RUN
from dipp.data.privatize import carry_out
from dipp.data.redacting import RedactionPurpose
from dipp.data.store import Store
from dipp.odometer import Meter, Odometer
from dipp.redaction import Record, Redactor, check
from dipp.redaction.record import beside

pytestmark = pytest.mark.usefixtures("one_thread")

FILES = {"street/a.jpg": "JPEG", "street/b.png": "PNG", "park/c.tif": "TIFF", "park/d.webp": "WEBP", "e.jpg": "JPEG"}


def folder(root: Path, seed: int | None = None) -> Path:
    """Write a folder of pictures in several formats; a seed changes the content of every box."""
    for number, (name, kind) in enumerate(FILES.items()):
        pixels = scene(number)
        if seed is not None:
            mask = inside(pixels.shape)
            pixels[mask] = np.random.default_rng(seed).integers(0, 256, (int(mask.sum()), 3))
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(saved(pixels, kind, **({"lossless": True} if kind == "WEBP" else {})))
    return root


def regions(path: Path, *names: str, **more: Any) -> Path:
    """Write a file that declares two regions, `BOX` and a small box, for each name."""
    boxes = [{"kind": "face", "id": "anna", "box": list(BOX)}, {"kind": "plate", "box": [5, 60, 9, 8]}]
    pictures = [{"name": name, "regions": boxes, **more} for name in names or FILES]
    path.write_text(json.dumps({"format": "dipp regions", "version": 1, "pictures": pictures}))
    return path


def contents(release: Path) -> dict[str, bytes]:
    """Return every file of a release except the card, which has a date."""
    files = (path for path in release.rglob("*") if path.is_file() and path.name != "README.md")
    return {path.relative_to(release).as_posix(): path.read_bytes() for path in files}


def test_a_folder_is_redacted(tmp_path: Path, run: Command) -> None:
    source, target = folder(tmp_path / "in"), tmp_path / "out"
    (source / "notes.txt").write_text("no picture")
    code, out, err = run(
        "privatize",
        source,
        target,
        "--regions",
        regions(tmp_path / "r.json"),
        "--fill",
        "grey",
        "--workers",
        1,
        "--json",
    )
    assert code == 3, err
    facts = json.loads(out)
    assert (facts["images"], facts["kinds"]) == (5, {"face": 5, "plate": 5})
    assert [entry["position"] for entry in facts["skipped"]] == [1]
    assert {path.name for path in target.iterdir()} == {"README.md", "manifest.json", "pictures", "shard-000000.json"}
    for name in FILES:
        before, after = opened((source / name).read_bytes()), opened((target / PICTURES / name).read_bytes())
        mask = np.zeros(before.shape[:2], bool)
        mask[16:48, 32:80] = mask[56:80, 0:16] = True  # whole MCUs of a JPEG
        if not name.endswith(".jpg"):
            assert np.abs(before.astype(int) - after)[~mask].max() <= 1
        assert not np.array_equal(before, after)
        alone = dipp.redact(source / name, regions=tmp_path / "r.json", fill="grey", odometer=False)
        assert (target / PICTURES / name).read_bytes() == alone.content
        assert check(target / PICTURES / name, Record.read(beside(target / PICTURES / name))).regions == 2
    claim = json.loads((target / "manifest.json").read_text())["certificate"]
    assert claim["unit"] == {"kind": "region", "regions": 10, "units": 10}
    assert (claim["epsilon"], claim["outside"]) == (0.0, "released as it was")
    card = (target / "README.md").read_text()
    for words in ("ε = 0: nothing of them was read", "released as it was", "position, size, kind and number", "5 face"):
        assert words in card
    code, out, err = run("check", target)
    assert code == 0, err
    assert "5 pictures" in out


def test_regions_that_kinds_leaves_visible_are_named(tmp_path: Path, run: Command) -> None:
    """Regions of pictures that were skipped are not counted: nothing of those pictures is released."""
    source = folder(tmp_path / "in")
    (source / "e.jpg").write_bytes(b"no picture")
    arguments = ("--regions", regions(tmp_path / "r.json"), "--fill", "grey", "--workers", 1, "--no-odometer")
    code, out, err = run("privatize", source, tmp_path / "out", *arguments, "--kinds", "face,plates")
    assert code == 3, err
    assert "\nnot hidden, by --kinds: 4 plate\n" in out
    code, out, _ = run("privatize", source, tmp_path / "both", *arguments, "--kinds", "face,plate")
    assert code == 3
    assert "--kinds" not in out


def test_the_content_of_regions_changes_no_byte_of_the_release(tmp_path: Path) -> None:
    releases = []
    for seed in (None, 1, 2):
        source, target = folder(tmp_path / f"in{seed}", seed), tmp_path / f"out{seed}"
        declared = regions(tmp_path / "r.json")
        dipp.privatize(source, target, regions=declared, margin=1, workers=1, odometer=False, progress=False)
        releases.append(contents(target))
    assert releases[0] == releases[1] == releases[2]
    assert len(releases[0]) == 2 * len(FILES) + 2


def test_tar_shards_are_redacted_with_their_labels(tmp_path: Path, run: Command) -> None:
    source = folder(tmp_path / "in")
    with tarfile.open(tmp_path / "s.tar", "w") as tar:
        for number, name in enumerate(FILES):
            tar.add(source / name, name)
            label = tmp_path / "label"
            label.write_text(str(number))
            tar.add(label, str(Path(name).with_suffix(".cls")))
    target = tmp_path / "out"
    code, _, err = run(
        "privatize", tmp_path / "s.tar", target, "--regions", regions(tmp_path / "r.json"), "--fill", "black"
    )
    assert code == 0, err
    listing = redacted.Listing.read(target / "shard-000000.json")
    assert [(picture.name, picture.label) for picture in listing.pictures] == [
        (f"s/{name}", n) for n, name in enumerate(FILES)
    ]
    assert redacted.verify(target)["images"] == 5


def test_names_that_lead_out_of_the_folder_or_repeat_are_skipped(tmp_path: Path) -> None:
    content = tmp_path / "x.png"
    content.write_bytes(saved(scene(), "PNG"))
    with tarfile.open(tmp_path / "s.tar", "w") as tar:
        for name in ("../up.png", "a.png", "A.png", "b.png"):
            tar.add(content, name)
    declared = regions(tmp_path / "r.json", "up.png", "a.png", "A.png", "b.png")
    release = dipp.privatize(
        tmp_path / "s.tar", tmp_path / "out", regions=declared, fill="grey", odometer=False, progress=False
    )
    assert [(skipped[0], skipped[1]) for skipped in release.skipped] == [
        (0, "has a name that leads out of the folder"),
        (2, "has the name of another picture of the release"),
    ]
    names = {path.name for path in (tmp_path / "out" / PICTURES / "s").iterdir()}
    assert names == {"a.png", "a.png.record.json", "b.png", "b.png.record.json"}
    assert not (tmp_path / "up.png").exists()


def test_a_picture_without_an_entry_is_not_released(tmp_path: Path) -> None:
    source, declared = folder(tmp_path / "in"), regions(tmp_path / "r.json", "a.jpg")
    options: dict[str, Any] = {"regions": declared, "fill": "grey", "odometer": False, "progress": False, "workers": 1}
    made = dipp.privatize(source, tmp_path / "one", **options)
    assert made.facts["images"] == 1
    assert {skipped[1] for skipped in made.skipped} == {
        "has no entry among the regions; add what to hide, or pass --allow-none to say that there is nothing"
    }
    with refused("src", "e.jpg", "has no entry among the regions"):
        dipp.privatize(source, tmp_path / "strict", strict=True, **options)
    assert not (tmp_path / "strict").exists()
    made = dipp.privatize(source, tmp_path / "all", allow_none=True, **options)
    assert (made.facts["images"], made.facts["without_regions"], made.skipped) == (5, 4, ())
    with refused("src", "has no picture that can be used", "has no entry"):
        dipp.privatize(source, tmp_path / "none", **{**options, "regions": regions(tmp_path / "o.json", "other.jpg")})
    assert not (tmp_path / "none").exists()


def test_options_of_the_other_purpose_are_refused(tmp_path: Path) -> None:
    source, declared = folder(tmp_path / "in"), regions(tmp_path / "r.json")
    for option in ({"epsilon": 4}, {"preset": "swift"}, {"subject": "label"}, {"window": "full"}, {"prompt": "a cat"}):
        name = next(iter(option)).replace("_", "-")
        with refused(name, "--regions"):
            dipp.privatize(source, tmp_path / "out", regions=declared, **option)
    with refused("margin", "--regions"):
        dipp.privatize(source, tmp_path / "out", epsilon=4, margin=3)
    with refused("dst", "a new folder"):
        dipp.privatize(source, tmp_path / "out.dipp", regions=declared)
    invalid: tuple[tuple[dict[str, Any], str, str], ...] = (
        ({"drop_labels": True}, "drop-labels", "folder"),
        ({"name_column": "name"}, "name-column", "table"),
        ({"regions": "column:objects"}, "regions", "objects"),
    )
    for options, argument, word in invalid:
        with refused(argument, word):
            dipp.privatize(source, tmp_path / "out", **{"regions": declared, "odometer": False, **options})
    assert not (tmp_path / "out").exists()


OBJECTS = {"bbox": [[*map(float, BOX)], [5.0, 60.0, 9.0, 8.0]], "category": [1, 0], "id": [7, 8]}


def table(path: Path, **columns: list[Any]) -> Path:
    """Write a Parquet file in the form of the hub: pictures with paths, objects with boxes, and names of classes."""
    kinds = [saved(scene(number), kind) for number, kind in enumerate(("JPEG", "PNG", "TIFF"))]
    features = {"objects": {"category": {"feature": {"names": ["plate", "face"], "_type": "ClassLabel"}}}}
    made = pa.table(
        {
            "image": [{"bytes": content, "path": f"street/{n}.img"} for n, content in enumerate(kinds)],
            "width": [131] * 3,
            "height": [83] * 3,
            "objects": [OBJECTS] * 3,
            "label": [4, 5, 6],
            **columns,
        }
    )
    pq.write_table(made.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})}), path)
    return path


def test_a_run_on_a_table_with_a_column_of_regions_can_be_resumed(tmp_path: Path) -> None:
    source, target = table(tmp_path / "in.parquet"), tmp_path / "out"

    def purpose() -> RedactionPurpose:
        return RedactionPurpose(Redactor.of(odometer=False, fill="grey"), "column:objects")

    class StoppingEngine(LocalEngine):
        def run(self, *arguments: Any) -> Any:
            yield next(super().run(*arguments))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carry_out(str(source), target, purpose(), StoppingEngine(1), Choices(shard_size=1))
    assert len(Store(target, ".json").shards()) == 1
    assert carry_out(str(source), target, purpose(), LocalEngine(1), Choices(shard_size=1)).encoded == 2
    facts = redacted.verify(target)
    assert (facts["images"], facts["kinds"]) == (3, {"face": 3, "plate": 3})
    lists = [redacted.Listing.read(path) for path in Store(target, ".json").shards()]
    listed = [(picture.name, picture.label) for part in lists for picture in part.pictures]
    assert listed == [("00000000.jpg", 4), ("00000001.png", 5), ("00000002.tif", 6)]
    declared = regions(tmp_path / "r.json", "image")
    for number, kind in enumerate(("JPEG", "PNG", "TIFF")):
        alone = dipp.redact(saved(scene(number), kind), regions=declared, fill="grey", odometer=False)
        assert (target / PICTURES / listed[number][0]).read_bytes() == alone.content
    dipp.privatize(
        source, tmp_path / "bare", regions="column:objects", fill="grey", drop_labels=True, odometer=False, workers=1
    )
    assert redacted.verify(tmp_path / "bare")["labels"] is None


@pytest.mark.parametrize("key", ["path", "column", "number", "saved"])
def test_pictures_of_a_table_are_found_by_name(key: str, tmp_path: Path) -> None:
    contents = [saved(scene(number), "PNG") for number in range(3)]
    source = table(tmp_path / "in.parquet", **({"image": contents} if key == "number" else {}), who=["a", "b", "c"])
    if key == "saved":
        datasets = pytest.importorskip("datasets")
        source = tmp_path / "folder"
        datasets.Dataset(pq.read_table(tmp_path / "in.parquet").replace_schema_metadata(None)).save_to_disk(str(source))
    names = {"path": ("0.img", "street/2.img"), "column": ("a", "c"), "number": ("0", "2"), "saved": ("0.img", "2.img")}
    declared = regions(tmp_path / "r.json", *names[key])
    release = dipp.privatize(
        source,
        tmp_path / "out",
        regions=declared,
        name_column="who" if key == "column" else None,
        fill="grey",
        odometer=False,
        progress=False,
        workers=1,
    )
    assert [skipped[:2] for skipped in release.skipped] == [
        (1, "has no entry among the regions; add what to hide, or pass --allow-none to say that there is nothing")
    ]
    assert redacted.verify(tmp_path / "out")["kinds"] == {"face": 2, "plate": 2}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"regions": "column:boxes"}, ("src", "column boxes")),
        ({"regions": "column:label"}, ("label of in.parquet row 0", "must hold boxes, objects with a bbox")),
        ({"regions": "column:objects", "name_column": "label"}, ("name-column", "column:objects")),
        ({"name_column": "objects"}, ("name-column", "whole numbers or text")),
        ({"name_column": "empty"}, ("name-column", "in.parquet row 0")),
        ({"name_column": "same"}, ("regions", "have one entry of r.json for both x and x")),
    ],
)
def test_tables_whose_regions_cannot_be_found_are_refused(
    change: dict[str, Any], error: tuple[str, str], tmp_path: Path
) -> None:
    source = table(tmp_path / "in.parquet", empty=[None, "b", "c"], same=["x"] * 3)
    options: dict[str, Any] = {"regions": regions(tmp_path / "r.json", "x"), "odometer": False, "workers": 1}
    with refused(*error):
        dipp.privatize(source, tmp_path / "out", **{**options, **change})
    assert not (tmp_path / "out").exists()


def test_load_refuses_redacted_pictures_and_names_their_folder(tmp_path: Path) -> None:
    target = tmp_path / "out"
    dipp.privatize(folder(tmp_path / "in"), target, regions=regions(tmp_path / "r.json"), fill="grey", odometer=False)
    with refused(target, "ordinary files", "pictures"):
        dipp.load(target)
    with refused("src", "a release already: out"):
        dipp.privatize(target, tmp_path / "again", epsilon=4)


def test_pictures_are_charged_before_the_first_is_released_and_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source, declared = folder(tmp_path / "in"), regions(tmp_path / "r.json")
    dipp.privatize(source, tmp_path / "one", regions=declared, fill="grey")
    odometer = Odometer.open(make=False)
    rows = odometer.releases()
    assert [(row[2], row[3]) for row in rows] == [("privatize", 5)]
    dipp.privatize(source, tmp_path / "two", regions=declared, fill="black")
    assert "with other regions" not in caplog.text
    dipp.privatize(source, tmp_path / "three", regions=declared, fill="grey", kinds="plate")
    assert "5 pictures were released before with other regions" in caplog.text


@pytest.mark.parametrize(
    ("spoil", "file"),
    [
        ("picture", "street/b.png"),
        ("record", "street/b.png"),
        ("extra", "more.jpg"),
        ("missing", "street/b.png"),
        ("manifest", ""),
        ("list", "e.jpg"),
    ],
)
def test_a_release_that_was_changed_is_refused(spoil: str, file: str, tmp_path: Path) -> None:
    target = tmp_path / "out"
    dipp.privatize(folder(tmp_path / "in"), target, regions=regions(tmp_path / "r.json"), fill="grey", odometer=False)
    assert redacted.verify(target)["images"] == 5
    path = target / PICTURES / "street" / "b.png"
    if spoil == "picture":
        Image.fromarray(scene(9)).save(path)
    elif spoil == "record":
        beside(path).write_text(beside(path).read_text().replace("face", "hand"))
    elif spoil == "extra":
        (target / PICTURES / "more.jpg").write_bytes(b"")
    elif spoil == "missing":
        path.unlink()
    else:
        path = target / ("manifest.json" if spoil == "manifest" else "shard-000000.json")
        path.write_text(path.read_text().replace('"face": 5', '"face": 4').replace('"hidden": ', '"hidden": 1'))
    with refused(f"{target}: {file}" if file else target):
        redacted.verify(target)


def test_a_run_cannot_be_resumed_with_other_choices(tmp_path: Path) -> None:
    source, target = folder(tmp_path / "in"), tmp_path / "out"
    declared = regions(tmp_path / "r.json")

    def purpose(**options: Any) -> RedactionPurpose:
        return RedactionPurpose(Redactor.of(odometer=False, **{"fill": "grey", **options}), declared)

    class StoppingEngine(LocalEngine):
        def run(self, *arguments: Any) -> Any:
            yield next(super().run(*arguments))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carry_out(str(source), target, purpose(), StoppingEngine(1), Choices(shard_size=2))
    (first,) = {path.name for path in Store(target, ".json").shards()}
    before = contents(target)
    for other in ({"margin": 2}, {"fill": "black"}, {"kinds": "face"}, {"allow_none": True}):
        with refused("dst", f"another {next(iter(other)).replace('_', '-')}"):
            carry_out(str(source), target, purpose(**other), LocalEngine(1), Choices(shard_size=2))
    regions(declared, *FILES, size=[131, 83])
    with refused("dst", "another regions"):
        carry_out(str(source), target, purpose(), LocalEngine(1), Choices(shard_size=2))
    regions(declared)
    summary = carry_out(str(source), target, purpose(), LocalEngine(1), Choices(shard_size=2))
    assert summary.encoded == 3
    assert contents(target)[first] == before[first]
    assert redacted.verify(target)["images"] == 5
    with refused("dst", remedy="--overwrite"):
        carry_out(str(source), target, purpose(), LocalEngine(1), Choices(shard_size=2))
    carry_out(str(source), target, purpose(kinds="face"), LocalEngine(1), Choices(), Conduct(overwrite=True))
    assert redacted.verify(target)["kinds"] == {"face": 5}
    assert not list(target.glob(f"{RUN}*"))


def test_frames_with_a_gap_are_covered_or_refused(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    for frame in range(3):
        (source / f"{frame:03}.png").write_bytes(saved(scene(frame), "PNG"))
    (source / ".hidden").write_text("")
    (source / "a-note.txt").write_text("is no frame")
    boxes = "".join(
        f'<box frame="{frame}" outside="0" xtl="{left}" ytl="10" xbr="{left + 9}" ybr="20"/>'
        for frame, left in ((0, 5), (2, 60))
    )
    declared = tmp_path / "cvat.xml"
    declared.write_text(f'<annotations><track id="0" label="face">{boxes}</track></annotations>')
    options: dict[str, Any] = {"regions": declared, "fill": "grey", "odometer": False, "progress": False, "workers": 1}
    with refused("regions", "frames of a video"):
        dipp.privatize(source, tmp_path / "out", **options)
    with refused("regions", "lack 0 in 001.png"):
        dipp.privatize(source, tmp_path / "out", gaps="refuse", **options)
    release = dipp.privatize(source, tmp_path / "out", gaps="cover", **options)
    assert release.facts["images"] == 3
    facts = Record.read(tmp_path / "out" / PICTURES / "001.png.record.json").facts
    assert facts["regions"] == [{"kind": "face", "id": "1", "box": [5.0, 10.0, 64.0, 10.0]}]


def test_a_redacted_release_can_be_signed_and_verified(tmp_path: Path, run: Command) -> None:
    target, key = tmp_path / "out", tmp_path / "key"
    dipp.privatize(folder(tmp_path / "in"), target, regions=regions(tmp_path / "r.json"), fill="grey", odometer=False)
    assert run("keygen", key)[0] == 0
    code, _, err = run("sign", target, "--key", key)
    assert code == 0, err
    code, _, err = run("verify", target, "--key", f"{key}.pub")
    assert code == 0, err
    shutil.rmtree(target / PICTURES / "park")
    assert run("verify", target, "--key", f"{key}.pub")[0] == 1


@pytest.mark.slow
def test_a_run_killed_at_every_write_gives_the_same_release(tmp_path: Path) -> None:
    """The repeated command gives the files of a run that was never killed, and charges each picture once."""
    source, declared = tmp_path / "in", regions(tmp_path / "r.json", "a.png", "b.png")
    source.mkdir()
    for name in ("a.png", "b.png"):
        (source / name).write_bytes(saved(scene(), "PNG"))

    def run(target: Path) -> None:
        purpose = RedactionPurpose(Redactor.of(fill="grey"), declared)
        meter = Meter(folder=target.with_name(f"{target.name}-odometer"))
        carry_out(str(source), target, purpose, LocalEngine(1), Choices(shard_size=1), Conduct(meter=meter))

    run(tmp_path / "whole")
    wanted, deaths = contents(tmp_path / "whole"), 0
    with pytest.MonkeyPatch.context() as patch:
        killer = Killer(patch)
        for touches in range(1000):
            target = tmp_path / f"out{touches}"
            if not killer.kills(lambda target=target: run(target), touches):  # type: ignore[misc]
                break
            deaths += 1
            published = contents(target / PICTURES) if (target / PICTURES).exists() else {}
            if Store(target).finished:
                with refused("dst", remedy="--overwrite"):
                    run(target)
            else:
                run(target)
            files = contents(target)
            assert files == wanted
            assert all(files[f"{PICTURES}/{name}"] == content for name, content in published.items())
            odometer = Odometer.open(target.with_name(f"{target.name}-odometer"), make=False)
            assert sum(row[3] for row in odometer.releases()) in (2, 4)  # killed before it was recorded, it begins anew
    assert deaths > 50


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ray Data sets its own old options
def test_ray_redacts_as_this_process_does(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    source, declared = folder(tmp_path / "in"), regions(tmp_path / "r.json")
    purpose = RedactionPurpose(Redactor.of(odometer=False, fill="grey"), declared)
    carry_out(str(source), tmp_path / "local", purpose, LocalEngine(1), Choices(shard_size=2))
    carry_out(str(source), tmp_path / "ray", purpose, RayEngine(1), Choices(shard_size=2))
    assert contents(tmp_path / "ray") == contents(tmp_path / "local")
