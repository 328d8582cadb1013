"""The live page in a real browser: it shows what is there, follows what changes, and needs neither a mouse nor the internet."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.browser import CHROMIUM, Browser
from tests.serving import serving

import hanse

OUT = Path(__file__).parents[3] / "out"
PLACES = {"Crane:1": (9.935, 53.533), "Crane:2": (9.939, 53.534), "Ship:elbe": (9.928, 53.530)}


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
def test_the_page_follows_the_node() -> None:
    async def main(url: str) -> None:
        async with hanse.connect(url) as node, Browser() as page:
            for name, place in PLACES.items():
                await node.create(ship_or_crane(name, place))
            await page.open(url + "/")
            await page.until("document.querySelector('#state').textContent === 'live'")
            await page.until("document.querySelectorAll('.thing').length === 3")
            await page.until("document.querySelector('#entities').textContent === '3'")
            assert await page.value("document.querySelector('#legend').textContent.includes('Crane')")
            assert await page.value("new Set([...document.querySelectorAll('.thing')].map(d => d.getAttribute('cx'))).size") == 3

            # news: a change, a new thing with a nasty name, and one that goes
            await node.update("urn:ngsi-ld:Crane:1", {"load": 47})
            await page.until("document.querySelector('#list').textContent.includes('\"load\":47')")
            await node.create({"id": "urn:ngsi-ld:Buoy:x", "type": "Buoy", "note": "<img src=x onerror=alert(1)>"})
            await page.until("document.querySelector('#list').textContent.includes('onerror')")
            assert await page.value("document.images.length") == 0
            await node.delete("urn:ngsi-ld:Ship:elbe")
            await page.until("document.querySelectorAll('.thing').length === 2")
            await page.until("document.querySelector('#changes').textContent === '6'")
            assert await page.value("document.querySelectorAll('meter').length") > 0

            # the keyboard alone
            for _ in range(20):
                await page.press("Tab")
                if await page.value("document.activeElement.classList.contains('thing')"):
                    break
            await page.press("ArrowRight")
            await page.press("Enter")
            assert '"load": 2' in await page.value("document.querySelector('#shown').textContent")
            await node.update("urn:ngsi-ld:Crane:2", {"load": 33})
            await page.until("document.querySelector('#shown').textContent.includes('33')")

            colours = []
            for scheme in ("light", "dark"):
                await page.scheme(scheme)
                colours.append(await page.value("getComputedStyle(document.querySelector('#map')).backgroundColor"))
                await page.picture(OUT / f"live-{scheme}.png")
            assert colours[0] != colours[1]
            assert page.errors == []
            assert all(address.startswith((url, "about:", "data:")) for address in page.requested), page.requested

    with serving() as url:
        asyncio.run(main(url))


def ship_or_crane(name: str, place: tuple[float, float]) -> dict[str, object]:
    location = {"type": "GeoProperty", "value": {"type": "Point", "coordinates": place}}
    return {"id": f"urn:ngsi-ld:{name}", "type": name.partition(":")[0], "load": 2, "location": location}


def test_the_page_is_one_file_that_may_not_call_anybody() -> None:
    with serving() as url, hanse.connect_sync(url) as node:
        answer = node.request("GET", "/", headers={"Accept": "text/html"})
        page = answer.data.decode()
        assert "default-src 'none'" in {name.lower(): value for name, value in answer.headers.items()}["content-security-policy"]
        assert "https://" not in page
        assert page.count("http://") == page.count("http://www.w3.org/2000/svg") == 1
