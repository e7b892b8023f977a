"""Commands of the codec, on a tiny model: they read and write files, and refuse bad input in one line."""

from __future__ import annotations

import json
import math
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from helpers.commands import Command
from helpers.opened import order_of_events
from helpers.refusals import printed
from PIL import Image

import dipp
from dipp.audit import suite
from dipp.codec.decoding import Decoding
from dipp.codec.pictures import declared_size
from dipp.core.beacon import Beacon
from dipp.core.geometry import Geometry
from dipp.planning import presets
from dipp.planning.planner import Sizes
from dipp.privacy.certificate import Certificate
from experiments.comparisons.unclipped import SHARP

pytestmark = pytest.mark.usefixtures("one_thread", "quick")


@pytest.mark.parametrize(
    "budget", [("--epsilon", 8), ("--epsilon", 8, "--delta", 1e-6), ("--rho", 2), ("--epsilon", 8, "--preset", "paper")]
)
def test_pictures_are_encoded_described_and_decoded(
    budget: tuple[object, ...], model: Path, pictures: Path, tmp_path: Path, run: Command
) -> None:
    """Pictures become an archive within its budget, which decodes to the same number of pictures."""
    made = tmp_path / "made.dipp"
    code, out, err = run("encode", pictures / "0.png", pictures / "1.png", "-o", made, "--model", model, *budget)
    assert code == 0, err
    assert "certificate" in out
    code, out, _ = run("info", made, "--json")
    facts = json.loads(out)
    assert code == 0
    assert facts["images"] == 2
    assert facts["file_bpp"] == pytest.approx(8 * made.stat().st_size / (2 * 64))
    if "--rho" in budget:
        assert facts["certificate"]["rho"] <= 2
    elif "--delta" in budget:
        assert facts["certificate"]["delta"] == 1e-6
        assert facts["certificate"]["epsilon_at_delta"] <= 8
    else:
        assert facts["certificate"]["epsilon"] <= 8
    code, out, err = run("decode", made, "-o", tmp_path / "out", "--model", model)
    assert code == 0, err
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["00000.png", "00001.png"]
    with Image.open(tmp_path / "out" / "00001.png") as image:
        assert image.size == (8, 8)


def test_decoding_has_a_limit_that_can_be_raised(model: Path, pictures: Path, tmp_path: Path, run: Command) -> None:
    made, out = tmp_path / "made.dipp", tmp_path / "out"
    assert run("encode", pictures / "0.png", "-o", made, "--model", model, "--epsilon", 8)[0] == 0
    for target in (out, tmp_path / "out.parquet"):
        code, _, err = run("decode", made, "-o", target, "--model", model, "--max-work", 1e-9)
        assert code == 1
        (line,) = err.splitlines()
        assert line.startswith("dipp: archive")
        assert "--max-work 0.1 " in line
        code, _, err = run("decode", made, "-o", target, "--model", model, "--max-work", 0.1)
        assert code == 0, err


def test_encode_says_when_the_rate_binds(pictures: Path, tmp_path: Path, run: Command) -> None:
    """By default a payload has at most 1 bit per pixel; with a final timestep it may have more."""
    said = {}
    for name, *more in (("usual",), ("free", "--bpp", 1000), ("timestep", "--final-timestep", 500)):
        made = tmp_path / f"{name}.dipp"
        code, out, err = run("encode", pictures / "0.png", "-o", made, "--preset", "swift", "--epsilon", 16, *more)
        assert code == 0, err
        said[name] = "bound by the rate, not by the budget: --bpp allows" in out.splitlines()[-1]
    assert said == {"usual": True, "free": False, "timestep": False}
    rates = {name: dipp.open(tmp_path / f"{name}.dipp").payload_bpp for name in said}
    assert rates["usual"] <= 1 + 8 / 64  # whole bytes
    assert rates["free"] > rates["usual"] + 8 / 64


