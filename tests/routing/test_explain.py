"""The reasons agree with the oracle, always; and they name what matters."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.model import Advertisement, Circle, Location, Notification, Polygon, Selector, Subscription
from hanse.routing import STRATEGIES, ExportRule, Federation, Link, Node
from hanse.routing import messages as m
from hanse.routing.explain import Explanation, explain, objection
from hanse.routing.oracle import World
from hanse.scopes import NEVER, Scopes
from hanse.simulation.scenarios import scenario
from hanse.simulation.steps import PHASE_MS, apply


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10**9), strategy=st.sampled_from(sorted(STRATEGIES)))
def test_it_agrees_with_the_oracle(seed: int, strategy: str) -> None:
    told = scenario(seed, strategy)
    world = told.world()
    for number, phase in enumerate(told.phases):
        for step in phase.steps:
            world.now_ms = number * PHASE_MS + step.at_ms
            apply(world, step)
            if not isinstance(step.do, m.Publish):
                continue
            n = step.do.notification
            for id_, subscription in world.subscriptions.items():
                why = explain(world, n, subscription)
                alone = msgspec.structs.replace(world, subscriptions={id_: subscription})
                assert why.delivered == bool(alone.receivers(n)) == all(check.passed for check in why.checks)
                assert all(check.words.endswith(".") for check in why.checks)
                published = world.published(n)
                if published is not None:
                    assert why.view == world.view(published, subscription)
                    _names_what_stops(world, why, published, subscription)


def _names_what_stops(world: World, why: Explanation, n: Notification, subscription: Subscription) -> None:
    rule = world.federation.rule
    said = {check.name: check for check in why.checks}
    source, target = world.homes[n.publisher], world.homes[subscription.client]
    allowed = world.allowed(source, target, n)
    assert ("policy" in said) == (source in world.policies and source != target)
    if "policy" in said:
        assert said["policy"].passed == (allowed is not None)
        assert world.policies[source].why(target, n) in said["policy"].words
    assert why.checks[-1].name == "export rules"
    assert (why.view is None) == (allowed is None or not why.checks[-1].passed)
    n = allowed if allowed is not None else n
    for link, words in ((link, f"from {link[0]} to {link[1]}: ") for link in rule):
        if words in why.checks[-1].words:
            assert objection(rule[link], n)
    assert all(not objection(rule[link], n) for link in zip(why.path, why.path[1:], strict=False))


PARIS, BERLIN = Location(48.9, 2.4), Location(52.5, 13.4)
BOX = Polygon((((((2.0, 48.0), (3.0, 48.0), (3.0, 49.0), (2.0, 49.0), (2.0, 48.0))),),))
BUS = Notification(
    id="n",
    publisher="pub",
    types=("Bus",),
    entity="urn:bus:1",
    attributes={"speed": 60, "driver": "Ada"},
    news=("driver",),
    quality={"precision": 5.0},
    geofence=Circle(BERLIN.lat, BERLIN.lon, 1.0),
    scopes={"area": "paris"},
    advertisement="ad",
)
WANTED = Subscription(
    id="s",
    client="sub",
    selectors=(Selector(type="Bus"),),
    q="speed>50",
    quality="precision>=4",
    geofence=Circle(PARIS.lat, PARIS.lon, 1.0),
    scopes={"area": "lyon"},
    expires_at_ms=200_000,
)
XML_BUS = {"payload": "<bus><line>7</line></bus>", "media_type": "application/xml"}


def world(**changes: Any) -> World:
    scopes = Scopes()
    graph = scopes.graph("area")
    graph.add("france")
    graph.add("paris", "france")
    graph.add("lyon", "france")
    made = World(
        federation(),
        scopes,
        now_ms=100_000,
        homes={"pub": "a", "sub": "c"},
        locations={"pub": PARIS, "sub": BERLIN},
        advertisements={("pub", "ad"): Advertisement(id="ad", client="pub", scopes={"area": "paris"}, quality="precision>=2")},
    )
    return msgspec.structs.replace(made, **changes)


def federation(**rule: Any) -> Federation:
    nodes = tuple(Node(name) for name in "abc")
    return Federation(nodes, (Link("a", "b"), Link("b", "a"), Link("b", "c", ExportRule(**rule)), Link("c", "b")))


def test_what_is_delivered_is_explained_too() -> None:
    why = explain(world(), BUS, WANTED)
    assert why.delivered
    assert why.path == ("a", "b", "c")
    assert [check.name for check in why.checks] == [
        "active",
        "advertised",
        "entities",
        "q",
        "quality",
        "publisher's place",
        "subscriber's place",
        "scopes: area",
        "export rules",
    ]
    said = " ".join(check.words for check in why.checks)
    assert "goes on for 100 s" in said
    assert "paris → france; france → lyon" in said
    assert "a → b → c" in said
    assert "radius of 111.2 km" in said


@pytest.mark.parametrize(
    ("notification", "subscription", "name", "words"),
    [
        ({}, {"expires_at_ms": 90_000}, "active", "ended 10 s ago"),
        ({"advertisement": "x"}, {}, "advertised", "has no advertisement 'x'"),
        ({"quality": {"precision": 1.0}}, {"quality": ""}, "advertised", "guarantees precision>=2, but precision is 1.0"),
        ({"types": ("Ship",)}, {}, "entities", "type Ship, id urn:bus:1; asked for is type Bus"),
        ({}, {"q": "speed>50;speed>70"}, "q", "speed>70, but speed is 60"),
        ({}, {"q": "noise|speed<3"}, "q", "there is no noise and speed is 60"),
        ({}, {"attributes": ("noise",)}, "attributes", "carries driver, speed; one of noise"),
        ({}, {"news": ("speed",)}, "news", "tells of driver; one of speed"),
        ({"quality": {"precision": 3.0}}, {}, "quality", "precision>=4, but precision is 3.0"),
        ({}, {"xpath": ("//bus",)}, "xpath", "//bus, but there is no XML payload."),
        (XML_BUS, {"xpath": ("//bus", "//tram")}, "xpath", "//tram, but the payload has no such thing."),
        ({"location": BERLIN}, {}, "publisher's place", "km from the centre of the geofence of the subscription, outside"),
        ({"location": BERLIN}, {"geofence": BOX}, "publisher's place", "km from its edge"),
        ({"geofence": BOX}, {}, "subscriber's place", "sub is outside the geofence of the notification"),
    ],
)
def test_each_reason_is_told(notification: dict[str, Any], subscription: dict[str, Any], name: str, words: str) -> None:
    why = explain(world(), msgspec.structs.replace(BUS, **notification), msgspec.structs.replace(WANTED, **subscription))
    assert not why.delivered
    (check,) = [check for check in why.checks if not check.passed]
    assert check.name == name
    assert words in check.words


def test_the_border_that_stops_it_is_named() -> None:
    closed = world()
    closed.scopes.graphs["area"].set_filter("paris", "france", out=NEVER)
    (check,) = [check for check in explain(closed, BUS, WANTED).checks if not check.passed]
    assert check.name == "scopes: area"
    assert "stopped at paris → france [out: false]" in check.words


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"deny": True}, "denies everything"),
        ({"deny_types": ("B*",)}, "denies the type Bus"),
        ({"types": ("Ship",)}, "does not name the type Bus"),
        ({"ids": ("urn:ship:*",)}, "does not name the id urn:bus:1"),
        ({"deny_ids": ("*",)}, "denies the id urn:bus:1"),
        ({"scopes": {"area": ("lyon",)}}, "the scope paris pass in the dimension area"),
        ({"scopes": {"role": ("guest",)}}, "what states no scope pass in the dimension role"),
        ({"area": Circle(BERLIN.lat, BERLIN.lon, 1.0)}, "outside the rule's area"),
        ({"quality": "precision>=7"}, "precision>=7, but precision is 5"),
    ],
)
def test_the_link_and_the_rule_that_stop_it_are_named(rule: dict[str, Any], words: str) -> None:
    why = explain(world(federation=federation(**rule)), BUS, WANTED)
    (check,) = [check for check in why.checks if not check.passed]
    assert "the link from b to c: " in check.words
    assert words in check.words


def test_what_a_link_takes_out_is_named_and_is_why_a_filter_fails() -> None:
    hiding = world(federation=federation(deny_attributes=("driver",)))
    why = explain(hiding, BUS, msgspec.structs.replace(WANTED, q='driver=="Ada"'))
    assert why.view is not None
    assert why.view.attributes == {"speed": 60}
    (check,) = [check for check in why.checks if not check.passed]
    assert check.words == 'driver=="Ada", but there is no driver. Export rules have taken out driver.'
    assert "The link from b to c takes out driver." in why.checks[-1].words
    assert explain(hiding, BUS, WANTED).delivered


def test_constraints_on_xml_are_explained() -> None:
    bus = msgspec.structs.replace(BUS, **XML_BUS)
    seven = msgspec.structs.replace(WANTED, xpath=("//bus[line=7]",))
    why = explain(world(), bus, seven)
    assert why.delivered
    assert "//bus[line=7] holds." in [check.words for check in why.checks]
    hiding = world(federation=federation(deny_attributes=("driver",)))  # and with it the payload
    (check,) = [check for check in explain(hiding, bus, seven).checks if not check.passed]
    assert check.words == "//bus[line=7], but there is no XML payload. Export rules have taken out driver, the payload."
    promise = Advertisement(id="ad", client="pub", scopes={"area": "paris"}, xpath=("//tram",))
    why = explain(world(advertisements={("pub", "ad"): promise}), bus, seven)
    assert "The advertisement 'ad' promises //tram, but the payload has no such thing." in [check.words for check in why.checks]
    assert not why.delivered


def test_whoever_is_nowhere_gets_nothing() -> None:
    why = explain(world(homes={"pub": "a"}), BUS, WANTED)
    assert not why.delivered
    assert why.checks[0].words == "sub is at no node."


def test_islands_are_told_apart_from_rules() -> None:
    apart = Federation(tuple(Node(name) for name in "abc"), (Link("a", "b", ExportRule(deny=True)), Link("b", "a")))
    assert "No links lead from a to c" in explain(world(federation=apart), BUS, WANTED).checks[-1].words
