"""Negative controls: mistakes that void a certificate; an audit must catch each.

An audit that does not catch them would not catch a mistake in the real encoder either. Which mistakes can be made
depends on what is audited: on the code, and on whether shifts are clipped.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from dipp import scoring
from dipp.audit import broken, misasked
from dipp.audit.blackbox import Encoder
from dipp.audit.likelihood import LogLaw, log_law
from dipp.audit.neighbours import Pixels, grey_pair
from dipp.audit.setting import AuditSubject
from dipp.codec.chain import Chain
from dipp.codec.encoder import Selector
from dipp.codes import Closest, Flat, Pairs, StepLimited
from dipp.core import randomness, selection
from dipp.core.price import Sensitivity
from dipp.core.steps import Question, SensingStep, Step
from dipp.core.units import Cells


class PlantedMistake(NamedTuple):
    """A mistake that replaces a function of the project's own code while a control runs (`setting.replaced`)."""

    owner: Any
    """The module or class of the function."""
    name: str
    """Name of the function."""
    value: Callable[..., Any]
    """The broken function that replaces it."""


@dataclass(frozen=True)
class Controls:
    """Mistakes by name, grouped by the audit that must catch them."""

    releases: Mapping[str, Encoder] = field(default_factory=dict)
    """Broken encoders that the black-box audit must catch."""
    comparisons: Mapping[str, tuple[type[Selector], LogLaw]] = field(default_factory=dict)
    """Broken encoders that the exact audit must catch: each a selector and the law of its indices."""
    laws: Mapping[str, PlantedMistake] = field(default_factory=dict)
    """Mistakes in the real encoder that the law audit must catch."""
    claims: Mapping[str, PlantedMistake] = field(default_factory=dict)
    """Mistakes in the accounting: the exact audit must observe that the real encoder exceeds their claim."""

    def __or__(self, other: Controls) -> Controls:
        """Return the mistakes of both."""
        names = [group.name for group in dataclasses.fields(self)]
        return Controls(*({**getattr(self, name), **getattr(other, name)} for name in names))


ALWAYS = Controls(
    releases={
        "private randomness from the shared seed": broken.encoder(broken.shared_seed),
        "infinite alpha with an epsilon": broken.encoder(broken.infinite_alpha),
    },
    laws={
        "private bytes from a known seed": PlantedMistake(randomness, "private_bytes", np.random.default_rng(0).bytes)
    },
)
"""Mistakes that can be made with every coding."""
SEARCHED = Controls(
    releases={
        "candidates from the realised divergence": broken.encoder(broken.realised_kl),
        "chunks from the realised divergence": broken.encoder(broken.realised_chunks),
    },
    comparisons={"noise in float32": (Selector, broken.float32_law)},
    laws={
        "a constant private draw": PlantedMistake(selection, "_uniform_below", broken.constant_below),
        "scores times 1.15": PlantedMistake(scoring, "select", broken.scaled_scores),
        "Gumbel noise in float32": PlantedMistake(scoring, "select", broken.gumbel),
    },
)
"""Mistakes that can be made with codes that search among candidates."""
PAIRED = Controls(
    laws={
        "a constant private draw": PlantedMistake(randomness, "private_bytes", broken.constant_bytes),
        "scores times 1.15": PlantedMistake(Pairs, "draw", broken.scaled_shifts),
        "logistic noise in float32": PlantedMistake(Pairs, "draw", broken.logistic),
    },
    claims={"pairs charged with ρ = ε²/8": PlantedMistake(Pairs, "charge", broken.bounded_range)},
)
"""Mistakes that can be made with the code of pairs."""
STEPPED = Controls(comparisons={"pixels not clamped": (broken.UnclampedSelector, log_law)})
"""Mistakes that can be made with steps along timesteps. (Where shifts are clipped, the clip bounds the shift of any
pixel value.)"""
CLIPPED = Controls(
    releases={
        "a group chosen by the picture": broken.encoder(broken.own_group),
        "a gain fitted to the picture": broken.encoder(broken.own_gain),
    },
    comparisons={"a clip that depends on the picture": (broken.OwnClipSelector, log_law)},
    claims={"a slope derived from the clip": PlantedMistake(Sensitivity, "units", broken.slope_of_clip)},
)
"""Mistakes that can be made with clipped steps of sensing."""


ASKED = Controls(
    releases={"candidates chosen by the picture": broken.encoder(misasked.own_candidates)},
    comparisons={
        "m that depends on the picture": (misasked.OwnCountSelector, log_law),
        "ε of a draw chosen by the picture": (misasked.OwnEpsilonSelector, log_law),
    },
    laws={
        "a constant private draw": PlantedMistake(randomness, "private_bytes", broken.constant_bytes),
        "a heavy weight times 1.15": PlantedMistake(Closest, "draw", misasked.steep_draw),
    },
    claims={"several draws charged as one": PlantedMistake(Closest, "price", misasked.one_draw)},
)
"""Mistakes that can be made with questions."""
CELLULAR = Controls(
    releases={"one private integer for two cells": broken.encoder(misasked.shared_integer)},
    comparisons={
        "a score that reads the next cell": (misasked.NextCellSelector, log_law),
        "contents normalised over the picture": (misasked.NormalisingSelector, log_law),
        "ties broken by another cell": (misasked.NextCellTiesSelector, log_law),
    },
)
"""Mistakes that can be made with cells, which let other cells influence an answer."""


OF_CODES = {Flat.name: SEARCHED, StepLimited.name: SEARCHED, Pairs.name: PAIRED}
"""Mistakes that can be made with each code, by its name."""
OF_STEPS = {Step.kind: STEPPED, SensingStep.kind: CLIPPED, Question.kind: ASKED}
"""Mistakes that can be made with each kind of steps, by its name."""
OF_UNITS = {Cells.kind: CELLULAR}
"""Mistakes that can be made with each kind of units, by its name."""


def controls_of(subject: AuditSubject) -> Controls:
    """Return all mistakes that can be made with the audited coding, kind of steps and unit.

    Args:
        subject: The coding, kind of steps and unit that are audited.
    """
    groups = (
        OF_CODES.get(subject.coding.code.name),
        OF_STEPS.get(subject.kind),
        OF_UNITS.get(subject.unit.kind),
    )
    return functools.reduce(operator.or_, (group for group in groups if group is not None), ALWAYS)


def crossing_pair(encode: Encoder, chain: Chain, number: int) -> tuple[Pixels, Pixels]:
    """Return two grey images that differ in one pixel and in the last number that an encoder releases, if possible.

    Such a number is a function of the image: at a grey level where it jumps, a single pixel decides it.

    Args:
        encode: A broken encoder, whose last released number (of bits, for example) depends on the image.
        chain: The chain to encode with.
        number: Seed of the choice of the pixel.

    Returns:
        Two images as rows of coordinates.
    """
    pairs = [grey_pair(chain, np.random.default_rng(number), level) for level in np.arange(0, 255, 0.25).tolist()]
    first, second = (encode(chain, np.stack(images))[:, -1] for images in zip(*pairs, strict=True))
    return pairs[int(np.argmax(first != second))]
