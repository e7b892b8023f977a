"""Plan clipped sensing: find the plan of the best expected picture within a budget and a rate.

A sensing plan is made of few numbers: the code, the clip k in deviations of the residual, the number N of steps, and
the number g of groups a pass. N steps are T = N/g passes; the worst pixel is touched ⌈T⌉ times, so that each touch may
cost 1/⌈T⌉ of the budget, which fixes the tilt V. The rest follows step by step from the public residuals (`Residuals`),
with no network call. At SNR s, with residuals r of deviation d,

    clip  c = k·d,      tilt  θ(r) = V·min(|r|/c, 1),      gain  ΔSNR = q·(κ·φ·E[|r|·tanh θ]/E[r²])²

where κ is the fraction of its tilt that the code realises (1 for pairs); φ is the factor, near 1, by which the touched
coordinates convey more than the average of all; and q = 1/(C·g) is the fraction of the coordinates that a step touches
(for pictures of few pixels, on the average over the steps of a pass). Such a gain makes the update of the state right
on the average over the public pictures: the selected signs s of touched coordinates have E[s·r] = κ·φ·E[|r|·tanh θ],
and the state moves by √ΔSNR·z with z = ±1/√q.

A pair takes one bit for each touched coordinate; a code that searches takes index_bits for every index_bits − pad bits
of the divergence Σ(θ·tanh θ − ln cosh θ)/ln 2.

Every combination of a grid is followed at once, which takes a fraction of a second. For pictures of `LARGE` pixels and
more, the planner takes the plan of the fewest calls whose expected picture is nearly as good as the best (`GIVEN_UP`).
An error in these public estimates costs quality alone: a plan counts only if its certificate, from its integers, is
within the budget.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dipp.core.channels import Sign
from dipp.core.geometry import Geometry
from dipp.core.masks import MAX_PERIOD, of_period
from dipp.core.plan import Coding, Plan
from dipp.core.sensitivity import TiltedCode
from dipp.core.steps import SensingStep
from dipp.errors import DippError
from dipp.models.diffusion import NoiseSchedule
from dipp.planning import levels
from dipp.planning.planner import NEAR_TIE, Point, require_limits, short_floats
from dipp.planning.residuals import Residuals
from dipp.planning.sensing_choices import SENSING_CODES, Choice, ChoiceColumns, Floats, SteppedChoices, chunked
from dipp.planning.tilts import TINY, deviation, divergence, gain, largest_tilt
from dipp.privacy.budget import Budget
from dipp.privacy.certificate import Certificate
from dipp.privacy.printing import upper

LENGTHS = (1, 2, 4, 8, 12, 16, 24, 32)
"""N: numbers of steps that are tried, beside the largest number that the calls allow."""
CLIPS = (0.2, 0.3, 0.5, 0.8, 1.2, 2.0, 4.0)
"""k: clips in deviations of the residual, from nearly a sign test to nearly no clip.

Files are checked against them (`verification`), so clips may be added and never dropped."""
PASSES = (
    *(2.0 ** (-i / 3) for i in range(21, 0, -1)),
    1.0,
    1.5,
    2.0,
    2.5,
    3.0,
    3.5,
    4.0,
    5.0,
    6.0,
    8.0,
    10.0,
    12.0,
    16.0,
)
"""T: numbers of passes, from every 128th pixel touched once to every pixel touched sixteen times."""
SEARCHES = ((16, 3.0), (18, 4.0), (18, 6.0), (18, 8.0))
"""Index bits and pads that are tried with codes that search.

Indices of 20 bits would save 2 % of the bits, and take three to four times as many candidates."""
MOST_DRAWS = 2.0**37
"""Largest number of draws of all candidates that a plan may search through: about a minute on two cores.

Larger pictures take codes that search nothing, or search less."""
GENTLER = (2.0, 1.4)
"""Smaller tilts, in nats, that are tried too with codes that search if the budget allows a larger one.

