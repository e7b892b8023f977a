"""The documents: all code that they show runs, all commands that they show exist, and the site is whole and private."""

from __future__ import annotations

import contextlib
import importlib
import io
import itertools
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import run_notebooks
import torch
import typer
import yaml
from helpers.commands import Command
from helpers.paths import DOCS, ROOT
from helpers.snippets import Snippet, snippets
from PIL import Image

from dipp.cli.main import app

NOTEBOOKS = sorted(DOCS.rglob("*.ipynb"))
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md")), *NOTEBOOKS]
ELSEWHERE = {DOCS / "datasets.md"}
"""Run by a test of its own, which looks at what comes out: `test_privatize`."""
RUN = [
    page
    for page in PAGES
    if page.suffix == ".md" and page not in ELSEWHERE and any(one.kind in ("python", "sh") for one in snippets(page))
]
SMALL = (24, 24)
"""Side of pictures here: what is shown is the same as with large ones, and takes a second instead of many."""


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", RUN, ids=name)
@pytest.mark.usefixtures("one_thread")
def test_what_a_page_shows_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Command, recwarn: pytest.WarningsRecorder
) -> None:
    """From its first line to its last, in one folder, as a reader would do it; photographs are scaled down."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT)  # examples.mechanisms
    prepare(page, run)
    torch.manual_seed(0)
    names: dict[str, Any] = {}
    shown = snippets(page)
    for one, following in itertools.zip_longest(shown, shown[1:]):
        if one.kind == "python":
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(one.text, names)  # noqa: S102 - the document's own example
            assert not following or following.kind != "text" or following.text == printed.getvalue()
        elif one.kind == "sh":
            require_commands_only(one)
            for arguments in one.commands:
                code, _, err = run(*arguments)
                assert code == 0, f"dipp {' '.join(arguments)}: {err}"
                if arguments[0] == "example":
                    shrink(tmp_path / arguments[1])
    assert not list(recwarn)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=name)
@pytest.mark.usefixtures("one_thread")
def test_a_notebook_runs(notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its first cell to its last, and it keeps what these cells give: text here, pictures there."""
    monkeypatch.chdir(tmp_path)
    cells = json.loads(notebook.read_text())["cells"]
    kept = [cell["outputs"] for cell in cells if cell["cell_type"] == "code"]
    given = list(run_notebooks.outputs(cells))
    assert [*map(kinds, given)] == [*map(kinds, kept)]


def kinds(outputs: list[dict[str, Any]]) -> list[tuple[str, set[str]]]:
    """What each output is, and what it can be shown as."""
    return [(one["output_type"], set(one.get("data", {}))) for one in outputs]


def prepare(page: Path, run: Command) -> None:
    """What a page takes for granted, in the current folder: photographs, an archive, a released dataset."""
    named = {word for one in snippets(page) if one.kind in ("python", "sh") for word in re.split(r"[\s\"]", one.text)}
    for file in {"cat.png", "coffee.png"} & named:
        if not any(["example", file] in one.commands for one in snippets(page)):
            run("example", file)
            shrink(Path(file))
    if "pets-private" in named:
        for kind in ("cat", "dog"):
            (Path("pets") / kind).mkdir(parents=True)
            Image.new("RGB", (8, 8), "teal").save(Path("pets") / kind / f"{kind}.png")
        run("privatize", "pets", "pets-private", "--epsilon", 2, "--preset", "swift", "--workers", 1)
    if "pets.dipp" in named:
        Image.new("RGB", (8, 8), "olive").save("pet.png")
        run("encode", "pet.png", "-o", "pets.dipp", "--epsilon", 2, "--preset", "swift")


def require_commands_only(one: Snippet) -> None:
    """In a block that is run, each line is a command of `dipp`: nothing is left out unseen."""
    lines = one.text.replace("\\\n", " ").splitlines()
    assert all(line.startswith("dipp ") for line in lines if line.strip())


def shrink(picture: Path) -> None:
    Image.open(picture).resize(SMALL).save(picture)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_command_that_a_page_shows_is_understood(page: Path) -> None:
    """Also those that take hours or a GPU: the command, its arguments and its options are there."""
    group: Any = typer.main.get_command(app)
    for one in snippets(page):
        for arguments in one.commands:
            command, *rest = arguments
            assert command in group.commands, f"dipp {command}"
            group.commands[command].make_context(f"dipp {command}", list(rest))


