"""Traps: ways to void a certificate, built in on purpose. A guard refuses each, or a check fails.

`docs/threat-model.md` lists them by number. Traps that change a release are in `test_audit` (controls) and `test_taint`
(leaks). The other traps are here, with the check that would catch them if a first guard were missing.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from helpers.codecs import SEED, make_codec, pictures_of_two_sizes, states
from helpers.commands import Command
from helpers.geometry import of_pixels
from helpers.paths import DOCS, ROOT
from helpers.refusals import refused
from helpers.syntax import imports, names
from PIL import Image, PngImagePlugin

from dipp import scoring
from dipp.audit import blackbox, neighbours, setting
from dipp.cli.options import EXIT_NOT_COMPARED
from dipp.codec.archive import Archive
from dipp.codec.chain import Chain
from dipp.codec.codec import Codec
from dipp.codec.encoder import Selector
from dipp.codec.pictures import as_picture
from dipp.codes import Functional, StepLimited
from dipp.core import randomness, selection
from dipp.core.arithmetic import Arithmetic
from dipp.core.channels import Gaussian, Laplace
from dipp.core.geometry import Geometry
from dipp.core.plan import Coding
from dipp.core.price import StepRecord
from dipp.core.signal import SIGNAL_OF_PIXEL
from dipp.core.units import Pixel
from dipp.errors import NoCertificateError
from dipp.models.diffusion import NoiseSchedule, Transition
from dipp.models.unet import UNetDenoiser
from dipp.odometer import Odometer
from dipp.planning.presets import DIFFC
from dipp.privacy.certificate import Certificate
from dipp.privacy.limits import ASSUMPTIONS, not_covered
from dipp.privacy.recorder import Recorder
from dipp.scoring.task import ScoringTask
from experiments.comparisons.unclipped import SHARP

PACKAGE = ROOT / "src" / "dipp"
SELECTION = PACKAGE / "core" / "selection.py"

pytestmark = pytest.mark.usefixtures("one_thread")


# 1. Private randomness that is not private.


def test_1_a_private_source_that_repeats_itself_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The source of the real encoder returns the same 16 bytes for every draw, as if a seed were used again."""
    plan, shape = setting.single_step(setting.AuditSubject(SHARP), 2.0)
    chain = setting.chain_of(plan, shape, 0)
    pair = neighbours.adversarial_pair(chain, np.random.default_rng(0), -3.0)
    honest = blackbox.audit(blackbox.encoder, chain, pair, 4000).epsilon
    assert honest <= 2.0
    repeated = hashlib.sha256(SEED).digest()[:16]
    # The top bits are cleared, so that no draw is rejected for ever.
    low = bytes(8) + repeated[:7] + bytes(1)
    monkeypatch.setattr(randomness, "private_bytes", lambda count: (low * count)[:count])
    broken = [
        blackbox.audit(blackbox.encoder, setting.chain_of(plan, shape, number), pair, 4000).epsilon
        for number in range(8)
    ]
    assert max(broken) > 2.0


GENERATORS = re.compile(
    r"(random|secrets|uuid|curand)($|\.)"
    r"|(numpy|cupy)\.random|os\.(urandom|getrandom)|(torch|triton\.language)\.rand"
    r"|torch\.(\w+\.)*(normal|multinomial|bernoulli|poisson|dropout|Generator|manual_seed|seed|distributions)($|\.)"
    r"|.*\.(normal|log_normal|random|uniform|exponential|bernoulli|cauchy|geometric)_$"
)
"""Names of what draws random numbers."""


def sources(code: str) -> set[str]:
    """Return the random generators that a module imports or uses."""
    return {name for name in names(code, "dipp") if GENERATORS.match(name)}


OWN = re.compile(r"dipp\.(core\.)?randomness\.")
"""Our own randomness, and the path that it had."""


def own(code: str, package: str = "dipp.core") -> set[str]:
    """Return the names that a module uses of `dipp.core.randomness`; "" stands for the module as a whole."""
    used = {OWN.sub("", name) for name in names(code, package) if OWN.match(name)}
    tree = ast.parse(code)
    attributes = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    handed_on = any(
        isinstance(node, ast.Name) and node.id == "randomness" and id(node) not in attributes for node in ast.walk(tree)
    )
    renamed = any(
        isinstance(node, ast.ImportFrom | ast.Import)
        and any(one.asname and one.name.split(".")[-1] == "randomness" for one in node.names)
        for node in ast.walk(tree)
    )
    return used | ({""} if handed_on or renamed else set())


