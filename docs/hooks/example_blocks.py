"""The heading of the examples in docstrings, which end in two colons, as the other headings of a docstring look."""

from __future__ import annotations


def on_page_content(html: str, **_: object) -> str:
    """Replace the two colons before an example by a heading like that of the parameters."""
    return html.replace("<p>Example::</p>", "<p><strong>Example:</strong></p>")
