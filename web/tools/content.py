"""Write the page's plans.json, networks, words.safetensors and samples into a folder.

There is a network for each engine, with the same weights. The one for WebAssembly has fewer multiplications, which take
more memory than some graphics processors have.

Plans are those of pairs, in few network calls, for pictures up to some sizes and each ε and rate of a grid, and those
of questions for objects of each size and ε. Everything in them is public and follows from the model's calibration and
the table of its words; the page computes their certificates again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from dipp import __version__, models
from dipp.codes import Pairs
from dipp.core.geometry import Geometry
from dipp.core.regions import Place, Regions
from dipp.core.steps import Question
from dipp.core.unit import Unit
from dipp.core.units import Cells, Picture, Pixel
from dipp.errors import DippError
from dipp.models import books, embedded
from dipp.models.books import Books
from dipp.models.export import export
from dipp.models.graph import Build
from dipp.models.winograd_graph import WinogradBuild
from dipp.planning import questions
from dipp.planning.planner import Point
from dipp.planning.regions import plan_of_regions
from dipp.planning.sensing import SensingPlanner
from dipp.planning.table import ErrorTable
from dipp.privacy import advice
from dipp.privacy.budget import Budget
from dipp.privacy.certificate import Certificate
from dipp.privacy.limits import ASSUMPTIONS, not_covered

EPSILONS = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0, 11.0, 16.0)
RATES = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
"""Rates that can be chosen, in payload bits per pixel."""
SIDES = (8, 16, 32, 64, 128, None)
"""Sides of the squares that can be hidden, in pixels; None for the whole picture."""
OBJECTS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""ε that can be chosen for such a square, wherever it lies, or for the whole picture."""
MOST_PLACES = 4
"""Largest number of boxes that may overlap if boxes are asked."""
CALLS = {256: 15, 512: 8, 1024: 3}
"""Network calls along the chain, by the side of the largest square picture: fewer than on the command line, because a
browser is slower. Three calls are expected to show 0.5 dB less than fifteen at ε = 1, and 1.3 dB less at ε = 4."""
SQUARE = min(CALLS)
"""Side of the pictures for which questions are planned; the plans serve all sizes."""
PIXELS = SQUARE * SQUARE
NETWORKS: dict[str, type[Build]] = {"wasm": WinogradBuild, "webgpu": Build}
"""Convolutions of the network for each engine of the page."""
SAMPLES = Path(__file__).parents[2] / "examples" / "pictures"


def planner(model: str) -> tuple[SensingPlanner, dict[str, Any]]:
    """Return a model's planner for pairs, the only code of pixels on the page, and the facts that files state."""
    denoiser, table = models.load(model), ErrorTable.of_model(model)
    measured = table.provenance.get("model", denoiser.identity)
    if table.residuals is None or measured != denoiser.identity:
        raise DippError("calibration", "one of sensing, for this model, is needed", "make it with `dipp calibrate`")
    names = {"model": denoiser.identity, "table": table.residuals.digest, "channels": denoiser.channels}
    names["planes"] = denoiser.planes
    geometry = Geometry(1, PIXELS, denoiser.channels)
    calls = CALLS[SQUARE]
    return SensingPlanner(table.residuals, denoiser.schedule, geometry, calls, max(RATES), codes=(Pairs(),)), names


def described(epsilon: float, rate: float, point: Point, geometry: Geometry) -> dict[str, Any]:
    """Return a plan for JSON, whose floats are read back exactly."""
    plan = point.plan
    (tilt,) = {step.tilt for step in plan.steps}
    promised = Certificate.of(plan, geometry)
    return {
        "pixels": geometry.pixels,
        "epsilon": epsilon,
        "rate": rate,
        "period": plan.mask.period,
        "tilt": tilt,
        "clips": [step.clip for step in plan.steps],
        "gains": [step.snr_gain for step in plan.steps],
        "bpp": point.bpp,
        "psnr": round(point.psnr, 2),
        "certificate": [promised.epsilon, promised.rho],
    }


def hiding(own: Books, side: int | None, epsilon: float, channels: int) -> dict[str, Any] | None:
    """Return the plan that hides squares of a side, or the whole picture, for JSON; None if no plan keeps the ε."""
    geometry = Geometry(SQUARE, SQUARE, channels)
    budget = Budget(epsilon=epsilon, unit=Picture()) if side is None else Budget(epsilon=epsilon, hidden=(side, side))
    units = (Picture(),) if side is None else questions.units_of(own)
    try:
        point = questions.QuestionPlanner(own, geometry, units).choose(budget)
    except DippError:
        return None
    plan = point.plan
    promised = Certificate.of(plan, geometry, hidden=budget.hidden)
    return {
        "side": side,
        "epsilon": epsilon,
        "unit": plan.unit.to_bytes().hex(),
        "questions": [question(step) for step in plan.steps],
        "bpp": point.bpp,
        "psnr": round(point.psnr, 2),
        "certificate": [promised.headline.epsilon, promised.rho],
    }