def test_12_the_seed_is_drawn_before_a_picture_or_its_header_is_read(
    model: Path, pictures: Path, tmp_path: Path, run: Command
) -> None:
    """The sizes of pictures, which the plan needs, are read from their headers after the seed was drawn."""
    with order_of_events(pictures) as order:
        code, _, err = run(
            "encode", pictures / "0.png", pictures / "1.png", "-o", tmp_path / "a", "--model", model, "--epsilon", 8
        )
    assert code == 0, err
    assert order[0] == "seed"
    assert order.count("seed") == 1
    assert order.count("picture") >= 4, "headers and pixels of both"


@pytest.mark.parametrize(
    ("preset", "given", "said"),
    [
        ("sharp", True, "given by the caller"),
        ("sharp", False, "drawn by the encoder"),
        ("paper", True, "given by the caller"),
        ("paper", False, "drawn by the encoder"),
    ],
)
def test_a_file_says_whether_its_seed_was_given(
    preset: str, given: bool, said: str, model: Path, pictures: Path, tmp_path: Path, run: Command
) -> None:
    made, seed = tmp_path / "made.dipp", "00112233445566778899aabbccddeeff"
    chosen = ("--preset", preset, *(("--seed", seed) if given else ()))
    code, _, err = run("encode", pictures / "0.png", "-o", made, "--model", model, "--epsilon", 8, *chosen)
    assert code == 0, err
    facts = json.loads(run("info", made, "--json")[1])
    assert facts["seed_given"] is given
    assert (facts["seed"] == seed) is given
    _, out, _ = run("info", made)
    assert f"seed         {facts['seed']}, {said}" in out


def test_the_library_is_used_as_the_readme_shows(model: Path, pictures: Path, tmp_path: Path) -> None:
    codec = dipp.Codec.from_pretrained(model, epsilon=8)
    with Image.open(pictures / "3.png") as image:
        archive = codec.encode([image])
    archive.save(tmp_path / "one.dipp")
    opened = dipp.open(tmp_path / "one.dipp")
    assert opened.certificate.epsilon <= 8
    assert codec.decode(opened)[0].shape == codec.decode(opened, Decoding(noisy=True))[0].shape == (8, 8, 3)


def test_verify_shows_the_ledger_and_says_what_it_means(
    model: Path, pictures: Path, tmp_path: Path, run: Command
) -> None:
    made = tmp_path / "one.dipp"
    run("encode", pictures / "0.png", "-o", made, "--model", model, "--epsilon", 8)
    code, out, err = run("info", made, "--verify", "--model", model)
    assert code == 0, err
    assert "worst pixel" in out
    assert out.strip().endswith("that its encoder was honest, no file can show")
    code, out, _ = run("info", made, "--verify", "--json", "--model", model)
    assert code == 0
    facts = json.loads(out)
    assert facts["verified"] is True
    assert "honest" in facts["verified_reason"]
    stated = Certificate.from_json(json.dumps(facts["certificate"]))
    assert stated == dipp.open(made).certificate
    assert [row["step"] for row in facts["certificate"]["releases"][0]["selections"]] == [
        *range(len(facts["schedule"]))
    ]


