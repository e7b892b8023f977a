"""Plan questions: choose the questions to each unit within a budget, from the public table of a model's words.

The table (`training.recipes`) has rows for units of several sizes and budgets: a recipe, and the PSNR that it had on
public pictures. For a unit of another size, the rows of the nearest size serve; for another budget, the rows whose
recipe is expected to show most there. Each draw gets an equal part of the budget. So a plan follows from public
numbers; it counts only if its certificate is within the budget.

If the budget protects objects of a size (`Budget.hidden`), several sizes of cells and the whole picture are tried as
units. The planner takes the unit with the best expected picture at which such an object costs at most the budget,
wherever it lies.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from dipp.codes import Closest
from dipp.core.channels import Sign
from dipp.core.closest import Weights
from dipp.core.geometry import Geometry
from dipp.core.plan import Coding, Plan
from dipp.core.steps import BLOCK, SIGNS, WORDS, Question
from dipp.core.unit import Unit
from dipp.core.units import Cells, Picture
from dipp.errors import DippError
from dipp.models.books import Books
from dipp.planning.planner import Point, short_floats
from dipp.privacy.budget import Budget
from dipp.privacy.certificate import Certificate
from dipp.privacy.printing import upper

CODING = Coding(Sign(period=1), Closest())
"""The coding of all plans of questions."""
SIGN_SIZES = ((3.0, 6, 16), (5.0, 7, 8), (7.0, 9, 8), (10.0, 10, 4), (math.inf, 12, 2))
"""For random signs, rows of: the largest ε of a draw, the bits of its index, and the number of best candidates."""
HALVINGS = 18
"""Number of halvings of a bisection for ε."""
FLOOR = 10.0
"""Approximate PSNR in dB of a picture whose draws tell nothing."""
MOST = 16.0
"""Largest ε of a draw, above which an index of 10 bits tells nothing more."""


class Recipe(NamedTuple):
    """One question of a recipe."""

    bits: int
    """log2 of the number of candidates."""
    best: int = 1
    """m, the number of nearest candidates that get the heavy weight."""
    signs: bool = False
    """Whether candidates are random signs instead of words."""
    scale: float = 1.0
    """Factor on random signs."""
    split: int = 1
    rounds: int = 1
    snr: float = 1.0
    """SNR that the network is given after the question."""

    def told(self, epsilon: float) -> float:
        """Return how much a draw of this ε tells: 0 if it is random, 1 if it is always one of the m best candidates."""
        others = ((1 << self.bits) - self.best) / self.best
        return (1 - math.exp(-epsilon)) / (1 + others * math.exp(-epsilon))


class Row(NamedTuple):
    """One row of the table of recipes: a recipe for units of one size, and its PSNR on public pictures."""

    kind: str
    """Kind of the unit."""
    side: int
    """Side of the unit in pixels."""
    epsilon: float
    """ε of the unit, which all draws share equally."""
    psnr: float
    """PSNR in dB that the recipe had on public pictures at this ε."""
    recipes: tuple[Recipe, ...]
    floor: float = FLOOR
    """PSNR in dB of a picture whose draws tell nothing; it is higher for latents, which vary less."""

    def expected(self, epsilon: float) -> float:
        """Return the PSNR, in dB, that the recipe is expected to have at another ε of the unit.

        It is the PSNR of the row if at least as many draws tell something. Draws that tell nothing any more have the
        squared error of `floor`. So the result never falls with ε.

        Args:
            epsilon: Pure ε of the unit.
        """
        told, measured = self._told(epsilon), self._told(self.epsilon)
        error = 10 ** (-self.psnr / 10)
        lost = (1 - min(told / measured, 1)) * max(10 ** (-self.floor / 10) - error, 0)
        return -10 * math.log10(error + lost)

    def needed(self, psnr: float) -> float:
        """Return about the least ε of the unit at which this PSNR is expected; infinity if no ε is enough.

        Args:
            psnr: The PSNR in dB.
        """
        if psnr > self.psnr:
            return math.inf
        low, high = 0.0, self.epsilon
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if self.expected(middle) > psnr else (middle, high)
        return low

    def _told(self, epsilon: float) -> float:
        """Return how much a draw tells (`Recipe.told`) in the question whose draws tell least."""
        return min(recipe.told(epsilon / self.draws) for recipe in self.recipes)

    @property
    def draws(self) -> int:
        """Number of draws of a unit."""
        return sum(recipe.split**2 for recipe in self.recipes)

    @property
    def bits(self) -> int:
        """Number of bits of the indices of a unit."""
        return sum(recipe.split**2 * recipe.bits for recipe in self.recipes)

    def to_dict(self) -> dict[str, Any]:
        """Return the row as a dictionary for JSON, with the floor only if it is not `FLOOR`."""
        recipes = [recipe._asdict() for recipe in self.recipes]
        fields = {**self._asdict(), "psnr": round(self.psnr, 3), "recipes": recipes}
        floor = round(fields.pop("floor"), 3)
        return fields if floor == FLOOR else {**fields, "floor": floor}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Row:
        """Return the row from the dictionary that `to_dict` made."""
        return cls(**{**content, "recipes": tuple(Recipe(**recipe) for recipe in content["recipes"])})


def candidates_of(epsilon: float, *, signs: bool = False) -> Recipe:
    """Return a recipe with the number of candidates for draws of this ε: about as many as a draw can tell apart.

    Args:
        epsilon: Pure ε of a draw.
        signs: Whether candidates are random signs instead of words.
    """
    if signs:
        _, bits, best = next(row for row in SIGN_SIZES if epsilon <= row[0])
        return Recipe(bits, best, signs=True)
    return Recipe(min(max(round(0.65 * epsilon + 0.6), 1), 10))


@dataclass(frozen=True, eq=False)
class QuestionPlanner:
    """A planner of questions for pictures of one geometry; it takes the unit of `units` that gives the best picture."""

    books: Books
    geometry: Geometry
    units: tuple[Unit, ...]
    area: int = 1
    """Number of pixels of the picture for each pixel of `geometry`; more than 1 if `geometry` is that of latents."""

    def choose(self, budget: Budget | None, *, final_timestep: int | None = None, bpp: float | None = None) -> Point:
        """Return the plan of the best expected picture within a budget.

        Args:
            budget: The budget, which must not be None.
            final_timestep: Must be None, since questions have no timesteps.
            bpp: Largest payload in bits per pixel. By default the rate has no limit.

        Raises:
            DippError: No plan keeps budget and rate, or the unit cannot be asked.
        """
        if final_timestep is not None:
            raise DippError("final_timestep", "cannot be given for questions, which have no timesteps", "leave it out")
        every = self.frontier(budget)
        if not every:
            raise DippError("budget", f"{budget} is too small for any question", "give a larger one")
        within = [point for point in every if bpp is None or point.bpp <= bpp]
        if not within:
            raise DippError("bpp", f"{bpp:g} cannot be kept within {budget}", f"give at least {upper(every[0].bpp, 3)}")
        return replace(within[-1], bound=len(within) < len(every))

    def frontier(self, budget: Budget | None) -> tuple[Point, ...]:
        """Return plans of ascending bits within a budget, each of a better expected picture than those before it.

        Raises:
            DippError: There is no budget, or the unit cannot be asked.
        """
        if budget is None:
            raise DippError("budget", "is missing", "give epsilon, epsilon with delta, or rho")
        points = [point for unit in self.units for point in self._points(unit, budget)]
        best: list[Point] = []
        for point in sorted(points, key=lambda point: (point.bits, -point.psnr)):
            if (not best or point.psnr > best[-1].psnr) and budget.allows(Certificate.of(point.plan, self.geometry)):
                best.append(point)
        return tuple(best)

    def _points(self, unit: Unit, budget: Budget) -> list[Point]:
        """Return plans of ascending bits for a unit, each of a better expected picture than those before it.

        All rows are tried at this budget, and the expected PSNR of each rises with ε. So a larger budget never has a
        smaller expected PSNR.
        """
        every = [row for row in table(self.books) if row.kind == unit.kind and _divides(unit, row)]
        if not every and len(self.units) == 1:
            raise DippError(
                "unit",
                f"cannot be a {unit.short} for questions",
                "take pixel, cells whose side is a multiple of 4, or picture",
            )
        size = unit.side_in(self.geometry)
        points: list[Point] = []
        best = -math.inf
        for row in sorted(_nearest(every, [abs(math.log(row.side / size)) for row in every]), key=lambda row: row.bits):
            epsilon = self._most(row, unit, budget, row.needed(best))
            if epsilon is not None and row.expected(epsilon) > best:
                best = row.expected(epsilon)
                points.append(self._point(row, unit, epsilon))
        return points

    def _point(self, row: Row, unit: Unit, epsilon: float) -> Point:
        """Return the plan of a row's recipe at a pure ε of the unit."""
        plan = plan_of(row, unit, epsilon)
        counts = plan.chunk_counts(self.geometry)
        bits = float(sum(count * step.index_bits for count, step in zip(counts, plan.steps, strict=True)))
        snr, psnr = plan.steps[-1].snr_gain, row.expected(epsilon)
        return Point(None, plan, bits, bits / (self.geometry.pixels * self.area), snr, psnr, self.books.digest)

    def _most(self, row: Row, unit: Unit, budget: Budget, least: float) -> float | None:
        """Return about the largest pure ε of the unit at which a recipe keeps a budget; None if it is below `least`.

        A budget of ρ or (ε, δ) is compared with all draws of an object: the exact law of their losses is not the sum of
        laws of single units.
        """
        low, high = least, row.draws * MOST
        if budget.epsilon is not None and budget.delta is None:
            largest = min(budget.for_unit(unit).limit, high)
            return largest if largest >= low else None

        def allowed(epsilon: float) -> bool:
            return budget.allows(Certificate.of(plan_of(row, unit, epsilon), self.geometry))

        if low > high or (low and not allowed(low)):
            return None
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if allowed(middle) else (low, middle)
        return low


