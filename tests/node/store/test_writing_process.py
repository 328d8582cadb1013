"""A store that is written by another process keeps the same promises, also when that process is killed."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import random
import signal
import sqlite3
import time
from collections.abc import AsyncIterator
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import pytest

from hanse.ngsild import operations
from hanse.ngsild.entity import DEFAULT_VOCAB, Entity, Instance, now_text
from hanse.ngsild.query import EntityQuery
from hanse.node.settings import StoreSection
from hanse.node.store import CommitFailed, PutDocument, SaveChange, Store, committing
from hanse.node.store.committing import BUSY_WRITES
from hanse.node.store.history_writes import AddInstances
from hanse.node.store.wire import Frames, Order, order_frame, read_order, tasks_bytes

NAMES = [DEFAULT_VOCAB + name for name in "abcd"]
BROKEN = PutDocument("k", "x", None)  # type: ignore[arg-type]  # which the database refuses
TABLES = {
    "entities": "SELECT id, document, expires_us FROM entities ORDER BY id",
    "facts": """SELECT n.name, f.key % 8, e.id, CASE f.key % 8 WHEN 7 THEN 0 ELSE f.value END, f.shape
        FROM (SELECT * FROM facts UNION ALL SELECT * FROM facts_new) AS f
        JOIN names AS n ON n.id = f.key / 8 JOIN entities AS e ON e.n = f.entity ORDER BY 1, 2, 3, 4""",
    "places": "SELECT west, east, south, north FROM places ORDER BY 1, 2, 3, 4",
    "scopes": "SELECT s.scope, e.id FROM scopes AS s JOIN entities AS e ON e.n = s.entity ORDER BY 1, 2",
    "log": "SELECT offset, kind, operation, entity, rows, first_seq FROM log ORDER BY offset",
    "history": "SELECT seq, entity, attribute, observed_us, modified_us, deleted_us, instance FROM history ORDER BY seq",
    "pasts": "SELECT id, types, scopes, deleted_us FROM temporal_entities ORDER BY id",
}


@contextlib.asynccontextmanager
async def opened(directory: Path | None = None, how: str = "always", **options: Any) -> AsyncIterator[Store]:
    store = Store.open(directory, settings=StoreSection(writer_process=how, **options))  # type: ignore[arg-type]
    try:
        yield store
    finally:
        await store.close()


def process_of(store: Store) -> int:
    process = store._committer._process
    assert process is not None
    return process.pid


def entity(id_: str, value: Any = 1, **more: Any) -> Entity:
    now = now_text()
    attributes = {NAMES[0]: [{"type": "Property", "value": value}]}
    return Entity(id=id_, types=("T",), attributes=attributes, created_at=now, modified_at=now, **more)


def created(new: Entity) -> SaveChange:
    return SaveChange(operations.create(new, now_text()), "create")


def updated(old: Entity, value: Any) -> SaveChange:
    return SaveChange(operations.replace(old, entity(old.id, value), now_text()), "replace")


def an_instance(rng: random.Random) -> Instance:
    kind = rng.randrange(5)
    if kind == 0:
        point = {"type": "Point", "coordinates": [rng.uniform(-10, 10), rng.uniform(-10, 10)]}
        return {"type": "GeoProperty", "value": point}
    if kind == 1:
        return {"type": "Relationship", "object": f"urn:r:{rng.randrange(5)}"}
    values: list[Any] = [rng.random(), rng.randrange(9), "text", "2026-01-01T00:00:00Z", [1, "x"], {"deep": {"er": 1}}, True]
    instance: Instance = {"type": "Property", "value": rng.choice(values)}
    if rng.random() < 0.3:
        instance["observedAt"] = f"2026-01-01T00:00:{rng.randrange(60):02}Z"
    return instance


def an_entity(rng: random.Random, id_: str, at: str) -> Entity:
    attributes = {name: [an_instance(rng)] for name in rng.sample(NAMES, rng.randrange(1, 5))}
    scopes = ("/A", "/B/C")[: rng.randrange(3)]
    types = ("T",) if rng.random() < 0.8 else ("T", "U")
    return Entity(id=id_, types=types, scopes=scopes, attributes=attributes, created_at=at, modified_at=at)


def some_changes(rng: random.Random, count: int) -> list[SaveChange]:
    states: dict[str, Entity] = {}
    changes: list[SaveChange] = []
    for n in range(count):
        at = f"2026-01-01T00:00:00.{n:06}Z"
        id_ = f"urn:x:{rng.randrange(8)}"
        old = states.get(id_)
        if old is None:
            change = operations.create(an_entity(rng, id_, at), at)
        elif rng.random() < 0.2:
            change = operations.delete(old, at)
        else:
            change = operations.replace(old, an_entity(rng, id_, at), at)
        if change.after is None:
            del states[id_]
        else:
            states[id_] = change.after
        changes.append(SaveChange(change, "any"))
    return changes


def all_rows(path: Path) -> dict[str, list[Any]]:
    with contextlib.closing(sqlite3.connect(path / "default.sqlite")) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return {name: database.execute(query).fetchall() for name, query in TABLES.items()}


@pytest.mark.parametrize("seed", range(4))
def test_it_writes_what_the_node_would_write_itself(tmp_path: Path, seed: int) -> None:
    changes = some_changes(random.Random(seed), 120)

    async def run(how: str) -> None:
        async with opened(tmp_path / how, how) as store:
            for start in range(0, len(changes), 10):
                await asyncio.gather(*map(store.submit, changes[start : start + 10]))
            for change in changes[-3:]:
                assert store.entity(change.id) == store.latest(change.id)

    for how in ("never", "always"):
        asyncio.run(run(how))
    assert all_rows(tmp_path / "always") == all_rows(tmp_path / "never")


def test_a_write_that_fails_takes_only_what_builds_on_it_with_it() -> None:
    async def run() -> None:
        async with opened() as store:
            good, bad = entity("urn:good"), entity("urn:bad")
            await store.submit(created(good))
            writes = [
                store.submit(created(bad), BROKEN),
                store.submit(updated(good, 2)),
                store.submit(updated(bad, 2)),
                store.submit(updated(bad, 3), created(entity("urn:with it"))),
                store.submit(updated(entity("urn:with it"), 2)),
            ]
            await asyncio.sleep(0)  # these are on their way; the next ones follow
            writes += [store.submit(updated(bad, 4)), store.submit(PutDocument("k", "y", b"1"))]
            results = await asyncio.gather(*writes, return_exceptions=True)
            assert [isinstance(result, CommitFailed) for result in results] == [True, False, True, True, True, True, False]
            assert "NOT NULL" in str(results[0])
            assert "builds on" in str(results[2])
            assert store.latest("urn:bad") is None
            assert store.latest("urn:with it") is None
            assert store.documents("k") == [("y", b"1")]
            assert store.is_idle
            await store.submit(created(bad))  # nothing is held against it
            assert store.entity("urn:bad") == bad
            assert store.latest("urn:good") == store.entity("urn:good")

    asyncio.run(run())


def test_a_value_that_is_no_json_harms_nobody_else() -> None:
    async def run() -> None:
        async with opened() as store:
            some = [entity(f"urn:x:{number}") for number in range(30)]
            await asyncio.gather(*(store.submit(created(one)) for one in some))
            first = [updated(one, 2) for one in some]
            second = [updated(cast("Entity", change.after), Fraction(1, 3) if n == 7 else 3) for n, change in enumerate(first)]
            results = await asyncio.gather(*map(store.submit, first + second), return_exceptions=True)
            assert [n for n, result in enumerate(results) if result is not None] == [37]
            for n, one in enumerate(some):
                assert store.entity(one.id) == store.latest(one.id) == (first[n] if n == 7 else second[n]).after

    asyncio.run(run())


def test_what_fails_hides_nothing_that_was_accepted_before_it() -> None:
    async def run() -> None:
        async with opened() as store:
            one, two = entity("urn:one"), entity("urn:two")
            await store.submit(created(one), created(two))
            assert store.entity(two.id) == two  # it is remembered
            bad, good = updated(one, 2), updated(two, 2)
            later = store.submit(bad, BROKEN), store.submit(good), store.submit(updated(one, 3), updated(two, 3))
            results = await asyncio.gather(*later, return_exceptions=True)
            assert [isinstance(result, CommitFailed) for result in results] == [True, False, True]
            assert store.entity(one.id) == store.latest(one.id) == one
            assert store.entity(two.id) == store.latest(two.id) == good.after

    asyncio.run(run())


def test_what_a_write_has_to_tell_is_told() -> None:
    async def run() -> None:
        async with opened() as store:
            write = AddInstances("urn:a", ("T",), {NAMES[0]: [{"type": "Property", "value": 1}]}, now_text())
            assert [await store.submit(write), await store.submit(write)] == [True, False]

    asyncio.run(run())


def test_a_large_entity_is_not_kept_decoded() -> None:
    async def run() -> None:
        async with opened() as store:
            await store.submit(created(entity("urn:large", "x" * 10_000)), created(entity("urn:small")))
            for value in ("x" * 10_000, "x" * 10_001):
                large, small = store.entity("urn:large"), store.entity("urn:small")
                assert large is not None
                assert small is not None
                assert large.attributes[NAMES[0]][0]["value"] == value
                assert list(store._recent) == ["urn:small"]
                await store.submit(updated(large, "x" * 10_001), updated(small, 2))
                assert list(store._recent) == ["urn:small"]

    asyncio.run(run())


def test_closing_waits_for_all_that_was_submitted(tmp_path: Path) -> None:
    async def run() -> None:
        async with opened(tmp_path) as store:
            for n in range(3_000):
                store.submit(created(entity(f"urn:x:{n}", "y" * 500)))

    asyncio.run(run())
    assert len(all_rows(tmp_path)["entities"]) == 3_000


@pytest.mark.parametrize("how", ["never", "always"])
def test_what_builds_on_a_failure_is_not_written_when_closing_either(tmp_path: Path, how: str) -> None:
    async def run() -> None:
        bad = entity("urn:bad")
        async with opened(tmp_path, how) as store:
            writes = [store.submit(created(bad), BROKEN)]
            writes += [store.submit(PutDocument("many", str(n), b"")) for n in range(3_000)]  # more than a batch
            writes.append(store.submit(updated(bad, 2), PutDocument("half", "x", b"1")))
        results = await asyncio.gather(*writes, return_exceptions=True)
        assert [n for n, result in enumerate(results) if isinstance(result, CommitFailed)] == [0, 3_001]
        assert store.is_idle

    asyncio.run(run())
    assert all_rows(tmp_path)["entities"] == []
    with contextlib.closing(sqlite3.connect(tmp_path / "default.sqlite")) as database:
        counted = database.execute("SELECT kind, count(*) FROM documents WHERE kind <> 'written' GROUP BY kind").fetchall()
    assert counted == [("many", 3_000)]


def test_what_has_become_bytes_while_it_waited_is_written_as_it_was_submitted() -> None:
    async def run() -> None:
        bad = entity("urn:bad")
        async with opened() as store:
            await store.submit(created(entity("urn:first")))
            os.kill(process_of(store), signal.SIGSTOP)
            good, failing = [], [store.submit(created(bad), BROKEN)]
            for n in range(1_500):  # more than an order takes
                good.append(store.submit(created(entity(f"urn:x:{n}", n)), PutDocument("k", str(n), b"")))
                if n % 100 == 99:
                    failing.append(store.submit(updated(bad, n)))  # which is taken out when it fails
                if n == 1_000:
                    failing.append(store.submit(created(entity("urn:odd", Fraction(1, 3)))))  # which is no JSON
            assert len({each.part for each in store._committer._waiting} - {None}) > 10
            os.kill(process_of(store), signal.SIGCONT)
            assert await asyncio.gather(*good) == [None] * len(good)
            results = await asyncio.gather(*failing, return_exceptions=True)
            assert all(isinstance(result, CommitFailed) for result in results)
            found = (await store.query(EntityQuery(limit=2_000, order_by=()))).entities
            assert {each.id: each.attributes[NAMES[0]][0]["value"] for each in found} == {
                "urn:first": 1,
                **{f"urn:x:{n}": n for n in range(1_500)},
            }
            assert [id_ for id_, _ in store.documents("k")] == [str(n) for n in range(1_500)]

    asyncio.run(run())


def test_if_it_is_killed_nothing_is_lost_and_nobody_hears_of_it(tmp_path: Path) -> None:
    killed = 0

    async def client(store: Store, id_: str, until: float) -> int:
        kept, value = entity(id_, 0), 0
        await store.submit(created(kept), PutDocument("twin", id_, b"0"))
        while time.monotonic() < until:
            value += 1
            write = updated(kept, value)
            assert write.after is not None
            kept = write.after
            await store.submit(write, PutDocument("twin", id_, str(value).encode()))
            assert store.entity(id_) == kept
        return value

    async def killer(store: Store, until: float) -> None:
        nonlocal killed
        rng = random.Random(7)
        while time.monotonic() < until:
            store._committer._not_before = 0  # it may be started again at once
            await asyncio.sleep(rng.uniform(0, 0.7))
            process = store._committer._process
            if process is not None:
                os.kill(process.pid, signal.SIGKILL)
                killed += 1

    async def run() -> None:
        async with opened(tmp_path) as store:
            until = time.monotonic() + 6
            killing = asyncio.create_task(killer(store, until))
            values = await asyncio.gather(*(client(store, f"urn:x:{n}", until) for n in range(8)))
            await killing
            for n, value in enumerate(values):
                found = store.entity(f"urn:x:{n}")
                assert found is not None
                assert found.attributes[NAMES[0]][0]["value"] == value
                assert store.document("twin", f"urn:x:{n}") == str(value).encode()
            log = await store.read(
                lambda connection: connection.execute("SELECT entity, count(*) FROM log GROUP BY entity").fetchall()
            )
            assert dict(log) == {f"urn:x:{n}": value + 1 for n, value in enumerate(values)}  # each once, and none twice

    asyncio.run(run())
    assert killed >= 3
    assert len(all_rows(tmp_path)["entities"]) == 8


def test_if_the_store_cannot_be_opened_again_all_that_wait_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    async def run() -> None:
        async with opened(tmp_path) as store:
            await store.submit(created(entity("urn:x")))
            monkeypatch.setattr(committing, "BatchWriter", broken)
            os.kill(process_of(store), signal.SIGSTOP)
            writes = [store.submit(created(entity(f"urn:{n}"))) for n in range(100)]
            await asyncio.sleep(0)
            os.kill(process_of(store), signal.SIGKILL)
            results = await asyncio.gather(*writes, return_exceptions=True)
            assert all(isinstance(result, CommitFailed) and "disk I/O error" in result.detail for result in results)
            assert store.is_idle
            with pytest.raises(CommitFailed):
                store.submit(created(entity("urn:y")))

    asyncio.run(run())


def test_it_begins_when_there_is_much_to_write_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committing, "PROCESSES_MAX", 1)  # also where there is one processor only

    async def run() -> None:
        async with opened(how="busy") as store:
            await asyncio.gather(*(store.submit(created(entity(f"urn:few:{n}"))) for n in range(BUSY_WRITES // 2)))
            assert store._committer._process is None
            n = 0
            while store._committer.writer is not None:
                n += 1
                await asyncio.gather(*(store.submit(created(entity(f"urn:{n}:{i}"))) for i in range(200)))
            await store.submit(created(entity("urn:last")))
            found = await store.query(EntityQuery(count=True, limit=0))
            assert found.count == BUSY_WRITES // 2 + n * 200 + 1
            pid = process_of(store)
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)

    asyncio.run(run())


def test_it_ends_when_there_is_nothing_to_write_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committing, "IDLE_S", 0.2)
    monkeypatch.setattr(committing, "BUSY_WRITES", 10)
    monkeypatch.setattr(committing, "PROCESSES_MAX", 1)

    async def run() -> None:
        async with opened(how="busy") as store, opened(how="busy") as other:
            n = 0
            while store._committer.writer is not None:
                await asyncio.gather(*(store.submit(created(entity(f"urn:{n}:{i}"))) for i in range(20)))
                n += 1
            await asyncio.gather(*(other.submit(created(entity(f"urn:{i}"))) for i in range(20)))
            assert other._committer._process is None  # there is one for all stores
            pid = process_of(store)
            while store._committer.writer is None:  # noqa: ASYNC110  there is nobody to tell us
                await asyncio.sleep(0.05)
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)
            await store.submit(created(entity("urn:after")))
            assert store.entity("urn:after") is not None
            assert (await store.query(EntityQuery(count=True, limit=0))).count == 20 * n + 1

    asyncio.run(run())


def test_another_loop_may_go_on_with_the_store(tmp_path: Path) -> None:
    store = Store.open(tmp_path, settings=StoreSection(writer_process="always"))

    async def write(n: int) -> None:
        await asyncio.gather(*(store.submit(created(entity(f"urn:{n}:{i}"))) for i in range(20)))

    for n in range(3):
        asyncio.run(write(n))
    store.close_now()
    assert len(all_rows(tmp_path)["entities"]) == 60


def test_the_store_is_locked_until_it_has_ended(tmp_path: Path) -> None:
    """What a killed node handed over is written before another one begins."""

    async def run() -> None:
        async with opened(tmp_path) as store:
            await store.submit(created(entity("urn:x")))
            os.kill(process_of(store), signal.SIGSTOP)
            assert store._lock is not None
            mine = os.open(tmp_path / "default.lock", os.O_WRONLY)
            store._lock.close()  # as if the node had died
            with pytest.raises(BlockingIOError):
                fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.kill(process_of(store), signal.SIGCONT)
            os.close(mine)

    asyncio.run(run())


def test_frames_come_in_any_pieces() -> None:
    rng = random.Random(3)
    changes = some_changes(rng, 50)
    odd = PutDocument("k", "é\ud800", b"\0")
    for half in changes[::2]:
        half.make_plain()
    orders = [Order(n, n, [(change, odd)]) for n, change in enumerate(changes)]
    orders.append(Order(50, 50, [(created(entity("urn:odd", Fraction(1, 3))), odd)]))  # which is no JSON
    sent = b"".join(order_frame(order.heard, order.first, tasks_bytes(order.tasks)) for order in orders)
    frames = Frames()
    heard: list[Order] = []
    while sent:
        cut = rng.randrange(1, 2_000)
        heard += map(read_order, frames.fed(sent[:cut]))
        sent = sent[cut:]
    for order, was in zip(heard, orders, strict=True):
        assert (order.heard, order.first) == (was.heard, was.first)
        (change, document), (was_change, was_document) = order.tasks[0], was.tasks[0]
        assert document == was_document
        assert isinstance(change, SaveChange)
        assert isinstance(was_change, SaveChange)
        assert (change.id, change.plain) == (was_change.id, was_change.plain)
        assert change.id == "urn:odd" or change.make_plain() == was_change.make_plain()