A coin that is tilted further conveys hardly more, and costs more bits: if the rate is the limit, it is better to ask
more pixels. Without these tilts, a larger ε could buy a worse picture."""
LEAST_TILT = 2e-3
"""V in nats below which a step has too few integer levels."""
RATE_SLACK = 0.002
"""Fraction by which a plan may exceed a rate, because a picture's pixels do not always divide into equal steps."""
LARGE = 256 * 256
"""Number of pixels of a picture from which a network call takes so long that fewer calls are worth some quality."""
GIVEN_UP = 0.3
"""Quality in dB that the plan of a large picture may lose for fewer calls, which saves half of them."""
LEAST_GAIN = 0.02
"""Quality in dB by which a point of the frontier must be better than the one before it."""
WORTH_SAYING = 0.25
"""Quality in dB that more bits must buy for a plan to be called bound by the rate."""


class Options(NamedTuple):
    """The choices that a budget allows, with the tilt, the steps, the quality and the work of each."""

    budget: Budget
    choices: Sequence[Choice]
    tilts: Floats
    followed: SteppedChoices
    quality: Floats
    """PSNR of the expected picture of each choice, in dB."""
    work: Floats
    """Work of the network calls of each choice, in calls at the resolution of the picture."""
    quick: NDArray[np.bool_]
    """Whether each choice searches through at most `MOST_DRAWS` draws; true for all if none does."""


