"""What a certificate allows attackers, what attackers reach, and the survey of a folder."""

from __future__ import annotations

import json
import math
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from helpers.paths import ROOT
from helpers.people import striped_people
from helpers.refusals import refused
from PIL import Image

from dipp.cli.main import app
from dipp.errors import DippError
from dipp.risk import bounds, descriptors, guesses, recognition, text
from dipp.risk.networks import SmallNetwork
from dipp.risk.recognition import Fisherfaces, Pixels
from dipp.risk.survey import survey
from experiments.people.lines import line

EPSILON = 4.0


@pytest.fixture(scope="module")
def people() -> Pixels:
    return striped_people()


# What a certificate allows.


@pytest.mark.parametrize(("people", "named"), [(2, 1), (40, 1), (40, 5), (5, 5)])
def test_randomised_response_never_exceeds_the_bound_and_reaches_it_with_one_name(people: int, named: int) -> None:
    """Randomised response names the right person with weight e^ε, and each other person with weight 1."""
    weight = math.exp(EPSILON)
    reached = (weight + named - 1) / (weight + people - 1)
    allowed = bounds.recognised(EPSILON, people, named)
    assert reached <= allowed + 1e-12
    if named == 1:
        assert reached == pytest.approx(allowed)
    assert bounds.recognised(0, people, named) == pytest.approx(named / people)


def test_a_subset_mechanism_reaches_the_bound_of_several_names() -> None:
    """The mechanism releases a set of m people, with weight e^ε if the right person is in it and 1 otherwise."""
    people, named = 7, 3
    inside, outside = math.comb(people - 1, named - 1) * math.exp(EPSILON), math.comb(people - 1, named)
    assert bounds.recognised(EPSILON, people, named) == pytest.approx(inside / (inside + outside))


def test_the_chance_of_right_guesses_is_a_binomial_tail() -> None:
    assert bounds.chance(10, 10, 0.5) == pytest.approx(0.5**10)
    assert bounds.chance(5, 10, 0.5) == 1
    assert bounds.chance(9000, 10_000, 0.5) < 1e-100


@pytest.mark.parametrize("wrong", [(-1.0, 4, 1), (math.nan, 4, 1), (1.0, 4, 5), (1.0, 4, 0)])
def test_the_bound_refuses_impossible_numbers(wrong: tuple[float, int, int]) -> None:
    with refused("epsilon and named"):
        bounds.recognised(*wrong)


# Recognisers.


def test_recognisers_name_the_people_of_their_gallery_and_not_shuffled_ones(people: Pixels) -> None:
    who = np.repeat(np.arange(6), 4)
    gallery, probes = np.tile([True, True, False, False], 6), np.tile([False, False, True, True], 6)
    for recogniser in (Fisherfaces(), SmallNetwork(steps=40)):
        scores = recogniser.fit(people[gallery], who[gallery])(people[probes])
        assert recognition.recognition(scores, who[probes]).top1 > 0.8
        assert recognition.recognition(scores, (who[probes] + 1) % 6).top1 < 0.2


def test_equal_scores_are_as_good_as_guessing() -> None:
    result = recognition.recognition(np.zeros((3000, 10)), np.zeros(3000, np.int64))
    assert result.top1 == pytest.approx(0.1, abs=0.03)  # five deviations
    assert result.top5 == pytest.approx(0.5, abs=0.05)


@pytest.mark.skipif(not descriptors.installed(), reason="the extra risk is not installed")
def test_dlib_detects_a_face_and_recognises_its_mirror_image() -> None:
    with Image.open(ROOT / "benchmarks/pictures/face.png") as image:
        picture = np.asarray(image.convert("RGB"))
    face, mirrored = descriptors.face(picture), descriptors.face(picture[:, ::-1].copy())
    assert face.found
    assert face.descriptor is not None
    assert mirrored.descriptor is not None
    assert np.linalg.norm(face.descriptor - mirrored.descriptor) < 0.5
    assert not descriptors.face(np.zeros_like(picture)).found


