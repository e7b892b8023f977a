"""The ledger that an encoder writes while it encodes, from the numbers that it really uses."""

from __future__ import annotations

import dataclasses
from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from dipp.core.chunking import Chunks
from dipp.core.geometry import Geometry
from dipp.core.plan import Plan
from dipp.core.price import StepRecord
from dipp.core.unit import Unit
from dipp.errors import DippError
from dipp.privacy.ledger import Ledger, StepDraws


class Recorder:
    """A record of what the encoder really does, from which it makes its own ledger.

    Of several batches, it keeps the worst values that a unit met. The masks and deals of a seed are the same for all
    images of a geometry, so each is inspected once, and images are counted. It also adds up the cost of the steps that
    really touched each unit, which may not exceed the ε that the public mask promises.
    """

    def __init__(self) -> None:
        self._designs: set[tuple[int, int, Unit]] = set()
        self._met: dict[int, StepDraws] = {}
        self._images: dict[int, int] = defaultdict(int)
        self._seen: set[tuple[int, Geometry]] = set()
        self._spent: dict[Geometry, NDArray[np.float64]] = {}
        self._missing: dict[int, int] = defaultdict(int)
        self._smallest: dict[int, tuple[Geometry, int]] = {}

    def observe(self, step: int, plan: Plan, geometry: Geometry, images: int, chunks: Chunks, used: StepRecord) -> None:
        """Record a step of some images of one geometry. Nothing here depends on the content of an image.

        Args:
            step: Number of the step, from 0.
            plan: The plan of the encoding. If its coding has no certificate, nothing is recorded.
            geometry: Geometry of the images.
            images: Number of images.
            chunks: The chunks that the encoder dealt.
            used: The integers that the encoder used.

        Raises:
            DippError: An earlier image was coded by other public values in this step.
        """
        if not plan.coding.certified:
            return
        self._images[step] += images
        if used.draws is not None:
            self._missing[step] += abs(images * chunks.count - used.draws)  # batches do not make up for each other
        self._designs.add((geometry.channels, plan.mask.period, plan.unit))
        planned = plan.steps[step]
        parts, apart = plan.code.deal.dealt(chunks, *planned.grid(plan.unit, geometry))
        # A unit that the edge of a small picture cuts off has fewer parts, and is charged like a whole one.
        touched = max(int(parts.max(initial=1)), plan.touches(geometry.channels, planned))
        met = StepDraws(
            step=step,
            code=plan.code.name,
            terms=plan.code.recorded(used),
            candidates=used.candidates,
            chunks=chunks.count,
            touched=touched,
            # A deal that was not asked to separate the parts of a unit does not promise it, even if it did here.
            apart=apart and (touched == 1 or plan.separate),
        )
        if (step, geometry) not in self._seen:
            self._seen.add((step, geometry))
            spent = self._spent.setdefault(geometry, np.zeros(plan.unit.count(geometry)))
            spent += parts * dataclasses.replace(met, touched=1, apart=True).charge().epsilon  # each part counts alone
        smallest, _ = self._smallest.setdefault(step, (geometry, chunks.count))
        if plan.unit.smallest((geometry, smallest)) == geometry:
            self._smallest[step] = geometry, chunks.count
        before = self._met.setdefault(step, met)
        if met.public != before.public:
            raise DippError(
                f"step {step}",
                "was coded differently for two images, which would reveal something of them",
                "report this",
            )
        self._met[step] = dataclasses.replace(
            met,
            terms=met.terms.worse(before.terms),
            chunks=self._smallest[step][1],
            touched=max(met.touched, before.touched),
            apart=met.apart and before.apart,
        )

    def ledger(self, plan: Plan, images: int) -> Ledger | None:
        """Return the ledger of what was recorded.

        Args:
            plan: The plan of the encoding.
            images: Number of images that were encoded.

        Returns:
            The ledger; None for 0 images, or if the coding has no certificate.

        Raises:
            DippError: A step was not recorded for every image, a private integer was not drawn, or steps cost a unit
                more than the mask design allows.
        """
        if not plan.coding.certified or not images:
            return None
        if [self._images.get(step, 0) for step in range(len(plan.steps))] != [images] * len(plan.steps):
            raise DippError(
                "ledger", "is incomplete: the encoder has not written down every step of every image", "report this"
            )
        if any(self._missing.values()):
            raise DippError(
                "ledger", "is wrong: the encoder has not drawn one private integer for each block", "report this"
            )
        ((channels, period, unit),) = self._designs
        ledger = Ledger(channels, period, tuple(self._met[step] for step in sorted(self._met)), unit)
        if max(float(spent.max()) for spent in self._spent.values()) > ledger.epsilon * (1 + 1e-12):
            raise DippError(
                "ledger", "is wrong: a unit was touched more often than the mask design says", "report this"
            )
        return ledger