def asking(epsilon: float, places: int) -> dict[str, Any]:
    """Return the plan that asks regions of at most `places` places, for JSON."""
    unit = Regions(tuple(Place(0, 0, 0, 1, 1) for _ in range(places)))
    (step,) = plan_of_regions(unit, epsilon).steps
    return {"epsilon": epsilon, "places": places, "question": question(step)}


def question(step: Question) -> dict[str, Any]:
    """Return a step for JSON; integers too large for JavaScript's numbers are text."""
    found = {name: getattr(step, name) for name in ("split", "rounds", "candidate", "scale", "best")}
    weights = {"heavy": str(step.heavy), "light": str(step.light)}
    return found | weights | {"gain": step.snr_gain, "indexBits": step.index_bits}


def left_open(unit: Unit) -> list[str]:
    """Return what a certificate of a unit does not cover, without the names of Python's functions."""
    return [text.removesuffix(", see Certificate.compose") for text in not_covered(unit)]


def cells_not_covered() -> list[str]:
    """Return what a certificate of cells does not cover, with {cell} for the cell and {met} for the cells of a face."""
    example = Cells(8)
    face = str(example.met(60, 80))
    return [text.replace(example.short, "{cell}").replace(f" {face} ", " {met} ") for text in left_open(example)]


def plans(model: str) -> dict[str, Any]:
    """Return all plans of the page."""
    own, names = planner(model)
    planners = [
        replace(own, geometry=Geometry(1, side * side, own.geometry.channels), calls=calls)
        for side, calls in sorted(CALLS.items())
    ]
    found = [
        described(epsilon, rate, one.choose(Budget.pure(epsilon), bpp=rate), one.geometry)
        for one in planners
        for epsilon in EPSILONS
        for rate in RATES
    ]
    if not all(math.isfinite(one["psnr"]) and one["certificate"][0] <= one["epsilon"] for one in found):
        raise DippError("plans", "one exceeds its budget", "report this")
    words: dict[str, Any] = {
        "assumptions": ASSUMPTIONS,
        "notCovered": left_open(Pixel()),
        "readers": list(advice.READERS.items()),
        "recognisable": advice.RECOGNISABLE,
        # JSON has no infinity: the last grade has no largest ε.
        "scale": [
            {"largest": row.largest if math.isfinite(row.largest) else None, "name": row.name} for row in advice.SCALE
        ],
    }
    words_of = models.load(model).books
    hidden = [
        entry
        for side in SIDES
        for epsilon in OBJECTS
        if words_of is not None and (entry := hiding(words_of, side, epsilon, own.geometry.channels)) is not None
    ]
    if not all(one["certificate"][0] <= one["epsilon"] for one in hidden):
        raise DippError("plans", "one that hides an object exceeds its budget", "report this")
    asked = [
        asking(epsilon, places) for epsilon in OBJECTS for places in range(1, MOST_PLACES + 1) if words_of is not None
    ]
    names |= {"words": None if words_of is None else words_of.digest}
    words |= {"objectsNotCovered": {Cells.kind: cells_not_covered(), Picture.kind: left_open(Picture())}}
    grid = {"epsilons": EPSILONS, "first": advice.DEFAULT_EPSILON, "rates": RATES, "pixels": PIXELS}
    return {"version": __version__, **names, **grid, **words, "plans": found, "hiding": hidden, "regions": asked}


def main() -> None:
    """Write everything into a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", default=str(embedded.FOLDER))
    arguments = parser.parse_args()
    out: Path = arguments.out
    (out / "samples").mkdir(parents=True, exist_ok=True)
    pictures = sorted(SAMPLES.glob("*.png"))
    for path in pictures:
        shutil.copyfile(path, out / "samples" / path.name)
    networks = {}
    for engine, kind in NETWORKS.items():
        network = out / f"network-{engine}.onnx"
        export(models.load(arguments.model), network, kind)
        networks[engine] = hashlib.sha256(network.read_bytes()).hexdigest()
    if (source := Path(arguments.model) / books.NAME).is_file():
        shutil.copyfile(source, out / books.NAME)
    more = {"samples": [path.name for path in pictures], "networks": networks}
    (out / "plans.json").write_text(json.dumps(plans(arguments.model) | more, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()
