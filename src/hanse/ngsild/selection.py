"""Names joined by AND, OR and parentheses, in disjunctive normal form: types (clause 4.17) and, by the same grammar, scopes.

`Building;(Tower|Museum)` selects what is a Building and a Tower, or a Building and a Museum. A list of alternatives is what an
index can answer and what a reader can check, so that is the form everything else works with.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from hanse.ngsild.errors import BadRequestData, TooComplexQuery

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from hanse.ngsild.contexts import Context
    from hanse.ngsild.query import TypeQuery

MAX_LENGTH: Final = 8192
MAX_ALTERNATIVES: Final = 256
MAX_DEPTH: Final = 32

ANY_TYPE: Final = "*"
_TOKEN = re.compile(r"[;,|()]|[^;,|()]+")
_NOT_A_NAME = re.compile(r"""[\s"'<>\\^`{}\x00-\x1f]""")

Clause = frozenset[str]


def parse_type_query(text: str, context: Context) -> TypeQuery:
    """The types that `text` selects, expanded; the empty tuple, which restricts nothing, for `*`."""
    if text.strip() == ANY_TYPE:
        return ()
    return normal_form(text, lambda name: context.expand_type(_type_name(name)), "type")


def types_match(selection: TypeQuery, types: Collection[str]) -> bool:
    """Whether an entity of these types is selected; no selection selects all."""
    if not selection:
        return True
    for alternative in selection:
        for name in alternative:
            if name not in types:
                break
        else:
            return True
    return False


def normal_form(text: str, literal: Callable[[str], str], what: str) -> tuple[tuple[str, ...], ...]:
    """The expression as alternatives, each a conjunction of literals; without those that another one implies."""
    return tuple(tuple(map(literal, alternative)) for alternative in _alternatives(text, what))


@lru_cache(maxsize=1024)
def _alternatives(text: str, what: str) -> tuple[tuple[str, ...], ...]:
    if len(text) > MAX_LENGTH:
        raise BadRequestData(f"the {what} expression has {len(text)} characters; {MAX_LENGTH} are allowed")
    tokens = [token for token in map(str.strip, _TOKEN.findall(text)) if token]
    if not tokens:
        raise BadRequestData(f"the {what} expression is empty; name at least one, or leave the parameter out")
    clauses, position = _either(tokens, 0, 0, what)
    if position < len(tokens):
        raise BadRequestData(f"the {what} expression {text[:60]!r} has a ')' without its '('; take it away")
    return tuple(sorted(tuple(sorted(clause)) for clause in clauses))


def _either(tokens: list[str], position: int, depth: int, what: str) -> tuple[set[Clause], int]:
    found, position = _both(tokens, position, depth, what)
    while position < len(tokens) and tokens[position] in ("|", ","):
        more, position = _both(tokens, position + 1, depth, what)
        found = _reduced(found | more, what)
    return found, position


def _both(tokens: list[str], position: int, depth: int, what: str) -> tuple[set[Clause], int]:
    found, position = _one(tokens, position, depth, what)
    while position < len(tokens) and tokens[position] == ";":
        more, position = _one(tokens, position + 1, depth, what)
        if len(found) * len(more) > MAX_ALTERNATIVES * MAX_ALTERNATIVES:
            raise _too_complex(what)
        found = _reduced({one | other for one in found for other in more}, what)
    return found, position


def _one(tokens: list[str], position: int, depth: int, what: str) -> tuple[set[Clause], int]:
    token = tokens[position] if position < len(tokens) else ""
    if token == "(":  # noqa: S105
        if depth >= MAX_DEPTH:
            raise BadRequestData(f"the {what} expression nests parentheses more than {MAX_DEPTH} deep")
        found, position = _either(tokens, position + 1, depth + 1, what)
        if position >= len(tokens) or tokens[position] != ")":
            raise BadRequestData(f"the {what} expression has a '(' without its ')'; close it")
        return found, position + 1
    if not token or token in (";", ",", "|", ")"):
        where = f"before {token!r}" if token else "at its end"
        raise BadRequestData(f"the {what} expression lacks a name {where}; write one, or take the operator away")
    return {frozenset((token,))}, position + 1


def _reduced(clauses: set[Clause], what: str) -> set[Clause]:
    """Without the alternatives that ask for more than another one does."""
    if len(clauses) > 8 * MAX_ALTERNATIVES:
        raise _too_complex(what)
    kept: list[Clause] = []
    for clause in sorted(clauses, key=len):
        if not any(other <= clause for other in kept):
            kept.append(clause)
            if len(kept) > MAX_ALTERNATIVES:
                raise _too_complex(what)
    return set(kept)


def _too_complex(what: str) -> TooComplexQuery:
    return TooComplexQuery(
        f"the {what} expression has more than {MAX_ALTERNATIVES} alternatives once written out; split the query"
    )


def _type_name(name: str) -> str:
    if name == ANY_TYPE:
        raise BadRequestData("'*' selects every type, so it stands alone; leave the other types out")
    if _NOT_A_NAME.search(name):
        raise BadRequestData(f"{name[:60]!r} is not the name of a type; write a term of the @context or a URI")
    return name
