"""Units larger than a pixel: dipp against rivals at the same unit and pure ε, on photographs.

    python benchmarks/units.py PHOTOGRAPHS --out benchmarks/results/units.json
    python benchmarks/units.py PHOTOGRAPH --time --out benchmarks/results/units-time.json
    python benchmarks/units.py CIFAR --cifar --count 256 --model TUNED --plain DDPM --device cuda --workers 4 \
        --out benchmarks/results/units-cifar.json

PHOTOGRAPHS is a folder of pictures that neither network nor words have seen: Kodak's 24 photographs and the 19 of
budgie-backgrounds. Each is scaled to a shorter side of 512, and the square in its middle is released:

| method | what it is |
|---|---|
| `dipp` | the plan of `--unit N --epsilon E`, encoded and decoded |
| `floor` | the mean colour of all crops, which costs nothing |
| `sharp` | `--unit pixel` at ε/b², the same promise for b×b pixels, as its planner expects; null if out of reach |
| `DP-Pix` | means of cells with Laplace noise of scale 3·255/ε on each of three channels [Fan, 2018], as eight bits |
| `DP-Pix, denoised` | the same before it is clipped, by the same network at the resolution of the cells |
| `PrivUnitG` | one answer a cell about its coarse pixels (`experiments/comparisons/units.py`), by the same network |
| `words` | one question of words, interpolated without a network |

For `DP-Pix, denoised` and `PrivUnitG`, the SNR that the network is told is the best one against the clean crops. So are
the number of coarse pixels and the norm that PrivUnitG shortens cells to. `dipp` has no such advantages. PSNR in dB is
the mean over crops.

*CIFAR-10*: CIFAR is the folder `cifar-10-batches-py`. TUNED is the network that `benchmarks/finetune.py` made of DDPM;
it has not seen the training pictures that words are made from and questions are chosen on. Words are made by what
`dipp words` runs, once for each grid of coarse pixels that a first question may have. The first test pictures are
released. Rivals are denoised by the same network, from their answers interpolated to the picture's size, plainly or
shortened to their expected power, whichever is best. One rival more, `PrivUnitG, chained`, answers dipp's own
questions in place of words (`experiments/comparisons/chained.py`). The floor is the mean of training pictures.
PSNR is that of the mean squared error over all pictures. `sharp` is planned for DDPM, by
`benchmarks/results/ddpm-table.json`.

*Time*: one photograph, resized to 768×512 and to 4000×3000, goes through the commands `dipp encode --unit 16
--epsilon 8` and `dipp decode`, each in a process of its own with all its imports. The first round, in which loops are
compiled, does not count. Beside the time on the clock there are the processor's (user and system), the peak of resident
memory, and the load of the machine before the command.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import checkout  # noqa: F401 - for `experiments`
import large
import numpy as np
from PIL import Image, ImageOps
from provenance import provenance, write

import dipp
from dipp import models
from dipp.codec.grids import Cuts, interpolated
from dipp.codec.options import planned
from dipp.codec.pictures import Pixels
from dipp.core.arrays import host
from dipp.core.geometry import Geometry
from dipp.core.unit import Unit
from dipp.core.units import Cells, Picture
from dipp.data import cifar
from dipp.errors import DippError
from dipp.models import embedded
from dipp.models.books import Books
from dipp.models.denoiser import Denoiser
from dipp.models.evidence import Evidence
from dipp.planning.questions import MOST, QuestionPlanner, Row, candidates_of, plan_of, step_of
from dipp.privacy.budget import Budget
from dipp.training import public_pictures, recipes, words
from dipp.training.asking import LABELS, AskedPictures
from experiments.comparisons import chained
from experiments.comparisons import units as rivals

HERE = Path(__file__).parent
SIDE = 512
CASES: tuple[tuple[Unit, float], ...] = (
    (Picture(), 8.0),
    (Picture(), 32.0),
    *((Cells(side), epsilon) for side in (64, 32, 16, 8) for epsilon in (4.0, 8.0, 16.0)),
)
"""The cases, the quickest first."""
CIFAR_SIDE = 32
CIFAR_CASES: tuple[tuple[Unit, float], ...] = (
    (Cells(4), 4.0),
    *((Cells(8), epsilon) for epsilon in (4.0, 8.0, 16.0, 32.0)),
    *((Cells(16), epsilon) for epsilon in (8.0, 16.0, 32.0)),
    *((Picture(), epsilon) for epsilon in (8.0, 16.0, 64.0, 128.0)),
)
WORDED = {4: 16000, 8: 8000, 16: 4000, 32: 2000}
"""Number of training pictures, from the first, that words are made from, by the side of the coarse picture of a first
question. A small coarse picture has few blocks, and a book needs many."""
GRIDS = tuple(WORDED)
MOST_WORDED, TRIED = max(WORDED.values()), 256
"""Number of training pictures that words are made from, and of those after them on which questions are tried."""
ASKED = 2000
"""Number of training pictures, from the first, by which the rival of chained answers is fitted."""
DDPM_TABLE = HERE / "results/ddpm-table.json"
TIMED = ((768, 512), (4000, 3000))
TIMED_AS = ("--unit", "16", "--epsilon", "8")


def psnr(pictures: Any, originals: Pixels) -> float:
    """Return the mean PSNR of pictures with values from 0 to 255; for small ones, that of the mean squared error."""
    errors = np.square(np.asarray(pictures, np.float64) - originals).reshape(len(originals), -1).mean(1)
    errors = errors.mean(keepdims=True) if originals.shape[1] == CIFAR_SIDE else errors
    return round(float(np.mean(10 * np.log10(255**2 / errors))), 2)


def asked_pictures(pixels: Pixels, unit: Unit, epsilon: float, denoiser: Denoiser) -> tuple[Pixels, float]:
    """Return the pictures that questions by a denoiser's own words show, and their payload bits per pixel."""
    if denoiser.books is None:
        raise DippError("denoiser", "has no words", "make them with `dipp words`")
    planner = QuestionPlanner(denoiser.books, Geometry.of(pixels.shape[1:]), (unit,))
    codec = dipp.Codec(denoiser, planner.choose(Budget(epsilon, unit=unit)).plan, table=denoiser.books.digest)
    archive = codec.encode(list(pixels), odometer=False)
    return np.stack(list(codec.decode(archive))), archive.payload_bpp


