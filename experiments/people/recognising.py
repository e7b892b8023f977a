"""Stage `faces`: every method against recognisers, and what remains of the pictures."""

from __future__ import annotations

import functools
import time
from typing import Any

import numpy as np
from PIL import Image

from dipp.codec.pictures import Pixels
from dipp.core.units import Picture
from dipp.format.archive import Archive
from dipp.risk import bounds, descriptors
from dipp.risk.descriptors import Face
from dipp.risk.networks import SmallNetwork
from dipp.risk.recognition import Fisherfaces, Floats, Integers, Recogniser, nearest, recognition
from experiments.people import glasses
from experiments.people.faces import GALLERY, Faces
from experiments.people.likelihood import log_likelihoods
from experiments.people.methods import METHODS, Method, denoiser, log_densities, quality
from experiments.people.restoring import Restorer
from experiments.people.store import Store

DESCRIBED = 50
"""Number of pictures that dlib's network describes, of the gallery and of the probes: the first of each person."""
RESTORED = (
    *(Method("blur", sigma) for sigma in (8, 16)),
    *(Method(family, 16, 8.0) for family in ("cells", "DP-Pix", "one shot")),
    Method("pixelate", 16),
)
"""Methods on which restoring attackers are tried; they take as long as all others together."""
SAMPLES = 2000
"""Number of bootstrap samples of the people, for intervals."""


def stage(faces: Faces, store: Store) -> None:
    """Record every requested method that is not recorded yet."""
    for method in METHODS:
        if store.wanted(f"faces.{method.name}"):
            began = time.process_time()
            store.write(f"faces.{method.name}", measured(method, faces, store), began)


