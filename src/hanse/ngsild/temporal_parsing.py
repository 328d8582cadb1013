"""What a request asks of the past: from parameters, or the temporalQ of a query by POST, to a TemporalQuery.

The bounds are those of clause 4.11: before is exclusive, after inclusive, between inclusive at its lower and exclusive at its
upper end. So an interval is [from, until), and either side may be open.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, Literal, TypeAlias, get_args

from msgspec import Struct

from hanse.filters import temporal_value
from hanse.filters.values import DATETIME_PATTERN
from hanse.ngsild.aggregation import Aggregation, Duration, parse_duration, parse_methods
from hanse.ngsild.entity import Instance
from hanse.ngsild.errors import BadRequestData, InvalidRequest
from hanse.ngsild.limits import INSTANCES_MAX, TYPES_MAX
from hanse.ngsild.values import check_date_time, check_scope

Timerel: TypeAlias = Literal["before", "after", "between"]
TimeProperty: TypeAlias = Literal["observedAt", "createdAt", "modifiedAt", "deletedAt"]
Format: TypeAlias = Literal["normalized", "concise", "temporalValues", "aggregatedValues"]

LAST_N_MAX: Final = 1_000_000_000
TEMPORAL_PARAMS: Final = ("timerel", "timeAt", "endTimeAt", "timeproperty", "lastN", "aggrMethods", "aggrPeriodDuration")
TEMPORAL_VIEW_PARAMS: Final = ("options", "format")

_TIMERELS: Final = get_args(Timerel)
_TIME_PROPERTIES: Final = get_args(TimeProperty)
_FORMATS: Final[dict[str, Format]] = {
    "normalized": "normalized",
    "concise": "concise",
    "simplified": "temporalValues",
    "keyValues": "temporalValues",
    "temporalValues": "temporalValues",
    "aggregatedValues": "aggregatedValues",
}
_SYS_ATTRS: Final = "sysAttrs"
_COUNT: Final = "count"  # the old way to ask for it
_DATETIME: Final = re.compile(DATETIME_PATTERN)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_NS: Final = date(1970, 1, 1).toordinal() * 86_400 * 1_000_000_000


class TemporalQuery(Struct, frozen=True, kw_only=True):
    """Which instances are asked for, and in which form."""

    timerel: Timerel | None = None
    from_us: int | None = None  # included
    until_us: int | None = None  # excluded
    # None: nothing is said about time at all. Then an instance has its place by observedAt, or by modifiedAt if it has none.
    timeproperty: TimeProperty | None = None
    last_n: int | None = None
    aggregation: Aggregation | None = None  # given if the format is aggregatedValues
    format: Format = "normalized"
    sys_attrs: bool = False


def parse_temporal(params: Mapping[str, str], *, timerel_required: bool = False) -> TemporalQuery:
    """From the parameters of a URL. Raises BadRequestData, and InvalidRequest for options and formats that do not exist."""
    form, sys_attrs = parse_temporal_format(params)
    return _query({name: params[name] for name in TEMPORAL_PARAMS if name in params}, form, sys_attrs, timerel_required)


def parse_temporal_body(body: Mapping[str, Any], params: Mapping[str, str]) -> TemporalQuery:
    """From the temporalQ and aggrParams of a query by POST; the parameters of its URL say the form only."""
    asked = body.get("temporalQ")
    if asked is None:
        raise BadRequestData("a query of the past has a temporalQ, which has a timerel and a timeAt")
    if not isinstance(asked, dict):
        raise BadRequestData("temporalQ is an object with timerel, timeAt, ...")
    unknown = next((name for name in asked if name not in TEMPORAL_PARAMS), None)
    if unknown is not None:
        raise BadRequestData(f"temporalQ has no member {unknown[:40]!r}; it knows {', '.join(TEMPORAL_PARAMS)}")
    given = dict(asked)
    aggregation = body.get("aggrParams")
    if aggregation is not None:
        if not isinstance(aggregation, dict) or not aggregation.keys() <= {"aggrMethods", "aggrPeriodDuration"}:
            raise BadRequestData("aggrParams is an object with aggrMethods and aggrPeriodDuration")
        given |= aggregation
    form, sys_attrs = parse_temporal_format(params)
    if "aggrMethods" in given and form == "normalized":
        form = "aggregatedValues"  # in a body it can mean nothing else
    return _query(given, form, sys_attrs, timerel_required=True)


def parse_temporal_format(params: Mapping[str, str]) -> tuple[Format, bool]:
    """How instances are shown, and whether with the times that the node sets. `format` wins over `options`."""
    form: Format = "normalized"
    sys_attrs = False
    for option in params.get("options", "").split(","):
        name = option.strip()
        if name == _SYS_ATTRS:
            sys_attrs = True
        elif name == _COUNT:
            continue
        elif name in _FORMATS:
            form = _FORMATS[name]
        elif name:
            raise InvalidRequest(f"there is no option {name[:40]!r}; use {_SYS_ATTRS}, {', '.join(_FORMATS)}")
    if "format" in params:
        name = params["format"].strip()
        if name not in _FORMATS:
            raise InvalidRequest(f"there is no format {name[:40]!r}; use one of {', '.join(_FORMATS)}")
        form = _FORMATS[name]
    return form, sys_attrs


def _query(given: Mapping[str, Any], form: Format, sys_attrs: bool, timerel_required: bool) -> TemporalQuery:
    timerel = _timerel(given, timerel_required)
    start = _moment(given, "timeAt") if timerel else None
    from_us, until_us = (None, start) if timerel == "before" else (start, None)
    if timerel == "between":
        until_us = _moment(given, "endTimeAt")
        assert start is not None
        if until_us <= start:
            raise BadRequestData("endTimeAt is not after timeAt; swap them")
    name = given.get("timeproperty")
    timeproperty: TimeProperty | None = next((known for known in _TIME_PROPERTIES if known == name), None)
    if timeproperty is None and name is not None:
        raise BadRequestData(f"timeproperty is one of {', '.join(_TIME_PROPERTIES)}, not {str(name)[:40]!r}")
    if timeproperty is None and timerel is not None:
        timeproperty = "observedAt"
    return TemporalQuery(
        timerel=timerel,
        from_us=from_us,
        until_us=until_us,
        timeproperty=timeproperty,
        last_n=_last_n(given.get("lastN")),
        aggregation=_aggregation(given, form),
        format=form,
        sys_attrs=sys_attrs,
    )


def _timerel(given: Mapping[str, Any], required: bool) -> Timerel | None:
    name = given.get("timerel")
    if name is None:
        if required:
            raise BadRequestData("a query of the past needs a timerel: before, after or between")
        useless = next((other for other in ("timeAt", "endTimeAt") if other in given), None)
        if useless is not None:
            raise BadRequestData(f"{useless} says nothing without a timerel: before, after or between")
        return None
    timerel: Timerel | None = next((known for known in _TIMERELS if known == name), None)
    if timerel is None:
        raise BadRequestData(f"timerel is one of {', '.join(_TIMERELS)}, not {str(name)[:40]!r}")
    return timerel


def _moment(given: Mapping[str, Any], name: str) -> int:
    text = given.get(name)
    if not text:
        raise BadRequestData(f"timerel {given['timerel']} needs {name}, a dateTime like 2020-08-01T12:00:00Z")
    moment = to_us(text) if isinstance(text, str) and _DATETIME.fullmatch(text) else None
    if moment is None:
        raise BadRequestData(f"{name} is not a dateTime like 2020-08-01T12:00:00Z: {str(text)[:40]!r}")
    return moment


def _last_n(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 10:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= LAST_N_MAX:
        raise BadRequestData(f"lastN is a whole number from 1 on, not {str(value)[:40]!r}")
    return value


def _aggregation(given: Mapping[str, Any], form: Format) -> Aggregation | None:
    methods = given.get("aggrMethods")
    names = methods.split(",") if isinstance(methods, str) else methods
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise BadRequestData("aggrMethods is a list of names of methods")
    written = given.get("aggrPeriodDuration")
    if written is not None and not isinstance(written, str):
        raise BadRequestData("aggrPeriodDuration is a duration like PT1H")
    duration = parse_duration(written) if written else Duration()
    found = parse_methods(names) if names is not None else None
    if form != "aggregatedValues":
        return None
    if found is None:
        raise BadRequestData("aggregatedValues needs aggrMethods: what is to be computed")
    return Aggregation(found, duration)


def to_us(text: str) -> int | None:
    """A dateTime in microseconds since 1970; None: it is none. A missing zone means UTC, as in filters."""
    moment = temporal_value(text)
    return (moment[1] - _EPOCH_NS) // 1000 if moment is not None and moment[0] == "instant" else None


def to_text(us: int) -> str:
    """The other way round; a fraction only where there is one."""
    text = (_EPOCH + timedelta(microseconds=us)).isoformat()
    return text.removesuffix("+00:00") + "Z"


def parse_scope_instances(given: Any, now: str) -> list[Instance]:
    """The evolution of the scope, from what a temporal representation says: instances, or plainly the scopes of now."""
    said = given if isinstance(given, list) and given and isinstance(given[0], dict) else [given]
    if len(said) > INSTANCES_MAX:
        raise BadRequestData(f"the scope has more than {INSTANCES_MAX} instances")
    return [_scope_instance(item if isinstance(item, dict) else {"value": item}, now) for item in said]


def _scope_instance(given: dict[str, Any], now: str) -> Instance:
    value = given.get("value")
    if given.get("type", "Property") != "Property" or not isinstance(value, str | list):
        raise BadRequestData("an instance of the scope is a Property whose value is a scope or an array of them")
    scopes = value if isinstance(value, list) else [value]
    if len(scopes) > TYPES_MAX:
        raise BadRequestData(f"an entity has at most {TYPES_MAX} scopes")
    observed_at = check_date_time(given["observedAt"], "the scope: observedAt") if "observedAt" in given else now
    return {"type": "Property", "value": [check_scope(scope) for scope in scopes], "observedAt": observed_at}
