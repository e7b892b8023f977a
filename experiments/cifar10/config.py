"""A run of the experiment: which pictures are released and which classifiers are trained, read from a TOML file."""

from __future__ import annotations

import dataclasses
import fnmatch
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dipp.errors import DippError
from dipp.planning.presets import SensingPreset
from experiments.cifar10.methods import CLEAN, LAPLACE, NOISES, Release, preset_of

SPLITS = ("test", "train and test")
"""Pictures of CIFAR-10 that are released: the test set, or the training set followed by the test set."""


@dataclass(frozen=True)
class Protocol:
    """The training of classifiers; the defaults are the protocol that the paper cites."""

    epochs: int = 250
    batch: int = 128
    """Pictures per batch. The last, smaller batch of an epoch is dropped."""
    learning_rate: float = 0.1
    milestones: tuple[int, ...] = (80, 160, 200)
    """Epochs after which the learning rate is halved."""
    momentum: float = 0.9
    weight_decay: float = 1e-4
    clip: float = 0.5
    """Largest norm of the gradient; used where gradients are clipped."""
    pad: int = 4
    """Width in pixels of the zeros around a picture from which random crops are taken."""
    seeds: tuple[int, ...] = (0, 1, 2)
    evaluate_every: int = 10
    """Number of epochs between evaluations. The best epoch is the best evaluated one."""
    wave: int = 24
    """Number of classifiers that are trained side by side."""

    def rate(self, epoch: int) -> float:
        """Return the learning rate of an epoch, which counts from 0."""
        return float(self.learning_rate * 0.5 ** sum(epoch >= milestone for milestone in self.milestones))


@dataclass(frozen=True)
class Ancestral:
    """A check of the fast sampler: some pictures of one release are denoised by DDPM sampling, as in the paper."""

    release: str
    images: int


@dataclass(frozen=True)
class Probes:
    """A test of how often the best guess names the encoded picture: a preset at several ε, on some of the pictures."""

    method: str
    epsilons: tuple[float, ...]
    images: int
    bpp: float


