"""A node that opens its links again is found by everybody, and finds everybody."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from tests.node.federation.linked import WAIT_S

from hanse.model.ports import free_port
from hanse.node.federation.transport import Transport

LINKS = {"a": "bcd", "b": "cef", "c": "", "d": "", "e": "", "f": ""}  # a triangle, with two leaves each at two of its corners


class Wire:
    def __init__(self, node: str, ports: dict[str, int]) -> None:
        self.alive: set[str] = set()
        self.heard: set[str] = set()
        self.transport = Transport("test", node, lambda sender, _: self.heard.add(sender), lambda *_: None, self._seen)
        self._listen = [f"tcp/127.0.0.1:{ports[node]}"]
        self._connect = [f"tcp/127.0.0.1:{ports[other]}" for other in LINKS[node]]

    def _seen(self, node: str, is_there: bool) -> None:
        if is_there:
            self.alive.add(node)
        else:
            self.alive.discard(node)

    async def open(self) -> None:
        await self.transport.open(self._listen, self._connect, None)

    async def reopen(self) -> None:
        await self.transport.close()
        self.alive.clear()
        await self.open()


def test_everybody_finds_a_node_that_opens_its_links_again() -> None:
    async def scenario() -> None:
        ports = {node: free_port() for node in LINKS}
        wires = {node: Wire(node, ports) for node in LINKS}

        async def all_hear_each_other() -> None:
            for wire in wires.values():
                wire.heard.clear()
            async with asyncio.timeout(WAIT_S):
                while not all(wire.alive >= LINKS.keys() and wire.heard >= LINKS.keys() - {node} for node, wire in wires.items()):
                    for wire in wires.values():
                        for node in LINKS:
                            wire.transport.send(node, b"-")
                    await asyncio.sleep(0.05)

        async with AsyncExitStack() as stack:
            for wire in wires.values():
                await wire.open()
                stack.push_async_callback(wire.transport.close)
            await all_hear_each_other()
            for node in "abdb":
                await wires[node].reopen()
                await all_hear_each_other()

    asyncio.run(scenario())
