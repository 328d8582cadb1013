"""What each operation does to an entity, and what it says of that."""

from __future__ import annotations

from typing import Any

import pytest

from hanse.ngsild import operations
from hanse.ngsild.contexts import CORE, compile_context
from hanse.ngsild.entity import DEFAULT_VOCAB, NULL, Change, Entity
from hanse.ngsild.errors import BadRequestData, ResourceNotFound
from hanse.ngsild.operations import SCOPE, Outcome
from hanse.ngsild.parsing import Fragment, parse_attribute, parse_entity, parse_fragment

THEN, NOW = "2026-01-01T00:00:00.000000Z", "2026-01-02T00:00:00.000000Z"
A, B, C, SUB = (DEFAULT_VOCAB + short for short in ("a", "b", "c", "sub"))
D = "urn:d:1"
POINT = {"type": "Point", "coordinates": [1, 2]}


def entity(**members: Any) -> Entity:
    return parse_entity({"id": "urn:e:1", "type": "T"} | members, CORE, THEN)


def part(**members: Any) -> Fragment:
    return parse_fragment(members, CORE, NOW)


def patch(simplified: bool = False, **members: Any) -> Fragment:
    return parse_fragment(members, CORE, NOW, allow_null=True, simplified=simplified)


def after(outcome: Outcome | Change | None) -> Entity:
    change = outcome.change if isinstance(outcome, Outcome) else outcome
    assert change is not None
    assert change.after is not None
    assert change.after.modified_at == change.at == NOW
    assert change.after.created_at == THEN
    return change.after


def kinds(outcome: Outcome | Change | None) -> list[tuple[str, str, str | None]]:
    change = outcome.change if isinstance(outcome, Outcome) else outcome
    assert change is not None
    return [(item.name, item.kind, item.dataset) for item in change.attributes]


def values(of: Entity) -> dict[str, Any]:
    """The values of each attribute, by datasetId."""
    return {name: {item.get("datasetId"): item.get("value", item) for item in items} for name, items in of.attributes.items()}


TWO = [{"value": 1, "sub": 1}, {"value": 2, "datasetId": D}]


def test_create_and_delete() -> None:
    made = operations.create(entity(a=TWO), THEN)
    assert (made.kind, made.before, made.after) == ("created", None, entity(a=TWO))
    assert kinds(made) == [(A, "created", None), (A, "created", D)]
    gone = operations.delete(entity(a=TWO), NOW)
    assert (gone.kind, gone.before, gone.after) == ("deleted", entity(a=TWO), None)
    assert kinds(gone) == [(A, "deleted", None), (A, "deleted", D)]


def test_replace_keeps_only_the_times_of_creation() -> None:
    old = entity(a=TWO, b=1, scope="/S", expiresAt="2030-01-01T00:00:00Z")
    new = parse_entity({"id": "urn:e:1", "type": "U", "a": {"value": 9}, "c": 3}, CORE, NOW)
    change = operations.replace(old, new, NOW)
    result = after(change)
    assert (result.types, result.scopes, result.expires_at) == ((DEFAULT_VOCAB + "U",), (), None)
    assert values(result) == {A: {None: 9}, C: {None: 3}}
    assert result.attributes[A][0]["createdAt"] == THEN
    assert result.attributes[A][0]["modifiedAt"] == NOW
    assert SUB not in result.attributes[A][0]
    assert sorted(kinds(change)) == [(A, "deleted", D), (A, "updated", None), (B, "deleted", None), (C, "created", None)]
    assert values(old) == {A: {None: 1, D: 2}, B: {None: 1}}


def test_append() -> None:
    outcome = operations.append(entity(a=TWO), part(a={"value": 9, "sub": 2, "datasetId": D}, b=1), NOW)
    assert values(after(outcome)) == {A: {None: 1, D: 9}, B: {None: 1}}
    assert kinds(outcome) == [(A, "updated", D), (B, "created", None)]
    assert (outcome.updated, outcome.not_updated) == ((A, B), ())
    first, second = after(outcome).attributes[A]
    assert (first["modifiedAt"], second["createdAt"], second["modifiedAt"]) == (THEN, THEN, NOW)


def test_append_without_overwriting() -> None:
    outcome = operations.append(
        entity(a=TWO, scope="/S"), part(a={"value": 9, "datasetId": D}, b=1, scope="/T"), NOW, overwrite=False
    )
    assert values(after(outcome)) == {A: {None: 1, D: 2}, B: {None: 1}}
    assert outcome.updated == (B, SCOPE)
    assert [name for name, _ in outcome.not_updated] == [A]
    assert after(outcome).scopes == ("/S", "/T")
    nothing = operations.append(entity(a=1), part(a=2), NOW, overwrite=False)
    assert nothing.change is None
    assert [name for name, _ in nothing.not_updated] == [A]


