"""Linked entities in q (4.9): `locatedIn{name}=="Harbour"` asks for what is true of the entity that a relationship leads to.

A filter sees one entity. So such a term is asked first, of the entities at the other end, and then replaced by their ids:
`locatedIn=="urn:...","urn:..."`, which every index can answer. `locatedIn{Area:name}` and `locatedIn{Area}.name` also say of
which type the other end is. Subscriptions have no such terms: nobody would notice when the other end changes.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from hanse.filters.paths import NAME_PATTERN
from hanse.filters.terms import quoted
from hanse.ngsild.errors import BadRequestData, TooComplexQuery

LINKS_MAX: Final = 8  # terms about linked entities in one query, those within each other included
IDS_MAX: Final = 100  # entities at the other end that satisfy one term

Find: TypeAlias = Callable[[str, str | None], Awaitable[list[str]]]  # ids of the entities that satisfy a q, and are of a type

_PARTS = re.compile(r'"(?:\\.|[^"\\])*"|[;|()]|[^";|()]+|"')
_HEAD = re.compile(rf"\s*({NAME_PATTERN})\s*\{{")
_HINTED = re.compile(r"\s*([^\s:{}]+):(?!//)(.+)", re.DOTALL)


def has_links(q: str) -> bool:
    return "{" in q and any(_HEAD.match(term) for term in _terms(q))


async def without_links(q: str, find: Find, levels: int = 1) -> str:
    """The same on one entity; `levels`: how many relationships in a row it may follow. Raises BadRequestData, TooComplexQuery."""
    return await _Resolver(find).resolved(q, levels)


class _Resolver:
    def __init__(self, find: Find) -> None:
        self._find = find
        self._left = LINKS_MAX

    async def resolved(self, q: str, levels: int) -> str:
        return "".join([await self._term(term, levels) for term in _terms(q)])

    async def _term(self, term: str, levels: int) -> str:
        head = _HEAD.match(term)
        if head is None:
            return term
        if not levels:
            raise BadRequestData(f"q follows {head[1]!r} further than is asked for; add join=inline, or raise joinLevel")
        self._left -= 1
        if self._left < 0:
            raise TooComplexQuery(f"q follows more than {LINKS_MAX} relationships; ask in several steps")
        end = _closing(term, head.end())
        asked, type_ = _asked(term[head.end() : end], term[end + 1 :])
        ids = await self._find(await self.resolved(asked, levels - 1), type_)
        if len(ids) > IDS_MAX:
            raise TooComplexQuery(f"more than {IDS_MAX} entities satisfy {asked[:60]!r}; say more about where {head[1]!r} leads")
        if not ids:
            return f"({head[1]};!{head[1]})"  # which nothing satisfies
        return f"{head[1]}=={','.join(map(quoted, ids))}"


def _terms(q: str) -> list[str]:
    """The query in pieces: terms, and the signs between them."""
    pieces = [""]
    for part in _PARTS.findall(q):
        if part in (";", "|", "(", ")"):
            pieces += [part, ""]
        else:
            pieces[-1] += part
    return pieces


def _closing(term: str, start: int) -> int:
    depth = 1
    for position in range(start, len(term)):
        depth += {"{": 1, "}": -1}.get(term[position], 0)
        if not depth:
            return position
    raise BadRequestData(f"q has a '{{' without its '}}' in {term[:60]!r}; close it")


def _asked(inside: str, behind: str) -> tuple[str, str | None]:
    """What is asked of the entity at the other end, and the type that it has to be of."""
    if behind.startswith("."):
        return behind[1:], inside.strip()
    hinted = _HINTED.fullmatch(inside)
    return (hinted[2] + behind, hinted[1]) if hinted else (inside + behind, None)