PRIVATE = {"private_bytes", "private_uniforms", "fresh_seed", "os", "*", ""}
"""What of `dipp.core.randomness` is private, or leads to it."""


def test_1_there_is_one_source_of_private_randomness() -> None:
    """No other module of the codec draws; a temporary file gets a random name.

    Audits invent their test images, and training and surveys take public pictures, so none of them encodes anything
    private.
    """
    found = {
        str(path.relative_to(PACKAGE)): sources(path.read_text())
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).parts[0] not in ("audit", "training", "risk")
    }
    file_names = {"secrets", "secrets.token_hex"}
    assert {path: names for path, names in found.items() if names} == {
        "core/randomness.py": {"os.urandom"},
        "files.py": file_names,
        "data/rows.py": file_names,
        "data/store.py": file_names,
    }


def test_1_the_selection_draws_from_the_private_source_alone() -> None:
    """Its module uses neither the public stream, nor a hash, nor another module to draw from."""
    code = SELECTION.read_text()
    assert own(code) == {"private_bytes"}
    imported = {name.split(".")[0] if not name.startswith("dipp") else name for name in imports(code, "dipp.core")}
    assert imported == {"__future__", "functools", "math", "numpy", "dipp.core.randomness", "dipp.errors.DippError"}


def test_1_scores_are_made_without_private_randomness() -> None:
    folder = PACKAGE / "scoring"
    used = {path.name: own(path.read_text(), "dipp.scoring") for path in folder.glob("*.py")}
    assert {"cpu.py", "gpu.py", "reference.py"} <= used.keys()
    assert not {name: found & PRIVATE for name, found in used.items() if found & PRIVATE}
    assert used["reference.py"] == {"Draws", "Stream", "draws"}
    assert all("rand(" not in path.read_text() for path in folder.glob("*.cu"))


@pytest.mark.parametrize(
    "code",
    [
        "import random",
        "from random import choice",
        "import secrets",
        "x = numpy.random.default_rng(seed)",
        "import numpy as np\nx = np.random.default_rng(seed)",
        "from numpy import random",
        "from numpy.random import default_rng as new",
        "import os as system\nx = system.urandom(3)",
        "from os import urandom",
        "import torch\nx = torch.rand(3)",
        "import torch as t\nx = t.randn(3)",
        "import torch\nx = torch.multinomial(p, 1)",
        "import torch\nx = torch.bernoulli(p)",
        "import torch\nx = torch.poisson(p)",
        "from torch import multinomial",
        "import torch\nx = torch.nn.functional.dropout(p)",
        "import torch\nx = torch.Generator()",
        "from torch.distributions import Laplace",
        "x = torch.empty(3).normal_()",
        "x = scores.new_empty(3).random_()",
        "scores.exponential_()",
        "scores.uniform_()",
        "import triton.language as tl\nx = tl.rand(seed, 0)",
    ],
)
def test_1_the_check_sees_other_sources(code: str) -> None:
    assert sources(code)
    assert not sources("from dipp.core import randomness\nx = randomness.private_bytes(3)")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("from dipp.core import randomness\nx = randomness.uniforms(stream, 3)", {"uniforms"}),
        ("from dipp.core import randomness\nx = randomness.draws(stream, 0, 0, 0)", {"draws"}),
        ("import dipp.core.randomness\nx = dipp.core.randomness.uniforms(stream, 3)", {"uniforms"}),
        ("from dipp.core.randomness import uniforms", {"uniforms"}),
        ("from .randomness import uniforms as private_bytes", {"uniforms"}),
        ("from . import randomness\nx = randomness.stream(seed)", {"stream"}),
        ("from ..core import randomness\nx = randomness.stream(seed)", {"stream"}),
        ("from ..core.randomness import uniforms", {"uniforms"}),
        ("from dipp import randomness\nx = randomness.uniforms(stream, 3)", {"uniforms"}),
        ("import dipp.randomness\nx = dipp.randomness.uniforms(stream, 3)", {"uniforms"}),
        ("from dipp.randomness import uniforms", {"uniforms"}),
        ("from dipp.core.randomness import *", {"*"}),
        ("from dipp.core import randomness as os\nx = os.uniforms(stream, 3)", {"uniforms", ""}),
        ("from dipp.core import randomness\nx = getattr(randomness, 'uniforms')", {""}),
        ("from dipp.core import randomness\nx = randomness.os.urandom(3)", {"os.urandom", "os"}),
        ("from dipp.core import randomness\nx = randomness.private_uniforms(3)", {"private_uniforms"}),
    ],
)
def test_1_the_check_sees_what_is_used_of_the_public_stream(line: str, found: set[str]) -> None:
    """Each use that is added to the selection is found, because it draws from more than the private source."""
    assert own(line) == found
    code = SELECTION.read_text()
    assert own(f"{code}\n{line}") >= found
    assert own(f"{code}\n{line}") != {"private_bytes"}