# Guesses and text.


def test_guesses_are_always_right_from_the_original_and_half_right_from_grey(people: Pixels) -> None:
    rng = np.random.default_rng(0)
    for side in (1, 8):
        assert guesses.about_cells(people[0], people[0], side, rng) == 1
        grey = guesses.about_cells(people[0], np.full_like(people[0], 128), side, rng)
        assert grey is not None
        assert abs(grey - 0.5) < 0.1
    assert guesses.about_cells(people[0], people[0], 32, rng) is None, "there is a single cell"
    assert guesses.about_cells(np.zeros_like(people[0]), people[0], 8, rng) is None, "no two cells differ"
    assert guesses.about_pictures(people, people) == 1
    assert guesses.about_pictures(people[:1], people[:1]) is None
    black, mid, white = (np.full((4, 4, 3), level, np.uint8) for level in (0, 100, 255))
    assert guesses.about_pictures(np.stack([black, mid, white]), np.stack([black, white, mid])) == 0.5
    equal = guesses.about_pictures(np.stack([black, black, white]), np.stack([black, white, white]))
    assert equal == 0.75, "questions about equal pictures are left out"


def test_guesses_about_many_pictures_take_little_memory() -> None:
    """All pairs of 60 pictures of 64×64 at once would be 43 million numbers."""
    originals = np.random.default_rng(0).integers(0, 256, (60, 64, 64, 3), np.uint8)
    tracemalloc.start()
    try:
        assert guesses.about_pictures(originals, originals) == 1
        assert tracemalloc.get_traced_memory()[1] < 40e6
    finally:
        tracemalloc.stop()


def test_the_share_of_read_characters_keeps_their_order() -> None:
    assert text.share("XA2B", "AB23") == 0.5


def test_tesseract_reads_a_clean_line() -> None:
    drawn = line("KHTM", 32)
    try:
        assert text.share(text.tesseract(drawn.pixels, 32), drawn.text) == 1
    except DippError as error:
        assert error.problem == "is not installed"  # noqa: PT017


# The survey.


@pytest.mark.slow
def test_a_survey_of_people_measures_guesses_and_recognition(people: Pixels, tmp_path: Path) -> None:
    for number, picture in enumerate(people[:12]):
        folder = tmp_path / f"person {number // 4}"
        folder.mkdir(exist_ok=True)
        Image.fromarray(picture).save(folder / f"{number}.png")
    measured = survey(tmp_path, device="cpu", epsilon=EPSILON, unit="picture")
    assert measured.pictures == 12
    assert measured.people == 3
    assert measured.allowed == pytest.approx(bounds.recognised(measured.epsilon, 3))
    assert {"naive network", "parrot Fisherfaces"} <= set(measured.recognised)
    assert measured.recognised["originals, Fisherfaces"] == 1, "stripes are easily told where nothing is hidden"
    assert {*measured.guesses} == {"pixel", "picture"}
    assert "the certificate allows nobody more than" in str(measured)
    assert json.loads(json.dumps(measured.to_dict()))["people"] == 3


def test_the_command_names_the_measures_that_it_could_not_take(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    Image.new("RGB", (32, 32), "teal").save(tmp_path / "a.png")
    done = CliRunner().invoke(app, ["risk", str(tmp_path), "--epsilon", "2", "--unit", "16", "--json"])
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert facts["missing"]["recognised"].startswith("a folder for each of two or more people")
    assert set(facts["missing"]) >= {"faces", "recognised", "characters"}
    assert facts["guesses"] == {}, "a picture of one colour has nothing to guess"


def test_a_survey_refuses_folders_that_are_missing_or_have_no_pictures(tmp_path: Path) -> None:
    with refused("folder", "pictures"):
        survey(tmp_path, epsilon=1)
    with refused("folder", "none"):
        survey(tmp_path / "none", epsilon=1)
