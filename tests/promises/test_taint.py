"""Nothing that is released depends on the private image, except through the selection.

The private array follows NumPy: on CUDA, `encoder.Selector` subtracts with torch (`encoder._minus`), which is never run
on it. That branch has the same mathematics, and is compared with the tested branch, number by number.
"""

from __future__ import annotations

import dataclasses
import logging
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from helpers.codecs import SEED, make_codec, pictures_of_two_sizes
from helpers.latent import save
from helpers.questions import PLANS, codec_of, question, questions_plan
from helpers.taint import LeakError, PrivateArray, Table, tainted

from dipp import models, scoring
from dipp.codec.chain import Chain, StepLayout
from dipp.codec.codec import Codec
from dipp.codec.encoder import Selector, _minus
from dipp.core import chunking, randomness
from dipp.core.geometry import Geometry
from dipp.core.plan import Coding
from dipp.core.signal import SIGNAL_OF_PIXEL, to_signal
from dipp.core.units import Picture
from dipp.models.books import Books
from dipp.models.diffusion import Transition
from dipp.models.latent import LatentDenoiser
from dipp.planning.presets import DIFFC, PAPER
from dipp.privacy.recorder import Recorder
from dipp.scoring.blocks import Blocks
from dipp.scoring.task import ScoringTask
from experiments.comparisons.unclipped import SHARP

EVERY = pytest.mark.parametrize("coding", [PAPER, SHARP, DIFFC], ids=lambda m: m.name)


pytestmark = pytest.mark.usefixtures("one_thread")


@EVERY
def test_the_image_is_read_once_a_step(coding: Coding) -> None:
    """With two sizes and three steps, six selections read the image, and nothing else between codec and file."""
    with tainted() as opened:
        archive = make_codec(coding).encode(pictures_of_two_sizes(), seed=SEED, odometer=False)
    assert opened == {"selection": 6, "range": 6}
    assert len(archive) == 3


