"""The page Data in a real browser, over the nodes of the smart port: what is there, and what one can try."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import hanse
from hanse.client import NodeClient
from hanse.dashboard.catalog import read_catalog
from hanse.dashboard.views.data import Chosen, asked_nodes
from hanse.dashboard.watching import Watch
from hanse.node.federation.local import LocalFederation
from tests.browser import CHROMIUM, WAIT_S, Browser
from tests.dashboard.hands import at, fill, holds, in_a_loop, press_button, says, take, things_on_map
from tests.node.access.town import TOWN, town
from tests.serving import serving

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")

ROOM = "urn:ngsi-ld:Room:data-1"
HALL = "urn:ngsi-ld:Building:data-hall"
PERSON = "urn:ngsi-ld:Person:data-1"


def value(given: Any, **more: Any) -> dict[str, Any]:
    return {"type": "Property", "value": given, **more}


@pytest.fixture(scope="module")
def rooms(smart_port: LocalFederation) -> LocalFederation:
    """A room with quality, a past and a place, and what it is related to, at port-a."""
    with hanse.connect_sync(smart_port.url("port-a")) as node:
        begun = datetime.now(UTC) - timedelta(seconds=30)
        for i in range(5):
            at_ = (begun + timedelta(seconds=i)).isoformat().replace("+00:00", "Z")
            node.upsert(
                [
                    {
                        "id": ROOM,
                        "type": "Room",
                        "temperature": value(20 + i, unitCode="CEL", observedAt=at_, precision=value(85), trust=value(45)),
                        "inBuilding": {"type": "Relationship", "object": HALL},
                        "location": {
                            "type": "GeoProperty",
                            "value": {"type": "Point", "coordinates": [25.144, 35.346 + i / 1e4]},
                        },
                    }
                ]
            )
        door = {"id": "urn:ngsi-ld:Door:data-1", "type": "Door", "leadsTo": {"type": "Relationship", "object": ROOM}}
        node.upsert([{"id": HALL, "type": "Building", "name": value("<b>Hall</b>")}, door])
        node.upsert([{"id": PERSON, "type": "Person", "name": value("Ada")}])
    return smart_port


@in_a_loop
async def test_entities_are_found_and_shown_with_quality_history_relationships_and_place(
    rooms: LocalFederation, dashboard: str
) -> None:
    async with Browser() as page:
        await page.open(f"{dashboard}/data")
        await press_button(page, "Room ")
        link = f"[...document.querySelectorAll('td a')].find(a => a.innerText === '{ROOM}')"
        await page.until(f"!!{link}")
        await says(page, "policy", "port has no policies")
        await page.value(f"{link}.click()")
        await says(page, "about", "Room, as port sees it")  # which does not keep it: it is asked for
        await says(page, "attributes", "temperature", "CEL", "precision 85 %, high", "trust 45 %, low", "freshness", HALL)
        await page.until(f"({at('history')}?.getAttribute('aria-label') || '').includes('5 values from 20 to 24, last 24 CEL')")
        near = "[...document.querySelectorAll('[aria-label=\"Related entities\"] a')].map(a => a.innerText)"
        await page.until(f"{near}.length === 2")
        assert await page.value(near) == [HALL, "urn:ngsi-ld:Door:data-1"]
        await page.until("document.querySelector('.hanse-map').offsetParent !== null")
        on_map = await things_on_map(page)
        assert on_map["movers"][0]["id"] == ROOM
        assert len(on_map["paths"][0]["points"]) == 5
        await page.value(f"[...document.querySelectorAll('a')].find(a => a.innerText === '{HALL}').click()")
        await says(page, "about", "Building")
        await says(page, "attributes", "<b>Hall</b>")  # as text
        await page.open(f"{dashboard}/data?id={PERSON}&node=bus")  # which export rules do not let know
        await says(page, "about", "port-a keeps it, and bus is not told")
        await says(page, "problem", "bus: ")
        assert page.errors == []
        assert [url for url in page.requested if not url.startswith((dashboard, "data:", "blob:"))] == []


@in_a_loop
async def test_a_query_is_built_by_suggestions_and_refused_in_words_of_the_node(rooms: LocalFederation, dashboard: str) -> None:
    async with Browser() as page:
        await page.open(f"{dashboard}/data?try")
        await take(page, "Type", "Room")
        await fill(page, "Condition (q)", "temp")
        await take(page, "Condition (q)", "temperature")
        await take(page, "Condition (q)", ">")
        await holds(page, "Condition (q)", "temperature>")
        await fill(page, "Condition (q)", "temperature>23")
        await says(page, "as-curl", "--data-urlencode type=Room", "--data-urlencode 'q=temperature>23'", rooms.url("port"))
        await press_button(page, "Ask")
        await says(page, "said", "1 found")
        await says(page, "found", ROOM)
        await fill(page, "Condition (q)", "temperature>>")
        await press_button(page, "Ask")
        await page.until(f"{at('refused')}.innerText.length > 0")
        with hanse.connect_sync(rooms.url("port")) as node, pytest.raises(hanse.NgsiLdClientError) as refused:
            list(node.query(type="Room", q="temperature>>"))
        assert await page.value(f"{at('refused')}.innerText") == f"port: {refused.value}"
        assert page.errors == []


@in_a_loop
async def test_notifications_come_as_they_happen_until_the_visitor_stops_or_leaves(
    rooms: LocalFederation, dashboard: str
) -> None:
    async with hanse.connect(rooms.url("port")) as port, hanse.connect(rooms.url("port-a")) as source, Browser() as page:
        await page.open(f"{dashboard}/data?try&type=Room")
        await press_button(page, "Subscription")
        await press_button(page, "Subscribe")
        await says(page, "said", "Subscribed as urn:")
        mine = (await page.value(f"{at('said')}.innerText")).split()[2].rstrip(".")
        assert mine in await subscriptions(port)
        await until_told(page, source)
        await press_button(page, "Stop")
        await says(page, "said", "the subscription is gone")
        assert mine not in await subscriptions(port)
        await press_button(page, "Subscribe")
        await says(page, "said", "Subscribed as urn:")
        again = (await page.value(f"{at('said')}.innerText")).split()[2].rstrip(".")
        assert again in await subscriptions(port)
        await page.open("about:blank")
        async with asyncio.timeout(WAIT_S):
            while again in await subscriptions(port):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert page.errors == []


async def subscriptions(node: NodeClient) -> set[str]:
    return {str(one["id"]) async for one in node.subscriptions()}


async def until_told(page: Browser, source: NodeClient) -> None:
    """What is published is shown; again, as long as the subscription is still on its way to the publisher's node."""
    for number in range(100):
        await source.upsert([{"id": ROOM, "type": "Room", "temperature": value(100 + number)}], update=True)
        if await page.value(
            f"new Promise(done => setTimeout(() => done({at('found')}.innerText.includes('temperature 1')), 200))"
        ):
            return
    pytest.fail("nothing came")


