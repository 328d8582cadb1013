"""What the store promises about writes: durable when it says so, whole or not at all, each on its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hanse.ngsild.entity import DEFAULT_VOCAB, AttributeChange, Change, Entity, encode_entity, now_text
from hanse.ngsild.errors import NgsiLdError, TooManyPending
from hanse.ngsild.query import EntityQuery
from hanse.node.settings import StoreSection
from hanse.node.store import (
    BuryDelivery,
    CommitFailed,
    DeleteDocument,
    Delivery,
    DropDeliveries,
    PostponeDelivery,
    PutDelivery,
    PutDocument,
    RemoveDeadLetters,
    SaveChange,
    Store,
    StoreError,
    Writer,
    upkeep,
)
from hanse.node.store import store as store_module

A = DEFAULT_VOCAB + "a"


def entity(id_: str = "urn:x:1", value: Any = 1, **more: Any) -> Entity:
    now = now_text()
    return Entity(
        id=id_,
        types=more.pop("types", ("T",)),
        attributes={A: [{"type": "Property", "value": value}]},
        created_at=now,
        modified_at=now,
        **more,
    )


def created(new: Entity) -> SaveChange:
    return SaveChange(Change("created", now_text(), None, new), "create")


def updated(old: Entity, value: Any) -> SaveChange:
    new = msgspec.structs.replace(entity(old.id, value, types=old.types), created_at=old.created_at)
    change = AttributeChange(A, "updated", old.attributes[A][0], new.attributes[A][0])
    return SaveChange(Change("updated", now_text(), old, new, (change,)), "update")


def deleted(old: Entity) -> SaveChange:
    return SaveChange(Change("deleted", now_text(), old, None), "delete")


class Broken:
    """A write that never succeeds."""

    def apply(self, connection: Writer, /) -> None:
        connection.execute("INSERT INTO documents(kind, id, data) VALUES ('half', 'x', x'00')")
        raise ValueError("no")


@contextlib.asynccontextmanager
async def opened(directory: Path | None = None, **options: Any) -> Any:
    store = Store.open(directory, settings=StoreSection(**options))
    try:
        yield store
    finally:
        await store.close()


def test_latest_is_what_was_accepted_and_entity_what_is_durable() -> None:
    async def run() -> None:
        async with opened() as store:
            first = entity()
            done = store.submit(created(first))
            assert store.latest("urn:x:1") is first
            assert store.entity("urn:x:1") is None
            await done
            assert store.entity("urn:x:1") == store.latest("urn:x:1") == first
            gone = store.submit(deleted(first))
            assert store.latest("urn:x:1") is None
            assert store.entity("urn:x:1") == first
            await gone
            assert store.entity("urn:x:1") is None
            assert (await store.query(EntityQuery())).entities == []

    asyncio.run(run())


def test_a_write_is_seen_when_it_is_acknowledged_even_if_the_next_one_is_pending() -> None:
    async def run() -> None:
        async with opened() as store:
            state = entity()
            await store.submit(created(state))
            assert store.entity("urn:x:1") == state
            for value in range(2, 60, 2):
                one = updated(state, value)
                assert one.after is not None
                two = updated(one.after, value + 1)
                store._committer._here.commit_s = 1.0  # as on a slow disk: commits take a thread
                acknowledged = store.submit(one)
                seen: list[Entity | None] = []
                acknowledged.add_done_callback(lambda _, seen=seen: seen.append(store.entity("urn:x:1")))
                await asyncio.sleep(0)  # the first is being committed
                last = store.submit(two)
                await last
                assert seen[0] in (one.after, two.after)
                assert two.after is not None
                state = two.after

    asyncio.run(run())


PAST, FUTURE = "2020-01-01T00:00:00Z", "2999-01-01T00:00:00Z"


def test_looking_up_many_entities_changes_no_answer() -> None:
    async def run() -> None:
        async with opened() as store:
            kept = [
                entity("urn:plain"),
                entity("urn:large", "x" * 10_000),
                entity("urn:expired", expires_at=PAST),
                entity("urn:expiring", expires_at=FUTURE),
                entity("urn:updated"),
                entity("urn:deleted"),
            ]
            await store.submit(*map(created, kept))
            pending = [updated(kept[-2], 2), deleted(kept[-1]), created(entity("urn:new"))]
            ids = [*(each.id for each in kept), "urn:new", "urn:never", "urn:a\0b", "\N{SNOWMAN}"]

            def answers() -> list[Entity | None]:
                store._recent.clear()
                return [
                    find(id_, even_expired=even_expired)
                    for find in (store.latest, store.entity)
                    for id_ in ids
                    for even_expired in (False, True)
                ]

            done = [store.submit(write) for write in pending]
            expected = answers()
            store._recent.clear()
            store.look_up(ids)
            assert set(store._found) == {"urn:plain", "urn:expired", "urn:expiring"}
            assert answers() == expected
            store.look_up(ids)
            await asyncio.gather(*done)
            found = answers()
            store.look_up([])
            assert found == answers() != expected

    asyncio.run(run())


def test_what_was_looked_up_and_not_there_is_there_when_it_is_created() -> None:
    async def run() -> None:
        async with opened() as store:
            new = entity()
            store.look_up([new.id])
            assert store.latest(new.id) is None
            done = store.submit(created(new), Broken())
            assert store.latest(new.id) is new
            with pytest.raises(CommitFailed):
                await done
            assert store.latest(new.id) is None
            await store.submit(created(entity(value="x" * 10_000)))  # too large to be remembered
            found = store.latest(new.id)
            assert found is not None
            await store.submit(deleted(found))
            assert store.latest(new.id) is None

    asyncio.run(run())


def test_what_comes_by_takes_nobodys_place_among_what_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "RECENT_MAX", 2)

    async def run() -> None:
        async with opened() as store:
            one, two, three = (entity(f"urn:x:{number}") for number in range(3))
            await store.submit(created(one), created(two), created(three))
            assert store._recent == {one.id: encode_entity(one), two.id: encode_entity(two)}  # there was no room for another
            assert store.entity(one.id) == one
            assert store._recent == {one.id: one, two.id: encode_entity(two)}
            store.look_up([two.id, three.id])
            change = updated(two, 2)
            await store.submit(change, updated(three, 2))
            assert store._recent == {one.id: one, two.id: change.after}
            assert store.entity(three.id) is not None  # asked for by itself
            assert set(store._recent) == {two.id, three.id}

    asyncio.run(run())


def test_who_asks_for_what_is_not_there_does_not_ask_the_disk(tmp_path: Path) -> None:
    async def run() -> None:
        async with opened(tmp_path) as store:
            await store.submit(*(created(entity(f"urn:x:{number}")) for number in range(50)))
        async with opened(tmp_path) as store:
            await store.submit(*(created(entity(f"urn:y:{number}")) for number in range(50)))
            for kind in "xy":
                assert all(store.entity(f"urn:{kind}:{number}") is not None for number in range(50))
            statements: list[str] = []
            store.reader.set_trace_callback(statements.append)
            assert all(store.entity(f"urn:z:{number}") is None for number in range(50))
            assert len(statements) < 5  # hashes differ from run to run

    asyncio.run(run())


def test_entities_that_were_looked_up_are_not_read_again() -> None:
    async def run() -> None:
        async with opened() as store:
            some = [entity(f"urn:x:{n}") for n in range(20)]
            await store.submit(*map(created, some[:10]))
            store._recent.clear()
            store.look_up([each.id for each in some])
            statements: list[str] = []
            store.reader.set_trace_callback(statements.append)
            assert [store.latest(each.id) for each in some] == some[:10] + [None] * 10
            assert statements == []

    asyncio.run(run())


def test_everything_is_there_after_reopening(tmp_path: Path) -> None:
    async def run() -> None:
        new = entity()
        async with opened(tmp_path) as store:
            await store.submit(created(new), PutDocument("subscription", "s", b"1"), PutDelivery(delivery(store)))
            later = store.submit(updated(new, 2))  # closing waits for it
        assert later.done()
        async with opened(tmp_path) as store:
            kept = store.entity("urn:x:1")
            assert kept is not None
            assert kept.attributes[A][0]["value"] == 2
            assert store.documents("subscription") == [("s", b"1")]
            assert [one.payload for one in store.pending_deliveries()] == [b"payload"]
            assert store.next_delivery_id() == 2
            assert [record.operation for record in store.read_log()] == ["create", "update"]

    asyncio.run(run())
    assert Store.tenants(tmp_path) == [""]


def test_tenants_are_apart_and_known_by_name(tmp_path: Path) -> None:
    async def run() -> None:
        for tenant in ("", "a/b", "ü"):
            store = Store.open(tmp_path, tenant)
            assert store.entity("urn:x:1") is None
            await store.submit(created(entity()))
            await store.close()

    asyncio.run(run())
    assert Store.tenants(tmp_path) == ["", "a/b", "ü"]


def test_a_store_is_used_by_one_process_at_a_time(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    with pytest.raises(StoreError, match="in use"):
        Store.open(tmp_path)
    store.close_now()
    Store.open(tmp_path).close_now()


def test_a_file_that_is_no_database_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "default.sqlite").write_bytes(b"this is no database" * 100)
    with pytest.raises(StoreError, match="cannot be opened"):
        Store.open(tmp_path)


def test_one_failing_submission_hurts_no_other() -> None:
    async def run() -> None:
        async with opened() as store:
            one, other = entity("urn:x:1"), entity("urn:x:2")
            futures = [
                store.submit(created(one)),
                store.submit(PutDocument("k", "with the broken one", b""), Broken()),
                store.submit(created(other)),
            ]
            results = await asyncio.gather(*futures, return_exceptions=True)
            assert results[0] is results[2] is None
            assert isinstance(results[1], CommitFailed)
            assert store.entity("urn:x:1") == one
            assert store.entity("urn:x:2") == other
            assert store.documents("k") == store.documents("half") == []
            await store.submit(PutDocument("k", "later", b""))
            assert len(store.documents("k")) == 1

    asyncio.run(run())


def test_what_builds_on_a_failed_change_fails_with_it() -> None:
    async def run() -> None:
        async with opened() as store:
            first = entity()
            failing = store.submit(created(first), Broken())
            same_batch = store.submit(updated(first, 2))
            await asyncio.sleep(0)  # the batch is on its way; the next submission waits for it
            waiting = store.submit(updated(first, 3), PutDocument("k", "x", b""))
            results = await asyncio.gather(failing, same_batch, waiting, return_exceptions=True)
            assert all(isinstance(result, NgsiLdError) for result in results)
            assert store.latest("urn:x:1") is None
            assert store.documents("k") == []

    asyncio.run(run())


def test_a_full_disk_fails_writes_and_leaves_the_store_usable(tmp_path: Path) -> None:
    async def run() -> None:
        async with opened(tmp_path) as store:
            await store.submit(created(entity()))
            (pages,) = store._writer.execute("PRAGMA page_count").fetchone()
            store._writer.execute(f"PRAGMA max_page_count={pages}")
            large = PutDocument("k", "large", b"x" * 1_000_000)
            results = await asyncio.gather(
                store.submit(created(entity("urn:x:2")), large), store.submit(large), return_exceptions=True
            )
            assert all(isinstance(result, CommitFailed) and "full" in result.detail for result in results)
            assert store.latest("urn:x:2") is None
            store._writer.execute("PRAGMA max_page_count=1073741823")
            await store.submit(created(entity("urn:x:2")), large)
            assert store.entity("urn:x:2") is not None

    asyncio.run(run())


def test_writes_beyond_the_bound_are_refused_at_once() -> None:
    async def run() -> None:
        async with opened(pending_writes_max=3) as store:
            futures = [store.submit(PutDocument("k", str(n), b"")) for n in range(3)]
            with pytest.raises(TooManyPending):
                store.submit(created(entity()))
            assert store.latest("urn:x:1") is None
            assert store.bounds()["pending_writes"] == (3, 3)
            await asyncio.gather(*futures)
            await store.submit(created(entity()))

    asyncio.run(run())


def test_many_submissions_share_few_commits() -> None:
    async def run() -> None:
        async with opened() as store:
            await asyncio.gather(*(store.submit(created(entity(f"urn:x:{n}"))) for n in range(500)))
            assert store._committer.commits < 50

    asyncio.run(run())


CHILD = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_store import created, entity, updated
from hanse.node.settings import StoreSection
from hanse.node.store import PutDocument, Store

async def client(store, name):
    kept = entity(name, 0)
    await store.submit(created(kept), PutDocument("twin", name, b"0"))
    for value in range(1, 100_000):
        write = updated(kept, value)
        kept = write.after
        await store.submit(write, PutDocument("twin", name, str(value).encode()))
        print(name, value, flush=True)

async def main():
    store = Store.open(Path(sys.argv[1]), settings=StoreSection(writer_process=sys.argv[3]))
    await asyncio.gather(*(client(store, f"urn:x:{n}") for n in range(10)))

asyncio.run(main())
"""


