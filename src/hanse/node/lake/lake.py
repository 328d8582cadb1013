"""The lake of a node: asked in threads of its own, so that who asks for what is here waits for nobody who asks for more.

What happens if something is wrong. A folder that is not there yet, and one without records of this node, are told when the node
starts; the node answers from what it has, and finds what comes later. A lake with records that this node cannot have logged is
refused. A lake that cannot be read while the node runs is told in its log, and the node answers from what it has.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import msgspec
import structlog
from msgspec import Struct

from hanse.model import InvalidInput
from hanse.ngsild.errors import TooComplexQuery, TooManyPending
from hanse.node.lake.catalogue import Catalogue
from hanse.node.lake.question import Gathered, Question
from hanse.node.lake.records import Record, rows
from hanse.node.store.beside import Row, beside
from hanse.node.store.history_search import Head, heads
from hanse.node.store.removed import floor, removed

if TYPE_CHECKING:
    from hanse.node.settings import NodeSettings
    from hanse.node.store import Store

THREADS: Final = 2
QUESTIONS_MAX: Final = 64  # that are asked or wait
OTHERS_SHOWN: Final = 10

T = TypeVar("T")
Work: TypeAlias = Callable[[sqlite3.Connection], T]

log = structlog.get_logger("hanse.lake")


class Lake:
    def __init__(self, settings: NodeSettings) -> None:
        self._settings = settings.lake
        self._query_s_max = settings.limits.query_ms_max / 1000
        self.name = settings.lake.node or settings.node.id
        self._catalogue = Catalogue(Path(settings.lake.path), self.name)
        self._looking = threading.Lock()
        self._threads = ThreadPoolExecutor(THREADS, "hanse-lake")
        self._questions = 0

    # --- starting and ending --------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """See what there is. Raises InvalidInput if it is no lake."""
        await self._in_thread(self._first_look)

    def _first_look(self) -> None:
        catalogue = self._catalogue
        try:
            catalogue.look(again=True)
        except OSError as error:
            raise InvalidInput(f"{catalogue.folder} cannot be read ({error.strerror})", place="[lake] path") from error
        except InvalidInput as error:
            raise error.at("[lake] path") from error
        if catalogue.groups:
            return
        if catalogue.others:
            said = "the lake has no records of this node; [lake] node says what it calls this one"
            log.warning(said, node=self.name, others=sorted(catalogue.others)[:OTHERS_SHOWN])
        elif catalogue.ignored:
            said = "the records of the lake do not say enough to answer from; write its table raw with past = true"
            log.warning(said, folder=str(catalogue.folder))
        else:
            said = "there is nothing in the lake yet; the pipeline writes it, the table raw with past = true"
            log.warning(said, folder=str(catalogue.folder))

    async def serve(self, store: Store, tenant: str) -> None:
        """Be there for a tenant, unless what the lake has of it is not of its log. Raises InvalidInput for the default tenant,
        which is there when a node starts; of others, which come and go, the log tells.
        """
        newest = await self._in_thread(partial(self._newest, tenant))
        if newest is not None:
            known = store.reader.execute("SELECT at_us, entity FROM log WHERE offset = ?", (newest.offset,)).fetchone()
            if newest.offset > store.log_end() if known is None else known != (newest.at_us, newest.entity):
                said = (
                    f"record {newest.offset:,} of {self.name!r} in {self._catalogue.folder} is not this node's: it is another's "
                    "of that name, or this node began anew or from a backup; give each its own name, and set [lake] node"
                )
                if not tenant:
                    raise InvalidInput(said, place="[lake]")
                log.warning(said, tenant=tenant)
                return
        store.lake = TenantLake(self, tenant)

    def _newest(self, tenant: str) -> Record | None:
        try:
            return self._catalogue.newest(tenant)
        except OSError as error:
            log.warning("the lake cannot be read", folder=str(self._catalogue.folder), error=str(error))
            return None

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)

    def bounds(self) -> dict[str, tuple[int, int | None]]:
        return {"lake_questions": (self._questions, QUESTIONS_MAX)}

    # --- being asked ----------------------------------------------------------------------------------------------------

    async def read(self, store: Store, tenant: str, question: Question, work: Work[T]) -> T:
        """Do something that reads `history`, which goes back as far as it does in the lake."""

        def own(connection: sqlite3.Connection) -> T:
            if (until := floor(connection)) is not None and question.reaches(until.latest_us):
                raise _TooShort
            return work(connection)

        try:
            return await store.read(own)
        except _TooShort:
            pass
        if self._questions >= QUESTIONS_MAX:
            raise TooManyPending(f"{QUESTIONS_MAX} questions to the lake are under way; try again soon, or ask for less time")
        self._questions += 1
        try:
            return await self._in_thread(lambda: store.whole(lambda connection: self._answer(connection, tenant, question, work)))
        finally:
            self._questions -= 1

    def _answer(self, connection: sqlite3.Connection, tenant: str, question: Question, work: Work[T]) -> T:
        with beside(connection, self._rows(connection, tenant, question)):
            return work(connection)

    def _rows(self, connection: sqlite3.Connection, tenant: str, question: Question) -> list[Row]:
        """What the lake has to a question, of the time of which the node's own history may lack something."""
        until = floor(connection)
        known = {head.id: head for head in heads(connection, question.selectors, question.only)}
        if until is None or not known:
            return []
        gathered = Gathered(question)
        try:
            every = chain.from_iterable(self._records(tenant, question, known, until.modified_us))
            for row in rows(every, known, removed(connection, list(known)), until.modified_us):
                gathered.add(row)
                if gathered.count > self._settings.instances_max:
                    raise _too_much(self._settings.instances_max, "instances")
        except (OSError, InvalidInput, msgspec.DecodeError) as error:
            log.warning("the lake cannot be read; answered without it", folder=str(self._catalogue.folder), error=str(error))
            return []
        return gathered.rows()

    def _records(self, tenant: str, question: Question, known: dict[str, Head], before_us: int) -> Iterator[list[Record]]:
        with self._looking:
            self._catalogue.look()
            groups = self._catalogue.chosen(question, _types(known.values()), known, before_us)
        if sum(group.records for group in groups) > self._settings.records_max:
            raise _too_much(self._settings.records_max, "records")
        until = time.monotonic() + self._query_s_max
        for some in self._catalogue.records(groups, tenant, question, known):
            if time.monotonic() > until:
                raise TooComplexQuery(f"reading the lake took more than {self._query_s_max:g} s; ask for less time")
            yield some

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


class TenantLake(Struct, frozen=True):
    """The lake, for one tenant."""

    lake: Lake
    tenant: str

    async def read(self, store: Store, question: Question, work: Work[T]) -> T:
        return await self.lake.read(store, self.tenant, question, work)


class _TooShort(Exception):
    """The node's own history does not go back as far as is asked."""


def _too_much(most: int, what: str) -> TooComplexQuery:
    return TooComplexQuery(
        f"the answer would need more than {most:,} {what} of the lake; ask for less time, or name ids or types"
    )


def _types(known: Iterable[Head]) -> set[str] | None:
    """What the records of entities have as `typeId`; None: they may have had other types once."""
    types = set()
    for head in known:
        if head.modified_us != head.created_us:
            return None
        types.add(min(head.types, default=""))
    return types
