"""A neighbour that lies: it has a good certificate of its own, its own zenoh session, and says what it likes to an honest node.

Whatever it says, clients of the honest node hear nothing of it, nothing of it is kept, the node counts it and lives on, and
what is honest still comes over the same link.
"""

from __future__ import annotations

import asyncio
import os
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
from hanse.model import Notification, Subscription
from hanse.ngsild.query import EntityQuery
from hanse.node.federation import asking, wire
from hanse.node.federation.description import Description, read_file
from hanse.node.federation.identity import Identity, Seal, make_community, make_node
from hanse.node.federation.knowledge import Knowledge
from hanse.node.federation.links import Links, packets
from hanse.node.federation.transport import MESSAGE_BYTES_MAX, Transport
from hanse.node.federation.wire import Envelope
from hanse.node.metrics import METRICS
from hanse.node.router import now_ms
from hanse.routing import messages as m
from hanse.routing.messages import Offer
from hanse.routing.state import own_id
from tests.federation.proxy import free_ports
from tests.node.federation.linked import receiver
from tests.serving import serving, settings_with

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
back = {{ deny_types = ["Secret", "Vehicle"] }}
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
    "a relay in a relay": lambda liar: m.Relay(
        "liar", ("honest",), m.Relay("third", ("honest",), m.Event(of_third(liar), "third"))
    ),
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
def test_a_lie_changes_nothing(talk: Talk, lie: str) -> None:
    async def scenario() -> None:
        honest, liar = talk.honest, talk.liar
        await talk.goes_on()
        kept, told, before = honest.kept(), honest.told(), refused("liar")
        liar.say(LIES[lie](liar))
        await liar.acknowledged()
        assert refused("liar") == before + 1, "it was not refused"
        assert honest.told() == told, "a broker was told"
        assert honest.kept() == kept, "something of it was kept"
        await talk.goes_on()

    talk.run(scenario())


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
def test_rubbish_is_refused(talk: Talk, what: str) -> None:
    async def scenario() -> None:
        honest, liar = talk.honest, talk.liar
        kept, told, before = honest.kept(), honest.told(), refused("liar")
        RUBBISH[what](liar)
        await liar.until(lambda: refused("liar") == before + 1, "it was not refused")
        await liar.acknowledged()
        assert (honest.kept(), honest.told()) == (kept, told)
        await talk.goes_on()

    talk.run(scenario())


def test_more_than_a_wire_may_carry_is_not_looked_at(talk: Talk) -> None:
    async def scenario() -> None:
        told = talk.honest.told()
        talk.liar.transport.send("honest", bytes(MESSAGE_BYTES_MAX + 1))
        await talk.goes_on()
        assert talk.honest.told() == told + 2

    talk.run(scenario())


def test_a_packet_that_names_another_sender_is_not_believed(talk: Talk) -> None:
    async def scenario() -> None:
        honest, liar = talk.honest, talk.liar
        third = Peer(honest.folder, "third")  # which has spoken once, so that its key is known
        liar.transport.send("honest", wire.encode(wire.Records([third.knowledge.sign(third.record)])))
        await liar.until(lambda: honest.knows("third"), "the record of the third has been passed on")
        kept, told, before = honest.kept(), honest.told(), refused("third")
        assert liar.seal is not None
        frame = wire.WireFrame(now_ms(), 0, 1, 0, wire.encode(Envelope(0, 1, m.Event(of_third(liar), "third"))))
        for inside in (liar.seal.close(wire.encode([frame])), liar.sent[-1]):
            key = f"{liar.transport.prefix}/to/honest/third"
            await asyncio.to_thread(liar.transport._session.put, key, wire.encode(wire.Frames(inside)))
        await liar.until(lambda: refused("third") == before + 2, "they were not refused")
        assert (honest.kept(), honest.told()) == (kept, told)
        await talk.goes_on()

    talk.run(scenario())


def test_what_was_said_once_is_not_heard_again(talk: Talk) -> None:
    async def scenario() -> None:
        honest, liar = talk.honest, talk.liar
        await talk.goes_on()
        told, said = honest.told(), list(liar.sent)
        for packet in (*said, *reversed(said)):
            liar.transport.send("honest", packet)
        await talk.goes_on()
        assert honest.told() == told + 2

    talk.run(scenario())


def test_what_was_said_in_an_earlier_session_is_not_heard_again(talk: Talk) -> None:
    async def scenario() -> None:
        honest, liar = talk.honest, talk.liar
        said = list(liar.sent)
        liar.links = Links(lambda *_: None, lambda _: None)
        liar.links.open(["honest"], now_ms())
        await talk.goes_on()
        told = honest.told()
        for packet in said:
            liar.transport.send("honest", packet)
        await talk.goes_on()
        assert honest.told() == told + 2

    talk.run(scenario())


