"""Calibration: how far the denoiser's prediction is from the image, measured on public images and kept with the model.

What a step costs and how good the picture will be both follow from the sizes of the errors |x0 − x̂0(x_t)| of single
sub-pixels. `ErrorTable` holds their distribution on a grid of signal-to-noise ratios: at each, the errors of all public
images, sorted and cut into Q slices of equal count, and of each slice the root mean square. So the mean square of a row
is exact, and so is the mean of any function that is quadratic inside a slice, as a KL divergence nearly is.

Between the grid's points everything is interpolated over log SNR (logarithms of the quantities, which are close to
powers of the SNR); beyond its ends the nearest point counts.

Exact x_t is what `measure` looks at. A coded chain strays from it, because each selection falls a little short of its
target, and meets larger errors: `with_inflation` records, for the chains of a coding, the factor on the mean square
that was seen on really coded public images. It multiplies every squared error.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipp import files
from dipp.core import randomness
from dipp.core.channels import Channel
from dipp.errors import DippError
from dipp.models import hub
from dipp.models.diffusion import Denoise, NoiseSchedule, normals
from dipp.planning.residuals import Residuals

Floats = NDArray[np.float64]

FILE_NAME = "calibration.json"
VERSION = 1
SLICES = 64
POINTS = 48
DIGITS = 5
"""Significant digits kept in the file, in quantiles and factors."""
CURVE_POINTS = 512
"""Points of the table of a channel's KL against log shift, which errs by less than 1e-4 of the KL between them."""
GAIN_POINTS = 96
"""Points of a KL curve against log ΔSNR, 10^−8 to 10^6."""
LOG_GAINS = np.linspace(math.log(1e-8), math.log(1e6), GAIN_POINTS)
TINY = 1e-300


