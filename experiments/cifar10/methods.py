"""Methods and releases: how a method protects the pictures, and which plan at which ε."""

from __future__ import annotations

from dataclasses import dataclass

from dipp.errors import DippError
from dipp.planning.presets import PRESETS, Preset, SensingPreset
from experiments.comparisons.unclipped import UNCLIPPED

CLEAN, LAPLACE, SLICING, PRUNED = "clean", "laplace", "slicing", "pruned-slicing"
"""Methods beside the presets of the codec: no noise, Laplace noise before compression, and randomised bit planes."""
NOISES = ("noise", "cube", "one-channel", "one-bit")
"""Kinds of noise; a receiver sees only their denoised pictures (`rivals`)."""


def preset_of(method: str) -> Preset:
    """Return the preset of a method; `unclipped` is `sharp` as it was before residuals were clipped."""
    known = {**PRESETS, "unclipped": UNCLIPPED["sharp"]}
    if method not in known:
        raise DippError("preset", f"must be one of {', '.join(known)}, got {method}")
    return known[method]


@dataclass(frozen=True)
class Release:
    """One release of the pictures: a method, an ε, and the plan among those that the ε allows."""

    name: str
    method: str
    """The method: clean, laplace, another rival, or a preset of the codec."""
    epsilon: float | None
    """Pure ε per pixel that limits the plan; without a certificate, ε of the release that gives its timestep."""
    images: int
    """Number of pictures, from the first."""
    train: tuple[str, ...] = ()
    """The reconstructions on which classifiers are trained."""
    clip: bool = True
    """Whether the gradients of classifiers are clipped, as for private pictures."""
    bpp: float | None = None
    """Largest rate in payload bits per pixel; the plan is the best within it."""
    like: str | None = None
    """Name of a release that decides the plan; a clean release is like the release whose pictures it shares."""
    relative_snr: float | None = None
    """The final SNR relative to that of `like`; if None, the final timestep is the same."""
    same_steps: bool = False
    """Whether all timesteps are those of `like`, instead of only the last one."""
    seeds: tuple[int, ...] | None = None
    """Seeds of its classifiers in place of those of the protocol."""

    @property
    def coded(self) -> bool:
        """Whether the codec makes the release."""
        return self.method not in (CLEAN, LAPLACE, SLICING, PRUNED, *NOISES)

    @property
    def sensed(self) -> bool:
        """Whether the codec makes the release by clipped sensing, instead of steps along timesteps."""
        return self.coded and isinstance(preset_of(self.method), SensingPreset)

    @property
    def lossless(self) -> bool:
        """Whether lossless codecs are measured on the release. The codec's own releases and copies are left out."""
        return not self.coded and self.like is None

    @property
    def outputs(self) -> tuple[str, ...]:
        """The kinds of pictures that a receiver can have."""
        if self.coded:
            return ("denoised", "sampled") if self.sensed else ("noisy", "denoised")
        return {LAPLACE: (LAPLACE, "denoised"), **dict.fromkeys(NOISES, ("denoised",))}.get(self.method, (self.method,))

    @property
    def headline(self) -> str:
        """The kind of pictures that panels and claims are about; the paper reports its baseline without a denoiser."""
        return "denoised" if self.coded or self.method in NOISES else self.method
