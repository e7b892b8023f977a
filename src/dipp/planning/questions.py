"""The planner of questions: which questions to ask each unit within a budget, from the public table of a model's words.

The table (`training.recipes`) has rows for units of several sizes and budgets: a recipe, and the PSNR that it had on
public pictures. For a unit of another size, the rows of the nearest size serve; for another budget, the rows whose
recipe is expected to show most there. Each draw gets its share of the budget. So a plan follows from public numbers; it
counts only if its certificate is within the budget.

Where the budget is that of any object of a size (`Budget.hidden`), several units are tried: the cells, or the whole
picture, by which such an object costs at most E wherever it lies, for the best expected picture.
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
"""For random signs, by the largest ε of a draw: bits of the index, and m."""
HALVINGS = 18
"""Halvings by which a budget that is not a pure ε is met."""
FLOOR = 10.0
"""PSNR in dB of a picture whose draws tell nothing, about."""
MOST = 16.0
"""Largest ε of a draw: beyond it an index of 10 bits tells nothing more."""


class Recipe(NamedTuple):
    """One question of a recipe."""

    bits: int
    """log2 of the number of candidates."""
    best: int = 1
    """m."""
    signs: bool = False
    """Whether candidates are random signs, and not words."""
    scale: float = 1.0
    """What signs are multiplied by."""
    split: int = 1
    rounds: int = 1
    snr: float = 1.0
    """SNR that the network is told afterwards."""

    def told(self, epsilon: float) -> float:
        """Return how much more likely than by chance a draw of this ε is one of the m best: from 0 to 1."""
        others = ((1 << self.bits) - self.best) / self.best
        return (1 - math.exp(-epsilon)) / (1 + others * math.exp(-epsilon))


class Row(NamedTuple):
    """One row of the table: what a recipe gave on public pictures."""

    kind: str
    """Kind of the unit."""
    side: int
    """Side of the unit in pixels."""
    epsilon: float
    """ε of the unit; all draws have equal shares of it."""
    psnr: float
    recipes: tuple[Recipe, ...]
    floor: float = FLOOR
    """PSNR in dB of a picture whose draws tell nothing; of latents, which vary less, it is higher."""

    def expected(self, epsilon: float) -> float:
        """Return the PSNR that the recipe is expected to have at another ε of the unit.

        It is that of the row, if as many draws or more tell something; of those that do not any more, the squared error
        is that of `floor`. So it never falls with ε.
        """
        told, own = self._told(epsilon), self._told(self.epsilon)
        error = 10 ** (-self.psnr / 10)
        lost = (1 - min(told / own, 1)) * max(10 ** (-self.floor / 10) - error, 0)
        return -10 * math.log10(error + lost)

    def needed(self, psnr: float) -> float:
        """Return the least ε, about, at which the recipe is expected to have a PSNR; infinity if there is none."""
        if psnr > self.psnr:
            return math.inf
        low, high = 0.0, self.epsilon
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if self.expected(middle) > psnr else (middle, high)
        return low

    def _told(self, epsilon: float) -> float:
        """Return the share of draws that tell more than chance, of the question where it is least."""
        return min(one.told(epsilon / self.draws) for one in self.recipes)

    @property
    def draws(self) -> int:
        """Draws of a unit."""
        return sum(one.split**2 for one in self.recipes)

    @property
    def bits(self) -> int:
        """Bits of a unit."""
        return sum(one.split**2 * one.bits for one in self.recipes)

    def to_dict(self) -> dict[str, Any]:
        """Return the row for JSON; it has the floor only where that is another than `FLOOR`."""
        own = {**self._asdict(), "psnr": round(self.psnr, 3), "recipes": [one._asdict() for one in self.recipes]}
        floor = round(own.pop("floor"), 3)
        return own if floor == FLOOR else {**own, "floor": floor}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Row:
        """Return the row that `to_dict` wrote."""
        return cls(**{**content, "recipes": tuple(Recipe(**one) for one in content["recipes"])})


def candidates_of(epsilon: float, *, signs: bool = False) -> Recipe:
    """Return how many candidates a draw of this ε has: of words, about as many as it can tell apart."""
    if signs:
        _, bits, best = next(row for row in SIGN_SIZES if epsilon <= row[0])
        return Recipe(bits, best, signs=True)
    return Recipe(min(max(round(0.65 * epsilon + 0.6), 1), 10))


@dataclass(frozen=True, eq=False)
class QuestionPlanner:
    """Finds plans of questions for pictures of one geometry, to whichever of some units promises the best picture."""

    books: Books
    geometry: Geometry
    units: tuple[Unit, ...]
    area: int = 1
    """Pixels of the picture for each pixel of the geometry, which is that of latents if there are more than one."""

    def choose(self, budget: Budget | None, *, final_timestep: int | None = None, bpp: float | None = None) -> Point:
        """Find the plan of the best expected picture within the budget and, if one is given, the rate.

        Raises:
            DippError: No plan keeps budget and rate, or the unit cannot be asked.
        """
        if final_timestep is not None:
            raise DippError("final_timestep", "questions have no timesteps", "leave it out")
        every = self.frontier(budget)
        if not every:
            raise DippError("budget", f"{budget} is too small for any question")
        within = [point for point in every if bpp is None or point.bpp <= bpp]
        if not within:
            raise DippError(
                "bpp", f"{bpp:g} is out of reach of {budget}", f"at least {upper(every[0].bpp, 3)} is needed"
            )
        return replace(within[-1], bound=len(within) < len(every))

    def frontier(self, budget: Budget | None) -> tuple[Point, ...]:
        """Return plans of ascending bits, each of a better expected picture than those before it."""
        if budget is None:
            raise DippError("budget", "give epsilon, epsilon with delta, or rho")
        found = [point for unit in self.units for point in self._points(unit, budget)]
        best: list[Point] = []
        for point in sorted(found, key=lambda one: (one.bits, -one.psnr)):
            if (not best or point.psnr > best[-1].psnr) and budget.allows(Certificate.of(point.plan, self.geometry)):
                best.append(point)
        return tuple(best)

    def _points(self, unit: Unit, budget: Budget) -> list[Point]:
        """Return plans of ascending bits for a unit, each of a better expected picture than those before it.

        All rows are tried at the budget, whatever they were made for, and what each is expected to show rises with ε:
        so a larger budget is never expected to show less.
        """
        every = [row for row in table(self.books) if row.kind == unit.kind and _divides(unit, row)]
        if not every and len(self.units) == 1:
            raise DippError(
                "unit", f"a {unit.short} cannot be asked", "take pixel, cells whose side is a multiple of 4, or picture"
            )
        size = unit.side_in(self.geometry)
        found: list[Point] = []
        best = -math.inf
        for row in sorted(_nearest(every, [abs(math.log(row.side / size)) for row in every]), key=lambda row: row.bits):
            epsilon = self._most(row, unit, budget, row.needed(best))
            if epsilon is not None and row.expected(epsilon) > best:
                best = row.expected(epsilon)
                found.append(self._point(row, unit, epsilon))
        return found

    def _point(self, row: Row, unit: Unit, epsilon: float) -> Point:
        """Return the plan of a row's recipe at a pure ε of the unit."""
        plan = plan_of(row, unit, epsilon)
        counts = plan.chunk_counts(self.geometry)
        bits = float(sum(count * step.index_bits for count, step in zip(counts, plan.steps, strict=True)))
        snr, psnr = plan.steps[-1].snr_gain, row.expected(epsilon)
        return Point(None, plan, bits, bits / (self.geometry.pixels * self.area), snr, psnr, self.books.digest)

    def _most(self, row: Row, unit: Unit, budget: Budget, least: float) -> float | None:
        """Return the largest pure ε of the unit, about, at which a recipe keeps a budget; None if it is below `least`.

        A budget of ρ or (ε, δ) is compared with all draws of an object: the exact law of their losses is not the sum of
        laws of single units.
        """
        low, high = least, row.draws * MOST
        if budget.epsilon is not None and budget.delta is None:
            found = min(budget.for_unit(unit).limit, high)
            return found if found >= low else None

        def allowed(epsilon: float) -> bool:
            return budget.allows(Certificate.of(plan_of(row, unit, epsilon), self.geometry))

        if low > high or (low and not allowed(low)):
            return None
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if allowed(middle) else (low, middle)
        return low


