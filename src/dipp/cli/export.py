"""`dipp export`: write a denoiser as an ONNX file, which ONNX Runtime runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dipp import files
from dipp.cli.options import Overwrite
from dipp.errors import DippError


def export(
    model: Annotated[str, typer.Argument(help="Folder or hub id of a denoiser for photographs, or `embedded`.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write, .onnx.")],
    overwrite: Overwrite = False,
) -> None:
    """Write a denoiser as an ONNX file, which ONNX Runtime runs without PyTorch."""
    from dipp import models

    if output.suffix.lower() != ".onnx":
        raise DippError("output", f"must end in .onnx, got {output.name}")
    files.require_writable(output)
    files.require_new(output, overwrite=overwrite)
    denoiser = models.load(model)
    from dipp.models.export import export as write

    write(denoiser, output)
    typer.echo(f"{output}: {output.stat().st_size} bytes, model {denoiser.identity}")
