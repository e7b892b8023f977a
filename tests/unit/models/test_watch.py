"""A watch receives every pixel of every step once, and nothing that is private."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.codecs import make_codec

from dipp.models import watch
from dipp.models.denoiser import torch_device
from dipp.models.tiles import tiled
from dipp.models.windows import blend
from experiments.comparisons.unclipped import SHARP


class RecordingWatch:
    """A watch that records every report."""

    def __init__(self) -> None:
        self.events: list[tuple[str, tuple[int, ...]]] = []

    def begin(self, images: int, pixels: int, steps: int) -> None:
        self.events.append(("begin", (images, pixels, steps)))

    def step(self, number: int) -> None:
        self.events.append(("step", (number,)))

    def predicted(self, pixels: int) -> None:
        self.events.append(("predicted", (pixels,)))

    def of(self, kind: str) -> list[tuple[int, ...]]:
        return [numbers for name, numbers in self.events if name == kind]


@pytest.mark.parametrize(("height", "width", "tiles"), [(20, 24, 1), (64, 40, 4), (33, 100, 7)])
def test_tiles_add_up_to_the_picture(height: int, width: int, tiles: int) -> None:
    heard = RecordingWatch()
    with watch.watching(heard):
        pixels = torch.zeros(2, 3, height, width)
        tiled(lambda rows, columns: pixels[..., rows, columns], (height, width), stride=4, margin=8, side=16)
    told = [count for (count,) in heard.of("predicted")]
    assert sum(told) == 2 * height * width
    assert len(told) >= tiles


def test_windows_add_up_to_nearly_the_picture() -> None:
    heard = RecordingWatch()
    with watch.watching(heard):
        blend(lambda x: x, torch.zeros(2, 3, 40, 56), (8, 8))
    told = sum(pixels for (pixels,) in heard.of("predicted"))
    assert 0.9 * 2 * 40 * 56 < told <= 2 * 40 * 56


def test_encoding_and_decoding_report_every_step() -> None:
    codec, heard = make_codec(SHARP), RecordingWatch()
    pixels = np.zeros((2, *codec.denoiser.sample_size, 3), np.uint8)
    steps, all_pixels = len(codec.plan.steps), int(np.prod(pixels.shape[:3]))
    with watch.watching(heard):
        archive = codec.encode(list(pixels))
    assert heard.of("begin") == [(2, all_pixels, steps)]
    assert [number for (number,) in heard.of("step")] == [*range(steps)]
    heard = RecordingWatch()
    with watch.watching(heard):
        codec.decode(archive)
    assert heard.of("begin") == [(2, all_pixels, steps + 1)], "and the call that makes the picture"
    assert [number for (number,) in heard.of("step")] == [*range(steps + 1)]
    codec.decode(archive)
    assert len(heard.of("begin")) == 1, "nobody is told after the block"


def test_a_share_goes_from_nothing_to_all() -> None:
    share = watch.ShareWatch()
    assert share.done == 0
    share.begin(2, 100, 4)
    seen = [share.done]
    for number in range(4):
        share.step(number)
        for _ in range(2):
            seen.append(share.done)
            share.predicted(50)
    assert seen == sorted(seen)
    assert (seen[0], share.done) == (0, 1)
    share.begin(1, 100, 2)
    share.step(0)
    share.predicted(130)  # with padding
    assert share.done == 0.5
    share.begin(1, 0, 0)
    assert share.done == 0


def test_an_exception_of_a_watch_ends_the_work() -> None:
    class EnoughError(Exception):
        pass

    class StoppingWatch(RecordingWatch):
        def step(self, number: int) -> None:
            raise EnoughError(number)

    codec = make_codec(SHARP)
    with watch.watching(StoppingWatch()), pytest.raises(EnoughError):
        codec.encode([np.zeros((*codec.denoiser.sample_size, 3), np.uint8)])


@pytest.mark.parametrize(("cuda", "mps", "found"), [(True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")])
def test_auto_is_the_fastest_available_device(
    cuda: bool, mps: bool, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert torch_device("auto") == torch.device(found)
    assert torch_device("cpu") == torch.device("cpu")
