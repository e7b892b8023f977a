"""Links from the documents to files outside docs/: the site shows pictures itself, and the repository all else.

The documents are read in the repository as well, where `../benchmarks/results/audit.png` is the right link. A site
holds only what lies in docs/. So pictures from elsewhere become files of the site, under `figures/`, and links to other
files lead to the repository. A link to a file that is not there is a warning, which ends a strict build.
"""

from __future__ import annotations

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
"""Where pages link to the page that runs in the browser, if `make page` has built it."""
BUTTON = '<p class="play"><a class="md-button md-button--primary" href="play/index.html">Try it in this browser</a></p>'
ROOT = Path(__file__).parents[2]
log = logging.getLogger("mkdocs.hooks.outside")


def _path(target: str, page: str) -> str | None:
    """The path in the repository that a link of a page leads to; None if it is within docs."""
    found = os.path.normpath(PurePosixPath("docs", page).parent / target)
    return None if found.startswith("docs/") else found


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pictures that pages show from outside docs."""
    for page in [file for file in files if file.src_uri.endswith(".md") and file.abs_src_path]:
        for target, _ in LINK.findall(Path(str(page.abs_src_path)).read_text(encoding="utf-8")):
            found = _path(target, page.src_uri) or ""
            shown = found.endswith(PICTURES) and (ROOT / found).is_file()
            if shown and not files.get_file_from_path(f"figures/{found}"):
                files.append(File.generated(config, f"figures/{found}", abs_src_path=str(ROOT / found)))
    return files


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, **_: object) -> str:
    """Let links lead to the pictures of the site, or to the repository."""
    here = page.file.src_uri

    def replaced(link: re.Match[str]) -> str:
        found = _path(link[1], here)
        if found is None:
            return link[0]
        if not (ROOT / found).exists():
            log.warning("%s: %s is not in the repository", here, found)
        if found.endswith(PICTURES):
            return f"]({os.path.relpath(f'figures/{found}', PurePosixPath(here).parent)})"
        kind = "tree" if (ROOT / found).is_dir() else "blob"
        return f"]({config.extra['repository']}/{kind}/main/{found}{link[2] or ''})"

    built = (ROOT / "site" / "play" / "index.html").is_file()
    return LINK.sub(replaced, markdown.replace(PLAY, BUTTON if built else ""))
