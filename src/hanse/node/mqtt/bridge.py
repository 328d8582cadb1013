"""Devices by MQTT: what they publish becomes changes of entities; what changes is published for them.

In: a publication to `{area}/entities/...` creates the entity if there is none, else appends or replaces its attributes (see
`mapping` for topics and payloads). It is acknowledged after the commit. Many that come at once share a commit, for the store
gathers them; at most `pending_max` are under way, the others wait unacknowledged, or are dropped if they were sent with QoS 0.
What is wrong is counted and told at `{area}/errors/...`; it never stops the others.

Out: see `mirror`.

The broker is a real one (`[mqtt] url`) or the embedded one. A real one may go away and come back: the connection is made again,
with growing pauses. Its session is kept, so that what devices publish with QoS 1 meanwhile comes later, if the broker keeps it.
A value that a real broker has retained from before only fills in what the node does not know: the node's own state is newer.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import structlog
from msgspec import Struct

from hanse.model import InvalidInput
from hanse.ngsild import operations
from hanse.ngsild.contexts import CORE, Context
from hanse.ngsild.entity import Change, Entity, now_text
from hanse.ngsild.errors import BadRequestData, NgsiLdError, PayloadTooLarge, TooManyPending
from hanse.ngsild.parsing import parse_entity, parse_fragment, split_context
from hanse.ngsild.query import EntityQuery, EntitySelector
from hanse.node.access.owners import MQTT
from hanse.node.metrics import METRICS
from hanse.node.mqtt import mapping
from hanse.node.mqtt.address import MqttAddress, parse_mqtt_url
from hanse.node.mqtt.certificates import tls_of
from hanse.node.mqtt.connection import MqttConnection, MqttMessage, MqttUnreachable, MqttVersionRefused
from hanse.node.mqtt.mirror import Mirror

if TYPE_CHECKING:
    from hanse.node.mqtt.embedded import EmbeddedBroker
    from hanse.node.store import Store
    from hanse.node.tenant import Node
    from hanse.policies import PolicySet, Principal

PENDING_MAX: Final = 5_000
RECEIVE_MAX: Final = 1_000  # unacknowledged messages that a real broker may send us (MQTT 5)
BACKOFF_S: Final = 0.25
BACKOFF_MAX_S: Final = 30.0
RETRY_S: Final = 0.05  # the pause when the store has too many writes pending already
PAGE: Final = 500  # entities that are read at once
DEFAULT_TENANT: Final = ""

log = structlog.get_logger("hanse.mqtt")


class _Meant(Struct, frozen=True):
    """A publication, understood."""

    place: mapping.Place
    type: str  # expanded
    attribute: str | None  # expanded
    body: dict[str, Any] | None  # what it says, as an entity; None: it takes away
    context: Context
    now: str


class MqttDevices:
    def __init__(
        self,
        node: Node,
        *,
        mirror: bool = True,
        form: mapping.Form = "concise",
        context: str = "",
        pending_max: int = PENDING_MAX,
    ) -> None:
        """`mirror`: publish last values. `form`: of these. `context`: the URL of the JSON-LD context that their topics are in."""
        settings = node.settings.mqtt
        self.area = settings.area or node.settings.node.id
        self.topics = mapping.Topics(self.area)
        self.ready = asyncio.Event()  # devices are heard
        self.embedded: EmbeddedBroker | None = None
        self.connection: MqttConnection | None = None
        self._settings = settings
        self._node = node
        self._access = node.access
        self._withdrawing: asyncio.Task[None] | None = None
        self._pending_max = pending_max
        self._pending = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._crowd = asyncio.Lock()
        self._resolving: dict[str, asyncio.Task[Context]] = {}
        self._origins: dict[int, tuple[Change, str]] = {}
        self._echoes: Counter[tuple[str, bytes]] = Counter()
        self._mirror = Mirror(
            self.topics,
            self._send,
            self.entities,
            self.context,
            form=form,
            context_url=context,
            wanted=self._has_followers,
            keeps=mirror and bool(settings.url),
        )
        self._mirrors = mirror
        self._to: set[Principal | None] | None = None  # for whom what is being published is; None: for all
        self._task: asyncio.Task[None] | None = None

    @property
    def tenant(self) -> Any:
        return self._node.tenants[DEFAULT_TENANT]

    @property
    def port(self) -> int:
        """Where the broker is."""
        if self.embedded is not None:
            return self.embedded.port
        return self.connection.address.port if self.connection is not None else 0

    def bounds(self) -> dict[str, tuple[int, int | None]]:
        """How full what cannot grow without end is: name -> (used, most)."""
        bounds: dict[str, tuple[int, int | None]] = {"mqtt_pending": (self._pending, self._pending_max)}
        bounds |= self._mirror.bounds()
        if self.embedded is not None:
            from hanse.node.mqtt import embedded

            bounds["mqtt_connections"] = (self.embedded.connections, embedded.CONNECTIONS_MAX)
            bounds["mqtt_backlog"] = (self.embedded.backlog, embedded.BACKLOG_MAX)
        return bounds

    # --- life ------------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """OSError if the embedded broker cannot listen; a real broker that is not there is waited for."""
        settings = self._settings
        if settings.url or settings.embedded:
            await self._mirror.start()
        if settings.url:
            address, topic = parse_mqtt_url(settings.url)
            if topic:
                raise BadRequestData(
                    f"[mqtt] url {settings.url!r} names a topic; only the broker is wanted, the topics are given by area"
                )
            if settings.user:
                address = MqttAddress(address.host, address.port, address.tls, settings.user, settings.password)
            self.connection = MqttConnection(
                address, client_id=f"hanse-{self.area}", keep_session=True, receive_max=RECEIVE_MAX, on_message=self._from_broker
            )
            self._task = asyncio.create_task(self._stay_connected(self.connection))
        elif settings.embedded:
            await self._start_embedded()
        else:
            return
        if self._mirrors:
            self.tenant.on_change.append(self._changed)
            if self._access is not None:
                self._access.on_change.append(self._policies_changed)

    async def _start_embedded(self) -> None:
        from hanse.node.mqtt.embedded import EmbeddedBroker  # only who needs amqtt pays for it

        settings = self._settings
        passwords = self._access.passwords if self._access is not None else None
        broker = EmbeddedBroker(
            self.topics.entities,
            host=settings.host,
            port=settings.port,
            user=settings.user,
            password=settings.password,
            tls=tls_of(settings, is_certificate_needed=passwords is None and not settings.user),
        )
        broker.take = self.take
        if self._access is not None:
            broker.passes_on = False
            broker.passwords = passwords
        broker.refuse = self._refuse_size
        if self._mirrors:
            broker.last_values = lambda pattern, hearer: self._mirror.last_values(pattern, partial(self.entities, hearer=hearer))
        await broker.start()
        self.embedded = broker
        self._mirror.connected(everything=False)
        self.ready.set()
        log.info("MQTT broker is ready", host=settings.host, port=broker.port, area=self.area)

    async def stop(self) -> None:
        self.ready.clear()
        if self._changed in self.tenant.on_change:
            self.tenant.on_change.remove(self._changed)
        await self._mirror.stop()
        for task in (self._task, self._withdrawing, *self._resolving.values()):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        self._task = None
        if self.connection is not None:
            await self.connection.close()
        if self.embedded is not None:
            await self.embedded.stop()
            self.embedded = None

    async def _stay_connected(self, connection: MqttConnection) -> None:
        pause, told = BACKOFF_S, False
        while True:
            try:
                await connection.connect()
                self._echoes.clear()
                known = connection.session_present
                # before MQTT 5 a subscription brings all retained messages once more; a session that is known needs none
                if not known or connection.version == "5":
                    await connection.subscribe(self.topics.everything, no_local=True, only_new=True)
            except MqttUnreachable as error:
                if isinstance(error, MqttVersionRefused):
                    connection.version = "3.1.1"
                    continue
                connection.version = "5"
                if not told:
                    log.warning("MQTT broker cannot be reached; trying on", reason=str(error))
                    told = True
                METRICS.count("mqtt_messages", "connection-failed")
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))
                pause = min(pause * 2, BACKOFF_MAX_S)
                continue
            log.info("connected to the MQTT broker", broker=str(connection.address), version=connection.version, area=self.area)
            pause, told = BACKOFF_S, False
            self._mirror.connected(everything=not known)
            self.ready.set()
            await connection.wait_lost()
            self.ready.clear()
            log.warning("MQTT broker is lost; connecting again", broker=str(connection.address))

    # --- in --------------------------------------------------------------------------------------------------------------

    async def _from_broker(self, message: MqttMessage) -> None:
        if self._echoes:
            echo = (message.topic, message.payload)
            if self._echoes[echo] > 0:
                self._echoes[echo] -= 1
                if not self._echoes[echo]:
                    del self._echoes[echo]
                return
        await self.take(message)

    async def take(self, message: MqttMessage) -> bool:
        """Done when it is on the disk, or refused (False)."""
        if self._pending >= self._pending_max:
            if message.qos == 0:
                METRICS.count("mqtt_messages", "dropped")
                return False
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                self._next_turn()  # it may have been given to this one already
                raise
        self._pending += 1
        try:
            return await self._handle(message)
        finally:
            self._pending -= 1
            self._next_turn()

    def _next_turn(self) -> None:
        while self._waiting and self._pending < self._pending_max:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                break

    async def _handle(self, message: MqttMessage) -> bool:
        try:
            meant = await self._understand(message)
            committed, changed = await self._apply(meant, message)
            if committed is not None:
                await committed
        except TooManyPending:
            METRICS.count("mqtt_messages", "dropped")
            return False
        except (NgsiLdError, InvalidInput) as error:
            self._refuse(message.topic, error)
            return False
        except Exception:
            log.exception("a message of a device failed", topic=message.topic)
            self._refuse(message.topic, NgsiLdError("this is our fault; the node's log says more"))
            return False
        METRICS.count("mqtt_messages", "changed" if changed else "unchanged")
        return True

    async def _understand(self, message: MqttMessage) -> _Meant:
        place = self.topics.parse(message.topic)
        context = CORE if not place.context else self._known_context(place.context) or await self.context(place.context)
        type_ = context.expand_name(place.type)
        attribute = context.expand_name(place.attribute) if place.attribute is not None else None
        if not message.payload:
            return _Meant(place, type_, attribute, None, context, now_text())
        body, own_context = split_context(mapping.entity_body(place, mapping.decode_payload(message.payload)))
        if own_context is not None:
            context = await self.tenant.contexts.resolve(own_context)
        elif place.context:
            self._mirror.used(type_, place.context, context)
        return _Meant(place, type_, attribute, body, context, now_text())

    async def _apply(self, meant: _Meant, message: MqttMessage) -> tuple[asyncio.Future[None] | None, bool]:
        """Hand it to the store. If that is full: in line with the others, so that no older value overtakes a newer one."""
        if not self._crowd.locked():
            try:
                return self._apply_now(meant, message)
            except TooManyPending:
                if message.qos == 0:
                    raise
        async with self._crowd:
            while True:
                try:
                    return self._apply_now(meant, message)
                except TooManyPending:
                    if message.qos == 0:
                        raise
                    await asyncio.sleep(RETRY_S)

    def _apply_now(self, meant: _Meant, message: MqttMessage) -> tuple[asyncio.Future[None] | None, bool]:
        operation: Callable[[Entity | None], Any] = _removal(meant) if meant.body is None else _upsert(meant, message.retained)
        tenant = self.tenant if self._access is None else self._access.seen(self.tenant, message.sender or MQTT)
        applied = tenant.apply(meant.place.id, operation, "mqtt")
        change, committed = applied.change, applied.committed
        if change is None or committed is None:
            return committed, change is not None
        if self._mirrors and meant.attribute is not None:
            # until it is on the disk: who is told of the change then finds here where it came from
            self._origins[id(change)] = (change, message.topic)
            committed.add_done_callback(lambda _: self._origins.pop(id(change), None))
        return committed, True

    def _refuse_size(self, topic: str, size: int) -> None:
        self._refuse(
            topic, PayloadTooLarge(f"the packet has {size} bytes; at most {mapping.PAYLOAD_BYTES_MAX} of payload are taken")
        )

    def _refuse(self, topic: str, error: NgsiLdError | InvalidInput) -> None:
        METRICS.count("mqtt_messages", "refused")
        problem = error if isinstance(error, NgsiLdError) else BadRequestData(str(error))
        log.debug("a message of a device is refused", topic=topic, reason=str(problem))
        self._mirror.tell(self.topics.error(topic), mapping.encode_problem(problem.problem(), topic))

    # --- out -------------------------------------------------------------------------------------------------------------

    def _changed(self, change: Change) -> None:
        if self._access is not None:
            for principal, hearers in self._hearers(self._access.policies).items():
                sight = self._access.sight(self.tenant, principal)
                before, after = (None if entity is None else sight.entity(entity) for entity in (change.before, change.after))
                if before is not None or after is not None:
                    self._to = hearers  # the embedded broker takes everything at once, so that nothing of it waits for others
                    try:
                        self._mirror.changed(Change(change.kind, change.at, before, after), None)
                    finally:
                        self._to = None
            return
        _, origin = self._origins.get(id(change), (None, None))
        # the embedded broker passes a device's own message on to others, and asks for last values when they are needed
        self._mirror.changed(change, origin if self.embedded is not None else None)

    def _hearers(self, policies: PolicySet) -> dict[Principal, set[Principal | None] | None]:
        """Who hears of changes: one of each kind that policies tell apart, with all who are like it.

        A broker of its own knows its clients and does not tell: these all hear what `User::"mqtt"` may read.
        """
        if self.embedded is None:
            return {MQTT: None}
        alike: dict[Any, set[Principal | None]] = {}
        for principal in self.embedded.hearers():
            alike.setdefault(policies.likeness(principal or MQTT), set()).add(principal)
        return {next(iter(some)) or MQTT: some for some in alike.values()}

    def _policies_changed(self) -> None:
        """A broker that retains values gets those that may be seen now, and loses those that may not."""
        if self.connection is not None and (self._withdrawing is None or self._withdrawing.done()):
            self._withdrawing = asyncio.create_task(self._withdraw())

    async def _withdraw(self) -> None:
        assert self._access is not None
        sight = self._access.sight(self.tenant, MQTT)
        async for entity in _all(self.tenant.store, None):
            seen = sight.entity(entity)
            self._mirror.withdraw(entity, entity.attributes.keys() - (seen.attributes.keys() if seen is not None else set()))
        self._mirror.connected(everything=True)

    def _has_followers(self) -> bool:
        return self.embedded.followed if self.embedded is not None else self.connection is not None

    def _send(self, topic: str, payload: bytes, retain: bool) -> asyncio.Future[None] | None:
        if self.embedded is not None:
            self.embedded.publish(topic, payload, self._to)
            return None
        connection = self.connection
        if connection is None:
            return None
        # only MQTT 5 can say that we do not want to hear ourselves
        if connection.version == "3.1.1" and connection.connected and topic.startswith(self.topics.entities):
            self._echoes[topic, payload] += 1
        return connection.publish(topic, payload, 1, retain=retain)

    # --- what the mirror asks of the node ----------------------------------------------------------------------------------

    def _known_context(self, url: str) -> Context | None:
        found: Context | None = self.tenant.contexts.resolve_now(url)
        return found

    async def context(self, url: str) -> Context:
        """One fetch for all who wait for it; they go on in the order in which they came."""
        task = self._resolving.get(url)
        if task is None:
            task = self._resolving[url] = asyncio.ensure_future(self.tenant.contexts.resolve(url))
            task.add_done_callback(lambda _: self._resolving.pop(url, None))
        return await asyncio.shield(task)

    async def entities(self, id_: str | None, type_: str | None, hearer: Principal | None = None) -> AsyncIterator[Entity]:
        """The one of that id; all of that type (expanded); or all; as who wants to hear of them sees them."""
        store = self.tenant.store if self._access is None else self._access.seen(self.tenant, hearer or MQTT).store
        if id_ is not None:
            entity = store.entity(id_)
            if entity is not None:
                yield entity
            return
        async for entity in _all(store, type_):
            yield entity


async def _all(store: Store, type_: str | None) -> AsyncIterator[Entity]:
    """All of a type, or all, page by page."""
    selectors = (EntitySelector(types=((type_,),)),) if type_ is not None else ()
    offset = 0
    while True:
        found = await store.query(EntityQuery(selectors=selectors, limit=PAGE, offset=offset))
        for entity in found.entities:
            yield entity
        if len(found.entities) < PAGE:
            return
        offset += PAGE


def _upsert(meant: _Meant, retained: bool) -> Callable[[Entity | None], Any]:
    def upserted(old: Entity | None) -> Any:
        if old is None:
            new = parse_entity(meant.body, meant.context, meant.now)
            _check_type(meant, new.types)
            return operations.create(new, meant.now)
        if meant.type not in old.types:
            raise BadRequestData(f"{old.id} is of the type {', '.join(old.types)}: publish to a topic with that type")
        fragment = parse_fragment(meant.body, meant.context, meant.now)
        _check_type(meant, fragment.types)
        if retained:  # only what the node does not know
            fragment.attributes = {name: value for name, value in fragment.attributes.items() if name not in old.attributes}
            if not fragment.attributes:
                return None
        return operations.append(old, fragment, meant.now)

    return upserted


def _check_type(meant: _Meant, types: tuple[str, ...]) -> None:
    if meant.type not in types:
        raise BadRequestData(f"the payload's type is not the topic's, {meant.place.type!r}: they must be the same")


def _removal(meant: _Meant) -> Callable[[Entity | None], Any]:
    def removed(old: Entity | None) -> Any:
        if old is None or meant.type not in old.types:
            return None
        if meant.attribute is None:
            return operations.delete(old, meant.now)
        if meant.attribute not in old.attributes:
            return None
        return operations.delete_attribute(old, meant.attribute, None, True, meant.now)

    return removed
