"""A node as an application sees it: entities, their history, and what changes.

    async with hanse.connect("http://127.0.0.1:9090") as node:
        await node.create({"id": "urn:ngsi-ld:Room:1", "type": "Room", "temperature": 21})
        async for room in node.query(type="Room", q="temperature>20"):
            ...
        async for notification in node.subscribe(type="Room"):
            ...

Entities are NGSI-LD's own JSON. A method raises NgsiLdClientError if the node refuses.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias

from msgspec import Struct

from hanse.client.session import NGSI_LD, Reply, Session, segment
from hanse.client.stream import Notifications

Json: TypeAlias = dict[str, Any]
Format: TypeAlias = Literal["normalized", "concise", "simplified"]
Names: TypeAlias = str | Iterable[str]

ENTITIES = NGSI_LD + "/entities"
OPERATIONS = NGSI_LD + "/entityOperations"
TEMPORAL = NGSI_LD + "/temporal/entities"
SUBSCRIPTIONS = NGSI_LD + "/subscriptions"
CONTRACTS = "/hanse/v1/contracts"


class BatchResult(Struct, frozen=True):
    """What a batch did: the ids that it went well for, and a ProblemDetails for each of the others."""

    success: list[str]
    errors: list[Json]


class Outcome(Struct, frozen=True):
    """Which attributes an update changed; `not_updated` says why for each of the others."""

    updated: list[str]
    not_updated: list[Json]


class NodeClient:
    def __init__(self, url: str, *, tenant: str = "", context: str = "", timeout_s: float = 30.0, token: str = "") -> None:
        self._session = Session(url, tenant=tenant, context=context, timeout_s=timeout_s, token=token)
        self._streams: set[Notifications] = set()

    @property
    def url(self) -> str:
        return self._session.base

    async def __aenter__(self) -> Self:
        await self._session.open()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        for stream in list(self._streams):
            await stream.close()
        await self._session.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        json: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Any request at all; `path` is the whole path: /ngsi-ld/v1/..., /hanse/v1/..."""
        return await self._session.request(method, path, params=params, json=json, headers=headers)

    # --- entities ---------------------------------------------------------------------------------------------------

    async def create(self, entity: Json) -> str:
        """Make an entity, normalized or concise; gives its id."""
        await self.request("POST", ENTITIES, json=entity)
        return str(entity["id"])

    async def get(
        self,
        /,
        id: str,  # noqa: A002
        *,
        pick: Names | None = None,
        omit: Names | None = None,
        format: Format = "normalized",  # noqa: A002
        lang: str | None = None,
        sys_attrs: bool = False,
        **more: Any,
    ) -> Json:
        """One entity; `more` are further parameters of the specification (join, joinLevel, ...)."""
        params = {"pick": _names(pick), "omit": _names(omit), "lang": lang, **_view(format, sys_attrs), **more}
        return dict((await self.request("GET", _entity(id), params=params)).data)

    async def query(
        self,
        /,
        *,
        type: str | None = None,  # noqa: A002
        q: str | None = None,
        quality_q: str | None = None,
        id: Names | None = None,  # noqa: A002
        attrs: Names | None = None,
        pick: Names | None = None,
        omit: Names | None = None,
        format: Format = "normalized",  # noqa: A002
        sys_attrs: bool = False,
        page: int = 100,
        **more: Any,
    ) -> AsyncIterator[Json]:
        """Every entity that matches, fetched page by page; `more` are further parameters (georel, scopeQ, orderBy, ...).

        `quality_q` asks for quality: "temperature.precision>=40;freshness<=60", or levels, "correctness>=medium".
        """
        params = {
            "type": type,
            "q": q,
            "qualityQ": quality_q,
            "id": _names(id),
            "attrs": _names(attrs),
            "pick": _names(pick),
            "omit": _names(omit),
            **_view(format, sys_attrs),
            **more,
        }
        async for entity in self._pages(ENTITIES, params, page):
            yield entity

    async def count(
        self,
        /,
        *,
        type: str | None = None,  # noqa: A002
        q: str | None = None,
        quality_q: str | None = None,
        **more: Any,
    ) -> int:
        """How many entities match."""
        params = {"type": type, "q": q, "qualityQ": quality_q, "limit": 0, "count": True, **more}
        reply = await self.request("GET", ENTITIES, params=params)
        return int(next(value for name, value in reply.headers.items() if name.lower() == "ngsild-results-count"))

    async def update(self, id: str, attributes: Json) -> Outcome:  # noqa: A002
        """Change attributes that are there already."""
        return _outcome(await self.request("PATCH", _entity(id) + "/attrs", json=attributes))

    patch = update

    async def append(self, id: str, attributes: Json, *, overwrite: bool = True) -> Outcome:  # noqa: A002
        """Add attributes; those that are there already are overwritten, or left alone."""
        params = {} if overwrite else {"options": "noOverwrite"}
        return _outcome(await self.request("POST", _entity(id) + "/attrs", json=attributes, params=params))

    async def merge(self, id: str, fragment: Json) -> None:  # noqa: A002
        """Merge (RFC 7396): what is named changes, what is null goes, the rest stays."""
        await self.request("PATCH", _entity(id), json=fragment)

    async def replace(self, id: str, entity: Json) -> None:  # noqa: A002
        """Put a whole entity in the place of the one that is there."""
        await self.request("PUT", _entity(id), json=entity)

    async def delete(self, id: str) -> None:  # noqa: A002
        await self.request("DELETE", _entity(id))

    async def update_attribute(self, id: str, name: str, fragment: Json) -> None:  # noqa: A002
        """Change parts of one attribute: its value, or sub-attributes of it."""
        await self.request("PATCH", f"{_entity(id)}/attrs/{segment(name)}", json=fragment)

    async def delete_attribute(
        self,
        id: str,  # noqa: A002
        name: str,
        *,
        dataset_id: str | None = None,
        delete_all: bool = False,
    ) -> None:
        params = {"datasetId": dataset_id, "deleteAll": True if delete_all else None}
        await self.request("DELETE", f"{_entity(id)}/attrs/{segment(name)}", params=params)

    # --- many at once -----------------------------------------------------------------------------------------------

    async def upsert(self, entities: Iterable[Json], *, update: bool = False) -> BatchResult:
        """Make or replace each; with `update`, attributes that are not named stay."""
        return await self._batch("upsert", list(entities), {"options": "update"} if update else {})

    async def create_all(self, entities: Iterable[Json]) -> BatchResult:
        return await self._batch("create", list(entities))

    async def update_all(self, entities: Iterable[Json], *, overwrite: bool = True) -> BatchResult:
        return await self._batch("update", list(entities), {} if overwrite else {"options": "noOverwrite"})

    async def delete_all(self, ids: Iterable[str]) -> BatchResult:
        return await self._batch("delete", list(ids))

    async def _batch(self, name: str, items: list[Any], params: Mapping[str, Any] | None = None) -> BatchResult:
        if not items:
            return BatchResult([], [])
        reply = await self.request("POST", f"{OPERATIONS}/{name}", json=items, params=params)
        if reply.status == 207:
            return BatchResult(list(reply.data.get("success", [])), list(reply.data.get("errors", [])))
        return BatchResult([item if isinstance(item, str) else str(item["id"]) for item in items], [])

    # --- history and discovery --------------------------------------------------------------------------------------

    async def temporal(
        self,
        /,
        id: str,  # noqa: A002
        *,
        attrs: Names | None = None,
        timerel: Literal["before", "after", "between"] | None = None,
        time_at: str | None = None,
        end_time_at: str | None = None,
        last: int | None = None,
        values: bool = False,
        **more: Any,
    ) -> Json:
        """How an entity came to be what it is; `values` gives lists of value and time instead of whole instances."""
        params = _temporal(attrs, timerel, time_at, end_time_at, last, values) | more
        return dict((await self.request("GET", f"{TEMPORAL}/{segment(id)}", params=params)).data)

    async def query_temporal(
        self,
        /,
        *,
        type: str | None = None,  # noqa: A002
        q: str | None = None,
        quality_q: str | None = None,
        attrs: Names | None = None,
        timerel: Literal["before", "after", "between"] | None = None,
        time_at: str | None = None,
        end_time_at: str | None = None,
        last: int | None = None,
        values: bool = False,
        page: int = 100,
        **more: Any,
    ) -> AsyncIterator[Json]:
        chosen = {"type": type, "q": q, "qualityQ": quality_q}
        params = chosen | _temporal(attrs, timerel, time_at, end_time_at, last, values) | more
        async for entity in self._pages(TEMPORAL, params, page):
            yield entity

    async def types(self) -> list[str]:
        """The types of which there are entities."""
        return list((await self.request("GET", f"{NGSI_LD}/types")).data.get("typeList", []))

    async def attributes(self) -> list[str]:
        """The names of attributes that there are."""
        return list((await self.request("GET", f"{NGSI_LD}/attributes")).data.get("attributeList", []))

    # --- what changes -----------------------------------------------------------------------------------------------

    def subscribe(
        self,
        *,
        type: str | None = None,  # noqa: A002
        q: str | None = None,
        quality_q: str | None = None,
        id: str | None = None,  # noqa: A002
        watched: Names | None = None,
        format: Format = "normalized",  # noqa: A002
        **more: Any,
    ) -> Notifications:
        """Notifications as they come: `async for notification in node.subscribe(type="Room", q="temperature>30")`.

        The subscription exists from the first step of the loop, or from `async with` on, until the end of the loop or of the
        `async with`. `quality_q` asks for quality, as in `query`. `more` are further members of an NGSI-LD subscription (geoQ,
        notificationTrigger, throttling, ...).
        """
        if quality_q is not None:
            more["qualityQ"] = quality_q
        stream = Notifications(self._session, subscription(type, q, id, watched, format, more), self._streams.discard)
        self._streams.add(stream)
        return stream

    async def create_subscription(self, subscription: Json) -> str:
        """A subscription that is notified by HTTP or MQTT, and outlives this client; gives its id."""
        reply = await self.request("POST", SUBSCRIPTIONS, json=subscription)
        location = next(value for name, value in reply.headers.items() if name.lower() == "location")
        return location.rpartition("/")[2]

    async def subscriptions(self, page: int = 100) -> AsyncIterator[Json]:
        async for found in self._pages(SUBSCRIPTIONS, {}, page):
            yield found

    async def delete_subscription(self, id: str) -> None:  # noqa: A002
        await self.request("DELETE", f"{SUBSCRIPTIONS}/{segment(id)}")

    async def log(self, after: int = 0, *, limit: int = 1000, wait_s: float = 0) -> list[Json]:
        """What changed since an offset of the node's log, oldest first; waits for something if there is nothing yet."""
        params = {"after": after, "limit": limit, "wait": wait_s or None}
        return list((await self.request("GET", "/hanse/v1/log", params=params)).data)

    # --- contracts ----------------------------------------------------------------------------------------------------

    async def check_contract(self, guarantee: str | Json, requirement: str | Json) -> Json:
        """Whether a guarantee satisfies a requirement, and what is missing: `check_contract("precision>=60", "precision>=40")`.

        Each is a text, or a document: an advertisement or a registration, and a subscription.
        """
        body = {"guarantee": guarantee, "requirement": requirement}
        return dict((await self.request("POST", f"{CONTRACTS}/check", json=body)).data)

    async def producers(
        self,
        subscription: Json | None = None,
        *,
        type: str | None = None,  # noqa: A002
        id: Names | None = None,  # noqa: A002
        topic: str | None = None,
        quality: str | None = None,
        limit: int | None = None,
    ) -> list[Json]:
        """Who could satisfy a subscription, or a wish, the best first; each with the verdict and what is missing."""
        path = f"{CONTRACTS}/producers"
        if subscription is not None:
            return list((await self.request("POST", path, json=subscription, params={"limit": limit})).data)
        params = {"type": type, "id": _names(id), "topic": topic, "qualityQ": quality, "limit": limit}
        return list((await self.request("GET", path, params=params)).data)

    async def _pages(self, path: str, params: Mapping[str, Any], page: int) -> AsyncIterator[Json]:
        offset = 0
        while True:
            found = (await self.request("GET", path, params={**params, "limit": page, "offset": offset})).data
            for entity in found:
                yield entity
            if len(found) < page:
                return
            offset += page