def _divides(unit: Unit, row: Row) -> bool:
    """Return whether a unit can be divided into the coarse pixels of every question in a row's recipe."""
    try:
        for recipe in row.recipes:
            unit.divisions(1, BLOCK * recipe.split)
    except DippError:
        return False
    return True


def _nearest(rows: list[Row], distances: list[float]) -> list[Row]:
    """Return the rows whose distance is the least."""
    return [row for row, distance in zip(rows, distances, strict=True) if distance <= min(distances) + 1e-9]


def units_of(books: Books) -> tuple[Unit, ...]:
    """Return the units that can hide objects: cells of the sides in a model's table, and the whole picture."""
    sides = sorted({row.side for row in table(books) if row.kind == Cells.kind})
    return *map(Cells, sides), Picture()


def plan_of(row: Row, unit: Unit, epsilon: float) -> Plan:
    """Return the plan of a row's recipe, with a pure ε of the unit that all draws share equally.

    Args:
        row: A row of the table of recipes.
        unit: The unit.
        epsilon: ε of the unit.
    """
    return Plan(CODING, tuple(step_of(recipe, epsilon / row.draws) for recipe in row.recipes), unit=unit)


@functools.lru_cache(maxsize=4)
def table(books: Books) -> tuple[Row, ...]:
    """Return the rows of the table of recipes in a model's books."""
    return tuple(Row.from_dict(row) for row in books.table)


def step_of(recipe: Recipe, epsilon: float) -> Question:
    """Return the question of a recipe whose draws cost at most ε each.

    Args:
        recipe: The recipe.
        epsilon: Largest ε of a draw.
    """
    weights = Weights.within(1 << recipe.bits, recipe.best, epsilon)
    scale, snr = short_floats(np.array([recipe.scale, recipe.snr])).tolist()
    kind = SIGNS if recipe.signs else WORDS
    return Question(
        recipe.split,
        recipe.rounds,
        kind,
        scale if recipe.signs else 1.0,
        recipe.best,
        weights.heavy,
        weights.light,
        snr,
        1,
        recipe.bits,
    )
