"""The results of the experiment: its claims, the dependence of its records, and its notes."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from helpers.paths import ROOT

from dipp.models.diffusion import NoiseSchedule
from experiments.cifar10 import figures, provenance, report, tables
from experiments.cifar10.__main__ import noted
from experiments.cifar10.baseline import LaplaceNoise
from experiments.cifar10.config import Config
from experiments.cifar10.deviations import Observer
from experiments.cifar10.releases import Maker
from experiments.cifar10.store import Store

SMOKE = ROOT / "experiments" / "cifar10" / "smoke.toml"


def row(method: str, bits: float, last: float | None, **more: Any) -> dict[str, Any]:
    headline = method if method in ("laplace", "slicing") else "denoised"
    shares = {headline: None if last is None else {"last": last, "spread": 0.01, "on_clean": 0.3}}
    found = {"file_bpp": bits, "payload_bpp": bits, "headline": headline, "accuracy": shares}
    common = {"method": method, "epsilon": 4.0, "plotted": True, "same_steps": False, "earlier": False}
    return {"name": f"{method}-4", **common, **found, **more}


def test_claims_are_against_the_best_rival_of_each_epsilon() -> None:
    """Denoised noise counts as a rival as well, and of one method the better version counts."""
    base = row("laplace", 16.0, 0.3)
    base["accuracy"]["denoised"] = {"last": 0.4}
    others = [row("noise", 17.0, 0.45), row("one-channel", 8.0, 0.5), row("one-bit", 1.0, 0.55), row("paper", 0.1, 0.7)]
    low = row("sharp", 0.2, 0.9, plotted=False, name="sharp-4-low")
    (claim,) = report.claims([base, *others, low, row("sharp", 0.5, 0.6)])
    assert (claim["best_rival"], claim["margin"]) == ("one-bit", pytest.approx(0.05))
    assert claim["times_fewer_bits"] == {"laplace": 32, "noise": 34, "one-channel": 16}
    names = {entry["name"]: entry["accuracy"] for entry in claim["entries"]}
    assert names["laplace, denoised"] == 0.4
    lines = tables.of_claims([claim]).splitlines()
    assert lines[2].startswith("| 4 | sharp [sharp-4-low] | 0.2 | 90.0 % |")
    assert lines[-1].startswith("| 4 | one-bit | +5.0 points | 32 | 34 | 16 | 0.2 | 40 |")


def test_the_fewest_bits_are_of_a_release_that_teaches_as_much_as_the_best_rival() -> None:
    """Fewer bits that teach less do not count; nor do bits whose accuracy is unknown."""
    tags = {"low": (0.2, 0.49), "tenth": (0.5, 0.5), "new": (0.3, None)}
    rates = [row("sharp", *found, plotted=False, name=f"sharp-4-{tag}") for tag, found in tags.items()]
    rivals = [row("noise", 16.0, 0.4), row("one-channel", 8.0, 0.5)]
    (claim,) = report.claims([*rivals, row("sharp", 1.0, 0.7), *rates])
    assert claim["fewest_bits"] == {"release": "sharp-4-tenth", "bpp": 0.5, "times_fewer": 16}
    (claim,) = report.claims([*rivals, row("sharp", 1.0, 0.3)])
    assert claim["fewest_bits"] is None


def test_rates_are_drawn_where_there_are_several(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Drawn are `sharp` at each rate, the rivals, a tenth of the fewest noisy bits, and the best rival."""
    drawn: list[Any] = []
    monkeypatch.setattr(figures, "_save", lambda figure, _: drawn.append(figure))
    rivals = [row("noise", 16.0, 0.4), row("one-channel", 8.0, 0.5), row("laplace", 15.0, 0.2, earlier=True)]
    alone = {"claims": report.claims([*rivals, row("sharp", 1.0, 0.7), row("sharp", 0.5, None, plotted=False)])}
    figures.rates(alone, tmp_path / "rates.png")
    assert not drawn
    low = row("sharp", 0.2, 0.6, plotted=False)
    figures.rates({"claims": report.claims([*rivals, row("sharp", 1.0, 0.7), low])}, tmp_path / "rates.png")
    (axes,) = drawn[0].axes
    noise, one_channel, sharp = [[16.0, 0.4]], [[8.0, 0.5]], [[0.2, 0.6], [1.0, 0.7]]
    methods = sorted(container.lines[0].get_xydata().tolist() for container in axes.containers)
    assert methods == sorted([noise, one_channel, sharp])
    lines = [(list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines]
    assert ([0.8, 0.8], [0, 1]) in lines, "a tenth of the fewest noisy bits, over the whole height"
    assert ([0, 1], [0.5, 0.5]) in lines, "the accuracy of the best rival, over the whole width"


def test_claims_wait_for_what_is_not_measured() -> None:
    (claim,) = report.claims([row("sharp", 0.5, None), row("one-bit", 1.0, 0.5)])
    assert claim["margin"] is None
    assert claim["times_fewer_bits"] == {}
    assert f"| 4 | one-bit | {tables.MISSING} | {tables.MISSING} |" in tables.of_claims([claim])


def test_the_bound_of_a_probe_is_rounded_up() -> None:
    """At ε = 1 at most e/(1 + e) = 73.106 % of guesses are right, so printing 73.1 % would promise too much."""
    found = {"pixels": 1, "right": 0.73106, "expected": 0.73106, "bound": 0.73106, "losses": {}}
    probed = {"epsilon": 1.0, "certified": 1.0, "code": "pairs", "images": 64, "kinds": {"pixel": found}}
    assert tables.of_probes([probed]).endswith("| 1 | pixel | 1 | 73.1 % | 73.1 % | 73.2 % | pairs | 64 |\n")


def test_the_factor_of_two_compares_payloads_of_equal_and_of_own_steps() -> None:
    along = row("diffc", 0.5, 0.0, plotted=False, same_steps=True)
    (claim,) = report.claims([row("paper", 1.0, 0.5), row("diffc", 0.25, 0.5), along])
    assert (claim["paper_over_diffc_bits"], claim["paper_over_diffc_bits_same_steps"]) == (4, 2)


def test_the_first_experiment_is_shown_under_the_names_of_today() -> None:
    found = report.earlier(Config.load(SMOKE.with_name("config.toml")))
    assert {row["method"] for row in found} == {"clean", "laplace", "paper", "unclipped", "diffc"}
    assert all(row["earlier"] and row["plotted"] and row["name"].startswith(row["method"]) for row in found)
    claims = {claim["epsilon"]: claim for claim in report.claims(found)}
    denoised = next(e for e in claims[16]["entries"] if e["name"] == "laplace, denoised")
    assert denoised["accuracy"] == pytest.approx(0.636, abs=5e-4)
    assert claims[16]["best_rival"] == "laplace, denoised"


def test_accuracy_is_the_mean_and_the_spread_of_all_seeds() -> None:
    records = [
        {"seed": seed, "last": last, "best": last + 0.1, "clean": last + 0.2}
        for seed, last in enumerate((0.25, 0.75, 0.5))
    ]
    found = report.accuracy(records)
    assert found is not None
    assert (found["last"], found["spread"], found["each"]) == (0.5, 0.5, [0.25, 0.75, 0.5])
    assert (found["best"], found["on_clean"]) == pytest.approx((0.6, 0.7))
    assert report.accuracy([*records, None]) is None


def test_deviations_are_of_the_coordinates_that_a_step_codes() -> None:
    """δ = |x0 − x̂0|·√ΔSNR, with x0 in the order of the chunks."""
    pixels = np.array([[0, 255, 0, 255]], np.uint8)
    layout: Any = SimpleNamespace(chunks=SimpleNamespace(order=np.array([3, 0])), step=SimpleNamespace(snr_gain=4.0))
    reader: Any = lambda *_: "indices"  # noqa: E731
    observer = Observer(reader, pixels)
    assert observer(layout, torch.tensor([[0.5, 0.25]])) == "indices"
    assert np.array_equal(observer.met[0], np.array([[1.0, 2.5]], np.float32))


def test_the_baseline_is_denoised_from_what_was_released(tmp_path: Path) -> None:
    """They are denoised at the timestep of their SNR, scaled to it; clean pictures play no part."""
    seen: list[tuple[torch.Tensor, int]] = []

    def x0(x_t: torch.Tensor, t: int, **_: bool) -> torch.Tensor:
        seen.append((x_t, t))
        return x_t.clip(-1, 1)

    schedule = NoiseSchedule(np.linspace(0.999, 0.001, 1000))
    config = Config.load(SMOKE)
    release = config.release("laplace-4")
    pixels = np.random.default_rng(0).integers(0, 256, (3, 8, 8, 3)).astype(np.uint8)
    maker = Maker(config, Store(tmp_path), pixels, "", None, "cpu")
    maker.__dict__["denoiser"] = SimpleNamespace(
        schedule=schedule, device=torch.device("cpu"), x0=x0, identity="a network"
    )
    denoised = maker.pictures(release, "denoised")
    released = maker.pictures(release, "laplace")
    state, t = seen[0]
    gain, deviation = LaplaceNoise(4.0).line
    assert schedule.snr(t + 1) < (gain / deviation) ** 2 < schedule.snr(t - 1)
    expected = schedule.gamma(t) / gain * (np.moveaxis(released, 3, 1) / 127.5 - 1)
    assert np.allclose(state.numpy(), expected, atol=1e-5)
    (place,) = (tmp_path / "pictures").glob("laplace-4.*.denoised.npy")
    place.unlink()
    other = replace(maker, pixels=255 - pixels)
    other.__dict__["denoiser"] = maker.denoiser
    assert np.array_equal(other.pictures(release, "denoised"), denoised)


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("epochs = 2", "epochs = 3", ["ancestral", "metrics.", "train."]),  # metrics depend on the clean classifier
        ("clip = false", "clip = true", ["ancestral", "metrics.", "train.clean.clean."]),
        ("deviations = 4", "deviations = 3", ["deviations."]),
        ('"paper-256-unbound"   # ends at a low timestep: few network calls\nimages = 2', "", ["ancestral"]),
        ("relative_snr = 0.25", "relative_snr = 0.5", ["encode.paper-4-quarter", "metrics.paper-4-quarter"]),
        ("seeds = [0]", "seeds = [0]\nweight_decay = 1e-4", []),  # which is the default
        ("wave = 4", "wave = 3", []),
        ('reason = "reference"', 'reason = "another"', []),
        ("train = { denoised = [1, 4], noisy = [4] }", 'train = ["denoised", "noisy"]', []),
    ],
)
def test_records_name_what_they_are_made_of(tmp_path: Path, old: str, new: str, parts: list[str]) -> None:
    """A change of the config changes exactly the records that depend on it."""
    new = new or old.replace("images = 2", "images = 1")
    text = SMOKE.read_text()
    assert old in text
    (tmp_path / "other.toml").write_text(text.replace(old, new, 1))
    first, second = (
        {name: digest for stage in provenance.records(Config.load(path)).values() for name, digest in stage.items()}
        for path in (SMOKE, tmp_path / "other.toml")
    )
    differ = {name for name in first if second[name] != first[name]}
    assert differ == {name for name in first if name.startswith(tuple(parts))}


