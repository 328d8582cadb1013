"""What policy forbids is absent from everything that leaves a node over HTTP, and cannot be guessed by asking."""

from __future__ import annotations

import json
from collections.abc import Iterator
from queue import Empty
from typing import Any

import pytest
from tests.node.access.town import ADMIN, SENSOR, TOWN, Town, point, token, town
from tests.receiving import receiver

ENTITIES = "/ngsi-ld/v1/entities"
SECRET = 4242


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    with town(tmp_path_factory.mktemp("town")) as running:
        running.put("urn:room:1", temperature=21.7, name="hall", occupancy=SECRET, location=point(2.3522, 48.8566))
        running.put("urn:room:2", temperature=34.0, name="cellar", occupancy=7, location=point(2.40, 48.80))
        running.put("urn:room:safe", temperature=1.0, name="safe", occupancy=1)
        running.put("urn:room:3", occupancy=3)
        running.ask("POST", ENTITIES, ADMIN, {"id": "urn:car:1", "type": "Car", "speed": {"type": "Property", "value": 50}})
        yield running


def get(node: Town, path: str, who: str = TOWN) -> Any:
    answer = node.ask("GET", path, who)
    assert answer.status == 200, answer.data
    return answer.data


# --- reading ------------------------------------------------------------------------------------------------------------


def test_an_entity_is_shown_as_far_as_it_may_be(node: Town) -> None:
    room = get(node, f"{ENTITIES}/urn:room:1")
    assert set(room) == {"id", "type", "temperature", "name", "location"}
    assert room["temperature"]["value"] == 20.0
    assert room["name"]["value"] == "hall"
    assert room["location"]["value"]["coordinates"] != [2.3522, 48.8566]
    assert room["location"]["value"]["coordinates"] == pytest.approx([2.3522, 48.8566], abs=0.02)
    assert get(node, f"{ENTITIES}/urn:room:1", ADMIN)["occupancy"]["value"] == SECRET


@pytest.mark.parametrize("path", ["urn:room:safe", "urn:room:3", "urn:car:1", "urn:nothing", "urn:room:1/attrs/occupancy"])
def test_what_may_not_be_seen_is_not_there(node: Town, path: str) -> None:
    answer = node.ask("GET", f"{ENTITIES}/{path}", TOWN)
    assert answer.status == 404
    assert node.ask("GET", f"{ENTITIES}/urn:room:1").status == 404  # nobody in particular sees nothing
    assert node.ask("HEAD", f"{ENTITIES}/urn:room:safe", TOWN).status == 404


def test_queries_show_the_same(node: Town) -> None:
    found = get(node, f"{ENTITIES}?type=Room&count=true")
    assert [entity["id"] for entity in found] == ["urn:room:1", "urn:room:2"]
    assert found[0] == get(node, f"{ENTITIES}/urn:room:1")
    by_post = node.ask("POST", "/ngsi-ld/v1/entityOperations/query", TOWN, {"type": "Query", "entities": [{"type": "Room"}]})
    assert by_post.data == found
    assert get(node, f"{ENTITIES}?type=Room", "") == []
    assert len(get(node, f"{ENTITIES}?type=Room", ADMIN)) == 3 + 0  # the safe is nobody's to see
    assert get(node, f"{ENTITIES}?type=Car") == []


@pytest.mark.parametrize(
    ("params", "ids"),
    [
        ("q=occupancy>5", []),
        ("q=!occupancy", ["urn:room:1", "urn:room:2"]),  # for this caller nobody has any
        ("attrs=occupancy", []),
        ("q=temperature>21", ["urn:room:2"]),  # 21.7 is seen as 20
        ("q=temperature==20", ["urn:room:1"]),
        ("q=temperature==21.7", []),
        ("orderBy=occupancy;desc", ["urn:room:1", "urn:room:2"]),  # no order but that of ids
        ("orderBy=temperature;desc", ["urn:room:2", "urn:room:1"]),
        ("q=modifiedAt>2020-01-01T00:00:00Z", ["urn:room:1", "urn:room:2"]),
    ],
)
def test_filters_and_order_see_what_the_caller_sees(node: Town, params: str, ids: list[str]) -> None:
    answer = node.ask("GET", f"{ENTITIES}?type=Room&count=true&{params}", TOWN)
    assert answer.status == 200, answer.data
    assert [entity["id"] for entity in answer.data] == ids
    assert answer.headers["ngsild-results-count"] == str(len(ids))


