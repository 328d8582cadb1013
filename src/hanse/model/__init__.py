"""What travels: frozen values, with no behaviour beyond validation."""

from hanse.model.errors import InvalidInput
from hanse.model.geofence import (
    EARTH_RADIUS_KM,
    WORLD,
    Circle,
    Geofence,
    Location,
    Polygon,
    World,
    geofence_from_geojson,
    geofence_from_wkt,
    half_chord_squared,
)
from hanse.model.payload import Document, check_payload, document_of, parse_xml
from hanse.model.values import BOTTOM, TOP, UNIT, Advertisement, Notification, ScopePath, Selector, Subscription

__all__ = [
    "BOTTOM",
    "EARTH_RADIUS_KM",
    "TOP",
    "UNIT",
    "WORLD",
    "Advertisement",
    "Circle",
    "Document",
    "Geofence",
    "InvalidInput",
    "Location",
    "Notification",
    "Polygon",
    "ScopePath",
    "Selector",
    "Subscription",
    "World",
    "check_payload",
    "document_of",
    "geofence_from_geojson",
    "geofence_from_wkt",
    "half_chord_squared",
    "parse_xml",
]
