"""Reading that all formats of regions share: names of pictures, numbers, JSON, and XML without entities."""

from __future__ import annotations

import functools
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn, Protocol
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from dipp.errors import DippError
from dipp.redaction.outlines import Box, Polygon
from dipp.redaction.regions import DeclaredRegions, Region


@dataclass(frozen=True, eq=False)
class File:
    """A file of regions: its path and its bytes."""

    path: Path
    content: bytes

    @classmethod
    def open(cls, path: Path) -> File:
        """Return the file at a path; raise if it cannot be read."""
        try:
            return cls(path, path.read_bytes())
        except OSError as error:
            raise DippError(str(path), f"cannot be read ({error.strerror})") from None

    @property
    def name(self) -> str:
        """Name of the file, for errors."""
        return self.path.name

    @functools.cached_property
    def text(self) -> str | None:
        """The content as text; None if it is not UTF-8."""
        try:
            return self.content.decode("utf-8-sig")
        except UnicodeDecodeError:
            return None

    @functools.cached_property
    def json(self) -> Any:
        """The content as JSON; None if it does not begin as JSON does. Malformed JSON raises an error."""
        if self.text is None or not self.text.lstrip().startswith(("{", "[")):
            return None
        try:
            return json.loads(self.text, object_pairs_hook=self._once)
        except DippError:
            raise
        except (ValueError, RecursionError) as error:
            line = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
            raise DippError(self.name, f"is not valid JSON{line}", "export it again") from None

    def _once(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """Return a JSON object from its names and values; raise if a name occurs twice, as readers would differ."""
        content = dict(pairs)
        if len(content) < len(pairs):
            names = [name for name, _ in pairs]
            self.fail(f"has {max(names, key=names.count)} twice in one object", "keep one of them")
        return content

    @functools.cached_property
    def xml(self) -> Element | None:
        """The root of the content as XML; None if it does not begin as XML does. Malformed XML raises an error."""
        if self.text is None or not self.text.lstrip().startswith("<"):
            return None
        builder, parser = TreeBuilder(), expat.ParserCreate()
        parser.StartElementHandler = builder.start
        parser.EndElementHandler = builder.end
        parser.CharacterDataHandler = builder.data
        parser.StartDoctypeDeclHandler = self._no_entities
        try:
            parser.Parse(self.content, True)
            return builder.close()
        except (expat.ExpatError, AssertionError) as error:
            raise DippError(self.name, f"is not valid XML ({error})", "export it again") from None

    def _no_entities(self, *_: Any) -> NoReturn:
        """Raise an error about a document type, which could define entities."""
        raise DippError(self.name, "is XML with a document type, which is not supported", "remove its DOCTYPE line")

    def fail(self, problem: str, remedy: str = "") -> NoReturn:
        """Raise an error about the file.

        Args:
            problem: What is wrong, as a predicate of the file.
            remedy: What to do; empty by default.
        """
        raise DippError(self.name, problem, remedy) from None


@dataclass(frozen=True)
class Declarations:
    """The regions that files of regions declare for pictures."""

    named: dict[str, DeclaredRegions] = field(default_factory=dict)
    """Regions by the name or path of the picture."""
    stems: dict[str, DeclaredRegions] = field(default_factory=dict)
    """Regions by the name of the picture without its ending."""
    frames: dict[int, DeclaredRegions] = field(default_factory=dict)
    """Regions by the number of the picture among all pictures that the user gives, sorted by name."""
    count: int | None = None
    """Required number of frames; None if the file does not state it."""
    everywhere: DeclaredRegions | None = None
    """Regions of every picture; None without any."""

    def add(self, other: Declarations) -> Declarations:
        """Return these declarations together with others, added in place; raise if both are about one picture."""
        parts: Any = (self.named, other.named), (self.stems, other.stems), (self.frames, other.frames)
        for mine, theirs in parts:
            small, large = (mine, theirs) if len(mine) < len(theirs) else (theirs, mine)
            if twice := [name for name in small if name in large]:
                files = f"{mine[min(twice)].source} and {theirs[min(twice)].source}"
                raise DippError("regions", f"are declared for {min(twice)} by both {files}", "keep one of them")
            mine.update(theirs)
        if self.everywhere is not None and other.everywhere is not None:
            files = f"{self.everywhere.source} and {other.everywhere.source}"
            raise DippError("regions", f"are declared for every picture by both {files}", "keep one of them")
        return replace(self, everywhere=self.everywhere or other.everywhere, count=self.count or other.count)

    def of(self, picture: Path, number: int = 0) -> DeclaredRegions | None:
        """Return the regions of a picture; None if nothing is declared for it.

        Args:
            picture: Path of the picture.
            number: Its number among all pictures that the user gives, sorted by name.

        Raises:
            DippError: Several entries match this picture.
        """
        matching = [*self._by_name(picture)]
        matching += [self.stems[picture.stem]] if picture.stem in self.stems else []
        matching += [self.frames[number]] if number in self.frames else []
        matching += [] if self.everywhere is None else [self.everywhere]
        if len(matching) > 1:
            files = " and ".join(sorted({declared.source for declared in matching}))
            raise DippError(
                "regions", f"have several entries of {files} for {picture.name}", "name pictures by their paths"
            )
        return matching[0] if matching else None

    def unmatched(self, matched: Iterable[DeclaredRegions | None]) -> list[str]:
        """Return the sorted names of the entries that are not among `matched`, the entries that `of` returned."""
        used = {id(entry) for entry in matched if entry is not None}
        return sorted(name for name, entry in (self.named | self.stems).items() if id(entry) not in used)

    def _by_name(self, picture: Path) -> Iterator[DeclaredRegions]:
        """Yield the entries that match the path of a picture; if none does, those that match its last part."""
        whole, alike = "/" + picture.absolute().as_posix(), self._by_last_part.get(picture.name, [])
        exact = [declared for path, declared in alike if len(path.parts) > 1 and whole.endswith(f"/{path}")]
        yield from exact or (declared for _, declared in alike)

    @functools.cached_property
    def _by_last_part(self) -> dict[str, list[tuple[PurePosixPath, DeclaredRegions]]]:
        """Entries with their paths, by the last part of these paths, so that each picture is found quickly."""
        by_part: defaultdict[str, list[tuple[PurePosixPath, DeclaredRegions]]] = defaultdict(list)
        for name, declared in self.named.items():
            path = PurePosixPath(name.replace("\\", "/"))
            by_part[path.name].append((path, declared))
        return dict(by_part)


class Format(Protocol):
    """The interface of a format of regions, which each module of this folder implements."""

    def recognises(self, file: File) -> bool:
        """Return whether a file has this format."""

    def read(self, file: File) -> Declarations:
        """Return the regions that a file declares."""


def declared(
    file: File, regions: Iterable[Region], size: tuple[Any, Any] | None = None, *, relative: bool = False
) -> DeclaredRegions:
    """Return the regions of one picture, with the size of the picture that the file states.

    Args:
        file: The file of regions.
        regions: The regions of the picture.
        size: Width and height as the file states them; None if it states none.
        relative: Whether coordinates are shares of width and height.
    """
    recorded = None if size is None or None in size else (whole(file, size[0]), whole(file, size[1]))
    return DeclaredRegions(tuple(regions), recorded, relative, file.name)


def whole(file: File, value: Any) -> int:
    """Return a value of JSON or text as a whole number above 0; raise if it is anything else.

    Args:
        file: The file, for errors.
        value: The value.
    """
    rounded = number(file, value)
    if not (rounded > 0 and rounded == int(rounded)):
        file.fail(f"must have a size in whole pixels, got {value!s:.40}")
    return int(rounded)


def number(file: File, value: Any) -> float:
    """Return a value of JSON or text as a finite number; raise if it is anything else.

    Args:
        file: The file, for errors.
        value: The value.
    """
    try:
        read = float("nan") if isinstance(value, bool) or value is None else float(value)
    except (ValueError, TypeError, OverflowError):
        read = float("nan")
    if not abs(read) < float("inf"):
        file.fail(f"must have a number, got {value!s:.40}")
    return read


def numbers(file: File, values: Any, count: int | None = None) -> list[float]:
    """Return values as a list of finite numbers, and of length `count` if that is given; raise otherwise.

    Args:
        file: The file, for errors.
        values: The values.
        count: The wanted length; None accepts any.
    """
    if not isinstance(values, list | tuple) or (count is not None and len(values) != count):
        file.fail(f"must have a list of {'' if count is None else f'{count} '}numbers, got {values!s:.40}")
    return [number(file, value) for value in values]


def box(file: File, left: float, top: float, right: float, bottom: float) -> Box:
    """Return a box; raise an error about the file if it is empty.

    Args:
        file: The file, for errors.
        left: Left side in pixels.
        top: Upper side in pixels.
        right: Right side in pixels.
        bottom: Lower side in pixels.
    """
    try:
        return Box(left, top, right, bottom)
    except DippError as error:
        raise error.about(file.name) from None


def polygon(file: File, points: Iterable[tuple[float, float]]) -> Polygon:
    """Return a polygon; raise an error about the file if it has fewer than three points.

    Args:
        file: The file, for errors.
        points: Corners (x, y) in pixels.
    """
    try:
        return Polygon(tuple(points))
    except DippError as error:
        raise error.about(file.name) from None


def pairs(file: File, values: list[float]) -> list[tuple[float, float]]:
    """Return the points in a flat list x, y, x, y and so on.

    Args:
        file: The file, for errors.
        values: The flat list.
    """
    if len(values) % 2:
        file.fail(f"must give a polygon pairs of numbers, got {len(values)} numbers")
    return list(zip(values[::2], values[1::2], strict=True))


def text(value: Any) -> str | None:
    """Return a name or an id as text, or None if it is None."""
    return None if value is None else str(value)


def named(file: File, pictures: Iterable[tuple[str, DeclaredRegions]]) -> Declarations:
    """Return declarations by the names of pictures; raise if a name is empty or occurs twice.

    Args:
        file: The file, for errors.
        pictures: Names of pictures, each with its regions.
    """
    by_name: dict[str, DeclaredRegions] = {}
    for name, regions in pictures:
        if not name:
            file.fail("has a picture without a name", "add it")
        if name in by_name:
            file.fail(f"has {name} twice", "keep one entry")
        by_name[name] = replace(regions, source=file.name)
    return Declarations(named=by_name)