def test_places_are_asked_for_as_they_are_seen(node: Town) -> None:
    near = f"{ENTITIES}?type=Room&geometry=Point&coordinates=[2.3522,48.8566]&georel=near;maxDistance=="
    seen = get(node, f"{ENTITIES}/urn:room:1")["location"]["value"]["coordinates"]
    assert node.ids(near + "5", ADMIN) == ["urn:room:1"]
    assert node.ids(near + "5", TOWN) == []
    where = f"{ENTITIES}?type=Room&geometry=Point&coordinates=[{seen[0]},{seen[1]}]&georel=near;maxDistance==5"
    assert node.ids(where, TOWN) == ["urn:room:1"]
    assert node.ids(where, ADMIN) == []
    shown = node.ask("GET", f"{ENTITIES}?type=Room", TOWN, Accept="application/geo+json").data
    assert shown["features"][0]["geometry"]["coordinates"] == seen
    ordered = node.ids(f"{ENTITIES}?type=Room&orderBy=location&orderFrom=[{seen[0]},{seen[1]}]", TOWN)
    assert ordered == ["urn:room:1", "urn:room:2"] or ordered == ["urn:room:2", "urn:room:1"]


def test_pages_and_counts_are_of_what_is_seen(node: Town) -> None:
    answer = node.ask("GET", f"{ENTITIES}?type=Room&limit=1&count=true", TOWN)
    assert answer.headers["ngsild-results-count"] == "2"
    assert 'rel="next"' in answer.headers["link"]
    assert node.ids(f"{ENTITIES}?type=Room&limit=1&offset=1", TOWN) == ["urn:room:2"]


def test_types_and_attributes_are_those_of_what_is_seen(node: Town) -> None:
    assert get(node, "/ngsi-ld/v1/types")["typeList"] == ["Room"]
    assert set(get(node, "/ngsi-ld/v1/attributes")["attributeList"]) == {"location", "name", "temperature"}
    assert get(node, "/ngsi-ld/v1/types/Room")["entityCount"] == 2
    assert node.ask("GET", "/ngsi-ld/v1/types/Car", TOWN).status == 404
    assert node.ask("GET", "/ngsi-ld/v1/attributes/occupancy", TOWN).status == 404
    assert set(get(node, "/ngsi-ld/v1/types", ADMIN)["typeList"]) == {"Car", "Room"}


def test_linked_entities_are_seen_by_the_same_eyes(node: Town) -> None:
    entity = {"id": "urn:room:4", "type": "Room", "name": {"type": "Property", "value": "x"}}
    entity |= {"temperature": {"type": "Relationship", "object": "urn:room:1"}, "occupancy": {"type": "Property", "value": 1}}
    assert node.ask("POST", ENTITIES, ADMIN, entity).status == 201
    shown = get(node, f"{ENTITIES}/urn:room:4?join=inline&joinLevel=1")
    assert "occupancy" not in json.dumps(shown)
    assert str(SECRET) not in json.dumps(shown)
    assert node.ask("DELETE", f"{ENTITIES}/urn:room:4", ADMIN).status == 204


def test_entity_maps_name_what_is_seen(node: Town) -> None:
    made = node.ask("GET", "/ngsi-ld/v1/entityMaps?type=Room", ADMIN)
    assert made.status == 201, made.data
    assert len(made.data["entityMap"]) == 3
    where = made.headers["ngsild-entitymap"]
    assert set(get(node, where)["entityMap"]) == {"urn:room:1", "urn:room:2"}
    paged = node.ask("GET", f"{ENTITIES}?type=Room&q=occupancy>5", TOWN, NGSILD_EntityMap=where)
    assert paged.data == []


