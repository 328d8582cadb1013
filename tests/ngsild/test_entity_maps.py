from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.ngsild.entity_maps import EntityMap, duration_s, expiry, map_id, moment, patched_expiry, represent_map, written
from hanse.ngsild.errors import BadRequestData

NOW = "2026-01-01T00:00:00.000000Z"


def test_a_map_is_shown_with_where_each_entity_is() -> None:
    shown = represent_map(EntityMap(id="urn:m:1", expires_at=NOW, ids=["urn:a:1", "urn:a:2"]))
    assert shown == {
        "id": "urn:m:1",
        "type": "EntityMap",
        "expiresAt": NOW,
        "entityMap": {"urn:a:1": ["@none"], "urn:a:2": ["@none"]},
        "linkedMaps": {},
    }


@pytest.mark.parametrize(
    "reference", ["urn:m:1", "/ngsi-ld/v1/entityMaps/urn:m:1", "http://node.example/ngsi-ld/v1/entityMaps/urn:m:1/"]
)
def test_a_map_is_named_by_id_or_place(reference: str) -> None:
    assert map_id(reference) == "urn:m:1"


def test_a_life_has_a_bound() -> None:
    assert expiry(NOW, 60) == "2026-01-01T00:01:00.000000Z"
    assert expiry(NOW, 1e12) == "2026-01-02T00:00:00.000000Z"
    assert patched_expiry({"expiresAt": "2099-01-01T00:00:00Z", "entityMap": {}}, NOW) == "2026-01-02T00:00:00.000000Z"
    assert patched_expiry({"expiresAt": "2000-01-01T00:00:00Z"}, NOW) == "2000-01-01T00:00:00.000000Z"
    assert patched_expiry({"linkedMaps": {}}, NOW) is None


@pytest.mark.parametrize("body", [[], {"expiresAt": "tomorrow"}, {"expiresAt": None}, {"type": "Entity"}, {"colour": "red"}])
def test_a_fragment_that_makes_no_sense(body: Any) -> None:
    with pytest.raises(BadRequestData):
        patched_expiry(body, NOW)


@pytest.mark.parametrize(
    ("text", "seconds"), [("PT15M", 900), ("P1DT1S", 86_401), ("P2W", 1_209_600), ("PT0.5S", 0.5), ("P1Y", 31_556_952)]
)
def test_durations(text: str, seconds: float) -> None:
    assert duration_s(text, "it") == seconds


@given(st.none() | st.integers() | st.text() | st.from_regex(r"P\d*[YMDT]?\d*[HMS]?"))
def test_what_is_no_duration_or_time_is_refused(value: Any) -> None:
    with contextlib.suppress(BadRequestData):
        assert duration_s(value, "it") >= 0
    try:
        at = moment(value, "it")
    except BadRequestData:
        pass
    else:
        assert moment(written(at), "it") == at


@pytest.mark.parametrize("text", ["P", "PT", "1hour", "bogus", "-PT1S", "P1S", "PT1D"])
def test_what_looks_like_a_duration_only(text: str) -> None:
    with pytest.raises(BadRequestData):
        duration_s(text, "it")