@dataclass(frozen=True, eq=False)
class SensingPlanner:
    """A planner of sensing for pictures of one geometry, on the public residuals of a denoiser."""

    residuals: Residuals
    schedule: NoiseSchedule
    geometry: Geometry
    calls: int
    """Largest number of network calls along the chain. A plan has one step more, since the first needs no call."""
    rate: float
    """Default for the largest payload in bits per pixel."""
    codes: tuple[TiltedCode, ...] = SENSING_CODES
    """The codes that a plan may take."""
    coarse: bool = False
    """Whether early steps may be predicted at a lower resolution (`levels`), as a network of any size can."""

    def __post_init__(self) -> None:
        if not self.codes or not set(self.codes) <= set(SENSING_CODES):
            raise DippError("codes", f"must be some of {', '.join(code.name for code in SENSING_CODES)}")

    def choose(self, budget: Budget | None, *, final_timestep: int | None = None, bpp: float | None = None) -> Point:
        """Return the plan of the best expected picture within a budget and a rate.

        Args:
            budget: The budget, which must not be None.
            final_timestep: Timestep whose SNR the plan has to reach, in place of a rate.
            bpp: Largest payload in bits per pixel. By default `rate`.

        Raises:
            DippError: An argument is invalid, or no plan keeps the limits.
        """
        if bpp is not None and final_timestep is not None:
            raise DippError("final_timestep and bpp", "cannot both be given", "leave one out")
        require_limits(self.schedule, final_timestep, bpp)
        options = self._options(budget)
        every = self._frontier(options)
        if not every:
            raise DippError("budget", f"{budget} is too small for any step", "give a larger one")
        if final_timestep is not None:
            snr = self.schedule.snr(final_timestep)
            within = [point for point in every if point.snr >= snr][:1]
            limit, value = "final_timestep", f"{final_timestep}"
        else:
            most = self.rate if bpp is None else bpp
            within = [point for point in every if point.bpp <= most * (1 + RATE_SLACK)]
            limit, value = "bpp", f"{most:g}"
        if not within:
            reached = max(point.snr for point in every)
            least = upper(every[0].bpp, 3) if final_timestep is None else self._first_within(reached)
            verb = "kept" if final_timestep is None else "reached"
            raise DippError(limit, f"{value} cannot be {verb} within {budget}", f"give at least {least}")
        good = within[-1].psnr - NEAR_TIE
        chosen = min(
            (point for point in within if point.psnr >= good), key=lambda point: (point.bits, len(point.plan.steps))
        )
        large = self.coarse and self.geometry.pixels >= LARGE  # the page has limits of its own
        if large and final_timestep is None and len(chosen.plan.steps) > levels.FEW:
            chosen = self._quicker(options, chosen, most)
        more = final_timestep is None and len(within) < len(every)
        bound = more and every[-1].psnr > chosen.psnr + WORTH_SAYING
        return replace(chosen, table=self.residuals.digest, bound=bound)

    def frontier(self, budget: Budget | None) -> tuple[Point, ...]:
        """Return plans of ascending bits within a budget, each of a better expected picture than all before it."""
        return self._frontier(self._options(budget))

    def _options(self, budget: Budget | None) -> Options:
        """Compute the steps of all choices that the budget allows."""
        if budget is None:
            raise DippError("budget", "is missing", "give epsilon, epsilon with delta, or rho")
        choices, tilts = self._within(budget)
        if not choices:
            raise DippError("budget", f"{budget} is too small for any step", f"{self._enough(budget)} is enough")
        followed = self._follow(choices, tilts)
        work, quick = self._work(choices, followed), self._draws(choices, followed) <= MOST_DRAWS
        quick |= not quick.any()
        return Options(budget, choices, tilts, followed, self.residuals.psnr(followed.snr), work, quick)

    def _draws(self, choices: Sequence[Choice], followed: SteppedChoices) -> Floats:
        """Return the number of draws that each choice searches through: candidates times touched coordinates."""
        touched = np.array([self.geometry.pixels / choice.groups if choice.code.searches else 0 for choice in choices])
        draws: Floats = touched * np.exp2(followed.index_bits).sum(axis=1)
        return draws

    def _frontier(self, options: Options) -> tuple[Point, ...]:
        points, quality = list[Point](), options.quality
        steps = np.array([choice.steps for choice in options.choices])
        quick = (options.work * self.geometry.pixels <= levels.WORK) | (steps <= levels.FEW)
        if not self.coarse or self.calls * self.geometry.pixels <= levels.WORK:
            quick[:] = True
        quick &= options.quick
        for i in np.lexsort((-quality, options.followed.bits)):
            if quick[i] and not (points and quality[i] <= points[-1].psnr + LEAST_GAIN):
                points += self._points(options, int(i))
        return tuple(points)

    def _quicker(self, options: Options, best: Point, bpp: float) -> Point:
        """Return the point of the least work within a rate whose expected picture is at most `GIVEN_UP` dB worse."""
        good = options.quality >= best.psnr - GIVEN_UP
        good &= options.followed.bits <= bpp * (1 + RATE_SLACK) * self.geometry.pixels
        good &= (options.work < best.plan.work) & options.quick
        for i in np.lexsort((-options.quality, options.work)):
            if good[i] and (points := self._points(options, int(i))):
                return points[0]
        return best

    def _points(self, options: Options, number: int) -> list[Point]:
        """Return a list of the one point of a choice; an empty list if its certificate exceeds the budget."""
        followed, tilt = options.followed, float(options.tilts[number])
        plan = self._plan(options.choices[number], tilt, followed, number)
        try:
            allowed = options.budget.allows(Certificate.of(plan, self.geometry))
        except DippError:  # no integer has the slope of a very narrow clip, which only a nearly perfect denoiser has
            allowed = False
        bits, snr, psnr = (float(column[number]) for column in (followed.bits, followed.snr, options.quality))
        return [Point(None, plan, bits, bits / self.geometry.pixels, snr, psnr)] if allowed else []

    def _first_within(self, snr: float) -> int:
        """Return the earliest timestep that a plan of this final SNR reaches."""
        return next((t for t in range(len(self.schedule)) if self.schedule.snr(t) <= snr), len(self.schedule) - 1)

    def _enough(self, budget: Budget) -> Budget:
        """Return a budget of the same kind that allows a step, and is less than twice the smallest such budget."""
        while not self._within(budget)[0]:
            budget = budget.doubled
        return budget

    @functools.cached_property
    def _choices(self) -> list[Choice]:
        most = self.calls + 1
        alone = ((1, 0.0),)  # index bits and pad of a code that searches nothing
        codes = [(code, *sizes) for code in self.codes for sizes in (SEARCHES if code.searches else alone)]
        lengths = sorted({most, *(n for n in LENGTHS if n < most)})
        choices = dict[tuple[Any, ...], Choice]()  # by the names of codes, which are quicker to hash than codes
        for (code, bits, pad), passes, clip in itertools.product(codes, PASSES, CLIPS):
            for steps in lengths:
                groups = max(1, round(steps / passes))
                if self.geometry.channels * groups <= MAX_PERIOD and steps / groups <= 2 * PASSES[-1]:
                    key = (code.name, bits, pad, groups, steps, clip)
                    choices.setdefault(key, Choice(code, *key[1:]))
        return list(choices.values())

    def _within(self, budget: Budget) -> tuple[list[Choice], Floats]:
        """Return the choices that the budget allows, with the largest tilts that it allows, and with smaller ones."""
        codes = {code.name: code for code in SENSING_CODES}
        tilt = functools.cache(lambda name, touches: largest_tilt(codes[name], touches, budget))
        tilts = [tilt(choice.code.name, choice.touches) for choice in self._choices]
        kept = [(choice, value) for choice, value in zip(self._choices, tilts, strict=True) if value > LEAST_TILT]
        steep = [(choice, value) for choice, value in kept if value > GENTLER[0] and choice.code.searches]
        kept += [(choice, float(np.float32(tilt))) for tilt in GENTLER for choice, _ in steep]
        return [choice for choice, _ in kept], np.array([value for _, value in kept])

    def _follow(self, choices: Sequence[Choice], tilts: Floats) -> SteppedChoices:
        """Compute all steps of all choices by the formulas at the head of the module."""
        count, longest = len(choices), max(choice.steps for choice in choices)
        touched, channels = np.zeros((count, longest)), self.geometry.channels
        counts = functools.cache(lambda groups, steps: of_period(channels * groups).counts(steps, self.geometry))
        for i, choice in enumerate(choices):
            touched[i, : choice.steps] = counts(choice.groups, choice.steps)
        width = np.array([choice.clip for choice in choices])
        q = np.array([1 / (channels * choice.groups) for choice in choices])
        steps = np.array([choice.steps for choice in choices])
        kappa = functools.cache(self._share)  # many choices have the same pad and tilt
        share = np.array([kappa(choice.pad, tilt) for choice, tilt in zip(choices, tilts.tolist(), strict=True)])
        columns = ChoiceColumns.of(choices)
        snr, bits = np.zeros(count), np.array([float(choice.code.padding_bits) for choice in choices])
        clips, gains, sizes, index_bits, kls = (np.zeros((count, longest)) for _ in range(5))
        for step in range(longest):
            on = np.flatnonzero(steps > step)  # the other choices have ended
            r = self.residuals.at(snr[on])
            clips[on, step] = short_floats(width[on] * deviation(r))
            theta = tilts[on, None] * np.minimum(r / clips[on, step, None], 1.0)
            gains[on, step] = short_floats(gain(r, theta, share[on] * self.residuals.touched_at(snr[on]), q[on]))
            kl = np.maximum(touched[on, step] * divergence(theta).mean(axis=1), TINY)
            cost = chunked(columns.part(on), touched[on, step], kl)
            sizes[on, step], index_bits[on, step], kls[on, step] = cost.size, cost.index_bits, cost.kl
            snr[on] += gains[on, step]
            bits[on] += cost.bits
        return SteppedChoices(snr, bits, clips, gains, sizes, index_bits, kls)

    def _work(self, choices: Sequence[Choice], followed: SteppedChoices) -> Floats:
        """Return the work of the calls of each choice, in calls at the resolution of the picture."""
        steps = np.array([choice.steps for choice in choices])
        asked = np.arange(1, followed.gains.shape[1]) < steps[:, None]
        before = followed.gains.cumsum(axis=1)[:, :-1]
        each = levels.work(before, self.geometry.pixels) if self.coarse else np.ones_like(before)
        return np.asarray((each * asked).sum(axis=1), np.float64)

    def _plan(self, choice: Choice, tilt: float, followed: SteppedChoices, number: int) -> Plan:
        """Return the plan of a choice; `number` is that of its steps in `followed`."""
        columns = (followed.clips, followed.gains, followed.sizes, followed.index_bits, followed.kls)
        steps, snr = list[SensingStep](), 0.0
        for clip, rise, size, bits, kl in zip(
            *(column[number, : choice.steps].tolist() for column in columns), strict=True
        ):
            level = levels.level_at(snr, self.geometry.pixels) if self.coarse and steps else 0
            steps.append(SensingStep(tilt, clip, rise, int(size), int(bits), choice.code.exponent_units(kl), level))
            snr += rise
        return Plan(Coding(Sign(period=self.geometry.channels * choice.groups), choice.code), tuple(steps))

    def _share(self, pad: float, tilt: float) -> float:
        """Return the fraction of its tilt that a code with indices of this pad realises (κ)."""
        return 1.0 if pad == 0 else self.residuals.realised_at(pad, tilt)