def measured(method: Method, faces: Faces, store: Store) -> dict[str, Any]:
    """Return everything that is measured of a method."""
    gallery, owners = faces.gallery
    probes, _ = faces.probes
    protected, _ = _released(method, "gallery", gallery, gallery, store)
    shown, archive = _released(method, "probes", probes, gallery, store)
    scores: dict[str, Floats] = {}
    for recogniser in (Fisherfaces(), SmallNetwork()):
        scores[f"naive {recogniser.name}"] = _clean(recogniser, faces)(shown)
        scores[f"parrot {recogniser.name}"] = recogniser.fit(protected, owners)(shown)
    known, clean = _described(faces)
    described, copies = _seen(shown), _seen(protected)
    for kind, learnt in (("naive", known), ("parrot", copies)):
        people = np.repeat(np.arange(faces.people), _each(faces.people))
        scores[f"{kind} dlib"] = nearest(_numbers(described), _numbers(learnt), people, faces.people)
    if method in RESTORED:
        restored = Restorer().fit(protected, gallery)
        sharper = restored(shown)
        scores["restoring Fisherfaces"] = Fisherfaces().fit(restored(protected), owners)(sharper)
        scores["restoring naive Fisherfaces"] = _clean(Fisherfaces(), faces)(_sized(sharper, gallery))
    likely = _likelihoods(method, shown, archive, gallery)
    if likely is not None:
        scores["likelihood"] = np.logaddexp.reduce(likely.reshape(len(probes), faces.people, GALLERY), axis=2)
    each = {name: np.repeat(np.arange(faces.people), len(one) // faces.people) for name, one in scores.items()}
    attackers = {name: _result(one, each[name]) for name, one in scores.items()}
    return {
        "method": method.name,
        "family": method.family,
        "size": method.size,
        "epsilon": method.epsilon,
        "people": faces.people,
        "probes": len(probes),
        "top-1 of the strongest": max(attacker["top-1"] for attacker in attackers.values()),
        "top-5 of the strongest": max(attacker["top-5"] for attacker in attackers.values()),
        "attackers": attackers,
        "bound": _bound(method, faces.people),
        "PSNR": round(quality(shown, probes), 2),
        "faces found": float(np.mean([face.found for face in described])),
        "landmarks": _landmarks(described, clean),
        "glasses": _glasses(faces, described, {"naive": (gallery, known), "parrot": (protected, copies)}, shown),
        "bits per pixel": None if archive is None else round(archive.payload_bpp, 5),
    }


def _released(
    method: Method, what: str, pictures: Pixels, public: Pixels, store: Store
) -> tuple[Pixels, Archive | None]:
    """Return the released pictures, from the store if they were released before."""
    name = f"{method.name}.{what}"
    kept = store.pictures(name)
    if kept is not None:
        return kept, store.archive(name)
    shown, archive = method.released(pictures, public)
    if archive is not None:
        store.keep_archive(name, archive)
    store.keep_pictures(name, shown)
    return shown, archive


def _likelihoods(method: Method, shown: Pixels, archive: Archive | None, gallery: Pixels) -> Floats | None:
    """Return the log-likelihoods of clean pictures given files or pictures of DP-Pix, or None if not computed."""
    if method.family == "DP-Pix":
        return log_densities(method, shown, gallery)
    return None if archive is None or method.family == "pixel" else log_likelihoods(archive, denoiser(), gallery)


@functools.lru_cache(maxsize=1)
def _described(faces: Faces) -> tuple[list[Face], list[Face]]:
    """Return dlib's descriptions of the clean gallery and of the clean probes."""
    gallery, probes = faces.gallery[0], faces.probes[0]
    return _seen(gallery), [descriptors.face(probe, describe=False) for probe in probes]


def _seen(pictures: Pixels) -> list[Face]:
    """Return the faces that dlib finds in pictures, with descriptions of the first pictures of each person."""
    each = _each(len(pictures) // GALLERY)
    return [descriptors.face(one, describe=number % GALLERY < each) for number, one in enumerate(pictures)]


def _each(people: int) -> int:
    """Return the number of pictures of each person that are described."""
    return max(1, min(GALLERY, DESCRIBED // people))


def _glasses(
    faces: Faces, described: list[Face], galleries: dict[str, tuple[Pixels, list[Face]]], shown: Pixels
) -> dict[str, float] | None:
    """Return how often glasses are recognised, by what was learnt from; None for pictures without labels."""
    labels = glasses.labels(faces)
    if labels is None:
        return None
    (_, owners), (_, who), asked = faces.gallery, faces.probes, glasses.strips(shown, described)
    right = {
        k: glasses.right(glasses.strips(*g), labels[0], owners, asked, labels[1], who) for k, g in galleries.items()
    }
    return {kind: round(share, 4) for kind, share in right.items()}


def _numbers(described: list[Face]) -> Floats:
    return np.stack([one.descriptor for one in described if one.descriptor is not None])


@functools.lru_cache(maxsize=4)
def _clean(recogniser: Recogniser, faces: Faces) -> Any:
    """Return a recogniser that has learnt from the clean gallery."""
    return recogniser.fit(*faces.gallery)


def _sized(pictures: Pixels, like: Pixels) -> Pixels:
    height, width = like.shape[1:3]
    return np.stack([np.asarray(Image.fromarray(picture).resize((width, height))) for picture in pictures])


def _result(scores: Floats, who: Integers) -> dict[str, Any]:
    """Return top-1 and top-5, and 95 % intervals of top-1 over other people: a bootstrap of all probes of a person."""
    found = recognition(scores, who)
    right = np.array(found.right) < 1
    of_person = np.array([right[who == person].mean() for person in np.unique(who)])
    drawn = np.random.default_rng(0).integers(len(of_person), size=(SAMPLES, len(of_person)))
    low, high = np.quantile(of_person[drawn].mean(axis=1), (0.025, 0.975))
    return {
        "top-1": round(found.top1, 4),
        "top-5": round(found.top5, 4),
        "interval": [round(float(low), 4), round(float(high), 4)],
    }


def _bound(method: Method, people: int) -> dict[str, float] | None:
    """Return the bound of the certificate, if that is about the whole picture."""
    if method.family != Picture.kind or method.epsilon is None:
        return None
    return {f"top-{named}": round(bounds.recognised(method.epsilon, people, named), 4) for named in (1, 5)}


def _landmarks(described: list[Face], clean: list[Face]) -> dict[str, float] | None:
    """Return the error of landmarks where a face is found before and after, over the distance of the eyes."""
    pairs = [(a, b) for a, b in zip(clean, described, strict=True) if a.found and b.found]
    if not pairs:
        return None
    errors = [misplaced(*pair) for pair in pairs]
    return {"median": round(float(np.median(errors)), 4), "pictures": len(pairs)}


def misplaced(first: Face, second: Face) -> float:
    """Return the mean distance of the landmarks of two equal-sized pictures, over that of the first one's eyes."""
    eyes = np.linalg.norm(first.landmarks[:2].mean(axis=0) - first.landmarks[2:4].mean(axis=0))
    apart = np.linalg.norm(first.landmarks - second.landmarks, axis=1).mean()
    return float(apart / max(eyes, 1e-9))
