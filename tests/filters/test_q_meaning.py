"""Random queries on random entities against a naive interpreter.

The interpreter never sees a representation. Entities are drawn as plain meaning (an attribute is a list of instances, each
with a JSON value and sub-attributes), the interpreter reads that, and the filters read the same entity written down as NGSI-LD,
each attribute in a representation of its own. So this also tests that representations do not change the meaning.
"""

from __future__ import annotations

import json
import math
import operator as op
import re
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.filters import compile_q, values_at

NAMES = ("a", "b", "c")
INSTANTS = {
    "2017-12-24": datetime(2017, 12, 24, tzinfo=UTC),
    "2017-12-24T00:00:00Z": datetime(2017, 12, 24, tzinfo=UTC),
    "2017-12-24T01:30:00+01:00": datetime(2017, 12, 24, 0, 30, tzinfo=UTC),
    "2017-12-24T00:30:00.25Z": datetime(2017, 12, 24, 0, 30, 0, 250_000, tzinfo=UTC),
    "2018-01-01T00:00:00": datetime(2018, 1, 1, tzinfo=UTC),
}
TIMES = {"12:00:00": 43_200, "13:00:00+01:00": 43_200, "23:59:59Z": 86_399}
ORDERS: dict[str, Any] = {"==": op.eq, "<": op.lt, "<=": op.le, ">": op.gt, ">=": op.ge}
TEXTS = ("", "x", "y", "xy", "urn:x:1", 'qu"o\\te', "5", "true", "2017-13-01")
NUMBERS = (0, -0.0, 1, 1.0, 2, 2.5, -3, 1e300, 2**53, 2**53 + 1, 2**53 + 2)


class Instance(NamedTuple):
    value: Any
    subs: dict[str, list[Any]]  # name -> instances
    form: int  # how it is written


class Ask(NamedTuple):
    names: tuple[str, ...]
    inner: tuple[str, ...]
    operator: str  # "" asks for existence
    values: tuple[Any, ...]
    is_range: bool
    quotes: bool


class Both(NamedTuple):
    sign: str
    parts: tuple[Any, ...]


Query: TypeAlias = Ask | Both

# --- drawing ------------------------------------------------------------------------------------------------------------------

query_scalars = st.sampled_from([*NUMBERS, *TEXTS, *INSTANTS, *TIMES, True, False])
scalars = query_scalars | st.sampled_from([None, math.nan, math.inf, -math.inf, 10**400, -(10**400)])
json_values = scalars | st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3), max_leaves=5
)


# mostly short, or random entities would have nothing there
PATHS = st.sampled_from([(("a",), ()), (("a",), ()), (("b",), ()), (("a",), ("a",)), (("a", "a"), ())]) | st.tuples(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map(tuple), st.lists(st.sampled_from(NAMES), max_size=2).map(tuple)
)


def instances(depth: int) -> st.SearchStrategy[list[Instance]]:
    subs = st.dictionaries(st.sampled_from(NAMES), instances(depth - 1), max_size=2) if depth else st.just({})
    return st.lists(st.builds(Instance, json_values, subs, st.integers(0, 3)), min_size=1, max_size=2)


entities = st.dictionaries(st.sampled_from(NAMES), instances(2), min_size=1, max_size=3)


def kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "instant" if value in INSTANTS else "time" if value in TIMES else "text"
    return "object"


def key_of(value: Any) -> Any:
    if kind_of(value) == "number":
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    return INSTANTS.get(value) or TIMES.get(value) or value if isinstance(value, str) else value


@st.composite
def asks(draw: st.DrawFn) -> Ask:
    names, inner = draw(PATHS)
    operator = draw(st.sampled_from(["", "!", "==", "!=", "<", "<=", ">", ">=", "~=", "!~="]))
    quotes = draw(st.booleans())
    if operator in ("==", "!="):
        values = draw(st.lists(query_scalars, min_size=1, max_size=3))
        if len(values) == 2 and kind_of(values[0]) == kind_of(values[1]) != "boolean" and draw(st.booleans()):
            return Ask(names, inner, operator, tuple(sorted(values, key=key_of)), is_range=True, quotes=quotes)
    elif operator in ("~=", "!~="):
        values = [draw(st.sampled_from(["x", "^x$", "^$", "x|5", "[0-9]{4}", "(t|u)"]))]
    else:
        values = [draw(query_scalars.filter(lambda value: not isinstance(value, bool)))] if operator not in ("", "!") else []
    return Ask(names, inner, operator, tuple(values), is_range=False, quotes=quotes)


queries: st.SearchStrategy[Query] = st.recursive(
    asks() | asks(),
    lambda parts: st.builds(Both, st.sampled_from(";|"), st.lists(parts, min_size=1, max_size=3).map(tuple)),
    max_leaves=6,
)

# --- writing ------------------------------------------------------------------------------------------------------------------


def written_value(value: Any, quotes: bool) -> str:
    if kind_of(value) in ("instant", "time") and not quotes:
        return str(value)
    if value == "urn:x:1" and not quotes:
        return "urn:x:1"
    return json.dumps(value)


