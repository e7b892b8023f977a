"""Calibration: the errors of a denoiser's predictions, measured on public images and stored with the model.

The bits of a step and the quality of the picture both follow from the sizes of the errors |x0 − x̂0(x_t)| of single
sub-pixels: x0 is the true value, and x̂0(x_t) what the denoiser predicts from the noisy state x_t. `ErrorTable` holds
their distribution at several signal-to-noise ratios. At each, the errors of all public images are sorted and cut into Q
slices of equal count, and a row has the root mean square of each slice. So the mean square of a row is exact, and so is
the mean of any function that is quadratic inside a slice, as a KL divergence nearly is.

Between the grid's points everything is interpolated over log SNR (logarithms of the quantities, which are close to
powers of the SNR); beyond its ends the nearest point counts.

`measure` looks at exact x_t. A coded chain strays from it, because each selection falls a little short of its target,
and so it has larger errors: `with_inflation` records, for the chains of a coding, the factor on the mean square
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
"""Number of significant digits of quantiles and factors in the file."""
CURVE_POINTS = 512
"""Number of points of a channel's KL against log shift. Interpolation errs by less than 1e-4 of the KL."""
GAIN_POINTS = 96
"""Number of points of a KL curve against log ΔSNR, from 10^−8 to 10^6."""
LOG_GAINS = np.linspace(math.log(1e-8), math.log(1e6), GAIN_POINTS)
TINY = 1e-300


