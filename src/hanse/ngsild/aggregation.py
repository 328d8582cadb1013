"""Aggregated temporal values (clause 4.5.19): numbers over periods instead of single instances.

The time line is cut into periods of one duration, beginning at an origin: the n-th period goes from origin + n durations to
origin + (n + 1) durations, its end excluded. Months and years are those of the calendar (UTC), always counted from the origin, so
that a 31st does not wear off: from 31 January, monthly periods begin on 28 February, 31 March, 30 April. A duration of nothing,
which is the default, is one period that spans everything asked for. A period without instances is left out.

What a method makes of values: a boolean counts as 0 or 1 and an array as its length, next to numbers; any other value only
counts. Texts have a smallest and a largest one, if a period has no numbers. stddev is the deviation of a sample (divided by
n - 1), as PostgreSQL has it, which other brokers compute it with; of a single value it is 0.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from math import fsum, isfinite, sqrt
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct

from hanse.filters import number_value
from hanse.ngsild.errors import BadRequestData, TooManyResults

Method: TypeAlias = Literal["totalCount", "distinctCount", "sum", "avg", "min", "max", "stddev", "sumsq"]
METHODS: Final[tuple[Method, ...]] = get_args(Method)
PERIODS_MAX: Final = 10_000  # of one attribute in one answer

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST: Final = datetime(1, 1, 1, tzinfo=UTC)
_LAST: Final = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
FIRST_US: Final = (_FIRST - _EPOCH) // _MICROSECOND
LAST_US: Final = (_LAST - _EPOCH) // _MICROSECOND
_SECOND_US: Final = 1_000_000
_DURATION = re.compile(
    r"P(?!$)(?:(?P<weeks>\d{1,6})W|(?:(?P<years>\d{1,6})Y)?(?:(?P<months>\d{1,6})M)?(?:(?P<days>\d{1,6})D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d{1,9})H)?(?:(?P<minutes>\d{1,9})M)?(?:(?P<seconds>\d{1,9}(?:[.,]\d{1,6})?)S)?)?)",
    re.ASCII,
)
_encode = msgspec.json.Encoder(order="sorted").encode


class Duration(Struct, frozen=True):
    """Months of the calendar, and time that is as long everywhere."""

    months: int = 0
    us: int = 0

    def __bool__(self) -> bool:
        return bool(self.months or self.us)


class Aggregation(Struct, frozen=True):
    methods: tuple[Method, ...]
    duration: Duration = Duration()


class Period(Struct, frozen=True):
    """From `start_us` until just before `end_us`."""

    start_us: int
    end_us: int


def parse_duration(text: str) -> Duration:
    """An ISO 8601 duration, P3Y6M4DT12H30M5S or P2W. Raises BadRequestData."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise BadRequestData(f"aggrPeriodDuration {text[:40]!r} is not a duration; write it like PT1H, P1D or P3M")
    part = {name: int(value) for name, value in found.groupdict(default="0").items() if name != "seconds"}
    seconds, _, fraction = (found["seconds"] or "0").replace(",", ".").partition(".")
    days = part["weeks"] * 7 + part["days"]
    minutes = (days * 24 + part["hours"]) * 60 + part["minutes"]
    us = (minutes * 60 + int(seconds)) * _SECOND_US + int(fraction.ljust(6, "0"))
    return Duration(part["years"] * 12 + part["months"], us)


def parse_methods(names: Iterable[str]) -> tuple[Method, ...]:
    """The aggregation methods of these names, each once, in their order. Raises BadRequestData."""
    methods: dict[Method, None] = {}
    for name in names:
        method = next((known for known in METHODS if known == name.strip()), None)
        if method is None:
            raise BadRequestData(f"aggrMethods knows {', '.join(METHODS)}, not {name[:40]!r}")
        methods[method] = None
    if not methods:
        raise BadRequestData(f"aggrMethods is empty; name at least one of {', '.join(METHODS)}")
    return tuple(methods)


