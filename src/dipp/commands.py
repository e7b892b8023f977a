"""What the commands of the codec do: files in, files out, a few lines of text."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image
from rich.console import Console
from rich.progress import Progress

from dipp import __version__, files, pictures, sources
from dipp import archive as archives
from dipp.archive import Archive
from dipp.calibration import FILE_NAME
from dipp.codec import Codec, budget, load_table, planner
from dipp.errors import DippError
from dipp.plan import Plan
from dipp.privacy.certificate import UNIT, Certificate
from dipp.schedule import Point

if TYPE_CHECKING:
    from dipp.privacy.audit import Audit

CONSISTENT = "the certificate follows from the file's public parameters; that its encoder was honest, no file can show"


def make_codec(model: str, **options: Any) -> Codec:
    """The codec of the command line."""
    return Codec.from_pretrained(model, **options)


def smallest(images: list[Path]) -> int:
    """Pixels of the smallest picture, from the headers of the files: sizes are public, and plans may depend on them."""
    return min(pictures.declared_pixels(path) for path in images)


def encode(codec: Codec, images: list[Path], output: Path, seed: str | None) -> str:
    """Encode files into an archive."""
    places = [path.resolve() for path in images]
    if output.resolve() in places:
        raise DippError(f"output: {output.name} is one of the pictures; name another file")
    if twice := [place.name for place, times in Counter(places).items() if times > 1]:
        raise DippError(f"images: {twice[0]} is given twice, and each encoding adds to its ε; name it once")
    files.require_writable(output)
    public = None
    if seed is not None:
        try:
            public = bytes.fromhex(seed)
        except ValueError:
            raise DippError("seed: 32 hex digits are needed") from None
    with Progress(console=Console(stderr=True), disable=len(images) < 2) as bars:
        task = bars.add_task("encoding", total=len(images))
        made = codec.encode(
            (pictures.read(path, codec.denoiser.channels) for path in images),
            seed=public,
            progress=lambda done: bars.update(task, completed=done),
        )
    made.save(output)
    return info(output, as_json=False)


def decode(
    path: Path, output: Path, model: str, *, noisy: bool, ancestral: bool, calls: int, steps: int | None, device: str
) -> str:
    """Decode an archive to PNGs, each written whole or not at all."""
    source = archives.open(path)
    single = output.suffix.lower() == ".png"
    if single and len(source) != 1:
        raise DippError(f"output: {len(source)} pictures need a folder, not {output.name}")
    files.require_writable(output, folder=not single)
    codec = Codec.for_archive(source, model, device=device)
    drawn = codec.pictures(source, denoise=not noisy, ancestral=ancestral, calls=calls, steps=steps)
    with Progress(console=Console(stderr=True), disable=len(source) < 2) as bars:
        for number, picture in enumerate(bars.track(drawn, len(source), description="decoding")):
            place = output if single else output / f"{number:05d}.png"
            place.parent.mkdir(exist_ok=True)  # not before a picture is there: what fails leaves nothing
            with files.atomic(place) as part:
                Image.fromarray(picture if picture.shape[2] > 1 else picture[..., 0]).save(part, format="PNG")
    return f"{len(source)} pictures written to {output}"


def info(path: Path, as_json: bool, verify: bool = False) -> str:
    """What an archive says of itself; opening it has checked that its certificate follows from its plan.

    `verify` shows the ledger that was computed again, and refuses a file that has no certificate.
    """
    source = archives.open(path)
    facts, certified = describe(source), source.header.plan.mechanism.certified
    if verify:
        source.certificate  # noqa: B018 - raises where there is none
        facts["verified"] = CONSISTENT
    if as_json:
        return json.dumps(facts)
    promise = source.certificate.statement() if certified else "none: this mechanism is not differentially private"
    steps = " → ".join(str(t) for t in (facts["schedule"][0]["start"], *(s["end"] for s in facts["schedule"])))
    return "\n".join(
        (
            f"certificate  {promise}",
            f"rate         {facts['payload_bpp']:.4f} bits per pixel of payload, {facts['file_bpp']:.4f} of file",
            f"images       {facts['images']}",
            f"mechanism    {facts['mechanism']}, channel {facts['channel']}, α = {facts['alpha']}",
            f"schedule     {steps}",
            f"model        {facts['model']}",
            *(("", source.certificate.table(), f"verified: {CONSISTENT}") if verify else ()),
        )
    )


def describe(source: Archive) -> dict[str, Any]:
    """The facts of an archive, as JSON has them."""
    plan = source.header.plan
    steps = [
        {"start": s.start, "end": s.end, "snr_gain": s.snr_gain, "chunk_size": s.chunk_size, "index_bits": s.index_bits}
        for s in plan.steps
    ]
    return {
        "certificate": source.certificate.to_dict() if plan.mechanism.certified else None,
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


def audit(
    epsilon: float, names: list[str], as_json: bool, plot: Path | None, model: str | None, calibration: Path | None
) -> tuple[str, bool]:
    """Audit presets: what was found, and whether the encoder keeps what it claims."""
    from dipp.privacy import audit as audits

    if plot is not None:
        files.require_writable(plot)
    found = []
    for name in dict.fromkeys(names):
        real = None
        if model is not None:
            codec = Codec.from_pretrained(model, epsilon=epsilon, preset=name, calibration=calibration)
            real = codec.plan, codec.denoiser
        found.append(audits.audit(name, epsilon, real))
    if plot is not None:
        from dipp.privacy.audit.plot import draw

        draw([point for one in found for point in audits.ladder(one.preset, epsilon)], plot)
    passed = all(one.passed for one in found)
    if as_json:
        facts = {one.preset: one.to_dict() for one in found}
        return json.dumps(facts if len(found) > 1 else found[0].to_dict()), passed
    return "\n\n".join(map(_audit_text, found)), passed


def _audit_text(found: Audit) -> str:
    lines = [f"preset {found.preset}, per {UNIT}"]
    lines.append(f"{'audit':<42} {'claimed':>10} {'observed':>10} {'ratio':>8}")
    for number, one in enumerate((*found.exact, *found.model)):
        name = f"exact, {len(one.observed)} {one.kind} pairs" + ", the model" * (number >= len(found.exact))
        lines.append(f"{name + ', ε':<42} {one.claimed:10.4f} {max(one.observed):10.4f} {one.ratio:8.4f}")
        lines.append(f"{name + ', ρ':<42} {one.claimed_rho:10.4f} {max(one.rho):10.4f} {one.rho_ratio:8.4f}")
    box = found.black_box
    name = f"black box, {box['runs']} runs, ε at least"
    lines.append(f"{name:<42} {box['claimed']:10.4f} {box['observed']:10.4f} {box['ratio']:8.4f}")
    law, exact = found.law, (*found.exact, *found.model)
    wrong, draws = (law.wrong + sum(one.wrong for one in exact), law.draws + sum(one.draws for one in exact))
    lines.append(f"law of the indices: χ² of {law.images} × {law.runs} of them has a tail of {law.p:.2g}")
    lines.append(f"draws with known bytes: {wrong} of {draws} are not the exact ones")
    for name, control in found.controls.items():
        caught = "caught" if control["caught"] else "MISSED"
        observed = control["observed"] if isinstance(control["observed"], str) else f"{control['observed']:.4f}"
        lines.append(f"{'broken: ' + name:<50} {control['claimed']:6.4f} {observed:>25} {caught:>8}")
    lines.append(
        "passed: nothing tells more than is claimed" if found.passed else "FAILED: do not rely on certificates"
    )
    return "\n".join(lines)


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

    if plot is not None:
        files.require_writable(plot)
    limit, denoiser = budget(preset, epsilon, delta, rho), Denoiser.load(model)
    plans = planner(denoiser, load_table(model, calibration), preset, limit)
    point = plans.choose(limit, final_timestep=final_timestep, bpp=bpp)
    lines = [f"{'step':>12}  {'ΔSNR':>10}  {'ε/pixel':>8}  {'chunk':>6}  bits"]
    mechanism = point.plan.mechanism
    for step in point.plan.steps:
        cost = "    none"
        if mechanism.certified:
            alone = Certificate.of(Plan(mechanism, (step,)), plans.channels, plans.pixels)
            cost = f"{alone.epsilon:8.4f}"
        lines.append(
            f"{step.start:>5} → {step.end:<4}  {step.snr_gain:10.4g}  {cost}  {step.chunk_size:>6}  {step.index_bits}"
        )
    code = "zeta code" if mechanism.ordered else "fixed-length indices"
    lines.append(f"channel {mechanism.channel.name}, α = {mechanism.alpha or 'infinity'}, {code}")
    lines.append(f"expected: {point.bpp:.4f} bits per pixel, {point.psnr:.2f} dB, final SNR {point.snr:.4g}")
    if plot is not None:
        _draw(plans.frontier(limit), point, plot)
        lines.append(f"frontier: {plot}")
    return "\n".join(lines)


def calibrate(model: str, data: Path, output: Path | None, count: int, device: str) -> str:
    """Measure a denoiser on public pictures and write the table."""
    from dipp.calibrate import calibrate as run
    from dipp.model import Denoiser

    place = output or Path(model) / FILE_NAME
    files.require_writable(place)
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
    with files.atomic(output) as part:
        figure.savefig(part, format="png", dpi=120)
