"""What voids a certificate, built in on purpose: each trap meets a guard that refuses it, or a check that fails.

`docs/threat-model.md` lists them by number. Traps that change what is released are in `test_audit` (controls) and
`test_taint` (leaks); here are the others, and what catches them if a first guard were missing.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, PngImagePlugin
from test_taint import SEED, make_codec, pictures

from dipp import commands, randomness, scoring, selection
from dipp.arithmetic import Arithmetic
from dipp.codec import Codec, as_pixels
from dipp.diffusion import Transition
from dipp.errors import DippError, NoCertificateError
from dipp.plan import DIFFC, PAPER, SHARP, Mechanism
from dipp.privacy.audit import blackbox, exact, setting
from dipp.privacy.certificate import ASSUMPTIONS, NOT_COVERED, UNIT, Certificate
from dipp.scoring.task import ScoringTask

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# 1. Private randomness that is not private.


def test_1_a_private_source_that_repeats_itself_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real encoder with another source: the same 16 bytes for every draw, as from a seed that is used again."""
    plan, shape = setting.single_step(SHARP, 2.0)
    chain = setting.chain_of(plan, shape, 0)
    pair = exact.adversarial_pair(chain, np.random.default_rng(0), -3.0)
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


def sources(path: Path) -> set[str]:
    """Names of random generators that a module calls or imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            found.add(ast.unparse(node))
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        if isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{name.name}" for name in node.names}
    wanted = ("np.random", "numpy.random", "random.", "torch.rand", "torch.normal", "os.urandom", "secrets", "uuid")
    return {name for name in found if name == "random" or name.startswith(wanted)}


def test_1_there_is_one_source_of_private_randomness() -> None:
    """No other module of the codec draws; a temporary file gets a random name.

    Audits make up their test images, and the trainer draws from public pictures: neither encodes anything private.
    """
    own = {
        str(path.relative_to(ROOT / "src/dipp")): sources(path)
        for path in (ROOT / "src/dipp").rglob("*.py")
        if path.parent.name not in ("audit", "training") and path.name != "train.py"
    }
    assert {path: names for path, names in own.items() if names} == {
        "randomness.py": {"os.urandom"},
        "files.py": {"secrets", "secrets.token_hex"},
    }


def test_1_the_check_sees_other_sources(tmp_path: Path) -> None:
    for line in ("import random", "from random import choice", "import secrets", "x = np.random.default_rng(seed)"):
        (tmp_path / "a.py").write_text(line)
        assert sources(tmp_path / "a.py")
    (tmp_path / "a.py").write_text("from dipp import randomness\nx = randomness.private_bytes(3)")
    assert not sources(tmp_path / "a.py")


# 4. The same image again.


def test_4_a_second_encoding_costs_as_much_again() -> None:
    codec, image = make_codec(SHARP), pictures()[:1]
    first, second = codec.encode(image), codec.encode(image)
    both = first.certificate.compose(second.certificate)
    assert both.epsilon >= 2 * first.certificate.epsilon
    assert any("another encoding" in text for text in NOT_COVERED)


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
    with pytest.raises(DippError, match="image: uint8"):
        make_codec(SHARP).encode([image])


@pytest.mark.parametrize("value", [1.0001, -1.5, np.nan, np.inf])
def test_5_levels_refuse_what_is_out_of_range(value: float) -> None:
    with pytest.raises(DippError, match="clamp"):
        Arithmetic(SHARP.channel, 0.1).levels(np.array([0.0, value]))


def unclamped(self: Arithmetic, x: Any) -> Any:
    """Levels of pixels that were standardised and not clamped."""
    return np.trunc(self.unit * np.asarray(x, np.float64) * 2.2).astype(np.int32)


def test_5_without_that_check_the_scores_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Arithmetic, "levels", unclamped)
    with pytest.raises(DippError, match="shifts: sizes up to the law's limit"):
        make_codec(SHARP).encode(pictures()[:1])


def test_5_without_both_the_ledger_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Arithmetic, "levels", unclamped)
    monkeypatch.setattr(ScoringTask, "__post_init__", lambda _: None)
    with pytest.raises(DippError, match="ledger: what the encoder did is not what its plan says"):
        make_codec(SHARP).encode(pictures()[:1])


# 6. Pixels that are mixed before they enter.


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "CMYK", "P", "1", "YCbCr"])
def test_6_reading_a_picture_mixes_no_pixels(mode: str) -> None:
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)).convert(mode)
    before = as_pixels(image, 3)
    changed = image.copy()
    # Another value at (5, 2): one that some other pixel has.
    values: list[Any] = [image.getpixel((x, y)) for x in range(8) for y in range(8)]
    changed.putpixel((5, 2), next(value for value in values if value != image.getpixel((5, 2))))
    different = (as_pixels(changed, 3) != before).any(axis=2)
    assert list(zip(*np.nonzero(different), strict=True)) == [(2, 5)]
    assert before.shape == (8, 8, 3)


def test_6_the_check_sees_mixing() -> None:
    image = Image.fromarray(pictures()[0])
    before = np.asarray(image.resize((4, 4)).resize((8, 8)))
    image.putpixel((5, 2), (0, 255, 0))
    after = np.asarray(image.resize((4, 4)).resize((8, 8)))
    assert (before != after).any(axis=2).sum() > 1


def test_6_the_unit_is_stated_wherever_an_epsilon_is(tmp_path: Path) -> None:
    made = tmp_path / "a.dipp"
    make_codec(SHARP).encode(pictures()[:1]).save(made)
    assert UNIT in commands.info(made, as_json=False)
    assert UNIT in commands.info(made, as_json=False, verify=True)
    assert json.loads(commands.info(made, as_json=True))["certificate"]["unit"] == UNIT
    assert any("mixed before encoding" in text for text in NOT_COVERED)


# 7. An encoder's state that the decoder does not have.


def state_error(codec: Codec, monkeypatch: pytest.MonkeyPatch) -> float:
    """How far the decoder ends from where the encoder ended."""
    ends: list[torch.Tensor] = []
    real = Transition.next_state

    def keep(self: Transition, *states: Any) -> Any:
        ends.append(real(self, *states))
        return ends[-1]

    with monkeypatch.context() as patch:
        patch.setattr(Transition, "next_state", keep)
        archive = codec.encode(pictures()[:1])
    (decoded, _), *_ = Codec(codec.denoiser, codec.plan).states(archive)
    return float((decoded - ends[-1]).abs().max())


def test_7_the_decoder_ends_where_the_encoder_does(monkeypatch: pytest.MonkeyPatch) -> None:
    codec = make_codec(SHARP)
    assert state_error(codec, monkeypatch) < 1e-4
    # An encoder that keeps something to itself ends elsewhere.
    real, secret = Transition.next_state, [0.1]

    def private(self: Transition, x_t: Any, x_hat: Any, z: Any) -> Any:
        return real(self, x_t, x_hat, z) + (secret.pop() if secret else 0.0)

    monkeypatch.setattr(Transition, "next_state", private)
    assert state_error(codec, monkeypatch) > 1e-2


# 8. An ε where there is none.


@pytest.mark.parametrize(
    "mechanism", [DIFFC, dataclasses.replace(PAPER, alpha=None), dataclasses.replace(DIFFC, alpha=Fraction(2))]
)
def test_8_no_epsilon_without_privacy(mechanism: Mechanism, monkeypatch: pytest.MonkeyPatch) -> None:
    codec = make_codec(mechanism)
    archive = codec.encode(pictures()[:1])
    assert archive.header.claim is None
    with pytest.raises(NoCertificateError):
        archive.certificate  # noqa: B018
    # And if somebody declared it private, there is still no number to be had.
    monkeypatch.setattr(Mechanism, "certified", property(lambda _: True))
    with pytest.raises(NoCertificateError):
        Certificate.of(codec.plan, 3, 64)
    with pytest.raises(NoCertificateError):
        codec.encode(pictures()[:1])


# 9. Floats where exactness matters.


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64])
def test_9_the_selection_takes_integers_only(kind: type) -> None:
    with pytest.raises(DippError, match="int32"):
        selection.select(np.zeros((1, 8), kind), 10)
    if kind is not np.int64:
        with pytest.raises(DippError, match="int64"):
            selection.draw_bins(np.ones((1, selection.BINS), kind))


# 10. Metadata.


def test_10_nothing_but_pixels_enters_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same pixels with and without a name, a text and EXIF: with the indices fixed, the same file."""
    monkeypatch.setattr(scoring, "select", lambda task, _: np.zeros(task.chunks, np.int64))
    image, secret = Image.fromarray(pictures()[0]), "Jane Doe, ward 7"
    text, exif = PngImagePlugin.PngInfo(), Image.Exif()
    text.add_text("Author", secret)
    exif[0x010E] = secret
    image.save(tmp_path / f"{secret}.png", pnginfo=text, exif=exif)
    image.save(tmp_path / "0.png")
    assert secret.encode() in (tmp_path / f"{secret}.png").read_bytes()
    codec, made = make_codec(SHARP), tmp_path / "a.dipp"
    files = []
    for name in (f"{secret}.png", "0.png"):
        commands.encode(codec, [tmp_path / name], made, SEED.hex())
        files.append(made.read_bytes())
    assert files[0] == files[1]
    assert b"Jane" not in files[0]


