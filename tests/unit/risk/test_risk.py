"""What attackers are allowed, what they reach, and the survey of a folder."""

from __future__ import annotations

import json
import math
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from helpers.paths import ROOT
from helpers.people import striped
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
    return striped()


# What is allowed.


@pytest.mark.parametrize(("people", "named"), [(2, 1), (40, 1), (40, 5), (5, 5)])
def test_nobody_recognises_more_than_randomised_response_does(people: int, named: int) -> None:
    """The mechanism that names the right person with weight e^ε attains the bound of one name exactly."""
    weight = math.exp(EPSILON)
    reached = (weight + named - 1) / (weight + people - 1)
    allowed = bounds.recognised(EPSILON, people, named)
    assert reached <= allowed + 1e-12
    assert named > 1 or reached == pytest.approx(allowed)
    assert bounds.recognised(0, people, named) == pytest.approx(named / people)


def test_several_names_are_allowed_what_a_subset_mechanism_reaches() -> None:
    """A file that is one of all sets of m people, more likely by e^ε if it has the right one, attains the bound."""
    people, named = 7, 3
    inside, outside = math.comb(people - 1, named - 1) * math.exp(EPSILON), math.comb(people - 1, named)
    assert bounds.recognised(EPSILON, people, named) == pytest.approx(inside / (inside + outside))


def test_chances_are_of_a_binomial_tail() -> None:
    assert bounds.chance(10, 10, 0.5) == pytest.approx(0.5**10)
    assert bounds.chance(5, 10, 0.5) == 1
    assert bounds.chance(9000, 10_000, 0.5) < 1e-100


@pytest.mark.parametrize("wrong", [(-1.0, 4, 1), (math.nan, 4, 1), (1.0, 4, 5), (1.0, 4, 0)])
def test_impossible_numbers_are_refused(wrong: tuple[float, int, int]) -> None:
    with refused("epsilon, named"):
        bounds.recognised(*wrong)


# Recognisers.


def test_recognisers_know_people_and_shuffled_ones_not(people: Pixels) -> None:
    who = np.repeat(np.arange(6), 4)
    gallery, probes = np.tile([True, True, False, False], 6), np.tile([False, False, True, True], 6)
    for recogniser in (Fisherfaces(), SmallNetwork(steps=40)):
        scores = recogniser.fit(people[gallery], who[gallery])(people[probes])
        assert recognition.recognition(scores, who[probes]).top1 > 0.8
        assert recognition.recognition(scores, (who[probes] + 1) % 6).top1 < 0.2


def test_equal_scores_are_a_guess() -> None:
    found = recognition.recognition(np.zeros((3000, 10)), np.zeros(3000, np.int64))
    assert found.top1 == pytest.approx(0.1, abs=0.03)  # five deviations
    assert found.top5 == pytest.approx(0.5, abs=0.05)


@pytest.mark.skipif(not descriptors.installed(), reason="the extra risk is not installed")
def test_dlib_finds_a_face_and_knows_it_again() -> None:
    with Image.open(ROOT / "benchmarks/pictures/face.png") as image:
        picture = np.asarray(image.convert("RGB"))
    one, other = descriptors.face(picture), descriptors.face(picture[:, ::-1].copy())
    assert one.found
    assert one.descriptor is not None
    assert other.descriptor is not None
    assert np.linalg.norm(one.descriptor - other.descriptor) < 0.5
    assert not descriptors.face(np.zeros_like(picture)).found


# Guesses and text.


def test_guesses_about_cells_are_sure_of_what_is_shown_and_even_of_what_is_not(people: Pixels) -> None:
    rng = np.random.default_rng(0)
    for side in (1, 8):
        assert guesses.about_cells(people[0], people[0], side, rng) == 1
        grey = guesses.about_cells(people[0], np.full_like(people[0], 128), side, rng)
        assert grey is not None
        assert abs(grey - 0.5) < 0.1
    assert guesses.about_cells(people[0], people[0], 32, rng) is None, "there is but one"
    assert guesses.about_cells(np.zeros_like(people[0]), people[0], 8, rng) is None, "none differ"
    assert guesses.about_pictures(people, people) == 1
    assert guesses.about_pictures(people[:1], people[:1]) is None
    black, mid, white = (np.full((4, 4, 3), level, np.uint8) for level in (0, 100, 255))
    assert guesses.about_pictures(np.stack([black, mid, white]), np.stack([black, white, mid])) == 0.5
    equal = guesses.about_pictures(np.stack([black, black, white]), np.stack([black, white, white]))
    assert equal == 0.75, "equal ones are not asked about"


def test_guesses_about_many_pictures_take_little_memory() -> None:
    """All pairs of 60 pictures of 64×64 at once would be 43 million numbers."""
    originals = np.random.default_rng(0).integers(0, 256, (60, 64, 64, 3), np.uint8)
    tracemalloc.start()
    try:
        assert guesses.about_pictures(originals, originals) == 1
        assert tracemalloc.get_traced_memory()[1] < 40e6
    finally:
        tracemalloc.stop()


def test_a_share_is_of_the_longest_common_subsequence() -> None:
    assert text.share("XA2B", "AB23") == 0.5


def test_tesseract_reads_a_clean_line() -> None:
    drawn = line("KHTM", 32)
    try:
        assert text.share(text.tesseract(drawn.pixels, 32), drawn.text) == 1
    except DippError as error:
        assert "install it" in str(error)  # noqa: PT017


# The survey.


@pytest.mark.slow
def test_a_survey_measures_what_it_can(people: Pixels, tmp_path: Path) -> None:
    for number, picture in enumerate(people[:12]):
        folder = tmp_path / f"person {number // 4}"
        folder.mkdir(exist_ok=True)
        Image.fromarray(picture).save(folder / f"{number}.png")
    found = survey(tmp_path, device="cpu", epsilon=EPSILON, unit="picture")
    assert found.pictures == 12
    assert found.people == 3
    assert found.allowed == pytest.approx(bounds.recognised(found.epsilon, 3))
    assert {"naive network", "parrot Fisherfaces"} <= set(found.recognised)
    assert found.recognised["originals, Fisherfaces"] == 1, "stripes are easily told where nothing is hidden"
    assert {*found.guesses} == {"pixel", "picture"}
    assert "the certificate allows nobody more than" in str(found)
    assert json.loads(json.dumps(found.to_dict()))["people"] == 3


def test_the_command_says_what_it_could_not_measure(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    Image.new("RGB", (32, 32), "teal").save(tmp_path / "a.png")
    done = CliRunner().invoke(app, ["risk", str(tmp_path), "--epsilon", "2", "--unit", "16", "--json"])
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert facts["missing"]["recognised"].startswith("a folder for each of two or more people")
    assert set(facts["missing"]) >= {"faces", "recognised", "characters"}
    assert facts["guesses"] == {}, "a picture of one colour has nothing to guess"


def test_a_folder_without_pictures_is_one_line(tmp_path: Path) -> None:
    with refused("folder", "measured"):
        survey(tmp_path, epsilon=1)
    with refused("folder"):
        survey(tmp_path / "none", epsilon=1)
