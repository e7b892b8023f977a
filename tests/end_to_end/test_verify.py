"""`dipp info --verify` refuses files with rewritten numbers, even if every checksum and every claim fits them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.commands import Command
from helpers.refusals import printed
from PIL import Image

import dipp
from dipp.attest import keys
from dipp.cli.options import EXIT_NOT_COMPARED
from dipp.codes import Flat, StepLimited
from dipp.core.code import Code
from dipp.core.geometry import Geometry
from dipp.core.plan import Coding, Plan
from dipp.data import manifest, shard_writing
from dipp.data.shards import Shard
from dipp.data.store import Store
from dipp.format.archive import Archive
from dipp.format.parameters import PublicParameters
from dipp.models import embedded
from dipp.planning import verification
from dipp.planning.table import ErrorTable

pytestmark = pytest.mark.usefixtures("one_thread", "quick")


def rewritten(
    made: Path, to: Path, change: Callable[[Any], dict[str, Any]], code: Code | None = None
) -> tuple[float, float]:
    """Write the file again with other numbers in its steps, or another code; return ε before and after."""
    source = dipp.open(made)
    shapes = [source.geometry(image) for image in range(len(source))]
    rows = [source.image_indices(image) for image in range(len(source))]
    forged = Archive.build(with_steps(source.parameters, change, code), shapes, rows)
    forged.save(to)
    return source.certificate.epsilon, forged.certificate.epsilon


def with_steps(
    parameters: PublicParameters, change: Callable[[Any], dict[str, Any]], code: Code | None = None
) -> PublicParameters:
    """Return the release with other numbers in its steps, or another code."""
    steps = tuple(dataclasses.replace(step, **change(step)) for step in parameters.plan.steps)
    coding = parameters.plan.coding
    plan = Plan(Coding(coding.channel, code or coding.code), steps, parameters.plan.separate)
    return dataclasses.replace(parameters, plan=plan)


def restated(path: Path, change: Callable[[PublicParameters], PublicParameters]) -> None:
    """Write a shard again with the same indices and other public parameters."""
    shard = Shard.read(path)
    numbers, rows = shard.ids.tolist(), list(shard.all_rows())
    images = [shard_writing.Image(number, shard.geometry(i), None, rows[i]) for i, number in enumerate(numbers)]
    path.unlink()
    with path.open("wb") as file:
        shard_writing.write(file, change(shard.parameters), None, images, shard.first, shard.positions, ())


def faint(step: Any) -> dict[str, Any]:
    """Return a tilt that claims almost no ε; decoding does not need it."""
    return {"tilt": float(np.float32(step.tilt / 800))}


@pytest.mark.parametrize("budget", [("--epsilon", 4), ("--epsilon", 8, "--preset", "paper")])
def test_an_honest_file_is_consistent(
    budget: tuple[object, ...], model: Path, pictures: Path, tmp_path: Path, run: Command
) -> None:
    made = tmp_path / "one.dipp"
    assert run("encode", pictures / "0.png", "-o", made, "--model", model, *budget)[0] == 0
    code, out, err = run("info", made, "--verify")
    assert code == EXIT_NOT_COMPARED, err
    assert "\nconsistent: " in out
    assert "verified" not in out
    assert "these were not compared with a model: give --model" in out
    code, out, err = run("info", made, "--verify", "--model", model)
    assert code == 0, err
    assert "these from its model and table" in out
    assert run("info", made, "--verify", "--calibration", model / "calibration.json", "--model", model)[0] == 0
    code, _, err = run("info", made, "--verify", "--calibration", model / "calibration.json")
    assert (code, err) == (1, printed("calibration", "belongs to no given model", "name its model with --model") + "\n")
    code, _, err = run("info", made, "--model", model)
    assert (code, err) == (1, printed("model and calibration", "need --verify", "add it") + "\n")


@pytest.mark.parametrize(
    ("preset", "epsilon", "change"),
    [
        ("sharp", 8, lambda step: {"tilt": float(np.float32(0.5 * step.tilt))}),
        ("sharp", 2, lambda step: {"tilt": float(np.float32(0.95 * step.tilt))}),
        ("sharp", 2, lambda step: {"tilt": step.tilt / 2, "clip": step.clip / 2}),
        ("paper", 8, lambda step: {"snr_gain": float(np.float32(0.8 * step.snr_gain))}),
    ],
    ids=["half the tilt", "a little of the tilt", "tilt and clip", "the gain of a step"],
)
def test_verify_refuses_a_smaller_stated_epsilon(
    preset: str,
    epsilon: float,
    change: Callable[[Any], dict[str, Any]],
    model: Path,
    pictures: Path,
    tmp_path: Path,
    run: Command,
) -> None:
    """Each of these files decodes to the same picture as the honest file, and its own numbers fit each other."""
    made, forged = tmp_path / "one.dipp", tmp_path / "forged.dipp"
    own = ("--model", model if preset == "paper" else embedded.FOLDER)
    run("encode", pictures / "0.png", "-o", made, *own, "--epsilon", epsilon, "--preset", preset)
    before, after = rewritten(made, forged, change)
    assert after < 0.98 * before
    assert dipp.open(forged).certificate.epsilon == after  # nothing in the file itself shows it
    code, out, err = run("info", forged, "--verify", *own)
    assert code == 1
    assert not out
    assert err.startswith(printed("plan"))
    assert err.endswith("; do not trust the file\n")
    assert err.count("\n") == 1


def test_verify_refuses_another_alpha(pictures: Path, tmp_path: Path, run: Command) -> None:
    """Decoding the flat code does not use α, by which ε is multiplied."""
    made, forged, large = (tmp_path / name for name in ("one.dipp", "forged.dipp", "large.png"))
    with Image.open(pictures / "0.png") as picture:
        picture.resize((32, 32)).save(large)
    run("encode", large, "-o", made, "--epsilon", 4, "--bpp", 0.3)
    assert dipp.open(made).parameters.plan.code == Flat()
    assert run("info", made, "--verify")[0] == 0
    before, after = rewritten(made, forged, lambda _: {}, Flat(Fraction(1, 10)))
    assert after < before / 5
    code, _, err = run("info", forged, "--verify")
    assert code == 1
    assert err.startswith(printed("plan"))
    assert "α = 1/10" in err


def as_flat(parameters: PublicParameters) -> PublicParameters:
    """Return a release of step-limited PPR that claims to use the flat code; sizes, gains and indices fit."""
    steps = tuple(dataclasses.replace(step, exponent_units=0) for step in parameters.plan.steps)
    plan = Plan(Coding(parameters.plan.channel, Flat()), steps, parameters.plan.separate)
    return dataclasses.replace(parameters, plan=plan)


def test_verify_refuses_another_code(pictures: Path, tmp_path: Path, run: Command) -> None:
    """Decoding does not depend on the code that searched, and the flat code has half the ε for the same tilt."""
    made, forged, large = (tmp_path / name for name in ("one.dipp", "forged.dipp", "large.png"))
    with Image.open(pictures / "0.png") as picture:
        picture.resize((64, 64)).save(large)
    run("encode", large, "-o", made, "--epsilon", 16, "--bpp", 0.2, "--preset", "swift")
    source = dipp.open(made)
    assert source.parameters.plan.code == StepLimited()
    assert run("info", made, "--verify")[0] == 0
    Archive.build(as_flat(source.parameters), [source.geometry(0)], [source.image_indices(0)]).save(forged)
    assert dipp.open(forged).certificate.epsilon < 0.51 * source.certificate.epsilon
    code, _, err = run("info", forged, "--verify")
    assert code == 1
    assert err.startswith(printed("indices", "are too often small for the flat code"))


def test_verify_refuses_another_code_in_a_dataset(pictures: Path, tmp_path: Path, run: Command) -> None:
    """The indices of all shards are checked."""
    target, options = (
        tmp_path / "release",
        ("--preset", "swift", "--epsilon", 16, "--bpp", 0.2, "--shard-size", 2, "--workers", 1),
    )
    code, _, err = run("privatize", pictures, target, *options)
    assert code == 0, err
    assert run("info", target, "--verify")[0] == 0
    for path in Store(target).shards():
        assert Shard.read(path).parameters.plan.code == StepLimited()
        restated(path, as_flat)
    (target / "manifest.json").write_text(json.dumps(manifest.manifest(Store(target), None)))
    assert run("info", target)[0] == 0
    code, _, err = run("info", target, "--verify")
    assert code == 1
    assert err.startswith(printed("indices"))


@pytest.mark.parametrize("preset", ["swift", "paper"])
def test_verify_refuses_channels_that_are_called_pixels(
    preset: str, model: Path, pictures: Path, tmp_path: Path, run: Command
) -> None:
    """A pixel of one channel is touched less often than a pixel of three; no decoder accepts such a file."""
    made, forged = tmp_path / "one.dipp", tmp_path / "forged.dipp"
    own = ("--model", model if preset == "paper" else embedded.FOLDER)
    run("encode", pictures / "0.png", "-o", made, *own, "--epsilon", 16, "--preset", preset)
    source = dipp.open(made)
    size = source.geometry(0)
    parameters = dataclasses.replace(source.parameters, channels=1)
    Archive.build(parameters, [Geometry(size.height, 3 * size.width, 1)], [source.image_indices(0)]).save(forged)
    assert dipp.open(forged).certificate.epsilon < source.certificate.epsilon / 2
    code, _, err = run("info", forged, "--verify", *own)
    assert (code, err) == (
        1,
        printed("channels", "are 1 in the file, and its model has 3", "do not trust the file") + "\n",
    )


def test_verify_refuses_tilts_that_differ_from_step_to_step(pictures: Path, tmp_path: Path, run: Command) -> None:
    made, forged = tmp_path / "one.dipp", tmp_path / "forged.dipp"
    run("encode", pictures / "0.png", "-o", made, "--epsilon", 4)
    last = dipp.open(made).parameters.plan.steps[-1]
    rewritten(made, forged, lambda step: {"tilt": step.tilt / 2 if step == last else step.tilt})
    code, _, err = run("info", forged, "--verify")
    assert code == 1
    assert err.startswith(printed("plan", "has steps of different tilts"))


def test_verify_always_compares_with_the_model_that_ships(pictures: Path, tmp_path: Path, run: Command) -> None:
    made, forged = tmp_path / "one.dipp", tmp_path / "forged.dipp"
    run("encode", pictures / "0.png", "-o", made, "--epsilon", 2)
    code, out, err = run("info", made, "--verify", "--json")
    assert code == 0, err
    facts = json.loads(out)
    assert facts["verified"] is True
    assert "these from its model and table" in facts["verified_reason"]
    rewritten(made, forged, lambda step: {"tilt": float(np.float32(0.9 * step.tilt))})
    code, _, err = run("info", forged, "--verify")
    assert code == 1
    assert "does not follow from its tilt" in err


@pytest.mark.parametrize("kind", ["file", "dataset"])
def test_files_that_info_refuses_are_neither_signed_nor_verified(
    kind: str, pictures: Path, tmp_path: Path, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of ε = 4 states 0.006, and a signer with a modified dipp has signed it."""
    keys.make(tmp_path / "me")
    target = tmp_path / ("a.dipp" if kind == "file" else "release")
    if kind == "file":
        run("encode", pictures / "0.png", "-o", target, "--epsilon", 4)
        before, after = rewritten(target, target, faint)
        assert before > 3.5
        assert after < 0.006
    else:
        run("privatize", pictures, target, "--epsilon", 4)
        for path in Store(target).shards():
            restated(path, lambda release: with_steps(release, faint))
        (target / "manifest.json").write_text(json.dumps(manifest.manifest(Store(target), None)))
        assert dipp.load(target).certificate.epsilon < 0.006  # type: ignore[union-attr]
    code, _, refusal = run("info", target, "--verify")
    assert code == 1
    assert refusal.endswith("; do not trust the file\n")
    code, out, err = run("info", target, "--verify", "--json")
    assert (code, err) == (1, refusal)
    assert json.loads(out) == {"verified": False, "verified_reason": refusal.removeprefix("dipp: ").strip()}
    assert run("sign", target, "--key", tmp_path / "me") == (1, "", refusal)
    with monkeypatch.context() as patch:
        patch.setattr(verification, "verify", lambda *_: None)
        assert run("sign", target, "--key", tmp_path / "me")[0] == 0
    assert run("verify", target, "--key", tmp_path / "me.pub") == (1, "", refusal)