def _divides(unit: Unit, row: Row) -> bool:
    """Return whether a unit can be divided as a recipe does."""
    try:
        for one in row.recipes:
            unit.divisions(1, BLOCK * one.split)
    except DippError:
        return False
    return True


def _nearest(rows: list[Row], distances: list[float]) -> list[Row]:
    """Return the rows of the least distance."""
    return [row for row, one in zip(rows, distances, strict=True) if one <= min(distances) + 1e-9]


def units_of(books: Books) -> tuple[Unit, ...]:
    """Return the units by which an object of any size may be hidden: the cells that were tried, and the picture."""
    sides = sorted({row.side for row in table(books) if row.kind == Cells.kind})
    return *map(Cells, sides), Picture()


def plan_of(row: Row, unit: Unit, epsilon: float) -> Plan:
    """Return the plan of a row's recipe, with a pure ε of the unit that all draws share equally."""
    return Plan(CODING, tuple(step_of(one, epsilon / row.draws) for one in row.recipes), unit=unit)


@functools.lru_cache(maxsize=4)
def table(books: Books) -> tuple[Row, ...]:
    """Return the rows of a model's table."""
    return tuple(Row.from_dict(row) for row in books.table)


def step_of(recipe: Recipe, epsilon: float) -> Question:
    """Return the question of a recipe whose draws cost at most ε each."""
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
