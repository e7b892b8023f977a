"""List public functions whose docstrings lack a section *Args*, *Returns* or *Raises*.

    python tools/sections.py

A function or method is public if its name has no leading underscore, and another module imports it or its class. What a
base class or a protocol documents needs no second description, and commands describe their options in `--help`. A
section may be missing where it would only repeat the first line:

- *Args* for a single parameter, or if the docstring names every parameter in backticks;
- *Returns* if the first line says what is returned or yielded, if the annotation is a class, and for `with` blocks;
- *Raises* if the docstring says in words when the function raises.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "dipp"
LEFT_OUT = re.compile(r"/cli/|/audit/(broken|misasked)\.py|_kernels\.py")
"""Commands, planted mistakes, and kernels that are compiled."""
SAID = re.compile(r"otherwise as `|has the arguments|`carry_out`")
"""Words by which a docstring refers to the sections of another function."""

Function = ast.FunctionDef


def imported(trees: dict[Path, ast.Module]) -> set[str]:
    """Return the names that modules of the package import from each other, or use as attributes of modules."""
    names: set[str] = set()
    for tree in trees.values():
        modules: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dipp"):
                names.update(alias.name for alias in node.names)
                modules.update(alias.asname or alias.name for alias in node.names)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
                names.add(node.attr)
    return names


def methods(nodes: list[ast.ClassDef]) -> set[str]:
    """Return the names of the methods of classes."""
    return {part.name for node in nodes for part in node.body if isinstance(part, Function)}


def ancestors(node: ast.ClassDef, classes: dict[str, list[ast.ClassDef]]) -> list[ast.ClassDef]:
    """Return the classes of the package that a class derives from."""
    found: list[ast.ClassDef] = []
    bases = [re.split(r"[.\[]", ast.unparse(base).split("[")[0])[-1] for base in node.bases]
    for base in (other for name in bases for other in classes.get(name, []) if other is not node):
        found += [base, *ancestors(base, classes)]
    return found


def lacking(function: Function) -> list[str]:
    """Return the sections that the docstring of a function lacks."""
    text = ast.get_docstring(function) or ""
    if SAID.search(text):
        return []
    decorators = " ".join(ast.unparse(decorator) for decorator in function.decorator_list)
    if re.search(r"property|overload|setter", decorators):
        return []
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    names = [argument.arg for argument in arguments if argument.arg not in ("self", "cls", "_")]
    returned = "None" if function.returns is None else ast.unparse(function.returns)
    first = text.partition("\n")[0]
    lacks = []
    if len(names) > 1 and "Args:" not in text and not all(f"`{name}`" in text for name in names):
        lacks.append("Args")
    silent = returned in ("None", "NoReturn", "Self") or "contextmanager" in decorators or returned[0].isupper()
    if not silent and not re.search(r"\b([Rr]eturn|[Yy]ield)", first) and "Returns:" not in text:
        lacks.append("Returns")
    raises = any(isinstance(node, ast.Raise) and node.exc is not None for node in ast.walk(function))
    if raises and "aise" not in text:
        lacks.append("Raises")
    return lacks


def findings() -> Iterator[str]:
    """Yield a line for each public function that lacks a section."""
    trees = {path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}
    public = imported(trees)
    classes: dict[str, list[ast.ClassDef]] = {}
    for tree in trees.values():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                classes.setdefault(node.name, []).append(node)
    protocols = [
        node for nodes in classes.values() for node in nodes if any("Protocol" in ast.unparse(b) for b in node.bases)
    ]
    for path, tree in trees.items():
        if LEFT_OUT.search(path.as_posix()):
            continue
        for node in tree.body:
            if isinstance(node, Function):
                parts = [(node.name, node)]
            elif isinstance(node, ast.ClassDef):
                known = methods([*ancestors(node, classes), *(p for p in protocols if p is not node)])
                parts = [(f"{node.name}.{part.name}", part) for part in node.body if isinstance(part, Function)]
                parts = [part for part in parts if part[1].name not in known]
            else:
                continue
            for name, part in parts:
                if node.name not in public or any(word.startswith("_") for word in name.split(".")):
                    continue
                if lacks := lacking(part):
                    yield f"{path.relative_to(ROOT)}:{part.lineno}: {name} lacks {', '.join(lacks)}"


if __name__ == "__main__":
    lines = list(findings())
    print("\n".join(lines))
    sys.exit(1 if lines else 0)
