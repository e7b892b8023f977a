"""The commands `dipp redact` and `dipp check`, as people use them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.commands import Command
from helpers.redaction import BOX, inside, opened, saved, scene
from helpers.refusals import printed
from PIL import Image

pytestmark = pytest.mark.usefixtures("one_thread")


def regions_file(path: Path, *names: str, **regions: Any) -> Path:
    """Write a file of regions with the same box for some pictures."""
    entries = [{"name": name, "regions": [{"kind": "face", "box": BOX, **regions}]} for name in names]
    path.write_text(json.dumps({"format": "dipp regions", "version": 1, "pictures": entries}))
    return path


@pytest.fixture
def street(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with three pictures and a file of regions for one of them."""
    monkeypatch.chdir(tmp_path)
    Path("street.jpg").write_bytes(saved(scene(), "JPEG", quality=90))
    Path("lake.png").write_bytes(saved(scene(1), "PNG"))
    Path("empty.png").write_bytes(Path("lake.png").read_bytes())
    entries = json.loads(regions_file(Path("faces.json"), "street.jpg").read_text())
    entries["pictures"].append({"name": "empty.png", "regions": []})
    Path("faces.json").write_text(json.dumps(entries))
    return tmp_path


@pytest.mark.usefixtures("street")
def test_a_picture_is_redacted_and_checked(run: Command) -> None:
    code, out, err = run("redact", "street.jpg", "-o", "out.jpg", "--regions", "faces.json", "--device", "cpu")
    assert code == 0
    assert err.startswith("dipp: odometer: begun in ")
    assert "out.jpg: 1 region hidden (1 face)" in out
    assert "What no region covers is not protected" in out
    assert opened(Path("out.jpg").read_bytes()).shape == scene().shape
    code, out, err = run("check", "out.jpg", "out.jpg.record.json", "--device", "cpu")
    assert (code, err) == (0, "")
    assert "same bytes" in out
    code, out, _ = run("check", "out.jpg", "--json")
    facts = json.loads(out)
    assert (facts["repainted"], facts["certificate"]["epsilon"]) == ("same bytes", 0.0)
    content = bytearray(Path("out.jpg").read_bytes())
    content[-9] ^= 1
    Path("out.jpg").write_bytes(content)
    code, _, err = run("check", "out.jpg")
    assert code == 1
    assert printed("out.jpg", "is not the file of its record") in err
    code, _, err = run("check", "out.jpg.record.json")
    assert (code, err) == (
        1,
        printed("out.jpg.record.json", "is a record", "name the picture first: dipp check PICTURE RECORD") + "\n",
    )
    code, _, err = run("check", "street.jpg")
    assert code == 1
    assert err.startswith(
        printed("street.jpg.record.json", "does not exist", "name the record of the picture: dipp check")
    )


@pytest.mark.usefixtures("street")
def test_several_pictures_go_to_a_folder(run: Command) -> None:
    regions_file(Path("both.json"), "street.jpg", "lake.png")
    code, out, _ = run(
        *("redact", "street.jpg", "lake.png", "-o", "out", "--regions", "both.json", "--fill", "grey", "--json")
    )
    assert code == 0
    assert [load["output"]["name"] for load in json.loads(out)] == ["street.jpg", "lake.png"]
    names = {path.name for path in Path("out").iterdir()}
    assert names == {"street.jpg", "street.jpg.record.json", "lake.png", "lake.png.record.json"}
    mask = ~inside(scene().shape)
    np.testing.assert_array_equal(opened(Path("out/lake.png").read_bytes())[mask], scene(1)[mask])


