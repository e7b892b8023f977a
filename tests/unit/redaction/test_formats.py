"""Formats of regions: each is read as it is meant, and malformed files are refused in one clear line."""

from __future__ import annotations

import base64
import contextlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.refusals import refused
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import dipp
from dipp.errors import DippError
from dipp.redaction import tracks
from dipp.redaction.formats import FORMATS, Declarations, coco, column, load, own
from dipp.redaction.formats.reading import File
from dipp.redaction.outlines import Box, Margin, Pixels, Polygon
from dipp.redaction.regions import DeclaredRegions, Region

Mask = np.ndarray[Any, np.dtype[np.bool_]]


def write(folder: Path, name: str, content: Any) -> Path:
    path = folder / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def png(mask: Mask) -> bytes:
    file = io.BytesIO()
    Image.fromarray(mask.astype(np.uint8) * 200).save(file, "PNG")
    return file.getvalue()


def compressed(mask: Mask) -> str:
    """Return run lengths as COCO's compressed text, written by the description of the format."""
    flat: list[bool] = mask.T.reshape(-1).tolist()
    counts, value, run = [], False, 0
    for pixel in flat:
        if pixel != value:
            counts.append(run)
            value, run = pixel, 0
        run += 1
    counts.append(run)
    text = ""
    for at, count in enumerate(counts):
        number = count - counts[at - 2] if at > 2 else count
        while True:
            group, number = number & 31, number >> 5
            more = number != (-1 if group & 16 else 0)
            text += chr(48 + group + 32 * more)
            if not more:
                break
    return text


MASK = np.zeros((40, 60), bool)
MASK[10:20, 5:25] = True
BOX = Box(5.0, 10.0, 25.0, 20.0)
SQUARE = [[5, 10], [25, 10], [25, 20], [5, 20]]
VOC = """<annotation><filename>a.jpg</filename><size><width>60</width><height>40</height></size>
<object><name>face</name><bndbox><xmin>6</xmin><ymin>11</ymin><xmax>25</xmax><ymax>20</ymax></bndbox></object></annotation>
"""
CVAT = """<annotations><image name="a.jpg" width="60" height="40">
<box label="face" xtl="5" ytl="10" xbr="25" ybr="20" group_id="7"/>
<polygon label="plate" points="5,10;25,10;25,20"/>
<ellipse label="face" cx="15" cy="15" rx="10" ry="5"/>
<mask label="face" left="5" top="10" width="20" height="10" rle="0,200"/>
<box label="face" xtl="5" ytl="10" xbr="25" ybr="20" rotation="90"/></image></annotations>"""


def coco_file(**annotation: Any) -> dict[str, Any]:
    return {
        "images": [{"id": 3, "file_name": "a.jpg", "width": 60, "height": 40}],
        "categories": [{"id": 1, "name": "face"}],
        "annotations": [{"id": 1, "image_id": 3, "category_id": 1, **annotation}],
    }


def own_file(*regions: Any, **picture: Any) -> dict[str, Any]:
    entry = {"name": "a.jpg", "size": [60, 40], "regions": list(regions), **picture}
    return {"format": "dipp regions", "version": 1, "pictures": [entry]}


def labelme_file(**shape: Any) -> dict[str, Any]:
    return {"shapes": [{"label": "face", **shape}], "imagePath": "a.jpg", "imageWidth": 60, "imageHeight": 40}


