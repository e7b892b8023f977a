"""Links from the documents to files outside docs/: the site gets a copy of each, so that no link leads out of it.

The documents are read in the repository as well, where `../benchmarks/results/audit.png` is the right link. A site
holds only what lies in docs/. So other files are copied to `files/` in the site: pictures unchanged, and text in a page
that shows it. A link to a missing file is a warning, which ends a strict build.
"""

from __future__ import annotations

import html
import logging
import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

LINK = re.compile(r"\]\((\.\./[^)\s#]*)(#[^)\s]*)?\)")
PICTURES = (".png", ".jpg", ".svg")
PLAY = "<!-- play -->"
"""Address of the page that runs in the browser; pages link to it if `make page` has built it."""
BUTTON = '<p class="play"><a class="md-button md-button--primary" href="play/index.html">Try it in this browser</a></p>'
ROOT = Path(__file__).parents[2]
log = logging.getLogger("mkdocs.hooks.outside")


def _path(target: str, page: str) -> str | None:
    """Return the path in the repository that a link of a page leads to; None if it is within docs."""
    found = os.path.normpath(PurePosixPath("docs", page).parent / target)
    return None if found.startswith("docs/") else found


def _copy(path: str) -> str:
    """Return where the site has its copy of a file of the repository."""
    return f"files/{path}" if path.endswith(PICTURES) else f"files/{path}.html"


def _shown(path: str) -> str:
    """Return a text file of the repository as a page."""
    text = html.escape((ROOT / path).read_text(encoding="utf-8"))
    head = f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(path)}</title></head>'
    return f"{head}<body><pre>{text}</pre></body></html>\n"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files from outside docs that pages link to."""
    for page in [file for file in files if file.src_uri.endswith(".md") and file.abs_src_path]:
        for target, _ in LINK.findall(Path(str(page.abs_src_path)).read_text(encoding="utf-8")):
            found = _path(target, page.src_uri)
            if found is None or not (ROOT / found).is_file() or files.get_file_from_path(_copy(found)):
                continue
            if found.endswith(PICTURES):
                files.append(File.generated(config, _copy(found), abs_src_path=str(ROOT / found)))
            else:
                files.append(File.generated(config, _copy(found), content=_shown(found)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Lead links to the copies in the site."""
    here = page.file.src_uri

    def replaced(link: re.Match[str]) -> str:
        found = _path(link[1], here)
        if found is None:
            return link[0]
        if not (ROOT / found).is_file():
            log.warning("%s: %s is no file of the repository", here, found)
        return f"]({os.path.relpath(_copy(found), PurePosixPath(here).parent)})"

    built = (ROOT / "site" / "play" / "index.html").is_file()
    return LINK.sub(replaced, markdown.replace(PLAY, BUTTON if built else ""))
