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