# 4. The same image again.


def test_4_a_second_encoding_costs_as_much_again() -> None:
    codec, image = make_codec(SHARP), pictures_of_two_sizes()[:1]
    first, second = codec.encode(image), codec.encode(image)
    both = first.certificate.compose(second.certificate)
    assert both.epsilon >= 2 * first.certificate.epsilon
    assert any("another encoding" in text for text in not_covered(Pixel()))


# 5. Values out of range.


@pytest.mark.parametrize(
    "image",
    [
        np.full((8, 8, 3), np.nan),
        np.full((8, 8, 3), 1.5, np.float32),
        np.full((8, 8, 3), 300, np.int64),
        torch.full((3, 8, 8), float("nan")),
        torch.full((3, 8, 8), 2.0),
    ],
    ids=["nan", "float", "int64", "nan tensor", "float tensor"],
)
def test_5_only_eight_bits_enter(image: Any) -> None:
    with refused("image", str(image.dtype).removeprefix("torch.")):
        make_codec(SHARP).encode([image])


@pytest.mark.parametrize("value", [1.0001, -1.5, np.nan, np.inf])
def test_5_levels_refuse_what_is_out_of_range(value: float) -> None:
    with refused("x", "[-1, 1]"):
        Arithmetic(SHARP.channel, 0.1).levels(np.array([0.0, value]))


def unclamped(self: Arithmetic, x: Any) -> Any:
    """Return levels of pixels that were standardised and not clamped."""
    return np.trunc(self.unit * np.asarray(x, np.float64) * 2.2).astype(np.int32)


def test_5_without_that_check_the_scores_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Arithmetic, "levels", unclamped)
    with refused("shifts"):
        make_codec(SHARP).encode(pictures_of_two_sizes()[:1])


def test_5_without_both_the_ledger_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Arithmetic, "levels", unclamped)
    monkeypatch.setattr(ScoringTask, "__post_init__", lambda _: None)
    with refused("ledger"):
        make_codec(SHARP).encode(pictures_of_two_sizes()[:1])


# 6. Pixels that are mixed before they enter.


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "CMYK", "P", "1", "YCbCr"])
def test_6_reading_a_picture_mixes_no_pixels(mode: str) -> None:
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)).convert(mode)
    before = as_picture(image, 3).pixels
    changed = image.copy()
    # Another value at (5, 2), which some other pixel has.
    values: list[Any] = [image.getpixel((x, y)) for x in range(8) for y in range(8)]
    changed.putpixel((5, 2), next(value for value in values if value != image.getpixel((5, 2))))
    different = (as_picture(changed, 3).pixels != before).any(axis=2)
    assert list(zip(*np.nonzero(different), strict=True)) == [(2, 5)]
    assert before.shape == (8, 8, 3)


def test_6_the_check_sees_mixing() -> None:
    image = Image.fromarray(pictures_of_two_sizes()[0])
    before = np.asarray(image.resize((4, 4)).resize((8, 8)))
    image.putpixel((5, 2), (0, 255, 0))
    after = np.asarray(image.resize((4, 4)).resize((8, 8)))
    assert (before != after).any(axis=2).sum() > 1


