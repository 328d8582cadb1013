"""The map in a real browser: areas, geofences and clients are drawn where they are, clients move, and switches hide them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import hanse
from hanse.client.sync import SyncNodeClient
from hanse.dashboard.map import COLORS
from hanse.node.federation.local import LocalFederation
from tests.browser import CHROMIUM, Browser
from tests.dashboard.hands import at, in_a_loop, things_on_map

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")

PORT_AUTHORITY = COLORS[2]  # the third of three communities, by name
WALKER = (25.1550, 35.3400)
THERE = (25.1570, 35.3410)
FENCE = [[25.1540, 35.3390], [25.1580, 35.3390], [25.1580, 35.3420], [25.1540, 35.3420], [25.1540, 35.3390]]
BAY = [[25.1250, 35.3440], [25.1280, 35.3440], [25.1280, 35.3470], [25.1250, 35.3470], [25.1250, 35.3440]]
MAP = "getElement(parseInt(document.querySelector('.hanse-map').id.slice(1)))"


@contextmanager
def walker(node: SyncNodeClient) -> Iterator[None]:
    """A client that listens to what is around it, and a subscription to what is in the bay."""
    wish = {"id": "urn:ngsi-ld:Subscription:bay", "type": "Subscription", "subscriptionName": "boats in the bay"}
    within = {"georel": "within", "geometry": "Polygon", "coordinates": [BAY]}
    stream = {"endpoint": {"uri": "urn:hanse:stream"}}
    node.request("PUT", "/hanse/v1/clients/walker", json={"location": place(WALKER)})
    node.request("PUT", "/hanse/v1/clients/walker/subscriptions/near", json={"geofence": polygon(FENCE)})
    node.create_subscription(wish | {"entities": [{"type": "Boat"}], "geoQ": within, "notification": stream})
    try:
        yield
    finally:
        node.request("DELETE", "/hanse/v1/clients/walker")
        node.request("DELETE", f"/ngsi-ld/v1/subscriptions/{wish['id']}")


def place(at_: tuple[float, float]) -> dict[str, float]:
    return {"lon": at_[0], "lat": at_[1]}


def polygon(ring: list[list[float]]) -> dict[str, Any]:
    return {"type": "Polygon", "coordinates": [ring]}


def color_at(lon: float, lat: float) -> str:
    """Of the pixel at a place, in the page."""
    return f"""(() => {{ const m = {MAP}, [x, y] = m.at({lon}, {lat}), r = window.devicePixelRatio || 1;
        const p = document.querySelector('.hanse-map canvas').getContext('2d').getImageData(x * r, y * r, 1, 1).data;
        return '#' + [...p].slice(0, 3).map(v => v.toString(16).padStart(2, '0')).join('') }})()"""


async def turn(page: Browser, layer: str) -> None:
    """As somebody does who has no mouse."""
    await page.value(f"{at(f'layer-{layer}')}.focus()")
    await page.press("Enter")


@in_a_loop
async def test_areas_geofences_and_clients_are_where_they_are(smart_port: LocalFederation, dashboard: str) -> None:
    with hanse.connect_sync(smart_port.url("port-a")) as node, walker(node):
        async with Browser() as page:
            await page.open(f"{dashboard}/map")
            await page.until(f"({MAP}?.things?.clients || []).some(c => c.id === 'walker')")
            drawn = await things_on_map(page)
            assert [(one["lon"], one["lat"]) for one in drawn["clients"] if one["id"] == "walker"] == [WALKER]
            fences = {one["name"]: one["rings"] for one in drawn["fences"]}
            assert (fences["near of walker"], fences["boats in the bay"]) == ([FENCE], [BAY])
            areas = {one["id"]: one for one in drawn["areas"]}
            assert areas["port-b"]["inferred"] is False
            assert areas["port-b"]["rings"][0][0] == [25.1469, 35.3455]  # as the description of the federation has it
            await page.until(f"{color_at(*WALKER)} === {json.dumps(PORT_AUTHORITY)}")

            node.request("PUT", "/hanse/v1/clients/walker/location", json=place(THERE))
            await page.until(f"{color_at(*THERE)} === {json.dumps(PORT_AUTHORITY)}")
            assert await page.value(color_at(*WALKER)) != PORT_AUTHORITY

            node.request("POST", "/hanse/v1/clients/walker/notifications", json={"topic": "gulls", "geofence": polygon(FENCE)})
            await page.until(f"{MAP}.things.messages.some(m => m.name === 'gulls')")
            assert (await things_on_map(page))["messages"][0]["rings"] == [FENCE]
            await page.until(f"{MAP}.things.messages.length === 0")
            assert page.errors == []
            assert [one for one in page.requested if not one.startswith((dashboard, "data:", "blob:"))] == []


@in_a_loop
async def test_a_switch_hides_its_layer(smart_port: LocalFederation, dashboard: str) -> None:
    bay, quay = (25.1265, 35.3455), (25.1500, 35.3476)
    with hanse.connect_sync(smart_port.url("port-a")) as node, walker(node):
        async with Browser(width=400) as page:
            await page.open(f"{dashboard}/map")
            await page.until(f"{color_at(*WALKER)} === {json.dumps(PORT_AUTHORITY)}")
            for layer, kind, somewhere in (("clients", "clients", WALKER), ("fences", "fences", bay), ("areas", "areas", quay)):
                switch = at(f"layer-{layer}")
                assert await page.value(f"[{switch}.role, {switch}.ariaChecked, {switch}.tabIndex]") == ["switch", "true", 0]
                before = await page.value(color_at(*somewhere))
                await turn(page, layer)
                await page.until(f"{MAP}.things.{kind}.length === 0")
                await page.until(f"{color_at(*somewhere)} !== {json.dumps(before)}")
                assert await page.value(f"{switch}.ariaChecked") == "false"
                await turn(page, layer)
                await page.until(f"{color_at(*somewhere)} === {json.dumps(before)}")
            label = await page.value("document.querySelector('.hanse-map canvas').ariaLabel")
            assert "7 nodes" in label
            assert "1 clients" in label
            assert await page.value("document.documentElement.scrollWidth <= innerWidth")
            assert page.errors == []
