"""The page Why? in a real browser: a notification that was delivered, and one that was not."""

from __future__ import annotations

from typing import Any

import pytest

import hanse
from hanse.node.federation.local import LocalFederation
from tests.browser import CHROMIUM, Browser
from tests.dashboard.hands import choose, fill, in_a_loop, says, things_on_map
from tests.node.federation.linked import until

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")

TRACES = "/hanse/v1/federation/traces?limit=1000"


def subscribed(nodes: LocalFederation, node: str, name: str, type_: str) -> None:
    with hanse.connect_sync(nodes.url(node)) as client:
        wanted: dict[str, Any] = {"type": "Subscription", "subscriptionName": name, "entities": [{"type": type_}]}
        client.create_subscription(wanted | {"notification": {"endpoint": {"uri": "urn:hanse:stream"}}})


def changed(nodes: LocalFederation, node: str, type_: str, number: int = 0) -> str:
    id_ = f"urn:ngsi-ld:{type_}:why-1"
    with hanse.connect_sync(nodes.url(node)) as client:
        client.upsert([{"id": id_, "type": type_, "number": {"type": "Property", "value": number}}])
    return id_


def came(nodes: LocalFederation, node: str, id_: str) -> bool:
    with hanse.connect_sync(nodes.url(node)) as client:
        return any(one["entity"] == id_ for one in client.request("GET", TRACES).data)


async def picked(page: Browser, dashboard: str, id_: str, subscriber: str) -> None:
    await page.open(f"{dashboard}/why")
    await fill(page, "About", id_)
    row = f"[...document.querySelectorAll('[data-testid=news] tbody tr')].find(r => r.innerText.includes('{id_}'))"
    await page.until(f"!!{row}")
    await page.value(f"{row}.click()")
    await says(page, "steps", "published by urn:hanse:node:port-a")
    await choose(page, "subscriber", subscriber)


@in_a_loop
async def test_it_explains_a_notification_that_was_delivered(smart_port: LocalFederation, dashboard: str) -> None:
    subscribed(smart_port, "fire", "alarms of the port", "Alert")
    numbers = iter(range(1_000))

    def told() -> bool:  # the subscription is on its way to the port
        return came(smart_port, "fire", changed(smart_port, "port-a", "Alert", next(numbers)))

    until(told, "fire hears of an alert")
    async with Browser() as page:
        await picked(page, dashboard, "urn:ngsi-ld:Alert:why-1", "alarms of the port")
        await says(page, "verdict", "Delivered: the subscription at fire got it, since every check passes.")
        await says(page, "steps", "fire: heard from port-a", "fire: matched: for an NGSI-LD subscriber")
        await says(page, "checks", "export rules", "It may go port-a → port → fire.")
        drawn = await things_on_map(page)
        places = {node["id"]: [node["lon"], node["lat"]] for node in drawn["nodes"]}
        assert drawn["paths"][-1]["points"] == [places["port-a"], places["port"], places["fire"]]
        assert drawn["crosses"] == []
        assert {node["id"] for node in drawn["nodes"] if not node["dim"]} == {"port-a", "port", "fire"}
        assert page.errors == []
        assert [url for url in page.requested if not url.startswith((dashboard, "data:", "blob:"))] == []


@in_a_loop
async def test_it_names_the_check_that_stopped_one(smart_port: LocalFederation, dashboard: str) -> None:
    subscribed(smart_port, "bus", "people of the port", "Person")
    id_ = changed(smart_port, "port-a", "Person")
    async with Browser() as page:
        await picked(page, dashboard, id_, "people of the port")
        await says(page, "verdict", "Not delivered.", "It cannot pass the link from port to bus: the rule denies the type Person")
        await says(page, "steps", "port does not let it go to bus: its export rule there is: no Person, Camera")
        drawn = await things_on_map(page)
        places = {node["id"]: (node["lon"], node["lat"]) for node in drawn["nodes"]}
        (ax, ay), (bx, by) = places["port"], places["bus"]
        assert drawn["crosses"] == [[(ax + bx) / 2, (ay + by) / 2]]  # in the middle of the link
        await page.open(f"{dashboard}/why?publisher=nobody&id=<b>never</b>")
        await says(page, "verdict", "No node knows this notification")
        assert page.errors == []
