"""Check that an encoding follows from the public table of its model, also in the numbers that decoding does not need.

A decoder of pairs needs neither tilt nor clip, and a decoder along timesteps needs no more than the order of the SNR
gains. A sender who rewrites them can state a smaller ε for the same picture. But a plan follows from public numbers.
Its model is named by a hash. Along timesteps its SNR gains are those of the model's noise schedule; in sensing they
follow from tilts, clips and the residuals whose digest the file holds. So all of them are computed again here. Nor does
a decoder need to know which searching code drew an index, but the indices show it (`check_indices`).

This shows that a file is *consistent*: that some honest encoder could have made it. It cannot show that one did. Tilts,
clips and gains may all have been replaced by those of a plan for a smaller ε, and where tilts are large, gains hardly
depend on them: only a signature of the encoder shows more.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dipp import models
from dipp.core.channels import Sign
from dipp.core.closest import Weights
from dipp.core.geometry import Geometry
from dipp.core.plan import Coding
from dipp.core.steps import Question, SensingStep, Step
from dipp.errors import DippError, InconsistentError
from dipp.format.bytes import Integers
from dipp.format.parameters import PublicParameters
from dipp.models import embedded
from dipp.planning.planner import short_floats
from dipp.planning.presets import PRESETS
from dipp.planning.questions import CODING, step_of, table
from dipp.planning.residuals import Residuals
from dipp.planning.sensing import CLIPS
from dipp.planning.sensing_choices import SENSING_CODES
from dipp.planning.table import ErrorTable
from dipp.planning.tilts import deviation, gain

Floats = NDArray[np.float64]

FALSE_ALARM = 1e-9
"""Largest probability that `check_indices` refuses the indices of an honest encoder."""
SHARES = 1e-3
"""Largest relative difference between the ε of any two draws of a plan, which differ because weights are whole."""
SAME = 1e-9
"""Largest relative difference between the results of a formula on two machines."""


def made_with_the_embedded_model(parameters: PublicParameters) -> bool:
    """Return whether public parameters name the denoiser that ships with dipp."""
    return bool(ErrorTable.of_model(embedded.FOLDER).provenance.get("model") == parameters.model)


def verify(parameters: PublicParameters, model: str | Path, calibration: str | Path | None = None) -> None:
    """Raise if an encoding does not follow from a model and its public table. Weights are not read.

    Args:
        parameters: The public parameters of an encoding.
        model: Folder of the model, or its id on the hub.
        calibration: File of the table. By default the one beside the weights.

    Raises:
        DippError: The table is of another model, or cannot be read.
        InconsistentError: No honest encoder used these parameters with the model.
    """
    costs = ErrorTable.of_model(model, calibration)
    if (measured := costs.provenance.get("model")) != parameters.model:
        raise DippError(
            "model", f"is {parameters.model} in the file, and the table is of {measured}", "name another --model"
        )
    # A file that calls channels pixels would state a smaller ε, because each such pixel is touched less often.
    if parameters.channels != (channels := models.channels(model)):
        raise InconsistentError(
            "channels", f"are {parameters.channels} in the file, and its model has {channels}", "do not trust the file"
        )
    CHECKS[parameters.plan.kind](parameters, costs, model)


def _check_timesteps(parameters: PublicParameters, costs: ErrorTable, model: str | Path) -> None:  # noqa: ARG001
    """Raise if no preset has the coding, or if a gain is not that of the noise schedule."""
    plan, schedule = parameters.plan, models.schedule(model)
    if plan.coding not in [coding for preset in PRESETS.values() for coding in preset.codings]:
        raise _no_preset(plan.coding)
    for step in plan.steps:
        schedule.require_gain(step.start, step.end, step.snr_gain)


def _check_sensing(parameters: PublicParameters, costs: ErrorTable, model: str | Path) -> None:  # noqa: ARG001
    """Raise if no preset has the coding, or if clips and gains do not follow from the residuals."""
    plan = parameters.plan
    if costs.residuals is None:
        raise DippError("calibration", "has no residuals of sensing", "make it again with `dipp calibrate`")
    if plan.code not in SENSING_CODES or not isinstance(plan.coding.channel, Sign) or not plan.separate:
        raise _no_preset(plan.coding)
    check_gains(parameters, costs.residuals)


def _check_questions(parameters: PublicParameters, costs: ErrorTable, model: str | Path) -> None:  # noqa: ARG001
    """Raise if no recipe of the words that the file names has these questions.

    All draws of a plan have equal ε, so the weights of each step must be those that `step_of` computes from that ε.
    """
    books = models.words(model)
    if books is None:
        raise DippError("words", "are missing in the model, and the file was made with words", "name another --model")
    books.require(parameters.table)
    if parameters.plan.coding != CODING or not parameters.plan.separate:
        raise _no_preset(parameters.plan.coding)
    epsilons = [Weights(step.candidates, step.best, step.heavy, step.light).epsilon for step in parameters.plan.steps]
    for row in table(books):
        if len(row.recipes) == len(epsilons):
            wanted = tuple(step_of(recipe, each) for recipe, each in zip(row.recipes, epsilons, strict=True))
            if wanted == parameters.plan.steps and max(epsilons) <= min(epsilons) * (1 + SHARES):
                return
    raise InconsistentError("plan", "has questions of no recipe of the model's words", "do not trust the file")


CHECKS: dict[str, Callable[[PublicParameters, ErrorTable, str | Path], None]] = {
    Step.kind: _check_timesteps,
    SensingStep.kind: _check_sensing,
    Question.kind: _check_questions,
}
"""The check of public parameters, by the kind of their steps."""


def check_indices(parameters: PublicParameters, images: Iterable[tuple[Geometry, Integers]]) -> None:
    """Raise if indices are unlikely for the flat code that the parameters state.

    Indices of the Poisson order, at twice the ε of the flat code, crowd at small numbers. By the flat code, over the
    public seed and whatever the pictures, each index K is uniform below its n, given all before it: the n candidates of
    a chunk are independent and have one law, and the selection does not look at their numbers. So P[(K + 1)/n ≤ t] ≤ t;
    S = −Σ ln((K + 1)/n) of m indices is at most as large as a sum of m exponential variables of mean 1, and Chernoff's
    bound is P[S ≥ s] ≤ exp(−(s − m − m·ln(s/m))) for s > m. Sums for which that is below `FALSE_ALARM` are refused.

    A file of few indices passes: the check needs ten to thirty indices of step-limited PPR, and more of them if they
    have fewer bits. Indices that do not crowd at small numbers pass as well.

    Args:
        parameters: The public parameters of the encoding.
        images: Geometry and indices of each image.

    Raises:
        InconsistentError: The indices are unlikely.
    """
    plan = parameters.plan
    if not plan.code.uniform:
        return
    sizes = functools.cache(
        lambda geometry: np.repeat([s.candidates for s in plan.steps], plan.chunk_counts(parameters.coded(geometry)))
    )
    count, total = 0, 0.0
    for geometry, indices in images:
        count, total = count + len(indices), total - float(np.log((indices + 1) / sizes(geometry)).sum())
    if total > count and total - count - count * math.log(total / count) > -math.log(FALSE_ALARM):
        raise InconsistentError(
            "indices", "are too often small for the flat code, which the file states", "do not trust the file"
        )


def check_gains(parameters: PublicParameters, residuals: Residuals) -> None:
    """Raise if the clips and gains of a sensing plan do not follow from its tilts and the residuals that it names.

    The clips of a plan are one of `CLIPS` times the deviations of the residuals, and its gains follow from tilts and
    clips, by the formulas of `planning.sensing`. Both must be equal in all digits that are stored, and all steps must
    have the same tilt. If some percent of difference were allowed, or a tilt for each step, narrower clips could make
    up for a third of the tilt. A searching code may have realised the fraction of any pad that was measured, the same
    in all steps.

    Args:
        parameters: The public parameters of the encoding.
        residuals: The residuals of the model.

    Raises:
        DippError: The parameters name other residuals.
        InconsistentError: No planner makes such steps.
    """
    if parameters.table != residuals.digest:
        raise DippError(
            "table", "in the file names other residuals", "take the calibration that the file was made with"
        )
    steps = parameters.plan.steps
    gains, tilts, clips = (np.array([getattr(step, name) for step in steps]) for name in ("snr_gain", "tilt", "clip"))
    if len(set(tilts.tolist())) > 1:
        raise InconsistentError("plan", "has steps of different tilts, which no planner makes", "do not trust the file")
    snrs = np.array([0.0, *itertools.accumulate(gains[:-1].tolist())])
    r = residuals.at(snrs)
    if _differs(clips, np.array(CLIPS)[:, None] * deviation(r)).any(axis=1).all():
        raise InconsistentError("plan", "has clips that do not follow from the residuals", "do not trust the file")
    theta = tilts[:, None] * np.minimum(r / clips[:, None], 1.0)
    shares = np.ones((1, 1))
    if parameters.plan.code.searches:
        shares = np.array([[residuals.realised_at(pad, tilt) for tilt in tilts] for pad in residuals.pads])
    wrong = _differs(gains, gain(r, theta, shares * residuals.touched_at(snrs), 1 / parameters.plan.mask.period))
    nearest = wrong[wrong.sum(axis=1).argmin()]
    if nearest.any():
        step = int(nearest.argmax())
        raise InconsistentError(
            "plan",
            f"has in step {step} a gain of {gains[step]:.4g} that does not follow from its tilt {tilts[step]:.4g} and "
            f"clip {clips[step]:.4g}",
            "do not trust the file",
        )


def _no_preset(coding: Coding) -> InconsistentError:
    return InconsistentError(
        "plan",
        f"has the coding {coding.name}, α = {coding.code.alpha_name}, which no preset has",
        "do not trust the file",
    )


def _differs(stored: Floats, exact: Floats) -> NDArray[np.bool_]:
    """Return, for each stored number, whether it differs from what `short_floats` makes of the exact one."""
    return np.asarray((stored != short_floats(exact * (1 - SAME))) & (stored != short_floats(exact * (1 + SAME))))
