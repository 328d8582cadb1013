"""Units, so that a value that is stated in minutes is not taken for seconds.

The codes are those of UN/CEFACT Recommendation 20, which NGSI-LD's `unitCode` has, too. Here are the ones in which quality is
usually stated; between others nothing can be converted.
"""

from __future__ import annotations

from typing import Final

# each code with what it measures, and how many of the first unit of its kind it is
_UNITS: Final[dict[str, tuple[str, float]]] = {
    "SEC": ("time", 1.0),
    "C26": ("time", 0.001),  # millisecond
    "MIN": ("time", 60.0),
    "HUR": ("time", 3_600.0),
    "DAY": ("time", 86_400.0),
    "MTR": ("length", 1.0),
    "MMT": ("length", 0.001),
    "CMT": ("length", 0.01),
    "KMT": ("length", 1_000.0),
    "HTZ": ("frequency", 1.0),
    "KHZ": ("frequency", 1_000.0),
    "P1": ("share", 1.0),  # percent
    "C62": ("share", 100.0),  # one, that is, all of it
}


CODES: Final = tuple(_UNITS)


def converted(value: float, unit_code: str, wanted: str) -> float | None:
    """A number in one unit as a number in another; None if it cannot be said. No unit at all is whichever is wanted."""
    found = factors(unit_code, wanted)
    return None if found is None else value * found[0] / found[1]


def factors(unit_code: str, wanted: str) -> tuple[float, float] | None:
    """What a number in one unit is multiplied and divided by to be one in another; None if it cannot be said."""
    if unit_code == wanted or not unit_code or not wanted:
        return 1.0, 1.0
    kind, factor = _UNITS.get(unit_code, ("", 1.0))
    wanted_kind, wanted_factor = _UNITS.get(wanted, ("none", 1.0))
    if kind != wanted_kind:
        return None
    return (factor / wanted_factor, 1.0) if factor >= wanted_factor else (1.0, wanted_factor / factor)
