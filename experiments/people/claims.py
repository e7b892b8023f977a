"""Stage `claims`: attackers against the bound of a certificate for the whole picture.

At each claimed ε every probe is really encoded `TIMES` times. A file is one index, or a few; so what any attacker says
is a table, and its chance of being right is also known exactly from the law of the draw.

| probes | who may it be |
|---|---|
| `known` | one picture of each person, which the attacker has |
| `other` | five pictures of each person, of whom the attacker has five others |
| `made` | as many made pictures as there are public words, each of which shows one: here the bound is reached |

An attacker is above the bound if its right guesses have a chance of less than `ALARM` under it (`risk.bounds.chance`).
With fewer than 100 such tests, all of them together raise a false alarm with a chance below 10⁻⁶.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipp.codec import Codec
from dipp.codec.decoder import Decoder
from dipp.codec.pictures import Pixels
from dipp.core.signal import to_levels
from dipp.core.steps import BLOCK
from dipp.core.units import Picture
from dipp.format.archive import Archive
from dipp.models.books import RAW
from dipp.risk import bounds
from dipp.risk.descriptors import described
from dipp.risk.likelihood import log_likelihoods
from dipp.risk.networks import SmallNetwork
from dipp.risk.recognition import Fisherfaces, Floats, Integers, nearest, recognition
from experiments.people.faces import GALLERY, HEIGHT, WIDTH, Faces
from experiments.people.methods import Method
from experiments.people.store import Store

EPSILONS = (0.5, 1.0, 2.0, 3.0, 4.0)
TIMES = 50
COPIES = 5
"""Releases of each picture of the gallery from which a parrot learns."""
ALARM = 1e-8


def stage(faces: Faces, store: Store) -> None:
    """Record every ε that is not recorded yet."""
    for epsilon in EPSILONS:
        if store.record(f"claims.{epsilon:g}") is None:
            began = time.process_time()
            store.write(f"claims.{epsilon:g}", claimed(epsilon, faces), began)


def claimed(epsilon: float, faces: Faces) -> dict[str, Any]:
    """Return what attackers reach at a claimed ε."""
    gallery, owners = faces.gallery
    probes, who = faces.probes
    codec = Method("picture", 0, epsilon).codec(gallery)
    assert codec is not None
    rows = [_known(codec, faces), *_other(codec, faces, gallery, owners, probes, who), _made(codec)]
    certificate = codec.encode(probes[:1], odometer=False).certificate
    return {
        "epsilon": epsilon,
        "certified": certificate.epsilon,
        "words": 1 << codec.plan.steps[0].index_bits,
        "times": TIMES,
        "rows": rows,
        "above the bound": [f"{row['probes']}, {row['attacker']}" for row in rows if min(row["chances"]) < ALARM],
    }


def _known(codec: Codec, faces: Faces) -> dict[str, Any]:
    """Attack one known picture of each person."""
    pictures, people = faces.part(0, 1)
    return _row("known", "likelihood", *_likelihood(codec, pictures, people, pictures, 1))


def _made(codec: Codec) -> dict[str, Any]:
    """Attack pictures that are made for it: one for each public word, which shows just that word."""
    assert codec.denoiser.books is not None
    words = codec.denoiser.books.book(RAW, codec.plan.steps[0].index_bits).words.reshape(-1, BLOCK, BLOCK, 3)
    down, across = (np.diff(Picture().divisions(side, BLOCK)) for side in (HEIGHT, WIDTH))
    drawn = words.repeat(down, axis=1).repeat(across, axis=2)
    pictures = np.asarray(to_levels(drawn), np.uint8)
    return _row("made", "likelihood", *_likelihood(codec, pictures, np.arange(len(pictures)), pictures, 1))


def _other(
    codec: Codec, faces: Faces, gallery: Pixels, owners: Integers, probes: Pixels, who: Integers
) -> list[dict[str, Any]]:
    """Attack other pictures of the people of the gallery, by several attackers."""
    archive = codec.encode(np.concatenate([probes] * TIMES), odometer=False)
    people = np.tile(who, TIMES)
    likely = log_likelihoods(archive, codec.denoiser, gallery).reshape(len(people), faces.people, GALLERY)
    scores = {"likelihood": np.logaddexp.reduce(likely, axis=2)}
    different, which = _decoded(codec, archive)
    again, of = codec.encode(np.concatenate([gallery] * COPIES), odometer=False), np.tile(owners, COPIES)
    seen, places = _decoded(codec, again)
    copies = seen[places]
    for recogniser in (Fisherfaces(), SmallNetwork()):
        scores[f"naive {recogniser.name}"] = recogniser.fit(gallery, owners)(different)[which]
        scores[f"parrot {recogniser.name}"] = recogniser.fit(copies, of)(different)[which]
    few = slice(0, None, GALLERY)
    scores["naive dlib"] = nearest(described(different), described(gallery[few]), owners[few], faces.people)[which]
    return [_row("other", name, found, people, archive) for name, found in scores.items()]


def _decoded(codec: Codec, archive: Archive) -> tuple[Pixels, Integers]:
    """Return the different pictures of an archive of pictures of one size, and which of them each file shows."""
    rows, which = np.unique(archive.batch(0, len(archive)), axis=0, return_inverse=True)
    geometry = archive.release.geometry(*archive.runs[0, 1:].tolist())
    grey = np.repeat(archive.grey[:1], len(rows))
    end = Decoder(codec.denoiser).end(archive.release, geometry, rows, range(len(rows)), grey)
    return end.pictures(), which.reshape(-1)


def _likelihood(
    codec: Codec, pictures: Pixels, people: Integers, candidates: Pixels, each: int
) -> tuple[Floats, Integers, Archive]:
    """Return the scores of the likelihood attacker on `TIMES` encodings of each picture, four times that if few."""
    times = TIMES * 4
    archive = codec.encode(np.concatenate([pictures] * times), odometer=False)
    likely = log_likelihoods(archive, codec.denoiser, candidates).reshape(len(archive), -1, each)
    return np.logaddexp.reduce(likely, axis=2), np.tile(people, times), archive


def _row(probes: str, attacker: str, scores: Floats, people: Integers, archive: Archive) -> dict[str, Any]:
    """Return what an attacker reaches, beside the bound and the chance of so much under it."""
    found, count = recognition(scores, people), scores.shape[1]
    named = [1, 5] if count > 5 else [1]
    right = [int((np.array(found.right) < m).sum()) for m in named]
    allowed = [bounds.recognised(archive.certificate.epsilon, count, m) for m in named]
    return {
        "probes": probes,
        "attacker": attacker,
        "people": count,
        "encodings": len(people),
        **{f"top-{m}": round(r / len(people), 4) for m, r in zip(named, right, strict=True)},
        "bounds": [round(one, 4) for one in allowed],
        "chances": [bounds.chance(r, len(people), one) for r, one in zip(right, allowed, strict=True)],
        "interval": _interval(np.array(found.right) < 1, people),
    }


def _interval(right: NDArray[np.bool_], people: Integers) -> list[float]:
    """Return a 95 % interval of top-1 over other people: a bootstrap of all guesses about a person together."""
    of_person = np.array([right[people == person].mean() for person in np.unique(people)])
    drawn = np.random.default_rng(0).integers(len(of_person), size=(2000, len(of_person)))
    return [round(float(one), 4) for one in np.quantile(of_person[drawn].mean(axis=1), (0.025, 0.975))]
