"""Regions become pixels outward: nothing of a declared region is ever left out."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
from helpers.refusals import refused
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from dipp.redaction.outlines import Box, Margin, Outline, Pixels, Polygon, mask_of_runs, runs
from dipp.redaction.regions import DeclaredRegions, PlacedRegions, Region, stored
from dipp.redaction.tracks import filled

NONE = Margin()
WIDTH, HEIGHT = 23, 17
INSIDE = st.tuples(st.floats(0.25, WIDTH - 0.25), st.floats(0.25, HEIGHT - 0.25))


def mask_of(outline: Box | Polygon | Pixels, margin: Margin = NONE) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    return PlacedRegions((Region(outline),), (WIDTH, HEIGHT)).mask(margin)


@given(INSIDE, INSIDE, st.floats(0, 1), st.floats(0, 1))
def test_every_point_of_a_box_is_hidden(a: tuple[float, float], b: tuple[float, float], u: float, v: float) -> None:
    (left, right), (top, bottom) = sorted((a[0], b[0])), sorted((a[1], b[1]))
    if left == right or top == bottom:
        return
    mask = mask_of(Box(left, top, right, bottom))
    x, y = left + u * (right - left), top + v * (bottom - top)
    if x < right and y < bottom:
        assert mask[int(y), int(x)]
    # And nothing that the box does not overlap.
    assert mask.sum() == (math.ceil(right) - math.floor(left)) * (math.ceil(bottom) - math.floor(top))


def test_a_box_along_pixels_hides_these_pixels_alone() -> None:
    mask = mask_of(Box(3, 4, 7, 9))
    assert mask[4:9, 3:7].all()
    assert mask.sum() == 20


@given(st.lists(INSIDE, min_size=3, max_size=7))
def test_every_point_of_a_polygon_is_hidden(points: list[tuple[float, float]]) -> None:
    """Tested are points on the outline, and points between two of them that are inside by the even-odd rule."""
    mask = mask_of(Polygon(tuple(points)))
    generator = np.random.default_rng(len(points))
    corners = np.array(points)
    for start, end in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        for share in (0.0, *generator.random(8)):
            x, y = start + share * (end - start)
            assert mask[int(y), int(x)]
    for x, y in generator.random((60, 2)) * (WIDTH, HEIGHT):
        if crossings(points, x, y) % 2:
            assert mask[int(y), int(x)]


def crossings(points: list[tuple[float, float]], x: float, y: float) -> int:
    """Return how often a ray from a point to the right crosses a polygon."""
    count = 0
    for (x0, y0), (x1, y1) in zip(points, points[1:] + points[:1], strict=True):
        if (y0 > y) != (y1 > y) and x < x0 + (y - y0) / (y1 - y0) * (x1 - x0):
            count += 1
    return count


def test_a_polygon_that_crosses_itself_hides_what_it_encloses() -> None:
    """The middle of a star is hidden, although it is outside by the even-odd rule."""
    star = [(11 + 7 * math.sin(4 * math.pi * k / 5), 8 - 7 * math.cos(4 * math.pi * k / 5)) for k in range(5)]
    assert mask_of(Polygon(tuple(star)))[8, 11]


@given(st.lists(INSIDE, min_size=3, max_size=6), st.floats(0, 4), st.floats(0, 0.5))
def test_a_margin_only_adds(points: list[tuple[float, float]], pixels: float, share: float) -> None:
    outline = Polygon(tuple(points))
    small, large = mask_of(outline), mask_of(outline, Margin(pixels, share))
    assert (large | ~small).all()
    rows, columns = np.nonzero(small)
    for row, column in list(zip(rows, columns, strict=True))[::7]:
        reach = int(pixels)
        assert large[max(0, row - reach) : row + reach + 1, max(0, column - reach) : column + reach + 1].all()


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_runs_are_a_mask(height: int, width: int, seed: int) -> None:
    mask = np.random.default_rng(seed).random((height, width)) < 0.4
    np.testing.assert_array_equal(mask_of_runs(runs(mask), height, width), mask)
    np.testing.assert_array_equal(mask_of_runs(runs(mask.T), height, width, columns=True), mask)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_turned_mask_lies_where_a_viewer_shows_it(orientation: int) -> None:
    mask = np.random.default_rng(orientation).random((5, 7)) < 0.5
    tags, file = Image.Exif(), io.BytesIO()
    tags[0x0112] = orientation
    Image.fromarray(mask.astype(np.uint8) * 255).save(file, "PNG", exif=tags)
    shown = np.asarray(ImageOps.exif_transpose(Image.open(file))) > 0
    np.testing.assert_array_equal(stored(shown, orientation), mask)


@pytest.mark.parametrize(("text", "found"), [("8", Margin(8.0)), ("12.5%", Margin(0.0, 0.125)), (3, Margin(3.0))])
def test_margins_are_parsed(text: str | float, found: Margin) -> None:
    assert Margin.parse(text) == found


@pytest.mark.parametrize("text", ["", "-1", "nan", "inf", "ten", "%"])
def test_invalid_margins_are_refused(text: str) -> None:
    with refused("margin"):
        Margin.parse(text)


def declared(*outlines: Outline, size: tuple[int, int] | None = None) -> DeclaredRegions:
    return DeclaredRegions(tuple(Region(outline) for outline in outlines), size, source="boxes.json")


# Where boxes are meant.


def test_boxes_need_to_say_what_they_mean_where_a_picture_is_turned() -> None:
    with refused("boxes.json", "orientation"):
        declared(Box(0, 0, 2, 3)).placed((30, 20), 6, None)
    # A square, or a picture upside down: sizes decide nothing.
    with refused("boxes.json", remedy="raw"):
        declared(Box(0, 0, 2, 3), size=(20, 20)).placed((20, 20), 6, None)
    with refused("boxes.json", remedy="raw"):
        declared(Box(0, 0, 2, 3), size=(30, 20)).placed((30, 20), 3, None)


def test_recorded_sizes_decide() -> None:
    raw = declared(Box(0, 0, 2, 3), size=(30, 20)).placed((30, 20), 6, None)
    shown = declared(Box(0, 0, 2, 3), size=(20, 30)).placed((30, 20), 6, None)
    assert (raw.turned, shown.turned) == (1, 6)
    assert raw.mask(NONE)[:3, :2].all()
    assert shown.mask(NONE)[-2:, :3].all()  # orientation 6: the left of what is shown is the bottom of what is stored
    with refused("boxes.json", "contradict"):
        declared(Box(0, 0, 2, 3), size=(20, 30)).placed((30, 20), 6, False)


def test_the_option_boxes_decides_without_a_recorded_size() -> None:
    assert declared(Box(0, 0, 2, 3)).placed((30, 20), 6, True).turned == 6
    assert declared(Box(0, 0, 2, 3)).placed((30, 20), 6, False).turned == 1
    assert declared(Box(0, 0, 2, 3)).placed((30, 20), 1, None).turned == 1


def test_regions_for_another_size_are_refused() -> None:
    with refused("boxes.json", "30×20"):
        declared(Box(0, 0, 2, 3), size=(64, 48)).placed((30, 20), 1, None)


def test_regions_outside_are_refused_and_those_across_the_border_are_cut() -> None:
    with refused("boxes.json", "30×20"):
        declared(Box(40, 2, 44, 5)).placed((30, 20), 1, None)
    found = declared(Box(-5, -5, 2, 3)).placed((30, 20), 1, None).mask(NONE)
    assert found.sum() == 6


@pytest.mark.parametrize(
    "outline", [Box(0.2, 0.3, 0.6, 0.9), Box(0.6, 0.6, 1.4, 1.5), Polygon(((0, 0), (1, 0), (1, 1)))]
)
def test_shares_in_the_place_of_pixels_are_refused(outline: Outline) -> None:
    """Read as pixels, shares would hide the first pixel and show everything else."""
    with refused("boxes.json", remedy="multiply"):
        declared(outline).placed((30, 20), 1, None)
    DeclaredRegions((Region(outline),), relative=True).placed((30, 20), 1, None)


def test_a_region_that_hides_nothing_is_refused() -> None:
    """The bounds of such a region meet the picture, but no pixel of it lies in the picture."""
    corner = Polygon(((90.0, -30.0), (90.0, 90.0), (-30.0, 90.0)))
    for outline in (corner, Pixels(np.eye(2, dtype=bool)[::-1], 29, 19)):
        placed = declared(Box(0, 0, 2, 3), outline).placed((30, 20), 1, None)
        if outline is corner:
            placed.mask(Margin(pixels=20))  # grown, it reaches the picture
        with refused("image: region 2", "no pixel"):
            placed.mask(NONE)


@pytest.mark.parametrize("outline", [Box(3, 4, 6, 8), Polygon(((3, 4), (6, 4), (5, 8))), Pixels(np.eye(3, dtype=bool))])
def test_a_margin_may_be_larger_than_any_picture(outline: Outline) -> None:
    assert declared(outline).placed((30, 20), 1, None).mask(Margin(pixels=9e8)).all()


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Box(3, 3, 3, 9), "0×6"),
        (lambda: Box(5, 3, 3, 9), "-2×6"),
        (lambda: Box(0, 0, float("nan"), 9), "coordinate"),
        (lambda: Polygon(((0, 0), (1, 1))), "points"),
        (lambda: Pixels(np.zeros((3, 3), bool)), "empty"),
    ],
)
def test_invalid_outlines_are_refused(make: object, why: str) -> None:
    with refused("regions", why):
        make()  # type: ignore[operator]


# Tracks.


def frame(*boxes: tuple[str, float]) -> DeclaredRegions:
    return DeclaredRegions(tuple(Region(Box(left, 0, left + 10, 10), "face", who) for who, left in boxes))


def test_a_gap_in_a_track_is_refused_or_covered() -> None:
    frames = [frame(("a", 0)), frame(("b", 90)), None, frame(("a", 30))]
    names = [f"{number}.jpg" for number in range(4)]
    with refused("regions", "0.jpg"):
        filled(frames, names, "refuse")
    covered = filled(frames, names, "cover")
    for number in (1, 2):
        one = covered[number]
        assert one is not None
        assert Region(Box(0, 0, 40, 10), "face", "a") in one.regions
    assert covered[1] is not None
    assert len(covered[1].regions) == 2
    assert filled(frames[:2], names[:2], "refuse") == frames[:2]
    with refused("gaps"):
        filled(frames, names, "maybe")
