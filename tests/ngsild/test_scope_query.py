"""The scope query language against a naive reading of it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.ngsild.errors import BadRequestData, NgsiLdError
from hanse.ngsild.scope_query import parse_scope_query, pattern_matches, scope_matches

MADRID = ("/Madrid/Gardens/ParqueNorte",)
BOTH = ("/Madrid/Gardens/ParqueNorte", "/CompanyA/OrganizationB/UnitC")


@pytest.mark.parametrize(
    ("query", "scopes", "expected"),
    [
        ("/Madrid/Gardens/ParqueNorte", MADRID, True),
        ("/Madrid/Gardens", MADRID, False),
        ("/Madrid/+/ParqueNorte", MADRID, True),
        ("/Madrid/+", MADRID, False),
        ("/Madrid/#", MADRID, True),
        ("/Madrid/#", ("/Madrid",), True),
        ("/Madrid/+/#", ("/Madrid",), False),
        ("/CompanyA/#", MADRID, False),
        ("/#", MADRID, True),
        ("/#", (), False),
        ("/Madrid/#;/CompanyA/#", MADRID, False),
        ("/Madrid/#;/CompanyA/#", BOTH, True),
        ("/Madrid/#,/CompanyA/#", MADRID, True),
        ("/x|(/Madrid/#;/CompanyA/#)", BOTH, True),
        ("Madrid/#", MADRID, True),
        ("/Madrid/#", ("Madrid/Gardens",), True),
        ("", (), True),
    ],
)
def test_meaning(query: str, scopes: tuple[str, ...], expected: bool) -> None:
    assert scope_matches(query, scopes) is expected


@pytest.mark.parametrize("query", ["/", "//", "/a//b", "/#/a", "/a b", "/a,", ";/a", "/a(", "/a/" * 70, "/a+", "/a#", '/"a"'])
def test_refusals(query: str) -> None:
    with pytest.raises(BadRequestData):
        parse_scope_query(query)


levels = st.sampled_from(["a", "b", "c"])


@given(
    st.lists(levels | st.just("+"), max_size=4),
    st.booleans(),
    st.lists(levels, min_size=1, max_size=5),
)
def test_patterns_are_those_of_a_regular_expression(pattern: list[str], below: bool, scope: list[str]) -> None:
    text = "/" + "/".join([*pattern, "#"] if below or not pattern else pattern)
    inner = "".join("/" + ("[^/]+" if level == "+" else level) for level in pattern)
    oracle = inner + ("(/.*)?" if below or not pattern else "")
    assert pattern_matches(text, "/" + "/".join(scope)) == bool(re.fullmatch(oracle, "/" + "/".join(scope)))


@given(st.text(alphabet="ab/+#;,|() ") | st.text(), st.lists(st.text(), max_size=3))
def test_only_refusals_come_out(text: str, scopes: list[str]) -> None:
    try:
        scope_matches(text, scopes)
    except NgsiLdError as error:
        assert error.status in (400, 403)  # noqa: PT017
