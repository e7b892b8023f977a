"""The order of the rooms: each imports only rooms before it, and the first rooms stay light.

The modules that a certificate depends on (core, scoring's definition, codes, privacy, format) can be read and run
without a framework.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.paths import ROOT
from helpers.syntax import imports

import dipp

PACKAGE = ROOT / "src" / "dipp"
ROOMS = (
    "core",
    "scoring",
    "codes",
    "privacy",
    "odometer",
    "format",
    "models",
    "planning",
    "codec",
    "redaction",
    "audit",
    "data",
    "training",
    "risk",
    "attest",
    "papers",
    "release",
    "report",
    "cli",
)
"""Each may import those before it."""
NOBODYS = {"errors": {"files"}, "files": {"errors"}, "compiling": set(), "__version__": set()}
"""What belongs to no room and may be imported by all, with all that it may import itself."""
FACADE = {name: path.split(".")[1] for name, path in dipp._LAZY.items()}
"""Names that `dipp` has for its users, with the room that each is in."""
MODULES = sorted(PACKAGE.rglob("*.py"))


def place(path: Path) -> tuple[str, str]:
    """Return the room of a module, or its name if it has no room, and its package."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return parts[1], ".".join(parts[:-1])


def taken(code: str, package: str) -> set[str]:
    """Return the rooms, and modules without a room, that a module imports from the package."""
    found = set()
    for name in imports(code, package):
        first, *rest = name.split(".")
        if first == "dipp":
            found |= {FACADE.get(rest[0], rest[0])} if rest else set(FACADE.values())
    return found


def forbidden(code: str, package: str) -> set[str]:
    """Return the imports of a module from rooms that its room must not import."""
    allowed = {*ROOMS[: ROOMS.index(package.split(".")[1]) + 1], *NOBODYS}
    return taken(code, package) - allowed


# The order.


def test_no_module_imports_a_later_room() -> None:
    """Imports count at any level of nesting, and those for the type checker as well."""
    for path in MODULES:
        where, package = place(path)
        if where in ROOMS:
            assert not forbidden(path.read_text(), package if package != "dipp" else f"dipp.{where}"), path
        elif where != "__init__":
            assert taken(path.read_text(), package) <= NOBODYS[where], path


def test_no_module_imports_what_only_a_checkout_has() -> None:
    """Commands of an installed package find neither experiments nor benchmarks nor tests."""
    folders = {folder.name for folder in ROOT.iterdir() if folder.is_dir()}
    assert {"experiments", "benchmarks", "tests"} <= folders
    for path in MODULES:
        assert not folders & {name.split(".")[0] for name in imports(path.read_text(), place(path)[1])}, path


def test_importing_dipp_imports_no_room() -> None:
    """`import dipp` imports no room: its names are for the type checker, or loaded when first used."""
    code = (PACKAGE / "__init__.py").read_text()
    assert taken(code, "dipp") == set(FACADE.values())
    lines = [line for line in code.splitlines() if line.startswith(("import", "from"))]
    assert taken("\n".join(lines), "dipp") == set()


def test_every_room_is_in_the_map() -> None:
    found = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    found |= {path.stem for path in PACKAGE.glob("*.py")}
    assert found == {*ROOMS, "errors", "files", "compiling", "__init__"}
    assert set(FACADE.values()) <= {*ROOMS, "errors"}


def test_the_map_states_the_imports_of_each_room() -> None:
    rows = [line.split(" | ") for line in (ROOT / "ARCHITECTURE.md").read_text().splitlines() if line.startswith("| `")]
    said = {row[0].strip("|` ").removesuffix("/").removesuffix(".py"): row[-1].strip("| ") for row in rows}
    for room in ROOMS[:-1]:  # the command line imports what its commands need
        package = PACKAGE / room
        paths = package.rglob("*.py") if package.is_dir() else [package.with_suffix(".py")]
        found = set[str]().union(*(taken(path.read_text(), f"dipp.{room}") for path in paths))
        assert said[room] == ", ".join(other for other in ROOMS if other in found - {room}), room


