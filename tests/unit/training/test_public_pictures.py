"""Public pictures for training and calibration: which pictures of each kind of source are read, and which skipped."""

from __future__ import annotations

import io
import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.refusals import refused
from PIL import Image

from dipp.data import cifar
from dipp.training import public_pictures
from dipp.training.public_pictures import Scene


def test_bad_pictures_of_a_folder_are_skipped(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    (tmp_path / "deep").mkdir()
    Image.fromarray(pixels).save(tmp_path / "deep" / "a.png")
    Image.fromarray(pixels[:4]).save(tmp_path / "b-too-small.png")
    Image.fromarray(np.tile(pixels, (2, 3, 1))[:, :20]).save(tmp_path / "c-large.png")
    (tmp_path / "d.png").write_bytes(b"no picture")
    whole = (tmp_path / "deep" / "a.png").read_bytes()
    (tmp_path / "e.png").write_bytes(whole[: len(whole) // 2])
    loaded = public_pictures.load(tmp_path, 8)
    assert loaded.skipped == 3
    assert len(loaded.pixels) == 1 + 2 * 3
    assert any(np.array_equal(tile, pixels) for tile in loaded.pixels)
    with refused("data", "64×64"):
        public_pictures.load(tmp_path, 64)


def test_tiles_are_limited_and_cover_the_sides() -> None:
    picture = np.arange(100 * 90 * 3, dtype=np.uint32).astype(np.uint8).reshape(100, 90, 3)
    tiles = public_pictures._tiles(picture, 8)
    assert len(tiles) == public_pictures.TILES
    assert np.array_equal(tiles[0], picture[:8, :8])
    assert np.array_equal(tiles[-1], picture[-8:, -8:])


def test_only_the_training_batches_of_cifar_are_read(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = {}
    for name in (*cifar.TEN.batches["train"], "test_batch"):
        rows[name] = rng.integers(0, 256, (2, 3072), dtype=np.uint8)
        (tmp_path / name).write_bytes(pickle.dumps({b"data": rows[name], b"labels": [0, 1]}, protocol=4))
    loaded = public_pictures.load(tmp_path, 32)
    assert len(loaded.pixels) == 10
    assert np.array_equal(loaded.pixels[3], rows["data_batch_2"][1].reshape(3, 32, 32).transpose(1, 2, 0))
    (tmp_path / "data_batch_4").write_bytes(b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R.")
    with refused("src", "data_batch_4"):
        public_pictures.load(tmp_path, 32)
    (tmp_path / "data_batch_4").unlink()
    with refused("src", "data_batch_4"):
        public_pictures.load(tmp_path, 32)


@pytest.mark.parametrize("nested", [True, False])
def test_pictures_of_parquet_files_are_read(tmp_path: Path, nested: bool) -> None:
    arrow: Any = pytest.importorskip("pyarrow")
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    files = [(tmp_path / "a.png").read_bytes(), b"bad", None]
    (tmp_path / "a.png").unlink()
    column = [f and {"bytes": f, "path": "x"} for f in files] if nested else files
    parquet.write_table(arrow.table({"label": [1, 2, 3], "image": column}), tmp_path / "train.parquet")
    for place in (tmp_path / "train.parquet", tmp_path):
        loaded = public_pictures.load(place, 8)
        assert np.array_equal(loaded.pixels, pixels[None])
        assert loaded.skipped == 2
    parquet.write_table(arrow.table({"label": [1]}), tmp_path / "train.parquet")
    with refused("data", "column"):
        public_pictures.load(tmp_path, 8)
    (tmp_path / "train.parquet").write_bytes(b"PAR1")
    with refused("data", "Parquet"):
        public_pictures.load(tmp_path, 8)


def test_arrays_of_another_kind_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((2, 8, 8, 3)))
    with refused("data", "uint8"):
        public_pictures.load(tmp_path / "a.npy", 8)
    np.savez(tmp_path / "a.npz", other=np.zeros(3))
    with refused("data", remedy="images"):
        public_pictures.load(tmp_path / "a.npz", 8)


def test_a_tar_file_is_a_folder(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3), dtype=np.uint8)
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for name, one in (("b/2.png", pixels[1]), ("b/1.png", pixels[0])):
            Image.fromarray(one).save(stream := io.BytesIO(), format="PNG")
            member = tarfile.TarInfo(name)
            member.size = stream.tell()
            stream.seek(0)
            tar.addfile(member, stream)
    loaded = public_pictures.load(tmp_path / "a.tar", 8)
    assert np.array_equal(loaded.pixels, pixels)
    (tmp_path / "a.tar").write_bytes(b"no tar file")
    with refused("data", "a.tar"):
        public_pictures.load(tmp_path / "a.tar", 8)


def test_scenes_fit_what_most_pictures_have(tmp_path: Path) -> None:
    sides = (20, 130, 140, 150, 160, 170, 180, 190)
    for number, side in enumerate(sides):
        Image.fromarray(np.zeros((side, side + 9, 3), np.uint8)).save(tmp_path / f"{number}.png")
    assert public_pictures.usual_side(tmp_path, 1000) == 140
    assert public_pictures.usual_side(tmp_path, 64) == 64
    assert public_pictures.fitting(tmp_path) == public_pictures.SCENES
    np.save(tmp_path / "a.npy", np.zeros((3, 40, 50, 3), np.uint8))
    assert public_pictures.fitting(tmp_path / "a.npy") == (Scene(32, 32),)
    np.save(tmp_path / "a.npy", np.zeros((3, 20, 50, 1), np.uint8))
    assert public_pictures.fitting(tmp_path / "a.npy") == (Scene(20, 20),)


def test_scenes_are_the_middle_of_photographs_at_their_scale(tmp_path: Path) -> None:
    """A grey ramp keeps its ends in a whole scene, and loses them in a square of the middle."""
    ramp = np.linspace(0, 255, 128).round().astype(np.uint8)
    picture = np.repeat(np.tile(ramp, (96, 1))[..., None], 3, axis=2)
    for number in range(8):
        Image.fromarray(picture).save(tmp_path / f"{number}.png")
    Image.fromarray(picture[:20]).save(tmp_path / "too-thin.png")
    (small, large), skipped = public_pictures.scenes(tmp_path, (Scene(8, 8), Scene(16, 48)), 6)
    assert (small.shape, large.shape, skipped) == ((6, 8, 8, 3), (1, 16, 16, 3), 0)
    # 96 rows become 8, so 128 columns become 11, and the middle 8 are seen; 16 of 64 in the other kind.
    assert np.ptp(small[0]) == pytest.approx(255 * 7 / 11, abs=12)
    assert np.ptp(large[0]) == pytest.approx(255 * 15 / 64, abs=6)
    with refused("data", "128×128"):
        public_pictures.scenes(tmp_path, (Scene(128, 128),), 6)
