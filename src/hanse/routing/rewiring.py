"""A federation that changes under a broker: nodes come within reach and go, links and their rules change.

The state stays as it is, but for what it says of nodes that are out of reach, or that rules keep from this node now. Where own
subscriptions belong is seen to when digests are compared, which every node does after such a change (`repair`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.routing.strategies.advertised import State as Offers
from hanse.routing.strategies.geo_subscriber import State as Guests
from hanse.routing.strategies.scoped import State as Areas

if TYPE_CHECKING:
    from hanse.routing.broker import Broker


def forget_strangers(broker: Broker) -> None:
    """Nothing in its state speaks of a node that its federation does not have."""
    nodes, here, state = broker.federation.by_id, broker.id, broker.state
    for id_ in [id_ for id_, held in broker.held.items() if held.home not in nodes]:
        broker.let_go(id_)
    neighbours = broker.federation.neighbours[here]
    for held in broker.held.values():
        held.vias = {region: via for region, via in held.vias.items() if via[0] == here or via[0] in neighbours}
    for client in [client for client, place in state.locations.items() if place.home not in nodes]:
        del state.locations[client]
        broker.index.move(client, None)
    for id_, targets in list(broker.placed.items()):
        broker.placed[id_] = tuple(node for node in targets if node in nodes)
    state.moved = {client: moved for client, moved in state.moved.items() if moved.to in nodes}
    for moved in state.moved.values():
        moved.left_behind = [(s, version, tuple(n for n in held if n in nodes)) for s, version, held in moved.left_behind]
    # what came from there is here by now, and goes on as if it were this node's: the rules of the links up to here let it come
    state.meanwhile = {key: (n, home if home in nodes else here) for key, (n, home) in state.meanwhile.items()}
    for own in broker.clients.values():
        own.waiting = [(id_, n, home if home in nodes else here) for id_, n, home in own.waiting]
        own.asked = [request for request in own.asked if request.new_home in nodes]
    for query in state.queries.values():
        query.awaited = {node: left for node, left in query.awaited.items() if node in nodes}
    _forget_of_strategy(broker)


def _forget_of_strategy(broker: Broker) -> None:
    federation, here, kept = broker.federation, broker.id, broker.strategy.state
    nodes = federation.by_id
    if isinstance(kept, Offers):
        for provider, offers in list(kept.known.items()):
            still = (
                {}
                if provider not in nodes
                else {
                    offer: known
                    for offer, known in offers.items()
                    if here in federation.offer_tree(provider, offer.type or offer.topic, offer.entity)
                }
            )
            if still:
                kept.known[provider] = still
            else:
                del kept.known[provider]
    elif isinstance(kept, Guests):
        kept.guests = {client: guest for client, guest in kept.guests.items() if guest.home in nodes}
        kept.announced = {client: there for client, there in kept.announced.items() if there[0] in nodes}
    elif isinstance(kept, Areas):
        neighbours = set(federation.neighbours[here])
        for area in kept.areas.values():
            area.children &= neighbours
            area.unready &= neighbours
