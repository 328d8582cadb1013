"""A neighbour that lies: it has a good certificate of its own, its own zenoh session, and says what it likes to an honest node.

Whatever it says, clients of the honest node hear nothing of it, nothing of it is kept, the node counts it and lives on, and
what is honest still comes over the same link.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from hanse.model import Notification, Subscription
from hanse.ngsild.contexts import CORE
from hanse.ngsild.entity import now_text
from hanse.ngsild.operations import create
from hanse.ngsild.parsing import parse_entity
from hanse.ngsild.query import EntityQuery
from hanse.node.federation import asking, wire
from hanse.node.federation.links import Links
from hanse.node.federation.transport import MESSAGE_BYTES_MAX
from hanse.node.federation.wire import Envelope
from hanse.node.router import now_ms
from hanse.routing import messages as m
from hanse.routing.messages import Offer
from hanse.routing.state import own_id
from tests.federation.peer import (
    FORBIDDEN,
    OPEN,
    RESTRICTED,
    WAIT_S,
    Honest,
    Peer,
    Talk,
    honest,
    honest_node,
    peer,
    refused,
    talk,
)
from tests.telling import notification_of

__all__ = ["honest", "talk"]  # fixtures


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
    "the hand-over of a node's own client": lambda _: m.HandoverRequest("ngsi-ld/urn:s:1@honest", "liar", now_ms()),
    "a node's own client, handed over": lambda _: m.Handover("ngsi-ld/urn:s:1@honest", 1, 1, known=True),
    "a subscription for another node's own client": lambda _: m.PutSubscription(
        subscription("ngsi-ld/urn:s:1@honest"), "liar", now_ms()
    ),
    "an event of another's entity": lambda liar: m.Event(liar.notification(OPEN, publisher="urn:hanse:node:third"), "liar"),
    "a delivery of another's entity": lambda liar: m.Delivery(
        liar.notification(OPEN, publisher="urn:hanse:node:honest"), (own_id("all", "s"),), "liar"
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


def test_only_nodes_tell_of_entities(talk: Talk) -> None:
    """A client may write what it likes into a notification: for those who follow entities it is none of an entity."""

    async def scenario() -> None:
        honest, liar = talk.honest, talk.liar
        id_ = "urn:s:entities"
        body: dict[str, Any] = {"id": id_, "type": "Subscription", "entities": [{"type": "urn:x:Alert"}]}
        body |= {"notification": {"endpoint": {"uri": honest.uri}}}
        assert honest.client.request("POST", "/ngsi-ld/v1/subscriptions", json=body).status == 201
        entity = parse_entity(
            {"id": "urn:alert:1", "type": "urn:x:Alert", "level": {"type": "Property", "value": 1}}, CORE, now_text()
        )
        for publisher in ("client of liar", "urn:hanse:node:liar"):
            said = notification_of(create(entity, now_text()), id_=f"n{time.time_ns()}", publisher=publisher, location=None)
            liar.tell(said, own_id("all", "s"), own_id(f"ngsi-ld/{id_}@honest", id_))
        heard = [await talk.heard() for _ in range(3)]
        assert [letter.get("publisher", "-") for letter in heard if "publisher" in letter] == [
            "client of liar",
            "urn:hanse:node:liar",
        ]
        assert [letter["subscriptionId"] for letter in heard if "publisher" not in letter] == [id_]
        assert honest.client.request("DELETE", f"/ngsi-ld/v1/subscriptions/{id_}").status == 204
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