def subscription(
    type_: str | None, q: str | None, id_: str | None, watched: Names | None, format_: Format, more: Mapping[str, Any]
) -> Json:
    """The NGSI-LD subscription of an application's wish."""
    body: Json = {"type": "Subscription", **more}
    if type_ is not None or id_ is not None:
        body["entities"] = [{"type": type_ if type_ is not None else "*"} | ({"id": id_} if id_ is not None else {})]
    if q is not None:
        body["q"] = q
    if watched is not None:
        body["watchedAttributes"] = [watched] if isinstance(watched, str) else list(watched)
    if "entities" not in body and "watchedAttributes" not in body:
        body["entities"] = [{"type": "*"}]
    body["notification"] = {"format": format_, **more.get("notification", {})}
    return body


def _entity(id_: str) -> str:
    return f"{ENTITIES}/{segment(id_)}"


def _names(names: Names | None) -> str | None:
    return names if names is None or isinstance(names, str) else ",".join(names)


def _view(format_: Format, sys_attrs: bool) -> Json:
    options = [option for option, wanted in ((format_, format_ != "normalized"), ("sysAttrs", sys_attrs)) if wanted]
    return {"options": ",".join(options)} if options else {}


def _temporal(
    attrs: Names | None, timerel: str | None, time_at: str | None, end_time_at: str | None, last: int | None, values: bool
) -> Json:
    return {
        "attrs": _names(attrs),
        "timerel": timerel,
        "timeAt": time_at,
        "endTimeAt": end_time_at,
        "lastN": last,
        "options": "temporalValues" if values else None,
    }


def _outcome(reply: Reply) -> Outcome:
    if reply.status == 207 and isinstance(reply.data, dict):
        return Outcome(list(reply.data.get("updated", [])), list(reply.data.get("notUpdated", [])))
    return Outcome([], [])
