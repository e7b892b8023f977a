"""Python and the command do the same: plan, certificate, warnings and odometer."""

from __future__ import annotations

import dataclasses
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from helpers.commands import Command
from helpers.redaction import BOX, saved, scene
from helpers.refusals import refused
from PIL import Image

import dipp
from dipp import report
from dipp.cli.main import app
from dipp.codec.options import EncodeOptions
from dipp.core.beacon import Beacon
from dipp.data.shards import Shard
from dipp.data.store import Store
from dipp.format.parameters import PublicParameters
from dipp.odometer import LimitError, Meter, Odometer
from dipp.redaction import Record, check
from dipp.redaction.record import beside
from dipp.redaction.redact import AskOptions
from dipp.release import PrivatizeOptions

pytestmark = pytest.mark.usefixtures("one_thread", "quick")


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Save three pictures of three sizes, one of them grey."""
    generator = np.random.default_rng(5)
    paths = [tmp_path / f"{number}.png" for number in range(3)]
    for path, shape in zip(paths, ((8, 8, 3), (20, 12, 3), (9, 30)), strict=True):
        Image.fromarray(generator.integers(0, 256, shape, np.uint8)).save(path)
    return paths


@dataclasses.dataclass(frozen=True)
class Sides:
    """What both sides of a comparison are given."""

    files: list[Path]
    model: Path
    folder: Path
    run: Command
    caplog: pytest.LogCaptureFixture
    monkeypatch: pytest.MonkeyPatch

    def count_in(self, odometer: Path) -> None:
        """Let an odometer of its own count what is released from here on, and forget what was said before."""
        self.monkeypatch.setenv("DIPP_ODOMETER", str(odometer))
        self.caplog.clear()


@pytest.fixture
def sides(
    files: list[Path],
    model: Path,
    tmp_path: Path,
    run: Command,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> Sides:
    return Sides(files, model, tmp_path, run, caplog, monkeypatch)


def public(parameters: PublicParameters) -> PublicParameters:
    """Return the public parameters of an archive, without its seed."""
    return dataclasses.replace(parameters, seed=bytes(16), beacon=None)


def rows(folder: Path) -> list[Any]:
    """Return the content of an odometer, without names of releases, times and marks, which differ by its key."""
    odometer = Odometer.open(folder, make=False)
    pictures = [(picture.releases, picture.epsilon, picture.rho, picture.name) for picture in odometer.pictures(99)]
    return [[row[2:] for row in odometer.releases()], sorted(pictures, key=str)]


def of_odometer(messages: list[str]) -> list[str]:
    """Return the messages of the odometer, without its folder."""
    return [text.split("; ", 1)[1] for text in messages if text.startswith("odometer: ")]


BUDGETS: list[tuple[list[Any], dict[str, Any]]] = [
    (["--epsilon", 4], {"epsilon": 4}),
    (["--epsilon", 1, "--bpp", 0.5], {"epsilon": 1, "bpp": 0.5}),
    (["--epsilon", 2, "--delta", 1e-6], {"epsilon": 2, "delta": 1e-6}),
    (["--rho", 3, "--preset", "swift"], {"rho": 3, "preset": "swift"}),
    (["--preset", "paper", "--epsilon", 8], {"preset": "paper", "epsilon": 8}),
    (["--preset", "diffc", "--final-timestep", 150], {"preset": "diffc", "final_timestep": 150}),
]


def test_every_option_of_a_command_is_one_of_python() -> None:
    """Only the command has files to write and options to print; only Python takes a parsed odometer."""
    python = {
        "encode": {*EncodeOptions.__annotations__, "images"},
        "privatize": {*PrivatizeOptions.__annotations__, "src", "dst"},
        "redact": {*AskOptions.__annotations__, "regions", "images"},
    }
    counting = {"odometer_limit", "odometer_size", "odometer_begin", "odometer_names"}
    other = {"output", "overwrite", "as_json", "gaps", *counting}
    commands: Any = typer.main.get_command(app)
    for name, names in python.items():
        command = {str(param.name) for param in commands.commands[name].params}
        assert command - other == names - other - {"progress"}, name


def test_a_keyword_that_is_no_option_is_refused(files: list[Path]) -> None:
    calls: list[Any] = [dipp.encode, dipp.Codec.from_pretrained, dipp.redact]
    for call in calls:
        with pytest.raises(TypeError, match=rf"{call.__name__}\(\) got an unexpected keyword argument 'epsilom'"):
            call(files[0], epsilom=4)
    with pytest.raises(TypeError, match="'epsilom'"):
        dipp.privatize("src", "dst", epsilom=4)  # type: ignore[call-arg]


def test_a_beacon_is_given_as_in_the_command(files: list[Path], model: Path) -> None:
    text = f"7:{'ab' * 32}"
    made = [
        dipp.encode(files[0], epsilon=4, model=model, odometer=False, seed=bytes(16), beacon=beacon)
        for beacon in (text, Beacon.parse(text))
    ]
    assert made[0].parameters == made[1].parameters
    assert made[0].parameters.beacon == Beacon(7, b"\xab" * 32)
    for wrong in ("7", 7):
        with refused("beacon", "ROUND:VALUE"):
            dipp.encode(files[0], epsilon=4, model=model, odometer=False, beacon=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(("options", "arguments"), BUDGETS, ids=lambda value: str(value))
def test_python_encodes_as_the_command_does(
    count: int, options: list[Any], arguments: dict[str, Any], sides: Sides
) -> None:
    paths, file = sides.files[-count:], sides.folder / "a.dipp"
    of_command, of_python = sides.folder / "command", sides.folder / "python"
    sides.count_in(of_command)
    said = ""
    for _ in range(2):  # the second time, the pictures were released before
        code, out, err = sides.run("encode", *paths, "-o", file, "--overwrite", "--model", sides.model, *options)
        assert code == 0, err
        said += err
    command = dipp.open(file)
    text = report.archive_text(command)
    assert out.startswith(text)
    warned = [*report.advice_facts(command.facts())["warnings"], *out.removeprefix(text).strip().splitlines()]
    sides.count_in(of_python)
    for _ in range(2):
        python = dipp.encode([str(path) for path in paths], model=sides.model, **arguments)
    assert public(python.parameters) == public(command.parameters)
    assert python.runs.tolist() == command.runs.tolist()
    assert python.grey.tolist() == command.grey.tolist()
    if "diffc" not in options:
        assert python.certificate == command.certificate
    messages = sides.caplog.messages
    assert [message for message in messages if not message.startswith("odometer: ")] == 2 * warned
    assert all(record.levelno == logging.WARNING for record in sides.caplog.records)
    lines = [line.removeprefix("dipp: ") for line in said.splitlines()]
    assert of_odometer(messages) == of_odometer(lines)
    assert len(of_odometer(lines)) == 2
    assert rows(of_python) == rows(of_command)


def test_encode_takes_what_a_codec_takes(files: list[Path], model: Path) -> None:
    """The plan is that of the size, in whatever form the picture is given."""
    import torch

    with Image.open(files[1]) as opened:
        picture = np.array(opened)
    given = (files[1], [files[1]], Image.fromarray(picture), picture, torch.from_numpy(picture).permute(2, 0, 1))
    made = [dipp.encode(image, epsilon=4, model=model, odometer=False) for image in given]
    assert {tuple(one.runs.tolist()[0]) for one in made} == {(1, 20, 12)}
    assert len({public(one.parameters) for one in made}) == 1
    wrongs: list[Any] = [[], 3, np.zeros((4, 4), np.float32), "nowhere.png"]
    for wrong in wrongs:
        with pytest.raises(dipp.DippError):
            dipp.encode(wrong, epsilon=4, model=model)
    with refused("images", files[0].name, "twice"):
        dipp.encode([files[0], str(files[0])], epsilon=4, model=model)
    with refused("images", str(files[0].parent), remedy="`dipp privatize"):
        dipp.encode(files[0].parent, epsilon=4, model=model)


def test_encode_can_opt_out_and_keeps_limits(files: list[Path], model: Path, odometer: Path) -> None:
    dipp.encode(files[0], epsilon=2, model=model, odometer=False)
    assert not odometer.exists()
    archive = dipp.encode(files[0], epsilon=2, model=model, odometer=Meter(2, begin=True))
    with pytest.raises(LimitError):
        dipp.encode(files[0], epsilon=2, model=model, odometer=Meter(1.5 * archive.certificate.epsilon))
    for nothing in (None, 0, ""):  # only False turns the odometer off
        with refused("odometer", "True", "False", "Meter"):
            dipp.encode(files[0], epsilon=2, model=model, odometer=nothing)  # type: ignore[arg-type]
        with refused("odometer", "True", "False", "Meter"):
            dipp.privatize(
                files[0].parent,
                odometer.parent / "out",
                epsilon=2,
                model=model,
                odometer=nothing,  # type: ignore[arg-type]
                progress=False,
            )


@pytest.mark.parametrize("single", [False, True])
def test_python_privatizes_as_the_command_does(single: bool, sides: Sides) -> None:
    model, folder = sides.model, sides.folder
    source = folder / "source"
    source.mkdir()
    for path in sides.files:
        path.rename(source / path.name)
    (source / "bad.png").write_bytes(b"no picture")
    names = ("a.dipp", "b.dipp") if single else ("a", "b")
    command, python = (folder / name for name in names)
    sides.count_in(folder / "command")
    options = ("--epsilon", 4, "--model", model, "--workers", 1, "--shard-size", 2, "--json")
    code, out, err = sides.run("privatize", source, command, *options)
    assert code == 3, err
    said, unused = json.loads(out), [line for line in err.splitlines() if line.startswith(("only", "bound"))]
    sides.count_in(folder / "python")
    summary = dipp.privatize(source, python, epsilon=4, model=model, workers=1, shard_size=2)
    messages = [message for message in sides.caplog.messages if not message.startswith("odometer: ")]
    assert messages == [*said["warnings"], *unused]
    assert [one[:2] for one in summary.skipped] == [(one["position"], one["reason"]) for one in said["skipped"]]
    assert json.loads(json.dumps(summary.facts["certificate"])) == said["certificate"]
    assert rows(folder / "python") == rows(folder / "command")
    if single:
        assert public(dipp.open(python).parameters) == public(dipp.open(command).parameters)
        return
    assert {path.name for path in python.iterdir()} == {path.name for path in command.iterdir()}
    for ours, theirs in zip(Store(python).shards(), Store(command).shards(), strict=True):
        assert public(Shard.read(ours).parameters) == public(Shard.read(theirs).parameters)
    assert len(dipp.load(python, model)) == len(dipp.load(command, model)) == 3


def test_privatize_refuses_as_the_command_does(model: Path, tmp_path: Path, run: Command) -> None:
    empty = tmp_path / "source"
    empty.mkdir()
    (empty / "bad.png").write_bytes(b"no picture")
    cases: list[dict[str, Any]] = [{"shard_size": 0}, {"engine": "spark"}, {"workers": 0}, {"address": "here"}, {}]
    for arguments in cases:
        options = [text for name, value in arguments.items() for text in (f"--{name.replace('_', '-')}", value)]
        code, _, err = run("privatize", empty, tmp_path / "out", "--epsilon", 4, "--model", model, *options)
        assert code == 1
        with pytest.raises(dipp.DippError) as caught:
            dipp.privatize(empty, tmp_path / "out", epsilon=4, model=model, progress=False, **arguments)
        assert err.endswith(f"dipp: {caught.value}\n")
        assert not (tmp_path / "out").exists()


DECODINGS: list[tuple[list[Any], dict[str, Any]]] = [
    ([], {}),
    (["--noisy"], {"noisy": True}),
    (["--sample", "--calls", 3], {"sample": True, "calls": 3}),
    (["--ancestral", "--steps", 1], {"ancestral": True, "steps": 1}),
]


def test_python_decodes_as_the_command_does(sides: Sides) -> None:
    """Both give the same pictures, or the same refusal."""
    file, out = sides.folder / "a.dipp", sides.folder / "out"
    archive = dipp.encode(sides.files, epsilon=4, model=sides.model, odometer=False)
    archive.save(file)
    for options, arguments in DECODINGS:
        code, _, err = sides.run("decode", file, "-o", out, "--overwrite", "--model", sides.model, *options)
        assert code == 0, err
        pictures = archive.decode(sides.model, **arguments)
        assert len(list(out.iterdir())) == len(pictures) == 3
        for number, (picture, grey) in enumerate(zip(pictures, archive.grey, strict=True)):
            with Image.open(out / f"{number:05d}.png") as opened:
                assert opened.mode == ("L" if grey else "RGB")
                np.testing.assert_array_equal(np.asarray(opened.convert("RGB")), picture)
    wrong: list[tuple[list[Any], dict[str, Any]]] = [
        (["--noisy", "--sample"], {"noisy": True, "sample": True}),
        (["--steps", 99], {"steps": 99}),
        (["--calls", 0], {"calls": 0}),
        (["--max-work", 1e-9], {"max_work": 1e-9}),
    ]
    for options, arguments in wrong:
        code, _, err = sides.run("decode", file, "-o", sides.folder / "no", "--model", sides.model, *options)
        assert code == 1
        with pytest.raises(dipp.DippError) as caught:
            archive.decode(sides.model, **arguments)
        assert err.endswith(f"dipp: {caught.value}\n")


def street(folder: Path) -> tuple[Path, Path]:
    """Save a folder of two pictures, and the file that declares a box in each."""
    source, declared = folder / "street", folder / "regions.json"
    source.mkdir()
    for number, (name, kind) in enumerate((("a.jpg", "JPEG"), ("b.png", "PNG"))):
        (source / name).write_bytes(saved(scene(number), kind))
    boxes = [{"kind": "face", "box": list(BOX)}, {"kind": "plate", "box": [5, 60, 9, 8]}]
    pictures = [{"name": name, "regions": boxes} for name in ("a.jpg", "b.png")]
    declared.write_text(json.dumps({"format": "dipp regions", "version": 1, "pictures": pictures}))
    return source, declared


def of_record(record: Record) -> dict[str, Any]:
    """Return the content of a record, without the randomly drawn answers and all that follows from them."""
    drawn = ("answers", "output")
    return {name: value for name, value in record.facts.items() if name not in drawn}


@pytest.mark.parametrize("epsilon", [0, 4])
def test_python_redacts_as_the_command_does(epsilon: float, sides: Sides) -> None:
    source, declared = street(sides.folder)
    picture, target = source / "a.jpg", sides.folder / "out.jpg"
    sides.count_in(sides.folder / "command")
    options = ("--regions", declared, "--kinds", "face", "--margin", "10%", "--epsilon", epsilon)
    code, out, err = sides.run("redact", picture, "-o", target, "--json", *options)
    assert code == 0, err
    said = [line.removeprefix("dipp: ") for line in err.splitlines()]
    sides.count_in(sides.folder / "python")
    python = dipp.redact(picture, regions=declared, kinds=["face"], margin="10%", epsilon=epsilon)
    assert of_odometer(sides.caplog.messages) == of_odometer(said)
    assert len(said) == len(sides.caplog.messages) == 1
    command = Record.read(beside(target))
    assert json.loads(out) == [command.facts]
    assert of_record(python.record) == of_record(command)
    if not epsilon:
        assert python.content == target.read_bytes()
    assert rows(sides.folder / "python") == rows(sides.folder / "command")
    saved_as = sides.folder / "python.jpg"
    python.save(saved_as)
    assert check(saved_as, Record.read(beside(saved_as))) == check(target, command)


def test_python_redacts_datasets_as_the_command_does(sides: Sides) -> None:
    source, declared = street(sides.folder)
    command, python = sides.folder / "a", sides.folder / "b"
    sides.count_in(sides.folder / "command")
    code, out, err = sides.run(
        "privatize", source, command, "--regions", declared, "--fill", "grey", "--workers", 1, "--json"
    )
    assert code == 0, err
    said = json.loads(out)
    sides.count_in(sides.folder / "python")
    summary = dipp.privatize(source, python, regions=declared, fill="grey", workers=1)
    assert [message for message in sides.caplog.messages if not message.startswith("odometer: ")] == said["warnings"]
    assert json.loads(json.dumps(summary.facts["certificate"])) == said["certificate"]
    assert rows(sides.folder / "python") == rows(sides.folder / "command")
    written = [
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for folder in (python, command)
    ]
    assert {*written[0]} == {*written[1]}
    assert all(written[0][name] == content for name, content in written[1].items() if name.suffix != ".md")
