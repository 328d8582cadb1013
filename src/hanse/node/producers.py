"""Which producers could satisfy a consumer, as far as this node knows, and what each of them lacks.

Producers are the native clients here that have advertised something, the context sources that have registered here, and the
other nodes of the federation with what they offer, as far as offers come here (strategy `advertised`, within export rules). What
is published without an advertisement, as a node's own entities are where it is alone, comes without a guarantee and is not named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

from msgspec import Struct

from hanse.model import Advertisement, Selector
from hanse.node.registrations import CLIENT as SOURCE_CLIENT
from hanse.node.router import now_ms
from hanse.quality.contracts import Verdict, check_contract, offers
from hanse.routing.strategies.advertised import Advertised

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hanse.model import Subscription
    from hanse.node.federation.host import Host
    from hanse.node.tenant import Tenant
    from hanse.routing import Broker
    from hanse.routing.messages import Offer

Kind: TypeAlias = Literal["client", "registration", "node"]

NODE: Final = "urn:hanse:node:"  # the clients that stand for nodes' own entities
OFFER: Final = "offer"  # what another node offers has no id of its own
_BEST_FIRST: Final = ("satisfied", "possible", "impossible")


class Producer(Struct, frozen=True):
    """Someone who says to have what is wanted, and the verdict on what it guarantees."""

    kind: Kind
    producer: str  # the client, the registration, or the node
    node: str  # where it publishes
    advertisement: str  # its id; nothing for what another node offers
    selectors: tuple[Selector, ...]
    guarantee: str
    verdict: Verdict


def producers(tenant: Tenant, wanted: Iterable[Subscription]) -> list[Producer]:
    """Who offers what one of these selects, the best first. A producer is judged by the one that suits it best."""
    wishes = list(wanted)
    found: list[Producer] = []
    for kind, name, node, advertisement in _offered(tenant, wishes):
        verdicts = [check_contract(advertisement, wish) for wish in wishes if offers(advertisement.selectors, wish.selectors)]
        if verdicts:
            best = min(verdicts, key=_rank)
            id_ = advertisement.id if node == tenant.broker.id else ""
            found.append(Producer(kind, name, node, id_, advertisement.selectors, advertisement.quality, best))
    return sorted(found, key=lambda one: (_rank(one.verdict), one.node, one.kind, one.producer, one.advertisement))


def _rank(verdict: Verdict) -> int:
    return _BEST_FIRST.index(verdict.kind)


def _offered(tenant: Tenant, wishes: list[Subscription]) -> Iterator[tuple[Kind, str, str, Advertisement]]:
    broker, now = tenant.broker, now_ms()
    for name, client in broker.clients.items():
        for advertisement in client.advertisements.values():
            if advertisement.expires_at_ms is not None and advertisement.expires_at_ms <= now:
                continue
            if name.startswith(SOURCE_CLIENT):
                yield "registration", advertisement.id, broker.id, advertisement
            elif name.startswith(NODE):
                yield "node", broker.id, broker.id, advertisement
            else:
                yield "client", name, broker.id, advertisement
    if not tenant.router.is_federated:
        return
    told: dict[tuple[str, Offer, str], None] = {}  # planes may know the same
    for plane in cast("Host", tenant.router).planes.brokers:
        told |= dict.fromkeys(_of_others(plane, wishes))
    for node, offer, guarantee in told:
        selector = Selector(type=offer.type, topic=offer.topic, id=offer.entity)
        selectors = (selector,) if selector != Selector() else ()
        yield "node", node, node, Advertisement(id=OFFER, client=node, selectors=selectors, quality=guarantee)


def _of_others(broker: Broker, wishes: list[Subscription]) -> Iterator[tuple[str, Offer, str]]:
    if not isinstance(broker.strategy, Advertised):
        return
    for wish in wishes:
        for node, offered in broker.strategy.guarantees(wish.selectors).items():
            if node != broker.id:
                yield from ((node, offer, guarantee) for offer, guarantees in offered for guarantee in guarantees or ("",))