def test_append_types_and_scopes_and_expiry() -> None:
    result = after(
        operations.append(entity(scope="/S"), part(type=["T", "U"], scope="/T", expiresAt="2030-01-01T00:00:00Z"), NOW)
    )
    assert result.types == (DEFAULT_VOCAB + "T", DEFAULT_VOCAB + "U")
    assert (result.scopes, result.expires_at) == (("/T",), "2030-01-01T00:00:00Z")
    assert operations.append(entity(), part(type="T"), NOW).change is None


def test_the_times_of_attributes_of_attributes() -> None:
    outcome = operations.append(entity(a={"value": 1, "sub": 1}), part(a={"value": 2, "sub": 2, "b": 3}), NOW)
    (instance,) = after(outcome).attributes[A]
    assert (instance[SUB][0]["createdAt"], instance[SUB][0]["modifiedAt"], instance[SUB][0]["value"]) == (THEN, NOW, 2)
    assert instance[B][0]["createdAt"] == NOW


def test_update_replaces_instances_and_makes_new_ones() -> None:
    old = entity(a=TWO, b=1)
    outcome = operations.update(old, patch(a={"type": "Relationship", "object": "urn:x:1"}, c={"value": 3, "datasetId": D}), NOW)
    result = after(outcome)
    assert result.attributes[A][0] == {"type": "Relationship", "object": "urn:x:1", "createdAt": THEN, "modifiedAt": NOW}
    assert (values(result)[B], values(result)[C]) == ({None: 1}, {D: 3})
    assert kinds(outcome) == [(A, "updated", None), (C, "created", D)]
    assert outcome.updated == (A, C)


def test_update_deletes_by_null() -> None:
    old = entity(a=TWO, b=1)
    assert values(after(operations.update(old, patch(a={"type": "Property", "value": NULL}), NOW))) == {A: {D: 2}, B: {None: 1}}
    assert values(after(operations.update(old, patch(a={"value": NULL, "datasetId": D}), NOW))) == {A: {None: 1}, B: {None: 1}}
    assert values(after(operations.update(old, patch(a=NULL), NOW))) == {B: {None: 1}}
    missing = operations.update(old, patch(c=NULL, b=2), NOW)
    assert ([name for name, _ in missing.not_updated], missing.updated) == ([C], (B,))


def test_update_of_types_and_scopes() -> None:
    assert after(operations.update(entity(), patch(type="U"), NOW)).types == (DEFAULT_VOCAB + "T", DEFAULT_VOCAB + "U")
    assert after(operations.update(entity(scope="/S"), patch(scope="/T"), NOW)).scopes == ("/T",)
    assert after(operations.update(entity(scope="/S"), patch(scope=NULL), NOW)).scopes == ()
    outcome = operations.update(entity(), patch(scope="/T"), NOW)
    assert (outcome.change, [name for name, _ in outcome.not_updated]) == (None, [SCOPE])


def test_update_needs_values() -> None:
    with pytest.raises(BadRequestData):
        operations.update(entity(a=1), patch(a={"unitCode": "CEL"}), NOW)
    result = after(operations.update(entity(a={"object": "urn:x:1"}), patch(a="urn:x:2"), NOW))
    assert result.attributes[A][0]["object"] == "urn:x:2"


def test_partial_update_changes_the_members_that_it_names() -> None:
    old = entity(a={"value": {"x": 1, "y": 2}, "unitCode": "CEL", "observedAt": "2026-01-01T00:00:00Z", "sub": 1, "b": 2})
    instances = parse_attribute("a", {"value": {"z": 3}, "unitCode": NULL, "sub": NULL, "b": 5, "c": 6}, CORE, NOW, partial=True)
    outcome = operations.partial_update(old, A, instances, NOW)
    (instance,) = after(outcome).attributes[A]
    assert (instance["value"], instance["type"], instance["observedAt"]) == ({"z": 3}, "Property", "2026-01-01T00:00:00Z")
    assert {"unitCode", SUB}.isdisjoint(instance)
    assert [(instance[name][0]["value"], instance[name][0]["createdAt"]) for name in (B, C)] == [(5, THEN), (6, NOW)]
    assert (instance["createdAt"], instance["modifiedAt"]) == (THEN, NOW)
    assert kinds(outcome) == [(A, "updated", None)]
    assert old.attributes[A][0]["value"] == {"x": 1, "y": 2}


def test_partial_update_of_other_kinds() -> None:
    old = entity(
        a={"languageMap": {"fr": "x", "nl": "y"}},
        b={"vocab": "m"},
        c={"json": {"id": 1, "x": None}},
        sub={"object": "urn:x:1", "sub": 1},
    )
    for name, body, expected in (
        (A, {"languageMap": {"es": "z"}}, {"es": "z"}),
        (B, {"vocab": "n"}, DEFAULT_VOCAB + "n"),
        (C, {"json": {"y": None}}, {"y": None}),
        (SUB, {"type": "Relationship", "object": "urn:x:2"}, "urn:x:2"),
    ):
        instances = parse_attribute("a", body, CORE, NOW, partial=True)
        (instance,) = after(operations.partial_update(old, name, instances, NOW)).attributes[name]
        assert expected in instance.values()