@pytest.mark.parametrize("writer_process", ["never", "always"])
def test_what_was_acknowledged_survives_a_kill_and_nothing_is_there_by_half(tmp_path: Path, writer_process: str) -> None:
    for lines in (1, 200, 1_000):
        directory = tmp_path / str(lines)
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(directory), str(Path(__file__).parent), writer_process],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        acknowledged: dict[str, int] = {}
        with child:
            for _ in range(lines):
                name, text = child.stdout.readline().split()
                acknowledged[name] = int(text)
            os.kill(child.pid, signal.SIGKILL)
            for line in child.stdout:  # what it still said before it died
                if line.endswith("\n"):
                    name, text = line.split()
                    acknowledged[name] = int(text)
        store = Store.open(directory)
        twins = dict(store.documents("twin"))
        for name, value in acknowledged.items():
            kept = store.entity(name)
            assert kept is not None
            assert kept.attributes[A][0]["value"] >= value
            assert str(kept.attributes[A][0]["value"]).encode() == twins[name]
        store.close_now()
        with contextlib.closing(sqlite3.connect(directory / "default.sqlite")) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_expired_entities_are_invisible_at_once_and_can_be_collected_and_replaced() -> None:
    async def run() -> None:
        async with opened() as store:
            over = entity("urn:x:1", expires_at="2020-01-01T00:00:00Z")
            lasting = entity("urn:x:2", expires_at="2999-01-01T00:00:00+02:00")
            await store.submit(created(over), created(lasting))
            assert store.entity("urn:x:1") is None
            assert store.latest("urn:x:1") is None
            assert store.latest("urn:x:1", even_expired=True) == over
            assert store.entity("urn:x:2") == lasting
            found = await store.query(EntityQuery(q=f"{A}==1", count=True))
            assert (found.entities, found.count) == ([lasting], 1)
            assert [info.entities for info in await store.types()] == [1]
            assert store.expired(now_text()) == ["urn:x:1"]
            again = entity("urn:x:1", 5)
            await store.submit(created(again))
            assert store.entity("urn:x:1") == again
            assert store.expired(now_text()) == []
            assert (await store.query(EntityQuery(q=f"{A}==1"))).entities == [lasting]

    asyncio.run(run())


