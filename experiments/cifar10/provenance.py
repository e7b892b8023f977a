"""What records are made of: a digest of the settings that each depends on, so that none is taken for another's."""

from __future__ import annotations

import dataclasses
import hashlib

from experiments.cifar10.baseline import CODECS, PACKED
from experiments.cifar10.config import SPLITS, Ancestral, Config, Protocol
from experiments.cifar10.methods import CLEAN, PRUNED, SLICING, Release


def records(config: Config) -> dict[str, dict[str, str]]:
    """Return the names of all records of a finished run by stage, with a digest of the settings of each."""
    of = {release.name: of_pictures(config, release) for release in config.releases}
    judge = [of_classifier(config, release) for release in config.releases if release.name == CLEAN]
    shown = config.shown("paper")
    found: dict[str, dict[str, str]] = {
        "baseline": {f"baseline.{r.name}.{c}": of[r.name] for r in config.releases if r.lossless for c in codecs(r)},
        "encode": {f"encode.{r.name}": of[r.name] for r in config.releases if r.coded},
        "train": {
            f"train.{r.name}.{output}.{seed}": of_classifier(config, r)
            for r in config.releases
            for output in r.train
            for seed in config.seeds(r)
        },
        "metrics": {
            f"metrics.{r.name}.{output}": fingerprint(of[r.name], judge)
            for r in config.releases
            for output in measured(r)
        },
    }
    found["encode"] |= {f"deviations.{r.name}": fingerprint(of[r.name], config.deviations) for r in shown}
    if config.ancestral is not None:
        found["metrics"]["ancestral"] = fingerprint(of[config.ancestral.release], judge, _given(config.ancestral))
    if config.probes is not None:
        probes = dataclasses.replace(config.probes, epsilons=())
        names = {f"probes.{epsilon:g}": epsilon for epsilon in config.probes.epsilons}
        found["probes"] = {name: fingerprint(dataclasses.asdict(probes), epsilon) for name, epsilon in names.items()}
    return found


def codecs(release: Release) -> tuple[str, ...]:
    """Return how pictures without the codec are stored: one bit per pixel as it is, all others by lossless codecs."""
    return (PACKED,) if release.method == "one-bit" else tuple(CODECS)


def measured(release: Release) -> tuple[str, ...]:
    """Return the reconstructions that are compared with the clean pictures: those that have the same colours."""
    if release.method in (CLEAN, SLICING, PRUNED):
        return ()
    return tuple(output for output in release.outputs if output != "sampled" or output in release.train)


def of_pictures(config: Config, release: Release) -> str:
    """Return a digest of all settings on which the pictures of a release depend."""
    other = None if release.like is None else of_pictures(config, config.release(release.like))
    split = () if config.split == SPLITS[0] else (config.split,)
    return fingerprint(_given(release, "train", "clip", "seeds"), other, config.calls, *split)


def of_classifier(config: Config, release: Release) -> str:
    """Return a digest of all settings on which a classifier of a release depends, except its seed."""
    cut = () if config.training is None else (config.training,)
    return fingerprint(of_pictures(config, release), _given(config.protocol, "seeds", "wave"), release.clip, *cut)


def fingerprint(*parts: object) -> str:
    """Return eight hex digits of a digest. They guard against mistakes, not against attacks."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:8]


def _given(settings: Release | Protocol | Ancestral, *but: str) -> dict[str, object]:
    """Return the settings that differ from their defaults, so that a new setting changes no older digest."""
    values = {field.name: (getattr(settings, field.name), field.default) for field in dataclasses.fields(settings)}
    return {name: value for name, (value, default) in values.items() if name not in but and value != default}
