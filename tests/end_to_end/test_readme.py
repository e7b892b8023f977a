"""The README: its links work everywhere, and its claims are true. `test_docs` runs its code."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import tomllib

import yaml
from helpers.paths import ROOT

from dipp import __version__

README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_every_link_leads_into_this_tree() -> None:
    """Links are relative, so that they work in every clone at any address."""
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert len(links) > 15
    for link in links:
        path, _, anchor = link.partition("#")
        assert (ROOT / path).exists(), path
        assert (ROOT / path).resolve().is_relative_to(ROOT), path
        if anchor:
            heads = re.findall(r"^#+ (.*)", (ROOT / path).read_text(encoding="utf-8"), flags=re.M)
            assert anchor in {re.sub(r"[^\w\s-]", "", head).lower().replace(" ", "-") for head in heads}, anchor


def test_the_install_commands_work() -> None:
    """`make demo` makes the environment that the next line activates; there, `dipp` and `python` are the project's."""
    (install, *_) = re.findall(r"^```\n(.*?)^```", README, flags=re.S | re.M)
    first, second = (line.partition("#")[0].strip() for line in install.splitlines())
    assert (first, second) == ("make demo", ". .venv/bin/activate")
    recipe = (ROOT / "Makefile").read_text()
    assert re.search(r"^demo: \.venv/\.demo$", recipe, flags=re.M)
    (commands,) = re.findall(r"^\.venv/\.demo:.*\n((?:\t.*\n)+)", recipe, flags=re.M)
    assert commands.split("\n\t") == ["\t$(PYTHON) -m venv .venv", "@$(DOWNLOADS)", "$(PIP) .", "touch $@\n"]
    activate = second.replace(".venv", sys.prefix)
    commands = f"{activate} && command -v dipp && dipp --version && python -c 'import dipp; print(dipp.__version__)'"
    shell, environment = ["/bin/sh", "-c", commands], {"PATH": os.defpath}
    done = subprocess.run(shell, capture_output=True, text=True, check=True, env=environment)  # noqa: S603
    assert done.stdout.splitlines() == [f"{sys.prefix}/bin/dipp", f"dipp {__version__}", __version__]


def test_the_readme_names_no_package_index_and_no_address() -> None:
    """The name on a package index belongs to another project, and no address of a repository is known."""
    start = (ROOT / "docs/index.md").read_text(encoding="utf-8").replace("\n", " ")
    assert "No package index has dipp; `pip install dipp` installs somebody else's package." in start
    assert "pip install dipp" not in README
    assert "urls" not in PROJECT
    assert PROJECT["authors"] == [{"name": "the dipp developers"}]
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert "repository-code" not in cited
    assert cited["references"][0]["title"] in README.replace("\n", " ")


def test_the_table_of_epsilons_states_measured_figures() -> None:
    """The values in brackets are of the best denoised rivals, by PSNR and by accuracy."""
    rows = json.loads((ROOT / "experiments/cifar10/results/results.json").read_text())["releases"]
    form = r"^\| ([\d.]+) \| ([\d.]+) % \| \d+ % \| ([\d.]+) \(([\d.]+)\) \| (\d+) % \((\d+) %\) \|$"
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