def test_a_certificate_that_does_not_follow_is_refused(
    model: Path, pictures: Path, tmp_path: Path, run: Command
) -> None:
    made = tmp_path / "one.dipp"
    run("encode", pictures / "0.png", "-o", made, "--model", model, "--epsilon", 8)
    data, found = made.read_bytes(), dipp.open(made).certificate
    better = struct.pack("<2d", found.epsilon / 2, found.rho / 4)
    forged = data.replace(struct.pack("<2d", found.epsilon, found.rho), better)[:-4]
    made.write_bytes(forged + zlib.crc32(forged).to_bytes(4, "little"))
    for options in ((), ("--verify",), ("--json",), ("--verify", "--json")):
        code, out, err = run("info", made, *options)
        assert code == 1
        assert not out
        assert "states another certificate than its plan has" in err
        assert len(err.strip().splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("clipped", [True, False])
def test_a_real_plan_is_audited_on_its_model(
    clipped: bool, model: Path, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("BLACK_BOX_RUNS", 4000), ("LAW_RUNS", 4000), ("PAIRS", 3), ("ADVERSARIES", 3)):
        monkeypatch.setattr(suite, name, value)
    monkeypatch.setattr(presets, "SENSED", presets.SENSED[:1])  # the plan is audited here, and not all codings
    if not clipped:
        small = presets.SteppedPreset("sharp", "Without a clip.", SHARP, Sizes(10, 3.0), "sharp")
        monkeypatch.setitem(presets.PRESETS, "sharp", small)
    code, out, err = run("audit", "--epsilon", 4, "--model", model, "--json")
    assert code == 0, err
    found = json.loads(out)["model"]
    assert all(0 < found[kind]["ratio"] <= 1 for kind in ("random", "extreme", "adversarial"))
    assert found["random"]["claimed"] <= 4
    if clipped:  # for a network that predicts nothing, clips exceed the range of pixels and do not cost the whole ε
        assert found["random"]["claimed"] > 1
    else:
        assert found["random"]["claimed"] > 3
        assert found["adversarial"]["ratio"] > found["random"]["ratio"]


def test_a_fixed_seed_is_public(model: Path, pictures: Path, tmp_path: Path, run: Command) -> None:
    made = tmp_path / "seed.dipp"
    run("encode", pictures / "0.png", "-o", made, "--model", model, "--epsilon", 4, "--seed", "ab" * 16)
    _, out, _ = run("info", made, "--json")
    assert json.loads(out)["seed"] == "ab" * 16


def test_a_beacon_is_mixed_in_and_shown(model: Path, pictures: Path, tmp_path: Path, run: Command) -> None:
    """The seed follows from the beacon and the sender's own random part; without that part, from the beacon alone."""
    made, value = tmp_path / "beacon.dipp", "5a" * 32
    once = ("encode", pictures / "0.png", "-o", made, "--model", model, "--epsilon", 4, "--overwrite")
    common = (*once, "--beacon", f"4242:{value}")
    seeds = []
    for given in ((), (), ("--seed", "00" * 16)):
        code, _, err = run(*common, *given)
        assert code == 0, err
        _, out, _ = run("info", made, "--json")
        facts = json.loads(out)
        beacon = Beacon(4242, bytes.fromhex(value), bytes.fromhex(facts["beacon"]["own"]))
        assert facts["seed"] == beacon.seed.hex()
        assert facts["beacon"] == {"round": 4242, "value": value, "own": beacon.own.hex()}
        assert facts["seed_given"] is bool(given)
        code, out, _ = run("info", made)
        assert f"which follows from round 4242 of a public beacon and {'nothing else' if given else '16 bytes'}" in out
        assert value in out
        seeds.append(facts["seed"])
        assert run("decode", made, "-o", tmp_path / "a.png", "--model", model, "--overwrite")[0] == 0
    assert len(set(seeds)) == 3
    for wrong in ("4242", "x:00", "1:00"):
        code, _, err = run(*common[:-1], wrong)
        assert code == 1
        assert err.startswith(printed("beacon"))


def test_diffc_prints_no_certificate(model: Path, pictures: Path, tmp_path: Path, run: Command) -> None:
    made = tmp_path / "diffc.dipp"
    arguments = ("encode", "--overwrite", pictures / "0.png", "-o", made, "--model", model, "--preset", "diffc")
    code, out, err = run(*arguments, "--bpp", 20)
    assert code == 0, err
    assert "not differentially private" in out
    assert "ε" not in out
    _, out, _ = run("info", made, "--json")
    assert json.loads(out)["certificate"] is None
    code, _, err = run("info", made, "--verify")
    assert code == 1
    assert "no certificate" in err
    code, _, err = run(*arguments, "--epsilon", 8)
    assert code == 1
    assert "no certificate" in err


def test_plan_prints_json(model: Path, tmp_path: Path, run: Command) -> None:
    """The JSON has the certificate, the expected quality and the steps; the path of the plot goes to standard error."""
    code, out, err = run("plan", "--model", model, "--epsilon", 4, "--json", "--plot", tmp_path / "plan.png")
    assert code == 0, err
    facts = json.loads(out)
    assert 0 < facts["certificate"]["epsilon"] <= 4
    assert 0 < facts["expected"]["bpp"] <= 1.01
    assert all(step["tilt"] > 0 and step["snr_gain"] > 0 for step in facts["steps"])
    assert "plan.png" in err


def test_plan_takes_the_size_of_the_picture(model: Path, run: Command) -> None:
    arguments = ("plan", "--model", model, "--epsilon", 4, "--json", "--picture")
    shown = json.loads(run(*arguments, "8x6")[1])
    expected = dipp.Codec.from_pretrained(model, epsilon=4, size=(6, 8))
    assert (
        shown["certificate"]
        == Certificate.of(expected.plan, expected.denoiser.geometry_of(Geometry(6, 8, 3))).to_dict()
    )
    code, _, err = run(*arguments, "8")
    assert code == 1
    assert "picture" in err
    assert "WIDTHxHEIGHT" in err


def test_plan_draws_the_frontier(model: Path, tmp_path: Path, run: Command) -> None:
    arguments = ("plan", "--model", model, "--preset", "paper", "--epsilon", 8)
    code, out, err = run(*arguments, "--plot", tmp_path / "f.png")
    assert code == 0, err
    # The column is per pixel, so that it adds up to the budget and not to a third of it.
    rows = [line.split() for line in out.splitlines()]
    charged = [float(row[4]) for row in rows if "→" in row and "network" not in row]
    assert 6 < sum(charged) <= 8
    assert "bits per pixel" in out
    with Image.open(tmp_path / "f.png") as image:
        assert image.size[0] > 500


def encoding(
    *more: str, image: str = "{pictures}/0.png", to: str = "{out}/a.dipp", model: str = "{model}"
) -> tuple[str, ...]:
    return ("encode", image, "-o", to, "--model", model, *more)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (encoding(), ("budget",)),
        (encoding("--epsilon", "-1"), ("epsilon",)),
        (encoding("--epsilon", "1e-9"), ("budget",)),
        (encoding("--epsilon", "4", "--rho", "1"), ("budget",)),
        (encoding("--epsilon", "4", "--preset", "x"), ("preset",)),
        (encoding("--delta", "1e-6", "--preset", "diffc"), ("preset", "diffc has no certificate")),
        (encoding("--epsilon", "4", "--seed", "x"), ("seed",)),
        (encoding("--epsilon", "4", image="{pictures}/none.png"), ("none.png",)),
        (encoding("--epsilon", "4", image="{model}/model_index.json"), ("model_index.json",)),
        (encoding("--epsilon", "4", to="{out}/no/a.dipp"), ("output",)),
        (encoding("--epsilon", "4", model="{out}"), ("model",)),
        (encoding("--epsilon", "4", to="{pictures}/0.png"), ("output", "must not be one of the pictures, got 0.png")),
        (encoding("{pictures}/0.png", "--epsilon", "4"), ("images", "name 0.png")),
        (("decode", "{pictures}/0.png", "-o", "{out}/b", "--model", "{model}"), ()),
        (("decode", "{out}/none.dipp", "-o", "{out}/b", "--model", "{model}"), ()),
        (("info", "{pictures}/0.png"), ()),
    ],
)
def test_invalid_input_is_refused_in_one_line(
    arguments: tuple[str, ...], error: tuple[str, ...], model: Path, pictures: Path, tmp_path: Path, run: Command
) -> None:
    """Bad input ends in one line and exit code 1, and leaves no half-written file."""
    places = {"model": model, "pictures": pictures, "out": tmp_path}
    code, _, err = run(*(argument.format(**places) for argument in arguments))
    assert code == 1
    assert err.strip().splitlines()[-1].startswith(printed(*error) if error else "dipp: ")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("link", ["hard", "symbolic"])