@pytest.mark.usefixtures("street")
def test_many_pictures_say_how_long_they_take(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"{number}.png" for number in range(4)]
    for name in names:
        Path(name).write_bytes(Path("lake.png").read_bytes())
    regions_file(Path("all.json"), *names)
    times = iter([0.0, 60.0, 120.0, 180.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(times))
    code, _, err = run("redact", *names, "-o", "out", "--regions", "all.json", "--fill", "grey", "--no-odometer")
    assert code == 0
    assert "redacting: about 2 minutes to go" in err


def test_regions_of_other_kinds_are_named(run: Command, street: Path) -> None:
    """Without the note, a mistyped kind would stay visible without a warning."""
    entries = json.loads((street / "faces.json").read_text())
    entries["pictures"][0]["regions"].append({"kind": "plate", "box": [1, 2, 9, 9]})
    (street / "faces.json").write_text(json.dumps(entries))
    arguments = ("redact", "street.jpg", "--regions", "faces.json", "--fill", "grey")
    _, out, _ = run(*arguments, "-o", "a.jpg", "--kinds", "face,plates")
    assert out.splitlines()[0].endswith("% of it; not hidden, by --kinds: 1 plate")
    _, out, _ = run(*arguments, "-o", "b.jpg", "--kinds", "face,plate")
    assert "not hidden" not in out


@pytest.mark.usefixtures("street")
def test_names_that_match_no_picture_are_warned_of_with_allow_none(run: Command) -> None:
    """With --allow-none, a mistyped name would release its picture unchanged, without a warning."""
    regions_file(Path("typo.json"), "stret.jpg", "lake.png")
    arguments = ("--regions", "typo.json", "--fill", "grey", "--allow-none", "--no-odometer")
    code, out, err = run("redact", "street.jpg", "lake.png", "-o", "a", *arguments)
    assert code == 0
    assert "street.jpg: nothing to hide" in out
    assert err.count("\n") == 1
    assert "no picture matches 1 name of the file: stret.jpg;" in err
    code, _, err = run("redact", "lake.png", "-o", "b.png", *arguments)
    assert (code, err) == (0, "")  # every picture has its entry, so the other one belongs to another picture


def test_gaps_in_a_track_are_refused_or_covered(run: Command, street: Path) -> None:
    for number in range(3):
        (street / f"{number}.png").write_bytes(saved(scene(number), "PNG"))
    frames = [f"{number}.png" for number in range(3)]
    regions_file(Path("track.json"), "0.png", "2.png", id="1")
    arguments = ("redact", *frames, "-o", "out", "--regions", "track.json", "--fill", "black", "--allow-none")
    code, _, err = run(*arguments, "--gaps", "refuse")
    assert code == 1
    assert "lack 1 in 1.png, between 0.png and 2.png" in err
    assert not Path("out").exists()
    assert run(*arguments, "--gaps", "cover")[0] == 0
    assert not opened(Path("out/1.png").read_bytes())[inside(scene().shape)].any()


ERRORS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "no entry": (
        ("lake.png",),
        ("lake.png", "has no entry among the regions", "add what to hide, or pass --allow-none"),
    ),
    "no regions": (
        ("empty.png",),
        ("empty.png", "has an entry without regions", "add what to hide, or pass --allow-none"),
    ),
    "no such kind": (("street.jpg", "--kinds", "plate"), ("street.jpg", "has no regions of the kind plate")),
    "no such fill": (("street.jpg", "--fill", "blur"), ("fill", "must be one of paint, grey, black, got blur")),
    "no such margin": (("street.jpg", "--margin", "wide"), ("margin", "must be a number of pixels, or a percentage")),
    "no such boxes": (("street.jpg", "--boxes", "both"), ("boxes", "must be raw or oriented, got both")),
    "no picture": (
        ("faces.json", "--allow-none"),
        ("faces.json", "must be JPEG, PNG, TIFF, WebP, AVIF, HEIC, JPEG 2000 or DICOM"),
    ),
    "no file": (("none.jpg", "--allow-none"), ("none.jpg", "cannot be read")),
    "a folder": ((".", "--allow-none"), (".", "is a folder", "give its pictures")),
}


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.usefixtures("street")
def test_errors_are_one_line_and_leave_nothing(name: str, run: Command) -> None:
    arguments, error = ERRORS[name]
    before = set(Path().iterdir())
    code, out, err = run("redact", *arguments, "-o", "out.jpg", "--regions", "faces.json")
    assert (code, out) == (1, "")
    assert printed(*error) in err
    errors = [line for line in err.splitlines() if not line.startswith("dipp: regions: no picture matches")]
    assert len(errors) == 1
    assert set(Path().iterdir()) == before


