"""The command `dipp`. Heavy libraries are imported by the commands that need them, so that help answers at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dipp import __version__
from dipp.embedded import FOLDER
from dipp.errors import DippError

EMBEDDED = str(FOLDER)

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def main() -> None:
    """Run the command; a bad argument or file ends in one clear line and exit code 1."""
    try:
        app()
    except DippError as error:
        typer.echo(f"dipp: {error}", err=True)
        raise SystemExit(1) from None


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dipp {__version__}")
        raise typer.Exit


@app.callback()
def dipp(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Jointly compress and privatise, with a differential-privacy certificate computed from what was done."""


@app.command()
def simulate(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the histogram goes (PNG).")],
    channel: Annotated[str, typer.Option(help="laplace, logistic, huber or sign.")] = "laplace",
    code: Annotated[str, typer.Option(help="ppr (step-limited, Poisson order) or flat (α = 1).")] = "ppr",
    x: Annotated[float, typer.Option(help="The private number, in [-1, 1].")] = 0.5,
    snr: Annotated[float, typer.Option(help="Power of the largest x over that of the noise.")] = 4.0,
    alpha: Annotated[str, typer.Option(help="α of the Poisson order, a rational of at least 1.")] = "2",
    candidates: Annotated[int, typer.Option(help="n: candidates that the encoder weighs.")] = 1024,
    samples: Annotated[int, typer.Option(help="How often x is encoded, each time with a fresh seed.")] = 20_000,
) -> None:
    """Send one private number many times through a stochastic code, and compare what arrives with the true density."""
    from dipp.simulation import Simulation

    simulation = Simulation.prepare(channel, code, x, snr, alpha, candidates, samples)
    typer.echo(simulation.run(output))


Model = Annotated[
    str,
    typer.Option(
        help="Folder or hub id of a denoiser in diffusers' format.", show_default="the one that ships with dipp"
    ),
]
Device = Annotated[str, typer.Option(help="cpu or cuda.")]
Epsilon = Annotated[float | None, typer.Option(help="Budget per pixel: pure ε, or ε of (ε, δ).")]
Delta = Annotated[float | None, typer.Option(help="δ of an (ε, δ) budget.")]
Rho = Annotated[float | None, typer.Option(help="Budget per pixel as ρ (zCDP), instead of ε.")]
PresetName = Annotated[str, typer.Option(help="sharp, swift, thrifty, paper or diffc (which has no certificate).")]
Bpp = Annotated[float | None, typer.Option(help="Most payload bits per pixel, as expected from public images.")]
FinalTimestep = Annotated[int | None, typer.Option(help="Timestep at which the coded steps end.")]
Calibration = Annotated[Path | None, typer.Option(help="Cost table, if not calibration.json beside the weights.")]


@app.command()
def encode(
    images: Annotated[list[Path], typer.Argument(help="Pictures to encode, each released once.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The archive.")],
    model: Model = EMBEDDED,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    preset: PresetName = "sharp",
    bpp: Bpp = None,
    final_timestep: FinalTimestep = None,
    calibration: Calibration = None,
    device: Device = "cpu",
    seed: Annotated[str | None, typer.Option(help="Public seed, 32 hex digits: for tests only.")] = None,
) -> None:
    """Encode pictures into one archive that carries its certificate."""
    from dipp import commands

    codec = commands.make_codec(
        model,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        preset=preset,
        bpp=bpp,
        final_timestep=final_timestep,
        calibration=calibration,
        device=device,
        pixels=commands.smallest(images),
    )
    typer.echo(commands.encode(codec, images, output, seed))


