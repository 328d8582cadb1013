"""A neighbour that lies: it has a good certificate of its own, its own zenoh session, and says what it likes to an honest node.

Whatever it says, clients of the honest node hear nothing of it, nothing of it is kept, the node counts it and lives on, and what is
honest still comes over the same link.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from queue import Empty, Queue
from typing import Any, Final

import msgspec
import pytest
from tests.federation.proxy import free_ports
from tests.node.federation.linked import receiver
from tests.serving import serving, settings_with

import hanse
from hanse.client import SyncNodeClient
from hanse.model import Notification, Selector, Subscription
from hanse.ngsild.query import EntityQuery
from hanse.node.federation import asking, wire
from hanse.node.federation.description import Description, read_file
from hanse.node.federation.identity import Identity, NotBelieved, Seal, make_community, make_node
from hanse.node.federation.knowledge import Knowledge
from hanse.node.federation.links import Links, packets
from hanse.node.federation.transport import Transport
from hanse.node.federation.wire import Envelope
from hanse.node.metrics import METRICS
from hanse.node.router import now_ms
from hanse.routing import messages as m
from hanse.routing.messages import Offer
from hanse.routing.state import own_id

WAIT_S: Final = 30.0
LOOK_S: Final = 0.02
COMMUNITIES: Final = {"honest": "good", "liar": "bad", "third": "good"}
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
[[links]]
between = ["liar", "honest"]
export = {{ types = ["Alert", "Vehicle"] }}
back = {{ deny_types = ["Secret"] }}
[[links]]
between = ["third", "honest"]
export = {{ deny_types = ["Secret"] }}
back = {{ deny_types = ["Secret"] }}
"""
# it is under no export rule, under one that lets it pass, and under one that does not
OPEN, RESTRICTED, FORBIDDEN = "Alert", "Vehicle", "Person"


class Honest:
    """The honest node, with one client who wants to hear of everything."""

    def __init__(self, folder: Path, file: Path, client: SyncNodeClient, got: Queue[Any]) -> None:
        self.folder, self.file, self.client, self.got = folder, file, client, got

    def used(self, bound: str) -> int:
        bounds = self.client.request("GET", "/hanse/v1/bounds").data
        return next(int(found["used"]) for found in bounds if found["name"] == bound)

    def offers(self) -> list[Any]:
        nodes = self.client.request("GET", "/hanse/v1/federation").data["nodes"]
        return [offer for node in nodes if node["id"] != "honest" for offer in node.get("offers", ())]

    def kept(self) -> tuple[Any, ...]:
        """All that a lie could have left behind."""
        entities = self.client.request("GET", "/ngsi-ld/v1/entities?local=true&limit=0&count=true").headers["NGSILD-Results-Count"]
        bounds = [self.used(name) for name in ("broker_subscriptions", "broker_clients", "broker_queries", "dead_letters")]
        return entities, bounds, self.offers()

    def told(self) -> int:
        """How many messages of others its brokers have handled."""
        with closing(sqlite3.connect(f"file:{self.folder / 'honest' / 'default.sqlite'}?mode=ro", uri=True)) as connection:
            (count,) = connection.execute("SELECT count(*) FROM broker_journal WHERE sender != ''").fetchone()
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
        yield Honest(folder, folder / "federation.toml", client, got)


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
        """Something that it may say, in the way of the strategy; gives its id."""
        notification = self.notification(type_, "honest")
        if self.strategy == "advertised":
            self.say(m.Delivery(notification, (own_id("all", "s"),), self.name))
        else:
            self.say(m.Event(notification, self.name) if type_ == OPEN else m.RestrictedEvent(notification, self.name))
        return notification.id

    async def until(self, holds: Callable[[], object], what: str) -> None:
        async with asyncio.timeout(WAIT_S):
            while not holds():
                self.links.tick(now_ms())
                self.flush()
                await asyncio.sleep(LOOK_S)  # there is nothing to wait for but the state of another node
        assert holds(), what

    async def acknowledged(self) -> None:
        await self.until(lambda: not self.links.waiting()["honest"], "everything has been taken")


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


def heard(honest: Honest) -> str:
    return str(honest.got.get(timeout=WAIT_S)["id"])


def nothing_heard(honest: Honest) -> None:
    with pytest.raises(Empty):
        honest.got.get_nowait()


def of_third(liar: Peer, type_: str = OPEN) -> Notification:
    return liar.notification(type_, "forged", "client of third")


def subscription(client: str) -> Subscription:
    return Subscription(id=own_id(client, "s"), client=client)


