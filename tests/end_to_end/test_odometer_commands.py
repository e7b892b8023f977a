"""The odometer in the commands: pictures are charged before their release, once, and files say nothing of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.codecs import make_codec
from helpers.commands import Command
from helpers.datasets import save_folder, save_table, tiny_codec
from helpers.geometry import of_pixels
from helpers.refusals import printed, refused
from helpers.runs import require_charged_once
from PIL import Image

from dipp.codec import pictures
from dipp.codec.charging import losses
from dipp.codec.codec import Codec
from dipp.data.choices import Choices, Conduct
from dipp.data.engines import LocalEngine
from dipp.data.privatize import privatize
from dipp.data.shards import Shard
from dipp.data.store import Store
from dipp.errors import DippError
from dipp.format.archive import Archive
from dipp.odometer import LimitError, Meter, Odometer
from dipp.planning.presets import DIFFC
from experiments.comparisons.unclipped import SHARP

pytestmark = pytest.mark.usefixtures("one_thread")


def images(folder: Path, count: int) -> list[Path]:
    generator = np.random.default_rng(7)
    paths = [folder / f"{number}.png" for number in range(count)]
    for path in paths:
        Image.fromarray(generator.integers(0, 256, (8, 8, 3), np.uint8)).save(path)
    return paths


@pytest.fixture
def codec(monkeypatch: pytest.MonkeyPatch) -> Codec:
    """Return the codec of `dipp encode`."""
    made = make_codec(SHARP)
    monkeypatch.setattr(Codec, "from_pretrained", lambda *_, **__: made)
    return made


def releases(path: Path) -> int:
    counted = Odometer.open()
    return counted.spent(counted.mark(pictures.read(path))).releases


# dipp encode.


def test_copies_names_and_formats_add_up(codec: Codec, tmp_path: Path, run: Command) -> None:
    """The composed certificate is that of the pixels; neither the file nor the output mentions it."""
    (one, other), made = images(tmp_path, 2), tmp_path / "a.dipp"
    code, _, err = run("encode", one, other, "-o", made)
    assert code == 0
    assert err.count("\n") == 1
    assert err.startswith("dipp: odometer: begun in ")
    once = len(made.read_bytes())
    with Image.open(one) as image:
        image.save(tmp_path / "copy.bmp")
    code, out, err = run("encode", "--overwrite", tmp_path / "copy.bmp", tmp_path / "1.png", "-o", made)
    assert code == 0
    epsilon, _ = losses(codec.plan, of_pixels(64))
    assert "odometer: 2 of 2 pictures were released more than once by now" in err
    assert "2 releases together: ε = " in err
    assert "odometer" not in out
    assert len(made.read_bytes()) == once
    assert Odometer.open().pictures(1)[0].epsilon == pytest.approx(2 * epsilon)
    assert releases(one) == 2


def test_a_refusal_stops_everything_before_anything_is_released(codec: Codec, tmp_path: Path, run: Command) -> None:
    """No picture is charged, not even a picture that is still within the limit."""
    (one, other), made = images(tmp_path, 2), tmp_path / "a.dipp"
    limit = 1.5 * losses(codec.plan, of_pixels(64))[0]
    assert run("encode", one, "-o", made, "--odometer-limit", limit, "--odometer-begin")[0] == 0
    made.unlink()
    code, out, err = run("encode", "--overwrite", other, one, "-o", made, "--odometer-limit", limit)
    assert code == 1
    assert not out
    assert "would be exceeded by a picture" in err
    assert not made.exists()
    assert (releases(one), releases(other)) == (1, 0)
    assert run("encode", "--overwrite", other, one, "-o", made)[0] == 0


def test_a_limit_can_be_stated_at_a_delta(codec: Codec, tmp_path: Path, run: Command) -> None:
    (one,) = images(tmp_path, 1)
    epsilon, _ = losses(codec.plan, of_pixels(64))
    for number in range(12):
        assert run("encode", "--overwrite", one, "-o", tmp_path / "a.dipp", "--delta", 1e-5)[0] == 0, number
    spent = Odometer.open().pictures(1)[0]
    assert spent.at(1e-5) < spent.epsilon
    between = (spent.at(1e-5) + epsilon + spent.epsilon) / 2
    assert run("encode", "--overwrite", one, "-o", tmp_path / "a.dipp", "--odometer-limit", between)[0] == 1
    assert (
        run("encode", "--overwrite", one, "-o", tmp_path / "a.dipp", "--odometer-limit", between, "--delta", 1e-5)[0]
        == 0
    )


def test_without_odometer_nothing_is_counted(codec: Codec, tmp_path: Path, run: Command, odometer: Path) -> None:
    del codec
    (one,) = images(tmp_path, 1)
    assert run("encode", one, "-o", tmp_path / "a.dipp", "--no-odometer")[0] == 0
    assert not odometer.exists()
    code, _, err = run("encode", "--overwrite", one, "-o", tmp_path / "a.dipp", "--no-odometer", "--odometer-limit", 3)
    assert code == 1
    assert "leave out --no-odometer" in err


def test_an_odometer_that_cannot_count_stops_the_release(
    codec: Codec, tmp_path: Path, run: Command, odometer: Path
) -> None:
    del codec
    (one,) = images(tmp_path, 1)
    odometer.mkdir()
    (odometer / "odometer.sqlite").write_bytes(b"no database at all" * 99)
    code, out, err = run("encode", one, "-o", tmp_path / "a.dipp")
    assert code == 1
    assert err.startswith(printed("odometer"))
    assert not out
    assert not (tmp_path / "a.dipp").exists()


def test_a_release_without_a_certificate_makes_the_sum_infinite(
    tmp_path: Path, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Codec, "from_pretrained", lambda *_, **__: make_codec(DIFFC))
    (one,) = images(tmp_path, 1)
    for _ in range(2):
        code, out, err = run("encode", "--overwrite", one, "-o", tmp_path / "a.dipp")
        assert code == 0
    assert "none: a release of it shows pixels without a bound" in err
    assert "ε" not in out
    for arguments in ((), (one,)):  # JSON has no infinity, and other programs fail on Python's
        code, out, _ = run("odometer", *arguments, "--json")
        (picture,) = json.loads(out, parse_constant=pytest.fail)["pictures"]
        assert (picture["epsilon"], picture["rho"]) == (None, None)


def test_a_picture_is_charged_even_if_its_encoding_fails(
    codec: Codec, tmp_path: Path, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure may depend on what was drawn, so the draw counts."""
    del codec
    (one,) = images(tmp_path, 1)

    def fail(*_: Any, **__: Any) -> None:
        raise DippError("core", "it is broken")

    monkeypatch.setattr("dipp.codec.codec.encode_batch", fail)
    assert run("encode", one, "-o", tmp_path / "a.dipp")[0] == 1
    assert releases(one) == 1