@dataclass(frozen=True)
class Config:
    """The settings of a run."""

    images: int
    """Number of released pictures."""
    previews: int
    """Number of pictures of each release that are kept for the grid."""
    plotted: str
    """Tag of the releases that the panels show."""
    protocol: Protocol
    releases: tuple[Release, ...]
    reasons: dict[str, str]
    """Why each group of releases exists, by method and tag."""
    split: str = SPLITS[0]
    training: int | None = None
    """Number of pictures, from the first, on which classifiers are trained; the others evaluate. None: half of them."""
    calls: int = 10
    """Network calls of the fast sampler, for plans along timesteps."""
    deviations: int = 0
    """Number of pictures on which the δ of appendix C is measured."""
    ancestral: Ancestral | None = None
    probes: Probes | None = None
    earlier: str | None = None
    """Results of an earlier run by the same protocol that are reported beside these, relative to this folder."""

    @property
    def cut(self) -> int:
        """Return the number of pictures for training. The others are for evaluation."""
        return self.images // 2 if self.training is None else self.training

    @classmethod
    def load(cls, path: Path) -> Config:
        """Read and check a config file."""
        try:
            content = tomllib.loads(path.read_text())
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise DippError("config", f"cannot be read from {path}: {error}") from None
        try:
            groups = content.pop("release")
            protocol = Protocol(**_frozen(content.pop("protocol", {})))
            parts = {"ancestral": Ancestral, "probes": Probes}
            more = {name: kind(**_frozen(content.pop(name))) for name, kind in parts.items() if name in content}
            releases = tuple(release for group in groups for release in _releases(group, content["images"]))
            reasons = {_group(g["method"], g.get("tag")): g["reason"] for g in groups}
            found = cls(**content, **more, protocol=protocol, releases=releases, reasons=reasons)
            found.check()
        except DippError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DippError("config", f"has a missing, unknown or mistyped entry in {path.name}: {error}") from None
        return found

    def check(self) -> None:
        """Raise if the settings would fail later in the run."""
        self._check_numbers()
        if len({release.name for release in self.releases}) != len(self.releases):
            raise DippError("config", "must not give two releases one name", "give their groups different tags")
        for release in self.releases:
            self._check_release(release)
        if any(release.images < self.deviations for release in self.shown("paper")):
            raise DippError(
                "config", f"asks for deviations of {self.deviations} images, more than a plotted release has"
            )
        if self.probes is not None:
            probed = preset_of(self.probes.method)
            if not isinstance(probed, SensingPreset) or self.probes.images > self.images:
                raise DippError("config", f"must give its probes a preset of sensing and at most {self.images} images")
        if self.ancestral is not None:
            checked = self.release(self.ancestral.release)
            if not checked.coded or checked.sensed or checked.images < self.ancestral.images:
                needed = f"{self.ancestral.images} images along timesteps"
                raise DippError("config", f"must give {checked.name} {needed}, so that it can be checked")
        plotted = [release for release in self.releases if release.coded and release in self.shown(release.method)]
        if not plotted:
            raise DippError("config", f"has no release with the tag {self.plotted}, which the panels show")
        columns = {release.epsilon for method in (LAPLACE, *NOISES) for release in self.shown(method)}
        if odd := [release.name for release in plotted if release.epsilon not in columns]:
            raise DippError("config", f"plots {odd[0]}, so it must also list {LAPLACE} of that ε")
        if not any(release.name == CLEAN and release.train for release in self.releases):
            raise DippError("config", f"must train on {CLEAN}: Fréchet distances need that classifier")

    def _check_numbers(self) -> None:
        protocol = self.protocol
        counts = {name: getattr(self, name) for name in ("images", "calls", "previews")}
        counts |= {"the number of seeds": len(protocol.seeds)}
        counts |= {"deviations": self.deviations} if self.shown("paper") else {}
        counts |= {"images of ancestral": self.ancestral.images} if self.ancestral else {}
        counts |= {"images of probes": self.probes.images} if self.probes else {}
        counts |= {} if self.training is None else {"training": self.training}
        counts |= {name: getattr(protocol, name) for name in ("epochs", "batch", "evaluate_every", "wave")}
        counts |= {f"images of {release.name}": release.images for release in self.releases}
        for name, count in counts.items():
            if type(count) is not int or count < 1:
                raise DippError("config", f"must give a whole number of 1 or more for {name}, got {count}")
        rates = (protocol.learning_rate, protocol.momentum, protocol.weight_decay, protocol.clip)
        if not all(type(rate) in (int, float) and rate >= 0 for rate in (*rates, *protocol.milestones, protocol.pad)):
            raise DippError("config", "must give rates, milestones and a pad of 0 or more in the protocol")
        for seeds in (protocol.seeds, *(release.seeds for release in self.releases if release.seeds is not None)):
            if not seeds or len(set(seeds)) < len(seeds) or not all(type(s) is int and s >= 0 for s in seeds):
                raise DippError("config", f"must give different whole numbers of 0 or more as seeds, got {list(seeds)}")
        if not protocol.batch <= self.cut < self.images:
            raise DippError(
                "config", f"cannot train on {self.cut} of {self.images} images in batches of {protocol.batch}"
            )
        if self.split not in SPLITS:
            raise DippError("config", f"must give a split among {', '.join(SPLITS)}, got {self.split}")

    def _check_release(self, release: Release) -> None:
        name = release.name
        if release.coded:
            preset_of(release.method)
        if (release.method == CLEAN) != (release.epsilon is None):
            raise DippError("config", f"must give epsilons to all releases but clean pictures, see {name}")
        if not all(value is None or value > 0 for value in (release.epsilon, release.bpp, release.relative_snr)):
            raise DippError("config", f"must give {name} an ε, a rate and a relative SNR above 0")
        if release.like is None and (release.same_steps or release.relative_snr is not None):
            raise DippError(
                "config", f"gives {name} steps or an SNR relative to another release", "name that release by like"
            )
        if (release.like and release.bpp) or (release.same_steps and release.relative_snr):
            raise DippError(
                "config", f"chooses {name} in two ways", "keep bpp, or like and one of same_steps, relative_snr"
            )
        if release.sensed and release.like is not None:
            raise DippError("config", f"makes {name} like another release, but it has no timesteps", "choose it by bpp")
        if not release.coded and (release.bpp or release.same_steps or release.relative_snr):
            raise DippError("config", f"chooses a plan for {name}, which has no plan")
        if release.images > self.images:
            raise DippError("config", f"asks for {release.images} images of {name}, but has {self.images}")
        if unknown := [output for output in release.train if output not in release.outputs]:
            raise DippError("config", f"trains {name} on {unknown[0]}, but it has {' and '.join(release.outputs)}")
        if (release.train or release.method == CLEAN) and release.images < self.images:
            raise DippError("config", f"must give all {self.images} images to {name}, which is clean or trained on")
        if release.like is not None:
            other = self.release(release.like)
            if other.like is not None:
                raise DippError("config", f"makes {name} like {other.name}, which is itself like another")
            if other.coded != release.coded or self.releases.index(other) > self.releases.index(release):
                raise DippError(
                    "config", f"must list {name} after {other.name}, and make both in one way, since they are alike"
                )

    def seeds(self, release: Release) -> tuple[int, ...]:
        """Return the seeds of the classifiers of a release."""
        return self.protocol.seeds if release.seeds is None else release.seeds

    def release(self, name: str) -> Release:
        """Return the release with a name."""
        for release in self.releases:
            if release.name == name:
                return release
        raise DippError("config", f"has no release {name}")

    def matching(self, patterns: str) -> list[Release]:
        """Return the releases whose names match one of several patterns, separated by commas."""
        found = set()
        for pattern in (part.strip() for part in patterns.split(",")):
            like = {release.name for release in self.releases if fnmatch.fnmatch(release.name, pattern)}
            if not like:
                names = ", ".join(release.name for release in self.releases)
                raise DippError("only", f"matches no release: {pattern} is not among {names}")
            found |= like
        return [release for release in self.releases if release.name in found]

    def shown(self, method: str) -> tuple[Release, ...]:
        """Return the releases of a method that the panels show, in ascending ε."""
        found = [
            r for r in self.releases if r.method == method and (not r.coded or r.name.endswith(f"-{self.plotted}"))
        ]
        return tuple(sorted(found, key=lambda release: release.epsilon or 0.0))

    def to_dict(self) -> dict[str, Any]:
        """Return the config as a dictionary for the report."""
        return dataclasses.asdict(self)


