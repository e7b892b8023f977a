"""The codec on a tiny network: encoder and decoder follow each other through bytes, for every coding."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.charges import selection_epsilon
from helpers.codecs import SEED, TIMESTEPS, make_plan, pictures, states
from helpers.geometry import of_pixels
from helpers.networks import IDENTITY, tiny_denoiser
from helpers.refusals import refused
from helpers.sensing import sensing_plan
from PIL import Image

from dipp.codec.chain import Chain
from dipp.codec.codec import Codec
from dipp.codec.decoding import EXPECTED, NOISY, SAMPLE_CALLS, ChainEnd, Decoding
from dipp.codec.encoder import Selector
from dipp.codec.pictures import as_picture
from dipp.codec.pixels import to_pixels
from dipp.codec.trajectory import Diffusion
from dipp.codes import Flat
from dipp.core import randomness
from dipp.core.channels import Sign
from dipp.core.geometry import Geometry
from dipp.core.masks import TurnMask
from dipp.core.plan import Coding, Plan
from dipp.errors import InconsistentError, NoCertificateError
from dipp.format import archive
from dipp.format.parameters import PublicParameters
from dipp.models import samplers
from dipp.models.denoiser import Denoiser
from dipp.planning.presets import DIFFC, PAPER
from dipp.privacy.certificate import Certificate
from dipp.privacy.recorder import Recorder
from experiments.comparisons.unclipped import SHARP, THRIFTY

CODINGS = [PAPER, DIFFC, SHARP, THRIFTY]


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def denoiser() -> Denoiser:
    """Return an untrained denoiser, because no promise of the codec depends on its quality."""
    return tiny_denoiser()


def released(plan: Plan, model: str = IDENTITY) -> PublicParameters:
    return PublicParameters(plan, model, SEED, 3)


@pytest.mark.parametrize("coding", CODINGS, ids=lambda m: m.name)
def test_the_decoder_reaches_the_encoders_state(coding: Coding, denoiser: Denoiser, tmp_path: Path) -> None:
    """The noisy picture that is decoded from a file is the encoder's last state, to float rounding."""
    plan, images = make_plan(coding, denoiser.schedule), pictures(3)
    chain = Chain(plan, denoiser, SEED, Geometry(8, 8, 3))
    state, chosen = chain.run(range(3), Selector(plan, SEED, images.reshape(3, -1), "cpu"))
    rows = np.concatenate(chosen, axis=1)
    built = archive.Archive.build(released(plan), [Geometry(8, 8, 3)] * 3, rows)
    built.save(tmp_path / "three.dipp")
    opened = archive.open(tmp_path / "three.dipp")
    (decoded, t), *_ = states(Codec(denoiser, plan), opened)
    assert t == TIMESTEPS[-1]
    torch.testing.assert_close(decoded, state, atol=1e-5, rtol=0)
    noisy = Codec(denoiser, plan).decode(opened, Decoding(noisy=True))
    assert [picture.shape for picture in noisy] == [(8, 8, 3)] * 3


def test_the_code_conveys_the_image(denoiser: Denoiser) -> None:
    """A black and a white picture end apart: the means of their final states differ, by 0.76 ± 0.08 over 60 runs.

    0.35 lies 5.3 deviations below (false alarms 1e-7); if nothing were conveyed, the difference would be 0 ± 0.1.
    """
    plan = make_plan(SHARP, denoiser.schedule)
    images = np.stack([np.zeros((8, 8, 3), np.uint8), np.full((8, 8, 3), 255, np.uint8)])
    coded = Codec(denoiser, plan).encode(list(images), seed=SEED)
    (state, _), *_ = states(Codec(denoiser, plan), coded)
    assert float(state[1].mean() - state[0].mean()) > 0.35


def test_plain_sign_noise_needs_no_more_chunks_than_other_channels(denoiser: Denoiser) -> None:
    """It touches all channels of a pixel, which may share a chunk, and the certificate charges for that."""
    plain = Coding(Sign(period=1), Flat())
    steps = tuple(dataclasses.replace(step, chunk_size=192) for step in make_plan(SHARP, denoiser.schedule).steps)
    coded = Codec(denoiser, Plan(plain, steps)).encode(list(pictures(1)))
    losses = [selection_epsilon(coded.parameters.plan.arithmetic(step)) for step in steps]
    assert math.isclose(coded.certificate.rho, sum((3 * loss) ** 2 for loss in losses) / 8, rel_tol=1e-9)


def test_pictures_of_several_sizes_keep_their_order(denoiser: Denoiser) -> None:
    plan = make_plan(SHARP, denoiser.schedule)
    images = [*pictures(2), *pictures(1, 16, 8), *pictures(1)]
    coded = Codec(denoiser, plan).encode(images)
    assert [coded.geometry(i).shape for i in range(4)] == [image.shape for image in images]
    assert [p.shape for p in Codec(denoiser, plan).decode(coded, Decoding(noisy=True))] == [
        image.shape for image in images
    ]


