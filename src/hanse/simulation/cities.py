"""The large cities of the world, where brokers stand in the `cities` topology.

The data are GeoNames' (CC BY 4.0): all cities with at least 1,000,000 people. The authors of DisGB used another data set
(simplemaps' world cities, whose populations are those of the urban areas), so that a draw with their seed does not give their
brokers.
"""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files

from msgspec import Struct

from hanse.model import Location


class City(Struct, frozen=True):
    id: str
    name: str
    country: str
    location: Location
    population: int


@cache
def load_cities() -> tuple[City, ...]:
    """All cities, the largest first."""
    text = files("hanse.simulation").joinpath("cities.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return tuple(
        City(row["id"], row["name"], row["country"], Location(float(row["lat"]), float(row["lon"])), int(row["population"]))
        for row in rows
    )