def test_partial_update_of_what_is_not_there_or_of_another_kind() -> None:
    old = entity(a=[{"value": 2, "datasetId": D}], b={"object": "urn:x:1"}, c={"type": "GeoProperty", "value": POINT})

    def update(name: str, body: Any) -> Outcome:
        return operations.partial_update(old, name, parse_attribute("x", body, CORE, NOW, partial=True), NOW)

    for name, body in ((SUB, {"value": 1}), (A, {"value": 1}), (A, {"value": 1, "datasetId": "urn:d:2"}), (A, {"value": NULL})):
        with pytest.raises(ResourceNotFound):
            update(name, body)
    wrong: list[tuple[str, Any]] = [
        (B, {"type": "Property", "value": 1}),
        (B, {"value": 1}),
        (B, {"languageMap": {"en": "x"}}),
        (C, {"value": 5}),
        (B, {"sub": {"unitCode": "CEL"}}),
    ]
    for name, body in wrong:
        with pytest.raises(BadRequestData):
            update(name, body)
    assert after(update(A, {"value": NULL, "datasetId": D})).attributes.keys() == {B, C}
    assert after(update(B, {"object": NULL})).attributes.keys() == {A, C}


def test_merge_goes_down_to_the_members_of_values() -> None:
    old = entity(a={"value": {"x": {"y": 1, "z": 2}, "w": 3}, "unitCode": "C62", "sub": {"value": 1, "unitCode": "X"}}, b=1)
    outcome = operations.merge(old, patch(a={"value": {"x": {"y": NULL, "v": 4}}, "sub": {"value": 2}}, c=5), NOW)
    (instance,) = after(outcome).attributes[A]
    assert instance["value"] == {"x": {"z": 2, "v": 4}, "w": 3}
    assert instance["unitCode"] == "C62"
    assert (instance[SUB][0]["value"], instance[SUB][0]["unitCode"], instance[SUB][0]["createdAt"]) == (2, "X", THEN)
    assert values(after(outcome))[C] == {None: 5}
    assert kinds(outcome) == [(A, "updated", None), (C, "created", None)]
    assert old.attributes[A][0]["value"] == {"x": {"y": 1, "z": 2}, "w": 3}
    only = after(operations.merge(old, patch(a={"unitCode": NULL}), NOW)).attributes[A][0]
    assert "unitCode" not in only
    assert only["value"] == old.attributes[A][0]["value"]


def test_merge_of_nothing_is_nothing() -> None:
    assert operations.merge(entity(a=1), patch(id="urn:e:1", type="T"), NOW).change is None
    assert operations.merge(entity(a=1), patch(b=NULL), NOW).change is None


def test_merge_deletes_by_null() -> None:
    old = entity(a=TWO, b={"languageMap": {"en": "x", "nl": "y"}}, scope="/S", expiresAt="2030-01-01T00:00:00Z")
    assert values(after(operations.merge(old, patch(a=NULL), NOW))).keys() == {B}
    assert values(after(operations.merge(old, patch(a={"type": "Property", "value": NULL}), NOW)))[A] == {D: 2}
    one = after(operations.merge(old, patch(b={"languageMap": {"en": NULL, "es": "z"}}), NOW))
    assert one.attributes[B][0]["languageMap"] == {"nl": "y", "es": "z"}
    assert after(operations.merge(old, patch(b={"languageMap": {"en": NULL, "nl": NULL}}), NOW)).attributes.keys() == {A}
    bare = after(operations.merge(old, patch(scope=NULL, expiresAt=NULL), NOW))
    assert (bare.scopes, bare.expires_at) == ((), None)


def test_merge_of_plain_values_keeps_the_kind() -> None:
    context = compile_context({"fast": "https://a.example/fast"})
    old = entity(
        a={"object": "urn:x:1"},
        b={"languageMap": {"en": "x"}},
        c={"vocab": "m"},
        sub={"valueList": [1]},
        location=POINT,
        d={"objectList": ["urn:x:1"]},
        e={"json": [1]},
    )
    body = {
        "a": "urn:x:2",
        "b": "y",
        "c": "fast",
        "sub": [2],
        "location": POINT | {"coordinates": [3, 4]},
        "d": ["urn:x:2"],
        "e": {"f": 1},
    }
    fragment = parse_fragment(body, context, NOW, allow_null=True, simplified=True)
    result = after(operations.merge(old, fragment, NOW, lang="nl")).attributes
    assert result[A][0]["object"] == "urn:x:2"
    assert result[B][0]["languageMap"] == {"en": "x", "nl": "y"}
    assert result[C][0]["vocab"] == "https://a.example/fast"
    assert result[SUB][0]["valueList"] == [2]
    assert result[DEFAULT_VOCAB + "d"][0]["objectList"] == [{"object": "urn:x:2"}]
    assert result[DEFAULT_VOCAB + "e"][0]["json"] == {"f": 1}
    assert [item[0]["type"] for item in result.values()] == [item[0]["type"] for item in old.attributes.values()]
    for wrong in ({"a": 5}, {"b": 5}, {"sub": 5}, {"location": 5}, {"d": "x"}):
        with pytest.raises(BadRequestData):
            operations.merge(old, patch(simplified=True, **wrong), NOW)


