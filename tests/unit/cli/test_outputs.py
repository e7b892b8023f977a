"""Commands refuse to replace a file without --overwrite, before any work."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from helpers.commands import Command
from helpers.refusals import printed

from dipp.cli.options import EMBEDDED

DRAWING = {
    "plan": ("--epsilon", "2", "--plot"),
    "audit": ("--epsilon", "2", "--plot"),
    "simulate": ("--samples", "50", "--candidates", "64", "-o"),
}


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        *(("mine.png", (command, *options)) for command, options in DRAWING.items()),
        ("mine.onnx", ("export", EMBEDDED, "-o")),
        ("calibration.json", ("calibrate", EMBEDDED, "pictures", "-o")),
    ],
)
def test_an_existing_file_is_not_replaced(name: str, arguments: tuple[str, ...], tmp_path: Path, run: Command) -> None:
    (tmp_path / name).write_text("mine")
    code, out, err = run(*arguments, tmp_path / name)
    assert (code, out) == (1, "")
    assert (
        printed("output", f"exists already: {tmp_path / name}", "name another, or replace it with --overwrite") in err
    )
    assert (tmp_path / name).read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("calibrate", EMBEDDED, "pictures", "-o", "a.json", "--count", "0"), ("count", "must be at least 1, got 0")),
        (("calibrate", EMBEDDED, "pictures", "-o", "a.json", "--count", "-3"), ("count", "must be at least 1, got -3")),
        (
            ("train", "pictures", "-o", "run", "--steps", "1", "--batch", "1"),
            ("batch", "must be at least 2, got 1"),
        ),
        (
            ("train", "pictures", "-o", "run", "--steps", "1", "--ema", "1"),
            ("ema", "must be at least 0 and below 1, got 1"),
        ),
        (
            ("train", "pictures", "-o", "run", "--steps", "1", "--coded", "0"),
            ("coded", "must be above 0 and below 1, got 0"),
        ),
        (("decode", "a.dipp", "-o", "b", "--noisy", "--sample"), ("noisy", "denoises nothing", "leave out")),
        (("decode", "a.dipp", "-o", "b", "--noisy", "--calls", "2"), ("noisy", "denoises nothing", "leave out")),
        (("decode", "a.dipp", "-o", "b", "--ancestral", "--sample"), ("ancestral", "samples through every timestep")),
        (("simulate", "--code", "flat", "--alpha", "3"), ("alpha", "needs --code ppr: the flat code has α = 1")),
        (("encode", "-", "-o", "a.dipp", "--epsilon", "2"), ("images", "include -, which can be read only once")),
        (("simulate", "-o", "-"), ("output", "must end in .png")),
        (("calibrate", EMBEDDED, "pictures", "-o", "-"), ("output", "cannot be the standard output")),
        (
            ("privatize", "pictures", "-", "--epsilon", "2"),
            ("dst", "must be a new folder of shards, or a name in .dipp"),
        ),
        (
            ("privatize", "pictures", "r.parquet", "--epsilon", "2"),
            ("dst", "must be a new folder of shards, or a name in .dipp"),
        ),
        (
            ("privatize", "pictures", "r.PNG", "--epsilon", "2"),
            ("dst", "must be a new folder of shards, or a name in .dipp"),
        ),
    ],
)
def test_invalid_options_are_refused_before_any_work(
    arguments: tuple[str, ...], said: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = run(*arguments)
    assert code == 1
    assert err.startswith(printed(*said))
    assert not list(tmp_path.iterdir())


def test_a_pipe_is_not_a_picture(tmp_path: Path, run: Command) -> None:
    os.mkfifo(tmp_path / "pipe")
    code, _, err = run("encode", tmp_path / "pipe", "-o", tmp_path / "a.dipp", "--epsilon", "2")
    assert code == 1
    assert err.startswith(printed("images", f"include {tmp_path / 'pipe'}, which can be read only once"))


def test_overwrite_replaces_a_file(tmp_path: Path, run: Command) -> None:
    (tmp_path / "a.png").write_text("mine")
    assert run("simulate", *DRAWING["simulate"], tmp_path / "a.png", "--overwrite")[0] == 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("channel", ["laplace", "sign"])
@pytest.mark.parametrize("samples", [1, 2])
def test_few_samples_make_a_histogram_without_a_warning(
    samples: int, channel: str, tmp_path: Path, run: Command
) -> None:
    """One sample has no spread, and two samples lie at the ends of the histogram."""
    told = ("--samples", samples, "--channel", channel, "--candidates", 16)
    code, out, err = run("simulate", *told, "-o", tmp_path / "a.png")
    assert (code, err) == (0, "")
    assert f"received     {samples} sample" in out
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("command", DRAWING)
def test_a_plot_must_end_in_png(command: str, tmp_path: Path, run: Command) -> None:
    *options, last = DRAWING[command]
    code, _, err = run(command, *options, last, tmp_path / "a.txt")
    option = "output" if last == "-o" else "plot"
    assert (code, err) == (1, printed(option, "must end in .png, got a.txt") + "\n")
    assert not list(tmp_path.iterdir())
