"""Latent models from end to end: tables, plans, files and pictures. Units smaller than a picture are refused."""

from __future__ import annotations

import dataclasses
import itertools
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.commands import Command
from helpers.latent import SCHEDULERS, save
from helpers.questions import CODING, question, questions_plan
from helpers.refusals import refused
from PIL import Image

import dipp
from dipp import models
from dipp.codec.codec import Codec
from dipp.codec.decoding import NOISY, Decoding
from dipp.core.latents import Latents
from dipp.core.plan import Plan
from dipp.core.steps import Step
from dipp.core.units import Cells, Picture
from dipp.data.choices import Choices
from dipp.data.privatize import encoding
from dipp.errors import DippError, InconsistentError
from dipp.format.archive import Archive
from dipp.format.header import Header, checksum
from dipp.format.parameters import PublicParameters
from dipp.models import latent
from dipp.models.books import NAME, Books
from dipp.models.latent import LatentDenoiser
from dipp.planning.presets import DIFFC
from dipp.planning.questions import Row
from dipp.redaction import answers, paint
from dipp.training import latents
from experiments.people.likelihood import log_likelihoods

pytestmark = pytest.mark.usefixtures("one_thread")
SIZES = ((13, 11), (13, 11), (16, 16), (1, 3))
LEVELS_APART = 16
"""Grey levels of 255 by which pictures of two devices may differ: of bf16, in a VAE of random weights."""
ASKED = questions_plan(Picture(), question(bits=5, best=2, scale=0.125), question(2, bits=4, scale=0.0625))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save a latent model without a text encoder, with the public table of its questions."""
    place = save(tmp_path_factory.mktemp("latent"), "plain")
    Books.write(place, {}, [])
    return place


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Save a latent model of every kind, each with the public table of its questions."""
    places = {kind: save(tmp_path_factory.mktemp("latent"), kind) for kind in SCHEDULERS}
    for place_ in places.values():
        Books.write(place_, {}, [])
    return places


@pytest.fixture(scope="module")
def denoiser(folder: Path) -> LatentDenoiser:
    found = models.load(folder)
    assert isinstance(found, LatentDenoiser)
    return found


def pictures() -> list[np.ndarray[Any, Any]]:
    generator = np.random.default_rng(2)
    return [generator.integers(0, 256, (*size, 3), np.uint8) for size in SIZES]


def plan(denoiser: LatentDenoiser, name: str) -> Plan:
    if name == "questions":
        return ASKED
    steps = []
    for start, end in itertools.pairwise((len(denoiser.schedule) - 1, 25, 15)):
        gain = denoiser.schedule.snr(end) - denoiser.schedule.snr(start)
        gain = float(np.nextafter(np.float32(gain), np.float32(0)))
        steps.append(Step(start, end, gain, chunk_size=30, index_bits=6, exponent_units=80))
    return Plan(DIFFC, tuple(steps))


def codec_of(denoiser: LatentDenoiser, name: str) -> Codec:
    assert denoiser.books is not None
    table = denoiser.books.digest if name == "questions" else None
    return Codec(denoiser, plan(denoiser, name), table=table)


@pytest.mark.parametrize("name", ["questions", "diffc"])
def test_a_file_decodes_to_what_its_encoder_reached(denoiser: LatentDenoiser, name: str) -> None:
    codec, reached = codec_of(denoiser, name), list[Any]()
    archive = codec.encode(pictures(), odometer=False, ends=reached.append)
    again = Archive.from_bytes(archive.to_bytes())
    assert again.parameters.latents == Latents(2, 4, 2)
    assert [tuple(run) for run in again.runs.tolist()] == [(2, 13, 11), (1, 16, 16), (1, 1, 3)]
    here = [picture for end in reached for picture in end.pictures()]
    for own, read, size in zip(here, codec.decode(again), SIZES, strict=True):
        assert read.shape == (*size, 3)
        np.testing.assert_array_equal(own, read)
    assert len(codec.decode(again, NOISY)) == len(codec.decode(again, Decoding(sample=True, calls=2))) == len(SIZES)
    if name == "questions":
        certificate = again.certificate
        assert certificate.epsilon == pytest.approx(4 * 2.0 + 2.0, rel=1e-3)
        assert certificate.ledger.unit == Picture()
    else:
        assert again.facts()["certificate"] is None