@pytest.mark.usefixtures("street")
def test_originals_are_never_overwritten(run: Command) -> None:
    original = Path("street.jpg").read_bytes()
    for output in ("street.jpg", "."):
        code, _, err = run("redact", "street.jpg", "-o", output, "--regions", "faces.json", "--overwrite")
        assert code == 1
        assert printed("output", "must not be an original, got ") in err
    assert Path("street.jpg").read_bytes() == original


@pytest.mark.usefixtures("street")
def test_pictures_that_would_get_one_name_are_refused(run: Command) -> None:
    Path("lake.jpg").write_bytes(Path("lake.png").read_bytes())
    regions_file(Path("both.json"), "lake.png", "lake.jpg")
    code, _, err = run("redact", "lake.png", "lake.jpg", "-o", "out", "--regions", "both.json")
    assert code == 1
    assert "lake.png and lake.jpg would both be lake.png; redact them into two folders" in err
    assert not Path("out").exists()


@pytest.mark.usefixtures("street")
def test_a_turned_picture_needs_the_option_boxes(run: Command) -> None:
    tags = Image.Exif()
    tags[0x0112] = 6
    Path("street.jpg").write_bytes(saved(scene(), "JPEG", exif=tags))
    arguments = ("redact", "street.jpg", "-o", "out.jpg", "--regions", "faces.json", "--fill", "grey")
    code, _, err = run(*arguments)
    assert code == 1
    assert "EXIF orientation 6; say whether boxes are meant" in err
    assert run(*arguments, "--boxes", "oriented")[0] == 0
    assert run("check", "out.jpg")[0] == 0


@pytest.mark.usefixtures("street")
def test_a_record_is_signed_and_verified(run: Command) -> None:
    arguments = ("redact", "street.jpg", "-o", "out.jpg", "--regions", "faces.json", "--fill", "grey")
    assert run(*arguments)[0] == 0
    assert run("keygen", "me")[0] == 0
    assert run("sign", "out.jpg.record.json", "--key", "me")[0] == 0
    code, out, _ = run("verify", "out.jpg.record.json", "--key", "me.pub")
    assert code == 0
    assert "ε = 0 for what the regions hide; the rest was released as it was" in out
    record = json.loads(Path("out.jpg.record.json").read_text())
    record["certificate"]["assumptions"] = []
    Path("out.jpg.record.json").write_text(json.dumps(record))
    code, _, err = run("verify", "out.jpg.record.json", "--key", "me.pub")
    assert code == 1
    assert "is not the file that was signed" in err


@pytest.mark.usefixtures("street")
def test_a_picture_that_does_not_fit_its_record_is_not_signed(run: Command) -> None:
    arguments = ("redact", "street.jpg", "-o", "out.jpg", "--regions", "faces.json", "--fill", "grey")
    assert run(*arguments)[0] == 0
    assert run("keygen", "me")[0] == 0
    Path("out.jpg").write_bytes(Path("street.jpg").read_bytes())
    code, _, err = run("sign", "out.jpg.record.json", "--key", "me")
    assert code == 1
    assert "is not the file of its record" in err


@pytest.mark.usefixtures("street")
def test_a_name_of_another_format_is_refused_before_the_picture_is_charged(run: Command) -> None:
    code, _, err = run("redact", "street.jpg", "-o", "out.png", "--regions", "faces.json", "--fill", "grey")
    assert (code, err) == (1, printed("output", "must end in .jpg for a JPEG file, got out.png") + "\n")
    assert not Path("out.png").exists()
