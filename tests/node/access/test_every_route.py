"""Every route works on a tenant as someone sees it: none fails because it reaches for what is not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.node.access.town import ADMIN, SENSOR, TOWN, Town, token, town
from tests.receiving import receiver

from hanse.node.access.routes import RULES
from hanse.node.http.app import PATHS

FILLED = {
    "id": "urn:room:1",
    "attribute": "temperature",
    "instance": "urn:instance:1",
    "type": "Room",
    "client": "c",
    "dimension": "place",
    "scope": "paris",
    "node": "other",
    "name": "alarm",
}
PARAMS = {
    "GET /ngsi-ld/v1/entities": "?type=Room",
    "DELETE /ngsi-ld/v1/entities": "?type=Nothing",
    "GET /ngsi-ld/v1/entityMaps": "?type=Room",
    "GET /ngsi-ld/v1/temporal/entityMaps": "?type=Room&timerel=after&timeAt=2020-01-01T00:00:00Z",
    "GET /ngsi-ld/v1/temporal/entities": "?type=Room&timerel=after&timeAt=2020-01-01T00:00:00Z",
    "GET /ngsi-ld/v1/csourceRegistrations": "?type=Room",
    "POST /hanse/v1/backup": "",
}
ROOM = {"id": "urn:room:1", "type": "Room", "temperature": {"type": "Property", "value": 20}}
BODIES: list[Any] = [
    {},
    ROOM,
    [ROOM],
    ["urn:room:1"],
    {"temperature": {"type": "Property", "value": 20}},
    {"type": "Property", "value": 20},
    {"type": "Query", "entities": [{"type": "Room"}]},
    {"type": "Query", "entities": [{"type": "Room"}], "temporalQ": {"timerel": "after", "timeAt": "2020-01-01T00:00:00Z"}},
    {"type": "Subscription", "entities": [{"type": "Room"}], "notification": {"endpoint": {"uri": "http://127.0.0.1:9/"}}},
    {"type": "Snapshot", "snapshotQueries": [{"type": "Query", "entities": [{"type": "Room"}]}]},
    {"type": "ContextSourceRegistration", "information": [{"entities": [{"type": "Room"}]}], "endpoint": "http://127.0.0.1:9"},
    {"selectors": [{"type": "Room"}]},
    {"lat": 1, "lon": 2},
    {"subscriptionId": "urn:s", "data": [ROOM]},
]


@pytest.mark.parametrize("who", ["", TOWN, SENSOR, ADMIN])
def test_no_route_fails(tmp_path: Path, who: str) -> None:
    with town(tmp_path) as node:
        node.put("urn:room:1", temperature=20.0)
        node.ask("PUT", "/hanse/v1/clients/c", who, {})
        for path in PATHS:
            for method in path.endpoints:
                if path.template.endswith("/stream"):
                    continue  # which would go on
                where = path.template.format(**FILLED) + PARAMS.get(f"{method} {path.template}", "")
                bodies = BODIES if method in ("POST", "PUT", "PATCH") else [None]
                for body in bodies:
                    reply = node.ask(method, where, who, body)
                    assert reply.status < 500 or reply.status in (503, 504), (method, where, body, reply.body)
                    if RULES[f"{method} {path.template}"] == "admin" and who != ADMIN:
                        assert reply.status == 403, (method, where)


# --- what policies may look at ----------------------------------------------------------------------------------------------


def test_areas_quality_scopes_and_tenants_decide(tmp_path: Path) -> None:
    policies = """
    @id("admins") permit (principal in Role::"admin", action, resource);
    @id("centre") permit (principal == User::"ann", action == Action::"read", resource)
    when { resource.areas.contains("centre") };
    @id("good") permit (principal == User::"bob", action == Action::"read", resource)
    when { resource.attribute == "" || (resource.quality has precision && resource.quality.precision >= 50) };
    @id("scoped") permit (principal == User::"cid", action == Action::"read", resource)
    when { resource.scopes.contains("/Paris") };
    @id("tenant") permit (principal == User::"dan", action == Action::"read", resource) when { resource.tenant == "harbour" };
    """
    access = {"areas": {"centre": "CIRCLE (2.35 48.85, 0.01)"}}
    with town(tmp_path, policies, access=access) as node:
        for tenant in ({}, {"NGSILD_Tenant": "harbour"}):
            for number, (lon, precision, scope) in enumerate(((2.35, 80, "/Paris/Est"), (2.5, 30, "/Lyon"))):
                body = {
                    "id": f"urn:room:{number}",
                    "type": "Room",
                    "scope": scope,
                    "location": {"type": "GeoProperty", "value": {"type": "Point", "coordinates": [lon, 48.85]}},
                    "temperature": {"type": "Property", "value": 20, "precision": {"type": "Property", "value": precision}},
                }
                assert node.ask("POST", "/ngsi-ld/v1/entities", ADMIN, body, **tenant).status == 201
        for user, ids in (("ann", ["urn:room:0"]), ("bob", ["urn:room:0"]), ("cid", ["urn:room:0"]), ("dan", [])):
            who = token(user)
            assert node.ids("/ngsi-ld/v1/entities?type=Room", who) == ids, user
            past = "/ngsi-ld/v1/temporal/entities?type=Room&timerel=after&timeAt=2020-01-01T00:00:00Z&timeproperty=modifiedAt"
            assert node.ids(past, who) == ids, user
        elsewhere = node.ask("GET", "/ngsi-ld/v1/entities?type=Room", token("dan"), NGSILD_Tenant="harbour")
        assert [entity["id"] for entity in elsewhere.data] == ["urn:room:0", "urn:room:1"]


def test_owners_outlive_a_restart(tmp_path: Path) -> None:
    store = {"data": str(tmp_path / "data")}
    with receiver() as (url, got):
        wanted = {"type": "Subscription", "entities": [{"type": "Room"}], "notification": {"endpoint": {"uri": url}}}
        with town(tmp_path, store=store) as node:
            made = node.ask("POST", "/ngsi-ld/v1/subscriptions", TOWN, wanted)
            assert made.status == 201
        with town(tmp_path, store=store) as node:
            assert node.ask("GET", made.headers["location"], TOWN).status == 200
            assert node.ask("GET", made.headers["location"], SENSOR).status == 404
            node.put("urn:room:1", temperature=17.0, occupancy=3)
            (told,) = got.get(timeout=20)["data"]
            assert told["temperature"]["value"] == 20.0
            assert "occupancy" not in told


def test_what_was_there_before_there_were_policies_is_nobodys(tmp_path: Path) -> None:
    from tests.serving import serving, settings_with

    store = {"data": str(tmp_path / "data")}
    with receiver() as (url, got):
        wanted = {"type": "Subscription", "entities": [{"type": "Room"}], "notification": {"endpoint": {"uri": url}}}
        with serving(settings_with(store=store)) as free:
            made = Town(free).ask("POST", "/ngsi-ld/v1/subscriptions", "", wanted)
        with town(tmp_path, store=store) as node:
            assert node.ask("GET", made.headers["location"], TOWN).status == 404
            assert node.ask("GET", made.headers["location"], ADMIN).status == 200
            node.put("urn:room:1", temperature=17.0)
            node.put("urn:room:1", temperature=27.0)
            wanted["notification"]["endpoint"]["uri"] = url  # type: ignore[index]
            assert node.ask("POST", "/ngsi-ld/v1/subscriptions", TOWN, wanted).status == 201
            node.put("urn:room:2", temperature=17.0)
            assert got.get(timeout=20)["data"][0]["id"] == "urn:room:2"  # nothing came before
            assert got.empty()


def test_things_that_belong_to_someone_need_someone(tmp_path: Path) -> None:
    with town(tmp_path, "permit (principal, action, resource);") as node:
        assert node.ask("PUT", "/hanse/v1/clients/x", "", {}).status == 403
        body = {"type": "Snapshot", "snapshotQueries": [{"type": "Query", "entities": [{"type": "Room"}]}]}
        assert node.ask("POST", "/ngsi-ld/v1/snapshots", "", body).status == 403
        assert node.ask("PUT", "/hanse/v1/clients/x", TOWN, {}).status == 204
