"""`dipp.open`, and an archive that can decode itself.

`format.Archive` reads certificate, plan and indices without a network. This class adds `decode`.
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
    """Images as indices, with the certificate that covers them, in a .dipp file or in memory.

    Example::

        archive = dipp.open("photo.dipp")
        print(archive.certificate)
        (picture,) = archive.decode()
    """

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

        The expected picture is the mean of all pictures that the archive allows. It has the least squared error and no
        invented details; at small ε it is smooth.

        Args:
            model: Folder or hub id of the denoiser that the archive was made with. By default the denoiser that ships
                with dipp.
            device: "auto", "cuda", "mps" or "cpu".
            noisy: Whether to return the noisy state itself, without any denoising.
            sample: Whether to draw a plausible picture. It looks sharper, and its details are made up.
            ancestral: Whether to sample through every timestep, as the paper does.
            calls: Number of network calls that denoise: 1 gives the expected picture, more draw a sample.
            steps: Number of steps that are decoded, for a preview. By default all of them.
            max_work: Billions of pixels that the file may send through the network. By default its size decides.
            progress: Whether a terminal shows a progress bar.

        Returns:
            A uint8 array (H, W, C) for each image; the channels of a grey one are equal.

        Raises:
            DippError: Flags contradict each other, or the archive was made with another model.

        Example::

            pictures = dipp.open("photos.dipp").decode(sample=True)
        """
        decoding = Decoding(noisy, sample, ancestral, calls, steps, max_work)
        sizes = [math.prod(size) for images, *size in self.runs.tolist() for _ in range(images)]
        decoder = Decoder(models.load(model, device))
        with shown("decoding", sizes, decoder.work(self.parameters.plan, decoding), PREVIEW, wanted=progress):
            return list(decoder.pictures(self, decoding))


def open(path: str | Path, *, verify: bool = True) -> Archive:  # noqa: A001 - users say dipp.open
    """Open a .dipp file, and compute its certificate again. A large file is mapped into memory, not read at once.

    Args:
        path: The file.
        verify: Whether to compare the checksum over the whole file. False reads the header only.

    Raises:
        DippError: The file cannot be read, or is damaged or inconsistent.

    Example::

        archive = dipp.open("photo.dipp")
    """
    plain = archives.open(path, verify=verify)
    return Archive(**{field.name: getattr(plain, field.name) for field in dataclasses.fields(plain)})
