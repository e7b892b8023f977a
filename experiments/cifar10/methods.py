"""Methods, and a release of the pictures by one of them: what is made of it, and what it is compared with."""

from __future__ import annotations

from dataclasses import dataclass

from dipp.errors import DippError
from dipp.planning.presets import PRESETS, Preset, SensingPreset
from experiments.comparisons.unclipped import UNCLIPPED

CLEAN, LAPLACE, SLICING, PRUNED = "clean", "laplace", "slicing", "pruned-slicing"
"""Methods beside the presets of the codec: no noise at all, privatise-then-compress, and randomised bit planes."""
NOISES = ("noise", "cube", "one-channel", "one-bit")
"""Noise whose denoised pictures are all that a receiver has (`rivals`)."""


def preset_of(method: str) -> Preset:
    """The preset of a method; `unclipped` is what `sharp` was before residuals were clipped."""
    known = {**PRESETS, "unclipped": UNCLIPPED["sharp"]}
    if method not in known:
        raise DippError("preset", f"must be one of {', '.join(known)}, got {method}")
    return known[method]


@dataclass(frozen=True)
class Release:
    """One release of the pictures: a method at an ε, and which of the plans within it."""

    name: str
    method: str
    """clean, laplace, another rival, or a preset of the codec."""
    epsilon: float | None
    """Pure ε per pixel that binds; for a preset without certificate, that of the release whose timestep it takes."""
    images: int
    """Number of pictures, from the first on."""
    train: tuple[str, ...] = ()
    """Reconstructions that classifiers are trained on."""
    clip: bool = True
    """Whether their gradients are clipped, as the protocol has it for private pictures."""
    bpp: float | None = None
    """The best expected quality within this rate, in payload bits per pixel."""
    like: str | None = None
    """A release that this one is chosen by; one of clean pictures is like another that it shares them with."""
    relative_snr: float | None = None
    """The final SNR, relative to that of `like`; without it, the final timestep is the same."""
    same_steps: bool = False
    """Whether all timesteps are those of `like`, and not only the last."""
    seeds: tuple[int, ...] | None = None
    """Seeds of its classifiers, instead of those of the protocol."""

    @property
    def coded(self) -> bool:
        """Whether the codec makes it."""
        return self.method not in (CLEAN, LAPLACE, SLICING, PRUNED, *NOISES)

    @property
    def sensed(self) -> bool:
        """Whether the codec makes it by clipped sensing, and not along timesteps."""
        return self.coded and isinstance(preset_of(self.method), SensingPreset)

    @property
    def lossless(self) -> bool:
        """Whether lossless codecs are measured on it: on what the codec does not make, and once."""
        return not self.coded and self.like is None

    @property
    def outputs(self) -> tuple[str, ...]:
        """The pictures that a receiver can have."""
        if self.coded:
            return ("denoised", "sampled") if self.sensed else ("noisy", "denoised")
        return {LAPLACE: (LAPLACE, "denoised"), **dict.fromkeys(NOISES, ("denoised",))}.get(self.method, (self.method,))

    @property
    def headline(self) -> str:
        """The one of them that panels and claims are about: the paper describes its baseline without a denoiser."""
        return "denoised" if self.coded or self.method in NOISES else self.method
