"""Observations for a plot: what audits observe at several ε."""

from __future__ import annotations

from typing import NamedTuple

from dipp.audit import exact, suite
from dipp.audit.setting import plan_for
from dipp.core.unit import Unit

LADDER = (1 / 8, 1 / 4, 1 / 2, 1, 2, 4)
"""Claims in a plot, relative to ε."""


class Observation(NamedTuple):
    """An observed loss and the claimed ε, both per unit: a point of the plot."""

    preset: str
    """Name of the preset, with the coding if the preset has several."""
    kind: str
    """Kind of the pairs of the exact audit, or "black box"."""
    claimed: float
    observed: float


def ladder(name: str, epsilon: float, unit: Unit = suite.PIXEL) -> list[Observation]:
    """Return losses from exact and black-box audits at claims around ε, for a plot of observed against claimed.

    Args:
        name: Name of the preset.
        epsilon: ε of the unit; claims from 1/8 to 4 times as large are audited.
        unit: The unit of the claims, by default a pixel.

    Raises:
        DippError: The preset has no certificate, or ε or the unit cannot be audited.
    """
    subjects, points = suite.auditable(name, epsilon, unit), []
    for coding, subject in subjects.items():
        title = name if len(subjects) == 1 else f"{name}: {coding}"
        for claim in (epsilon * factor for factor in LADDER):
            if not suite.LEAST <= claim <= suite.LARGEST:
                continue
            for pairs in exact.audit(*plan_for(subject, claim), suite.PAIRS, suite.ADVERSARIES):
                losses = pairs.attained if pairs.kind == "adversarial" else pairs.observed
                points += [Observation(title, pairs.kind, pairs.claimed, loss) for loss in losses]
            if claim <= suite.BLACK_BOX_CLAIM:
                counted = suite.black_box_audit(subject, claim, suite.BLACK_BOX_RUNS)
                points.append(Observation(title, "black box", counted["claimed"], counted["observed"]))
    return points
