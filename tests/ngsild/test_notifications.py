"""What a subscriber gets to see of a change."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hanse.ngsild import operations
from hanse.ngsild.contexts import CORE, CORE_URL, Context, compile_context
from hanse.ngsild.entity import Change, Entity
from hanse.ngsild.notifications import LastShown, Letter, Writer
from hanse.ngsild.parsing import parse_entity, parse_fragment
from hanse.ngsild.subscriptions import parse_subscription

NOW = "2026-01-01T00:00:00.000000Z"
LATER = "2026-01-01T00:00:01.000000Z"
NULL = "urn:ngsi-ld:null"
URL = "https://example.org/context.jsonld"
OWN = compile_context(URL, {URL: {"@context": {"Building": "https://example.org/Building", "name": "https://example.org/name"}}})
POINT = {"type": "Point", "coordinates": [10.0, 53.5]}


def writer(
    context: Context = CORE, endpoint: dict[str, Any] | None = None, tenant: str = "", other: Entity | None = None, **members: Any
) -> Writer:
    notification = members.pop("notification", {}) | {"endpoint": {"uri": "http://127.0.0.1:21200/n"} | (endpoint or {})}
    body = {"id": "urn:s:1", "type": "Subscription", "entities": [{"type": "Building"}], "notification": notification} | members
    return Writer(
        parse_subscription(body, context, NOW), context, lambda id_: other if other and other.id == id_ else None, tenant
    )


def entity(context: Context = CORE, **members: Any) -> Entity:
    return parse_entity({"id": "urn:b:1", "type": "Building", "name": "Rathaus", "level": 4} | members, context, NOW)


def appended(old: Entity, **attributes: Any) -> Change:
    outcome = operations.append(old, parse_fragment(attributes, CORE, LATER), LATER)
    assert outcome.change is not None
    return outcome.change


def without(old: Entity, name: str, dataset: str | None = None, *, everything: bool = False) -> Change:
    outcome = operations.delete_attribute(old, CORE.expand_term(name), dataset, everything, LATER)
    assert outcome.change is not None
    return outcome.change


def notification(by: Writer, *changes: Change) -> Any:
    body = by.body(changes, LATER)
    assert body is not None
    return msgspec.json.decode(body)


def data(by: Writer, *changes: Change) -> Any:
    return notification(by, *changes)["data"]


def prop(value: Any, **more: Any) -> dict[str, Any]:
    return {"type": "Property", "value": value} | more


def test_a_notification_names_its_subscription_and_the_entity_after_the_change() -> None:
    got = notification(writer(), appended(entity(), level=5))
    assert got.pop("id").startswith("urn:ngsi-ld:Notification:")
    assert got == {
        "type": "Notification",
        "subscriptionId": "urn:s:1",
        "notifiedAt": LATER,
        "data": [{"id": "urn:b:1", "type": "Building", "name": prop("Rathaus"), "level": prop(5)}],
    }


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"format": "keyValues"}, {"id": "urn:b:1", "type": "Building", "name": "Rathaus", "level": 5}),
        ({"format": "simplified"}, {"id": "urn:b:1", "type": "Building", "name": "Rathaus", "level": 5}),
        ({"format": "concise"}, {"id": "urn:b:1", "type": "Building", "name": "Rathaus", "level": 5}),
        ({"attributes": ["level"]}, {"id": "urn:b:1", "type": "Building", "level": prop(5)}),
        ({"pick": ["id", "name"]}, {"id": "urn:b:1", "name": prop("Rathaus")}),
        ({"omit": ["type", "name"]}, {"id": "urn:b:1", "level": prop(5)}),
        ({"onlyChangedAttributes": True}, {"id": "urn:b:1", "type": "Building", "level": prop(5)}),
        (
            {"showChanges": True, "attributes": ["level"]},
            {"id": "urn:b:1", "type": "Building", "level": prop(5, previousValue=4)},
        ),
        (
            {"showChanges": True, "attributes": ["level"], "format": "concise"},
            {"id": "urn:b:1", "type": "Building", "level": {"value": 5, "previousValue": 4}},
        ),
        (
            {"sysAttrs": True, "attributes": ["level"]},
            {
                "id": "urn:b:1",
                "type": "Building",
                "createdAt": NOW,
                "modifiedAt": LATER,
                "level": prop(5, createdAt=NOW, modifiedAt=LATER),
            },
        ),
    ],
)
def test_it_has_the_form_that_was_asked_for(asked: dict[str, Any], expected: dict[str, Any]) -> None:
    assert data(writer(notification=asked), appended(entity(), level=5)) == [expected]


def test_what_a_view_leaves_nothing_of_is_not_told() -> None:
    assert writer(notification={"pick": ["tax"]}).body([appended(entity(), level=5)], LATER) is None


def test_every_kind_of_attribute_says_its_old_value() -> None:
    old = entity(
        location={"type": "GeoProperty", "value": POINT},
        street={"type": "LanguageProperty", "languageMap": {"de": "Markt"}},
        in_={"type": "Relationship", "object": "urn:c:1"},
        about={"type": "JsonProperty", "json": {"a": None}},
        use={"type": "VocabProperty", "vocab": "monument"},
    )
    change = appended(
        old,
        location={"type": "GeoProperty", "value": {"type": "Point", "coordinates": [1, 2]}},
        street={"type": "LanguageProperty", "languageMap": {"fr": "Place"}},
        in_={"type": "Relationship", "object": "urn:c:2"},
        about={"type": "JsonProperty", "json": [5]},
        use={"type": "VocabProperty", "vocab": "museum"},
    )
    (shown,) = data(writer(notification={"showChanges": True}), change)
    assert shown["location"]["previousValue"] == POINT
    assert shown["street"]["previousLanguageMap"] == {"de": "Markt"}
    assert shown["in_"]["previousObject"] == "urn:c:1"
    assert shown["about"]["previousJson"] == {"a": None}
    assert shown["use"] == {"type": "VocabProperty", "vocab": "museum", "previousVocab": "monument"}
    assert "previousValue" not in shown["name"]


def test_what_is_new_has_no_old_value() -> None:
    by = writer(notification={"showChanges": True})
    assert data(by, appended(entity(), tax=5))[0]["tax"] == prop(5)
    assert b"previous" not in (by.body([operations.create(entity(), NOW)], NOW) or b"")


# --- deletions --------------------------------------------------------------------------------------------------------

DELETIONS: dict[str, Any] = {"notificationTrigger": ["attributeDeleted"]}


def test_a_deleted_attribute_is_null_to_those_who_asked_for_deletions() -> None:
    change = without(entity(), "name")
    assert data(writer(**DELETIONS), change) == [{"id": "urn:b:1", "type": "Building", "level": prop(4), "name": prop(NULL)}]
    assert "name" not in data(writer(), change)[0]


def test_a_deleted_attribute_says_when_and_what_it_was() -> None:
    by = writer(**DELETIONS, notification={"sysAttrs": True, "showChanges": True})
    (shown,) = data(by, without(entity(), "name"))
    assert shown["name"] == prop(NULL, previousValue="Rathaus", createdAt=NOW, modifiedAt=NOW, deletedAt=LATER)


@pytest.mark.parametrize(
    ("kind", "member", "value", "null"),
    [
        ("Relationship", "object", "urn:c:1", NULL),
        ("GeoProperty", "value", POINT, NULL),
        ("LanguageProperty", "languageMap", {"de": "Markt"}, {"@none": NULL}),
        ("JsonProperty", "json", {"a": 1}, NULL),
        ("VocabProperty", "vocab", "monument", NULL),
    ],
)
def test_every_kind_of_attribute_can_be_null(kind: str, member: str, value: Any, null: Any) -> None:
    old = entity(it={"type": kind, member: value})
    by = writer(**DELETIONS, notification={"showChanges": True, "pick": ["it"]})
    previous = "previous" + member[0].upper() + member[1:]
    expected = {"type": kind, member: null, previous: value}
    assert data(by, without(old, "it")) == [{"it": expected}]
    gone = data(writer(notificationTrigger=["entityDeleted"], notification={"showChanges": True}), operations.delete(old, LATER))
    assert gone[0]["it"] == expected


INSTANCES = [prop("Rathaus"), prop("Town hall", datasetId="urn:d:en"), prop("Mairie", datasetId="urn:d:fr")]


def test_one_deleted_instance_is_null_among_the_others() -> None:
    change = without(entity(name=INSTANCES), "name", "urn:d:fr")
    (shown,) = data(writer(**DELETIONS), change)
    assert shown["name"] == [*INSTANCES[:2], prop(NULL, datasetId="urn:d:fr")]
    (simple,) = data(writer(**DELETIONS, notification={"format": "keyValues"}), change)
    assert simple["name"] == {"dataset": {"@none": "Rathaus", "urn:d:en": "Town hall", "urn:d:fr": NULL}}


def test_all_deleted_instances_are_one_null() -> None:
    (shown,) = data(writer(**DELETIONS), without(entity(name=INSTANCES), "name", everything=True))
    assert shown["name"] == prop(NULL)


def test_a_deleted_entity_says_when() -> None:
    gone = operations.delete(entity(), LATER)
    told = {"id": "urn:b:1", "type": "Building", "deletedAt": LATER}
    assert data(writer(notificationTrigger=["entityDeleted"]), gone) == [told]
    with_times = data(writer(notificationTrigger=["entityDeleted"], notification={"sysAttrs": True}), gone)
    assert with_times == [told | {"createdAt": NOW, "modifiedAt": with_times[0]["modifiedAt"]}]
    assert data(writer(**DELETIONS, watchedAttributes=["name"]), gone) == [told | {"name": prop(NULL)}]


# --- instances, languages, linked entities, GeoJSON -------------------------------------------------------------------


def test_only_instances_of_the_data_set_are_shown() -> None:
    change = appended(entity(name=INSTANCES), level=5)
    assert data(writer(datasetId=["urn:d:fr"]), change) == [{"id": "urn:b:1", "type": "Building", "name": INSTANCES[2]}]


def test_one_language_is_shown() -> None:
    change = operations.create(entity(street={"type": "LanguageProperty", "languageMap": {"de": "Markt", "fr": "Place"}}), NOW)
    assert data(writer(lang="fr", notification={"pick": ["street"]}), change) == [{"street": prop("Place", lang="fr")}]


def test_linked_entities_come_along() -> None:
    city = parse_entity({"id": "urn:c:1", "type": "City", "name": "Hamburg"}, CORE, NOW)
    change = appended(entity(in_={"type": "Relationship", "object": "urn:c:1"}), level=5)
    told = {"id": "urn:c:1", "type": "City", "name": prop("Hamburg")}
    (inline,) = data(writer(other=city, notification={"join": "inline", "attributes": ["in_"]}), change)
    assert inline["in_"]["entity"] == told
    flat = data(writer(other=city, notification={"join": "flat", "attributes": ["in_"]}), change)
    assert [item["id"] for item in flat] == ["urn:b:1", "urn:c:1"]
    assert flat[1] == told


def test_geojson_is_a_collection_of_features() -> None:
    by = writer(endpoint={"accept": "application/geo+json"}, notification={"format": "keyValues"})
    got = notification(by, operations.create(entity(location={"type": "GeoProperty", "value": POINT}), NOW))
    (feature,) = got["data"]["features"]
    assert (feature["id"], feature["geometry"], feature["properties"]["name"]) == ("urn:b:1", POINT, "Rathaus")
    assert got["data"]["@context"] == CORE.document()
    (gone,) = data(by, operations.delete(entity(), LATER))["features"]
    assert gone["properties"]["deletedAt"] == LATER


def test_entities_of_a_subscription_in_time_need_no_change() -> None:
    body = writer(timeInterval=5).body_of_entities([entity()], NOW)
    assert body is not None
    assert msgspec.json.decode(body)["data"][0]["level"] == prop(4)
    assert writer(timeInterval=5).body_of_entities([], NOW) is None


# --- letters ----------------------------------------------------------------------------------------------------------


def letter(by: Writer) -> Letter:
    body = by.body([operations.create(entity(OWN), NOW)], NOW)
    assert body is not None
    return by.letter(body, "urn:s:1 urn:b:1")


def test_json_names_the_context_in_a_header() -> None:
    got = letter(writer(OWN, endpoint={"receiverInfo": [{"key": "X-Key", "value": "v"}, {"key": "Host", "value": "evil"}]}))
    assert got.headers == (
        ("Content-Type", "application/json"),
        ("Link", f'<{URL}>; rel="http://www.w3.org/ns/json-ld#context"; type="application/ld+json"'),
        ("X-Key", "v"),
    )
    assert b"@context" not in got.body
    assert msgspec.json.decode(got.body)["data"][0]["type"] == "Building"


def test_json_ld_has_the_context_in_the_body() -> None:
    got = letter(writer(OWN, endpoint={"accept": "application/ld+json"}))
    assert got.headers == (("Content-Type", "application/ld+json"),)
    body = msgspec.json.decode(got.body)
    assert body["@context"] == body["data"][0]["@context"] == OWN.document()


def test_geojson_has_the_context_where_it_is_preferred() -> None:
    prefers = {"accept": "application/geo+json", "receiverInfo": [{"key": "Prefer", "value": "body=json"}]}
    assert b"@context" not in letter(writer(OWN, endpoint=prefers)).body
    assert ("Link", f'<{CORE_URL}>; rel="http://www.w3.org/ns/json-ld#context"; type="application/ld+json"') in letter(
        writer(CORE, endpoint=prefers)
    ).headers


def test_the_tenant_and_the_endpoints_times_are_told() -> None:
    got = letter(writer(endpoint={"timeout": 1500, "cooldown": 250}, tenant="city"))
    assert ("NGSILD-Tenant", "city") in got.headers
    assert (got.timeout_s, got.cooldown_s) == (1.5, 0.25)


def test_by_mqtt_the_headers_travel_beside_the_body() -> None:
    endpoint = {
        "uri": "mqtt://broker/a/b",
        "receiverInfo": [{"key": "X-Key", "value": "v"}],
        "notifierInfo": [{"key": "MQTT-QoS", "value": "2"}, {"key": "MQTT-Version", "value": "mqtt3.1.1"}],
    }
    got = letter(writer(OWN, endpoint=endpoint))
    assert (got.uri, got.mqtt_qos, got.mqtt_version, got.headers) == ("mqtt://broker/a/b", 2, "3.1.1", ())
    whole = msgspec.json.decode(got.body)
    assert whole["metadata"]["Content-Type"] == "application/json"
    assert whole["metadata"]["X-Key"] == "v"
    assert URL in whole["metadata"]["Link"]
    assert whole["body"]["type"] == "Notification"
    five = letter(writer(endpoint={"uri": "mqtt://b/t", "notifierInfo": [{"key": "MQTT-Version", "value": "mqtt5.0"}]}))
    assert (five.mqtt_version, five.mqtt_qos) == ("5", 0)
    assert letter(writer(endpoint={"uri": "mqtt://b/t"})).mqtt_version == ""


def test_those_who_want_to_see_a_change_alike_share_what_is_written_and_others_do_not() -> None:
    last = LastShown()

    def sharing(context: Context = OWN, endpoint: dict[str, Any] | None = None, **notification: Any) -> tuple[Writer, Writer]:
        alone = writer(context, endpoint, notification=notification)
        return alone, Writer(alone.subscription, context, lambda _: None, "", last)

    changes = [
        Change("created", NOW, None, entity(OWN, level=1)),
        appended(entity(OWN), level=2),
        Change("deleted", LATER, entity(OWN), None),
    ]
    pairs = [
        sharing(),
        sharing(),
        sharing(CORE),
        sharing(format="keyValues"),
        sharing(attributes=["name"]),
        sharing(showChanges=True),
        sharing(onlyChangedAttributes=True),
        sharing(endpoint={"accept": "application/ld+json"}),
        sharing(endpoint={"accept": "application/geo+json"}),
        sharing(sysAttrs=True),
    ]
    for change in [*changes, *reversed(changes)]:
        for alone, shared in pairs:
            assert data(shared, change) == data(alone, change)
    assert data(pairs[0][1], *changes[:2]) == data(pairs[0][0], *changes[:2])