def test_a_picture_is_not_encoded_under_two_names(
    link: str, model: Path, pictures: Path, tmp_path: Path, run: Command
) -> None:
    other, made = tmp_path / "other.png", tmp_path / "a.dipp"
    if link == "hard":
        other.hardlink_to(pictures / "0.png")
    else:
        other.symlink_to(pictures / "0.png")
    arguments = encoding(str(other), "--epsilon", "8", image=f"{pictures}/0.png", to=str(made), model=str(model))
    code, _, err = run(*arguments)
    assert code == 1
    assert printed("images", "name other.png") in err
    assert not made.exists()


def test_impossible_outputs_and_options_are_refused_before_any_work(
    model: Path, pictures: Path, tmp_path: Path, run: Command
) -> None:
    """A file in place of a folder, or a folder in place of a file, is refused before any work."""
    made, folder = tmp_path / "a.dipp", tmp_path / "folder.png"
    code, _, err = run(*encoding("--epsilon", "8", image=f"{pictures}/0.png", to=str(made), model=str(model)))
    assert code == 0, err
    folder.mkdir()
    for word, *arguments in (
        ("output", "decode", made, "-o", made, "--model", model),
        ("output", "decode", made, "-o", folder, "--model", model),
        ("steps", "decode", made, "-o", tmp_path / "none", "--model", model, "--steps", 99),
        ("calls", "decode", made, "-o", tmp_path / "none", "--model", model, "--calls", 0),
        ("output", "plan", "--model", model, "--epsilon", "8", "--plot", folder),
        ("output", "calibrate", model, pictures, "-o", folder),
    ):
        code, _, err = run(*arguments)
        assert code == 1
        assert err.strip().splitlines()[-1].startswith(printed(word))
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.dipp", "folder.png"]