def test_10_encoding_says_nothing_of_the_image(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    make_codec(SHARP).encode(pictures()[:1])
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "")
    assert not [record for record in caplog.records if record.name.startswith("dipp")]
    selector = repr(make_codec(SHARP))
    assert "uint8" not in selector


# 11. What was fitted to the private images; 12. a seed that was chosen after seeing them.


def test_11_encoding_changes_neither_plan_nor_model() -> None:
    codec = make_codec(SHARP)
    before = {name: value.clone() for name, value in codec.denoiser.network.state_dict().items()}
    plans = {codec.encode([image], seed=SEED).header.plan for image in pictures()[:2]}
    assert plans == {codec.plan}
    assert all((codec.denoiser.network.state_dict()[name] == value).all() for name, value in before.items())
    assert any("not fitted to them" in text for text in ASSUMPTIONS)


def order_of(encode: Callable[[Iterator[Any]], object], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What comes first: the seed or the image."""
    order: list[str] = []

    def seed() -> bytes:
        order.append("seed")
        return SEED

    def images() -> Iterator[Any]:
        order.append("image")
        yield pictures()[0]

    with monkeypatch.context() as patch:
        patch.setattr(randomness, "fresh_seed", seed)
        encode(images())
    return order


def test_12_the_seed_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    codec = make_codec(SHARP)
    assert order_of(codec.encode, monkeypatch) == ["seed", "image"]

    def grind(images: Iterator[Any]) -> object:
        """Look first, then choose the seed that suits."""
        seen = list(images)
        return codec.encode(seen, seed=min(randomness.fresh_seed() for _ in range(3)))

    assert order_of(grind, monkeypatch)[0] == "image"


# The list in the documents.


def test_the_threat_model_names_every_trap_and_only_tests_that_exist() -> None:
    text = (ROOT / "docs/threat-model.md").read_text()
    for number in range(1, 13):
        assert f"\n| {number} |" in text, number
    named = {word for word in text.replace("`", " ").split() if word.startswith("test_")}
    here = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    files = {path.stem for path in Path(__file__).parent.glob("test_*.py")}
    assert len(named) > 12
    for name in named:
        assert name in files or f"def {name}(" in here, name