def test_the_log_says_what_happened_in_order() -> None:
    async def run() -> None:
        async with opened() as store:
            first = entity(scopes=("/A",))
            change = updated(first, 2)
            assert change.after is not None
            await store.submit(created(first), change, deleted(change.after))
            records = store.read_log()
            assert [(r.offset, r.kind, r.entity, r.types) for r in records] == [
                (1, "created", "urn:x:1", ("T",)),
                (2, "updated", "urn:x:1", ("T",)),
                (3, "deleted", "urn:x:1", ("T",)),
            ]
            assert records[0].scopes == ("/A",)
            assert [[(a.name, a.instance and a.instance["value"]) for a in r.attributes] for r in records] == [
                [(A, 1)],
                [(A, 2)],
                [(A, None)],
            ]
            assert store.read_log(after=2) == records[2:]
            assert (store.log_start(), store.log_end()) == (1, 3)

    asyncio.run(run())


def test_log_and_history_are_trimmed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "EVERY_WRITES", 4)

    async def run() -> None:
        async with opened(log_records_max=10, history_days=1) as store:
            kept = entity()
            await store.submit(created(kept))
            store._writer.execute("UPDATE instances SET modified_us = 0")
            for value in range(40):
                write = updated(kept, value)
                assert write.after is not None
                kept = write.after
                await store.submit(write)
            assert store.log_end() == 41
            assert 10 <= len(store.read_log()) <= 14
            (oldest,) = store._reader.execute("SELECT min(seq) FROM history").fetchone()
            assert oldest == 2

    asyncio.run(run())