@dataclass(frozen=True, eq=False)
class ErrorTable:
    """Public statistics of the denoiser's errors, in units of x ∈ [−1, 1]."""

    timesteps: NDArray[np.int64]
    """The grid, descending, so that the SNR ascends."""
    snrs: Floats
    """SNR of each, for the schedule that the table was measured with."""
    quantiles: Floats
    """len(timesteps) × Q: root mean squares of the equally likely slices of |x0 − x̂0|, ascending."""
    inflation: Mapping[str, Floats] = field(default_factory=dict)
    """By name of the coded chains: the factor on mean squares that they showed, at each grid point."""
    residuals: Residuals | None = None
    """Residuals of sensing chains; None in tables of before there were any."""
    provenance: Mapping[str, str | int] = field(default_factory=dict)
    """Which public data, how many images, and the command that made the table."""

    def __post_init__(self) -> None:
        timesteps = np.array(self.timesteps, np.int64)
        snrs, quantiles = np.array(self.snrs, np.float64), np.array(self.quantiles, np.float64)
        points = len(timesteps) if timesteps.ndim == 1 else 0
        if points < 2 or (np.diff(timesteps) >= 0).any() or timesteps[-1] < 0:
            raise DippError("timesteps", "two or more, descending to 0 at the least, are needed")
        if snrs.shape != (points,) or not (_finite(snrs) and snrs[0] > 0 and (np.diff(snrs) > 0).all()):
            raise DippError("snrs", f"{points} ascending numbers above 0 are needed, one a timestep")
        if quantiles.ndim != 2 or len(quantiles) != points or not quantiles.size:
            raise DippError("quantiles", f"a row for each of {points} timesteps is needed, got shape {quantiles.shape}")
        if not (_finite(quantiles) and (quantiles >= 0).all() and (quantiles[:, -1] > 0).all()):
            raise DippError("quantiles", "finite sizes of errors are needed, not all of them 0")
        factors = {name: np.array(row, np.float64) for name, row in self.inflation.items()}
        for name, row in factors.items():
            if row.shape != (points,) or not (_finite(row) and (row > 0).all()):
                raise DippError(f"inflation of {name}", f"{points} factors above 0 are needed, one a timestep")
        for array in (timesteps, snrs, quantiles, *factors.values()):
            array.flags.writeable = False
        for name, value in (("timesteps", timesteps), ("snrs", snrs), ("quantiles", quantiles)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "inflation", MappingProxyType(factors))
        object.__setattr__(self, "provenance", MappingProxyType(dict(self.provenance)))

    def require(self, schedule: NoiseSchedule) -> None:
        """Raise if the table was measured with another schedule."""
        known = [t < len(schedule) and math.isclose(schedule.snr(t), snr, rel_tol=1e-6) for t, snr in self._grid()]
        if not all(known):
            raise DippError("calibration", "made with another noise schedule", "calibrate this model anew")

    def mse(self, snr: Floats | float, chains: str | None = None) -> Floats:
        """Mean squared error per sub-pixel at an SNR; of coded chains, if they are named and known."""
        squares = np.square(self._errors(chains)).mean(axis=1)
        return np.asarray(np.exp(np.interp(np.log(snr), np.log(self.snrs), np.log(squares))), np.float64)

    def psnr(self, snr: Floats | float, chains: str | None = None) -> Floats:
        """Expected PSNR of x̂0 in dB, 10·log10(4/MSE): the data's range [−1, 1] has the square 4."""
        return np.asarray(10 * np.log10(4 / self.mse(snr, chains)), np.float64)

    def kl_matrix(self, channel: Channel, snrs: Floats, gains: Floats, chains: str | None = None) -> Floats:
        """KL in bits per touched coordinate, E kl(|error|·√ΔSNR), of steps with the ΔSNR gains[i] from snrs[i]."""
        log_shift, log_kl = _kl_curve(channel)
        shifts = np.log(np.maximum(self._errors(chains), TINY))[:, None] + LOG_GAINS[None, :, None] / 2
        curves = np.log(np.exp(np.interp(shifts, log_shift, log_kl)).mean(axis=2))
        low, share = self._place(snrs)
        rows = curves[low] * (1 - share)[:, None] + curves[low + 1] * share[:, None]
        log_gains = np.log(gains)
        return np.stack([np.exp(np.interp(at, LOG_GAINS, row)) for at, row in zip(log_gains, rows, strict=True)])

    def unsaturated_gains(self, channel: Channel, snrs: Floats, loss: float, chains: str | None = None) -> Floats:
        """Largest ΔSNR of a step from each SNR that loses at most this share of the shift's energy to saturation.

        A channel delivers the mean shift `Channel.delivered`, where the shift |error|·√ΔSNR is wanted: the sign
        channel's saturates. The share that is lost of the energy grows with ΔSNR. A channel that loses nothing has no
        bound: ∞.
        """
        wanted = self._errors(chains)[:, None] * np.exp(LOG_GAINS / 2)[None, :, None]
        lost = np.square(wanted - channel.delivered(wanted)).mean(axis=2) / np.square(wanted).mean(axis=2)
        if not lost.any():
            return np.full(np.shape(snrs), math.inf)
        log_lost = np.maximum.accumulate(np.log(np.maximum(lost, TINY)), axis=1)
        largest = np.array([np.interp(math.log(loss), row, LOG_GAINS) for row in log_lost])
        return np.asarray(np.exp(np.interp(np.log(snrs), np.log(self.snrs), largest)), np.float64)

    def with_inflation(self, chains: str, snrs: Floats, factors: Floats) -> ErrorTable:
        """Add the factors on the mean square that the chains of a coding met at some SNRs, ascending."""
        snrs, factors = np.asarray(snrs, np.float64), np.asarray(factors, np.float64)
        if snrs.ndim != 1 or not snrs.size or snrs.shape != factors.shape or (np.diff(snrs) <= 0).any():
            raise DippError("snrs, factors", "one or more ascending SNRs and a factor for each are needed")
        if not (_finite(snrs) and (snrs > 0).all() and _finite(factors) and (factors > 0).all()):
            raise DippError("snrs, factors", "finite numbers above 0 are needed")
        row = np.exp(np.interp(np.log(self.snrs), np.log(snrs), np.log(factors)))
        return replace(self, inflation={**self.inflation, chains: row})

    def save(self, path: Path) -> None:
        """Write the table, whole or not at all."""
        content = {
            "version": VERSION,
            "timesteps": self.timesteps.tolist(),
            "snrs": self.snrs.tolist(),
            "quantiles": _rounded(self.quantiles),
            "inflation": {name: _rounded(row) for name, row in self.inflation.items()},
            "provenance": dict(self.provenance),
        }
        if self.residuals is not None:
            content["sensing"] = self.residuals.to_dict(_rounded)
        with files.atomic(path) as part:
            part.write_text(json.dumps(content, separators=(",", ":")) + "\n", encoding="utf-8")

    @classmethod
    def of_model(cls, model: str | Path, calibration: str | Path | None = None) -> ErrorTable:
        """The table of a denoiser: calibration.json beside the weights, or the file that is named."""
        if calibration is not None:
            return cls.load(Path(calibration))
        place = hub.fetch(str(model), (FILE_NAME,)) / FILE_NAME
        if not place.exists():
            raise DippError(
                FILE_NAME,
                f"{model} has none",
                f"make it with `dipp calibrate {model} PUBLIC_PICTURES`, or name one with --calibration",
            )
        return cls.load(place)

    @classmethod
    def load(cls, path: Path) -> ErrorTable:
        """Read a table that `save` wrote."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except OSError:
            raise DippError(path.name, "cannot be read", "make it with `dipp calibrate`") from None
        except (ValueError, RecursionError):
            raise DippError(path.name, "damaged, this is not JSON", "make it anew with `dipp calibrate`") from None
        if not isinstance(content, dict) or content.get("version") != VERSION:
            raise DippError(path.name, f"not a calibration of format {VERSION}", "make it anew with `dipp calibrate`")
        names = ("timesteps", "snrs", "quantiles", "inflation", "provenance")
        try:
            sensing = None if "sensing" not in content else Residuals.from_dict(content["sensing"])
            return cls(**{name: content[name] for name in names}, residuals=sensing)
        except DippError as error:
            raise error.within(path.name) from None
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            raise DippError(path.name, "damaged, numbers are missing", "make it anew with `dipp calibrate`") from None

    def _grid(self) -> zip[tuple[int, float]]:
        return zip(self.timesteps.tolist(), self.snrs.tolist(), strict=True)

    def _errors(self, chains: str | None) -> Floats:
        factors = self.inflation.get(chains or "")
        return self.quantiles if factors is None else self.quantiles * np.sqrt(factors)[:, None]

    def _place(self, snrs: Floats) -> tuple[NDArray[np.int64], Floats]:
        """Grid cell of each SNR, and how far into it."""
        place = np.interp(np.log(snrs), np.log(self.snrs), np.arange(len(self.snrs)))
        low = np.minimum(place.astype(np.int64), len(self.snrs) - 2)
        return low, place - low


def grid(schedule: NoiseSchedule, points: int = POINTS) -> tuple[int, ...]:
    """Return at most `points` timesteps T − 1 > … > 0, as evenly spaced in log SNR as whole timesteps allow."""
    levels = np.log([schedule.snr(t) for t in range(len(schedule))])
    wanted = np.linspace(levels[-1], levels[0], points)
    return tuple(sorted({int(np.abs(levels - level).argmin()) for level in wanted}, reverse=True))


def measure(
    denoise: Denoise[Any],
    schedule: NoiseSchedule,
    images: Any,
    seed: bytes,
    timesteps: Sequence[int] | None = None,
    provenance: Mapping[str, str | int] | None = None,
) -> ErrorTable:
    """Fill a table with the errors of a denoiser on public images (N, C, H, W) in [−1, 1], NumPy or torch.

    The noise is the public one of the seed, the same on every machine, and the same at every timestep: so the errors of
    neighbouring timesteps differ by less chance.
    """
    if images.ndim != 4 or math.prod(images.shape) < SLICES or not bool((abs(images) <= 1).all()):
        raise DippError("images", "one or more images (N, C, H, W) with values in [-1, 1] are needed")
    points = tuple(sorted(timesteps or grid(schedule), reverse=True))
    streams = (randomness.stream(seed, i, purpose="calibration") for i in range(len(images)))
    noise = np.stack([normals(stream, tuple(images.shape[1:])) for stream in streams])
    eta = noise.astype(images.dtype) if isinstance(images, np.ndarray) else images.new_tensor(noise)
    errors = (_array(denoise(schedule.noised(images, eta, t), t)) - _array(images) for t in points)
    rows = [slices(error) for error in errors]
    snrs = np.array([schedule.snr(t) for t in points])
    facts = {"images": len(images), **(provenance or {})}
    return ErrorTable(np.array(points), snrs, np.stack(rows), provenance=facts)


def slices(sizes: Floats) -> Floats:
    """Root mean squares of the Q slices of the sorted sizes, as equal in count as can be."""
    squares = np.sort(np.square(sizes), axis=None)
    return np.sqrt([part.mean() for part in np.array_split(squares, SLICES)])


def _array(values: Any) -> Floats:
    """The values as a NumPy array, from wherever a tensor may live."""
    return np.asarray(values if isinstance(values, np.ndarray) else values.detach().cpu(), np.float64)


@functools.cache
def _kl_curve(channel: Channel) -> tuple[Floats, Floats]:
    """ln KL in bits of a channel against ln shift; smaller shifts than 10^−5 cost nothing that could be noticed."""
    shifts = np.geomspace(1e-5, 1e4, CURVE_POINTS)
    return np.log(shifts), np.log(np.maximum(channel.kl(shifts), TINY))


def _finite(values: Floats) -> bool:
    return bool(np.isfinite(values).all())


def _rounded(values: Floats) -> Any:
    return np.vectorize(lambda value: float(f"{value:.{DIGITS}g}"), otypes=[np.float64])(values).tolist()
