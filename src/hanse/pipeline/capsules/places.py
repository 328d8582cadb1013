"""What a capsule puts together: `Place` says where, `Windows` say when.

`Place.of("entity" | "scope" | "everywhere" | "cell 500")`: each entity for itself; all that has the same (first) scope, such
as a street; everything; squares of so many metres.

Cells: rows of latitude as high as the cell is wide; in each row, columns as wide as the cell is at the middle of the row. So
all cells have nearly the same area, and a cell's name is its row and column.
"""

from __future__ import annotations

import re
from math import cos, floor, pi, radians
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct

from hanse.model import InvalidInput

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

METRES_PER_DEGREE: Final = 6_371_000 * pi / 180
SECONDS_MAX: Final = 366 * 86_400
_UNITS: Final = {"s": 1, "second": 1, "min": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86_400, "day": 86_400}
_DURATION: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*?)s?\s*")


def seconds(text: str | float, what: str = "a time") -> float:
    """`"10 minutes"`, `"30 s"`, or a number of seconds. Raises InvalidInput."""
    found = _DURATION.fullmatch(str(text))
    number = float(found[1]) * _UNITS.get(found[2] or "s", 0) if found else 0.0
    if not 0 < number <= SECONDS_MAX:
        raise InvalidInput(f"{what} is written like 30 seconds, 10 minutes, 1 hour or 1 day, not {text!r}")
    return number


class Windows(Struct, frozen=True):
    """How long, every how often, and how late something may come and still count."""

    seconds: float
    every_s: float
    late_s: float

    @classmethod
    def of(cls, length: str | float, every: str | float | None = None, late: str | float = 60) -> Windows:
        length_s, every_s = seconds(length, "a window"), seconds(every if every is not None else length, "every")
        if every_s > length_s:
            raise InvalidInput(f"windows of {length} every {every} leave out what is between them; let `every` be shorter")
        return cls(length_s, every_s, seconds(late, "late"))

    def column(self) -> Column:
        from pyspark.sql import functions as f

        return f.window("observed_at", f"{self.seconds * 1e6:.0f} microseconds", f"{self.every_s * 1e6:.0f} microseconds")

    def marked(self, frame: DataFrame) -> DataFrame:
        """With a watermark: how far behind the newest observation one is still waited for."""
        return frame.withWatermark("observed_at", f"{self.late_s * 1e6:.0f} microseconds")


class Place(Struct, frozen=True):
    by: Literal["entity", "scope", "everywhere", "cell"]
    metres: float = 0.0

    @classmethod
    def of(cls, text: str) -> Place:
        words = text.split()
        if words in (["entity"], ["scope"], ["everywhere"]):
            return cls(words[0])  # type: ignore[arg-type]
        if len(words) == 2 and words[0] == "cell" and words[1].isdigit() and int(words[1]) > 0:
            return cls("cell", float(words[1]))
        raise InvalidInput(f"a place is entity, scope, everywhere, or a cell of so many metres like `cell 500`, not {text!r}")

    def column(self) -> Column:
        """The place's name; null for what has none."""
        from pyspark.sql import functions as f

        if self.by == "entity":
            return f.col("entity")
        if self.by == "scope":
            return f.get("scopes", f.lit(0))
        if self.by == "everywhere":
            return f.lit("everywhere")
        height = self.metres / METRES_PER_DEGREE
        row = f.floor(f.col("lat") / height)
        width = height / f.cos(f.radians((row + 0.5) * height))
        name = f.concat(row.cast("string"), f.lit("_"), f.floor(f.col("lon") / width).cast("string"))
        return f.when(f.col("lat").between(-89.9, 89.9) & f.col("lon").isNotNull(), name)


def cell(lat: float, lon: float, metres: float) -> str:
    """The cell that a position is in: the meaning of `Place("cell", metres)`."""
    height = metres / METRES_PER_DEGREE
    row = floor(lat / height)
    return f"{row}_{floor(lon / (height / cos(radians((row + 0.5) * height))))}"


def middle(name: str, metres: float) -> tuple[float, float]:
    """The latitude and the longitude of the middle of a cell."""
    height = metres / METRES_PER_DEGREE
    row, column = map(int, name.split("_"))
    lat = (row + 0.5) * height
    return lat, (column + 0.5) * height / cos(radians(lat))
