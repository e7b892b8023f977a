"""Make the golden denoiser, of each coding an archive and its reconstructions, one of pictures of other sizes, and of
each code of sensing, of a beacon and of a source that is described an archive, where they are missing:

    PYTHONPATH=src:tests:. python tests/golden/make_coded.py FOLDER

Files once released are never made again. The private randomness differs from run to run, and so do the archives.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import DDPMScheduler
from helpers.golden_codec import ARCHIVES, MIXED, SOURCED, codec_of, images, reconstructions
from helpers.networks import tiny_network

from dipp import models


def main(folder: Path) -> None:
    """Write everything into the folder."""
    place = folder / "denoiser"
    if not place.exists():
        tiny_network().half().save_pretrained(place / "unet", safe_serialization=True)
        scheduler: Any = DDPMScheduler
        scheduler().save_pretrained(place / "scheduler")
        (place / "model_index.json").write_text(json.dumps({"_class_name": "DDPMPipeline"}) + "\n")
    denoiser = models.load(place)
    for name in ARCHIVES:
        target = folder / f"{name}.dipp"
        if target.exists():
            continue
        codec = codec_of(name, denoiser)
        beacon = MIXED.get(name)
        archive = codec.encode(
            images(name), seed=beacon.own if beacon else None, beacon=beacon, window=SOURCED.get(name)
        )
        archive.save(target)
        np.savez_compressed(folder / f"{name}.npz", allow_pickle=False, **reconstructions(codec, archive))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
