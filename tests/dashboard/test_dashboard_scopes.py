"""The page Scopes in a real browser: a border that is shut stops what crosses it at once; and a file that is made by hand."""

from __future__ import annotations

import pytest

import hanse
from hanse.node.federation.local import LocalFederation
from hanse.scopes import parse
from tests.browser import CHROMIUM, Browser
from tests.dashboard.hands import at, fill, in_a_loop, press_button, says
from tests.dashboard.mouse import pick

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")

SCOPES = "/hanse/v1/scopes"


def filters(federation: LocalFederation, node: str) -> set[tuple[str, str, str]]:
    with hanse.connect_sync(federation.url(node)) as client:
        found = client.request("GET", f"{SCOPES}/visibility").data
    return {(one["scope"], one["out"], one["into"]) for one in found}


@in_a_loop
async def test_shutting_a_border_stops_what_crosses_it_and_opening_lets_it_through(
    dashboard: str, smart_port: LocalFederation
) -> None:
    async with Browser() as page:
        await page.open(f"{dashboard}/scopes")
        await says(page, "borders", "quay-a in harbour", "everything leaves quay-a to harbour; everything comes in from there")
        await pick(page, "trial-border", "quay-a in harbour")
        await press_button(page, "Try once")
        await says(page, "trial", "out of quay-a: 1 of the last 1 arrived", "into quay-a: 1 of the last 1 arrived")
        await page.value(f"{at('switch-quay-a-harbour')}.click()")
        await says(page, "borders", "nothing leaves quay-a, and nothing comes in")
        assert ("quay-a", "false", "false") in filters(smart_port, "fire")  # all nodes know it
        await press_button(page, "Try once")
        await says(page, "trial", "out of quay-a: 1 of the last 2 arrived", "into quay-a: 1 of the last 2 arrived")
        await says(page, "trial", "quay-a is not visible to harbour: stopped at quay-a → harbour")
        await page.value(f"{at('switch-quay-a-harbour')}.click()")
        await says(page, "borders", "everything leaves quay-a to harbour; everything comes in from there")
        await press_button(page, "Try once")
        await says(page, "trial", "out of quay-a: 2 of the last 3 arrived", "into quay-a: 2 of the last 3 arrived")
        await press_button(page, "Filters between quay-a and harbour")
        await fill(page, "May leave quay-a", "public=")
        await press_button(page, "Set")
        await page.until("document.body.innerText.includes('visibility filter')")  # what is wrong with it, as the node says it
        await fill(page, "May leave quay-a", "public==true")
        await press_button(page, "Set")
        await says(page, "borders", "what has public==true leaves quay-a to harbour")
        await press_button(page, "Try once")  # what it says is public
        await says(page, "trial", "out of quay-a: 3 of the last 4 arrived")
        await page.value(f"{at('try-again')}.click()")  # by itself, from now on
        await says(page, "trial", "out of quay-a: 5 of the last 6 arrived")
        with hanse.connect_sync(smart_port.url("port")) as client:
            client.request("DELETE", f"{SCOPES}/visibility", params={"dimension": "area", "scope": "quay-a"})
        await says(page, "borders", "everything leaves quay-a to harbour")
        assert page.errors == []
        assert all(url.startswith((dashboard, "data:", "blob:")) for url in page.requested)


@in_a_loop
async def test_a_node_joins_a_scope_and_leaves_it(dashboard: str, smart_port: LocalFederation) -> None:
    async with Browser(width=400) as page:
        await page.open(f"{dashboard}/scopes")
        await pick(page, "join-node", "port-a")
        await pick(page, "join-scope", "quay-a")
        await press_button(page, "Join")
        await page.until("document.body.innerText.includes('port-a is in quay-a')")
        with hanse.connect_sync(smart_port.url("port-a")) as client:
            assert client.request("GET", SCOPES).data["joined"] == [{"dimension": "area", "scope": "quay-a"}]
        chip = f"[...{at('members')}.querySelectorAll('.q-chip')].find(chip => chip.innerText.includes('port-a'))"
        await page.until(f"!!{chip}")
        await page.value(f"{chip}.querySelector('.q-chip__icon--remove').click()")
        await page.until("document.body.innerText.includes('port-a is not in quay-a any more')")
        with hanse.connect_sync(smart_port.url("port-a")) as client:
            assert client.request("GET", SCOPES).data["joined"] == []
        assert await page.value("document.documentElement.scrollWidth <= innerWidth")
        assert page.errors == []


@in_a_loop
async def test_the_editor_leads_to_a_file_that_nodes_take(dashboard: str) -> None:
    async with Browser() as page:
        await page.open(f"{dashboard}/scopes")
        await page.until(f"!!{at('tab-editor')}")
        await page.value(f"{at('tab-editor')}.click()")
        await press_button(page, "Begin with nothing")
        await says(page, "editor-problem", "Add a viewpoint: a way to look at the system")
        await page.until(f"{at('editor-download')}.disabled")
        await press_button(page, "Add a viewpoint")
        await says(page, "editor-problem", "Give the viewpoint a name")
        await fill(page, "Viewpoint", "geography")
        await says(page, "editor-problem", "Add a dimension to the viewpoint 'geography'")
        await press_button(page, "Next")
        await press_button(page, "Add a dimension")
        await fill(page, "Dimension", "area")
        await says(page, "editor-problem", "Give the dimension 'area' scales")
        await press_button(page, "Next")
        scales = "[...document.querySelectorAll('input')].find(i => i.offsetParent && i.ariaLabel?.startsWith('Scales of area'))"
        for scale in ("city", "quarter"):
            await page.until(f"!!{scales}")
            await page.value(f"{scales}.focus()")
            await page.call("Input.insertText", text=scale)
            await page.press("Enter")
            await says(page, "editor-text", scale)
        await press_button(page, "Next")
        await press_button(page, "Add a scope")
        await fill(page, "Scope", "town")
        await says(page, "editor-problem", "This can be used: 1 scopes.")
        made = parse(str(await page.value(f"{at('editor-text')}.textContent")))
        assert made.dimension("area").scales == ("city", "quarter")
        assert made.scopes().graphs["area"].scopes() == ("town",)
        assert page.errors == []
