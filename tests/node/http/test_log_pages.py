"""The log of changes, in ranges and by what is asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.serving import serving, settings_with

import hanse
from hanse.client.sync import SyncNodeClient

LOG = "/hanse/v1/log"
SHIP = "https://uri.etsi.org/ngsi-ld/default-context/Ship"


def entity(id_: str, type_: str, **attributes: Any) -> dict[str, Any]:
    return {"id": f"urn:{id_}", "type": type_} | attributes


def at(lon: float, lat: float) -> dict[str, Any]:
    return {"type": "GeoProperty", "value": {"type": "Point", "coordinates": [lon, lat]}}


@pytest.fixture(scope="module")
def node() -> Iterator[SyncNodeClient]:
    expected = settings_with(quality={"expected": {"Ship": ["speed", "draught"]}})
    with serving(expected) as url, hanse.connect_sync(url) as client:
        client.create(entity("a", "Ship", location=at(10, 53), speed=1))
        client.create(entity("b", "Ship", location=at(20, 53), speed=1, scope="/port/east"))
        client.create(entity("c", "Crane", load={"type": "Property", "value": 3, "precision": {"type": "Property", "value": 30}}))
        client.update("urn:a", {"speed": {"type": "Property", "value": 2}})
        client.update("urn:b", {"speed": {"type": "Property", "value": 2}})
        client.update("urn:c", {"load": {"type": "Property", "value": 4, "precision": {"type": "Property", "value": 90}}})
        client.update("urn:a", {"location": at(20, 53)})
        client.update("urn:a", {"speed": {"type": "Property", "value": 3}})
        client.delete("urn:b")
        yield client


def asked(node: SyncNodeClient, **params: Any) -> list[int]:
    return [record["offset"] for record in node.request("GET", LOG, params=params).data]


def test_a_range_and_how_far_it_was_read(node: SyncNodeClient) -> None:
    assert asked(node, after=2, upto=4) == [3, 4]
    assert asked(node, after=4, upto=4) == []
    whole = node.request("GET", LOG, params={"after": 2, "upto": 4})
    assert whole.headers["Hanse-Log-Read"] == "4"
    cut = node.request("GET", LOG, params={"after": 2, "upto": 6, "limit": 3})
    assert cut.headers["Hanse-Log-Read"] == "5"
    beyond = node.request("GET", LOG, params={"after": 2, "upto": 1_000})
    assert beyond.headers["Hanse-Log-Read"] == beyond.headers["Hanse-Log-End"] == "9"
    assert "Hanse-Log-Rewound" not in beyond.headers


def test_what_is_not_asked_for_counts_as_read(node: SyncNodeClient) -> None:
    answer = node.request("GET", LOG, params={"type": "Crane", "after": 3, "upto": 5})
    assert answer.data == []
    assert answer.headers["Hanse-Log-Read"] == "5"


def test_a_log_that_is_shorter_than_the_reader_thinks(node: SyncNodeClient) -> None:
    answer = node.request("GET", LOG, params={"after": 100})
    assert answer.headers["Hanse-Log-Rewound"] == "9"
    assert answer.headers["Hanse-Log-Read"] == "100"


def test_by_type(node: SyncNodeClient) -> None:
    assert asked(node, type="Crane") == [3, 6]
    assert asked(node, type="Crane,Ship") == list(range(1, 10))
    assert asked(node, type=SHIP) == [1, 2, 4, 5, 7, 8, 9]
    assert asked(node, type="Nothing") == []


def test_by_attribute_and_of_it_only_that(node: SyncNodeClient) -> None:
    records = node.request("GET", LOG, params={"attrs": "location"}).data
    assert [record["offset"] for record in records] == [1, 2, 7, 9]
    assert {one["name"].rpartition("/")[2] for record in records for one in record["attributes"]} == {"location"}
    assert "instance" not in records[-1]["attributes"][0]  # it was deleted


def test_by_scope(node: SyncNodeClient) -> None:
    assert asked(node, scopeQ="/port/#") == [2, 5, 9]
    assert asked(node, scopeQ="/port") == []


def test_by_area_as_it_was_known_at_the_time(node: SyncNodeClient) -> None:
    east = json.dumps({"type": "Point", "coordinates": [20, 53], "radius": 1000})
    assert asked(node, area=east) == [2, 5, 7, 8]  # 9 says that it has no location any more
    west = json.dumps({"type": "Polygon", "coordinates": [[[9, 52], [11, 52], [11, 54], [9, 54], [9, 52]]]})
    assert asked(node, area=west) == [1, 4]
    assert asked(node, area=west, after=1) == [4]  # known from before the range


def test_by_quality_of_what_has_changed(node: SyncNodeClient) -> None:
    assert asked(node, qualityQ="load.precision>=50") == [6]
    assert asked(node, qualityQ="precision>=low") == [3, 6]
    assert asked(node, qualityQ="completeness>=low") == []  # a record has a part of the entity


def test_by_time(node: SyncNodeClient) -> None:
    times = [record["at"] for record in node.log()]
    assert asked(node, since=times[3], until=times[6]) == [4, 5, 6]


def test_where_entities_are(node: SyncNodeClient) -> None:
    records = node.request("GET", LOG, params={"places": "true"}).data
    assert [(record["location"] or {}).get("coordinates") for record in records] == [
        [10, 53], [20, 53], None, [10, 53], [20, 53], None, [20, 53], [20, 53], None,
    ]  # fmt: skip


def test_where_entities_are_if_only_other_attributes_are_asked_for() -> None:
    with serving() as url, hanse.connect_sync(url) as client:
        client.create(entity("v", "Ship", location=at(1, 50), speed=1))
        client.update("urn:v", {"speed": {"type": "Property", "value": 2}, "location": at(2, 50)})
        client.update("urn:v", {"location": at(3, 50)})
        client.update("urn:v", {"speed": {"type": "Property", "value": 4}})
        client.delete("urn:v")

        def places(**params: Any) -> list[tuple[int, Any]]:
            records = client.request("GET", LOG, params=params | {"places": "true"}).data
            return [(record["offset"], (record["location"] or {}).get("coordinates")) for record in records]

        assert places(attrs="speed") == [(1, [1, 50]), (2, [2, 50]), (4, [3, 50]), (5, None)]
        assert places(attrs="speed", after=2) == [(4, [3, 50]), (5, None)]
        assert places(attrs="location") == [(1, [1, 50]), (2, [2, 50]), (3, [3, 50]), (5, None)]
        there = json.dumps({"type": "Point", "coordinates": [3, 50], "radius": 1000})
        assert asked(client, attrs="speed", area=there) == [4]


def test_a_page_ends_where_it_would_be_too_large(node: SyncNodeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hanse.node.store.log.BLOCK", 2)
    monkeypatch.setattr("hanse.node.store.log.PAGE_BYTES_MAX", 100)
    answer = node.request("GET", LOG, params={"after": 2})
    assert [record["offset"] for record in answer.data] == [3, 4]
    assert answer.headers["Hanse-Log-Read"] == "4"


def test_arrow_and_json_say_the_same(node: SyncNodeClient) -> None:
    import pyarrow as pa

    params = {"places": "true", "scopeQ": "/port/#"}
    said = node.request("GET", LOG, params=params).data
    raw = node.request("GET", LOG, params=params, headers={"Accept": "application/vnd.apache.arrow.stream"}).data
    rows = pa.ipc.open_stream(raw).read_all().to_pylist()
    for row in rows:
        row["attributes"] = json.loads(row["attributes"])
        row["location"] = json.loads(row["location"]) if row["location"] else None
        row["at"] = row["at"].isoformat(timespec="microseconds").replace("+00:00", "Z")
    assert rows == said
    assert len(rows) == 3


@pytest.mark.parametrize(
    "params",
    [{"upto": "x"}, {"area": "x"}, {"area": '{"type":"LineString"}'}, {"qualityQ": "prezision>=3"}, {"since": "now"},
     {"scopeQ": "a//b"}, {"area": "[" * 1500}, {"places": "perhaps"}, {"type": "a(b"}],
)  # fmt: skip
def test_what_cannot_be_asked(node: SyncNodeClient, params: dict[str, str]) -> None:
    with pytest.raises(hanse.NgsiLdClientError) as error:
        node.request("GET", LOG, params=params)
    assert error.value.status == 400
    assert error.value.detail
