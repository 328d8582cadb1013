"""How a value is made less exact on the way out: `remove`, `round 10`, `coarsen 1000`.

`round` changes numbers, to the nearest multiple; `coarsen` changes places, to the middle of a cell of a fixed grid of so many
metres. Each leaves alone what it does not understand: a permit for everything with `coarsen 1000` shows temperatures as they
are. What is changed is changed everywhere in an attribute, sub-attributes and previous values too, so that nothing exact is left
beside it. A value is the same for everyone who sees it so: asking again and again gives nothing more.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from functools import lru_cache
from math import cos, floor, isfinite, radians
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from hanse.model import EARTH_RADIUS_KM, InvalidInput, Location

COARSEST_M: Final = 5_000_000.0
FINEST_M: Final = 1.0
MAX_DEPTH: Final = 64  # of a value inside a value; what is deeper is taken out
_GREATEST: Final = 1e9  # that could be a coordinate
_GEOMETRIES: Final = frozenset({"Point", "MultiPoint", "LineString", "MultiLineString", "Polygon", "MultiPolygon"})
_METRES_PER_DEGREE: Final = radians(1.0) * EARTH_RADIUS_KM * 1000.0
# members of an instance that say something about it, in words: a number by such a name is a value all the same
_KEPT: Final = frozenset(
    {"type", "unitCode", "datasetId", "instanceId", "observedAt", "createdAt", "modifiedAt", "deletedAt", "expiresAt"}
)

Kind: TypeAlias = Literal["remove", "round", "coarsen"]


class Obfuscation(Struct, frozen=True, order=True):
    """One way to make values less exact; `amount` is the step of rounding, or the metres of a cell."""

    kind: Kind
    amount: float = 0.0

    def __str__(self) -> str:
        return self.kind if self.kind == "remove" else f"{self.kind} {self.amount:g}"


@lru_cache(maxsize=1024)
def obfuscation(text: str) -> Obfuscation:
    """What `@obfuscate("…")` says. Raises InvalidInput."""
    kind, _, amount = text.strip().partition(" ")
    if kind == "remove" and not amount:
        return Obfuscation("remove")
    if kind in ("round", "coarsen"):
        try:
            number = float(amount)
        except ValueError:
            number = 0.0
        if isfinite(number) and number > 0:
            if kind == "round":
                return Obfuscation("round", number)
            if FINEST_M <= number <= COARSEST_M:
                return Obfuscation("coarsen", number)
            raise InvalidInput(f"cells of {amount} m: coarsen to between {FINEST_M:g} and {COARSEST_M:g} metres")
    raise InvalidInput(f'{text[:60]!r} is no obfuscation; write "remove", "round 10" or "coarsen 1000" (metres)')


def obfuscated(value: Any, ways: tuple[Obfuscation, ...]) -> Any:
    """The value of an attribute (a list of instances, or any JSON) as it goes out. `remove` is not for here: see `removes`."""
    for way in ways:
        if way.kind == "round":
            value = _rounded_within(value, way.amount, 0)
        elif way.kind == "coarsen":
            value = _coarsened_within(value, way.amount, 0)
    return value


def removes(ways: tuple[Obfuscation, ...]) -> bool:
    return any(way.kind == "remove" for way in ways)


def coarsened_location(location: Location | None, ways: tuple[Obfuscation, ...]) -> Location | None:
    if location is None:
        return None
    lon, lat = location.lon, location.lat
    for way in ways:
        if way.kind == "coarsen":
            lon, lat = snapped(lon, lat, way.amount)
        elif way.kind == "round":
            lon, lat = _clamped(rounded(lon, way.amount), 180.0), _clamped(rounded(lat, way.amount), 90.0)
    return Location(lat, lon)


def _clamped(value: float, most: float) -> float:
    return max(-most, min(most, value))


# --- numbers ------------------------------------------------------------------------------------------------------------


def rounded(number: float, step: float) -> float:
    """The nearest multiple of `step`, exactly as one would write it: 0.3, not 0.30000000000000004."""
    if isinstance(number, float) and not isfinite(number):
        return number
    try:
        exact = Decimal(str(step))
        multiple = (Decimal(str(number)) / exact).quantize(Decimal(1), rounding=ROUND_HALF_EVEN) * exact
    except InvalidOperation:  # more digits than decimals have: far beyond what the step could change
        return number - number % int(step) if isinstance(number, int) and step >= 1 else number
    return int(multiple) if multiple == multiple.to_integral_value() and isinstance(number, int) else float(multiple)


def _rounded_within(value: Any, step: float, depth: int) -> Any:
    if depth > MAX_DEPTH:
        return None
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return rounded(value, step)
    if isinstance(value, dict):
        return {
            name: inner if name in _KEPT and isinstance(inner, str) else _rounded_within(inner, step, depth + 1)
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_rounded_within(inner, step, depth + 1) for inner in value]
    return value


# --- places -------------------------------------------------------------------------------------------------------------


def snapped(lon: float, lat: float, metres: float) -> tuple[float, float]:
    """The middle of the cell that a position is in: the grid has rows of equal height, each cut into equal parts."""
    row, height = _row(lat, metres)
    middle = _clamped((row + 0.5) * height, 90.0)
    width = _width(row, height, metres)
    column = floor(lon / width)
    return _clamped(round((column + 0.5) * width, 7), 180.0), round(middle, 7)


def _row(lat: float, metres: float) -> tuple[int, float]:
    height = metres / _METRES_PER_DEGREE
    return floor(min(lat, 90.0 - 1e-9) / height), height


def _width(row: int, height: float, metres: float) -> float:
    """Of the cells of a row, in degrees, so that they are at least so many metres wide where the row is widest."""
    nearest = 0.0 if row in (-1, 0) else min(abs(row), abs(row + 1)) * height
    along = max(cos(radians(min(nearest, 90.0))), 1e-6)
    parts = max(1, floor(360.0 * along * _METRES_PER_DEGREE / metres))
    return 360.0 / parts


def _cell(lon: float, lat: float, metres: float) -> tuple[float, float, float, float]:
    """West, south, east, north of the cell of a position."""
    row, height = _row(lat, metres)
    width = _width(row, height, metres)
    column = floor(min(lon, 180.0 - 1e-9) / width)
    bounds = column * width, row * height, (column + 1) * width, (row + 1) * height
    west, south, east, north = (round(bound, 7) for bound in bounds)
    return _clamped(west, 180.0), _clamped(south, 90.0), _clamped(east, 180.0), _clamped(north, 90.0)


def _coarsened_within(value: Any, metres: float, depth: int) -> Any:
    if depth > MAX_DEPTH:
        return None
    if isinstance(value, dict):
        if value.get("type") in _GEOMETRIES and "coordinates" in value:
            return _coarsened_geometry(str(value["type"]), value["coordinates"], metres)
        if value.get("type") == "GeometryCollection" and isinstance(value.get("geometries"), list):
            inner_ones = [_coarsened_within(inner, metres, depth + 1) for inner in value["geometries"]]
            return {"type": "GeometryCollection", "geometries": inner_ones}
        inner = {name: _coarsened_within(part, metres, depth + 1) for name, part in value.items() if name != "bbox"}
        return _coarsened_pair(inner, metres)
    if isinstance(value, list | tuple):
        return [_coarsened_within(inner, metres, depth + 1) for inner in value]
    return value


def _coarsened_pair(value: dict[str, Any], metres: float) -> dict[str, Any]:
    """Places that are not GeoJSON, as native publications have them: an object with `lat` and `lon`, by whichever name."""
    for lat, lon in (("lat", "lon"), ("lat", "lng"), ("latitude", "longitude")):
        if _is_number(value.get(lat)) and _is_number(value.get(lon)):
            west, south = snapped(float(value[lon]), float(value[lat]), metres)
            return {**value, lat: south, lon: west}
    return value


def _coarsened_geometry(kind: str, coordinates: Any, metres: float) -> dict[str, Any] | None:
    """Points become the middle of their cell; lines and areas become the cells that they reach over, as one rectangle."""
    found = positions(coordinates)
    if not found:
        return None  # no geometry that anyone could understand: nothing of it goes out
    if kind == "Point":
        return {"type": "Point", "coordinates": list(snapped(*found[0], metres))}
    if kind == "MultiPoint":
        return {"type": "MultiPoint", "coordinates": [list(place) for place in sorted({snapped(*p, metres) for p in found})]}
    cells = [_cell(lon, lat, metres) for lon, lat in found]
    west, south = min(cell[0] for cell in cells), min(cell[1] for cell in cells)
    east, north = max(cell[2] for cell in cells), max(cell[3] for cell in cells)
    if kind.endswith("LineString"):
        line = [[west, south], [east, north]]
        return {"type": kind, "coordinates": line if kind == "LineString" else [line]}
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    return {"type": kind, "coordinates": [ring] if kind == "Polygon" else [[ring]]}


def positions(coordinates: Any, depth: int = 0) -> list[tuple[float, float]]:
    """Every position in nested coordinates, without heights: a height would say more than the place may."""
    if not isinstance(coordinates, list | tuple) or depth > MAX_DEPTH:
        return []
    if len(coordinates) >= 2 and all(map(_is_number, coordinates[:2])):
        lon, lat = float(coordinates[0]), float(coordinates[1])
        return [(lon, lat)] if -180.0 <= lon <= 180.0 and -90.0 <= lat <= 90.0 else []
    return [position for inner in coordinates for position in positions(inner, depth + 1)]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _GREATEST
