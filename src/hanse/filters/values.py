"""What a filter takes a value to be: one notion, shared by the closures here and by any index that holds atoms.

Numbers are IEEE doubles: an int is compared as the double nearest to it, so that a scan over a numpy array and a closure in
Python give the same answer. Booleans are not numbers. NaN is no value at all, like null. Dates and dateTimes are instants: a
date stands for its first instant, and a missing zone for UTC, so `2017-12-24` equals `2017-12-24T01:00:00+01:00`. Times of day
are of a kind of their own.

The filter's value says which kind is meant. One that reads as a moment is one, quoted or not, and a text of the event is
compared with it only if it reads as a moment too; any other quoted value is a text, to which every text of the event compares.
"""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache
from math import inf
from typing import Any, Final, Literal, TypeAlias

Kind: TypeAlias = Literal["number", "text", "instant", "time", "boolean"]

_ZONE = r"(?:Z|[+-][0-9]{2}:?[0-9]{2})"
NUMBER_PATTERN: Final = r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
DATE_PATTERN: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
# ETSI allows a decimal comma; in a filter a comma also parts values, so it needs the zone behind it to be a fraction
TIME_PATTERN: Final = rf"[0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(?:\.[0-9]{{1,9}}|,[0-9]{{1,9}}(?={_ZONE}))?{_ZONE}?"
DATETIME_PATTERN: Final = f"{DATE_PATTERN}T{TIME_PATTERN}"

_TEMPORAL = re.compile(f"(?:({DATE_PATTERN})(?:T({TIME_PATTERN}))?|({TIME_PATTERN}))")
_TEMPORAL_LENGTH_MIN = len("12:00:00")
_TEMPORAL_LENGTH_MAX = len("2017-12-24T12:00:00.123456789+01:00")
_TEMPORAL_CACHE_SIZE = 1 << 16
_SECOND_NS = 1_000_000_000
_DAY_NS = 86_400 * _SECOND_NS


def number_value(value: Any) -> float | None:
    """The double that a value is compared as, or None if it is not a number."""
    if value.__class__ is float:
        return value if value == value else None  # noqa: PLR0124
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # an int beyond the doubles still has its place in the order
        return inf if value > 0 else -inf
    return number if number == number else None  # noqa: PLR0124


def text_value(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def temporal_value(text: str) -> tuple[Literal["instant", "time"], int] | None:
    """Which kind of moment a text names, and when, in nanoseconds; None if it names none."""
    if _TEMPORAL_LENGTH_MIN <= len(text) <= _TEMPORAL_LENGTH_MAX and text[2] in "0123456789:":
        return _temporal(text)
    return None


@lru_cache(maxsize=_TEMPORAL_CACHE_SIZE)  # one event's timestamp is met by many filters
def _temporal(text: str) -> tuple[Literal["instant", "time"], int] | None:
    found = _TEMPORAL.fullmatch(text)
    if found is None:
        return None
    day, clock, alone = found.groups()
    time_ns = _time_ns(clock or alone) if clock or alone else 0
    if time_ns is None:
        return None
    if alone:
        return "time", time_ns % _DAY_NS
    try:
        return "instant", date.fromisoformat(day).toordinal() * _DAY_NS + time_ns
    except ValueError:
        return None


def _time_ns(text: str) -> int | None:
    hour, minute, second = int(text[0:2]), int(text[3:5]), int(text[6:8])
    if hour > 23 or minute > 59 or second > 60:  # 60: a leap second
        return None
    rest = text[8:]
    fraction = ""
    if rest[:1] in (".", ","):
        end = 1
        while end < len(rest) and rest[end].isdigit():
            end += 1
        fraction, rest = rest[1:end], rest[end:]
    offset_min = 0
    if rest and rest != "Z":
        offset_hour, offset_minute = int(rest[1:3]), int(rest[-2:])
        if offset_hour > 23 or offset_minute > 59:
            return None
        offset_min = (offset_hour * 60 + offset_minute) * (-1 if rest[0] == "-" else 1)
    return ((hour * 60 + minute - offset_min) * 60 + second) * _SECOND_NS + int(fraction.ljust(9, "0"))
