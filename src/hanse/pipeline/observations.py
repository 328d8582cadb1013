"""Observations: the one long form in which collectors, quality and capsules hand data to each other; one row, one observed value.

| column | type | |
| --- | --- | --- |
| source | string | the node, by its name, or the collector |
| entity, type | string | the entity, and the first of its types |
| attribute | string | by its short name |
| value | double | a number; null if it is none |
| text | string | a text, as it is, or JSON of what is neither number nor text (GeoJSON of a place, `true`); null for a number |
| unit | string | a UN/CEFACT code, as NGSI-LD's unitCode |
| observed_at | timestamp | when it was observed; where nobody says, when it was accepted |
| accepted_at | timestamp | when the node, or the collector, took it |
| lat, lon | double | where the entity is, if that is a point |
| scopes | array<string> | |
| quality | map<string,double> | what is stated of it, by criterion; `hanse.pipeline.quality` adds what is computed |
| key | string | unique and the same whenever it is made again: node/offset/attribute/datasetId, or file/line/attribute |
| dated | boolean | whether somebody said when it was observed; an age is computed only then |

- `observations(records)`: of records of the source; `of_record` is what it does with one of them;
- `entities(observations)`: what the sink takes. A batch frame gives one row for all that is observed of an entity at one time. On
  a stream each observation is a row of its own: rows that are put together as they happen to come would not be the same when
  Spark computes a batch again, and the sink could not tell that it has them. Freshness is not published as a number, which
  would stay while the value gets old: `observedAt` says it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from hanse.filters import number_value
from hanse.ngsild.quality import IN_FULL, stated_number
from hanse.pipeline.schema import context_of, micros
from hanse.quality import default_registry
from hanse.quality.criteria import DEFAULT_VOCABULARY
from hanse.quality.json_form import INDICATOR

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from hanse.quality import Criterion, Registry

COLUMNS: Final = {
    "source": "string",
    "entity": "string",
    "type": "string",
    "attribute": "string",
    "value": "double",
    "text": "string",
    "unit": "string",
    "observed_at": "timestamp",
    "accepted_at": "timestamp",
    "lat": "double",
    "lon": "double",
    "scopes": "array<string>",
    "quality": "map<string,double>",
    "key": "string",
    "dated": "boolean",
}
SCHEMA: Final = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
LOCATION: Final = "location"
FRESHNESS: Final = "freshness"
_NEEDED: Final = ("node", "offset", "at", "id", "type", "scopes", "lon", "lat", "attributes")
_VALUES: Final = ("value", "object", "json", "languageMap", "vocab", "valueList", "objectList", "vocabList", "jsonList")
_decode = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode


class Observed(NamedTuple):
    """What one instance of an attribute says."""

    attribute: str
    value: float | None
    text: str | None
    unit: str | None
    observed_us: int | None
    quality: dict[str, float]
    dataset: str


def criterion_names(registry: Registry, compact: Callable[[str], str] = str) -> dict[str, str]:
    """Names of sub-properties, as a context shortens them, to the criterion that each one states."""
    names = {name: name for name in registry.by_name}
    for name, criterion in registry.by_name.items():
        for uri in (DEFAULT_VOCABULARY + name, *criterion.uris):
            names |= {uri: name, compact(uri): name}
    return names


def observations(records: DataFrame, registry: Registry | None = None, context: str = "") -> DataFrame:
    """The observations in records of the source; `context` is that of the source's option of this name."""
    registry = registry or default_registry()
    known = criterion_names(registry, context_of(context).compact_iri)
    return records.select(*_NEEDED).mapInArrow(partial(_batches, registry=registry, known=known), SCHEMA)


# --- in the workers -----------------------------------------------------------------------------------------------------