def test_the_first_steps_of_a_file_can_be_decoded(denoiser: Denoiser) -> None:
    """The first k steps give the state after k steps; none gives the common start."""
    plan = make_plan(SHARP, denoiser.schedule)
    codec, coded = Codec(denoiser, plan), Codec(denoiser, plan).encode(list(pictures(2)), seed=SEED)
    (start, t), *_ = states(codec, coded, steps=0)
    assert t == TIMESTEPS[0]
    torch.testing.assert_close(
        start, Diffusion(plan.steps, denoiser).start(SEED, Geometry(8, 8, 3)).expand(2, -1, -1, -1)
    )
    (_, t), *_ = states(codec, coded, steps=2)
    assert t == TIMESTEPS[2]
    with refused("steps"):
        list(states(codec, coded, steps=4))


def test_denoising_gives_pictures(denoiser: Denoiser) -> None:
    plan = make_plan(SHARP, denoiser.schedule)
    codec, coded = Codec(denoiser, plan), Codec(denoiser, plan).encode(list(pictures(2)), seed=SEED)
    fast = codec.decode(coded)
    assert fast[0].dtype == np.uint8
    # Public noise: the same file gives the same picture.
    np.testing.assert_array_equal(np.stack(codec.decode(coded)), np.stack(fast))


@pytest.mark.parametrize("coding", [PAPER, SHARP], ids=lambda m: m.name)
def test_the_certificate_is_that_of_the_plan(coding: Coding, denoiser: Denoiser) -> None:
    """The encoder's record, the plan and a reader of the file give the same certificate."""
    plan = make_plan(coding, denoiser.schedule)
    coded = Codec(denoiser, plan).encode(list(pictures(1)))
    assert coded.certificate == Certificate.of(plan, of_pixels(64))
    opened = archive.Archive.from_bytes(coded.to_bytes())
    assert opened.certificate == coded.certificate
    selector = Selector(plan, SEED, pictures(1).reshape(1, -1), "cpu")
    Chain(plan, denoiser, SEED, Geometry(8, 8, 3)).run([0], selector)
    assert selector.recorder.ledger(plan, 1) == opened.certificate.ledger


