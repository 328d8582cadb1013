"""From a geo-query to a geofence of the core, whose index then finds the queries that a moving entity may satisfy.

The geofence holds every point that satisfies the query, and perhaps some more. What is not at a single point (a line, a polygon,
several instances) has no place that the core could look up; whoever asks for such entities has to ask the queries themselves.
"""

from __future__ import annotations

from math import degrees
from typing import TYPE_CHECKING, Final

from hanse.model import WORLD, Circle, InvalidInput, Location, Polygon, geofence_from_geojson
from hanse.ngsild.entity import DEFAULT_VOCAB, LOCATION, default_instance
from hanse.ngsild.geo import EARTH_RADIUS_M, geo_bounds

if TYPE_CHECKING:
    from hanse.model import Geofence
    from hanse.model.geofence import Ring
    from hanse.ngsild.entity import Attributes
    from hanse.ngsild.geo import Box, GeoQuery

EVENT_GEOFENCE: Final = DEFAULT_VOCAB + "eventGeofence"

_SLACK_DEG: Final = 1e-7  # a centimetre: more than rounding
_WIDEST_DEG: Final = 170.0  # a wider circle is nearly everywhere, and rounding counts for more near its antipode


def geofence_of(geo: GeoQuery) -> Geofence:
    """That no point which satisfies the query lies outside of; the whole world if there is none smaller."""
    if geo.geoproperty != LOCATION:
        return WORLD
    bounds = geo_bounds(geo)
    if bounds is None:
        return WORLD
    point = geo.reference.point
    try:
        if geo.max_distance_m is not None and point is not None:
            radius = degrees(geo.max_distance_m / EARTH_RADIUS_M) * (1 + 1e-9) + _SLACK_DEG
            return Circle(point[1], point[0], radius) if radius < _WIDEST_DEG else WORLD
        return Polygon(tuple((_ring(box),) for box in bounds))
    except InvalidInput:  # boxes that touch, on a sphere that they nearly cover
        return WORLD


def _ring(box: Box) -> Ring:
    """Of at least some extent, with corners never more than half the world apart, which would mean the other way round."""
    west, south = max(-180.0, box[0] - _SLACK_DEG), max(-90.0, box[1] - _SLACK_DEG)
    east, north = min(180.0, box[2] + _SLACK_DEG), min(90.0, box[3] + _SLACK_DEG)
    middle = (west + east) / 2
    return (west, south), (middle, south), (east, south), (east, north), (middle, north), (west, north), (west, south)


def is_at_a_point(attributes: Attributes) -> bool:
    """Whether `place` says all of where an entity is, so that geofences decide; True, too, for one that is nowhere."""
    instances = attributes.get(LOCATION)
    if not instances:
        return True
    value = instances[0].get("value")
    return len(instances) == 1 and "datasetId" not in instances[0] and isinstance(value, dict) and value.get("type") == "Point"


def place(attributes: Attributes) -> Location | None:
    """Where an entity is, if its `location` is a point."""
    instance = default_instance(attributes.get(LOCATION, []))
    value = instance.get("value") if instance is not None else None
    if not isinstance(value, dict) or value.get("type") != "Point":
        return None
    try:
        lon, lat = value["coordinates"][:2]
        return Location(lat, lon)
    except (InvalidInput, LookupError, TypeError, ValueError):  # a Property of the same name may be anything
        return None


def event_geofence(attributes: Attributes) -> Geofence:
    """Where the news of an entity may be heard. Raises InvalidInput if the entity does not say it in a way to understand."""
    instance = default_instance(attributes.get(EVENT_GEOFENCE, []))
    value = instance.get("value") if instance is not None else None
    return geofence_from_geojson(value) if isinstance(value, dict) else WORLD
