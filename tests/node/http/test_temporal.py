"""The temporal API over HTTP, on a node in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
import pytest
from tests.serving import settings_with

from hanse.node.http import attributes, entities, temporal
from hanse.node.http.dispatch import Dispatcher
from hanse.node.store.history import ensure
from hanse.node.tenant import Node

BASE = "/ngsi-ld/v1"
ID = "urn:ngsi-ld:Vehicle:1"
PLACE = f"/temporal/entities/{ID}"


class Reply(msgspec.Struct):
    status: int
    headers: dict[str, str]
    body: Any


class Client:
    """What a web server would do with requests."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    async def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        raw: bytes | None = None,
        headers: dict[str, str] | None = None,
        **params: Any,
    ) -> Reply:
        content = raw if raw is not None else b"" if body is None else msgspec.json.encode(body)
        sent = (
            {"content-type": "application/json", "content-length": str(len(content))}
            if body is not None or raw is not None
            else {}
        )
        target = quote(BASE + path, safe="/:%")
        scope = {
            "type": "http",
            "method": method,
            "path": BASE + path,
            "raw_path": target.encode(),
            "query_string": urlencode(params).encode(),
            "headers": [(name.encode(), value.encode()) for name, value in (sent | (headers or {})).items()],
        }
        messages: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": content, "more_body": False}

        async def send(message: Any) -> None:
            messages.append(message)

        await self._dispatcher(scope, receive, send)
        start, end = messages
        got = {name.decode().lower(): value.decode() for name, value in start["headers"]}
        return Reply(start["status"], got, msgspec.json.decode(end["body"]) if end["body"] else None)


def on_a_node(work: Callable[[Client], Awaitable[None]]) -> None:
    async def run() -> None:
        node = Node(settings_with())
        await node.start()
        try:
            ensure(node.tenants[""].store._writer)
            await work(Client(Dispatcher(node, [*entities.paths, *attributes.paths, *temporal.paths])))
        finally:
            await node.stop()

    asyncio.run(run())


def series(*pairs: tuple[Any, str], **more: Any) -> list[dict[str, Any]]:
    return [{"type": "Property", "value": value, "observedAt": f"2020-08-01T{moment}:00Z"} | more for value, moment in pairs]


def vehicle(**attributes: Any) -> dict[str, Any]:
    return {"id": ID, "type": "Vehicle"} | attributes


SPEED = series((120, "12:03"), (80, "12:05"), (100, "12:07"))
FUEL = series((67, "12:03"), (53, "13:05"), (40, "14:07"))


def plain(shown: Any) -> Any:
    """Without the ids of instances, which nobody can foretell."""
    if isinstance(shown, list):
        return [plain(item) for item in shown]
    if isinstance(shown, dict):
        return {name: plain(value) for name, value in shown.items() if name != "instanceId"}
    return shown


def test_an_evolution_is_created_then_updated_then_deleted() -> None:
    async def work(ask: Client) -> None:
        made = await ask("POST", "/temporal/entities", vehicle(speed=SPEED[:2]))
        assert (made.status, made.headers["location"], made.body) == (201, BASE + PLACE, None)
        changed = [SPEED[0] | {"value": 121}, SPEED[2]]
        assert (await ask("POST", "/temporal/entities", vehicle(speed=changed))).status == 204
        shown = await ask("GET", PLACE)
        assert plain(shown.body) == vehicle(speed=[SPEED[0] | {"value": 121}, SPEED[1], SPEED[2]])
        ids = [instance["instanceId"] for instance in shown.body["speed"]]
        assert len(set(ids)) == 3
        assert all(id_.startswith("urn:ngsi-ld:Instance:") for id_ in ids)
        assert (await ask("DELETE", PLACE)).status == 204
        assert (await ask("GET", PLACE)).status == 404
        assert (await ask("DELETE", PLACE)).status == 404

    on_a_node(work)