@app.command()
def decode(
    archive: Annotated[Path, typer.Argument(help="A .dipp file.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="A PNG for one picture, or a folder.")],
    model: Model = EMBEDDED,
    noisy: Annotated[bool, typer.Option("--noisy", help="The noisy reconstruction, not the denoised one.")] = False,
    ancestral: Annotated[
        bool, typer.Option("--ancestral", help="Denoise by DDPM sampling, as the paper does.")
    ] = False,
    calls: Annotated[int, typer.Option(help="Network calls that denoise; 1 gives the expected picture.")] = 20,
    steps: Annotated[int | None, typer.Option(help="Decode only so many steps: a preview.")] = None,
    device: Device = "cpu",
) -> None:
    """Decode an archive to 00000.png, 00001.png and so on."""
    from dipp import commands

    typer.echo(
        commands.decode(
            archive, output, model, noisy=noisy, ancestral=ancestral, calls=calls, steps=steps, device=device
        )
    )


@app.command()
def info(
    archive: Annotated[Path, typer.Argument(help="A .dipp file, or a folder that privatize wrote.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Compute the certificate again and show its ledger; check every shard."),
    ] = False,
) -> None:
    """Certificate, rate, schedule and model of an archive or dataset; no model is needed."""
    from dipp import commands

    if archive.is_dir():
        from dipp.data import commands as datasets

        typer.echo(datasets.info(archive, as_json=as_json, verify=verify))
    else:
        typer.echo(commands.info(archive, as_json, verify))


@app.command()
def audit(
    epsilon: Annotated[float, typer.Option(help="ε per pixel that is claimed and audited.")] = 4.0,
    preset: Annotated[list[str] | None, typer.Option(help="Preset, sharp unless told; may be given again.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Where observed against claimed goes (PNG).")] = None,
    model: Annotated[str | None, typer.Option(help="Audit the plan of a real denoiser, exactly.")] = None,
    calibration: Calibration = None,
) -> None:
    """Compare what the encoder tells about a pixel with what it claims; exit code 1 if it tells more."""
    from dipp import commands

    text, passed = commands.audit(epsilon, preset or ["sharp"], as_json, plot, model, calibration)
    typer.echo(text)
    if not passed:
        raise typer.Exit(1)


@app.command()
def privatize(
    src: Annotated[str, typer.Argument(help="Folder of images, CIFAR-10, Parquet, tar shards, datasets, hub id.")],
    dst: Annotated[Path, typer.Argument(help="New folder of Parquet shards, or a .dipp file.")],
    model: Model = EMBEDDED,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    preset: PresetName = "sharp",
    bpp: Bpp = None,
    final_timestep: FinalTimestep = None,
    calibration: Calibration = None,
    device: Device = "cpu",
    engine: Annotated[str, typer.Option(help="local or ray.")] = "local",
    workers: Annotated[
        int | None, typer.Option(help="Processes, each with the model. Default: the cores, or one on a GPU.")
    ] = None,
    address: Annotated[str | None, typer.Option(help="A Ray cluster that is there.")] = None,
    shard_size: Annotated[int, typer.Option(help="Images of a shard.")] = 1024,
    split: Annotated[str, typer.Option(help="Part of the source, where it has parts.")] = "train",
    image_column: Annotated[str | None, typer.Option(help="Column of the pictures, if there are several.")] = None,
    label_column: Annotated[str | None, typer.Option(help="Column of the labels, if not label.")] = None,
    drop_labels: Annotated[bool, typer.Option("--drop-labels", help="Do not release the labels.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first bad picture.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a release: the ε of both add up for whoever saw both.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON.")] = False,
    seed: Annotated[str | None, typer.Option(help="Public seed, 32 hex digits: for tests only.")] = None,
) -> None:
    """Release a whole dataset, each picture once. Labels are released as they are: they are not private here.

    Exit code 3: released, but bad pictures were skipped.
    """
    from dipp.data import commands as datasets
    from dipp.data.sources import Columns

    code = datasets.privatize(
        src,
        dst,
        model,
        {
            "epsilon": epsilon,
            "delta": delta,
            "rho": rho,
            "preset": preset,
            "bpp": bpp,
            "final_timestep": final_timestep,
            "calibration": calibration,
            "device": device,
        },
        engine,
        workers,
        address,
        shard_size,
        Columns(image_column, label_column, split),
        seed,
        drop_labels=drop_labels,
        strict=strict,
        overwrite=overwrite,
        as_json=as_json,
    )
    raise typer.Exit(code)


@app.command()
def schedule(
    model: Model = EMBEDDED,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    preset: PresetName = "sharp",
    bpp: Bpp = None,
    final_timestep: FinalTimestep = None,
    calibration: Calibration = None,
    plot: Annotated[Path | None, typer.Option(help="Where the frontier goes (PNG).")] = None,
) -> None:
    """The plan that a budget is spent on, and what others would give."""
    from dipp import commands

    typer.echo(commands.schedule(model, epsilon, delta, rho, preset, bpp, final_timestep, calibration, plot))


@app.command()
def calibrate(
    model: Annotated[str, typer.Argument(help="Folder or hub id of a denoiser.")],
    data: Annotated[Path, typer.Argument(help="PUBLIC pictures: a folder, Parquet, .npz or .npy.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Default: calibration.json beside the model.")
    ] = None,
    count: Annotated[int, typer.Option(help="Pictures used; larger ones are cut into tiles.")] = 256,
    device: Device = "cpu",
) -> None:
    """Measure a denoiser's errors on public pictures: the costs that schedules are made from."""
    from dipp import commands

    typer.echo(commands.calibrate(model, data, output, count, device))


@app.command()
def train(
    data: Annotated[Path, typer.Argument(help="PUBLIC pictures: a folder, CIFAR-10's folder, Parquet, .npz or .npy.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the run; one that was killed goes on.")],
    minutes: Annotated[float | None, typer.Option(help="Length of the run, over all its parts.")] = None,
    steps: Annotated[int | None, typer.Option(help="Length of the run in steps, instead of minutes.")] = None,
    batch: Annotated[int, typer.Option(help="Pictures a step.")] = 512,
    learning_rate: Annotated[float, typer.Option(help="Its peak; it decays to zero at the end.")] = 8e-4,
    ema: Annotated[float, typer.Option(help="Decay of the running average of the weights.")] = 0.9995,
    coded: Annotated[float, typer.Option(help="Share of a batch with the noise of sign steps, not Gaussian.")] = 0.0,
    size: Annotated[int, typer.Option(help="Side of the pictures; larger ones are cut into tiles.")] = 32,
    network: Annotated[Path | None, typer.Option(help="UNet2DModel config (JSON), instead of the default one.")] = None,
    start: Annotated[Path | None, typer.Option(help="Denoiser to go on from: its network and weights.")] = None,
    validation: Annotated[Path | None, typer.Option(help="Pictures to validate on, if not a share of DATA.")] = None,
    half: Annotated[bool, typer.Option("--half", help="Store the weights in fp16.")] = False,
    compile_mode: Annotated[
        str, typer.Option("--compile", help="torch.compile on CUDA: reduce-overhead (CUDA graphs), default or none.")
    ] = "reduce-overhead",
    pause_after: Annotated[float | None, typer.Option(help="Stop after so many minutes; run again to go on.")] = None,
    seed: Annotated[int, typer.Option(help="What every random choice follows from.")] = 0,
    device: Device = "cpu",
) -> None:
    """Train a denoiser on public pictures; writes a folder in diffusers' format."""
    from dipp.train import Settings
    from dipp.training import command

    settings = Settings(steps, minutes, batch, learning_rate, ema, coded, seed, half, compile_mode)
    typer.echo(command.train(data, output, settings, size, network, start, validation, pause_after, device))


@app.command()
def experiment(
    name: Annotated[str, typer.Argument(help="cifar10: the paper's experiment.")],
    config: Annotated[Path, typer.Argument(help="What is made, in TOML: experiments/cifar10/config.toml.")],
    data: Annotated[Path, typer.Option(help="Folder of CIFAR-10's Python version.")],
    out: Annotated[Path, typer.Option(help="Folder of the run; what is there is not made again.")],
    model: Model = EMBEDDED,
    stage: Annotated[
        str | None, typer.Option(help="baseline, encode, train, metrics or report, instead of all of them.")
    ] = None,
    only: Annotated[str, typer.Option(help="Patterns of the releases that are made, such as 'clean,paper-*'.")] = "*",
    calibration: Calibration = None,
    device: Device = "cpu",
    minutes: Annotated[float | None, typer.Option(help="Stop after so many; run it again to go on.")] = None,
    commit: Annotated[str | None, typer.Option(help="Commit of the code, instead of what git says.")] = None,
) -> None:
    """Reproduce the paper's experiment, stage by stage; needs a checkout of the repository.

    Exit code 3: it was out of time, and there is more to do.
    """
    from dipp import experiment as experiments

    done = experiments.run(
        name,
        config=config,
        data=data,
        model=model,
        out=out,
        stage=stage,
        only=only,
        calibration=calibration,
        device=device,
        minutes=minutes,
        commit=commit,
        say=typer.echo,
    )
    raise typer.Exit(0 if done else 3)