# --- the past and the log -------------------------------------------------------------------------------------------------


def test_the_past_is_shown_as_far_as_the_present_may_be(node: Town) -> None:
    node.put("urn:room:2", temperature=38.0, name="cellar", occupancy=9, location=point(2.40, 48.80))
    past = get(node, "/ngsi-ld/v1/temporal/entities/urn:room:2?options=temporalValues")
    assert set(past) == {"id", "type", "temperature", "name", "location"}
    assert {value for value, _ in past["temperature"]["values"]} == {30.0, 40.0}
    assert node.ask("GET", "/ngsi-ld/v1/temporal/entities/urn:room:safe", TOWN).status == 404
    assert node.ask("GET", "/ngsi-ld/v1/temporal/entities/urn:room:3", TOWN).status == 404
    assert node.ask("GET", "/ngsi-ld/v1/temporal/entities/urn:room:2?attrs=occupancy", TOWN).status == 404
    window = "timerel=after&timeAt=2020-01-01T00:00:00Z&timeproperty=modifiedAt"
    temporal = f"/ngsi-ld/v1/temporal/entities?type=Room&{window}"
    assert set(node.ids(temporal, TOWN)) == {"urn:room:1", "urn:room:2"}
    assert node.ids(f"{temporal}&q=occupancy>5", TOWN) == []
    assert node.ids(f"{temporal}&q=temperature==38", TOWN) == []
    assert node.ids(f"{temporal}&q=temperature==40", TOWN) == ["urn:room:2"]
    assert node.ids(f"{temporal}&q=temperature==38", ADMIN) == ["urn:room:2"]
    computed = get(node, f"{temporal}&q=temperature==40&options=aggregatedValues&aggrMethods=max,avg")
    assert computed[0]["temperature"]["max"][0][0] == 40.0
    assert "occupancy" not in computed[0]
    by_post = node.ask(
        "POST",
        "/ngsi-ld/v1/temporal/entityOperations/query",
        TOWN,
        {"type": "Query", "entities": [{"type": "Room"}], "temporalQ": {"timerel": "after", "timeAt": "2020-01-01T00:00:00Z"}},
    )
    assert "occupancy" not in by_post.body.decode()
    maps = node.ask("GET", f"/ngsi-ld/v1/temporal/entityMaps?type=Room&{window}", TOWN)
    assert set(maps.data["entityMap"]) == {"urn:room:1", "urn:room:2"}


def test_the_log_tells_of_what_is_seen(node: Town) -> None:
    records = get(node, "/hanse/v1/log")
    assert {record["entity"] for record in records} <= {"urn:room:1", "urn:room:2", "urn:room:4"}
    text = json.dumps(records)
    assert "occupancy" not in text
    assert str(SECRET) not in text
    assert "21.7" not in text
    everything = get(node, "/hanse/v1/log", ADMIN)
    assert len(everything) > len(records)
    one = get(node, "/hanse/v1/log?limit=1")
    following = get(node, f"/hanse/v1/log?limit=1&after={one[0]['offset']}")
    assert [*one, *following] == records[:2]
    arrow = node.ask("GET", "/hanse/v1/log", TOWN, Accept="application/vnd.apache.arrow.stream")
    assert b"occupancy" not in arrow.body
    assert b"temperature" in arrow.body


def test_who_waits_for_the_log_is_not_woken_by_what_is_hidden(node: Town) -> None:
    newest = get(node, "/hanse/v1/log", TOWN)[-1]["offset"]
    node.put("urn:room:3", occupancy=4)
    answer = node.ask("GET", f"/hanse/v1/log?after={newest}&wait=0.3", TOWN)
    assert answer.data == []
    assert int(answer.headers["hanse-log-end"]) <= newest


