"""Make the golden denoiser, archives and reconstructions. Files once released are never made again:

    PYTHONPATH=src:tests python tests/golden/make_coded.py FOLDER

The private randomness differs from run to run, and so do the archives.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import DDPMScheduler
from test_codec import make_plan, pictures
from tiny_network import tiny_network

from dipp.codec import Codec
from dipp.model import Denoiser
from dipp.plan import DIFFC, PAPER, SHARP


def main(folder: Path) -> None:
    """Write everything into the folder."""
    place = folder / "denoiser"
    tiny_network().half().save_pretrained(place / "unet", safe_serialization=True)
    scheduler: Any = DDPMScheduler
    scheduler().save_pretrained(place / "scheduler")
    (place / "model_index.json").write_text(json.dumps({"_class_name": "DDPMPipeline"}) + "\n")
    denoiser = Denoiser.load(place)
    expected: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]] = {}
    for mechanism in (SHARP, PAPER, DIFFC):
        codec = Codec(denoiser, make_plan(mechanism, denoiser.schedule))
        archive = codec.encode(list(pictures(3)))
        archive.save(folder / f"coded-{mechanism.name}.dipp")
        ((state, t),) = codec.states(archive)
        expected[f"{mechanism.name}-noisy"] = state.numpy().astype(np.float32)
        expected[f"{mechanism.name}-mean"] = denoiser.x0(state, t).numpy()
    np.savez_compressed(folder / "coded.npz", allow_pickle=False, **expected)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
