"""Each kind of plug-in works once its class is written and registered in one place.

Each toy here is what the first of the two files would hold, and its registration the line in the second; with no more
than that it is used as those that ship are.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.codecs import SEED, make_plan, pictures, selected, states
from helpers.commands import Command
from helpers.datasets import pixels, save_model, tiny_codec
from helpers.geometry import of_pixels
from helpers.networks import linear_schedule, tiny_denoiser
from helpers.refusals import refused
from helpers.sensing import made_up_residuals
from helpers.toy_code import Nearest
from helpers.toy_unit import Band
from numpy.typing import NDArray
from PIL import Image

import dipp
from dipp import codes, models
from dipp.audit import likelihood
from dipp.audit.setting import chain_of
from dipp.codec.chain import Chain
from dipp.codec.codec import Codec
from dipp.codec.decoder import Decoder
from dipp.codec.decoding import NOISY
from dipp.codes import Flat, FlatCode
from dipp.codes.exponential import Exponential
from dipp.core import channels, chunking, masks, randomness, selection, unit_deals, units
from dipp.core.channels import Laplace, LocationChannel, Sign
from dipp.core.code import Code
from dipp.core.geometry import Geometry
from dipp.core.plan import Coding, Plan
from dipp.core.price import Cost, Reach
from dipp.core.steps import SensingStep
from dipp.data import formats
from dipp.data.choices import Choices
from dipp.data.engines import LocalEngine
from dipp.data.privatize import privatize
from dipp.data.sources import Columns, Labels, Source, SourcePicture, fingerprint, open_source
from dipp.errors import DippError
from dipp.models import hub
from dipp.models.denoiser import Denoiser, TimestepDenoiser
from dipp.models.diffusion import NoiseSchedule
from dipp.models.identity import identity
from dipp.models.unet import NETWORK_CONFIGS, SCHEDULER_CONFIGS
from dipp.planning import presets
from dipp.planning.planner import Sizes
from dipp.planning.presets import SteppedPreset
from dipp.planning.table import FILE_NAME, SLICES, ErrorTable, grid
from dipp.privacy.certificate import Certificate
from dipp.privacy.recorder import Recorder
from experiments.comparisons.unclipped import SHARP

Floats = NDArray[np.float64]

pytestmark = pytest.mark.usefixtures("one_thread")


# A channel.


@dataclass(frozen=True)
class Sech(LocationChannel):
    """Hyperbolic secant noise: density ½·sech(π·z/2), which has unit variance, L = π/2."""

    name, number = "sech", 7

    @property
    def slope(self) -> float:
        return math.pi / 2

    def quantile(self, probability: Floats) -> Floats:
        return np.asarray(np.log(np.tan(math.pi * probability / 2)) * 2 / math.pi, np.float64)

    def potential(self, z: Floats) -> Floats:
        half = np.abs(z) * self.slope
        return np.asarray(half + np.log1p(np.exp(-2 * half)) - math.log(2), np.float64)


def test_a_registered_channel_encodes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    denoiser, images = tiny_denoiser(), list(pictures(2))
    codec = Codec(denoiser, make_plan(Coding(Sech(), Flat()), denoiser.schedule))
    with refused("channel", "format"):
        codec.encode(images, seed=SEED)
    with monkeypatch.context() as registered:
        registered.setitem(channels.CHANNELS, Sech.number, Sech)
        archive = codec.encode(images, seed=SEED)
        archive.save(tmp_path / "two.dipp")
        opened = dipp.open(tmp_path / "two.dipp")
        assert opened.parameters == archive.parameters
        assert opened.parameters.plan.channel == Sech()
        # All three channels of a pixel in every step, each with the price of its integers.
        own = [opened.parameters.plan.arithmetic(step) for step in codec.plan.steps]
        losses = [3 * selection.epsilon(one.sensitivity, one.fraction_bits) for one in own]
        assert opened.certificate.epsilon == pytest.approx(math.fsum(losses), rel=1e-9)
        assert opened.facts()["coding"] == "sech channel, flat code"
        ((state, _),) = states(Codec(denoiser, opened.parameters.plan), opened)
        ((sent, _),) = states(codec, archive)
        torch.testing.assert_close(state, sent)
        assert [picture.shape for picture in codec.decode(opened)] == [(8, 8, 3)] * 2
    with refused(tmp_path / "two.dipp", "(channel 7)"):
        dipp.open(tmp_path / "two.dipp")


def test_a_channel_conveys_a_vector() -> None:
    """One-shot codes need no number of the channel, because its name is in the seal of the payload."""
    code = FlatCode(Sech(), snr=4.0, dims=8, candidates=1 << 10)
    x = np.linspace(-1, 1, 8)
    payload = code.encode(x, SEED)
    assert code.decode(payload, SEED).shape == (8,)
    with refused("payload", "code"):
        FlatCode(Laplace(), snr=4.0, dims=8, candidates=1 << 10).decode(payload, SEED)


# A code.


@dataclass(frozen=True)
class EagerCode(Exponential):
    """The flat code at α = 3/2: half as much ε again, for a smaller bias."""

    alpha: Fraction = Fraction(3, 2)
    name, number = "eager", 7


@dataclass(frozen=True)
class DearCode(EagerCode):
    """A code that says it costs ten times as much as it moves the scores."""

    name = "dear"

    def charge(self, moved: Reach, touched: int = 1, apart: bool = True) -> Cost:
        pure, rho = super().charge(moved, touched, apart)
        return Cost(10 * pure, 100 * rho)


def test_a_code_is_priced_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The certificate uses the price of the plan's own code, which its records name."""
    schedule = tiny_denoiser().schedule
    for kind in (EagerCode, DearCode):
        monkeypatch.setitem(codes.CODES, kind.name, kind)
    eager, dear = (
        Certificate.of(make_plan(Coding(SHARP.channel, kind()), schedule), of_pixels(64))
        for kind in (EagerCode, DearCode)
    )
    assert dear.epsilon == pytest.approx(10 * eager.epsilon)
    assert dear.rho == pytest.approx(100 * eager.rho)
    assert Certificate.from_json(dear.to_json()) == dear


