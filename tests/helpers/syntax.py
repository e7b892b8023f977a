"""The imports and the used names of modules, read from their syntax trees without running them."""

from __future__ import annotations

import ast


def names(code: str, package: str) -> set[str]:
    """Return the full names of all that a module imports from a package or uses of it, under any local name."""
    tree = ast.parse(code)
    known, found = _imported(tree, package)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            first, *rest = ast.unparse(node).split(".")
            found.add(".".join([known.get(first, first), *rest]))
    return found


def imports(code: str, package: str) -> set[str]:
    """Return the full names of all imports, at any level of nesting, those for the type checker included."""
    return _imported(ast.parse(code), package)[1]


def _imported(tree: ast.AST, package: str) -> tuple[dict[str, str], set[str]]:
    """Return the meaning of each name in the module, and the full names."""
    known: dict[str, str] = {}
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                first = one.name.split(".")[0]
                known[one.asname or first] = one.name if one.asname else first
                found.add(one.name)
        if isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            base = parts[: len(parts) + 1 - node.level] if node.level else []
            if node.module:
                base = [*base, node.module]
            for one in node.names:
                known[one.asname or one.name] = ".".join([*base, one.name])
                found.add(".".join([*base, one.name]))
    return known, found
