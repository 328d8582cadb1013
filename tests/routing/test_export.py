"""Export rules by example: what crosses, in which form, and what is no rule."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hanse.model import Circle, InvalidInput, Location, Notification, Selector, Subscription
from hanse.routing import ExportRule, Federation, Link, Node
from hanse.routing.oracle import World

PARIS, BERLIN = Location(48.9, 2.4), Location(52.5, 13.4)
BUS = Notification(
    id="n",
    publisher="pub",
    types=("Bus",),
    entity="urn:bus:1",
    attributes={"speed": 60, "driver": "Ada"},
    news=("entityUpdated", "driver", "/town"),
    quality={"precision": 5.0},
    location=PARIS,
    scopes={"area": "paris"},
)


def crosses(rule: ExportRule, **changes: Any) -> Notification | None:
    links = (Link("a", "b", rule), Link("b", "a"))
    return Federation((Node("a"), Node("b")), links).exported("a", "b", msgspec.structs.replace(BUS, **changes))


@pytest.mark.parametrize(
    ("rule", "changes", "passes"),
    [
        ({"deny": True}, {}, False),
        ({"deny": True, "deny_types": ("Ship",)}, {}, False),
        ({"deny": True, "types": ("B*",)}, {}, True),
        ({"deny": True, "types": ("B*",)}, {"types": ("Bus", "Ship")}, False),
        ({"deny": True, "ids": ("urn:bus:*",)}, {}, True),
        ({"deny": True, "ids": ("urn:bus:*",)}, {"entity": None}, False),
        ({"deny": True, "ids": ("urn:bus:*",), "types": ("Ship",)}, {}, False),
        ({"scopes": {"area": ("paris", "ly*")}}, {}, True),
        ({"scopes": {"area": ("ly*",)}}, {}, False),
        ({"scopes": {"area": ("paris",)}}, {"scopes": {}}, False),
        ({"scopes": {"area": ("paris", "*")}}, {"scopes": {}}, True),
        ({"scopes": {"area": ("*",), "role": ("*",)}}, {}, True),
        ({"scopes": {"area": ("*",), "role": ("guest",)}}, {}, False),
        ({"area": Circle(PARIS.lat, PARIS.lon, 1.0)}, {}, True),
        ({"area": Circle(PARIS.lat, PARIS.lon, 1.0)}, {"location": BERLIN}, False),
        ({"area": Circle(PARIS.lat, PARIS.lon, 180.0)}, {"location": None}, False),
        ({"quality": "precision>=4"}, {}, True),
        ({"quality": "precision>=6"}, {}, False),
        ({"quality": "precision>=4"}, {"quality": {}}, False),
        ({"quality": "precision>=4", "deny_types": ("Bus",)}, {}, False),
    ],
)
def test_each_condition_alone_decides(rule: dict[str, Any], changes: dict[str, Any], passes: bool) -> None:
    assert (crosses(ExportRule(**rule), **changes) is not None) == passes


@pytest.mark.parametrize(
    ("rule", "attributes", "news"),
    [
        ({}, {"speed", "driver"}, BUS.news),
        ({"attributes": ("sp*",)}, {"speed"}, ("entityUpdated", "/town")),
        ({"deny_attributes": ("driver",)}, {"speed"}, ("entityUpdated", "/town")),
        ({"attributes": ("*",), "deny_attributes": ("*",)}, set(), ("entityUpdated", "/town")),
        ({"deny_attributes": ("other",)}, {"speed", "driver"}, BUS.news),
    ],
)
def test_attributes_that_do_not_pass_are_taken_out_with_their_news(
    rule: dict[str, Any], attributes: set[str], news: tuple[str, ...]
) -> None:
    seen = crosses(ExportRule(**rule))
    assert seen is not None
    assert (set(seen.attributes), seen.news) == (attributes, news)
    assert (seen.quality, seen.location, seen.scopes) == (BUS.quality, BUS.location, BUS.scopes)


def test_the_quality_of_what_is_taken_out_goes_with_it() -> None:
    quality = {"precision": 5.0, "speed.precision": 7.0, "driver.trust": 5.0}
    seen = crosses(ExportRule(deny_attributes=("driver",)), quality=quality)
    assert seen is not None
    assert seen.quality == {"precision": 5.0, "speed.precision": 7.0}
    none_left = crosses(ExportRule(deny_attributes=("gone",)), quality={"gone.precision": 7.0})
    assert none_left is not None
    assert none_left.quality == {}


def test_the_name_of_a_deleted_attribute_is_taken_out_too() -> None:
    seen = crosses(ExportRule(attributes=("speed",)), news=("entityUpdated", "licence"))
    assert seen is not None
    assert seen.news == ("entityUpdated",)


def test_nobody_looks_into_a_payload() -> None:
    payload = '{"driver": "Ada"}'
    assert crosses(ExportRule(deny_types=("Ship",)), payload=payload) == msgspec.structs.replace(BUS, payload=payload)
    seen = crosses(ExportRule(deny_attributes=("other",)), payload=payload)
    assert seen is not None
    assert not seen.payload


def test_what_is_taken_out_on_the_way_stays_out() -> None:
    nodes = tuple(Node(name) for name in "abc")
    links = (
        Link("a", "b", ExportRule(deny_attributes=("driver",))),
        Link("b", "a"),
        Link("b", "c", ExportRule(deny_attributes=("speed",))),
        Link("c", "b"),
    )
    federation = Federation(nodes, links)
    last = federation.exported("a", "c", BUS)
    assert last is not None
    assert last.attributes == {}
    middle = federation.exported("a", "b", BUS)
    assert middle is not None
    assert federation.exported("a", "c", middle) == last  # whoever has it knows the same of it
    assert federation.audience("a", middle) == federation.audience("a", BUS)


def test_what_was_taken_out_cannot_be_passed_on_to_those_who_may_see_it() -> None:
    nodes = tuple(Node(name) for name in "abc")
    hides = ExportRule(deny_attributes=("driver",))
    links = (Link("a", "b", hides), Link("b", "a"), Link("a", "c"), Link("c", "a"), Link("b", "c"), Link("c", "b"))
    federation = Federation(nodes, links)
    assert not federation.is_all_for("a", "b", "c", BUS)
    assert federation.is_all_for("a", "c", "b", BUS)  # c takes out itself what a hides from b
    assert federation.is_all_for("a", "a", "c", BUS)


def test_no_filter_finds_out_what_is_hidden() -> None:
    links = (Link("a", "b", ExportRule(deny_attributes=("driver",))), Link("b", "a"))
    world = World(Federation((Node("a"), Node("b")), links), homes={"pub": "a", "near": "a", "far": "b"})

    def hears(client: str, **asked: Any) -> bool:
        world.subscriptions = {"s": Subscription(id="s", client=client, **asked)}
        return bool(world.receivers(BUS))

    for asked in ({"q": 'driver=="Ada"'}, {"attributes": ("driver",)}, {"news": ("driver",)}):
        assert (hears("near", **asked), hears("far", **asked)) == (True, False)
    assert (hears("near", q="!driver"), hears("far", q="!driver")) == (False, True)
    assert hears("far", q="speed>50", selectors=(Selector(type="Bus"),))


def test_a_closed_link_lets_no_offer_through() -> None:
    links = (Link("a", "b", ExportRule(deny=True)), Link("b", "a"))
    federation = Federation((Node("a"), Node("b")), links)
    for name, entity in ((None, None), ("Bus", None), ("Bus", "urn:1")):
        assert set(federation.offer_tree("a", name, entity)) == {"a"}
        assert set(federation.offer_tree("b", name, entity)) == {"a", "b"}


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        ({"types": ("",)}, "the types of an export rule: '' fits no name"),
        ({"deny_attributes": ("a\n",)}, "deny_attributes"),
        ({"scopes": {"": ("x",)}}, "no name of a dimension"),
        ({"scopes": {"area": ()}}, "dimension 'area' of an export rule: no scope is named"),
        ({"scopes": {"area": ("",)}}, "scopes of dimension 'area'"),
        ({"quality": "precision>="}, "the quality of an export rule"),
        ({"quality": "a|b"}, "the quality of an export rule: a quality requirement joins"),
        ({"quality": "speed.precision>3"}, "write precision"),
    ],
)
def test_what_is_no_rule_is_refused(rule: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        ExportRule(**rule)


def test_a_rule_survives_being_written_down() -> None:
    rule = ExportRule(
        types=("Bus",),
        attributes=("speed",),
        scopes={"area": ("paris", "*")},
        area=Circle(1.0, 2.0, 3.0),
        quality="precision",
        deny=True,
    )
    assert msgspec.json.decode(msgspec.json.encode(rule), type=ExportRule) == rule
    assert msgspec.convert({"area": {"type": "circle", "lat": 1, "lon": 2, "radius_deg": 3}}, ExportRule).area == rule.area
