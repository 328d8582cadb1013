"""The meaning, by example: each condition alone can keep a notification from a subscriber."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hanse.model import Advertisement, Circle, Location, Notification, Selector, Subscription
from hanse.routing import ExportRule, Federation, Link, Node
from hanse.routing.oracle import World
from hanse.scopes import NEVER, Scopes

PARIS, BERLIN = Location(48.9, 2.4), Location(52.5, 13.4)


def world(**changes: Any) -> World:
    scopes = Scopes()
    graph = scopes.graph("area")
    graph.add("france")
    graph.add("paris", "france")
    graph.add("lyon", "france")
    graph.add("germany")
    made = World(
        Federation((Node("a"), Node("b")), (Link("a", "b"), Link("b", "a"))),
        scopes,
        now_ms=100,
        homes={"pub": "a", "sub": "b"},
        locations={"pub": PARIS, "sub": BERLIN},
        subscriptions={
            "s": Subscription(
                id="s",
                client="sub",
                selectors=(Selector(type="Bus"),),
                q="speed>50",
                quality="precision>=4",
                geofence=Circle(PARIS.lat, PARIS.lon, 1.0),
                scopes={"area": "lyon"},
                expires_at_ms=200,
            )
        },
        advertisements={
            ("pub", "ad"): Advertisement(id="ad", client="pub", q="speed", scopes={"area": "paris"}, quality="precision>=2")
        },
    )
    return msgspec.structs.replace(made, **changes)


BUS = Notification(
    id="n",
    publisher="pub",
    types=("Bus",),
    attributes={"speed": 60},
    quality={"precision": 5.0},
    geofence=Circle(BERLIN.lat, BERLIN.lon, 1.0),
    scopes={"area": "paris"},
)


def test_all_conditions_hold() -> None:
    assert world().receivers(BUS) == {"s"}


@pytest.mark.parametrize(
    "change",
    [
        {"types": ("Ship",)},
        {"attributes": {"speed": 40}},
        {"quality": {}},
        {"quality": {"precision": 3.0}},
        {"location": BERLIN},
        {"geofence": Circle(PARIS.lat, PARIS.lon, 1.0)},
        {"scopes": {"area": "germany"}},
        {"advertisement": "no such"},
        {"advertisement": "ad", "attributes": {}},
        {"advertisement": "ad", "quality": {"precision": 1.0}},
    ],
)
def test_each_condition_alone_can_fail(change: dict[str, Any]) -> None:
    assert world().receivers(msgspec.structs.replace(BUS, **change)) == set()


def test_it_expires() -> None:
    assert world(now_ms=200).receivers(BUS) == set()


def test_unknown_places_lie_only_in_the_world() -> None:
    assert world(locations={"pub": PARIS}).receivers(BUS) == set()
    assert world(locations={"sub": BERLIN}).receivers(BUS) == set()


def test_a_border_may_stop_it() -> None:
    w = world()
    w.scopes.graphs["area"].set_filter("paris", "france", out=NEVER)
    assert w.receivers(BUS) == set()
    w.scopes.graphs["area"].set_filter("paris", "france", out="speed>55")
    assert w.receivers(BUS) == {"s"}


def test_unstated_scopes_restrict_nothing() -> None:
    assert world().receivers(msgspec.structs.replace(BUS, scopes={})) == {"s"}


def test_an_advertisement_lends_its_scopes() -> None:
    assert world().receivers(msgspec.structs.replace(BUS, scopes={}, advertisement="ad")) == {"s"}


def test_export_rules_decide_link_by_link() -> None:
    nodes = (Node("a"), Node("b"), Node("c"))
    closed = ExportRule(deny_types=("Bus",))
    links = (Link("a", "b", closed), Link("b", "a"), Link("a", "c"), Link("c", "a"), Link("c", "b"), Link("b", "c"))
    assert world(federation=Federation(nodes, links)).receivers(BUS) == {"s"}  # by way of c
    links = (*links[:4], Link("c", "b", closed), Link("b", "c"))
    assert world(federation=Federation(nodes, links)).receivers(BUS) == set()
