"""An honest node, and a neighbour that speaks its language but need not be honest, with its own certificate and session."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from queue import Queue
from typing import Any, Final

import msgspec
import pytest

import hanse
from hanse.client import SyncNodeClient
from hanse.model import Notification
from hanse.model.ports import free_ports
from hanse.node.federation import wire
from hanse.node.federation.description import Description, read_file
from hanse.node.federation.identity import Identity, Seal, make_community, make_node
from hanse.node.federation.knowledge import Knowledge
from hanse.node.federation.links import Links, packets
from hanse.node.federation.transport import Transport
from hanse.node.federation.wire import Envelope
from hanse.node.metrics import METRICS
from hanse.node.router import now_ms
from hanse.routing import messages as m
from hanse.routing.state import own_id
from tests.receiving import receiver
from tests.serving import serving, settings_with

WAIT_S: Final = 30.0
LOOK_S: Final = 0.02
COMMUNITIES: Final = {"honest": "good", "liar": "bad", "third": "good", "behind": "good"}
DESCRIPTION: Final = """
[federation]
name = "lies"
strategy = "{strategy}"
[[nodes]]
id = "honest"
community = "good"
listen = "tls/127.0.0.1:{port}"
[[nodes]]
id = "liar"
community = "bad"
[[nodes]]
id = "third"
community = "good"
[[nodes]]
id = "behind"
community = "good"
[[links]]
between = ["liar", "behind"]
[[links]]
between = ["liar", "honest"]
export = {{ types = ["Alert", "Vehicle", "urn:x:Alert"] }}
back = {{ deny_types = ["Secret"] }}
[[links]]
between = ["third", "honest"]
export = {{ deny_types = ["Secret"] }}
back = {{ deny_types = ["Secret", "Vehicle"] }}
"""
# it is under no export rule, under one that lets it pass, and under one that does not
OPEN, RESTRICTED, FORBIDDEN = "Alert", "Vehicle", "Person"


class Honest:
    """The honest node, with one client who wants to hear of everything."""

    def __init__(self, folder: Path, client: SyncNodeClient, uri: str, got: Queue[Any]) -> None:
        self.folder, self.client, self.uri, self.got = folder, client, uri, got

    def used(self, bound: str) -> int:
        bounds = self.client.request("GET", "/hanse/v1/bounds").data
        return next(int(found["used"]) for found in bounds if found["name"] == bound)

    def offers(self) -> list[Any]:
        nodes = self.client.request("GET", "/hanse/v1/federation").data["nodes"]
        return [offer for node in nodes if node["id"] != "honest" for offer in node.get("offers", ())]

    def topology(self) -> Any:
        return self.client.request("GET", "/hanse/v1/federation/topology").data

    def knows(self, node: str) -> bool:
        """Whether it has got a record that the node has signed."""
        with closing(self._disk()) as disk:
            return (
                disk.execute("SELECT 1 FROM documents WHERE kind = 'federation-record' AND id = ?", (node,)).fetchone()
                is not None
            )

    def _disk(self) -> sqlite3.Connection:
        return sqlite3.connect(f"file:{self.folder / 'honest' / 'default.sqlite'}?mode=ro", uri=True)

    def kept(self) -> tuple[Any, ...]:
        """All that a lie could have left behind."""
        entities = self.client.request("GET", "/ngsi-ld/v1/entities?local=true&limit=0&count=true").headers[
            "NGSILD-Results-Count"
        ]
        bounds = [self.used(name) for name in ("broker_subscriptions", "broker_clients", "broker_queries", "dead_letters")]
        return entities, bounds, self.offers()

    def told(self) -> int:
        """How many messages of others its brokers have handled."""
        with closing(self._disk()) as disk:
            (count,) = disk.execute("SELECT count(*) FROM broker_journal WHERE sender != ''").fetchone()
        return int(count)


def refused(sender: str) -> int:
    return METRICS._counts["federation_refused", sender]


@contextmanager
def honest_node(folder: Path, strategy: str) -> Iterator[Honest]:
    certificates = folder / "certificates"
    if not certificates.exists():
        trusted = [make_community(name, certificates) for name in sorted(set(COMMUNITIES.values()))]
        (certificates / "trust.pem").write_bytes(b"".join(path.read_bytes() for path in trusted))
        for node, community in COMMUNITIES.items():
            make_node(node, community, certificates)
        (port,) = free_ports(1)
        (folder / "federation.toml").write_text(DESCRIPTION.format(strategy=strategy, port=port))
    settings = settings_with(
        node={"id": "honest", "community": "good"},
        store={"data": str(folder / "honest")},
        federation={
            "file": str(folder / "federation.toml"),
            "certificate": str(certificates / "honest.pem"),
            "key": str(certificates / "honest.key"),
            "trust": str(certificates / "trust.pem"),
        },
    )
    with receiver() as (uri, got), serving(settings) as url, hanse.connect_sync(url) as client:
        assert client.request("PUT", "/hanse/v1/clients/all", json={"endpoint": uri}).status == 204
        assert client.request("PUT", "/hanse/v1/clients/all/subscriptions/s", json={}).status == 204
        yield Honest(folder, client, uri, got)


@pytest.fixture(scope="module", params=["flood-events", "advertised"])
def honest(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Honest]:
    with honest_node(tmp_path_factory.mktemp("lies"), request.param) as node:
        yield node


class Peer:
    """What the honest node takes for a neighbour: all that one needs to speak the protocol, and nobody who minds its rules."""

    def __init__(self, folder: Path, name: str = "liar") -> None:
        certificates = folder / "certificates"
        described = Description(read_file(folder / "federation.toml"), name, folder)
        self.name = name
        self.strategy = described.terms.strategy
        self.identity = Identity(certificates / f"{name}.pem", certificates / f"{name}.key", certificates / "trust.pem")
        self.knowledge = Knowledge(name, described.terms, self.identity)
        self.record = msgspec.structs.replace(described.own(), version=now_ms(), certificate=self.identity.certificate.pem)
        self.transport = Transport(described.terms.federation, name, self._heard, lambda *_: None, lambda *_: None)
        self.address = next(record.listen[0] for record in described.records() if record.node == "honest")
        self.links = Links(lambda *_: None, lambda _: None)
        self.links.open(["honest"], now_ms())
        self.got: list[Envelope] = []
        self.sent: list[bytes] = []  # packets, as they left
        self.is_met = asyncio.Event()
        self.seal: Seal | None = None

    def _heard(self, sender: str, data: bytes) -> None:
        packet = wire.packet(data)
        if sender != "honest":
            return
        if isinstance(packet, wire.Frames):
            if self.seal is not None:
                frames = wire.frames(self.seal.open(packet.sealed))
                self.got += [wire.envelope(found) for found in self.links.receive("honest", frames, now_ms())]
                self.flush()
            return
        for signed in [packet.own] if isinstance(packet, wire.Hello) else packet.records:
            if wire.record(signed.record).node == "honest" and self.knowledge.take(signed, now_ms()) is not None:
                known = self.knowledge.get("honest")
                assert known is not None
                assert known.certificate is not None
                self.seal = Seal(self.name, "honest", self.identity.shared(known.certificate, b"frames"), time.time_ns())
                self.is_met.set()

    def introduce(self, record: wire.Record | None = None) -> None:
        self.transport.call(wire.encode(wire.Hello(self.knowledge.sign(record or self.record), {})))

    def say(self, message: Any, plane: int = 0, hops: int = 1) -> None:
        self.say_bytes(wire.encode(Envelope(plane, hops, message)))

    def say_bytes(self, data: bytes) -> None:
        self.links.send("honest", data, keep=False, now_ms=now_ms())
        self.flush()

    def flush(self) -> None:
        for frames in self.links.take().frames.values():
            for packet in packets(frames):
                self.throw(packet)

    def throw(self, inside: bytes) -> None:
        """These bytes in a packet that is enciphered as it should be."""
        assert self.seal is not None
        self.sent.append(wire.encode(wire.Frames(self.seal.close(inside))))
        self.transport.send("honest", self.sent[-1])

    def notification(self, type_: str, id_: str = "n", publisher: str = "") -> Notification:
        return Notification(id=f"{id_}{time.time_ns()}", publisher=publisher or f"client of {self.name}", types=(type_,))

    def honestly(self, type_: str = OPEN) -> str:
        """Something that it may say; gives its id."""
        notification = self.notification(type_, "honest")
        self.tell(notification, own_id("all", "s"))
        return notification.id

    def tell(self, notification: Notification, *subscriptions: str) -> None:
        """As an honest node would, in the way of the strategy."""
        if self.strategy == "advertised":
            self.say(m.Delivery(notification, subscriptions, self.name))
        elif notification.types == (RESTRICTED,):
            self.say(m.RestrictedEvent(notification, self.name))
        else:
            self.say(m.Event(notification, self.name))

    async def until(self, holds: Callable[[], object], what: str) -> None:
        async with asyncio.timeout(WAIT_S):
            while not holds():
                self.links.tick(now_ms())
                self.flush()
                await asyncio.sleep(LOOK_S)  # there is nothing to wait for but the state of another node
        assert holds(), what

    async def acknowledged(self) -> None:
        await self.until(lambda: not self.links.waiting()["honest"], "everything has been taken")


class Talk:
    """An honest node and a liar who is linked to it all the time, on an event loop of its own."""

    def __init__(self, honest: Honest, loop: asyncio.AbstractEventLoop, liar: Peer) -> None:
        self.honest, self.liar = honest, liar
        self._loop = loop

    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(scenario, self._loop).result(4 * WAIT_S)

    async def heard(self) -> Any:
        """What the client hears next."""
        await self.liar.until(lambda: not self.honest.got.empty(), "something is heard")
        return self.honest.got.get_nowait()

    async def goes_on(self) -> None:
        """What is honest still comes, and nothing before it."""
        for type_ in (OPEN, RESTRICTED):
            id_ = self.liar.honestly(type_)
            assert (await self.heard())["id"] == id_
        await self.liar.acknowledged()
        assert self.honest.got.empty()


@pytest.fixture(scope="module")
def talk(honest: Honest) -> Iterator[Talk]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def opened() -> tuple[Any, Peer]:
        opening = peer(honest)
        return opening, await opening.__aenter__()

    opening, liar = asyncio.run_coroutine_threadsafe(opened(), loop).result(WAIT_S)
    try:
        yield Talk(honest, loop, liar)
    finally:
        asyncio.run_coroutine_threadsafe(opening.__aexit__(None, None, None), loop).result(WAIT_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(WAIT_S)
        loop.close()


@asynccontextmanager
async def peer(honest: Honest, name: str = "liar") -> AsyncIterator[Peer]:
    found = Peer(honest.folder, name)
    await found.transport.open([], [found.address], found.identity.paths)
    try:
        async with asyncio.timeout(WAIT_S):
            while not found.is_met.is_set():
                found.introduce()
                await asyncio.sleep(0.1)
        yield found
    finally:
        await found.transport.close()
