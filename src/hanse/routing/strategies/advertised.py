"""ComDeX: nodes say what they have, and subscriptions and queries go straight to those who have it.

An offer (a type, or one entity of it) travels along links as far as their export rules let it, once along each link. A
subscriber's home looks up who offers what it wants and has the subscription held there; the provider matches and sends
straight back. An offer that comes later calls the subscriptions that were waiting for it; what the provider published
meanwhile is kept for them for a while, so that the first notification of something new is not lost. What is published without
an advertisement is offered by the node itself.

An offer carries the guarantees of the advertisements behind it: who asks for a quality that none of them can have does not
ask there. What is offered without any guarantee is offered in every quality.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from hanse.matching import satisfies
from hanse.matching.meaning import compiled_pattern
from hanse.model import Notification
from hanse.quality.contracts import check
from hanse.routing import messages as m
from hanse.routing.messages import Offer
from hanse.routing.settings import FRESH_KEPT, FRESH_MS, GUARANTEES_MAX, OFFER_IDLE_MS
from hanse.routing.strategies.base import Strategy, StrategyState
from hanse.scopes import Scopes, ScopesState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hanse.model import Advertisement, Selector, Subscription
    from hanse.routing.broker import Broker
    from hanse.routing.state import Held


class Fresh(Struct):
    """Published under a young offer; `scopes` as they were then, if they have changed since."""

    notification: Notification
    scopes: ScopesState | None = None


class Known(Struct, frozen=True):
    """How an offer was told last."""

    version: int
    guarantees: tuple[str, ...] = ()
    signature: bytes = b""


class State(StrategyState):
    # own ones, with how many advertisements of which guarantee stand behind each
    offers: dict[Offer, dict[str, int]] = field(default_factory=dict)
    implicit: dict[Offer, int] = field(default_factory=dict)  # own ones without any, and when they were last used
    told: dict[Offer, Known] = field(default_factory=dict)  # own ones of both kinds, as the others know them
    young: dict[Offer, int] = field(default_factory=dict)  # own ones that not everyone may know yet, until when
    fresh: list[Fresh] = field(default_factory=list)
    known: dict[str, dict[Offer, Known]] = field(default_factory=dict)  # provider -> what it offers


def wants(selectors: tuple[Selector, ...], offer: Offer) -> bool:
    """Whether something that is offered so could be selected."""
    return not selectors or any(_could_fit(selector, offer) for selector in selectors)


def _could_fit(selector: Selector, offer: Offer) -> bool:
    if selector.type is not None and (offer.topic is not None or (offer.type is not None and offer.type != selector.type)):
        return False
    if selector.topic is not None and offer.topic is not None and offer.topic != selector.topic:
        return False
    if offer.entity is None:
        return True
    if selector.id is not None and selector.id != offer.entity:
        return False
    return selector.id_pattern is None or compiled_pattern(selector.id_pattern).search(offer.entity) is not None


def could_meet(guarantees: tuple[str, ...], requirement: str) -> bool:
    """Whether something of a guaranteed quality could be of the required one."""
    if not guarantees or not requirement:
        return True
    return any(check(guarantee, requirement).kind != "impossible" for guarantee in guarantees)


class Advertised(Strategy):
    name = "advertised"
    obeys_export_rules = True
    matches_at_home = True

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self.state: State = State()

    def handlers(self) -> dict[type, Callable[[Any, str], None]]:
        return {m.PutAdvertisement: self.put_advertisement, m.DropAdvertisement: self.drop_advertisement}

    # --- offers -----------------------------------------------------------------------------------------------------

    def _offers_of(self, advertisement: Advertisement) -> list[Offer]:
        ids = self.broker.settings.advertise_ids
        offers = dict.fromkeys(
            # a topic says nothing of types, and what has a type is offered by it: so only the type is a promise to keep
            Offer(s.type, None, s.id if ids else None) if s.type is not None else Offer(None, s.topic, s.id if ids else None)
            for s in advertisement.selectors
        )
        return list(offers) or [Offer()]

    def _offers_for(self, notification: Notification) -> list[Offer]:
        entity = notification.entity if self.broker.settings.advertise_ids else None
        if notification.types:
            return [Offer(name, None, entity) for name in notification.types]
        return [Offer(None, notification.topic, entity)]

    def _below(self, provider: str, offer: Offer) -> tuple[str, ...]:
        """The neighbours that this node passes an offer on to."""
        parents = self.broker.federation.offer_tree(provider, offer.type or offer.topic, offer.entity)
        here = self.broker.id
        return tuple(node for node, parent in parents.items() if parent == here and node != here)

    def _guarantees(self, offer: Offer) -> tuple[str, ...]:
        """Those that stand behind an own offer; none if something comes without."""
        texts = self.state.offers.get(offer, {})
        return () if offer in self.state.implicit or not _is_bounded(texts) else tuple(sorted(texts))

    def _guarantee_of(self, notification: Notification) -> str | None:
        """That of the advertisement that it names; None if it names none."""
        client = self.broker.clients.get(notification.publisher)
        if client is None or notification.advertisement is None:
            return None
        advertisement = client.advertisements.get(notification.advertisement)
        return None if advertisement is None else advertisement.quality

    def _tell(self, offer: Offer) -> None:
        """Let the others know of an own offer what they do not know yet: that it is there, with other guarantees, or gone."""
        state, below = self.state, self._below(self.broker.id, offer)
        told = state.told.get(offer)
        if offer not in state.offers and offer not in state.implicit:
            del state.told[offer]
            state.young.pop(offer, None)
            self.broker.send(below, m.DropAdvertisement(self.broker.id, offer))
            return
        guarantees = self._guarantees(offer)
        if told is not None and told.guarantees == guarantees:
            return
        state.young[offer] = self.broker.now_ms + FRESH_MS
        told = state.told[offer] = Known(self.broker.next_version(), guarantees)
        self.broker.send(below, _put(self.broker.id, offer, told))

    def advertised(self, advertisement: Advertisement) -> None:
        for offer in self._offers_of(advertisement):
            standing = self.state.offers.setdefault(offer, {})
            standing[advertisement.quality] = standing.get(advertisement.quality, 0) + 1
            self._tell(offer)

    def unadvertised(self, advertisement: Advertisement) -> None:
        for offer in self._offers_of(advertisement):
            standing = self.state.offers[offer]
            standing[advertisement.quality] -= 1
            if not standing[advertisement.quality]:
                del standing[advertisement.quality]
                if not standing:
                    del self.state.offers[offer]
                self._tell(offer)

    def put_advertisement(self, put: m.PutAdvertisement, _sender: str) -> None:
        offers = self.state.known.setdefault(put.provider, {})
        known = offers.get(put.offer)
        if known is not None and known.version >= put.version:
            return
        offers[put.offer] = Known(put.version, put.guarantees, put.signature)
        self.broker.send(self._below(put.provider, put.offer), put)
        self._place_again(put.provider, put.offer)

    def drop_advertisement(self, drop: m.DropAdvertisement, _sender: str) -> None:
        offers = self.state.known.get(drop.provider, {})
        if offers.pop(drop.offer, None) is None:
            return
        self.broker.send(self._below(drop.provider, drop.offer), drop)
        self._place_again(drop.provider, drop.offer)

    def _place_again(self, provider: str, changed: Offer) -> None:
        """Have the subscriptions that an offer is about held at its provider, or no more."""
        broker, placed = self.broker, self.broker.placed
        offers = self.state.known[provider]
        for client in broker.clients.values():
            for subscription in client.subscriptions.values():
                if not wants(subscription.selectors, changed):
                    continue
                before = placed.get(subscription.id, ())
                is_wanted = _serves(offers, subscription.selectors, subscription.quality)
                if is_wanted and provider not in before:
                    placed[subscription.id] = (*before, provider)
                    broker.send((provider,), self.put_message(broker.held[subscription.id]))
                elif not is_wanted and provider in before:
                    placed[subscription.id] = tuple(node for node in before if node != provider)
                    version = broker.held[subscription.id].version
                    broker.send((provider,), m.DropSubscription(subscription.id, version, ended=False))

    # --- this broker's own clients ----------------------------------------------------------------------------------

    def subscription_targets(self, subscription: Subscription) -> tuple[str, ...]:
        known, quality = self.state.known, subscription.quality
        return tuple(node for node, offers in known.items() if _serves(offers, subscription.selectors, quality))

    def providers(self, query: m.Query) -> tuple[str, ...]:
        return tuple(node for node, offers in self.state.known.items() if _serves(offers, query.selectors, ""))

    def guarantees(self, selectors: tuple[Selector, ...]) -> dict[str, list[tuple[Offer, tuple[str, ...]]]]:
        """Who offers what is selected, other nodes and this one, and which qualities each offer comes in (none: any)."""
        found: dict[str, list[tuple[Offer, tuple[str, ...]]]] = {}
        for provider, offers in {**self.state.known, self.broker.id: self.state.told}.items():
            if fitting := [(offer, known.guarantees) for offer, known in offers.items() if wants(selectors, offer)]:
                found[provider] = fitting
        return found

    def published(self, notification: Notification) -> None:
        state, now = self.state, self.broker.now_ms
        guarantee = self._guarantee_of(notification)
        for offer in self._offers_for(notification):
            texts = state.offers.get(offer)
            # it may name no advertisement, or that of another of its types: then it keeps to none of these guarantees
            if texts is None or (_is_bounded(texts) and guarantee not in texts):
                is_new = offer not in state.implicit
                state.implicit[offer] = now
                if is_new:
                    self._tell(offer)
        if any(state.young.get(offer, 0) > now for offer in _covering(notification)):
            state.fresh.append(Fresh(notification))
            del state.fresh[:-FRESH_KEPT]
        self.broker.deliver_everywhere(notification, self.broker.id)

    # --- what other brokers send ------------------------------------------------------------------------------------

    def put(self, put: m.PutSubscription, _sender: str) -> None:
        if not self.hold(put):
            return
        broker, subscription = self.broker, put.subscription
        for fresh in self.state.fresh:
            notification = fresh.notification
            if put.since_ms > notification.accepted_at_ms or subscription_expired(subscription, notification):
                continue
            # as the home knew it, not as it may be by now
            where = put.place.location if put.place is not None else broker.index.location(subscription.client)
            scopes = broker.scopes if fresh.scopes is None else Scopes.from_struct(fresh.scopes)
            if all(
                view is not None
                and satisfies(subscription, view, broker.publisher_location(view), where)
                and scopes.visible(view.scopes, subscription.scopes, view.attributes)
                for view in (broker.exported(broker.id, node, notification) for node in _nodes(put, notification))
            ):
                broker.send_data(put.home, notification, broker.id, partial(_recalled, (subscription.id,), broker.id))

    def put_message(self, held: Held) -> m.PutSubscription:
        put = super().put_message(held)
        client = self.broker.clients.get(held.subscription.client)
        if client is None:
            return put
        stays = tuple((since_ms, node) for since_ms, node, _ in client.stays)
        # what it might have seen then depends on where it was, if links hide something; or a policy, which only others know
        if not self.broker.federation.hides_attributes and all(node == self.broker.id for _, node in stays):
            return put
        return msgspec.structs.replace(put, stays=stays)

    def borders_change(self) -> None:
        before = self.broker.scopes.to_struct()
        for fresh in self.state.fresh:
            if fresh.scopes is None:
                fresh.scopes = before

    def event(self, event: m.Event, _sender: str) -> None:
        """None is ever sent: notifications are matched where they are published."""

    def tick(self) -> None:
        now = self.broker.now_ms
        for offer, until_ms in list(self.state.young.items()):
            if until_ms <= now:
                del self.state.young[offer]
        self.state.fresh = [fresh for fresh in self.state.fresh if fresh.notification.accepted_at_ms + FRESH_MS > now]
        for offer, used_ms in list(self.state.implicit.items()):
            if used_ms + OFFER_IDLE_MS <= now:
                del self.state.implicit[offer]
                self._tell(offer)

    # --- repair -----------------------------------------------------------------------------------------------------

    def told(self) -> dict[str, dict[str, tuple[str, m.BrokerMessage]]]:
        told = super().told()
        for provider, offers in {**self.state.known, self.broker.id: self.state.told}.items():
            for offer, known in offers.items():
                for node in self._below(provider, offer):
                    told.setdefault(node, {})[_key(provider, offer)] = (str(known.version), _put(provider, offer, known))
        return told

    def heard(self, source: str) -> dict[str, str]:
        heard = super().heard(source)
        federation = self.broker.federation
        for provider, offers in self.state.known.items():
            for offer, known in offers.items():
                parents = federation.offer_tree(provider, offer.type or offer.topic, offer.entity)
                if parents.get(self.broker.id) == source:
                    heard[_key(provider, offer)] = str(known.version)
        return heard

    def untell(self, other: str, key: str, version: str) -> None:
        if not key.startswith("\n["):
            super().untell(other, key, version)
            return
        provider, offer = msgspec.json.decode(key, type=tuple[str, Offer])
        self.broker.send((other,), m.DropAdvertisement(provider, offer))


def _is_bounded(texts: dict[str, int]) -> bool:
    """Whether these guarantees say anything: not if there is something without any, or if they are too many to be told."""
    return "" not in texts and len(texts) <= GUARANTEES_MAX


def _serves(offers: dict[Offer, Known], selectors: tuple[Selector, ...], requirement: str) -> bool:
    return any(wants(selectors, offer) and could_meet(known.guarantees, requirement) for offer, known in offers.items())


def _put(provider: str, offer: Offer, known: Known) -> m.PutAdvertisement:
    return m.PutAdvertisement(provider, offer, known.version, known.guarantees, known.signature)


def _key(provider: str, offer: Offer) -> str:
    """An offer among the keys of a digest; a new line in front, which no other key has."""
    return "\n" + msgspec.json.encode((provider, offer)).decode()


def _nodes(put: m.PutSubscription, notification: Notification) -> list[str]:
    """Where the subscriber is, and where it was when the notification was published, as far as that matters and is known."""
    then = [node for since_ms, node in put.stays if since_ms <= notification.accepted_at_ms]
    return [put.home, *then[-1:]]


def _recalled(subscriptions: tuple[str, ...], home: str, view: Notification) -> m.Delivery:
    return m.Delivery(view, subscriptions, home, recalled=True)


def subscription_expired(subscription: Subscription, notification: Notification) -> bool:
    return subscription.expires_at_ms is not None and subscription.expires_at_ms <= notification.accepted_at_ms


def _covering(notification: Notification) -> Iterator[Offer]:
    """All offers that would cover it: few, however many are open."""
    for type_ in (None, *notification.types):
        for topic in dict.fromkeys((None, notification.topic)):
            for entity in dict.fromkeys((None, notification.entity)):
                yield Offer(type_, topic, entity)
