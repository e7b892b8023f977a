"""The experiment on people: its record, and the page that shows it."""

from __future__ import annotations

import json

from helpers.paths import ROOT

from experiments.people import figures
from experiments.people.claims import ALARM

FOUND = json.loads((ROOT / "experiments/people/results/results.json").read_text())


def test_no_attacker_is_above_the_bound() -> None:
    rows = [row for record in FOUND["claims"] for row in record["rows"]]
    assert len(rows) * 2 * ALARM <= 1e-6, "the false alarm of all tests together"
    assert all(min(row["chances"]) > ALARM for row in rows)
    assert {record["epsilon"] for record in FOUND["claims"]} == {0.5, 1, 2, 3, 4}


def test_the_page_has_the_tables_of_the_record() -> None:
    page = (ROOT / "docs/people.md").read_text()
    for table in figures.tables(FOUND):
        assert table in page
