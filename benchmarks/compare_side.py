"""One side of `compare.py`: encode and decode its cases with the dipp of this interpreter.

    python compare_side.py CASES.json OUT.json

Only the functions under "Names of the API in each checkout" use the API of dipp. Each tries the newer names first.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from dipp.core import randomness
from dipp.models.denoiser import Denoiser
from dipp.models.diffusion import NoiseSchedule

SCHEDULE = {"beta_schedule": "linear", "beta_start": 1e-4, "beta_end": 0.02, "num_train_timesteps": 1000}


class ScriptedBytes:
    """A replacement for the private bytes: SHA-256 in counter mode, which depends only on the number of bytes drawn."""

    def __init__(self, name: str) -> None:
        self._name, self._block, self._rest = name.encode(), 0, b""

    def __call__(self, count: int) -> bytes:
        """Return the next bytes."""
        while len(self._rest) < count:
            blocks = range(self._block, self._block + 1 + count // 32)
            self._rest += b"".join(hashlib.sha256(self._name + b"/%d" % block).digest() for block in blocks)
            self._block = blocks.stop
        taken, self._rest = self._rest[:count], self._rest[count:]
        return taken


class Blur(Denoiser):
    """A denoiser without weights: a 3×3 mean of the state, shrunk by its SNR."""

    def __init__(self, channels: int, identity: str) -> None:
        self.schedule = NoiseSchedule.from_config(SCHEDULE)
        self.identity, self.channels, self.sample_size = identity, channels, (16, 16)
        self.device = torch.device("cpu")

    def x0(self, x_t: torch.Tensor, t: int, *, fast: bool = False) -> torch.Tensor:  # noqa: ARG002
        """Return the mean of neighbours, shrunk more at a lower SNR."""
        snr = 9 * self.schedule.snr(t)
        y = x_t / self.schedule.gamma(t)
        blurred = functional.avg_pool2d(y, 3, 1, 1, count_include_pad=False)
        return (blurred * (snr / (snr + 1))).clamp(-1, 1)

    def predict(self, evidence: Any, numbers: Any = None) -> torch.Tensor:  # noqa: ARG002
        """Return the prediction at the timestep of the nearest SNR; checkouts before `Evidence` need this method."""
        t = self.schedule.nearest(evidence.level)
        return self.x0(self.schedule.gamma(t) * evidence.merged.state, t)


# Names of the API in each checkout


def plan_of_preset(case: dict[str, Any], denoiser: Denoiser, table: Any) -> tuple[Any, Any]:
    """Return the plan that the planner of a preset chooses, and its budget."""
    from dipp.planning import presets

    recipe = presets.preset(case["preset"])
    limits = {name: case.get("budget", {}).get(name) for name in ("epsilon", "delta", "rho")}
    budget = recipe.budget(**limits)
    height, width = case.get("planned_for", denoiser.sample_size)
    size: Any = height * width
    if "pixels" not in inspect.signature(recipe.planner).parameters:
        from dipp.core.geometry import Geometry

        size = Geometry(height, width, denoiser.channels)
    planner = recipe.planner(denoiser, table, budget, size)
    point = planner.choose(budget, final_timestep=case.get("final_timestep"), bpp=case.get("bpp"))
    return point.plan, budget


def table_of(path: Path) -> Any:
    """Return the cost table in a file."""
    from dipp.planning.table import ErrorTable

    return ErrorTable.of_model(path.parent, path)


def plan_by_hand(case: dict[str, Any], schedule: NoiseSchedule) -> Any:
    """Return the plan that a case describes."""
    from dipp.codes import Flat, Functional, Pairs, StepLimited
    from dipp.core.channels import Gaussian, Laplace, Sign
    from dipp.core.plan import Coding, Plan

    try:  # newer checkouts have a module of steps
        from dipp.core.steps import SensingStep, Step
    except ImportError:
        from dipp.core.plan import SensingStep, Step  # type: ignore[no-redef, attr-defined]

    codes: dict[str, Any] = {
        "pairs": Pairs,
        "flat": Flat,
        "pfr": Functional,
        "ppr": lambda: StepLimited(Fraction(case["alpha"])),
    }
    noises: dict[str, Any] = {"laplace": Laplace, "gaussian": Gaussian, "sign": lambda: Sign(period=case["period"])}
    steps: list[Any] = []
    for row in case["steps"]:
        sizes = (row["chunk_size"], row["index_bits"], row["exponent_units"])
        if case["clipped"]:
            steps.append(SensingStep(row["tilt"], row["clip"], row["gain"], *sizes))
        else:
            wanted = schedule.snr(row["end"]) - schedule.snr(row["start"])
            gain = float(np.nextafter(np.float32(wanted), np.float32(0)))
            steps.append(Step(row["start"], row["end"], gain, *sizes))
    return Plan(Coding(noises[case["noise"]](), codes[case["code"]]()), tuple(steps), case["separate"])


def codec_of(denoiser: Denoiser, plan: Any, budget: Any) -> Any:
    """Return the codec of a plan."""
    from dipp.codec.codec import Codec

    return Codec(denoiser, plan, budget)


def encoded(codec: Any, images: list[Any], seed: bytes) -> Any:
    """Return the archive of pictures under a public seed."""
    counted = {"odometer": False} if "odometer" in inspect.signature(codec.encode).parameters else {}
    return codec.encode(images, seed=seed, **counted)  # an odometer would take private bytes, too


def decoded(codec: Any, archive: Any) -> list[bytes]:
    """Return the decoded pictures of an archive: the posterior means, then the noisy last states."""
    flags: list[Any] = [{"denoise": True}, {"denoise": False}]
    if "decoding" in inspect.signature(codec.decode).parameters:
        from dipp.codec.decoding import EXPECTED, NOISY

        flags = [{"decoding": EXPECTED}, {"decoding": NOISY}]
    return [picture.tobytes() for flag in flags for picture in codec.decode(archive, **flag)]


def ledger_of(certificate: Any) -> list[list[Any]]:
    """Return the numbers of the only ledger of a certificate, one row for each step."""
    names = ["step", "alpha", "sensitivity", "fraction_bits", "eta", "candidates", "chunks", "touched", "apart"]
    names += ["clip", "slope"]
    (ledger,) = certificate.releases
    rows = [(row, getattr(row, "terms", row)) for row in ledger.selections]
    return [[spelt(getattr(row if hasattr(row, name) else terms, name)) for name in names] for row, terms in rows]


def steps_of(plan: Any) -> list[list[Any]]:
    """Return the numbers of a plan, one row for each step."""
    names = ("start", "end", "tilt", "clip", "snr_gain", "chunk_size", "index_bits", "exponent_units")
    head = [plan.channel.name, plan.mask.period, plan.code.name, str(plan.code.score_alpha), plan.separate]
    return [head] + [[spelt(getattr(step, name, None)) for name in names] for step in plan.steps]


def deal_by_the_shuffle() -> None:
    """Deal coordinates that are coded alone in the order of the public shuffle, as checkouts did before f31e594.

    Since then they are dealt in ascending order. The order decides which coordinate takes which private bytes, and
    where its index stands in the file; nothing else depends on it.
    """
    from dipp.core import chunking

    if not hasattr(chunking, "_alone"):
        return
    deal = chunking.chunks

    def chunks(seed: bytes, step: int, geometry: Any, count: int, **options: Any) -> Any:
        dealt = deal(seed, step, geometry, count, **options)
        if count < len(dealt.order):
            return dealt
        channels = geometry.channels if options.get("apart", True) else 1
        pixel, channel = np.divmod(dealt.order, channels)
        shuffled = randomness.permutation(randomness.stream(seed, 0, step, "chunks"), geometry.coordinates // channels)
        rank = np.argsort(shuffled)[pixel]
        return chunking.Chunks(dealt.order[np.argsort(rank * channels + (channel + rank) % channels)], dealt.offsets)

    chunking.chunks = chunks


# Encoding and decoding on both sides


def spelt(value: Any) -> Any:
    """Return a value for JSON, a float in hex, so that no bit is lost."""
    return value.hex() if isinstance(value, float) else value if isinstance(value, int | None) else str(value)


def picture(generator: np.random.Generator, size: list[int], channels: int, grey: bool) -> Any:
    """Return a picture of soft random colours, or a random grey picture."""
    height, width = size
    planes = 1 if grey or channels == 1 else channels
    coarse = generator.uniform(0, 255, (height // 4 + 2, width // 4 + 2, planes))
    fine = coarse[np.arange(height) // 4][:, np.arange(width) // 4] + generator.normal(0, 20, (height, width, planes))
    pixels = np.clip(np.rint(fine), 0, 255).astype(np.uint8)
    return pixels[..., 0] if grey or channels == 1 else pixels


def run(case: dict[str, Any], table: Any) -> dict[str, Any]:
    """Return the results of encoding and decoding the pictures of one case."""
    denoiser = Blur(case["channels"], str(table.provenance["model"]))
    budget = None
    if "preset" in case:
        plan, budget = plan_of_preset(case, denoiser, table)
    else:
        plan = plan_by_hand(case, denoiser.schedule)
    generator = np.random.default_rng(list(case["name"].encode()))
    grey = case["grey"] or [False] * len(case["sizes"])
    images = [picture(generator, size, case["channels"], flag) for size, flag in zip(case["sizes"], grey, strict=True)]
    randomness.private_bytes = ScriptedBytes(case["name"])
    codec = codec_of(denoiser, plan, None)
    archive = encoded(codec, images, hashlib.sha256(case["name"].encode()).digest()[:16])
    certified = plan.coding.certified
    certificate = archive.certificate if certified else None
    numbers = None
    if certificate is not None:
        delta = 1e-6 if budget is None or budget.delta is None else budget.delta
        numbers = [certificate.epsilon.hex(), certificate.rho.hex(), certificate.approximate(delta).hex()]
    return {
        "plan": steps_of(plan),
        "indices": [archive.image_indices(number).tolist() for number in range(len(images))],
        "certificate": numbers,
        "ledger": None if certificate is None else ledger_of(certificate),
        "pictures": [hashlib.sha256(content).hexdigest() for content in decoded(codec, archive)],
    }


def main(script: Path, out: Path) -> None:
    """Run the cases of a file, and write their results."""
    import dipp

    torch.set_num_threads(1)
    content = json.loads(script.read_text())
    if not Path(dipp.__file__).resolve().is_relative_to(content["source"]):
        raise SystemExit(f"{sys.executable} imports dipp from {dipp.__file__}; {content['source']} is needed")
    table = table_of(Path(content["table"]))
    if content["shuffled"]:
        deal_by_the_shuffle()
    out.write_text(json.dumps({case["name"]: run(case, table) for case in content["cases"]}))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
