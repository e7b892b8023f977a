"""The reference of the command line, written from the commands themselves."""

from __future__ import annotations

from typing import Any

import typer

from dipp.cli.main import app

MARK = "<!-- commands -->"


def on_page_markdown(markdown: str, **_: object) -> str:
    """Replace the mark by the reference of the commands."""
    if MARK not in markdown:
        return markdown
    group: Any = typer.main.get_command(app)
    return markdown.replace(MARK, "\n\n".join(_section(name, one) for name, one in group.commands.items()))


def _section(name: str, command: Any) -> str:
    """Return what a command does, its arguments and its options."""
    rows = ["| | |", "|---|---|"]
    for one in command.params:
        help_text = _cell(getattr(one, "help", None) or "")
        if one.param_type_name == "argument":
            rows.append(f"| `{one.name.upper()}{'...' if one.nargs < 0 else ''}` | {help_text} |")
        elif not one.hidden:
            names = ", ".join(f"`{spelt}`" for spelt in (*one.opts, *one.secondary_opts))
            rows.append(f"| {names} | {help_text}{_default(one)} |")
    return f"## dipp {name} {{ #dipp-{name} }}\n\n{command.help}\n\n" + "\n".join(rows)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def _default(option: Any) -> str:
    """Return the default of an option; empty if it says nothing."""
    if option.required:
        return " *Required.*"
    if isinstance(option.show_default, str):
        return f" Default: {_cell(option.show_default)}."
    if option.is_flag or option.default is None or callable(option.default) or option.default == "":
        return ""
    return f" Default: `{option.default}`."
