"""A change in plain values says what the change says: held to the entity as a whole, encoded and indexed from nothing."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from hanse.ngsild import operations
from hanse.ngsild.entity import NULL, Change, Entity, Instance, encode_entity
from hanse.node.store.indexing import difference, rows
from hanse.node.store.plain_change import TOLD, plain_change
from hanse.node.store.staging import NEVER
from hanse.node.store.times import to_us

NOW, LATER = "2026-01-01T00:00:00.000000Z", "2026-01-02T00:00:00.000001Z"

points = st.builds(
    lambda lon, lat: {"type": "Point", "coordinates": [lon, lat]}, st.integers(-3, 3) | st.just(1.5), st.integers(-3, 3)
)
lines = st.builds(lambda end: {"type": "LineString", "coordinates": [[0, 0], [1, end]]}, st.integers(1, 3))
values = st.sampled_from(
    [1, 1.0, True, "1", "\n", '\u2028é"', "2026-01-01T00:00:00Z", "12:00:00", [1, "x"], {"a": [1]}, "x" * 300]
)
instances = st.one_of(
    st.builds(lambda value: {"type": "Property", "value": value}, values),
    st.builds(lambda place: {"type": "GeoProperty", "value": place}, points | lines),
    st.builds(lambda number: {"type": "Relationship", "object": f"urn:r:{number}"}, st.integers(0, 2)),
)
more = st.fixed_dictionaries(
    {}, optional={"observedAt": st.just("2025-01-01T00:00:00Z"), "createdAt": st.just(NOW), "instanceId": st.just("urn:i")}
)


@st.composite
def attributes(draw: st.DrawFn) -> dict[str, list[Instance]]:
    found: dict[str, list[Instance]] = {}
    for name in draw(st.sets(st.sampled_from(["a", "b", "c", "é"]))):
        some = draw(st.lists(st.builds(lambda one, two: one | two, instances, more), min_size=1, max_size=2))
        found[name] = [one if n == 0 else one | {"datasetId": f"urn:d:{n}"} for n, one in enumerate(some)]
    return found


@st.composite
def entities(draw: st.DrawFn) -> Entity:
    return Entity(
        id="urn:x:1",
        types=draw(st.sampled_from([("T",), ("T", "U")])),
        scopes=draw(st.sampled_from([(), ("/A",), ("/A", "/B")])),
        attributes=draw(attributes()),
        created_at=NOW,
        modified_at=NOW,
        expires_at=draw(st.sampled_from([None, LATER])),
    )


def indexed(entity: Entity | None) -> tuple[set[Any], set[Any]]:
    """Facts and places, each with its kind of value: True is not 1."""
    found = difference(None, entity)
    assert not found.dropped
    assert not found.places_dropped
    return {(*fact, type(fact[2])) for fact in rows(found.added, 4)}, set(rows(found.places_added, 3))


@given(st.none() | entities(), st.none() | entities(), st.booleans())
def test_a_plain_change_says_what_the_change_says(before: Entity | None, after: Entity | None, part: bool) -> None:
    if before is None and after is None:
        return
    if before is None:
        assert after is not None
        change = operations.create(after, LATER)
    elif after is None:
        change = operations.delete(before, LATER)
    else:
        if part:  # what is left alone is the very same
            kept = {name: before.attributes[name] for name in list(before.attributes)[:2]}
            after = msgspec.structs.replace(after, attributes=after.attributes | kept)
            change = Change("updated", LATER, before, after, ())
        else:
            change = operations.replace(before, after, LATER)
            after = change.after
    plain = plain_change(change, "test")
    assert (plain.id, plain.kind, plain.at, plain.types) == ("urn:x:1", change.kind, LATER, change.entity.types)
    assert plain.was == (None if before is None else before.modified_at)
    assert (plain.attributes is None) == (after is None)
    if after is not None:
        assert plain.document() == encode_entity(after)

    facts, places = indexed(before)
    dropped, added, places_dropped, places_added = plain.indexed
    for name, kind, value in rows(dropped, 3):
        gone = {fact for fact in facts if (*fact[:3], fact[4]) == (name, kind, value, type(value))}
        assert gone
        facts -= gone
    gone_places = set(rows(places_dropped, 2))
    assert gone_places <= {place[:2] for place in places}
    places = {place for place in places if place[:2] not in gone_places} | set(rows(places_added, 3))
    assert (facts | {(*fact, type(fact[2])) for fact in rows(added, 4)}, places) == indexed(after)

    for (name, dataset, instance_id, observed_us, created_us, deleted_us, data), said in zip(
        rows(plain.told, TOLD), change.attributes, strict=True
    ):
        told = msgspec.json.decode(data)
        assert name == said.name
        assert dataset == (said.dataset or "")
        if said.after is None:
            assert told.get("value", told.get("object")) == NULL
            assert (instance_id, observed_us, created_us, deleted_us) == ("", NEVER, to_us(LATER), to_us(LATER))
        else:
            assert told == said.after
            assert instance_id == said.after.get("instanceId", "")
            assert observed_us == (to_us(said.after["observedAt"]) if "observedAt" in said.after else NEVER)
            assert created_us == to_us(said.after.get("createdAt") or LATER)
            assert deleted_us == NEVER


def test_all_instances_of_an_entity_that_begins_or_ends_are_told_even_if_the_change_does_not_say_them() -> None:
    entity = Entity(id="urn:x:1", types=("T",), attributes={"a": [{"type": "Property", "value": [1]}], "b": []})
    begun = plain_change(Change("created", NOW, None, entity), "test")
    assert [told[0] for told in rows(begun.told, TOLD)] == ["a"]
    ended = plain_change(Change("deleted", NOW, entity, None), "test")
    assert [told[0] for told in rows(ended.told, TOLD)] == ["a"]