def test_no_picture_explains_a_file_better_than_its_certificate_allows(denoiser: LatentDenoiser) -> None:
    """The best attacker encodes the candidates by the VAE, as the encoder did."""
    black, noise = np.zeros((16, 16, 3), np.uint8), pictures()[2]
    archive = codec_of(denoiser, "questions").encode(noise, odometer=False)
    ((of_black, of_noise),) = log_likelihoods(archive, denoiser, np.stack([black, noise]))
    assert archive.certificate.epsilon == pytest.approx(10, rel=1e-3)
    assert abs(of_noise - of_black) <= archive.certificate.epsilon
    assert max(of_noise, of_black) < 0


ON_A_GPU = pytest.mark.gpu
WAYS = [
    pytest.param("cpu", "cpu"),
    pytest.param("cpu", "cuda", marks=ON_A_GPU),
    pytest.param("cuda", "cpu", marks=ON_A_GPU),
    pytest.param("cuda", "cuda", marks=ON_A_GPU),
]


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")  # PyTorch, of FLUX in bf16
@pytest.mark.parametrize(("sender", "receiver"), WAYS)
@pytest.mark.parametrize("name", ["questions", "diffc"])
@pytest.mark.parametrize("kind", SCHEDULERS)
def test_every_kind_of_model_encodes_and_decodes_files(
    folders: dict[str, Path], kind: str, name: str, sender: str, receiver: str
) -> None:
    """A receiver sees what the sender decoded: to the bit on the same device, and elsewhere within bf16 and TF32."""
    there, here = (models.load(folders[kind], device) for device in (sender, receiver))
    assert isinstance(there, LatentDenoiser)
    assert isinstance(here, LatentDenoiser)
    reached = list[Any]()
    archive = codec_of(there, name).encode(pictures(), odometer=False, ends=reached.append)
    own = [picture for end in reached for picture in end.pictures()]
    read = codec_of(here, name).decode(Archive.from_bytes(archive.to_bytes()))
    for mine, theirs, size in zip(own, read, SIZES, strict=True):
        assert theirs.shape == (*size, 3)
        apart = np.abs(mine.astype(int) - theirs)
        assert apart.max() <= (0 if sender == receiver else LEVELS_APART)