def test_6_the_unit_is_stated_wherever_an_epsilon_is(tmp_path: Path, run: Command) -> None:
    made = tmp_path / "a.dipp"
    make_codec(SHARP).encode(pictures_of_two_sizes()[:1]).save(made)
    for expected, *options in ((0,), (EXIT_NOT_COMPARED, "--verify")):
        code, said, _ = run("info", made, *options)
        assert code == expected
        assert Pixel().words in said
        code, said, _ = run("info", made, "--json", *options)
        assert code == expected
        assert json.loads(said)["certificate"]["unit"] == {"kind": "pixel"}
    assert any("mixed before encoding" in text for text in not_covered(Pixel()))


# 7. An encoder's state that the decoder does not have.


def state_error(codec: Codec, monkeypatch: pytest.MonkeyPatch) -> float:
    """Return the distance between the last states of decoder and encoder."""
    ends: list[torch.Tensor] = []
    real = Transition.next_state

    def keep(self: Transition, *states: Any) -> Any:
        ends.append(real(self, *states))
        return ends[-1]

    with monkeypatch.context() as patch:
        patch.setattr(Transition, "next_state", keep)
        archive = codec.encode(pictures_of_two_sizes()[:1])
    (decoded, _), *_ = states(Codec(codec.denoiser, codec.plan), archive)
    return float((decoded - ends[-1]).abs().max())


def test_7_the_decoder_ends_where_the_encoder_does(monkeypatch: pytest.MonkeyPatch) -> None:
    codec = make_codec(SHARP)
    assert state_error(codec, monkeypatch) < 1e-4
    # An encoder with a state of its own ends elsewhere.
    real, secret = Transition.next_state, [0.1]

    def private(self: Transition, x_t: Any, x_hat: Any, z: Any) -> Any:
        return real(self, x_t, x_hat, z) + (secret.pop() if secret else 0.0)

    monkeypatch.setattr(Transition, "next_state", private)
    assert state_error(codec, monkeypatch) > 1e-2


# 8. An ε without a certificate.


@pytest.mark.parametrize("coding", [DIFFC, Coding(Laplace(), Functional()), Coding(Gaussian(), StepLimited())])
def test_8_no_epsilon_without_privacy(coding: Coding, monkeypatch: pytest.MonkeyPatch) -> None:
    codec = make_codec(coding)
    archive = codec.encode(pictures_of_two_sizes()[:1])
    assert archive.parameters.claim(of_pixels(64)) is None
    with pytest.raises(NoCertificateError):
        archive.certificate  # noqa: B018
    # Even if somebody declared it private, there is no number to state.
    monkeypatch.setattr(Coding, "certified", property(lambda _: True))
    with pytest.raises(NoCertificateError):
        Certificate.of(codec.plan, of_pixels(64))
    with pytest.raises(NoCertificateError):
        codec.encode(pictures_of_two_sizes()[:1])


# 9. Floats where exactness matters.


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64])
def test_9_the_selection_takes_integers_only(kind: type) -> None:
    with refused("scores", "int32", np.dtype(kind).name):
        selection.select(np.zeros((1, 8), kind), 10)
    if kind is not np.int64:
        with refused("sums", "int64"):
            selection.draw_bins(np.ones((1, selection.BINS), kind))


# 10. Metadata.


def test_10_nothing_but_pixels_enters_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Command) -> None:
    """With fixed indices, the same pixels give the same file, with and without a name, a text and EXIF."""
    monkeypatch.setattr(scoring, "select", lambda task, _: np.zeros(task.chunks, np.int64))
    image, secret = Image.fromarray(pictures_of_two_sizes()[0]), "Jane Doe, ward 7"
    text, exif = PngImagePlugin.PngInfo(), Image.Exif()
    text.add_text("Author", secret)
    exif[0x010E] = secret
    image.save(tmp_path / f"{secret}.png", pnginfo=text, exif=exif)
    image.save(tmp_path / "0.png")
    assert secret.encode() in (tmp_path / f"{secret}.png").read_bytes()
    codec, made = make_codec(SHARP), tmp_path / "a.dipp"
    monkeypatch.setattr(Codec, "from_pretrained", lambda *_, **__: codec)
    files = []
    for name in (f"{secret}.png", "0.png"):
        code, said, _ = run("encode", "--overwrite", tmp_path / name, "--output", made, "--seed", SEED.hex())
        assert code == 0
        assert "Jane" not in said
        files.append(made.read_bytes())
    assert files[0] == files[1]
    assert b"Jane" not in files[0]


