"""The part of an agent that all have in common, against a real node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

import pytest
from tests.agents.gate import gate
from tests.agents.waiting import WAIT_S, until
from tests.serving import serving

import hanse
from hanse.agents import Agent, Gone, PlatformAway, Received
from hanse.agents.forms import prop
from hanse.client import NgsiLdClientError, NodeClient
from hanse.model import InvalidInput


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving() as found:
        yield found


def room(number: int, **attributes: Any) -> dict[str, Any]:
    return {"id": f"urn:ngsi-ld:Room:{number}", "type": "Room", **{name: prop(value) for name, value in attributes.items()}}


class Script(Agent):
    """Receives what it is given; an exception is raised, text is refused. Stays there for more, if it is told to."""

    backoff_s = 0.01
    stop_s = 0.2

    def __init__(self, *items: Any, stay: bool = False) -> None:
        super().__init__()
        self.items: asyncio.Queue[Any] = asyncio.Queue()
        for item in items:
            self.items.put_nowait(item)
        self.stay = stay
        self.notes: list[str] = []
        self.on_note = self.notes.append
        self.connections = 0
        self.heard: asyncio.Queue[Any] = asyncio.Queue()

    async def connect(self) -> None:
        self.connections += 1

    async def receive(self) -> AsyncIterator[Received]:
        while self.stay or not self.items.empty():
            item = await self.items.get()
            if isinstance(item, Exception):
                raise item
            yield Received(item, "2026-05-01T12:00:00.000Z")

    def adapt(self, received: Received) -> Iterable[Any]:
        for item in received.source if isinstance(received.source, list) else [received.source]:
            if isinstance(item, str):
                raise InvalidInput(item)
            yield item


class Commanded(Script):
    def interests(self) -> Iterable[dict[str, Any]]:
        yield {"type": "Room", "watched": ["target"], "notification": {"attributes": ["target"]}}

    def translate(self, entity: dict[str, Any]) -> Iterable[tuple[str, bytes]]:
        if "target" in entity:
            yield entity["id"], str(entity["target"]["value"]).encode()

    async def publish(self, topic: str, message: bytes) -> None:
        self.heard.put_nowait((topic, message))


async def changes(node: NodeClient) -> int:
    return len(await node.log())


def live(url: str, tenant: str, test: Callable[[NodeClient], Any]) -> None:
    async def run() -> None:
        async with hanse.connect(url, tenant=tenant) as node:
            await asyncio.wait_for(test(node), 3 * WAIT_S)

    asyncio.run(run())


def test_one_write_for_each_change_and_none_for_what_is_known(url: str) -> None:
    async def test(node: NodeClient) -> None:
        counters = await Script(room(1, t=1, h=5), room(1, t=1, h=5), room(1, t=2, h=5), room(2, t=1)).run(node)
        assert (counters.received, counters.adapted, counters.unchanged, counters.written) == (4, 4, 1, 3)
        assert await changes(node) == 3
        again = await Script(room(1, t=2, h=5), room(2, t=1), room(3, t=1)).run(node)
        assert (again.unchanged, again.written) == (2, 1)
        assert await changes(node) == 4
        assert await node.get("urn:ngsi-ld:Room:1", format="simplified") == {"id": room(1)["id"], "type": "Room", "t": 2, "h": 5}

    live(url, "writes", test)


def test_thousands_go_in_batches(url: str) -> None:
    async def test(node: NodeClient) -> None:
        agent = Script([room(number, t=number) for number in range(1, 2001)])
        agent.line_max = 100
        counters = await agent.run(node)
        assert (counters.written, counters.lost, await node.count(type="Room")) == (2000, 0, 2000)
        again = await Script([room(number, t=number) for number in range(1, 2001)]).run(node)
        assert (again.written, again.unchanged) == (0, 2000)

    live(url, "many", test)


def test_what_is_refused_is_counted_with_its_reason_and_stops_nothing(url: str) -> None:
    async def test(node: NodeClient) -> None:
        bad = {"id": "no uri", "type": "Room", "t": prop(1)}
        worse = {"id": "urn:ngsi-ld:Room:8", "type": "Room", "t": {"type": "Relationship", "object": "no uri"}}
        agent = Script("it is broken", [room(1, t=1), bad, worse, room(2, t=1)], "it is broken")
        counters = await agent.run(node)
        assert (counters.received, counters.refused, counters.written) == (3, 4, 2)
        assert counters.reasons[0] == "it is broken"
        assert [reason.partition(":")[0] for reason in counters.reasons[1:]] == ["no uri", "urn"]
        assert len(counters.reasons) == 3
        assert await node.count(type="Room") == 2

    live(url, "refused", test)


def test_what_is_gone_is_deleted_and_can_come_back(url: str) -> None:
    async def test(node: NodeClient) -> None:
        counters = await Script(room(1, t=1), Gone(room(1)["id"]), Gone("urn:never:there"), room(1, t=1)).run(node)
        assert (counters.written, counters.deleted, counters.refused) == (2, 1, 0)
        assert await node.count(type="Room") == 1

    live(url, "gone", test)


def test_an_entity_that_somebody_deleted_comes_back_whole(url: str) -> None:
    async def test(node: NodeClient) -> None:
        agent = Script(room(1, t=1, name="hall"), stay=True)
        running = asyncio.create_task(agent.run(node))
        await until(lambda: agent.counters.written == 1)
        await node.delete(room(1)["id"])
        agent.items.put_nowait(room(1, t=2, name="hall"))
        await until(lambda: agent.counters.written == 3)
        assert (await node.get(room(1)["id"], format="simplified"))["name"] == "hall"
        agent.stop()
        assert (await running).lost == 0

    live(url, "healed", test)


def test_an_attribute_that_a_whole_source_has_no_more_goes(url: str) -> None:
    class Whole(Script):
        whole = True

    async def test(node: NodeClient) -> None:
        await Whole(room(1, t=1, trip="a")).run(node)
        await node.append(room(1)["id"], {"note": prop("of somebody else")})
        await Whole(room(1, t=1, trip="a"), room(1, t=1)).run(node)
        found = await node.get(room(1)["id"], format="simplified")
        assert found == {"id": room(1)["id"], "type": "Room", "t": 1, "note": "of somebody else"}

    live(url, "whole", test)


def test_a_node_that_is_away_gets_everything_when_it_is_back(url: str) -> None:
    async def test(direct: NodeClient) -> None:
        async with gate(url) as door, hanse.connect(door.url, tenant="away") as node:
            agent = Script(*(room(1, t=number) for number in range(50)), stay=True)
            running = asyncio.create_task(agent.run(node))
            await until(lambda: agent.counters.retries >= 2)
            assert agent.counters.written == 0
            assert "trying again" in agent.notes[0]
            await door.open()
            await until(lambda: agent.counters.written == 50)
            await door.shut()
            for number in range(50, 60):
                agent.items.put_nowait(room(1, t=number))
            await until(lambda: agent.counters.received == 60)
            await door.open()
            await until(lambda: agent.counters.written == 60)
            agent.stop()
            assert (await running).lost == 0
        history = await direct.temporal(room(1)["id"], attrs="t", values=True, last=100)
        assert [value for value, _ in history["t"]["values"]] == list(range(60))

    live(url, "away", test)


def test_a_node_that_stays_away_is_an_error_to_whoever_has_no_patience_and_lost_is_counted(url: str) -> None:
    async def test(_: NodeClient) -> None:
        async with gate(url) as door, hanse.connect(door.url) as node:
            agent = Script([room(number, t=1) for number in range(7)])
            with pytest.raises(NgsiLdClientError, match="no node answers"):
                await agent.run(node, patience_s=0.05)
            assert (agent.counters.written, agent.counters.lost) == (0, 7)
            stopped = Script([room(number, t=1) for number in range(7)], stay=True)
            running = asyncio.create_task(stopped.run(node))
            await until(lambda: stopped.counters.retries >= 1)
            stopped.stop()
            assert (await running).lost == 7

    live(url, "never", test)


def test_a_platform_that_is_away_is_tried_again_or_an_error_at_once(url: str) -> None:
    async def test(node: NodeClient) -> None:
        agent = Script(room(1, t=1), PlatformAway("the bus is late"), room(1, t=2))
        assert (await agent.run(node)).written == 2
        assert (agent.connections, agent.notes) == (2, ["the bus is late; trying again"])
        with pytest.raises(PlatformAway, match="late"):
            await Script(PlatformAway("the bus is late")).run(node, once=True)

    live(url, "platform", test)


def test_changes_of_others_become_commands_and_echoes_do_not(url: str) -> None:
    async def test(node: NodeClient) -> None:
        agent = Commanded(room(1, target=20), stay=True)
        running = asyncio.create_task(agent.run(node))
        await until(lambda: agent.counters.written == 1)
        while not [kept async for kept in node.subscriptions()]:
            pass
        id_ = room(1)["id"]
        heard = []
        for value in (18, 20, 21):  # 20 again: what the device said first is no echo after a command
            await node.update(id_, {"target": prop(value)})
            heard.append(await asyncio.wait_for(agent.heard.get(), WAIT_S))
        assert heard == [(id_, b"18"), (id_, b"20"), (id_, b"21")]
        agent.items.put_nowait(room(1, target=22))  # the device says so itself: no command
        await until(lambda: agent.counters.written == 2)
        await node.update(id_, {"target": prop(23)})
        assert await asyncio.wait_for(agent.heard.get(), WAIT_S) == (id_, b"23")
        assert agent.counters.published == 4
        agent.stop()
        await running
        assert [kept async for kept in node.subscriptions()] == []

    live(url, "commands", test)


def test_an_agent_ends_while_it_waits_for_a_node_that_is_away(url: str) -> None:
    async def test(_: NodeClient) -> None:
        async with gate(url) as door, hanse.connect(door.url, tenant="pausing") as its_node:
            agent = Commanded(stay=True)
            running = asyncio.create_task(agent.run(its_node))
            await until(lambda: agent.counters.retries >= 10)  # with pauses so long by now that stop comes into one
            agent.stop()
            await running

    live(url, "pausing", test)


def test_commands_go_on_after_the_node_was_away(url: str) -> None:
    async def test(direct: NodeClient) -> None:
        async with gate(url) as door, hanse.connect(door.url, tenant="again") as node:
            await door.open()
            agent = Commanded(room(1, target=20), stay=True)
            running = asyncio.create_task(agent.run(node))
            await until(lambda: agent.counters.written == 1)
            while not [kept async for kept in direct.subscriptions()]:
                pass
            await direct.update(room(1)["id"], {"target": prop(18)})
            assert await asyncio.wait_for(agent.heard.get(), WAIT_S) == (room(1)["id"], b"18")
            await door.shut()
            await direct.update(room(1)["id"], {"target": prop(19)})
            await door.open()
            assert await asyncio.wait_for(agent.heard.get(), WAIT_S) == (room(1)["id"], b"19")
            agent.stop()
            await running

    live(url, "again", test)