def by_pixel(pixels: Pixels, epsilon: float, **options: Any) -> float | None:
    """Return the PSNR that the planner expects of `sharp`; None if no plan keeps the budget."""
    try:
        return round(planned(size=pixels.shape[1:3], epsilon=epsilon, **options).point.psnr, 2)
    except DippError:
        return None


def dp_pix(pixels: Pixels, unit: Unit, epsilon: float, denoiser: Denoiser) -> tuple[Pixels, Pixels]:
    """Return DP-Pix, and DP-Pix denoised at the best SNR."""
    found = rivals.dp_pix(pixels, unit, epsilon, np.random.default_rng(0))
    return found.squares(), denoised_best(found, denoiser, pixels)


def denoised_best(found: rivals.Answers, denoiser: Denoiser, pixels: Pixels) -> Pixels:
    """Return the network's best picture of noisy coarse pixels, at several SNRs around theirs."""
    if denoiser.any_size:
        return best_of([found.denoised(denoiser, factor) for factor in LABELS], pixels)
    shrunk, certain = found.share, 1 / found.power + found.snr
    states = (found.on_pixels(), found.snr), (found.on_pixels(shrunk), certain)
    tried = [denoiser.predict(Evidence(state, factor * snr)) for state, snr in states for factor in LABELS]
    return best_of([rivals.shown(one) for one in tried], pixels)


def best_of(tried: list[Pixels], pixels: Pixels) -> Pixels:
    """Return the pictures with the highest PSNR."""
    return max(tried, key=lambda one: psnr(one, pixels))


def priv_unit(pixels: Pixels, unit: Unit, epsilon: float, denoiser: Denoiser) -> Pixels:
    """Return one answer of PrivUnitG about each unit, denoised; the best of several sizes, norms and SNRs."""
    generator = np.random.default_rng(0)
    tried = [
        rivals.priv_unit(pixels, unit, parts, radius, epsilon, generator)
        for parts in rivals.PARTS
        for radius in rivals.radii(pixels, unit, parts)
    ]
    return denoised_best(max(tried, key=lambda one: psnr(one.shrunk(), pixels)), denoiser, pixels)


def plain_words(pixels: Pixels, unit: Unit, epsilon: float, denoiser: Denoiser) -> Pixels:
    """Return one question of words to each unit, interpolated; of four draws if one cannot take all of ε."""
    split = 1 if epsilon <= MOST else 2
    each = epsilon / split**2
    asked = AskedPictures(denoiser, unit, pixels)
    step = step_of(candidates_of(each)._replace(split=split, rounds=4), each)
    for _, _, ask in asked.rounds(step):
        ask(denoiser)
    sides = pixels.shape[1], pixels.shape[2]
    cuts = Cuts(*(unit.divisions(side, step.parts) for side in sides))
    return rivals.shown(interpolated(host(asked.state), cuts, Cuts(*(np.arange(side + 1) for side in sides))))


