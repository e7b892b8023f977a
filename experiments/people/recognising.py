"""Stage `faces`: every method against recognisers, and what remains of the pictures."""

from __future__ import annotations

import functools
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dipp.codec.pictures import Pixels
from dipp.core.units import Picture
from dipp.format.archive import Archive
from dipp.risk import bounds, descriptors
from dipp.risk.descriptors import Face
from dipp.risk.likelihood import log_likelihoods
from dipp.risk.networks import Restorer, SmallNetwork
from dipp.risk.recognition import Fisherfaces, Floats, Integers, Recogniser, nearest, recognition
from experiments.people.faces import GALLERY, Faces
from experiments.people.methods import METHODS, Method, denoiser, quality
from experiments.people.store import Store

BY_DLIB = 1
"""Pictures of each person, of the gallery and of the probes, that dlib sees: it takes a third of a second each."""
RESTORED = ("blur",)
"""Families that the restoring attacker was tried on: it takes as long as all others together."""
SAMPLES = 2000
"""Bootstrap samples of the people, for intervals."""


def stage(faces: Faces, store: Store) -> None:
    """Record every method that is not recorded yet."""
    for method in METHODS:
        if store.record(f"faces.{method.name}") is None:
            began = time.process_time()
            store.write(f"faces.{method.name}", measured(method, faces, store), began)


def measured(method: Method, faces: Faces, store: Store) -> dict[str, Any]:
    """Return everything about a method."""
    gallery, owners = faces.gallery
    probes, who = faces.probes
    copies = [_released(method, f"gallery-{copy}", gallery, gallery, store)[0] for copy in range(method.copies)]
    shown, archive = _released(method, "probes", probes, gallery, store)
    protected, of = np.concatenate(copies), np.tile(owners, len(copies))
    described = [descriptors.face(one) for one in _few(shown)]
    own = np.stack([face.descriptor for face in described])
    scores: dict[str, tuple[Floats, Integers]] = {}
    for recogniser in (Fisherfaces(), SmallNetwork()):
        scores[f"naive {recogniser.name}"] = _clean(recogniser, faces)(shown), who
        scores[f"parrot {recogniser.name}"] = recogniser.fit(protected, of)(shown), who
    some = np.repeat(np.arange(faces.people), BY_DLIB)
    clean_faces = _described(faces)
    known = np.stack([face.descriptor for face in clean_faces[0]])
    scores["naive dlib"] = nearest(own, known, some, faces.people), some
    if method.family in RESTORED:
        restored = Restorer().fit(protected, np.tile(gallery, (len(copies), 1, 1, 1)))
        sharper = restored(shown)
        scores["restoring Fisherfaces"] = Fisherfaces().fit(restored(protected), of)(sharper), who
        scores["restoring naive Fisherfaces"] = _clean(Fisherfaces(), faces)(_sized(sharper, gallery)), who
    if archive is not None and method.family != "pixel":
        likely = log_likelihoods(archive, denoiser(), gallery).reshape(len(probes), faces.people, GALLERY)
        scores["likelihood"] = np.logaddexp.reduce(likely, axis=2), who
    attackers = {name: _result(*pair) for name, pair in scores.items()}
    return {
        "method": method.name,
        "family": method.family,
        "size": method.size,
        "epsilon": method.epsilon,
        "people": faces.people,
        "probes": len(probes),
        "probes for dlib": len(own),
        "top-1 of the strongest": max(one["top-1"] for one in attackers.values()),
        "top-5 of the strongest": max(one["top-5"] for one in attackers.values()),
        "attackers": attackers,
        "bound": _bound(method, faces.people),
        "PSNR": round(quality(shown, probes), 2),
        "faces found": float(np.mean([face.found for face in described])),
        "landmarks": _landmarks(described, clean_faces[1]),
        "glasses": _glasses(faces, copies[0], shown),
        "bits per pixel": None if archive is None else round(archive.payload_bpp, 5),
    }


def _released(
    method: Method, what: str, pictures: Pixels, public: Pixels, store: Store
) -> tuple[Pixels, Archive | None]:
    """Return what was released, from the store if it was released before."""
    name = f"{method.name}.{what}"
    kept = store.pictures(name)
    if kept is not None:
        return kept, store.archive(name)
    shown, archive = method.released(pictures, public)
    if archive is not None:
        store.keep_archive(name, archive)
    store.keep_pictures(name, shown)
    return shown, archive


def _few(pictures: Pixels) -> Pixels:
    """Return the first `BY_DLIB` of every `GALLERY` pictures."""
    return np.concatenate([pictures[i : i + BY_DLIB] for i in range(0, len(pictures), GALLERY)])


@functools.lru_cache(maxsize=4)
def _clean(recogniser: Recogniser, faces: Faces) -> Any:
    """Return a recogniser that has learnt from the clean gallery."""
    return recogniser.fit(*faces.gallery)


@functools.lru_cache(maxsize=1)
def _described(faces: Faces) -> tuple[list[Face], list[Face]]:
    """Return what dlib says of clean pictures of the gallery, and of the clean probes."""
    gallery, probes = ([descriptors.face(one) for one in _few(part[0])] for part in (faces.gallery, faces.probes))
    return gallery, probes


def _sized(pictures: Pixels, like: Pixels) -> Pixels:
    height, width = like.shape[1:3]
    return np.stack([np.asarray(Image.fromarray(one).resize((width, height))) for one in pictures])


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
    """Return what the certificate allows, where it is about the whole picture."""
    if method.family != Picture.kind or method.epsilon is None:
        return None
    return {f"top-{named}": round(bounds.recognised(method.epsilon, people, named), 4) for named in (1, 5)}


def _landmarks(described: list[Face], clean: list[Face]) -> dict[str, float] | None:
    """Return the error of landmarks where a face is found before and after, over the distance of the eyes."""
    pairs = [(a, b) for a, b in zip(clean, described, strict=True) if a.found and b.found]
    if not pairs:
        return None
    errors = [descriptors.misplaced(*pair) for pair in pairs]
    return {"median": round(float(np.median(errors)), 4), "pictures": len(pairs)}


def _glasses(faces: Faces, gallery: Pixels, probes: Pixels) -> float:
    """Return how well glasses are told, of people whom the recogniser has not seen: the mean of both rates.

    Fisherfaces learn from all pictures of every other person, and are asked about the rest; then the other way round.
    """
    every = np.concatenate([part.reshape(faces.people, GALLERY, *part.shape[1:]) for part in (gallery, probes)], axis=1)
    worn = faces.glasses.astype(np.int64)
    rates: NDArray[np.float64] = np.zeros((2, 2))
    for turn in (0, 1):
        learnt = np.arange(faces.people) % 2 == turn
        pictures = every[learnt].reshape(-1, *every.shape[2:])
        scores = Fisherfaces().fit(pictures, worn[learnt].reshape(-1))(every[~learnt].reshape(-1, *every.shape[2:]))
        guess, truth = scores.argmax(axis=1), worn[~learnt].reshape(-1)
        rates[turn] = [(guess[truth == value] == value).mean() for value in (0, 1)]
    return round(float(rates.mean()), 4)
