"""What a subscription may say, how it is patched and shown, and when it fires."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.matching import MatchIndex
from hanse.model import Notification
from hanse.ngsild import operations
from hanse.ngsild.contexts import CORE, compile_context
from hanse.ngsild.entity import Change, Entity
from hanse.ngsild.errors import BadRequestData, NgsiLdError
from hanse.ngsild.geofences import place
from hanse.ngsild.parsing import parse_entity, parse_fragment
from hanse.ngsild.query import EntityQuery, matches
from hanse.ngsild.subscriptions import (
    Counters,
    NgsiSubscription,
    core_subscription,
    fires,
    is_triggered,
    news,
    parse_subscription,
    patch_subscription,
    settled,
    subscription_to_json,
)

NOW = "2026-01-01T00:00:00.000000Z"
LATER = "2026-01-01T00:00:01.000000Z"
NOW_MS = 1_767_225_600_000
OWN = compile_context({"Building": "https://example.org/Building", "name": "https://example.org/name"})
ENDPOINT = {"uri": "http://127.0.0.1:21200/notify"}


def body(**members: Any) -> dict[str, Any]:
    return {
        "id": "urn:ngsi-ld:Subscription:1",
        "type": "Subscription",
        "entities": [{"type": "Building"}],
        "notification": {"endpoint": ENDPOINT},
    } | members


def subscription(**members: Any) -> NgsiSubscription:
    return parse_subscription(body(**members), OWN, NOW)


def entity(**members: Any) -> Entity:
    given = {"id": "urn:b:1", "type": "Building", "name": "Rathaus", "level": 4} | members
    return parse_entity(given, OWN, NOW)


def shown(what: NgsiSubscription, context: Any = OWN, now_ms: int = NOW_MS) -> dict[str, Any]:
    return subscription_to_json(what, context, Counters(), now_ms)


# --- what it may say --------------------------------------------------------------------------------------------------


def test_what_comes_in_is_shown_again() -> None:
    members: dict[str, Any] = {
        "subscriptionName": "air",
        "description": "of the town hall",
        "entities": [{"type": "Building", "id": "urn:b:1"}, {"type": "Tower", "idPattern": "^urn:t:"}],
        "watchedAttributes": ["name"],
        "notificationTrigger": ["entityCreated", "attributeDeleted"],
        "q": "level>3",
        "geoQ": {"georel": "near;maxDistance==2000", "geometry": "Point", "coordinates": [10, 53.5], "geoproperty": "location"},
        "scopeQ": "/Hamburg/#",
        "lang": "de",
        "datasetId": ["urn:d:1"],
        "expiresAt": "2030-01-01T00:00:00Z",
        "throttling": 5,
        "isActive": True,
        "jsonldContext": "https://example.org/context.jsonld",
        "subscriberLocation": {"type": "Point", "coordinates": [10.0, 53.5]},
        "scopes": {"place": "hamburg"},
        "notification": {
            "pick": ["id", "name", "locatedAt{name}"],
            "format": "concise",
            "showChanges": True,
            "sysAttrs": True,
            "join": "inline",
            "joinLevel": 2,
            "endpoint": ENDPOINT
            | {
                "accept": "application/ld+json",
                "timeout": 500,
                "cooldown": 2000,
                "receiverInfo": [{"key": "X-Key", "value": "v"}],
                "notifierInfo": [{"key": "MQTT-QoS", "value": "1"}],
            },
        },
    }
    assert shown(subscription(**members)) == body(**members) | {"status": "active"}


def test_names_are_shown_as_the_context_of_the_reader_has_them() -> None:
    made = subscription(watchedAttributes=["name"], notification={"endpoint": ENDPOINT, "attributes": ["name"]})
    seen = shown(made, CORE)
    assert seen["entities"] == [{"type": "https://example.org/Building"}]
    assert seen["watchedAttributes"] == seen["notification"]["attributes"] == ["https://example.org/name"]


def test_an_expression_of_types_is_shown_as_one() -> None:
    made = subscription(entities=[{"type": "(Building;Tower)|Museum"}])
    again = subscription(entities=shown(made)["entities"])
    assert again.query == made.query


def test_an_id_is_made_if_there_is_none() -> None:
    given = body()
    del given["id"]
    assert parse_subscription(given, CORE, NOW, new_id="urn:x:new").id == "urn:x:new"


def test_what_only_the_system_may_say_and_what_nobody_knows_is_ignored() -> None:
    made = subscription(status="expired", mystery=1, notification={"endpoint": ENDPOINT, "timesSent": 42})
    assert shown(made)["status"] == "active"
    assert "mystery" not in shown(made)
    assert "timesSent" not in shown(made)["notification"]


def test_an_escaped_query_means_the_plain_one() -> None:
    assert subscription(q='name=="Neues%20Rathaus"').query == subscription(q='name=="Neues Rathaus"').query


def test_null_is_no_member() -> None:
    assert subscription(expiresAt=None, isActive=None) == subscription()


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "Query"},
        {"id": "no uri"},
        {"id": ""},
        {"entities": []},
        {"entities": [{"id": "urn:b:1"}]},
        {"entities": [{"type": 5}]},
        {"entities": [{"type": "Building", "id": "nothing"}]},
        {"entities": None},
        {"watchedAttributes": []},
        {"watchedAttributes": [5]},
        {"timeInterval": 0},
        {"timeInterval": -1},
        {"timeInterval": "5"},
        {"timeInterval": True},
        {"timeInterval": 5, "throttling": 5},
        {"timeInterval": 5, "watchedAttributes": ["name"]},
        {"throttling": -30},
        {"expiresAt": "2000-01-01T00:00:00Z"},
        {"expiresAt": "tomorrow"},
        {"isActive": "yes"},
        {"notificationTrigger": ["entityChanged"]},
        {"notificationTrigger": []},
        {"q": ""},
        {"csf": "(("},
        {"scopeQ": "/a/#/b"},
        {"geoQ": {"georel": "near;maxDistance==5"}},
        {"geoQ": "here"},
        {"jsonldContext": "unknownContext"},
        {"datasetId": ["x"]},
        {"subscriberLocation": {"type": "Point", "coordinates": [1]}},
        {"subscriberLocation": {"type": "Point", "coordinates": [1, 100]}},
        {"scopes": {"a": 1}},
        {"notification": None},
        {"notification": {}},
        {"notification": {"endpoint": None}},
        {"notification": {"endpoint": {}}},
        {"notification": {"endpoint": {"uri": "ftp://x/y"}}},
        {"notification": {"endpoint": {"uri": "mqtt://x"}}},
        {"notification": {"endpoint": {"uri": "http://[x/"}}},
        {"notification": {"endpoint": ENDPOINT | {"accept": "text/html"}}},
        {"notification": {"endpoint": ENDPOINT | {"timeout": 0}}},
        {"notification": {"endpoint": ENDPOINT | {"receiverInfo": [{"key": "K", "value": 42}]}}},
        {"notification": {"endpoint": ENDPOINT | {"receiverInfo": [{"key": "K"}]}}},
        {"notification": {"endpoint": ENDPOINT | {"receiverInfo": [{"key": "K", "value": "a\r\nX: b"}]}}},
        {"notification": {"endpoint": ENDPOINT | {"receiverInfo": [{"key": "K K", "value": "a"}]}}},
        {"notification": {"endpoint": ENDPOINT | {"notifierInfo": [{"key": "MQTT-QoS", "value": "3"}]}}},
        {"notification": {"endpoint": ENDPOINT, "format": "pretty"}},
        {"notification": {"endpoint": ENDPOINT, "attributes": []}},
        {"notification": {"endpoint": ENDPOINT, "pick": []}},
        {"notification": {"endpoint": ENDPOINT, "pick": ["id"], "attributes": ["id"]}},
        {"notification": {"endpoint": ENDPOINT, "omit": ["id"], "attributes": ["id"]}},
        {"notification": {"endpoint": ENDPOINT, "pick": ["id"], "omit": ["id"]}},
        {"notification": {"endpoint": ENDPOINT, "format": "keyValues", "showChanges": True}},
        {"notification": {"endpoint": ENDPOINT, "join": "deep"}},
        {"notification": {"endpoint": ENDPOINT, "joinLevel": 0}},
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadRequestData):
        subscription(**wrong)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.sampled_from(["urn:a:b", "name", "5"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
MEMBERS = [
    *("id", "type", "entities", "watchedAttributes", "timeInterval", "q", "geoQ", "scopeQ", "csf", "isActive", "expiresAt"),
    *("notificationTrigger", "throttling", "lang", "datasetId", "jsonldContext", "notification", "scopes", "description"),
    "subscriberLocation",
]
NESTED = [
    *("endpoint", "attributes", "pick", "omit", "format", "showChanges", "sysAttrs", "join", "joinLevel"),
    "onlyChangedAttributes",
]


@given(
    st.dictionaries(st.sampled_from(MEMBERS), JSON, max_size=4),
    st.dictionaries(st.sampled_from(NESTED), JSON, max_size=3),
    st.dictionaries(st.sampled_from(["accept", "timeout", "cooldown", "receiverInfo", "uri"]), JSON, max_size=2),
)
def test_anything_is_read_or_refused(members: dict[str, Any], nested: dict[str, Any], endpoint: dict[str, Any]) -> None:
    given = body(notification={"endpoint": ENDPOINT | endpoint} | nested) | members
    try:
        made = parse_subscription(given, OWN, NOW)
    except NgsiLdError:
        return
    data = msgspec.json.encode(made)
    assert settled(msgspec.json.decode(data, type=NgsiSubscription)) == made
    again = parse_subscription(shown(made), OWN, NOW)
    assert again.query == made.query
    assert again.notification == made.notification


@given(JSON)
def test_any_patch_is_taken_or_refused(patch: Any) -> None:
    with suppress(NgsiLdError):
        patch_subscription(subscription(), patch, OWN, NOW)


# --- patches ----------------------------------------------------------------------------------------------------------


def test_a_patch_replaces_whole_members_in_its_own_context() -> None:
    old = subscription(q="level>3", watchedAttributes=["name"])
    new = patch_subscription(old, {"entities": [{"type": "Building"}], "q": "level<3"}, CORE, LATER)
    assert shown(new, CORE)["entities"] == [{"type": "Building"}]
    assert new.watched == old.watched
    assert new.query.q != old.query.q
    assert (new.created_at, new.modified_at) == (NOW, LATER)


@pytest.mark.parametrize("nothing", [None, "urn:ngsi-ld:null"])
def test_null_takes_a_member_away(nothing: Any) -> None:
    old = subscription(q="level>3", expiresAt="2030-01-01T00:00:00Z", isActive=False, scopes={"a": "b"})
    new = patch_subscription(old, {"q": nothing, "expiresAt": nothing, "isActive": nothing, "scopes": nothing}, OWN, NOW)
    assert new == subscription()


@pytest.mark.parametrize(
    "wrong",
    [
        {"notification": None},
        {"notification": {"format": "keyValues"}},
        {"notification": {"endpoint": None}},
        {"expiresAt": "2020-08-01T22:07:00Z"},
        {"entities": None},
        {"id": "urn:x:other"},
        {"type": "Entity"},
        {"throttling": 5, "timeInterval": 5},
        [],
    ],
)
def test_a_patch_that_makes_no_sense_is_refused(wrong: Any) -> None:
    with pytest.raises(BadRequestData):
        patch_subscription(subscription(), wrong, OWN, NOW)


def test_a_patch_may_leave_an_old_expiry_alone() -> None:
    old = subscription(expiresAt="2026-01-01T00:00:05Z")
    assert patch_subscription(old, {"isActive": True}, OWN, "2027-01-01T00:00:00Z").expires_at == old.expires_at


def test_status_says_whether_it_is_at_work() -> None:
    assert shown(subscription(isActive=False))["status"] == "paused"
    expiring = subscription(expiresAt="2026-01-01T00:00:05Z")
    assert shown(expiring)["status"] == "active"
    assert shown(expiring, now_ms=NOW_MS + 5000)["status"] == "expired"


# --- when it fires ----------------------------------------------------------------------------------------------------


def created(what: Entity | None = None) -> Change:
    return operations.create(what or entity(), NOW)


def updated(**attributes: Any) -> Change:
    outcome = operations.append(entity(), parse_fragment(attributes, OWN, LATER), LATER)
    assert outcome.change is not None
    return outcome.change


def without(name: str) -> Change:
    outcome = operations.delete_attribute(entity(), OWN.expand_term(name), None, False, LATER)
    assert outcome.change is not None
    return outcome.change


def deleted() -> Change:
    return operations.delete(entity(), LATER)


CHANGES = {
    "created": created(),
    "name updated": updated(name="Neues Rathaus"),
    "tax created": updated(tax=5),
    "name deleted": without("name"),
    "deleted": deleted(),
}


@pytest.mark.parametrize(
    ("triggers", "watched", "expected"),
    [
        (None, None, {"created", "name updated", "tax created"}),
        (None, ["name"], {"created", "name updated"}),
        (None, ["level"], {"created"}),
        (None, ["tax"], {"tax created"}),
        (["entityCreated"], None, {"created"}),
        (["entityUpdated"], None, {"created", "name updated", "tax created", "name deleted", "deleted"}),
        (["entityUpdated"], ["name"], {"created", "name updated", "name deleted", "deleted"}),
        (["entityDeleted"], None, {"deleted"}),
        (["entityDeleted"], ["tax"], set()),
        (["attributeCreated"], None, {"created", "tax created"}),
        (["attributeUpdated"], None, {"name updated"}),
        (["attributeDeleted"], None, {"name deleted", "deleted"}),
        (["attributeDeleted"], ["level"], {"deleted"}),
    ],
)
def test_triggers(triggers: list[str] | None, watched: list[str] | None, expected: set[str]) -> None:
    made = subscription(notificationTrigger=triggers, watchedAttributes=watched)
    assert {name for name, change in CHANGES.items() if fires(made, change, NOW_MS)} == expected


def test_an_entity_without_attributes_is_created_too() -> None:
    bare = created(parse_entity({"id": "urn:b:2", "type": "Building"}, OWN, NOW))
    assert fires(subscription(notificationTrigger=["entityCreated"]), bare, NOW_MS)
    assert not fires(subscription(), bare, NOW_MS)


def test_it_fires_only_while_it_is_live() -> None:
    expiring = subscription(expiresAt="2026-01-01T00:00:05Z")
    assert fires(expiring, created(), NOW_MS)
    assert not fires(expiring, created(), NOW_MS + 5000)
    assert not fires(subscription(isActive=False), created(), NOW_MS)
    assert not fires(subscription(timeInterval=5), created(), NOW_MS)


QUERIES: list[dict[str, Any]] = [
    {"q": "level>3"},
    {"q": "level>4"},
    {"q": 'name=="Rathaus"'},
    {"q": "tax"},
    {"q": 'id=="urn:b:1"'},
    {"q": "modifiedAt>2020-01-01T00:00:00Z"},
    {"scopeQ": "/Hamburg"},
    {"entities": [{"type": "Tower"}]},
    {"entities": [{"type": "Building;Tower"}]},
    {"entities": [{"type": "*", "idPattern": "^urn:b:"}]},
    {"entities": [{"type": "Building", "id": ["urn:b:2", "urn:b:1"]}]},
    {"geoQ": {"georel": "near;maxDistance==2000", "geometry": "Point", "coordinates": [10, 53.5]}},
]
ENTITIES = [
    entity(),
    entity(level=5, scope="/Hamburg"),
    entity(type=["Building", "Tower"], tax=1),
    entity(location={"type": "GeoProperty", "value": {"type": "Point", "coordinates": [10, 53.5]}}),
]


@pytest.mark.parametrize("members", QUERIES)
def test_it_fires_exactly_when_the_query_matches(members: dict[str, Any]) -> None:
    made = subscription(**members)
    for one in ENTITIES:
        assert fires(made, created(one), NOW_MS) == matches(made.query, one)


@given(
    st.sampled_from(QUERIES),
    st.sampled_from([None, ["name"], ["tax", "level"]]),
    st.sampled_from([None, ["entityCreated"], ["entityUpdated"], ["entityDeleted"], ["attributeDeleted"]]),
    st.sampled_from([*CHANGES.values(), *map(created, ENTITIES)]),
)
def test_the_broker_lets_through_all_that_fires(
    members: dict[str, Any], watched: list[str] | None, triggers: list[str] | None, change: Change
) -> None:
    made = subscription(watchedAttributes=watched, notificationTrigger=triggers, **members)
    index = MatchIndex()
    index.add(core_subscription(made))
    one = change.entity
    said = Notification(id="1", publisher="node", types=one.types, entity=one.id, attributes=one.attributes, news=news(change))
    if fires(made, change, NOW_MS):
        assert index.match(said, place(one.attributes))


def test_a_subscription_of_too_many_selectors_for_the_broker_hears_more_there() -> None:
    many = subscription(entities=[{"type": "Building", "id": [f"urn:b:{n}" for n in range(100)]}])
    assert [selector.id for selector in core_subscription(many).selectors] == [None]
    kinds = subscription(entities=[{"type": ",".join(f"T{n}" for n in range(100))}])
    assert core_subscription(kinds).selectors == ()
    assert not matches(many.query, entity(id="urn:b:100"))


def test_a_new_type_is_an_update_of_the_entity() -> None:
    before = entity()
    after = msgspec.structs.replace(before, types=(*before.types, "urn:t:Tower"))
    change = Change("updated", LATER, before, after)
    assert is_triggered(subscription(notificationTrigger=["entityUpdated"]), change)
    assert not is_triggered(subscription(), change)


def test_without_entities_everything_is_selected() -> None:
    made = subscription(entities=None, watchedAttributes=["name"])
    assert made.query == EntityQuery()
