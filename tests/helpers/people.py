"""Pictures of people that recognisers learn within seconds."""

from __future__ import annotations

import math

import numpy as np

from dipp.risk.recognition import Pixels


def striped_people() -> Pixels:
    """Return four pictures of each of six people: each has stripes of its own, at random places and in random light."""
    rng, rows = np.random.default_rng(0), []
    for who in range(6):
        for _ in range(4):
            x = np.arange(32)[None, :] * math.cos(who) + np.arange(32)[:, None] * math.sin(who)
            grey = 128 + rng.normal(0, 6) + 50 * np.sin((x + rng.normal()) * (0.2 + 0.1 * who))
            rows.append(np.repeat((grey + rng.normal(0, 8, (32, 32)))[..., None], 3, axis=2))
    return np.asarray(np.clip(rows, 0, 255), np.uint8)
