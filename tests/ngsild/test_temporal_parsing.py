"""What a request asks of the past."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.ngsild.aggregation import Aggregation, Duration
from hanse.ngsild.errors import BadRequestData, InvalidRequest
from hanse.ngsild.temporal_parsing import (
    TEMPORAL_PARAMS,
    TemporalQuery,
    parse_scope_instances,
    parse_temporal,
    parse_temporal_body,
    to_text,
    to_us,
)

NOON, ONE = "2020-08-01T12:00:00Z", "2020-08-01T13:00:00Z"
NOW = "2026-01-01T00:00:00.000000Z"


def test_nothing_is_asked() -> None:
    assert parse_temporal({}) == TemporalQuery()


@pytest.mark.parametrize(
    ("params", "since", "until"),
    [
        ({"timerel": "before", "timeAt": NOON}, None, NOON),
        ({"timerel": "after", "timeAt": NOON}, NOON, None),
        ({"timerel": "between", "timeAt": NOON, "endTimeAt": ONE}, NOON, ONE),
        ({"timerel": "after", "timeAt": "2020-08-01T12:00:00.000Z"}, NOON, None),
        ({"timerel": "after", "timeAt": "2020-08-01T14:00:00+02:00"}, NOON, None),
    ],
)
def test_windows(params: dict[str, str], since: str | None, until: str | None) -> None:
    query = parse_temporal(params)
    assert (query.from_us, query.until_us) == (since and to_us(since), until and to_us(until))
    assert query.timeproperty == "observedAt"
    assert parse_temporal_body({"temporalQ": params}, {}) == query


def test_forms() -> None:
    assert parse_temporal({"options": "temporalValues,sysAttrs"}) == TemporalQuery(format="temporalValues", sys_attrs=True)
    said = {"options": "aggregatedValues", "format": "temporalValues", "aggrMethods": "sum"}
    assert parse_temporal(said) == TemporalQuery(format="temporalValues")
    asked = parse_temporal({"format": "aggregatedValues", "aggrMethods": "avg,max", "aggrPeriodDuration": "PT1H"})
    assert asked.aggregation == Aggregation(("avg", "max"), Duration(0, 3_600_000_000))
    window = {"timerel": "after", "timeAt": NOON}
    for body in (
        {"temporalQ": window | {"aggrMethods": ["avg"]}},
        {"temporalQ": window | {"aggrMethods": "avg"}},
        {"temporalQ": window, "aggrParams": {"aggrMethods": ["avg"], "aggrPeriodDuration": "PT0S"}},
    ):
        assert parse_temporal_body(body, {}).aggregation == Aggregation(("avg",))
    assert parse_temporal_body({"temporalQ": window | {"lastN": 3}}, {}).last_n == 3


@pytest.mark.parametrize(
    "params",
    [
        {"timerel": "during", "timeAt": NOON},
        {"timerel": "after"},
        {"timerel": "after", "timeAt": ""},
        {"timerel": "after", "timeAt": "2020-08-01"},
        {"timerel": "after", "timeAt": "12:00:00Z"},
        {"timerel": "after", "timeAt": "2020-13-01T00:00:00Z"},
        {"timerel": "between", "timeAt": NOON},
        {"timerel": "between", "timeAt": ONE, "endTimeAt": NOON},
        {"timeAt": NOON},
        {"endTimeAt": NOON},
        {"timeproperty": "seenAt"},
        {"lastN": "0"},
        {"lastN": "-1"},
        {"lastN": "1.5"},
        {"lastN": "²"},
        {"lastN": "99999999999999999999"},
        {"format": "aggregatedValues"},
        {"format": "aggregatedValues", "aggrMethods": ""},
        {"aggrMethods": "median"},
        {"aggrPeriodDuration": "hour"},
    ],
)
def test_what_makes_no_sense(params: dict[str, str]) -> None:
    with pytest.raises(BadRequestData):
        parse_temporal(params)


@pytest.mark.parametrize("params", [{"options": "x"}, {"format": "x"}, {"format": "temporalValues", "options": "concise,x"}])
def test_forms_that_do_not_exist(params: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest):
        parse_temporal(params)


def test_a_query_of_the_past_needs_a_time() -> None:
    with pytest.raises(BadRequestData):
        parse_temporal({}, timerel_required=True)
    bodies: list[dict[str, Any]] = [
        {},
        {"temporalQ": {}},
        {"temporalQ": []},
        {"temporalQ": {"timerel": "after", "timeAt": NOON, "more": 1}},
    ]
    for body in bodies:
        with pytest.raises(BadRequestData):
            parse_temporal_body(body, {})


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from([NOON, "after", "between", "avg"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
TEXTS = st.sampled_from(
    [NOON, ONE, "after", "before", "between", "observedAt", "3", "avg,sum", "PT1H", "aggregatedValues"]
) | st.text(max_size=12)


@given(st.dictionaries(st.sampled_from([*TEMPORAL_PARAMS, "options", "format"]), TEXTS))
def test_parameters_raise_nothing_else(params: dict[str, str]) -> None:
    with contextlib.suppress(BadRequestData, InvalidRequest):
        parse_temporal(params)


@given(
    st.fixed_dictionaries(
        {"temporalQ": st.dictionaries(st.sampled_from(TEMPORAL_PARAMS), JSON) | JSON}, optional={"aggrParams": JSON}
    ),
    st.dictionaries(st.sampled_from(["options", "format"]), TEXTS),
)
def test_bodies_raise_nothing_else(body: dict[str, Any], params: dict[str, str]) -> None:
    with contextlib.suppress(BadRequestData, InvalidRequest):
        parse_temporal_body(body, params)


@given(JSON)
def test_scopes_raise_nothing_else(given_: Any) -> None:
    try:
        instances = parse_scope_instances(given_, NOW)
    except BadRequestData:
        return
    assert all(instance["type"] == "Property" and isinstance(instance["value"], list) for instance in instances)


def test_scopes() -> None:
    one = {"type": "Property", "value": ["/A"], "observedAt": NOW}
    assert parse_scope_instances("/A", NOW) == parse_scope_instances(["/A"], NOW) == [one]
    assert parse_scope_instances({"type": "Property", "value": "/A"}, NOW) == [one]
    evolved = [{"type": "Property", "value": "/A", "observedAt": NOON}, {"value": ["/B", "/C"]}]
    assert parse_scope_instances(evolved, NOW) == [one | {"observedAt": NOON}, one | {"value": ["/B", "/C"]}]
    for wrong in (
        1,
        {"value": 1},
        {"type": "Relationship", "value": "/A"},
        [{"value": "/A"}, 1],
        {"value": "/A", "observedAt": "x"},
    ):
        with pytest.raises(BadRequestData):
            parse_scope_instances(wrong, NOW)


@given(st.datetimes())
def test_moments_read_back(moment: Any) -> None:
    us = to_us(moment.isoformat() + "Z")
    assert us is not None
    assert to_us(to_text(us)) == us
    assert moment.microsecond or "." not in to_text(us)