SAME: dict[str, tuple[str, Any]] = {
    "own box": ("r.json", own_file({"kind": "face", "box": [5, 10, 20, 10]})),
    "own polygon": ("r.json", own_file({"kind": "face", "polygon": SQUARE})),
    "own mask": (
        "r.json",
        own_file({"kind": "face", "mask": {"size": [20, 10], "corner": [5, 10], "runs": [0, 200]}}),
    ),
    "coco box": ("r.json", coco_file(bbox=[5, 10, 20, 10])),
    "coco polygon": ("r.json", coco_file(segmentation=[[5, 10, 25, 10, 25, 20, 5, 20]], bbox=[0, 0, 60, 40])),
    "coco runs": ("r.json", coco_file(segmentation={"size": [40, 60], "counts": [210, *[10, 30] * 19, 10, 1420]})),
    "coco compressed": ("r.json", coco_file(segmentation={"size": [40, 60], "counts": compressed(MASK)})),
    "labelme polygon": ("r.json", labelme_file(points=SQUARE, shape_type="polygon")),
    "labelme rectangle": ("r.json", labelme_file(points=[[25, 10], [5, 20]], shape_type="rectangle")),
    "labelme mask": (
        "r.json",
        labelme_file(
            points=[[5, 10], [24, 19]],
            shape_type="mask",
            mask=base64.b64encode(png(np.ones((10, 20), bool))).decode(),
        ),
    ),
    "voc": ("a.xml", VOC),
    "deid": ("deid.dicom", "FORMAT dicom\n%filter graylist\nLABEL all\n  coordinates 5,10,25,20\n"),
    "deid ctp": ("deid.dicom", "  ctpcoordinates 5,10,20,10\n"),
    "yolo": ("a.txt", "0 0.25 0.375 0.333333 0.25\n"),
    "yolo polygon": ("a.txt", "0 0.083333 0.25 0.416667 0.25 0.416667 0.5 0.083333 0.5\n"),
    "mask": ("a.png", png(MASK)),
}


@pytest.mark.parametrize("name", SAME)
def test_all_formats_hide_the_same_pixels(name: str, tmp_path: Path) -> None:
    """Rounding outward adds at most one pixel on each side."""
    file, content = SAME[name]
    found = load(write(tmp_path, file, content)).of(Path("somewhere/a.jpg"))
    assert found is not None
    mask = found.placed((60, 40), 1, None).mask(Margin())
    assert mask[MASK].all()
    grown = np.zeros_like(MASK)
    grown[9:21, 4:26] = True
    assert not mask[~grown].any()
    exact = {"own box", "own mask", "coco box", "coco runs", "coco compressed", "labelme rectangle", "labelme mask"}
    if name in {*exact, "deid", "deid ctp", "mask"}:
        np.testing.assert_array_equal(mask, MASK)
    if not name.startswith(("deid", "yolo", "mask")):
        assert found.regions[0].kind == "face"
        assert found.size == (60, 40)


def test_cvat_for_images_is_read(tmp_path: Path) -> None:
    found = load(write(tmp_path, "r.xml", CVAT)).of(Path("a.jpg"))
    assert found is not None
    box, polygon, ellipse, mask, turned = found.regions
    assert box == Region(BOX, "face", "7")
    assert polygon.outline == Polygon(((5.0, 10.0), (25.0, 10.0), (25.0, 20.0)))
    assert ellipse.outline == BOX
    assert isinstance(mask.outline, Pixels)
    assert mask.outline.bounds() == BOX.bounds()
    assert turned.outline.bounds() == pytest.approx((10, 5, 20, 25))


def test_cvat_for_videos_is_read(tmp_path: Path) -> None:
    track = "".join(
        f'<box frame="{frame}" outside="{outside}" xtl="{frame}" ytl="0" xbr="9" ybr="9"/>'
        for frame, outside in ((0, 0), (1, 0), (2, 1))
    )
    text = f'<annotations><track id="4" label="face">{track}</track></annotations>'
    found = load(write(tmp_path, "r.xml", text))
    assert sorted(found.frames) == [0, 1]
    second = found.of(Path("b.jpg"), 1)
    assert second is not None
    assert second.regions == (Region(Box(1.0, 0.0, 9.0, 9.0), "face", "4"),)


@pytest.mark.parametrize(
    ("names", "size", "why"),
    [
        ("ab", "", "video"),
        ("a", "", "2 or more"),
        ("abc", "<size>2</size>", "got 3"),
        ("ab", "<size>3</size>", "3 frames"),
    ],
)
def test_boxes_of_frames_are_for_all_frames(names: str, size: str, why: str, tmp_path: Path) -> None:
    """With a frame too many or too few, every later box would lie in the wrong picture."""
    boxes = '<box frame="1" outside="0" xtl="0" ytl="0" xbr="9" ybr="9"/>'
    text = f'<annotations><meta><task>{size}</task></meta><track id="4" label="face">{boxes}</track></annotations>'
    path = write(tmp_path, "r.xml", text)
    pictures = [tmp_path / f"{name}.png" for name in names]
    with refused("regions", why):
        tracks.declared(load(path), pictures, None if why == "video" else "cover")
    write(tmp_path, "a.png", png(MASK))
    with refused("regions", "video"):
        dipp.redact(pictures[0], regions=path, fill="grey", odometer=False)


