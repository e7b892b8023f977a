"""The documents: their code runs, their commands exist, and the site is complete and asks no other host."""

from __future__ import annotations

import contextlib
import importlib
import io
import itertools
import json
import math
import re
import shutil
import statistics
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
from helpers.commands import Command
from helpers.paths import DOCS, ROOT
from helpers.snippets import Snippet, snippets
from PIL import Image

from dipp.cli.main import app
from dipp.privacy import advice
from dipp.privacy.advice import DEFAULT_EPSILON, SCALE

NOTEBOOKS = sorted(DOCS.rglob("*.ipynb"))
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md")), *NOTEBOOKS]
ELSEWHERE = {DOCS / "release-a-dataset.md"}
"""Run by a test of its own, which looks at what comes out: `test_privatize`."""
RUN = [
    page
    for page in PAGES
    if page.suffix == ".md"
    and page not in ELSEWHERE
    and any(snippet.kind in ("python", "sh") for snippet in snippets(page))
]
SMALL = (24, 24)
"""Side of pictures here: what is shown is the same as with large ones, and takes a second instead of many."""


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", RUN, ids=name)
@pytest.mark.usefixtures("one_thread")
def test_the_code_of_each_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Command, recwarn: pytest.WarningsRecorder
) -> None:
    """Its code runs from the first line to the last in one folder, as a reader would run it, on smaller photographs."""
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
def test_each_notebook_runs_and_keeps_its_outputs(
    notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its cells run from the first to the last, and give the outputs that the notebook contains."""
    monkeypatch.chdir(tmp_path)
    cells = json.loads(notebook.read_text())["cells"]
    kept = [cell["outputs"] for cell in cells if cell["cell_type"] == "code"]
    given = list(run_notebooks.outputs(cells))
    assert [*map(kinds, given)] == [*map(kinds, kept)]


def kinds(outputs: list[dict[str, Any]]) -> list[tuple[str, set[str]]]:
    """Return the kind of each output, and the forms in which it can be shown."""
    return [(output["output_type"], set(output.get("data", {}))) for output in outputs]


def prepare(page: Path, run: Command) -> None:
    """Make the files that a page assumes in the current folder: photographs, an archive, a released dataset."""
    named = {
        word
        for snippet in snippets(page)
        if snippet.kind in ("python", "sh")
        for word in re.split(r"[\s\"]", snippet.text)
    }
    for file in {"cat.png", "coffee.png"} & named:
        if not any(["example", file] in snippet.commands for snippet in snippets(page)):
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
    """Check that each line of a block that is run is a command of `dipp`, so that nothing is left out."""
    lines = one.text.replace("\\\n", " ").splitlines()
    assert all(line.startswith("dipp ") for line in lines if line.strip())


def shrink(picture: Path) -> None:
    Image.open(picture).resize(SMALL).save(picture)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_command_that_a_page_shows_is_understood(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands that take hours or a GPU are parsed as well: the command, its arguments and its options exist."""
    monkeypatch.chdir(tmp_path)
    Path("DIR").mkdir()  # the name that pages give the folder of a denoiser
    group: Any = typer.main.get_command(app)
    for snippet in snippets(page):
        for arguments in snippet.commands:
            command, *rest = arguments
            assert command in group.commands, f"dipp {command}"
            group.commands[command].make_context(f"dipp {command}", list(rest))


def test_every_make_target_that_a_page_names_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.M))
    for page in PAGES:
        for target in re.findall(r"`make ([a-z]+)`|^make ([a-z]+)", page.read_text(), flags=re.M):
            assert set(target) - {""} <= targets, f"{name(page)}: make {target}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site strictly: a warning ends the build."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class TagCollector(HTMLParser):
    """All start tags of a page, with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {key: value or "" for key, value in attrs}))


def elements(site: Path) -> Iterator[tuple[Path, str, dict[str, str]]]:
    """Yield all start tags of the site, except those of the page for missing addresses, whose paths are absolute."""
    for page in (page for page in site.rglob("*.html") if page.name != "404.html"):
        for tag, attributes in TagCollector(page.read_text()).found:
            yield page, tag, attributes


FOREIGN = re.compile(r"^(https?:)?//")


def test_the_site_loads_nothing_from_other_hosts(site: Path) -> None:
    """Scripts, styles, fonts and pictures are files of the site, so that reading it tells no third party."""
    for page, tag, attributes in elements(site):
        if tag != "a":
            for key in ("src", "href", "srcset", "data", "action", "poster"):
                assert not FOREIGN.match(attributes.get(key, "")), f"{page.name}: {tag} {attributes[key]}"
        assert attributes.get("rel") not in ("preconnect", "dns-prefetch")
    for style in site.rglob("*.css"):
        for target in re.findall(r"url\(\s*[\"']?([^\"')]+)|@import\s+[\"']([^\"']+)", style.read_text()):
            assert not any(FOREIGN.match(one) for one in target), f"{style.name}: {target}"
    # With a repository address, the theme would ask its host for the number of stars.
    assert not any("md-source" in attributes.get("class", "").split() for _, _, attributes in elements(site))


def test_pictures_exist_and_have_a_description(site: Path) -> None:
    shown = [(page, attributes) for page, tag, attributes in elements(site) if tag == "img"]
    assert len(shown) > 20
    for page, attributes in shown:
        assert attributes.get("alt"), f"{page.name}: {attributes}"
        if not attributes["src"].startswith("data:"):
            assert (page.parent / attributes["src"]).is_file(), f"{page.name}: {attributes['src']}"


def test_links_within_the_site_lead_to_pages_that_exist(site: Path) -> None:
    """This includes links that the builder does not check: to notebooks, and from templates."""
    for page, tag, attributes in elements(site):
        target = attributes.get("href", "").partition("#")[0]
        if tag == "a" and target and not re.match(r"[a-z]+:", target) and target != "play/index.html":
            assert (page.parent / target).exists(), f"{page.name}: {target}"
            assert not target.endswith(".ipynb") or "download" in attributes, f"{page.name}: {target} is shown as JSON"


def test_the_page_is_linked_where_it_is_built(site: Path) -> None:
    """`make docs` keeps the page that `make page` has built."""
    built = (ROOT / "site" / "play" / "index.html").is_file()
    for page in ("index.html", "page.html"):
        assert ('href="play/index.html"' in (site / page).read_text()) == built
    recipe = re.search(r"^docs:.*?\n\n", (ROOT / "Makefile").read_text(), flags=re.M | re.S)
    assert recipe
    assert "! -name play" in recipe[0]


@pytest.mark.parametrize("before", [True, False], ids=["documents first", "page first"])
def test_documents_that_were_built_before_the_page_get_its_button(before: bool, tmp_path: Path) -> None:
    """`make page` builds the documents again if they were built before; here all that it needs is up to date."""
    shutil.copyfile(ROOT / "Makefile", tmp_path / "Makefile")
    for name in ("pyproject.toml", "constraints.txt", "web/package-lock.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    made = (
        ".venv/.docs",
        ".venv/.test",
        "web/node_modules/.package-lock.json",
        *(("site/index.html",) if before else ()),
    )
    for name in made:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    done = subprocess.run(["make", "-n", "page"], cwd=tmp_path, capture_output=True, text=True, check=True)  # noqa: S607
    assert "npm run --silent build" in done.stdout
    assert ("mkdocs build" in done.stdout) is before


PUBLIC = ("dipp", "dipp.audit", "dipp.codec", "dipp.codes", "dipp.odometer", "dipp.scoring")
"""Modules that say what is public in them."""


def test_the_reference_has_every_public_name(site: Path) -> None:
    anchors = {attributes.get("id", "") for page, _, attributes in elements(site) if page.parent.name == "api"}
    for module in PUBLIC:
        found = importlib.import_module(module)
        for public in found.__all__:
            home = getattr(getattr(found, public), "__module__", module)  # the module that defines it may list it
            assert {f"{module}.{public}", f"dipp.{public}", f"{home}.{public}"} & anchors, f"{module}.{public}"
    for command in typer.main.get_command(app).commands:  # type: ignore[attr-defined]
        assert f"dipp-{command}" in anchors, command


def test_notebooks_contain_the_outputs_of_a_whole_run() -> None:
    """Each notebook was run from its first cell to its last without an error, and names nothing of the machine."""
    for path in DOCS.rglob("*.ipynb"):
        cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
        assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1)), path.name
        outputs = [output for cell in cells for output in cell["outputs"]]
        assert outputs
        assert all(output["output_type"] != "error" for output in outputs)
        assert "/home/" not in path.read_text()
        assert "/tmp/" not in path.read_text()  # noqa: S108 - looked for, not used


def test_every_page_is_in_the_contents() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    listed = set(re.findall(r"[\w/-]+\.md", text[text.index("\nnav:") :]))
    pages = {page.relative_to(DOCS).with_suffix(".md").as_posix() for page in PAGES if page.is_relative_to(DOCS)}
    assert listed == pages


WRITTEN = [
    *PAGES,
    *(ROOT / name for name in ("pyproject.toml", "CITATION.cff", "mkdocs.yml", "CONTRIBUTING.md", "SECURITY.md")),
]
WRITTEN += [path for folder in ("src", "experiments", "web/src", "web/static") for path in (ROOT / folder).rglob("*.*")]


def test_nothing_leads_to_a_package_or_an_address_that_is_not_there() -> None:
    """No package index has dipp, and it has no public address yet."""
    for path in WRITTEN:
        if path.suffix in (".py", ".md", ".ipynb", ".toml", ".cff", ".yml", ".html", ".ts"):
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"install\s+[\"']?dp-dipp|github(usercontent)?\.com/dp-dipp", text), path.name
            assert not re.search(r"(?<!`)pip install dipp", text), path.name
            assert path.name == "pyproject.toml" or "dp-dipp[" not in text, path.name


def test_links_that_lead_out_of_the_documents_lead_to_copies(site: Path) -> None:
    """The site has a copy of every file that a page links to, so that no link leads to another host."""
    assert (site / "files/ARCHITECTURE.md.html").is_file()
    assert "# Architecture" in (site / "files/ARCHITECTURE.md.html").read_text()


# What an ε is worth: the same on every page, and measured.

READERS = json.loads((ROOT / "benchmarks/results/readers.json").read_text())
CONDITION = re.compile(r"who knows? every(thing else| (other )?pixel)")


def photographs(epsilon: float) -> list[float]:
    """Return how often the decoded photographs were right about a pixel, in percent."""
    return [
        100 * row["right"] for row in READERS["pixels"] if (row["epsilon"], row["picture"] != "text") == (epsilon, True)
    ]


def cells(page: Path, heading: str) -> list[list[str]]:
    """Return the rows of the first table of a page whose heading has these words."""
    lines = page.read_text(encoding="utf-8").splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("|") and heading in line)
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines[first + 2 :])
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def percent(value: float) -> str:
    return f"{round(value)} %"


def test_documents_have_the_scale_of_epsilon_of_the_code() -> None:
    rows = [
        [
            f"up to {row.largest:g}" if math.isfinite(row.largest) else f"above {SCALE[-2].largest:g}",
            row.name,
            row.meaning(),
        ]
        for row in SCALE
    ]
    assert cells(DOCS / "choosing.md", "as a bound | for somebody") == rows
    words = [f"an ε up to {SCALE[0].largest:g} is {SCALE[0].name}", f"up to {SCALE[1].largest:g} {SCALE[1].name}"]
    assert f"{', '.join(words)}, and above that {SCALE[2].name}" in (ROOT / "README.md").read_text().replace("\n", " ")


def test_bounds_and_measured_figures_stand_beside_each_other() -> None:
    """All pages give the bound as it is computed and the figures as they were measured, beside each other."""
    first = cells(ROOT / "README.md", "| bound | measured |")
    assert len(first) == 4
    for epsilon, belief, right, *_ in first:
        # README's bounds have one decimal, and are rounded up.
        assert float(belief.removesuffix(" %")) == pytest.approx(100 / (1 + math.exp(-float(epsilon))), abs=0.1)
        assert right == percent(statistics.mean(photographs(float(epsilon))))
    table = cells(DOCS / "choosing.md", "factor e^ε")
    assert [float(row[0]) for row in table] == sorted({row["epsilon"] for row in READERS["pixels"]})
    for epsilon, factor, name, belief, right, extremes, print_ in table:
        found = photographs(float(epsilon))
        assert float(factor.replace(",", "")) == pytest.approx(math.exp(float(epsilon)), rel=2e-3)
        assert name == advice.grade(float(epsilon)).name
        (small,) = (
            row["right"] for row in READERS["pixels"] if (row["epsilon"], row["picture"]) == (float(epsilon), "text")
        )
        assert belief == f"{advice.largest_belief(float(epsilon))} %"
        assert right == percent(statistics.mean(found))
        assert extremes == f"{round(min(found))} to {round(max(found))} %"
        assert print_ == percent(100 * small)


@pytest.mark.parametrize(
    ("heading", "records", "digits"),
    [("DP-Pix, denoised | PrivUnitG | words", ("units", "units-8"), 5), ("chained | words", ("units-cifar",), 3)],
)
def test_tables_of_units_are_those_of_their_records(heading: str, records: tuple[str, ...], digits: int) -> None:
    page = DOCS / "figures-units.md"
    names = next(line for line in page.read_text().splitlines() if heading in line).strip("|").split("|")[2:-1]
    found = {}
    for record in records:
        for row in json.loads((ROOT / f"benchmarks/results/{record}.json").read_text())["rows"]:
            values = [row["PSNR"][name.strip()] for name in names]
            quality = ["–" if value is None else f"{value:.1f}" for value in values]
            found[row["unit"], f"{row['epsilon']:g}"] = [*quality, f"{row['bits per pixel']['dipp']:.{digits}f}"]
    assert {(unit, epsilon): rest for unit, epsilon, *rest in cells(page, heading)} == found


def test_the_table_of_speed_on_a_gpu_is_that_of_its_records() -> None:
    found = []
    for preset in ("sharp", "swift"):
        record = json.loads((ROOT / f"benchmarks/results/codec-shipping-{preset}.json").read_text())
        for row in sorted(record["rows"], key=lambda row: row["epsilon"]):
            least, most = min(row["index_bits"]), max(row["index_bits"])
            rates = (f"{row[key]:,.0f}" for key in ("images_per_second", "decode_denoised_per_second"))
            bits = f"{least} to {most}" if least < most else f"{least}"
            found.append([f"`{preset}`, {row['steps']}", f"{row['epsilon']:g}", *rates, bits])
    assert cells(DOCS / "figures-speed.md", "encoded a second") == found


def test_documents_state_what_the_reader_of_plates_read() -> None:
    heights = sorted({row["height"] for row in READERS["plates"]})
    epsilons = sorted({row["epsilon"] for row in READERS["plates"]})
    expected = []
    for height in heights:
        read = []
        for epsilon in epsilons:
            rows = [row for row in READERS["plates"] if (row["epsilon"], row["height"]) == (epsilon, height)]
            pairs = [pair for row in rows for pair in zip(row["plate"], row["read"], strict=True)]
            read.append(f"{sum(true == seen for true, seen in pairs)} of {len(pairs)}")
        expected.append([f"{height} pixels", *read])
    assert cells(DOCS / "choosing.md", "letters of") == expected


def sentences(text: str) -> Iterator[str]:
    """Return the sentences of a page; a row of a table counts as one."""
    for block in re.split(r"\n(?=\|)|\n\s*\n", text):
        yield from re.split(r"(?<=\.)\s+", re.sub(r"\s+", " ", block))


def test_a_fifty_fifty_guess_names_its_reader() -> None:
    """The reader is named in the same sentence, and no word plays the guess down."""
    found = [
        (page, sentence)
        for page in PAGES
        for sentence in sentences(page.read_text(encoding="utf-8"))
        if "fifty-fifty" in sentence
    ]
    assert len({page for page, _ in found}) >= 3
    for page, one in found:
        assert CONDITION.search(one), f"{name(page)}: {one}"
    soft = r"reader[^.]*learns less|odds of any guess|can be given away|every pixel is protected"
    for page in PAGES:
        assert not re.search(soft, re.sub(r"\s+", " ", page.read_text(encoding="utf-8"))), name(page)


def test_every_example_of_a_release_takes_the_default() -> None:
    for page in PAGES:
        for snippet in snippets(page):
            for command, *rest in snippet.commands:
                larger = {"--hide", "--unit"} & set(rest)  # the default is that of a pixel
                if command in ("encode", "privatize") and "--epsilon" in rest and not larger:
                    assert float(rest[rest.index("--epsilon") + 1]) == DEFAULT_EPSILON, f"{name(page)}: {command}"
            if page.suffix == ".md":
                given = re.findall(r"from_pretrained\(.*epsilon=([\d.]+)", snippet.text)
                assert {*map(float, given)} <= {DEFAULT_EPSILON}, name(page)
    assert "**Begin with ε = 1.**" in (DOCS / "choosing.md").read_text()


@pytest.mark.parametrize(
    "page", ["README.md", *(f"docs/{one}.md" for one in ("index", "release-a-dataset", "choosing", "page"))]
)
def test_pages_that_show_a_release_say_that_it_is_recognisable(page: str) -> None:
    assert re.search(r"recognisable:\s+yes", (ROOT / page).read_text(encoding="utf-8"), flags=re.I)
