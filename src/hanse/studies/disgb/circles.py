"""The experiment of DisGB as its brokers' areas were: circles around the three cities that nearly touch.

Hanse's areas are fields and leave no land to nobody, so that this can only be calculated: table I's formulas, and the matched
events that go to the other city, each once for a broker.
"""

from __future__ import annotations

from collections import Counter
from math import asin, degrees, sqrt
from typing import TYPE_CHECKING

from hanse.model import Circle, World, half_chord_squared
from hanse.routing import messages as m
from hanse.simulation.workloads import EXPERIMENT_CIRCLES

if TYPE_CHECKING:
    from hanse.model import Geofence, Location, Notification, Subscription
    from hanse.simulation.workloads import Workload


def calculate_in_circles(load: Workload) -> dict[str, int]:
    """Messages of both strategies; `matched events` is part of `geo-publisher`."""
    held: dict[str, dict[str, frozenset[str]]] = {}
    held_at: dict[str, dict[str, dict[str, Subscription]]] = {
        here: {home: {} for home in EXPERIMENT_CIRCLES} for here in EXPERIMENT_CIRCLES
    }
    locations: dict[str, Location] = {}
    messages: Counter[str] = Counter()
    for action in load.actions:
        request = action.do
        match request:
            case m.Locate():
                locations[action.client] = request.location
                messages["geo-publisher"] += len(frozenset[str]().union(*held.get(action.client, {}).values()))
            case m.Subscribe():
                subscription = request.subscription
                mine = held.setdefault(action.client, {})
                before, now = mine.get(subscription.id, frozenset()), touched(subscription.geofence, action.node)
                mine[subscription.id] = now
                messages["geo-publisher"] += len(before | now)
                for other in before - now:
                    del held_at[other][action.node][subscription.id]
                for other in now:
                    held_at[other][action.node][subscription.id] = subscription
            case m.Publish():
                notification = request.notification
                others = touched(notification.geofence, action.node)
                messages["geo-subscriber"] += len(others)
                messages["matched events"] += sum(
                    any(_matches(notification, subscription, locations) for subscription in held_at[action.node][home].values())
                    for home in others
                )
            case _:
                pass
    messages["geo-publisher"] += messages["matched events"]
    return dict(messages)


def touched(geofence: Geofence, home: str) -> frozenset[str]:
    """The other brokers whose circle the geofence touches."""
    if isinstance(geofence, World):
        return frozenset(EXPERIMENT_CIRCLES) - {home}
    assert isinstance(geofence, Circle)
    return frozenset(
        name
        for name, circle in EXPERIMENT_CIRCLES.items()
        if name != home and _distance_deg(geofence, circle) <= circle.radius_deg + geofence.radius_deg
    )


def _distance_deg(a: Circle, b: Circle) -> float:
    return 2 * degrees(asin(min(1.0, sqrt(half_chord_squared(a.lat, a.lon, b.lat, b.lon)))))


def _matches(notification: Notification, subscription: Subscription, locations: dict[str, Location]) -> bool:
    there, here = notification.location, locations[subscription.client]
    return (
        subscription.selectors[0].topic == notification.topic
        and there is not None
        and subscription.geofence.contains(there.lat, there.lon)
        and notification.geofence.contains(here.lat, here.lon)
    )
