"""The page of health in a real browser: numbers of real nodes, and dead letters that are looked at, sent again and dropped."""

from __future__ import annotations

import pytest

import hanse
from hanse.client.sync import SyncNodeClient
from hanse.model.ports import free_port
from hanse.node.federation.local import LocalFederation
from tests.browser import CHROMIUM, Browser
from tests.dashboard.conftest import dashboard_of
from tests.dashboard.hands import button, in_a_loop, press_button, says
from tests.node.federation.linked import until
from tests.serving import serving, settings_with

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")

LETTERS = "/hanse/v1/dead-letters"
IMPATIENT = {"attempts_max": 1, "backoff_s": 0.01}
FIRST = "document.querySelector('[data-testid=letters] tbody tr .q-checkbox')"


def letters(node: SyncNodeClient) -> list[int]:
    return [letter["id"] for letter in node.request("GET", LETTERS).data]


def bury(node: SyncNodeClient, number: int) -> None:
    """Dead letters: nobody listens where they should go."""
    endpoint = {"uri": f"http://127.0.0.1:{free_port()}/"}
    subscription = {"id": "urn:ngsi-ld:Subscription:hot", "type": "Subscription", "entities": [{"type": "Room"}]}
    node.create_subscription(subscription | {"notification": {"endpoint": endpoint}})
    for i in range(number):
        node.upsert([{"id": f"urn:ngsi-ld:Room:{i}", "type": "Room", "name": {"type": "Property", "value": "<b>hall</b>"}}])
    until(lambda: len(letters(node)) == number, "letters have died")


@in_a_loop
async def test_dead_letters_are_looked_at_sent_again_and_dropped() -> None:
    settings = settings_with(notifications=IMPATIENT)
    with serving(settings) as url, hanse.connect_sync(url) as node, dashboard_of(url) as dashboard:
        bury(node, 2)
        first = letters(node)
        async with Browser(width=400) as page:
            await page.open(f"{dashboard}/health")
            await says(page, "worries", "has 2 dead letters; look at them below")
            await says(page, "letters", "urn:ngsi-ld:Subscription:hot", str(first[0]))
            await page.value(f"{FIRST}.click()")
            await press_button(page, "Show")
            await says(page, "letter", "urn:ngsi-ld:Room:0", "<b>hall</b>")
            await press_button(page, "Close")
            await press_button(page, "Send again")
            await says(page, "letters-said", "sent again: 1")
            until(lambda: len(letters(node)) == 2 and letters(node) != first, "the letter has died again")
            await press_button(page, "Look again")
            await says(page, "letters", str(letters(node)[-1]))
            await page.value("document.querySelector('[data-testid=letters] thead .q-checkbox').click()")
            await press_button(page, "Drop")
            await says(page, "letters-said", "dropped: 2")
            assert letters(node) == []
            await page.until(f"document.body.innerText.includes('This node has none') && !{button('Drop')}")
            assert await page.value("document.documentElement.scrollWidth <= innerWidth")
            assert page.errors == []
            assert [one for one in page.requested if not one.startswith((dashboard, "data:", "blob:"))] == []


@in_a_loop
async def test_every_node_has_numbers_that_move(smart_port: LocalFederation, dashboard: str) -> None:
    async with Browser() as page:
        await page.open(f"{dashboard}/health?node=port-a")
        await says(page, "nodes", *smart_port.nodes, "all together")
        await says(page, "bounds", "contexts cached")
        rows = "[...document.querySelectorAll('[data-testid=nodes] tbody tr')]"
        changes = f"{rows}.find(row => row.innerText.startsWith('port-a')).children[3]"
        with hanse.connect_sync(smart_port.url("port-a")) as node:
            number = 0
            while await page.value(f"parseFloat({changes}.innerText)") == 0:
                number += 1
                node.upsert([{"id": "urn:ngsi-ld:Gauge:1", "type": "Gauge", "level": {"type": "Property", "value": number}}])
                await page.value("new Promise(requestAnimationFrame)")
        points = "getElement(parseInt(document.querySelectorAll('.nicegui-echart')[1].id.slice(1))).options.series[0].data"
        await page.until(f"{points}.some(([, value]) => value > 0)")
        assert page.errors == []
        assert [one for one in page.requested if not one.startswith((dashboard, "data:", "blob:"))] == []
