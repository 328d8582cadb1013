"""What the map draws of what nodes tell: outlines of a bounded number of positions, and no more things than it can draw."""

from __future__ import annotations

from math import cos, radians
from typing import Any

import pytest
import shapely

import hanse
from hanse.dashboard import outlines, places
from hanse.dashboard.places import Held, all_of, areas, held
from tests.serving import serving

SQUARE = [[25.0, 35.0], [25.2, 35.0], [25.2, 35.2], [25.0, 35.2], [25.0, 35.0]]


def shape(rings: list[list[list[float]]]) -> Any:
    return shapely.union_all([shapely.Polygon(ring) for ring in rings])


def test_a_circle_is_as_wide_as_it_is_on_the_earth() -> None:
    (ring,) = outlines.of_outline({"type": "circle", "lat": 60.0, "lon": 25.0, "radius_deg": 1.0})
    west, south, east, north = shapely.LineString(ring).bounds
    assert (south, north) == (59.0, 61.0)
    assert (east - west) / 2 == pytest.approx(1 / cos(radians(60)), rel=0.01)
    assert ring[0] == ring[-1]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"georel": "within", "geometry": "Polygon", "coordinates": [SQUARE]}, [SQUARE]),
        ({"georel": "within", "geometry": "Polygon", "coordinates": str([SQUARE])}, [SQUARE]),
        ({"georel": "intersects", "geometry": "MultiPolygon", "coordinates": [[SQUARE], [SQUARE]]}, [SQUARE, SQUARE]),
        ({"georel": "disjoint", "geometry": "Polygon", "coordinates": [SQUARE]}, []),
        ({"georel": "near;minDistance==5", "geometry": "Point", "coordinates": [25, 35]}, []),
        ({"georel": "within", "geometry": "Polygon", "coordinates": "[[["}, []),
        ({"georel": "within", "geometry": "Polygon", "coordinates": [[["a", 1]]]}, []),
        ({"georel": "within", "geometry": "Polygon", "coordinates": [[[1e999, 1]]]}, []),
        (None, []),
    ],
)
def test_what_a_subscription_asks_for_is_drawn_if_it_is_a_place(asked: Any, found: Any) -> None:
    assert outlines.of_geo_query(asked) == found


def test_near_a_point_is_a_circle_in_metres() -> None:
    (ring,) = outlines.of_geo_query({"georel": "near;maxDistance==1000", "geometry": "Point", "coordinates": [25.0, 35.0]})
    _, south, _, north = shapely.LineString(ring).bounds
    assert (north - south) * outlines.METRES_PER_DEGREE == pytest.approx(2000, rel=0.01)


def test_what_has_too_many_corners_is_drawn_by_what_lies_around_it() -> None:
    fine = shapely.Point(25, 35).buffer(1, quad_segs=1000)
    corners = [list(point) for point in fine.exterior.coords]
    rings = outlines.of_outline({"type": "polygon", "polygons": [[corners]]})
    assert sum(map(len, rings)) <= outlines.POINTS_MAX
    assert shape(rings).buffer(1e-5).contains(fine)


def test_an_outline_has_all_that_a_node_holds() -> None:
    at = [(25.0, 35.0), (25.3, 35.1), (25.1, 35.4)]
    rings = outlines.around(at)
    assert all(shape(rings).contains(shapely.Point(place)) for place in at)
    assert shape(outlines.around(at[:1])).contains(shapely.Point(at[0]))
    assert outlines.around([]) == []


def entity(id_: str, lon: float = 25.1, lat: float = 35.1) -> dict[str, Any]:
    return {"id": id_, "type": "Crane", "load": 3, "location": {"type": "Point", "coordinates": [lon, lat]}}


