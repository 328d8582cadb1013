"""Filters that cannot be used are refused in one line, with the place; no text makes them fail otherwise, or hang."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.filters import compile_q, compile_quality, path_getter, rename_attributes
from hanse.filters.grammar import MAX_LENGTH, MAX_TERMS, MAX_VALUES
from hanse.filters.paths import MAX_PATH_NAMES
from hanse.filters.patterns import MAX_PATTERN_LENGTH
from hanse.filters.terms import MAX_DEPTH
from hanse.model import InvalidInput


def nested(depth: int) -> str:
    text = "a"
    for level in range(depth):
        text = f"({text}{';|'[level % 2]}b{level})"
    return text


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("brandName>Mercedes", "column 11: 'Mercedes' stands where there should be a number, a text in double quotes"),
        ("brandName==Mercedes Benz", "column 21: 'Benz' stands where there should be"),
        ("!speed>5", "column 7: '>5' stands where there should be"),
        ("a==", "column 4: the filter ends where there should be a value"),
        ("a>true", "column 3: 'true' stands where there should be a number"),
        ("(a", "column 3: the filter ends where there should be ';', '|' or ')'"),
        ("a)", "column 2: ')' stands where there should be"),
        ("a;;b", "column 3: ';b' stands where there should be an attribute name"),
        ("a b", "column 3: 'b' stands where there should be an operator"),
        ("a=1", "column 2: '=1' stands where there should be an operator"),
        ("x;a==5..1", "column 3: the range 5 to 1 is empty"),
        ('a==1.."x"', "mixes number and text"),
        ("a==1e999", "column 4: the number 1e999 is too large"),
        ("a==2017-02-30", "column 4: 2017-02-30 is not on the calendar"),
        ("a==25:00:00", "column 4: 25:00:00 is not on the calendar or the clock"),
        ('a=="\\q"', "column 4: "),
        ("a..b", "column 1: the path 'a..b' has an empty name"),
        ("a[]", "column 1: 'a[]' is not an attribute path"),
        ("a{Type}.b==1", "column 2: a filter sees one entity"),
        ('a~="("', "column 4: the pattern '(' cannot be used: missing )"),
        ('a~="(?=x)"', "cannot be used"),
        ('a~="((x{100}){100}){100}"', "cannot be used"),
        (f'a~="{"x" * (MAX_PATTERN_LENGTH + 1)}"', "column 4: the pattern has 513 characters; 512 are allowed"),
        ("a" * (MAX_LENGTH + 1), f"{MAX_LENGTH} are allowed"),
        (";".join(f"a{i}" for i in range(MAX_TERMS + 1)), f"{MAX_TERMS} are allowed"),
        ("a==" + ",".join(str(i) for i in range(MAX_VALUES + 1)), f"{MAX_VALUES} are allowed"),
        (nested(MAX_DEPTH + 1), "nests ';' and '|' more than 32 deep"),
        (".".join("a" * (MAX_PATH_NAMES + 1)), "more than 32 names"),
    ],
)
def test_refusal(text: str, complaint: str) -> None:
    with pytest.raises(InvalidInput) as error:
        compile_q(text)
    assert complaint in str(error.value)
    assert "\n" not in str(error.value)


def test_what_lies_within_the_bounds_is_accepted() -> None:
    compile_q(nested(MAX_DEPTH))
    compile_q("(" * 4000 + "a" + ")" * 4000)
    compile_q(";".join(f"a{i}" for i in range(MAX_TERMS)))
    compile_q(f'a~="{"x" * MAX_PATTERN_LENGTH}"')


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(.*a){20}$", "^(a?){50}a{50}$"])
def test_no_pattern_hangs(pattern: str) -> None:
    query = compile_q(f'a~="{pattern}"')
    assert query.matches({"a": "a" * 50_000 + "!"}) is False


def test_text_that_no_encoding_knows_is_found_by_no_pattern() -> None:
    assert not compile_q("a~=.").matches({"a": "\ud800"})
    assert compile_q(r'a=="\ud800"').matches({"a": "\ud800"})


def test_deep_data_does_not_exhaust_the_stack() -> None:
    deep: list[object] = [5]
    for _ in range(100_000):
        deep = [deep]
    assert compile_q("a==5").matches({"a": deep})
    assert compile_q("a==5").matches({"a": {"value": deep}})
    while isinstance(deep[0], list):  # taken apart by hand, as the interpreter would recurse to free it
        deep = deep[0]


def test_a_path_is_checked() -> None:
    with pytest.raises(InvalidInput):
        path_getter("a[b")


def test_no_name_smuggles_in_a_term() -> None:
    for name in ("a;b", "a|b", "a[b]", "a==1", "", "1a"):
        with pytest.raises(InvalidInput):
            rename_attributes("x==1", lambda _, name=name: name)  # type: ignore[misc]


PIECES = st.sampled_from(
    [
        *'ab1;|(),.[]"\\~=!<> :/#%{}*-+\n\x00é',
        "==",
        "!=",
        "..",
        "~=",
        "!~=",
        ">=",
        "true",
        "2017-12-24",
        "T12:00:00Z",
        "urn:x",
        '"x"',
        "1e5",
        "(a+)+",
    ]
)


@settings(max_examples=1000, deadline=None)
@given(st.lists(PIECES, max_size=40).map("".join) | st.text(max_size=60))
def test_any_text_is_compiled_or_refused(text: str) -> None:
    for compile_text in (compile_q, compile_quality):
        try:
            query = compile_text(text)
        except InvalidInput as error:
            assert len(str(error).splitlines()) == 1  # noqa: PT017
        else:
            query.matches({"a": "x", "b": {"value": [1, None, {"a": 1}]}})
            assert compile_text(query.canonical) == query


@given(st.text(max_size=30))
def test_any_text_can_be_asked_for_in_quotes(text: str) -> None:
    query = compile_q(f"a=={json.dumps(text)}")
    assert query.matches({"a": text})
    assert not query.matches({"a": text + "x"})