def test_pictures_of_two_decodings_are_not_mixed_in_one_folder(
    model: Path, pictures: Path, tmp_path: Path, run: Command
) -> None:
    """A picture of an earlier decoding would be taken for one of the new decoding."""
    made, target = tmp_path / "a.dipp", tmp_path / "decoded"
    code, _, err = run(*encoding("--epsilon", "8", image=f"{pictures}/0.png", to=str(made), model=str(model)))
    assert code == 0, err
    decoding = ("decode", made, "-o", target, "--model", model, "--overwrite")
    assert [run(*decoding)[0] for _ in range(2)] == [0, 0]
    (target / "notes.png").write_text("of mine")
    assert run(*decoding)[0] == 0
    (target / "00001.png").write_text("of another")
    code, _, err = run(*decoding)
    assert code == 1
    assert printed("output", f"{target} holds 00001.png of another decoding") in err
    assert (target / "00001.png").read_text() == "of another"


def test_pictures_of_other_kinds_and_sizes_keep_size_and_mode(model: Path, tmp_path: Path, run: Command) -> None:
    """Grey, transparent, odd and tiny pictures keep their size and mode; the plan is that of the smallest picture."""
    generator = np.random.default_rng(1)
    Image.fromarray(generator.integers(0, 256, (11, 6), np.uint8)).save(tmp_path / "grey.png")
    Image.fromarray(generator.integers(0, 256, (20, 24, 4), np.uint8)).save(tmp_path / "alpha.png")
    names = [tmp_path / "grey.png", tmp_path / "alpha.png"]
    code, _, err = run("encode", *names, "-o", tmp_path / "a.dipp", "--model", model, "--epsilon", "8")
    assert code == 0, err
    code, _, err = run("decode", tmp_path / "a.dipp", "-o", tmp_path / "out", "--model", model)
    assert code == 0, err
    with Image.open(tmp_path / "out" / "00000.png") as grey, Image.open(tmp_path / "out" / "00001.png") as alpha:
        assert (grey.size, alpha.size) == ((6, 11), (24, 20))
        assert (grey.mode, alpha.mode) == ("L", "RGB")
    planned = dipp.Codec.from_pretrained(model, epsilon=8, size=(11, 6)).plan
    assert dipp.open(tmp_path / "a.dipp").parameters.plan == planned
    assert min(map(declared_size, names), key=math.prod) == (11, 6)
    Image.new("RGB", (1, 1)).save(tmp_path / "dot.png")
    code, _, err = run("encode", tmp_path / "dot.png", "-o", tmp_path / "b.dipp", "--model", model, "--epsilon", "8")
    assert code == 0, err


def test_the_table_says_what_made_it(model: Path) -> None:
    table = json.loads((model / "calibration.json").read_text())
    facts = table["provenance"]
    assert facts["images"] == 6
    assert facts["command"] == "dipp calibrate --count 6"
    assert facts["version"] == dipp.__version__
    assert len(facts["model"]) == 64
    assert list(table["inflation"]) == ["paper"]
    assert table["sensing"].keys() == {"snrs", "quantiles", "touched", "searched", "realised"}
