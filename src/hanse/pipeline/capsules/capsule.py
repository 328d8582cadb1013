"""A capsule: what it takes, what it does with it, what it makes, and how good that is at least.

    Capsule(
        name="no2-by-street",
        input=Selector(types=("AirQualityObserved",), attributes=("no2",), quality="accuracy>=medium"),
        transform=Aggregation(Place.of("scope"), Windows.of("10 minutes", late="1 minute"), expected=10),
        output="StreetAir",
        guarantee="completeness>=50",
    )

`published(capsule, observations)` is the frame that the sink takes, of a stream or of a batch: `id`, `type`, `at`,
`observed_at`, `place`, `entity` (JSON), `quality`, and `problem`: why a row is not to be published. What is below the
guarantee has one: the sink keeps it among its dead letters, and `made` and `below` are counted (`counts`). What does not count
at all, because it is late, for instance, is kept by `hanse.pipeline.capsules.screening`, if that is told where (`aside`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache, reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeAlias

from msgspec import Struct

from hanse.model import Geofence, InvalidInput, geofence_from_geojson
from hanse.pipeline.capsules.screening import AGAIN, AHEAD, LATE, UNPLACED, WRONG_TYPE, Aside, WindowLetters, screened
from hanse.pipeline.capsules.values import Inferred, Span, Value, publication
from hanse.quality import default_registry
from hanse.quality.requirements import normalized

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

PUBLISHED: Final = (
    "id string, type string, at timestamp, observed_at timestamp, place string, entity string, problem string, "
    "quality map<string,double>"
)
DERIVED: Final = ("place", "start", "end", "observed_at", "lat", "lon", "scopes", "values")
COUNTS: Final = "capsule"  # the name of what `observe` counts, before the transformation and, with _OUT, after it
COUNTS_AGAIN: Final = "capsule_again"
COUNTS_OUT: Final = "capsule_out"
KINDS: Final = {"unplaced": UNPLACED, "ahead": AHEAD, "late": LATE, "wrong": WRONG_TYPE}  # by the names of what is counted
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,62}")

Made: TypeAlias = "tuple[str, Span | None, Inferred, Sequence[str] | None]"  # place, window, what is made of it, scopes


class Selector(Struct, frozen=True):
    """What a capsule reads; whatever is empty asks for nothing. A scope means itself and all beneath it.

    `quality` is what `hanse.pipeline.quality.meets` takes, on observations that have gone through its `with_quality`.
    """

    types: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    area: str = ""  # GeoJSON
    scopes: tuple[str, ...] = ()
    quality: str = ""  # a requirement, as `qualityQ` has it

    def __post_init__(self) -> None:
        if self.area:
            geofence_from_geojson(self.area)
        normalized(self.quality, default_registry())

    def source_options(self) -> dict[str, str]:
        """What the nodes can leave out already; `select` decides all of it again."""
        options = {"types": ",".join(self.types), "attributes": ",".join(self.attributes), "area": self.area}
        return {name: text for name, text in options.items() if text}

    def select(self, observations: DataFrame) -> DataFrame:
        return observations.where(reduce(and_, conditions)) if (conditions := list(self._conditions())) else observations

    def _conditions(self) -> Iterator[Column]:
        from pyspark.sql import functions as f

        if self.types:
            yield f.col("type").isin(*self.types)
        if self.attributes:
            yield f.col("attribute").isin(*self.attributes)
        if self.scopes:
            yield f.coalesce(f.exists("scopes", self._is_beneath), f.lit(False))
        if self.area:
            yield _inside(self.area)
        if self.quality:
            from hanse.pipeline.quality import meets

            yield meets(self.quality)

    def _is_beneath(self, scope: Column) -> Column:
        return reduce(or_, ((scope == one) | scope.startswith(one.rstrip("/") + "/") for one in self.scopes))


def _inside(area: str) -> Column:
    """By the node's own function, in a worker."""
    from pyspark.sql import functions as f

    inside = f.udf(lambda lat, lon: lat is not None and lon is not None and _fence(area).contains(lat, lon), "boolean")
    return inside("lat", "lon")


@lru_cache(maxsize=16)
def _fence(area: str) -> Geofence:
    return geofence_from_geojson(area)


class Transform(Protocol):
    """Rows with `place` in, and whatever `made` understands out. Each is a frozen struct, and goes to the workers as such."""

    category: ClassVar[str]
    is_of_numbers: ClassVar[bool]  # whether attributes that the capsule names must be numbers

    def rows(self, observations: DataFrame) -> DataFrame:
        """On a frame of observations, of a stream or of a batch."""

    def place(self) -> Column:
        """The name of the place that an observation belongs to; null if it has none, and is counted as such."""

    def made(self, row: dict[str, Any]) -> Iterator[Made]:
        """What one of these rows says; in a worker."""


