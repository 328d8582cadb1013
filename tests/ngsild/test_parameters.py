"""Parameters and bodies of queries: what they mean, and what is refused."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.model import InvalidInput
from hanse.ngsild.contexts import CORE, compile_context
from hanse.ngsild.entity import DEFAULT_VOCAB, LOCATION, NGSI_LD, Entity
from hanse.ngsild.errors import BadRequestData, InvalidRequest, NgsiLdError, TooManyResults
from hanse.ngsild.parameters import expand_q, parse_projection, parse_query, parse_query_body, parse_view
from hanse.ngsild.query import EntityQuery, EntitySelector, Order, matches
from hanse.ngsild.representation import Projection, View

V = DEFAULT_VOCAB
VEHICLE = ((V + "Vehicle",),)


class Limits(NamedTuple):
    page_default: int = 20
    page_max: int = 1000


def query(**params: str) -> EntityQuery:
    return parse_query(params, CORE, Limits())


def view(**params: str) -> View:
    return parse_view(params, CORE)


def body(params: dict[str, str] | None = None, **members: Any) -> tuple[EntityQuery, View]:
    return parse_query_body({"type": "Query"} | members, params or {}, CORE, Limits())


def test_a_query() -> None:
    assert query() == EntityQuery()
    assert query(type="Vehicle").selectors == (EntitySelector(VEHICLE),)
    assert query(type="*") == EntityQuery()
    assert query(id="urn:x:1,urn:x:2").selectors == (EntitySelector(ids=("urn:x:1", "urn:x:2")),)
    assert query(idPattern="urn:.*").selectors == (EntitySelector(id_pattern="urn:.*"),)
    assert query(id="urn:x:1", idPattern="**").selectors == (EntitySelector(ids=("urn:x:1",)),)
    assert query(attrs="speed,location").attrs == (V + "speed", LOCATION)
    assert query(scopeQ="/a/#").scope_q == "/a/#"
    assert query(datasetId="@none,urn:d:1").dataset_ids == ("@none", "urn:d:1")
    assert query(orderBy="type,name;desc").order_by == (Order("type"), Order(V + "name", descending=True))
    assert query(limit="5", offset="10", count="true") == EntityQuery(limit=5, offset=10, count=True)
    assert query(limit="0", count="true").limit == 0
    assert query(options="count,sysAttrs").count
    geo = query(georel="within", geometry="Point", coordinates="[1,2]", geoproperty="observationSpace").geo
    assert geo is not None
    assert geo.geoproperty == NGSI_LD + "observationSpace"


def test_picking_attributes_only_asks_for_them() -> None:
    assert query(pick="speed,heading").attrs == (V + "speed", V + "heading")
    assert query(pick="id,speed").attrs == ()
    assert query(omit="speed").attrs == ()


@pytest.mark.parametrize(
    ("q", "expanded"),
    [
        ("speed>50", V + "speed>50"),
        ("speed.observedAt>2020-01-01T00:00:00Z", V + "speed.observedAt>2020-01-01T00:00:00Z"),
        ("speed.accuracy", V + "speed." + V + "accuracy"),
        ("modifiedAt>2020-01-01T00:00:00Z", "modifiedAt>2020-01-01T00:00:00Z"),
        ("address[city]", V + "address[city]"),
        ("name.unitCode", V + "name.unitCode"),
        ("", ""),
    ],
)
def test_names_in_q_are_expanded(q: str, expanded: str) -> None:
    assert expand_q(q, CORE) == expanded
    assert query(q=q).q == expanded


def test_values_in_q_are_expanded_where_asked_for() -> None:
    context = compile_context({"home": "https://e.org/home"})
    assert expand_q('use=="home";name=="home"', context, ("use",)) == f'{V}name=="home";{V}use=="https://e.org/home"'
    house = Entity(
        id="urn:x:1", types=(V + "T",), attributes={V + "use": [{"type": "VocabProperty", "vocab": "https://e.org/home"}]}
    )
    asked = parse_query({"q": 'use=="home"', "expandValues": "use"}, context, Limits())
    assert matches(asked, house)
    assert not matches(parse_query({"q": 'use=="home"'}, context, Limits()), house)


@pytest.mark.parametrize(
    ("params", "error"),
    [
        ({"id": "not-a-uri"}, BadRequestData),
        ({"id": "urn:x:1,"}, BadRequestData),
        ({"idPattern": "a**"}, InvalidInput),
        ({"type": "A;"}, BadRequestData),
        ({"type": "*", "local": "false"}, BadRequestData),
        ({"attrs": "id,type"}, BadRequestData),
        ({"attrs": "a,,b"}, BadRequestData),
        ({"attrs": "owner{name}"}, BadRequestData),
        ({"q": "a=="}, BadRequestData),
        ({"csf": "))bad(("}, InvalidInput),
        ({"scopeQ": "//"}, BadRequestData),
        ({"georel": "within"}, BadRequestData),
        ({"geoproperty": "location"}, BadRequestData),
        ({"limit": "-1"}, BadRequestData),
        ({"limit": "x"}, BadRequestData),
        ({"limit": "٣"}, BadRequestData),
        ({"limit": "0"}, BadRequestData),
        ({"limit": "1001"}, TooManyResults),
        ({"offset": "1.5"}, BadRequestData),
        ({"offset": "9" * 30}, BadRequestData),
        ({"count": "yes"}, BadRequestData),
        ({"datasetId": "x"}, BadRequestData),
        ({"orderBy": "location;dist-asc"}, BadRequestData),
        ({"collation": "!!"}, BadRequestData),
        ({"expandValues": "a,"}, BadRequestData),
        ({"options": "nonsense"}, InvalidRequest),
    ],
)
def test_queries_that_are_refused(params: dict[str, str], error: type[Exception]) -> None:
    with pytest.raises(error):
        parse_query(params, CORE, Limits())


def test_views() -> None:
    assert view() == View()
    assert view(options="keyValues").format == view(format="simplified").format == "simplified"
    assert view(options="concise,sysAttrs") == View(format="concise", sys_attrs=True)
    assert view(format="keyValues", options="normalized").format == "simplified"
    assert view(lang="fr-CH,fr;q=0.9,*;q=0.5").lang == "fr-CH,fr;q=0.9,*;q=0.5"
    assert view(attrs="speed").attrs == (V + "speed",)
    assert view(join="inline", joinLevel="3") == View(join="inline", join_level=3)
    assert view(join="@none").join is None
    assert view(containedBy="urn:x:1,urn:x:2").contained_by == ("urn:x:1", "urn:x:2")
    assert parse_view({"geometryProperty": "location"}, CORE, geojson=True).geometry_property == LOCATION
    assert view(pick="id,at{of{id}}", join="flat", joinLevel="2").pick_linked
    assert parse_view({}, CORE, geojson=True).geojson
    assert view(pick="id,name|speed", omit="type").pick == ("id", V + "name", V + "speed")


def test_projections() -> None:
    inner = Projection(("id", V + "name"))
    assert parse_projection("id,at{id,name}", "pick", CORE) == Projection(("id", V + "at"), ((V + "at", inner),))
    assert parse_projection("id,at{id,name}", "omit", CORE) == Projection(("id",), ((V + "at", inner),))
    deep = parse_projection("a{b{c},d}", "pick", CORE)
    assert deep.linked[0][1] == Projection((V + "b", V + "d"), ((V + "b", Projection((V + "c",))),))


@pytest.mark.parametrize(
    ("params", "error"),
    [
        ({"format": "nonsense"}, InvalidRequest),
        ({"options": "nonsense"}, InvalidRequest),
        ({"options": "keyValues,nonsense"}, InvalidRequest),
        ({"format": "keyValues", "options": "nonsense"}, InvalidRequest),
        ({"options": "keyValues,concise"}, InvalidRequest),
        ({"geometryProperty": "location"}, BadRequestData),
        ({"pick": "id,at{id}"}, BadRequestData),
        ({"omit": "at{id}", "join": "@none"}, BadRequestData),
        ({"pick": "id,at{of{id}}", "join": "inline"}, BadRequestData),
        ({"omit": "at{of{id}}", "join": "flat", "joinLevel": "1"}, BadRequestData),
        ({"pick": "name", "omit": "name"}, BadRequestData),
        ({"pick": "name", "attrs": "x"}, BadRequestData),
        ({"omit": "name", "attrs": "x"}, BadRequestData),
        ({"pick": "id;name"}, BadRequestData),
        ({"pick": "id,at{name"}, BadRequestData),
        ({"pick": "id,at{{name}"}, BadRequestData),
        ({"pick": "id,,name"}, BadRequestData),
        ({"pick": "id||name"}, BadRequestData),
        ({"pick": "id,at{,name}"}, BadRequestData),
        ({"pick": "id,at{}"}, BadRequestData),
        ({"pick": "at{a}b"}, BadRequestData),
        ({"pick": "a}"}, BadRequestData),
        ({"pick": "id{a}"}, BadRequestData),
        ({"pick": "a{" * 30 + "b" + "}" * 30}, BadRequestData),
        ({"join": "outer"}, BadRequestData),
        ({"joinLevel": "2"}, BadRequestData),
        ({"join": "inline", "joinLevel": "0"}, BadRequestData),
        ({"join": "inline", "joinLevel": "x"}, BadRequestData),
        ({"containedBy": "x"}, BadRequestData),
        ({"geometryProperty": "a b"}, BadRequestData),
        ({"lang": "<script>"}, BadRequestData),
    ],
)
def test_views_that_are_refused(params: dict[str, str], error: type[NgsiLdError]) -> None:
    with pytest.raises(error):
        parse_view(params, CORE)


def test_a_query_by_post() -> None:
    asked, shown = body()
    assert (asked, shown) == (EntityQuery(), View())
    asked, shown = body(
        {"limit": "5", "options": "keyValues,count"},
        entities=[{"type": "Vehicle", "id": ["urn:x:1", "urn:x:2"]}, {"type": ["A", "B"], "idPattern": "^x"}, {"type": "*"}],
        q="speed>5",
        scopeQ="/a",
        geoQ={"georel": "near;maxDistance==5", "geometry": "Point", "coordinates": [1, 2]},
        lang="en",
        pick=["id", "speed"],
        join="inline",
        joinLevel=2,
        datasetId=["urn:d:1"],
        ordering={"orderBy": ["name;desc", "location;dist-asc"], "coordinates": [1, 2], "geometry": "Point", "collation": "de"},
    )
    assert asked.selectors == (
        EntitySelector(VEHICLE, ("urn:x:1", "urn:x:2")),
        EntitySelector(((V + "A",), (V + "B",)), id_pattern="^x"),
        EntitySelector(),
    )
    assert (asked.limit, asked.count, asked.q, asked.scope_q) == (5, True, V + "speed>5", "/a")
    assert asked.geo is not None
    assert asked.geo.max_distance_m == 5
    assert [order.near is not None for order in asked.order_by] == [False, True]
    assert shown == View(
        format="simplified",
        lang="en",
        pick=("id", V + "speed"),
        join="inline",
        join_level=2,
        dataset_ids=("urn:d:1",),
    )
    assert body(attrs=["speed"])[0].attrs == body(attrs=["speed"])[1].attrs == (V + "speed",)


@pytest.mark.parametrize(
    "members",
    [
        {"type": "Entity"},
        {"unknown": 1},
        {"entities": []},
        {"entities": {}},
        {"entities": [5]},
        {"entities": [{"id": "urn:x:1"}]},
        {"entities": [{"type": "A", "id": "not a uri"}]},
        {"entities": [{"type": "A", "id": ["urn:x:1", 5]}]},
        {"entities": [{"type": "A", "idPattern": 5}]},
        {"entities": [{"type": "A", "more": 5}]},
        {"entities": [{"type": 5}]},
        {"attrs": []},
        {"attrs": [5]},
        {"q": 5},
        {"geoQ": {}},
        {"geoQ": []},
        {"geoQ": {"georel": "within", "geometry": "Point"}},
        {"geoQ": {"georel": "within", "geometry": "Point", "coordinates": [1, 2], "x": 1}},
        {"joinLevel": True, "join": "inline"},
        {"joinLevel": 0, "join": "inline"},
        {"ordering": {"orderBy": ["location;dist-asc"]}},
        {"ordering": {"orderBy": ["location;dist-asc"], "coordinates": "8,40"}},
        {"ordering": {"orderBy": ["id;asc"], "geometry": 5}},
        {"ordering": {"orderBy": ["id;asc"], "collation": "not a tag!!"}},
        {"pick": ["a"], "attrs": ["b"]},
    ],
)
def test_bodies_that_are_refused(members: dict[str, Any]) -> None:
    with pytest.raises(BadRequestData):
        body(**members)


NAMES = (
    "id", "type", "idPattern", "attrs", "q", "csf", "scopeQ", "georel", "geometry", "coordinates", "geoproperty", "limit",
    "offset", "count", "datasetId", "orderBy", "orderFrom", "collation", "options", "format", "lang", "pick", "omit", "join",
    "joinLevel", "containedBy", "geometryProperty", "expandValues", "jsonKeys", "local",
)  # fmt: skip
texts = st.sampled_from(
    ["true", "1", "urn:x:1", "a,b", "near;maxDistance==1", "Point", "[1,2]", "a{b}", "inline", "keyValues", "/a"]
)


@given(st.dictionaries(st.sampled_from(NAMES), texts | st.text(max_size=12) | st.text('ab{},;|()=<>"~*[].', max_size=12)))
def test_only_refusals_come_out_of_parameters(params: dict[str, str]) -> None:
    for parse in (lambda: parse_query(params, CORE, Limits()), lambda: parse_view(params, CORE)):
        try:
            parse()
        except (NgsiLdError, InvalidInput) as error:
            assert getattr(error, "status", 400) in (400, 403)  # noqa: PT017


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "id", "georel", "geometry", "coordinates", "orderBy"]), inner, max_size=3)
    ),
    max_leaves=8,
)
MEMBERS = (*NAMES, "entities", "geoQ", "ordering", "@context")


@given(st.dictionaries(st.sampled_from(MEMBERS), json_values, max_size=4) | json_values)
def test_only_refusals_come_out_of_bodies(members: Any) -> None:
    given_body = members | {"type": "Query"} if isinstance(members, dict) else members
    try:
        parse_query_body(given_body, {}, CORE, Limits())
    except (NgsiLdError, InvalidInput) as error:
        assert getattr(error, "status", 400) in (400, 403)  # noqa: PT017
