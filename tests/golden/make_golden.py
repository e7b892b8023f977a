"""Make the golden files: archives of made-up indices, and real encodings with their decoded pictures.

    PYTHONPATH=src:tests python tests/golden/make_golden.py tests/golden

It writes only missing files, so delete a file to make it again. Encodings draw private randomness,
which differs from run to run, and so do the archives. From version 1.0 on, files are never made again: they show that
files of earlier versions stay readable.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import DDPMScheduler
from helpers.golden_codec import (
    CODED,
    LATENT,
    MADE_UP,
    MIXED,
    REGIONS,
    SOURCED,
    codec_of,
    images,
    made_up_archive,
    reconstructions,
    regions_archive,
)
from helpers.networks import tiny_network
from helpers.questions import books as words

from dipp import models
from dipp.codec.decoder import Decoder
from dipp.models import books
from dipp.models.books import Books


def main(folder: Path) -> None:
    """Write every missing file into the folder."""
    place = folder / "denoiser"
    if not place.exists():
        tiny_network().half().save_pretrained(place / "unet", safe_serialization=True)
        scheduler: Any = DDPMScheduler
        scheduler().save_pretrained(place / "scheduler")
        (place / "model_index.json").write_text(json.dumps({"_class_name": "DDPMPipeline"}) + "\n")
    if not (place / books.NAME).exists():
        Books.write(place, words().books, [])
    denoiser = models.load(place)
    for name in (*MADE_UP, LATENT):
        target = folder / f"{name}.dipp"
        if not target.exists():
            made_up_archive(name).save(target)
    if not (target := folder / f"{REGIONS}.dipp").exists():
        archive = regions_archive(denoiser)
        archive.save(target)
        (picture,) = Decoder(denoiser).pictures(archive)
        np.savez_compressed(folder / f"{REGIONS}.npz", allow_pickle=False, picture=picture)
    for name in CODED:
        target = folder / f"{name}.dipp"
        if target.exists():
            continue
        codec, beacon = codec_of(name, denoiser), MIXED.get(name)
        archive = codec.encode(
            images(name),
            seed=beacon.own if beacon else None,
            beacon=beacon,
            window=SOURCED.get(name),
            odometer=False,
        )
        archive.save(target)
        np.savez_compressed(folder / f"{name}.npz", allow_pickle=False, **reconstructions(codec, archive))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