def test_every_target_that_a_page_names_is_there() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.M))
    for page in PAGES:
        for target in re.findall(r"`make ([a-z]+)`|^make ([a-z]+)", page.read_text(), flags=re.M):
            assert set(target) - {""} <= targets, f"{name(page)}: make {target}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly: a warning ends the build."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Elements(HTMLParser):
    """All start tags of a page, with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {key: value or "" for key, value in attrs}))


def elements(site: Path) -> Iterator[tuple[Path, str, dict[str, str]]]:
    """All start tags of the site, but for those of the page of a server that finds none: its paths are absolute."""
    for page in (page for page in site.rglob("*.html") if page.name != "404.html"):
        for tag, attributes in Elements(page.read_text()).found:
            yield page, tag, attributes


FOREIGN = re.compile(r"^(https?:)?//")


def test_the_site_asks_nobody_else_for_anything(site: Path) -> None:
    """Scripts, styles, fonts and pictures are the site's own: reading it tells no third party."""
    for page, tag, attributes in elements(site):
        if tag != "a":
            for key in ("src", "href", "srcset", "data", "action", "poster"):
                assert not FOREIGN.match(attributes.get(key, "")), f"{page.name}: {tag} {attributes[key]}"
        assert attributes.get("rel") not in ("preconnect", "dns-prefetch")
    for style in site.rglob("*.css"):
        for target in re.findall(r"url\(\s*[\"']?([^\"')]+)|@import\s+[\"']([^\"']+)", style.read_text()):
            assert not any(FOREIGN.match(one) for one in target), f"{style.name}: {target}"
    # The theme would ask the host of a repository that it knows for its stars.
    assert not any("md-source" in attributes.get("class", "").split() for _, _, attributes in elements(site))


def test_pictures_are_there_and_say_what_they_show(site: Path) -> None:
    shown = [(page, attributes) for page, tag, attributes in elements(site) if tag == "img"]
    assert len(shown) > 20
    for page, attributes in shown:
        assert attributes.get("alt"), f"{page.name}: {attributes}"
        if not attributes["src"].startswith("data:"):
            assert (page.parent / attributes["src"]).is_file(), f"{page.name}: {attributes['src']}"


def test_links_within_the_site_lead_somewhere(site: Path) -> None:
    """Also those that the builder does not know: to notebooks, and from templates."""
    for page, tag, attributes in elements(site):
        target = attributes.get("href", "").partition("#")[0]
        if tag == "a" and target and not re.match(r"[a-z]+:", target) and target != "play/index.html":
            assert (page.parent / target).exists(), f"{page.name}: {target}"
            assert not target.endswith(".ipynb") or "download" in attributes, f"{page.name}: {target} is shown as JSON"


def test_the_page_is_linked_where_it_is_built(site: Path) -> None:
    """`make docs` leaves alone what `make page` has built beside it."""
    built = (ROOT / "site" / "play" / "index.html").is_file()
    for page in ("index.html", "page.html"):
        assert ('href="play/index.html"' in (site / page).read_text()) == built
    recipe = re.search(r"^docs:.*?\n\n", (ROOT / "Makefile").read_text(), flags=re.M | re.S)
    assert recipe
    assert "! -name play" in recipe[0]


PUBLIC = ("dipp", "dipp.audit", "dipp.codec", "dipp.codes", "dipp.odometer", "dipp.scoring")
"""Modules that say what is public in them."""


def test_the_reference_has_every_public_name(site: Path) -> None:
    anchors = {attributes.get("id", "") for page, _, attributes in elements(site) if page.parent.name == "api"}
    for module in PUBLIC:
        found = importlib.import_module(module)
        for public in found.__all__:
            home = getattr(getattr(found, public), "__module__", module)  # where it is defined: it may be listed there
            assert {f"{module}.{public}", f"dipp.{public}", f"{home}.{public}"} & anchors, f"{module}.{public}"
    for command in typer.main.get_command(app).commands:  # type: ignore[attr-defined]
        assert f"dipp-{command}" in anchors, command


def test_notebooks_are_kept_with_what_they_gave() -> None:
    """Each was run from its first cell to its last, without an error; nothing in it tells of the machine."""
    for path in DOCS.rglob("*.ipynb"):
        cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
        assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1)), path.name
        outputs = [output for cell in cells for output in cell["outputs"]]
        assert outputs
        assert all(output["output_type"] != "error" for output in outputs)
        assert "/home/" not in path.read_text()
        assert "/tmp/" not in path.read_text()  # noqa: S108 - looked for, not used


def test_every_page_is_in_the_contents() -> None:
    """And the site knows the repository by the same address as the package does."""
    text = (ROOT / "mkdocs.yml").read_text()
    listed = set(re.findall(r"[\w/-]+\.md", text[text.index("\nnav:") :]))
    pages = {page.relative_to(DOCS).with_suffix(".md").as_posix() for page in PAGES if page.is_relative_to(DOCS)}
    assert listed == pages
    extra = yaml.safe_load(text[text.index("\nextra:") : text.index("\nhooks:")])["extra"]
    assert f'Repository = "{extra["repository"]}"' in (ROOT / "pyproject.toml").read_text()