def delivery(store: Store, payload: bytes = b"payload") -> Delivery:
    return Delivery(id=store.next_delivery_id(), subscription="s", endpoint="http://e", payload=payload, created_ms=1)


def test_deliveries_are_postponed_dropped_and_buried() -> None:
    async def run() -> None:
        async with opened(dead_letters_max=2) as store:
            sent = [delivery(store) for _ in range(5)]
            assert [one.id for one in sent] == [1, 2, 3, 4, 5]
            await store.submit(*map(PutDelivery, sent))
            await store.submit(PostponeDelivery(2, 3, 99, "refused"), DropDeliveries((1,)))
            kept = store.pending_deliveries()
            assert [(one.id, one.attempts, one.due_ms, one.error) for one in kept[:2]] == [(2, 3, 99, "refused"), (3, 0, 0, "")]
            await store.submit(*(BuryDelivery(one, "gone") for one in sent[2:]))
            assert [one.id for one in store.pending_deliveries()] == [2]
            assert [(one.id, one.reason) for one in store.dead_letters()] == [(4, "gone"), (5, "gone")]  # the oldest made room
            assert store.bounds()["dead_letters"] == (2, 2)
            assert store.dead_letters(limit=1, after=4)[0].id == 5
            assert store.dead_letter(3) is None
            letter = store.dead_letter(5)
            assert letter is not None
            assert letter.payload == b"payload"
            await store.submit(RemoveDeadLetters((4, 5, 77)))
            assert store.bounds()["dead_letters"] == (0, 2)

    asyncio.run(run())


