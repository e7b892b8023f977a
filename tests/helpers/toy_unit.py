"""A unit that dipp does not have: bands of whole rows."""

from __future__ import annotations

from dataclasses import dataclass

from dipp.core.geometry import Geometry
from dipp.core.unit import Integers, Unit, within


@dataclass(frozen=True)
class Band(Unit):
    """A number of neighbouring rows, from the top; the last band may have fewer."""

    rows: int = 4
    kind, number = "band", 200

    @property
    def words(self) -> str:
        return f"one band of {self.rows} rows of the array that was encoded"

    def several(self, count: int) -> str:
        return f"any {count} bands of {self.rows} rows of the array that was encoded"

    @property
    def neighbours(self) -> str:
        return f"{self.rows} neighbouring rows of one image, in any way"

    def count(self, geometry: Geometry) -> int:
        return -(-geometry.height // self.rows)

    def of(self, coordinates: Integers, geometry: Geometry) -> Integers:
        return coordinates // (self.rows * geometry.width * geometry.channels)

    def met(self, width: int, height: int, geometry: Geometry | None = None) -> int:
        _, height = within(width, height, geometry)
        most = -(-(height - 1) // self.rows) + 1
        return most if geometry is None else min(most, self.count(geometry))

    def _parameters_to_bytes(self) -> bytes:
        return bytes([self.rows])

    @classmethod
    def _from_parameters(cls, content: bytes) -> Band:
        (rows,) = content
        return cls(rows)
