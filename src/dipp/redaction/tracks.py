"""Tracks: regions with one id in the frames of a video, and what is missing between two of them.

A detector that loses a face for one frame shows it in that frame. So a track with a gap is refused, or covered: every
frame of the gap gets the smallest box that holds the regions at both of its ends, which covers every straight way
between them.
"""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from dipp.core.words import counted
from dipp.errors import DippError
from dipp.redaction.formats.reading import Declarations
from dipp.redaction.outlines import Box
from dipp.redaction.regions import Declared, Region

LOGGER = logging.getLogger("dipp")
LISTED = 3
"""Entries that a warning names, at most."""
FRAMES = ("regions", "are for the frames of a video", "pass all frames, and --gaps refuse or cover")
REFUSE, COVER = "refuse", "cover"
GAPS = (REFUSE, COVER)


def declared(
    loaded: Declarations, pictures: Sequence[Path], gaps: str | None, *, allow_none: bool = False
) -> list[Declared | None]:
    """Return the regions of each picture; None where nothing is declared.

    Args:
        loaded: The regions of all pictures.
        pictures: Paths of the pictures; of frames, in the order of time.
        gaps: For frames, `refuse` or `cover`; None for pictures that have nothing to do with each other.
        allow_none: Whether pictures without an entry are released. A mistyped name in `loaded` would then show its
            picture, so entries that match no picture are logged as a warning.

    Raises:
        DippError: Several entries mean one picture, a track has a gap that is not to be covered, or the order of the
            frames is not clear from their names.
    """
    if loaded.frames and gaps is None:
        raise DippError(*FRAMES)
    if gaps is not None:
        _require_order(pictures)
    if loaded.frames and not max(loaded.frames) < len(pictures) == (loaded.count or len(pictures)):
        least = loaded.count or f"{max(loaded.frames) + 1} or more"
        raise DippError("regions", f"are for {least} frames, got {len(pictures)}", "pass all frames, and nothing else")
    found = [loaded.of(path, number) for number, path in enumerate(pictures)]
    _refuse_shared(found, pictures, loaded.everywhere)
    if allow_none and None in found:
        _warn_of_unmatched(loaded.unmatched(found))
    return found if gaps is None else filled(found, [path.name for path in pictures], gaps)


def _warn_of_unmatched(names: Sequence[str]) -> None:
    """Warn of entries that match no picture, in one line that names the first ones."""
    if names:
        first = ", ".join(names[:LISTED]) + (" …" if len(names) > LISTED else "")
        LOGGER.warning(
            f"regions: no picture matches {counted(len(names), 'name')} of the file: {first}; check them, since with "
            "--allow-none a picture without an entry is released as it is"
        )


def _require_order(frames: Sequence[Path]) -> None:
    """Raise if names sort in two ways: frame10 lies before frame2 by letters, and would get the boxes of that one."""
    for before, after in pairwise(frames):
        if before.parent == after.parent and _by_number(before.name) > _by_number(after.name):
            raise DippError(
                "regions",
                f"need frames in one order: {before.name} comes before {after.name} by letters, and after it by number",
                "write the numbers of all frames with as many digits, such as 002",
            )


def _by_number(name: str) -> list[str | int]:
    """Return a name as letters and numbers in turn."""
    return [int(part) if number % 2 else part for number, part in enumerate(re.split(r"([0-9]+)", name))]


def _refuse_shared(found: Sequence[Declared | None], pictures: Sequence[Path], everywhere: Declared | None) -> None:
    """Raise if one entry means two pictures: the regions of one would hide the wrong part of the other."""
    users: dict[int, Path] = {}
    for entry, picture in zip(found, pictures, strict=True):
        if entry is None or entry is everywhere:
            continue
        first = users.setdefault(id(entry), picture)
        if first is not picture:
            raise DippError(
                "regions",
                f"have one entry of {entry.source} for both {first} and {picture}",
                "name pictures by their paths",
            )


def filled(frames: Sequence[Declared | None], names: Sequence[str], gaps: str) -> list[Declared | None]:
    """Return the regions of all frames without gaps in tracks.

    Args:
        frames: The regions of every frame, in the order of time; None where nothing is declared.
        names: The names of the frames, for messages.
        gaps: `refuse` or `cover`.

    Raises:
        DippError: A track has a gap that is not to be covered, or frames that cannot be compared.
    """
    if gaps not in GAPS:
        raise DippError("gaps", f"must be {' or '.join(GAPS)}, got {gaps}")
    known = [frame for frame in frames if frame is not None]
    if len({(frame.size, frame.relative, frame.oriented) for frame in known if frame.regions}) > 1:
        raise DippError("regions", "must have one size and one orientation in all frames", "leave out --gaps")
    tracks: defaultdict[str, list[int]] = defaultdict(list)
    for number, frame in enumerate(frames):
        for who in {region.id for region in frame.regions if region.id is not None} if frame else ():
            tracks[who].append(number)
    made = list(frames)
    for who, places in sorted(tracks.items()):
        for before, after in pairwise(places):
            if after == before + 1:
                continue
            if gaps == REFUSE:
                raise DippError(
                    "regions",
                    f"lack {who} in {names[before + 1]}, between {names[before]} and {names[after]}",
                    "add it there, or pass --gaps cover",
                )
            cover = _cover(who, frames[before], frames[after])
            for number in range(before + 1, after):
                like = made[number] or replace(known[0], regions=())
                made[number] = replace(like, regions=(*like.regions, cover))
    return made


def _cover(who: str, *ends: Declared | None) -> Region:
    """Return the smallest box that holds the regions of a track in several frames."""
    regions = [region for frame in ends if frame for region in frame.regions if region.id == who]
    left, top, right, bottom = zip(*(region.outline.bounds() for region in regions), strict=True)
    return Region(Box(min(left), min(top), max(right), max(bottom)), regions[0].kind, who)
