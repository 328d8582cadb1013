"""Whatever is sent is refused with an NGSI-LD error or becomes an entity in the internal shape, before and after operations."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.ngsild import operations
from hanse.ngsild.contexts import CORE
from hanse.ngsild.entity import (
    DEFAULT_VOCAB,
    NULL,
    RESERVED_MEMBERS,
    VALUE_MEMBER,
    Change,
    Entity,
    Instance,
    decode_entity,
    encode_entity,
)
from hanse.ngsild.errors import NgsiLdError
from hanse.ngsild.parsing import parse_attribute, parse_entity, parse_fragment

THEN, NOW = "2026-01-01T00:00:00.000000Z", "2026-01-02T00:00:00.000000Z"
A = DEFAULT_VOCAB + "a"
NAMES = st.sampled_from(["a", "b", "urn:n:1", "location"])
POINT = st.just({"type": "Point", "coordinates": [1, 2]})
SCALARS = st.one_of(st.integers(-5, 5), st.booleans(), st.sampled_from(["x", "urn:x:1", NULL, ""]))
PLAIN = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("xyz"), inner, max_size=2)),
    max_leaves=4,
)
URIS = st.sampled_from(["urn:x:1", "urn:x:2", NULL])


def members(kind: str) -> st.SearchStrategy[Any]:
    """A value of a kind of attribute, as likely right as not."""
    right: dict[str, st.SearchStrategy[Any]] = {
        "Property": PLAIN,
        "GeoProperty": st.one_of(POINT, st.just(NULL)),
        "Relationship": st.one_of(URIS, st.lists(URIS, min_size=1, max_size=2)),
        "LanguageProperty": st.dictionaries(
            st.sampled_from(["en", "nl", "@none"]), st.sampled_from(["x", "y", NULL]), min_size=1, max_size=2
        ),
        "JsonProperty": st.one_of(PLAIN, st.just({"x": None})),
        "VocabProperty": st.one_of(st.sampled_from(["x", "y", NULL]), st.lists(st.sampled_from("xy"), min_size=1, max_size=2)),
        "ListProperty": st.lists(PLAIN, max_size=2),
        "ListRelationship": st.lists(URIS, max_size=2),
    }
    return st.fixed_dictionaries({VALUE_MEMBER[kind]: right[kind]}, optional={"type": st.just(kind)})


METADATA = st.fixed_dictionaries(
    {},
    optional={
        "unitCode": st.sampled_from(["CEL", NULL]),
        "observedAt": st.sampled_from(["2026-01-01T00:00:00Z", NULL]),
        "datasetId": st.sampled_from(["urn:d:1", "@none"]),
    },
)
WHOLE = st.sampled_from(sorted(VALUE_MEMBER)).flatmap(members)
INSTANCE = st.recursive(
    st.builds(lambda value, more: value | more, st.one_of(WHOLE, st.just({})), METADATA),
    lambda inner: st.builds(lambda value, more: more | value, inner, st.dictionaries(NAMES, inner, max_size=2)),
    max_leaves=3,
)
ATTRIBUTE = st.one_of(INSTANCE, st.lists(INSTANCE, max_size=3), PLAIN)
BODIES = st.builds(
    lambda attributes, more: attributes | more,
    st.dictionaries(NAMES, ATTRIBUTE, max_size=3),
    st.fixed_dictionaries(
        {"id": st.just("urn:e:1"), "type": st.sampled_from(["T", ["T", "U"]])},
        optional={
            "scope": st.sampled_from(["/A", ["/A", "B"], NULL]),
            "expiresAt": st.sampled_from(["2030-01-01T00:00:00Z", NULL]),
        },
    ),
)
KEYS = st.sampled_from(
    [*sorted(RESERVED_MEMBERS), "a", "@id", "@type", "id", "scope", "coordinates", "dataset", "@value", "", " "]
)
ANYTHING = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=3),
        st.sampled_from([*VALUE_MEMBER, "Point", NULL, "urn:a:b", 10**400]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.one_of(KEYS, st.text(max_size=3)), inner, max_size=4)
    ),
    max_leaves=10,
)


def entity_of(body: Any) -> Entity | None:
    try:
        return parse_entity(body, CORE, THEN)
    except NgsiLdError:
        return None


def check_instance(instance: Instance) -> None:
    kind = instance["type"]
    assert VALUE_MEMBER[kind] in instance
    assert instance[VALUE_MEMBER[kind]] != NULL
    assert instance["createdAt"] in {THEN, NOW}
    assert instance["modifiedAt"] in {THEN, NOW}
    assert {member for member in VALUE_MEMBER.values() if member in instance} == {VALUE_MEMBER[kind]}
    assert not any(instance.get(member) == NULL for member in ("unitCode", "observedAt", "datasetId", "expiresAt"))
    for name, items in instance.items():
        if name not in RESERVED_MEMBERS:
            check_instances(name, items)


def check_instances(name: str, items: list[Instance]) -> None:
    assert ":" in name
    assert items
    assert len({item.get("datasetId") for item in items}) == len(items)
    for item in items:
        check_instance(item)


def check_entity(entity: Entity) -> None:
    assert entity.types
    for name, items in entity.attributes.items():
        check_instances(name, items)
    assert decode_entity(encode_entity(entity)) == entity


def check_change(change: Change) -> None:
    """The parts of a change are the difference between before and after, no more and no less."""
    assert change.before is not None
    assert change.after is not None
    check_entity(change.after)
    left = {(name, item.get("datasetId")): item for name, items in change.before.attributes.items() for item in items}
    for part in change.attributes:
        key = (part.name, part.dataset)
        assert left.get(key) == part.before
        if part.after is None:
            del left[key]
        else:
            left[key] = part.after
    assert left == {(name, item.get("datasetId")): item for name, items in change.after.attributes.items() for item in items}


@settings(max_examples=300)
@given(ANYTHING)
def test_any_json_is_an_entity_or_refused(body: Any) -> None:
    given_text = repr(body)
    for document in (body, {"id": "urn:e:1", "type": "T", "a": body}):
        for parse in (
            lambda document: parse_entity(document, CORE, NOW),
            lambda document: parse_entity(document, CORE, NOW, simplified=True),
            lambda document: parse_entity(document, CORE, NOW, temporal=True),
            lambda document: parse_fragment(document, CORE, NOW, allow_null=True),
            lambda document: parse_fragment(document, CORE, NOW, allow_null=True, simplified=True),
            lambda document: parse_attribute("a", document, CORE, NOW, partial=True),
            lambda document: parse_attribute("a", document, CORE, NOW),
        ):
            try:
                parse(document)
            except NgsiLdError as error:
                assert "\n" not in error.detail  # noqa: PT017
    entity = entity_of({"id": "urn:e:1", "type": "T", "a": body})
    if entity is not None:
        check_entity(entity)
    assert repr(body) == given_text


OPERATIONS: dict[str, Callable[[Entity, Any], Any]] = {
    "append": lambda entity, body: operations.append(entity, parse_fragment(body, CORE, NOW), NOW),
    "append, no overwrite": lambda entity, body: operations.append(entity, parse_fragment(body, CORE, NOW), NOW, overwrite=False),
    "update": lambda entity, body: operations.update(entity, parse_fragment(body, CORE, NOW, allow_null=True), NOW),
    "merge": lambda entity, body: operations.merge(entity, parse_fragment(body, CORE, NOW, allow_null=True), NOW, lang="en"),
    "merge, simplified": lambda entity, body: operations.merge(
        entity, parse_fragment(body, CORE, NOW, allow_null=True, simplified=True), NOW, observed_at="2026-01-01T00:00:00Z"
    ),
    "replace": lambda entity, body: operations.replace(entity, parse_entity(body, CORE, NOW), NOW),
    "partial update": lambda entity, body: operations.partial_update(
        entity, A, parse_attribute("a", body.get("a"), CORE, NOW, partial=True), NOW
    ),
    "replace attribute": lambda entity, body: operations.replace_attribute(
        entity, A, parse_attribute("a", body.get("a"), CORE, NOW), NOW
    ),
    "delete attribute": lambda entity, body: operations.delete_attribute(
        entity, A, "urn:d:1" if len(body) % 2 else None, len(body) == 3, NOW
    ),
    "purge": lambda entity, body: operations.purge(entity, NOW, drop={A}),
}


@settings(max_examples=500)
@given(BODIES, BODIES, st.sampled_from(sorted(OPERATIONS)))
def test_an_operation_makes_a_right_entity_of_a_right_one(body: Any, other: Any, operation: str) -> None:
    entity = entity_of(body)
    if entity is None:
        return
    check_entity(entity)
    before = copy.deepcopy(entity)
    try:
        outcome = OPERATIONS[operation](entity, other)
    except NgsiLdError:
        assert entity == before
        return
    change = outcome.change if isinstance(outcome, operations.Outcome) else outcome
    assert entity == before
    if change is not None:
        check_change(change)
        msgspec.json.encode(change)
    if isinstance(outcome, operations.Outcome):
        refused = {name for name, _ in outcome.not_updated}
        assert refused.isdisjoint(outcome.updated)
        changed = {part.name for part in change.attributes} if change else set()
        assert changed - refused == set(outcome.updated) - refused - {operations.SCOPE}