# --- writing ------------------------------------------------------------------------------------------------------------


def test_writing_needs_leave_for_each_attribute(node: Town) -> None:
    warm = {"temperature": {"type": "Property", "value": 22.0}}
    busy = {"occupancy": {"type": "Property", "value": 1}}
    attrs = f"{ENTITIES}/urn:room:1/attrs"
    assert node.ask("PATCH", attrs, SENSOR, warm).status == 204
    refused = node.ask("PATCH", attrs, SENSOR, warm | busy)
    assert refused.status == 404  # it may write there, but not read: so this is no place to learn from
    assert node.ask("PATCH", attrs, TOWN, warm).status == 403
    assert node.ask("PATCH", attrs, TOWN, warm).data["type"].endswith("Forbidden")
    assert node.ask("DELETE", f"{ENTITIES}/urn:room:1", SENSOR).status == 404
    assert node.ask("DELETE", f"{ENTITIES}/urn:room:1", TOWN).status == 403
    assert get(node, f"{ENTITIES}/urn:room:1", ADMIN)["occupancy"]["value"] == SECRET
    node.put("urn:room:1", temperature=21.7, name="hall", occupancy=SECRET, location=point(2.3522, 48.8566))


def test_a_refusal_names_the_policy_that_decided(tmp_path: Any) -> None:
    policies = """
    @id("all") permit (principal, action, resource);
    @id("no names") forbid (principal, action == Action::"publish", resource) when { resource.attribute == "name" };
    """
    with town(tmp_path, policies) as free:
        body = {"id": "urn:a", "type": "Room", "name": {"type": "Property", "value": 1}}
        refused = free.ask("POST", ENTITIES, "", body)
        assert refused.status == 403
        assert "policy 'no names' forbids it" in refused.data["detail"]
        batch = free.ask("POST", "/ngsi-ld/v1/entityOperations/create", "", [body, {"id": "urn:b", "type": "Room"}])
        assert batch.status == 207
        assert batch.data["success"] == ["urn:b"]
        assert batch.data["errors"][0]["error"]["status"] == 403
        past = free.ask(
            "POST",
            "/ngsi-ld/v1/temporal/entities",
            "",
            {"id": "urn:c", "type": "Room", "name": [{"type": "Property", "value": 1, "observedAt": "2024-01-01T00:00:00Z"}]},
        )
        assert past.status == 403


def test_creating_does_not_tell_whether_it_is_there(node: Town) -> None:
    for id_ in ("urn:room:safe", "urn:room:new"):
        refused = node.ask("POST", ENTITIES, TOWN, {"id": id_, "type": "Room"})
        assert refused.status == 403
        assert refused.data["detail"].replace(id_, "") == 'User::"tina" may not publish : no policy permits it'


def test_removing_the_past_needs_leave_for_all_of_it(node: Town) -> None:
    where = "/ngsi-ld/v1/temporal/entities"
    body = {"id": "urn:past:1", "type": "Room", "name": [{"type": "Property", "value": 1, "observedAt": "2024-01-01T00:00:00Z"}]}
    assert node.ask("POST", where, ADMIN, body).status == 201
    assert node.ask("DELETE", f"{where}/urn:past:1", SENSOR).status == 404  # of which it sees nothing
    assert node.ask("DELETE", f"{where}/urn:past:1", TOWN).status == 403
    assert node.ask("DELETE", f"{where}/urn:past:1/attrs/name", TOWN).status == 403
    assert node.ask("DELETE", f"{where}/urn:past:1", ADMIN).status == 204


# --- being told -----------------------------------------------------------------------------------------------------------


def subscription(url: str, **members: Any) -> dict[str, Any]:
    said = {"type": "Subscription", "entities": [{"type": "Room"}], "notification": {"endpoint": {"uri": url}}}
    return said | members


