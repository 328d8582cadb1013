"""The short way to read plain filters gives the parser's terms, or leaves the text to the parser."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hanse.filters import Filter, compile_q
from hanse.filters.compiled import _compiled
from hanse.filters.grammar import parse_any
from hanse.filters.plain import parse_plain
from hanse.model import InvalidInput

# pieces that fit together often, and break each other sometimes: whatever a lexer could take for something else
PATHS = (
    "a",
    "b",
    "a.b",
    "a[b]",
    "a[b.c][d]",
    "é_1",
    "https://x.org/t#n",
    "a%2Eb",
    "urn:a:b",
    "a..b",
    "a[]",
    "a[;]",
    "a-1",
    "true",
)
NUMBERS = ("0", "-0", "5", "5.0", "2.50", "-1e3", "1E-2", "1e999", "007", "5.", "+5", "2017", "1e", "9" * 20)
TEXTS = ('""', '"x"', '"a;b>5"', '"é\u2028\n"', '"2017-12-24"', '"12:00:00Z"', '"2017-13-01"', '"a\\"b"', '"\\u0041"', "'x'", '"')
OTHERS = ("2017-12-24", "12:00:00", "2017-12-24T12:00:00Z", "true", "false", "urn:a:b", "x", "1,2", '"x","y"', "1..", "(a)")
OPERATORS = ("==", "!=", "<", "<=", ">", ">=")
BLANKS = ("", "", "", " ", "\t", "\r\n ", "\xa0", "\x0b")

blanks = st.sampled_from(BLANKS)
numbers = (
    st.sampled_from(NUMBERS) | st.floats(allow_nan=False, allow_infinity=False).map(repr) | st.integers(-(10**6), 10**6).map(str)
)
texts = st.sampled_from(TEXTS) | st.text(max_size=5).map(lambda text: f'"{text}"')
ranges = st.tuples(numbers, blanks, st.sampled_from(["..", "..", ".", ",", "..."]), blanks, numbers).map("".join)
values = numbers | texts | ranges | st.sampled_from(OTHERS)
comparisons = st.tuples(
    blanks,
    st.sampled_from(PATHS),
    blanks,
    st.sampled_from((*OPERATORS, *OPERATORS, "~=", "=", "=>")),
    blanks,
    values,
    blanks,
).map("".join)
terms = comparisons | comparisons | st.sampled_from(PATHS)
filters = st.lists(st.tuples(terms, st.sampled_from(";;;;;;|)")).map("".join), min_size=1, max_size=4).map(
    lambda parts: "".join(parts)[:-1]
)
changed_filters = st.builds(
    lambda text, at, new, cut: text[: at % (len(text) + 1)] + new + text[at % (len(text) + 1) + cut :],
    filters,
    st.integers(0, 60),
    st.text(';|()"\\<>=!~.,[]-eE0 \n', max_size=2),
    st.integers(0, 2),
)
entities = st.dictionaries(
    st.sampled_from(("a", "b", "urn:a:b")),
    st.sampled_from(
        [0, 5, 5.0, 2.5, -1000, "x", "", "2017-12-24", True, [1, 5, "x"], {"value": 5, "b": {"value": "x"}}, {"b": 5}]
    ),
    max_size=3,
)


def parser_says(text: str) -> Any:
    try:
        return parse_any(text)
    except InvalidInput:
        return None


def compiled(text: str, node: Any) -> Filter:
    return _compiled(text, "q", node)


@settings(max_examples=1500)
@given(filters | changed_filters | st.text('ab.[]<>=!~;|()"\\0159-eE:T \n', max_size=12), entities)
@example("a==1..1.0", {"a": 1})
@example("a>1..5", {})
@example("a;", {})
@example("a==5..1", {})
@example("a\n", {"a": 1})
def test_plain_filters_read_as_the_parser_reads_them(text: str, entity: dict[str, Any]) -> None:
    node = parse_plain(text)
    if node is None:
        return
    wanted = parser_says(text)
    assert node == wanted
    short, long = compiled(text, node), compiled(text, wanted)
    assert (short, short.canonical, short.atoms, short.residual_key) == (long, long.canonical, long.atoms, long.residual_key)
    assert short.matches(entity) == long.matches(entity)
    assert (short.residual is None) == (long.residual is None)


PLAIN_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?")


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "a.b", "a[b]", "https://x.org/t#n"]),
            st.sampled_from(OPERATORS),
            st.floats(allow_nan=False, allow_infinity=False).map(repr).filter(PLAIN_NUMBER.fullmatch)
            | st.text(max_size=5).filter(lambda text: not set('"\\') & set(text)).map(lambda text: f'"{text}"'),
        ).map("".join),
        min_size=1,
        max_size=5,
    ).map(";".join)
)
def test_comparisons_with_numbers_and_texts_are_plain(text: str) -> None:
    node = parse_plain(text)
    assert node is not None
    assert node == parser_says(text)


@pytest.mark.parametrize("text", ["a|b", "(a)", "a==1,2", "a==true", "a==2017-12-24", 'a~="x"', 'a=="\\n"', "a>1..5", "a==5..1"])
def test_all_else_is_left_to_the_parser(text: str) -> None:
    assert parse_plain(text) is None


def test_a_plain_filter_is_compiled_like_any_other() -> None:
    assert compile_q('b=="x" ; a>5.0') == compile_q('(a>5);(b=="x")')
