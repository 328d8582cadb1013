"""What is asked by a form means the same as curl, Python and MQTT; and what is suggested can be asked."""

from __future__ import annotations

import shlex
import subprocess
import sys
from typing import Any

import pytest

import hanse
from hanse.dashboard.wishes import (
    LEVELS,
    QUALITY_OPERATORS,
    Asked,
    Suggestion,
    Wish,
    as_mqtt,
    data_address,
    listed,
    quality_names,
    query_as_curl,
    query_as_python,
    query_params,
    subscribe_arguments,
    subscription_as_curl,
    subscription_as_python,
    subscription_body,
    suggestions,
)
from hanse.model.errors import InvalidInput
from hanse.quality import default_registry
from tests.serving import serving

FULL = Wish(
    type="Room",
    attrs="temperature, name",
    q='temperature>20;name!="O\'Neil $HOME"',
    quality_q="temperature.precision>=medium",
    georel="near;maxDistance==2000",
    geometry="Point",
    coordinates="[9.9, 53.5]",
)
HERE = Asked("http://127.0.0.1:9090", "port")


def room(id_: str, temperature: int) -> dict[str, Any]:
    measured = {"type": "Property", "value": temperature, "precision": {"type": "Property", "value": 60}}
    place = {"type": "GeoProperty", "value": {"type": "Point", "coordinates": [9.9, 53.5]}}
    return {"id": id_, "type": "Room", "temperature": measured, "name": {"type": "Property", "value": id_}, "location": place}


def test_curl_and_python_find_what_the_form_finds() -> None:
    with serving() as url, hanse.connect_sync(url) as node:
        node.upsert([room("urn:x:cold", 18), room("urn:x:warm", 22)])
        asked = Asked(url, "node")
        form = [one["id"] for one in node.request("GET", "/ngsi-ld/v1/entities", params=query_params(FULL)).data]
        curl = subprocess.run(["bash", "-c", query_as_curl(FULL, asked)], capture_output=True, text=True, check=True)
        python = subprocess.run([sys.executable, "-c", query_as_python(FULL, asked)], capture_output=True, text=True, check=True)
    assert form == ["urn:x:warm"]
    for said in (curl.stdout, python.stdout):
        assert "urn:x:warm" in said
        assert "urn:x:cold" not in said


def test_a_subscription_by_curl_and_python_is_the_one_of_the_form() -> None:
    with serving() as url, hanse.connect_sync(url) as node:
        make = subscription_as_curl(FULL, Asked(url, "node")).split("\n# put")[0]
        subprocess.run(["bash", "-c", make], capture_output=True, check=True)
        with node.subscribe(**subscribe_arguments(FULL)):
            by_curl, by_client = ({**one, "id": "", "notification": {}} for one in node.subscriptions())
    assert by_curl == by_client
    assert by_curl["watchedAttributes"] == ["temperature", "name"]
    assert compile(subscription_as_python(FULL, HERE), "said", "exec")
    assert "node.subscribe(type='Room'" in subscription_as_python(FULL, HERE)


def test_tokens_are_not_told_but_asked_for_and_tenants_are_named() -> None:
    asked = Asked("http://127.0.0.1:9090", "port", tenant="it's", has_token=True)
    for said in (query_as_curl(FULL, asked), subscription_as_curl(FULL, asked), as_mqtt(FULL, asked, "127.0.0.1")):
        assert '-H "Authorization: Bearer $HANSE_TOKEN"' in said
        assert "NGSILD-Tenant: it's" in shlex.split(said, comments=True)
    assert "HANSE_TOKEN" in query_as_python(FULL, asked)
    assert 'tenant="it\'s"' in query_as_python(FULL, asked)


def test_mqtt_has_topics_for_what_topics_can_say_and_a_subscription_for_the_rest() -> None:
    plain = as_mqtt(Wish(type="a/b+c", id="urn:x:1", attrs="load,state"), HERE, "127.0.0.1")
    assert "-t port/entities/-/a%2Fb%2Bc/urn:x:1/load -t port/entities/-/a%2Fb%2Bc/urn:x:1/state" in plain
    assert "curl" not in plain
    assert "port/entities/-/+/+/+" in as_mqtt(Wish(), HERE, "127.0.0.1")
    with_condition = as_mqtt(Wish(type="Room", q="temperature>20"), HERE, "127.0.0.1")
    assert '"q":"temperature>20"' in with_condition
    assert "mqtt://127.0.0.1:1884/mine" in with_condition


def test_coordinates_that_are_no_json_are_named() -> None:
    with pytest.raises(InvalidInput, match="longitude first"):
        subscription_body(Wish(type="Room", georel="within", geometry="Point", coordinates="here"))


def test_only_what_is_filled_in_is_asked_for() -> None:
    assert query_params(Wish(type="Room", geometry="Point", coordinates="[1, 2]")) == {"type": "Room"}
    assert query_params(Wish(is_local=True)) == {"local": "true"}
    assert data_address("urn:x:a b&c", "port") == "/data?id=urn:x:a%20b%26c&node=port"


# --- suggestions ------------------------------------------------------------------------------------------------------


def shown(found: list[Suggestion]) -> list[str]:
    return [one.shown for one in found]


@pytest.mark.parametrize(
    ("typed", "first", "becomes"),
    [
        ("", "humidity", "humidity"),
        ("tem", "temperature", "temperature"),
        ("temperature", "==", "temperature=="),
        ("temperature>20", "; and", "temperature>20;"),
        ("temperature>20;hu", "humidity", "temperature>20;humidity"),
        ("(temperature>20|h", "humidity", "(temperature>20|humidity"),
    ],
)
def test_what_may_come_next_in_a_condition(typed: str, first: str, becomes: str) -> None:
    assert suggestions(typed, ["temperature", "humidity"])[0] == Suggestion(first, becomes)


def test_while_a_value_is_awaited_nothing_is_suggested() -> None:
    assert suggestions("temperature>", ["temperature"]) == []


def test_a_requirement_of_quality_can_be_made_of_suggestions_alone() -> None:
    typed = "te"
    for wanted in ("temperature.precision", ">=", "medium", "; and", "freshness", "<=", "high"):
        names = quality_names(["temperature", "humidity"], default_registry().names, typed)
        found = suggestions(typed, names, QUALITY_OPERATORS, LEVELS)
        assert wanted in shown(found)
        typed = next(one.text for one in found if one.shown == wanted)
    assert typed == "temperature.precision>=medium;freshness<=high"
    with serving() as url, hanse.connect_sync(url) as node:
        assert list(node.query(type="Room", quality_q=typed)) == []  # and not refused


def test_lists_of_names() -> None:
    assert listed("temperature,h", ["humidity", "temperature"]) == [Suggestion("humidity", "temperature,humidity")]
    assert shown(listed("", ["b", "a"])) == ["a", "b"]
    assert len(listed("", [f"n{i}" for i in range(100)])) == 12
