"""From the rows of a frame to NGSI-LD entities.

Columns:
- `entity`: the whole document as JSON text; then nothing else counts but `problem`: why the row is not to be sent, but kept
  among the dead letters; null if it is. Or:
- `id`, and `type` or `types` (text or array): required. `scopes` or `scope`; `location`: GeoJSON text, or of `lon` and `lat`;
- `observedAt`: a timestamp that every attribute gets which has none of its own;
- `attributes`: JSON text of attributes as NGSI-LD has them;
- `node`, `offset`, `at`, `operation`, `kind`: of the source, and left out;
- every other column is an attribute: a plain value is a Property; a struct with a field `value` (or `object`) is one with
  members: `unitCode`, `observedAt`, `datasetId`; its other fields are sub-properties, such as `precision`. Nulls are left out.

So what the source gives, the sink takes. `documents(batch) -> list[Document]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from hanse.model import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa

OF_SOURCE: Final = frozenset({"node", "offset", "at", "operation", "kind"})
_SPECIAL: Final = frozenset({"id", "type", "types", "scope", "scopes", "location", "lon", "lat", "observedAt", "attributes"})
_MEMBERS: Final = frozenset({"unitCode", "datasetId", "objectType", "valueType", "ngsildproof"})  # of an attribute, as they are
_encode = msgspec.json.Encoder().encode


class Document(NamedTuple):
    """An entity, in an order that is the same whenever it is made again: by id, then by time, then by what it says."""

    id: str
    observed_at: str
    body: bytes
    problem: str = ""  # why it is none


def check_columns(names: list[str]) -> None:
    """Raises InvalidInput if rows with these columns cannot be entities."""
    if "entity" in names:
        return
    if "id" not in names or not {"type", "types"} & set(names):
        raise InvalidInput(
            "the sink needs a column `entity` (NGSI-LD as JSON text), or `id` and `type` and a column for each attribute; "
            f"the frame has {', '.join(names)}"
        )


def documents(batch: pa.RecordBatch) -> Iterator[Document]:
    if "entity" in batch.schema.names:
        texts = batch.column("entity").to_pylist()
        problems = batch.column("problem").to_pylist() if "problem" in batch.schema.names else repeat(None)
        for text, problem in zip(texts, problems, strict=False):
            document = _whole(text)
            yield document._replace(problem=problem) if problem else document
        return
    for row in batch.to_pylist():
        yield _made(row)


def _whole(text: str | None) -> Document:
    try:
        entity = msgspec.json.decode(text or "")
    except msgspec.DecodeError as error:
        return Document("", "", (text or "").encode(), f"it is not JSON: {error}")
    if not isinstance(entity, dict) or not isinstance(entity.get("id"), str):
        return Document("", "", (text or "").encode(), "it is no JSON object with an id")
    return Document(entity["id"], _newest(entity), (text or "").encode())


def _newest(entity: dict[str, Any]) -> str:
    return max((str(one.get("observedAt", "")) for one in entity.values() if isinstance(one, dict)), default="")


def _made(row: dict[str, Any]) -> Document:
    id_ = row.get("id")
    at = _time(row["observedAt"]) if row.get("observedAt") is not None else ""
    entity: dict[str, Any] = {"id": id_, "type": row.get("types") or row.get("type")}
    if row.get("scopes") or row.get("scope"):
        entity["scope"] = row.get("scopes") or row.get("scope")
    try:
        place = _place(row)
        if place is not None:
            entity["location"] = {"type": "GeoProperty", "value": place}
        if row.get("attributes"):
            entity |= msgspec.json.decode(row["attributes"], type=dict[str, Any])
    except msgspec.DecodeError as error:
        return Document(id_ or "", at, _encode(entity), f"location or attributes are not JSON: {error}")
    for name, value in row.items():
        if value is not None and name not in _SPECIAL and name not in OF_SOURCE:
            entity[name] = _attribute(value)
    if at:
        for name, attribute in entity.items():
            if isinstance(attribute, dict) and name != "location":
                attribute.setdefault("observedAt", at)
    if not isinstance(id_, str) or not id_:
        return Document("", at, _encode(entity), "it has no id")
    return Document(id_, at, _encode(entity))


def _place(row: dict[str, Any]) -> Any:
    if row.get("location"):
        return msgspec.json.decode(row["location"])
    if row.get("lon") is not None and row.get("lat") is not None:
        return {"type": "Point", "coordinates": [row["lon"], row["lat"]]}
    return None


def _attribute(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not ({"value", "object"} & value.keys()):
        return {"type": "Property", "value": _plain(value)}
    is_relationship = value.get("object") is not None
    member = "object" if is_relationship else "value"
    attribute: dict[str, Any] = {"type": "Relationship" if is_relationship else "Property", member: _plain(value[member])}
    for name, said in value.items():
        if said is None or name in ("value", "object"):
            continue
        if name == "observedAt":
            attribute[name] = said if isinstance(said, str) else _time(said)
        elif name in _MEMBERS:
            attribute[name] = said
        else:
            attribute[name] = _attribute(said)
    return attribute


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, datetime):
        return {"@type": "DateTime", "@value": _time(value)}
    if isinstance(value, date):
        return {"@type": "Date", "@value": value.isoformat()}
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value


def _time(value: datetime) -> str:
    moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