def test_notifications_are_what_the_subscriber_sees(node: Town) -> None:
    with receiver() as (url, got):
        made = node.ask("POST", "/ngsi-ld/v1/subscriptions", TOWN, subscription(url, watchedAttributes=["temperature"]))
        assert made.status == 201, made.data
        guess = node.ask("POST", "/ngsi-ld/v1/subscriptions", TOWN, subscription(url, q="occupancy>5"))
        assert guess.status == 201
        node.put("urn:room:5", temperature=17.0, name="attic", occupancy=SECRET)
        told = got.get(timeout=20)
        assert told["subscriptionId"] == made.headers["location"].rpartition("/")[2]
        assert told["data"][0]["temperature"]["value"] == 20.0
        assert set(told["data"][0]) == {"id", "type", "temperature", "name"}
        node.put("urn:room:5", temperature=17.0, name="attic", occupancy=1)  # only what is hidden changes
        node.put("urn:room:5", temperature=44.0, name="attic", occupancy=1)
        assert got.get(timeout=20)["data"][0]["temperature"]["value"] == 40.0
        with pytest.raises(Empty):
            got.get_nowait()
        for answer in (made, guess):
            assert node.ask("DELETE", answer.headers["location"], TOWN).status == 204


def test_a_filter_that_holds_for_what_is_seen_fires(node: Town) -> None:
    with receiver() as (url, got):
        made = node.ask("POST", "/ngsi-ld/v1/subscriptions", TOWN, subscription(url, q="temperature>=20;!occupancy"))
        node.put("urn:room:6", temperature=16.0, occupancy=1)
        assert got.get(timeout=20)["data"][0]["temperature"]["value"] == 20.0
        assert node.ask("DELETE", made.headers["location"], TOWN).status == 204


def test_subscriptions_belong_to_who_has_made_them(node: Town) -> None:
    made = node.ask("POST", "/ngsi-ld/v1/subscriptions", TOWN, subscription("http://127.0.0.1:9/"))
    where = made.headers["location"]
    other = token("otto", "town")
    assert node.ask("GET", where, other).status == 404
    assert node.ask("PATCH", where, other, {"isActive": False}).status == 404
    assert node.ask("DELETE", where, other).status == 404
    assert get(node, "/ngsi-ld/v1/subscriptions", other) == []
    assert [shown["id"] for shown in get(node, "/ngsi-ld/v1/subscriptions")] == [where.rpartition("/")[2]]
    assert node.ask("GET", f"/hanse/v1/notifications?subscription={where.rpartition('/')[2]}", other).status == 404
    assert node.ask("PATCH", where, TOWN, {"entities": [{"type": "Car"}]}).status == 403
    assert node.ask("POST", "/ngsi-ld/v1/subscriptions", "", subscription("http://127.0.0.1:9/")).status == 403
    assert node.ask("GET", where, ADMIN).status == 200
    assert node.ask("DELETE", where, TOWN).status == 204


def test_snapshots_hold_what_their_owner_sees(node: Town) -> None:
    body = {"type": "Snapshot", "snapshotQueries": [{"type": "Query", "entities": [{"type": "Room"}]}]}
    made = node.ask("POST", "/ngsi-ld/v1/snapshots", TOWN, body)
    assert made.status == 201, made.data
    id_ = made.headers["location"].rpartition("/")[2]
    frozen = node.ask("GET", f"{ENTITIES}?type=Room", TOWN, NGSILD_Snapshot=id_)
    assert frozen.status == 200
    assert "urn:room:1" in {entity["id"] for entity in frozen.data}
    assert "occupancy" not in frozen.body.decode()
    assert node.ask("GET", f"{ENTITIES}?type=Room", SENSOR, NGSILD_Snapshot=id_).status == 404
    assert node.ask("GET", made.headers["location"], SENSOR).status == 404
    assert "occupancy" not in node.ask("GET", f"{ENTITIES}?type=Room", ADMIN, NGSILD_Snapshot=id_).body.decode()


# --- native clients -------------------------------------------------------------------------------------------------------