def test_files_of_an_unknown_model_are_neither_verified_nor_refuted(
    model: Path, pictures: Path, tmp_path: Path, run: Command
) -> None:
    """The answer is an exit code of its own, null in JSON, and no signature."""
    made, key = tmp_path / "one.dipp", tmp_path / "me"
    keys.make(key)
    run("encode", pictures / "0.png", "-o", made, "--model", model, "--epsilon", 4)
    own = ("--model", model)
    code, out, _ = run("info", made, "--json")
    assert (code, json.loads(out)["verified"]) == (0, None)
    code, out, _ = run("info", made, "--verify", "--json")
    assert (code, json.loads(out)["verified"]) == (EXIT_NOT_COMPARED, None)
    assert "not compared with a model" in json.loads(out)["verified_reason"]
    code, _, err = run("sign", made, "--key", key)
    assert code == 1
    assert err.endswith("does not ship with dipp; name it with --model to sign\n")
    assert run("sign", made, "--key", key, *own)[0] == 0
    code, out, _ = run("verify", made, "--key", tmp_path / "me.pub")
    assert code == EXIT_NOT_COMPARED
    assert "these were not compared with a model" in out
    code, out, _ = run("verify", made, "--key", tmp_path / "me.pub", "--json")
    assert (code, json.loads(out)["verified"]) == (EXIT_NOT_COMPARED, None)
    code, out, _ = run("verify", made, "--key", tmp_path / "me.pub", "--json", *own)
    assert (code, json.loads(out)["verified"]) == (0, True)


