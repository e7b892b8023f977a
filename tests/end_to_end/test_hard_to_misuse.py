"""Commands that are hard to misuse: they overwrite nothing silently, explain ε, and report their progress."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.commands import Command
from helpers.datasets import save_model
from helpers.questions import question, questions_plan
from helpers.refusals import printed
from PIL import Image
from rich.console import Console

import dipp
from dipp.cli.decode import MADE_UP
from dipp.cli.options import EMBEDDED
from dipp.core.geometry import Geometry
from dipp.core.units import Cells
from dipp.models import bars
from dipp.privacy import advice
from dipp.privacy.advice import RECOGNISABLE, Headline
from dipp.privacy.budget import AS_ASKED, BOUND, NO_BETTER, Budget, why_unused
from dipp.privacy.certificate import Certificate
from dipp.privacy.printing import upper

PAPER = ("--preset", "paper")
"""A preset whose plans use the whole budget, in many steps, whatever the network knows."""

pytestmark = pytest.mark.usefixtures("one_thread", "quick")


@pytest.fixture
def made(model: Path, pictures: Path, tmp_path: Path, run: Command) -> Path:
    """Return the path of an archive of one picture."""
    place = tmp_path / "one.dipp"
    code, _, err = run("encode", pictures / "0.png", "-o", place, "--model", model, "--epsilon", 2)
    assert code == 0, err
    return place


# Outputs.


def test_an_archive_is_replaced_only_with_overwrite(made: Path, model: Path, pictures: Path, run: Command) -> None:
    before = made.read_bytes()
    again = ("encode", pictures / "1.png", "-o", made, "--model", model, "--epsilon", 2)
    code, out, err = run(*again)
    assert (code, out) == (1, "")
    assert err.startswith(printed("output", f"exists already: {made}"))
    assert "--overwrite" in err
    assert made.read_bytes() == before
    assert run(*again, "--overwrite")[0] == 0
    assert made.read_bytes() != before


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.webp", "a.tif", "folder"])
def test_pictures_are_replaced_only_with_overwrite(
    name: str, made: Path, model: Path, tmp_path: Path, run: Command
) -> None:
    place = tmp_path / name
    command = ("decode", made, "-o", place, "--model", model)
    assert run(*command)[0] == 0
    picture = place / "00000.png" if name == "folder" else place
    before = picture.read_bytes()
    picture.write_bytes(before + b"mine")
    code, out, err = run(*command)
    assert (code, out) == (1, "")
    assert err.startswith(printed("output"))
    assert "--overwrite" in err
    assert picture.read_bytes() == before + b"mine"
    assert run(*command, "--overwrite")[0] == 0
    assert picture.read_bytes() == before


def test_an_empty_folder_is_written_into(made: Path, model: Path, tmp_path: Path, run: Command) -> None:
    (tmp_path / "empty").mkdir()
    assert run("decode", made, "-o", tmp_path / "empty", "--model", model)[0] == 0


@pytest.mark.parametrize(
    ("name", "kind"), [("a.jpg", "JPEG"), ("a.JPEG", "JPEG"), ("a.webp", "WEBP"), ("a.tif", "TIFF")]
)
def test_an_output_with_the_name_of_a_picture_becomes_that_file(
    name: str, kind: str, made: Path, model: Path, tmp_path: Path, run: Command
) -> None:
    code, out, err = run("decode", made, "-o", tmp_path / name, "--model", model)
    assert code == 0, err
    assert out == f"1 picture written to {tmp_path / name}\n"
    with Image.open(tmp_path / name) as image:
        assert (image.format, image.size) == (kind, (8, 8))


@pytest.mark.parametrize("name", ["a.gif", "a.heic", "a.mp4", "a.txt", "a.dipp"])
def test_a_mistaken_output_name_makes_no_folder(
    name: str, made: Path, model: Path, tmp_path: Path, run: Command
) -> None:
    code, _, err = run("decode", made, "-o", tmp_path / name, "--model", model)
    assert code == 1
    assert err.startswith(printed("output", "must be a folder, or end in .png, .jpg"))
    assert not (tmp_path / name).exists()


def test_several_pictures_are_not_written_to_one_file(
    model: Path, pictures: Path, tmp_path: Path, run: Command
) -> None:
    made = tmp_path / "two.dipp"
    assert run("encode", pictures / "0.png", pictures / "1.png", "-o", made, "--model", model, "--epsilon", 2)[0] == 0
    code, _, err = run("decode", made, "-o", tmp_path / "a.jpg", "--model", model)
    assert (code, err) == (1, printed("output", "must be a folder for 2 pictures, got a.jpg") + "\n")
    assert not (tmp_path / "a.jpg").exists()
    assert run("decode", made, "-o", tmp_path / "out", "--model", model)[1].startswith("2 pictures written")


def test_an_archive_cannot_have_the_name_of_a_picture(
    model: Path, pictures: Path, tmp_path: Path, run: Command
) -> None:
    code, _, err = run("encode", pictures / "0.png", "-o", tmp_path / "a.png", "--model", model, "--epsilon", 2)
    assert (code, err) == (1, printed("output", "must be the name of an archive, got a.png", "name it a.dipp") + "\n")
    assert not list(tmp_path.iterdir())


def test_encode_of_a_folder_names_privatize(pictures: Path, tmp_path: Path, run: Command) -> None:
    code, _, err = run("encode", pictures, "-o", tmp_path / "a.dipp", "--epsilon", 2)
    assert code == 1
    assert f"`dipp privatize {pictures} DST`" in err
    assert err.count("\n") == 1


# What ε means.


@pytest.mark.parametrize(
    ("budget", "grade"),
    [
        (("--epsilon", 1), "strong"),
        (("--epsilon", 4), "weak"),
        (("--epsilon", 8), "hardly any"),
        (("--rho", 9), "hardly any"),
    ],
)
def test_encode_and_info_say_what_an_epsilon_is_worth(
    budget: tuple[object, ...], grade: str, model: Path, pictures: Path, tmp_path: Path, run: Command
) -> None:
    made = tmp_path / "a.dipp"
    code, encoded, err = run("encode", pictures / "0.png", "-o", made, "--model", model, *budget, *PAPER)
    assert code == 0, err
    pure = dipp.open(made).certificate.epsilon
    warned = Headline(pure).warnings()
    assert bool(warned) is (grade != "strong")
    for said in (encoded, run("info", made)[1], run("info", made, "--verify", "--model", model)[1]):
        assert f"bound        {grade}: {Headline(pure).bound}\n" in said
        assert f"measured     {advice.measured(pure)}\n" in said
        assert f"by size      ε of anything within a square of pixels, 1×1: {upper(pure)}, " in said
        assert f", 8×8: {upper(64 * pure)}, " in said
        assert f"recognisable {RECOGNISABLE}\n" in said
        assert all(text in said for text in warned)
        assert ("warnings " in said) is bool(warned)
    facts = json.loads(run("info", made, "--json")[1])
    assert (facts["grade"], facts["recognisable"], facts["warnings"]) == (grade, True, list(warned))


def test_a_delta_that_promises_nothing_is_refused(model: Path, pictures: Path, tmp_path: Path, run: Command) -> None:
    """One picture of 8×8 pixels with δ = 1/64 is refused; a smaller δ for several pictures gives a warning."""
    made, few = tmp_path / "a.dipp", ("--model", model, "--epsilon", 4, *PAPER)
    code, _, err = run("encode", pictures / "0.png", "-o", made, *few, "--delta", 1 / 64)
    assert (code, err.count("\n"), made.exists()) == (1, 1, False)
    assert "8×8 has 64 pixels, and that many times δ = 0.015625 is 1 or more" in err
    assert run("encode", pictures / "0.png", "-o", made, *few, "--delta", 0.015)[0] == 0
    assert not any("δ" in text for text in json.loads(run("info", made, "--json")[1])["warnings"])
    several = tmp_path / "several.dipp"
    assert run("encode", *sorted(pictures.glob("[01].png")), "-o", several, *few, "--delta", 0.015)[0] == 0
    warnings = json.loads(run("info", several, "--json")[1])["warnings"]
    assert any("a δ of 0.015 times 128 pixels is 1 or more" in text for text in warnings)


def test_a_dataset_warns_as_well_and_names_what_is_not_covered(
    model: Path, pictures: Path, tmp_path: Path, run: Command
) -> None:
    """A folder is refused as a file is, and its report names what is not covered."""
    folder = tmp_path / "out"
    code, said, err = run("privatize", pictures, folder, "--model", model, "--epsilon", 16, *PAPER)
    assert code == 0, err
    claim = json.loads(run("info", folder, "--json")[1])["certificate"]
    for text in (said, said := run("info", folder)[1]):
        assert f"recognisable {RECOGNISABLE}\n" in text
        assert f"bound        hardly any: {Headline(claim['epsilon']).bound}\n" in text
        assert f"warnings     {Headline(claim['epsilon']).warnings()[0]}\n" in text
    assert "images       6, 384 pixels in all" in said
    assert "bytes" in said
    code, checked, err = run("info", folder, "--verify", "--model", model)
    assert code == 0, err
    made = tmp_path / "a.dipp"
    assert run("encode", pictures / "0.png", "-o", made, "--model", model, "--epsilon", 16, *PAPER)[0] == 0
    of_file = run("info", made, "--verify", "--model", model)[1]
    lines = [line for line in of_file.splitlines() if line.startswith("  ")]
    assert any("not covered: " in line for line in lines)
    assert [line for line in checked.splitlines() if line.startswith(("  if ", "  not covered: "))] == [
        line for line in lines if line.startswith(("  if ", "  not covered: "))
    ]
    out = run("privatize", pictures, tmp_path / "again", "--model", model, "--epsilon", 1, "--json")[1]
    facts = json.loads(out)
    assert (facts["grade"], facts["recognisable"], facts["warnings"]) == ("strong", True, [])


def test_info_counts_images_by_size_and_bytes(model: Path, pictures: Path, tmp_path: Path, run: Command) -> None:
    Image.new("RGB", (12, 9)).save(tmp_path / "wide.png")
    made = tmp_path / "a.dipp"
    names = (tmp_path / "wide.png", pictures / "0.png", pictures / "1.png")
    assert run("encode", *names, "-o", made, "--model", model, "--epsilon", 2)[0] == 0
    said = run("info", made)[1]
    assert "images       3, height × width: 2 of 8×8, 1 of 9×12\n" in said
    assert f"file         {made.stat().st_size:,} bytes" in said


@pytest.mark.parametrize(
    ("options", "made_up"),
    [((), False), (("--noisy",), False), (("--sample",), True), (("--calls", 2), True), (("--ancestral",), True)],
)
def test_decode_says_that_a_sample_is_made_up(
    options: tuple[object, ...], made_up: bool, made: Path, model: Path, tmp_path: Path, run: Command
) -> None:
    code, out, err = run("decode", made, "-o", tmp_path / "a.png", "--model", model, *options)
    assert code == 0, err
    assert (MADE_UP in out) is made_up


def test_commands_make_what_the_sheet_shows(made: Path, model: Path, tmp_path: Path, run: Command) -> None:
    """The library draws the sheet; it shows the same picture, to the bit, that `dipp decode` writes."""
    assert run("decode", made, "-o", tmp_path / "a.png", "--model", model, "--device", "cpu")[0] == 0
    archive = dipp.open(made)
    (shown,) = dipp.Codec.for_parameters(archive.parameters, model).decode(archive)
    with Image.open(tmp_path / "a.png") as image:
        assert np.array_equal(np.asarray(image.convert("RGB")), shown)


# Waiting.


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Pretend that the error stream is a terminal, on which progress bars are drawn."""
    screen = io.StringIO()
    drawn = Console(file=screen, force_terminal=True, width=140)
    monkeypatch.setattr(bars, "console", lambda: drawn)
    return screen


