"""An agent makes a platform that does not speak NGSI-LD part of a node's data, and takes commands back to it.

What a platform is like goes into five methods (in brackets the primitives of the ComDeX paper, section 6.5):

    subscribe       tell the platform what is wanted                                    (subscribeLegacy)
    receive         what comes from it, as it comes                                     (receiveLegacy)
    adapt           what came, as NGSI-LD entities                                      (adaptModel)
    translate       a change at the node, as calls of the platform                      (translateAPI)
    publish         one such call, made                                                 (publishLegacy)

The rest is here and the same for all:

    receive -> adapt -> line (bounded) -> batches of what is news -> node
    platform <- publish <- translate <- notifications of what others changed <- node

- A reader that gets ahead of the node waits; a source that cannot wait has a bounded line of its own and counts what it drops.
- The node is told what changed, and only that; after a restart of the agent, what the node has already is not written again.
- A node or a platform that is away is tried again, at growing intervals, for as long as the agent runs.
- What cannot be used is refused, counted and said in one line; it never stops the rest.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import Any, ClassVar, Final, TypeAlias, TypeVar

from msgspec import Struct, field

from hanse.agents.line import Line
from hanse.agents.memory import Memory
from hanse.client.errors import NgsiLdClientError
from hanse.client.node import OPERATIONS, NodeClient
from hanse.model.errors import InvalidInput

LINE_MAX: Final = 10_000  # entities that wait for the node
BATCH_MAX: Final = 500  # entities in one request
REASONS_MAX: Final = 20  # different reasons that are kept in words; all are counted
BACKOFF_S: Final = 0.5  # doubles each time ...
BACKOFF_MAX_S: Final = 30.0
STOP_S_MAX: Final = 5.0  # how long a stop waits for the node to take what has been received
AWAY: Final = frozenset({0, 408, 429, 500, 502, 503, 504})  # answers of a node that may be others later
TOO_MUCH_OR_WRONG: Final = frozenset({400, 413})  # ... that may be meant for one entity of a batch only

Entity: TypeAlias = dict[str, Any]
Call: TypeAlias = tuple[str, bytes]  # a topic (or whatever a platform calls it) and a message
T = TypeVar("T")


class PlatformAway(ConnectionError):
    """The platform cannot be reached just now; one line that says why."""

    code = "H0303"


class Unusable(InvalidInput):
    """The whole source is of no use, not a part of it: the agent ends."""


class Received(Struct, frozen=True):
    """Something of the platform, and when it came (or, if the platform says so, when it was put together)."""

    source: Any
    at: str


class Gone(Struct, frozen=True):
    """An entity that the platform has no more."""

    id: str


class Counters(Struct):
    """What an agent did. Everything that was received is in one of: adapted (to some entities), refused."""

    received: int = 0
    adapted: int = 0  # entities
    unchanged: int = 0  # entities that the node knew already
    written: int = 0  # entities that the node took
    deleted: int = 0
    refused: int = 0
    lost: int = 0  # no room, or no node before the end
    published: int = 0  # calls of the platform
    retries: int = 0
    reasons: list[str] = field(default_factory=list)


class _Item(Struct, frozen=True):
    entity: Entity | Gone
    at: str


class Agent:
    derived: ClassVar[frozenset[str]] = frozenset()  # attributes that are no news by themselves
    whole: ClassVar[bool] = False  # whether `adapt` gives whole entities: an attribute that is missing is then gone
    line_max: int = LINE_MAX
    backoff_s: float = BACKOFF_S
    stop_s: float = STOP_S_MAX

    def __init__(self) -> None:
        self.counters = Counters()
        self.on_note: Callable[[str], None] = lambda _: None
        self._noted = ""
        self._memory = Memory(self.derived)
        self._stopping = asyncio.Event()

    # --- what a platform is like --------------------------------------------------------------------------------------

    async def prepare(self, node: NodeClient) -> None:
        """Look at what the node has, once, before anything is received."""

    async def connect(self) -> None:
        """Reach the platform. Raises PlatformAway."""

    async def subscribe(self) -> None:
        """Tell the platform what is wanted; after each `connect`. Raises PlatformAway."""

    def receive(self) -> AsyncIterator[Received]:
        """What comes. Ends when nothing more can come; raises PlatformAway when the platform is lost."""
        raise NotImplementedError

    def adapt(self, received: Received) -> Iterable[Entity | Gone]:
        """What came, as entities in the normalized form, and those that are no more. Raises InvalidInput; see also `refuse`."""
        raise NotImplementedError

    def interests(self) -> Iterable[dict[str, Any]]:
        """What to listen to at the node, as arguments of `NodeClient.subscribe`."""
        return ()

    def translate(self, entity: Entity) -> Iterable[Call]:  # noqa: ARG002
        """The calls of the platform that follow from what somebody changed at the node. Raises InvalidInput."""
        return ()

    async def publish(self, topic: str, message: bytes) -> None:
        """Make such a call; done when the platform has it. Raises PlatformAway."""
        raise NotImplementedError

    async def disconnect(self) -> None:
        """Leave the platform; after each `connect`, also one that failed."""

    async def finish(self) -> bool:
        """Stop: whether `receive` will end by itself, with what has come until now."""
        return False

    def waiting(self) -> int:
        """How much has come that `receive` has not given out yet."""
        return 0

    # --- what all have in common --------------------------------------------------------------------------------------

    def refuse(self, error: InvalidInput | str) -> None:
        """Something cannot be used: count it, and say why."""
        self.counters.refused += 1
        reason = " ".join(str(error).split())[:300]
        if reason not in self.counters.reasons and len(self.counters.reasons) < REASONS_MAX:
            self.counters.reasons.append(reason)
            self.note(f"refused: {reason}")

    def note(self, text: str) -> None:
        """Tell whoever watches; the same thing once."""
        if text != self._noted:
            self._noted = text
            self.on_note(text)

    def stop(self) -> None:
        """End `run`: nothing more is received, and what was goes to the node, if it takes it soon."""
        self._stopping.set()

    async def _pause(self, seconds: float) -> None:
        """Wait; a stop makes waits short."""
        if self._stopping.is_set():
            await asyncio.sleep(min(seconds, self.backoff_s))
            return
        with suppress(TimeoutError):  # asyncio.wait_for swallows a cancellation that comes with the stop (Python 3.11)
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    async def run(self, node: NodeClient, *, once: bool = False, patience_s: float = math.inf) -> Counters:
        """Work until `stop`, or until there is nothing more to receive.

        `once`: a platform that is away is an error (PlatformAway) rather than tried again. `patience_s`: how long a node may be
        away before that is an error (NgsiLdClientError).
        """
        line: Line[_Item] = Line(self.line_max)
        reading = asyncio.create_task(self._read(node, line, patience_s, once=once))
        writing = asyncio.create_task(self._write(node, line, patience_s))
        telling = [asyncio.create_task(self._tell(node, interest)) for interest in self.interests()]
        stopping = asyncio.create_task(self._stopping.wait())
        tasks = [reading, writing, stopping, *telling]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if stopping.done():
                await _end(telling)
                if await self.finish():
                    await asyncio.wait({reading}, timeout=self.stop_s)
            if not reading.done():
                await _end([reading])
            line.close()
            if not stopping.done():
                await asyncio.wait([writing, stopping, *telling], return_when=asyncio.FIRST_COMPLETED)
            if not writing.done():
                await asyncio.wait({writing}, timeout=self.stop_s)
        finally:
            await _end(tasks)
            await self.disconnect()
            self.counters.lost += len(line) + self.waiting()
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error
        return self.counters

    async def _read(self, node: NodeClient, line: Line[_Item], patience_s: float, *, once: bool) -> None:
        try:
            await self._insist(partial(self.prepare, node), patience_s)
        except NgsiLdClientError as error:
            if error.status != 404:  # a tenant that the first write will make
                raise
        pause_s = self.backoff_s
        while True:
            try:
                await self.connect()
                await self.subscribe()
                async for received in self.receive():
                    pause_s = self.backoff_s
                    self.counters.received += 1
                    await self._adapt(received, line)
            except PlatformAway as error:
                if once:
                    raise
                self.counters.retries += 1
                self.note(f"{error}; trying again")
            else:
                return
            await self.disconnect()
            await self._pause(pause_s)
            if self._stopping.is_set():
                return
            pause_s = min(2 * pause_s, BACKOFF_MAX_S)

    async def _adapt(self, received: Received, line: Line[_Item]) -> None:
        try:
            for entity in self.adapt(received):
                self.counters.adapted += isinstance(entity, dict)
                await line.put(_Item(entity, received.at))
        except Unusable:
            raise
        except InvalidInput as error:
            self.refuse(error)
        except asyncio.CancelledError:
            self.counters.lost += 1
            raise

    # --- to the node --------------------------------------------------------------------------------------------------

    async def _write(self, node: NodeClient, line: Line[_Item], patience_s: float) -> None:
        while batch := await line.take(BATCH_MAX):
            done = 0
            try:
                for is_entity, group in groupby(batch, lambda item: isinstance(item.entity, dict)):
                    items = list(group)
                    await (self._upsert if is_entity else self._delete)(node, items, patience_s)
                    done += len(items)
            finally:
                self.counters.lost += len(batch) - done

    async def _upsert(self, node: NodeClient, items: list[_Item], patience_s: float) -> None:
        await self._recall(node, items, patience_s)
        known = {item.entity["id"] for item in items if isinstance(item.entity, dict) and item.entity["id"] in self._memory}
        news: list[Entity] = []
        whole: dict[str, Entity] = {}  # of those that the node should know already
        vanished: set[tuple[str, str]] = set()
        for item in items:
            assert isinstance(item.entity, dict)
            id_ = item.entity["id"]
            if self.whole:
                vanished -= {(id_, name) for name in item.entity}
                vanished |= {(id_, name) for name in self._memory.vanished(item.entity)}
            change = self._memory.change(item.entity, item.at)
            if change is None:
                self.counters.unchanged += 1
                continue
            news.append(change)
            if id_ in known:
                whole[id_] = item.entity
        created = await self._send(node, news, patience_s)
        again = [whole[id_] for id_ in created if id_ in whole]
        if again:  # somebody had deleted it: it is there with a part of it only
            await self._send(node, again, patience_s)
        for id_, name in sorted(vanished):
            try:
                await self._insist(partial(node.delete_attribute, id_, name), patience_s)
            except NgsiLdClientError as error:
                if error.status != 404:
                    raise

    async def _recall(self, node: NodeClient, items: list[_Item], patience_s: float) -> None:
        """Ask the node once for what it knows of entities that this run has not seen yet."""
        unknown: dict[str, tuple[Entity, str]] = {}
        for item in items:
            if isinstance(item.entity, dict) and item.entity["id"] not in self._memory:
                unknown.setdefault(item.entity["id"], (item.entity, item.at))
        if not unknown:
            return
        ids: dict[str, list[str]] = {}  # by type
        for id_, (entity, _) in unknown.items():
            ids.setdefault(entity["type"], []).append(id_)
        query = {"type": "Query", "entities": [{"type": type_, "id": some} for type_, some in ids.items()]}
        params = {"limit": BATCH_MAX, "local": True}
        path = f"{OPERATIONS}/query"
        try:
            reply = await self._insist(lambda: node.request("POST", path, params=params, json=query), patience_s)
        except NgsiLdClientError as error:
            if error.status not in TOO_MUCH_OR_WRONG and error.status != 404:
                raise
            return  # an id that is none: writing will tell which; a tenant that is none: the first write makes it
        for found in reply.data:
            if found["id"] in unknown:
                self._memory.recall(found, *unknown[found["id"]])

    async def _send(self, node: NodeClient, entities: list[Entity], patience_s: float) -> list[str]:
        """Write; gives the ids of those that were new to the node, where it says so."""
        if not entities:
            return []
        path, params = f"{OPERATIONS}/upsert", {"options": "update"}
        try:
            reply = await self._insist(lambda: node.request("POST", path, params=params, json=entities), patience_s)
        except BaseException as error:
            for entity in entities:
                self._memory.forget(entity["id"])
            if not isinstance(error, NgsiLdClientError) or error.status not in TOO_MUCH_OR_WRONG:
                raise
            if len(entities) == 1:
                self.refuse(f"{entities[0]['id']}: {error}")
                return []
            half = len(entities) // 2
            return [id_ for part in (entities[:half], entities[half:]) for id_ in await self._send(node, part, patience_s)]
        problems = reply.data.get("errors", []) if reply.status == 207 else []
        for problem in problems:
            said = problem.get("error", {})
            self._memory.forget(str(problem.get("entityId", "")))
            self.refuse(f"{problem.get('entityId', '?')}: {said.get('detail') or said.get('title') or 'no reason given'}")
        self.counters.written += len(entities) - len(problems)
        return list(reply.data) if reply.status == 201 and isinstance(reply.data, list) else []

    async def _delete(self, node: NodeClient, items: list[_Item], patience_s: float) -> None:
        ids = list(dict.fromkeys(item.entity.id for item in items if isinstance(item.entity, Gone)))
        for id_ in ids:
            self._memory.forget(id_)
        try:
            result = await self._insist(lambda: node.delete_all(ids), patience_s)
        except NgsiLdClientError as error:
            if error.status != 404:  # none of them is there: so much the better
                raise
        else:
            self.counters.deleted += len(result.success)

    async def _insist(self, request: Callable[[], Awaitable[T]], patience_s: float) -> T:
        """Make a request until the node answers it."""
        pause_s, end = self.backoff_s, time.monotonic() + patience_s
        while True:
            try:
                return await request()
            except NgsiLdClientError as error:
                if error.status not in AWAY or time.monotonic() + pause_s > end:
                    raise
                self.counters.retries += 1
                self.note(f"{error}; trying again")
            await self._pause(pause_s)
            pause_s = min(2 * pause_s, BACKOFF_MAX_S)

    # --- and back -----------------------------------------------------------------------------------------------------

    async def _tell(self, node: NodeClient, interest: dict[str, Any]) -> None:
        pause_s = self.backoff_s
        while True:
            stream = node.subscribe(**interest)
            try:
                await stream.open()
                async for notification in stream:
                    pause_s = self.backoff_s
                    for entity in notification.get("data", []):
                        await self._command(entity)
            except NgsiLdClientError as error:
                if error.status not in AWAY and error.status != 404:  # 404: the node has forgotten the subscription
                    raise
                self.counters.retries += 1
                self.note(f"{error}; trying again")
            finally:
                self.counters.lost += stream.gaps
                await stream.close()
            await self._pause(pause_s)
            pause_s = min(2 * pause_s, BACKOFF_MAX_S)

    async def _command(self, entity: Entity) -> None:
        id_ = str(entity.get("id", ""))
        foreign = {name: value for name, value in entity.items() if name == "id" or not self._memory.said(id_, name, value)}
        try:
            calls = list(self.translate(foreign))
        except InvalidInput as error:
            self.refuse(error)
            return
        for topic, message in calls:
            pause_s = self.backoff_s
            while True:
                try:
                    await self.publish(topic, message)
                except PlatformAway as error:
                    self.counters.retries += 1
                    self.note(f"{error}; trying again")
                else:
                    break
                await self._pause(pause_s)
                pause_s = min(2 * pause_s, BACKOFF_MAX_S)
            self.counters.published += 1
        for name in foreign:  # the node has another value now than the one that was told last
            self._memory.forget(id_, name)


async def _end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
