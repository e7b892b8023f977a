"""The code and the commands that documents show."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```", flags=re.S | re.M)


@dataclass(frozen=True)
class Snippet:
    """A fenced block of a document, or a cell of a notebook."""

    kind: str
    """The language of the fence: python, sh (commands that work as they stand), or empty."""
    text: str

    @property
    def commands(self) -> Iterator[list[str]]:
        """The lines that call `dipp`, as arguments; a backslash continues a line, and a hash begins a comment."""
        for line in self.text.replace("\\\n", " ").splitlines():
            if line.startswith(("dipp ", "!dipp ")):
                yield shlex.split(line, comments=True)[1:]


def snippets(path: Path) -> list[Snippet]:
    """Return all snippets of a document, in order."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        return [Snippet("python", "".join(cell["source"])) for cell in cells if cell["cell_type"] == "code"]
    return [Snippet(kind.strip(), block) for kind, block in FENCE.findall(text)]
