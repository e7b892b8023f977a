"""The glossary, taken from ARCHITECTURE.md, so that it is written once."""

from __future__ import annotations

from pathlib import Path

MARK = "<!-- glossary -->"
ARCHITECTURE = Path(__file__).parents[2] / "ARCHITECTURE.md"


def on_page_markdown(markdown: str, **_: object) -> str:
    """Replace the mark by the table of terms."""
    if MARK not in markdown:
        return markdown
    section = ARCHITECTURE.read_text(encoding="utf-8").split("\n## Glossary\n", 1)[1]
    table = [line for line in section.split("\n## ", 1)[0].splitlines() if line.startswith("|")]
    return markdown.replace(MARK, "\n".join(table))
