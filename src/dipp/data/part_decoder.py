"""The decoder of a loaded release: pictures of its parts, by a denoiser that is loaded when it is first needed."""

from __future__ import annotations

import logging
import os
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import get_worker_info

from dipp import models
from dipp.codec import work
from dipp.codec.decoder import Decoder
from dipp.codec.decoding import Decoding
from dipp.codec.pictures import Pixels
from dipp.core.geometry import Geometry
from dipp.data.parts import Part
from dipp.errors import DippError
from dipp.format.parameters import PublicParameters
from dipp.models.denoiser import torch_device

if TYPE_CHECKING:
    from dipp.core.plan import Plan

LOGGER = logging.getLogger("dipp")
WORKERS = (
    "workers of a DataLoader lose what they have decoded after each epoch; use num_workers=0, or "
    "dipp.load(…, cache=FOLDER)"
)
"""Warning about workers whose decoded pictures are lost."""


class PartDecoder:
    """Decodes pictures from the parts of a release (`parts`). A copy in another process loads the denoiser again.

    Args:
        model: Folder or hub id of the denoiser.
        device: Name of the device.
        decoding: The kind of picture to decode.
        lasting: Whether decoded pictures are kept when a worker of a `DataLoader` ends. If not, a worker logs a
            warning.
    """

    def __init__(self, model: str, device: str, decoding: Decoding, *, lasting: bool) -> None:
        self._model, self._device, self._decoding, self._lasting = model, device, decoding, lasting
        self._affordable: set[Part] = set()
        self._decoder: Decoder | None = None
        self._plan: Plan | None = None
        self._process = os.getpid()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_decoder": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _process=os.getpid())

    def decoded(self, geometry: Geometry, places: list[tuple[Part, int]]) -> Pixels:
        """Return pictures of one geometry, uint8 (N, H, W, C).

        Args:
            geometry: Geometry of the pictures.
            places: For each picture, the part that holds it and its row there.

        Raises:
            DippError: The parts belong to several releases, a part costs too much work or was made with another model,
                or this is a forked process that decodes on a GPU.
        """
        rows = np.concatenate([part.rows([row for _, row in run]) for part, run in groupby(places, key=lambda p: p[0])])
        self._check_process()
        parameters = places[0][0].parameters
        decoder = self._decoder_for(parameters)
        for part, _ in places:
            self._require_affordable(part, decoder)
        if any(part.parameters.seed != parameters.seed for part, _ in places):
            raise DippError("shards", "belong to several releases", "get them again")
        numbers = [part.number(row) for part, row in places]
        grey = np.array([part.grey(row) for part, row in places], bool)
        return decoder.end(parameters, geometry, rows, numbers, grey, self._decoding).pictures(self._decoding)

    def _require_affordable(self, part: Part, decoder: Decoder) -> None:
        """Raise if decoding a part costs more than the size of its file justifies. Each part is checked once."""
        if part not in self._affordable:
            sizes = [(1, part.geometry(row).pixels) for row in range(part.images)]
            calls = decoder.calls(part.parameters.plan, self._decoding)
            work.require_affordable(sizes, calls, part.size, self._decoding.max_work)
            self._affordable.add(part)

    def _check_process(self) -> None:
        """Make a forked process decode with one thread, because the parent's threads are gone.

        Raises:
            DippError: The process is forked and decodes on a GPU.
        """
        if self._process == os.getpid():
            return
        if torch_device(self._device).type != "cpu":
            raise DippError(
                "DataLoader",
                "must not fork workers that decode on a GPU",
                'use multiprocessing_context="spawn", num_workers=0, or a cache that was filled before',
            )
        torch.set_num_threads(1)
        self._process = os.getpid()
        worker = get_worker_info()
        if not self._lasting and worker is not None and worker.id == 0:
            LOGGER.warning(WORKERS)

    def _decoder_for(self, parameters: PublicParameters) -> Decoder:
        """Return the decoder of a release, with its denoiser loaded."""
        if self._decoder is None:
            denoiser = models.load(self._model, self._device)
            denoiser.require_identity(parameters.model)
            self._decoder, self._plan = Decoder(denoiser.prompted(parameters.prompt)), parameters.plan
        if (self._plan, self._decoder.denoiser.identity) != (parameters.plan, parameters.model):
            raise DippError("shards", "belong to several releases", "get them again")
        return self._decoder