def compared(
    pixels: Pixels, unit: Unit, epsilon: float, denoiser: Denoiser, floor: Any, **sharp: Any
) -> dict[str, Any]:
    """Return the PSNR of every method at a unit and ε.

    Args:
        pixels: The pictures.
        unit: The unit.
        epsilon: Its pure ε.
        denoiser: The denoiser with its words.
        floor: A picture, or a colour, that is known before.
        sharp: Options of the plan by pixels: by default, the denoiser that ships makes it.
    """
    area = unit.side**2 if isinstance(unit, Cells) else pixels.shape[1] * pixels.shape[2]
    own = asked_pictures(pixels, unit, epsilon, denoiser)
    noisy, denoised = dp_pix(pixels, unit, epsilon, denoiser)
    found = {
        "dipp": own[0],
        "floor": np.broadcast_to(np.rint(floor), pixels.shape),
        "DP-Pix": noisy,
        "DP-Pix, denoised": denoised,
        "PrivUnitG": priv_unit(pixels, unit, epsilon, denoiser),
        "words": plain_words(pixels, unit, epsilon, denoiser),
    }
    quality: dict[str, float | None] = {name: psnr(pictures, pixels) for name, pictures in found.items()}
    quality["sharp"] = by_pixel(pixels, epsilon / area, **sharp)
    rates = {"dipp": round(own[1], 5), "DP-Pix": round(24 / area, 5)}
    return {"unit": unit.short, "epsilon": epsilon, "PSNR": quality, "bits per pixel": rates}