RECORDS: Final[dict[str, Callable[[Peer, Peer], wire.Signed]]] = {
    "another community": lambda liar, _: liar.knowledge.sign(_newer(liar.record, community="good")),
    "another node": lambda liar, third: liar.knowledge.sign(_newer(third.record)),
    "another node with an own certificate": lambda liar, third: liar.knowledge.sign(
        _newer(third.record, certificate=liar.record.certificate)
    ),
    "a node that there is not": lambda liar, _: liar.knowledge.sign(_newer(liar.record, node="fourth")),
    "the node itself": lambda liar, _: liar.knowledge.sign(_newer(liar.record, node="honest", left=True)),
    "other terms": lambda liar, _: liar.knowledge.sign(
        _newer(liar.record, terms=msgspec.structs.replace(liar.record.terms, strategy="dht"))
    ),
    "the far future": lambda liar, _: liar.knowledge.sign(msgspec.structs.replace(liar.record, version=1 << 60)),
    "a signature of something else": lambda liar, _: wire.Signed(wire.encode(_newer(liar.record)), liar.identity.sign(b"else")),
}


def _newer(record: wire.Record, **changes: Any) -> wire.Record:
    return msgspec.structs.replace(record, version=now_ms(), **changes)


@pytest.mark.parametrize("what", RECORDS)
def test_a_forged_record_is_not_believed(talk: Talk, what: str) -> None:
    async def scenario() -> None:
        honest, liar = talk.honest, talk.liar
        forged = RECORDS[what](liar, Peer(honest.folder, "third"))
        named = wire.record(forged.record).node
        shown, kept, before = honest.topology(), honest.kept(), refused(named)
        liar.transport.send("honest", wire.encode(wire.Records([forged])))
        liar.transport.call(wire.encode(wire.Hello(forged, {})))
        await liar.until(lambda: refused(named) == before + 2, "it was not refused")
        assert (honest.topology(), honest.kept()) == (shown, kept)
        await talk.goes_on()

    talk.run(scenario())


def test_who_asks_is_shown_what_export_rules_let_it_see(talk: Talk) -> None:
    """By subscribing to everything, by asking for everything, and by asking in the name of another."""
    ids = {name: f"urn:ngsi-ld:{name}:{time.time_ns()}" for name in ("Secret", "Alert")}

    async def scenario() -> None:
        honest, liar = talk.honest, talk.liar
        await talk.goes_on()
        if liar.strategy == "advertised":
            liar.say(m.PutSubscription(subscription("client of liar"), "liar", now_ms()))
            await liar.acknowledged()
        for name, id_ in ids.items():
            assert honest.client.request("POST", "/ngsi-ld/v1/entities", json={"id": id_, "type": name}).status == 201
        assert {(await talk.heard())["entity"] for _ in ids} == set(ids.values())
        await liar.until(lambda: any(ids["Alert"] in str(envelope) for envelope in liar.got), "what it may see has come")
        await talk.goes_on()
        assert not any("Secret" in str(envelope) for envelope in liar.got)
        assert liar.seal is not None
        for question in (asking.WantEntities(EntityQuery(limit=1000)), *(asking.WantEntity(id_) for id_ in ids.values())):
            answer = await liar.transport.ask("honest", liar.seal.close(msgspec.msgpack.encode(question)))
            assert answer is not None
            found = msgspec.msgpack.decode(liar.seal.open(answer), type=asking.Answer)
            assert isinstance(found, asking.Entities)
            assert [e.id for e in found.entities] == ([] if question == asking.WantEntity(ids["Secret"]) else [ids["Alert"]])
        before = refused("third")
        forging = Peer(honest.folder, "third").transport
        forging._session = liar.transport._session
        assert await forging.ask("honest", liar.seal.close(msgspec.msgpack.encode(question))) == b""
        assert refused("third") == before + 1
        for id_ in ids.values():
            assert honest.client.request("DELETE", f"/ngsi-ld/v1/entities/{id_}").status == 204
            assert (await talk.heard())["entity"] == id_
        if liar.strategy == "advertised":
            liar.say(m.DropSubscription(subscription("client of liar").id, now_ms()))
        await talk.goes_on()

    talk.run(scenario())


def test_what_was_said_is_not_heard_again_after_a_restart(tmp_path: Path) -> None:
    said: list[bytes] = []

    async def before(honest: Honest) -> None:
        async with peer(honest) as liar:
            ids = [liar.honestly(), liar.honestly(RESTRICTED)]
            assert [honest.got.get(timeout=WAIT_S)["id"] for _ in ids] == ids
            await liar.acknowledged()
            said.extend(liar.sent)

    async def after(honest: Honest) -> None:
        async with peer(honest) as liar:
            for packet in said:
                liar.transport.send("honest", packet)
            id_ = liar.honestly()
            await liar.acknowledged()
            assert honest.got.get(timeout=WAIT_S)["id"] == id_
            assert honest.got.empty()
            assert honest.told() == 1

    for scenario in (before, after):
        with honest_node(tmp_path, "flood-events") as honest:
            asyncio.run(scenario(honest))
