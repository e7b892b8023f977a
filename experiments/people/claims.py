"""Stage `claims`: attackers against the bound of a certificate for the whole picture.

At each claimed ε every probe is really encoded `TIMES` times. A file has one or a few indices, so an attacker is a
table of answers, and its chance of being right follows exactly from the law of the draw.

| probes | pictures to recognise |
|---|---|
| `known` | one picture of each person, which the attacker has |
| `other` | five pictures of each person, of whom the attacker has five others |
| `made` | one made picture for each public word, which shows this word: here the bound is reached |
| `region, known` and `region, other` | the same people, whose face's box is pasted into one fixed surrounding |

For the last two, ε is that of the box: everything that an attacker sees outside the box is the same for everybody.

An attacker is above the bound if its right guesses have a chance of less than `ALARM` under it (`risk.bounds.chance`).
Up to 200 such tests together raise a false alarm with a chance of at most 10⁻⁶. For `made` the chance of being right
is also computed from the law of the draw, as `exactly`.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipp.codec import Codec
from dipp.codec.chain import Chain, Indices
from dipp.codec.decoder import Decoder, IndexReader
from dipp.codec.decoding import ChainEnd
from dipp.codec.encoder import encode_batch
from dipp.codec.pictures import CodecPicture, Pixels
from dipp.core import randomness, units
from dipp.core.geometry import Geometry
from dipp.core.signal import to_levels
from dipp.core.steps import BLOCK
from dipp.format.archive import Archive
from dipp.models.books import RAW
from dipp.planning.regions import plan_of_regions
from dipp.privacy.certificate import Certificate
from dipp.privacy.recorder import Recorder
from dipp.risk import bounds
from dipp.risk.descriptors import described
from dipp.risk.networks import SmallNetwork
from dipp.risk.recognition import Fisherfaces, Floats, Integers, nearest, recognition
from experiments.people.faces import BOXES, GALLERY, Faces
from experiments.people.likelihood import log_likelihoods, of_rows
from experiments.people.methods import Method, boxed, denoiser, region
from experiments.people.store import Store

EPSILONS = (0.5, 1.0, 2.0, 3.0, 4.0)
TIMES = 50
MADE = 20_000
"""Number of encodings of made pictures, all together."""
COPIES = 5
"""Number of releases of each gallery picture from which a parrot learns."""
ALARM = 5e-9


def stage(faces: Faces, store: Store) -> None:
    """Record every requested ε that is not recorded yet."""
    for epsilon in EPSILONS:
        if store.wanted(f"claims.{epsilon:g}"):
            began = time.process_time()
            store.write(f"claims.{epsilon:g}", claimed(epsilon, faces), began)


def claimed(epsilon: float, faces: Faces) -> dict[str, Any]:
    """Return the success of each attacker at a claimed ε."""
    gallery, owners = faces.gallery
    probes, who = faces.probes
    codec = Method("picture", 0, epsilon).codec(gallery)
    assert codec is not None
    size = probes.shape[1:3]
    rows = [_known(codec, faces), *_other(codec, faces, gallery, owners, probes, who), _made(codec, size)]
    rows += _regions(epsilon, faces)
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
    likely, archive = _likelihood(codec, pictures, 4 * TIMES)
    return _row("known", "likelihood", likely, np.tile(people, 4 * TIMES), archive.certificate.epsilon)


def _made(codec: Codec, size: tuple[int, ...]) -> dict[str, Any]:
    """Attack pictures that are made for the attack: one for each public word, which shows only that word."""
    assert codec.denoiser.books is not None
    words = codec.denoiser.books.book(RAW, codec.plan.steps[0].index_bits).words.reshape(-1, BLOCK, BLOCK, 3)
    down, across = (np.diff(units.Picture().divisions(side, BLOCK)) for side in size)
    drawn = words.repeat(down, axis=1).repeat(across, axis=2)
    pictures = np.asarray(to_levels(drawn), np.uint8)
    likely, archive = _likelihood(codec, pictures, MADE // len(pictures))
    people, files = np.tile(np.arange(len(pictures)), MADE // len(pictures)), archive.batch(0, len(archive))
    _, first = np.unique(files, axis=0, return_index=True)
    laws = np.exp(likely[first])
    assert np.allclose(laws.sum(axis=0), 1), "every file was drawn"
    exactly = float(laws.max(axis=1).sum() / len(pictures))
    row = _row("made", "likelihood", likely, people, archive.certificate.epsilon)
    return {**row, "exactly": round(exactly, 6)}


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
    return [_row("other", name, found, people, archive.certificate.epsilon) for name, found in scores.items()]


def _regions(epsilon: float, faces: Faces) -> list[dict[str, Any]]:
    """Attack boxes of faces in one surrounding that everybody knows."""
    (base,) = boxed(Method("redacted"), faces.pictures[0, :1], faces.pictures[0, :1])
    plan, geometry = plan_of_regions(region(base[None]), epsilon), Geometry.of(base.shape)
    chain = Chain.of_pictures(plan, denoiser(), randomness.fresh_seed(), geometry, base)
    certified = Certificate.of(plan, geometry).epsilon
    (gallery, owners), (probes, who), (known, each) = (
        (_pasted(pictures, base), people) for pictures, people in (faces.gallery, faces.probes, faces.part(0, 1))
    )
    likely = of_rows(chain, _asked(chain, known, 4 * TIMES), known)
    rows = [_row("region, known", "likelihood", likely, np.tile(each, 4 * TIMES), certified)]
    released = _asked(chain, probes, TIMES)
    likely = of_rows(chain, released, gallery).reshape(len(released), faces.people, GALLERY)
    scores = {"likelihood": np.logaddexp.reduce(likely, axis=2)}
    different, which = _shown(chain, released)
    copies, places = _shown(chain, _asked(chain, gallery, COPIES))
    scores["naive Fisherfaces"] = Fisherfaces().fit(gallery, owners)(different)[which]
    scores["parrot Fisherfaces"] = Fisherfaces().fit(copies[places], np.tile(owners, COPIES))(different)[which]
    people = np.tile(who, TIMES)
    return [*rows, *(_row("region, other", name, found, people, certified) for name, found in scores.items())]


def _pasted(pictures: Pixels, base: Pixels) -> Pixels:
    """Return the box of each picture, pasted into a surrounding."""
    top, bottom, left, right = BOXES[base.shape[:2]]
    found = np.repeat(base[None], len(pictures), axis=0)
    found[:, top:bottom, left:right] = pictures[:, top:bottom, left:right]
    return found


def _asked(chain: Chain, pictures: Pixels, times: int) -> Indices:
    """Return the indices of all pictures, encoded `times` times."""
    rows = []
    for time_of in range(times):
        numbers = range(time_of * len(pictures), (time_of + 1) * len(pictures))
        rows.append(encode_batch(chain, [CodecPicture(picture) for picture in pictures], numbers, Recorder())[0])
    return np.concatenate(rows)


def _shown(chain: Chain, released: Indices) -> tuple[Pixels, Integers]:
    """Return the different pictures that rows of indices decode to, and the number of the picture of each row."""
    rows, which = np.unique(released, axis=0, return_inverse=True)
    counts, steps, found = chain.plan.chunk_counts(chain.geometry), len(chain.plan.steps), []
    for row in rows:
        state, _ = chain.run([0], IndexReader(row[None], counts))
        found.append(ChainEnd(chain, steps, state, [0], np.zeros(1, bool)).pictures())
    return np.concatenate(found), which.reshape(-1)


def _decoded(codec: Codec, archive: Archive) -> tuple[Pixels, Integers]:
    """Return the different pictures of an archive of pictures of one size, and the number of each file's picture."""
    rows, which = np.unique(archive.batch(0, len(archive)), axis=0, return_inverse=True)
    geometry = archive.parameters.geometry(*archive.runs[0, 1:].tolist())
    grey = np.repeat(archive.grey[:1], len(rows))
    end = Decoder(codec.denoiser).end(archive.parameters, geometry, rows, range(len(rows)), grey)
    return end.pictures(), which.reshape(-1)


def _likelihood(codec: Codec, pictures: Pixels, times: int) -> tuple[Floats, Archive]:
    """Return the log-likelihood of each picture for repeated files of all pictures, and the files."""
    archive = codec.encode([*pictures] * times, odometer=False)
    return log_likelihoods(archive, codec.denoiser, pictures), archive


def _row(probes: str, attacker: str, scores: Floats, people: Integers, epsilon: float) -> dict[str, Any]:
    """Return an attacker's success, its bound, and the probability of such a success if the bound holds."""
    found, count = recognition(scores, people), scores.shape[1]
    named = [1, 5] if count > 5 else [1]
    right = [int((np.array(found.right) < m).sum()) for m in named]
    allowed = [bounds.recognised(epsilon, count, m) for m in named]
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
    """Return a 95 % interval of top-1 over other people; the bootstrap keeps all guesses about a person together."""
    of_person = np.array([right[people == person].mean() for person in np.unique(people)])
    drawn = np.random.default_rng(0).integers(len(of_person), size=(2000, len(of_person)))
    return [round(float(one), 4) for one in np.quantile(of_person[drawn].mean(axis=1), (0.025, 0.975))]
