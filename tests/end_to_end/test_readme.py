"""The README: short, whole wherever it is shown, and true. What it shows is run by `test_docs`."""

from __future__ import annotations

import json
import math
import re
import tomllib

import yaml
from helpers.paths import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REPOSITORY: str = PROJECT["urls"]["Repository"]
RAW = REPOSITORY.replace("https://github.com", "https://raw.githubusercontent.com")
WORDS = 650


def test_every_link_leads_into_this_tree() -> None:
    """Links are whole addresses, because a package index shows the README too; what they name is there."""
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert len(links) > 15
    for link in links:
        assert link.startswith((f"{REPOSITORY}/blob/main/", f"{REPOSITORY}/tree/main/", f"{RAW}/main/")), link
        path, _, anchor = link.partition("/main/")[2].partition("#")
        assert (ROOT / path).exists(), path
        if anchor:
            heads = re.findall(r"^#+ (.*)", (ROOT / path).read_text(encoding="utf-8"), flags=re.M)
            assert anchor in {re.sub(r"[^\w\s-]", "", head).lower().replace(" ", "-") for head in heads}, anchor


def test_it_is_short_and_finished() -> None:
    prose = re.sub(r"\(https[^)]*\)|^```.*?^```", "", README, flags=re.S | re.M)
    assert len(prose.split()) < WORDS
    assert not re.search(r"TODO|TBD|TABLE", README), "a placeholder was left"


def test_it_installs_what_the_package_is_called() -> None:
    assert f"pip install {PROJECT['name']}\n" in README
    assert PROJECT["authors"] == [{"name": "the dipp developers"}]
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["repository-code"] == REPOSITORY
    assert cited["references"][0]["title"] in README.replace("\n", " ")


def test_what_an_epsilon_buys_is_what_was_measured() -> None:
    """In brackets: the best of the rivals that are denoised, by PSNR and by accuracy."""
    rows = json.loads((ROOT / "experiments/cifar10/results/results.json").read_text())["releases"]
    form = r"^\| ([\d.]+) \| ([\d.]+) % \| ([\d.]+) \(([\d.]+)\) \| (\d+) % \((\d+) %\) \|$"
    table = re.findall(form, README, flags=re.M)
    assert len(table) == 4
    for epsilon, guess, *found in table:
        here = [row for row in rows if row["epsilon"] == float(epsilon) and row["plotted"] and not row["earlier"]]
        rivals = [row for row in here if row["method"] != "sharp"]
        (own,) = [row for row in here if row["method"] == "sharp"]
        assert len(rivals) >= 3
        assert float(guess) == math.ceil(1000 / (1 + math.exp(-float(epsilon)))) / 10, "a bound is rounded up"
        quality = [row["metrics"]["denoised"]["psnr"] for row in (own, *rivals)]
        right = [row["accuracy"]["denoised"]["last"] for row in (own, *rivals)]
        assert found[:2] == [f"{quality[0]:.1f}", f"{max(quality[1:]):.1f}"]
        assert found[2:] == [f"{right[0]:.0%}"[:-1], f"{max(right[1:]):.0%}"[:-1]]