def test_native_clients_belong_to_someone_and_hear_what_that_one_sees(node: Town) -> None:
    clients = "/hanse/v1/clients"
    room = "https://uri.etsi.org/ngsi-ld/default-context/Room"
    occupancy = "https://uri.etsi.org/ngsi-ld/default-context/occupancy"
    with receiver() as (url, got):
        assert node.ask("PUT", f"{clients}/tina", TOWN, {"endpoint": url}).status == 204
        assert node.ask("PUT", f"{clients}/tina", SENSOR, {"endpoint": "http://127.0.0.1:9/"}).status == 403
        assert node.ask("GET", f"{clients}/tina", SENSOR).status == 404
        assert get(node, clients, SENSOR) == []
        counted = node.ask("GET", f"{clients}?geofences=true&count=true", SENSOR)
        assert (counted.data, counted.headers["ngsild-results-count"]) == ([], "0")
        assert node.ask("PUT", f"{clients}/tina/subscriptions/all", TOWN, {}).status == 403
        assert node.ask("PUT", f"{clients}/tina/subscriptions/rooms", TOWN, {"selectors": [{"type": room}]}).status == 204
        wanted = {"selectors": [{"type": room}], "q": f"{occupancy}>5"}
        assert node.ask("PUT", f"{clients}/tina/subscriptions/guess", TOWN, wanted).status == 204
        assert node.ask("PUT", f"{clients}/tina/advertisements/a", TOWN, {"selectors": [{"type": room}]}).status == 403
        assert node.ask("POST", f"{clients}/tina/notifications", TOWN, {"types": ["Room"]}).status == 403
        node.put("urn:room:7", temperature=17.0, occupancy=SECRET)
        told = got.get(timeout=20)
        assert told["subscription"] == "rooms"
        assert occupancy not in json.dumps(told)
        assert str(SECRET) not in json.dumps(told)
        assert told["attributes"]["https://uri.etsi.org/ngsi-ld/default-context/temperature"][0]["value"] == 20.0
        with pytest.raises(Empty):
            got.get_nowait()
        assert node.ask("DELETE", f"{clients}/tina", TOWN).status == 204


def test_joining_a_scope_needs_leave(node: Town) -> None:
    assert node.ask("PUT", "/hanse/v1/scopes/place/paris", TOWN).status == 403


# --- operators ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/hanse/v1/dead-letters", "/hanse/v1/tenants", "/hanse/v1/models", "/hanse/v1/bounds", "/metrics", "/hanse/v1/policies"])  # fmt: skip  # noqa: E501
def test_routes_for_operators_need_their_role(node: Town, path: str) -> None:
    assert node.ask("GET", path, TOWN).status == 403
    assert node.ask("GET", path).status == 403
    assert node.ask("GET", path, ADMIN).status == 200


def test_everybody_may_ask_whether_the_node_lives(node: Town) -> None:
    for path in ("/healthz", "/readyz", "/openapi.json", "/", "/docs", "/ngsi-ld/v1/info/sourceIdentity"):
        assert node.ask("GET", path).status == 200
    assert node.ask("OPTIONS", ENTITIES).status == 204


def test_registrations_need_leave_and_tell_nobody_what_he_may_not_read(node: Town) -> None:
    body = {
        "type": "ContextSourceRegistration",
        "information": [{"entities": [{"type": "Car"}]}],
        "endpoint": "http://127.0.0.1:9",
    }
    assert node.ask("POST", "/ngsi-ld/v1/csourceRegistrations", TOWN, body).status == 403
    made = node.ask("POST", "/ngsi-ld/v1/csourceRegistrations", ADMIN, body)
    assert made.status == 201
    assert node.ask("GET", made.headers["location"], TOWN).status == 404
    assert get(node, "/ngsi-ld/v1/csourceRegistrations?type=Car") == []
    assert node.ask("DELETE", made.headers["location"], ADMIN).status == 204
