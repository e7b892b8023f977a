"""Subjects: whose pictures a source holds, by a public column, and what the worst of them pays.

A subject is all pictures with the same value in a column, such as a patient. Two collections are neighbours by subject
if they differ in all pictures of one subject, in any way but their number and sizes. A change of the subject is a
change of every unit of each of its pictures, and pictures share no draw. So a subject pays the sum of what its pictures
pay as wholes, in ε and in ρ. A certificate is about the worst subject, never about an average.

The column is read before any pixel is, and so is the choice of at most K pictures of a subject: the first K in the
order of the source. So what is left out depends on the public column alone. What is released of it are the number of
subjects and the pictures and the price of the worst one; which pictures belong together is not released.

Not counted: people in a picture who are not its subject, and a subject whose pictures have several values.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from dipp.core.words import counted
from dipp.data import rows
from dipp.data.sources import Labels, Record, Source
from dipp.data.store import Store
from dipp.errors import FILE, DippError
from dipp.privacy import conversions
from dipp.privacy.printing import upper

if TYPE_CHECKING:
    from dipp.core.geometry import Geometry
    from dipp.privacy.certificate import Certificate

SCHEMA = pa.schema({"position": pa.int64(), "subject": pa.int64()})
ROUNDING = 1 + 2.0**-30
"""More than two sums of prices can differ by."""


@dataclass(frozen=True)
class BySubject(Source):
    """The pictures of a source that are released, with their subjects."""

    inner: Source
    """The source of all pictures."""
    column: str
    """The column that names the subject of a picture."""
    most: int | None
    """Pictures that are released of a subject, at most; None for all."""
    listing: Path
    """Arrow file with the position in the inner source, and the number of the subject, of each picture."""
    count: int
    """Number of pictures that are released."""
    subjects: int
    """Number of subjects."""
    labels: Labels | None
    fingerprint: str

    @classmethod
    def of(cls, source: Source, column: str, most: int | None, scratch: Path) -> BySubject:
        """Return the pictures of a source, at most `most` of each subject. No picture is read.

        Args:
            source: The source.
            column: Its column that names the subjects.
            most: Pictures that are released of a subject, at most: the first ones. None for all.
            scratch: Folder for the list of what is released.

        Raises:
            DippError: The source has no such column, or a picture has no subject.

        """
        numbers: dict[Any, int] = {}
        taken: Counter[int] = Counter()
        listing = rows.fresh(scratch, "subjects")
        chosen = hashlib.sha256(f"{source.fingerprint}\0{column}\0{most}\0".encode())
        with rows.writing(listing, SCHEMA) as add:
            for position, value in enumerate(source.values(column)):
                if value is None:
                    raise DippError(
                        "subject", f"{source.name(position)} has no value in {column}", "every picture needs one"
                    )
                subject = numbers.setdefault(value, len(numbers))
                if most is None or taken[subject] < most:
                    add({"position": position, "subject": subject})
                    chosen.update(f"{position},{subject};".encode())
                    taken[subject] += 1
        count = sum(taken.values())
        return cls(source, column, most, listing, count, len(numbers), source.labels, chosen.hexdigest())

    def __len__(self) -> int:
        return self.count

    def read(self, start: int, stop: int) -> Iterator[Record]:
        """Yield the pictures under their numbers here; those that are left out are not read."""
        places = [row["position"] for row in rows.read(self.listing, start, stop)]
        for _, run in itertools.groupby(enumerate(places, start), key=lambda pair: pair[1] - pair[0]):
            pairs = list(run)
            found = self.inner.read(pairs[0][1], pairs[-1][1] + 1)
            for (position, _), record in zip(pairs, found, strict=True):
                yield record._replace(position=position)

    def name(self, position: int) -> str:
        """Name of the picture in the inner source."""
        (row,) = rows.read(self.listing, position, position + 1)
        return self.inner.name(row["position"])

    def facts(self, certificate: Certificate | None, sizes: dict[int, Geometry]) -> dict[str, Any]:
        """Return what a manifest says of the subjects.

        Args:
            certificate: The certificate of the release; None without one.
            sizes: The geometry of each picture that was released, by its position here.

        Returns:
            Column and limit, numbers of subjects and of pictures left out, and the subject that pays most.

        """
        pictures: defaultdict[int, Counter[Geometry]] = defaultdict(Counter)
        for position, row in enumerate(rows.read(self.listing, 0, self.count)):
            if position in sizes:
                pictures[row["subject"]][sizes[position]] += 1
        prices = {own: _price(certificate, own) for own in {frozenset(one.items()) for one in pictures.values()}}
        groups = [(*prices[frozenset(one.items())], one.total()) for one in pictures.values()]
        epsilon, rho, number = max(groups, default=(0.0, 0.0, 0))
        price = {} if certificate is None else {"epsilon": epsilon, "rho": rho}
        return {
            "column": self.column,
            "most_per_subject": self.most,
            "count": len(pictures),
            "left_out": len(self.inner) - self.count,
            "worst": {"pictures": number, **price},
        }


def _price(certificate: Certificate | None, pictures: frozenset[tuple[Geometry, int]]) -> tuple[float, float]:
    """Return ε and ρ of whole pictures together, given how many there are of each geometry."""
    if certificate is None:
        return 0.0, 0.0
    wholes = [(certificate.for_picture(geometry), count) for geometry, count in pictures]
    epsilon = conversions.total(count * one.epsilon for one, count in wholes)
    return epsilon, conversions.total(count * one.rho for one, count in wholes)


def sizes_of(store: Store, geometry: Any) -> dict[int, Geometry]:
    """Return the geometry of every published picture by its position; `geometry` makes one of height and width."""
    found = {}
    for path in store.shards():
        table = pq.read_table(path, columns=["id", "height", "width"])
        for number, height, width in zip(*(column.to_pylist() for column in table.columns), strict=True):
            found[number] = geometry(height, width)
    return found


def checked(stated: Any, facts: dict[str, Any]) -> dict[str, Any] | None:
    """Return what a manifest states of its subjects, after comparing it with what the shards show.

    Which pictures belong together is not released, so the price of the worst subject is the sender's word. It cannot be
    less than that of the largest picture, nor more than that of as many largest pictures.

    Args:
        stated: What the manifest says; None if it says nothing.
        facts: The facts that follow from the shards.

    Raises:
        DippError: It contradicts the shards.

    """
    if stated is None:
        return None
    try:
        worst, images, whole = stated["worst"], facts["images"], facts["whole"]
        pictures, most = worst["pictures"], stated["most_per_subject"]
        enough = 1 <= stated["count"] <= images and 1 <= pictures <= images - stated["count"] + 1
        enough &= most is None or pictures <= most
        if whole is not None:
            enough &= whole["epsilon"] <= worst["epsilon"] * ROUNDING <= pictures * whole["epsilon"] * ROUNDING**2
            enough &= worst["rho"] * ROUNDING >= whole["rho"]
    except (KeyError, TypeError):
        enough = False
    if not enough:
        raise DippError(FILE, "subjects of the manifest are not possible with what the shards hold")
    return {**stated}


def words(facts: dict[str, Any]) -> str:
    """Return what a manifest says of its subjects, in words."""
    worst, most, column = facts["worst"], facts["most_per_subject"], facts["column"]
    kept = "" if most is None else f", at most {counted(most, 'picture')} of each ({facts['left_out']:,} left out)"
    pays = f", which pays ε = {upper(worst['epsilon'])} together" if "epsilon" in worst else ""
    pictures = counted(worst["pictures"], "picture")
    return (
        f"{facts['count']:,} by the column {column}{kept}; the worst has {pictures}{pays}. This is the sender's word. "
        f"Public: the column {column}, and how many pictures a subject has. Bystanders are not counted"
    )
