"""Inputs of benchmarks on pictures: a denoiser, its public cost table, and the pictures.

By default a benchmark takes what is in the checkout: the denoiser of dipp, its table, and tiles of the sample
pictures in `examples/pictures`. That shows that a benchmark runs, and how fast. Figures of quality need CIFAR-10's
pictures and a DDPM, which the command line must name.
"""

from __future__ import annotations

import argparse
import itertools
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dipp import models
from dipp.codec.pictures import Pixels
from dipp.models import embedded
from dipp.models.denoiser import Denoiser
from dipp.planning.table import ErrorTable
from dipp.training import public_pictures

SAMPLES = Path(__file__).parents[1] / "examples" / "pictures"
SIDE = 32


@dataclass(frozen=True)
class Inputs:
    """The inputs that the command line names."""

    model: str
    images: Path
    table: Path | None

    @classmethod
    def add_to(cls, parser: argparse.ArgumentParser, array: str = "encode") -> None:
        """Add the options of these inputs to a command."""
        parser.add_argument("model", nargs="?", default=str(embedded.FOLDER), help="folder of a denoiser")
        pictures = f"a .npz with pictures in the array `{array}`, or any source of `dipp train`"
        parser.add_argument("images", nargs="?", type=Path, default=SAMPLES, help=pictures)
        parser.add_argument(
            "table", nargs="?", type=Path, help="cost table; by default calibration.json beside the model"
        )

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Inputs:
        """Return the inputs of a parsed command."""
        return cls(arguments.model, arguments.images, arguments.table)

    def denoiser(self, device: str = "cpu") -> Denoiser:
        """Load the denoiser."""
        return models.load(self.model, device)

    def costs(self) -> ErrorTable:
        """Load the cost table of the denoiser."""
        return ErrorTable.of_model(self.model, self.table)

    def pixels(self, count: int, array: str = "encode") -> Pixels:
        """Return the first pictures, N × 32 × 32 × 3."""
        return pictures(self.images, count, array)


def pictures(place: Path, count: int, array: str = "encode") -> Pixels:
    """Return the first pictures of a .npz, of the training pictures in a folder of CIFAR-10, or of another source."""
    if place.suffix == ".npz":
        with np.load(place, allow_pickle=False) as content:
            found: Pixels = content[array][:count]
            return found
    return public_pictures.load(place, SIDE, count).pixels


def repeated(pixels: Pixels, count: int) -> Pixels:
    """Return `count` pictures; if there are too few, they repeat, because speed does not depend on them."""
    return pixels[list(itertools.islice(itertools.cycle(range(len(pixels))), count))]
