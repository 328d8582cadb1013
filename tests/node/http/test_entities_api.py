"""Entities, as a client sees them: what is particular to requests, and not to the operations behind them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.node.http.test_temporal import Client
from tests.serving import settings_with

from hanse.node.http import attributes, batch, entities, entity_maps
from hanse.node.http.dispatch import Dispatcher
from hanse.node.tenant import Node

BOAT, PORT = "urn:ngsi-ld:Boat:1", "urn:ngsi-ld:Port:1"


def on_a_node(work: Callable[[Client], Awaitable[None]]) -> None:
    async def run() -> None:
        node = Node(settings_with())
        await node.start()
        try:
            paths = [*entities.paths, *attributes.paths, *batch.paths, *entity_maps.paths]
            await work(Client(Dispatcher(node, paths)))
        finally:
            await node.stop()

    asyncio.run(run())


async def fill(ask: Client) -> None:
    await ask("POST", "/entities", {"id": PORT, "type": "Port", "name": {"value": "Harbour"}, "kind": {"vocab": "sea"}})
    await ask("POST", "/entities", {"id": BOAT, "type": "Boat", "in": {"object": PORT}, "speed": {"value": 5}})


@pytest.mark.parametrize(
    ("q", "ids"),
    [
        ('in{name}=="Harbour"', [BOAT]),
        ('in{Port:name}=="Harbour"', [BOAT]),
        ('in{Port}.name=="Harbour";speed>4', [BOAT]),
        ('in{Town:name}=="Harbour"', []),
        ('in{name}=="Field"', []),
        ('in{name}=="Field"|speed==5', [BOAT]),
        ('in>"urn:a"', []),
        ("!speed", [PORT]),
        ("!unknown", [PORT, BOAT]),
    ],
)
def test_queries_by_get_and_by_post(q: str, ids: list[str]) -> None:
    async def work(ask: Client) -> None:
        await fill(ask)
        got = await ask("GET", "/entities", type="Boat,Port", q=q, join="inline")
        body = {"type": "Query", "entities": [{"type": "Boat,Port"}], "q": q, "join": "flat", "joinLevel": 2, "pick": ["id"]}
        posted = await ask("POST", "/entityOperations/query", body)
        assert [entity["id"] for entity in got.body] == [entity["id"] for entity in posted.body][: len(ids)] == ids

    on_a_node(work)


def test_values_that_are_names_are_expanded_where_that_is_asked_for() -> None:
    async def work(ask: Client) -> None:
        await fill(ask)
        assert (await ask("GET", "/entities", type="Port", q="kind==sea")).body == []
        found = await ask("GET", "/entities", type="Port", q="kind==sea", expandValues="kind")
        assert [entity["id"] for entity in found.body] == [PORT]

    on_a_node(work)


REFUSED: list[tuple[str, str, Any, dict[str, Any]]] = [
    ("GET", "/entities", None, {"attrs": "createdAt"}),
    ("GET", "/entities", None, {"q": 'modifiedAt>"2020-01-01T00:00:00Z"'}),
    ("DELETE", "/entities", None, {"attrs": "createdAt"}),
    ("DELETE", "/entities", None, {"q": 'modifiedAt>"2020-01-01T00:00:00Z"'}),
    ("GET", "/entities", None, {"type": "Boat", "geometryProperty": "location"}),
    ("GET", f"/entities/{BOAT}", None, {"pick": "in{name}"}),
    ("GET", "/entities", None, {"type": "Boat", "q": "in{name", "join": "inline"}),
    ("GET", "/entities", None, {"type": "Boat", "q": "in{name}"}),
    ("GET", "/entities", None, {"type": "Boat", "q": "in{in{name}}", "join": "inline", "joinLevel": "1"}),
    ("DELETE", "/entities", None, {"type": "Boat", "q": "in{name}"}),
    ("POST", "/entityOperations/query", {"type": "Query", "entities": [{"type": "Boat"}], "q": "in{name}"}, {}),
    ("POST", "/entityOperations/query", {"type": "Query", "entities": [{"type": "Boat"}], "temporalQ": {}}, {}),
    ("POST", "/entityOperations/create", [{"id": "urn:x:9", "type": "Boat"}, None], {}),
    ("POST", "/entityOperations/upsert", [None], {}),
    ("POST", "/entityOperations/merge", [{"id": BOAT, "speed": {"value": 9}}, None], {}),
    ("POST", "/entityOperations/delete", [BOAT, None], {}),
]


@pytest.mark.parametrize(("method", "path", "body", "params"), REFUSED)
def test_what_is_refused_as_a_whole(method: str, path: str, body: Any, params: dict[str, Any]) -> None:
    async def work(ask: Client) -> None:
        await fill(ask)
        before = (await ask("GET", "/entities", local="true")).body
        answer = await ask(method, path, body, **params)
        assert (answer.status, answer.body["type"].rpartition("/")[2]) == (400, "BadRequestData"), answer
        assert (await ask("GET", "/entities", local="true")).body == before

    on_a_node(work)


def test_an_entity_with_its_map() -> None:
    async def work(ask: Client) -> None:
        await fill(ask)
        made = await ask("GET", f"/entities/{BOAT}", entityMap="true")
        place = made.headers["ngsild-entitymap"]
        again = await ask("GET", f"/entities/{BOAT}", headers={"ngsild-entitymap": place})
        assert again.headers["ngsild-entitymap"] == place
        other = await ask("GET", f"/entities/{BOAT}", headers={"ngsild-entitymap": "urn:ngsi-ld:EntityMap:gone"})
        assert (other.status, "gone" in other.headers["ngsild-entitymap"]) == (200, False)
        assert "ngsild-entitymap" not in (await ask("GET", f"/entities/{BOAT}")).headers

    on_a_node(work)
