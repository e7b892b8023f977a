"""Options as dataclasses: `grouped` makes each field an option, and the options of every command are what they were."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from dipp.cli.main import app
from dipp.cli.options import EMBEDDED, PlanOptions, grouped


@dataclass(frozen=True)
class Tea:
    """A group with something that must be given."""

    leaves: Annotated[str, typer.Argument(help="What is brewed.")]
    cups: Annotated[int, typer.Option("--cups", "-c", help="How much of it.")]
    minutes: Annotated[float, typer.Option(help="How long.")] = 3.0
    milk: Annotated[bool, typer.Option("--milk", help="Or not.")] = False


@dataclass(frozen=True)
class Guests:
    names: Annotated[list[str] | None, typer.Option(help="Who comes; may be given again.")] = None
    table: Annotated[Path | None, typer.Option(help="Where.")] = None


def party(
    host: Annotated[str, typer.Argument()],
    tea: Tea,
    guests: Guests,
    loud: Annotated[bool, typer.Option("--loud")] = False,
) -> None:
    """Have a party."""
    typer.echo(repr((host, tea, guests, loud)))


@pytest.fixture
def toy() -> typer.Typer:
    made = typer.Typer(add_completion=False)
    made.command()(grouped(party))
    return made


def parameters(command: Any) -> tuple[list[str], dict[str, Any]]:
    """The arguments in order, and the options as they are spelt, with their defaults: … stands for what is required."""
    arguments = [one.name for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and one.name != "help"]
    return arguments, {" ".join(one.opts): ... if one.required else one.default for one in options}


def test_the_fields_of_all_groups_are_options(toy: typer.Typer) -> None:
    made = typer.main.get_command(toy)
    arguments, options = parameters(made)
    assert arguments == ["host", "leaves"]
    assert options == {
        "--cups -c": ...,
        "--minutes": 3.0,
        "--milk": False,
        "--names": None,
        "--table": None,
        "--loud": False,
    }
    assert made.help == "Have a party."


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("Ann", "assam", "-c", "2"), ("Ann", Tea("assam", 2), Guests(), False)),
        (
            ("Ann", "assam", "--cups", "7", "--milk", "--names", "Bob", "--names", "Eve", "--table", "/t", "--loud"),
            ("Ann", Tea("assam", 7, 3.0, True), Guests(["Bob", "Eve"], Path("/t")), True),
        ),
    ],
)
def test_the_command_gets_the_dataclasses(toy: typer.Typer, words: tuple[str, ...], expected: Any) -> None:
    result = CliRunner().invoke(toy, words)
    assert result.exit_code == 0, result.output
    assert result.output.strip() == repr(expected)


def test_what_is_required_in_a_group_is_asked_for(toy: typer.Typer) -> None:
    result = CliRunner().invoke(toy, ["Ann", "assam"])
    assert result.exit_code == 2
    assert "--cups" in result.output


def test_two_groups_cannot_have_an_option_of_one_name() -> None:
    @dataclass(frozen=True)
    class Coffee:
        cups: int = 1
        sugar: int = field(default=0)

    def both(tea: Tea, coffee: Coffee) -> None:
        """Too much."""

    both.__annotations__ = {"tea": Tea, "coffee": Coffee, "return": None}
    with pytest.raises(ValueError, match="cups"):
        grouped(both)


def test_a_command_without_groups_stays_as_it_is() -> None:
    def plain(x: int = 3) -> None:
        """Nothing is grouped."""
        typer.echo(x)

    made = typer.Typer()
    made.command()(grouped(plain))
    assert CliRunner().invoke(made, ["--x", "5"]).output == "5\n"


PLAN = {
    "--model": EMBEDDED,
    "--epsilon": None,
    "--delta": None,
    "--rho": None,
    "--preset": "sharp",
    "--bpp": None,
    "--final-timestep": None,
    "--calibration": None,
}
HIDING = {
    "--margin": "0",
    "--kinds": None,
    "--fill": "paint",
    "--boxes": None,
    "--gaps": None,
    "--allow-none": False,
    "--accept-lossy": False,
}
COUNTED = {
    "--odometer": True,
    "--odometer-limit": None,
    "--odometer-size": None,
    "--odometer-begin": False,
    "--odometer-names": False,
}
COMMANDS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "simulate": (
        [],
        {
            "--output -o": Path("simulation.png"),
            "--channel": "laplace",
            "--code": "ppr",
            "--x": 0.5,
            "--snr": 0.12,
            "--alpha": None,
            "--candidates": 1024,
            "--samples": 4000,
            "--overwrite": False,
        },
    ),
    "encode": (
        ["images"],
        {
            "--output -o": ...,
            **PLAN,
            **COUNTED,
            "--overwrite": False,
            "--device": "auto",
            "--seed": None,
            "--beacon": None,
            "--window": None,
        },
    ),
    "decode": (
        ["archive"],
        {
            "--output -o": ...,
            "--model": EMBEDDED,
            "--noisy": False,
            "--sample": False,
            "--ancestral": False,
            "--calls": None,
            "--steps": None,
            "--max-work": None,
            "--overwrite": False,
            "--device": "auto",
        },
    ),
    "info": (["archive"], {"--json": False, "--size": None, "--verify": False, "--model": None, "--calibration": None}),
    "audit": (
        [],
        {
            "--epsilon": 4.0,
            "--preset": None,
            "--json": False,
            "--plot": None,
            "--model": None,
            "--calibration": None,
            "--mechanism": None,
            "--runs": 4000,
            "--overwrite": False,
        },
    ),
    "privatize": (
        ["src", "dst"],
        {
            **PLAN,
            **HIDING,
            "--regions": None,
            "--device": "auto",
            "--engine": "local",
            "--workers": None,
            "--address": None,
            "--shard-size": 1024,
            "--split": None,
            "--image-column": None,
            "--label-column": None,
            "--drop-labels": False,
            "--window": None,
            "--strict": False,
            "--skip-changed": False,
            "--overwrite": False,
            "--json": False,
            "--seed": None,
            "--beacon": None,
            **COUNTED,
        },
    ),
    "redact": (
        ["images"],
        {
            "--output -o": ...,
            "--regions": ...,
            **HIDING,
            "--odometer": True,
            "--model": EMBEDDED,
            "--device": "auto",
            "--overwrite": False,
            "--json": False,
        },
    ),
    "regions": (["images"], {"--detector": ..., "--output -o": ..., "--overwrite": False}),
    "check": (["picture", "record"], {"--device": "auto", "--json": False}),
    "odometer": (["pictures"], {"--delta": None, "--add": None, "--size": None, "--json": False}),
    "card": (
        ["release"],
        {
            "--name": None,
            "--curator": None,
            "--license --licence": None,
            "--use": None,
            "--region": None,
            "--url": None,
            "--output -o": None,
            "--overwrite": False,
        },
    ),
    "keygen": (["key"], {}),
    "sign": (
        ["release"],
        {
            "--key": ...,
            "--output -o": None,
            "--expires": None,
            "--overwrite": False,
            "--model": None,
            "--calibration": None,
        },
    ),
    "verify": (
        ["release"],
        {"--key": ..., "--attestation": None, "--json": False, "--model": None, "--calibration": None},
    ),
    "plan": ([], {**PLAN, "--plot": None, "--overwrite": False, "--json": False}),
    "calibrate": (
        ["model", "data"],
        {"--output -o": None, "--count": 256, "--device": "auto", "--window": None, "--overwrite": False},
    ),
    "train": (
        ["data"],
        {
            "--output -o": ...,
            "--minutes": None,
            "--steps": None,
            "--batch": None,
            "--learning-rate": 3e-3,
            "--ema": 0.9995,
            "--coded": 0.5,
            "--size": 192,
            "--network": None,
            "--start": None,
            "--validation": None,
            "--pause-after": None,
            "--seed": 0,
            "--device": "auto",
        },
    ),
    "example": (["picture"], {}),
    "export": (["model"], {"--output -o": ..., "--overwrite": False}),
    "page": (["folder"], {"--port": 8321}),
}
"""Arguments and options, with their defaults: scripts rely on them. What version 0.1 has is there as it was."""


def test_the_commands_are_what_they_were() -> None:
    whole: Any = typer.main.get_command(app)
    assert set(whole.commands) == set(COMMANDS)
    assert {"--version", "--install-completion", "--show-completion"} == set(parameters(whole)[1])


def test_help_has_a_short_name_everywhere() -> None:
    for words in (["-h"], *([name, "-h"] for name in COMMANDS)):
        assert "Usage" in CliRunner().invoke(app, words).output, words


def test_what_may_be_chosen_is_completed() -> None:
    """As a shell asks for it."""
    for words, wanted in (("dipp encode --device ", {"auto", "cuda", "mps", "cpu"}), ("dipp enc", {"encode"})):
        asked = {"_DIPP_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": words}
        result = CliRunner().invoke(app, [], prog_name="dipp", env=asked)
        assert all(f'"{word}"' in result.output for word in wanted), result.output


def test_one_spelling_of_output() -> None:
    whole: Any = typer.main.get_command(app)
    for name, command in whole.commands.items():
        shown = [one for one in command.params if not getattr(one, "hidden", False)]
        assert not [one for one in shown for spelt in one.opts if spelt in ("--out", "--to", "--folder")], name


def test_commands_are_listed_in_the_order_of_use() -> None:
    whole: Any = typer.main.get_command(app)
    listed = list(whole.commands)
    for earlier, later in (("example", "encode"), ("encode", "info"), ("info", "decode"), ("decode", "privatize")):
        assert listed.index(earlier) < listed.index(later)
    for words in (("privatize", "odometer", "keygen", "sign", "verify"), ("train", "calibrate", "export")):
        assert [name for name in listed if name in words] == list(words)
    shown = re.findall(r"^\W{2}(\w+) ", CliRunner().invoke(app, ["--help"]).output, re.MULTILINE)
    assert [name for name in shown if name in listed] == listed


@pytest.mark.parametrize("name", ["encode", "privatize"])
def test_help_says_that_a_budget_is_required(name: str) -> None:
    whole: Any = typer.main.get_command(app)
    (epsilon,) = (one for one in whole.commands[name].params if "--epsilon" in one.opts)
    assert "Required, except with --rho" in epsilon.help


@pytest.mark.parametrize("name", COMMANDS)
def test_the_options_of_a_command_are_what_they_were(name: str) -> None:
    whole: Any = typer.main.get_command(app)
    assert parameters(whole.commands[name]) == COMMANDS[name]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_says_what_it_is(name: str) -> None:
    whole: Any = typer.main.get_command(app)
    assert all(one.help for one in whole.commands[name].params if one.name != "help")
    result = CliRunner().invoke(app, [name, "--help"])
    assert result.exit_code == 0
    assert whole.commands[name].help.splitlines()[0][:40] in " ".join(result.output.split())


def test_the_defaults_of_a_plan_are_those_of_the_command_line() -> None:
    """Who makes the options in code gets what the command line gives."""
    assert {f"--{name.replace('_', '-')}": value for name, value in vars(PlanOptions()).items()} == PLAN