class LopsidedMask(masks.FullMask):
    """A mask that no ledger can name: it has the period of another."""


def test_a_mask_that_a_ledger_cannot_name_has_no_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = make_plan(SHARP, tiny_denoiser().schedule)
    monkeypatch.setattr(Sign, "mask", property(lambda _: LopsidedMask()))
    with refused("mask"):
        Certificate.of(plan, of_pixels(65))


def test_a_registered_code_encodes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(codes.CODES, EagerCode.name, EagerCode)
    code: Code = codes.CODES["eager"]()
    denoiser, images = tiny_denoiser(), list(pictures(3))
    plain = Codec(denoiser, make_plan(SHARP, denoiser.schedule))
    codec = Codec(denoiser, make_plan(Coding(SHARP.channel, code), denoiser.schedule))
    recorder = Recorder()
    rows, end = selected(codec, images, range(3), SEED, recorder)
    assert rows.shape == (3, sum(codec.plan.chunk_counts(of_pixels(64))))
    # The certificate follows from the encoder's ledger, at 3/2 of the flat code's ε.
    found, flat = (Certificate.of(one.plan, of_pixels(64)) for one in (codec, plain))
    assert found.releases == (recorder.ledger(codec.plan, 3),)
    assert found.epsilon == pytest.approx(1.5 * flat.epsilon, rel=1e-3)
    parameters = codec.parameters(SEED)
    decoded = Decoder(denoiser).end(parameters, Geometry(8, 8, 3), rows, range(3), end.grey, NOISY)
    assert (decoded.pictures(NOISY) == end.pictures(NOISY)).all()
    layout = parameters.layout(of_pixels(64))
    assert (layout.rows(layout.payloads(rows)) == rows).all()
    codec.encode(images).save(tmp_path / "eager.dipp")
    opened = dipp.open(tmp_path / "eager.dipp")
    assert opened.parameters.plan == codec.plan
    assert opened.certificate == found
    monkeypatch.delitem(codes.CODES, EagerCode.name)
    with refused(tmp_path / "eager.dipp", "(code 7)"):
        dipp.open(tmp_path / "eager.dipp")


# A unit, and a code of constant price that observes a vector.


def band_plan(odds: int = 3) -> Plan:
    """Return a plan of two questions to each band of four rows, with four words each."""
    step = SensingStep(1.0, 0.5, 2.0**-4, 1, 2)
    return Plan(Coding(Sign(period=1), Nearest(Fraction(odds))), (step,) * 2, unit=Band(4))