def arrow_schema() -> pa.Schema:
    """The columns, as Arrow has them."""
    import pyarrow as pa

    kinds = {
        "string": pa.string(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "array<string>": pa.list_(pa.string()),
        "map<string,double>": pa.map_(pa.string(), pa.float64()),
    }
    return pa.schema([(name, kinds[kind]) for name, kind in COLUMNS.items()])


def _batches(batches: Iterator[pa.RecordBatch], registry: Registry, known: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield _batch(batch, registry, known)


def _batch(records: pa.RecordBatch, registry: Registry, known: Mapping[str, str]) -> pa.RecordBatch:
    """Columns of the record are taken as often as it has values, so that Python sees each value once only."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows: list[int] = []
    every: list[Observed] = []
    for row, text in enumerate(records.column("attributes").to_pylist()):
        for one in of_record(text, registry, known):
            rows.append(row)
            every.append(one)
    taken = records.take(pa.array(rows, pa.int64()))
    schema = arrow_schema()
    accepted = taken.column("at").cast(schema.field("accepted_at").type)
    observed = pa.array([one.observed_us for one in every], pa.int64()).cast(schema.field("observed_at").type)
    offsets = taken.column("offset").cast(pa.string())
    names = pa.array([f"{one.attribute}/{one.dataset}" for one in every], pa.string())
    made = {
        "source": taken.column("node"),
        "entity": taken.column("id"),
        "type": taken.column("type"),
        "attribute": pa.array([one.attribute for one in every], pa.string()),
        "value": pa.array([one.value for one in every], pa.float64()),
        "text": pa.array([one.text for one in every], pa.string()),
        "unit": pa.array([one.unit for one in every], pa.string()),
        "observed_at": pc.coalesce(observed, accepted),
        "accepted_at": accepted,
        "lat": taken.column("lat"),
        "lon": taken.column("lon"),
        "scopes": taken.column("scopes"),
        "quality": pa.array([list(one.quality.items()) for one in every], schema.field("quality").type),
        "key": pc.binary_join_element_wise(taken.column("node"), offsets, names, "/"),
        "dated": pa.array([one.observed_us is not None for one in every], pa.bool_()),
    }
    return pa.RecordBatch.from_arrays([made[name].cast(schema.field(name).type) for name in COLUMNS], schema=schema)


def of_record(attributes: str | None, registry: Registry, known: Mapping[str, str]) -> Iterator[Observed]:
    """What the attributes of a record, as JSON text, say; one that was deleted says nothing."""
    for name, said in _decode(attributes or "{}").items():
        for instance in said if isinstance(said, list) else (said,):
            if isinstance(instance, dict):
                yield _observed(name, instance, registry, known)


def _observed(name: str, instance: dict[str, Any], registry: Registry, known: Mapping[str, str]) -> Observed:
    found = next((instance[member] for member in _VALUES if member in instance), None)
    number = number_value(found)
    text = None if number is not None or found is None else found if isinstance(found, str) else _encode(found).decode()
    unit, dataset = (said if isinstance(said := instance.get(member), str) else None for member in ("unitCode", "datasetId"))
    quality: dict[str, float] = {}
    for member in known.keys() & instance.keys():
        _state(quality, registry.by_name[known[member]], instance[member])
    return Observed(name, number, text, unit, micros(instance.get("observedAt")), quality, dataset or "")


def _state(quality: dict[str, float], criterion: Criterion, said: Any) -> None:
    """What the node says of it, in the criterion's own unit; of several the worst counts."""
    for instance in said if isinstance(said, list) else (said,):
        if not isinstance(instance, dict):
            continue
        number = stated_number(instance, criterion, IN_FULL if IN_FULL in instance else INDICATOR)
        if number is not None:
            quality[criterion.name] = criterion.definition.worse(quality.get(criterion.name, number), number)


# --- back to entities ---------------------------------------------------------------------------------------------------


def entities(frame: DataFrame) -> DataFrame:
    """What the sink takes: `id`, `type`, `scopes`, `lon`, `lat`, `location`, `observedAt`, `attributes`."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    is_place = f.col("attribute") == LOCATION
    rows = frame.select(
        f.col("entity").alias("id"),
        "type",
        f.col("observed_at").alias("observedAt"),
        "scopes",
        "lon",
        "lat",
        f.when(is_place, f.col("text")).alias(LOCATION),
        f.when(~is_place, f.concat(_json_text(f.col("attribute")), f.lit(":"), _attribute())).alias("member"),
        "key",
        "attribute",
    )
    if frame.isStreaming:
        members = f.concat(f.lit("{"), f.coalesce("member", f.lit("")), f.lit("}"))
        return rows.select("id", "type", "scopes", "lon", "lat", LOCATION, "observedAt", members.alias("attributes"))
    # several values of one attribute at one time (datasetIds, sources) are documents of their own, in the order of their keys
    turn = f.row_number().over(Window.partitionBy("id", "type", "observedAt", "attribute").orderBy("key"))
    groups = rows.withColumn("turn", turn).groupBy("id", "type", "observedAt", "turn")
    members = f.array_join(f.array_sort(f.collect_list("member")), ",")
    return groups.agg(
        *(f.max_by(name, "key").alias(name) for name in ("scopes", "lon", "lat")),
        f.max(LOCATION).alias(LOCATION),
        f.concat(f.lit("{"), members, f.lit("}")).alias("attributes"),
    ).select("id", "type", "scopes", "lon", "lat", LOCATION, "observedAt", "attributes")


def _json_text(column: Column) -> Column:
    """A text as JSON has it, in quotes."""
    from pyspark.sql import functions as f

    return f.regexp_extract(f.to_json(f.struct(column.alias("a"))), r"^\{\"a\":(.*)\}$", 1)


def _attribute() -> Column:
    """The attribute as a Property with its unit, and its quality as sub-properties; null if it has no value."""
    from pyspark.sql import functions as f

    number = f.when(~f.isnan("value") & (f.abs("value") < f.lit(float("inf"))), f.col("value"))
    value = f.coalesce(
        f.when(number.isNotNull(), f.to_json(f.struct(number.alias("value")))),
        f.when(f.col("text").isNotNull(), f.to_json(f.struct(f.col("text").alias("value")))),
    )
    unit = f.to_json(f.struct(f.lit("Property").alias("type"), f.col("unit").alias("unitCode")))
    stated = f.map_filter("quality", lambda name, one: (name != FRESHNESS) & one.isNotNull())
    quality = f.to_json(f.transform_values(stated, lambda _, one: f.struct(f.lit("Property").alias("type"), one.alias("value"))))
    members = [_members(unit), _members(value), f.nullif(_members(f.coalesce(quality, f.lit("{}"))), f.lit(""))]
    return f.when(value.isNotNull(), f.concat(f.lit("{"), f.concat_ws(",", *members), f.lit("}")))


def _members(text: Column) -> Column:
    """What is between the braces of a JSON object."""
    from pyspark.sql import functions as f

    return text.substr(f.lit(2), f.length(text) - 2)
