"""What a review of the live federation found: each test is something that went wrong once."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from tests.node.federation.linked import TOWN, description
from tests.serving import settings_with

from hanse.cli.backup import _copy
from hanse.model import Notification, Subscription
from hanse.model.ports import free_port
from hanse.ngsild.entity import AttributeChange, Change, Entity
from hanse.ngsild.errors import BadRequestData
from hanse.ngsild.query import EntityQuery
from hanse.ngsild.representation import View
from hanse.ngsild.temporal_parsing import TemporalQuery
from hanse.node.federation import asking, wire
from hanse.node.federation.host import Host
from hanse.node.federation.identity import NONCE_BYTES
from hanse.node.federation.joining import under_rule
from hanse.node.federation.keeping import SaveFederation, Told, read_links, read_told
from hanse.node.federation.links import Links
from hanse.node.federation.transport import Transport
from hanse.node.native import NativeClient
from hanse.node.router import Pending
from hanse.node.store import CommitFailed, PutDocument
from hanse.node.tenant import Node, Tenant
from hanse.routing import ExportRule
from hanse.routing import messages as m
from hanse.routing.link import Frame, Packed, ReliableLink

WAIT_S = 60.0


@asynccontextmanager
async def running(folder: Path, strategy: str = "flood-events") -> AsyncIterator[tuple[Tenant, Host]]:
    """Node a, linked to a node b that the test plays."""
    file = folder / "federation.toml"
    if not file.exists():
        file.write_text(description("ab", ["ab"], strategy))
    node = Node(settings_with(node={"id": "a"}, federation={"file": str(file)}, store={"data": str(folder / "a")}))
    await node.start()
    try:
        yield node.tenants[""], cast("Host", node.tenants[""].router)
    finally:
        await node.stop()


class Other:
    """Node b: what it says, as it comes over the wire."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.sent = 0
        own = next(record for record in host.description.records() if record.node == "b")
        host._learn([host.knowledge.sign(msgspec.structs.replace(own, version=2))])

    def says(self, *messages: Any) -> None:
        frames = []
        for message in messages:
            self.sent += 1
            frames.append(wire.WireFrame(1, 0, self.sent, 0, wire.encode(wire.Envelope(0, 1, message))))
        self.host._heard("b", wire.encode(wire.Frames(wire.encode(frames))))


def told(id_: str, **more: Any) -> m.Event:
    return m.Event(Notification(id=id_, publisher="someone", types=("Room",), entity=f"urn:{id_}", **more), "b")


def test_a_message_that_cannot_be_handled_takes_no_other_with_it(tmp_path: Path) -> None:
    payload = '{"@": {"kind": "created", "at": "", "created_at": "", "modified_at": ""}}'

    async def scenario() -> None:
        async with running(tmp_path) as (tenant, host):
            tenant.subscriptions._broker(m.Subscribe(Subscription(id="s", client="ngsi-ld/s")))
            host.handle(m.Attach("c", None))
            host.handle(m.Subscribe(Subscription(id="s", client="c")))
            Other(host).says(told("1"), told("2", payload=payload, attributes={"a": 5}), told("3"))
            steps = [[step.did for step in host.traces.of(("someone", str(i)))] for i in (1, 2, 3)]
            assert all("delivered" in did for did in steps), steps

    asyncio.run(scenario())