def test_what_a_node_tells_is_where_it_says() -> None:
    crew = {
        "client": "crew",
        "location": {"lat": 35.0, "lon": 25.0},
        "geofences": {"near": {"type": "polygon", "polygons": [[SQUARE]]}},
    }
    wish = {
        "id": "urn:s:1",
        "subscriptionName": "cranes",
        "geoQ": {"georel": "within", "geometry": "Polygon", "coordinates": [SQUARE]},
    }
    entities = [entity("urn:c:1"), {"id": "urn:c:2", "type": "Crane"}]
    found = held("port", "#123456", entities, [crew, {"client": "nowhere"}], [wish, {"id": "urn:s:2"}])
    assert [(one["id"], one["lon"], one["lat"]) for one in found.things] == [("urn:c:1", 25.1, 35.1)]
    assert [(one["id"], one["lon"], one["lat"], one["node"]) for one in found.clients] == [("crew", 25.0, 35.0, "port")]
    assert [(one["name"], one["rings"]) for one in found.fences] == [("cranes", [SQUARE]), ("near of crew", [SQUARE])]
    assert found.names == {"ngsi-ld/urn:s:1": "cranes", "ngsi-ld/urn:s:2": "urn:s:2"}
    (one,) = all_of([found]).fences  # at the very same place
    assert "cranes" in one["text"]
    assert "near of crew" in one["text"]


def test_only_so_much_is_drawn_and_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "THINGS_DRAWN_MAX", 3)
    parts = [Held([entity(f"urn:c:{i}") for i in range(5)], more=["port has more than 300 things"]), Held()]
    found = all_of(parts)
    assert len(found.things) == 3
    assert found.more == ["port has more than 300 things", "5 things are known; 3 are drawn"]


def test_a_node_that_has_more_than_is_asked_for_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, most in (("THINGS_MAX", 2), ("CLIENTS_MAX", 1), ("SUBSCRIPTIONS_MAX", 1)):
        monkeypatch.setattr(places, name, most)
    with serving() as url, hanse.connect_sync(url) as node:
        node.upsert([entity(f"urn:ngsi-ld:Crane:{i}") | {"load": prop(i), "location": point(i)} for i in range(3)])
        for crew in ("a", "b"):
            node.request("PUT", f"/hanse/v1/clients/{crew}", json={"location": {"lat": 35.0, "lon": 25.0}})
        found = node.run(places.ask(node.node, "port", "#123456"))
        assert [one["id"] for one in found.things] == ["urn:ngsi-ld:Crane:0", "urn:ngsi-ld:Crane:1"]
        assert [one["id"] for one in found.clients] == ["a"]
        assert found.more == [
            "port has more than 2 things; the first 2 are looked at",
            "port has more than 1 clients; the first 1 are looked at",
        ]
    with serving() as url, hanse.connect_sync(f"{url}/elsewhere") as node:  # one that tells nothing
        assert node.run(places.ask(node.node, "port", "#123456")) == Held()


def prop(value: float) -> dict[str, Any]:
    return {"type": "Property", "value": value}


def point(number: int) -> dict[str, Any]:
    return {"type": "GeoProperty", "value": {"type": "Point", "coordinates": [25.0 + number / 10, 35.0]}}


def test_a_node_without_an_area_is_drawn_around_what_it_holds() -> None:
    members: dict[str, dict[str, Any]] = {
        "a": {"location": [25.0, 35.0], "area": {"type": "polygon", "polygons": [[SQUARE]]}},
        "b": {"location": [25.0, 35.0]},
        "c": {"location": [25.0, 35.0]},
    }
    by_node = {name: held(name, "#123456", [entity("urn:c:1", 26.0, 36.0)] if name != "c" else [], [], []) for name in "abc"}
    found = {area["id"]: area for area in areas(members, by_node, dict.fromkeys("abc", "#123456"))}
    assert list(found) == ["b", "a"]  # the larger one first; c holds nothing
    assert (found["a"]["inferred"], found["a"]["rings"]) == (False, [SQUARE])
    assert found["b"]["inferred"] is True
    assert shape(found["b"]["rings"]).contains(shapely.MultiPoint([(25.0, 35.0), (26.0, 36.0)]))
