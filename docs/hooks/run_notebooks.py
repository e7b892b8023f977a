"""Run the notebooks of docs/notebooks from the first cell to the last, and write the outputs into them.

    python docs/hooks/run_notebooks.py            # all of them, in a folder that vanishes

No Jupyter is needed: a cell is Python, except lines that begin with `!dipp`, which are commands and are run in this
process. The output of a cell is what it prints, and the value of its last expression; the error stream, with its
progress, is not kept. The tests run the notebooks by the same function, `outputs`.
"""

from __future__ import annotations

import argparse
import ast
import base64
import contextlib
import io
import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image

FOLDER = Path(__file__).parents[1] / "notebooks"
COMMAND = re.compile(r"^!(dipp .*)$", flags=re.M)


def command(line: str) -> None:
    """Run a line of the command line in this process."""
    from dipp.cli.main import main

    before, sys.argv = sys.argv, shlex.split(line)
    try:
        main()
    except SystemExit as stop:
        if stop.code:
            raise RuntimeError(f"{line}: exit code {stop.code}") from None
    finally:
        sys.argv = before


def outputs(cells: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Return the outputs of each code cell of a notebook, in the notebook's format; the cells share their names."""
    names: dict[str, Any] = {"__name__": "notebook", "_dipp": command}
    for number, cell in enumerate((cell for cell in cells if cell["cell_type"] == "code"), 1):
        code = ast.parse(COMMAND.sub(lambda found: f"_dipp({found[1]!r})", "".join(cell["source"])))
        *code.body, end = code.body
        last = ast.Expression(end.value) if isinstance(end, ast.Expr) else None
        code.body += [] if last else [end]
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, "cell", "exec"), names)  # noqa: S102 - the notebook's own code
            value = eval(compile(last, "cell", "eval"), names) if last else None  # noqa: S307
        given: list[dict[str, Any]] = []
        if printed.getvalue():
            given.append({"output_type": "stream", "name": "stdout", "text": printed.getvalue().splitlines(True)})
        if value is not None:
            shown = {"output_type": "execute_result", "execution_count": number, "data": data(value), "metadata": {}}
            given.append(shown)
        yield given


def data(value: Any) -> dict[str, Any]:
    """Return a value as notebooks show it: a picture, HTML if it has some, and text."""
    if isinstance(value, Image.Image):
        stream = io.BytesIO()
        value.save(stream, "PNG", optimize=True)
        return {"image/png": base64.b64encode(stream.getvalue()).decode(), "text/plain": [f"{value.size} picture"]}
    html = {"text/html": [value._repr_html_()]} if hasattr(value, "_repr_html_") else {}
    return html | {"text/plain": [repr(value)]}


def run(path: Path) -> None:
    """Run a notebook in the current folder, and write the outputs into it."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, (cell, given) in enumerate(zip(cells, outputs(notebook["cells"]), strict=True), 1):
        cell.update(outputs=given, execution_count=number)
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    """Run the named notebooks, by default all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("notebook", nargs="*", type=Path, default=sorted(FOLDER.glob("*.ipynb")))
    for path in parser.parse_args().notebook:
        with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
            os.environ["DIPP_ODOMETER"] = f"{place}/odometer"
            run(FOLDER / path.name)
            print(path.name)


if __name__ == "__main__":
    main()
