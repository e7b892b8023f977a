"""What the commands of the codec do: files in, files out, a few lines of text."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

from PIL import Image
from rich.console import Console
from rich.progress import Progress

from dipp import __version__, pictures, sources
from dipp import archive as archives
from dipp.archive import Archive
from dipp.calibration import FILE_NAME, ErrorTable
from dipp.codec import Codec, budget, planner
from dipp.errors import DippError
from dipp.plan import Plan
from dipp.privacy.budget import Spend, spend
from dipp.schedule import Point

UNIT = "one pixel (all its channels) of the array that was encoded"


def make_codec(model: str, **options: Any) -> Codec:
    """The codec of the command line."""
    return Codec.from_pretrained(model, **options)


def smallest(images: list[Path]) -> int:
    """Pixels of the smallest picture, from the headers of the files: sizes are public, and plans may depend on them."""
    return min(pictures.declared_pixels(path) for path in images)


def encode(codec: Codec, images: list[Path], output: Path, seed: str | None) -> str:
    """Encode files into an archive."""
    _writable(output)
    public = None
    if seed is not None:
        try:
            public = bytes.fromhex(seed)
        except ValueError:
            raise DippError("seed: 32 hex digits are needed") from None
    with Progress(console=Console(stderr=True), disable=len(images) < 2) as bars:
        task = bars.add_task("encoding", total=len(images))
        made = codec.encode(
            map(pictures.read, images), seed=public, progress=lambda done: bars.update(task, completed=done)
        )
    made.save(output)
    return info(output, as_json=False)


def decode(
    path: Path, output: Path, model: str, *, noisy: bool, ancestral: bool, calls: int, steps: int | None, device: str
) -> str:
    """Decode an archive to PNGs, each written to a temporary name first."""
    source = archives.open(path)
    single = output.suffix.lower() == ".png"
    if single and len(source) != 1:
        raise DippError(f"output: {len(source)} pictures need a folder, not {output.name}")
    _writable(output)
    codec = Codec.for_archive(source, model, device=device)
    with Progress(console=Console(stderr=True), disable=len(source) < 2) as bars:
        task = bars.add_task("decoding", total=len(source))
        decoded = codec.decode(
            source,
            denoise=not noisy,
            ancestral=ancestral,
            calls=calls,
            steps=steps,
            progress=lambda done: bars.update(task, completed=done),
        )
    if not single:
        output.mkdir(exist_ok=True)
    for number, picture in enumerate(decoded):
        place = output if single else output / f"{number:05d}.png"
        partial = place.with_name(f".{place.name}.partial")
        Image.fromarray(picture).save(partial, format="PNG")
        partial.replace(place)
    return f"{len(decoded)} pictures written to {output}"


def info(path: Path, as_json: bool) -> str:
    """What an archive says of itself; opening it has checked that its certificate follows from its plan."""
    source = archives.open(path)
    facts = describe(source)
    if as_json:
        return json.dumps(facts)
    claim = facts["certificate"]
    if claim is None:
        promise = "none: this mechanism is not differentially private"
    else:
        promise = f"ε = {claim['epsilon']:.6g} pure, ρ = {claim['rho']:.6g} zCDP, per {UNIT}"
        if claim["delta"] is not None:
            promise = f"ε = {claim['epsilon_at_delta']:.6g} at δ = {claim['delta']:g}; {promise}"
    steps = " → ".join(str(t) for t in (facts["schedule"][0]["start"], *(s["end"] for s in facts["schedule"])))
    return "\n".join(
        (
            f"certificate  {promise}",
            f"rate         {facts['payload_bpp']:.4f} bits per pixel of payload, {facts['file_bpp']:.4f} of file",
            f"images       {facts['images']}",
            f"mechanism    {facts['mechanism']}, channel {facts['channel']}, α = {facts['alpha']}",
            f"schedule     {steps}",
            f"model        {facts['model']}",
        )
    )


def describe(source: Archive) -> dict[str, Any]:
    """The facts of an archive, as JSON has them."""
    plan, claim = source.header.plan, source.certificate
    steps = [
        {"start": s.start, "end": s.end, "snr_gain": s.snr_gain, "chunk_size": s.chunk_size, "index_bits": s.index_bits}
        for s in plan.steps
    ]
    certificate, delta = None, source.header.delta
    if claim is not None:
        certificate = {"epsilon": claim.epsilon, "rho": claim.rho, "delta": delta, "unit": UNIT}
        if delta is not None:
            certificate["epsilon_at_delta"] = Spend(claim.epsilon, claim.rho).approximate(delta)
    return {
        "certificate": certificate,
        "payload_bpp": _number(source.payload_bpp),
        "file_bpp": _number(source.file_bpp),
        "images": len(source),
        "mechanism": plan.mechanism.name,
        "channel": plan.mechanism.channel.name,
        "alpha": "infinity" if plan.mechanism.alpha is None else str(plan.mechanism.alpha),
        "schedule": steps,
        "model": source.header.model,
        "seed": source.header.seed.hex(),
    }


def schedule(
    model: str,
    epsilon: float | None,
    delta: float | None,
    rho: float | None,
    preset: str,
    bpp: float | None,
    final_timestep: int | None,
    calibration: Path | None,
    plot: Path | None,
) -> str:
    """The plan within a budget, and the frontier as a picture."""
    from dipp.model import Denoiser

    limit = budget(preset, epsilon, delta, rho)
    table = ErrorTable.load(calibration or Path(model) / FILE_NAME)
    plans = planner(Denoiser.load(model), table, preset, limit)
    point = plans.choose(limit, final_timestep=final_timestep, bpp=bpp)
    lines = [f"{'step':>12}  {'ΔSNR':>10}  {'ε/pixel':>8}  {'chunk':>6}  bits"]
    mechanism = point.plan.mechanism
    for step in point.plan.steps:
        cost = "    none"
        if mechanism.certified:
            charged = spend(Plan(mechanism, (step,)), plans.channels, plans.pixels, separate=True)
            cost = f"{charged.epsilon:8.4f}"
        lines.append(
            f"{step.start:>5} → {step.end:<4}  {step.snr_gain:10.4g}  {cost}  {step.chunk_size:>6}  {step.index_bits}"
        )
    lines.append(f"expected: {point.bpp:.4f} bits per pixel, {point.psnr:.2f} dB, final SNR {point.snr:.4g}")
    if plot is not None:
        _writable(plot)
        _draw(plans.frontier(limit), point, plot)
        lines.append(f"frontier: {plot}")
    return "\n".join(lines)


def calibrate(model: str, data: Path, output: Path | None, count: int, device: str) -> str:
    """Measure a denoiser on public pictures and write the table."""
    from dipp.calibrate import calibrate as run
    from dipp.model import Denoiser

    place = output or Path(model) / FILE_NAME
    _writable(place)
    denoiser = Denoiser.load(model, device)
    height, width = denoiser.sample_size
    if height != width:
        raise DippError(f"model: calibration needs a denoiser of square pictures, got {height}×{width}")
    found = sources.load(data, height, count)
    facts = {
        "data": data.name,
        "skipped": found.skipped,
        "model": denoiser.identity,
        "command": f"dipp calibrate --count {count}",
        "version": __version__,
    }
    run(denoiser, found.pixels, facts, Console(stderr=True).print).save(place)
    return f"calibrated on {len(found.pixels)} pictures ({found.skipped} skipped): {place}"


def _writable(path: Path) -> None:
    """Refuse at the start what could not be written at the end."""
    parent = path.parent
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise DippError(f"output: the folder {parent} does not exist or cannot be written to")


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _draw(points: tuple[Point, ...], chosen: Point, output: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([p.bpp for p in points], [p.psnr for p in points], color="#08519c", label="fewest bits to each final SNR")
    axes.plot([chosen.bpp], [chosen.psnr], "o", color="#d94801", label="chosen")
    axes.set(xscale="log", xlabel="expected payload bits per pixel", ylabel="expected PSNR of the posterior mean, dB")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(output, format="png", dpi=120)