def test_frames_whose_names_sort_in_two_ways_are_refused(tmp_path: Path) -> None:
    """Sorted by letters, frame10 comes before frame2: they would exchange their boxes, and show a face."""
    boxes = '<box frame="1" outside="0" xtl="0" ytl="0" xbr="9" ybr="9"/>'
    cvat = write(tmp_path, "r.xml", f'<annotations><track id="4" label="face">{boxes}</track></annotations>')
    by_name = write(tmp_path, "r.json", own_file({"box": [0, 0, 3, 3]}, name="frame1.png"))
    for path in (cvat, by_name):
        names = sorted(f"frame{number}.png" for number in range(1, 12))
        with refused("regions", "frame11.png"):
            tracks.declared(load(path), [tmp_path / name for name in names], "refuse")
        padded = [tmp_path / f"frame{number:02}.png" for number in range(1, 12)]
        assert len(tracks.declared(load(path), padded, "refuse")) == 11
    assert len(tracks.declared(load(by_name), [tmp_path / name for name in names], None)) == 11


def test_polygons_of_one_annotation_are_one_unit(tmp_path: Path) -> None:
    """A person behind a lamp post is one object in two parts, and so one unit."""
    parts = [[5, 10, 25, 10, 25, 20], [30, 10, 40, 10, 40, 20]]
    for more, who in (({}, "annotation 0"), ({"track_id": 8}, "8")):
        found = load(write(tmp_path, "r.json", coco_file(segmentation=parts, **more))).of(Path("a.jpg"))
        assert found is not None
        assert [region.id for region in found.regions] == [who, who]
        cell = column.of("c of row 3", [{"segmentation": parts, **more}], None, ())
        assert cell is not None
        assert [region.id for region in cell.regions] == [who if more else "object 0 of c of row 3"] * 2
    (single,) = load(write(tmp_path, "r.json", coco_file(segmentation=parts[:1]))).named["a.jpg"].regions
    assert single.id is None


def test_yolo_names_come_from_a_file(tmp_path: Path) -> None:
    write(tmp_path, "classes.txt", "person\nplate\n")
    write(tmp_path, "a.txt", "1 0.5 0.5 0.1 0.1 0.93\n")
    write(tmp_path, "b.txt", "")
    found = load(tmp_path)
    declared = found.of(Path("a.jpg"))
    assert declared is not None
    assert declared.regions[0].kind == "plate"
    assert found.of(Path("b.png")) == DeclaredRegions((), None, True, "b.txt")
    assert found.of(Path("c.png")) is None


def test_a_yolo_pose_without_flags_is_read_as_a_polygon(tmp_path: Path) -> None:
    """4 + 2K numbers of a pose are the K + 2 points of a polygon, so the format cannot tell them apart."""
    found = load(write(tmp_path, "a.txt", "0 0.5 0.5 0.2 0.2 0.45 0.45 0.55 0.5\n")).stems["a"]
    (region,) = found.regions
    assert region.outline == Polygon(((0.5, 0.5), (0.2, 0.2), (0.45, 0.45), (0.55, 0.5)))


def test_a_yolo_polygon_on_an_edge_is_no_pose(tmp_path: Path) -> None:
    found = load(write(tmp_path, "a.txt", "0 0.5 0.5 0.2 0.2 0.45 0.45 0 0.5 0.6 0.7\n")).stems["a"]
    assert [type(region.outline) for region in found.regions] == [Polygon]


def test_ids_and_kinds_are_read(tmp_path: Path) -> None:
    content = own_file({"kind": "face", "id": "anna", "box": [5, 10, 20, 10]}, {"box": [0, 0, 3, 3]}, boxes="oriented")
    found = load(write(tmp_path, "r.json", content)).of(Path("a.jpg"))
    assert found is not None
    assert [region.id for region in found.regions] == ["anna", None]
    assert found.oriented
    assert [region.kind for region in found.chosen(["face"]).regions] == ["face"]