def test_a_picture_that_changes_meanwhile_is_not_released(
    codec: Codec, tmp_path: Path, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The picture was charged with other content."""
    del codec
    (one, other) = images(tmp_path, 2)
    charge = Meter.charge

    def swapped(self: Meter, *arguments: Any) -> None:
        charge(self, *arguments)
        one.write_bytes(other.read_bytes())

    monkeypatch.setattr(Meter, "charge", swapped)
    code, _, err = run("encode", one, "-o", tmp_path / "a.dipp")
    assert code == 1
    assert "changed since it was charged" in err
    assert not (tmp_path / "a.dipp").exists()


def test_a_picture_is_charged_before_its_file_appears(
    codec: Codec, tmp_path: Path, run: Command, monkeypatch: Any
) -> None:
    """When the file is written, the row is on the disk already, where another process sees it."""
    del codec
    (one,) = images(tmp_path, 1)
    save, seen = Archive.save, []

    def look(self: Archive, path: Path) -> None:
        program = "from dipp.odometer import Odometer; print(Odometer.open().count())"
        seen.append(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)  # noqa: S603
        save(self, path)

    monkeypatch.setattr(Archive, "save", look)
    assert run("encode", one, "-o", tmp_path / "a.dipp")[0] == 0
    assert seen == [b"1\n"]


def test_a_limit_in_a_new_home_releases_nothing(codec: Codec, tmp_path: Path, run: Command, odometer: Path) -> None:
    """Three new home folders would allow three releases, so an option must begin an odometer explicitly."""
    source, made = tmp_path / "source", tmp_path / "a.dipp"
    source.mkdir()
    (one,) = images(source, 1)
    code, out, err = run("encode", one, "-o", made, "--odometer-limit", 3)
    assert (code, out) == (1, "")
    assert err.startswith(printed("odometer-limit", "needs an odometer"))
    code, _, err = run("privatize", source, tmp_path / "release", "--odometer-limit", 3, "--epsilon", 2)
    assert code == 1
    assert err.startswith(printed("odometer-limit", "needs an odometer"))
    assert [path.name for path in tmp_path.iterdir()] == ["source"]
    assert not odometer.exists()
    code, _, err = run(
        "encode", one, "-o", made, "--odometer-limit", 2 * losses(codec.plan, of_pixels(64))[0], "--odometer-begin"
    )
    assert code == 0
    assert f"odometer: begun in {odometer}; " in err


def test_a_refused_picture_begins_no_odometer(codec: Codec, tmp_path: Path, run: Command, odometer: Path) -> None:
    del codec
    (one,) = images(tmp_path, 1)
    (tmp_path / "bad.png").write_bytes(one.read_bytes()[:60])
    assert run("encode", one, tmp_path / "bad.png", "-o", tmp_path / "a.dipp")[0] == 1
    assert not odometer.exists()


# Python.


def test_python_charges_as_the_command_does(
    codec: Codec, tmp_path: Path, run: Command, caplog: pytest.LogCaptureFixture
) -> None:
    (one, other) = images(tmp_path, 2)
    assert run("encode", one, other, "-o", tmp_path / "a.dipp")[0] == 0
    caplog.clear()
    codec.encode([one, np.asarray(Image.open(other))])
    (said,) = caplog.messages
    assert said.startswith("odometer: 2 of 2 pictures were released more than once by now")
    assert (releases(one), releases(other)) == (2, 2)
    first, second = ([row[2:] for row in Odometer.open().releases()][number] for number in (0, 1))
    assert first == second
    codec.encode([one, other], odometer=False)
    assert (releases(one), releases(other)) == (2, 2)


def test_a_limit_holds_in_python_as_well(codec: Codec, tmp_path: Path, odometer: Path) -> None:
    (one,) = images(tmp_path, 1)
    limit = 1.5 * losses(codec.plan, of_pixels(64))[0]
    with refused("odometer-limit"):
        codec.encode(one, odometer=Meter(limit))
    assert not odometer.exists()
    codec.encode(one, odometer=Meter(limit, begin=True))
    with pytest.raises(LimitError):
        codec.encode(one, odometer=Meter(limit))
    assert releases(one) == 1


def test_python_charges_before_it_reads_twice(codec: Codec, tmp_path: Path) -> None:
    """Pictures of an iterator are all charged before the first is encoded."""
    paths = images(tmp_path, 3)
    with refused("image"):
        codec.encode(iter([*paths, np.zeros((8, 8, 5), np.uint8)]))
    assert not Odometer.exists()
    codec.encode(iter(paths))
    assert [releases(path) for path in paths] == [1, 1, 1]


# dipp odometer.


def test_the_command_lists_releases_and_explains_prices(codec: Codec, tmp_path: Path, run: Command) -> None:
    one, other, third = images(tmp_path, 3)
    run("encode", one, "-o", tmp_path / "a.dipp", "--odometer-names")
    run("encode", one, other, "-o", tmp_path / "b.dipp")
    code, out, _ = run("odometer", "--json")
    facts, epsilon = json.loads(out), losses(codec.plan, of_pixels(64))[0]
    assert code == 0
    assert facts["count"] == 2
    assert [row["images"] for row in facts["releases"]] == [1, 2]
    assert [(row["releases"], row["name"]) for row in facts["pictures"]] == [(2, "0.png"), (1, None)]
    assert facts["pictures"][0]["epsilon"] == pytest.approx(2 * epsilon)
    code, out, _ = run("odometer")
    assert code == 0
    assert "2 releases, together ε = " in out
    assert "For somebody who sees all releases, prices of one size add up." in out
    code, out, _ = run("odometer", one, third, "--json", "--delta", 1e-6)
    found = json.loads(out)["pictures"]
    assert [len(row["history"]) for row in found] == [2, 0]
    assert found[0]["epsilon_at_delta"] <= found[0]["epsilon"]
    code, out, _ = run("odometer", third)
    assert "2.png: 0 releases, together ε = 0 pure" in out


def test_releases_of_others_can_be_added(codec: Codec, tmp_path: Path, run: Command) -> None:
    """Releases by other programs state ε alone, and ρ follows from it."""
    del codec
    (one,) = images(tmp_path, 1)
    code, out, _ = run("odometer", one, "--add", 3, "--json")
    (found,) = json.loads(out)["pictures"]
    assert code == 0
    assert found["epsilon"] == 3
    assert found["rho"] == pytest.approx(3 * np.tanh(1.5))
    for word, *arguments in (("add", "--add", 3), ("add", one, "--add", -1), ("delta", "--delta", 2)):
        code, _, err = run("odometer", *arguments)
        assert code == 1
        assert err.startswith(printed(word))


# dipp privatize.


def test_releases_of_datasets_add_up(light_model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Copies in other folders and formats count too; the released bytes are the same as without an odometer."""
    first, again = save_folder(tmp_path / "folder", 12), save_table(tmp_path / "s.parquet", 9)
    codec, choices = tiny_codec(light_model), Choices(shard_size=5)
    for source, target in ((first, "one"), (again, "two"), (again, "three.dipp")):
        privatize(
            str(source), tmp_path / target, codec, str(light_model), LocalEngine(1), choices, Conduct(meter=Meter())
        )
    assert [text.split(" pictures")[0] for text in caplog.messages[1:]] == ["odometer: 9 of 9"] * 2
    odometer = Odometer.open()
    assert odometer.count() == 12
    assert odometer.pictures(1)[0].epsilon == pytest.approx(3 * losses(codec.plan, of_pixels(64))[0])
    text = (tmp_path / "two" / "manifest.json").read_text()
    assert "odometer" not in text.lower()
    assert all(b"odometer" not in path.read_bytes().lower() for path in (tmp_path / "two").iterdir())


def test_the_command_refuses_before_a_shard_is_published(
    light_model: Path, tmp_path: Path, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The picture that exceeds the limit is the last one of the last shard."""
    monkeypatch.setattr(Codec, "from_pretrained", lambda *_, **__: tiny_codec(light_model))
    source = save_folder(tmp_path / "source", 7, classes=("a",))
    last = max(source.rglob("*.png"))
    privatized = ("--model", light_model, "--workers", 1, "--shard-size", 2)
    code, _, err = run("encode", last, "-o", tmp_path / "a.dipp", "--model", light_model)
    assert code == 0, err
    epsilon = Odometer.open().pictures(1)[0].epsilon
    for target in ("out", "out.dipp"):
        code, out, err = run("privatize", source, tmp_path / target, *privatized, "--odometer-limit", 1.1 * epsilon)
        assert code == 1
        assert not out
        assert "would be exceeded by a picture" in err
        assert {path.name for path in tmp_path.iterdir()} == {"source", "a.dipp"}
    assert Odometer.open().count() == 1
    code, out, err = run("privatize", source, tmp_path / "out", *privatized, "--odometer-limit", 3 * epsilon, "--json")
    assert code == 0, err
    assert err.startswith("dipp: odometer: 1 of 7 pictures")
    assert "odometer" not in out


def test_a_file_that_was_unreadable_when_charged_is_not_released(
    light_model: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    """A picture that becomes readable after the charge would be released without being paid for."""
    source = save_folder(tmp_path / "source", 4, classes=("a",))
    read, calls = pictures.read_picture, iter(range(100))

    def bad_at_first(*arguments: Any) -> Any:
        if next(calls) == 2:
            raise DippError("image", "a bad cable")
        return read(*arguments)

    monkeypatch.setattr(pictures, "read_picture", bad_at_first)
    privatize(
        str(source),
        tmp_path / "out",
        tiny_codec(light_model),
        str(light_model),
        LocalEngine(1),
        Choices(),
        Conduct(meter=Meter()),
    )
    (shard,) = (Shard.read(path) for path in Store(tmp_path / "out").shards())
    assert shard.ids.tolist() == [0, 1, 3]
    assert shard.skipped[0].reason == "a bad cable"
    require_charged_once(3)


def test_a_resumed_run_is_charged_once(light_model: Path, tmp_path: Path) -> None:
    source = save_table(tmp_path / "s.parquet", 30)

    class StoppingEngine(LocalEngine):
        """Ends the run after a shard."""

        def run(self, *arguments: Any) -> Any:
            yield next(iter(super().run(*arguments)))
            raise KeyboardInterrupt

    codec, meter, choices = tiny_codec(light_model), Meter(), Choices(shard_size=10)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            privatize(
                str(source), tmp_path / "out", codec, str(light_model), StoppingEngine(), choices, Conduct(meter=meter)
            )
    require_charged_once(30)
    # The limit allows one charge and not two; another release exceeds it.
    meter = Meter(1.5 * losses(codec.plan, of_pixels(64))[0])
    privatize(str(source), tmp_path / "out", codec, str(light_model), LocalEngine(1), choices, Conduct(meter=meter))
    require_charged_once(30)
    with pytest.raises(LimitError):
        privatize(
            str(source), tmp_path / "other", codec, str(light_model), LocalEngine(1), choices, Conduct(meter=meter)
        )
    assert not (tmp_path / "other").exists()
