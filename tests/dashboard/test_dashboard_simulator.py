"""The simulator's page in a real browser: who talks with whom, a run from start to advice, and one that is stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from hanse.dashboard.simulating import FOLDER
from hanse.routing import STRATEGIES
from tests.browser import CHROMIUM, Browser
from tests.dashboard.conftest import dashboard_of
from tests.dashboard.hands import at, choose, fill, in_a_loop, press_button, says, things_on_map
from tests.serving import serving

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")

COSTS = "[...document.querySelectorAll('[data-testid=costs] tbody tr')].map(r => r.children[0].innerText)"


async def touch(page: Browser, testid: str) -> None:
    """Where a finger would."""
    await page.value(f"{at(testid)}.scrollIntoView({{block: 'center'}})")
    x, y = await page.value(f"(box => [box.x + 20, box.y + 10])({at(testid)}.getBoundingClientRect())")
    for kind in ("mousePressed", "mouseReleased"):
        await page.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)


@pytest.mark.long
@in_a_loop
async def test_from_a_setup_to_advice(tmp_path: Path) -> None:
    with serving() as url, dashboard_of(url, "--folder", str(tmp_path)) as dashboard:
        async with Browser() as page:
            await page.open(f"{dashboard}/simulator")
            await says(page, "advice", "Run the simulation")
            await says(page, "says", "The brokers stand in a grid of 5 rows and 5 columns")
            await fill(page, "Brokers", "5")
            await says(page, "says", "The brokers stand in a grid of 2 rows and 3 columns")
            drawn = await things_on_map(page)
            assert len(drawn["nodes"]) == 5
            assert any("color" in link for link in drawn["links"])
            await choose(page, "shown-strategy", "dht")
            await says(page, "says", "Each topic or type is hashed to one broker")
            await says(page, "topics", "broker")
            await fill(page, "Clients", "30")
            await fill(page, "Simulated seconds", "60")
            await press_button(page, "Run")
            await says(page, "said", "Done: hiking on cities, 5 brokers, 30 clients, 60 s")
            await says(page, "advice", "suits this workload", "messages between brokers", "The others")
            assert set(await page.value(COSTS)) == set(STRATEGIES)
            assert await page.value("document.querySelectorAll('[data-testid=charts] canvas').length") == 4
            await fill(page, "95 of 100 within ms", "1")
            await says(page, "advice", "None of these keeps all that you ask for")
            kept = [file.name for file in (tmp_path / FOLDER).iterdir()]
            assert len(kept) == 1
            await fill(page, "Brokers", "50")
            await fill(page, "Clients", "9000")
            await fill(page, "Simulated seconds", "7000")
            await press_button(page, "Run")
            await says(page, "said", "Runs: hiking on cities, 50 brokers")
            await press_button(page, "Stop")
            await says(page, "said", "Stopped")
            await fill(page, "Brokers", "900")
            await press_button(page, "Run")
            await page.until("document.body.innerText.includes('take 1 to 200 brokers, not 900')")
            assert page.errors == []
            assert [one for one in page.requested if not one.startswith((dashboard, "data:", "blob:"))] == []
        async with Browser(width=400) as page:
            await page.open(f"{dashboard}/simulator")
            await says(page, "says", "The brokers stand in a grid")
            await touch(page, "earlier")
            option = f"[...document.querySelectorAll('.q-menu .q-item')].find(i => i.innerText === '{kept[0]}')"
            await page.until(f"!!{option}")
            await page.value(f"{option}.click()")
            await says(page, "said", "Kept: hiking on cities, 5 brokers")
            await says(page, "advice", "suits this workload")
            assert await page.value("document.documentElement.scrollWidth <= innerWidth")
            assert page.errors == []
