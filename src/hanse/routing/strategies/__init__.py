"""The routing strategies: one module each, all of one shape (`base`)."""

from hanse.routing.strategies.advertised import Advertised
from hanse.routing.strategies.base import Strategy
from hanse.routing.strategies.broadcast_groups import BroadcastGroups
from hanse.routing.strategies.dht import Dht
from hanse.routing.strategies.flood_events import FloodEvents
from hanse.routing.strategies.flood_subscriptions import FloodSubscriptions
from hanse.routing.strategies.geo_publisher import GeoPublisher
from hanse.routing.strategies.geo_subscriber import GeoSubscriber
from hanse.routing.strategies.grid_quorum import GridQuorum
from hanse.routing.strategies.mudebs import MuDebs, MuDebsEveryPath
from hanse.routing.strategies.scoped import Scoped

STRATEGIES: dict[str, type[Strategy]] = {
    strategy.name: strategy
    for strategy in (
        FloodEvents,
        FloodSubscriptions,
        GeoSubscriber,
        GeoPublisher,
        Dht,
        GridQuorum,
        BroadcastGroups,
        Scoped,
        Advertised,
    )
}
# A paper's own routing, to be compared with: it does not promise all that the meaning does, so nobody is offered it.
STUDIED: dict[str, type[Strategy]] = {strategy.name: strategy for strategy in (MuDebs, MuDebsEveryPath)}

__all__ = ["STRATEGIES", "STUDIED", "Strategy"]
