"""The public state of regions: the painted picture plus the corrections that answers have told.

The prediction of a coarse pixel is the mean of the painted picture over it, plus the correction from earlier answers.
After the last question, the picture is the painted one plus the corrections, interpolated between the centres of the
coarse pixels. Towards the edge of a region the correction falls to 0 within half a coarse pixel, so that no seam shows.
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
"""Distance from the edge of a region, in coarse pixels, within which the correction falls to 0."""


@dataclass(frozen=True, eq=False)
class RegionAnswers(Trajectory):
    """The trajectory of questions to regions, whose states are the stacked coarse pictures of all regions."""

    plan: Plan
    """A plan of questions to regions."""
    denoiser: Denoiser
    """The model that has the words."""
    base: Pixels | None = field(repr=False)
    """The painted picture (H, W, C), uint8; None if nothing will be predicted."""

    def start(self, seed: bytes, geometry: Geometry) -> Array:  # noqa: ARG002
        """Return the first state: corrections of 0, on the grid of the first question."""
        rows, columns, channels = self._grid(0).shape
        return self.denoiser.placed(np.zeros((1, channels, rows, columns), np.float32))

    def asked(self, seed: bytes, number: int, turn: int) -> RoundCandidates:
        """Return the candidates of a round of a question: words of the model's books, or random signs."""
        return questions.asked(self.plan, self.denoiser, seed, number, turn)

    def predict(self, number: int, state: Array, turn: int = 0) -> Array:  # noqa: ARG002
        """Return the painted coarse pixels plus the corrections from earlier questions."""
        painted = self._painted(number)
        if not number:
            return painted
        told, (before, after) = state - self._painted(number - 1), (self._parts(step) for step in (number - 1, number))
        return painted + _stacked(resampled(_apart(told), before, after, after))

    def advance(self, number: int, state: Array, x_hat: Array, noise: Array, turn: int = 0) -> Array:  # noqa: ARG002
        """Return the prediction plus the corrections that the answers stand for."""
        return x_hat + noise

    def timestep(self, steps: int) -> int:  # noqa: ARG002
        """Raise, because answers about regions have no timestep."""
        raise DippError(
            "regions", "can only be decoded to the expected picture", "leave out noisy, sample and ancestral"
        )

    def noisy(self, steps: int, state: Array) -> tuple[Array, int]:
        """Raise, because answers about regions have no noisy picture."""
        return state, self.timestep(steps)

    def expected(self, steps: int, state: Array) -> Array:
        """Return the painted picture plus the corrections (1, C, H, W), with values in [−1, 1]."""
        picture = to_signal(self._base.astype(np.float64)).astype(np.float32)
        if steps:
            told, parts = _apart(state - self._painted(steps - 1)), self._parts(steps - 1)
            more, asked = np.zeros_like(picture), np.zeros((*picture.shape[:2], 1), np.float32)
            for place, correction in zip(self._unit.places, told, strict=True):
                values = host(resampled(correction[None], parts, place.height, place.width)[0]).transpose(1, 2, 0)
                inside = place.inside[..., None].astype(np.float32)
                more[place.part] += inside * fading(place, parts, picture.shape[:2])[..., None] * values
                asked[place.part] += inside
            picture += more / np.maximum(asked, 1)  # places of one unit may overlap
        return self.denoiser.placed(picture.clip(-1, 1).transpose(2, 0, 1)[None])

    @property
    def _unit(self) -> Regions:
        unit = self.plan.unit
        if not isinstance(unit, Regions):
            raise DippError("unit", f"must be regions, got {unit.short}")
        return unit

    @property
    def _base(self) -> Pixels:
        if self.base is None:
            raise DippError("surroundings", "are missing", "pass the painted picture of the regions")
        return self.base

    def _step(self, number: int) -> Question:
        question: Question = self.plan.steps[number]
        return question

    def _parts(self, number: int) -> int:
        return self._step(number).parts

    def _grid(self, number: int) -> Geometry:
        return self._step(number).grid(self._unit, Geometry.of(self._base.shape))[1]

    def _painted(self, number: int) -> Array:
        """Return the picture with painted regions, averaged to the coarse pixels of a step, (1, C, rows, columns)."""
        geometry, step = Geometry.of(self._base.shape), self._step(number)
        flat = questions.coarse(self._base.reshape(1, -1), geometry, self._unit, step)
        return self.denoiser.placed(flat.reshape(1, *self._grid(number).shape).transpose(0, 3, 1, 2))


def resampled(told: Array, parts: int, rows: int, columns: int) -> Array:
    """Return corrections of coarse pixels interpolated to another number of rows and columns.

    Args:
        told: Corrections (N, C, parts, parts).
        parts: Coarse pixels along each side.
        rows: Number of rows of the result.
        columns: Number of columns of the result.
    """
    # The unit of the cuts is a fraction of a pixel, so that they are whole numbers. Corrections are halved meanwhile,
    # because they lie in [−2, 2], and `interpolated` clips to [−1, 1].
    source = Cuts(np.arange(parts + 1) * rows, np.arange(parts + 1) * columns)
    return 2 * interpolated(told / 2, source, Cuts(np.arange(rows + 1) * parts, np.arange(columns + 1) * parts))


def fading(place: Place, parts: int, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Return the weight of corrections at each pixel of a place, from 0 to 1, (height, width).

    It falls towards the edges of the region, but not at the edges of the picture.

    Args:
        place: The place of a region in the picture.
        parts: Coarse pixels along its sides.
        shape: Height and width of the picture.
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
    """Return N stacked coarse pictures (1, C, N·parts, parts) as a batch (N, C, parts, parts)."""
    _, channels, rows, parts = stack.shape
    return stack.reshape(channels, rows // parts, parts, parts).swapaxes(0, 1)


def _stacked(pictures: Array) -> Array:
    """Return a batch of coarse pictures (N, C, parts, parts) stacked one below the other, (1, C, N·parts, parts)."""
    count, channels, parts, _ = pictures.shape
    return pictures.swapaxes(0, 1).reshape(1, channels, count * parts, parts)