def written_query(query: Query, outer: str = "") -> str:
    if isinstance(query, Both):
        text = query.sign.join(written_query(part, query.sign) for part in query.parts)
        return f"({text})" if query.sign == "|" and outer == ";" else text
    path = ".".join(query.names) + (f"[{'.'.join(query.inner)}]" if query.inner else "")
    if query.operator == "!":
        return "!" + path
    if query.operator in ("~=", "!~="):
        return f'{path}{query.operator}"{query.values[0]}"'
    quotes = query.quotes or query.operator in ("<", "<=", ">", ">=", "") or query.is_range
    if query.operator and not query.quotes and kind_of(query.values[0]) in ("instant", "time"):
        quotes = False
    texts = [written_value(value, quotes) for value in query.values]
    if query.is_range:
        return f"{path}{query.operator}{'..'.join(texts)}"
    return f"{path}{query.operator}{','.join(texts)}"


def written_entity(entity: dict[str, list[Any]]) -> dict[str, Any]:
    return {name: written_attribute(found) for name, found in entity.items()}


def written_attribute(found: list[Instance]) -> Any:
    written = [written_instance(instance, alone=len(found) == 1) for instance in found]
    return written[0] if len(written) == 1 else written


def written_instance(instance: Instance, *, alone: bool) -> Any:
    subs = written_entity(instance.subs)
    if instance.form == 0:
        return {"type": "Property", "value": instance.value, **subs}
    if instance.form == 1:
        return {"type": "JsonProperty", "json": instance.value, **subs}
    if instance.form == 2 and alone and not instance.subs:
        return instance.value
    if instance.form == 3 and kind_of(instance.value) == "text":
        return {"type": "Relationship", "object": instance.value, **subs}
    return {"value": instance.value, **subs}


# --- meaning ------------------------------------------------------------------------------------------------------------------


def flat(value: Any) -> list[Any]:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return []
    if isinstance(value, list) and value:
        return [leaf for item in value for leaf in flat(item)]
    return [value]


def is_link(instance: Instance) -> bool:
    return instance.form == 3 and kind_of(instance.value) == "text"


def found_at(
    entity: dict[str, list[Instance]], names: tuple[str, ...], inner: tuple[str, ...], *, links: bool = True
) -> list[Any]:
    at = entity.get(names[0], [])
    for name in names[1:]:
        at = [sub for instance in at for sub in instance.subs.get(name, [])]
    values = [leaf for instance in at if links or not is_link(instance) for leaf in flat(instance.value)]
    for key in inner:
        values = [leaf for value in values if isinstance(value, dict) for leaf in flat(value.get(key))]
    return values


def means(query: Query, entity: dict[str, list[Instance]]) -> bool:
    if isinstance(query, Both):
        answers = [means(part, entity) for part in query.parts]
        return all(answers) if query.sign == ";" else any(answers)
    orders_or_matches = query.operator.endswith("~=") or query.operator[:1] in ("<", ">")
    values = found_at(entity, query.names, query.inner, links=not orders_or_matches)
    if query.operator in ("", "!"):
        return (len(values) > 0) is (query.operator == "")
    holds = [value_means(query, value) for value in values]
    if query.operator.startswith("!"):
        return len(values) > 0 and not any(holds)
    return any(holds)


def value_means(query: Ask, value: Any) -> bool:
    if query.operator.endswith("~="):
        return isinstance(value, str) and re.search(query.values[0], value) is not None
    if query.is_range:
        low, high = query.values
        return compared(low, "<=", value) and compared(high, ">=", value)
    operator = {"!=": "==", "<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(query.operator, query.operator)
    return any(compared(wanted, operator, value) for wanted in query.values)


def compared(wanted: Any, operator: str, value: Any) -> bool:
    kind = kind_of(wanted)
    if kind == "text" and isinstance(value, str):  # a text that reads as a date is a text too, if a text is what is asked for
        return bool(ORDERS[operator](wanted, value))
    return kind == kind_of(value) and bool(ORDERS[operator](key_of(wanted), key_of(value)))


@settings(max_examples=300, deadline=None)
@given(queries, st.lists(entities, min_size=1, max_size=6))
def test_a_filter_means_what_the_interpreter_says(query: Query, drawn: list[dict[str, list[Instance]]]) -> None:
    compiled = compile_q(written_query(query))
    canonical = compile_q(compiled.canonical)
    assert canonical == compiled
    for entity in drawn:
        attributes = written_entity(entity)
        expected = means(query, entity)
        assert compiled.matches(attributes) is expected
        assert canonical.matches(attributes) is expected
        atoms_hold = all(atom.holds(values_at(attributes, atom.path)) for atom in compiled.atoms)
        assert (atoms_hold and (compiled.residual is None or compiled.residual(attributes))) is expected


@settings(max_examples=100, deadline=None)
@given(entities, st.lists(st.sampled_from(NAMES), min_size=1, max_size=3), st.lists(st.sampled_from(NAMES), max_size=2))
def test_values_at_a_path(entity: dict[str, list[Instance]], names: list[str], inner: list[str]) -> None:
    path = ".".join(names) + (f"[{'.'.join(inner)}]" if inner else "")
    assert values_at(written_entity(entity), path) == found_at(entity, tuple(names), tuple(inner))
