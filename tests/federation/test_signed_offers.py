"""Advertisements are signed: a node that passes them on cannot make one up, change one, or bring back an old one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec
import pytest

from hanse.node.federation import wire
from hanse.node.federation.signing import Signing
from hanse.node.router import now_ms
from hanse.routing import messages as m
from hanse.routing.messages import Offer
from tests.federation.peer import FORBIDDEN, OPEN, RESTRICTED, Honest, Peer, honest_node, peer, refused


@pytest.fixture
def honest(tmp_path: Path) -> Iterator[Honest]:
    with honest_node(tmp_path, "advertised") as node:
        yield node


def signed(provider: Peer, offer: Offer, version: int, guarantees: tuple[str, ...] = ()) -> m.PutAdvertisement:
    """What a node tells of its own."""
    put = Signing(provider.knowledge, provider.identity).signed(m.PutAdvertisement(provider.name, offer, version, guarantees))
    assert isinstance(put, m.PutAdvertisement)
    return put


def introduce(liar: Peer, behind: Peer) -> None:
    """The node behind the liar says who it is, and the liar passes it on."""
    liar.transport.send("honest", wire.encode(wire.Records([behind.knowledge.sign(behind.record)])))


LIES: Final[dict[str, Callable[[m.PutAdvertisement, Peer], m.PutAdvertisement]]] = {
    "no signature": lambda put, _: msgspec.structs.replace(put, signature=b""),
    "a signature of the wrong length": lambda put, _: msgspec.structs.replace(put, signature=put.signature[:-1]),
    "the liar's signature": lambda put, liar: msgspec.structs.replace(
        signed(liar, put.offer, put.version, put.guarantees), provider=put.provider
    ),
    "another type": lambda put, _: msgspec.structs.replace(put, offer=Offer(RESTRICTED)),
    "another version": lambda put, _: msgspec.structs.replace(put, version=put.version + 1),
    "no guarantee": lambda put, _: msgspec.structs.replace(put, guarantees=()),
    "a better guarantee": lambda put, _: msgspec.structs.replace(put, guarantees=("precision>=99",)),
}


def test_only_the_provider_says_what_it_offers(honest: Honest) -> None:
    async def scenario() -> None:
        async with peer(honest) as liar:
            behind = Peer(honest.folder, "behind")
            introduce(liar, behind)
            await liar.until(lambda: honest.knows("behind"), "the record has come")
            first = signed(behind, Offer(OPEN), now_ms(), ("precision>=60",))
            for lie, told in LIES.items():
                before = refused("liar")
                liar.say(told(first, liar))
                await liar.until(lambda before=before: refused("liar") == before + 1, lie)  # type: ignore[misc]
                assert honest.offers() == [], lie
            liar.say(first)
            await liar.until(lambda: honest.offers() == [{"type": OPEN, "guarantees": ["precision>=60"]}], "it is believed")
            second = signed(behind, Offer(OPEN), first.version + 1)
            liar.say(second)
            await liar.until(lambda: honest.offers() == [{"type": OPEN}], "the newer one counts")
            liar.say(first)
            await liar.acknowledged()
            assert honest.offers() == [{"type": OPEN}]
            before = refused("liar")
            liar.say(signed(behind, Offer(FORBIDDEN), now_ms()))  # signed, but the link does not let it pass
            await liar.until(lambda: refused("liar") == before + 1, "a rule counts for what is signed, too")

    asyncio.run(scenario())


def test_an_offer_that_comes_before_its_provider_is_asked_for_again(honest: Honest) -> None:
    async def scenario() -> None:
        async with peer(honest) as liar:
            behind = Peer(honest.folder, "behind")
            put = signed(behind, Offer(OPEN), now_ms())
            before = refused("liar")
            liar.say(put)
            await liar.acknowledged()
            assert honest.offers() == []
            assert refused("liar") == before, "the liar may well be honest"
            liar.got.clear()
            introduce(liar, behind)
            await liar.until(
                lambda: any(isinstance(envelope.message, m.Resync) for envelope in liar.got), "all is to be compared"
            )
            liar.say(put)  # as an honest node does when it finds that the other does not have it
            await liar.until(lambda: honest.offers() == [{"type": OPEN}], "now it is believed")

    asyncio.run(scenario())
