"""Check the prose of the project: docstrings, comments and documents.

    python tools/prose.py [PATH …]

Three rules, each of which a reader can apply without the program (CONTRIBUTING.md):

- *Phrases*: no phrase of `PHRASES`, each of which has a plainer form.
- *Fragments*: a docstring is a sentence or a noun phrase that stands on its own. It does not begin with a word of
  `FRAGMENTS`, which leans on the name above it. The docstring of a function begins with a verb, and so with no word of
  `NOUNS`; properties and tests are left out.
- *Length*: no sentence has more words than `LONGEST` allows, which is 30 in documents.

Code, tables, formulas, links and quotations are not prose, and are left out.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src", "tests", "benchmarks", "examples", "experiments", "tools", "web", "docs")
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")
LEFT_OUT = ("node_modules", "tests/schemas", "benchmarks/results", "experiments/cifar10/results", "tools/prose.py")

PHRASES = {
    r"unless told(?! by)": "by default",
    r"who(?:m)?ever": "anybody who, or name the person",
    r"(?:that|what|which) (?:is|are) none": "say what is missing",
    r"so many": "a number, or `count`",
    r"of which": "two sentences, or whose",
    r"the one that": "name the thing",
    r"by so much": "by at most",
    r"in the place of": "in place of",
    r"(?:is|are) to be": "will be or must be, or “to hide” for “that is to be hidden”",
    r"the one of": "name the thing, or with",
    r"but for": "except",
    r"where there (?:is|are) none": "without, or if there are none",
}
"""Phrases that a reader has to read twice, and what to write instead."""
FRAGMENTS = ("As", "Likewise", "Of", "Told", "Such", "That of", "Those of")
"""First words of docstrings that say nothing without the name above them."""
NOUNS = (
    "A|An|The|What|Whether|How|Where|Which|When|All|Every|Each|Some|Many|Few|One|Two|Three|Several|Any|By|In|From|For|With|"
    "On|At|Whose|And|Also|But|Or|Nor|It|They|This|These|No|Not|Nothing|Number|Other|Another|Pictures|Images|Files|Bytes|Bits"
)
"""First words of docstrings that are no verb: a function says what it does."""
LONGEST = {".md": 30, ".ipynb": 30, ".py": 36, ".ts": 36}
"""Largest number of words of a sentence, by the kind of file: documents have shorter sentences than docstrings."""


class Finding(NamedTuple):
    """One place that breaks a rule."""

    path: Path
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.message}"


class Text(NamedTuple):
    """One piece of prose."""

    line: int
    content: str
    docstring: bool = False
    function: bool = False


def findings(paths: list[Path]) -> Iterator[Finding]:
    """Check files, and the files in folders."""
    for path in paths:
        if path.suffix in READERS:
            for text in READERS[path.suffix](path):
                yield from (Finding(path, text.line, message) for message in _broken(text, LONGEST[path.suffix]))


def _broken(text: Text, longest: int) -> Iterator[str]:
    """Yield the rules that a piece of prose breaks; its sentences may have `longest` words."""
    plain = _plain(text.content)
    for phrase, better in PHRASES.items():
        if found := re.search(rf"\b{phrase}\b", plain, re.IGNORECASE):
            yield f"“{found[0]}”: write {better}"
    if text.docstring and (found := re.match(rf"(?:{'|'.join(FRAGMENTS)})\b", plain)):
        yield f"a docstring that begins with “{found[0]}”: say what it is, or what it does"
    if text.function and (found := re.match(rf"(?:{NOUNS})\b", plain)):
        yield f"the docstring of a function that begins with “{found[0]}”: begin with a verb"
    for sentence in re.split(r"(?<=[.!?:;])\s+|\n\s*\n|\n\s*(?:[-*]|\d+\.)\s", plain):
        if (count := len(re.findall(r"[^\W\d_]{2,}", sentence))) > longest:
            yield f"a sentence of {count} words, at most {longest} are readable: “{' '.join(sentence.split()[:6])} …”"


def _plain(content: str) -> str:
    """Return prose without code, tables, formulas, links and quotations."""
    content = re.sub(r"```.*?```|<!--.*?-->", "\n\n", content, flags=re.DOTALL)
    content = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", content)
    content = re.sub(r"`[^`]*`|“[^”]*”|\"[^\"\n]*\"", "it", content)
    lines = content.splitlines()
    return "\n".join("" if re.match(r"\s*\||\s{4,}\S", line) and "\n" in content else line for line in lines)


def _python(path: Path) -> Iterator[Text]:
    """Yield the docstrings of modules, classes, functions and fields, and the comments, of a Python file."""
    source = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            for statement in body:
                value = statement.value if isinstance(statement, ast.Expr) else None
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    function = statement is body[0] and _says_what_it_does(node)
                    yield Text(statement.lineno, _dedented(value.value), docstring=True, function=function)
    with tokenize.open(path) as opened:
        for token in tokenize.generate_tokens(opened.readline):
            if token.type == tokenize.COMMENT and not re.match(r"#\s*(noqa|type:|!)", token.string):
                yield Text(token.start[0], token.string.lstrip("# "))


def _says_what_it_does(node: ast.AST) -> bool:
    """Return whether a node is a function whose docstring begins with a verb: no property, test or special method."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith(("test_", "__")):
        return False
    return not any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


def _dedented(docstring: str) -> str:
    """Return a docstring without the margin of its lines."""
    first, *rest = docstring.splitlines() or [""]
    margin = min((len(line) - len(line.lstrip()) for line in rest if line.strip()), default=0)
    return "\n".join([first, *(line[margin:] for line in rest)])


def _markdown(path: Path) -> Iterator[Text]:
    """Yield the paragraphs of a document."""
    content = re.sub(r"```.*?```", lambda code: "\n" * code[0].count("\n"), path.read_text("utf-8"), flags=re.DOTALL)
    line = 1
    for paragraph in re.split(r"(\n\s*\n)", content):
        yield Text(line, paragraph)
        line += paragraph.count("\n")


def _notebook(path: Path) -> Iterator[Text]:
    """Yield the text of a notebook; its line is the number of the cell."""
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"], 1):
        if cell["cell_type"] == "markdown":
            yield Text(number, "".join(cell["source"]))


def _typescript(path: Path) -> Iterator[Text]:
    """Yield the comments of a TypeScript file."""
    source = path.read_text(encoding="utf-8")
    for found in re.finditer(r"/\*\*?(.*?)\*/|(?:^|(?<=\s))//(.*)", source, re.DOTALL | re.MULTILINE):
        line = source.count("\n", 0, found.start()) + 1
        block = found[1] if found[1] is not None else found[2].split("\n")[0]
        yield Text(line, re.sub(r"^\s*\* ?", "", block.strip(), flags=re.MULTILINE))


READERS = {".py": _python, ".md": _markdown, ".ipynb": _notebook, ".ts": _typescript}
"""How each kind of file is read."""


def main() -> int:
    """Check the paths of the command line, by default the whole project; return 1 if a rule is broken."""
    given = [Path(argument).resolve() for argument in sys.argv[1:]] or [ROOT / name for name in (*FOLDERS, *DOCUMENTS)]
    every = [file for path in given for file in ([path] if path.is_file() else sorted(path.rglob("*.*")))]
    chosen = [file for file in every if not any(part in file.relative_to(ROOT).as_posix() for part in LEFT_OUT)]
    broken = list(findings(chosen))
    for finding in broken:
        print(finding)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
