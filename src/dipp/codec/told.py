"""What answers have told of regions, beside what was painted there without reading them.

The prediction of a coarse pixel is the mean of the painted picture, plus what earlier questions have told about it.
After the last question, the picture is the painted one plus what was told, interpolated between the centres of the
coarse pixels. Towards the edge of a region it falls to nothing within half a coarse pixel, so that no seam shows.
Pixels outside the regions are those of the painted picture, to the bit. Everything here is public.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dipp.codec import questions
from dipp.codec.grids import Cuts, interpolated
from dipp.codec.pictures import Pixels
from dipp.codec.questions import RoundCandidates
from dipp.codec.trajectory import Trajectory
from dipp.core.arrays import Array, host
from dipp.core.geometry import Geometry
from dipp.core.plan import Plan
from dipp.core.regions import Place, Regions
from dipp.core.signal import to_signal
from dipp.core.steps import Question
from dipp.errors import DippError
from dipp.models.denoiser import Denoiser

FALL = 0.5
"""Coarse pixels within which what was told falls to nothing at the edge of a region."""


@dataclass(frozen=True, eq=False)
class RegionAnswers(Trajectory):
    """The coarse pictures of regions, one below the other, as far as they are known."""

    plan: Plan
    denoiser: Denoiser
    base: Pixels | None = field(repr=False)
    """The painted picture (H, W, C)."""

    def start(self, seed: bytes, geometry: Geometry) -> Array:  # noqa: ARG002
        """Return nothing told, on the grid of the first question."""
        rows, columns, channels = self._grid(0).shape
        return self.denoiser.placed(np.zeros((1, channels, rows, columns), np.float32))

    def asked(self, seed: bytes, number: int, turn: int) -> RoundCandidates:
        """Return the candidates of a question: words of the model's books, or random signs."""
        return questions.asked(self.plan, self.denoiser, seed, number, turn)

    def predict(self, number: int, state: Array, turn: int = 0) -> Array:  # noqa: ARG002
        """Return the painted coarse pixels, plus what was told at the last division."""
        painted = self._painted(number)
        if not number:
            return painted
        told, (before, after) = state - self._painted(number - 1), (self._parts(one) for one in (number - 1, number))
        return painted + _stacked(resampled(_apart(told), before, after, after))

    def advance(self, number: int, state: Array, x_hat: Array, noise: Array, turn: int = 0) -> Array:  # noqa: ARG002
        """Return the prediction plus what the answers add."""
        return x_hat + noise

    def timestep(self, steps: int) -> int:  # noqa: ARG002
        """Raise: answers about regions have no timestep."""
        raise DippError(
            "regions", "only their expected picture can be decoded", "leave out noisy, sample and ancestral"
        )

    def noisy(self, steps: int, state: Array) -> tuple[Array, int]:
        """Raise: answers about regions have no noisy picture."""
        return state, self.timestep(steps)

    def expected(self, steps: int, state: Array) -> Array:
        """Return the painted picture plus what was told."""
        picture = to_signal(self._base.astype(np.float64)).astype(np.float32)
        if steps:
            told, parts = _apart(state - self._painted(steps - 1)), self._parts(steps - 1)
            more, asked = np.zeros_like(picture), np.zeros((*picture.shape[:2], 1), np.float32)
            for place, own in zip(self._unit.places, told, strict=True):
                values = host(resampled(own[None], parts, place.height, place.width)[0]).transpose(1, 2, 0)
                inside = place.inside[..., None].astype(np.float32)
                more[place.part] += inside * fading(place, parts, picture.shape[:2])[..., None] * values
                asked[place.part] += inside
            picture += more / np.maximum(asked, 1)  # places of one unit may overlap
        return self.denoiser.placed(picture.clip(-1, 1).transpose(2, 0, 1)[None])

    @property
    def _unit(self) -> Regions:
        unit = self.plan.unit
        if not isinstance(unit, Regions):
            raise DippError("unit", f"regions are needed, got {unit.short}")
        return unit

    @property
    def _base(self) -> Pixels:
        if self.base is None:
            raise DippError("surroundings", "the painted picture of the regions is needed")
        return self.base

    def _step(self, number: int) -> Question:
        found: Question = self.plan.steps[number]
        return found

    def _parts(self, number: int) -> int:
        return self._step(number).parts

    def _grid(self, number: int) -> Geometry:
        return self._step(number).grid(self._unit, Geometry.of(self._base.shape))[1]

    def _painted(self, number: int) -> Array:
        """Return the coarse pixels of the painted picture on the grid of a step."""
        geometry, step = Geometry.of(self._base.shape), self._step(number)
        flat = questions.coarse(self._base.reshape(1, -1), geometry, self._unit, step)
        return self.denoiser.placed(flat.reshape(1, *self._grid(number).shape).transpose(0, 3, 1, 2))


def resampled(told: Array, parts: int, rows: int, columns: int) -> Array:
    """Return what was told of places (N, C, parts, parts) at the centres of rows and columns of equal size."""
    # In parts of a pixel, so that the cuts are whole. Half of it, because what is interpolated is clipped to [−1, 1].
    source = Cuts(np.arange(parts + 1) * rows, np.arange(parts + 1) * columns)
    return 2 * interpolated(told / 2, source, Cuts(np.arange(rows + 1) * parts, np.arange(columns + 1) * parts))


def fading(place: Place, parts: int, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Return the weight (height, width) of what was told: 1, and less towards those edges beyond which more is known.

    Args:
        place: The place.
        parts: Coarse pixels along its sides.
        shape: Height and width of the picture, beyond whose edges nothing is known.
    """
    from scipy import ndimage

    around = np.pad(place.inside, 1)
    edges = (
        (place.top == 0, around[0], around[1]),
        (place.bottom == shape[0], around[-1], around[-2]),
        (place.left == 0, around[:, 0], around[:, 1]),
        (place.right == shape[1], around[:, -1], around[:, -2]),
    )
    for at_end, beyond, nearest in edges:
        if at_end:
            beyond[:] = nearest
    reach = FALL * np.sqrt(place.height * place.width) / parts
    distance = ndimage.distance_transform_edt(np.pad(around, 1, "edge"))[2:-2, 2:-2]
    return np.asarray(np.clip((distance - 0.5) / reach, 0, 1), np.float32)


def _apart(stack: Array) -> Array:
    """Return coarse pictures that stand one below the other (1, C, N·parts, parts) as (N, C, parts, parts)."""
    _, channels, rows, parts = stack.shape
    return stack.reshape(channels, rows // parts, parts, parts).swapaxes(0, 1)


def _stacked(pictures: Array) -> Array:
    """Return coarse pictures (N, C, parts, parts) one below the other, as (1, C, N·parts, parts)."""
    count, channels, parts, _ = pictures.shape
    return pictures.swapaxes(0, 1).reshape(1, channels, count * parts, parts)