def test_10_encoding_says_nothing_of_the_image(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The sender's log says only when an odometer begins, and that a picture was released before."""
    caplog.set_level(0)
    Odometer.open()
    caplog.clear()
    capsys.readouterr()
    make_codec(SHARP).encode(pictures_of_two_sizes()[:1])
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "")
    assert not [record for record in caplog.records if record.name.startswith("dipp")]


def printed(show: Callable[[Any], str]) -> set[str]:
    """Return the texts of the encoder's objects for two images; they are equal unless an image shows."""
    codec, recorder = make_codec(SHARP), Recorder()
    layout = Chain(codec.plan, codec.denoiser, SEED, Geometry(8, 8, 3)).layout(0, [0])
    x_hat = torch.zeros(1, len(layout.chunks.order))
    texts = set()
    for image in pictures_of_two_sizes()[:2]:
        selector = Selector(codec.plan, SEED, image.reshape(1, -1), "cpu", recorder)
        texts.add(show(selector) + show(selector.task(layout, x_hat)))
    return texts


def talkative(thing: Any) -> str:
    """Return the text of an object if no field were left out."""
    fields = {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing)}
    return repr(dataclasses.make_dataclass(type(thing).__name__, fields)(**fields))


def test_10_what_holds_the_image_does_not_print_it() -> None:
    """A traceback, a debugger or a log shows the text of `repr`."""
    assert len(printed(repr)) == 1
    assert len(printed(talkative)) == 2


# 11. Public parts that are fitted to the private images; 12. a seed that is chosen after seeing them.


Encode = Callable[[Codec, Any], Archive]


def network_of(codec: Codec) -> torch.nn.Module:
    assert isinstance(codec.denoiser, UNetDenoiser)
    return codec.denoiser.network


