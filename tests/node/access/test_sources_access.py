"""Other context sources: what they have is seen by the policies here, and what is sent to them may be published."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.node.access.town import ADMIN, SENSOR, TOWN, Town, town
from tests.serving import serving

ENTITIES = "/ngsi-ld/v1/entities"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Town, Town]]:
    """One with policies, and a source that has none and is registered there."""
    with serving() as url, town(tmp_path_factory.mktemp("town")) as node:
        source = Town(url)
        for number, (temperature, occupancy) in enumerate(((17.0, 9), (44.0, 1))):
            body = {
                "id": f"urn:room:far{number}",
                "type": "Room",
                "temperature": {"type": "Property", "value": temperature, "observedAt": "2024-01-01T00:00:00Z"},
                "occupancy": {"type": "Property", "value": occupancy},
            }
            assert source.ask("POST", ENTITIES, "", body).status == 201
        body = {"id": "urn:car:far", "type": "Car", "speed": {"type": "Property", "value": 3}}
        assert source.ask("POST", ENTITIES, "", body).status == 201
        registration: dict[str, Any] = {
            "type": "ContextSourceRegistration",
            "information": [{"entities": [{"type": "Room"}, {"type": "Car"}]}],
            "endpoint": url,
            "operations": ["federationOps", "redirectionOps", "retrieveTemporal", "queryTemporal"],
        }
        made = node.ask("POST", "/ngsi-ld/v1/csourceRegistrations", ADMIN, registration)
        assert made.status == 201, made.data
        yield node, source


def test_what_sources_have_is_seen_by_the_policies_here(nodes: tuple[Town, Town]) -> None:
    node, _ = nodes
    room = node.ask("GET", f"{ENTITIES}/urn:room:far0", TOWN)
    assert room.status == 200, room.data
    assert room.data["temperature"]["value"] == 20.0
    assert "occupancy" not in room.data
    assert node.ask("GET", f"{ENTITIES}/urn:car:far", TOWN).status == 404
    assert node.ask("GET", f"{ENTITIES}/urn:room:far0", ADMIN).data["occupancy"]["value"] == 9
    assert set(node.ids(f"{ENTITIES}?type=Room", TOWN)) == {"urn:room:far0", "urn:room:far1"}
    assert node.ids(f"{ENTITIES}?type=Car", TOWN) == []


@pytest.mark.parametrize(
    ("q", "ids"),
    [
        ("occupancy>5", []),
        ("temperature==20", ["urn:room:far0"]),
        ("temperature==17", []),
        ("!occupancy", ["urn:room:far0", "urn:room:far1"]),
    ],
)
def test_filters_go_by_what_is_seen(nodes: tuple[Town, Town], q: str, ids: list[str]) -> None:
    node, _ = nodes
    answer = node.ask("GET", f"{ENTITIES}?type=Room&q={q}&count=true", TOWN)
    assert [entity["id"] for entity in answer.data] == ids
    assert answer.headers["ngsild-results-count"] == str(len(ids))


def test_the_past_and_the_kinds_of_things_elsewhere(nodes: tuple[Town, Town]) -> None:
    node, _ = nodes
    past = node.ask("GET", "/ngsi-ld/v1/temporal/entities/urn:room:far0", TOWN)
    assert past.status == 200, past.data
    assert "occupancy" not in past.data
    assert "17.0" not in json.dumps(past.data["temperature"])
    assert node.ask("GET", "/ngsi-ld/v1/temporal/entities/urn:car:far", TOWN).status == 404
    assert node.ask("GET", "/ngsi-ld/v1/types", TOWN).data["typeList"] == ["Room"]
    assert "speed" not in node.ask("GET", "/ngsi-ld/v1/attributes", TOWN).data["attributeList"]
    assert "occupancy" not in node.ask("GET", "/ngsi-ld/v1/attributes", TOWN).data["attributeList"]


def test_what_is_sent_to_sources_may_be_published(nodes: tuple[Town, Town]) -> None:
    node, source = nodes

    def there() -> Any:
        return source.ask("GET", f"{ENTITIES}/urn:room:far1").data

    before = there()
    for method, path, body in (
        ("PATCH", f"{ENTITIES}/urn:room:far1/attrs", {"temperature": {"type": "Property", "value": 1}}),
        ("DELETE", f"{ENTITIES}/urn:room:far1?type=Room", None),
        ("DELETE", f"{ENTITIES}?type=Room", None),
    ):
        node.ask(method, path, TOWN, body)
        assert there() == before
    batch = [{"id": "urn:room:far1", "type": "Room", "temperature": {"type": "Property", "value": 1}}]
    refused = node.ask("POST", "/ngsi-ld/v1/entityOperations/update", TOWN, batch)
    assert refused.status == 207
    assert refused.data["errors"][0]["error"]["status"] == 403
    assert there() == before
    mixed = {"type": "Room", "temperature": {"type": "Property", "value": 1}, "occupancy": {"type": "Property", "value": 1}}
    assert node.ask("POST", f"{ENTITIES}/urn:room:far1/attrs", SENSOR, mixed).status == 403
    assert there() == before
    warm = {"type": "Room", "temperature": {"type": "Property", "value": 30}}
    assert node.ask("POST", f"{ENTITIES}/urn:room:far1/attrs", SENSOR, warm).status in (204, 207)
    assert there()["temperature"]["value"] == 30
