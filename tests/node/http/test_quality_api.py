"""qualityQ over HTTP: in queries, in the past, in subscriptions and in registrations."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.receiving import WAIT_S, receiver
from tests.serving import serving, settings_with

import hanse
from hanse.client import NgsiLdClientError, SyncNodeClient
from hanse.model import InvalidInput
from hanse.node.quality import measure_of
from hanse.node.settings import load

OWN = """
[[criteria]]
id = "90"
name = "calibration"
[[criteria.definitions]]
id = "90.1"
direction = "lower"
levels = { medium = 30, high = 7 }
"""


def prop(value: Any = 1, **members: Any) -> dict[str, Any]:
    return {"type": "Property", "value": value} | members


def room(number: int, **attributes: Any) -> dict[str, Any]:
    return {"id": f"urn:room:{number}", "type": "Room"} | attributes


def ago(seconds: int) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture
def node() -> Iterator[SyncNodeClient]:
    with (
        serving(settings_with(quality={"expected": {"Room": ["temperature", "humidity"]}})) as url,
        hanse.connect_sync(url) as made,
    ):
        yield made


def filled(node: SyncNodeClient) -> None:
    for number in range(10):
        node.create(room(number, temperature=prop(20, precision=prop(10 * number), observedAt=ago(1000 if number < 5 else 0))))
    node.create(room(10, temperature=prop(20)))
    node.create(room(11, temperature=prop(20), humidity=prop(50)))


def ids(found: list[dict[str, Any]]) -> list[int]:
    return [int(entity["id"].rpartition(":")[2]) for entity in found]


def test_a_query_finds_what_is_good_enough_page_by_page(node: SyncNodeClient) -> None:
    filled(node)
    asked: dict[str, Any] = {"type": "Room", "quality_q": "temperature.precision>=40"}
    assert ids(list(node.query(**asked, page=2))) == [4, 5, 6, 7, 8, 9]
    assert node.count(**asked) == 6
    assert ids(list(node.query(**asked, orderBy="id;desc"))) == [9, 8, 7, 6, 5, 4]
    assert ids(list(node.query(**(asked | {"quality_q": "temperature.precision>=high"})))) == [8, 9]
    assert ids(list(node.query(type="Room", quality_q="temperature.precision>=30;freshness<=500"))) == [5, 6, 7, 8, 9]
    assert ids(list(node.query(type="Room", quality_q="completeness>=100"))) == [11]
    assert ids(list(node.query(quality_q="temperature.precision==30"))) == [3]
    body: dict[str, Any] = {"type": "Query", "entities": [{"type": "Room"}], "qualityQ": "temperature.precision<20"}
    assert ids(node.request("POST", "/ngsi-ld/v1/entityOperations/query", json=body).data) == [0, 1]
    made = node.request("GET", "/ngsi-ld/v1/entities", params={"type": "Room", "qualityQ": "precision>80", "entityMap": True})
    assert (made.status, ids(made.data)) == (201, [9])


def test_what_is_not_good_enough_can_be_purged(node: SyncNodeClient) -> None:
    filled(node)
    node.request("DELETE", "/ngsi-ld/v1/entities", params={"type": "Room", "qualityQ": "temperature.precision<50"})
    assert ids(list(node.query(type="Room"))) == [5, 6, 7, 8, 9, 10, 11]


@pytest.mark.parametrize(
    ("wrong", "said"), [("temperature.precison>4", "precision"), ("freshness<", "qualityQ"), ("trust>3|freshness", "';'")]
)
def test_a_wrong_one_is_refused(node: SyncNodeClient, wrong: str, said: str) -> None:
    with pytest.raises(NgsiLdClientError, match=said) as refused:
        node.count(type="Room", quality_q=wrong)
    assert refused.value.status == 400
    subscription = {"type": "Subscription", "entities": [{"type": "Room"}], "qualityQ": wrong}
    with pytest.raises(NgsiLdClientError, match=said):
        node.create_subscription(subscription | {"notification": {"endpoint": {"uri": "http://127.0.0.1:1"}}})


def test_quality_of_the_whole_alone_is_too_much_to_ask(node: SyncNodeClient) -> None:
    with pytest.raises(NgsiLdClientError, match="at least one"):
        node.count(quality_q="precision>4")


def test_the_past_is_as_good_as_its_worst_instance(node: SyncNodeClient) -> None:
    for number, values in enumerate(((50, 60), (30, 60), (60,))):
        node.create(room(number))
        for at, precision in enumerate(values):
            attribute = prop(1, precision=prop(precision), observedAt=f"2026-01-01T00:0{at}:00Z")
            node.append(f"urn:room:{number}", {"temperature": attribute})
    asked: dict[str, Any] = {"type": "Room", "quality_q": "temperature.precision>=40"}
    after: dict[str, Any] = {"timerel": "after", "time_at": "2026-01-01T00:00:00Z"}
    assert ids(list(node.query_temporal(**asked, **after))) == [0, 2]
    assert ids(list(node.query_temporal(**asked, timerel="after", time_at="2026-01-01T00:01:00Z"))) == [0, 1]
    body: dict[str, Any] = {"type": "Query", "entities": [{"type": "Room"}], "qualityQ": "temperature.precision<40"}
    body["temporalQ"] = {"timerel": "after", "timeAt": "2026-01-01T00:00:00Z"}
    assert ids(node.request("POST", "/ngsi-ld/v1/temporal/entityOperations/query", json=body).data) == [1]


def test_a_subscriber_is_told_only_of_what_is_good_enough(node: SyncNodeClient) -> None:
    with receiver() as (uri, got):
        body = {
            "type": "Subscription",
            "entities": [{"type": "Room"}],
            "qualityQ": "temperature.precision>=medium;freshness<=500",
        }
        id_ = node.create_subscription(body | {"notification": {"endpoint": {"uri": uri}}})
        shown = node.request("GET", f"/ngsi-ld/v1/subscriptions/{id_}").data
        assert shown["qualityQ"] == body["qualityQ"]
        filled(node)
        told = [got.get(timeout=WAIT_S)["data"][0]["id"] for _ in range(5)]
        assert sorted(told) == [f"urn:room:{number}" for number in range(5, 10)]
        node.request("PATCH", f"/ngsi-ld/v1/subscriptions/{id_}", json={"qualityQ": "completeness>=100"})
        node.append("urn:room:10", {"pressure": prop()})
        node.append("urn:room:10", {"humidity": prop()})
        node.append("urn:room:3", {"temperature": prop()})
        node.append("urn:room:11", {"humidity": prop()})
        assert {got.get(timeout=WAIT_S)["data"][0]["id"] for _ in range(2)} == {"urn:room:10", "urn:room:11"}
        assert got.empty()


def test_a_stream_is_told_so_as_well(node: SyncNodeClient) -> None:
    with node.subscribe(type="Room", quality_q="temperature.precision>=90", format="simplified") as notifications:
        filled(node)
        assert next(notifications)["data"][0]["id"] == "urn:room:9"


def test_native_clients_are_told_of_it(node: SyncNodeClient) -> None:
    with receiver() as (uri, got):
        node.request("PUT", "/hanse/v1/clients/fire", json={"endpoint": uri})
        temperature = "https://uri.etsi.org/ngsi-ld/default-context/temperature"
        wish = {"quality": f"{temperature}.precision>=90"}
        node.request("PUT", "/hanse/v1/clients/fire/subscriptions/s", json=wish)
        filled(node)
        told = got.get(timeout=WAIT_S)
        assert told["entity"] == "urn:room:9"
        assert told["quality"][f"{temperature}.precision"] == told["quality"]["precision"] == 90
        assert told["quality"]["completeness"] == 50


def test_one_in_time_asks_when_it_is_due(node: SyncNodeClient) -> None:
    filled(node)
    with receiver() as (uri, got):
        body: dict[str, Any] = {
            "type": "Subscription",
            "entities": [{"type": "Room"}],
            "qualityQ": "precision>=90",
            "timeInterval": 0.05,
        }
        node.create_subscription(body | {"notification": {"endpoint": {"uri": uri}}})
        assert ids(got.get(timeout=WAIT_S)["data"]) == [9]


def test_what_a_data_model_requires_makes_an_entity_complete(node: SyncNodeClient) -> None:
    schema = {
        "type": "object",
        "properties": {"type": {"const": "Hall"}, "name": {"type": "string"}, "seats": {"type": "integer"}},
        "required": ["id", "type", "name", "seats"],
    }
    node.create({"id": "urn:hall:1", "type": "Hall", "name": prop("one"), "colour": prop("red")})
    assert node.count(type="Hall", quality_q="completeness") == 0
    node.request("POST", "/hanse/v1/models", json=schema)
    assert node.count(type="Hall", quality_q="completeness==50") == 1
    node.append("urn:hall:1", {"seats": prop(3)})
    assert node.count(type="Hall", quality_q="completeness==100") == 1


# --- registrations ------------------------------------------------------------------------------------------------------

SOURCE = {
    "id": "urn:csr:1",
    "type": "ContextSourceRegistration",
    "information": [{"entities": [{"type": "Car"}]}],
    "endpoint": "http://127.0.0.1:1",
}


def test_a_registration_says_what_it_guarantees(node: SyncNodeClient) -> None:
    where = "/ngsi-ld/v1/csourceRegistrations"
    node.request("POST", where, json=SOURCE | {"qualityQ": "speed.precision>=medium"})
    assert node.request("GET", f"{where}/urn:csr:1").data["qualityQ"] == "speed.precision>=medium"

    def found(asked: str) -> int:
        return len(node.request("GET", where, params={"type": "Car", "qualityQ": asked}).data)

    assert [found(asked) for asked in ("speed.precision>=90", "speed.precision<20", "trust>=high")] == [1, 0, 1]
    node.request("PATCH", f"{where}/urn:csr:1", json={"qualityQ": "speed.precision<=10"})
    assert [found(asked) for asked in ("speed.precision>=90", "speed.precision<20")] == [0, 1]
    node.request("PATCH", f"{where}/urn:csr:1", json={"description": "as it was"})
    assert found("speed.precision>=90") == 0
    node.request("PATCH", f"{where}/urn:csr:1", json={"qualityQ": None})
    assert found("speed.precision>=90") == 1


@pytest.mark.parametrize("wrong", ["precison>3", "", 3, "precision>=50;precision<40"])
def test_a_guarantee_that_nobody_can_keep_is_refused(node: SyncNodeClient, wrong: Any) -> None:
    with pytest.raises(NgsiLdClientError, match="qualityQ"):
        node.request("POST", "/ngsi-ld/v1/csourceRegistrations", json=SOURCE | {"qualityQ": wrong})


def test_who_subscribes_to_registrations_hears_of_those_that_may_be_good_enough(node: SyncNodeClient) -> None:
    with receiver() as (uri, got):
        body: dict[str, Any] = {"type": "Subscription", "entities": [{"type": "Car"}], "qualityQ": "speed.precision>=40"}
        body["notification"] = {"endpoint": {"uri": uri}}
        node.request("POST", "/ngsi-ld/v1/csourceSubscriptions", json=body)
        for number, guarantee in enumerate(("speed.precision<10", "speed.precision>=60")):
            node.request(
                "POST", "/ngsi-ld/v1/csourceRegistrations", json=SOURCE | {"id": f"urn:csr:{number}", "qualityQ": guarantee}
            )
        assert got.get(timeout=WAIT_S)["data"][0]["id"] == "urn:csr:1"


# --- settings -------------------------------------------------------------------------------------------------------------


def test_criteria_of_ones_own_come_from_a_file_beside_the_settings(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(OWN)
    (tmp_path / "node.toml").write_text('[quality]\ncriteria = "own.toml"\n[mqtt]\nembedded = false\n')
    with serving(load(tmp_path / "node.toml", {})) as url, hanse.connect_sync(url) as made:
        made.create(room(1, temperature=prop(20, calibration=prop(10))))
        made.create(room(2, temperature=prop(20, calibration=prop(5))))
        assert ids(list(made.query(type="Room", quality_q="temperature.calibration>=high"))) == [2]


def test_a_file_that_cannot_be_used_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "node.toml").write_text('[quality]\ncriteria = "none.toml"\n')
    with pytest.raises(InvalidInput, match=r"none\.toml"):
        measure_of(load(tmp_path / "node.toml", {}).quality, lambda _: ())
    (tmp_path / "node.toml").write_text('[quality.expected]\n"a b" = ["x"]\n')
    with pytest.raises(InvalidInput, match=r"\[quality\] expected"):
        measure_of(load(tmp_path / "node.toml", {}).quality, lambda _: ())