def test_another_model_or_table_is_refused(model: Path, pictures: Path, tmp_path: Path, run: Command) -> None:
    made = tmp_path / "one.dipp"
    run("encode", pictures / "0.png", "-o", made, "--model", model, "--epsilon", 4)
    code, _, err = run("info", made, "--verify", "--model", embedded.FOLDER)
    assert code == 1
    assert err.startswith(printed("model"))
    assert "--model" in err
    table = ErrorTable.of_model(model)
    residuals = table.residuals
    assert residuals is not None
    other = dataclasses.replace(residuals, quantiles=residuals.quantiles * 1.1)
    dataclasses.replace(table, residuals=other).save(tmp_path / "other.json")
    code, _, err = run("info", made, "--verify", "--model", model, "--calibration", tmp_path / "other.json")
    assert code == 1
    assert err.startswith(printed("table", "in the file names other residuals"))
    dataclasses.replace(table, residuals=None).save(tmp_path / "old.json")
    code, _, err = run("info", made, "--verify", "--model", model, "--calibration", tmp_path / "old.json")
    assert code == 1
    assert err.startswith(printed("calibration", "has no residuals of sensing"))


def test_verify_compares_a_dataset_with_its_model(model: Path, pictures: Path, tmp_path: Path, run: Command) -> None:
    code, _, err = run("privatize", pictures, tmp_path / "release", "--model", model, "--epsilon", 4)
    assert code == 0, err
    code, out, err = run("info", tmp_path / "release", "--verify", "--model", model)
    assert code == 0, err
    assert "each consistent" in out
    assert "these from its model and table" in out
    code, _, err = run("info", tmp_path / "release", "--verify", "--model", embedded.FOLDER)
    assert code == 1
    assert err.startswith(printed("model"))
    assert "--model" in err