def test_attributes_and_instances_are_added_changed_and_deleted() -> None:
    async def work(ask: Client) -> None:
        await ask("POST", "/temporal/entities", vehicle(speed=SPEED, fuel=FUEL + series((9, "15:00"), datasetId="urn:d")))
        assert (await ask("POST", f"{PLACE}/attrs", {"heat": series((20, "12:00"))})).status == 204
        first = (await ask("GET", PLACE)).body["speed"][0]["instanceId"]
        patch = {"type": "Property", "value": 129, "observedAt": "2020-08-01T12:03:00Z"}
        assert (await ask("PATCH", f"{PLACE}/attrs/speed/{first}", patch)).status == 204
        shown = (await ask("GET", PLACE, options="sysAttrs")).body
        assert (shown["speed"][0]["value"], shown["speed"][0]["instanceId"]) == (129, first)
        assert shown["speed"][0]["createdAt"] < shown["speed"][0]["modifiedAt"]
        assert (await ask("DELETE", f"{PLACE}/attrs/speed/{first}")).status == 204
        assert [one["value"] for one in (await ask("GET", PLACE)).body["speed"]] == [80, 100]
        assert (await ask("DELETE", f"{PLACE}/attrs/fuel")).status == 204
        assert [one["value"] for one in (await ask("GET", PLACE)).body["fuel"]] == [9]
        assert (await ask("DELETE", f"{PLACE}/attrs/fuel", datasetId="urn:d")).status == 204
        assert (await ask("DELETE", f"{PLACE}/attrs/heat", deleteAll="true")).status == 204
        assert (await ask("GET", PLACE)).body.keys() == {"id", "type", "speed"}

    on_a_node(work)


@pytest.mark.parametrize(
    ("params", "speeds", "fuels"),
    [
        ({"timerel": "after", "timeAt": "2020-08-01T12:05:00Z"}, [80, 100], [53, 40]),
        ({"timerel": "before", "timeAt": "2020-08-01T12:05:00.000Z"}, [120], [67]),
        ({"timerel": "between", "timeAt": "2020-08-01T12:03:00Z", "endTimeAt": "2020-08-01T12:07:00Z"}, [120, 80], [67]),
        ({"lastN": "2"}, [80, 100], [53, 40]),
        ({"timerel": "after", "timeAt": "2020-08-01T13:00:00Z"}, None, [53, 40]),
        ({"attrs": "speed"}, [120, 80, 100], None),
        ({"omit": "speed"}, None, [67, 53, 40]),
    ],
)
def test_what_is_shown_of_an_evolution(params: dict[str, Any], speeds: list[int] | None, fuels: list[int] | None) -> None:
    async def work(ask: Client) -> None:
        await ask("POST", "/temporal/entities", vehicle(speed=SPEED, fuel=FUEL))
        expected = {name: found for name, found in (("speed", speeds), ("fuel", fuels)) if found is not None}
        one = await ask("GET", PLACE, **params)
        assert one.status == 200
        assert {name: [i["value"] for i in one.body[name]] for name in ("speed", "fuel") if name in one.body} == expected
        if "timerel" in params:
            (found,) = (await ask("GET", "/temporal/entities", type="Vehicle", **params)).body
            assert plain(found) == plain(one.body)

    on_a_node(work)


def test_values_and_aggregates() -> None:
    async def work(ask: Client) -> None:
        await ask("POST", "/temporal/entities", vehicle(speed=SPEED, fuel=FUEL))
        forms: list[dict[str, Any]] = [
            {"options": "temporalValues"},
            {"format": "temporalValues"},
            {"format": "simplified", "options": "sysAttrs"},
        ]
        for how in forms:
            shown = (await ask("GET", PLACE, **how, pick="speed")).body
            assert shown["speed"]["values"] == [[one["value"], one["observedAt"]] for one in SPEED]
        shown = (await ask("GET", PLACE, options="aggregatedValues", aggrMethods="avg,max", aggrPeriodDuration="PT1H")).body
        noon, one, two, three = (f"2020-08-01T1{hour}:03:00Z" for hour in range(2, 6))
        assert shown["speed"] == {"type": "Property", "avg": [[100.0, noon, one]], "max": [[120.0, noon, one]]}
        assert shown["fuel"]["avg"] == [[67.0, noon, one], [53.0, one, two], [40.0, two, three]]

    on_a_node(work)


def test_long_evolutions_come_in_parts() -> None:
    async def work(ask: Client) -> None:
        many = series(*((n, f"12:{n:02}") for n in range(50)))
        await ask("POST", "/temporal/entities", vehicle(speed=many, fuel=FUEL))
        seen: list[int] = []
        start = "2020-01-01T00:00:00Z"
        for _ in range(10):
            part = await ask("GET", PLACE, timerel="after", timeAt=start, attrs="speed")
            seen += [one["value"] for one in part.body["speed"]]
            if part.status == 200:
                break
            assert part.status == 206
            unit, _, covered = part.headers["content-range"].partition(" ")
            assert unit == "date-time"
            assert covered.startswith(f"{start}-")
            assert covered.endswith("/*")
            start = covered.removeprefix(f"{start}-").removesuffix("/*")
        assert sorted(set(seen)) == list(range(50))
        last = await ask("GET", PLACE, lastN="20")
        assert last.status == 206
        assert last.headers["content-range"] == "date-time 2020-08-01T14:07:00Z-2020-08-01T12:30:00Z/20"
        assert [one["value"] for one in last.body["speed"]] == list(range(30, 50))
        more = await ask("GET", PLACE, lastN="30")
        assert more.status == 200, "who asks for more than is usual gets it"
        assert [one["value"] for one in more.body["speed"]] == list(range(20, 50))

    on_a_node(work)


