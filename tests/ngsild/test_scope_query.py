"""The scope query language against a naive reading of it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.ngsild.errors import BadRequestData, NgsiLdError
from hanse.ngsild.scope_query import parse_scope_query, pattern_matches, scope_keys, scope_matches, scope_prefixes

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


few_levels = st.lists(st.sampled_from(["A", "B", "C"]), min_size=1, max_size=3)
few_scopes = few_levels.map(lambda path: "/" + "/".join(path))
few_patterns = st.builds(
    lambda path, last: "/" + "/".join([*path, *last]),
    st.lists(st.sampled_from(["A", "B", "+"]), min_size=1, max_size=3),
    st.sampled_from([[], ["#"]]),
)


@given(
    st.lists(few_patterns, min_size=1, max_size=3),
    st.lists(st.sampled_from([";", "|", ","]), min_size=2, max_size=2),
    st.lists(few_scopes, max_size=2),
)
def test_what_is_selected_has_one_of_the_keys(some: list[str], signs: list[str], scopes: list[str]) -> None:
    scope_q = some[0] + "".join(sign + pattern for sign, pattern in zip(signs, some[1:], strict=False))
    keys = scope_keys(scope_q)
    if keys and scope_matches(scope_q, scopes):
        assert set(keys) & set(scope_prefixes(scopes))


def test_keys_are_as_telling_as_can_be() -> None:
    assert scope_keys("/A/B/#;/C") == ("/A/B",)
    assert sorted(scope_keys("/A/B,/C/+/D")) == ["/A/B", "/C"]
    assert scope_keys("/A|/+/B") == scope_keys("/#") == ()
    assert scope_prefixes(["/A/B", "C"]) == ["/A", "/A/B", "/C"]
