"""A request in the words of another source."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hanse.ngsild.contexts import CORE, compile_context
from hanse.ngsild.distributed_wire import (
    filter_members,
    filter_params,
    linkable,
    part_of,
    passed_by,
    renamed,
    rest_of,
    selector_bodies,
    selector_params,
    types_of,
)
from hanse.ngsild.parameters import parse_query, parse_query_body
from hanse.ngsild.parsing import parse_entity
from hanse.node.settings import LimitsSection

URL = "https://example.org/context.jsonld"
OWN = compile_context(URL, {URL: {"@context": {"speed": "https://example.org/speed", "Vehicle": "https://example.org/Vehicle"}}})
INLINE = compile_context(
    {"speed": "https://example.org/speed", "Vehicle": "https://example.org/Vehicle", "unit": "https://example.org/u"}
)
BODY = {
    "@context": URL,
    "id": "urn:v:1",
    "type": "Vehicle",
    "scope": "/a",
    "speed": {"type": "Property", "value": {"speed": 1}, "unit": {"type": "Property", "value": "km/h"}},
    "place": {"type": "GeoProperty", "value": {"type": "Point", "coordinates": [1, 2]}},
}


def test_a_context_with_one_url_travels_by_it_and_any_other_as_the_core() -> None:
    assert linkable(OWN) is OWN
    assert linkable(INLINE) is CORE
    assert linkable(CORE) is CORE
    assert linkable(compile_context([URL, {"a": "urn:a"}], {URL: {"@context": {}}})) is CORE


def test_an_entity_means_the_same_in_other_words() -> None:
    told = renamed(BODY, INLINE, CORE)
    assert "@context" not in told
    assert told["https://example.org/speed"]["value"] == {"speed": 1}  # values are nobody's names
    given_body = {name: value for name, value in BODY.items() if name != "@context"}
    assert parse_entity(told, CORE, "now") == parse_entity(given_body, INLINE, "now")
    assert renamed(BODY, OWN, OWN) == given_body


def test_parts_of_an_entity() -> None:
    speed = OWN.expand_term("speed")
    assert set(part_of(BODY, OWN, {speed})) == {"@context", "id", "type", "speed"}
    assert set(rest_of(BODY, OWN, {speed})) == {"@context", "id", "type", "scope", "place"}
    assert part_of(BODY, OWN, None) == BODY


def test_what_is_no_type_of_an_entity_is_none() -> None:
    assert types_of({"type": ["Room", 7]}, CORE) == types_of({"@type": "Room"}, CORE) != ()
    for nonsense in (7, 0.5, None, {"a": 1}, True):
        assert types_of({"type": nonsense}, CORE) == ()


def test_a_query_asks_for_the_same_in_other_words() -> None:
    params = {
        "type": "(Vehicle;Car),Bus",
        "id": "urn:v:1,urn:v:2",
        "q": 'speed>20;brand=="x"',
        "scopeQ": "/a/#",
        "georel": "near;maxDistance==2000",
        "geometry": "Point",
        "coordinates": "[8.5,41.25]",
        "geoproperty": "place",
    }
    limits = LimitsSection()
    asked = parse_query(params, INLINE, limits)
    told = {
        name: value for selector in asked.selectors for name, value in selector_params(selector, CORE).items()
    } | filter_params(asked, CORE)
    assert parse_query(told, CORE, limits) == asked
    body = {"type": "Query", "entities": [b for s in asked.selectors for b in selector_bodies(s, CORE)]} | filter_members(
        asked, CORE
    )
    by_post, _ = parse_query_body(body, {}, CORE, limits)
    assert (by_post.q, by_post.geo, by_post.scope_q) == (asked.q, asked.geo, asked.scope_q)
    assert {id_ for selector in by_post.selectors for id_ in selector.ids} == {"urn:v:1", "urn:v:2"}
    assert {selector.types for selector in by_post.selectors} == {asked.selectors[0].types}


@given(st.text(max_size=60))
def test_any_via_header_is_read(text: str) -> None:
    assert isinstance(passed_by(text), frozenset)


def test_where_a_request_has_been() -> None:
    assert passed_by("1.1 here, HTTP/1.1 there:80 (a comment)") == {"here", "there:80"}
    assert passed_by("") == frozenset()