@pytest.mark.parametrize("options", [(), ("--sample",), ("--ancestral",), ("--noisy",)])
def test_one_picture_shows_steps_and_the_time_left(
    options: tuple[str, ...], pictures: Path, tmp_path: Path, run: Command, terminal: io.StringIO
) -> None:
    made = tmp_path / "a.dipp"
    assert run("encode", pictures / "0.png", "-o", made, "--epsilon", 2)[0] == 0
    shown = terminal.getvalue()
    assert "encoding" in shown
    assert "100%" in shown
    assert re.search(r"step ([2-9]|\d\d+) of \1\b", shown)
    assert "0:00:0" in shown
    assert run("decode", made, "-o", tmp_path / "a.png", *options)[0] == 0
    shown = terminal.getvalue().split("decoding", 1)[1]
    assert "100%" in shown


def test_without_a_terminal_no_progress_is_shown(made: Path, model: Path, tmp_path: Path, run: Command) -> None:
    code, out, err = run("decode", made, "-o", tmp_path / "a.png", "--model", model)
    assert (code, err) == (0, "")
    assert out.count("\n") == 1


def test_calibration_reports_its_progress(pictures: Path, tmp_path: Path, run: Command) -> None:
    """Progress is in per cent: a bar on a terminal, and otherwise a line for each part."""
    folder = save_model(tmp_path / "own")
    code, _, err = run("calibrate", folder, pictures, "--count", 4)
    assert code == 0, err
    shares = [int(line.split("%")[0]) for line in err.splitlines()]
    assert shares == sorted(shares)
    assert shares[0] == 0
    assert 30 < shares[-1] < 100


