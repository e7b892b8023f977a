"""`dipp words`: make the public words of a denoiser, with which units larger than a pixel answer questions."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from dipp import files
from dipp.cli.options import AUTO, Device, Overwrite, SourceWindow
from dipp.core.window import Window


def words(
    model: Annotated[Path, typer.Argument(help="Folder of a denoiser.", exists=True, file_okay=False)],
    data: Annotated[Path, typer.Argument(help="PUBLIC pictures: a folder, tar, Parquet, .npz or .npy.")],
    count: Annotated[int, typer.Option(help="Number of pictures from which words are made.", min=1)] = 160,
    tried: Annotated[
        int, typer.Option(help="Number of further pictures, on which recipes of questions are tried.", min=1)
    ] = 24,
    device: Device = AUTO,
    window: SourceWindow = None,
    overwrite: Overwrite = False,
) -> None:
    """Make the words of a denoiser from public pictures, and the table of questions that plans are made from.

    Encoded files name the words that they were made with. After the words are replaced, older files cannot be decoded.
    A latent model gets only the table, because its questions need no words.
    """
    from dipp import models
    from dipp.models.books import NAME, Books
    from dipp.training import latents, recipes
    from dipp.training import words as training

    target = model / NAME
    files.require_writable(target)
    files.require_new(target, overwrite=overwrite)
    denoiser = models.load(model, device)
    say = functools.partial(typer.echo, err=True)
    if denoiser.latents is not None:
        public = latents.load(denoiser, data, tried, Window.of(window))
        Books.write(model, {}, latents.table(denoiser, public.pixels, say))
        typer.echo(f"made the table of questions on {len(public.pixels)} pictures ({public.skipped} skipped): {target}")
        return
    pictures = training.pictures(denoiser, data, count, tried, Window.of(window))
    books = training.books(denoiser, pictures.asked, say)
    with_books = replace(denoiser, books=Books(books, [], ""))  # type: ignore[type-var]
    Books.write(model, books, recipes.table(with_books, pictures.tried, say))
    typer.echo(f"made words from {len(pictures.asked)} pictures ({pictures.skipped} skipped): {target}")