@EVERY
def test_with_the_indices_fixed_the_file_is_the_same_for_every_image(
    coding: Coding, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds for streams, chunks, candidates, orders, counts, lengths and header: for the whole file."""
    codec, files, tasks = make_codec(coding), [], []

    def select(task: ScoringTask, _: Any) -> np.ndarray[Any, Any]:
        tasks.append(task)
        return np.arange(task.chunks) % task.candidates

    monkeypatch.setattr(scoring, "select", select)
    monkeypatch.setattr(scoring, "best", select)
    images = [np.zeros((8, 8, 3), np.uint8), np.full((8, 8, 3), 255, np.uint8), pictures_of_two_sizes()[0]]
    for image in images:
        files.append(codec.encode([image], seed=SEED).to_bytes())
    assert len(set(files)) == 1
    for first, *others in zip(tasks[:3], tasks[3:6], tasks[6:], strict=True):
        for other in others:
            assert (first.shifts != other.shifts).any()
            assert first.law is other.law
            assert (first.fraction_bits, first.candidates) == (other.fraction_bits, other.candidates)
            np.testing.assert_array_equal(first.streams, other.streams)
            np.testing.assert_array_equal(first.offsets, other.offsets)
            assert (first.order is None) == (other.order is None)
            if first.order is not None and other.order is not None:
                np.testing.assert_array_equal(first.order, other.order)


# Questions.


@pytest.mark.parametrize("name", PLANS)
def test_a_question_reads_the_image_once_a_round(name: str) -> None:
    """In each round that has a block, the nearest candidates are found once for each of the two sizes."""
    plan = PLANS[name]
    with tainted() as opened:
        archive = codec_of(plan).encode(pictures_of_two_sizes(), seed=SEED, odometer=False)
    rounds = [
        plan.deal(SEED, number, Geometry(8, width, 3)).in_round(turn).count
        for width in (8, 16)
        for number, step in enumerate(plan.steps)
        for turn in range(step.turns)
    ]
    assert opened == {"nearest": np.count_nonzero(rounds)}
    assert len(archive) == 3


@pytest.mark.parametrize("name", [*PLANS, "latents"])
def test_with_the_answers_fixed_the_file_is_the_same_for_every_image(
    name: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """An image decides only the sets of nearest candidates; with other sets, nothing else differs."""
    files, asked = [], list[Blocks]()
    codec = request.getfixturevalue("latent") if name == "latents" else codec_of(PLANS[name])

    def nearest(self: Blocks, count: int) -> Any:
        asked.append(self)
        return np.tile(np.arange(count), (len(self.present), 1))

    monkeypatch.setattr(Blocks, "nearest", nearest)
    monkeypatch.setattr(randomness, "private_bytes", lambda count: bytes(range(8)) * (count // 8))
    images = [np.zeros((8, 8, 3), np.uint8), np.full((8, 8, 3), 255, np.uint8), pictures_of_two_sizes()[0]]
    for image in images:
        files.append(codec.encode([image], seed=SEED, odometer=False).to_bytes())
    assert len(set(files)) == 1
    third = len(asked) // 3
    for first, *others in zip(asked[:third], asked[third : 2 * third], asked[2 * third :], strict=True):
        for other in others:
            assert (first.content != other.content).any()
            assert first.terms == other.terms
            np.testing.assert_array_equal(first.candidates, other.candidates)
            np.testing.assert_array_equal(first.present, other.present)


@pytest.fixture(scope="module")
def latent(tmp_path_factory: pytest.TempPathFactory) -> Codec:
    """Return a codec with two questions to the latents of whole pictures."""
    folder = save(tmp_path_factory.mktemp("latent"), "plain")
    Books.write(folder, {}, [])
    steps = (question(bits=5, scale=0.125), question(2, scale=0.0625))
    return codec_of(questions_plan(Picture(), *steps), models.load(folder))


@contextmanager
def following_the_vae() -> Iterator[dict[str, int]]:
    """Make the VAE's result of private pixels private. The VAE may read them once a batch, before the first step."""
    real = LatentDenoiser.coded

    def coded(self: LatentDenoiser, pixels: Any) -> Any:
        assert isinstance(pixels, PrivateArray), "the pixels of a private image are private"
        return PrivateArray(real(self, pixels.open("VAE")))

    with tainted() as opened, mock.patch.object(LatentDenoiser, "coded", coded):
        yield opened


def test_latents_are_read_once_a_question(latent: Codec) -> None:
    with following_the_vae() as opened:
        latent.encode(pictures_of_two_sizes(), seed=SEED, odometer=False)
    assert opened == {"VAE": 2, "nearest": 4}


def test_a_latent_model_that_is_scaled_by_the_picture_is_caught(latent: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    """No public number may follow from private latents, such as here a scale that a receiver would need."""
    real = Selector.blocks

    def blocks(self: Selector, layout: StepLayout, x_hat: Any) -> Any:
        return dataclasses.replace(real(self, layout, x_hat), candidates=np.asarray(self.pixels.max()))

    monkeypatch.setattr(Selector, "blocks", blocks)
    with following_the_vae(), pytest.raises(LeakError):
        latent.encode(pictures_of_two_sizes()[:1], seed=SEED, odometer=False)


def asked_wrongly(change: Callable[[Blocks], dict[str, Any]]) -> Callable[[pytest.MonkeyPatch], None]:
    """Return a patch by which the encoder makes a public part of a question from private content."""

    def build_in(patch: pytest.MonkeyPatch) -> None:
        real = Selector.blocks

        def blocks(self: Selector, layout: StepLayout, x_hat: Any) -> Any:
            found = real(self, layout, x_hat)
            return dataclasses.replace(found, **change(found))

        patch.setattr(Selector, "blocks", blocks)

    return build_in


ASKED_WRONGLY: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "m from the content": asked_wrongly(
        lambda one: {"terms": dataclasses.replace(one.terms, best=1 + int(one.content.max() > 0))}
    ),
    "a weight from the content": asked_wrongly(
        lambda one: {"terms": dataclasses.replace(one.terms, heavy=int(abs(one.content.sum())) + 9)}
    ),
    "candidates from the content": asked_wrongly(lambda one: {"candidates": np.asarray(one.content)}),
    "blocks without content are skipped": asked_wrongly(lambda one: {"present": one.present[one.content.sum(1) > 0]}),
    "a debug line": asked_wrongly(lambda one: {"flips": np.frombuffer(f"{one.content}".encode(), np.uint8)}),
}


@pytest.mark.parametrize("name", ASKED_WRONGLY)
def test_leaks_of_questions_are_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    codec = codec_of(PLANS["cells"])
    with tainted():
        ASKED_WRONGLY[name](monkeypatch)
        with pytest.raises(LeakError):
            codec.encode(pictures_of_two_sizes()[:1], seed=SEED, odometer=False)


# The tracking itself: everything that would show a value raises.

TABLE = np.arange(256).view(Table)


@pytest.mark.parametrize(
    "look",
    [
        np.asarray,
        np.array,
        list,
        str,
        repr,
        bytes,
        hash,
        lambda x: f"{x}",
        lambda x: int(x.max()),
        lambda x: float(x.mean()),
        lambda x: bool((x > 3).sum()),
        lambda x: x.tobytes(),
        lambda x: x.tolist(),
        lambda x: x.data,
        lambda x: np.arange(9)[x],
        lambda x: [1, 2, 3][x[0]],
        lambda x: range(x[0]),
        lambda x: np.argmax(x) or 1,
        lambda x: np.save("/dev/null", x),
        lambda x: torch.as_tensor(x),
        lambda x: np.concatenate([x, x]).tolist(),
        lambda x: np.where(x > 1, 1, 0).tolist(),
        lambda x: np.testing.assert_array_equal(x, x),
        # Shapes and errors.
        lambda x: x[x > 2].size,
        lambda x: len(x[x > 2]),
        lambda x: x[[x[0] > 2]].size,
        lambda x: x[x > 2, None].size,
        lambda x: np.where(x > 2)[0].size,
        lambda x: TABLE[x > 2].size,
        lambda x: TABLE[x > 2, None].size,
        lambda x: TABLE[x + np.uint16(254)],
        lambda x: TABLE[x.astype(np.int8)],
        lambda x: TABLE[:4][x],
        lambda x: x[np.argmax(x)],
        lambda x: x[: x[0]],
        # Public arrays that are written to.
        lambda x: np.add(x, 0, out=np.zeros(5, np.uint8)),
        lambda x: np.add(x, 0, np.zeros(5, np.uint8)),
        lambda x: np.add.reduce(x, out=np.zeros((), np.uint64)),
        lambda x: np.add.at(np.zeros(5), [0, 1, 2, 3, 4], x),
        lambda x: np.add.at(np.zeros(5), x, 1),
        lambda x: np.cumsum(x, out=np.zeros(5, np.uint64)),
        lambda x: np.cumsum(x, 0, None, np.zeros(5, np.uint64)),
        lambda x: np.stack([x, x], out=np.zeros((2, 5), np.uint8)),
        lambda x: np.concatenate([x, x], 0, np.zeros(10, np.uint8)),
        lambda x: x.sum(out=np.zeros((), np.uint64)),
        lambda x: x.mean(0, None, np.zeros(())),
        lambda x: np.zeros(5).__iadd__(x),
        lambda x: np.zeros(5).__setitem__(slice(None), x),
        lambda x: np.copyto(np.zeros(5), x),
    ],
)
def test_looking_at_a_private_array_raises(look: Callable[[Any], object]) -> None:
    with pytest.raises(LeakError):
        look(PrivateArray(np.arange(5, dtype=np.uint8)))


def test_computing_with_a_private_array_does_not_raise() -> None:
    x = PrivateArray(np.arange(6, dtype=np.uint8))
    for y in (x + 1, 2 - x, np.square(x), x[2:], np.stack([x, x]).reshape(3, 4), x.astype(np.int64), np.cumsum(x)):
        assert isinstance(y, PrivateArray)
    np.testing.assert_array_equal((x.astype(np.int64) * 2 - 1).open("test"), [-1, 1, 3, 5, 7, 9])
    assert np.stack([x, x]).shape == (2, 6)
    np.testing.assert_array_equal(TABLE[x].open("test"), np.arange(6))
    np.testing.assert_array_equal(x[np.array([True, False] * 3)].open("test"), [0, 2, 4])


def test_a_public_array_is_never_written_to() -> None:
    """It is written neither through an alias nor through a private array that was made from it."""
    public = np.zeros(4, np.int64)
    alias, x = public, PrivateArray(np.arange(4))
    with pytest.raises(LeakError):
        alias += x
    made = PrivateArray(public)
    made += x
    np.testing.assert_array_equal(made.open("test"), np.arange(4))
    assert not public.any()


# The branch for CUDA, which taint cannot follow.


@EVERY
def test_the_branch_for_cuda_computes_the_same(coding: Coding) -> None:
    """`_minus` of tensors on the CPU agrees for ties, for predictions beyond [−1, 1] and for whole tasks."""
    codec = make_codec(coding)
    chain = Chain(codec.plan, codec.denoiser, SEED, Geometry(8, 8, 3))
    generator = np.random.default_rng(0)
    for number in range(len(codec.plan.steps)):
        layout = chain.layout(number, range(2))
        arithmetic = layout.arithmetic
        pixels = generator.integers(0, 256, (2, len(layout.chunks.order)), np.uint8)
        private = arithmetic.levels(SIGNAL_OF_PIXEL)[pixels]
        ties = (generator.integers(-arithmetic.limit, arithmetic.limit, pixels.shape) + 0.5) / arithmetic.unit
        predictions = generator.normal(size=pixels.shape)
        for x_hat in (predictions, predictions.astype(np.float32), ties, ties.astype(np.float32)):
            found = _minus(private, layout, torch.from_numpy(x_hat))
            assert found.dtype == torch.int32
            np.testing.assert_array_equal(found.numpy(), private - arithmetic.centres(x_hat))
        images = np.stack(pictures_of_two_sizes()[:2]).reshape(2, -1)
        seen = torch.from_numpy(predictions.astype(np.float32))
        followed, other = (Selector(codec.plan, SEED, images, on).task(layout, seen) for on in ("cpu", "cuda"))
        np.testing.assert_array_equal(followed.shifts, other.shifts.numpy())
        for bad in (torch.nan, torch.inf, -torch.inf):  # what is not finite counts as 0
            found = _minus(private, layout, torch.full(pixels.shape, bad))
            np.testing.assert_array_equal(found.numpy(), private)
            np.testing.assert_array_equal(arithmetic.centres(np.full(pixels.shape, bad)), 0)


# Leaks, built in on purpose: each must be caught.


def before_task(look: Callable[[Selector, StepLayout], object]) -> Callable[[pytest.MonkeyPatch], None]:
    """Return a patch by which the encoder does something with the pixels before it scores."""

    def build_in(patch: pytest.MonkeyPatch) -> None:
        real = Selector.task

        def task(self: Selector, layout: StepLayout, x_hat: Any) -> Any:
            look(self, layout)
            return real(self, layout, x_hat)

        patch.setattr(Selector, "task", task)

    return build_in


def changed_task(change: Callable[[ScoringTask], dict[str, Any]]) -> Callable[[pytest.MonkeyPatch], None]:
    """Return a patch by which the encoder makes a public part of a step from private shifts."""

    def build_in(patch: pytest.MonkeyPatch) -> None:
        real = Selector.task

        def task(self: Selector, layout: StepLayout, x_hat: Any) -> Any:
            found = real(self, layout, x_hat)
            return dataclasses.replace(found, **change(found))

        patch.setattr(Selector, "task", task)

    return build_in


def private_state(patch: pytest.MonkeyPatch) -> None:
    """Continue the encoder from a state that contains the image, which the decoder cannot have."""
    kept: list[Any] = []
    real = Selector.__call__

    def call(self: Selector, layout: StepLayout, x_hat: Any) -> Any:
        kept.append(self.pixels)
        return real(self, layout, x_hat)

    def next_state(self: Transition, x_t: Any, _: Any, z: Any) -> Any:
        image = torch.as_tensor(to_signal(kept[-1])).reshape(len(x_t), *x_t.shape[2:], -1).permute(0, 3, 1, 2)
        return self.mean(x_t, image) + self.sigma * z

    patch.setattr(Selector, "__call__", call)
    patch.setattr(Transition, "next_state", next_state)


def realised_chunks(patch: pytest.MonkeyPatch) -> None:
    """Let the deal of coordinates to chunks follow the image."""
    seen: list[Any] = []
    stack = np.stack

    def keep(batch: Any, *arguments: Any, **options: Any) -> Any:
        seen.append(stack(batch, *arguments, **options))
        return seen[-1]

    def chunks(*_: Any, **__: Any) -> chunking.Chunks:
        order = np.argsort(next(one for one in seen if isinstance(one, PrivateArray)).reshape(-1))
        return chunking.Chunks(np.asarray(order), np.array([0, 96, 192]))

    patch.setattr(np, "stack", keep)
    patch.setattr(chunking, "chunks", chunks)


def seed_of_the_image(patch: pytest.MonkeyPatch) -> None:
    """Let the common randomness follow the image."""
    real = Codec._batches

    def batches(self: Codec, images: Any) -> Any:
        for batch in real(self, images):
            batch[0].pixels.tobytes()
            yield batch

    patch.setattr(Codec, "_batches", batches)


def private_ledger(patch: pytest.MonkeyPatch) -> None:
    """Record the sensitivity of this image, instead of that of any image."""
    real = Recorder.observe

    def observe(self: Recorder, step: int, plan: Any, shape: Any, chunks: Any, _: Any, *rest: Any) -> None:
        real(self, step, plan, shape, chunks, pixels[-1], *rest)

    pixels: list[Any] = []
    task = Selector.task

    def keep(self: Selector, layout: StepLayout, x_hat: Any) -> Any:
        pixels.append(self.pixels)
        return task(self, layout, x_hat)

    patch.setattr(Selector, "task", keep)
    patch.setattr(Recorder, "observe", observe)


def dump(selector: Selector, _: StepLayout) -> None:
    """Write all pixels into an array that is a file."""
    with tempfile.TemporaryFile() as file:
        np.add(selector.pixels, 0, out=np.memmap(file, np.uint8, "w+", shape=selector.pixels.shape))


LEAKS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "candidates from the realised divergence": changed_task(
        lambda task: {"candidates": 1 << int(np.square(task.shifts).sum() // 1000)}
    ),
    "an order from the shifts": changed_task(lambda task: {"order": np.asarray(task.shifts[: task.candidates])}),
    "chunk bounds from the shifts": changed_task(
        lambda task: {"offsets": np.array([0, int(task.shifts.max()), task.shifts.size])}
    ),
    "streams from the shifts": changed_task(lambda task: {"streams": task.streams + np.uint32(task.shifts.max())}),
    "chunks without a shift are skipped": before_task(lambda self, _: bool((self.pixels == 128).sum())),
    "an early end for easy images": before_task(lambda self, _: [1] * int(np.var(self.pixels))),
    "the best of several tries": before_task(
        lambda self, _: min([0, 1], key=lambda k: float((self.pixels - k).mean()))
    ),
    "a debug line": before_task(lambda self, _: logging.getLogger("dipp").error(f"{self.pixels}")),
    "candidates from the shape of what a mask leaves": changed_task(
        lambda task: {"candidates": task.shifts[task.shifts > 20].size}
    ),
    "work counted by a search": before_task(lambda self, _: np.zeros(len(np.where(self.pixels > 128)[0]))),
    "a dump through an output": before_task(dump),
    "a debug dump": before_task(lambda self, _: np.save("/dev/null", self.pixels)),
    "chunks in the order of the pixels": realised_chunks,
    "an encoder's state with the image in it": private_state,
    "a seed from the image": seed_of_the_image,
    "a ledger from the image": private_ledger,
}


@pytest.mark.parametrize("name", LEAKS)
def test_leaks_are_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    codec = make_codec(SHARP)
    with tainted():
        LEAKS[name](monkeypatch)
        with pytest.raises(LeakError):
            codec.encode(pictures_of_two_sizes()[:1], seed=SEED, odometer=False)
