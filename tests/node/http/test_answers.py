"""Which media type a client gets, and how headers are written."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hanse.ngsild.errors import NotAcceptable
from hanse.node.http.answers import GEO_JSON, JSON, LD_JSON, Answer, negotiated

OFFERED = (JSON, LD_JSON, GEO_JSON)


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        ("*/*", JSON),
        ("application/*", JSON),
        (LD_JSON, LD_JSON),
        ("application/json;q=0.5, application/ld+json", LD_JSON),
        ("*/*;q=0.1, application/geo+json", GEO_JSON),
        ("application/json;q=0, */*;q=0.1", LD_JSON),
        ("application/ld+json;q=notanumber", LD_JSON),
        ("application/ld+json;q=nan", LD_JSON),
        ("application/ld+json;q=-1, application/json;q=0.9", LD_JSON),
    ],
)
def test_the_best_weight_decides(accept: str, chosen: str) -> None:
    assert negotiated(accept, OFFERED) == chosen


@pytest.mark.parametrize("accept", ["text/html", "application/json;q=0", "application/json;q=0.000"])
def test_what_nobody_offers_is_not_acceptable(accept: str) -> None:
    with pytest.raises(NotAcceptable):
        negotiated(accept, (JSON,))


def test_the_name_of_a_header_stays_as_written() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    answer = Answer(201)
    answer.add("Location", "/x")
    asyncio.run(answer({}, None, send))  # type: ignore[arg-type]
    name, value = sent[0]["headers"][0]
    assert (name.lower(), value) == (b"Location", b"/x")  # a server that wants small letters gets it as it is