def test_what_the_disk_refuses_is_forgotten_also_by_a_node_that_never_stored_its_brokers_whole(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as (tenant, host):
            await _idle(tenant)
            host.handle(m.Subscribe(Subscription(id="s", client="c")))
            assert host.take() is not None  # and is never stored
            host.failed()
            await _until(lambda: host._recovering is None)
            assert "c" not in host.broker.clients

    asyncio.run(scenario())


def test_a_node_that_stops_while_it_goes_back_to_what_is_stored_keeps_nothing_else(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as (tenant, host):
            await _idle(tenant)
            host.handle(m.Subscribe(Subscription(id="s", client="c")))
            assert host.take() is not None  # and is never stored
            host.failed()
        async with running(tmp_path) as (_, host):
            assert "c" not in host.broker.clients

    asyncio.run(scenario())


def test_a_number_that_cannot_travel_is_refused_and_leaves_nothing_behind(tmp_path: Path) -> None:
    def entity(value: int) -> Entity:
        return Entity(id="urn:e", types=("Room",), attributes={"size": [{"type": "Property", "value": value}]})

    def created(value: int) -> Change:
        return Change("created", "2026-01-01T00:00:00Z", None, entity(value), ())

    async def scenario() -> None:
        async with running(tmp_path, "advertised") as (tenant, host):
            with pytest.raises(BadRequestData, match="64 bits"):
                await tenant.change("urn:e", lambda _: created(10**30), "create")
            assert tenant.store.latest("urn:e") is None
            await tenant.change("urn:e", lambda _: created(1), "create")
            await tenant.change("urn:e", lambda e: Change("deleted", "2026-01-01T00:00:01Z", e, None, ()), "delete")
            assert not host.broker.clients[tenant.publisher].advertisements

    asyncio.run(scenario())


async def _idle(tenant: Tenant) -> None:
    await _until(lambda: tenant.store.is_idle)


async def _until(holds: Any) -> None:
    async with asyncio.timeout(WAIT_S):
        while not holds():  # noqa: ASYNC110  there is nothing to wait for but the state of the node
            await asyncio.sleep(0.01)


def test_a_member_of_a_broadcast_group_can_leave(tmp_path: Path) -> None:
    more = 'cloud = "a"\ngroups = [["b"], ["c"]]'
    (tmp_path / "federation.toml").write_text(description("abc", ["ab", "ac"], "broadcast-groups", more))

    async def scenario() -> None:
        async with running(tmp_path) as (_, host):
            await host.leave("b")
            assert [node.id for node in host.broker.federation.nodes] == ["a", "c"]
        async with running(tmp_path) as (_, host):
            assert [node.id for node in host.broker.federation.nodes] == ["a", "c"]

    asyncio.run(scenario())


def test_a_federation_that_cannot_work_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "federation.toml").write_text(description("ab", ["ab"], "broadcast-groups", 'cloud = "b"\ngroups = [["a"]]'))

    async def scenario() -> None:
        async with running(tmp_path) as (tenant, host):
            own = next(record for record in host.description.records() if record.node == "b")
            host._learn([host.knowledge.sign(msgspec.structs.replace(own, version=2, links={}))])  # the cloud is out of reach
            assert set(host.broker.federation.by_id) == {"a", "b"}
            host.handle(m.Subscribe(Subscription(id="s", client="c")))
            await _idle(tenant)
        async with running(tmp_path) as (_, host):
            assert "c" in host.broker.clients

    asyncio.run(scenario())


def test_a_stranger_is_told_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as (_, host):
            sent: list[str] = []
            monkeypatch.setattr(host.transport, "send", lambda node, _: sent.append(node))
            own = next(record for record in host.description.records() if record.node == "b")
            other = msgspec.structs.replace(own, version=2, terms=msgspec.structs.replace(own.terms, federation="another"))
            for sender in ("b", "x", "y"):
                host._heard(sender, wire.encode(wire.Hello(host.knowledge.sign(other), {})))
            assert not sent
            host._heard("b", wire.encode(wire.Hello(host.knowledge.sign(msgspec.structs.replace(own, version=3)), {})))
            assert sent == ["b"]

    asyncio.run(scenario())


def test_what_a_new_rule_forbids_leaves_something_that_does_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as (_, host):
            forbidden = wire.encode(wire.Envelope(0, 1, told("1")))
            message = wire.envelope(under_rule(forbidden, ExportRule(deny=True))).message
            assert not host._guards.refusal(0, message, "b")
            before = host.broker.dump()
            assert host.broker.handle(message, "b", 1) == []
            assert host.broker.dump() == before

    asyncio.run(scenario())


def test_what_a_native_client_asks_for_is_stored_with_what_the_broker_was_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as (tenant, _):
            await tenant.native.attach(NativeClient("c"))
            submissions: list[tuple[Any, ...]] = []
            submit = tenant.store.submit

            def noted(*writes: Any) -> asyncio.Future[None]:
                submissions.append(writes)
                return submit(*writes)

            monkeypatch.setattr(tenant.store, "submit", noted)
            await tenant.native.subscribe(Subscription(id="s", client="c"))
            (writes,) = [writes for writes in submissions if any(isinstance(write, PutDocument) for write in writes)]
            told = [wire.message(entry.message) for write in writes if isinstance(write, SaveFederation) for entry in write.told]
            assert m.Subscribe(Subscription(id="s", client="c")) in told

    asyncio.run(scenario())


def test_only_an_answer_that_is_believed_is_one() -> None:
    """Anyone in the federation can say that it answers for another node."""
    address = f"tcp/127.0.0.1:{free_port()}"

    def transport(node: str, says: bytes) -> Transport:
        return Transport("test", node, lambda *_: None, lambda _sender, _data, answer: answer(says), lambda *_: None)

    async def scenario() -> None:
        asker, honest, liar = transport("a", b""), transport("b", b"honest"), transport("b", b"lie")
        await asker.open([address], [], None)
        await honest.open([], [address], None)
        await liar.open([], [address], None)
        try:
            said: set[bytes] = set()

            def noted(data: bytes) -> bool:
                said.add(data)
                return False

            async with asyncio.timeout(WAIT_S):
                while said != {b"honest", b"lie"}:
                    await asker.ask("b", b"?", 5.0, noted)
            for _ in range(5):
                assert await asker.ask("b", b"?", 5.0, lambda data: data == b"honest") == b"honest"
        finally:
            for opened in (asker, honest, liar):
                await opened.close()

    asyncio.run(scenario())


def test_an_old_answer_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as (_, host):
            Other(host)
            answers = {b"": asking.Entities([], 7)}

            async def ask(_node: str, data: bytes, _timeout_s: float, believed: Callable[[bytes], bool]) -> None:
                for to, answer in answers.items():
                    believed(msgspec.msgpack.encode(msgspec.structs.replace(answer, to=to)))
                answers[data[:NONCE_BYTES]] = asking.Entities([], 8)

            monkeypatch.setattr(host.transport, "ask", ask)
            with pytest.raises(asking.Failed):
                await asking.ask(host, "b", asking.WantEntity("urn:1"))
            assert (await asking.ask(host, "b", asking.WantEntity("urn:1"))).count == 8  # type: ignore[union-attr]

    asyncio.run(scenario())


def test_no_filter_finds_out_what_the_past_hides(tmp_path: Path) -> None:
    file = description("ab", ["ab export = { deny_attributes = ['secret'] }"], "flood-events")
    (tmp_path / "federation.toml").write_text(file)
    at = "2026-01-01T00:00:00Z"
    instance = {"type": "Property", "createdAt": at, "modifiedAt": at}
    attributes = {"open": [{**instance, "value": 1}], "secret": [{**instance, "value": 2}]}
    entity = Entity(id="urn:e", types=("Room",), attributes=attributes, created_at=at, modified_at=at)

    async def scenario() -> None:
        async with running(tmp_path) as (tenant, host):
            changes = tuple(AttributeChange(name, "created", None, listed[0]) for name, listed in attributes.items())
            await tenant.change("urn:e", lambda _: Change("created", at, None, entity, changes), "create")

            async def found(**asked: Any) -> list[str]:
                question = asking.WantEvolutions(TemporalQuery(), View(), **asked)
                answer = cast("asking.Evolutions", await host._answering._answer("b", question))
                return [series.attribute for evolution in answer.page.evolutions for series in evolution.series]

            assert await found(query=EntityQuery()) == ["open"]
            assert await found(query=EntityQuery(q="open==1")) == ["open"]
            assert await found(query=EntityQuery(q="secret==2")) == []
            assert await found(id="urn:e") == ["open"]
            assert await found(id="urn:nothing") == []

    asyncio.run(scenario())


def test_a_characterisation_that_has_changed_counts_after_a_restart(tmp_path: Path) -> None:
    (tmp_path / "federation.toml").write_text(description("ab", ["ab"], "scoped", 'characterisation = "scopes.toml"'))

    async def scopes(*changes: m.SetVisibility) -> tuple[list[str], str]:
        async with running(tmp_path) as (_, host):
            for change in changes:
                host.handle(change)
            graph = host.broker.scopes.graphs["area"]
            edge = graph.edge("harbour", "town")
            return sorted(graph.scopes()), edge.out if edge is not None else ""

    (tmp_path / "scopes.toml").write_text(TOWN)
    assert asyncio.run(scopes(m.SetVisibility("area", "harbour", "town", "false")))[0] == ["harbour", "town"]
    hills = '[[viewpoints.dimensions.scopes]]\nname = "hills"\nscale = "quarter"\nparents = ["town"]\n'
    (tmp_path / "scopes.toml").write_text(TOWN + hills)
    for _ in range(2):
        assert asyncio.run(scopes()) == (["harbour", "hills", "town"], "false")


def test_a_message_too_long_for_a_link_is_a_dead_letter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as (tenant, host):
            monkeypatch.setattr(wire, "MESSAGE_BYTES_MAX", 1000)
            host.handle(m.Attach("c", None))
            host.handle(m.Publish(Notification(id="1", publisher="c", types=("Room",), payload='"' + "x" * 2000 + '"')))
            host._flush()
            await _idle(tenant)
            assert host.links.waiting() == {"b": 0}
            ((reason,),) = tenant.store.reader.execute("SELECT reason FROM dead_letters")
            assert "too many for the link to 'b'" in reason

    asyncio.run(scenario())


def test_what_comes_before_its_turn_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hanse.routing.link.EARLY_BYTES_MAX", 5)
    link = ReliableLink(1)

    def come(number: int) -> list[bytes]:
        frame = Frame(1, 0, number, 0, Packed(b"%d...." % number, keep=False))
        return [cast("Packed", message).data for message in link.receive(frame, 0).messages]

    assert [come(number) for number in (3, 2, 4, 1, 4)] == [[], [], [], [b"1...."], []]  # there is room for one
    assert come(2) == [b"2....", b"3...."]
    assert come(5) == []
    assert come(4) == [b"4....", b"5...."]


def test_what_builds_on_something_that_was_not_stored_is_not_stored_either(tmp_path: Path) -> None:
    class Refused:
        def apply(self, _connection: Any, /) -> None:
            raise ValueError("no room")

    async def scenario() -> None:
        async with running(tmp_path) as (tenant, host):
            await _idle(tenant)
            other = Other(host)
            host._flush()
            host.handle(m.Attach("c", None))
            host._flush()
            other.says(told("1"))
            first = cast("Pending", host.take())
            other.says(told("2"))
            second = cast("Pending", host.take())
            tries = [tenant.store.submit(*first.writes, cast("Any", Refused())), tenant.store.submit(*second.writes)]
            results = await asyncio.gather(*tries, return_exceptions=True)
            assert [type(result) for result in results] == [CommitFailed, CommitFailed]
            host.failed()
            await _until(lambda: host._recovering is None)
            other.sent = 0
            other.says(told("1"), told("2"))  # they were not acknowledged
            await _until(lambda: len(_journal(tenant, "b")) == 2)
        async with running(tmp_path) as (_, host):
            assert "c" in host.broker.clients

    asyncio.run(scenario())


def _journal(tenant: Tenant, sender: str) -> list[Told]:
    return [entry for entry in read_told(tenant.store.reader, 0) if entry.sender == sender]


def test_a_copy_of_a_node_begins_new_sessions_with_what_it_owed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as (tenant, host):
            host.handle(m.Attach("c", None))
            host.handle(m.Publish(Notification(id="1", publisher="c", types=("Room",))))
            host._flush()
            await _idle(tenant)
            owed = host.links.waiting()
            assert owed["b"] > 0
            with closing(sqlite3.connect(tenant.store.path)) as store:
                assert set(read_links(store)) == {"b"}
            await tenant.store.backup(tmp_path / "copy.sqlite")
            for copy in (tmp_path / "copy.sqlite", _copy(tenant.store.path, tmp_path / "another.sqlite")):
                links = Links(lambda *_: None, lambda _: None)
                with closing(sqlite3.connect(copy)) as store:
                    assert not read_links(store)
                    links.restore(store, 7)
                assert links.waiting() == owed

    asyncio.run(scenario())
