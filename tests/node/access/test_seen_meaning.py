"""One meaning: what a restricted caller finds is exactly what the query means, asked of what he sees of each entity."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.node.access.town import KEY

from hanse.ngsild.contexts import CORE
from hanse.ngsild.entity import Change, Entity
from hanse.ngsild.geo import GeoQuery, parse_geo_query
from hanse.ngsild.ordering import order_entities
from hanse.ngsild.parameters import expand_q
from hanse.ngsild.query import EntityQuery, EntitySelector, Order, matches
from hanse.ngsild.representation import View
from hanse.ngsild.temporal import Page, Series
from hanse.ngsild.temporal_parsing import parse_temporal
from hanse.node.access.access import Access
from hanse.node.history import History
from hanse.node.settings import NodeSettings
from hanse.node.store import SaveChange, Store
from hanse.node.tenant import Tenant
from hanse.policies import Principal

NOW = "2024-01-01T00:00:00.000000Z"
A, B, PLACE = CORE.expand_term("a"), CORE.expand_term("b"), "https://uri.etsi.org/ngsi-ld/location"
ROOM, CAR = CORE.expand_type("Room"), CORE.expand_type("Car")
NEAR: GeoQuery = parse_geo_query({"georel": "near;maxDistance==900", "geometry": "Point", "coordinates": "[2.35,48.85]"}, CORE)

POLICIES = [
    "permit (principal, action, resource);",
    "",
    'permit (principal, action, resource) unless { resource.attribute == "a" };',
    '@obfuscate("round 10") permit (principal, action, resource) when { resource.types.contains("Room") };',
    '@obfuscate("coarsen 2000") permit (principal, action, resource);',
    """permit (principal, action, resource) when { resource.types.contains("Room") };
    forbid (principal, action, resource) when { resource.types.contains("Car") && resource.attribute == "b" };""",
    'permit (principal, action, resource) when { resource.id == "urn:1" || resource.attribute == "b" };',
    'permit (principal, action, resource) when { resource.areas.contains("centre") };',
    'permit (principal, action, resource); forbid (principal, action, resource) when { resource.areas.contains("centre") };',
    """@obfuscate("remove") permit (principal, action, resource) when { resource.attribute == "a" };
    permit (principal, action, resource) when { ["b", "location", ""].contains(resource.attribute) };""",
    'permit (principal, action, resource) when { resource.scopes.contains("/x") };',
]
LESS_EXACT = [policies for policies in POLICIES if "round" in policies or "coarsen" in policies]
SAMPLED = st.one_of(st.sampled_from(POLICIES), st.sampled_from(LESS_EXACT))
ROUNDED, COARSENED, HIDING = POLICIES[3], POLICIES[4], POLICIES[2]
values = st.sampled_from([0, 7, 10, 17, 20, 23, 30])
places = st.sampled_from([[2.35, 48.85], [2.353, 48.853], [2.5, 48.9]])


@st.composite
def entities(draw: st.DrawFn) -> list[Entity]:
    found = []
    for number in range(draw(st.integers(1, 8))):
        attributes: dict[str, list[dict[str, Any]]] = {}
        for name in (A, B):
            if draw(st.booleans()):
                attributes[name] = [{"type": "Property", "value": draw(values), "createdAt": NOW, "modifiedAt": NOW}]
        if draw(st.booleans()):
            value = {"type": "Point", "coordinates": draw(places)}
            attributes[PLACE] = [{"type": "GeoProperty", "value": value, "createdAt": NOW, "modifiedAt": NOW}]
        types = draw(st.sampled_from([(ROOM,), (CAR,), (CAR, ROOM)]))
        scopes = draw(st.sampled_from([(), ("/x/y",)]))
        found.append(
            Entity(id=f"urn:{number}", types=types, scopes=scopes, attributes=attributes, created_at=NOW, modified_at=NOW)
        )
    return found


def room(said: dict[str, int], place: list[float] | None = None) -> Entity:
    times = {"createdAt": NOW, "modifiedAt": NOW}
    attributes: dict[str, list[dict[str, Any]]] = {
        name: [{"type": "Property", "value": value, **times}] for name, value in said.items()
    }
    if place is not None:
        attributes[PLACE] = [{"type": "GeoProperty", "value": {"type": "Point", "coordinates": place}, **times}]
    return Entity(id="urn:0", types=(ROOM,), attributes=attributes, created_at=NOW, modified_at=NOW)


queries = st.builds(
    EntityQuery,
    selectors=st.sampled_from(
        [
            (),
            (EntitySelector(types=((ROOM,),)),),
            (EntitySelector(types=((CAR,),)), EntitySelector(ids=("urn:1", "urn:2"))),
        ]
    ),
    q=st.sampled_from([expand_q(q, CORE) for q in ("", "a>10", "!a", "a==20|b<10", "!b;a", "a==20", "b>=20;a")]),
    attrs=st.sampled_from([(), (A,), (A, B)]),
    geo=st.sampled_from([None, NEAR]),
    order_by=st.sampled_from([(), (Order(expand_q("a", CORE)),), (Order(expand_q("b", CORE), descending=True),)]),
    limit=st.sampled_from([2, 100]),
    offset=st.sampled_from([0, 1]),
    count=st.booleans(),
)


def with_policies(folder: Path, policies: str) -> Tenant:
    (folder / "p.cedar").write_text(policies, encoding="utf-8")
    given = {
        "access": {"policies": str(folder / "p.cedar"), "key": KEY, "areas": {"centre": "CIRCLE (2.35 48.85, 0.01)"}},
        "mqtt": {"embedded": False},
    }
    wanted = msgspec.convert(given, NodeSettings)
    return Tenant("", Store.open(None), wanted, access=Access(wanted))


async def answered(folder: Path, policies: str, kept: list[Entity], asked: list[EntityQuery]) -> None:
    tenant = with_policies(folder, policies)
    access, store = tenant.access, tenant.store
    assert access is not None
    try:
        for entity in kept:
            await store.submit(SaveChange(Change("created", NOW, None, entity), "create"))
        seen = access.seen(tenant, Principal("someone"))
        views = [view for entity in kept if (view := seen.sight.entity(entity)) is not None]
        for query in asked:
            expected = [entity for entity in views if matches(query, entity)]
            if query.order_by:
                expected = order_entities(expected, query.order_by)
            found = await seen.store.query(query)
            assert found.entities == expected[query.offset : query.offset + query.limit]
            assert found.count == (len(expected) if query.count else None)
            every = msgspec.structs.replace(query, order_by=())
            assert await seen.store.ids(every) == [entity.id for entity in views if matches(query, entity)]
        for entity in kept:
            assert seen.store.entity(entity.id) == seen.sight.entity(entity)
        names = {name for view in views for name in view.attributes}
        assert {info.name for info in await seen.store.attributes()} == names
        assert {info.name: info.entities for info in await seen.store.types()} == {
            type_: sum(type_ in view.types for view in views) for view in views for type_ in view.types
        }
    finally:
        await store.close()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(policies=SAMPLED, kept=entities(), asked=st.lists(queries, min_size=1, max_size=4))
@example(policies=ROUNDED, kept=[room({A: 17})], asked=[EntityQuery(q=expand_q("a==20", CORE))])
@example(policies=COARSENED, kept=[room({}, [2.3699, 48.85])], asked=[EntityQuery(geo=NEAR)])
@example(policies=COARSENED, kept=[room({}, [2.358, 48.85])], asked=[EntityQuery(geo=NEAR)])
@example(policies=HIDING, kept=[room({A: 17, B: 3})], asked=[EntityQuery(q=expand_q(q, CORE)) for q in ("!a", "a>10", "b;!a")])
def test_what_is_found_is_what_the_query_means_of_what_is_seen(
    tmp_path: Path, policies: str, kept: list[Entity], asked: list[EntityQuery]
) -> None:
    asyncio.run(answered(tmp_path, policies, kept, asked))


def said(page: Page) -> list[Any]:
    """What a page says, without what each store makes up for itself."""
    return [
        (evolution.id, evolution.types, sorted((series.attribute, _values(series)) for series in evolution.series))
        for evolution in page.evolutions
    ]


def _values(series: Series) -> str:
    if series.aggregates is not None:
        return str({name: [value for value, _ in computed] for name, computed in series.aggregates.items()})
    return str([instance["value"] for instance in series.instances])


async def looked_back(folder: Path, policies: str, kept: list[Entity], asked: list[EntityQuery]) -> None:
    tenant = with_policies(folder, policies)
    assert tenant.access is not None
    other = Store.open(None)  # where there is only what is seen
    try:
        seen = tenant.access.seen(tenant, Principal("someone"))
        for entity in kept:
            await tenant.store.submit(SaveChange(Change("created", NOW, None, entity), "create"))
            view = seen.sight.entity(entity)
            if view is not None:
                await other.submit(SaveChange(Change("created", NOW, None, view), "create"))
        window = {"timerel": "after", "timeAt": "2020-01-01T00:00:00Z", "timeproperty": "modifiedAt"}
        plain, summed = (
            parse_temporal(window),
            parse_temporal(window | {"options": "aggregatedValues", "aggrMethods": "max,avg,totalCount"}),
        )
        for query in asked:
            by_id = msgspec.structs.replace(query, order_by=())
            for temporal in (plain, summed):
                here, count = await History(seen.store).query(by_id, temporal, View())
                there, expected = await History(other).query(by_id, temporal, View())
                assert (said(here), count) == (said(there), expected)
    finally:
        await tenant.store.close()
        await other.close()


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(policies=SAMPLED, kept=entities(), asked=st.lists(queries, min_size=1, max_size=3))
def test_the_past_of_what_is_seen_is_what_the_past_would_be_if_there_were_nothing_else(
    tmp_path: Path, policies: str, kept: list[Entity], asked: list[EntityQuery]
) -> None:
    asyncio.run(looked_back(tmp_path, policies, kept, asked))