@pytest.fixture
def bands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the toy unit and the toy code."""
    monkeypatch.setitem(units.UNITS, Band.number, Band)
    monkeypatch.setitem(codes.CODES, Nearest.name, Nearest)


@pytest.mark.usefixtures("bands")
def test_a_unit_and_a_code_of_constant_price(tmp_path: Path) -> None:
    denoiser, plan = tiny_denoiser(), band_plan()
    codec, images = Codec(denoiser, plan), [pictures(1)[0], pictures(1, 6, 12)[0], pictures(1, 4, 20)[0]]
    archive = codec.encode(images, seed=SEED)
    archive.save(tmp_path / "bands.dipp")
    opened = dipp.open(tmp_path / "bands.dipp")
    assert opened.parameters == archive.parameters
    assert opened.parameters.plan == plan
    assert [len(opened.image_indices(image)) for image in range(3)] == [4, 4, 2]  # an index for each band and step
    found = opened.certificate
    assert found == archive.certificate == Certificate.from_json(found.to_json())
    assert found.epsilon == pytest.approx(2 * math.log(3))
    assert found.rho == pytest.approx(2 * math.log(3) * 0.5)  # tanh(ln(3)/2) = 1/2
    # A window of 8 rows meets three bands at most, whose draws are separate: ρ adds up.
    assert found.for_object(1, 8) == found.for_units(3)
    assert found.for_units(3).rho == pytest.approx(3 * found.rho)
    one, other = np.zeros((8, 8, 3), np.uint8), np.zeros((8, 8, 3), np.uint8)
    other[5, 5, 1] = 1
    assert found.between(one, other) == pytest.approx(found.epsilon)  # one grey level costs a band
    assert opened.facts()["certificate"]["unit"] == {"kind": "band", "rows": 4}
    assert "one band of 4 rows" in found.statement()
    assert [picture.shape for picture in codec.decode(opened)] == [image.shape for image in images]
    ((state, _), *_), ((sent, _), *_) = states(codec, opened), states(codec, archive)
    torch.testing.assert_close(state, sent)


def test_what_is_not_registered_is_not_read(bands: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    del bands
    Codec(tiny_denoiser(), band_plan()).encode(pictures(1), seed=SEED).save(tmp_path / "bands.dipp")
    monkeypatch.delitem(units.UNITS, Band.number)
    with refused(f"{tmp_path / 'bands.dipp'}: unit", "200"):
        dipp.open(tmp_path / "bands.dipp")


@pytest.mark.usefixtures("bands")
def test_a_code_of_vectors_conveys_the_nearest_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """With private integers of 0, each band gets its nearest word, so a light band comes out lighter."""
    codec, image = Codec(tiny_denoiser(), band_plan()), np.zeros((8, 8, 3), np.uint8)
    image[4:] = 255
    monkeypatch.setattr(randomness, "private_bytes", bytes)
    archive = codec.encode([image], seed=SEED, odometer=False)
    assert archive.image_indices(0)[:2].tolist() == [0, 3]
    chain = Chain(codec.plan, codec.denoiser, SEED, Geometry(8, 8, 3))
    noise = chain.noise(chain.layout(0, [0]), archive.image_indices(0)[None, :2])[0].permute(1, 2, 0).reshape(2, -1)
    for band, word in zip(noise, (-0.75, 0.75), strict=True):
        torch.testing.assert_close(band, word + torch.linspace(-0.1, 0.1, 96))


@pytest.mark.usefixtures("bands")
def test_a_toy_code_is_audited_like_any_other() -> None:
    """By its exact law no loss exceeds the claim, and one reaches it; draws with known bytes are exact."""
    plan, geometry = band_plan(), Geometry(8, 8, 3)
    dark = np.zeros(geometry.coordinates, np.uint8)
    light = dark.copy()
    light[:96] = 255
    met = likelihood.compare(chain_of(plan, geometry, 0), (dark, light), follow=True)
    claimed = Certificate.of(plan, geometry)
    assert met.bound <= claimed.epsilon
    assert met.attained == pytest.approx(claimed.epsilon)
    assert (met.draws, met.wrong) == (4, 0)
    assert (met.divergences / likelihood.ORDERS).max() <= claimed.rho


@pytest.mark.usefixtures("bands")
def test_other_units_have_no_part_in_an_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same private bytes, a change of one band keeps the first index of every other band."""
    codec, generator = Codec(tiny_denoiser(), band_plan(30_000)), np.random.default_rng(0)
    image = generator.integers(0, 256, (16, 8, 3), np.uint8)
    monkeypatch.setattr(randomness, "private_bytes", lambda count: b"\x7f" * count)
    for band in range(4):
        other = image.copy()
        other[4 * band : 4 * band + 4] = 255
        found, _ = selected(codec, [image, other], (0, 0), SEED, Recorder())
        rows = found[:, :4]
        assert np.flatnonzero(rows[0] != rows[1]).tolist() == [band]


