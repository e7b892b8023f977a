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
from dipp.risk.descriptors import Dlib, Face
from dipp.risk.networks import SmallNetwork
from dipp.risk.recognition import Fisherfaces, Floats, Integers, Recogniser, recognition
from experiments.people.faces import GALLERY, Faces
from experiments.people.likelihood import log_likelihoods
from experiments.people.methods import METHODS, Method, denoiser, quality
from experiments.people.restoring import Restorer
from experiments.people.store import Store

THOROUGH = (Method("clean"), Method("blur", 8))
"""Methods that all recognisers are tried on; the others meet Fisherfaces, and the likelihood where there is one."""
RESTORED = Method("blur", 8)
"""Method that the restoring attacker is tried on: it takes as long as all others together."""
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
    protected, _ = _released(method, "gallery", gallery, gallery, store)
    shown, archive = _released(method, "probes", probes, gallery, store)
    scores = {
        "naive Fisherfaces": _clean(Fisherfaces(), faces)(shown),
        "parrot Fisherfaces": Fisherfaces().fit(protected, owners)(shown),
    }
    if method in THOROUGH:
        scores["naive network"] = _clean(SmallNetwork(), faces)(shown)
        scores["parrot network"] = SmallNetwork().fit(protected, owners)(shown)
        scores["naive dlib"] = _clean(Dlib(), faces)(shown[::GALLERY])
    if method == RESTORED:
        restored = Restorer().fit(protected, gallery)
        sharper = restored(shown)
        scores["restoring Fisherfaces"] = Fisherfaces().fit(restored(protected), owners)(sharper)
        scores["restoring naive Fisherfaces"] = _clean(Fisherfaces(), faces)(_sized(sharper, gallery))
    if archive is not None and method.family != "pixel":
        likely = log_likelihoods(archive, denoiser(), gallery).reshape(len(probes), faces.people, GALLERY)
        scores["likelihood"] = np.logaddexp.reduce(likely, axis=2)
    described = _faces(shown)
    attackers = {name: _result(one, who[:: len(who) // len(one)]) for name, one in scores.items()}
    return {
        "method": method.name,
        "family": method.family,
        "size": method.size,
        "epsilon": method.epsilon,
        "people": faces.people,
        "probes": len(probes),
        "top-1 of the strongest": max(one["top-1"] for one in attackers.values()),
        "top-5 of the strongest": max(one["top-5"] for one in attackers.values()),
        "attackers": attackers,
        "bound": _bound(method, faces.people),
        "PSNR": round(quality(shown, probes), 2),
        "faces found": float(np.mean([face.found for face in described])),
        "landmarks": _landmarks(described, _faces(probes)),
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


def _faces(pictures: Pixels) -> list[Face]:
    """Return what dlib finds in the first picture of each person."""
    return [descriptors.face(one, describe=False) for one in pictures[::GALLERY]]


@functools.lru_cache(maxsize=4)
def _clean(recogniser: Recogniser, faces: Faces) -> Any:
    """Return a recogniser that has learnt from the clean gallery; dlib, from one picture of each person."""
    if isinstance(recogniser, Dlib):
        return recogniser.fit(*faces.part(0, 1))
    return recogniser.fit(*faces.gallery)


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
    errors = [misplaced(*pair) for pair in pairs]
    return {"median": round(float(np.median(errors)), 4), "pictures": len(pairs)}


def misplaced(first: Face, second: Face) -> float:
    """Return the mean distance of the landmarks of two equal-sized pictures, over that of the first one's eyes."""
    eyes = np.linalg.norm(first.landmarks[:2].mean(axis=0) - first.landmarks[2:4].mean(axis=0))
    apart = np.linalg.norm(first.landmarks - second.landmarks, axis=1).mean()
    return float(apart / max(eyes, 1e-9))
