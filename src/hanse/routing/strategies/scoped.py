"""muDEBS: subscriptions flood hop by hop inside scope areas, notifications follow visibility paths.

An *area* belongs to a root scope of a dimension: the brokers with clients anywhere below that root, and the brokers on the
shortest ways from them to the root's anchor. An area is therefore a tree, grows when a client asks for a scope that its broker
does not know yet, and shrinks again leaf by leaf. Two scopes can only see each other below a common root, so:
- a subscription that states scopes floods the areas of its roots in *one* of the dimensions that it states; one that states none
  floods the whole federation, which is the area "" of all brokers;
- a notification is matched at its broker and goes along the reverse ways of the subscriptions that it matches. In a dimension
  that it states it must have reached the areas of its roots, in any other all areas (⊥ is below every scope); those that its
  broker is not in it *seeks*, on the way to their anchors, up to the first broker that is in them.
Every broker on the way matches again, visibility included. Only a subscriber's home compares the notification's geofence with the
subscriber's location, which therefore never travels.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from hanse.matching.meaning import lies_in
from hanse.model import WORLD, World
from hanse.routing import messages as m
from hanse.routing.recent import remember
from hanse.routing.settings import EVENTS_SEEN_KEPT
from hanse.routing.state import Held
from hanse.routing.strategies.base import Strategy, StrategyState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hanse.model import Advertisement, Notification, Subscription
    from hanse.routing.broker import Broker
    from hanse.routing.state import Client

EVERYWHERE = ""


class Area(Struct):
    """An area that this broker is in."""

    ready: bool  # the broker above has told all that it knew
    uses: int = 0  # subscriptions, advertisements and operators that need it here
    children: set[str] = field(default_factory=set)
    unready: set[str] = field(default_factory=set)  # children that wait for this broker to be ready


class State(StrategyState):
    areas: dict[str, Area] = field(default_factory=dict)
    domains: dict[str, tuple[str, ...]] = field(default_factory=dict)  # own subscription -> the areas that it floods
    pinned: dict[str, tuple[str, ...]] = field(default_factory=dict)  # scope that an operator joined -> its areas
    seen: dict[tuple[str, str], None] = field(default_factory=dict)


def area_of(dimension: str, root: str) -> str:
    return f"{dimension}\t{root}"  # a tab, which no name has


class Scoped(Strategy):
    name = "scoped"

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self.state: State = State()
        self.neighbours = broker.federation.neighbours[broker.id]
        centre = broker.settings.anchor(EVERYWHERE)
        hop = broker.federation.next_hop
        self._everywhere = tuple(
            node
            for node in self.neighbours
            if (node != centre and hop(node, centre) == broker.id) or (broker.id != centre and hop(broker.id, centre) == node)
        )

    def handlers(self) -> dict[type, Callable[[Any, str], None]]:
        return {m.JoinArea: self.join_area, m.AreaReady: self.area_ready, m.LeaveArea: self.leave_area}

    # --- areas ------------------------------------------------------------------------------------------------------

    def above(self, region: str) -> str | None:
        """The neighbour on the way to an area's anchor; None at the anchor itself."""
        anchor = self.broker.settings.anchor(region)
        return None if anchor == self.broker.id else self.broker.federation.next_hop(self.broker.id, anchor)

    def tree(self, region: str) -> tuple[str, ...]:
        """The neighbours in an area's tree."""
        if region == EVERYWHERE:
            return self._everywhere
        area = self.state.areas.get(region)
        if area is None:
            return ()
        above = self.above(region)
        return (*sorted(area.children), above) if above is not None else tuple(sorted(area.children))

    def is_in(self, region: str) -> bool:
        return region == EVERYWHERE or region in self.state.areas

    def is_ready(self, region: str) -> bool:
        return region == EVERYWHERE or ((area := self.state.areas.get(region)) is not None and area.ready)

    def areas_of_scope(self, dimension: str, scope: str) -> tuple[str, ...]:
        return tuple(area_of(dimension, root) for root in sorted(self.broker.scopes.graphs[dimension].roots(scope)))

    def _enter(self, region: str) -> Area:
        area = self.state.areas.get(region)
        if area is None:
            above = self.above(region)
            area = self.state.areas[region] = Area(ready=above is None)
            if above is not None:
                self.broker.send((above,), m.JoinArea(region))
        return area

    def _use(self, regions: Iterable[str]) -> None:
        for region in regions:
            if region != EVERYWHERE:
                self._enter(region).uses += 1

    def _unuse(self, regions: Iterable[str]) -> None:
        for region in regions:
            if region != EVERYWHERE:
                self.state.areas[region].uses -= 1
                self._leave_if_unneeded(region)

    def _leave_if_unneeded(self, region: str) -> None:
        area = self.state.areas[region]
        if area.uses or area.children:
            return
        del self.state.areas[region]
        above = self.above(region)
        if above is not None:
            self.broker.send((above,), m.LeaveArea(region))
        for id_, held in list(self.broker.held.items()):
            if held.vias.pop(region, None) is not None and not held.vias and held.home != self.broker.id:
                self.broker.let_go(id_)

    def join_area(self, join: m.JoinArea, sender: str) -> None:
        area = self._enter(join.region)
        if sender not in area.children:  # else it only asks again whether all was told; what it misses its digest shows
            area.children.add(sender)
            for held in self.broker.held.values():
                if join.region in held.vias and held.vias[join.region][0] != sender:
                    self.broker.send((sender,), self._put(held, join.region))
        if area.ready:
            self.broker.send((sender,), m.AreaReady(join.region))
        else:
            area.unready.add(sender)

    def area_ready(self, ready: m.AreaReady, _sender: str) -> None:
        area = self.state.areas.get(ready.region)
        if area is not None and not area.ready:
            area.ready = True
            self.broker.send(tuple(sorted(area.unready)), ready)
            area.unready.clear()

    def leave_area(self, leave: m.LeaveArea, sender: str) -> None:
        area = self.state.areas.get(leave.region)
        if area is not None:
            area.children.discard(sender)
            area.unready.discard(sender)
            self._leave_if_unneeded(leave.region)

    # --- this broker's own clients ----------------------------------------------------------------------------------

    def domain(self, subscription: Subscription) -> tuple[str, ...]:
        """The areas that a subscription floods: those of one dimension, where this broker is already if possible."""
        if not subscription.scopes:
            return (EVERYWHERE,)
        choices = [self.areas_of_scope(dimension, scope) for dimension, scope in sorted(subscription.scopes.items())]
        return min(choices, key=lambda regions: (len(regions), sum(not self.is_in(region) for region in regions), regions))

    def _put(self, held: Held, region: str) -> m.PutSubscription:
        return m.PutSubscription(held.subscription, held.home, held.version, None, region, held.since_ms)

    def subscribed(self, held: Held, old: Held | None) -> None:
        broker = self.broker
        subscription = held.subscription
        id_ = subscription.id
        before = self.state.domains.get(id_, ())
        same_scopes = old is not None and old.home == broker.id and old.subscription.scopes == subscription.scopes
        regions = before if same_scopes and before else self.domain(subscription)
        held.vias = dict.fromkeys(regions, (broker.id, held.version))
        self._use(regions)
        self.state.domains[id_] = regions
        for region in regions:
            broker.send(self.tree(region), self._put(held, region))
        for region in before:
            if region not in regions:
                broker.send(self.tree(region), m.DropSubscription(id_, held.version, region, ended=False))
        self._unuse(before)

    def unsubscribed(self, subscription: Subscription, version: int) -> None:
        regions = self.state.domains.pop(subscription.id)
        for region in regions:
            self.broker.send(self.tree(region), m.DropSubscription(subscription.id, version, region))
        self._unuse(regions)

    def released(self, subscription: Subscription) -> None:
        client = self.broker.clients.get(subscription.client)
        if client is None or subscription.id not in client.subscriptions:
            self._unuse(self.state.domains.pop(subscription.id, ()))

    def located(self, client: Client, place: m.ClientLocation) -> None:
        """Nobody else needs it."""

    def _areas_stated(self, scopes: dict[str, str]) -> list[str]:
        return [region for dimension, scope in scopes.items() for region in self.areas_of_scope(dimension, scope)]

    def advertised(self, advertisement: Advertisement) -> None:
        self._use(self._areas_stated(advertisement.scopes))

    def unadvertised(self, advertisement: Advertisement) -> None:
        self._unuse(self._areas_stated(advertisement.scopes))

    def joined(self, dimension: str, scope: str) -> None:
        key = area_of(dimension, scope)
        if key not in self.state.pinned:
            self.state.pinned[key] = self.areas_of_scope(dimension, scope)
            self._use(self.state.pinned[key])

    def left_scope(self, dimension: str, scope: str) -> None:
        self._unuse(self.state.pinned.pop(area_of(dimension, scope), ()))

    # --- notifications ----------------------------------------------------------------------------------------------

    def published(self, notification: Notification) -> None:
        self._route(notification, self.broker.id, "")
        self._seek(m.Event(notification, self.broker.id), self._sought(notification))

    def _sought(self, notification: Notification) -> list[str]:
        sought: list[str] = []
        for dimension, graph in self.broker.scopes.graphs.items():
            scope = notification.scopes.get(dimension)
            roots = graph.roots() if scope is None else graph.roots(scope)
            sought.extend(area_of(dimension, root) for root in sorted(roots))
        return sought

    def _seek(self, event: m.Event, sought: Iterable[str]) -> None:
        onward: dict[str, list[str]] = {}
        for region in sought:
            if not self.is_ready(region) and (above := self.above(region)) is not None:
                onward.setdefault(above, []).append(region)
        for above, regions in onward.items():
            self.broker.send((above,), m.Event(event.notification, event.home, seek=tuple(regions)))

    def event(self, event: m.Event, sender: str) -> None:
        # what sought an area and is in it now is matched even if it was here before: the area may be new to this broker
        arrived = any(self.is_ready(region) for region in event.seek)
        if arrived or event.notification.key not in self.state.seen:
            self._route(event.notification, event.home, sender)
        if event.seek:
            self._seek(event, event.seek)

    def _route(self, notification: Notification, home: str, sender: str) -> None:
        broker = self.broker
        remember(self.state.seen, notification.key, None, EVENTS_SEEN_KEPT)
        anywhere = notification
        if not isinstance(notification.geofence, World):
            anywhere = msgspec.structs.replace(notification, geofence=WORLD)
        hops: dict[str, None] = {}
        for subscription in broker.match(anywhere):
            held = broker.held[subscription.id]
            if held.home != broker.id:
                hops[max(held.vias.values(), key=itemgetter(1))[0]] = None
            elif lies_in(broker.index.location(subscription.client), notification.geofence):
                broker.deliver(subscription, notification, home)
        if broker.state.arriving:
            broker.handovers.remember(notification, home)
        hops.pop(sender, None)
        broker.send(tuple(hops), m.Event(notification, home))

    # --- what other brokers send ------------------------------------------------------------------------------------

    def put(self, put: m.PutSubscription, sender: str) -> None:
        region = put.region
        if not self.is_in(region):
            return  # left meanwhile
        held = self.broker.held.get(put.subscription.id)
        if held is not None and held.version == put.version and held.home == put.home:
            if held.home == self.broker.id or held.vias.get(region) == (sender, put.version):
                return
            held.vias[region] = (sender, put.version)
        else:
            vias = held.vias if held is not None and held.home == put.home else {}
            if not self.hold(put):
                return
            self.broker.held[put.subscription.id].vias = {**vias, region: (sender, put.version)}
        self.broker.send([node for node in self.tree(region) if node != sender], put)

    def drop(self, drop: m.DropSubscription, sender: str) -> None:
        broker = self.broker
        held = broker.held.get(drop.id)
        # a newer version in another area is no reason to keep an older one's way in this area
        if held is not None and held.home != broker.id and held.vias.get(drop.region, ("", drop.version + 1))[1] <= drop.version:
            del held.vias[drop.region]
        if held is None or (not held.vias and held.home != broker.id):
            if drop.ended:
                broker.forget(drop.id, drop.version)
            else:
                broker.let_go(drop.id)
        broker.send([node for node in self.tree(drop.region) if node != sender], drop)

    # --- repair -----------------------------------------------------------------------------------------------------

    def told(self) -> dict[str, dict[str, tuple[str, m.BrokerMessage]]]:
        told = super().told()  # locations, if they are flooded
        for region, area in self.state.areas.items():
            above = self.above(region)
            if above is not None:
                told.setdefault(above, {})[f"area {region}"] = (str(area.ready), m.JoinArea(region))
        for id_, held in self.broker.held.items():
            for region, (via, _) in held.vias.items():
                for node in self.tree(region):
                    if node != via:
                        told.setdefault(node, {})[f"held {region}\n{id_}"] = (str(held.version), self._put(held, region))
        return told

    def heard(self, source: str) -> dict[str, str]:
        heard = {key: version for key, version in super().heard(source).items() if key.startswith("\n")}
        heard |= {f"area {region}": "True" for region, area in self.state.areas.items() if source in area.children}
        for id_, held in self.broker.held.items():
            for region, (via, _) in held.vias.items():
                if via == source:
                    heard[f"held {region}\n{id_}"] = str(held.version)
        return heard

    def untell(self, other: str, key: str, version: str) -> None:
        kind, _, rest = key.partition(" ")
        if key.startswith("\n"):
            super().untell(other, key, version)
        elif kind == "area":
            self.broker.send((other,), m.LeaveArea(rest))
        else:
            region, _, id_ = rest.partition("\n")
            self.broker.send((other,), m.DropSubscription(id_, int(version), region, ended=False))
