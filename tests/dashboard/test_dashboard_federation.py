"""The page Federation in a real browser: what is linked, what a change would mean, and changes that nodes really make."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import hanse
from hanse.dashboard.mosquitto import read_files
from hanse.dashboard.topology import difference, from_plain
from hanse.model.ports import free_port
from hanse.node.federation.local import LocalFederation
from tests.browser import CHROMIUM, WAIT_S, Browser
from tests.dashboard.conftest import dashboard_of
from tests.dashboard.hands import at, fill, in_a_loop, press_button, says
from tests.dashboard.mouse import pick
from tests.node.federation.linked import TOWN, description, running, until

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")

API = "/hanse/v1/federation"
DRAWN = f"getElement(parseInt({at('federation-graph')}.id.slice(1))).options.series[0]"


def link_at(federation: LocalFederation, node: str, *ends: str) -> dict[str, Any] | None:
    with hanse.connect_sync(federation.url(node)) as client:
        links = client.request("GET", API).data["links"]
    return next((link for link in links if set(link["between"]) == set(ends)), None)


def unlink(federation: LocalFederation, a: str, b: str) -> None:
    for here, other in ((a, b), (b, a)):
        with hanse.connect_sync(federation.url(here)) as client:
            client.request("DELETE", f"{API}/links/{other}")
    until(lambda: all(link_at(federation, node, a, b) is None for node in federation.nodes), "all nodes have heard of it")


async def picture(page: Browser) -> dict[str, Any]:
    """What the graph was given to draw."""
    return dict(await page.value(f"JSON.parse(JSON.stringify({DRAWN}))"))


@in_a_loop
async def test_nodes_and_links_are_shown_with_their_rules_and_counts(dashboard: str) -> None:
    async with Browser() as page:
        await page.open(f"{dashboard}/federation?node=port")
        await says(page, "federation-details", "of port-authority; answers", "to fire: Only Building, BuildingFloor")
        drawn = await picture(page)
        assert (len(drawn["data"]), len(drawn["links"])) == (7, 7)
        await pick(page, "choice", "bus – fire")
        await says(page, "federation-details", "From bus to fire", "Only Alert and Vehicle may cross.", "sent,", "waiting")
        assert page.errors == []
        assert all(url.startswith((dashboard, "data:", "blob:")) for url in page.requested)


@in_a_loop
async def test_a_link_is_explained_made_changed_and_removed(dashboard: str, smart_port: LocalFederation) -> None:
    async with Browser() as page:
        await page.open(f"{dashboard}/federation")
        await press_button(page, "Add a link")
        await pick(page, "link-from", "bus-transport")
        await pick(page, "link-to", "fire")
        await says(
            page,
            "concerns",
            "It closes a ring: bus-transport – bus – fire – bus-transport",
            "would reach fire, which export rules",
        )
        await says(page, "there-words", "Everything crosses.")
        await pick(page, "link-to", "bus-buildings")
        await says(page, "concerns", "It closes a ring: bus-transport – bus – bus-buildings – bus-transport.")
        await page.until(f"!({at('concerns')}.innerText.includes('would reach fire'))")
        await fill(page, "Only of this quality", "room.precision>=4")
        await says(page, "there-words", "is of an attribute")
        await page.until(f"{at('make-link')}.disabled")
        await fill(page, "Only of this quality", "precision>=40")
        await says(page, "there-words", "Only what has a quality of precision>=40 as a whole crosses.")
        await press_button(page, "Link them")
        await page.until("document.body.innerText.includes('bus-transport and bus-buildings are linked')")
        made = link_at(smart_port, "bus", "bus-transport", "bus-buildings")
        assert made is not None
        assert made["agreed"]
        assert {"quality": "precision>=40"} in (made["export"], made["back"])

        await pick(page, "choice", "bus-buildings – bus-transport")
        await press_button(page, "Export rules")
        await page.until(f"!!{at('there-deny')}")
        await page.value(f"{at('there-deny')}.click()")
        await says(page, "there-words", "Nothing crosses.")
        await press_button(page, "Set the rules")
        await page.until("document.body.innerText.includes('are set')")
        changed = link_at(smart_port, "bus-buildings", "bus-transport", "bus-buildings")
        assert changed is not None
        assert changed["export"] == {"deny": True}

        await page.until("!document.querySelector('.q-dialog')")
        await says(page, "federation-details", "Nothing crosses.")
        await press_button(page, "Remove")
        await says(page, "concerns", "still have a way to each other: bus-buildings – bus – bus-transport")
        await press_button(page, "Remove it")
        await page.until("document.body.innerText.includes('are not linked any more')")
        assert link_at(smart_port, "bus-transport", "bus-transport", "bus-buildings") is None
        assert page.errors == []


@in_a_loop
async def test_a_topology_is_brought_and_done(dashboard: str, smart_port: LocalFederation) -> None:
    """The file has one link more than there is: it is told, and made."""
    with hanse.connect_sync(smart_port.url("port")) as client:
        known = client.request("GET", f"{API}/topology").data
    known["links"].append({"between": ["port-a", "port-b"], "export": {"types": ["Room"]}, "back": {}})
    known["nodes"].append({"id": "ferry", "community": "ferries", "location": [25, 35]})
    async with Browser() as page:
        await page.open(f"{dashboard}/federation")
        await page.until("!!document.querySelector('.q-uploader input[type=file]')")
        await _bring(page, "topology.json", json.dumps(known))
        await says(
            page, "import", "It has 8 nodes and 8 links.", "Start the node ferry of ferries", "Link port-a and port-b", "a ring"
        )
        await press_button(page, "Do what can be done now (1)")
        await says(page, "import", "Link port-a and port-b: done")
        made = link_at(smart_port, "port-b", "port-a", "port-b")
        assert made is not None
        assert made["agreed"]
        assert made["export"] == {"types": ["Room"]}
        await _bring(page, "broken.toml", "nodes = 7")
        await says(page, "import", "broken.toml: it names no nodes")
        assert page.errors == []
    unlink(smart_port, "port-a", "port-b")


@in_a_loop
async def test_a_link_that_one_end_wants_is_wanted_by_the_other_too(dashboard: str, smart_port: LocalFederation) -> None:
    with hanse.connect_sync(smart_port.url("port-a")) as client:
        client.request("POST", f"{API}/links", json={"node": "port-b", "export": {"types": ["Room"]}})
    async with Browser() as page:
        await page.open(f"{dashboard}/federation")
        await pick(page, "choice", "port-a – port-b")
        await says(page, "federation-details", "Only Room may cross.", "This end does not want the link: nothing crosses.")
        await press_button(page, "Let both want it")
        await page.until("document.body.innerText.includes('port-a and port-b are linked')")
        made = link_at(smart_port, "port", "port-a", "port-b")
        assert made is not None
        assert (made["agreed"], made["export"], made["back"]) == (True, {"types": ["Room"]}, {})
        assert page.errors == []
    unlink(smart_port, "port-a", "port-b")


@in_a_loop
async def test_what_is_taken_along_is_the_same_federation_in_every_form(
    dashboard: str, smart_port: LocalFederation, tmp_path: Path
) -> None:
    with hanse.connect_sync(smart_port.url("port")) as client:
        known = from_plain(client.request("GET", f"{API}/topology").data)
    async with Browser() as page:
        await page.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
        await page.open(f"{dashboard}/federation?node=port")
        await says(page, "federation-details", "of port-authority; answers")
        await page.until(f"{DRAWN}.links.length === {len(known.links)}")
        for form in ("JSON", "TOML", "Mosquitto"):
            await press_button(page, form)
        files = [tmp_path / name for name in ("topology.json", "federation.toml", "mosquitto.zip")]
        await _there(page, files)
        assert page.errors == []
    for file in files[:2]:
        assert not difference(known, read_files({file.name: file.read_text()}))
    with zipfile.ZipFile(files[2]) as archive:
        bridges = {name: archive.read(name).decode() for name in archive.namelist()}
    assert len(bridges) == 7
    assert not difference(known, read_files(bridges))


async def _there(page: Browser, files: list[Path]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not all(file.exists() for file in files):  # a file is all that a download leaves
            await page.value("new Promise(requestAnimationFrame)")


@pytest.mark.long
@in_a_loop
async def test_a_node_that_is_started_as_the_page_says_joins(tmp_path: Path) -> None:
    """In a federation of its own: nodes that have been there are remembered."""
    (tmp_path / "scopes.toml").write_text(TOWN)
    file = tmp_path / "federation.toml"
    file.write_text(description("a", [], more='characterisation = "scopes.toml"'))
    with running(tmp_path, file, "a") as first, dashboard_of(first.url) as url:
        async with Browser(width=400) as page:
            await page.open(f"{url}/federation")
            await press_button(page, "Add a node")
            await pick(page, "node-to", "a")
            await fill(page, "Its id", "a")
            await page.until("document.body.innerText.includes(\"there is a node 'a' already\")")
            await fill(page, "Its id", "ferry")
            await fill(page, "Its community", "ferries")
            await fill(page, "HTTP at", f"127.0.0.1:{(port := free_port())}")
            await fill(page, "Links come in at", f"tcp/127.0.0.1:{free_port()}")
            await says(page, "node-command", "hanse serve --config ferry.toml")
            assert await page.value("document.documentElement.scrollWidth <= innerWidth")
            await says(page, "node-text", f"port = {port}", 'node = "a"', 'characterisation = "scopes.toml"')
            text = str(await page.value(f"{at('node-text')}.textContent"))
            await press_button(page, "Let it join")
            await page.until("document.body.innerText.includes('a waits for ferry')")
            (tmp_path / "ferry.toml").write_text(text)
            command = [sys.executable, "-m", "hanse", "serve", "--config", "ferry.toml"]
            with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:  # noqa: ASYNC220
                try:
                    await press_button(page, "Close")
                    await page.until("document.body.innerText.includes('ferries')")
                    await pick(page, "choice", "a – ferry")
                    await says(page, "federation-details", "From ferry to a", "Everything crosses.")
                finally:
                    process.terminate()
            assert page.errors == []


async def _bring(page: Browser, name: str, text: str) -> None:
    await page.value(
        f"(() => {{ const files = new DataTransfer(); files.items.add(new File([{json.dumps(text)}], {json.dumps(name)}));"
        "const field = document.querySelector('.q-uploader input[type=file]'); field.files = files.files;"
        "field.dispatchEvent(new Event('change', {bubbles: true})) })()"
    )