# Own denoisers.


def test_errors_of_own_denoisers_name_the_remedy(
    made: Path, model: Path, pictures: Path, tmp_path: Path, run: Command
) -> None:
    bare = save_model(tmp_path / "bare")
    encoding = ("encode", pictures / "0.png", "-o", tmp_path / "b.dipp", "--epsilon", 2, "--model")
    for remedy, *words in (
        ("--model", "decode", made, "-o", tmp_path / "a.png"),
        (f"`dipp calibrate {bare} PUBLIC_PICTURES`", *encoding, bare),
        ("`dipp calibrate MODEL PUBLIC_PICTURES`", *encoding, EMBEDDED, "--calibration", model / "calibration.json"),
        ("--model", *encoding, "nowhere"),
        ("--model", "info", made, "--verify", "--model", EMBEDDED),
    ):
        code, out, err = run(*words)
        assert (code, out) == (1, ""), words
        assert remedy in err
        assert err.count("\n") == 1


def test_a_plan_that_uses_little_of_its_budget_says_why(
    model: Path, pictures: Path, tmp_path: Path, run: Command
) -> None:
    """The network of the tests predicts nothing, so its residuals are those of pictures, and more ε shows no more."""
    common = ("--model", model, "--epsilon", 8, "--bpp", 100)
    said = [
        run("encode", pictures / "0.png", "-o", tmp_path / "a.dipp", *common)[1],
        run("plan", *common)[1],
        run("privatize", pictures, tmp_path / "out", *common)[2],
    ]
    for text in said:
        assert re.search(r"only [\d.]+ % of ε = 8 per pixel is used: " + NO_BETTER, text), text
    assert "is used" not in run("encode", pictures / "0.png", "-o", tmp_path / "b.dipp", "--epsilon", 2)[1]


def test_the_reason_for_a_small_part_of_a_budget_is_the_true_one() -> None:
    found = Certificate.of(questions_plan(Cells(4), question()), Geometry(16, 16, 3))
    for share, said in ((1, ()), (0.9, ()), (0.51, f"only 51 % of {Budget.pure(found.epsilon / 0.51)} is used: ")):
        told = why_unused(Budget.pure(found.epsilon / share), found, bound=False)
        assert told == ((f"{said}{NO_BETTER}",) if said else ())
    much = Budget.pure(4 * found.epsilon)
    assert why_unused(much, found, True)[0].endswith(BOUND)
    assert why_unused(much, found, False, final_timestep=900)[0].endswith(AS_ASKED)
    # A budget for objects of a size is compared with what they pay.
    assert why_unused(replace(much, hidden=(4, 4)), found, bound=False) == ()
    assert why_unused(replace(much, hidden=(1, 1)), found, bound=False) != ()
    assert why_unused(much, None, bound=False) == ()