def test_documents_keep_their_order_and_are_replaced_in_place() -> None:
    async def run() -> None:
        async with opened() as store:
            await store.submit(PutDocument("k", "b", b"1"), PutDocument("k", "a", b"2"), PutDocument("other", "b", b"3"))
            await store.submit(PutDocument("k", "b", b"4"))
            assert store.documents("k") == [("b", b"4"), ("a", b"2")]
            assert store.document("other", "b") == b"3"
            await store.submit(DeleteDocument("k", "b"))
            assert store.document("k", "b") is None

    asyncio.run(run())


def test_a_backup_of_a_running_store_is_a_store(tmp_path: Path) -> None:
    async def run() -> None:
        async with opened(tmp_path / "live") as store:
            await asyncio.gather(*(store.submit(created(entity(f"urn:x:{n}"))) for n in range(300)))
            writes = [store.submit(created(entity(f"urn:y:{n}"))) for n in range(300)]
            (tmp_path / "copy").mkdir()
            await store.backup(tmp_path / "copy" / "default.sqlite")
            await asyncio.gather(*writes)
        async with opened(tmp_path / "copy") as copied:
            assert all(copied.entity(f"urn:x:{n}") is not None for n in range(300))

    asyncio.run(run())


def test_types_and_attributes_are_counted() -> None:
    async def run() -> None:
        async with opened() as store:
            place = Entity(
                id="urn:x:3",
                types=("U", "T"),
                attributes={
                    "urn:p": [{"type": "GeoProperty", "value": {"type": "Point", "coordinates": [1, 2]}}],
                    A: [{"type": "Relationship", "object": "urn:x:1"}],
                },
            )
            await store.submit(created(entity("urn:x:1")), created(entity("urn:x:2", [1, "a", {}])), created(place))
            types = await store.types()
            assert [(info.name, info.entities) for info in types] == [("T", 3), ("U", 1)]
            assert types[0].attributes == {A: {"Property", "Relationship"}, "urn:p": {"GeoProperty"}}
            found = await store.attributes()
            assert [(info.name, info.entities, info.types) for info in found] == [(A, 3, {"T", "U"}), ("urn:p", 1, {"T", "U"})]

    asyncio.run(run())