def test_rooms_list_their_modules() -> None:
    for room in ROOMS[:-1]:
        for path in (PACKAGE / room).glob("[!_]*"):
            if path.suffix == ".py" or (path / "__init__.py").is_file():
                doc = ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text())) or ""
                assert f"`{path.stem}`" in doc or f"`{path.stem}/`" in doc, path


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import dipp.codec.codec", {"codec"}),
        ("from dipp import codec", {"codec"}),
        ("from dipp import codec as core", {"codec"}),
        ("from dipp.models import unet", {"models"}),
        ("from ..format.archive import Archive", {"format"}),
        ("from .. import models", {"models"}),
        ("def late():\n    from dipp.audit import suite", {"audit"}),
        ("if TYPE_CHECKING:\n    from dipp.models.denoiser import Denoiser", {"models"}),
        ("try:\n    import dipp.data\nexcept ImportError:\n    pass", {"data"}),
        ("class Lazy:\n    def f(self):\n        import dipp.cli.main as main", {"cli"}),
        ("import dipp\ndipp.open('a')", set(FACADE.values()) - {"privacy", "errors"}),
        ("from dipp import Codec", {"codec"}),
        ("from dipp import randomness", {"randomness"}),
        ("import dipp.report", {"report"}),
        (
            "from dipp.core import masks\nfrom dipp.codes import Flat\nfrom dipp import errors, scoring, __version__",
            set(),
        ),
        ("from . import ledger\nfrom .ledger import Ledger\nimport numpy as dipp", set()),
    ],
)
def test_the_check_finds_forbidden_imports(code: str, found: set[str]) -> None:
    """The forbidden imports are added to a module of `privacy`, as an example."""
    assert forbidden(code, "dipp.privacy") == found


# Light rooms.


def run(program: str, *arguments: str) -> Any:
    """Run a program in a new process, and return the JSON that it prints."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program, *arguments], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def light_modules() -> list[str]:
    """Return all modules of the rooms that need no framework; of scoring, all but the fast backends."""
    found = ["dipp", "dipp.files", "dipp.scoring", "dipp.scoring.task", "dipp.scoring.reference"]
    for room in ("core", "codes", "privacy", "odometer", "format"):
        for path in sorted((PACKAGE / room).rglob("*.py")):
            found.append(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"))
    return found


LIGHT = """
import importlib, json, sys
for name in json.loads(sys.argv[1]):
    importlib.import_module(name)
heavy = ("torch", "numba", "scipy", "matplotlib", "triton", "cupy", "diffusers", "pyarrow", "PIL", "typer")
print(json.dumps([name for name in heavy if name in sys.modules]))
"""


def test_modules_under_certificates_need_no_framework() -> None:
    modules = light_modules()
    assert len(modules) > 30
    assert run(LIGHT, json.dumps(modules)) == []
    assert run(LIGHT, json.dumps(["scipy"])) == ["scipy"]  # the check finds one


COMMANDS = """
import json, sys
from pathlib import Path

import numpy as np
from PIL import Image
from dipp.cli.main import app

place, used = Path(sys.argv[1]), []
for side, plan in ((256, ["--preset", "swift"]), (40, ["--hide", "8x8"])):
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (side, side, 3), np.uint8)).save(place / "a.png")
    file, options = str(place / "a.dipp"), ["--overwrite", "--device", "cpu"]
    for words in (
        ["encode", str(place / "a.png"), "-o", file, "--epsilon", "8", *plan, "--no-odometer"],
        ["info", file],
        ["decode", file, "-o", str(place / "b.png")],
    ):
        app(words + options * (words[0] != "info"), standalone_mode=False)
        used += {"torch", "scipy.linalg"} & sys.modules.keys()
print()
print(json.dumps(used))
"""


def test_the_cpu_encodes_and_decodes_without_pytorch_and_scipy(tmp_path: Path) -> None:
    """This holds for small and large pictures, sensing and questions; loading PyTorch takes longer than most."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", COMMANDS, str(tmp_path)], check=True, capture_output=True, text=True
    )
    assert json.loads(done.stdout.splitlines()[-1]) == []


# The public names.


def test_dir_lists_the_public_names() -> None:
    functions = {"collate", "encode", "load", "open", "privatize", "redact"}
    assert {"Archive", "Certificate", "Codec", "DippError", "__version__"} | functions == set(dir(dipp))
    for name in dir(dipp):
        assert getattr(dipp, name) is not None
    assert issubclass(dipp.DippError, ValueError)