def test_a_release_is_made_of_the_one_that_it_is_like(tmp_path: Path) -> None:
    """Another rate of the paper's release gives another final timestep of DiffC's."""
    text = SMOKE.read_text()
    (tmp_path / "other.toml").write_text(text.replace("bpp = 0.03", "bpp = 0.5", 1))
    records = [provenance.records(Config.load(path))["encode"] for path in (SMOKE, tmp_path / "other.toml")]
    differ = {name.split(".")[1].split("-")[0] for name in records[0] if records[0][name] != records[1][name]}
    same = {name for name in records[0] if records[0][name] == records[1][name]}
    assert differ == {"paper", "diffc"}
    assert {name.split(".")[1] for name in same} == {"unclipped-1-plotted", "unclipped-4-plotted", "paper-256-unbound"}


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["config", "everybody"])
def test_a_report_is_made_of_the_records_alone(protocol: str, tmp_path: Path) -> None:
    """The tables in the repository follow from the records beside them; without previews there is no grid."""
    place = SMOKE.parent / "results" / ("" if protocol == "config" else protocol)
    shutil.copytree(place / "records", tmp_path / "records")
    made = report.write(Config.load(SMOKE.with_name(f"{protocol}.toml")), Store(tmp_path))
    for name in ("results.json", "tables.md"):
        assert (made / name).read_text() == (place / name).read_text()
    assert not (made / "grid.png").exists()


