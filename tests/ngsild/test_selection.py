"""Selections of types: the normal form says the same as the expression."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.ngsild.contexts import CORE
from hanse.ngsild.entity import DEFAULT_VOCAB
from hanse.ngsild.errors import BadRequestData, NgsiLdError, TooComplexQuery
from hanse.ngsild.selection import parse_type_query, types_match

NAMES = ("A", "B", "C", "D")


def v(*names: str) -> tuple[str, ...]:
    return tuple(DEFAULT_VOCAB + name for name in names)


@pytest.mark.parametrize(
    ("text", "selection"),
    [
        ("A", (v("A"),)),
        ("A,B", (v("A"), v("B"))),
        ("A|B", (v("A"), v("B"))),
        ("A;B", (v("A", "B"),)),
        ("(A|B);C", (v("A", "C"), v("B", "C"))),
        ("A|(A;B)", (v("A"),)),
        (" A , B ", (v("A"), v("B"))),
        ("https://example.org/t#X", (("https://example.org/t#X",),)),
        ("*", ()),
    ],
)
def test_selections(text: str, selection: tuple[tuple[str, ...], ...]) -> None:
    assert parse_type_query(text, CORE) == selection


@pytest.mark.parametrize(
    "text", ["", ",", "A,", ";A", "(A", "A)", "()", "A;*", "A B", "A|;B", "(" * 40 + "A" + ")" * 40, "x" * 9000]
)
def test_refusals(text: str) -> None:
    with pytest.raises(BadRequestData):
        parse_type_query(text, CORE)


def test_an_expression_that_explodes_is_refused() -> None:
    with pytest.raises(TooComplexQuery):
        parse_type_query(";".join(f"(a{i}|b{i})" for i in range(30)), CORE)


expressions = st.recursive(
    st.sampled_from(NAMES),
    lambda inner: st.tuples(st.sampled_from([";", "|", ","]), st.lists(inner, min_size=1, max_size=4)),
    max_leaves=12,
)


def written(expression: Any) -> Any:
    if isinstance(expression, str):
        return expression
    sign, parts = expression
    return "(" + sign.join(map(written, parts)) + ")"


def meant(expression: Any, types: set[str]) -> bool:
    if isinstance(expression, str):
        return DEFAULT_VOCAB + expression in types
    sign, parts = expression
    return (all if sign == ";" else any)(meant(part, types) for part in parts)


@given(expressions, st.sets(st.sampled_from(NAMES), min_size=1))
def test_the_normal_form_means_the_same(expression: Any, names: set[str]) -> None:
    types = set(v(*names))
    assert types_match(parse_type_query(written(expression), CORE), types) == meant(expression, types)


@given(st.text(alphabet='AB;,|()* \x00"é:/#') | st.text())
def test_only_refusals_come_out(text: str) -> None:
    try:
        parse_type_query(text, CORE)
    except NgsiLdError as error:
        assert error.status in (400, 403)  # noqa: PT017