def test_an_encoder_that_does_not_record_its_draws_writes_no_file(
    denoiser: Denoiser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file is written if the encoder records nothing, or leaves out one step of a batch."""
    codec, real = Codec(denoiser, make_plan(SHARP, denoiser.schedule)), Recorder.observe

    def forgetful(self: Recorder, step: int, *rest: Any) -> None:
        if step != 1:
            real(self, step, *rest)

    for observe in (lambda *_: None, forgetful):
        monkeypatch.setattr(Recorder, "observe", observe)
        with refused("ledger", "down"):
            codec.encode(list(pictures(1)))


def test_a_mask_other_than_the_planned_one_is_found(denoiser: Denoiser, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mask that touches the same pixels in all six steps, not in three, writes no file."""
    sparse = Coding(Sign(6), Flat())
    steps = make_plan(SHARP, denoiser.schedule).steps
    codec = Codec(denoiser, Plan(sparse, steps))
    codec.encode(list(pictures(1)))
    same = Sign(6).mask.touched(SEED, 0, of_pixels(64))
    monkeypatch.setattr(TurnMask, "touched", lambda *_: same)
    with refused("ledger", "design"):
        codec.encode(list(pictures(1)))


def test_a_deal_that_was_not_asked_to_keep_channels_apart(denoiser: Denoiser) -> None:
    """Channels that are kept apart by chance are not certified as apart: the ledger follows the plan."""
    steps = tuple(dataclasses.replace(step, chunk_size=1) for step in make_plan(PAPER, denoiser.schedule).steps)
    coded = Codec(denoiser, Plan(PAPER, steps, separate=False)).encode(list(pictures(1, 1, 1)))
    assert not any(selection.apart for selection in coded.certificate.ledger.selections)


def test_diffc_states_no_certificate(denoiser: Denoiser) -> None:
    with refused("gaussian channel, PFR code", kind=NoCertificateError):
        Codec(denoiser, make_plan(DIFFC, denoiser.schedule)).encode(list(pictures(1))).certificate  # noqa: B018


def test_each_encoding_has_a_fresh_seed_and_fresh_indices(denoiser: Denoiser) -> None:
    codec, image = Codec(denoiser, make_plan(SHARP, denoiser.schedule)), list(pictures(1))
    assert codec.encode(image).parameters.seed != codec.encode(image).parameters.seed
    indices = {tuple(codec.encode(image, seed=SEED).image_indices(0)) for _ in range(5)}
    assert len(indices) > 1, "with a fixed public seed the private randomness must still decide"


def test_the_seed_is_drawn_before_the_images_are_read(denoiser: Denoiser, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def seed() -> bytes:
        order.append("seed")
        return SEED

    monkeypatch.setattr(randomness, "fresh_seed", seed)

    def images() -> Iterator[Any]:
        order.append("image")
        yield pictures(1)[0]

    Codec(denoiser, make_plan(SHARP, denoiser.schedule)).encode(images())
    assert order == ["seed", "image"]


@pytest.mark.parametrize("plan", [SHARP, THRIFTY, DIFFC, "sensing"], ids=str)
def test_an_archive_says_truthfully_who_chose_its_seed(plan: Any, denoiser: Denoiser) -> None:
    """Archives of every coding say whether the seed was given or drawn."""
    codec = Codec(denoiser, sensing_plan() if plan == "sensing" else make_plan(plan, denoiser.schedule))
    drawn = codec.encode(pictures(1))
    fixed, ahead = (codec.encode(pictures(1), seed=SEED, given=given) for given in (True, False))
    assert codec.encode(pictures(1), seed=SEED).parameters == fixed.parameters
    assert [made.parameters.seed_given for made in (drawn, fixed, ahead)] == [False, True, False]
    assert [made.facts()["seed_given"] for made in (drawn, fixed)] == [False, True]
    for made in (drawn, fixed, ahead):
        opened = archive.Archive.from_bytes(made.to_bytes())
        assert opened.parameters == made.parameters
        assert len(codec.decode(opened)) == 1


def test_another_model_is_refused_by_name(denoiser: Denoiser) -> None:
    plan = make_plan(SHARP, denoiser.schedule)
    coded = archive.Archive.build(released(plan, "cd" * 32), [], [])
    with refused("model") as error:
        Codec(denoiser, plan).decode(coded)
    assert "cd" * 32 in str(error.value)
    assert denoiser.identity in str(error.value)


def test_one_call_gives_the_expected_picture(denoiser: Denoiser) -> None:
    codec = Codec(denoiser, make_plan(SHARP, denoiser.schedule))
    coded = codec.encode(pictures(2), seed=SEED)
    ((state, t),) = states(codec, coded)
    expected = to_pixels(denoiser.x0(state, t))
    for decoded in (codec.decode(coded), codec.decode(coded, Decoding(calls=1))):
        np.testing.assert_array_equal(np.stack(decoded), expected)
    with refused("calls"):
        codec.decode(coded, Decoding(calls=0))


def test_rows_of_large_states_become_pixels_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row keeps its position, and the channels of grey pictures come out equal."""
    state, grey = torch.randn(2, 3, 7, 5), np.array([False, True])
    state[0, 0, 6, 4] = torch.nan
    whole = to_pixels(state, grey)
    monkeypatch.setattr("dipp.codec.pixels.LEVELS_AT_ONCE", 60)
    np.testing.assert_array_equal(to_pixels(state, grey), whole)
    assert whole.shape == (2, 7, 5, 3)
    assert whole[0, 6, 4, 0] == 128
    assert (whole[1] == whole[1, ..., :1]).all()


def test_more_calls_sample(denoiser: Denoiser) -> None:
    """`calls` is the number of calls of the fast sampler, whose picture is not the expected one."""
    codec = Codec(denoiser, make_plan(SHARP, denoiser.schedule))
    coded = codec.encode(pictures(2), seed=SEED)
    ((state, t),) = states(codec, coded)
    drawn = np.stack(codec.decode(coded, Decoding(sample=True)))
    np.testing.assert_array_equal(
        drawn, to_pixels(samplers.fast(denoiser.x0, denoiser.schedule, state, t, SAMPLE_CALLS))
    )
    np.testing.assert_array_equal(drawn, np.stack(codec.decode(coded, Decoding(calls=SAMPLE_CALLS))))
    np.testing.assert_array_equal(
        np.stack(codec.decode(coded, Decoding(sample=True, calls=3))), codec.decode(coded, Decoding(calls=3))
    )
    assert (drawn != codec.decode(coded)).any()
    with refused("calls", "sample"):
        codec.decode(coded, Decoding(sample=True, calls=1))


@pytest.mark.parametrize("coding", [*CODINGS, Coding(Sign(7), Flat())], ids=repr)
@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (2, 3), (7, 9), (40, 30)])
def test_pictures_of_any_size_come_back(shape: tuple[int, int], coding: Coding, denoiser: Denoiser) -> None:
    """Encoder and decoder reach the same state, and the certificate does not depend on the size."""
    codec = Codec(denoiser, make_plan(coding, denoiser.schedule))
    images, whole = pictures(2, *shape), Geometry(*shape, 3)
    chain = Chain(codec.plan, denoiser, SEED, whole)
    state, chosen = chain.run(range(2), Selector(codec.plan, SEED, images.reshape(2, -1), "cpu"))
    rows = np.concatenate(chosen, axis=1)
    built = archive.Archive.build(released(codec.plan), [whole] * 2, rows)
    coded = archive.Archive.from_bytes(built.to_bytes())
    ((decoded, _),) = states(codec, coded)
    torch.testing.assert_close(decoded, state, atol=1e-5, rtol=0)
    assert [picture.shape for picture in codec.decode(coded)] == [whole.shape] * 2
    small = codec.encode(pictures(1), seed=SEED)
    if coding.certified:
        assert codec.encode(images).certificate.epsilon == coded.certificate.epsilon == small.certificate.epsilon


def test_steps_may_touch_no_pixel_of_a_batch(denoiser: Denoiser) -> None:
    """Most steps of sensing do not touch a picture of one pixel."""
    codec, ends = Codec(denoiser, sensing_plan(groups=4)), list[ChainEnd]()
    assert 0 in codec.plan.chunk_counts(Geometry(1, 1, 3))
    coded = codec.encode(pictures(2, 1, 1), seed=SEED, odometer=False, ends=ends.append)
    for shown in (EXPECTED, NOISY):
        np.testing.assert_array_equal(codec.decode(coded, shown), ends[0].pictures(shown))


def test_a_denoiser_of_one_channel_codes_luminance() -> None:
    """A denoiser of one channel takes the luminance of colour, and decodes to one channel."""
    grey = tiny_denoiser(channels=1)
    codec, colour = Codec(grey, make_plan(SHARP, grey.schedule)), Image.fromarray(pictures(1)[0])
    np.testing.assert_array_equal(as_picture(colour, 1).pixels[..., 0], np.asarray(colour.convert("L")))
    coded = codec.encode([colour])
    assert [picture.shape for picture in codec.decode(coded, Decoding(noisy=True))] == [(8, 8, 1)]


def test_a_huge_picture_is_not_decoded(denoiser: Denoiser) -> None:
    """A file of a hundred bytes that claims two thousand megapixels can be opened, and is not decoded."""
    step = dataclasses.replace(make_plan(SHARP, denoiser.schedule).steps[0], chunk_size=(1 << 32) - 1, index_bits=1)
    plan = Plan(SHARP, (step,))
    claim = archive.Archive.build(released(plan), [Geometry(46_000, 46_000, 3)], [[0]])
    assert len(claim.to_bytes()) < 128
    with refused("image", "46000×46000"):
        Codec(denoiser, plan).decode(claim, Decoding(max_work=1e6))


@pytest.mark.parametrize("factor", [0.5, 1.01])
def test_other_snr_gains_than_the_models_are_refused(factor: float, denoiser: Denoiser) -> None:
    """A smaller gain would state a smaller ε than that of the noise that the file seems to have."""
    plan = make_plan(SHARP, denoiser.schedule)
    gain = float(np.float32(plan.steps[1].snr_gain * factor))
    other = Plan(SHARP, (plan.steps[0], dataclasses.replace(plan.steps[1], snr_gain=gain), plan.steps[2]))
    counts = sum(other.chunk_counts(of_pixels(64)))
    claim = archive.Archive.build(released(other), [Geometry(8, 8, 3)], [[0] * counts])
    with refused("plan", "450", kind=InconsistentError):
        Codec(denoiser, plan).decode(claim)


@pytest.mark.parametrize(
    "image",
    [
        np.zeros((8, 8, 3), np.float32),
        np.zeros(8, np.uint8),
        np.zeros((0, 8, 3), np.uint8),
        np.zeros((8, 8, 2), np.uint8),
        np.zeros((8, 8, 4), np.uint8),
        {"image": np.zeros((8, 8, 3), np.uint8)},
        None,
        b"bytes",
    ],
)
def test_what_is_not_an_image_is_refused(image: Any, denoiser: Denoiser) -> None:
    with refused("image"):
        Codec(denoiser, make_plan(SHARP, denoiser.schedule)).encode([image])


def test_images_come_as_pil_arrays_and_tensors() -> None:
    array = pictures(1)[0]
    np.testing.assert_array_equal(as_picture(Image.fromarray(array), 3).pixels, array)
    np.testing.assert_array_equal(as_picture(torch.from_numpy(array).permute(2, 0, 1), 3).pixels, array)
    grey = array[:, :, 0]
    for one in (grey, grey[:, :, None], torch.from_numpy(grey)[None], Image.fromarray(grey)):
        np.testing.assert_array_equal(as_picture(one, 3).pixels, np.dstack([grey] * 3))
