"""Filtering: what is good enough passes, as it is.

The requirement is that of the capsule's input (`Selector.quality`). **Quality**: each value keeps the quality that is stated
of it, `observedAt` included. So a guarantee that follows from the requirement is kept by every row; one that asks for more
sets aside what does not meet it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct

from hanse.pipeline.capsules.capsule import Made, derived

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class Filtering(Struct, frozen=True):
    """One entity for each that passes, with each value of it as that comes."""

    category: ClassVar[str] = "filtering"
    is_of_numbers: ClassVar[bool] = False

    def place(self) -> Column:
        from pyspark.sql import functions as f

        return f.col("entity")

    def rows(self, observations: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        one = f.struct("attribute", "value", "text", "unit", "quality")
        nothing = f.lit(None).cast("timestamp")
        return observations.where("attribute <> 'location'").select(
            "place",
            nothing.alias("start"),
            nothing.alias("end"),
            "observed_at",
            "lat",
            "lon",
            "scopes",
            f.array(one).alias("values"),
        )

    def made(self, row: dict[str, Any]) -> Iterator[Made]:
        return derived(row)
