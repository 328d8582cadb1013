"""The last value of every attribute, for those who follow entities by MQTT.

Each change is published to the topic of the attribute, retained (with a real broker), in the concise form: `30`, or
`{"value": 30, "unitCode": "CEL"}` where there is more to say; `simplified` always gives the bare value. An attribute that goes is
published as nothing, which takes the retained value away.

The newest value counts: what waits to be sent is kept by topic, and a newer value takes the place of an older one. So a slow or
lost broker costs a bounded memory. After a pause that was too long for this bound, after a start, and when the broker has
forgotten us, everything is published again, slowly, beside the daily work.

The topics are in the core context, or in the one that is configured; and besides in each context in which devices have published
entities of the same type since the start, so that they find their own topics up to date.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import Final, TypeAlias

import structlog

from hanse.ngsild.contexts import CORE, Context
from hanse.ngsild.entity import Change, Entity
from hanse.ngsild.errors import NgsiLdError
from hanse.node.metrics import METRICS
from hanse.node.mqtt import mapping

Send: TypeAlias = Callable[[str, bytes, bool], "asyncio.Future[None] | None"]  # topic, payload, retain; None: done already
Entities: TypeAlias = Callable[[str | None, str | None], AsyncIterator[Entity]]

FLYING_MAX: Final = 200
OUTBOX_MAX: Final = 50_000
ERRORS_MAX: Final = 1_000
TYPES_MAX: Final = 1_000  # types whose contexts are remembered ...
CONTEXTS_MAX: Final = 4  # ... and how many of each
LAST_VALUES_MAX: Final = 20_000  # values that one subscription is answered with
CATCH_UP_BATCH: Final = 200
CATCH_UP_SHARE: Final = 0.2  # of the time, at most, goes into publishing everything again

log = structlog.get_logger("hanse.mqtt")


class Mirror:
    def __init__(
        self,
        topics: mapping.Topics,
        send: Send,
        entities: Entities,
        resolve: Callable[[str], Awaitable[Context]],
        *,
        form: mapping.Form,
        context_url: str,
        wanted: Callable[[], bool],
        keeps: bool,
    ) -> None:
        """`wanted`: whether there may be anyone to send to; nothing is prepared if not. `keeps`: the broker retains values."""
        self._topics = topics
        self._send = send
        self._entities = entities
        self._resolve = resolve
        self._form = form
        self._default_url = context_url
        self._default: Context = CORE
        self._wanted = wanted
        self._keeps = keeps
        self._contexts: dict[str, dict[str, Context]] = {}
        self._outbox: dict[str, bytes] = {}
        self._errors: deque[tuple[str, bytes]] = deque(maxlen=ERRORS_MAX)
        self._flying = 0
        self._online = False
        self._behind = keeps  # the retained values may not be the last ones
        self._catching_up: asyncio.Task[None] | None = None
        self._room = asyncio.Event()

    def bounds(self) -> dict[str, tuple[int, int | None]]:
        return {"mqtt_outbox": (len(self._outbox), OUTBOX_MAX), "mqtt_errors": (len(self._errors), ERRORS_MAX)}

    async def start(self) -> None:
        """NgsiLdError if the configured context cannot be had."""
        if self._default_url:
            self._default = await self._resolve(self._default_url)

    async def stop(self) -> None:
        self._online = False
        if self._catching_up is not None:
            self._catching_up.cancel()
            await asyncio.gather(self._catching_up, return_exceptions=True)

    def used(self, type_: str, url: str, context: Context) -> None:
        """A device has published an entity of this type (expanded) in this context."""
        contexts = self._contexts.get(type_)
        if contexts is None:
            if len(self._contexts) >= TYPES_MAX:
                return
            contexts = self._contexts[type_] = {}
        if url not in contexts and len(contexts) < CONTEXTS_MAX:
            contexts[url] = context

    # --- what is to be sent ------------------------------------------------------------------------------------------------

    def changed(self, change: Change, origin: str | None) -> None:
        """After the commit. `origin`: the topic that the change came by, if those who follow it have seen it already."""
        if not self._wanted():
            return
        before, after = change.before, change.after
        if before is not None and after is not None and before.types != after.types and min(before.types) != min(after.types):
            for topic in self._all_topics(before):
                self._put(topic, b"")
            before = None
        for name, instances in mapping.changed_attributes(
            before.attributes if before is not None else {}, after.attributes if after is not None else {}
        ):
            for url, context in self._contexts_of(change.entity):
                topic = self._topics.of_attribute(change.entity, name, context, url)
                if topic != origin:
                    self._put(topic, b"" if instances is None else mapping.attribute_payload(instances, context, self._form))
        self._pump()

    def withdraw(self, entity: Entity, names: Iterable[str]) -> None:
        """These attributes are not to be seen any more."""
        for name in names:
            for url, context in self._contexts_of(entity):
                self._put(self._topics.of_attribute(entity, name, context, url), b"")
        self._pump()

    def tell(self, topic: str, payload: bytes) -> None:
        """Something that is not kept by anyone. The oldest go if there are too many."""
        if self._wanted():
            self._errors.append((topic, payload))
            self._pump()

    def _contexts_of(self, entity: Entity) -> Iterator[tuple[str, Context]]:
        yield self._default_url, self._default
        if self._contexts:
            seen = {self._default_url}
            for type_ in entity.types:
                for url, context in self._contexts.get(type_, {}).items():
                    if url not in seen:
                        seen.add(url)
                        yield url, context

    def _all_topics(self, entity: Entity) -> Iterator[str]:
        for url, context in self._contexts_of(entity):
            for name in entity.attributes:
                yield self._topics.of_attribute(entity, name, context, url)

    def _put(self, topic: str, payload: bytes) -> None:
        self._outbox[topic] = payload
        if len(self._outbox) > OUTBOX_MAX:
            del self._outbox[next(iter(self._outbox))]
            METRICS.count("mqtt_messages", "unpublished")
            self._behind = True

    # --- sending -----------------------------------------------------------------------------------------------------------

    def connected(self, *, everything: bool) -> None:
        """There is a broker (again). `everything`: it has forgotten us."""
        self._online = True
        self._pump()
        if self._keeps and (everything or self._behind):
            if self._catching_up is not None:
                self._catching_up.cancel()
            self._catching_up = asyncio.create_task(self._catch_up())

    def _pump(self) -> None:
        while self._online and self._flying < FLYING_MAX:
            if self._outbox:
                topic = next(iter(self._outbox))
                payload, retain = self._outbox.pop(topic), True
            elif self._errors:
                (topic, payload), retain = self._errors.popleft(), False
            else:
                break
            sent = self._send(topic, payload, retain)
            if sent is None:
                METRICS.count("mqtt_messages", "published")
            else:
                self._flying += 1
                sent.add_done_callback(partial(self._sent, topic, payload, retain))
        if len(self._outbox) < CATCH_UP_BATCH:
            self._room.set()

    def _sent(self, topic: str, payload: bytes, retain: bool, done: asyncio.Future[None]) -> None:
        self._flying -= 1
        if done.cancelled() or done.exception() is not None:
            self._online = False  # until the next `connected`
            if retain and topic not in self._outbox:  # a newer value may wait there already
                self._put(topic, payload)
            return
        METRICS.count("mqtt_messages", "published")
        self._pump()

    async def _catch_up(self) -> None:
        """Publish everything again, taking a share of the time only."""
        self._behind = False
        number, began = 0, time.monotonic()
        try:
            async for entity in self._entities(None, None):
                for topic, payload in self._values(entity):
                    if topic not in self._outbox:
                        self._put(topic, payload)
                        number += 1
                if len(self._outbox) >= CATCH_UP_BATCH:
                    self._room.clear()
                    self._pump()
                    await self._room.wait()
                    await asyncio.sleep((time.monotonic() - began) * (1 / CATCH_UP_SHARE - 1))
                    began = time.monotonic()
            self._pump()
        except asyncio.CancelledError:
            self._behind = True
            raise
        except Exception:
            self._behind = True
            log.exception("publishing all last values failed")
        else:
            log.info("published all last values", number=number)

    def _values(self, entity: Entity, only: tuple[str, Context] | None = None) -> Iterator[tuple[str, bytes]]:
        for url, context in (only,) if only is not None else self._contexts_of(entity):
            for name, instances in entity.attributes.items():
                topic = self._topics.of_attribute(entity, name, context, url)
                yield topic, mapping.attribute_payload(instances, context, self._form)

    # --- on demand ---------------------------------------------------------------------------------------------------------

    async def last_values(self, pattern: str, entities: Entities) -> AsyncIterator[tuple[str, bytes]]:
        """What a subscription to `pattern` wants to know at once; `entities` are those that it may hear of."""
        try:
            sought = self._topics.sought(pattern)
            if sought is None:
                return
            only = None
            if sought.context is not None:
                only = (sought.context, await self._resolve(sought.context) if sought.context else CORE)
            type_ = only[1].expand_type(sought.type) if only is not None and sought.type is not None else None
            number = 0
            async for entity in entities(sought.id, type_):
                for topic, payload in self._values(entity, only):
                    if mapping.topic_matches(pattern, topic):
                        yield topic, payload
                        number += 1
                if number >= LAST_VALUES_MAX:
                    log.warning("a subscription gets no more last values", pattern=pattern, number=number)
                    return
        except NgsiLdError as error:
            log.debug("a subscription gets no last values", pattern=pattern, reason=str(error))
