"""What was hidden when it held stays hidden when it is told of later: as a previous value, by a filter, or in the past."""

from __future__ import annotations

from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from tests.node.access.town import ADMIN, TOWN, point, town
from tests.receiving import WAIT_S, receiver

SUBSCRIPTIONS = "/ngsi-ld/v1/subscriptions"
BASE = """
permit (principal in Role::"admin", action, resource);
permit (principal, action, resource);
@id("where it is in the base is secret")
forbid (principal, action == Action::"read", resource)
when { resource.attribute == "location" && resource.areas.contains("base") };
"""
EXACT = """
permit (principal in Role::"admin", action, resource);
@id("what is exact is private")
permit (principal in Community::"town", action == Action::"read", resource)
unless { resource.attribute != "" && resource.quality has precision && resource.quality.precision >= 80 };
"""


def subscription(url: str, **more: Any) -> dict[str, Any]:
    notification = {"endpoint": {"uri": url}, "showChanges": True}
    return {"type": "Subscription", "entities": [{"type": "Room"}], "notification": notification} | more


def test_a_value_before_is_decided_about_by_what_was_before(tmp_path: Path) -> None:
    access = {"areas": {"base": "CIRCLE (2.35 48.85, 0.01)"}}
    with town(tmp_path, BASE, access=access) as node, receiver() as (url, told):
        node.put("urn:room:1", name="a", location=point(2.35, 48.85))
        assert node.ask("POST", SUBSCRIPTIONS, TOWN, subscription(url)).status == 201
        node.put("urn:room:1", name="a", location=point(3.5, 49.5))
        (seen,) = told.get(timeout=WAIT_S)["data"]
        assert seen["location"]["value"]["coordinates"] == [3.5, 49.5]
        assert "previousValue" not in seen["location"]
        node.put("urn:room:1", name="a", location=point(4.5, 49.5))
        (seen,) = told.get(timeout=WAIT_S)["data"]
        assert seen["location"]["previousValue"]["coordinates"] == [3.5, 49.5]


def test_a_filter_that_comes_later_goes_by_what_is_seen(tmp_path: Path) -> None:
    with town(tmp_path) as node, receiver() as (url, told):
        made = node.ask("POST", SUBSCRIPTIONS, TOWN, subscription(url, throttling=2))
        assert made.status == 201, made.data
        node.put("urn:room:1", temperature=17.0, occupancy=5)
        told.get(timeout=WAIT_S)
        node.put("urn:room:1", temperature=47.0, occupancy=5)  # which waits for the end of the interval
        assert node.ask("PATCH", made.headers["location"], TOWN, {"q": "occupancy==5"}).status == 204
        with pytest.raises(Empty):
            told.get(timeout=4)


def test_the_past_of_an_attribute_goes_by_its_own_quality(tmp_path: Path) -> None:
    def value(precision: int) -> dict[str, Any]:
        return {"type": "Property", "value": precision, "precision": {"type": "Property", "value": precision}}

    with town(tmp_path, EXACT) as node:
        entity = {"id": "urn:room:1", "type": "Room", "rough": value(30), "exact": value(90)}
        assert node.ask("POST", "/ngsi-ld/v1/entities", ADMIN, entity).status == 201
        for path in ("entities", "temporal/entities"):
            assert "exact" in node.ask("GET", f"/ngsi-ld/v1/{path}/urn:room:1", ADMIN).data
            seen = node.ask("GET", f"/ngsi-ld/v1/{path}/urn:room:1", TOWN).data
            assert "rough" in seen
            assert "exact" not in seen
        assert "exact" not in str(node.ask("GET", "/hanse/v1/log", TOWN).data)


def test_the_log_of_lives_that_are_over_or_forgotten_is_shown_as_far_as_they_are_known(tmp_path: Path) -> None:
    with town(tmp_path) as node:

        def value(one: dict[str, Any]) -> Any:
            said = one.get("instance", {}).get("value")
            return round(said["coordinates"][0]) if isinstance(said, dict) else said

        def logged() -> list[tuple[str, str, dict[str, Any], int | None]]:
            records = node.ask("GET", "/hanse/v1/log?past=true&places=true", TOWN).data
            return [
                (
                    record["entity"][-1],
                    record["kind"],
                    {one["name"].rpartition("/")[2]: value(one) for one in record["attributes"]},
                    record["location"] and round(record["location"]["coordinates"][0]),
                )
                for record in records
            ]

        node.put("urn:room:1", temperature=11.0, occupancy=1, location=point(2.0, 48.0))
        node.put("urn:room:2", temperature=12.0, location=point(3.0, 48.0))
        assert node.ask("DELETE", "/ngsi-ld/v1/temporal/entities/urn:room:2", ADMIN).status == 204
        node.put("urn:room:2", temperature=23.0, location=point(4.0, 48.0))
        warm = {"temperature": {"type": "Property", "value": 34.0}, "occupancy": {"type": "Property", "value": 2}}
        assert node.ask("POST", "/ngsi-ld/v1/entities/urn:room:2/attrs", ADMIN, warm).status == 204
        forgotten = [
            ("2", "created", {}, None),
            ("2", "updated", {"temperature": 20.0, "location": 4}, 4),
            ("2", "updated", {"temperature": 30.0}, 4),
        ]
        assert logged() == [("1", "created", {"temperature": 10.0, "location": 2}, 2), *forgotten]
        assert node.ask("GET", "/ngsi-ld/v1/temporal/entities/urn:room:2", TOWN).status == 404
        assert node.ask("DELETE", "/ngsi-ld/v1/entities/urn:room:1", ADMIN).status == 204
        ended = ("1", "deleted", {"temperature": None, "location": None}, None)
        assert logged() == [("1", "created", {"temperature": 10.0, "location": 2}, 2), *forgotten, ended]
        node.put("urn:room:1", temperature=55.0)
        lives = [("1", "created", {}, None), ("1", "deleted", {}, None), ("1", "created", {"temperature": 60.0}, None)]
        assert logged() == [lives[0], *forgotten, *lives[1:]]
        assert node.ask("DELETE", "/ngsi-ld/v1/entities/urn:room:2", ADMIN).status == 204
        assert logged() == lives
