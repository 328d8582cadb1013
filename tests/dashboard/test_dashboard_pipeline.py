"""The pipeline's page in a real browser: a pipeline's graph and streams, the quality that arrives, and the lake's tables."""

from __future__ import annotations

from pathlib import Path

import pytest

import hanse
from hanse.pipeline.state import Lock
from tests.browser import CHROMIUM, Browser
from tests.dashboard.conftest import dashboard_of
from tests.dashboard.hands import in_a_loop, says
from tests.dashboard.lake_of import pipeline_in, state_in, table_in
from tests.serving import serving

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")

RAW = [{"offset": i, "id": f"urn:station:{i}", "attributes": "<img src=x onerror=alert(1)>"} for i in range(3)]
DRAWN = "getElement(parseInt(document.querySelector('[data-testid=graph]').id.slice(1))).options.series[0]"


@in_a_loop
async def test_a_pipeline_and_its_lake(tmp_path: Path) -> None:
    table_in(tmp_path / "lake", "raw", {"2026-03-01": RAW})
    with serving() as url, hanse.connect_sync(url) as node:
        stated = {"type": "Property", "value": 41.0, "completeness": {"type": "Property", "value": 83}}
        node.create({"id": "urn:ngsi-ld:StreetAir:1", "type": "StreetAir", "no2": stated})
        file = pipeline_in(tmp_path, url)
        with Lock(state_in(tmp_path)), dashboard_of(url, "--pipeline", str(file)) as dashboard:
            async with Browser() as page:
                await page.open(f"{dashboard}/pipeline")
                await says(page, "pipeline", "air")
                await says(page, "streams", "capsule-by-street", "4 below the guarantee, 3 late", "17")
                await says(page, "troubles", "capsule-clean-streets: the node is away (begun again 2 times)")
                await says(page, "promises", "accuracy>=medium", "completeness>=50", "completeness 83")
                names = await page.value(f"{DRAWN}.data.map(n => n.name)")
                assert {"source", "capsule-by-street", "capsule-clean-streets", "sink", "lake-raw"} <= set(names)
                assert await page.value(f"{DRAWN}.links.length") == 7
                await says(page, "tables", "raw", "2026-03-01", "AirQualityObserved")
                await page.value("document.querySelector('[data-testid=tables] tbody .q-checkbox').click()")
                await says(page, "rows", "urn:station:2", "<img src=x onerror=alert(1)>")
                state_in(tmp_path, error="it is over", queries=[])
                await says(page, "troubles", "it is over")
                assert page.errors == []
                assert [one for one in page.requested if not one.startswith((dashboard, "data:", "blob:"))] == []
            async with Browser(width=400) as page:
                await page.open(f"{dashboard}/pipeline")
                await says(page, "promises", "StreetAir")
                assert await page.value("document.documentElement.scrollWidth <= innerWidth")


@in_a_loop
async def test_without_a_pipeline_it_says_how_to_start_one(dashboard: str) -> None:
    async with Browser() as page:
        await page.open(f"{dashboard}/pipeline")
        await page.until("document.body.innerText.includes('hanse pipeline run air.toml')")
        assert page.errors == []
