"""The content of the golden archives: plans, made-up indices, pictures and reconstructions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from dipp.codec import asking
from dipp.codec.codec import Codec
from dipp.codec.decoder import Decoder
from dipp.codec.decoding import NOISY, ChainEnd
from dipp.codes import Flat, Pairs, StepLimited
from dipp.core.arrays import host
from dipp.core.beacon import Beacon
from dipp.core.plan import Plan
from dipp.core.regions import Place, Regions
from dipp.core.steps import MAX_LEVEL, Question, SensingStep
from dipp.core.window import Window
from dipp.format.archive import Archive
from dipp.models.denoiser import Denoiser
from dipp.planning.presets import DIFFC, PAPER
from dipp.privacy.budget import Budget
from helpers.archives import FLAT, PPR, build, nine_steps, of_latents
from helpers.broken_archives import made_of
from helpers.codecs import make_plan, pictures
from helpers.questions import PLANS, noise, question, questions_plan
from helpers.sensing import sensing_plan

MADE_UP = {"made-up-flat": FLAT, "made-up-ppr": PPR, "made-up-paper": PAPER, "made-up-diffc": DIFFC}
"""Nine steps along timesteps, with indices that no encoder drew: the same bytes on every machine."""
STEPPED = {"coded-flat": FLAT, "coded-ppr": PPR, "coded-paper": PAPER, "coded-diffc": DIFFC, "coded-sizes": FLAT}
"""Golden files of encodings along timesteps."""
SENSED = {"sensing-pairs": Pairs(), "sensing-flat": Flat(), "sensing-ppr": StepLimited()}
"""A pass and a half of clipped sensing, with the digest of a table."""
MIXED = {"beacon-flat": Beacon(4242, bytes(range(100, 132)), bytes(range(16)))}
"""Steps along timesteps, with a seed that follows from a beacon, and a δ."""
SOURCED = {"source-pairs": Window(-100, 900)}
"""Pairs, with a window, and pictures in colour and in grey."""
ASKED = {"asked-cells": PLANS["cells by signs"], "asked-picture": PLANS["picture"]}
"""Questions to cells, by words and by signs, and to whole pictures."""
CODED = (*STEPPED, *SENSED, *MIXED, *SOURCED, *ASKED)
REGIONS = "asked-regions"
"""Two questions to three declared regions: one of two boxes, one with a mask, one at the picture's edge."""
SIZES = ((8, 8), (13, 21), (7, 9), (40, 24))
"""Sizes of the pictures of `coded-sizes`: the denoiser's own, uneven ones, and one that it sees through windows."""
SENSED_SIZES = ((8, 8), (8, 8), (7, 9), (1, 1))
LATENT = "made-up-latents"
"""Questions to latents, with a prompt."""
MADE_UP_SHAPES = [(16, 16, 3)] * 5 + [(8, 24, 3)]
TABLE = hashlib.sha256(b"a table").hexdigest()


def made_up_archive(name: str) -> Archive:
    """Return the archive of made-up indices of a name."""
    if name == LATENT:
        return made_of(of_latents(PLANS["picture by signs"], "une forêt"), MADE_UP_SHAPES)
    return build(nine_steps(MADE_UP[name]), MADE_UP_SHAPES)


def images(name: str) -> list[Any]:
    """Return the pictures of an encoding."""
    if name in SOURCED:
        colour = pictures(2)
        return [colour[0], colour[1, :, :, 0], colour[1, :, :, :1].astype(np.int16) * 4 - 100]
    if name in SENSED or name in ASKED:
        return [pictures(1, *size)[0] for size in SENSED_SIZES]
    return [pictures(1, *size)[0] for size in SIZES] if name == "coded-sizes" else list(pictures(3))


def levelled(plan: Plan) -> Plan:
    """Return a plan of sensing whose steps, but the first, are predicted at each level in turn."""
    steps = tuple(replace(step, level=number % (MAX_LEVEL + 1)) for number, step in enumerate(plan.steps))
    return Plan(plan.coding, steps)


def plan_of(name: str, denoiser: Denoiser) -> Plan:
    """Return the plan of an encoding."""
    if name in SOURCED:
        return sensing_plan(Pairs())
    if name in ASKED:
        return ASKED[name]
    return (
        levelled(sensing_plan(SENSED[name]))
        if name in SENSED
        else make_plan(STEPPED.get(name, FLAT), denoiser.schedule)
    )


def codec_of(name: str, denoiser: Denoiser) -> Codec:
    """Return the codec that makes the encoding of a name."""
    plan = plan_of(name, denoiser)
    budget = Budget.approximate(1e6, 1e-6) if name in MIXED else None
    words = denoiser.books.digest if denoiser.books else None
    return Codec(denoiser, plan, budget, {SensingStep.kind: TABLE, Question.kind: words}.get(plan.kind))


def reconstructions(codec: Codec, source: Archive) -> dict[str, Any]:
    """Return the last states and posterior means of all pictures of an archive, one after the other."""
    return of_ends(codec, Decoder(codec.denoiser).ends(source, NOISY))


def of_ends(codec: Codec, ends: Iterable[ChainEnd]) -> dict[str, Any]:
    """Return the last states and posterior means of the ends of chains, one after the other."""
    found: dict[str, list[Any]] = {"noisy": [], "mean": []}
    for end in ends:
        state, t = end.noisy()
        found["noisy"].append(host(state).ravel())
        found["mean"].append(host(codec.denoiser.x0(state, t)).ravel())
    return {kind: np.concatenate(parts) for kind, parts in found.items()}


def regions_archive(denoiser: Denoiser) -> Archive:
    """Return an archive of answers about regions of noise."""
    places = Place(0, 1, 2, 9, 8), Place(1, 12, 0, 5, 6, (2, 3, 3, 22)), Place(0, 0, 11, 3, 2), Place(2, 14, 9, 6, 4)
    plan = questions_plan(Regions(places), question(), question(2, bits=5, best=2, epsilon=1.5))
    return asking.ask(denoiser, plan, noise(13, 20, 3), noise(13, 20, 3, seed=1))
