"""A query about linked entities becomes one about ids, by asking the other end first."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.filters import compile_q
from hanse.ngsild.errors import BadRequestData, NgsiLdError, TooComplexQuery
from hanse.ngsild.linked import IDS_MAX, LINKS_MAX, has_links, without_links

KNOWN: dict[tuple[str, str | None], list[str]] = {
    ('name=="Harbour"', None): ["urn:x:1", "urn:x:2"],
    ('name=="Harbour"', "Area"): ["urn:x:2"],
    ("size>5", None): [],
    ("name", "Area"): ["urn:x:3"],
    ('in=="urn:x:3"', None): ["urn:x:4"],
    ("many", None): [f"urn:x:{n}" for n in range(IDS_MAX + 1)],
    ('https://a.example/b=="x;|"', None): ["urn:x:5"],
}


async def find(q: str, type_: str | None) -> list[str]:
    return KNOWN[q, type_]


def resolved(q: str) -> str:
    return asyncio.run(without_links(q, find, levels=2))


@pytest.mark.parametrize(
    ("q", "own"),
    [
        ("speed>5;a~=x{2}", "speed>5;a~=x{2}"),
        ('at{name}=="Harbour"', 'at=="urn:x:1","urn:x:2"'),
        ('speed>5;(at{Area:name}=="Harbour"|a~="[(]b{2};")', 'speed>5;(at=="urn:x:2"|a~="[(]b{2};")'),
        ('at{Area}.name=="Harbour"', 'at=="urn:x:2"'),
        ("at{size}>5|b", "(at;!at)|b"),
        ("at{in{Area:name}}", 'at=="urn:x:4"'),
        ('at{https://a.example/b}=="x;|"', 'at=="urn:x:5"'),
    ],
)
def test_links_become_ids(q: str, own: str) -> None:
    assert resolved(q) == own
    compile_q(own)
    assert has_links(q) is (q != own)


def test_what_nothing_satisfies() -> None:
    assert not compile_q(resolved("at{size}>5")).matches({"at": {"object": "urn:x:1"}})
    assert not compile_q(resolved("at{size}>5")).matches({})


@pytest.mark.parametrize(
    ("q", "error"),
    [
        ("at{name", BadRequestData),
        ("at{in{of{name}}}", BadRequestData),
        ("at{many}", TooComplexQuery),
        (";".join(["at{Area:name}"] * (LINKS_MAX + 1)), TooComplexQuery),
    ],
)
def test_queries_that_are_refused(q: str, error: type[NgsiLdError]) -> None:
    with pytest.raises(error):
        resolved(q)


@given(st.text(alphabet='ab{}:.;|()"=>\\x', max_size=30))
def test_whatever_is_asked(q: str) -> None:
    async def nothing(asked: str, type_: str | None) -> list[str]:
        return [] if len(asked) % 2 else [json.dumps([asked, type_])]

    with suppress(NgsiLdError):
        asyncio.run(without_links(q, nothing))
    if not has_links(q):
        assert asyncio.run(without_links(q, nothing)) == q