def _frozen(table: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}


def _group(method: str, tag: str | None) -> str:
    return method if tag is None else f"{method} {tag}"


def _releases(group: dict[str, Any], images: int) -> list[Release]:
    """Return a release for each ε of a group. `train` lists reconstructions, or the ε at which each is trained on."""
    own = ("tag", "epsilons", "reason", "like", "train")
    rest = {"images": images, **_frozen({key: value for key, value in group.items() if key not in own})}
    found, wanted = [], group.get("train", {})
    told = {epsilon for epsilons in (wanted.values() if isinstance(wanted, dict) else ()) for epsilon in epsilons}
    if unknown := told - {*group.get("epsilons", [])}:
        names = ", ".join(map(str, unknown))
        raise DippError("config", f"trains {group['method']} at ε = {names}, which it does not have")
    for epsilon in group.get("epsilons", [None]):
        train = tuple(output for output in wanted if isinstance(wanted, list) or epsilon in wanted[output])
        parts = [group["method"], *([] if epsilon is None else [f"{epsilon:g}"])]
        name = "-".join([*parts, *([group["tag"]] if "tag" in group else [])])
        known = {} if epsilon is None else {"epsilon": f"{epsilon:g}"}
        like = group["like"].format(**known) if "like" in group else None
        found.append(Release(name=name, epsilon=epsilon, like=like, train=train, **rest))
    return found
