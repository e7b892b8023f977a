"""Notebooks as pages: their text, their code, and the outputs of the last run.

Notebooks are JSON and pages are Markdown, so the conversion needs no library. Pictures become files of the site, and
readers can download the notebook itself.
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

LINK = re.compile(r"(\]\([^)\s]*)\.ipynb\)")
KINDS = {"image/png": "png", "image/jpeg": "jpg"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each notebook."""
    for notebook in [file for file in files if file.src_uri.endswith(".ipynb")]:
        stem = notebook.src_uri.removesuffix(".ipynb")
        pictures: list[tuple[str, bytes]] = []
        text = page(json.loads(Path(str(notebook.abs_src_path)).read_text(encoding="utf-8")), stem, pictures)
        files.append(File.generated(config, f"{stem}.md", content=text))
        for name, content in pictures:
            files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Lead links to notebooks, as they are in the repository, to their pages."""
    return LINK.sub(r"\1.md)", markdown)


def page(notebook: dict[str, Any], stem: str, pictures: list[tuple[str, bytes]]) -> str:
    """Return the Markdown of a notebook, and add its pictures to the list by name."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        parts += [_output(output, stem, pictures) for output in cell["outputs"]]
    name = f"{Path(stem).name}.ipynb"
    parts.append(f'<a href="{name}" download>The notebook itself</a> can be run in Jupyter.')
    return "\n\n".join(part for part in parts if part)


def _output(output: dict[str, Any], stem: str, pictures: list[tuple[str, bytes]]) -> str:
    """Return the output of a cell: a picture, HTML or text. What goes to the error stream is left out."""
    if output.get("name") == "stderr":
        return ""
    data = output.get("data", {"text/plain": output.get("text", "")})
    for kind, ending in KINDS.items():
        if kind in data:
            name = f"{stem}-{len(pictures) + 1}.{ending}"
            pictures.append((name, base64.b64decode("".join(data[kind]))))
            return f"![output of the cell above]({Path(name).name})"
    if "text/html" in data:
        return f'<div class="output">{"".join(data["text/html"])}</div>'
    return f"```{{ .text .output .no-copy }}\n{''.join(data['text/plain']).rstrip()}\n```"
