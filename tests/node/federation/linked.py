"""Two or more linked nodes in threads of this process, and someone who is told by HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.serving import serving, settings_with

import hanse
from hanse.client import SyncNodeClient
from hanse.model.ports import free_port

WAIT_S = 60.0
# a characterisation: a quarter of a town
TOWN = """
[[viewpoints]]
name = "place"
[[viewpoints.dimensions]]
name = "area"
scales = ["city", "quarter"]
[[viewpoints.dimensions.scopes]]
name = "town"
scale = "city"
[[viewpoints.dimensions.scopes]]
name = "harbour"
scale = "quarter"
parents = ["town"]
"""


def description(nodes: str, links: list[str], strategy: str = "advertised", more: str = "") -> str:
    """A file: one node for each letter; links like "ab", with the rules behind a space: "ab export = {...}"."""
    lines = ["[federation]", 'name = "test"', f'strategy = "{strategy}"', more]
    for i, node in enumerate(nodes):
        lines += [
            "[[nodes]]",
            f'id = "{node}"',
            f'community = "{node}s"',
            f'listen = "tcp/127.0.0.1:{free_port()}"',
            f"location = [{i}.0, 0.0]",
        ]
    for link in links:
        ends, _, rules = link.partition(" ")
        lines += ["[[links]]", f'between = ["{ends[0]}", "{ends[1]}"]', rules]
    return "\n".join(lines) + "\n"


@contextmanager
def linked(folder: Path, text: str, nodes: str) -> Iterator[dict[str, SyncNodeClient]]:
    """The nodes, all of which see each other."""
    file = folder / "federation.toml"
    file.write_text(text)
    with ExitStack() as stack:
        found = {node: stack.enter_context(running(folder, file, node)) for node in nodes}
        until(lambda: all(seen(client) >= set(nodes) for client in found.values()), "all see each other")
        yield found


@contextmanager
def running(folder: Path, file: Path, node: str) -> Iterator[SyncNodeClient]:
    settings = settings_with(node={"id": node}, federation={"file": str(file)}, store={"data": str(folder / node)})
    with serving(settings) as url, hanse.connect_sync(url) as client:
        yield client


def seen(client: SyncNodeClient) -> set[str]:
    answer = client.request("GET", "/hanse/v1/federation").data
    return {node["id"] for node in answer["nodes"] if node["reachable"]}


def until(holds: Callable[[], object], what: str) -> None:
    end = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.01)  # there is nothing to wait for but the state of another node