LIES: Final[dict[str, Callable[[Peer], Any]]] = {
    "an event in another's name": lambda liar: m.Event(of_third(liar), "third"),
    "an event in the node's own name": lambda liar: m.Event(of_third(liar), "honest"),
    "an event of nobody": lambda liar: m.Event(of_third(liar), "nobody"),
    "a restricted event in another's name": lambda liar: m.RestrictedEvent(of_third(liar, RESTRICTED), "third"),
    "a delivery in another's name": lambda liar: m.Delivery(of_third(liar), (own_id("all", "s"),), "third"),
    "a relayed event": lambda liar: m.Relay("third", ("honest",), m.Event(of_third(liar), "third")),
    "a relayed delivery": lambda liar: m.Relay("third", ("honest",), m.Delivery(of_third(liar), (own_id("all", "s"),), "third")),
    "a routed event": lambda liar: m.Routed("third", ("honest",), m.RestrictedEvent(of_third(liar, RESTRICTED), "third")),
    "a relay in a relay": lambda liar: m.Relay("liar", ("honest",), m.Relay("third", ("honest",), m.Event(of_third(liar), "third"))),
    "a forbidden event": lambda liar: m.Event(liar.notification(FORBIDDEN), "liar"),
    "a forbidden restricted event": lambda liar: m.RestrictedEvent(liar.notification(FORBIDDEN), "liar"),
    "a forbidden delivery": lambda liar: m.Delivery(liar.notification(FORBIDDEN), (own_id("all", "s"),), "liar"),
    "a forbidden delivery, forwarded": lambda liar: m.Delivery(
        liar.notification(FORBIDDEN), (own_id("all", "s"),), "liar", forwards=1
    ),
    "a forbidden second type": lambda liar: m.RestrictedEvent(
        Notification(id="two", publisher="client of liar", types=(OPEN, FORBIDDEN)), "liar"
    ),
    "something that waited": lambda liar: m.Waited("all", own_id("all", "s"), liar.notification(FORBIDDEN), "liar"),
    "a subscription in another's name": lambda _: m.PutSubscription(subscription("client of third"), "third", 1),
    "a subscription of nobody": lambda _: m.PutSubscription(subscription("client of nobody"), "nobody", 1),
    "a subscription with a version beyond all": lambda _: m.PutSubscription(subscription("client of liar"), "liar", 1 << 60),
    "an offer in another's name": lambda _: m.PutAdvertisement("third", Offer(OPEN)),
    "a forbidden offer": lambda _: m.PutAdvertisement("liar", Offer(FORBIDDEN)),
    "an offer taken away in another's name": lambda _: m.DropAdvertisement("third", Offer(OPEN)),
    "the place of another's client": lambda _: m.ClientLocation("all", None, 1 << 50, "honest"),
    "a question in another's name": lambda _: m.Ask(m.Query("q", "c"), "third"),
    "a hand-over with another's subscription": lambda _: m.Handover(
        "client of liar", 1, 1, known=True, subscriptions=((subscription("client of third"), 1, 1),)
    ),
    "a request of a client": lambda liar: m.Publish(liar.notification(OPEN)),
    "the end of a client": lambda _: m.Detach("all"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_changes_nothing(honest: Honest, lie: str) -> None:
    async def scenario() -> None:
        async with peer(honest) as liar:
            assert await asyncio.to_thread(_is_heard, honest, liar.honestly())
            await liar.acknowledged()
            kept, told, before = honest.kept(), honest.told(), refused("liar")
            liar.say(LIES[lie](liar))
            await liar.acknowledged()
            assert refused("liar") == before + 1, "it was not refused"
            assert honest.told() == told, "a broker was told"
            assert honest.kept() == kept, "something of it was kept"
            assert await asyncio.to_thread(_is_heard, honest, liar.honestly())
            assert await asyncio.to_thread(_is_heard, honest, liar.honestly())
            nothing_heard(honest)

    asyncio.run(scenario())


def _is_heard(honest: Honest, id_: str) -> bool:
    """The next thing that the client hears is this."""
    return heard(honest) == id_


RUBBISH: Final[dict[str, Callable[[Peer], None]]] = {
    "bytes for a packet": lambda liar: liar.transport.send("honest", os.urandom(99)),
    "no bytes at all": lambda liar: liar.transport.send("honest", b""),
    "bytes that were not enciphered": lambda liar: liar.transport.send("honest", wire.encode(wire.Frames(os.urandom(99)))),
    "bytes for frames": lambda liar: liar.throw(os.urandom(99)),
    "too many frames": lambda liar: liar.throw(wire.encode([wire.WireFrame(1, 0, 0, 0)] * (wire.FRAMES_MAX + 1))),
    "bytes for a message": lambda liar: liar.say_bytes(os.urandom(99)),
    "a message deep in itself": lambda liar: liar.say_bytes(b"\x93\x00\x01" + b"\x91" * 100_000),
    "a message that is too large": lambda liar: liar.say_bytes(bytes(wire.MESSAGE_BYTES_MAX + 1)),
    "an unknown plane": lambda liar: liar.say(m.Event(liar.notification(OPEN), "liar"), plane=7),
    "a plane counted from behind": lambda liar: liar.say(m.Event(liar.notification(OPEN), "liar"), plane=-1),
    "a plane far behind": lambda liar: liar.say(m.Event(liar.notification(OPEN), "liar"), plane=-7),
    "endless hops": lambda liar: liar.say(m.Event(liar.notification(OPEN), "liar"), hops=1 << 40),
    "hops below none": lambda liar: liar.say(m.Event(liar.notification(OPEN), "liar"), hops=-1),
}


@pytest.mark.parametrize("what", RUBBISH)
def test_rubbish_is_refused(honest: Honest, what: str) -> None:
    async def scenario() -> None:
        async with peer(honest) as liar:
            kept, told, before = honest.kept(), honest.told(), refused("liar")
            RUBBISH[what](liar)
            await liar.until(lambda: refused("liar") == before + 1, "it was not refused")
            await liar.acknowledged()
            assert (honest.kept(), honest.told()) == (kept, told)
            assert await asyncio.to_thread(_is_heard, honest, liar.honestly())
            assert await asyncio.to_thread(_is_heard, honest, liar.honestly())
            nothing_heard(honest)

    asyncio.run(scenario())