@in_a_loop
async def test_the_page_can_be_used_on_a_phone_and_in_the_dark(rooms: LocalFederation, dashboard: str) -> None:
    del rooms
    async with Browser(width=400) as page:
        await page.scheme("dark")
        for path in (f"/data?id={ROOM}", "/data?try&type=Room", "/data", "/why"):
            await page.open(dashboard + path)
            await page.until("document.querySelectorAll('table td, [data-testid=as-curl]').length > 0")
            assert await page.value("document.documentElement.scrollWidth <= innerWidth"), path
            assert await page.value("document.body.classList.contains('body--dark')")
        assert page.errors == []


@in_a_loop
async def test_where_policies_are_in_force_it_says_for_whom_one_is_taken_and_serves_those_who_are_no_operators(
    tmp_path: Path,
) -> None:
    with town(tmp_path) as node:
        node.put("urn:room:1", temperature=23)
        async with Watch([node.url], TOWN) as watch:
            await watch.first()
            (seen,) = watch.seen
            assert (seen.is_there, seen.is_private) == (False, True)
            assert asked_nodes(watch) == [node.url]
            chosen = Chosen(watch, "", [seen.url])
            assert "Policies are in force" in await chosen.policy_words()
            assert "it takes you for tina" in await chosen.policy_words()
            assert (await chosen.client.get("urn:room:1"))["temperature"]["value"] == 20


@in_a_loop
async def test_a_catalog_has_the_types_of_all_nodes_and_passes_over_those_that_do_not_answer() -> None:
    with serving() as one, serving() as other:
        gone = hanse.connect("http://127.0.0.1:9", timeout_s=1)
        async with hanse.connect(one) as a, hanse.connect(other) as b, gone as nobody:
            await a.create(
                {"id": "urn:a:1", "type": "Room", "temperature": 1, "next": {"type": "Relationship", "object": "urn:b:1"}}
            )
            await b.create({"id": "urn:b:1", "type": "Room", "humidity": 2})
            catalog = await read_catalog([a, b, nobody])
    assert catalog.types["Room"].count == 2
    assert catalog.attributes("Room") == catalog.attributes() == ["humidity", "next", "temperature"]
    assert catalog.relationships() == ["next"]
