"""Where clients are: positions in the area of a node, and walks that stay in it.

Areas are those of DisGB: the earth in square fields, each belonging to the node nearest to its centre.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import asin, atan2, cos, degrees, pi, radians, sin
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from hanse.model import EARTH_RADIUS_KM, Circle, InvalidInput, Location

if TYPE_CHECKING:
    from random import Random

    from hanse.routing.federation import Federation

FIELD_DEG = 6.0
FIELD_DEG_MIN = 0.25
KM_PER_DEG = EARTH_RADIUS_KM * pi / 180.0
POINTS_TRIED = 10_000
STEPS_TRIED = 30
ASIDE_DEG = 10.0

Region: TypeAlias = Callable[[float, float], bool]  # latitude, longitude -> whether it is inside


class Fields:
    """The fields of the nodes of a federation. Of nodes equally near to a centre, the first one owns the field."""

    def __init__(self, federation: Federation, field_deg: float = FIELD_DEG) -> None:
        if field_deg < FIELD_DEG_MIN or 180.0 % field_deg:
            raise InvalidInput(f"fields of {field_deg:g} degrees do not divide the globe; take 6, or another divisor of 180")
        self.field_deg = field_deg
        self.rows, self.columns = round(180.0 / field_deg), round(360.0 / field_deg)
        self.ids = federation.ids
        lat = np.radians(-90.0 + field_deg * (np.arange(self.rows) + 0.5))[:, None]
        lon = np.radians(-180.0 + field_deg * (np.arange(self.columns) + 0.5))[None, :]
        nearest = np.full((self.rows, self.columns), np.inf)
        owner = np.zeros((self.rows, self.columns), dtype=np.int64)
        for i, node in enumerate(federation.nodes):
            lat0, lon0 = radians(node.location.lat), radians(node.location.lon)
            h = np.sin((lat - lat0) / 2) ** 2 + np.cos(lat) * cos(lat0) * np.sin((lon - lon0) / 2) ** 2
            closer = h < nearest
            owner[closer] = i
            nearest[closer] = h[closer]
        self._owner: list[list[int]] = owner.tolist()
        self._of_node: dict[str, list[tuple[int, int]]] = {node: [] for node in self.ids}
        for row, owners in enumerate(self._owner):
            for column, i in enumerate(owners):
                self._of_node[self.ids[i]].append((row, column))

    @property
    def all_own_one(self) -> bool:
        return all(self._of_node.values())

    def owner(self, lat: float, lon: float) -> str:
        row = min(int((lat + 90.0) / self.field_deg), self.rows - 1)
        column = int((lon + 180.0) / self.field_deg) % self.columns
        return self.ids[self._owner[row][column]]

    def region(self, node: str) -> Region:
        """The test whether a position is in the area of the node."""
        index, owners = self.ids.index(node), self._owner
        field_deg, last_row, columns = self.field_deg, self.rows - 1, self.columns

        def inside(lat: float, lon: float) -> bool:
            return owners[min(int((lat + 90.0) / field_deg), last_row)][int((lon + 180.0) / field_deg) % columns] == index

        return inside

    def draw(self, node: str, random: Random) -> Location:
        """A position in the area of the node: any of its fields, then any place in the field, as the authors of DisGB do."""
        fields = self._of_node[node]
        if not fields:
            raise InvalidInput(f"node {node} is the nearest one to no field of {self.field_deg:g} degrees; take smaller fields")
        row, column = fields[int(random.random() * len(fields))]
        return Location(
            -90.0 + self.field_deg * (row + random.random()),
            -180.0 + self.field_deg * (column + random.random()),
        )


def haversine_of_km(km: float) -> float:
    """What `half_chord_squared` gives for two points this far apart."""
    return sin(km / EARTH_RADIUS_KM / 2) ** 2


def destination(lat: float, lon: float, km: float, bearing_deg: float) -> tuple[float, float]:
    """Where one comes to along the great circle."""
    phi, angle, bearing = radians(lat), km / EARTH_RADIUS_KM, radians(bearing_deg)
    sin_phi, cos_phi, sin_angle, cos_angle = sin(phi), cos(phi), sin(angle), cos(angle)
    sin_to = max(-1.0, min(1.0, sin_phi * cos_angle + cos_phi * sin_angle * cos(bearing)))
    east = atan2(sin(bearing) * sin_angle * cos_phi, cos_angle - sin_phi * sin_to)
    return degrees(asin(sin_to)), (lon + degrees(east) + 180.0) % 360.0 - 180.0


def step(here: Location, km: float, heading_deg: float, inside: Region, random: Random, *, widening_deg: float = 0.0) -> Location:
    """A step roughly along the heading that stays inside. At an edge it goes ever `widening_deg` more aside, then back."""
    for tried in range(2 * STEPS_TRIED):
        aside_deg = ASIDE_DEG + tried * widening_deg
        bearing = heading_deg + random.uniform(-aside_deg, aside_deg)
        lat, lon = destination(here.lat, here.lon, km, bearing if tried < STEPS_TRIED else bearing + 180.0)
        if inside(lat, lon):
            return Location(lat, lon)
    return here


class Areas:
    """Where the clients of each node may be: in its fields, and in its circle if it has one; without fields, in its circle."""

    def __init__(
        self, federation: Federation, *, field_deg: float | None = FIELD_DEG, circles: Mapping[str, Circle] | None = None
    ) -> None:
        self.circles = dict(circles or {})
        self.fields = None if field_deg is None else Fields(federation, field_deg)
        if self.fields is None and (missing := next((node for node in federation.ids if node not in self.circles), None)):
            raise InvalidInput(f"node {missing} has neither fields nor a circle for its clients; give field_deg or circles")

    def region(self, node: str) -> Region:
        if self.fields is None:
            return self.circles[node].contains
        inside, circle = self.fields.region(node), self.circles.get(node)
        if circle is None:
            return inside
        return lambda lat, lon: inside(lat, lon) and circle.contains(lat, lon)

    def draw(self, node: str, random: Random) -> Location:
        if self.fields is not None and node not in self.circles:
            return self.fields.draw(node, random)
        circle, inside = self.circles[node], self.region(node)
        top = (1.0 - cos(radians(circle.radius_deg))) / 2.0
        for _ in range(POINTS_TRIED):  # uniform by area in the circle
            km = 2.0 * asin((top * random.random()) ** 0.5) * EARTH_RADIUS_KM
            lat, lon = destination(circle.lat, circle.lon, km, 360.0 * random.random())
            if inside(lat, lon):
                return Location(lat, lon)
        raise InvalidInput(
            f"the circle of {circle.radius_deg:g} degrees around {circle.lat:g}, {circle.lon:g} is not in the area of node {node}"
        )
