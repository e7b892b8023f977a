"""Subjects: the people whose pictures a source holds, by a public column, and the price of the worst of them.

A subject is all pictures with the same value in a column, such as a patient. Two collections are neighbours by subject
if they differ in all pictures of one subject, in any way but their number and sizes. A change of the subject is a
change of every unit of each of its pictures, and pictures share no draw. So a subject pays the sum of what its pictures
pay as wholes, in ε and in ρ. A certificate is about the worst subject, never about an average.

The column is read before any pixel is, and so is the choice of at most K pictures of a subject: the first K in the
order of the source. So which pictures are left out depends on the public column alone. The release states the number of
subjects, and the number of pictures and the price of the worst subject; which pictures belong together is not released.

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
from dipp.data.sources import Labels, Source, SourcePicture
from dipp.data.store import Store
from dipp.errors import FILE, DippError
from dipp.privacy import conversions
from dipp.privacy.printing import upper

if TYPE_CHECKING:
    from dipp.core.geometry import Geometry
    from dipp.privacy.certificate import Certificate

SCHEMA = pa.schema({"position": pa.int64(), "subject": pa.int64()})
"""Columns of the list of released pictures."""
ROUNDING = 1 + 2.0**-30
"""Factor by which two sums of the same prices differ at most."""


@dataclass(frozen=True)
class BySubject(Source):
    """The pictures of a source that are released, with their subjects."""

    inner: Source
    """The source of all pictures."""
    column: str
    """The column that names the subject of a picture."""
    most: int | None
    """Largest number of pictures that are released of a subject; None for all."""
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
        """Return the pictures of a source, at most a given number of each subject. No picture is read.

        Args:
            source: The source.
            column: Its column that names the subjects.
            most: Largest number of pictures that are released of a subject: the first ones. None for all.
            scratch: Folder for the list of released pictures.

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
                        "subject",
                        f"must be known of every picture, got {source.name(position)} without a value in {column}",
                        "add the value, or leave the picture out",
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

    def read(self, start: int, stop: int) -> Iterator[SourcePicture]:
        """Yield the released pictures, numbered among themselves; pictures that are left out are not read."""
        inner = [row["position"] for row in rows.read(self.listing, start, stop)]
        for _, run in itertools.groupby(enumerate(inner, start), key=lambda pair: pair[1] - pair[0]):
            pairs = list(run)
            records = self.inner.read(pairs[0][1], pairs[-1][1] + 1)
            for (position, _), record in zip(pairs, records, strict=True):
                yield record._replace(position=position)

    def name(self, position: int) -> str:
        """Return the name of the picture in the inner source."""
        (row,) = rows.read(self.listing, position, position + 1)
        return self.inner.name(row["position"])

    def facts(self, certificate: Certificate | None, sizes: dict[int, Geometry]) -> dict[str, Any]:
        """Return what a manifest states of the subjects.

        Args:
            certificate: The certificate of the release; None without one.
            sizes: The geometry of each released picture, by its position here.

        Returns:
            Column and limit, numbers of subjects and of pictures left out, and the subject that pays most.
        """
        pictures: defaultdict[int, Counter[Geometry]] = defaultdict(Counter)
        for position, row in enumerate(rows.read(self.listing, 0, self.count)):
            if position in sizes:
                pictures[row["subject"]][sizes[position]] += 1
        # Many subjects have equal numbers of pictures of each geometry: compute each price once.
        counts = {subject: frozenset(geometries.items()) for subject, geometries in pictures.items()}
        prices = {geometries: _price(certificate, geometries) for geometries in set(counts.values())}
        groups = [(*prices[counts[subject]], geometries.total()) for subject, geometries in pictures.items()]
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
    """Return ε and ρ that whole pictures pay together, given their number of each geometry."""
    if certificate is None:
        return 0.0, 0.0
    wholes = [(certificate.for_picture(geometry), count) for geometry, count in pictures]
    epsilon = conversions.total(count * whole.epsilon for whole, count in wholes)
    return epsilon, conversions.total(count * whole.rho for whole, count in wholes)


def sizes_of(store: Store, geometry: Any) -> dict[int, Geometry]:
    """Return the geometry of every published picture by its position.

    Args:
        store: The folder of the shards.
        geometry: Function that makes a geometry of height and width.
    """
    sizes = {}
    for path in store.shards():
        table = pq.read_table(path, columns=["id", "height", "width"])
        for number, height, width in zip(*(column.to_pylist() for column in table.columns), strict=True):
            sizes[number] = geometry(height, width)
    return sizes


def checked(stated: Any, facts: dict[str, Any]) -> dict[str, Any] | None:
    """Check what a manifest states of its subjects against the facts that follow from the shards, and return it.

    Which pictures belong together is not released, so the price of the worst subject is the sender's word. It cannot be
    less than that of the largest picture, nor more than that of its number of pictures times the largest picture.

    Args:
        stated: What the manifest states; None if it states nothing.
        facts: The facts that follow from the shards.

    Returns:
        What the manifest states; None if it states nothing.

    Raises:
        DippError: The statement contradicts the shards.
    """
    if stated is None:
        return None
    try:
        worst, images, whole = stated["worst"], facts["images"], facts["whole"]
        pictures, most = worst["pictures"], stated["most_per_subject"]
        possible = 1 <= stated["count"] <= images and 1 <= pictures <= images - stated["count"] + 1
        possible &= most is None or pictures <= most
        if whole is not None:
            possible &= whole["epsilon"] <= worst["epsilon"] * ROUNDING <= pictures * whole["epsilon"] * ROUNDING**2
            possible &= worst["rho"] * ROUNDING >= whole["rho"]
    except (KeyError, TypeError):
        possible = False
    if not possible:
        raise DippError(FILE, "states subjects in its manifest that its shards contradict")
    return {**stated}


def words(facts: dict[str, Any]) -> str:
    """Return in words what a manifest states of its subjects.

    Args:
        facts: What the manifest states.
    """
    worst, most, column = facts["worst"], facts["most_per_subject"], facts["column"]
    kept = "" if most is None else f", at most {counted(most, 'picture')} of each ({facts['left_out']:,} left out)"
    pays = f", which pays ε = {upper(worst['epsilon'])} together" if "epsilon" in worst else ""
    pictures = counted(worst["pictures"], "picture")
    return (
        f"{facts['count']:,} by the column {column}{kept}; the worst has {pictures}{pays}. This is the sender's word. "
        f"Public: the column {column}, and how many pictures a subject has. Bystanders are not counted"
    )
