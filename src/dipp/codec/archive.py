"""`dipp.open`: an archive that can decode itself.

The format's own `Archive` needs no network: it reads certificate, plan and indices. This one adds `decode`.
"""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING

from dipp import models
from dipp.codec.decoder import Decoder
from dipp.codec.decoding import Decoding
from dipp.codec.pictures import Pixels
from dipp.format import archive as archives
from dipp.models import embedded
from dipp.models.bars import PREVIEW, shown

if TYPE_CHECKING:
    import torch


class Archive(archives.Archive):
    """Images as indices, with the certificate that covers them, in a .dipp file or in memory."""

    def decode(
        self,
        model: str | Path = embedded.FOLDER,
        *,
        device: str | torch.device = "auto",
        noisy: bool = False,
        sample: bool = False,
        ancestral: bool = False,
        calls: int | None = None,
        steps: int | None = None,
        max_work: float | None = None,
        progress: bool = True,
    ) -> list[Pixels]:
        """Decode every image, as the command `dipp decode` does. By default each is the expected picture.

        The expected picture has the least squared error and invents nothing; at small ε it is smooth.

        Args:
            model: Folder or hub id of the denoiser that the archive was made with. By default the one that ships.
            device: "auto", "cuda", "mps" or "cpu".
            noisy: Whether the noisy reconstruction is wanted, without any denoising.
            sample: Whether a plausible picture is wanted. It looks sharper; its details are made up.
            ancestral: Whether to sample through every timestep, as the paper does.
            calls: Network calls that denoise: 1 gives the expected picture, more sample.
            steps: Number of steps that are decoded, for a preview. By default all of them.
            max_work: Billions of pixels that the file may send through the network. By default its size decides.
            progress: Whether a terminal shows a progress bar.

        Returns:
            A uint8 array (H, W, C) for each image; the channels of a grey one are equal.

        Raises:
            DippError: Flags contradict each other, or this is not the model of the archive.
        """
        decoding = Decoding(noisy, sample, ancestral, calls, steps, max_work)
        sizes = [math.prod(size) for images, *size in self.runs.tolist() for _ in range(images)]
        decoder = Decoder(models.load(model, device))
        with shown("decoding", sizes, decoder.work(self.release.plan, decoding), PREVIEW, wanted=progress):
            return list(decoder.pictures(self, decoding))


def open(path: str | Path, *, verify: bool = True) -> Archive:  # noqa: A001 - users say dipp.open
    """Open a .dipp file. A large one is mapped, and read where it is needed.

    Args:
        path: The file.
        verify: Whether the checksum over the whole file is compared. False reads the header only.

    Raises:
        DippError: The file cannot be read, or is damaged or inconsistent.
    """
    found = archives.open(path, verify=verify)
    return Archive(**{field.name: getattr(found, field.name) for field in dataclasses.fields(found)})