def test_an_odd_number_of_previews_is_shown_once_each() -> None:
    pictures = np.arange(3, dtype=np.uint8)[:, None, None, None] * np.ones((1, 1, 1, 3), np.uint8)
    assert figures._sheet(pictures)[..., 0].tolist() == [[0, 1], [2, 255]]


def test_the_command_is_noted_without_places_of_the_machine() -> None:
    words = [
        "--data",
        "/home/alice/data",
        "--output=/home/alice/run",
        "--only=paper-*",
        "--model=/home/a=b/c",
    ]
    assert noted(words) == "python -m experiments.cifar10 --data data --output=run '--only=paper-*' --model=c"


RELEASE = re.compile(r"^\*{0,2}([\d.]+) ± ([\d.]+) %\*{0,2} \(([\d.]+)\)$")


def test_the_tables_of_the_page_are_those_of_the_records() -> None:
    """Accuracy, its spread, accuracy on clean pictures and PSNR agree for every method and ε, and those by rate."""
    rows = {row["name"]: row for row in results()["releases"] if not row["earlier"]}
    page = (ROOT / "docs" / "experiment.md").read_text(encoding="utf-8")
    methods = "| ε | `sharp` | `cube` | `noise` | `one-channel` | `one-bit` |\n"
    right, quality = (_cells(part) for part in page.split(methods)[1:])
    trained = 0
    for (epsilon, *shares), (_, *dbs) in zip(right, quality, strict=True):
        names = [f"sharp-{epsilon}-plotted", *(f"{m}-{epsilon}" for m in ("cube", "noise", "one-channel", "one-bit"))]
        for name, share, db in zip(names, shares, dbs, strict=True):
            assert (share == "–") == (db == "–") == (name not in rows), name
            if name in rows:
                found = rows[name]["accuracy"]["denoised"]
                numbers = (100 * found["last"], 50 * found["spread"], 100 * found["on_clean"])
                told = RELEASE.match(share)
                assert told is not None
                assert told.groups() == tuple(f"{number:.1f}" for number in numbers), name
                assert db == f"{rows[name]['metrics']['denoised']['psnr']:.1f}", name
                trained += 1
    assert trained == 21
    rates = _cells(page.split("| ε | noisy values take |")[1].partition("\n")[2])
    for epsilon, _, _, tenth, low in rates:
        for tag, cell in (("tenth", tenth), ("low", low)):
            if cell != "not tried":
                row = rows[f"sharp-{epsilon}-{tag}"]
                found = row["accuracy"]["denoised"]
                share, bits = cell.split(" % in ")
                assert share == f"{100 * found['last']:.1f} ± {50 * found['spread']:.1f}"
                assert float(bits) == pytest.approx(row["file_bpp"], abs=6e-3 if tag == "tenth" else 6e-4)


def results() -> dict[str, Any]:
    """Return the results of the paper's protocol."""
    facts: dict[str, Any] = json.loads((SMOKE.parent / "results" / "results.json").read_text())
    return facts


def _cells(rest: str) -> list[list[str]]:
    """Return the lines of a table after its heading."""
    lines = itertools.takewhile(lambda line: line.startswith("|"), rest.splitlines())
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if not line.startswith("|---")]