def crops(folder: Path, count: int) -> Pixels:
    """Return squares of photographs, evenly spread over the names in a folder."""
    paths = sorted(path for path in folder.iterdir() if path.suffix in (".png", ".jpg"))
    chosen = [paths[i * len(paths) // count] for i in range(count)]
    return np.stack([cropped(path) for path in chosen])


def cropped(path: Path) -> Pixels:
    """Return the square in the middle of a photograph, scaled to `SIDE` pixels a side."""
    with Image.open(path) as image:
        return np.asarray(ImageOps.fit(image.convert("RGB"), (SIDE, SIDE), Image.Resampling.LANCZOS))


class Cifar:
    """The comparison of all methods on CIFAR-10, with the network of one process."""

    own: Cifar
    """The comparison of this process."""

    def __init__(self, model: Path, plain: Path, device: str, training: Pixels, pixels: Pixels) -> None:
        self.denoiser: Any = models.load(model, device)
        self.sharp = {"model": plain, "device": "cpu", "calibration": DDPM_TABLE}
        self.training, self.pixels = training, pixels

    @staticmethod
    def begin(*arguments: Any) -> None:
        """Prepare a process."""
        Cifar.own = Cifar(*arguments)

    @staticmethod
    def words(grid: int) -> Books:
        """Return words for first questions on a grid, and for the questions that follow."""
        self, side = Cifar.own, 4 * CIFAR_SIDE // grid
        return Books(words.books(self.denoiser, self.training[: WORDED[grid]], print, sides=(side,)), [], "")

    @staticmethod
    def compared(case: tuple[Unit, float, dict[int, Books]]) -> dict[str, Any]:
        """Return the row of a unit and ε, by the questions that are best on training pictures."""
        self, (unit, epsilon, books) = Cifar.own, case
        side = unit.side if isinstance(unit, Cells) else CIFAR_SIDE
        found: list[tuple[float, Row, Denoiser]] = []
        for shape in recipes.SHAPES:
            grid = 4 * CIFAR_SIDE // side * shape[0]
            if grid <= CIFAR_SIDE and epsilon <= MOST * sum(split**2 for split in shape):
                known = replace(self.denoiser, books=books[grid])
                others = self.training[MOST_WORDED:]
                rows = recipes.tried(known, unit, side, epsilon, shape, others, coarse=others[..., 0].size)
                found += [(row.psnr, row, known) for row in rows]
        _, row, known = max(found, key=lambda one: one[0])
        digest = hashlib.sha256(repr(row).encode()).hexdigest()
        asked = Books(known.books.books, [row.to_dict()], digest)  # type: ignore[union-attr]
        chosen: Denoiser = replace(known, books=asked)  # type: ignore[type-var]
        compared_here = compared(self.pixels, unit, epsilon, chosen, self.training.mean(0), **self.sharp)
        plan = plan_of(row, unit, epsilon)
        public, generator = self.training[:ASKED], np.random.default_rng(0)
        gaussian = chained.released(plan.steps, epsilon / row.draws, unit, known, public, self.pixels, generator)
        compared_here["PSNR"]["PrivUnitG, chained"] = psnr(gaussian, self.pixels)
        expected = {
            "on training pictures": round(row.psnr, 2),
            "questions": [recipe._asdict() for recipe in row.recipes],
        }
        return {**compared_here, **expected}


def compare_cifar(arguments: argparse.Namespace) -> None:
    """Compare all methods on CIFAR-10, in several processes."""
    training = public_pictures.load(arguments.photographs, CIFAR_SIDE, MOST_WORDED + TRIED).pixels
    pixels = np.stack(list(cifar.read(arguments.photographs / "test_batch")[0]))[: arguments.count]
    given = arguments.model, arguments.plain, arguments.device, training, pixels
    facts, rows = {**provenance(arguments.device), "pictures": len(pixels)}, list[dict[str, Any]]()
    with multiprocessing.get_context("spawn").Pool(arguments.workers, Cifar.begin, given) as pool:
        books = dict(zip(GRIDS, pool.map(Cifar.words, GRIDS, 1), strict=True))
        for row in pool.imap(Cifar.compared, [(*case, books) for case in CIFAR_CASES], 1):
            rows.append(row)
            print(row, flush=True)
            write(arguments.out, {**facts, "rows": rows})


def timed(path: Path, home: Path, width: int, height: int) -> dict[str, Any]:
    """Encode and decode one resized photograph by the commands, each in a process of its own."""
    source, file, decoded = home / "source.png", home / "file.dipp", home / "decoded.png"
    with Image.open(path) as image:
        image.convert("RGB").resize((width, height), Image.Resampling.LANCZOS).save(source)
    found: dict[str, Any] = {"size": f"{width}×{height}"}
    commands: dict[str, tuple[Any, ...]] = {"encode": (source, "-o", file, *TIMED_AS), "decode": (file, "-o", decoded)}
    for name, words_of in commands.items():
        load = round(os.getloadavg()[0], 2)
        used = large.command(large.HERE, home, name, *map(str, words_of), "--overwrite")
        found[name] = {**used, "load before": load}
    return {**found, "bytes": file.stat().st_size, "PSNR": large.psnr(source, decoded)}


def times(path: Path, rounds: int) -> list[dict[str, Any]]:
    """Return the time and memory of every size, in several rounds after one that does not count."""
    with tempfile.TemporaryDirectory() as home:
        tried = [timed(path, Path(home), *size) for _ in range(rounds + 1) for size in TIMED]
    return tried[len(TIMED) :]


def main() -> None:
    """Compare all methods at every unit and ε, or time two sizes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photographs", type=Path)
    parser.add_argument("--count", type=int, default=4)
    parser.add_argument("--sides", type=int, nargs="*", help="compare only cells of these sides, on photographs")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cifar", action="store_true", help="the folder is CIFAR-10's")
    parser.add_argument("--model", type=Path, help="for CIFAR-10: folder of the network")
    parser.add_argument("--plain", type=Path, help="for CIFAR-10: folder of the network that `sharp` is planned for")
    parser.add_argument("--device", default="cpu", help="for CIFAR-10: device")
    parser.add_argument("--workers", type=int, default=1, help="for CIFAR-10: number of processes")
    parser.add_argument("--time", action="store_true", help="only time the commands on one photograph")
    parser.add_argument("--rounds", type=int, default=2, help="rounds of --time, after one that does not count")
    arguments = parser.parse_args()
    if arguments.time:
        write(arguments.out, {**provenance(), "rows": times(arguments.photographs, arguments.rounds)})
        return
    if arguments.cifar:
        compare_cifar(arguments)
        return
    pixels = crops(arguments.photographs, arguments.count)
    facts = {**provenance(), "photographs": len(pixels)}
    cases = tuple(case for case in CASES if arguments.sides is None or case[0].square in arguments.sides)
    denoiser = models.load(embedded.FOLDER, "cpu")
    compare(cases, pixels, denoiser, pixels.mean((0, 1, 2)), facts, arguments.out)


def compare(
    cases: tuple[tuple[Unit, float], ...], pixels: Pixels, denoiser: Denoiser, floor: Any, facts: Any, out: Path
) -> None:
    """Compare all methods in every case, and write the results after each."""
    rows = list[dict[str, Any]]()
    for unit, epsilon in cases:
        rows.append(compared(pixels, unit, epsilon, denoiser, floor))
        print(rows[-1], flush=True)
        write(out, {**facts, "rows": rows})


if __name__ == "__main__":
    main()
