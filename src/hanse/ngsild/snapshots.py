"""Snapshots (clauses 4.3.7, 5.2.41, 5.16): the results of queries, copied to a place of their own, where they stay as they were.

This is what a snapshot says of itself; `hanse.node.snapshots` keeps what is in it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from uuid import uuid4

import msgspec
from msgspec import Struct

from hanse.filters import compile_q
from hanse.model import InvalidInput
from hanse.ngsild.entity_maps import duration_s, expiry
from hanse.ngsild.errors import BadRequestData, NgsiLdError
from hanse.ngsild.subscription_members import header_pairs
from hanse.ngsild.uris import check_uri

if TYPE_CHECKING:
    from collections.abc import Callable

Status: TypeAlias = Literal["preparing", "success", "partial", "empty", "failure"]

TYPE: Final = "Snapshot"
NOTIFICATION: Final = "SnapshotNotification"
PRIORITY: Final = 5
PRIORITY_MAX: Final = 10
LIFETIME_S: Final = 86_400.0  # if the request says nothing
LIFETIME_S_MAX: Final = 30 * 86_400.0  # however long a request wants it
QUERIES_MAX: Final = 100

_CHANGEABLE: Final = frozenset({"snapshotPriority", "snapshotLifetime", "endpoint", "receiverInfo"})
_QUERIES: Final = frozenset({"snapshotQueries", "snapshotTemporalQueries"})
_READ_ONLY: Final = frozenset(
    {
        "snapshotStatus",
        "snapshotQueriesDetails",
        "snapshotTemporalQueriesDetails",
        "createdAt",
        "modifiedAt",
        "expiresAt",
        "lastUsedAt",
    }
)
_PURGED_BY: Final = frozenset({"id", "type", "snapshotPriority", "snapshotLifetime", "endpoint", *_READ_ONLY})


class Snapshot(Struct, kw_only=True, omit_defaults=True):
    id: str
    place: str  # of its store
    queries: list[dict[str, Any]] = []
    temporal_queries: list[dict[str, Any]] = []
    context: Any = None  # what the names in the queries are meant in
    source: str | None = None  # the place of the snapshot that it is a copy of
    priority: int = PRIORITY
    lifetime: str | None = None
    endpoint: str | None = None
    receiver_info: list[dict[str, str]] = []
    status: Status = "preparing"
    details: list[dict[str, Any]] = []
    temporal_details: list[dict[str, Any]] = []
    created_at: str
    modified_at: str
    expires_at: str
    last_used_at: str

    def is_over(self, now: str) -> bool:
        return self.expires_at <= now


def parse_snapshot(body: Any, context: Any, now: str) -> Snapshot:
    """A new snapshot, still to be filled; whether its queries make sense is for those to say who run them."""
    document = _members(body, _CHANGEABLE | _QUERIES)
    queries, temporal = (_queries(document, name) for name in ("snapshotQueries", "snapshotTemporalQueries"))
    if not queries and not temporal:
        raise BadRequestData("a snapshot needs snapshotQueries or snapshotTemporalQueries: what is to be in it")
    if any("temporalQ" in query for query in queries):
        raise BadRequestData("a query with a temporalQ belongs to snapshotTemporalQueries")
    if not all("temporalQ" in query for query in temporal):
        raise BadRequestData("each of snapshotTemporalQueries needs a temporalQ")
    return _new(document, now, queries=queries, temporal_queries=temporal, context=context)


def parse_clone(body: Any, original: Snapshot, now: str) -> Snapshot:
    """A copy of a snapshot, still to be made, with its own priority and lifetime."""
    return _new(
        _members(body, _CHANGEABLE),
        now,
        queries=original.queries,
        temporal_queries=original.temporal_queries,
        context=original.context,
        source=original.place,
    )


def _new(document: dict[str, Any], now: str, **fields: Any) -> Snapshot:
    id_ = check_uri(document["id"], "the id of a snapshot") if "id" in document else f"urn:ngsi-ld:{TYPE}:{uuid4()}"
    new = Snapshot(
        id=id_,
        place=uuid4().hex,
        created_at=now,
        modified_at=now,
        expires_at=expiry(now, LIFETIME_S, LIFETIME_S_MAX),
        last_used_at=now,
        **fields,
    )
    return _changed(new, document, now)


def patch_snapshot(snapshot: Snapshot, body: Any, now: str) -> Snapshot:
    document = _members(body, _CHANGEABLE, is_fragment=True)
    if document.get("id", snapshot.id) != snapshot.id:
        raise BadRequestData("the id of a snapshot cannot change; clone it instead")
    return _changed(msgspec.structs.replace(snapshot, modified_at=now), document, now)


def _members(body: Any, known: frozenset[str], *, is_fragment: bool = False) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise BadRequestData("a snapshot is a JSON object")
    if body.get("type", TYPE if is_fragment else None) != TYPE:
        raise BadRequestData(f"the type of a snapshot is {TYPE}")
    for name in body:
        if name in _QUERIES and name not in known:
            raise BadRequestData(f"{name} is said when a snapshot is made, and stays; make another snapshot")
        if name not in known and name not in _READ_ONLY and name not in ("id", "type", "@context"):
            raise BadRequestData(f"a snapshot has no member {name[:60]!r}")
    return {name: value for name, value in body.items() if name not in _READ_ONLY}


def _queries(document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    queries = document.get(name, [])
    if name in document and (not isinstance(queries, list) or not queries):
        raise BadRequestData(f"{name} is a list of at least one Query")
    if len(queries) > QUERIES_MAX:
        raise BadRequestData(f"{name} has {len(queries)} queries; {QUERIES_MAX} are allowed")
    for query in queries:
        if not isinstance(query, dict) or query.get("type") != "Query":
            raise BadRequestData(f'an element of {name} is an object with the type "Query"')
    return list(queries)


def _changed(snapshot: Snapshot, document: dict[str, Any], now: str) -> Snapshot:
    fields: dict[str, Any] = {}
    if "snapshotPriority" in document:
        priority = document["snapshotPriority"]
        if isinstance(priority, bool) or not isinstance(priority, int) or not 0 <= priority <= PRIORITY_MAX:
            raise BadRequestData(f"snapshotPriority is a whole number from 0 to {PRIORITY_MAX}")
        fields["priority"] = priority
    if "snapshotLifetime" in document:
        lifetime_s = duration_s(document["snapshotLifetime"], "snapshotLifetime")
        fields["lifetime"], fields["expires_at"] = document["snapshotLifetime"], expiry(now, lifetime_s, LIFETIME_S_MAX)
    if "endpoint" in document:
        endpoint = document["endpoint"]
        if endpoint is not None and not check_uri(endpoint, "the endpoint").startswith(
            ("http://", "https://", "mqtt://", "mqtts://")
        ):
            raise BadRequestData("the endpoint is a URI by http or mqtt")
        fields["endpoint"] = endpoint
    if "receiverInfo" in document:
        pairs = header_pairs(document["receiverInfo"], "receiverInfo")
        fields["receiver_info"] = [{"key": key, "value": text} for key, text in pairs]
    return msgspec.structs.replace(snapshot, **fields)


def represent_snapshot(snapshot: Snapshot) -> dict[str, Any]:
    may_be_empty = {
        "snapshotQueries": snapshot.queries,
        "snapshotTemporalQueries": snapshot.temporal_queries,
        "snapshotQueriesDetails": snapshot.details,
        "snapshotTemporalQueriesDetails": snapshot.temporal_details,
        "snapshotLifetime": snapshot.lifetime,
        "endpoint": snapshot.endpoint,
        "receiverInfo": snapshot.receiver_info,
    }
    return {
        "id": snapshot.id,
        "type": TYPE,
        "snapshotPriority": snapshot.priority,
        "snapshotStatus": snapshot.status,
        "createdAt": snapshot.created_at,
        "modifiedAt": snapshot.modified_at,
        "expiresAt": snapshot.expires_at,
        "lastUsedAt": snapshot.last_used_at,
        **{name: value for name, value in may_be_empty.items() if value},
    }


def snapshot_notification(snapshot: Snapshot, now: str) -> dict[str, Any]:
    """The message of clause 5.3.4."""
    told: dict[str, Any] = {
        "id": f"urn:ngsi-ld:{NOTIFICATION}:{uuid4()}",
        "type": NOTIFICATION,
        "notifiedAt": now,
        "snapshotId": snapshot.id,
        "snapshotStatus": snapshot.status,
        "snapshotPriority": snapshot.priority,
        "expiresAt": snapshot.expires_at,
    }
    if snapshot.details:
        told["snapshotQueriesDetails"] = snapshot.details
    if snapshot.temporal_details:
        told["temporalSnapshotQueriesDetails"] = snapshot.temporal_details
    return told


def result_details(found: int | NgsiLdError) -> dict[str, Any]:
    """How one query went (5.2.42): how much it found, or why it failed."""
    if isinstance(found, NgsiLdError):
        return {"resultStatus": "failure", "problemDetails": found.problem()}
    return {"resultStatus": "success" if found else "empty"}


def overall_status(details: list[dict[str, Any]]) -> Status:
    results = {detail["resultStatus"] for detail in details}
    if "success" in results:
        return "success" if results == {"success"} else "partial"
    return "empty" if results == {"empty"} else "failure"


@lru_cache(maxsize=64)
def purge_filter(q: str) -> Callable[[Snapshot], bool]:
    """The snapshots that a purge is for, by their own members only. Raises BadRequestData."""
    if not q.strip():
        raise BadRequestData("q is missing: say which snapshots are to go, for example q=snapshotPriority<5")
    try:
        compiled = compile_q(q)
    except InvalidInput as error:
        raise BadRequestData(f"q: {error}") from None
    for path in compiled.paths:
        if path.names[0] not in _PURGED_BY:
            raise BadRequestData(f"q asks for {path.names[0][:60]!r}; a snapshot has {', '.join(sorted(_PURGED_BY))}")
    return lambda snapshot: bool(compiled.matches(represent_snapshot(snapshot)))