def test_pictures_are_found_by_path_or_name(tmp_path: Path) -> None:
    entries = [{"name": name, "regions": [{"box": [0, 0, size, 1]}]} for name, size in (("x/a.jpg", 1), ("y/a.jpg", 2))]
    path = write(tmp_path, "r.json", {"format": "dipp regions", "version": 1, "pictures": entries})
    found = load(path).of(tmp_path / "y" / "a.jpg")
    assert found is not None
    assert found.regions[0].outline == Box(0.0, 0.0, 2.0, 1.0)
    with refused("regions", "r.json"):
        load(path).of(Path("a.jpg"))


@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 2**32 - 1))
def test_compressed_runs_are_read_as_they_are_written(height: int, width: int, seed: int) -> None:
    mask = np.random.default_rng(seed).random((height, width)) < 0.3
    lengths = coco.uncompressed(compressed(mask))
    flat = np.repeat(np.arange(len(lengths)) % 2 == 1, lengths)
    np.testing.assert_array_equal(flat.reshape(width, height).T, mask)


BOMB = '<!DOCTYPE a [<!ENTITY b "b">]><annotation><filename>&b;</filename></annotation>'
WRONG: dict[str, tuple[str, Any, str]] = {
    "no format": ("r.json", {"a": 1}, "known format"),
    "no JSON": ("r.json", '{"images": [', "JSON (line 1)"),
    "no XML": ("r.xml", "<annotation><a></annotation>", "valid XML"),
    "entities": ("r.xml", BOMB, "document type"),
    "binary": ("r.bin", b"\xff\xfe\x00", "known format"),
    "version": ("r.json", {"format": "dipp regions", "version": 9, "pictures": []}, "version 1"),
    "two shapes": ("r.json", own_file({"box": [0, 0, 1, 1], "polygon": SQUARE}), "edges"),
    "empty box": ("r.json", own_file({"box": [3, 3, 0, 4]}), "0×4"),
    "short box": ("r.json", own_file({"box": [3, 3, 4]}), "got [3, 3, 4]"),
    "words": ("r.json", own_file({"box": [3, 3, "wide", 4]}), "got wide"),
    "infinite": (
        "r.json",
        '{"format": "dipp regions", "version": 1, "pictures": [{"name": "a", "regions": '
        '[{"box": [0, 0, Infinity, 1]}]}]}',
        "got inf",
    ),
    "runs": ("r.json", own_file({"mask": {"size": [4, 4], "runs": [3, 4]}}), "4×4"),
    "boxes": ("r.json", own_file(boxes="sideways"), "sideways"),
    "size": ("r.json", own_file(size=[0, 40]), "0.0"),
    "no name": ("r.json", own_file(name=""), "name"),
    "huge": (
        "r.json",
        json.dumps(own_file({"box": [0, 0, 7, 1]})).replace("7", "7" + 400 * "0"),
        "got 7000",
    ),
    "twice": (
        "r.json",
        json.dumps(own_file({"box": [0, 0, 7, 1]})).replace(
            '"regions": [{', '"regions": [{"box": [0, 0, 9, 9]}], "regions": [{'
        ),
        "regions twice",
    ),
    "coco image": ("r.json", coco_file(image_id=8, bbox=[0, 0, 1, 1]), "image 8"),
    "coco nothing": ("r.json", coco_file(), "bbox"),
    "coco runs": ("r.json", coco_file(segmentation={"size": [4, 4], "counts": "~~"}), "COCO"),
    "coco odd": ("r.json", coco_file(segmentation=[[1, 2, 3]]), "got 3 numbers"),
    "coco sizes": (
        "r.json",
        {
            **coco_file(segmentation={"size": [4, 5], "counts": [0, 20]}),
            "images": [{"id": 3, "file_name": "a", "width": 4, "height": 5}],
        },
        "5×4",
    ),
    "too large": ("r.json", own_file({"mask": {"size": [9000, 9000], "runs": [0, 81000000]}}), "too large"),
    "labelme line": ("r.json", labelme_file(points=[[0, 0], [1, 1]], shape_type="line"), "type line"),
    "voc box": ("a.xml", VOC.replace("<xmin>6</xmin>", ""), "bndbox"),
    "voc turned": ("a.xml", VOC.replace("<xmin>6", "<xmin>60"), "empty"),
    "cvat points": ("a.xml", CVAT.replace("<ellipse", '<points points="1,2"/><ellipse'), "type points"),
    "cvat both": ("a.xml", CVAT.replace("</ann", '<track id="1"/></ann'), "tracks"),
    "cvat frame": (
        "a.xml",
        '<annotations><track><box frame="-1" xtl="1" ytl="1" xbr="2" ybr="2"/></track></annotations>',
        "got -1",
    ),
    "deid conditions": ("d", "contains Modality CT\ncoordinates 1,2,3,4", "(contains …)"),
    "deid keep": ("d", "keepcoordinates 1,2,3,4", "keepcoordinates"),
    "deid short": ("d", "coordinates 1,2,3", "got 1,2,3"),
    "yolo pixels": ("a.txt", "0 200 100 50 60", "200 100 50 60"),
    "yolo polygon": ("a.txt", "0 0.1 0.1 0.2 0.2 0.3 0.3 0.4", "7 numbers"),
    "yolo pose, odd": ("a.txt", "0 0.5 0.5 0.2 0.2 0.45 0.45 2 0.5 0.5 2 0.55 0.55 0", "13 numbers"),
    "yolo pose, even": ("a.txt", "0 0.5 0.5 0.2 0.2 0.45 0.45 2.000000 0.5 0.5 1", "10 numbers"),
    "mask colour": ("a.png", None, "mode RGB"),
    "mask cut": ("a.png", png(MASK)[:60], "whole PNG"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_malformed_gets_one_clear_line(name: str, tmp_path: Path) -> None:
    file, content, why = WRONG[name]
    if content is None:
        picture = io.BytesIO()
        Image.new("RGB", (4, 4), "red").save(picture, "PNG")
        content = picture.getvalue()
    with refused(file, why):
        load(write(tmp_path, file, content))


def test_two_files_for_one_picture_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "a.json", own_file({"box": [0, 0, 3, 3]}))
    write(tmp_path, "b.json", own_file({"box": [0, 0, 3, 3]}))
    with refused("regions", "a.json"):
        load(tmp_path)


def test_missing_files_and_empty_folders_are_refused(tmp_path: Path) -> None:
    with refused("regions", "exist"):
        load(tmp_path / "none.json")
    with refused("regions", remedy="folder"):
        load(tmp_path)


def test_a_new_format_is_a_module_and_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Corners:
        @staticmethod
        def recognises(file: File) -> bool:
            return file.content.startswith(b"corners ")

        @staticmethod
        def read(file: File) -> Declarations:
            left, top, right, bottom = (float(word) for word in (file.text or "").split()[1:])
            return Declarations(everywhere=DeclaredRegions((Region(Box(left, top, right, bottom)),)))

    path = write(tmp_path, "r.txt", "corners 1 2 3 4")
    with refused("r.txt"):
        load(path)
    monkeypatch.setitem(FORMATS, "corners", Corners())
    found = load(path).of(Path("any.png"))
    assert found is not None
    assert found.regions[0].outline == Box(1, 2, 3, 4)


@pytest.mark.parametrize("name", [name for name, (file, _) in SAME.items() if file.endswith(".json")])
def test_damaged_json_ends_in_one_line(name: str, tmp_path: Path) -> None:
    """A file of regions with any one value replaced is read, or refused in one line."""
    content = SAME[name][1]
    for damaged in variants(content):
        path = write(tmp_path, "r.json", damaged)
        with contextlib.suppress(DippError):
            found = load(path).of(Path("a.jpg"))
            if found is not None:
                found.placed((60, 40), 1, None).mask(Margin())


def variants(content: Any) -> list[Any]:
    """Yield copies of JSON in which one value was replaced."""
    others: tuple[Any, ...] = (None, -1, "x", [], {}, 1e300)
    found = [*others]
    if isinstance(content, dict):
        for key, value in content.items():
            found += [{**content, key: changed} for changed in variants(value)]
    elif isinstance(content, list):
        for at, value in enumerate(content[:3]):
            found += [[*content[:at], changed, *content[at + 1 :]] for changed in variants(value)]
    return found


NUMBERS = st.floats(-1e6, 1e6, allow_nan=False)


@given(st.lists(st.tuples(NUMBERS, NUMBERS, st.floats(1e-3, 1e6), st.floats(1e-3, 1e6)), max_size=4), st.booleans())
def test_packing_gives_back_every_edge_exactly(boxes: list[tuple[float, ...]], relative: bool) -> None:
    """A width of rounded floats would move the right edge of some boxes, and with it a row of pixels."""
    outlines = [Box(x, y, x + width, y + height) for x, y, width, height in boxes if x + width > x and y + height > y]
    shapes = [*outlines, Polygon(((0.1, 0.2), (7.3, 0.7), (3.1, 9.9))), Pixels(np.eye(3, dtype=bool), 4, 5)]
    declared = DeclaredRegions(
        tuple(Region(one, "face", str(n)) for n, one in enumerate(shapes)), (9, 8), relative, "f.json", True
    )
    found = own.unpacked(own.packed(declared))
    assert found is not None
    assert (found.size, found.relative, found.source, found.oriented) == ((9, 8), relative, "f.json", True)
    assert [(region.kind, region.id) for region in found.regions] == [
        (region.kind, region.id) for region in declared.regions
    ]
    assert [region.outline for region in found.regions[:-1]] == shapes[:-1]
    assert found.regions[-1].outline.facts() == shapes[-1].facts()
    assert own.unpacked(own.packed(None)) is None


OBJECT = {"bbox": [5, 10, 20, 10], "category": 1}
CELLS: dict[str, tuple[Any, str]] = {
    "struct of lists": ({"bbox": [[5, 10, 20, 10]], "category": [1], "area": 200}, "face"),
    "list of structs": ([OBJECT], "face"),
    "class as text": ([{**OBJECT, "category": None, "label": "face"}], "face"),
    "class without a name": ([{**OBJECT, "category": 9}], "9"),
    "polygon": ([{"bbox": [0, 0, 9, 9], "segmentation": [[5, 10, 25, 10, 25, 20, 5, 20]], "category": 1}], "face"),
    "boxes": ([[5, 10, 20, 10]], "region"),
    "own": ([{"kind": "face", "box": [5, 10, 20, 10]}], "face"),
    "text": (json.dumps([OBJECT]), "face"),
    "mask": (png(MASK), "region"),
    "mask of datasets": ({"bytes": png(MASK), "path": "m.png"}, "region"),
}


@pytest.mark.parametrize("name", CELLS)
def test_cells_of_a_column_mean_the_same(name: str) -> None:
    cell, kind = CELLS[name]
    found = column.of("objects of row 0", cell, (60, 40), ("plate", "face"))
    assert found is not None
    placed = found.placed((60, 40), 1, None)
    hidden = placed.mask(Margin())
    assert [region.kind for region in found.regions] == [kind]
    assert hidden[MASK].all()
    assert hidden.sum() <= MASK.sum() + 2 * (21 + 11) + 4  # a polygon touches the pixels along its outline
    with refused("objects of row 0", "60×40"):
        found.placed((40, 60), 1, None)


@pytest.mark.parametrize(
    ("cell", "line"),
    [
        ("[", ("objects of row 3", "text")),
        (7, ("objects of row 3", "objects")),
        ({"box": [5]}, ("objects of row 3", "objects")),
        ([7], ("objects of row 3", "object")),
        ([[5, 10, 20]], ("objects of row 3",)),
        ([[5, 10, None, 10]], ("objects of row 3", "None")),
        ([[5, 10, 0, 10]], ("objects of row 3", "empty")),
        ({"bbox": [[5, 10, 20, 10]], "category": [1, 2]}, ("objects of row 3", "objects")),
        ([{"category": 1}], ("objects of row 3", "segmentation")),
        (
            [
                {"segmentation": {"size": [2, 2], "counts": [0, 4]}},
                {"segmentation": {"size": [1, 4], "counts": [0, 4]}},
            ],
            ("objects of row 3", "4×1"),
        ),
        (b"GIF89a", ("objects of row 3",)),
    ],
)
def test_malformed_cells_are_refused(cell: Any, line: tuple[str, ...]) -> None:
    with refused(*line):
        column.of("objects of row 3", cell, None, ())


def test_an_empty_cell_declares_nothing() -> None:
    assert column.of("objects of row 3", None, None, ()) is None
    found = column.of("objects of row 3", {"bbox": [], "category": []}, (None, None), ())
    assert found is not None
    assert found.regions == ()