def fitted(encode: Encode, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the public things that changed when or after an image was encoded."""
    codec, tables = make_codec(SHARP), []
    network, schedule, identity = network_of(codec), codec.denoiser.schedule, codec.denoiser.identity
    alphas = schedule.alphas_cumprod.copy()
    weights = {name: value.clone() for name, value in network.state_dict().items()}
    observe = Recorder.observe

    def keep(self: Recorder, step: int, plan: Any, geometry: Any, images: int, chunks: Any, used: StepRecord) -> None:
        tables.append((step, np.array(used.table)))
        observe(self, step, plan, geometry, images, chunks, used)

    with monkeypatch.context() as patch:
        patch.setattr(Recorder, "observe", keep)
        archives = [encode(codec, image) for image in pictures_of_two_sizes()[:2]]
    plan = make_codec(SHARP).plan
    levels = [plan.arithmetic(step).levels(SIGNAL_OF_PIXEL) for step in plan.steps]
    now, same = codec.denoiser, network_of(codec).state_dict()
    return {
        name
        for name, changed in {
            "plan": codec.plan != plan or any(archive.parameters.plan != plan for archive in archives),
            "table": any((table != levels[step]).any() for step, table in tables),
            "model": any((same[name] != value).any() for name, value in weights.items())
            or network_of(codec) is not network
            or any(archive.parameters.model != identity for archive in archives),
            "schedule": now.schedule is not schedule or (now.schedule.alphas_cumprod != alphas).any(),
        }.items()
        if changed
    }


def fit_weights(codec: Codec, image: Any) -> Archive:
    """Train the network on the image before it is encoded: a trap."""
    with torch.no_grad():
        next(network_of(codec).parameters()).add_(image.mean() / 1e6)
    return codec.encode([image], seed=SEED)


def fit_plan(codec: Codec, image: Any) -> Archive:
    """Give a difficult image more candidates: a trap."""
    more = int(image[0, 0, 0]) % 2
    steps = tuple(dataclasses.replace(step, index_bits=step.index_bits + more) for step in codec.plan.steps)
    return Codec(codec.denoiser, dataclasses.replace(codec.plan, steps=steps)).encode([image], seed=SEED)


def fit_table(codec: Codec, image: Any) -> Archive:
    """Equalise levels by the image's own histogram: a trap. Their range stays, so the ledger has nothing to refuse."""
    real = Arithmetic.levels

    def levels(self: Arithmetic, x: Any) -> Any:
        table = real(self, x)
        share = np.searchsorted(np.sort(image.reshape(-1)), np.arange(256)) / image.size
        equalised = (table[0] + share * (table[-1] - table[0])).astype(np.int32)
        return np.concatenate([table[:1], equalised[1:-1], table[-1:]])

    with mock.patch.object(Arithmetic, "levels", levels):
        return codec.encode([image], seed=SEED)


def fit_schedule(codec: Codec, image: Any) -> Archive:
    """Let noise levels follow the image, by less than the codec's check of a plan allows: a trap."""
    alphas = codec.denoiser.schedule.alphas_cumprod * (1 - image.mean() / 1e12)
    object.__setattr__(codec.denoiser, "schedule", NoiseSchedule(alphas))
    return codec.encode([image], seed=SEED)


def test_11_encoding_fits_nothing_public_to_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fitted(lambda codec, image: codec.encode([image], seed=SEED), monkeypatch) == set()
    assert any("not fitted to them" in text for text in ASSUMPTIONS)


@pytest.mark.parametrize(
    ("encode", "found"),
    [(fit_weights, "model"), (fit_plan, "plan"), (fit_table, "table"), (fit_schedule, "schedule")],
)
def test_11_the_check_sees_what_is_fitted(encode: Encode, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fitted(encode, monkeypatch) == {found}


def order_of(codec: Codec, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what the codec does first: draw its seed, or read the image."""
    order: list[str] = []

    def seed() -> bytes:
        order.append("seed")
        return SEED

    def images() -> Iterator[Any]:
        order.append("image")
        yield pictures_of_two_sizes()[0]

    with monkeypatch.context() as patch:
        patch.setattr(randomness, "fresh_seed", seed)
        codec.encode(images())
    return order


class LateSeedCodec(Codec):
    """Reads the images, and then draws the seed."""

    def encode(self, images: Iterable[Any], **options: Any) -> Archive:
        return super().encode(list(images), **options)


class GrindingCodec(Codec):
    """Encoder that reads the images, encodes them with several seeds, and keeps the best."""

    def encode(self, images: Iterable[Any], **options: Any) -> Archive:
        seen = list(images)
        return min(
            (super(GrindingCodec, self).encode(seen, **options) for _ in range(3)), key=lambda a: len(a.to_bytes())
        )


class RetryingCodec(Codec):
    """Draws the seed first, and another one once it has seen what came of it."""

    def encode(self, images: Iterable[Any], **options: Any) -> Archive:
        seen: list[Any] = []
        first = super().encode((seen.append(image) or image for image in images), **options)  # type: ignore[func-returns-value]
        return min(first, super().encode(seen, **options), key=lambda a: len(a.to_bytes()))


def test_12_the_seed_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert order_of(make_codec(SHARP), monkeypatch) == ["seed", "image"]


@pytest.mark.parametrize("kind", [LateSeedCodec, GrindingCodec, RetryingCodec])
def test_12_the_check_sees_a_seed_that_comes_later(kind: type[Codec], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these codecs chooses its seed by the image, and so draws a seed after reading it."""
    honest = make_codec(SHARP)
    order = order_of(kind(honest.denoiser, honest.plan), monkeypatch)
    assert order[-1] == "seed"
    assert "image" in order


# The list in the documents.


def test_the_threat_model_names_every_trap_and_only_tests_that_exist() -> None:
    """The table has every numbered trap, and the tests and files that it names exist."""
    text = (DOCS / "threat-model.md").read_text()
    for number in range(1, 13):
        assert f"\n| {number} |" in text, number
    text += (DOCS / "check-a-file.md").read_text()
    named = {word for word in text.replace("`", " ").split() if word.startswith("test_")}
    files = {path.stem: path for path in (ROOT / "tests").rglob("test_*.py")}
    here = "".join(path.read_text() for path in files.values())
    assert len(named) > 12
    for name in named:
        assert name in files or f"def {name}(" in here, name
    # Files that it names exist.
    for path in re.findall(r"`((?:dipp|tests|src|docs)/[^`]*)`", text):
        assert (ROOT / path).exists() or (ROOT / "src" / path).exists(), path
