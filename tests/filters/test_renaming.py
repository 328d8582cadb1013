"""Filters on other names: attributes, sub-attributes, and values that are names themselves."""

from __future__ import annotations

import pytest

from hanse.filters import compile_q, rename_attributes
from hanse.filters.grammar import parse
from hanse.filters.terms import with_texts


def test_sub_attributes_go_by_their_own_rule() -> None:
    assert rename_attributes("a.b>1;c", str.upper, lambda name: name + "_") == "A.b_>1;C"
    assert rename_attributes("a.b>1;c", str.upper) == "A.B>1;C"
    assert rename_attributes("", str.upper, str.upper) == ""


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ('a=="x"', 'a=="X"'),
        ('a!="x","y"', 'a!="X","Y"'),
        ('(a=="x"|b=="x");a', '(a=="X"|b=="x");a'),
        ("a==5", "a==5"),
        ('a.b=="x"', 'a.b=="X"'),
        ('a~="x"', 'a~="x"'),
    ],
)
def test_texts_of_some_attributes_change(text: str, changed: str) -> None:
    node = parse(text)
    assert node is not None
    assert compile_q(with_texts(node, ("a",), str.upper).text) == compile_q(changed)


def test_the_paths_of_a_filter() -> None:
    assert {path.text for path in compile_q("a.b>1;(c|d[e]==2);a.b<9").paths} == {"a.b", "c", "d[e]"}
    assert compile_q("").paths == frozenset()