def test_queries_find_by_what_was() -> None:
    async def work(ask: Client) -> None:
        await ask("POST", "/temporal/entities", vehicle(speed=SPEED))
        bus = {"id": "urn:ngsi-ld:Bus:1", "type": "Bus", "speed": series((30, "12:00")), "scope": "/A/B"}
        await ask("POST", "/temporal/entities", bus)
        ever: dict[str, Any] = {"timerel": "after", "timeAt": "1970-01-01T00:00:00Z"}

        async def ids(**params: Any) -> list[str]:
            answer = await ask("GET", "/temporal/entities", **(ever | params))
            assert answer.status == 200, answer.body
            return [found["id"] for found in answer.body]

        assert await ids(type="Bus,Vehicle") == [bus["id"], ID]
        assert await ids(type="Bus,Vehicle", orderBy="id;desc") == [ID, bus["id"]]
        assert await ids(q="speed>100") == [ID]
        assert await ids(q="speed>100", timerel="after", timeAt="2020-08-01T12:04:00Z") == []
        assert await ids(attrs="speed", idPattern="Bus") == [bus["id"]]
        assert await ids(scopeQ="/A/#") == [bus["id"]]
        assert await ids(local="true", limit="1", offset="1") == [ID]
        counted = await ask("GET", "/temporal/entities", **ever, type="Vehicle,Bus", limit="1", count="true")
        assert counted.headers["ngsild-results-count"] == "2"
        posted = await ask(
            "POST", "/temporal/entityOperations/query", {"type": "Query", "entities": [{"type": "Bus"}], "temporalQ": ever}
        )
        assert [found["id"] for found in posted.body] == [bus["id"]]
        mapped = await ask("GET", "/temporal/entities", **ever, type="Bus", entityMap="true")
        assert mapped.status == 201
        again = await ask(
            "GET",
            "/temporal/entities",
            **ever,
            type="Bus,Vehicle",
            headers={"ngsild-entitymap": mapped.headers["ngsild-entitymap"]},
        )
        assert (again.status, [found["id"] for found in again.body]) == (200, [bus["id"]])

    on_a_node(work)


def test_the_present_leaves_a_past() -> None:
    async def work(ask: Client) -> None:
        await ask("POST", "/entities", {"id": ID, "type": "Vehicle", "speed": {"type": "Property", "value": 1}})
        await ask("PATCH", f"/entities/{ID}/attrs", {"speed": {"type": "Property", "value": 2}})
        shown = await ask("GET", PLACE)
        assert [one["value"] for one in shown.body["speed"]] == [1, 2]
        assert (await ask("GET", PLACE, timeproperty="observedAt")).body == vehicle()
        changes = (await ask("GET", PLACE, timeproperty="modifiedAt")).body["speed"]
        assert changes[0]["modifiedAt"] < changes[1]["modifiedAt"]
        assert (await ask("DELETE", f"/entities/{ID}")).status == 204
        assert (await ask("GET", PLACE)).status == 404
        await ask("POST", "/entities", {"id": ID, "type": "Vehicle", "speed": {"type": "Property", "value": 3}})
        assert [one["value"] for one in (await ask("GET", PLACE)).body["speed"]] == [3]

    on_a_node(work)


def test_an_attribute_of_an_entity_without_a_present_is_ended() -> None:
    async def work(ask: Client) -> None:
        await ask("POST", "/temporal/entities", vehicle(speed=SPEED, fuel=FUEL, scope=series(("/a", "12:03"))))
        assert (await ask("DELETE", f"/entities/{ID}/attrs/speed")).status == 204
        assert (await ask("DELETE", f"/entities/{ID}/attrs/scope")).status == 204
        deleted = (await ask("GET", PLACE, timeproperty="deletedAt")).body
        assert [one["value"] for one in deleted["speed"]] == ["urn:ngsi-ld:null"]
        assert "fuel" not in deleted
        again = await ask("DELETE", f"/entities/{ID}/attrs/speed")
        assert (again.status, ID in again.body["detail"]) == (404, True)
        assert (await ask("DELETE", "/entities/urn:x/attrs/speed")).status == 404

    on_a_node(work)


