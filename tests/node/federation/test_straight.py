"""Nodes that are no neighbours talk past those in between, if they can reach each other; if not, from neighbour to neighbour."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path

from tests.node.federation.linked import WAIT_S, description, running, seen, until
from tests.receiving import receiver

from hanse.client import SyncNodeClient
from hanse.model.ports import free_port
from hanse.node.federation.transport import Transport


class End:
    """One end of the wires, which notes what it hears."""

    def __init__(self, node: str, straight: dict[str, str] | None = None) -> None:
        self.heard: list[bytes] = []
        addresses = {name: (address,) for name, address in (straight or {}).items()}
        self.transport = Transport(
            "test",
            node,
            lambda _, data: self.heard.append(data),
            lambda *_: None,
            lambda *_: None,
            lambda name: addresses.get(name, ()),
        )

    @asynccontextmanager
    async def open(self, port: int, *connect: int) -> AsyncIterator[Transport]:
        await self.transport.open([address(port)], [address(other) for other in connect], None)
        try:
            yield self.transport
        finally:
            await self.transport.close()


def address(port: int) -> str:
    return f"tcp/127.0.0.1:{port}"


async def tell(transport: Transport, end: End, what: bytes) -> None:
    """Send it until it is heard, as a link would."""
    async with asyncio.timeout(WAIT_S):
        while what not in end.heard:
            transport.send("c", what)
            await asyncio.sleep(0.05)


async def come_up(transport: Transport) -> None:
    async with asyncio.timeout(WAIT_S):
        while transport.straight != {"c"}:
            transport.send("c", b"-")
            await asyncio.sleep(0.05)


def test_nobody_in_between_is_needed() -> None:
    async def scenario() -> None:
        at_a, at_b, at_c = (free_port() for _ in range(3))
        a, b, c = End("a", {"c": address(at_c)}), End("b"), End("c")
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(b.open(at_b))
            first = await stack.enter_async_context(a.open(at_a, at_b))
            last = await stack.enter_async_context(c.open(at_c, at_b))
            await tell(first, c, b"1")
            await come_up(first)
            await b.transport.close()
            await tell(first, c, b"past b")
            await last.close()
            async with asyncio.timeout(WAIT_S):
                while first.straight:
                    first.send("c", b"nobody hears this")
                    await asyncio.sleep(0.05)

    asyncio.run(scenario())


def test_whoever_cannot_be_called_is_told_by_its_neighbour() -> None:
    async def scenario() -> None:
        at_a, at_b, at_c, nobody = (free_port() for _ in range(4))
        with socket.create_server(("127.0.0.1", 0)) as silent:
            for wrong in (nobody, silent.getsockname()[1]):
                a, b, c = End("a", {"c": address(wrong)}), End("b"), End("c")
                async with b.open(at_b), a.open(at_a, at_b) as first, c.open(at_c, at_b):
                    await tell(first, c, b"1")
                    await tell(first, c, b"2")
                    assert first.straight == set()

    asyncio.run(scenario())


def test_someone_else_at_the_address_does_no_harm() -> None:
    """The way leads to a node, but not to the one that is meant, which is not even there."""

    async def scenario() -> None:
        at_a, at_b, at_c, at_d = (free_port() for _ in range(4))
        a, b, c, d = End("a", {"c": address(at_d)}), End("b"), End("c"), End("d")
        async with b.open(at_b), a.open(at_a, at_b) as first, c.open(at_c, at_b), d.open(at_d):
            await tell(first, c, b"1")
            await asyncio.sleep(1)
            await tell(first, c, b"2")
            assert first.straight == set()
            assert d.heard == []

    asyncio.run(scenario())


def test_a_notification_comes_past_a_node_that_is_away(tmp_path: Path) -> None:
    file = tmp_path / "federation.toml"
    file.write_text(description("abc", ["ab", "bc"]))
    with ExitStack() as stack, receiver() as (uri, got):
        a, c = (stack.enter_context(running(tmp_path, file, node)) for node in "ac")
        with running(tmp_path, file, "b"):
            until(lambda: seen(a) >= {"c"} and seen(c) >= {"a"}, "all see each other")
            create(a, "urn:x:0")
            until(lambda: c.request("GET", "/ngsi-ld/v1/entities?type=Ship").data, "c finds it at a")
            wanted = {"type": "Subscription", "entities": [{"type": "Ship"}], "notification": {"endpoint": {"uri": uri}}}
            assert c.request("POST", "/ngsi-ld/v1/subscriptions", json=wanted).status == 201
            create(a, "urn:x:1")
            assert got.get(timeout=WAIT_S)["data"][0]["id"] == "urn:x:1"
            until(lambda: straight(a) == {"c"} and straight(c) == {"a"}, "there is a straight way")
        create(a, "urn:x:2")
        assert got.get(timeout=WAIT_S)["data"][0]["id"] == "urn:x:2"
        assert got.empty()


def create(client: SyncNodeClient, id_: str) -> None:
    ship = {"id": id_, "type": "Ship", "speed": {"type": "Property", "value": 1}}
    assert client.request("POST", "/ngsi-ld/v1/entities", json=ship).status == 201


def straight(client: SyncNodeClient) -> set[str]:
    return {node["id"] for node in client.request("GET", "/hanse/v1/federation").data["nodes"] if node.get("straight")}
