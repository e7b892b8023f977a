"""Tracks: regions with one id in the frames of a video, and what is missing between two of them.

If a detector misses a face in one frame, that frame shows the face. So a track with a gap is refused or covered: every
frame of the gap gets the smallest box that contains the regions at both ends of the gap, and so every straight way
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
from dipp.redaction.regions import DeclaredRegions, Region

LOGGER = logging.getLogger("dipp")
LISTED = 3
"""Largest number of names that a warning lists."""
FRAMES = ("regions", "are for the frames of a video", "pass all frames, and --gaps refuse or cover")
REFUSE, COVER = "refuse", "cover"
GAPS = (REFUSE, COVER)


def declared(
    loaded: Declarations, pictures: Sequence[Path], gaps: str | None, *, allow_none: bool = False
) -> list[DeclaredRegions | None]:
    """Return the regions of each picture; None where nothing is declared.

    Args:
        loaded: The regions of all pictures.
        pictures: Paths of the pictures. Frames of a video are in the order of time.
        gaps: For the frames of a video, `refuse` or `cover`; None for independent pictures.
        allow_none: Whether pictures without an entry are released. A mistyped name in `loaded` would then show its
            picture, so entries that match no picture are logged as a warning.

    Raises:
        DippError: Several entries match one picture, a track has a gap and `gaps` is `refuse`, or the names of the
            frames do not show their order.
    """
    if loaded.frames and gaps is None:
        raise DippError(*FRAMES)
    if gaps is not None:
        _require_order(pictures)
    if loaded.frames and not max(loaded.frames) < len(pictures) == (loaded.count or len(pictures)):
        least = loaded.count or f"{max(loaded.frames) + 1} or more"
        raise DippError("regions", f"are for {least} frames, got {len(pictures)}", "pass all frames, and nothing else")
    entries = [loaded.of(path, number) for number, path in enumerate(pictures)]
    _refuse_shared(entries, pictures, loaded.everywhere)
    if allow_none and None in entries:
        _warn_of_unmatched(loaded.unmatched(entries))
    return entries if gaps is None else filled(entries, [path.name for path in pictures], gaps)


def _warn_of_unmatched(names: Sequence[str]) -> None:
    """Warn of entries that match no picture, in one line that names the first ones."""
    if names:
        first = ", ".join(names[:LISTED]) + (" …" if len(names) > LISTED else "")
        LOGGER.warning(
            f"regions: no picture matches {counted(len(names), 'name')} of the file: {first}; check them, since with "
            "--allow-none a picture without an entry is released as it is"
        )


def _require_order(frames: Sequence[Path]) -> None:
    """Raise if names of frames sort in two ways, such as frame10 before frame2, which would exchange their boxes."""
    for before, after in pairwise(frames):
        if before.parent == after.parent and _by_number(before.name) > _by_number(after.name):
            raise DippError(
                "regions",
                f"need frames in one order: {before.name} comes before {after.name} by letters, and after it by number",
                "write the numbers of all frames with as many digits, such as 002",
            )


def _by_number(name: str) -> list[str | int]:
    """Return a name split into letters and numbers in turn, for sorting."""
    return [int(part) if number % 2 else part for number, part in enumerate(re.split(r"([0-9]+)", name))]


def _refuse_shared(
    entries: Sequence[DeclaredRegions | None], pictures: Sequence[Path], everywhere: DeclaredRegions | None
) -> None:
    """Raise if one entry matches two pictures, because it would hide the wrong part of one of them."""
    users: dict[int, Path] = {}
    for entry, picture in zip(entries, pictures, strict=True):
        if entry is None or entry is everywhere:
            continue
        first = users.setdefault(id(entry), picture)
        if first is not picture:
            raise DippError(
                "regions",
                f"have one entry of {entry.source} for both {first} and {picture}",
                "name pictures by their paths",
            )


def filled(frames: Sequence[DeclaredRegions | None], names: Sequence[str], gaps: str) -> list[DeclaredRegions | None]:
    """Return the regions of all frames after every gap in a track was covered.

    Args:
        frames: The regions of every frame, in the order of time; None for a frame without an entry.
        names: The names of the frames, for errors.
        gaps: `refuse` or `cover`.

    Raises:
        DippError: A track has a gap and `gaps` is `refuse`, or frames differ in size or orientation.
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
    covered = list(frames)
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
                like = covered[number] or replace(known[0], regions=())
                covered[number] = replace(like, regions=(*like.regions, cover))
    return covered


def _cover(who: str, *ends: DeclaredRegions | None) -> Region:
    """Return the smallest box that contains the regions with the id `who` in several frames."""
    regions = [region for frame in ends if frame for region in frame.regions if region.id == who]
    left, top, right, bottom = zip(*(region.outline.bounds() for region in regions), strict=True)
    return Region(Box(min(left), min(top), max(right), max(bottom)), regions[0].kind, who)