def test_a_deleted_entity_has_no_attributes_to_delete() -> None:
    async def work(ask: Client) -> None:
        await ask("POST", "/entities", {"id": ID, "type": "Vehicle", "speed": {"type": "Property", "value": 1}})
        await ask("DELETE", f"/entities/{ID}")
        assert (await ask("DELETE", f"/entities/{ID}/attrs/speed")).status == 404

    on_a_node(work)


EVER = {"timerel": "after", "timeAt": "1970-01-01T00:00:00Z"}
REFUSED: list[tuple[str, str, Any, dict[str, Any], int, str]] = [
    ("GET", "/temporal/entities/nothing", None, {}, 400, "BadRequestData"),
    ("GET", "/temporal/entities/urn:x", None, {}, 404, "ResourceNotFound"),
    ("GET", PLACE, None, {"attrs": "unknown"}, 404, "ResourceNotFound"),
    ("GET", PLACE, None, {"pick": "unknown"}, 404, "ResourceNotFound"),
    ("GET", PLACE, None, {"pick": "speed", "omit": "speed"}, 400, "BadRequestData"),
    ("GET", PLACE, None, {"pick": "owner{name}"}, 400, "BadRequestData"),
    ("GET", PLACE, None, {"timerel": "after"}, 400, "BadRequestData"),
    ("GET", PLACE, None, {"timeAt": "2020-01-01T00:00:00Z"}, 400, "BadRequestData"),
    ("GET", PLACE, None, {"timerel": "between", "timeAt": "2020-01-01T00:00:00Z"}, 400, "BadRequestData"),
    ("GET", PLACE, None, {"options": "nonsense"}, 400, "InvalidRequest"),
    ("GET", PLACE, None, {"nonsense": "1"}, 400, "InvalidRequest"),
    ("GET", PLACE, None, {"options": "aggregatedValues"}, 400, "BadRequestData"),
    ("GET", "/temporal/entities", None, {"type": "Vehicle"}, 400, "BadRequestData"),
    ("GET", "/temporal/entities", None, EVER, 400, "BadRequestData"),
    ("GET", "/temporal/entities", None, EVER | {"id": ID}, 400, "BadRequestData"),
    ("GET", "/temporal/entities", None, EVER | {"type": "Vehicle", "orderBy": "speed"}, 400, "BadRequestData"),
    ("POST", "/temporal/entities", {"type": "Vehicle"}, {}, 400, "BadRequestData"),
    ("POST", "/temporal/entities", vehicle(speed=[1]), {}, 400, "BadRequestData"),
    ("POST", "/temporal/entities", vehicle(scope={"value": 1}), {}, 400, "BadRequestData"),
    ("POST", "/temporal/entities/urn:x/attrs", {"speed": SPEED}, {}, 404, "ResourceNotFound"),
    ("POST", f"{PLACE}/attrs", {}, {}, 400, "BadRequestData"),
    ("POST", "/temporal/entityOperations/query", {"type": "Query", "entities": [{"type": "X"}]}, {}, 400, "BadRequestData"),
    ("DELETE", f"{PLACE}/attrs/fuel", None, {}, 404, "ResourceNotFound"),
    ("DELETE", f"{PLACE}/attrs/not(a)name", None, {}, 400, "BadRequestData"),
    ("DELETE", f"{PLACE}/attrs/speed/nothing", None, {}, 400, "BadRequestData"),
    ("DELETE", f"{PLACE}/attrs/speed/urn:x", None, {}, 404, "ResourceNotFound"),
    ("PATCH", f"{PLACE}/attrs/speed/urn:x", {"value": 1}, {}, 404, "ResourceNotFound"),
]


def test_what_makes_no_sense_is_refused_and_changes_nothing() -> None:
    async def work(ask: Client) -> None:
        await ask("POST", "/temporal/entities", vehicle(speed=SPEED))
        before = (await ask("GET", PLACE)).body
        for method, path, body, params, status, kind in REFUSED:
            answer = await ask(method, path, body, **params)
            assert answer.status == status, (method, path, params, answer)
            assert answer.body["type"].endswith(f"/{kind}"), (method, path, params, answer)
            assert answer.body["detail"]
        empty = await ask("POST", "/temporal/entities", raw=b"")
        assert (empty.status, empty.body["type"].rpartition("/")[2]) == (400, "InvalidRequest")
        assert (await ask("GET", PLACE)).body == before

    on_a_node(work)
