"""One tenant's store: a SQLite database in a file, with one writer and readers that never wait for it.

All methods are called on the event loop's thread. What is asked by id is read there at once; queries run in a few threads, each
with a connection of its own. `latest` sees what has been accepted, `entity` and all queries what is durable.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import sqlite3
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote, unquote

import msgspec

from hanse.ngsild.entity import Entity, decode_entity, encode_entity, now_text
from hanse.ngsild.quality import Measure, default_measure
from hanse.ngsild.query import EntityQuery
from hanse.ngsild.temporal import SCOPE
from hanse.node.settings import StoreSection
from hanse.node.store import outbox
from hanse.node.store.beside import WholeSearcher
from hanse.node.store.committing import Committer
from hanse.node.store.connection import RECENT_BYTES_MAX, Writer, open_reader
from hanse.node.store.discovery import AttributeInfo, TypeInfo, discover_attributes, discover_types
from hanse.node.store.history import names as past_names
from hanse.node.store.known_ids import KnownIds
from hanse.node.store.log import LogRecord, read_records
from hanse.node.store.schema import StoreError
from hanse.node.store.search import Found, Searcher
from hanse.node.store.times import now_us, to_us
from hanse.node.store.writes import SaveChange, Write

if TYPE_CHECKING:
    from hanse.node.lake import Question, TenantLake

READERS: Final = 2
RECENT_MAX: Final = 10_000  # entities that are kept in memory: those asked for last, unless they are large
QUERY_MS_MAX: Final = 10_000
LOCK_S: Final = 2.0  # what a node that was killed has handed over may still be being written
_LOOK_UP: Final = """SELECT id, CASE WHEN length(document) <= ? THEN document END FROM entities
    WHERE id IN (SELECT value FROM json_each(?))"""
_PREFIX, _SUFFIX, _DEFAULT = "tenant-", ".sqlite", "default"

T = TypeVar("T")
S = TypeVar("S", bound=Searcher)


class Store:
    def __init__(
        self, path: Path, settings: StoreSection, *, lock: IO[str] | None, temporary: Path | None, query_ms_max: int
    ) -> None:
        self.path = path
        self._settings = settings
        self._lock = lock
        self._temporary = temporary
        self._query_ms_max = query_ms_max
        self.measure: Measure = default_measure()  # what queries measure quality by
        self.lake: TenantLake | None = None  # where the past is that is no longer here
        self._committer = Committer(path, settings, lock, self._settled, durable=temporary is None)
        self._reader = open_reader(path)
        self._recent: OrderedDict[str, Entity | bytes] = OrderedDict()
        self._known = KnownIds(id_ for (id_,) in self._reader.execute("SELECT id FROM entities"))
        self._absent: set[str] = set()  # of those that were looked up last: they are not there
        self._found: dict[str, Entity] = {}  # and these are
        self._coming: set[str] = set()  # all of them
        self._threads = ThreadPoolExecutor(READERS, "hanse-read")
        self._local = threading.local()
        self._searchers: list[Searcher] = []
        self._delivery_id: int = self._reader.execute(outbox.NEWEST_DELIVERY).fetchone()[0]
        self._closed = False

    @classmethod
    def open(
        cls,
        directory: Path | None,
        tenant: str = "",
        settings: StoreSection | None = None,
        *,
        query_ms_max: int = QUERY_MS_MAX,
    ) -> Store:
        """None: memory only, that is, nothing is left of it when it is closed."""
        settings = settings or StoreSection()
        if directory is None:
            temporary = Path(tempfile.mkdtemp(prefix="hanse-"))
            return cls(temporary / "memory.sqlite", settings, lock=None, temporary=temporary, query_ms_max=query_ms_max)
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / _file_name(tenant)
        lock = _locked(path)
        try:
            return cls(path, settings, lock=lock, temporary=None, query_ms_max=query_ms_max)
        except sqlite3.DatabaseError as error:
            lock.close()
            raise StoreError(f"{path} cannot be opened: {error}") from error
        except BaseException:
            lock.close()
            raise

    @staticmethod
    def tenants(directory: Path) -> list[str]:
        """The tenants that have a store there; "" is the default one."""
        if not directory.is_dir():
            return []
        return sorted(
            unquote(path.name[len(_PREFIX) : -len(_SUFFIX)]) if path.name.startswith(_PREFIX) else ""
            for path in directory.iterdir()
            if path.name == _file_name("") or (path.name.startswith(_PREFIX) and path.name.endswith(_SUFFIX))
        )

    async def close(self) -> None:
        self.close_now()

    def close_now(self) -> None:
        """What was submitted is committed first; queries that run are interrupted."""
        if self._closed:
            return
        self._closed = True
        self._committer.drain()
        for searcher in self._searchers:
            searcher.connection.interrupt()
        self._threads.shutdown(cancel_futures=True)
        for searcher in self._searchers:
            searcher.connection.close()
        self._reader.close()
        self._committer.close()  # the last one takes the write-ahead log to the database
        if self._lock is not None:
            self._lock.close()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    # --- writing ------------------------------------------------------------------------------------------------------

    def submit(self, *writes: Write) -> asyncio.Future[Any]:
        """All of them or none; the future is done when they are durable, with what one of them has to tell, if anything.
        Raises TooManyPending.
        """
        for write in writes:
            if isinstance(write, SaveChange):
                self._known.add(write.id)
                if write.id in self._coming:  # it is one of many
                    write.make_plain()
        return self._committer.submit(writes)

    def _settled(self, id_: str, entity: Entity | None) -> None:
        """A change is durable: what was remembered of the entity is out of date. None: do not remember it. What nobody has asked
        for takes nobody's place; and what has only been created is kept in JSON: that is one object and not thirty.
        """
        self._absent.discard(id_)
        self._found.pop(id_, None)
        recent = self._recent
        if entity is None:
            recent.pop(id_, None)
        elif id_ in recent or len(recent) < RECENT_MAX:
            recent[id_] = entity if entity.created_at != entity.modified_at else encode_entity(entity)

    def _remember(self, id_: str, entity: Entity) -> None:
        recent = self._recent
        recent[id_] = entity
        if len(recent) > RECENT_MAX:
            recent.popitem(last=False)

    def has_room(self, writes: int) -> bool:
        """Whether so many can be submitted."""
        return self._committer.pending + writes <= self._settings.pending_writes_max

    @property
    def is_idle(self) -> bool:
        """Whether all that was submitted is settled."""
        return not self._committer.pending

    @property
    def _writer(self) -> Writer:
        """The connection that writes, while it is in this process."""
        writer = self._committer.writer
        assert writer is not None
        return writer.connection

    @property
    def reader(self) -> sqlite3.Connection:
        """For what is read once, when a node starts, on the loop's thread."""
        return self._reader

    # --- entities -----------------------------------------------------------------------------------------------------

    def latest(self, id_: str, *, even_expired: bool = False) -> Entity | None:
        """The newest state that was accepted, perhaps not yet durable: what the next change starts from."""
        pending = self._committer.overlay.get(id_)
        if pending is None:
            return self.entity(id_, even_expired=even_expired)
        entity = pending[0]
        return None if entity is None or (_has_expired(entity) and not even_expired) else entity

    def entity(self, id_: str, *, even_expired: bool = False) -> Entity | None:
        """The durable state."""
        entity = self._recent.get(id_) or self._found.get(id_)
        if isinstance(entity, bytes):
            entity = self._recent[id_] = decode_entity(entity)
        elif entity is None:
            if id_ not in self._known or id_ in self._absent:
                return None
            row = self._reader.execute("SELECT document FROM entities WHERE id = ?", (id_,)).fetchone()
            if row is None:
                return None
            entity = decode_entity(row[0])
            if len(row[0]) <= RECENT_BYTES_MAX:
                self._remember(id_, entity)
        return None if entity.expires_at is not None and _has_expired(entity) and not even_expired else entity

    def look_up(self, ids: Iterable[str]) -> None:
        """These will be asked for, one after the other: for so many at once the disk is asked only once. It changes no answer.

        Where a great many come by they take nobody's place in what is remembered: to keep them decoded would cost more than to
        decode them. Their changes are made plain here, for whoever writes them has more to do than this process.
        """
        recent, overlay = self._recent, self._committer.overlay
        self._coming = coming = set(ids)
        self._absent = absent = {id_ for id_ in coming if id_ in self._known and id_ not in recent and id_ not in overlay}
        self._found = found = {}
        if not absent:
            return
        sought = msgspec.json.encode(sorted(absent)).decode()
        for id_, document in self._reader.execute(_LOOK_UP, (RECENT_BYTES_MAX, sought)):
            absent.discard(id_)
            if document is not None:
                found[id_] = decode_entity(document)

    def past_types(self, id_: str) -> tuple[str, ...]:
        """The types of an entity that has a past, whether it has a present or not."""
        row = self._reader.execute("SELECT types FROM temporal_entities WHERE id = ?", (id_,)).fetchone()
        return tuple(msgspec.json.decode(row[0])) if row is not None else ()

    def past_attributes(self, id_: str) -> list[str]:
        """The names of all attributes in an entity's past, whatever is left of it here."""
        return sorted(past_names(self._reader, id_) - {SCOPE})

    def expired(self, now: str | None = None, limit: int = 1_000) -> list[str]:
        """Transient entities whose time is over: no reading shows them, someone has to delete them."""
        at = to_us(now or now_text())
        rows = self._reader.execute("SELECT id FROM entities WHERE expires_us <= ? ORDER BY expires_us LIMIT ?", (at, limit))
        return [id_ for (id_,) in rows]

    async def query(self, query: EntityQuery) -> Found:
        return await self._read(lambda searcher: searcher.query(query, self.measure))

    async def ids(self, query: EntityQuery) -> list[str]:
        """Of all that match, whatever limit and offset say."""
        return await self._read(lambda searcher: searcher.ids(query, self.measure))

    async def types(self) -> list[TypeInfo]:
        return await self.read(discover_types)

    def type_counts(self) -> dict[str, int]:
        """How many entities there are of each type."""
        rows = self._reader.execute(
            """SELECT n.name, sum(c.entities) FROM (SELECT type_set, count(*) AS entities FROM entities GROUP BY type_set) AS c
            JOIN type_set_members AS t ON t.type_set = c.type_set JOIN names AS n ON n.id = t.type GROUP BY n.name"""
        )
        return {name: int(count) for name, count in rows}

    async def attributes(self) -> list[AttributeInfo]:
        return await self.read(discover_attributes)

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run anything that only reads in a reader's thread, in one transaction, within the time a query may take."""
        return await self._read(lambda searcher: searcher.run(lambda: work(searcher.connection)))

    async def read_past(self, work: Callable[[sqlite3.Connection], T], question: Question) -> T:
        """The same for what reads `history`, which has what is asked for even if it is only in the lake."""
        return await (self.read(work) if self.lake is None else self.lake.read(self, question, work))

    def whole(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """In a thread of the lake: run something on a connection that can have rows of the past beside its own."""
        searcher = self.here(WholeSearcher)
        return searcher.run(lambda: work(searcher.connection))

    async def _read(self, work: Callable[[Searcher], T]) -> T:
        return await self.in_thread(Searcher, work)

    async def in_thread(self, kind: type[S], work: Callable[[S], T]) -> T:
        """Run something with a searcher of one kind, in a reader's thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: work(self.here(kind)))

    def here(self, kind: type[S]) -> S:
        """The searcher of one kind of the thread that asks; each has a connection of its own."""
        searchers: dict[str, Searcher] = self._local.__dict__
        searcher = searchers.get(kind.__name__)
        if searcher is None:
            searcher = searchers[kind.__name__] = kind(open_reader(self.path), self._query_ms_max)
            self._searchers.append(searcher)
        assert isinstance(searcher, kind)
        return searcher

    # --- documents ----------------------------------------------------------------------------------------------------

    def documents(self, kind: str) -> list[tuple[str, bytes]]:
        """All of a kind, in order of creation."""
        return self._reader.execute("SELECT id, data FROM documents WHERE kind = ? ORDER BY n", (kind,)).fetchall()

    def document(self, kind: str, id_: str) -> bytes | None:
        row = self._reader.execute("SELECT data FROM documents WHERE kind = ? AND id = ?", (kind, id_)).fetchone()
        return bytes(row[0]) if row else None

    # --- log ----------------------------------------------------------------------------------------------------------

    def read_log(self, after: int = 0, limit: int = 1_000) -> list[LogRecord]:
        """What happened after an offset, oldest first; the oldest records of all may be gone."""
        return read_records(self._reader, after, limit)

    def log_end(self) -> int:
        """The offset of the newest record; 0: nothing has happened yet."""
        (newest,) = self._reader.execute("SELECT coalesce(max(offset), 0) FROM log").fetchone()
        return int(newest)

    def log_start(self) -> int:
        """The offset of the oldest record that is kept; one behind the end if there is none."""
        (first,) = self._reader.execute("SELECT coalesce(min(offset), 0) FROM log").fetchone()
        return int(first) or self.log_end() + 1

    # --- outbox -------------------------------------------------------------------------------------------------------

    def next_delivery_id(self) -> int:
        self._delivery_id += 1
        return self._delivery_id

    def pending_deliveries(self) -> list[outbox.Delivery]:
        return [outbox.delivery(row) for row in self._reader.execute(outbox.SELECT_DELIVERIES)]

    def dead_letters(self, limit: int = 100, after: int = 0) -> list[outbox.DeadLetter]:
        return [outbox.dead_letter(row) for row in self._reader.execute(outbox.SELECT_DEAD_LETTERS, (after, limit))]

    def dead_letter(self, id_: int) -> outbox.DeadLetter | None:
        row = self._reader.execute(outbox.SELECT_DEAD_LETTER, (id_,)).fetchone()
        return outbox.dead_letter(row) if row else None

    # --- the whole ----------------------------------------------------------------------------------------------------

    async def backup(self, target: Path) -> None:
        """A copy of everything that is committed by now, while the node runs; it appears at `target` when it is complete."""
        partial = target.with_name(target.name + ".partial")

        def copy() -> None:
            partial.unlink(missing_ok=True)
            source, copied = open_reader(self.path), sqlite3.connect(partial)
            try:
                source.backup(copied)
                copied.execute("DELETE FROM links")  # whoever serves the copy begins new sessions: others have gone on meanwhile
                copied.commit()
            finally:
                source.close()
                copied.close()
            _sync(partial)
            partial.replace(target)
            _sync(target.parent)

        await asyncio.to_thread(copy)

    def bounds(self) -> dict[str, tuple[int, int | None]]:
        """What is used of what there is room for."""
        return {
            "pending_writes": (self._committer.pending, self._settings.pending_writes_max),
            "log_records": (max(0, self.log_end() + 1 - self.log_start()), self._settings.log_records_max),
            "dead_letters": (self._committer.dead_letters, self._settings.dead_letters_max),
            "entities_in_memory": (len(self._recent), RECENT_MAX),
        }


def _has_expired(entity: Entity) -> bool:
    if entity.expires_at is None:
        return False
    expires_us = to_us(entity.expires_at)
    return expires_us is not None and expires_us <= now_us()


def _file_name(tenant: str) -> str:
    return f"{_PREFIX}{quote(tenant, safe='')}{_SUFFIX}" if tenant else f"{_DEFAULT}{_SUFFIX}"


def _locked(path: Path) -> IO[str]:
    """Two processes that write the same store would each trust what they remember of it."""
    lock = path.with_suffix(".lock").open("w")
    until = time.monotonic() + LOCK_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > until:
                lock.close()
                raise StoreError(f"{path} is in use by another process; stop that one, or choose another folder") from None
            time.sleep(0.01)
        else:
            return lock


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