def test_merge_may_change_the_kind_if_it_says_so() -> None:
    result = after(
        operations.merge(entity(a={"value": 1, "sub": 1}), patch(a={"type": "Relationship", "object": "urn:x:1"}), NOW)
    )
    (instance,) = result.attributes[A]
    assert (instance["type"], instance["object"], "value" in instance, SUB in instance) == (
        "Relationship",
        "urn:x:1",
        False,
        True,
    )
    with pytest.raises(BadRequestData):
        operations.merge(entity(a=1), patch(a={"type": "Relationship"}), NOW)


def test_merge_with_a_time_of_observation() -> None:
    old = entity(a={"value": 1, "observedAt": "2026-01-01T00:00:00Z"}, b=1)
    result = after(operations.merge(old, patch(a=2, b=2), NOW, observed_at="2026-01-02T00:00:00Z"))
    assert result.attributes[A][0]["observedAt"] == "2026-01-02T00:00:00Z"
    assert "observedAt" not in result.attributes[B][0]
    with pytest.raises(BadRequestData):
        operations.merge(old, patch(a=2), NOW, observed_at="today")


def test_replace_an_attribute() -> None:
    old = entity(a=TWO, b=1)
    outcome = operations.replace_attribute(old, A, parse_attribute("a", {"object": "urn:x:1", "datasetId": D}, CORE, NOW), NOW)
    first, second = after(outcome).attributes[A]
    assert (first["value"], second["object"], second["createdAt"], second["modifiedAt"]) == (1, "urn:x:1", THEN, NOW)
    for name, body in ((C, {"value": 1}), (B, {"value": 1, "datasetId": D})):
        with pytest.raises(ResourceNotFound):
            operations.replace_attribute(old, name, parse_attribute("x", body, CORE, NOW), NOW)


def test_delete_an_attribute() -> None:
    old = entity(a=TWO, b=1, scope="/S")
    assert values(after(operations.delete_attribute(old, A, None, False, NOW)))[A] == {D: 2}
    assert values(after(operations.delete_attribute(old, A, D, False, NOW)))[A] == {None: 1}
    everything = operations.delete_attribute(old, A, None, True, NOW)
    assert after(everything).attributes.keys() == {B}
    assert kinds(everything) == [(A, "deleted", None), (A, "deleted", D)]
    assert after(operations.delete_attribute(old, SCOPE, None, False, NOW)).scopes == ()
    for name, dataset in ((C, None), (A, "urn:d:2"), (B, D)):
        with pytest.raises(ResourceNotFound):
            operations.delete_attribute(old, name, dataset, False, NOW)
    with pytest.raises(ResourceNotFound):
        operations.delete_attribute(entity(), SCOPE, None, False, NOW)
    with pytest.raises(BadRequestData):
        operations.delete_attribute(old, "@type", None, False, NOW)


def test_purge() -> None:
    old = entity(a=TWO, b=1, scope="/S")
    assert operations.purge(None, NOW) is None
    assert operations.purge(old, NOW) == operations.delete(old, NOW)
    assert after(operations.purge(old, NOW, drop={A})).attributes.keys() == {B}
    kept = after(operations.purge(old, NOW, keep={A}))
    assert kept.attributes.keys() == {A}
    assert kept.scopes == ()
    assert operations.purge(old, NOW, drop={C}) is None


def test_what_is_transient_goes_when_its_time_comes() -> None:
    past, later = "2026-01-01T12:00:00Z", "2026-01-03T00:00:00Z"
    change = operations.expire(entity(expiresAt=past), NOW)
    assert change is not None
    assert change.kind == "deleted"
    old = entity(
        a=[{"value": 1, "expiresAt": past}, {"value": 2, "datasetId": D, "expiresAt": later}],
        b={"value": 1, "expiresAt": past},
        expiresAt=later,
    )
    assert values(after(operations.expire(old, NOW))) == {A: {D: 2}}
    assert operations.expire(entity(a=1), NOW) is None
    assert operations.expire(None, NOW) is None
