"""The records of an encoder of a plan, without encoding."""

from __future__ import annotations

import dataclasses
from typing import Any

from dipp.core import chunking
from dipp.core.plan import Plan
from dipp.core.price import Sensitivity, StepRecord
from dipp.core.signal import SIGNAL_OF_PIXEL
from dipp.privacy.ledger import FIELDS, StepDraws
from dipp.privacy.recorder import Recorder
from helpers.archives import SEED
from helpers.geometry import of_pixels


def record(plan: Plan, pixels: int, channels: int = 3, recorder: Recorder | None = None, **changes: Any) -> Recorder:
    """Record what an encoder of a plan observes, with some values changed."""
    recorder, geometry = recorder or Recorder(), of_pixels(pixels, channels)
    for number, step in enumerate(plan.steps):
        arithmetic = plan.arithmetic(step)
        touched = plan.mask.touched(SEED, number, geometry)
        count = -(-len(touched) // step.chunk_size)
        apart = plan.mask.touches(channels) == 1 or count >= channels
        chunks = chunking.NOTHING
        if len(touched):
            chunks = chunking.chunks(SEED, number, geometry, count, apart=apart, coordinates=touched)
        table = arithmetic.levels(SIGNAL_OF_PIXEL)
        used = StepRecord(
            plan.terms(step) if plan.coding.certified else None,
            step.candidates,
            table,
            arithmetic.largest_shift,
            arithmetic.fraction_bits,
        )
        integers = {name: value for name, value in changes.items() if name != "chunks"}
        dealt = changes.get("chunks", chunks)
        recorder.observe(number, plan, geometry, 1, dealt, used._replace(**integers))
    return recorder


def terms(record: StepDraws) -> Sensitivity:
    """Return the terms of a record of a code that is priced by a sensitivity."""
    assert isinstance(record.terms, Sensitivity)
    return record.terms


def changed(record: StepDraws, **change: Any) -> StepDraws:
    """Return a record with other fields, of its own or of its terms."""
    own = {name: value for name, value in change.items() if name in FIELDS}
    inner = {name: value for name, value in change.items() if name not in FIELDS}
    return dataclasses.replace(record, terms=dataclasses.replace(terms(record), **inner), **own)