def test_text_encoders_are_run_before_pictures_are_charged(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch, odometer: Path
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    denoiser = models.load(folders["sd1"])
    assert isinstance(denoiser, LatentDenoiser)
    codec = codec_of(denoiser, "diffc")
    for release in (lambda: codec.encode(pictures()), lambda: encoding(codec, str(folders["sd1"]), Choices())):
        with refused("model", "which need transformers"):
            release()
    assert not odometer.exists()


def test_a_picture_too_large_with_its_padding_is_refused_before_it_is_charged(
    denoiser: LatentDenoiser, monkeypatch: pytest.MonkeyPatch, odometer: Path
) -> None:
    codec = codec_of(denoiser, "questions")
    monkeypatch.setattr(latent, "MAX_PICTURE", 4 * 40)
    assert codec.encode(np.zeros((1, 40, 3), np.uint8), odometer=False).geometry(0).width == 40
    with refused("image", "1×41", "4×44"):
        codec.encode([np.zeros((1, 41, 3), np.uint8)])
    assert not odometer.exists()


def test_grey_pictures_come_back_grey_and_alpha_is_dropped(denoiser: LatentDenoiser) -> None:
    generator = np.random.default_rng(5)
    grey = Image.fromarray(generator.integers(0, 256, (9, 7), np.uint8))
    colour = Image.fromarray(generator.integers(0, 256, (9, 7, 4), np.uint8), "RGBA")
    codec = codec_of(denoiser, "questions")
    archive = codec.encode([grey, colour], odometer=False)
    assert archive.grey.tolist() == [True, False]
    first, second = codec.decode(archive)
    assert first.shape == second.shape == (9, 7, 3)
    assert (first[..., 0] == first[..., 2]).all()


@pytest.mark.parametrize("unit", [Cells(8), None])
def test_nothing_smaller_than_a_picture_is_certified(denoiser: LatentDenoiser, unit: Any) -> None:
    """Neither a codec nor a file may certify a smaller unit."""
    smaller = questions_plan(Cells(8), *ASKED.steps) if unit else Plan(CODING, ASKED.steps, unit=Cells(16))
    with refused("unit", "whose VAE mixes all pixels"):
        Codec(denoiser, smaller, table="00" * 32)
    release = codec_of(denoiser, "questions").parameters(bytes(16))
    with refused("unit", "whose VAE mixes all pixels"):
        dataclasses.replace(release, plan=smaller)
    honest = dataclasses.replace(release, plan=smaller, latents=None)
    content = Header(honest, np.zeros((0, 3), np.int64), honest.claim(None)).to_bytes()
    field = content.index(bytes.fromhex(honest.table or "")) + 32
    count = content.index(bytes([1, 4, 32]))
    forged = bytearray(content[:field] + bytes([7, 3, 2, 4, 2]) + content[field:])
    forged[count] += 1
    with refused("unit", "whose VAE mixes all pixels"):
        Archive.from_bytes(bytes(forged) + checksum(bytes(forged)))


def test_latent_models_neither_paint_nor_ask_regions(folder: Path) -> None:
    """Neither regions nor cells are certified through a VAE, and latents are no colours, whatever their channels."""
    with refused("model", "must be a denoiser of pixels"):
        paint.fill(paint.PAINT, str(folder), "cpu")
    with refused("model", "must have words of 3 channels"):
        answers.denoiser_of(paint.grey, str(folder), "cpu")


def test_a_file_must_say_the_latents_and_the_prompt_of_its_model(denoiser: LatentDenoiser) -> None:
    codec = codec_of(denoiser, "questions")
    archive = codec.encode(pictures()[:1], odometer=False)
    changes: list[tuple[dict[str, Any], type[DippError]]] = [
        ({"latents": Latents(2, 3, 2)}, InconsistentError),
        ({"prompt": "a cat"}, DippError),
    ]
    for change, error in changes:
        parameters: PublicParameters = dataclasses.replace(archive.parameters, **change)
        other = Archive.build(parameters, [archive.geometry(0)], [archive.image_indices(0)])
        assert Archive.from_bytes(other.to_bytes()).parameters == parameters
        with refused(next(iter(change)), kind=error):
            codec.decode(other)
    with refused("prompt", "belongs to latent models alone"):
        dataclasses.replace(archive.parameters, latents=None, prompt="a cat")


def test_commands_certify_a_picture_of_a_latent_model(
    tmp_path: Path, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands lead from a pipeline and public pictures to a certified file with a prompt, and back, by JSON."""
    model = save(tmp_path / "model", "sd1")
    public, private = tmp_path / "public.npy", tmp_path / "private.png"
    np.save(public, np.random.default_rng(0).integers(0, 256, (3, 16, 16, 3), np.uint8))
    Image.fromarray(pictures()[0]).save(private)
    monkeypatch.setattr(latents, "EPSILONS", (8.0,))
    monkeypatch.setattr(latents, "SHAPES", ((1,), (1, 1)))
    assert run("calibrate", model, public, "--device", "cpu")[0] == 0
    assert run("words", model, public, "--tried", "3", "--device", "cpu")[0] == 0
    assert (model / NAME).is_file()
    options = ("--model", model, "--device", "cpu", "--prompt", "a cat", "--no-odometer")
    file = tmp_path / "a.dipp"
    code, out, err = run("encode", private, "-o", file, "--unit", "picture", "--epsilon", "8", *options)
    assert code == 0, err
    assert "prompt       'a cat'" in out
    facts = json.loads(run("info", file, "--json")[1])
    assert facts["certificate"]["unit"]["kind"] == "picture"
    assert facts["certificate"]["epsilon"] <= 8
    assert (facts["latents"], facts["prompt"]) == ({"factor": 2, "channels": 4, "patch": 1}, "a cat")
    code, out, err = run("info", file, "--verify", "--model", model)
    assert code == 0, out + err
    assert run("decode", file, "-o", tmp_path / "a.png", "--model", model, "--device", "cpu")[0] == 0
    with Image.open(tmp_path / "a.png") as image:
        assert image.size == (11, 13)
    assert dipp.open(file).decode(model, device="cpu", progress=False)[0].shape == (13, 11, 3)
    code, _, err = run("encode", private, "-o", tmp_path / "b.dipp", "--epsilon", "1", *options)
    assert code == 1
    assert "got pixel; pass --unit picture" in err
    code, _, err = run("encode", private, "-o", tmp_path / "b.dipp", "--hide", "4x4", "--epsilon", "1", *options)
    assert code == 1
    assert "pass --unit picture" in err
    code, out, _ = run("plan", "--unit", "picture", "--epsilon", "8", "--model", model)
    assert code == 0
    assert "dB of the latents" in out
    # With fewer informative draws, the expected PSNR does not fall below that of the latents' own deviation.
    rows = [Row.from_dict(row) for row in (Books.read(model) or pytest.fail("no words")).table]
    assert all(row.floor > 20 and row.expected(0.5) >= min(row.floor, row.psnr) - 1e-6 for row in rows)
