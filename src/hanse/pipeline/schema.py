"""What a record of a node's log is in Spark: fixed columns, typed columns for attributes that are known, and the open rest.

| column | type | |
| --- | --- | --- |
| node | string | by the name that the options give it |
| offset | bigint | its position in the node's log: (node, offset) names a record |
| at | timestamp | when the node accepted the change |
| operation, kind | string | what was asked for (create, upsert, …); created, updated or deleted |
| id | string | the entity |
| type | string | the first of its types: what the lake is partitioned by |
| types, scopes | array<string> | |
| location | string | GeoJSON, as far as it was known at the time; null if the option `location` is false |
| lon, lat | double | of a location that is a point |
| observedAt | timestamp | the newest that its attributes state |
| attributes | string | JSON: what has changed, as NGSI-LD has it: `{"no2": {"type": "Property", "value": 41, …}}` |
| … | | the typed columns |

`attributes` is JSON text and not VARIANT, because VARIANT does not cross from Python into Spark by Arrow. `with_variant(frame)`
makes it one: `attributes:no2.value::double`, `attributes:no2.precision.value::double`. A deleted attribute is null in it; one
with several instances (datasetId) is an array.

Public names: `FIXED` (the fixed columns by name, with their DDL types), `ddl(columns)`, `Column`, `parse_columns`,
`columns_of_model`, `with_variant`, `Layout` (makes record batches of what the node sends).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from hanse.model import InvalidInput
from hanse.pipeline.past import PAST, past_columns

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from hanse.ngsild.contexts import Context

FIXED: Final = {
    "node": "string",
    "offset": "bigint",
    "at": "timestamp",
    "operation": "string",
    "kind": "string",
    "id": "string",
    "type": "string",
    "types": "array<string>",
    "scopes": "array<string>",
    "location": "string",
    "lon": "double",
    "lat": "double",
    "observedAt": "timestamp",
    "attributes": "string",
}
TYPES: Final = ("double", "bigint", "boolean", "string", "timestamp")
_SYNONYMS: Final = {
    "float": "double",
    "number": "double",
    "integer": "bigint",
    "int": "bigint",
    "long": "bigint",
    "text": "string",
}
_OF_JSON_SCHEMA: Final = {"number": "double", "integer": "bigint", "boolean": "boolean"}
_NOT_ATTRIBUTES: Final = frozenset({"id", "type", "@context", "scope", "location"})
_SET_BY_NODE: Final = ("createdAt", "modifiedAt")  # of an instance: the record says it
_LOCATIONS_KEPT: Final = 50_000  # texts whose position is remembered, per worker
_NAMES_KEPT: Final = 50_000  # URIs whose short names are remembered, per worker
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_VALUES: Final = ("value", "object", "json", "languageMap", "vocab", "valueList", "objectList", "vocabList", "jsonList")


class Column(Struct, frozen=True):
    """A typed column: the value of an attribute, null where there is none or it is something else."""

    name: str  # of the column and, by the @context, of the attribute
    type: str  # one of TYPES


def parse_columns(text: str) -> tuple[Column, ...]:
    """`no2 double, name string`. Raises InvalidInput."""
    columns = []
    for part in filter(None, (one.strip() for one in text.split(","))):
        words = part.replace(":", " ").split()
        kind = _SYNONYMS.get(words[-1].lower(), words[-1].lower())
        if len(words) != 2 or kind not in TYPES:
            raise InvalidInput(f"{part!r} is no typed column; write `name type` with one of {', '.join(TYPES)}")
        columns.append(Column(words[0], kind))
    return _checked(columns)


def columns_of_model(schema: Any) -> tuple[Column, ...]:
    """The attributes that a data model (a JSON Schema) defines; what is neither number, truth nor time is text or JSON."""
    found: dict[str, Column] = {}
    _collect(schema, found)
    return _checked(list(found.values()))


def _collect(schema: Any, found: dict[str, Column]) -> None:
    if not isinstance(schema, dict):
        return
    for part in schema.get("allOf", ()):
        _collect(part, found)
    for name, said in schema.get("properties", {}).items():
        if name not in _NOT_ATTRIBUTES and isinstance(said, dict):
            kind = _OF_JSON_SCHEMA.get(said.get("type", ""), "string")
            found[name] = Column(name, "timestamp" if said.get("format") == "date-time" else kind)


def _checked(columns: list[Column]) -> tuple[Column, ...]:
    seen = {name.lower() for name in FIXED}
    for column in columns:
        if column.name.lower() in seen:
            raise InvalidInput(f"there is a column {column.name!r} already; of an attribute of that name see `attributes`")
        seen.add(column.name.lower())
    return tuple(columns)


def ddl(columns: Sequence[Column] = (), *, past: bool = False) -> str:
    """The schema of the source, as Spark reads it; with `past`, what `hanse.pipeline.past` adds."""
    fixed = FIXED | PAST if past else FIXED
    return ", ".join((*(f"`{name}` {kind}" for name, kind in fixed.items()), *(f"`{one.name}` {one.type}" for one in columns)))


def with_variant(frame: DataFrame, column: str = "attributes") -> DataFrame:
    """The frame with its open part as VARIANT, for `attributes:no2.value::double`."""
    from pyspark.sql.functions import parse_json

    return frame.withColumn(column, parse_json(column))


# --- from what the node sends to what Spark takes -----------------------------------------------------------------------


class _Logged(Struct):
    name: str
    instance: dict[str, Any] | None = None
    dataset: str | None = None


_decode = msgspec.json.Decoder(list[_Logged]).decode
_encode = msgspec.json.Encoder().encode


class Layout:
    """Makes batches of the source's schema. `context`: what names are shortened by, as text; "" is the core context.

    `past_of`: a tenant, whose records are to have what `hanse.pipeline.past` adds.
    """

    def __init__(self, columns: tuple[Column, ...] = (), context: str = "", past_of: str | None = None) -> None:
        import pyarrow as pa

        self._columns = columns
        self._short = _ShortNames(context_of(context).compact_iri)
        self._positions: dict[str, tuple[float | None, float | None]] = {}
        kinds = {
            "string": pa.string(),
            "bigint": pa.int64(),
            "double": pa.float64(),
            "boolean": pa.bool_(),
            "timestamp": pa.timestamp("us", tz="UTC"),
            "array<string>": pa.list_(pa.string()),
        }
        self._typed = {one.name: _READERS[one.type] for one in columns}
        of_columns = [(one.name, kinds[one.type]) for one in columns]
        self._past_of = past_of
        fixed = FIXED if past_of is None else FIXED | PAST
        self.schema = pa.schema([*((name, kinds[kind]) for name, kind in fixed.items()), *of_columns])

    def batch(self, node: str, sent: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        types, first = self._types(sent.column("types"))
        location, lon, lat = self._locations(sent)
        typed: dict[str, list[Any]] = {one.name: [] for one in self._columns}
        attributes: list[bytes] = []
        observed: list[str | None] = []
        for text in sent.column("attributes").to_pylist():
            open_part, newest = self._plain(text)
            attributes.append(_encode(open_part))
            observed.append(newest)
            for name, read in self._typed.items():
                typed[name].append(read(_value(open_part.get(name))))
        made = [
            pa.repeat(pa.scalar(node, pa.string()), len(sent)),
            sent.column("offset"),
            sent.column("at"),
            sent.column("operation"),
            sent.column("kind"),
            sent.column("entity"),
            first,
            types,
            sent.column("scopes"),
            location,
            lon,
            lat,
            _times(observed),
            pa.array(attributes, pa.binary()).cast(pa.string()),
        ]
        if self._past_of is not None:
            made += past_columns(sent, self._past_of)
        made += (pa.array(typed[one.name], self.schema.field(one.name).type) for one in self._columns)
        return pa.RecordBatch.from_arrays(made, schema=self.schema)

    def _types(self, sent: pa.Array) -> tuple[pa.Array, pa.Array]:
        """With short names, and the first of each; there are few sets of types."""
        import pyarrow as pa
        import pyarrow.compute as pc

        joined = pc.binary_join(sent, "\n").dictionary_encode()
        sets = [[self._short[name] for name in text.split("\n")] if text else [] for text in joined.dictionary.to_pylist()]
        types = pa.array(sets, pa.list_(pa.string())).take(joined.indices)
        first = pa.array([min(one, default="") for one in sets], pa.string()).take(joined.indices)
        return types, first

    def _locations(self, sent: pa.RecordBatch) -> tuple[pa.Array, pa.Array, pa.Array]:
        import pyarrow as pa

        if "location" not in sent.schema.names:
            nothing = pa.nulls(len(sent), pa.float64())
            return pa.nulls(len(sent), pa.string()), nothing, nothing
        column = sent.column("location")
        encoded = column.dictionary_encode()
        if len(self._positions) > _LOCATIONS_KEPT:
            self._positions.clear()
        found = [self._position(text) for text in encoded.dictionary.to_pylist()]
        lon = pa.array([one[0] for one in found], pa.float64()).take(encoded.indices)
        lat = pa.array([one[1] for one in found], pa.float64()).take(encoded.indices)
        return column, lon, lat

    def _position(self, text: str) -> tuple[float | None, float | None]:
        if text not in self._positions:
            geometry = msgspec.json.decode(text)
            is_point = isinstance(geometry, dict) and geometry.get("type") == "Point"
            self._positions[text] = _lon_lat(geometry["coordinates"]) if is_point else (None, None)
        return self._positions[text]

    def _plain(self, text: str) -> tuple[dict[str, Any], str | None]:
        """The attributes of a record as NGSI-LD has them, and when the newest of them was observed."""
        attributes: dict[str, Any] = {}
        newest: str | None = None
        for one in _decode(text):
            name, instance = self._short[one.name], one.instance
            if instance is not None:
                self._simplify(instance)
                at = instance.get("observedAt")
                if at is not None:
                    newest = at if newest is None or newest == at else _newer(newest, at)
            if name in attributes:
                before = attributes[name]
                attributes[name] = [*before, instance] if isinstance(before, list) else [before, instance]
            else:
                attributes[name] = instance
        return attributes, newest

    def _simplify(self, instance: dict[str, Any]) -> None:
        """In place: names of sub-properties, which are URIs, become short, and what there is one of is no list."""
        for name in _SET_BY_NODE:
            instance.pop(name, None)
        for name in [name for name in instance if ":" in name]:
            many = instance[name]
            if isinstance(many, list):
                del instance[name]
                for one in many:
                    if isinstance(one, dict):
                        self._simplify(one)
                instance[self._short[name]] = many[0] if len(many) == 1 else many


class _ShortNames(dict[str, str]):
    """Short names by URI, remembered: there are few, and each is in very many records."""

    def __init__(self, compact: Callable[[str], str]) -> None:
        super().__init__()
        self._compact = compact

    def __missing__(self, uri: str) -> str:
        if len(self) >= _NAMES_KEPT:
            self.clear()
        short = self[uri] = self._compact(uri)
        return short


def _newer(one: str, other: str) -> str:
    return max(one, other, key=lambda text: micros(text) or 0)


def _times(texts: list[str | None]) -> pa.Array:
    """All at once, as they nearly always are written alike; one by one otherwise."""
    import pyarrow as pa

    kind = pa.timestamp("us", tz="UTC")
    try:
        return pa.array(texts, pa.string()).cast(kind)
    except pa.ArrowInvalid:
        return pa.array([micros(text) for text in texts], pa.int64()).cast(kind)


def _lon_lat(coordinates: list[float]) -> tuple[float, float]:
    return float(coordinates[0]), float(coordinates[1])


def _value(attribute: Any) -> Any:
    """Of the default instance, whatever kind of attribute it is."""
    if isinstance(attribute, list):
        attribute = next((one for one in attribute if isinstance(one, dict) and "datasetId" not in one), None)
    if not isinstance(attribute, dict):
        return None
    for member in _VALUES:
        if member in attribute:
            return attribute[member]
    return None


def _double(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _bigint(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        return None
    return int(value) if -(2**63) <= value < 2**63 else None


def _boolean(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) or value is None else _encode(value).decode()


def _timestamp(value: Any) -> int | None:
    """A text, or `{"@type": "DateTime", "@value": …}`."""
    if isinstance(value, dict):
        value = value.get("@value")
    return micros(value) if isinstance(value, str) else None


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "double": _double,
    "bigint": _bigint,
    "boolean": _boolean,
    "string": _string,
    "timestamp": _timestamp,
}


def micros(text: Any) -> int | None:
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    distance = moment - _EPOCH
    return (distance.days * 86_400 + distance.seconds) * 1_000_000 + distance.microseconds


@lru_cache(maxsize=16)
def context_of(text: str) -> Context:
    """The @context that an option names: JSON, or a file of it; "" is the core context. Raises InvalidInput."""
    from hanse.ngsild.contexts import CORE, compile_context
    from hanse.ngsild.errors import NgsiLdError

    if not text:
        return CORE
    try:
        source = text if text.lstrip()[:1] in ("{", "[") else Path(text).read_text(encoding="utf-8")
        return compile_context(msgspec.json.decode(source))
    except OSError as error:
        raise InvalidInput(f"the option context names a file that cannot be read: {text}: {error.strerror}") from error
    except (msgspec.DecodeError, NgsiLdError) as error:
        raise InvalidInput(f"the option context is no @context: {error}") from error
