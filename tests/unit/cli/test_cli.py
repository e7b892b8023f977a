"""The command: help is fast, bad input gets one clear line, and `simulate` draws a plot."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from helpers.commands import Command
from helpers.refusals import printed
from PIL import Image

HEAVY = ("torch", "numba", "diffusers", "scipy", "matplotlib", "triton")


def process(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from dipp.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603


@pytest.mark.parametrize("module", ["dipp", "dipp.cli"])
def test_imports_are_light(module: str) -> None:
    """Heavy libraries are loaded when first used, so that import and help stay far under a second."""
    probe = f"import {module}, sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout  # noqa: S603
    assert loaded.strip() == "[]"


@pytest.mark.slow
def test_encoding_and_decoding_load_nothing_heavy_but_pytorch(tmp_path: Path) -> None:
    """Imports were half of the start-up time. A plan of pairs needs neither numba nor tables nor plots."""
    picture, made = tmp_path / "a.png", tmp_path / "a.dipp"
    Image.new("RGB", (8, 8), "teal").save(picture)
    heavy = (*HEAVY[1:], "pyarrow", "pandas", "datasets", "huggingface_hub", "cryptography", "ray")
    commands = [["encode", picture, "-o", made, "--epsilon", "2"], ["decode", made, "-o", tmp_path / "b.png"]]
    probe = f"""
import sys
from dipp.cli import main
for words in {[list(map(str, words)) for words in commands]}:
    sys.argv[1:] = words
    try:
        main()
    except SystemExit as stop:
        assert not stop.code
print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=False)  # noqa: S603
    assert done.stderr.strip().splitlines()[-1] == "[]", done.stderr


@pytest.mark.slow
def test_simulate_writes_a_plot_and_states_the_certificate(tmp_path: Path, run: Command) -> None:
    picture = tmp_path / "laplace.png"
    code, out, err = run("simulate", "--output", picture, "--samples", 50, "--candidates", 64)
    assert code == 0, err
    assert "ε = 3.89" in out, "what teaches stays below 4"
    assert "bits a number" in out
    with Image.open(picture) as image:
        assert image.size[0] > 500


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--channel", "gaussian"), "channel"),
        (("--channel", "cat"), "channel"),
        (("--x", "2"), "x"),
        (("--x", "nan"), "x"),
        (("--alpha", "0.5"), "alpha"),
        (("--alpha", "two"), "alpha"),
        (("--candidates", "0"), "candidates"),
        (("--snr", "-1"), "snr"),
        (("--samples", "0"), "samples"),
        (("--code", "exact"), "code"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, arguments: tuple[str, str], word: str, run: Command) -> None:
    code, _, err = run("simulate", "--output", tmp_path / "out.png", "--samples", 1, *arguments)
    assert code == 1
    assert err.startswith(printed(word))
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    done = process("simulate", "--output", str(tmp_path / "no" / "out.png"), "--samples", "1")
    assert done.returncode == 1
    assert "does not exist" in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_full_output_ends_in_one_line() -> None:
    command = [sys.executable, "-c", "from dipp.cli import main; main()", "--version"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)  # noqa: S603
    assert (done.returncode, done.stderr) == (1, "dipp: reading or writing failed (No space left on device)\n")


def test_usage_errors_exit_with_2() -> None:
    assert process("simulate", "--no-such-option").returncode == 2