class Capsule(Struct, frozen=True):
    name: str
    input: Selector
    transform: Transform
    output: str  # the type of what it makes
    guarantee: str = ""  # what all that it publishes keeps
    is_newest_only: bool = False  # one entity for each place, which changes; else one for each place and window
    description: str = ""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InvalidInput(f"a capsule's name has small letters, digits and -, like no2-by-street; {self.name!r} is none")
        if not self.output:
            raise InvalidInput(f"the capsule {self.name} needs an output: the type of the entities that it makes")
        try:
            normalized(self.guarantee, default_registry())
        except InvalidInput as error:
            raise error.at(f"guarantee of {self.name}") from None

    @property
    def promise(self) -> str:
        """The guarantee in numbers only."""
        return normalized(self.guarantee, default_registry())


def published(capsule: Capsule, observations: DataFrame, aside: Aside | None = None) -> DataFrame:
    """What a capsule makes of observations, for the sink; `aside`: where a stream keeps what does not count."""
    from pyspark.sql import functions as f

    transform = capsule.transform
    selected = capsule.input.select(observations).withColumn("place", transform.place())
    numbers = capsule.input.attributes if transform.is_of_numbers else ()
    screen = screened(selected, numbers, aside, is_windowed=hasattr(transform, "windows"))
    counted = screen.observe(
        COUNTS,
        f.count(f.lit(1)).alias("selected"),
        *(f.count_if(f.col("kind") == kind).alias(name) for name, kind in KINDS.items()),
    )
    rows = transform.rows(counted.where("kind is null").drop("kind"))
    if AGAIN in rows.columns:
        rows = rows.observe(COUNTS_AGAIN, f.sum(f.size(AGAIN)).alias("duplicates"))
    made = rows.mapInArrow(_Publishing(capsule, aside if rows.isStreaming else None), PUBLISHED)
    return made.observe(COUNTS_OUT, f.count(f.lit(1)).alias("made"), f.count("problem").alias("below"))


class _Publishing:
    """In the workers."""

    def __init__(self, capsule: Capsule, aside: Aside | None) -> None:
        self._capsule = capsule
        self._promise = capsule.promise
        self._aside = aside

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        letters = WindowLetters(self._aside)
        for batch in batches:
            yield self._batch(batch.to_pylist(maps_as_pydicts="lossy"), letters)
        letters.keep()

    def _batch(self, rows: list[dict[str, Any]], letters: WindowLetters) -> pa.RecordBatch:
        import pyarrow as pa

        capsule, found = self._capsule, []
        for row in rows:
            letters.add_duplicates(row)
            for place, span, made, scopes in self._made(row, letters):
                one = publication(capsule.name, capsule.output, self._promise, place, span, made, scopes, capsule.is_newest_only)
                at = made.observed_at if span is None else span.end
                found.append(
                    (one.id, capsule.output, _moment(at), _moment(one.observed_at), place, *one[2:4], list(one.quality.items()))
                )
        kinds = (
            pa.string(), pa.string(), _TIME(), _TIME(), pa.string(), pa.string(), pa.string(), pa.map_(pa.string(), pa.float64())
        )  # fmt: skip
        columns = list(zip(*found, strict=True)) or [()] * len(kinds)
        names = [part.split()[0] for part in PUBLISHED.split(", ")]
        return pa.RecordBatch.from_arrays(
            [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)], names=names
        )

    def _made(self, row: dict[str, Any], letters: WindowLetters) -> list[Made]:
        """What fails on one window would fail whenever it is tried again: where there is a place for it, it goes there."""
        try:
            return list(self._capsule.transform.made(row))
        except Exception as error:
            if self._aside is None:
                raise
            letters.add_failed(row, error)
            return []


def _TIME() -> pa.DataType:  # noqa: N802
    import pyarrow as pa

    return pa.timestamp("us", tz="UTC")


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def derived(row: dict[str, Any]) -> Iterator[Made]:
    """Of a row with the columns `DERIVED`: what transformations that Spark does by itself leave to be said."""
    values = tuple(
        Value(
            one["attribute"], one["value"] if one["value"] is not None else one["text"], one["unit"] or "", one["quality"] or {}
        )
        for one in row["values"]
        if one["value"] is not None or one["text"] is not None
    )
    if values:
        span = None if row["start"] is None else Span(row["start"].timestamp(), row["end"].timestamp())
        yield row["place"], span, Inferred(values, row["observed_at"].timestamp(), row["lat"], row["lon"]), row["scopes"]
