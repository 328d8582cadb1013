"""Contracts at a real node: verdicts, who could satisfy a consumer, and what becomes of what is below its guarantee."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.serving import serving, settings_with

import hanse
from hanse.client import SyncNodeClient
from hanse.node.guarantees import ADVERTISEMENTS_MAX, LABELS_MAX, OTHERS, Guarantees
from hanse.node.metrics import METRICS, Metrics
from hanse.routing.messages import Reject

V1 = "/hanse/v1"
REGISTRATION: dict[str, Any] = {
    "id": "urn:ngsi-ld:ContextSourceRegistration:town",
    "type": "ContextSourceRegistration",
    "information": [{"entities": [{"type": "AirQuality"}]}],
    "endpoint": "http://127.0.0.1:9",
    "qualityQ": "NO2.precision>=60",
}
SUBSCRIPTION: dict[str, Any] = {
    "type": "Subscription",
    "entities": [{"type": "AirQuality"}],
    "qualityQ": "NO2.precision>=40",
    "notification": {"endpoint": {"uri": "http://127.0.0.1:9"}},
}


@pytest.fixture(scope="module")
def node() -> Iterator[SyncNodeClient]:
    with serving() as url, hanse.connect_sync(url) as found:
        yield found


def put(node: SyncNodeClient, path: str, body: Any) -> None:
    assert node.request("PUT", f"{V1}{path}", json=body).status == 204


def publish(node: SyncNodeClient, client: str, body: dict[str, Any]) -> Any:
    return node.request("POST", f"{V1}/clients/{client}/notifications", json=body).data


# --- verdicts ---------------------------------------------------------------------------------------------------------


def test_texts_are_checked(node: SyncNodeClient) -> None:
    assert node.check_contract("precision>=60;freshness<=30", "precision>=40")["kind"] == "satisfied"
    verdict = node.check_contract("precision>=40", "precision>=60;freshness<=30")
    assert verdict["kind"] == "possible"
    assert verdict["missing"] == [
        "freshness is not guaranteed; freshness<=30 is required",
        "precision is guaranteed only down to 40; precision>=60 is required",
    ]
    assert verdict["terms"][1] == {
        "indicator": "precision",
        "required": "precision>=60",
        "guaranteed": "precision>=40",
        "kind": "possible",
    }


def test_levels_are_numbers_for_both_sides(node: SyncNodeClient) -> None:
    assert node.check_contract("correctness>=high", "correctness>=medium")["kind"] == "satisfied"
    assert node.check_contract("correctness>=medium", "correctness>=high")["kind"] == "possible"
    assert node.check_contract("freshness>=high", "freshness>=medium")["kind"] == "satisfied"


def test_documents_are_checked_with_what_they_select(node: SyncNodeClient) -> None:
    assert node.check_contract(REGISTRATION, SUBSCRIPTION)["kind"] == "satisfied"
    assert node.check_contract(REGISTRATION, "NO2.precision>=50")["kind"] == "satisfied"
    better = node.check_contract(REGISTRATION, SUBSCRIPTION | {"qualityQ": "NO2.precision>=90"})
    assert better["missing"] == ["NO2.precision is guaranteed only down to 60; NO2.precision>=90 is required"]
    other = node.check_contract(REGISTRATION, SUBSCRIPTION | {"entities": [{"type": "Bus"}]})
    assert other["kind"] == "possible"
    assert "only what is 'Bus' as well is selected" in other["missing"][0]
    native = {"selectors": [{"topic": "north"}], "quality": "precision>=high"}
    assert node.check_contract(native, {"selectors": [{"topic": "north"}], "quality": "precision>=1"})["kind"] == "satisfied"
    assert node.check_contract(native, {"selectors": [{"topic": "south"}]})["kind"] == "impossible"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"guarantee": "precision>=40"}, "say what is guaranteed and what is required"),
        ({"guarantee": "precison>=40", "requirement": ""}, "the guarantee"),
        ({"guarantee": "", "requirement": "freshness>"}, "the requirement"),
        ({"guarantee": 5, "requirement": ""}, "the guarantee"),
        ({"guarantee": SUBSCRIPTION, "requirement": ""}, "a subscription guarantees nothing"),
        ({"guarantee": "", "requirement": REGISTRATION}, "a registration requires nothing"),
        ({"guarantee": {"selectors": 5}, "requirement": ""}, "the guarantee"),
    ],
)
def test_what_is_no_contract_is_refused(node: SyncNodeClient, body: Any, words: str) -> None:
    with pytest.raises(hanse.NgsiLdClientError, match=words) as error:
        node.request("POST", f"{V1}/contracts/check", json=body)
    assert error.value.status == 400


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"limit": "9" * 5000}, "limit is a number from 1 to 1000"),
        ({"limit": "0"}, "limit is a number from 1 to 1000"),
        ({"type": "a," * 999 + "a", "id": "b," * 999 + "b"}, "1000000 pairs of type and id are too many; ask for at most 64"),
    ],
)
def test_what_asks_for_too_much_is_refused(node: SyncNodeClient, params: dict[str, str], words: str) -> None:
    with pytest.raises(hanse.NgsiLdClientError, match=words) as error:
        node.request("GET", f"{V1}/contracts/producers", params=params)
    assert error.value.status == 400


# --- producers --------------------------------------------------------------------------------------------------------


def test_a_consumer_learns_who_could_satisfy_it(node: SyncNodeClient) -> None:
    put(node, "/clients/good", {})
    put(node, "/clients/good/advertisements/a", {"selectors": [{"type": "AirQuality"}], "quality": "NO2.precision>=high"})
    put(node, "/clients/bad", {})
    put(node, "/clients/bad/advertisements/a", {"selectors": [{"type": "AirQuality"}], "quality": "NO2.precision<=10"})
    put(node, "/clients/silent", {})
    put(node, "/clients/silent/advertisements/a", {"selectors": [{"type": "AirQuality"}]})
    put(node, "/clients/silent/advertisements/over", {"selectors": [{"type": "AirQuality"}], "expires_at_ms": 1})
    put(node, "/clients/silent/advertisements/buses", {"selectors": [{"type": "Bus"}]})
    assert node.request("POST", "/ngsi-ld/v1/csourceRegistrations", json=REGISTRATION).status == 201
    found = node.producers(type="AirQuality", quality="NO2.precision>=40")
    assert [(one["producer"], one["kind"], one["verdict"]) for one in found] == [
        ("good", "client", "satisfied"),
        (REGISTRATION["id"], "registration", "satisfied"),
        ("silent", "client", "possible"),
        ("bad", "client", "impossible"),
    ]
    assert [one["missing"] for one in found[:2]] == [[], []]
    assert found[2]["missing"] == ["NO2.precision is not guaranteed; NO2.precision>=40 is required"]
    assert (found[1]["guarantee"], found[1]["selectors"]) == ("NO2.precision>=60", [{"type": "AirQuality"}])
    # a subscription of NGSI-LD selects by URI, so a native client's own type is none that it knows
    assert [one["producer"] for one in node.producers(SUBSCRIPTION)] == [REGISTRATION["id"]]
    natively = {"selectors": [{"type": "AirQuality"}], "quality": "NO2.precision>=40"}
    assert [one["producer"] for one in node.producers(natively)] == ["good", "silent", "bad"]
    assert [one["producer"] for one in node.producers(type="AirQuality", limit=1)] == ["bad"]
    assert {one["advertisement"] for one in node.producers(type="Bus,Tram")} == {"buses"}
    for wrong in ({"limit": 0}, {"quality": "nonsense>1"}):
        with pytest.raises(hanse.NgsiLdClientError):
            node.producers(type="AirQuality", **wrong)


# --- guarantees -------------------------------------------------------------------------------------------------------


def test_what_is_below_its_guarantee_is_told_counted_and_not_forwarded(node: SyncNodeClient) -> None:
    put(node, "/clients/reader", {})
    put(node, "/clients/reader/subscriptions/s", {"selectors": [{"type": "Meter"}]})
    put(node, "/clients/meter", {})
    put(node, "/clients/meter/advertisements/a", {"selectors": [{"type": "Meter"}], "quality": "precision>=40"})
    place = f"{V1}/clients/meter/advertisements/a"
    assert node.request("GET", place).data["below_guarantee"] == 0
    good = {"types": ["Meter"], "advertisement": "a", "quality": {"precision": 50}}
    assert publish(node, "meter", good)["heard"] == 1
    for quality, words in (({"precision": 30}, "precision is 30"), ({}, "precision is missing")):
        with pytest.raises(hanse.NgsiLdClientError) as error:
            publish(node, "meter", good | {"quality": quality})
        assert error.value.status == 400
        assert f"advertisement 'a': {words}, and precision>=40 is guaranteed" in str(error.value)
    with pytest.raises(hanse.NgsiLdClientError, match="does not match"):
        publish(node, "meter", good | {"types": ["Other"]})  # no matter of quality
    shown = node.request("GET", place).data
    assert shown["below_guarantee"] == 2
    assert "precision is missing" in shown["last_below_guarantee"]
    assert node.request("GET", f"{V1}/clients/meter").data["advertisements"]["a"]["below_guarantee"] == 2
    assert b'hanse_below_guarantee_total{kind="meter/a"} 2.0' in METRICS.text()
    assert node.request("DELETE", place).status == 204
    put(node, "/clients/meter/advertisements/a", {"quality": "precision>=40"})
    assert node.request("GET", place).data["below_guarantee"] == 0  # it is another one
    with pytest.raises(hanse.NgsiLdClientError) as error:
        node.request("GET", f"{V1}/clients/meter/advertisements/none")
    assert error.value.status == 404


def test_counters_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = Metrics()
    monkeypatch.setattr("hanse.node.guarantees.METRICS", metrics)
    kept = Guarantees()
    for number in range(ADVERTISEMENTS_MAX + 1):
        kept.broken(Reject("many", "because", "n", str(number)), is_told=True)
    assert kept.failures("many", "0").number == 0
    assert kept.failures("many", str(ADVERTISEMENTS_MAX)).number == 1
    assert kept.bounds() == {"advertisements_below_guarantee": (ADVERTISEMENTS_MAX, ADVERTISEMENTS_MAX)}
    named = [kind for name, kind in metrics._counts if name == "below_guarantee"]
    assert len(named) == LABELS_MAX + 1
    assert metrics._counts["below_guarantee", OTHERS] == ADVERTISEMENTS_MAX + 1 - LABELS_MAX
    kept.forget_client("many")
    assert kept.bounds()["advertisements_below_guarantee"][0] == 0


def test_a_guarantee_that_nothing_keeps_is_refused(node: SyncNodeClient) -> None:
    put(node, "/clients/liar", {})
    with pytest.raises(hanse.NgsiLdClientError, match="contradicts itself"):
        put(node, "/clients/liar/advertisements/a", {"quality": "precision>=40;precision<=30"})


def test_levels_mean_numbers_and_are_shown_as_written(tmp_path: Path) -> None:
    settings = settings_with(store={"data": str(tmp_path)})
    with serving(settings) as url, hanse.connect_sync(url) as node:
        put(node, "/clients/c", {})
        put(node, "/clients/c/subscriptions/s", {"quality": "correctness>=medium"})
        put(node, "/clients/c/subscriptions/plain", {"quality": "correctness>=1"})
        put(node, "/clients/c/advertisements/a", {"quality": "correctness>=high"})
        with pytest.raises(hanse.NgsiLdClientError, match="correctness"):  # named as near
            put(node, "/clients/c/subscriptions/wrong", {"quality": "corectness>=medium"})
    with serving(settings) as url, hanse.connect_sync(url) as node:
        shown = node.request("GET", f"{V1}/clients/c").data
        medium = shown["subscriptions"]["s"]
        assert medium["quality"] == "correctness>=medium"
        assert medium["quality_means"].startswith("correctness>=")
        assert "quality_means" not in shown["subscriptions"]["plain"]
        high = shown["advertisements"]["a"]
        assert high["quality"] == "correctness>=high"
        limit = float(medium["quality_means"].removeprefix("correctness>="))
        put(node, "/clients/p", {})
        assert publish(node, "p", {"quality": {"correctness": limit - 1}})["heard"] == 1  # only the plain one
        assert publish(node, "p", {"quality": {"correctness": limit}})["heard"] == 2
        put(node, "/clients/c/subscriptions/s", {"quality": "correctness>=2"})
        assert node.request("DELETE", f"{V1}/clients/c/advertisements/a").status == 204
        put(node, "/clients/c/advertisements/a", {"quality": "correctness>=3"})
        shown = node.request("GET", f"{V1}/clients/c").data
        assert (shown["subscriptions"]["s"]["quality"], shown["advertisements"]["a"]["quality"]) == (
            "correctness>=2",
            "correctness>=3",
        )
