"""The options of `format("hanse")`, read and checked; names in any case, as Spark has them.

Source: `SourceOptions.of(options)`; sink: `SinkOptions.of(options)`. What each means is said in `hanse.pipeline.source` and
`hanse.pipeline.sink`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from hanse.model import InvalidInput, geofence_from_geojson

RECORDS_PER_TRIGGER: Final = 800_000  # a batch costs a third of a second, whatever is in it
RECORDS_PER_PARTITION: Final = 50_000
STREAM_PATIENCE_S: Final = 600.0
READ_PATIENCE_S: Final = 60.0
ENTITIES_PER_REQUEST: Final = 500
IN_FLIGHT: Final = 2
TOKEN: Final = "HANSE_TOKEN"  # the environment variable of the driver that is taken if there is no token  # noqa: S105

_SPARKS: Final = frozenset({"path", "checkpointlocation", "queryname", "header"})  # set by Spark itself, or for other parts of it
_SOURCE: Final = (
    "nodes", "node", "types", "attributes", "scopes", "area", "qualityQ", "from", "until", "token", "tenant", "columns", "model",
    "context", "location", "past", "maxRecordsPerTrigger", "recordsPerPartition", "startingOffsets", "failOnDataLoss", "patience",
)  # fmt: skip
_SINK: Final = (
    "node", "nodes", "token", "tenant", "deadLetters", "entitiesPerRequest", "inFlight", "patience", "context", "update",
)  # fmt: skip


class NodeName(Struct, frozen=True):
    """A node by the name that records and offsets have of it, and its URL; the name is the URL unless it is given one."""

    name: str
    url: str


class SourceOptions(Struct, frozen=True):
    nodes: tuple[NodeName, ...]
    filters: dict[str, str]  # as the node's log takes them
    token: str = ""
    tenant: str = ""
    columns: str = ""
    model: str = ""
    context: str = ""
    location: bool = True
    past: bool = False
    records_per_trigger: int = RECORDS_PER_TRIGGER
    records_per_partition: int = RECORDS_PER_PARTITION
    starting: str = "earliest"
    fail_on_data_loss: bool = True
    patience_s: float | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SourceOptions:
        _check_names(options, _SOURCE)
        starting = options.get("startingOffsets", "earliest").lower()
        if starting not in ("earliest", "latest"):
            raise InvalidInput(f"startingOffsets is earliest or latest, not {starting!r}")
        return cls(
            nodes=_nodes(options),
            filters=_filters(options),
            token=options.get("token") or os.environ.get(TOKEN, ""),
            tenant=options.get("tenant", ""),
            columns=options.get("columns", ""),
            model=options.get("model", ""),
            context=options.get("context", ""),
            location=_flag(options, "location", default=True),
            past=_flag(options, "past", default=False),
            records_per_trigger=_number(options, "maxRecordsPerTrigger", RECORDS_PER_TRIGGER),
            records_per_partition=_number(options, "recordsPerPartition", RECORDS_PER_PARTITION),
            starting=starting,
            fail_on_data_loss=_flag(options, "failOnDataLoss", default=True),
            patience_s=_seconds(options, "patience"),
        )


class SinkOptions(Struct, frozen=True):
    node: str
    dead_letters: str
    token: str = ""
    tenant: str = ""
    entities_per_request: int = ENTITIES_PER_REQUEST
    in_flight: int = IN_FLIGHT
    patience_s: float = STREAM_PATIENCE_S
    context: str = ""
    update: bool = True

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SinkOptions:
        _check_names(options, _SINK)
        nodes = _nodes(options)
        if len(nodes) > 1:
            raise InvalidInput("a sink writes to one node; the federation tells the others")
        if not options.get("deadLetters"):
            raise InvalidInput("the sink needs the option deadLetters: a folder for entities that the node refuses")
        return cls(
            node=nodes[0].url,
            dead_letters=options["deadLetters"],
            token=options.get("token") or os.environ.get(TOKEN, ""),
            tenant=options.get("tenant", ""),
            entities_per_request=_number(options, "entitiesPerRequest", ENTITIES_PER_REQUEST),
            in_flight=_number(options, "inFlight", IN_FLIGHT),
            patience_s=_seconds(options, "patience") or STREAM_PATIENCE_S,
            context=options.get("context", ""),
            update=_flag(options, "update", default=True),
        )


def _check_names(options: Mapping[str, str], known: tuple[str, ...]) -> None:
    legal = {name.lower() for name in known} | _SPARKS
    for name in options:
        if name.lower() not in legal and not name.lower().startswith("__"):
            raise InvalidInput(f"there is no option {name!r}; there are {', '.join(known)}")


def _nodes(options: Mapping[str, str]) -> tuple[NodeName, ...]:
    text = options.get("nodes") or options.get("node") or ""
    found = []
    for part in filter(None, (one.strip() for one in text.split(","))):
        name, equals, url = part.partition("=")
        found.append(NodeName(name.strip(), url.strip()) if equals and "://" not in name else NodeName(part, part))
    if not found:
        raise InvalidInput("the option nodes is missing: the URLs of nodes, separated by commas, such as http://127.0.0.1:9090")
    if len({one.name for one in found}) < len(found):
        raise InvalidInput("the option nodes has a node twice")
    return tuple(found)


def _filters(options: Mapping[str, str]) -> dict[str, str]:
    filters: dict[str, str] = {}
    for option, parameter in (("types", "type"), ("attributes", "attrs"), ("scopes", "scopeQ"), ("qualityQ", "qualityQ")):
        if options.get(option):
            filters[parameter] = options[option]
    if options.get("area"):
        geofence_from_geojson(options["area"])  # so that it is refused here, not in a worker
        filters["area"] = options["area"]
    for option, parameter in (("from", "since"), ("until", "until")):
        if options.get(option):
            filters[parameter] = _time(option, options[option])
    return filters


def _time(name: str, text: str) -> str:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"{name} is a time such as 2026-01-31T12:00:00Z, not {text!r}") from None
    return text if "T" in text else f"{text}T00:00:00Z"


def _flag(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = options.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise InvalidInput(f"{name} is true or false, not {text!r}")
    return text == "true"


def _number(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name, str(default))
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise InvalidInput(f"{name} is a number greater than 0, not {text!r}")
    return int(text)


def _seconds(options: Mapping[str, str], name: str) -> float | None:
    text: Any = options.get(name)
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if seconds < 0:
        raise InvalidInput(f"{name} is a number of seconds, not {text!r}")
    return seconds