def boundary(origin_us: int, duration: Duration, n: int) -> int:
    """Where the n-th period begins; never outside the years 1 to 9999."""
    start_us = _plus_months(origin_us, duration.months * n) if duration.months else origin_us
    return min(max(start_us + duration.us * n, FIRST_US), LAST_US)


def period_number(us: int, origin_us: int, duration: Duration) -> int:
    """Which period a moment from the origin on lies in."""
    if not duration.months:
        return (us - origin_us) // duration.us
    month_us = 2_629_746 * _SECOND_US  # the mean one: a guess, which is then put right
    n = max(0, (us - origin_us) // (duration.months * month_us + duration.us))
    while n > 0 and boundary(origin_us, duration, n) > us:
        n -= 1
    while (after := boundary(origin_us, duration, n + 1)) <= us and after < LAST_US:
        n += 1
    return n


def aggregate(
    instances: Iterable[tuple[int, Any]], aggregation: Aggregation, origin_us: int, end_us: int
) -> dict[Method, list[tuple[Any, Period]]]:
    """The values of each method over all periods that have any. `instances` are moments, in order, and values.

    `end_us` is where the one period of a duration of nothing ends. Raises TooManyResults beyond `PERIODS_MAX` periods.
    """
    found: dict[Method, list[tuple[Any, Period]]] = {method: [] for method in aggregation.methods}
    duration = aggregation.duration
    values: list[Any] = []
    period = Period(origin_us, end_us)
    periods = 0

    def close() -> None:
        for method in aggregation.methods:
            value = aggregated(method, values)
            if value is not None:
                found[method].append((value, period))
        values.clear()

    for us, value in instances:
        if duration and not (values and us < period.end_us):
            if values:
                close()
            if periods == PERIODS_MAX:
                raise TooManyResults(f"there are more than {PERIODS_MAX} periods; ask for longer ones or for less time")
            periods += 1
            n = period_number(us, origin_us, duration)
            period = Period(boundary(origin_us, duration, n), boundary(origin_us, duration, n + 1))
        values.append(value)
    if values:
        close()
    return found


def aggregated(method: Method, values: Sequence[Any]) -> float | int | str | None:
    """One method over the values of one period; None where it says nothing."""
    if method == "totalCount":
        return len(values)
    if method == "distinctCount":
        return len({_identity(value) for value in values})
    numbers = [number for number in map(_number, values) if number is not None]
    if not numbers:
        texts = [value for value in values if isinstance(value, str)]
        if texts and method in ("min", "max"):
            return min(texts) if method == "min" else max(texts)
        return None
    try:
        result = _of_numbers(method, numbers)
    except OverflowError:
        return None
    return result if isfinite(result) else None


def _of_numbers(method: Method, numbers: list[float]) -> float:
    match method:
        case "sum":
            return fsum(numbers)
        case "avg":
            return fsum(numbers) / len(numbers)
        case "min":
            return min(numbers)
        case "max":
            return max(numbers)
        case "sumsq":
            return fsum(number * number for number in numbers)
        case _:
            if len(numbers) == 1:
                return 0.0
            mean = fsum(numbers) / len(numbers)
            return sqrt(fsum((number - mean) ** 2 for number in numbers) / (len(numbers) - 1))


def _number(value: Any) -> float | None:
    if isinstance(value, list):
        return float(len(value))
    if isinstance(value, bool):
        return float(value)
    number = number_value(value)
    return number if number is not None and isfinite(number) else None


def _identity(value: Any) -> Any:
    """What makes values one and the same: 1 and 1.0 are, 1 and true are not."""
    if isinstance(value, bool | str):
        return value.__class__, value
    number = number_value(value)
    return (float, number) if number is not None else (bytes, _encode(value))


def _plus_months(us: int, months: int) -> int:
    start = _EPOCH + timedelta(microseconds=us)
    month = start.year * 12 + start.month - 1 + months
    year = month // 12
    if year > 9999:
        return LAST_US
    if year < 1:
        return FIRST_US
    day = min(start.day, monthrange(year, month % 12 + 1)[1])
    return (start.replace(year=year, month=month % 12 + 1, day=day) - _EPOCH) // _MICROSECOND
