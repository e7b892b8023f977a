"""Options as dataclasses: `grouped` makes each field an option."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from dipp.cli.main import app
from dipp.cli.options import grouped


@dataclass(frozen=True)
class Tea:
    """A group with a required option."""

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
    """Be a command with two groups of options."""
    typer.echo(repr((host, tea, guests, loud)))


@pytest.fixture
def toy() -> typer.Typer:
    made = typer.Typer(add_completion=False)
    made.command()(grouped(party))
    return made


def parameters(command: Any) -> tuple[list[str], dict[str, Any]]:
    """Return the arguments in order, and the options with their defaults; … stands for a required one."""
    arguments = [param.name for param in command.params if param.param_type_name == "argument"]
    options = [param for param in command.params if param.param_type_name == "option" and param.name != "help"]
    return arguments, {" ".join(option.opts): ... if option.required else option.default for option in options}


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
    assert made.help == "Be a command with two groups of options."


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
        """Be a command whose groups have an option of the same name."""

    both.__annotations__ = {"tea": Tea, "coffee": Coffee, "return": None}
    with pytest.raises(ValueError, match="cups"):
        grouped(both)


def test_a_command_without_groups_stays_as_it_is() -> None:
    def plain(x: int = 3) -> None:
        """Be a command without groups."""
        typer.echo(x)

    made = typer.Typer()
    made.command()(grouped(plain))
    assert CliRunner().invoke(made, ["--x", "5"]).output == "5\n"


WHOLE: Any = typer.main.get_command(app)
COMMANDS = tuple(WHOLE.commands)


def test_help_has_a_short_name_everywhere() -> None:
    for words in (["-h"], *([name, "-h"] for name in COMMANDS)):
        assert "Usage" in CliRunner().invoke(app, words).output, words


def test_what_may_be_chosen_is_completed() -> None:
    """A shell can complete the choices of an option and the names of commands."""
    for words, wanted in (("dipp encode --device ", {"auto", "cuda", "mps", "cpu"}), ("dipp enc", {"encode"})):
        asked = {"_DIPP_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": words}
        result = CliRunner().invoke(app, [], prog_name="dipp", env=asked)
        assert all(f'"{word}"' in result.output for word in wanted), result.output


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_says_what_it_is(name: str) -> None:
    whole: Any = typer.main.get_command(app)
    assert all(param.help for param in whole.commands[name].params if param.name != "help")
    result = CliRunner().invoke(app, [name, "--help"])
    assert result.exit_code == 0
    assert whole.commands[name].help.splitlines()[0][:40] in " ".join(result.output.split())
