"""`encode` and `decode` take one picture or several, and refuse ambiguous input."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.codecs import make_plan, pictures, pictures_of_two_sizes
from helpers.datasets import tiny_codec
from helpers.networks import tiny_denoiser
from helpers.refusals import refused
from PIL import Image

import dipp
from dipp.codec.codec import Codec
from dipp.codec.decoder import Decoder
from dipp.codec.decoding import ChainEnd, Decoding
from dipp.core.geometry import Geometry
from dipp.errors import InconsistentError
from dipp.format import archive
from dipp.models.denoiser import torch_device
from dipp.planning.presets import DIFFC
from dipp.privacy.budget import Budget
from experiments.comparisons.unclipped import SHARP

pytestmark = pytest.mark.usefixtures("one_thread")


def rgb(height: int = 8, width: int = 8) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = pictures(1, height, width)[0]
    return found


@pytest.fixture(scope="module")
def small() -> Codec:
    denoiser = tiny_denoiser()
    return Codec(denoiser, make_plan(SHARP, denoiser.schedule, index_bits=6))


@pytest.mark.parametrize("kind", ["array", "grey", "channel", "PIL", "tensor", "path", "name", "numpy name"])
def test_one_picture_is_one_picture(kind: str, small: Codec, tmp_path: Path) -> None:
    """An array of 32×32×3 is one picture with one release, and not 32 grey pictures of 32×3."""
    array, place = rgb(12, 10), tmp_path / "a.png"
    Image.fromarray(array).save(place)
    one: Any = {
        "array": array,
        "grey": array[..., 0],
        "channel": array[..., :1],
        "PIL": Image.fromarray(array),
        "tensor": torch.from_numpy(array).permute(2, 0, 1),
        "path": place,
        "name": str(place),
        "numpy name": np.str_(place),
    }[kind]
    made = small.encode(one)
    assert [made.geometry(i) for i in range(len(made))] == [Geometry(12, 10, 3)]
    assert made.grey.tolist() == [kind in ("grey", "channel")]
    assert made.certificate == small.encode([one]).certificate
    assert [picture.shape for picture in small.decode(made)] == [(12, 10, 3)]


def test_a_file_that_is_named_twice_is_refused(small: Codec, tmp_path: Path) -> None:
    """A file that is named twice would be released twice, and the certificate covers one release."""
    for name in ("a.png", "b.png"):
        Image.fromarray(rgb()).save(tmp_path / name)
    (tmp_path / "c.png").symlink_to(tmp_path / "a.png")
    (tmp_path / "d.png").hardlink_to(tmp_path / "a.png")
    for again in ("a.png", "c.png", "d.png"):
        with refused("images", again):
            small.encode([tmp_path / "a.png", str(tmp_path / "b.png"), str(tmp_path / again)])
    assert len(small.encode([tmp_path / "a.png", tmp_path / "b.png"])) == 2


def filled_again(views: bool) -> Iterator[np.ndarray[Any, Any]]:
    """Yield pictures that all share one array, which is filled again for each."""
    array = rgb()
    for level in (0, 255):
        array[:] = level
        yield array[:] if views else array


@pytest.mark.parametrize(
    "images",
    [
        lambda: [one := rgb(), one],
        lambda: filled_again(views=False),
        lambda: filled_again(views=True),
        lambda: np.broadcast_to(rgb(), (2, 8, 8, 3)),
        lambda: [one := Image.fromarray(rgb()), one],
        lambda: [one := torch.from_numpy(rgb()).permute(2, 0, 1), one],
    ],
    ids=["array", "filled again", "views", "broadcast", "PIL", "tensor"],
)
def test_the_same_object_given_twice_is_refused(images: Any, small: Codec, tmp_path: Path) -> None:
    """The same array twice is refused: a generator that fills one array would release its last picture twice."""
    with refused("images", "picture 1", "picture 0"):
        small.encode(images())
    with refused("images", "picture 1", "picture 0"):
        dipp.encode(images(), epsilon=4, model=tmp_path)  # no model there: it is refused before one is loaded
    same = rgb()
    assert len(small.encode([same, same.copy()])) == 2  # the odometer counts both


@pytest.mark.parametrize(
    "kind", ["list", "tuple", "generator", "stack", "tensors", "paths", "names", "objects", "mixed"]
)
def test_several_pictures_are_several(kind: str, small: Codec, tmp_path: Path) -> None:
    arrays = pictures(2)
    for number, one in enumerate(arrays):
        Image.fromarray(one).save(tmp_path / f"{number}.png")
    boxed = np.empty(2, object)
    boxed[:] = list(arrays)
    names = sorted(map(str, tmp_path.iterdir()))
    several: Any = {
        "list": list(arrays),
        "tuple": tuple(arrays),
        "generator": (array for array in arrays),
        "stack": arrays,
        "tensors": torch.from_numpy(arrays).permute(0, 3, 1, 2),
        "paths": tmp_path.iterdir(),
        "names": np.array(names),
        "objects": boxed,
        "mixed": [names[0], torch.from_numpy(arrays[1]).permute(2, 0, 1)],
    }[kind]
    assert len(small.encode(several)) == 2


@pytest.mark.parametrize(
    ("images", "advice"),
    [
        (np.zeros((3, 8, 8), np.uint8), "x.transpose(1, 2, 0), for a stack of grey pictures x[..., None]"),
        (np.zeros((5, 8, 8), np.uint8), "for a stack of grey pictures x[..., None]"),
        (np.zeros((2, 3, 8, 8), np.uint8), "x.transpose(1, 2, 0)"),
        (np.zeros((8, 8, 4), np.uint8), "PIL.Image.fromarray(x)"),
        (np.zeros((8, 8, 2), np.uint8), "PIL.Image.fromarray(x)"),
        (torch.zeros(8, 8, 3, dtype=torch.uint8), "x.permute(2, 0, 1), for a stack of grey pictures x[:, None]"),
        (torch.zeros(5, 8, 8, dtype=torch.uint8), "for a stack of grey pictures x[:, None]"),
        (torch.zeros(4, 8, 8, dtype=torch.uint8), "PIL.Image.fromarray(x.permute(1, 2, 0).numpy())"),
        (torch.zeros(3, 8, 8), "(255 * x).round().to(torch.uint8)"),
        (np.zeros((8, 8, 3)), "(255 * x).round().astype(np.uint8)"),
        (np.zeros((8, 8), bool), "255 * x.astype(np.uint8)"),
        (torch.zeros(3, 8, 8, dtype=torch.bool), "255 * x.to(torch.uint8)"),
        (np.zeros((8, 8), np.uint16), "window=(LOW, HIGH)"),
        (np.zeros((8, 8, 3), np.complex64), ""),
        (np.zeros(8, np.uint8), "list"),
        (np.uint8(3), "list"),
        (np.zeros((1, 1, 8, 8, 3), np.uint8), "list"),
        (np.zeros((0, 8, 3), np.uint8), "list"),
    ],
)
def test_ambiguous_input_is_refused_in_one_line_with_a_remedy(images: Any, advice: str, small: Codec) -> None:
    with refused("image", remedy=advice):
        small.encode(images)


@pytest.mark.parametrize(
    ("images", "argument", "tokens"),
    [
        ([[[1, 2, 3]]], "image", ["list"]),
        (b"bytes", "images", ["bytes"]),
        (None, "images", ["NoneType"]),
        ({"a.png": 1}, "images", ["dict"]),
        ([], "images", []),
        (iter(()), "images", []),
        (np.zeros((0, 8, 8, 3), np.uint8), "images", []),
    ],
)
def test_input_without_a_picture_is_refused(images: Any, argument: str, tokens: list[str], small: Codec) -> None:
    with refused(argument, *tokens):
        small.encode(images)


def test_a_network_of_one_channel_refuses_colour_with_a_remedy() -> None:
    grey = tiny_denoiser(channels=1)
    codec = Codec(grey, make_plan(SHARP, grey.schedule))
    with refused("image", remedy="PIL.Image.fromarray(x"):
        codec.encode(rgb())
    for one in (rgb()[..., 0], rgb()[..., :1], Image.fromarray(rgb())):
        made = codec.encode(one)
        assert made.geometry(0) == Geometry(8, 8, 1)
        assert not made.grey.any()


def test_an_archive_a_path_or_several_are_decoded(small: Codec, tmp_path: Path) -> None:
    first, second = small.encode(rgb()), small.encode(pictures(2))
    first.save(tmp_path / "a.dipp")
    (whole,) = small.decode(first)
    for source in (tmp_path / "a.dipp", str(tmp_path / "a.dipp"), [first], iter([tmp_path / "a.dipp"])):
        np.testing.assert_array_equal(small.decode(source), [whole])
    assert len(small.decode([first, second, tmp_path / "a.dipp"])) == 4
    assert small.decode([]) == []


def test_a_folder_is_refused_and_the_line_names_the_command_for_folders(small: Codec, tmp_path: Path) -> None:
    with refused(tmp_path.name, remedy="privatize"):
        small.encode(tmp_path)


@pytest.mark.parametrize("source", [b"DIPP", np.zeros((8, 8, 3), np.uint8), None, 3, [np.zeros((8, 8, 3))], [[]]])
def test_only_archives_are_decoded(source: Any, small: Codec) -> None:
    with refused("source", "archive"):
        small.decode(source)


def test_grey_pictures_come_out_grey(small: Codec) -> None:
    """Decoded grey pictures are grey and colour ones are not, for every flag of decoding."""
    made = small.encode([rgb(), rgb()[..., 0], rgb(8, 16)[..., :1]])
    assert made.grey.tolist() == [False, True, True]
    for choice in ({}, {"sample": True, "calls": 2}, {"noisy": True}):
        colour, *grey = small.decode(made, Decoding(**choice))
        assert (colour[..., 0] != colour[..., 1]).any()
        assert all((one == one[..., :1]).all() for one in grey)
        assert [one.shape for one in grey] == [(8, 8, 3), (8, 16, 3)]


def test_the_window_is_in_the_file(small: Codec) -> None:
    scan = np.arange(64, dtype=np.uint16).reshape(8, 8) * 60
    made = archive.Archive.from_bytes(small.encode(scan, window="0:4095").to_bytes())
    assert str(made.parameters.window) == made.facts()["window"] == "0:4095"
    assert small.encode(rgb()).parameters.window is None
    with refused("window", "LOW:HIGH"):
        small.encode(scan, window="auto")


def test_short_words_for_codecs_and_archives(small: Codec) -> None:
    made = small.encode(pictures(2))
    assert repr(small) == f"<dipp.Codec: 3 steps of {SHARP.name}, model {small.denoiser.identity[:8]} on cpu>"
    within = dataclasses.replace(small, budget=Budget.pure(300.0))
    assert "within ε = 300" in repr(within)
    assert repr(made) == f"<dipp.Archive: 2 images, {made.file_bpp:.4g} bits per pixel, {made.certificate.short()}>"
    assert repr(small.encode(rgb())).startswith("<dipp.Archive: 1 image, ")
    bare = Codec(small.denoiser, make_plan(DIFFC, small.denoiser.schedule))
    assert "no certificate" in repr(bare.encode(rgb()))


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ("epsilon", "2"),
        ("epsilon", True),
        ("epsilon", [1]),
        ("rho", "x"),
        ("delta", "x"),
        ("size", 4096),
        ("size", "64x64"),
        ("size", (64.5, 64)),
        ("size", (True, 64)),
        ("size", (0, 64)),
    ],
)
def test_arguments_of_a_codec_that_are_not_numbers_are_refused(option: str, wrong: object) -> None:
    """Invalid numbers raise one line that names the argument, and not an error of Python."""
    options: dict[str, Any] = ({} if option == "rho" else {"epsilon": 2.0}) | {option: wrong}
    with refused(option, "got"):
        Codec.from_pretrained(**options)


@pytest.mark.parametrize(
    ("option", "wrong"), [("calls", 2.5), ("calls", "x"), ("calls", True), ("steps", "x"), ("steps", 1.5)]
)
def test_numbers_of_a_decoding_that_are_not_whole_are_refused(option: str, wrong: object) -> None:
    options: dict[str, Any] = {option: wrong}
    with refused(option):
        Decoding(**options)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"noisy": True, "sample": True}, "noisy"),
        ({"noisy": True, "calls": 3}, "noisy"),
        ({"noisy": True, "ancestral": True}, "noisy"),
        ({"ancestral": True, "sample": True}, "ancestral"),
        ({"ancestral": True, "calls": 2}, "ancestral"),
    ],
    ids=str,
)
def test_flags_that_contradict_each_other_are_refused(flags: dict[str, Any], said: str, small: Codec) -> None:
    """Contradictory flags are refused by `Decoding`, by an archive and by a dataset."""
    with refused(said):
        Decoding(**flags)
    with refused(said):
        small.encode(rgb()).decode(**flags)


def test_an_archive_decodes_itself(light_model: Path, tmp_path: Path) -> None:
    codec = tiny_codec(light_model)
    made = codec.encode(pictures(2), odometer=False)
    made.save(tmp_path / "a.dipp")
    again = pickle.loads(pickle.dumps(made))  # noqa: S301
    for one in (made, dipp.open(tmp_path / "a.dipp"), again):
        assert isinstance(one, dipp.Archive)
        every: list[dict[str, Any]] = [{}, {"noisy": True}, {"sample": True}, {"steps": 1}]
        for flags in every:
            np.testing.assert_array_equal(one.decode(light_model, **flags), codec.decode(made, Decoding(**flags)))
    with refused("plan", "model", kind=InconsistentError):
        made.decode()


def test_an_encoder_hands_back_its_final_states(small: Codec) -> None:
    """The encoder's final states are those that a decoder reaches."""
    ends: list[ChainEnd] = []
    made = small.encode(pictures_of_two_sizes(), odometer=False, ends=ends.append)
    decoded = list(Decoder(small.denoiser).ends(made))
    assert [end.state.shape[0] for end in ends] == [2, 1]
    for ours, theirs in zip(ends, decoded, strict=True):
        torch.testing.assert_close(ours.state, theirs.state, atol=1e-5, rtol=0)
        assert np.abs(ours.pictures().astype(int) - theirs.pictures()).max() <= 1


def test_a_device_of_pytorch_is_accepted() -> None:
    assert torch_device(torch.device("cpu")) == torch_device("cpu")
    with refused("device", "cuda:1", remedy="CUDA_VISIBLE_DEVICES"):
        torch_device("cuda:1")
