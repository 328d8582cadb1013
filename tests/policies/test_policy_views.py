"""What is left of a notification, and how exact."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.model import EARTH_RADIUS_KM, Location, Notification, half_chord_squared
from hanse.policies import ANONYMOUS, Obfuscation, PolicySet, obfuscated, view
from hanse.policies.obfuscation import rounded, snapped

LOCATION = "https://uri.etsi.org/ngsi-ld/location"
HERE = {"type": "Point", "coordinates": [2.3522, 48.8566, 35.0]}


def news_of(**members: Any) -> Notification:
    defaults: dict[str, Any] = {
        "id": "1",
        "publisher": "p",
        "types": ("Room",),
        "entity": "urn:room:1",
        "attributes": {"temp": [{"type": "Property", "value": 21.7}], "occupancy": [{"type": "Property", "value": 17}]},
        "news": ("entityUpdated", "attributeUpdated", "temp", "/Paris"),
        "quality": {"temp.precision": 80.0, "occupancy.precision": 30.0, "precision": 30.0, "trust": 90.0},
        "payload": "{}",
    }
    return Notification(**{**defaults, **members})


def seen(policies: str, notification: Notification) -> Notification | None:
    return view(PolicySet.load(policies), ANONYMOUS, "read", notification)


def test_what_may_be_seen_whole_is_the_same_one() -> None:
    whole = news_of(location=Location(48.8, 2.3))
    assert seen("permit (principal, action, resource);", whole) is whole


def test_what_may_not_be_seen_is_gone_with_its_news_quality_and_the_payload() -> None:
    left = seen('permit (principal, action, resource) unless { resource.attribute == "occupancy" };', news_of())
    assert left is not None
    assert set(left.attributes) == {"temp"}
    assert left.payload == ""
    assert left.quality == {"temp.precision": 80.0, "trust": 90.0}  # 30 is what the hidden one has
    assert left.news == news_of().news


def test_a_change_of_what_may_not_be_seen_is_not_told() -> None:
    assert seen('permit (principal, action, resource) unless { resource.attribute == "temp" };', news_of()) is None
    assert seen('permit (principal, action, resource) unless { resource.attribute == "gone" };', news_of(news=("gone",))) is None


def test_a_whole_that_is_forbidden_and_one_of_which_nothing_is_left_are_not_told() -> None:
    forbidden = 'permit (principal, action, resource); forbid (principal, action, resource) when { resource.attribute == "" };'
    assert seen(forbidden, news_of()) is None
    assert seen('permit (principal, action, resource) when { resource.attribute == "other" };', news_of()) is None
    assert seen("", news_of(attributes={}, news=())) is None
    assert seen("permit (principal, action, resource);", news_of(attributes={}, news=())) is not None


def test_an_attribute_that_is_permitted_is_enough_to_see_the_whole() -> None:
    left = seen('permit (principal, action, resource) when { resource.attribute == "temp" };', news_of())
    assert left is not None
    assert set(left.attributes) == {"temp"}


def test_place_is_an_attribute_however_it_is_told() -> None:
    somewhere = news_of(
        attributes={LOCATION: [{"type": "GeoProperty", "value": HERE}], "temp": 3}, location=Location(48.8566, 2.3522)
    )
    left = seen('@obfuscate("coarsen 1000") permit (principal, action, resource);', somewhere)
    assert left is not None
    assert left.location is not None
    value = left.attributes[LOCATION][0]["value"]
    assert value["coordinates"] == [left.location.lon, left.location.lat]
    assert value["coordinates"] != HERE["coordinates"][:2]
    assert left.attributes["temp"] == 3
    hidden = seen('permit (principal, action, resource) unless { resource.attribute == "location" };', somewhere)
    assert hidden is not None
    assert hidden.location is None
    assert LOCATION not in hidden.attributes


def test_quality_of_an_attribute_decides_about_the_attribute() -> None:
    left = seen(
        "permit (principal, action, resource) when { resource.quality has precision && resource.quality.precision >= 50 };",
        news_of(),
    )
    assert left is not None
    assert set(left.attributes) == {"temp"}


def test_topics_count_as_types_where_there_is_none() -> None:
    policies = 'permit (principal, action, resource) when { resource.types.contains("parking") };'
    assert seen(policies, news_of(types=(), topic="parking")) is not None
    assert seen(policies, news_of(topic="parking")) is None


# --- less exact -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "step", "expected"),
    [(17, 10, 20), (14, 10, 10), (0.34, 0.1, 0.3), (-17.2, 5, -15.0), (10**400, 10, 10**400), (3, 0.5, 3)],
)
def test_rounding(number: float, step: float, expected: float) -> None:
    assert rounded(number, step) == expected


@given(st.floats(-1e9, 1e9), st.sampled_from([0.01, 0.5, 1, 7, 10, 1000]))
def test_what_is_rounded_is_near_and_stays(number: float, step: float) -> None:
    once = rounded(number, step)
    assert abs(once - number) <= step / 2 * (1 + 1e-6) + 1e-9
    assert rounded(once, step) == once


def test_everything_in_an_attribute_is_made_less_exact() -> None:
    instances = [
        {
            "type": "Property",
            "value": {"low": 14, "all": [18, True, "19", None]},
            "previousValue": 23,
            "observedAt": "2024-01-01T00:00:00Z",
            "https://x/raw": [{"type": "Property", "value": 17}],
        }
    ]
    assert obfuscated(instances, (Obfuscation("round", 10),)) == [
        {
            "type": "Property",
            "value": {"low": 10, "all": [20, True, "19", None]},
            "previousValue": 20,
            "observedAt": "2024-01-01T00:00:00Z",
            "https://x/raw": [{"type": "Property", "value": 20}],
        }
    ]


@given(st.floats(-180, 180), st.floats(-90, 90), st.sampled_from([1.0, 50.0, 1000.0, 30_000.0, 1_000_000.0]))
def test_a_place_is_moved_to_the_middle_of_its_cell(lon: float, lat: float, metres: float) -> None:
    x, y = snapped(lon, lat, metres)
    Location(y, x)
    from math import asin, sqrt

    moved = 2 * asin(min(1, sqrt(half_chord_squared(lat, lon, y, x)))) * EARTH_RADIUS_KM * 1000
    assert moved <= metres * 1.5
    again = snapped(x, y, metres)
    assert again == pytest.approx((x, y), abs=1e-6)


@given(st.floats(-179, 179), st.floats(-80, 80))
def test_places_in_one_cell_cannot_be_told_apart(lon: float, lat: float) -> None:
    x, y = snapped(lon, lat, 1000)
    for dx, dy in ((0.001, 0.001), (-0.001, 0.002), (0.002, -0.001)):
        assert snapped(x + dx, y + dy, 1000) == (x, y)


@pytest.mark.parametrize("kind", ["LineString", "Polygon", "MultiPolygon", "MultiLineString", "MultiPoint"])
def test_shapes_become_the_cells_that_they_reach_over(kind: str) -> None:
    ring = [[2.3501, 48.8501], [2.3601, 48.8501], [2.3601, 48.8601], [2.3501, 48.8501]]
    nested: Any = {
        "LineString": ring,
        "MultiPoint": ring,
        "Polygon": [ring],
        "MultiLineString": [ring],
        "MultiPolygon": [[ring]],
    }[kind]
    shape = obfuscated({"type": kind, "coordinates": nested, "bbox": [2.3501]}, (Obfuscation("coarsen", 5000),))
    assert shape["type"] == kind
    assert "bbox" not in shape
    assert "2.3501" not in str(shape)
    assert "2.3601" not in str(shape)
    import shapely

    assert shapely.from_geojson(__import__("json").dumps(shape)).is_valid


def test_what_is_no_geometry_but_says_so_does_not_go_out() -> None:
    assert obfuscated({"type": "Point", "coordinates": "2.3501 48.8501"}, (Obfuscation("coarsen", 1000),)) is None


def test_places_of_native_publications() -> None:
    shown = obfuscated({"lat": 48.8566, "lon": 2.3522, "n": 3}, (Obfuscation("coarsen", 1000),))
    assert (shown["lon"], shown["lat"]) == snapped(2.3522, 48.8566, 1000)