@dataclass(frozen=True, eq=False)
class ErrorTable:
    """Public statistics of the denoiser's errors, in units of x ∈ [−1, 1]."""

    timesteps: NDArray[np.int64]
    """Timesteps of the grid, descending, so that the SNR ascends."""
    snrs: Floats
    """SNR at each timestep, in the schedule that the table was measured with."""
    quantiles: Floats
    """len(timesteps) × Q: root mean squares of the equally likely slices of |x0 − x̂0|, ascending."""
    inflation: Mapping[str, Floats] = field(default_factory=dict)
    """For each name of coded chains, the factor at each timestep by which their mean squared errors were larger."""
    residuals: Residuals | None = None
    """Residuals of sensing chains; None in tables that were made before dipp measured them."""
    provenance: Mapping[str, str | int] = field(default_factory=dict)
    """The public data, the number of images, and the command that made the table."""

    def __post_init__(self) -> None:
        timesteps = np.array(self.timesteps, np.int64)
        snrs, quantiles = np.array(self.snrs, np.float64), np.array(self.quantiles, np.float64)
        points = len(timesteps) if timesteps.ndim == 1 else 0
        if points < 2 or (np.diff(timesteps) >= 0).any() or timesteps[-1] < 0:
            raise DippError("timesteps", "must be two or more, descending to at least 0")
        if snrs.shape != (points,) or not (_finite(snrs) and snrs[0] > 0 and (np.diff(snrs) > 0).all()):
            raise DippError("snrs", f"must be {points} ascending positive numbers, one for each timestep")
        if quantiles.ndim != 2 or len(quantiles) != points or not quantiles.size:
            raise DippError("quantiles", f"must have a row for each of {points} timesteps, got shape {quantiles.shape}")
        if not (_finite(quantiles) and (quantiles >= 0).all() and (quantiles[:, -1] > 0).all()):
            raise DippError("quantiles", "must be finite sizes of errors, with one above 0 in each row")
        factors = {name: np.array(row, np.float64) for name, row in self.inflation.items()}
        for name, row in factors.items():
            if row.shape != (points,) or not (_finite(row) and (row > 0).all()):
                raise DippError(f"inflation of {name}", f"must be {points} positive factors, one for each timestep")
        for array in (timesteps, snrs, quantiles, *factors.values()):
            array.flags.writeable = False
        for name, value in (("timesteps", timesteps), ("snrs", snrs), ("quantiles", quantiles)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "inflation", MappingProxyType(factors))
        object.__setattr__(self, "provenance", MappingProxyType(dict(self.provenance)))

    def require(self, schedule: NoiseSchedule) -> None:
        """Raise if the table was measured with another schedule."""
        agree = [t < len(schedule) and math.isclose(schedule.snr(t), snr, rel_tol=1e-6) for t, snr in self._grid()]
        if not all(agree):
            raise DippError("calibration", "was made with another noise schedule", "calibrate this model again")

    def mse(self, snr: Floats | float, chains: str | None = None) -> Floats:
        """Return the mean squared error per sub-pixel at some SNRs.

        Args:
            snr: One or several SNRs.
            chains: Name of the coded chains whose inflation applies. By default states are exact.
        """
        squares = np.square(self._errors(chains)).mean(axis=1)
        return np.asarray(np.exp(np.interp(np.log(snr), np.log(self.snrs), np.log(squares))), np.float64)

    def psnr(self, snr: Floats | float, chains: str | None = None) -> Floats:
        """Return the expected PSNR of x̂0 in dB, 10·log10(4/MSE): the data's range [−1, 1] has the square 4.

        Args:
            snr: SNR of the states.
            chains: Name of the coded chains whose inflation applies. By default states are exact.
        """
        return np.asarray(10 * np.log10(4 / self.mse(snr, chains)), np.float64)

    def kl_matrix(self, channel: Channel, snrs: Floats, gains: Floats, chains: str | None = None) -> Floats:
        """Return the mean KL divergence, in bits per touched coordinate, of steps by `gains[i]` from `snrs[i]`.

        Args:
            channel: The channel of the steps.
            snrs: SNRs (N,) that the steps start from.
            gains: SNR gains (N, M) of the steps.
            chains: Name of the coded chains whose inflation applies. By default states are exact.

        Returns:
            The KL of each step, of shape (N, M).
        """
        log_shift, log_kl = _kl_curve(channel)
        shifts = np.log(np.maximum(self._errors(chains), TINY))[:, None] + LOG_GAINS[None, :, None] / 2
        curves = np.log(np.exp(np.interp(shifts, log_shift, log_kl)).mean(axis=2))
        low, share = self._place(snrs)
        rows = curves[low] * (1 - share)[:, None] + curves[low + 1] * share[:, None]
        log_gains = np.log(gains)
        return np.stack([np.exp(np.interp(at, LOG_GAINS, row)) for at, row in zip(log_gains, rows, strict=True)])

    def unsaturated_gains(self, channel: Channel, snrs: Floats, loss: float, chains: str | None = None) -> Floats:
        """Return the largest ΔSNR of a step from each SNR that loses at most the fraction `loss` to saturation.

        The wanted shift is |error|·√ΔSNR, and a channel delivers the mean shift `Channel.delivered` of it, which
        saturates for the sign channel. The lost fraction of the shift's energy grows with ΔSNR. For a channel that
        loses nothing, the result is ∞.

        Args:
            channel: The channel of the steps.
            snrs: SNRs that the steps start from.
            loss: Largest fraction of the energy, between 0 and 1.
            chains: Name of the coded chains whose inflation applies. By default states are exact.
        """
        wanted = self._errors(chains)[:, None] * np.exp(LOG_GAINS / 2)[None, :, None]
        lost = np.square(wanted - channel.delivered(wanted)).mean(axis=2) / np.square(wanted).mean(axis=2)
        if not lost.any():
            return np.full(np.shape(snrs), math.inf)
        log_lost = np.maximum.accumulate(np.log(np.maximum(lost, TINY)), axis=1)
        largest = np.array([np.interp(math.log(loss), row, LOG_GAINS) for row in log_lost])
        return np.asarray(np.exp(np.interp(np.log(snrs), np.log(self.snrs), largest)), np.float64)

    def with_inflation(self, chains: str, snrs: Floats, factors: Floats) -> ErrorTable:
        """Return the table with the inflation of coded chains.

        Args:
            chains: Name of the chains.
            snrs: SNRs in ascending order.
            factors: Factor on the mean square at each SNR.

        Raises:
            DippError: The arrays are invalid.
        """
        snrs, factors = np.asarray(snrs, np.float64), np.asarray(factors, np.float64)
        if snrs.ndim != 1 or not snrs.size or snrs.shape != factors.shape or (np.diff(snrs) <= 0).any():
            raise DippError("snrs and factors", "must be one or more ascending SNRs, and a factor for each")
        if not (_finite(snrs) and (snrs > 0).all() and _finite(factors) and (factors > 0).all()):
            raise DippError("snrs and factors", "must be finite positive numbers")
        row = np.exp(np.interp(np.log(self.snrs), np.log(snrs), np.log(factors)))
        return replace(self, inflation={**self.inflation, chains: row})

    def save(self, path: Path) -> None:
        """Write the table to a JSON file, whole or not at all."""
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
        """Return the table of a denoiser.

        Args:
            model: Folder of the denoiser, or its id on the hub.
            calibration: File of the table. By default calibration.json beside the weights.

        Raises:
            DippError: There is no such file, or it is damaged.
        """
        if calibration is not None:
            return cls.load(Path(calibration))
        path = hub.fetch(str(model), (FILE_NAME,)) / FILE_NAME
        if not path.exists():
            raise DippError(
                FILE_NAME,
                f"is missing in {model}",
                f"make it with `dipp calibrate {model} PUBLIC_PICTURES`, or name one with --calibration",
            )
        return cls.load(path)

    @classmethod
    def load(cls, path: Path) -> ErrorTable:
        """Return the table from a file that `save` wrote.

        Raises:
            DippError: The file cannot be read, or is not a table.
        """
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except OSError:
            raise DippError(path.name, "cannot be read", "make it with `dipp calibrate`") from None
        except (ValueError, RecursionError):
            raise DippError(path.name, "is damaged: it is not JSON", "make it again with `dipp calibrate`") from None
        if not isinstance(content, dict) or content.get("version") != VERSION:
            raise DippError(
                path.name, f"is not a calibration of format {VERSION}", "make it again with `dipp calibrate`"
            )
        names = ("timesteps", "snrs", "quantiles", "inflation", "provenance")
        try:
            sensing = None if "sensing" not in content else Residuals.from_dict(content["sensing"])
            return cls(**{name: content[name] for name in names}, residuals=sensing)
        except DippError as error:
            raise error.within(path.name) from None
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            raise DippError(
                path.name, "is damaged: numbers are missing", "make it again with `dipp calibrate`"
            ) from None

    def _grid(self) -> zip[tuple[int, float]]:
        return zip(self.timesteps.tolist(), self.snrs.tolist(), strict=True)

    def _errors(self, chains: str | None) -> Floats:
        factors = self.inflation.get(chains or "")
        return self.quantiles if factors is None else self.quantiles * np.sqrt(factors)[:, None]

    def _place(self, snrs: Floats) -> tuple[NDArray[np.int64], Floats]:
        """Return the interval of the table's SNRs that holds each SNR, and its position in the interval from 0 to 1."""
        position = np.interp(np.log(snrs), np.log(self.snrs), np.arange(len(self.snrs)))
        low = np.minimum(position.astype(np.int64), len(self.snrs) - 2)
        return low, position - low