def test_a_deal_across_units_is_not_released(bands: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The encoder's ledger finds chunks with two units, and units in two chunks."""
    del bands
    codec = Codec(tiny_denoiser(), band_plan())
    shuffled = chunking.chunks(SEED, 0, Geometry(8, 8, 3), 6)
    monkeypatch.setattr(unit_deals.UnitDeal, "chunks", lambda *_: shuffled)
    with refused("touched", "step"):
        codec.encode(pictures(1), seed=SEED)


@pytest.mark.usefixtures("bands")
def test_units_and_codes_that_do_not_fit_are_refused() -> None:
    step = SensingStep(1.0, 0.5, 2.0**-4, 1, 2)
    with refused("unit", "band"):
        Plan(Coding(Sign(period=1), Flat()), (step,), unit=Band(4))
    with refused("period", "band"):
        Plan(Coding(Sign(period=3), Nearest()), (step,), unit=Band(4))
    content = Certificate.of(band_plan(), Geometry(8, 8, 3)).to_dict()
    content["releases"][0]["unit"] = {"kind": "pixel"}
    with pytest.raises(DippError):
        Certificate.from_json(json.dumps(content))


# A preset.


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save a tiny denoiser with a made-up cost table, because no test depends on how well a plan suits it."""
    folder = save_model(tmp_path_factory.mktemp("model"))
    save_table_of(models.load(folder), folder)
    return folder


def save_table_of(denoiser: Denoiser, folder: Path) -> None:
    timesteps = grid(denoiser.schedule)
    snrs = np.array([denoiser.schedule.snr(t) for t in timesteps])
    sizes = np.linspace(0.1, 1.9, SLICES)
    quantiles = np.sqrt(0.2 / (1 + snrs))[:, None] * sizes
    facts = {"model": denoiser.identity}
    ErrorTable(np.array(timesteps), snrs, quantiles, {}, made_up_residuals(), facts).save(folder / FILE_NAME)


TOY = SteppedPreset("toy", "Laplace, flat code.", Coding(Laplace(), Flat()), Sizes(10, 3.0), chains="toy")


def test_a_registered_preset_plans(monkeypatch: pytest.MonkeyPatch, model: Path, tmp_path: Path, run: Command) -> None:
    with refused("preset", "sharp"):
        Codec.from_pretrained(model, epsilon=8, preset="toy")
    monkeypatch.setitem(presets.PRESETS, TOY.name, TOY)
    codec = Codec.from_pretrained(model, epsilon=8, preset="toy")
    assert codec.plan.coding == TOY.coding
    archive = codec.encode(pictures(1))
    assert 4 < archive.certificate.epsilon <= 8
    Image.fromarray(pictures(1)[0]).save(tmp_path / "a.png")
    options = ("--model", model, "--preset", "toy", "--epsilon", 8)
    code, _, err = run("encode", tmp_path / "a.png", "-o", tmp_path / "a.dipp", *options)
    assert code == 0, err
    assert dipp.open(tmp_path / "a.dipp").parameters.plan == codec.plan
    code, out, err = run("plan", *options)
    assert code == 0, err
    assert TOY.coding.name in out


# A denoiser.


class Shrinking(TimestepDenoiser):
    """No network: x̂0 = E[x0 | x_t] for independent pixels of the variance that the config names."""

    def __init__(self, config: dict[str, Any], schedule: NoiseSchedule, name: str, device: torch.device) -> None:
        self.variance, side = config["variance"], config["sample_size"]
        self.schedule, self.identity, self.device = schedule, name, device
        self.channels, self.sample_size = 3, (side, side)

    def x0(self, x_t: torch.Tensor, t: int, *, fast: bool = False) -> torch.Tensor:  # noqa: ARG002
        gamma, sigma = self.schedule.gamma(t), self.schedule.sigma(t)
        weight: float = gamma * self.variance / (gamma**2 * self.variance + sigma**2)
        return (weight * x_t).clamp(-1, 1)


def load_shrinking(name: str, folder: Path, config: dict[str, Any], _: Path, device: torch.device) -> Shrinking:
    scheduler = hub.read_json(name, folder / hub.find(name, folder, SCHEDULER_CONFIGS))
    return Shrinking(config, NoiseSchedule.from_config(scheduler), identity(config, scheduler, {}), device)


@pytest.fixture
def shrinking(tmp_path: Path) -> Path:
    """Save a folder whose config names the toy denoiser."""
    folder = tmp_path / "shrinking"
    scheduler = {"beta_schedule": "linear", "beta_start": 1e-4, "beta_end": 0.02, "num_train_timesteps": 1000}
    config = {"_class_name": "Shrinking", "sample_size": 8, "variance": 0.25}
    for name, content in ((NETWORK_CONFIGS[0], config), (SCHEDULER_CONFIGS[0], scheduler)):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(json.dumps(content))
    return folder


def test_a_registered_denoiser_is_loaded(monkeypatch: pytest.MonkeyPatch, shrinking: Path, tmp_path: Path) -> None:
    with refused("model", "Shrinking"):
        models.load(shrinking)
    monkeypatch.setitem(models.ARCHITECTURES, "Shrinking", load_shrinking)
    denoiser = models.load(shrinking)
    assert isinstance(denoiser, Shrinking)
    assert denoiser.schedule.snr(500) == linear_schedule().snr(500)
    save_table_of(denoiser, shrinking)
    codec = Codec.from_pretrained(shrinking, epsilon=16)
    assert codec.denoiser.identity == denoiser.identity
    black, white = np.zeros((8, 8, 3), np.uint8), np.full((9, 12, 3), 255, np.uint8)
    codec.encode([black, white]).save(tmp_path / "two.dipp")
    opened = dipp.open(tmp_path / "two.dipp")
    assert opened.parameters.model == denoiser.identity
    assert 12 < opened.certificate.epsilon <= 16
    dark, light = Codec.for_parameters(opened.parameters, shrinking).decode(opened)
    assert (dark.shape, light.shape) == (black.shape, white.shape)
    # 68.4 in each of 60 runs, because tilts of 8 nats hardly ever err; without any information, 0 ± 3.
    assert light.mean() - dark.mean() > 34
    other = json.loads((shrinking / NETWORK_CONFIGS[0]).read_text())
    (shrinking / NETWORK_CONFIGS[0]).write_text(json.dumps({**other, "variance": 0.5}))
    with refused("model", opened.parameters.model):
        Codec.for_parameters(opened.parameters, shrinking)


# A format of datasets.


@dataclass(frozen=True)
class Strips(Source):
    """Pictures of 8×8 one below the other in a single PNG, with nothing between them."""

    path: Path
    count: int
    fingerprint: str
    labels: Labels | None = None

    def __len__(self) -> int:
        return self.count

    def read(self, start: int, stop: int) -> Iterator[SourcePicture]:
        with Image.open(self.path) as image:
            strip = np.asarray(image)
        for position in range(start, stop):
            yield SourcePicture(position, np.ascontiguousarray(strip[8 * position : 8 * position + 8]))

    def name(self, position: int) -> str:
        return f"{self.path.name} from row {8 * position}"


def strip_file(place: str, _: Columns, scratch: Path) -> Strips | None:  # noqa: ARG001
    path = Path(place)
    if path.suffix != ".strip":
        return None
    with Image.open(path) as image:
        return Strips(path.resolve(), image.height // 8, fingerprint([path]))


def test_a_registered_format_of_datasets_is_read(monkeypatch: pytest.MonkeyPatch, model: Path, tmp_path: Path) -> None:
    place = tmp_path / "private.strip"
    Image.fromarray(pixels(12).reshape(-1, 8, 3)).save(place, format="PNG")
    with refused("src", "private.strip"):
        open_source(str(place), Columns(), tmp_path)
    monkeypatch.setattr(formats, "RECOGNISERS", (strip_file, *formats.RECOGNISERS))
    source = open_source(str(place), Columns(), tmp_path)
    assert isinstance(source, Strips)
    records = list(source.read(0, len(source)))
    assert all((record.content == picture).all() for record, picture in zip(records, pixels(12), strict=True))
    summary = privatize(
        str(place), tmp_path / "out", tiny_codec(model), str(model), LocalEngine(1), Choices(shard_size=5)
    )
    assert summary.facts["images"] == 12
    assert summary.facts["labels"] is None
    loaded = dipp.load(tmp_path / "out", model)
    assert len(loaded) == 12
    assert loaded[11].shape == (3, 8, 8)
    # The other formats are recognised as before.
    assert len(open_source(str(tmp_path / "out"), Columns(image="payload", labelled=False), tmp_path)) == 12


def test_every_registered_thing_is_under_its_own_name() -> None:
    """Each class is registered under its own name and number, which no other class has."""
    assert all(number == kind.number and number < 16 for number, kind in channels.CHANNELS.items())
    assert len({kind.name for kind in channels.CHANNELS.values()}) == len(channels.CHANNELS)
    assert all(name == kind.name for name, kind in codes.CODES.items())
    assert all(name == preset.name for name, preset in presets.PRESETS.items())
    for coding in (one for preset in presets.PRESETS.values() for one in preset.codings):
        assert type(coding.channel) is channels.CHANNELS[coding.channel.number]
        assert type(coding.code) is codes.CODES[coding.code.name]
        assert dataclasses.is_dataclass(coding.code)
