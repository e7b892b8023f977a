"""The experiment on people: its attackers, its records, and the page that shows its results."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from helpers.paths import ROOT
from helpers.people import striped_people
from helpers.refusals import refused
from PIL import Image

import dipp
from dipp.core.units import Cells
from dipp.risk.recognition import Pixels
from experiments.people import faces, figures, glasses, likelihood
from experiments.people.claims import ALARM
from experiments.people.lines import line, matched
from experiments.people.methods import Method, log_densities
from experiments.people.restoring import Restorer

FOUND, COLOURED = (
    json.loads((ROOT / f"experiments/people/results/{name}.json").read_text()) for name in ("results", "coloured")
)


def test_no_attacker_is_above_the_bound() -> None:
    rows = [row for record in FOUND["claims"] for row in record["rows"]]
    assert len(rows) * 2 * ALARM <= 1e-6, "the false alarm of all tests together"
    assert all(min(row["chances"]) > ALARM for row in rows)
    assert {record["epsilon"] for record in FOUND["claims"]} == {0.5, 1, 2, 3, 4}


def test_made_pictures_reach_their_bound() -> None:
    for row in (row for record in FOUND["claims"] for row in record["rows"] if row["probes"] == "made"):
        assert row["exactly"] == pytest.approx(row["bounds"][0], abs=1e-4)
        deviation = math.sqrt(row["exactly"] * (1 - row["exactly"]) / row["encodings"])
        assert abs(row["top-1"] - row["exactly"]) < 6 * deviation, "right as often as the law of the draw says"


def test_the_page_has_the_tables_of_the_record() -> None:
    page = (ROOT / "docs/people.md").read_text()
    for table in (*figures.tables(FOUND), *figures.tables(COLOURED)):
        assert table in page


# The attackers.


@pytest.fixture(scope="module")
def people() -> Pixels:
    return striped_people()


def test_a_restorer_comes_nearer_to_what_was_clean(people: Pixels) -> None:
    dark = people // 3
    restored = Restorer(steps=40).fit(dark, people)(dark)
    errors = [np.square(one.astype(float) - people).mean() for one in (restored, dark)]
    assert errors[0] < errors[1] / 2


def test_a_reader_who_knows_the_typeface_reads_a_clean_line() -> None:
    drawn = line("AB23", 12)
    assert matched(drawn, drawn.pixels) == "AB23"


@pytest.mark.parametrize("coloured", [False, True])
def test_dp_pix_tells_of_a_cell_what_its_epsilon_allows_and_no_more(coloured: bool) -> None:
    method = Method("DP-Pix", 16, 8.0)
    black, white = (np.full((1, 32, 32, 3), level, np.uint8) for level in (0, 255))
    one_cell, grain = black.copy(), black.copy()
    one_cell[:, :16, :16] = 255
    grain[0, 31, 31, 0] = 1 if coloured else 0
    candidates = np.concatenate([np.maximum(one, grain) for one in (black, one_cell)])
    for released in (black, white):
        first, second = log_densities(method, released, candidates)[0]
        assert abs(first - second) == pytest.approx(8, rel=1e-3), "the largest change costs the whole ε"


def test_glasses_are_recognised_from_pictures_of_other_people() -> None:
    rng, who = np.random.default_rng(0), np.repeat(np.arange(20), 3)
    worn = who % 3 == 0
    shown = rng.normal(size=(60, 30)) + 3 * worn[:, None]
    assert glasses.right(shown, worn, who, shown, worn, who) > 0.95
    of_people = np.eye(20)[who]
    assert glasses.right(of_people, worn, who, of_people, worn, who) <= 0.5, "nothing is learnt from a person's own"
    black = np.zeros((60, 30))
    assert glasses.right(black, worn, who, black, worn, who) == 0.5


def test_people_are_read_from_a_folder_for_each(tmp_path: Path) -> None:
    for person, name in enumerate("ab"):
        (tmp_path / name).mkdir()
        for number in range(1, 11):
            picture = Image.new("RGB", (250, 250), (person, number, 0))
            picture.save(tmp_path / name / f"{name}_{number}.png")
    found = faces.load(tmp_path)
    assert found.pictures.shape == (2, 10, 250, 250, 3)
    assert found.pictures[1, :, 0, 0].tolist() == [[1, number, 0] for number in range(1, 11)]
    assert glasses.labels(found) is None
    (tmp_path / "b" / "b_10.png").unlink()
    with refused("faces", "10", str(tmp_path)):
        faces.load(tmp_path)


def test_the_likelihood_is_the_law_of_the_files() -> None:
    """The files of a picture that is asked once occur as often as the attacker computes."""
    pictures = np.stack([np.full((16, 16, 3), level, np.uint8) for level in (10, 245)])
    codec = dipp.Codec.from_pretrained(epsilon=2, unit="picture", size=(16, 16), device="cpu")
    times = 2000
    archive = codec.encode(np.repeat(pictures, times, axis=0), odometer=False)
    likelihoods = likelihood.log_likelihoods(archive, codec.denoiser, pictures)
    rows = archive.batch(0, 2 * times)[:, 0]
    loss = likelihoods[:, 0] - likelihoods[:, 1]
    assert abs(loss).max() == pytest.approx(archive.certificate.epsilon, rel=1e-6), "the bound is reached"
    for number, own in enumerate(np.split(rows, 2)):
        index, counts = np.unique(own, return_counts=True)
        law = {int(k): math.exp(p) for k, p in zip(rows, likelihoods[:, number], strict=True)}
        for k, count in zip(index, counts, strict=True):
            mean = times * law[int(k)]
            assert abs(count - mean) < 6 * math.sqrt(mean) + 6


def test_the_likelihood_follows_cells_through_all_rounds(people: Pixels) -> None:
    """At a large ε, each file reveals its picture."""
    codec = dipp.Codec.from_pretrained(epsilon=16, unit=Cells(8), size=(32, 32), device="cpu")
    archive = codec.encode(people[::4], odometer=False)
    likelihoods = likelihood.log_likelihoods(archive, codec.denoiser, people[::4])
    assert (likelihoods.argmax(axis=1) == np.arange(6)).all()


def test_only_questions_have_a_likelihood(people: Pixels) -> None:
    codec = dipp.Codec.from_pretrained(epsilon=1, preset="swift", size=(32, 32), device="cpu")
    archive = codec.encode(people[:1], odometer=False)
    with refused("archive"):
        likelihood.log_likelihoods(archive, codec.denoiser, people[:1])