def grid(schedule: NoiseSchedule, points: int = POINTS) -> tuple[int, ...]:
    """Return timesteps T − 1 > … > 0 that are evenly spaced in log SNR, up to rounding; at most `points` of them.

    Args:
        schedule: The noise schedule.
        points: Largest number of timesteps.
    """
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
    """Measure the errors of a denoiser on public images.

    The noise is the same on every machine and at every timestep, so that the errors of neighbouring timesteps differ
    less by chance.

    Args:
        denoise: A function from x_t and t to x̂0.
        schedule: The noise schedule of the denoiser.
        images: Images of shape (N, C, H, W) with values in [−1, 1], as a NumPy array or a tensor.
        seed: Public seed of the noise.
        timesteps: Timesteps of the table. By default those of `grid`.
        provenance: Facts about the images, for the table.

    Returns:
        The table.

    Raises:
        DippError: The images are invalid.
    """
    if images.ndim != 4 or math.prod(images.shape) < SLICES or not bool((abs(images) <= 1).all()):
        raise DippError("images", "must be one or more images (N, C, H, W) with values in [-1, 1]")
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
    """Return the root mean squares of Q slices of the sorted sizes, whose counts differ by at most 1."""
    squares = np.sort(np.square(sizes), axis=None)
    return np.sqrt([part.mean() for part in np.array_split(squares, SLICES)])


def _array(values: Any) -> Floats:
    """Return an array or a tensor of any device as a NumPy array of float64."""
    return np.asarray(values if isinstance(values, np.ndarray) else values.detach().cpu(), np.float64)


@functools.cache
def _kl_curve(channel: Channel) -> tuple[Floats, Floats]:
    """Return the logarithms of some shifts, and of the KL divergence in bits of a channel at each of them."""
    shifts = np.geomspace(1e-5, 1e4, CURVE_POINTS)
    return np.log(shifts), np.log(np.maximum(channel.kl(shifts), TINY))


def _finite(values: Floats) -> bool:
    return bool(np.isfinite(values).all())


def _rounded(values: Floats) -> Any:
    return np.vectorize(lambda value: float(f"{value:.{DIGITS}g}"), otypes=[np.float64])(values).tolist()
