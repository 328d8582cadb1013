"""A node among others: it drives its brokers over its links, and keeps what they decide.

Whatever a broker handles, a request of a client here or a message of a neighbour, becomes one submission to the store: what
it was told (`keeping`), what it wants sent, what it wants delivered. Only when that is on the disk do frames leave,
acknowledgements among them, and letters. If the disk refuses it, everything is taken from the disk again, as after a crash.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from hanse.model import WORLD, Advertisement
from hanse.ngsild.errors import NgsiLdError, TooManyPending
from hanse.node.federation import wire
from hanse.node.federation.arrivals import Arrivals
from hanse.node.federation.asking import Answering, share_models
from hanse.node.federation.changes import travelling
from hanse.node.federation.communities import Communities
from hanse.node.federation.guards import Guards
from hanse.node.federation.identity import Identity, NotBelieved, Seal
from hanse.node.federation.joining import Joining, check_address, under_rule
from hanse.node.federation.journal import Journal
from hanse.node.federation.keeping import SaveFederation
from hanse.node.federation.knowledge import Knowledge
from hanse.node.federation.links import Links, Staged, packets
from hanse.node.federation.names import OWN, Names
from hanse.node.federation.offers import Offers
from hanse.node.federation.planes import Planes
from hanse.node.federation.reading import Reading
from hanse.node.federation.signing import Signing
from hanse.node.federation.straight import beyond_neighbours
from hanse.node.federation.trace import Traces
from hanse.node.federation.transport import Transport
from hanse.node.federation.wire import Envelope, Record, Signed
from hanse.node.metrics import METRICS
from hanse.node.router import Pending, now_ms
from hanse.node.store import CommitFailed, PutDocument
from hanse.routing import messages as m
from hanse.routing.messages import IRREPLACEABLE, innermost

if TYPE_CHECKING:
    from hanse.model import Notification, Subscription
    from hanse.ngsild.entity import Change
    from hanse.node.federation.description import Description
    from hanse.node.tenant import Tenant
    from hanse.routing import Broker, ExportRule, Federation, Settings

RECORD: Final = "federation-record"
TICK_S: Final = 0.2
BROKER_TICK_S: Final = 1.0
HELLO_S: Final = 5.0
RETRY_S: Final = 0.05
REWIRES_MAX: Final = 20  # changes of the federation that are taken up within REWIRES_MS; more have to wait
REWIRES_MS: Final = 10_000
ROOM: Final = 1_000  # writes that must fit into the store's queue, or what comes over links has to come again
_SEALED: Final = b"frames"

log = structlog.get_logger("hanse.federation")


class Host:
    is_federated = True

    def __init__(self, tenant: Tenant, description: Description, identity: Identity | None) -> None:
        self.tenant = tenant
        self._identity = identity
        self.description = description
        self.node = tenant.settings.node.id
        self.knowledge = Knowledge(self.node, description.terms, identity)
        self._signing = Signing(self.knowledge, identity)
        self._answering = Answering(self)
        self.reading: Reading | None = Reading(self)
        told = self._heard, self._answering.asked, self._seen
        self.transport = Transport(description.terms.federation, self.node, *told, partial(beyond_neighbours, self))
        self.links = Links(self._lost, self._wants_resync)
        self.traces = Traces(self.node)
        self.alive: set[str] = set()
        self.refused: dict[str, str] = {}  # nodes that were not believed, and why
        self.heard_ms: dict[str, int] = {}  # when a node that is known has last said something
        self._joining = Joining(description)
        self._called: list[str] = []  # the addresses that the transport was opened with
        self._opening = asyncio.Lock()
        self._seals: dict[str, Seal] = {}
        self._arrivals = Arrivals(tenant)
        self._flush_due = False
        self._resyncs = identity is not None  # advertisements may have come before one could tell whose they are
        self._names = Names(self.node)
        self._offers = Offers(tenant.publisher, by_id=description.terms.advertise_ids)
        self._comparing: dict[str, asyncio.Task[None]] = {}
        self._postponed: Pending | None = None  # what the store had no room for
        self._recovering: asyncio.Task[None] | None = None
        self._ticker: asyncio.Task[None] | None = None
        for record in description.records():
            self.knowledge.describe(record)
        self._federation = self.knowledge.federation()
        self.planes = Planes(self.node, description.terms, self._settings, description.scopes())
        self._journal = Journal(self.planes, description.terms.scopes)
        self._guards = Guards(self.node, self._settings, self.planes.brokers)
        self._rewired_ms: deque[int] = deque(maxlen=REWIRES_MAX)
        self._rewire_due = False
        self.communities = Communities(self)

    @property
    def broker(self) -> Broker:
        return self.planes.brokers[0]

    @property
    def federation(self) -> Federation:
        return self._federation

    def _settings(self, strategy: str) -> Settings:
        return self.knowledge.settings(self._federation, strategy)

    # --- starting and stopping --------------------------------------------------------------------------------------

    def restore(self) -> None:
        """Everything as the disk says."""
        now = now_ms()
        reader = self.tenant.store.reader
        self._joining.restore(self.tenant.store)
        for _, data in self.tenant.store.documents(RECORD):
            with suppress(NotBelieved):
                self.knowledge.take(msgspec.msgpack.decode(data, type=Signed), now)
        self._federation = self._possible()
        replayed = self._journal.replay(reader)
        self._guards.renew(self.planes.brokers)
        self.links.restore(reader, now)
        self.communities.look()
        self.links.open(self._federation.neighbours[self.node], now)
        self._offers.restore(self.tenant.store)
        name, nodes = self.knowledge.terms.federation, len(self._federation.nodes)
        log.info("federated", node=self.node, federation=name, nodes=nodes, replayed=replayed)

    async def start(self) -> None:
        """After everything that the node keeps has been told to the brokers again."""
        if not self.knowledge.terms.advertise_ids or self.tenant.publisher not in self.broker.clients:
            for offer in await self._offers.of_all(self.tenant.store):  # of a node that was alone before
                self._advertise(offer)
        await self._open()
        self._say()
        self._ticker = asyncio.create_task(self._tick())
        self._hello()

    async def stop(self) -> None:
        if self._ticker is not None:
            self._ticker.cancel()
            with suppress(asyncio.CancelledError):
                await self._ticker
        self._flush()
        await self.transport.close()
        if self._recovering is not None:  # the brokers believe something that is not stored
            self._recovering.cancel()
            return
        pending = self.take() or Pending()
        pending.writes.append(SaveFederation(whole=self._journal.whole(), journal=self._journal.last))
        with suppress(NgsiLdError):
            await self.tenant.store.submit(*pending.writes)
            for call in pending.after:
                call()

    def keep_only(self, clients: set[str]) -> None:
        """Clients of this node that nobody knows any more, such as listeners of streams that ended with it, are gone."""
        for broker in self.planes.brokers:
            for name in [self._names.local(name) for name in broker.clients]:
                if name.startswith(OWN) and name not in clients:
                    self.handle(m.Detach(name))

    # --- requests of clients here -----------------------------------------------------------------------------------

    def handle(self, request: m.Request) -> list[m.Effect]:
        if self._recovering is not None:
            raise CommitFailed("the store has failed, and the node goes back to what is stored; try again in a moment")
        request = self._names.outside(request)
        return self._requested(request, wire.encode_request(request))

    def _requested(self, request: m.Request, data: bytes) -> list[m.Effect]:
        found: list[m.Effect] = []
        try:
            for plane in self.planes.for_request(request):
                if not self.planes.has_already(plane, request):
                    found += self._told(plane, request, "", data)
        except Exception:
            self.failed()  # a broker may have changed by half
            raise
        return found

    def _told(self, plane: int, message: m.Message, sender: str, data: bytes, hops: int = 0) -> list[m.Effect]:
        """What a broker wants done, all but what goes over links, which is staged."""
        now = now_ms()
        effects = self.planes.brokers[plane].handle(message, sender, now)
        if not isinstance(message, m.Tick):
            self.links.staged.save.told.append(self._journal.add(plane, now, sender, data))
        self.traces.came(message, sender)
        self.communities.handled(plane, message)
        kept: list[m.Effect] = []
        for effect in effects:
            if type(effect) is m.Send:
                self._send(plane, effect, hops + 1, now)
            else:
                kept.append(self._names.inside(effect))
        self.traces.done(kept)
        self._flush_soon()
        return kept

    def _send(self, plane: int, send: m.Send, hops: int, now: int) -> None:
        message, to = self._signing.signed(send.message), send.to
        if type(message) is m.Relay and message.source == self.node:
            # straight to those whom it is for, over a link of the two nodes' own: nobody in between has to store it
            to = message.destinations
            message = message.message
            self.links.open(to, now)
        envelope = wire.encode(Envelope(plane, hops, message))
        keep = isinstance(innermost(message), IRREPLACEABLE)
        for peer in to:
            if len(envelope) > wire.MESSAGE_BYTES_MAX:
                self._arrivals.give_up(peer, message, f"it has {len(envelope)} bytes, too many for the link to {peer!r}")
            else:
                self.links.send(peer, envelope, keep=keep, now_ms=now)
        self.traces.sent(message, to)

    def take(self) -> Pending | None:
        staged, batch = self.links.take(), self._arrivals.take()
        postponed, self._postponed = self._postponed, None
        if staged.is_empty and batch.is_empty:
            return postponed
        if not staged.save.is_empty:
            staged.save.journal = self._journal.last
            batch.writes.append(staged.save)

        def stored() -> None:
            self._let_go(staged)
            self._arrivals.send(batch)

        if postponed is not None:
            return Pending(postponed.writes + batch.writes, [*postponed.after, stored])
        return Pending(batch.writes, [stored])

    def _let_go(self, staged: Staged) -> None:
        """It is stored: frames may leave."""
        for peer, frames in staged.frames.items():
            # what a link still owes waits until there is one again
            seal = self.seal(peer) if peer in self._federation.by_id else None
            if seal is not None:
                for data in packets(frames):
                    self.transport.send(peer, wire.encode(wire.Frames(seal.close(data))))

    def failed(self) -> None:
        """The disk has refused what the brokers believe: go back to what it has, once nothing is on its way there any more."""
        if self._recovering is None:
            log.error("what the node was told could not be stored; it goes back to what is stored")
            self._recovering = asyncio.create_task(self._recover())

    async def _recover(self) -> None:
        while True:
            while not self.tenant.store.is_idle:  # noqa: ASYNC110  it is rare, and nobody else needs to know
                await asyncio.sleep(RETRY_S)
            self._arrivals.take()
            self._postponed = None
            try:
                self.restore()
            except Exception:
                log.exception("what is stored cannot be read; the node tries again")
                await asyncio.sleep(HELLO_S)
            else:
                break
        self._recovering = None

    def _flush_soon(self) -> None:
        if not self._flush_due:
            self._flush_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        if self._recovering is not None:
            return
        pending = self.take()
        if pending is None:
            return

        def done(committed: asyncio.Future[None]) -> None:
            if committed.cancelled() or committed.exception() is not None:
                self.failed()
            else:
                for call in pending.after:
                    call()

        try:
            self.tenant.store.submit(*pending.writes).add_done_callback(done)
        except TooManyPending:
            self._postponed = pending  # the ticker tries again
        except NgsiLdError:
            self.failed()

    # --- what the node has, for `advertised` --------------------------------------------------------------------------

    def changed(self, change: Change, notification: Notification) -> list[m.Effect]:
        """An entity has changed: what the node has is advertised before it is published, and withdrawn after."""
        publisher = self.tenant.publisher
        notification = travelling(notification, change)
        if not self.tenant.store.has_room(ROOM):
            raise TooManyPending("the node has more to store than it can take just now; try again in a moment")
        publish = m.Publish(notification)
        data = wire.encode_request(publish)  # first of all: what cannot be told changes nothing
        opened, closed = self._offers.opened(change), self._offers.closed(change)
        for offer in opened:
            self._advertise(offer)
        effects = self._requested(publish, data)
        for offer in closed:
            self.handle(m.Unadvertise(publisher, offer.id))
        return effects

    def core(self, subscription: Subscription) -> Subscription:
        """Where nothing is routed by place, the exact check is the subscriber's node's: a geometry is more than a point."""
        by_place = any(name.startswith("geo-") for name in self.planes.names)
        return subscription if by_place else msgspec.structs.replace(subscription, geofence=WORLD)

    def _advertise(self, offer: Advertisement) -> None:
        for effect in self.handle(m.Advertise(offer)):
            if isinstance(effect, m.Reject):
                log.warning("entities cannot be advertised", offer=offer.id, reason=effect.reason)

    # --- what other nodes send --------------------------------------------------------------------------------------

    def _heard(self, sender: str, data: bytes) -> None:
        try:
            packet = wire.packet(data)
            if isinstance(packet, wire.Frames):
                self._frames(sender, packet.sealed)
            elif isinstance(packet, wire.Hello):
                self._greeted(sender, packet)
            else:
                self._learn(packet.records)
        except NotBelieved as error:
            self.refuse(sender, str(error))

    def refuse(self, sender: str, reason: str) -> None:
        if sender not in self.refused and len(self.refused) >= wire.RECORDS_MAX:
            METRICS.count("federation_refused")  # anyone can make up names
            return
        METRICS.count("federation_refused", sender[:60])
        if self.refused.get(sender) != reason:
            self.refused[sender] = reason
            log.warning("refused", sender=sender, reason=reason)

    def _frames(self, sender: str, sealed: bytes) -> None:
        if sender not in self._federation.by_id or sender == self.node:
            raise NotBelieved("it is no other node of this federation")
        seal = self.seal(sender)
        if seal is None:
            METRICS.count("federation_postponed", sender)
            return  # it has to say first who it is, and then again what it said
        frames = wire.frames(seal.open(sealed))
        self.heard_ms[sender] = now_ms()
        if not self.tenant.store.has_room(ROOM):
            METRICS.count("federation_postponed", sender)
            return  # not acknowledged: it comes again
        self.links.open([sender], now_ms())
        for data in self.links.receive(sender, frames, now_ms()):
            try:
                self._message(sender, wire.envelope(data))
            except NotBelieved as error:
                self.refuse(sender, str(error))
            except Exception:  # whatever is wrong with it: what came with it has been taken as well
                METRICS.count("federation_lost", sender)
                log.exception("a message of another node could not be handled", sender=sender)
        self._flush_soon()

    def _message(self, sender: str, envelope: Envelope) -> None:
        if envelope.plane >= len(self.planes.brokers):
            raise NotBelieved(f"there is no plane {envelope.plane}")
        message = envelope.message
        if reason := self._guards.refusal(envelope.plane, message, sender):
            self.traces.stopped(message, sender, reason)
            raise NotBelieved(reason)
        if not self._signing.is_believed(message):
            METRICS.count("federation_postponed", sender)
            return
        effects = self._told(envelope.plane, message, sender, wire.encode(message), envelope.hops)
        if effects:
            self._arrivals.add(effects)
        inner = innermost(message)
        if isinstance(inner, m.HandoverRequest) and all(inner.client not in broker.clients for broker in self.planes.brokers):
            self._arrivals.writes.extend(self.tenant.native.handed_over(inner.client))

    def _lost(self, peer: str, data: bytes) -> None:
        """A full outbox has not taken it: state is repaired later, a notification is not."""
        self._arrivals.give_up(peer, wire.envelope(data).message, f"the outbox of the link to {peer!r} is full")

    def _wants_resync(self, peer: str) -> None:
        log.info("comparing what others hold", because_of=peer)
        self._resyncs = True

    # --- knowing each other -----------------------------------------------------------------------------------------

    def seal(self, peer: str) -> Seal | None:
        """What enciphers for another node; None until it has said who it is, and that it agrees."""
        seal = self._seals.get(peer)
        if seal is None:
            known = self.knowledge.get(peer)
            if known is None or known.signed is None:
                return None
            cipher = None
            if self._identity is not None and known.certificate is not None:
                cipher = self._identity.shared(known.certificate, _SEALED)
            seal = self._seals[peer] = Seal(self.node, peer, cipher, time.time_ns())
        return seal

    def _say(self) -> None:
        """Sign anew what this node says of itself."""
        record = msgspec.structs.replace(self.description.own(), version=now_ms(), links=self._links())
        if self._identity is not None:
            record = msgspec.structs.replace(record, certificate=self._identity.certificate.pem)
        known = self.knowledge.get(self.node)
        if known is not None and known.record.version >= record.version:
            record = msgspec.structs.replace(record, version=known.record.version + 1)
        self._learn([self.knowledge.sign(record)])

    async def join(self, to: str, node: str, rule: ExportRule) -> None:
        """From now on there is a link to a node, if the other end wants it as well; `to`: call there, and not only wait."""
        if to:
            check_address(to, is_secure=self._identity is not None)
            node = node or next((record.node for record in self.knowledge.records() if to in record.listen), "")
        await self._steer(self._joining.join(to, node, rule))

    async def change_rule(self, peer: str, rule: ExportRule) -> None:
        """From now on this may go over the link, and nothing else."""
        await self._steer(self._joining.change(peer, rule))

    async def leave(self, peer: str) -> None:
        """There is no link to a node any more, whatever the configuration says."""
        await self._steer(self._joining.leave(peer, self.knowledge.listens(peer)))

    async def _steer(self, writes: list[Any]) -> None:
        await self.tenant.store.submit(*writes)
        self._say()
        self._hello()
        if self._joining.addresses(self.knowledge.records()) != self._called:
            await self._open()
        self._hello()

    async def _open(self) -> None:
        """Open the transport, or open it again with other addresses to call; what is lost meanwhile, the links send again."""
        async with self._opening:
            called = self._joining.addresses(self.knowledge.records())
            tls = self._identity.paths if self._identity is not None else None
            await self.transport.close()
            self.alive.clear()
            await self.transport.open(list(self.description.listen), called, tls)
            self._called = called

    def _hello(self) -> None:
        known = self.knowledge.get(self.node)
        if known is not None and known.signed is not None:
            self.transport.call(wire.encode(wire.Hello(known.signed, self.knowledge.versions(), self.tenant.models.digest())))

    def _greeted(self, sender: str, hello: wire.Hello) -> None:
        if sender == self.node:
            return
        self._learn([hello.own])
        known = self.knowledge.get(sender)
        if known is None or known.signed is None:
            return  # whoever is not believed is told nothing
        self.heard_ms[sender] = now_ms()
        self.links.nudge(sender, now_ms())
        if hello.models != self.tenant.models.digest() and sender in self._federation.neighbours[self.node]:
            self._compare_models(sender)
        if news := self.knowledge.newer_than(hello.known):
            self.transport.send(sender, wire.encode(wire.Records(news)))
        elif self.knowledge.lacks(hello.known):
            self._hello()

    def _compare_models(self, sender: str) -> None:
        if sender not in self._comparing:  # once at a time
            task = asyncio.create_task(share_models(self, sender))
            self._comparing[sender] = task
            task.add_done_callback(lambda _: self._comparing.pop(sender, None))

    def _learn(self, records: list[Signed]) -> None:
        writes = []
        for signed in records:
            try:
                speaks = self.knowledge.versions().keys()
                record = self.knowledge.take(signed, now_ms())
            except NotBelieved as error:
                with suppress(NotBelieved):
                    self.refuse(wire.record(signed.record).node, str(error))
                continue
            if record is not None:
                self.refused.pop(record.node, None)
                self._seals.pop(record.node, None)
                self._resyncs |= self._identity is not None and record.node not in speaks
                self.links.greet(record.node, now_ms())
                writes.append(PutDocument(RECORD, record.node, msgspec.msgpack.encode(signed)))
                self._welcome(record)
        if writes:
            self._arrivals.writes.extend(writes)
            self._rewire()
            self._flush_soon()

    def _welcome(self, record: Record) -> None:
        """A node that this one was told to link to by its address only has said who it is."""
        known = self.knowledge.get(self.node)
        if known is not None and known.signed is not None and record.node != self.node and known.record.links != self._links():
            asyncio.get_running_loop().call_soon(self._say)
            asyncio.get_running_loop().call_soon(self._hello)

    def _links(self) -> dict[str, ExportRule]:
        return self._joining.links(self.knowledge.records())

    def _possible(self) -> Federation:
        return self.knowledge.possible(self.planes.names, self._federation)

    def _rewire(self) -> None:
        """Take the federation as it is known by now; not all the time, should a node never stop changing its mind."""
        federation = self._possible()
        self._rewire_due = federation != self._federation
        if not self._rewire_due or (len(self._rewired_ms) == REWIRES_MAX and now_ms() < self._rewired_ms[0] + REWIRES_MS):
            return
        self._rewire_due = False
        self._rewired_ms.append(now_ms())
        log.info("the federation has changed", nodes=len(federation.nodes), links=len(federation.links) // 2)
        for peer in federation.neighbours[self.node]:
            rule = federation.rule[self.node, peer]
            if rule != self._federation.rule.get((self.node, peer)):
                self.links.revise(peer, partial(under_rule, rule=rule))
        self._federation = federation
        self.planes.rewire()
        self._guards.renew(self.planes.brokers)
        self.links.open(federation.neighbours[self.node], now_ms())
        self.links.staged.save.whole = self._journal.whole()  # what is in the journal was told under the old description
        self._resyncs = True

    def _seen(self, node: str, is_there: bool) -> None:
        if node == self.node or not node:
            return
        if is_there:
            if len(self.alive) >= wire.RECORDS_MAX:
                return
            self.alive.add(node)
            self._hello()
            self.links.greet(node, now_ms())
            self._flush_soon()
        else:
            self.alive.discard(node)
        log.info("node is there" if is_there else "node is away", node=node)

    # --- time -------------------------------------------------------------------------------------------------------

    def _deaf(self) -> set[str]:
        """Nodes that are heard but not seen: zenoh may lose what they declared when a link comes back after a long stall."""
        lately = now_ms() - int(HELLO_S * 1000)  # not longer: one that was heard and then stopped is not seen any more either
        return {n for n in self._federation.others[self.node] if n not in self.alive and self.heard_ms.get(n, 0) > lately}

    async def _tick(self) -> None:
        hello_at = broker_at = asyncio.get_running_loop().time()
        was_deaf: set[str] = set()
        while True:
            await asyncio.sleep(TICK_S)
            if self._recovering is not None:
                continue
            try:
                now = asyncio.get_running_loop().time()
                self.communities.look()
                self.links.tick(now_ms())
                if self._rewire_due:
                    self._rewire()
                if self._resyncs:
                    self._resyncs = False
                    self.handle(m.Resync())
                if now - broker_at >= BROKER_TICK_S:
                    broker_at = now
                    for plane in range(len(self.planes.brokers)):
                        self._arrivals.add(self._told(plane, m.Tick(), "", b""))
                if now - hello_at >= HELLO_S:
                    hello_at = now
                    deaf = self._deaf()
                    # someone else had the port; or a node is half forgotten
                    if not self.transport.is_open or deaf & was_deaf:
                        log.warning("opening the links again", because_of=sorted(deaf))
                        deaf = set()
                        await self._open()
                    was_deaf = deaf
                    self._hello()
                if self._journal.is_long:
                    self.links.staged.save.whole = self._journal.whole()
                self._flush()
            except Exception:  # links would never send again what is lost
                log.exception("a tick of the federation failed")
